// The kernels of a dozen programs, as text, against the files of tests/golden (C++) and tests/golden/cuda: what is fused
// with what, and which loops it became, is read in review. The prelude and #line are left out.
// SINTER_UPDATE_GOLDEN=1 ctest -R emit/golden writes the files anew; look at their diff before committing them.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sinter/sinter.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "../paths.hpp"

using namespace sinter;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// The label and the function, without #line.
std::string kernel_of(const std::string& source) {
  std::string out = source.substr(0, source.find('\n') + 1);
  for (const auto& line : lines_of(source.substr(source.find("extern \"C\" void sinter_kernel("))))
    if (line.compare(0, 5, "#line") != 0) out += line + "\n";
  return out;
}

/// What differs, as lines with - and +, between what is common at both ends.
std::string difference(const std::string& want, const std::string& got) {
  const auto a = lines_of(want), b = lines_of(got);
  std::size_t head = 0, tail = 0;
  while (head < std::min(a.size(), b.size()) && a[head] == b[head]) ++head;
  while (tail < std::min(a.size(), b.size()) - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  std::string out = "line " + std::to_string(head + 1) + "\n";
  for (std::size_t i = head - std::min<std::size_t>(head, 3); i < head; ++i) out += "  " + a[i] + "\n";
  for (std::size_t i = head; i + tail < a.size(); ++i) out += "- " + a[i] + "\n";
  for (std::size_t i = head; i + tail < b.size(); ++i) out += "+ " + b[i] + "\n";
  return out;
}

void compare(const std::string& name, const std::string& got) {
  const std::string path = test_paths::data + "/golden/" + name + ".txt";
  const char* update = std::getenv("SINTER_UPDATE_GOLDEN");
  if (update != nullptr && *update == '1') {
    std::ofstream(path) << got;
    return;
  }
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path << " is missing; SINTER_UPDATE_GOLDEN=1 writes it");
  std::stringstream want;
  want << file.rdbuf();
  if (want.str() != got) FAIL_CHECK(path << " differs from the kernels: " << difference(want.str(), got));
}

/// The launches of a GPU with 132 multiprocessors, and their code; `shared`: small kernels are launched together.
std::string cuda_kernels(ir::graph g, bool tf32 = false, bool shared = false, std::int64_t parameter_bytes = 4096) {
  g = engine::rewrite::run_all(g);
  engine::detail::separate_results(g);
  engine::plan::memory_map m;
  m.strides.resize(g.size());
  m.by_value.resize(g.size());
  for (auto id : g.inputs) m.by_value[id] = g[id].extents.empty();
  std::string out;
  const auto kernels = engine::plan::fuse(g, m, engine::plan::gpu_target({.tf32 = tf32})).kernels;
  series<series<std::size_t>> groups;
  if (shared) groups = engine::plan::horizontal(kernels);
  else
    for (std::size_t k = 0; k < kernels.size(); ++k) groups.push_back({k});
  for (const auto& group : groups) {
    series<const engine::plan::kernel*> parts;
    for (const auto k : group) parts.push_back(&kernels[k]);
    const auto s = engine::emit::cuda(parts, {.tf32 = tf32, .parameter_bytes = parameter_bytes});
    if (!out.empty()) out += "\n";
    out += s.texts[0].substr(0, s.texts[0].find('\n') + 1);
    for (const auto& l : s.launches)
      out += "// " + l.entry + ": " + l.blocks.text() + " blocks of " + std::to_string(l.threads) + " threads\n";
    for (const auto& text : s.texts)
      for (const auto& line : lines_of(text.substr(text.rfind("namespace sx {\nextern"))))
        if (line.compare(0, 5, "#line") != 0) out += line + "\n";
  }
  return out;
}

