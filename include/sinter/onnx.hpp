// onnx.hpp: models from files: ONNX opened, run, compiled, differentiated.
#pragma once

#include "onnx/model.hpp"
