// What NVRTC says of emitted CUDA: it compiles for every capability that is supported, nothing is spilled, and what should
// move 16 bytes at a time does.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <sinter/emit/cuda/factors.hpp>
#include <sinter/emit/cuda/fourier.hpp>
#include <sinter/ir/define.hpp>

#include "../../emulator/select.hpp"
#include "../../fuzz/random_graph.hpp"
#include "gpu_graphs.hpp"
#include "nvrtc_gate.hpp"

using namespace sinter;
using namespace graphs;

namespace {

/// Ends the process as skipped where there is none.
const gate::nvrtc& compiler() {
  static const gate::nvrtc one;
  if (one.present()) return one;
  std::fputs("SKIPPED: no libnvrtc was found (SINTER_TEST_NVRTC names one); emitted CUDA was not compiled\n", stderr);
  std::_Exit(emulator::skipped);
}

void check_compiles(const engine::emit::cuda_source& s, bool lean = false) {
  for (const int capability : {80, 90})
    for (const std::string& text : s.texts) {
      const auto v = compiler().judge(text, capability);
      CHECK_MESSAGE(v.compiled, "sm_" << capability << ": " << v.log << "\n" << entries(s));
      CHECK(v.binary.size() > 500);
      const bool spills = v.log.find(" 0 bytes spill stores, 0 bytes spill loads") == std::string::npos ||
                          v.log.find("0 bytes stack frame") == std::string::npos;
      if (lean) CHECK_MESSAGE(!spills, v.log << entries(s));
    }
}

void check_compile(const gpu_code& c, std::size_t kernels) {
  CHECK(c.kernels.size() == kernels);
  for (const auto& s : c.sources) check_compiles(s, true);
}

constexpr std::int64_t rows = 8192, columns = 4096;

}  // namespace

TEST_CASE("the gate lets nothing through that is no CUDA") {
  CHECK(!compiler().judge("extern \"C\" __global__ void f(float* p) { *p = undeclared; }", 90).compiled);
  CHECK(compiler().judge("extern \"C\" __global__ void f(float* p) { *p = 1; }", 90).compiled);
  const auto v = compiler().judge(
      "extern \"C\" __global__ void f(float* p, int n) { float a[64]; for (int i = 0; i < 64; ++i) a[i * n & 63] = "
      "p[i]; "
      "p[0] = a[n & 63]; }",
      90);
  CHECK(v.log.find(" 0 bytes stack frame") == std::string::npos);
}

TEST_CASE("factorisations are CUDA, and keep everything in registers") {
  for (const char* what : {"cholesky", "triangular", "lu", "qr", "eigh", "svd"}) {
    const auto v = compiler().judge(engine::emit::factor_source(what, dtype::f64, true, false), 90);
    CHECK_MESSAGE(v.compiled, what << ": " << v.log);
    CHECK_MESSAGE(v.log.find("0 bytes stack frame") != std::string::npos, what << ": " << v.log);
  }
}

TEST_CASE("Fourier transforms are CUDA, and keep everything in registers") {
  for (const dtype type : {dtype::f32, dtype::f64}) {
    const auto v = compiler().judge(engine::emit::fourier_source(type, true, 1), 90);
    CHECK_MESSAGE(v.compiled, v.log);
    CHECK_MESSAGE(v.log.find("0 bytes stack frame") != std::string::npos, v.log);
  }
}

