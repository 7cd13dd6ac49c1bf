// The kernels of programs of every kind, as text, and their schedules, against the files of tests/golden (C++) and
// tests/golden/cuda: what is fused with what, and which loops it became, is read in review. A row of the table is a name, a
// program and what it is printed for. The prelude and #line are left out.
// SINTER_UPDATE_GOLDEN=1 ctest -R emit/golden writes the files anew; look at their diff before committing them.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sinter/plan/schedule/print.hpp>
#include <sinter/sinter.hpp>
#include <sinter/windows.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "../emulator/select.hpp"
#include "../paths.hpp"
#include "cuda/nvrtc_gate.hpp"

using namespace sinter;

namespace {

namespace plan = engine::plan;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// The text from `begin` on, without #line.
std::string without_places(const std::string& text, std::size_t begin) {
  std::string out;
  for (const auto& line : lines_of(text.substr(begin)))
    if (line.compare(0, 5, "#line") != 0) out += line + "\n";
  return out;
}
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n') + 1); }

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

/// A graph, and the sizes of the traced call if they are open.
struct program {
  ir::graph graph;
  series<std::int64_t> hints;
};

/// Traces a function, with numbers as extents or with all extents open.
struct tracing {
  bool open = false;

  template <class F, class... Args>
  program operator()(F f, const Args&... args) const {
    program p;
    if (!open) {
      p.graph = trace(f)(args...).body();
      return p;
    }
    const auto open_function = compile(f, {.dynamic = dynamic::yes, .backend = "reference"});
    open_function(args...);  // makes the specialisation whose sizes are open
    const auto keep = [&](const auto& traced, std::span<const engine::argument> in, const options&, device) {
      p.graph = traced->graph;
      p.hints = engine::detail::hints_of(engine::detail::graph_layout(p.graph, in));
    };
    open_function.template inspect<true>(keep, args...);
    REQUIRE(!p.hints.empty());
    return p;
  }
};

/// What a program's kernels are printed for.
struct printed_for {
  bool host = true, gpu = true;
  bool open = false;           ///< extents are symbols; the texts are those of the traced call's sizes
  bool tf32 = false;           ///< products on tensor cores
  bool deterministic = false;  ///< scatters in order
  bool launches = false;       ///< small kernels share launches, and a kernel follows its product
  bool slices = false;         ///< products of many terms in slices
  std::int64_t parameter_bytes = 4096;
};

struct row {
  const char* name;
  const char* what;
  program (*make)(tracing);
  printed_for target;
};

/// As on a GPU, where an open extent is a multiple of the greatest of 16, 8, 4 and 2 that divides it.
void open_in_steps(program& p) {
  series<ir::dim> in_steps;
  for (std::size_t s = 0; s < p.hints.size(); ++s) {
    const std::int64_t step = engine::detail::common_step(p.hints[s], p.hints[s]);
    in_steps.push_back(ir::dim::symbol(static_cast<int>(s)) * ir::dim(step));
    p.hints[s] /= step;
  }
  p.graph.replace_sizes([&](const ir::dim& d) {
    // All at once: a replacement is in the same symbols.
    ir::dim out = d;
    for (std::size_t s = 0; s < in_steps.size(); ++s) out = ir::substituted(out, static_cast<int>(s), in_steps[s]);
    return out;
  });
}

/// Texts and schedules of a program's kernels, and what a compiler gets.
struct printed_kernels {
  std::string text, schedule;
  std::vector<std::string> whole;

