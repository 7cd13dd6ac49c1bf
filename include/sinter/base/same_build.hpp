// base/same_build.hpp: a symbol on which a program's files and the engine agree if they are built alike; otherwise the link
// fails, and names it.
#pragma once

#include <cstddef>

#include "config.hpp"

// The settings that change the memory layout of standard classes that cross the seam.
#if defined(_GLIBCXX_DEBUG)
#define SINTER_BUILD_DEBUG with_GLIBCXX_DEBUG
#else
#define SINTER_BUILD_DEBUG without_GLIBCXX_DEBUG
#endif
#if defined(_LIBCPP_VERSION)
#define SINTER_BUILD_LIBRARY libcxx
#define SINTER_BUILD_ABI _LIBCPP_ABI_VERSION
#elif defined(_GLIBCXX_USE_CXX11_ABI)
#define SINTER_BUILD_LIBRARY CXX11_ABI
#define SINTER_BUILD_ABI _GLIBCXX_USE_CXX11_ABI
#else
#define SINTER_BUILD_LIBRARY of_another
#define SINTER_BUILD_ABI library
#endif

#define SINTER_BUILD_JOIN(version, debug, library, abi) \
  sinter_needs_an_engine_built_like_this_file_version_##version##_##debug##_##library##_##abi
#define SINTER_BUILD_NAME(version, debug, library, abi) SINTER_BUILD_JOIN(version, debug, library, abi)
#define SINTER_BUILD SINTER_BUILD_NAME(SINTER_VERSION_WORD, SINTER_BUILD_DEBUG, SINTER_BUILD_LIBRARY, SINTER_BUILD_ABI)

#if defined(SINTER_COMPILED) || defined(SINTER_INSIDE)

#if defined(__has_attribute)
#if __has_attribute(retain)
#define SINTER_RETAINED used, retain
#endif
#endif
#if !defined(SINTER_RETAINED)
#define SINTER_RETAINED used
#endif

extern "C" [[gnu::visibility("default")]] const char SINTER_BUILD;  ///< engine.cpp defines it

namespace sinter::detail {
/// Never read: it makes the file refer to the symbol at every level of optimisation.
__attribute__((SINTER_RETAINED)) static const char* const same_build = &SINTER_BUILD;
}  // namespace sinter::detail

#endif