TEST_CASE("kernels of the benchmarks keep everything in registers") {
  SUBCASE("bias and gelu") {
    graph g;
    const value x = input(g, {rows, columns}), b = input(g, {columns});
    check_compile(gpu_kernels({gelu(with_columns(x, b))}), 1);
  }
  SUBCASE("softmax") {
    graph g;
    check_compile(gpu_kernels({softmax(input(g, {rows, columns}))}), 1);
  }
  SUBCASE("residual and rms_norm") {
    graph g;
    const value x = input(g, {rows, columns}), r = input(g, {rows, columns}), w = input(g, {columns});
    const value h = x + r;
    const value scale = rsqrt(along_rows(h * h, op::add) * (1.0 / columns) + 1e-6);
    check_compile(gpu_kernels({h, h * scale * expand(w, {0}, h.extents())}), 1);
  }
  SUBCASE("layer_norm with its gradients is one kernel") {
    graph g;
    const value x = input(g, {rows, columns}), a = input(g, {columns}), b = input(g, {columns}),
                w = input(g, {rows, columns});
    const auto all = layer_norm_and_gradient(x, a, b, w);
    const auto c = gpu_kernels({all[0], all[1], all[2], all[3]});
    check_compile(c, 1);
    CHECK(c.sources[0].launches.size() == 2);
    CHECK(entries(c.sources[0]).find("__launch_bounds__(512, 1)") != std::string::npos);
  }
  SUBCASE("sums of columns") {
    graph g;
    check_compile(gpu_kernels({sum(input(g, {65536, 1024}), {0})}), 1);
  }
  SUBCASE("the sum of everything") {
    graph g;
    const std::int64_t n = 64 << 20;
    check_compile(gpu_kernels({sum(input(g, {n}) * input(g, {n}), {0})}), 1);
  }
  SUBCASE("a matrix plus its transpose") {
    graph g;
    const value x = input(g, {rows, rows}), y = input(g, {rows, rows});
    check_compile(gpu_kernels({x + permute(y, {1, 0})}), 1);
  }
  SUBCASE("halves") {
    graph g;
    check_compile(gpu_kernels({softmax(input(g, {rows, columns}, dtype::bf16))}), 1);
  }
  SUBCASE("a step of a stencil") {
    graph g;
    const value x = input(g, {rows, columns}), p = pad(x, {1, 1}, {1, 1}, 0.5);
    const auto at = [&](std::int64_t i, std::int64_t j) { return slice(p, {rows, columns}, {i, j}, {1, 1}); };
    check_compile(gpu_kernels({x + (at(0, 1) + at(2, 1) + at(1, 0) + at(1, 2) - x * 4.0) * 0.1}), 1);
  }
  SUBCASE("a product of our own") {
    graph g;
    const value a = input(g, {1024, 512}), b = input(g, {512, 2048});
    check_compile(gpu_kernels({exp(dot(a, b, 0, 1))}), 1);
  }
}

TEST_CASE("every row of the table, of every dtype that it takes") {
  constexpr dtype types[] = {dtype::b8,  dtype::i8,  dtype::i16, dtype::i32,  dtype::i64, dtype::u8, dtype::u16,
                             dtype::u32, dtype::u64, dtype::f16, dtype::bf16, dtype::f32, dtype::f64};
  for (const dtype t : types) {
    graph g;
    std::vector<node_id> out;
    for (int code = 0; code < ir::pointwise_count; ++code) {
      const op o = static_cast<op>(code);
      const auto& row = ir::row(o);
      dtype in[3] = {t, t, t}, result{};
      if (row.rule == ir::dtype_rule::selection) in[0] = dtype::b8;
      for (const dtype target : types) {
        if (ir::apply(row.rule, in, row.arity, target, result)) continue;
        std::vector<node_id> args;
        for (int a = 0; a < row.arity; ++a) args.push_back(g.add_input(in[a], {37}));
        ir::attributes how;
        how.type = target;
        out.push_back(g.push(o, args, how));
        if (!ir::names_type(row.rule)) break;
      }
    }
    // A few at a time, as a kernel has few buffers.
    for (std::size_t i = 0; i < out.size(); i += 24) {
      g.outputs.assign(out.begin() + static_cast<std::ptrdiff_t>(i),
                       out.begin() + static_cast<std::ptrdiff_t>(std::min(i + 24, out.size())));
      memory_map m;
      m.strides.resize(g.size());
      const auto fused = fuse(g, m, gpu_target());
      std::vector<const kernel*> all;
      for (const auto& k : fused.kernels) all.push_back(&k);
      const auto s = engine::emit::cuda(all, gpu_target());
      CHECK(s.launches.size() == 1);
      check_compiles(s);
    }
  }
}

