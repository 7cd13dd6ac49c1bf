// Kernels of a function of one lane, for many, against those of the same function written for a batch.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <sinter/batch/batch.hpp>
#include <sinter/emit/cpu/kernel.hpp>
#include <sinter/plan/fusion/fuse.hpp>
#include <sinter/rewrite/rewrite.hpp>
#include <sinter/sinter.hpp>
#include <sstream>
#include <string>
#include <vector>

using namespace sinter;

namespace {

constexpr std::int64_t count = 24;

/// Each kernel's text, without the lines that it came from, sorted.
std::string kernels_of(const ir::graph& traced) {
  const ir::graph g = engine::rewrite::run_all(traced);
  engine::plan::memory_map memory;
  memory.strides.resize(g.size());
  for (auto id : g.inputs) {
    std::int64_t s = 1;
    auto& strides = memory.strides[id];
    strides.resize(g[id].extents.size());
    for (std::size_t d = strides.size(); d-- > 0; s *= *g[id].extents[d].number()) strides[d] = s;
  }
  std::multimap<std::string, int> all;
  for (const auto& k : engine::plan::fuse(g, memory).kernels) {
    std::istringstream in(engine::emit::cpu(k).text);
    std::string text;
    for (std::string line; std::getline(in, line);)
      if (line.compare(0, 5, "#line") != 0 && line.compare(0, 2, "//") != 0) text += line + "\n";
    all.emplace(text.substr(text.find("extern \"C\" void sinter_kernel(")), 0);
  }
  std::string out;
  for (const auto& [text, unused] : all) out += text;
  return out;
}

/// `lane` for `count` lanes where flags say that an argument varies, against `batch`.
void same(const char* what, const graph& lane, std::vector<char> flags, const graph& batch) {
  CAPTURE(std::string(what));
  ir::graph g;
  series<ir::node_id> in;
  const ir::graph of_lane = lane.body();
  for (std::size_t k = 0; k < of_lane.inputs.size(); ++k) {
    const auto& n = of_lane[of_lane.inputs[k]];
    if (k >= flags.size()) flags.push_back(0);  // captured
    in.push_back(g.add_input(n.type, flags[k] ? ir::ops::behind(count, n.extents) : n.extents));
  }
  const auto out = engine::batch::push_lanes(g, of_lane, in, flags, count, {});
  g.outputs = out.nodes;
  const std::string mine = kernels_of(g), hand = kernels_of(batch.body());
  CHECK_MESSAGE(mine == hand, "lanes:\n"
                                  << ir::print(engine::rewrite::run_all(g)) << "\nby hand:\n"
                                  << ir::print(engine::rewrite::run_all(batch.body())) << "\n\n"
                                  << mine << "\n\n"
                                  << hand);
}

using vector = tensor<float, 1>;
using matrix = tensor<float, 2>;
using cube = tensor<float, 3>;
using quad = tensor<float, 4>;

}  // namespace

TEST_CASE("kernels of lanes are those of code written for a batch") {
  const vector x = full<float>(1, {32}), b = full<float>(1, {16}), n = full<float>(2, {16});
  const matrix xs = full<float>(1, {count, 32}), w = full<float>(1, {32, 16}), m = full<float>(1, {8, 32}),
               ns = full<float>(2, {count, 16});
  const cube ms = full<float>(1, {count, 8, 32});

  same("pointwise", trace([](vector a, vector b) { return vector(exp(a) * 2.0f + b); })(b, n), {1, 0},
       trace([](matrix a, vector b) { return matrix(exp(a) * 2.0f + b); })(ns, n));
  same("layer of vectors", trace([](vector x, matrix w, vector b) { return vector(relu(matmul(x, w) + b)); })(x, w, b),
       {1, 0, 0}, trace([](matrix x, matrix w, vector b) { return matrix(relu(matmul(x, w) + b)); })(xs, w, b));
  same("layer of matrices", trace([](matrix x, matrix w, vector b) { return matrix(relu(matmul(x, w) + b)); })(m, w, b),
       {1, 0, 0}, trace([](cube x, matrix w, vector b) { return cube(relu(matmul(x, w) + b)); })(ms, w, b));
  same("matrix times vectors", trace([](matrix w, vector x) { return matmul(w, x); })(m, x), {0, 1},
       trace([](matrix w, matrix x) { return matmul(x, transpose(w)); })(m, xs));
  same("softmax", trace([](vector a) { return vector(softmax(a)); })(b), {1},
       trace([](matrix a) { return matrix(softmax(a)); })(ns));
  same("layer norm", trace([](matrix a) { return matrix(layer_norm(a)); })(m), {1},
       trace([](cube a) { return cube(layer_norm(a)); })(ms));
  const tensor<std::int64_t, 1> ids = zeros<std::int64_t>({6});
  const tensor<std::int64_t, 2> idss = zeros<std::int64_t>({count, 6});
  same("embedding",
       trace([](matrix w, tensor<std::int64_t, 1> i) { return matrix(take(w, i, axis<0>) * 2.0f); })(w, ids), {0, 1},
       trace([](matrix w, tensor<std::int64_t, 2> i) { return cube(take(w, i, axis<0>) * 2.0f); })(w, idss));
  same("rows of many", trace([](matrix w, tensor<std::int64_t, 1> i) { return matrix(take(w, i, axis<0>)); })(m, ids),
       {1, 0}, trace([](cube w, tensor<std::int64_t, 1> i) { return cube(take(w, i, axis<1>)); })(ms, ids));
  same("attention", trace([](cube q, cube k, cube v) {
         return cube(matmul(softmax(matmul(q, transpose(k)) * 0.125f), v));
       })(cube(full<float>(1, {4, 8, 16})), cube(full<float>(1, {4, 8, 16})), cube(full<float>(1, {4, 8, 16}))),
       {1, 1, 1},
       trace([](quad q, quad k, quad v) { return quad(matmul(softmax(matmul(q, transpose(k)) * 0.125f), v)); })(
           quad(full<float>(1, {count, 4, 8, 16})), quad(full<float>(1, {count, 4, 8, 16})),
           quad(full<float>(1, {count, 4, 8, 16}))));
}

TEST_CASE("kernels of gradients of each lane") {
  const vector x = full<float>(1, {32});
  const matrix xs = full<float>(1, {count, 32}), w = full<float>(1, {32, 16});
  // The gradient by what varies; by hand, of the sum over the batch.
  same("by inputs", trace(grad([](vector x, matrix w) { return sum(exp(tanh(matmul(x, w)))); }))(x, w), {1, 0},
       trace(grad([](matrix x, matrix w) { return sum(exp(tanh(matmul(x, w)))); }))(xs, w));
  same("softmax", trace(grad([](vector x) { return sum(exp(softmax(x))); }))(x), {1},
       trace(grad([](matrix x) { return sum(exp(softmax(x))); }))(xs));
  same("layer norm", trace(grad([](vector x) { return sum(exp(layer_norm(x))); }))(x), {1},
       trace(grad([](matrix x) { return sum(exp(layer_norm(x))); }))(xs));
}
