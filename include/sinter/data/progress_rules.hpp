// data/progress_rules.hpp: the definitions for progress.hpp; compiled once.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "progress.hpp"

namespace sinter::data {

SINTER_API progress_bar::progress_bar(std::int64_t total, std::FILE* to)
    : total_(std::max<std::int64_t>(total, 1)), to_(to), terminal_(::isatty(::fileno(to)) != 0) {}

SINTER_API void progress_bar::show(std::int64_t done, const std::string& words) {
  const double part = static_cast<double>(std::clamp<std::int64_t>(done, 0, total_)) / static_cast<double>(total_);
  const int percent = static_cast<int>(100 * part), tenth = static_cast<int>(10 * part);
  if (terminal_) {
    constexpr int width = 30;
    const int filled = static_cast<int>(width * part);
    std::string bar;
    for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
    std::fprintf(to_, "\r  %s %3d %%  %s\x1b[K%s", bar.c_str(), percent, words.c_str(), done >= total_ ? "\n" : "");
  } else if (tenth != tenth_) {
    tenth_ = tenth;
    std::fprintf(to_, "  %3d %%  %s\n", percent, words.c_str());
  }
  std::fflush(to_);
}

}  // namespace sinter::data