TEST_CASE("sorts of short, long and open rows, and searches") {
  for (const dtype t : {dtype::f32, dtype::f64, dtype::i8, dtype::b8, dtype::u64, dtype::bf16})
    for (const ir::dim n : {ir::dim(7), ir::dim(1000), ir::dim(100000), ir::dim::symbol(0)}) {
      graph g;
      const value x{g, g.add_input(t, {40, n})};
      ir::attributes order, side;
      order.ints = side.ints = {1, t == dtype::f64};
      order.dims = {n};
      const value sorted(g, g.push(op::argsort, {x.id()}, order), {});
      const value found(g, g.push(op::searchsorted, {x.id(), x.id()}, side), {});
      const auto c = gpu_kernels({sorted, found}, {}, {100000});
      CHECK(c.kernels.size() == 2);
      for (const auto& s : c.sources) check_compiles(s, true);
      // Items, counts, and a pass for each byte of a key.
      const std::size_t launches = 2 + (size_of(t) == 8 ? 8 : 4);
      if (n.is(100000)) CHECK(std::max(c.sources[0].launches.size(), c.sources[1].launches.size()) == launches);
    }
}

TEST_CASE("16 bits compile for GPUs of before capability 8.0, which convert fewer of them") {
  for (const dtype t : {dtype::f16, dtype::bf16}) {
    graph g;
    const value x{g, g.add_input(t, {64, 65})};
    for (const auto& s : gpu_kernels({exp(x) + x, reduce(x, op::add, {1})}, {.capability = 75}).sources)
      for (const auto& text : s.texts) {
        const auto v = compiler().judge(text, 75);
        CHECK_MESSAGE(v.compiled, v.log);
      }
  }
}

TEST_CASE("updates of many parameters are one kernel that reads 16 bytes at a time, with no copy of its parameters") {
  for (const int n : {40, 480}) {
    graph g;
    for (int i = 0; i < n; ++i) {
      const ir::dim size = i % 2 ? 1000 + i : 4096;
      const value p = input(g, {size}), d = input(g, {size}), first = input(g, {size}), second = input(g, {size});
      const value a = first * 0.9 + d * 0.1, b = second * 0.999 + d * d * 0.001;
      for (const value& x : {p - a * rsqrt(b) * 0.001, a, b}) g.outputs.push_back(x.id());
    }
    memory_map m;
    m.strides.resize(g.size());
    const auto fused = fuse(g, m, gpu_target());
    const auto groups = horizontal(fused.kernels, 32764);
    REQUIRE(groups.size() == 1);
    std::vector<const kernel*> all;
    for (const auto k : groups[0]) all.push_back(&fused.kernels[k]);
    // The table is a parameter, or in memory.
    for (const std::int64_t most : {32764, 1000}) {
      const auto s = engine::emit::cuda(all, gpu_target({.parameter_bytes = most}));
      CHECK(s.table.in_memory == (most == 1000));
      CHECK(s.texts[0].find("load<4>(") != std::string::npos);
      check_compiles(s, true);
    }
  }
}

TEST_CASE("kernels of random graphs") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    std::mt19937_64 bits(seed);
    fuzz::recipe r;
    r.theme = {ir::dim(16), ir::dim(33), ir::dim(5)};
    if (seed % 3 == 0) {
      r.theme = {ir::dim::symbol(0), ir::dim::symbol(1), 3};
      r.hints = {20, 17};
    }
    fuzz::random_graph made(bits(), r);
    memory_map m;
    m.hints = r.hints;
    m.strides.resize(made.graph.size());
    gpu_facts how;
    how.deterministic = seed % 2 == 0;
    for (auto k : fuse(made.graph, m, gpu_target({.blas = false})).kernels) {
      if (!r.hints.empty()) k.fit = engine::plan::fit_of(engine::plan::with_sizes(k, r.hints));
      check_compiles(engine::emit::cuda(k, gpu_target(how)));
    }
  }
}
