// engine/explain.hpp: what became of a compiled function: its specialisations, why each was made, and what each compiled to.
#pragma once

#include <string>

#include "../base/config.hpp"
#include "../base/location.hpp"
#include "../base/series.hpp"
#include "report.hpp"

namespace sinter {

/// An extent that is less open than it was asked to be, because of something that the function does with it.
struct size_report {
  int tensor = 0, axis = 0;  ///< counted over all tensors of the arguments
  std::string how;           ///< "fixed at 64", "at least 5"
  std::string why;           ///< "converted to an integer", "compared with a number"
  location where;            ///< of the user's line, if it is known

  /// "size(0) of tensor 1 is fixed at 64: converted to an integer (at net.cpp:12)". (report/text.hpp)
  SINTER_API std::string text() const;
};

/// One set of assumptions and what was compiled for it.
struct specialisation_report {
  std::string why;             ///< what made the call that it was made for a new one
  series<std::string> guards;  ///< what a call has to satisfy to use it
  series<size_report> sizes;   ///< why extents are not open, or not to all
  sinter::report what;
};

/// What explain() gives.
struct explanation {
  std::string name;                               ///< options.name
  series<specialisation_report> specialisations;  ///< the one that served the explained call first
  series<break_report> breaks;                    ///< where the function reads values

  /// For people: everything but the kernels' source, which is in specialisations[i].what.sources. (report/text.hpp)
  SINTER_API std::string text() const;
};

}  // namespace sinter
