// sinter.hpp: includes the whole core of the library.
#pragma once

#if __cplusplus < 202002L
#error "sinter: needs C++20: compile with -std=c++20 or newer (target_compile_features(app PRIVATE cxx_std_20))"
#elif !defined(__cpp_exceptions)
#error "sinter: reports errors by exceptions, and ends traces by them: compile without -fno-exceptions"
#else

// <windows.h> and some other headers define these macros; pop_macro restores them.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include "base/floats_begin.hpp"

// This header comes first, because compilers list the includes that lead to an error.
#include "front/shapes/names.hpp"

#include "engine/backends.hpp"
#include "engine/engine.hpp"
#include "front/compile/compile.hpp"
#include "front/compile/disable.hpp"
#include "front/compile/dynamic.hpp"
#include "front/compile/explain.hpp"
#include "front/compile/export.hpp"
#include "front/compile/run_graph.hpp"
#include "front/compile/stance.hpp"
#include "front/compile/trace.hpp"
#include "front/compile/verify.hpp"
#include "front/control/check_finite.hpp"
#include "front/control/control.hpp"
#include "front/control/custom_op.hpp"
#include "front/control/host_call.hpp"
#include "front/control/switch_case.hpp"
#include "front/evaluate/evaluate.hpp"
#include "front/evaluate/print.hpp"
#include "front/functions/arrange.hpp"
#include "front/functions/attention.hpp"
#include "front/functions/autocast.hpp"
#include "front/functions/einsum.hpp"
#include "front/functions/factories.hpp"
#include "front/functions/factory_errors.hpp"
#include "front/functions/join.hpp"
#include "front/functions/nn.hpp"
#include "front/functions/order.hpp"
#include "front/functions/places.hpp"
#include "front/functions/pointwise.hpp"
#include "front/functions/random.hpp"
#include "front/functions/sample.hpp"
#include "front/functions/scan.hpp"
#include "front/functions/updates.hpp"
#include "front/runtime/cache.hpp"
#include "front/runtime/devices.hpp"
#include "front/runtime/streams.hpp"
#include "front/tensor/aliases.hpp"
#include "front/tensor/usage.hpp"
#include "front/transforms/associative_scan.hpp"
#include "front/transforms/custom.hpp"
#include "front/transforms/jacobian.hpp"
#include "front/transforms/jvp.hpp"
#include "front/transforms/ravel.hpp"
#include "front/transforms/remat.hpp"
#include "front/transforms/transforms.hpp"
#include "front/transforms/vjp.hpp"
#include "front/transforms/vmap.hpp"
#include "front/trees/arithmetic.hpp"
#include "front/trees/keys.hpp"
#include "front/trees/paths.hpp"
#include "front/trees/stacked.hpp"

#include "base/floats_end.hpp"

#pragma pop_macro("max")
#pragma pop_macro("min")

#endif
