// base/config.hpp: the version, and what the build switches make of the engine's functions.
#pragma once

#define SINTER_VERSION "0.1.0"
#define SINTER_VERSION_WORD 0_1_0

// Engine functions are `inline` when everything is header-only; with SINTER_COMPILED they are
// ordinary functions that one translation unit defines. With SINTER_INSIDE a unit sees the definitions as well and leaves
// compiling them to that one: for tests of what is behind the seam. None is inlined there: a copy would have static
// variables of its own.
#if defined(SINTER_INSIDE) && defined(__clang__)
#define SINTER_API inline __attribute__((gnu_inline, noinline))
#elif defined(SINTER_INSIDE)
#define SINTER_API inline __attribute__((gnu_inline, optimize("no-inline")))
#elif defined(SINTER_COMPILED)
#define SINTER_API
#else
#define SINTER_API inline
#endif

// SINTER_FRUGAL: g++ should spend little on what runs once a specialisation, since every program that includes the whole
// engine compiles it.
#if defined(__OPTIMIZE__) && !defined(__clang__) && !defined(SINTER_COMPILED) && !defined(SINTER_INSIDE)
#define SINTER_FRUGAL 1
#else
#define SINTER_FRUGAL 0
#endif

// Functions whose bodies belong where they are called: a call costs more than what they do.
#define SINTER_INLINE inline __attribute__((always_inline))
#define SINTER_INLINE_LAMBDA __attribute__((always_inline))

// A function that is chosen for a wrong call: using it is an error that begins with the text, at the caller's line.
#define SINTER_WRONG_CALL(TEXT) __attribute__((unavailable("sinter: " TEXT)))

// Parts of the engine that are small and not where time goes: compiled once, for size.
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
