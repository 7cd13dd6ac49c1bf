// plan/loops/names.hpp: the names of pieces and statements in texts.
#pragma once

#include <string>

#include "tree.hpp"

namespace sinter::engine::plan::loops {

/// "i1.0": the outermost piece of axis 1.
inline std::string name(const tree& t, int p) {
  if (p < 0) return "the kernel";
  const int origin = t.origin(p);
  const piece& mine = t.loop(origin);
  int level = 0;
  for (std::size_t q = 0; q < t.pieces.size(); ++q) {
    const piece& other = t.pieces[q];
    if (other.axis != mine.axis || other.of >= 0 || static_cast<int>(q) == origin) continue;
    const bool outer =
        other.step == mine.step ? static_cast<int>(q) < origin : other.step.divided_by(mine.step).has_value();
    level += outer;
  }
  return "i" + std::to_string(mine.axis) + "." + std::to_string(level);
}

inline const char* text_of(bind to) {
  static constexpr const char* names[] = {"ordered", "grid", "threads", "lanes", "unrolled", "matrix"};
  return names[static_cast<int>(to)];
}
inline const char* text_of(tail rest) {
  static constexpr const char* names[] = {"none", "guard", "peel", "pad"};
  return names[static_cast<int>(rest)];
}
inline const char* text_of(space in) {
  static constexpr const char* names[] = {"registers", "stack", "shared", "scratch"};
  return names[static_cast<int>(in)];
}
inline const char* text_of(layout as) {
  static constexpr const char* names[] = {"rows", "panel", "vnni", "swizzle32", "swizzle64", "swizzle128"};
  return names[static_cast<int>(as)];
}
inline const char* text_of(mover by) {
  static constexpr const char* names[] = {"threads", "async", "tma"};
  return names[static_cast<int>(by)];
}
inline const char* text_of(act what) {
  static constexpr const char* names[] = {"loop",  "fill",  "define", "copy",   "matrix",
                                          "merge", "store", "wait",   "barrier"};
  return names[static_cast<int>(what)];
}
inline const char* text_of(turns part) {
  static constexpr const char* names[] = {"all", "full", "edge", "head", "next"};
  return names[static_cast<int>(part)];
}

}  // namespace sinter::engine::plan::loops
