// base/floats_begin.hpp: begins a region, up to floats_end.hpp, with IEEE 754 arithmetic whatever flags the program is
// compiled with (-ffast-math, -Ofast, -march=native). sinter.hpp and engine.cpp include all other headers inside it.

#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#error \
    "sinter: floats are computed wider than they are (-mfpmath=387), so results are rounded twice; compile with -mfpmath=sse"
#endif
static_assert(0.1 != 0.1f,
              "sinter: -fsingle-precision-constant rounds doubles to float; compile without it and write 0.1f");

#if defined(__clang__)
#if defined(__FAST_MATH__) || __FINITE_MATH_ONLY__
#error \
    "sinter: clang++ takes -ffast-math, -Ofast and -ffinite-math-only to vector functions and selections whatever a header says, so that NaN and infinities are lost; compile this file with -O3 in place of -Ofast, or with -fno-fast-math, and write '#pragma clang fp reassociate(on) contract(fast)' in loops of your own that may be inexact"
#endif
#pragma float_control(precise, on, push)
#pragma clang fp contract(off)
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__FAST_MATH__) || __FINITE_MATH_ONLY__ || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
// g++ does not inline functions of this region into others, so the program's own headers stay outside.
#include "engine_begin.hpp"
#include "engine_end.hpp"
#define SINTER_FLOATS_PUSHED
#pragma GCC push_options
#pragma GCC optimize("no-fast-math", "fp-contract=off")
#endif
