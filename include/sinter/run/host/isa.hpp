// run/host/isa.hpp: the instruction set of this machine, as text.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif

#include <string>

#include "../../base/text.hpp"

namespace sinter::engine::run {

namespace detail {

#if defined(__x86_64__) || defined(__i386__)
/// CPUID words, each masked. With `instructions`, models and features that are not instructions are omitted.
SINTER_API std::string cpuid_text(bool instructions) {
  constexpr unsigned all = ~0u;
  struct leaf {
    unsigned number, sub;
    unsigned masks[4];  ///< of eax to edx as -march=native sees the processor, including tuning
    unsigned narrow[4];
  };
  // ebx of leaf 1 numbers the core.
  static constexpr leaf leaves[] = {
      {0, 0, {all, all, all, all}, {}},
      {1, 0, {all, 0, all, all}, {0, 0, 0x7ed83203u, 0x079fffffu}},
      {7, 0, {all, all, all, all}, {0, 0xfdef4f3du, 0xbfc0ff63u, 0x03d5413cu}},
      {7, 1, {all, all, all, all}, {all, all, all, all}},
      {0x80000001u, 0, {all, 0, all, all}, {0, 0, all, all}},
  };
  std::string out;
  bool saves = false;
  for (const leaf& l : leaves) {
    unsigned words[4] = {};
    if (!__get_cpuid_count(l.number, l.sub, &words[0], &words[1], &words[2], &words[3])) continue;
    if (l.number == 1) saves = words[2] >> 27 & 1;
    for (int i = 0; i < 4; ++i) out += text::hex(words[i] & (instructions ? l.narrow : l.masks)[i]).substr(8) + " ";
  }
  if (saves) {
    unsigned low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    out += text::hex(low);
  }
  return out;
}
#elif defined(__linux__)
inline std::string cpuid_text(bool) {
  return text::hex(::getauxval(AT_HWCAP)) + " " + text::hex(::getauxval(AT_HWCAP2));
}
#else
inline std::string cpuid_text(bool) { return "unknown"; }
#endif

}  // namespace detail

/// The processor as `-march=native` sees it.
SINTER_API const std::string& instruction_set() {
  // Background threads may read it while the process ends.
  static const std::string& found = *new std::string(detail::cpuid_text(false));
  return found;
}

/// The instructions that kernels may use: equal on machines that can run each other's kernels.
SINTER_API const std::string& instructions() {
  static const std::string& found = *new std::string(detail::cpuid_text(true));
  return found;
}

/// The name of this machine's processor in bundles.
inline std::string host_target() { return "cpu " + instructions(); }

}  // namespace sinter::engine::run
