// base/config.hpp: build switches; the only place that reads them.
#pragma once

#define SINTER_VERSION "0.1.0"

// Engine functions are `inline` when everything is header-only; with SINTER_COMPILED they are
// ordinary functions that one translation unit defines.
#if defined(SINTER_COMPILED)
#define SINTER_API
#else
#define SINTER_API inline
#endif

// Parts of the engine that are small and not where time goes: compiled once, for size.
#define SINTER_COLD [[gnu::cold, gnu::noinline]]

#if !defined(NDEBUG)
#define SINTER_CHECK_PASSES 1
#else
#define SINTER_CHECK_PASSES 0
#endif
