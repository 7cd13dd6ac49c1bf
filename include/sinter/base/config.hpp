// base/config.hpp: the version, and the linkage of the engine's functions in each kind of build.
#pragma once

#define SINTER_VERSION "0.1.0"
#define SINTER_VERSION_WORD 0_1_0

// Engine functions are `inline` in header-only builds. With SINTER_COMPILED they are ordinary functions, defined in one
// translation unit. With SINTER_INSIDE a unit also sees the definitions, but leaves their compilation to that unit; tests of
// code behind the seam use it. Such functions are never inlined, because a copy would have its own static variables.
#if defined(SINTER_INSIDE) && defined(__clang__)
#define SINTER_API inline __attribute__((gnu_inline, noinline))
#elif defined(SINTER_INSIDE)
#define SINTER_API inline __attribute__((gnu_inline, optimize("no-inline")))
#elif defined(SINTER_COMPILED)
#define SINTER_API
#else
#define SINTER_API inline
#endif

// SINTER_FRUGAL: g++ spends little on code that runs once per specialisation, because every program that includes the whole
// engine compiles it.
#if defined(__OPTIMIZE__) && !defined(__clang__) && !defined(SINTER_COMPILED) && !defined(SINTER_INSIDE)
#define SINTER_FRUGAL 1
#else
#define SINTER_FRUGAL 0
#endif

// Always inlined: a call would cost more than the body.
#define SINTER_INLINE inline __attribute__((always_inline))
#define SINTER_INLINE_LAMBDA __attribute__((always_inline))

// Marks a function that is chosen for a wrong call: its use is an error that begins with the text, at the caller's line.
#define SINTER_WRONG_CALL(TEXT) __attribute__((unavailable("sinter: " TEXT)))

// Marks code of the engine that is not time-critical: compiled once, for size.
#if SINTER_FRUGAL
#define SINTER_COLD __attribute__((cold, noinline, optimize("Og")))
#else
#define SINTER_COLD __attribute__((cold, noinline))
#endif

#if !defined(NDEBUG)
#define SINTER_CHECK_PASSES 1
#else
#define SINTER_CHECK_PASSES 0
#endif
