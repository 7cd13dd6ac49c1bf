// onnx.cpp: what <sinter/onnx.hpp> declares as one translation unit, beside engine.cpp, for programs whose other units define
// SINTER_COMPILED.
#if !defined(SINTER_COMPILED)
#define SINTER_COMPILED
#endif

#include "onnx/model_rules.hpp"
