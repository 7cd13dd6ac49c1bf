// explain.hpp: what became of a compiled function: its specialisations, why each was made, and what each compiled to.
#pragma once

#include <string>

#include "base/config.hpp"
#include "base/location.hpp"
#include "base/series.hpp"
#include "report.hpp"

namespace sinter {

/// One set of assumptions and what was compiled for it.
struct specialisation_report {
  std::string why;             ///< what made the call that it was made for a new one
  series<std::string> guards;  ///< what a call has to satisfy to use it
  sinter::report what;
};

/// What explain() gives.
struct explanation {
  std::string name;                               ///< options.name
  series<specialisation_report> specialisations;  ///< the one that served the explained call first
  series<break_report> breaks;

  /// For people: everything but the kernels' source, which is in specialisations[i].what.sources. (report/text.hpp)
  SINTER_API std::string text() const;
};

}  // namespace sinter
