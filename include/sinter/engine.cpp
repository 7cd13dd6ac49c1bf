// engine.cpp: the engine as one translation unit, for programs whose other units define SINTER_COMPILED. The CMake targets
// build it by themselves; without CMake it is one more source file of the program.
#if !defined(SINTER_COMPILED)
#define SINTER_COMPILED
#endif

#include "base/floats_begin.hpp"

#include "jit/pipeline.hpp"

#include "front/define.hpp"

#include "base/floats_end.hpp"
