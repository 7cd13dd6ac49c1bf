// CUDA text: what index maps, extents, alignments and options make of a kernel.
#include <doctest/doctest.h>

#include <sinter/ir/define.hpp>

#include <array>

#include "gpu_graphs.hpp"
#include "nvrtc_gate.hpp"

using namespace sinter;
using namespace graphs;

namespace {

bool has(const std::string& text, std::string_view what) { return text.find(what) != std::string::npos; }

/// The only kernel of some outputs, and its text.
struct one {
  kernel code;
  engine::emit::cuda_source source;
  std::string text;
};

one only(std::initializer_list<value> outputs, gpu_facts how = {}) {
  auto c = gpu_kernels(outputs, how);
  REQUIRE(c.sources.size() == 1);
  return {c.kernels[0], c.sources[0], entries(c.sources[0])};
}

one with_memory(graph& g, const memory_map& m) {
  auto kernels = fuse(g, m, gpu_target()).kernels;
  REQUIRE(kernels.size() == 1);
  const auto s = engine::emit::cuda(kernels[0], gpu_target());
  return {kernels[0], s, entries(s)};
}

void check_compiles(const one& o) {
  static const gate::nvrtc compiler;
  if (!compiler.present()) return;
  for (const std::string& text : o.source.texts) {
    const auto v = compiler.judge(text, 90);
    CHECK_MESSAGE(v.compiled, v.log << o.text);
  }
}

std::int64_t blocks(const one& o, std::size_t launch = 0) { return o.source.launches.at(launch).blocks.evaluate({}); }

}  // namespace

