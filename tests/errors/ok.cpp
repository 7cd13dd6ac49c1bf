// expect: ok

#include <sinter/sinter.hpp>

using namespace sinter;

// What the other cases get wrong, done right: a case that fails for want of a name shows here.
auto fine(tensor<float, 2> a, tensor<float, dims{dyn, 64}> b, tensor<float, dims{64, 10}> c,
          tensor<std::int64_t, 1> labels, tensor<double, 2> d, tensor<bool, 2> mask) {
  tensor<float, 2> mixed = a + cast<float>(d);
  tensor<float, 2> masked = where(mask, a, 0);
  tensor<float, 1> reduced = sum(a, axis<-1>);
  tensor<float, dims{dyn, 10}> product = matmul(b, c);
  tensor<float, 2> contracted = einsum<"ij,jk->ik">(b, c);
  tensor<float, 2> moved = transpose(a);
  tensor<float, 0> loss = cross_entropy(product, labels);
  tensor<float, 2> rows{{1, 2}, {3, 4}}, empty{{}, {}}, column{{1}, {2}};
  rows += reduced;
  rows(0, 1) -= column(0, 0);
  return std::tuple{mixed, masked, reduced, contracted, moved, loss, rows, empty};
}