  void add(const std::string& kernel, const std::string& how) {
    text += (text.empty() ? "" : "\n") + kernel;
    schedule += (schedule.empty() ? "" : "\n") + how;
  }
};

printed_kernels on_host(program p) {
  p.graph = engine::rewrite::run_all(p.graph);
  engine::detail::separate_results(p.graph);
  plan::memory_map m;
  m.hints = p.hints;
  m.strides.resize(p.graph.size());
  const auto fused = plan::fuse(p.graph, m);
  const auto shared = plan::parts_of(fused.kernels, fused.alike);
  printed_kernels out;
  for (std::size_t k = 0; k < fused.kernels.size(); ++k) {
    if (shared.first[k] < k) continue;
    const plan::kernel& code = shared.printed(fused.kernels, k);
    const std::string text = engine::emit::cpu(code).text;
    out.add(first_line(text) + without_places(text, text.find("extern \"C\" void sinter_kernel(")),
            plan::text_of(code));
  }
  return out;
}

/// The plan for a GPU with 132 multiprocessors.
plan::fused fused_for_gpu(program& p, const plan::target& target, bool slices) {
  const auto fuse = [&] {
    engine::detail::separate_results(p.graph);
    plan::memory_map m;
    m.hints = p.hints;
    m.strides.resize(p.graph.size());
    m.by_value.resize(p.graph.size());
    for (auto id : p.graph.inputs) m.by_value[id] = p.graph[id].extents.empty();
    return plan::fuse(p.graph, m, target);
  };
  plan::fused fused = fuse();
  if (!slices) return fused;
  const auto split = plan::products_to_split(p.graph, fused.kernels, p.hints, target);
  REQUIRE(!split.empty());
  p.graph = plan::with_slices(p.graph, split);
  return fuse();
}

printed_kernels on_gpu(program p, const printed_for& how) {
  if (how.open) open_in_steps(p);
  p.graph = engine::rewrite::run_all(p.graph);
  const plan::target target =
      plan::gpu_target({.tf32 = how.tf32, .deterministic = how.deterministic, .parameter_bytes = how.parameter_bytes});
  auto kernels = fused_for_gpu(p, target, how.slices).kernels;
  series<series<std::size_t>> groups;
  if (how.launches) groups = engine::detail::launches_of(kernels, p.hints, target);
  else
    for (std::size_t k = 0; k < kernels.size(); ++k) groups.push_back({k});
  printed_kernels out;
  for (const auto& group : groups) {
    series<plan::kernel> code;
    for (const auto k : group) code.push_back(kernels[k]);
    const auto fit = engine::detail::fit_for({code.data(), code.size()}, p.hints, target);
    series<const plan::kernel*> parts;
    std::string schedules;
    for (auto& k : code) {
      if (how.open) k.fit = fit;
      parts.push_back(&k);
      // Of kernels that are alike the first tells it all.
      if (parts.size() == 1 || plan::form_of(k) != plan::form_of(code[0])) schedules += plan::text_of(k);
    }
    auto s = engine::emit::cuda({parts.data(), parts.size()}, target);
    schedules += s.schedule;
    std::string text = first_line(s.texts[0]);
    for (const auto& l : s.launches)
      text += "// " + l.entry + ": " + l.blocks.text() + " blocks of " + std::to_string(l.threads) + " threads\n";
    for (const auto& t : s.texts) text += without_places(t, t.rfind("namespace sx {\nextern"));
    out.add(text, schedules);
    for (auto& t : s.texts) out.whole.push_back(std::move(t));
  }
  return out;
}

using matrix = tensor<float, 2>;
using vec = tensor<float, 1>;
using cube = tensor<float, 3>;
using labels = tensor<std::int64_t, 1>;
template <class T>
using images = tensor<T, 4>;

matrix m(std::int64_t rows, std::int64_t columns) { return zeros<float>(rows, columns); }
vec v(std::int64_t n) { return zeros<float>(n); }
labels i(std::int64_t n) { return zeros<std::int64_t>(n); }

constexpr printed_for open_sizes{.open = true}, tensor_cores{.host = false, .tf32 = true};

// Programs of several rows.

program bias_gelu(tracing as) {
  return as([](matrix x, vec b) { return gelu(x + b); }, m(256, 512), v(512));
}
program softmax_of_rows(tracing as) {
  return as([](matrix x) { return softmax(x); }, m(128, 100));
}
program softmax_of_columns(tracing as) {
  return as([](matrix x) { return softmax<0>(x); }, m(300, 1100));
}
program layer_norm_gradient(tracing as) {
  const auto f = [](matrix x, vec g, vec b, matrix w) {
    return value_and_grad([](std::tuple<matrix, vec, vec> p, matrix w) {
      return sum(layer_norm(std::get<0>(p), std::get<1>(p), std::get<2>(p)) * w);
    })(std::tuple{x, g, b}, w);
  };
  return as(f, m(128, 100), v(100), v(100), m(128, 100));
}
program column_sum(tracing as) {
  return as([](matrix x) { return sum(x, axis<0>); }, m(4096, 64));
}
program full_sum(tracing as) {
  return as([](matrix x) { return sum(x); }, m(1000, 300));
}
program few_rows(tracing as) {
  return as([](matrix x) { return std::pair{sum(x, axis<1>), max(x, axis<1>)}; }, m(3, 1 << 18));
}
program transpose_add(tracing as) {
  return as([](matrix x) { return x + transpose(x); }, m(200, 200));
}
program matmul_bias_relu(tracing as) {
  return as([](matrix x, matrix w, vec b) { return relu(matmul(x, w) + b); }, m(64, 48), m(48, 80), v(80));
}
program masked_product(tracing as) {
  return as([](matrix d, matrix w, matrix a) { return where(a > 0.f, matmul(d, transpose(w)), 0.f); }, m(1024, 10),
            m(512, 10), m(1024, 512));
}
template <class T>
program narrow_product(tracing as) {
  using half = tensor<T, 2>;
  return as([](half x, half w) { return relu(matmul(x, w)); }, half(zeros<T>(256, 512)), half(zeros<T>(512, 384)));
}
program batched_product(tracing as) {
  return as([](cube a, cube b) { return exp(matmul(a, b)); }, cube(zeros<float>(12, 64, 48)),
            cube(zeros<float>(12, 48, 80)));
}
program convolution(tracing as) {
  return as([](images<float> x, images<float> w) { return relu(conv2d(x, w, {.padding = same})); },
            images<float>(zeros<float>(8, 16, 14, 14)), images<float>(zeros<float>(32, 16, 3, 3)));
}
template <class T>
program causal_attention(tracing as) {
  using heads = images<T>;
  const heads x = zeros<T>(2, 4, 64, 32);
  return as([](heads q, heads k, heads v) { return attention(q, k, v, causal); }, x, x, x);
}
program product_and_softmax(tracing as) {
  return as([](matrix x, matrix w, vec b) { return softmax(matmul(x, w) + b); }, m(1024, 512), m(512, 10), v(10));
}
program classifier_loss(tracing as) {
  const auto f = [](matrix x, matrix w, vec b, labels y) {
    return value_and_grad([&](const matrix& s) { return cross_entropy(s + b, y); })(matmul(x, w));
  };
  return as(f, m(1024, 512), m(512, 10), v(10), i(1024));
}
program update_by_product(tracing as) {
  return as([](matrix w, matrix x, matrix d) { return w - 0.01f * matmul(transpose(x), d); }, m(64, 64), m(4096, 64),
            m(4096, 64));
}
program updates(tracing as) {
  const auto f = [](std::vector<vec> p, std::vector<vec> g, tensor<float, 0> t) {
    const auto first = tree_map([](auto p, auto g) { return 0.9f * p + 0.1f * g; }, p, g);
    const auto next = tree_map([&](auto p, auto m) { return p - 0.001f * m / (1.f - pow(0.9f, t)); }, p, first);
    return std::pair{next, first};
  };
  std::vector<vec> p, g;
  for (int n = 0; n < 40; ++n) p.push_back(v(100 + 37 * n)), g.push_back(v(100 + 37 * n));
  return as(f, p, g, tensor<float, 0>(1.f));
}
program four_sums(tracing as) {
  const auto f = [](std::vector<matrix> x) { return tree_map([](const matrix& a) { return sum(a, axis<1>); }, x); };
  return as(f, std::vector<matrix>(4, m(64, 96)));
}
program heat(tracing as) {
  const auto f = [](matrix u) {
    const matrix p = pad(u, {{1, 1}, {1, 1}}), middle = slice<0>(p, 1, -1);
    const matrix columns = slice<1>(p, 1, -1);
    return matrix(u + 0.1f * (slice<0>(columns, 0, -2) + slice<0>(columns, 2) + slice<1>(middle, 0, -2) +
                              slice<1>(middle, 2) - 4.f * u));
  };
  return as(f, m(1024, 1024));
}
program embedding(tracing as) {
  return as([](matrix table, labels i) { return take(table, i); }, m(50, 32), i(20));
}
program scatter_sum(tracing as) {
  return as([](matrix table, labels i, matrix u) { return scatter_add(table, i, u); }, m(50, 32), i(20), m(20, 32));
}
program scatter_last(tracing as) {
  return as([](matrix table, labels i, matrix u) { return scatter_set(table, i, u); }, m(50, 32), i(20), m(20, 32));
}
program counts(tracing as) {
  return as([](labels i) { return bincount(i, {.size = 100}); }, i(600000));
}
program running_sums(tracing as) {
  return as([](matrix x) { return std::pair{cumsum(x * 2.f), cumsum<0>(x)}; }, m(40, 300));
}
program order_of_rows(tracing as) {
  return as([](matrix x) { return argsort(x * 2.f); }, m(40, 100));
}
program sorted_row(tracing as) {
  return as([](vec x) { return sort(x); }, v(100000));
}
program best_of_rows(tracing as) {
  return as([](matrix x) { return topk(x, 10); }, m(30, 1000));
}
program places_in(tracing as) {
  return as([](vec sorted, vec x) { return searchsorted(sorted, x); }, v(1000), v(500));
}
program greatest_of_rows(tracing as) {
  return as([](matrix x) { return argmax(x, axis<1>); }, m(128, 1000));
}
program greatest_of_columns(tracing as) {
  return as([](matrix x) { return argmax(x, axis<0>); }, m(128, 1000));
}

const row table[] = {
    {"bias_gelu", "bias and gelu are one pass over the matrix", bias_gelu, {}},
    {"softmax", "softmax is three passes over each row", softmax_of_rows, {}},
    {"odd_rows",
     "rows between products begin at multiples of 16 bytes on a GPU, whose vectors have a tail",
     [](tracing as) {
       return as([](matrix x, matrix w, matrix v) { return matmul(softmax(matmul(x, w) * 0.125f), v); }, m(512, 64),
                 m(64, 257), m(257, 16));
     },
     {}},
    {"softmax_columns", "softmax of columns is three passes down a block of them", softmax_of_columns, {}},
    {"layer_norm",
     "layer_norm is three passes over each row",
     [](tracing as) {
       return as([](matrix x, vec g, vec b) { return layer_norm(x, g, b); }, m(128, 100), v(100), v(100));
     },
     {}},
    {"layer_norm_gradient",
     "layer_norm with its gradients, in which sums along rows and columns meet",
     layer_norm_gradient,
     {}},
    {"rmsnorm_residual",
     "rms_norm after a residual sum",
     [](tracing as) {
       const auto f = [](matrix x, matrix r, vec g) {
         const matrix h = x + r;
         return std::pair{h, rms_norm(h, g)};
       };
       return as(f, m(128, 256), m(128, 256), v(256));
     },
     {}},
    {"cross_entropy_gradient",
     "cross_entropy with its gradient",
     [](tracing as) {
       const auto f = [](matrix x, labels y) {
         return value_and_grad([](matrix x, labels y) { return cross_entropy(x, y); })(x, y);
       };
       return as(f, m(64, 10), i(64));
     },
     {}},
    {"huber_gradient",
     "a loss of all elements and its gradient, which is as large",
     [](tracing as) {
       const auto f = [](matrix x, matrix y) {
         return value_and_grad([&](const matrix& x) {
           const auto e = abs(x - y);
           return mean(where(e < 1.f, 0.5f * e * e, e - 0.5f));
         })(x);
       };
       return as(f, m(2048, 2048), m(2048, 2048));
     },
     {}},
    {"column_sum", "sums of columns run in chunks of rows", column_sum, {}},
    {"full_sum", "the sum of everything runs in blocks", full_sum, {}},
    {"few_rows", "a GPU's blocks share each of few long rows", few_rows, {}},
    {"transpose_add", "a matrix plus its transpose", transpose_add, {}},
    {"matmul_bias_relu", "a product takes bias and relu along", matmul_bias_relu, {}},
    {"masked_product_tf32", "a product of few terms on tensor cores takes a mask along", masked_product, tensor_cores},
    {"product_f16", "a product of f16 adds in f32", narrow_product<f16>, {}},
    {"product_bf16", "a product of bf16 adds in f32", narrow_product<bf16>, {}},
    {"batched_product", "twelve products in one kernel", batched_product, {}},
    {"convolution", "a convolution is a product over windows", convolution, {}},
    {"convolution_tf32", "a convolution on tensor cores", convolution, tensor_cores},
    {"convolution_gradients",
     "the gradients of a convolution's image and weights",
     [](tracing as) {
       const auto f = [](images<float> x, images<float> w, images<float> ct) {
         return value_and_grad([&](const std::pair<images<float>, images<float>>& p) {
                  return sum(conv2d(p.first, p.second, {.padding = same}) * ct);
                })(std::pair{x, w})
             .second;
       };
       const auto image = [](std::int64_t channels) { return images<float>(zeros<float>(8, channels, 14, 14)); };
       return as(f, image(16), images<float>(zeros<float>(32, 16, 3, 3)), image(32));
     },
     {}},
    {"attention", "causal attention: a product, a softmax and a product", causal_attention<float>, {}},
    {"attention_bf16", "attention of bf16, whose softmax is in f32", causal_attention<bf16>, {}},
    {"follow",
     "a narrow product's blocks go on with the rows that they made",
     product_and_softmax,
     {.host = false, .tf32 = true, .launches = true}},
    {"follow_sums",
     "a kernel with sums over the rows follows a narrow product",
     classifier_loss,
     {.host = false, .tf32 = true, .launches = true}},
    {"slices",
     "a product of many terms and few tiles in slices, which its reader adds up",
     update_by_product,
     {.host = false, .slices = true}},
    {"adam",
     "an Adam step is one kernel that reads four and writes three",
     [](tracing as) {
       const auto f = [](vec p, vec g, vec first, vec second, tensor<float, 0> t) {
         const vec a = 0.9f * first + 0.1f * g, b = 0.999f * second + 0.001f * g * g;
         const auto down = 1.f - pow(0.9f, t), under = 1.f - pow(0.999f, t);
         return std::tuple{vec(p - 0.001f * (a / down) / (sqrt(b / under) + 1e-8f)), a, b};
       };
       return as(f, v(5000), v(5000), v(5000), v(5000), tensor<float, 0>(1.f));
     },
     {}},
    {"many_updates",
     "Adam steps of forty parameters are one launch of one body",
     updates,
     {.host = false, .launches = true}},
    {"more_updates",
     "the same with a table in memory, as where there are more of them",
     updates,
     {.host = false, .launches = true, .parameter_bytes = 1000}},
    {"four_sums", "four kernels of one shape are one launch", four_sums, {.host = false, .launches = true}},
    {"heat", "a step of the heat equation reads five places, four of them where they are inside", heat, {}},
    {"rotated_halves",
     "halves of rows, rotated",
     [](tracing as) {
       const auto f = [](matrix x, matrix c, matrix s) {
         const matrix turned = concat<1>(matrix(-slice<1>(x, 64)), matrix(slice<1>(x, 0, 64)));
         return matrix(x * c + turned * s);
       };
       return as(f, m(256, 128), m(256, 128), m(256, 128));
     },
     {}},
    {"embedding", "rows of a table", embedding, {}},
    {"scatter_add", "rows added to a table", scatter_sum, {}},
    {"scatter_add_in_order", "rows added to a table in order", scatter_sum, {.host = false, .deterministic = true}},
    {"scatter_set", "rows of a table replaced in order", scatter_last, {}},
    {"block_sums", "counts of few labels: each block adds up by itself", counts, {}},
    {"cumprod_gradient",
     "derivatives of running products, of which a scan has factors",
     [](tracing as) {
       const auto f = [](matrix x, matrix w) {
         const auto along_rows = grad([&](matrix a) { return sum(cumprod(a) * w); })(x);
         return std::pair{along_rows, grad([&](matrix a) { return sum(cumprod<0>(a) * w); })(x)};
       };
       return as(f, m(40, 300), m(40, 300));
     },
     {}},
    {"cumsum", "running sums along rows and along columns", running_sums, {}},
    {"argsort", "the order of short rows", order_of_rows, {}},
    {"sort", "a long row is sorted in tiles, which are merged", sorted_row, {}},
    {"topk", "the best of each row", best_of_rows, {}},
    {"search", "places in a sorted row", places_in, {}},
    {"argmax", "the greatest of each row", greatest_of_rows, {}},
    {"argmax_columns", "the greatest of each column", greatest_of_columns, {}},

    // Open sizes
    {"open/bias_gelu", "one pass over a matrix of any size", bias_gelu, open_sizes},
    {"open/softmax", "rows of which the longest is known", softmax_of_rows, open_sizes},
    {"open/softmax_columns", "columns of any length", softmax_of_columns, open_sizes},
    {"open/few_rows", "few rows too long for registers", few_rows, open_sizes},
    {"open/layer_norm_gradient", "rows and columns of any length", layer_norm_gradient, open_sizes},
    {"open/column_sum", "sums of columns of any length", column_sum, open_sizes},
    {"open/full_sum", "the sum of everything of any size", full_sum, open_sizes},
    {"open/transpose_add", "squares of any size are transposed", transpose_add, open_sizes},
    {"open/matmul_bias_relu", "a product of any size", matmul_bias_relu, open_sizes},
    {"open/masked_product_tf32",
     "tensor cores multiply matrices of any size",
     masked_product,
     {.host = false, .open = true, .tf32 = true}},
    {"open/product_f16", "a product of f16 of any size", narrow_product<f16>, open_sizes},
    {"open/product_bf16", "a product of bf16 of any size", narrow_product<bf16>, open_sizes},
    {"open/batched_product", "any number of products of any size", batched_product, open_sizes},
    {"open/convolution", "windows of images of any size", convolution, open_sizes},
    {"open/attention", "attention of any number of places", causal_attention<float>, open_sizes},
    {"open/follow",
     "a softmax follows a product that is narrow in the traced call",
     product_and_softmax,
     {.host = false, .open = true, .tf32 = true, .launches = true}},
    {"open/follow_sums",
     "sums over the rows of a product that is narrow in the traced call",
     classifier_loss,
     {.host = false, .open = true, .tf32 = true, .launches = true}},
    {"open/many_updates",
     "updates of open sizes are one launch of one body",
     updates,
     {.host = false, .open = true, .launches = true}},
    {"open/four_sums", "kernels of one open shape", four_sums, {.host = false, .open = true, .launches = true}},
    {"open/heat", "a stencil on a grid of any size", heat, open_sizes},
    {"open/embedding", "rows of a table of any size", embedding, open_sizes},
    {"open/scatter_add", "any number of rows added to a table of any size", scatter_sum, open_sizes},
    {"open/scatter_set", "any number of rows replaced in order", scatter_last, open_sizes},
    {"open/block_sums", "counts of any number of labels", counts, open_sizes},
    {"open/cumsum", "running sums of any length", running_sums, open_sizes},
    {"open/argsort", "the order of rows of any length", order_of_rows, open_sizes},
    {"open/sort", "a long row of any length", sorted_row, open_sizes},
    {"open/search", "places in a sorted row of any length", places_in, open_sizes},
    {"open/argmax", "the greatest of rows of any length", greatest_of_rows, open_sizes},
    {"open/slices",
     "a product of many terms of any number in slices",
     update_by_product,
     {.host = false, .open = true, .slices = true}},
};

void compare(const std::string& name, const printed_kernels& got) {
  compare(name, got.text);
  compare(name + ".schedule", got.schedule);
}

/// Ends the process as skipped where there is none.
const gate::nvrtc& compiler() {
  static const gate::nvrtc one;
  if (one.present()) return one;
  std::fputs("SKIPPED: no libnvrtc was found (SINTER_TEST_NVRTC names one); golden CUDA was not compiled\n", stderr);
  std::_Exit(emulator::skipped);
}

}  // namespace

