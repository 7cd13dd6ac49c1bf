// onnx.cpp: the definitions of <sinter/onnx.hpp> as one translation unit, beside engine.cpp. For programs whose other units
// define SINTER_COMPILED.
#if !defined(SINTER_COMPILED)
#define SINTER_COMPILED
#endif

#include "onnx/model_rules.hpp"
