// onnx.cpp: the definitions of <sinter/onnx.hpp> as one translation unit, beside engine.cpp. For programs whose other units
// define SINTER_COMPILED.
#if !defined(SINTER_COMPILED)
#define SINTER_COMPILED
#endif

#include "onnx/export_rules.hpp"
#include "onnx/model_rules.hpp"
#include "onnx/runtime_rules.hpp"