template <class F, class... Args>
void golden(const std::string& name, F f, const Args&... args) {
  auto compiled = compile(f);
  compiled(args...);
  const auto report = compiled.report();
  REQUIRE(report.backend == "cpu");
  std::string got;
  for (const auto& s : report.sources) got += (got.empty() ? "" : "\n") + kernel_of(s);
  compare(name, got);
  compare("cuda/" + name, cuda_kernels(trace(f)(args...).graph()));
}

using matrix = tensor<float, 2>;
using vec = tensor<float, 1>;
using labels = tensor<std::int64_t, 1>;

matrix m(std::int64_t rows, std::int64_t columns) { return zeros<float>(rows, columns); }
vec v(std::int64_t n) { return zeros<float>(n); }

}  // namespace

TEST_CASE("bias and gelu are one pass over the matrix") {
  golden(
      "bias_gelu", [](matrix x, vec b) { return gelu(x + b); }, m(256, 512), v(512));
}

TEST_CASE("softmax is three passes over each row") {
  golden(
      "softmax", [](matrix x) { return softmax(x); }, m(128, 100));
}

TEST_CASE("rows between products begin at multiples of 16 bytes on a GPU, whose vectors have a tail") {
  golden(
      "odd_rows", [](matrix x, matrix w, matrix v) { return matmul(softmax(matmul(x, w) * 0.125f), v); }, m(512, 64),
      m(64, 257), m(257, 16));
}

TEST_CASE("softmax of columns is three passes down a block of them") {
  golden(
      "softmax_columns", [](matrix x) { return softmax<0>(x); }, m(300, 1100));
}

TEST_CASE("layer_norm is three passes over each row") {
  golden(
      "layer_norm", [](matrix x, vec g, vec b) { return layer_norm(x, g, b); }, m(128, 100), v(100), v(100));
}

TEST_CASE("layer_norm with its gradients, in which sums along rows and columns meet") {
  const auto f = [](matrix x, vec g, vec b, matrix w) {
    return value_and_grad([](std::tuple<matrix, vec, vec> p, matrix w) {
      return sum(layer_norm(std::get<0>(p), std::get<1>(p), std::get<2>(p)) * w);
    })(std::tuple{x, g, b}, w);
  };
  golden("layer_norm_gradient", f, m(128, 100), v(100), v(100), m(128, 100));
}

TEST_CASE("rms_norm after a residual sum") {
  const auto f = [](matrix x, matrix r, vec g) {
    const matrix h = x + r;
    return std::pair{h, rms_norm(h, g)};
  };
  golden("rmsnorm_residual", f, m(128, 256), m(128, 256), v(256));
}

TEST_CASE("cross_entropy with its gradient") {
  const auto f = [](matrix x, labels y) {
    return value_and_grad([](matrix x, labels y) { return cross_entropy(x, y); })(x, y);
  };
  golden("cross_entropy_gradient", f, m(64, 10), labels(zeros<std::int64_t>(64)));
}

TEST_CASE("a loss of all elements and its gradient, which is as large") {
  auto f = [](matrix x, matrix y) {
    return value_and_grad([&](const matrix& x) {
      const auto e = abs(x - y);
      return mean(where(e < 1.f, 0.5f * e * e, e - 0.5f));
    })(x);
  };
  golden("huber_gradient", f, m(2048, 2048), m(2048, 2048));
}

TEST_CASE("sums of columns run in chunks of rows") {
  golden(
      "column_sum", [](matrix x) { return sum(x, axis<0>); }, m(4096, 64));
}

TEST_CASE("the sum of everything runs in blocks") {
  golden(
      "full_sum", [](matrix x) { return sum(x); }, m(1000, 300));
}

TEST_CASE("a matrix plus its transpose") {
  golden(
      "transpose_add", [](matrix x) { return x + transpose(x); }, m(200, 200));
}

TEST_CASE("a product takes bias and relu along") {
  golden(
      "matmul_bias_relu", [](matrix x, matrix w, vec b) { return relu(matmul(x, w) + b); }, m(64, 48), m(48, 80),
      v(80));
}