TEST_CASE("texts and schedules are the golden ones") {
  for (const row& r : table) {
    INFO(std::string(r.name), ": ", std::string(r.what));
    const tracing as{r.target.open};
    if (r.target.host) compare(r.name, on_host(r.make(as)));
    if (r.target.gpu) compare(std::string("cuda/") + r.name, on_gpu(r.make(as), r.target));
  }
}

TEST_CASE("NVRTC compiles each golden CUDA text") {
  for (const row& r : table) {
    if (!r.target.gpu) continue;
    for (const auto& text : on_gpu(r.make({r.target.open}), r.target).whole)
      for (const int capability : {80, 90}) {
        const auto v = compiler().judge(text, capability);
        CHECK_MESSAGE(v.compiled, std::string(r.name) << ", sm_" << capability << ": " << v.log);
      }
  }
}

TEST_CASE("each golden file belongs to a row") {
  std::set<std::string> expected, found;
  for (const row& r : table)
    for (const char* end : {".txt", ".schedule.txt"}) {
      if (r.target.host) expected.insert(std::string(r.name) + end);
      if (r.target.gpu) expected.insert(std::string("cuda/") + r.name + end);
    }
  // Texts of trees: cpu/walk_test.cpp, cuda/nvrtc_tiles_test.cpp.
  for (const char* name :
       {"cpu_product", "cpu_product_epilogue", "cpu_attention", "cpu_attention_back", "cpu_attention_back_keys"})
    expected.insert("trees/" + std::string(name) + ".txt");
  for (const char* name : {"product", "attention", "attention_back_queries", "attention_back_keys"})
    for (const char* by : {"tiles_", "groups_"}) expected.insert("cuda/" + std::string(by) + name + ".txt");
  const std::filesystem::path folder = test_paths::data + "/golden";
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder))
    // Trees have no kernels (plan/loops/golden_test.cpp).
    if (file.is_regular_file() && file.path().parent_path().filename() != "schedules")
      found.insert(std::filesystem::relative(file.path(), folder).generic_string());
  for (const auto& name : found) CHECK_MESSAGE(expected.count(name) == 1, "tests/golden/" << name << " is of no row");
  CHECK(found.size() == expected.size());
}
