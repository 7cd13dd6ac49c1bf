// data/progress.hpp: a progress bar on a terminal; elsewhere a line for each tenth of the total.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "../sinter.hpp"

namespace sinter::data {

/// `data::progress_bar bar(epochs); … bar.show(epoch, "loss 0.31");`
class progress_bar {
 public:
  SINTER_API explicit progress_bar(std::int64_t total, std::FILE* to = stdout);

  /// Shows that `done` of the total are done, followed by `words`.
  SINTER_API void show(std::int64_t done, const std::string& words = "");

 private:
  std::int64_t total_;
  std::FILE* to_;
  int tenth_ = 0;
  bool terminal_;
};

}  // namespace sinter::data

#if !defined(SINTER_COMPILED)
#include "progress_rules.hpp"
#endif