TEST_CASE("indices are 32-bit where they fit, 64-bit where they may not") {
  graph g;
  const auto small = only({exp(input(g, {1000, 1000}))});
  CHECK(has(small.text, "const int i0"));
  CHECK(!has(small.text, "long i0"));
  graph h;
  const auto large = only({input(h, {5'000'000'000}) * 2.0});
  CHECK(has(large.text, "const long i0"));
  CHECK(blocks(large) * large.source.launches[0].threads * 4 * 4 >= 5'000'000'000);
  check_compiles(large);
  graph strided;  // few elements, far apart
  const value x = input(strided, {1000, 1000});
  strided.outputs = {(x * 2.0).id()};
  memory_map m;
  m.strides.resize(strided.size());
  m.strides[x.id()] = {4'000'000, 1};
  CHECK(has(with_memory(strided, m).text, "const long i0"));
  graph symbols;
  const value y{symbols, symbols.add_input(dtype::f32, {ir::dim::symbol(0), 64})};
  const auto c = gpu_kernels({exp(y)}, {}, {100});
  CHECK(has(entries(c.sources[0]), "const long i0"));
  CHECK(has(entries(c.sources[0]), "char* scratch, long size0)"));
  graph rows;
  check_compiles(only({sum(input(rows, {3'000'000, 1000}), {1})}));
  graph columns;
  check_compiles(only({sum(input(columns, {3'000'000, 1000}), {0})}));
}

TEST_CASE("a kernel's first words await earlier grids, and no others of it do") {
  const auto check = [](const engine::emit::cuda_source& s) {
    for (const std::string& text : s.texts) {
      const std::size_t body = text.find(" {\n", text.find("__global__"));
      CHECK_MESSAGE(text.compare(body, 20, " {\n  await_grids();\n") == 0, text.substr(body, 40));
      CHECK(text.find("await_grids();", body + 20) == text.npos);
    }
    return s.texts.size();
  };
  graph g;
  CHECK(check(only({exp(input(g, {1000, 1000}))}).source) == 1);
  graph walked;
  CHECK(check(only({sum(input(walked, {40'000'000'000, 100}, dtype::u8), {1})}).source) == 1);
  graph rows;
  CHECK(check(only({sum(input(rows, {4, 1 << 20}), {1})}).source) == 2);
  graph columns;
  CHECK(check(only({sum(input(columns, {100000, 64}), {0})}).source) == 2);
}

TEST_CASE("a product's rows may lie far apart") {
  graph g;
  const value a = input(g, {8192, 100}), b = input(g, {100, 64});
  ir::attributes one_of_k;
  one_of_k.ints = {0, 1};
  const value y{g, g.push(op::dot, {a.id(), b.id()}, one_of_k)};
  g.outputs = {y.id()};
  memory_map m;
  m.strides.resize(g.size());
  m.strides[a.id()] = {50'000'000, 1};
  const auto kernels = fuse(g, m, gpu_target({.blas = false})).kernels;
  const auto s = engine::emit::cuda(kernels.at(0), gpu_target({.tf32 = true}));
  const one o{kernels[0], s, entries(s)};
  CHECK(has(o.text, "multiply_tf32"));
  CHECK(has(o.text, "from_a + i*(16l*50000000)"));
  check_compiles(o);
}

TEST_CASE("products of few terms on tensor cores") {
  for (const std::int64_t terms : {2, 3, 4, 5, 8, 9}) {
    CAPTURE(terms);
    graph g;
    const value a = input(g, {512, terms}), b = input(g, {terms, 512});
    ir::attributes one_of_k;
    one_of_k.ints = {0, 1};
    const value y{g, g.push(op::dot, {a.id(), b.id()}, one_of_k)};
    g.outputs = {y.id()};
    memory_map m;
    m.strides.resize(g.size());
    const auto kernels = fuse(g, m, gpu_target({.blas = false})).kernels;
    const auto s = engine::emit::cuda(kernels.at(0), gpu_target({.capability = 90, .tf32 = true}));
    const one o{kernels[0], s, entries(s)};
    CHECK(has(o.text, "multiply_tf32"));
    check_compiles(o);
  }
}

TEST_CASE("a grid that is too large is walked") {
  graph g;
  const std::int64_t rows = 40'000'000'000;
  const auto o = only({sum(input(g, {rows, 100}, dtype::u8), {1})});
  CHECK(blocks(o) == engine::emit::max_blocks);
  CHECK(has(o.text, "for (long block = blockIdx.x; block < "));
  check_compiles(o);
}

TEST_CASE("nothing is launched for no elements, but what is stored all the same") {
  graph g;
  CHECK(blocks(only({exp(input(g, {0, 7}))})) == 0);
  graph h;
  CHECK(blocks(only({sum(input(h, {0, 7}), {0, 1})})) == 1);
  graph k;
  const auto columns = only({sum(input(k, {0, 7}), {0})});
  CHECK(columns.source.launches.size() == 1);
  CHECK(blocks(columns) == 1);
  graph r;
  CHECK(blocks(only({sum(input(r, {5, 0}), {1})})) >= 1);
}

TEST_CASE("sums of few columns take one launch, unless rows are stored that others wait for") {
  graph sums, rows;
  CHECK(only({sum(input(sums, {1024, 512}) * 2.0, {0})}).source.launches.size() == 1);
  const value x = input(rows, {1024, 512}) * 2.0;
  const auto both = only({x, sum(x, {0})});
  REQUIRE(both.source.launches.size() == 2);
  CHECK(blocks(both) >= 128);
  check_compiles(both);
}

TEST_CASE("16 bytes at a time, where addresses, strides and extents are multiples") {
  graph g;
  CHECK(has(only({input(g, {1024}) * 2.0}).text, "load<4>"));
  graph h;
  CHECK(has(only({input(h, {4096}, dtype::bf16) * 2.0}).text, "load<8>"));
  graph d;
  CHECK(has(only({input(d, {1024}, dtype::f64) * 2.0}).text, "load<2>"));
  graph odd;  // the last elements apart
  const auto rest = only({input(odd, {1023}) * 2.0});
  CHECK(has(rest.text, "load<4>"));
  CHECK(has(rest.text, "for (int e = "));
  graph rows;  // 1023 to a row, broadcast columns: no row but the first is aligned
  const value x = input(rows, {64, 1023}), b = input(rows, {1023});
  CHECK(!has(only({with_columns(x, b)}).text, "<4>"));
  for (const std::int64_t alignment : {4, 8, 16}) {
    graph a;
    const value y = input(a, {1024});
    a.outputs = {(y * 2.0).id()};
    memory_map m;
    m.strides.resize(a.size());
    m.alignment.assign(a.size(), 0);
    m.alignment[y.id()] = alignment;
    const auto o = with_memory(a, m);
    CHECK(has(o.text, alignment == 16 ? "= load<4>(p0" : "= load_strided<4>(p0"));
    check_compiles(o);
  }
}

TEST_CASE("what is large and read once passes by the caches, unless as much is written") {
  graph sums, copy, rows, few;
  CHECK(has(only({sum(input(sums, {1 << 26}), {0})}).text, "load_once<4>"));
  CHECK(has(only({sum(input(rows, {1 << 14, 1 << 12}), {1})}).text, "load_once<4>"));
  CHECK(!has(only({input(copy, {1 << 26}) * 2.0}).text, "_once"));
  CHECK(!has(only({sum(input(few, {1 << 20}), {0})}).text, "_once"));
}

TEST_CASE("a slice that starts in the middle of 16 bytes is read by elements") {
  graph g;
  const value x = input(g, {64, 128});
  const auto o = only({slice(x, {64, 64}, {0, 1}, {1, 1}) * slice(x, {64, 64}, {0, 4}, {1, 1})});
  CHECK(has(o.text, "load_strided<4>"));
  CHECK(has(o.text, "load<4>"));
}

TEST_CASE("numbers by value are parameters") {
  graph g;
  const value x = input(g, {1024}), s = input(g, {});
  g.outputs = {(x * broadcast(reshape(s, {1}), {1024})).id()};
  memory_map m;
  m.strides.resize(g.size());
  m.by_value.assign(g.size(), 0);
  m.by_value[s.id()] = 1;
  const auto o = with_memory(g, m);
  CHECK(has(o.text, "const t_f32 p1, "));
  check_compiles(o);
}

TEST_CASE("rows: threads of a row by its length") {
  auto threads = [](std::int64_t rows, std::int64_t columns) {
    graph g;
    const auto o = only({softmax(input(g, {rows, columns}))});
    check_compiles(o);
    return o.source.launches[0].threads;
  };
  CHECK(threads(100000, 8) == 256);  // two threads a row, many rows a block
  CHECK(threads(8192, 4096) == 512);
  CHECK(threads(8192, 16384) == 1024);
  graph g;
  const auto looped = only({softmax(input(g, {512, 200000}))});
  CHECK(has(looped.text, "for (unsigned z = lane; z < "));
  CHECK(looped.source.launches.size() == 1);
}

TEST_CASE("windows of which neighbours follow each other are a thread's each") {
  graph g;
  const value x = ir::reshape(input(g, {4096, 112, 112}), {4096, 56, 2, 56, 2});
  const auto pooled = only({ir::reduce(x, op::maximum, {2, 4})});
  CHECK(blocks(pooled) * pooled.source.launches[0].threads == 4096 * 56 * 56);
  CHECK(!has(pooled.text, "group_all"));
  check_compiles(pooled);
}

TEST_CASE("columns: a few rows in one launch, many in parts that a second one adds") {
  graph g;
  const auto small = only({sum(input(g, {1024, 512}), {0})});
  CHECK(small.source.launches.size() == 1);
  // Sectors of 32 bytes: 16 blocks of whole lines would leave most of the GPU idle.
  CHECK(blocks(small) == 64);
  CHECK(small.source.scratch.is(0));
  check_compiles(small);
  graph h;
  const auto large = only({sum(input(h, {65536, 1024}), {0})});
  CHECK(large.source.launches.size() == 2);
  CHECK(blocks(large) == 528);
  // A middle axis: lines of 128 bytes, and as many blocks as do without a second launch.
  graph m;
  const auto middle = only({sum(input(m, {64, 1024, 1024}), {1})});
  CHECK(middle.source.launches.size() == 1);
  CHECK(middle.source.launches[0].threads == 256);
  CHECK(blocks(middle) == 512);
  // As many sums as a kernel has, of vectors of eight and of doubles: their meeting place is a block's 48 KiB at most.
  for (const bool doubles : {false, true}) {
    graph many;
    const dtype type = doubles ? dtype::f64 : dtype::f32;
    const value x = cast(input(many, {8192, 1024}, dtype::bf16), type),
                y = cast(input(many, {8192, 1024}, dtype::bf16), type);
    std::vector<value> sums;
    for (const value& v : {x, y, x * y, x * x, y * y, x + y, x - y, x * 2.0})
      sums.push_back(cast(sum(v, {0}), dtype::bf16));
    check_compiles(only({sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]}));
  }
}

TEST_CASE("a norm's backward pass copies its rows ahead into shared memory where there is such a copy") {
  const auto norm = [](std::int64_t columns, int capability, dtype type = dtype::f32) {
    graph g;
    const value x = input(g, {8192, columns}, type), w = input(g, {8192, columns}, type),
                gain = input(g, {columns}, type), bias = input(g, {columns}, type);
    const auto all = layer_norm_and_gradient(x, gain, bias, w);
    gpu_facts how;
    how.capability = capability;
    auto c = gpu_kernels({all[1], all[2], all[3]}, how);
    REQUIRE(c.sources.size() == 1);
    one o{c.kernels[0], c.sources[0], entries(c.sources[0])};
    if (capability == 90) check_compiles(o);
    return o;
  };
  const auto h200 = norm(4096, 90), a100 = norm(4096, 80), old = norm(4096, 75), odd = norm(1023, 90);
  CHECK(has(h200.text, "copy_async("));
  CHECK(has(a100.text, "copy_async("));
  CHECK(h200.source.launches[0].shared <= 224 << 10);
  CHECK(a100.source.launches[0].shared <= 160 << 10);
  CHECK(h200.source.launches[0].shared >= 2 * 2 * 4096 * 4);
  for (const auto* o : {&old, &odd}) {
    CHECK(!has(o->text, "copy_async("));
    CHECK(o->source.launches[0].shared == 0);
  }
  CHECK(has(norm(256, 90).text, "copy_async("));
  // What each of the two entries touches: the last one none of the operands.
  const auto& touches = h200.source.launches[1].touches;
  REQUIRE(touches.size() == h200.code.buffers.size());
  for (std::size_t b = 0; b < touches.size(); ++b) {
    const bool written = h200.code.buffers[b].written;
    if (!written) CHECK(!touches[b]);
    CHECK((touches[b] || h200.source.launches[0].touches[b]));
    if (written) CHECK(touches[b] != h200.source.launches[0].touches[b]);
  }
}

TEST_CASE("open rows: in registers as far as sizes are known to reach, in a loop otherwise") {
  graph g;
  const auto c = gpu_kernels({softmax(input(g, {ir::dim::symbol(0), ir::dim::symbol(1) * 16}))}, {}, {8192, 256});
  REQUIRE(c.kernels.size() == 1);
  CHECK(has(entries(c.sources[0]), "for (long z = lane; "));
  kernel k = c.kernels[0];
  const auto printed = [&](std::int64_t rows, std::int64_t sixteenths) {
    k.fit = engine::plan::fit_of(engine::plan::with_sizes(c.kernels[0], std::array{rows, sixteenths}));
    const auto s = engine::emit::cuda(k, gpu_target());
    const one o{k, s, entries(s)};
    check_compiles(o);
    return o;
  };
  const auto held = printed(8192, 256);
  CHECK(k.fit.longest == 4096);
  CHECK(!has(held.text, "for (unsigned z = lane; "));
  CHECK(!has(held.text, "f < "));  // rows of just that length have no end to ask for
  const auto shorter = printed(8192, 255);
  CHECK(k.fit.longest == 4096);
  CHECK(has(shorter.text, "f < "));
  graph numbers;
  CHECK(held.source.launches[0].threads == only({softmax(input(numbers, {8192, 4096}))}).source.launches[0].threads);
  CHECK(shorter.source.launches[0].threads == held.source.launches[0].threads);
  CHECK(printed(8192, 129).text == shorter.text);
  CHECK(printed(8192, 128).text != held.text);
  const auto wide = printed(std::int64_t{1} << 30, 256);
  CHECK(k.fit.longest == 4096);
  CHECK(has(wide.text, "const long r = block;"));
  const auto looped = printed(3, 1 << 16);
  CHECK(k.fit.longest == 0);
  CHECK(has(looped.text, "for (unsigned z = lane; "));
}

TEST_CASE("few long rows are split, and finished by a second launch") {
  graph g;
  const auto o = only({sum(input(g, {4, 1 << 22}), {1})});
  CHECK(o.source.launches.size() == 2);
  CHECK(blocks(o) >= 132);
  CHECK(o.source.scratch.evaluate({}) >= blocks(o) * 4);
  CHECK(o.source.launches[1].entry == engine::finish_entry);
  REQUIRE(o.source.texts.size() == 2);  // compiled side by side
  for (std::size_t k = 0; k < 2; ++k) {
    CHECK(has(o.source.texts[k], o.source.launches[k].entry + "("));
    CHECK(!has(o.source.texts[k], o.source.launches[1 - k].entry + "("));
  }
  graph h;
  const auto index = [&] {
    ir::attributes how;
    how.ints = {0};
    how.combiner = op::maximum;
    const value x = input(h, {1 << 22});
    return value{h, h.push(op::arg_reduce, {x.id()}, how)};
  }();
  const auto arg = only({index});
  CHECK(arg.source.launches.size() == 2);
  check_compiles(arg);
}

TEST_CASE("scans: a block for a row, for 32 rows that are neighbours, or a thread for a short one") {
  const auto scan = [](shape extents, std::int64_t axis, bool factors, dtype type) {
    graph g;
    const value x = input(g, extents, type), f = input(g, std::move(extents), type);
    ir::attributes attr;
    attr.combiner = op::add;
    attr.ints = {axis, 0};
    std::vector<ir::node_id> in{x.id()};
    if (factors) in.push_back(f.id());
    const one o = only({value{g, g.push(op::scan, in, attr)}});
    check_compiles(o);
    return std::pair{o.source.launches[0].threads, blocks(o)};
  };
  for (const bool factors : {false, true})
    for (const dtype type : {dtype::f32, dtype::f64, dtype::f16}) {
      CHECK(scan({300, 4096}, 1, factors, type) == std::pair{256, std::int64_t{300}});
      CHECK(scan({8192, 100}, 0, factors, type) == std::pair{1024, std::int64_t{4}});
      CHECK(scan({5, 20, 64}, 1, factors, type).second == 10);
      CHECK(scan({10, 100}, 0, factors, type) == std::pair{128, std::int64_t{1}});
    }
}

TEST_CASE("scatter_add: atomic, or in order") {
  for (const bool deterministic : {false, true}) {
    graph g;
    const value base = input(g, {50, 32}), index = input(g, {20, 32}, dtype::i64), updates = input(g, {20, 32});
    gpu_facts how;
    how.deterministic = deterministic;
    const auto c = gpu_kernels({scatter_add(base, index, updates, 0)}, how);
    const std::string last = entries(c.sources.back());
    CHECK(has(last, "atomic_add(") == !deterministic);
    CHECK(has(last, "< (s_u64)(50)"));
  }
  // Rows of floats: four at once. Of doubles, and where rows are not multiples of 16 bytes: one by one.
  const auto rows = [](std::int64_t columns, dtype type) {
    graph g;
    const value base = input(g, {50, columns}, type), index = expand(input(g, {20}, dtype::i64), {1}, {20, columns});
    const auto c = gpu_kernels({scatter_add(base, index, input(g, {20, columns}, type), 0)});
    check_compiles({c.kernels.back(), c.sources.back(), entries(c.sources.back())});
    return entries(c.sources.back());
  };
  CHECK(has(rows(32, dtype::f32), "pack<4, t_f32> y0"));
  CHECK(!has(rows(32, dtype::f32), " + l, "));
  CHECK(has(rows(32, dtype::f64), " + l, "));
  CHECK(has(rows(31, dtype::f32), "atomic_add("));
  CHECK(!has(rows(31, dtype::f32), "pack<4"));
}

TEST_CASE("scatter_add: into few elements each block adds up by itself") {
  const auto text = [](std::int64_t updates, std::int64_t columns, std::int64_t rows, dtype type,
                       ir::op with = ir::op::add) {
    graph g;
    const value base = input(g, {rows, columns}, type),
                index = expand(input(g, {updates}, dtype::i64), {1}, {updates, columns}),
                x = input(g, {updates, columns}, type);
    const auto c =
        gpu_kernels({with == ir::op::add ? scatter_add(base, index, x, 0) : scatter(base, index, x, with, 0)});
    check_compiles({c.kernels.back(), c.sources.back(), entries(c.sources.back())});
    return entries(c.sources.back());
  };
  for (const dtype type : {dtype::f32, dtype::f64, dtype::i64, dtype::f16, dtype::u8})
    CHECK(has(text(1000000, 1, 100, type), "sums[e]"));
  CHECK(has(text(100000, 32, 10, dtype::f32), "atomic_add(sums + "));
  CHECK(has(text(100000, 32, 10, dtype::f32), "y0.e[e]"));
  // Few updates, many elements, and what is not added.
  CHECK(!has(text(1000, 1, 1000, dtype::f32), "sums["));
  CHECK(!has(text(1000000, 1, 10000, dtype::f32), "sums["));
  CHECK(!has(text(1000000, 1, 100, dtype::f32, ir::op::maximum), "sums["));
}

TEST_CASE("launches that kernels share") {
  graph g;
  const value a = input(g, {1000}), b = input(g, {300, 40}), c = input(g, {77}, dtype::f64);
  g.outputs = {(a * 2.0).id(), exp(b).id(), (c + c).id(), sum(exp(a), {0}).id()};
  memory_map m;
  m.strides.resize(g.size());
  const auto fused = fuse(g, m, gpu_target());
  const auto groups = horizontal(fused.kernels);
  std::size_t largest = 0;
  std::vector<char> seen(fused.kernels.size());
  for (const auto& group : groups) {
    largest = std::max(largest, group.size());
    for (auto k : group) CHECK(seen[k]++ == 0);
    if (group.size() < 2) continue;
    std::vector<const kernel*> all;
    std::size_t buffers = 0;
    for (auto k : group) all.push_back(&fused.kernels[k]), buffers += fused.kernels[k].buffers.size();
    const auto s = engine::emit::cuda(all, gpu_target());
    CHECK(s.launches.size() == 1);
    CHECK(has(s.texts[0], "p" + std::to_string(buffers - 1) + ", char* scratch)"));
    CHECK(!has(s.texts[0], "p" + std::to_string(buffers) + ","));
  }
  CHECK(largest >= 2);
  CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(seen.size()));
}

TEST_CASE("what depends on another kernel runs in a later group") {
  graph g;
  const value x = input(g, {100}), y = input(g, {100, 100});
  const value s = sum(x, {0});
  g.outputs = {(y * broadcast(reshape(s, {1, 1}), {100, 100})).id(), (y + 1.0).id()};
  memory_map m;
  m.strides.resize(g.size());
  const auto fused = fuse(g, m, gpu_target());
  std::set<int> written;
  for (auto id : g.inputs) written.insert(static_cast<int>(id));
  for (const auto& group : horizontal(fused.kernels)) {
    for (auto k : group)
      for (const auto& b : fused.kernels[k].buffers) CHECK((b.written || written.count(b.id) == 1));
    for (auto k : group)
      for (const auto& b : fused.kernels[k].buffers)
        if (b.written) written.insert(b.id);
  }
}

TEST_CASE("places are in #line alone, and labels stay in their comment") {
  graph g, h;
  const value x{g, g.add_input(dtype::f32, {64}, {"a.cpp", 3})}, y{h, h.add_input(dtype::f32, {64}, {"b\"\n.cpp", 9})};
  const auto here = only({exp(x)}), there = only({exp(y)});
  CHECK(here.text == there.text);
  CHECK(!has(there.source.texts[0], "b\"\n"));
  auto k = here.code;
  k.label = "x */ ? \\\n#error injected\n// \\";
  CHECK(!has(engine::emit::cuda(k, gpu_target()).texts[0], "\n#error"));
}

TEST_CASE("the prelude has what the kernel calls, and no more") {
  graph g, h;
  const auto plain = only({input(g, {64}) + 1.0}), math = only({sum(exp(input(h, {64, 64})), {1})});
  CHECK(!has(plain.source.texts[0], engine::emit::prelude_cuda_math));
  CHECK(!has(plain.source.texts[0], engine::emit::prelude_cuda_reduce));
  CHECK(has(math.source.texts[0], engine::emit::prelude_cuda_math));
  CHECK(has(math.source.texts[0], engine::emit::prelude_cuda_reduce));
  CHECK(!has(plain.source.texts[0], "#include"));
}
