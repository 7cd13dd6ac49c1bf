// engine/explain.hpp: a compiled function's specialisations, the reason for each, and the result of its compilation.
#pragma once

#include <string>

#include "../base/config.hpp"
#include "../base/location.hpp"
#include "../base/series.hpp"
#include "report.hpp"

namespace sinter {

/// An extent that is less open than requested, because of an operation of the function.
struct size_report {
  int tensor = 0, axis = 0;  ///< counted over all tensors of the arguments
  std::string how;           ///< "fixed at 64", "at least 5"
  std::string why;           ///< "converted to an integer", "compared with a number"
  location where;            ///< the user's line, if known

  /// "size(0) of tensor 1 is fixed at 64: converted to an integer (at net.cpp:12)". (report/text.hpp)
  SINTER_API std::string text() const;
};

/// A set of assumptions and the code compiled for it.
struct specialisation_report {
  std::string why;             ///< why the call that it was made for was new
  series<std::string> guards;  ///< conditions for a call to use it
  series<size_report> sizes;   ///< why extents are not open, or not for all values
  sinter::report what;
};

/// The result of explain().
struct explanation {
  std::string name;                               ///< options.name
  series<specialisation_report> specialisations;  ///< first the specialisation of the explained call
  series<break_report> breaks;                    ///< the places where the function reads values

  /// Text for people: all except the kernels' source, which is in specialisations[i].what.sources. (report/text.hpp)
  SINTER_API std::string text() const;
};

}  // namespace sinter
