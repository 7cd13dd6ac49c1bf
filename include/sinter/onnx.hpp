// onnx.hpp: models from ONNX files: opened, run, compiled, differentiated.
#pragma once

#include "onnx/model.hpp"
