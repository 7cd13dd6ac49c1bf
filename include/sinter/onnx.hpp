// onnx.hpp: models from ONNX files: opened, run, compiled, differentiated; functions as ONNX files, and models as libraries.
#pragma once

#include "onnx/batched.hpp"
#include "onnx/export.hpp"
#include "onnx/library.hpp"
#include "onnx/model.hpp"
#include "onnx/registered.hpp"
#include "onnx/runtime.hpp"
