// front/define.hpp: the non-template definitions of front/, and template instances that programs share; the compiled engine includes it
// once.
#pragma once

#include "eager/loop_moves.hpp"
#include "eager/reduce.hpp"
#include "evaluate/evaluate_rules.hpp"
#include "evaluate/handle_rules.hpp"
#include "evaluate/view_rules.hpp"
#include "functions/arrange_rules.hpp"
#include "functions/index_rules.hpp"
#include "functions/matmul.hpp"
#include "functions/nn_rules.hpp"
#include "functions/order_rules.hpp"
#include "functions/place_rules.hpp"
#include "functions/random.hpp"
#include "functions/update_rules.hpp"
#include "tensor/term_rules.hpp"
#include "tensor/trace_rules.hpp"
#include "transforms/linear_rules.hpp"
#include "transforms/sample_rules.hpp"
#include "trees/tree_rules.hpp"

namespace sinter::detail {
#define SINTER_X(OP, T)                                                                                          \
  template void* reduced_stage<ir::op::OP, T, void>(const row_stage&, const void*, const void*, const int*, int, \
                                                    const tensor_parts&, location);
SINTER_REDUCED(SINTER_X)
#undef SINTER_X
#define SINTER_X(T)                                                               \
  template handle eager_dot<T>(const handle&, const handle&, int, int, location); \
  template handle dot<T>(const handle&, const handle&, int, int, location);       \
  template handle product_of<T>(const handle&, const handle&, const dims&, location);
SINTER_PRODUCTS(SINTER_X)
#undef SINTER_X
#define SINTER_X(R)                                                                                                  \
  template tensor<float, dims(R)> draw_uniform(const key&, const index_array<R>&, const target&, location);          \
  template tensor<float, dims(R)> draw_normal(const key&, const index_array<R>&, const target&, location);           \
  template tensor<bool, dims(R)> draw_bernoulli(const key&, double, const index_array<R>&, const target&, location); \
  template tensor<std::int64_t, dims(R)> draw_randint(const key&, std::int64_t, std::int64_t, const index_array<R>&, \
                                                      const target&, location);
SINTER_DRAWN(SINTER_X)
#undef SINTER_X
}  // namespace sinter::detail
