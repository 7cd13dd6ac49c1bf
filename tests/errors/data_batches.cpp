// expect: error
// match: \[data::batches\] each tensor of a dataset has its rows along the first axis
// match: \[data::batches\] the first extent of a dataset's tensors is the number of rows: declare it dyn
// lines: 60, clang++ 90

#include <sinter/data.hpp>

using namespace sinter;

void scalars(tensor<float, 0> x) {
  for (auto& b : data::batches(x)) static_cast<void>(b);
}
void closed(tensor<float, dims{100, 2}> x) {
  for (auto& b : data::batches(x)) static_cast<void>(b);
}