TEST_CASE("a product of few terms on tensor cores takes a mask along") {
  const auto f = [](matrix d, matrix w, matrix a) { return where(a > 0.f, matmul(d, transpose(w)), 0.f); };
  compare("cuda/masked_product_tf32", cuda_kernels(trace(f)(m(1024, 10), m(512, 10), m(1024, 512)).graph(), true));
}

TEST_CASE("an Adam step is one kernel that reads four and writes three") {
  const auto f = [](vec p, vec g, vec first, vec second, tensor<float, 0> t) {
    const vec a = 0.9f * first + 0.1f * g, b = 0.999f * second + 0.001f * g * g;
    const auto down = 1.f - pow(0.9f, t), under = 1.f - pow(0.999f, t);
    return std::tuple{vec(p - 0.001f * (a / down) / (sqrt(b / under) + 1e-8f)), a, b};
  };
  golden("adam", f, v(5000), v(5000), v(5000), v(5000), tensor<float, 0>(1.f));
}

TEST_CASE("Adam steps of forty parameters are one launch of one body") {
  const auto f = [](std::vector<vec> p, std::vector<vec> g, tensor<float, 0> t) {
    const auto first = tree_map([](auto p, auto g) { return 0.9f * p + 0.1f * g; }, p, g);
    const auto next = tree_map([&](auto p, auto m) { return p - 0.001f * m / (1.f - pow(0.9f, t)); }, p, first);
    return std::pair{next, first};
  };
  std::vector<vec> p, g;
  for (int i = 0; i < 40; ++i) p.push_back(v(100 + 37 * i)), g.push_back(v(100 + 37 * i));
  const auto traced = trace(f)(p, g, tensor<float, 0>(1.f)).graph();
  compare("cuda/many_updates", cuda_kernels(traced, false, true));
  // With a table in memory, as where there are more of them.
  compare("cuda/more_updates", cuda_kernels(traced, false, true, 1000));
}

TEST_CASE("a step of the heat equation reads five places, four of them where they are inside") {
  const auto f = [](matrix u) {
    const matrix p = pad(u, {{1, 1}, {1, 1}}), middle = slice<0>(p, 1, -1);
    const matrix columns = slice<1>(p, 1, -1);
    return matrix(u + 0.1f * (slice<0>(columns, 0, -2) + slice<0>(columns, 2) + slice<1>(middle, 0, -2) +
                              slice<1>(middle, 2) - 4.f * u));
  };
  golden("heat", f, m(1024, 1024));
}

TEST_CASE("halves of rows, rotated") {
  const auto f = [](matrix x, matrix c, matrix s) {
    const matrix turned = concat<1>(matrix(-slice<1>(x, 64)), matrix(slice<1>(x, 0, 64)));
    return matrix(x * c + turned * s);
  };
  golden("rotated_halves", f, m(256, 128), m(256, 128), m(256, 128));
}

TEST_CASE("rows of a table") {
  golden(
      "embedding", [](matrix table, labels i) { return take(table, i); }, m(50, 32), labels(zeros<std::int64_t>(20)));
}

TEST_CASE("rows added to a table") {
  golden(
      "scatter_add", [](matrix table, labels i, matrix u) { return scatter_add(table, i, u); }, m(50, 32),
      labels(zeros<std::int64_t>(20)), m(20, 32));
}

TEST_CASE("derivatives of running products, of which a scan has factors") {
  golden(
      "cumprod_gradient",
      [](matrix x, matrix w) {
        const auto along_rows = grad([&](matrix a) { return sum(cumprod(a) * w); })(x);
        return std::pair{along_rows, grad([&](matrix a) { return sum(cumprod<0>(a) * w); })(x)};
      },
      m(40, 300), m(40, 300));
}

TEST_CASE("running sums along rows and along columns") {
  golden(
      "cumsum",
      [](matrix x) {
        return std::pair{cumsum(x * 2.f), cumsum<0>(x)};
      },
      m(40, 300));
}
