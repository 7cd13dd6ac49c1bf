// The text of CPU kernels: self-contained, deterministic, and safe whatever names it is given.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sinter/emit/cpu/kernel.hpp>
#include <sinter/ir/define.hpp>
#include <sinter/ir/value.hpp>
#include <sinter/plan/fusion/fuse.hpp>
#include <sinter/run/build/build.hpp>
#include <sinter/run/host/program.hpp>
#include <string>
#include <vector>

#include "../../stack_arrays.hpp"

using namespace sinter;
using ir::op;
using ir::value;

namespace {

std::vector<engine::plan::kernel> kernels(const ir::graph& g, std::vector<std::int64_t> hints = {}) {
  engine::plan::memory_map m;
  m.strides.resize(g.size());
  m.hints = std::move(hints);
  return engine::plan::fuse(g, m).kernels;
}

std::vector<std::string> texts(const ir::graph& g) {
  std::vector<std::string> out;
  for (const auto& k : kernels(g)) out.push_back(engine::emit::cpu(k).text);
  return out;
}

/// The text of the only kernel.
std::string source_of(const ir::graph& g) {
  const auto all = texts(g);
  REQUIRE(all.size() == 1);
  return all[0];
}

/// What the kernel itself is, behind the prelude.
std::string body(const std::string& text) { return text.substr(text.find("extern \"C\" void sinter_kernel")); }

std::string without_lines(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1);
    if (text.compare(at, 5, "#line") != 0) out += text.substr(at, end - at + 1);
    at = end + 1;
  }
  return out;
}

value input(ir::graph& g, ir::shape s, location where = {}) {
  return {g, g.add_input(dtype::f32, std::move(s), where), where};
}

/// softmax(x @ w + b) and its column sums, from a place.
ir::graph sample(location where) {
  ir::graph g;
  const value x = input(g, {30, 40}, where), w = input(g, {40, 50}, where), b = input(g, {50}, where);
  const value y = dot(x, w, 0, 1) + expand(b, {0}, {30, 50});
  const value e = exp(y - expand(reduce(y, op::maximum, {1}), {1}, {30, 50}));
  const value p = e / expand(reduce(e, op::add, {1}), {1}, {30, 50});
  g.outputs = {p.id(), reduce(p, op::add, {0}).id()};
  return g;
}

ir::graph single(const char* file) {
  ir::graph g;
  g.outputs = {exp(input(g, {20}, {file, 7})).id()};
  return g;
}

}  // namespace

TEST_CASE("a kernel includes nothing") {
  for (const auto& t : texts(sample({"a.cpp", 3}))) CHECK(t.find("#include") == std::string::npos);
}

TEST_CASE("the same graph gives the same text") { CHECK(texts(sample({"a.cpp", 3})) == texts(sample({"a.cpp", 3}))); }

TEST_CASE("places are in #line alone") {
  const auto here = texts(sample({"a.cpp", 3})), there = texts(sample({"other/b.cpp", 99})),
             nowhere = texts(sample({}));
  REQUIRE(here.size() == there.size());
  REQUIRE(here.size() == nowhere.size());
  bool differ = false;
  for (std::size_t k = 0; k < here.size(); ++k) {
    differ = differ || here[k] != there[k];
    CHECK(without_lines(here[k]) == without_lines(there[k]));
    CHECK(without_lines(here[k]) == without_lines(nowhere[k]));
    CHECK(nowhere[k].find("#line") == std::string::npos);
  }
  CHECK(differ);
}

TEST_CASE("a file's name cannot leave its quotes") {
  const std::string t = source_of(single("a\"b\\c\nd\r.cpp"));
  CHECK(t.find("#line 7 \"a\\\"b\\\\cd.cpp\"\n") != std::string::npos);
  CHECK(engine::run::build(std::vector<std::string>{t}).size() == 1);
  const std::string evil = source_of(single("x.cpp\"\n#error injected\n\""));
  CHECK(engine::run::build(std::vector<std::string>{evil}).size() == 1);
  CHECK(evil.find("\n#error") == std::string::npos);
}

TEST_CASE("a label cannot leave its comment") {
  auto k = kernels(single("a.cpp")).at(0);
  CHECK(k.label == "exp");
  k.label = "x */ ? \\\n#error injected\n// \\";
  const std::string t = engine::emit::cpu(k).text;
  const std::string first = t.substr(0, t.find('\n'));
  CHECK(first.find('\\') == std::string::npos);
  CHECK(first.find('?') == std::string::npos);
  CHECK(first.find("injected") != std::string::npos);
  CHECK(t.find("\n#error") == std::string::npos);
  CHECK(t.substr(first.size()) ==
        engine::emit::cpu(kernels(single("a.cpp")).at(0)).text.substr(std::string("// exp").size()));
}

TEST_CASE("labels name the ops") {
  ir::graph g;
  const value x = input(g, {30, 40});
  g.outputs = {reduce(exp(x) + x, op::add, {1}).id()};
  CHECK(kernels(g).at(0).label == "exp add reduce_add");
  ir::graph h;
  const value y = input(h, {3, 4});
  h.outputs = {permute(y, {1, 0}).id()};
  CHECK(kernels(h).at(0).label == "copy");
}

TEST_CASE("literals are read back as they were") {
  using engine::emit::literal;
  CHECK(literal(dtype::b8, {0, 1}) == "true");
  CHECK(literal(dtype::i64, {0, INT64_MIN}) == "(-9223372036854775807l - 1)");
  CHECK(literal(dtype::i32, {0, INT32_MIN}) == "-2147483648");
  CHECK(literal(dtype::u64, {0, -1}) == "18446744073709551615ul");
  CHECK(literal(dtype::f32, {0.1, 0}) == "0.1f");
  CHECK(literal(dtype::f32, {2, 0}) == "2.0f");
  CHECK(literal(dtype::f64, {0.1, 0}) == "0.1");
  CHECK(literal(dtype::f64, {-1e300, 0}).find("e+300") != std::string::npos);
  CHECK(literal(dtype::f32, {1e300, 0}) == "__builtin_inff()");
  CHECK(literal(dtype::f64, {-__builtin_inf(), 0}) == "-__builtin_inf()");
  CHECK(literal(dtype::bf16, {__builtin_nan(""), 0}) == "__builtin_nanf(\"\")");
  CHECK(std::strtod(literal(dtype::f64, {5e-324, 0}).c_str(), nullptr) == 5e-324);
  CHECK(literal(dtype::f64, {-0.0, 0}) == "-0.0");
}

TEST_CASE("operands replace whole words only") {
  using engine::emit::substitute;
  CHECK(substitute("a + b", {"v1", "v2"}, "") == "v1 + v2");
  CHECK(substitute("atan2(a, b)", {"x", "y"}, "") == "atan2(x, y)");
  CHECK(substitute("convert<R>(a)", {"c"}, "v_f32") == "convert<v_f32>(c)");
  CHECK(substitute("select(a, b, c)", {"b", "c", "a"}, "") == "select(b, c, a)");
}

TEST_CASE("indices are one expression, whatever the multipliers are") {
  using ir::dim;
  const dim s = dim::symbol(0);
  CHECK(engine::emit::scaled(dim(1), "i0") == "i0");
  CHECK(engine::emit::scaled(dim(-3), "i0") == "i0*(-3)");
  CHECK(engine::emit::scaled(s * dim(2) + dim(1), "i0") == "i0*(s0*2 + 1)");
  engine::plan::affine a{s + dim(3), {s, dim(0), dim(1)}, {}, -1};
  CHECK(engine::emit::index_text(a, [](std::size_t) { return true; }) == "i0*(s0) + i2 + (s0 + 3)");
  CHECK(engine::emit::index_text(a, [](std::size_t axis) { return axis == 2; }) == "i2 + (s0 + 3)");
  CHECK(engine::emit::index_text(engine::plan::affine{0, {0}, {}, -1}, [](std::size_t) { return true; }) == "0");
}

TEST_CASE("the prelude has what the kernel calls, and no more") {
  auto has = [](const std::string& t, std::string_view piece) { return t.find(piece) != std::string::npos; };
  ir::graph g;
  const value x = input(g, {64}), y = input(g, {64});
  g.outputs = {(x + y).id()};
  const std::string plain = source_of(g);
  CHECK(has(plain, engine::emit::prelude_core));
  CHECK(has(plain, engine::emit::prelude_memory));
  CHECK(!has(plain, engine::emit::prelude_math));
  CHECK(!has(plain, engine::emit::prelude_fold));
  CHECK(!has(plain, engine::emit::prelude_gemm));
  ir::graph h;
  const value z = input(h, {64});
  h.outputs = {reduce(exp(z), op::add, {0}).id()};
  CHECK(has(source_of(h), engine::emit::prelude_math));
  CHECK(has(source_of(h), engine::emit::prelude_fold));
  CHECK(!engine::emit::calls("my_exp(x) exp2(x) expx", "exp"));
  CHECK(engine::emit::calls("1 + exp(x)", "exp"));
}

TEST_CASE("double kernels have half the lanes") {
  ir::graph g, h;
  g.outputs = {exp(input(g, {64})).id()};
  const value x{h, h.add_input(dtype::f64, {64})};
  h.outputs = {exp(x).id()};
  CHECK(source_of(g).find("#define SINTER_W (64 / 4)") != std::string::npos);
  CHECK(source_of(h).find("#define SINTER_W (64 / 8)") != std::string::npos);
}

// g++ would take minutes to choose where their addresses are kept.
TEST_CASE("many loads of elements apart are calls") {
  const auto columns = [](std::int64_t count) {
    ir::graph g;
    const value x = input(g, {650, 49});
    value total;
    for (std::int64_t k = 0; k < count; ++k) {
      const value one = exp(reshape(slice(x, {650, 1}, {0, k}, {1, 1}), {650}));
      total = total ? total + one : one;
    }
    g.outputs = {total.id()};
    const std::string all = source_of(g);
    return all.substr(all.find("void sinter_kernel"));
  };
  CHECK(columns(4).find("load_strided(") != std::string::npos);
  CHECK(columns(4).find("load_strided_apart(") == std::string::npos);
  CHECK(columns(40).find("load_strided_apart(") != std::string::npos);
  CHECK(columns(40).find("load_strided(") == std::string::npos);  // the rest of fewer lanes, too
}

TEST_CASE("many guarded loads of elements apart are calls") {
  // Windows over a padded image of channels last, turned to channels first: lanes are places of the image, a row of channels apart.
  const auto stencil = [](std::int64_t taps) {
    ir::graph g;
    const value x = permute(pad(input(g, {32, 32, 48}), {taps, 0, 0}, {taps, 0, 0}, 0.0), {2, 1, 0});
    value total;
    for (std::int64_t k = 0; k < taps; ++k) {
      const value one = slice(x, {48, 32, 32}, {0, 0, 2 * k}, {1, 1, 1});
      total = total ? total + one : one;
    }
    g.outputs = {total.id()};
    const std::string all = source_of(g);
    return all.substr(all.find("void sinter_kernel"));
  };
  CHECK(stencil(3).find("_apart(") == std::string::npos);
  CHECK(stencil(24).find("_apart(") != std::string::npos);
  CHECK(stencil(24).find("load_where(") == std::string::npos);
  CHECK(stencil(24).find("load_strided(") == std::string::npos);
}

TEST_CASE("sizes are read once, and symbolic loops have a rest") {
  ir::graph g;
  const value x{g, g.add_input(dtype::f32, {ir::dim::symbol(0), ir::dim::symbol(1)})};
  g.outputs = {exp(x).id()};
  const auto k = kernels(g, {7, 9});
  REQUIRE(k.size() == 1);
  const std::string t = body(engine::emit::cpu(k[0]).text);
  CHECK(t.find("const long s0 = sizes[0];") != std::string::npos);
  CHECK(t.find("const long s1 = sizes[1];") != std::string::npos);
  CHECK(t.find("const long n = ") != std::string::npos);
}

TEST_CASE("open rows are kept, and turned in tiles, as rows of the traced call's length are") {
  ir::graph g;
  const value x{g, g.add_input(dtype::f32, {ir::dim::symbol(0), ir::dim::symbol(1)})};
  const value e = exp(x);
  g.outputs = {(e / broadcast(reshape(reduce(e, op::add, {1}), {ir::dim::symbol(0), 1}), x.extents())).id()};
  const auto text_for = [](const ir::graph& of, std::initializer_list<std::int64_t> hints) {
    const auto k = kernels(of, hints);
    REQUIRE(k.size() == 1);
    return body(engine::emit::cpu(k[0]).text);
  };
  const auto has = [](const std::string& t, const std::string& what) { return t.find(what) != std::string::npos; };
  // 128 KiB of the thread's memory at most; a longer row computes again.
  const std::string kept = text_for(g, {100, 500});
  CHECK(has(kept, "(mine + "));
  CHECK(has(kept, " <= 32768)"));
  CHECK(!has(text_for(g, {100, 50000}), "(mine + "));
  ir::graph h;
  const value y{h, h.add_input(dtype::f32, {ir::dim::symbol(0), ir::dim::symbol(1)})};
  h.outputs = {(permute(y, {1, 0}) * 2.0).id()};
  CHECK(has(text_for(h, {100, 500}), "transpose("));
  CHECK(has(text_for(h, {100, 3}), "load_strided("));
}

namespace {

/// softmax along the rows of an f32 matrix.
ir::graph softmax(ir::dim rows, ir::dim columns) {
  ir::graph g;
  const ir::shape s{rows, columns};
  const value x = input(g, s), e = exp(x - expand(reduce(x, op::maximum, {1}), {1}, s));
  g.outputs = {(e / expand(reduce(e, op::add, {1}), {1}, s)).id()};
  return g;
}

}  // namespace

TEST_CASE("rows to come are asked for where operands are loaded for the last time, by kernels that compute meanwhile") {
  const auto count = [](const std::string& t, const std::string& what) {
    int n = 0;
    for (auto at = t.find(what); at != std::string::npos; at = t.find(what, at + 1)) ++n;
    return n;
  };
  // Of its three passes the second loads last.
  const std::string three = body(source_of(softmax(4096, 1024))),
                    ask = "ahead<131072>(p0 + (i0*1024 + i1), 1024, 1024);";
  CHECK(count(three, ask) > 0);
  CHECK(count(three, "ahead<") == count(three, ask));
  CHECK(three.find(ask) > three.find("fold_maximum("));
  CHECK(three.rfind(ask) < three.find("fold_add("));
  CHECK(count(body(source_of(softmax(64, 64))), "ahead<") == 0);
  const auto once = [&](auto of) {
    ir::graph g;
    const value x = input(g, {4096, 1024}), b = expand(input(g, {1024}), {0}, {4096, 1024});
    g.outputs = {of(x, b).id()};
    return body(source_of(g));
  };
  const std::string costly = once([](value x, value b) { return exp(x + b); });
  CHECK(count(costly, "ahead<8192>(p0 + (i0*1024 + i1), 1024, 1024);") == 1);
  CHECK(count(costly, "ahead<") == 1);  // not for what all rows share
  CHECK(count(once([](value x, value b) { return x + b; }), "ahead<") == 0);
  ir::graph g;
  g.outputs = {exp(input(g, {4096 * 1024})).id()};
  CHECK(count(body(source_of(g)), "ahead<8192>(p0 + (i0), 0, 4194304);") == 1);
}

TEST_CASE("whole tiles have loops of a known length, and ask for the next where operands are large") {
  const auto turned = [](ir::dim rows, ir::dim columns, std::initializer_list<std::int64_t> hints = {}) {
    ir::graph g;
    const value x = input(g, {rows, columns}), b = input(g, {columns, rows});
    g.outputs = {(permute(x, {1, 0}) + b).id()};
    const auto k = kernels(g, hints);
    REQUIRE(k.size() == 1);
    return body(engine::emit::cpu(k[0]).text);
  };
  const auto has = [](const std::string& t, const std::string& what) { return t.find(what) != std::string::npos; };
  const std::string large = turned(4096, 1024);
  CHECK(has(large, "for (long l = 0; l < SINTER_W; ++l)"));
  CHECK(has(large, "for (long i0 = q; i0 < q + SINTER_W; ++i0)"));
  CHECK(has(large, "__builtin_prefetch(p0 + (i1*1024 + q + l*(1024)) + SINTER_W*(1024))"));
  CHECK(has(large, "__builtin_prefetch(p1 + (i0*4096 + i1) + SINTER_W)"));
  CHECK(!has(large, ", n)"));  // has no other tiles
  CHECK(has(turned(4096, 1000), ", n)"));
  CHECK(!has(turned(64, 64), "prefetch"));
  ir::graph alone;
  alone.outputs = {(permute(input(alone, {4096, 1024}), {1, 0}) * 2.0).id()};
  CHECK(!has(body(source_of(alone)), "prefetch"));
  alone.outputs = {exp(permute(input(alone, {4096, 1024}), {1, 0})).id()};
  CHECK(has(body(source_of(alone)), "prefetch"));
  CHECK(has(turned(ir::dim::symbol(0), ir::dim::symbol(1), {4096, 1024}), "__builtin_prefetch("));
}

TEST_CASE("a thread waits once for what it wrote past the caches") {
  const auto k = kernels(softmax(4096, 1024));
  REQUIRE(k.size() == 1);
  const std::string text = engine::emit::cpu(k[0]).text, t = body(text);
  CHECK(t.find("#pragma omp parallel\n") != std::string::npos);
  CHECK(t.find("#pragma omp for schedule(static) nowait\n") != std::string::npos);
  CHECK(t.find("store_stream(") < t.find("stream_end();"));
  CHECK(t.find("\n    stream_end();\n  }\n}\n") != std::string::npos);
  CHECK(t.find("stream_end();") == t.rfind("stream_end();"));
  const auto made = engine::run::build(std::vector<std::string>{text});
  auto* entry = made[0].entry();
  struct alignas(64) line {
    float at[16];
  };
  static line in[4096 * 64], out[4096 * 64];
  for (std::size_t i = 0; i < 4096 * 64; ++i)
    for (std::size_t l = 0; l < 16; ++l) in[i].at[l] = static_cast<float>((i * 16 + l) % 1009 % 7);
  std::vector<void*> buffers;
  for (const auto& b : k[0].buffers) buffers.push_back(b.written ? out : in);
  entry(buffers.data(), nullptr, nullptr);
  double worst = 0;
  for (std::size_t r = 0; r < 4096; ++r) {
    double sum = 0;
    for (std::size_t i = r * 64; i < r * 64 + 64; ++i)
      for (const float x : in[i].at) sum += std::exp(static_cast<double>(x));
    for (std::size_t i = r * 64; i < r * 64 + 64; ++i)
      for (std::size_t l = 0; l < 16; ++l)
        worst = std::max(worst, std::fabs(out[i].at[l] * sum / std::exp(static_cast<double>(in[i].at[l])) - 1));
  }
  CHECK(worst < 1e-5);
}

TEST_CASE("a kernel runs on what it is given") {
  ir::graph g;
  const value x = input(g, {3, 5});
  g.outputs = {reduce(x * x, op::add, {1}).id()};
  const auto k = kernels(g);
  REQUIRE(k.size() == 1);
  const auto made = engine::run::build(std::vector<std::string>{engine::emit::cpu(k[0]).text});
  auto* entry = made[0].entry();
  std::vector<float> in(15), out(3);
  for (std::size_t i = 0; i < 15; ++i) in[i] = static_cast<float>(i);
  std::vector<void*> buffers;
  for (const auto& b : k[0].buffers) buffers.push_back(b.written ? out.data() : in.data());
  entry(buffers.data(), nullptr, nullptr);
  CHECK(out == std::vector<float>{30, 255, 730});
}

namespace {

/// Bytes of 0xff that end where unreadable memory begins.
class bytes_at_end {
 public:
  explicit bytes_at_end(std::size_t bytes) : bytes_((bytes + 63) / 64 * 64), room_((bytes_ + page - 1) / page * page) {
    base_ =
        static_cast<char*>(::mmap(nullptr, room_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    ::mprotect(base_ + room_, page, PROT_NONE);
    std::memset(data(), 0xff, bytes_);
  }
  bytes_at_end(const bytes_at_end&) = delete;
  bytes_at_end& operator=(const bytes_at_end&) = delete;
  ~bytes_at_end() { ::munmap(base_, room_ + page); }
  char* data() const { return base_ + room_ - bytes_; }

 private:
  static constexpr std::size_t page = 65536;
  std::size_t bytes_, room_;
  char* base_ = nullptr;
};

/// A product whose operands may lie the other way, with an epilogue that reads an array of its extents, if it should.
struct product_case {
  std::int64_t m, n, k;
  bool turned_a, turned_b, streams;
  std::int64_t batch = 1;
};

ir::graph graph_of(const product_case& c, bool open) {
  ir::graph g;
  const auto extent = [&](std::int64_t x, int symbol) { return open ? ir::dim::symbol(symbol) : ir::dim(x); };
  const ir::dim m = extent(c.m, 0), n = extent(c.n, 1), k = extent(c.k, 2);
  const auto operand = [&](const ir::dim& rows, const ir::dim& columns, bool turned) {
    const value x = input(g, turned ? ir::shape{c.batch, columns, rows} : ir::shape{c.batch, rows, columns});
    return turned ? permute(x, {0, 2, 1}) : x;
  };
  const value a = operand(m, k, c.turned_a), b = operand(k, n, c.turned_b), y = dot(a, b, 1, 1);
  g.outputs = {(c.streams ? y + input(g, {c.batch, m, n}) : y).id()};
  return g;
}

/// Runs the one kernel in memory of exactly the planned size; whole numbers are summed exactly.
void check_in_planned_memory(const product_case& c, bool open, const engine::plan::kernel& k,
                             const engine::emit::source& s, engine::run::kernel_function* entry) {
  CAPTURE(c.m);
  CAPTURE(c.n);
  CAPTURE(c.k);
  CAPTURE(open);
  const std::vector<std::int64_t> sizes = open ? std::vector{c.m, c.n, c.k} : std::vector<std::int64_t>{};
  const auto whole = [](std::int64_t count, unsigned seed) {
    std::vector<float> v;
    for (std::int64_t i = 0; i < count; ++i)
      v.push_back(static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 29) - 3);
    return v;
  };
  const auto a = whole(c.batch * c.m * c.k, 1), b = whole(c.batch * c.k * c.n, 2), e = whole(c.batch * c.m * c.n, 3);
  std::vector<float> out(e.size(), -1e9f);
  std::vector<void*> buffers;
  for (const auto& u : k.buffers)  // inputs are the first nodes, in order
    buffers.push_back(u.written ? out.data()
                                : const_cast<float*>((u.id == 0                      ? a
                                                      : u.id == (c.turned_a ? 2 : 1) ? b
                                                                                     : e)
                                                         .data()));
  constexpr std::int64_t threads = 3;
  const bytes_at_end memory(static_cast<std::size_t>(s.scratch.bytes(sizes, threads)));
  const long header[] = {static_cast<long>(s.scratch.threads(sizes, threads)),
                         static_cast<long>(s.scratch.of_thread(sizes))};
  if (s.scratch.by_thread()) std::memcpy(memory.data(), header, sizeof(header));
  entry(buffers.data(), memory.data(), reinterpret_cast<const long*>(sizes.data()));
  long wrong = 0;
  for (std::int64_t t = 0; t < c.batch; ++t)
    for (std::int64_t i = 0; i < c.m; ++i)
      for (std::int64_t j = 0; j < c.n; ++j) {
        float sum = c.streams ? e[static_cast<std::size_t>((t * c.m + i) * c.n + j)] : 0;
        for (std::int64_t d = 0; d < c.k; ++d)
          sum += a[static_cast<std::size_t>(t * c.m * c.k + (c.turned_a ? d * c.m + i : i * c.k + d))] *
                 b[static_cast<std::size_t>(t * c.n * c.k + (c.turned_b ? j * c.k + d : d * c.n + j))];
        wrong += out[static_cast<std::size_t>((t * c.m + i) * c.n + j)] != sum;
      }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("products find room in the memory that is planned for them") {
  const std::vector<product_case> cases{{40, 70, 300, true, false, false},      {150, 1100, 300, false, false, true},
                                        {200, 300, 520, false, true, true},     {137, 1300, 70, true, false, true},
                                        {5, 400, 90, false, true, false},       {3, 300, 400, false, false, true},
                                        {17, 33, 5, true, true, false},         {20, 30, 270, false, true, true, 20},
                                        {2, 2, 2, false, false, false, 4096},   {9, 144, 512, false, false, false, 20},
                                        {9, 144, 480, false, false, false, 64}, {3, 5, 70, false, true, false, 64},
                                        {1, 300, 70, false, true, true},        {300, 1, 600, false, false, false},
                                        {49, 260, 288, false, true, true},      {100, 300, 700, true, true, false},
                                        {9, 700, 260, false, true, true, 3}};
  std::vector<std::string> texts;
  std::vector<engine::plan::kernel> made;
  std::vector<engine::emit::source> sources;
  for (const auto& c : cases)
    for (const bool open : {false, true}) {
      const auto k = kernels(graph_of(c, open), open ? std::vector{c.m, c.n, c.k} : std::vector<std::int64_t>{});
      REQUIRE(k.size() == 1);
      made.push_back(k[0]);
      sources.push_back(engine::emit::cpu(k[0]));
      texts.push_back(sources.back().text);
      CHECK(sources.back().text.find("malloc") == std::string::npos);
    }
  const auto built = engine::run::build(texts);
  for (std::size_t i = 0; i < made.size(); ++i)
    check_in_planned_memory(cases[i / 2], i % 2 == 1, made[i], sources[i], built[i].entry());
}

TEST_CASE("of few rows the columns are computed as rows, where the right operand is contiguous along k") {
  const auto turned = [](const product_case& c) {
    const auto k = kernels(graph_of(c, false));
    REQUIRE(k.size() == 1);
    return body(engine::emit::cpu(k[0]).text).find("gemm<s_f32, false, true>(") != std::string::npos;
  };
  CHECK(turned({49, 512, 4608, false, true, false}));
  CHECK_FALSE(turned({49, 512, 4608, false, false, false}));
  CHECK_FALSE(turned({784, 128, 1152, false, true, false}));
  CHECK_FALSE(turned({8, 512, 4608, false, true, false}));
}

TEST_CASE("short rows of elements apart are loops of numbers") {
  const auto turned = [](std::int64_t channels) {
    ir::graph g;
    g.outputs = {permute(pad(input(g, {channels, 20, 30}), {0, 1, 1}, {0, 1, 1}, 0.0), {1, 2, 0}).id()};
    return body(source_of(g));
  };
  CHECK(turned(3).find("load_strided(") == std::string::npos);
  CHECK(turned(3).find("store1(") != std::string::npos);
  CHECK(turned(40).find("store1(") == std::string::npos);
}

TEST_CASE("a kernel says whether it may run on several threads") {
  const auto of_values = [](std::int64_t n) {
    ir::graph g;
    g.outputs = {exp(input(g, {n})).id()};
    return engine::emit::cpu(kernels(g).at(0)).scratch.parallel;
  };
  CHECK(!of_values(1000));
  CHECK(of_values(1 << 20));
  const auto of_product = [](const product_case& c) {
    return engine::emit::cpu(kernels(graph_of(c, false)).at(0)).scratch.parallel;
  };
  CHECK(!of_product({16, 16, 16, false, false, false}));
  CHECK(of_product({512, 512, 512, false, false, false}));
}

TEST_CASE("the memory of a product is bounded by the caches, and small ones take none") {
  const auto bytes = [](const product_case& c, std::int64_t threads = 1) {
    const auto k = kernels(graph_of(c, false));
    REQUIRE(k.size() == 1);
    return engine::emit::cpu(k[0]).scratch.bytes({}, threads);
  };
  CHECK(bytes({64, 80, 48, false, false, false}) == 0);
  CHECK(bytes({10, 10, 10, false, true, true}) == 0);
  CHECK(bytes({2, 6, 6, false, false, false, 4096}) == 0);
  CHECK(bytes({1, 50304, 768, false, true, false}) == 0);
  CHECK(bytes({4, 50304, 768, false, true, true}) == 0);
  CHECK(bytes({128, 50304, 768, false, true, false}) < 3 << 20);
  CHECK(bytes({128, 768, 50304, false, false, false}) < 2 << 20);
  CHECK(bytes({4096, 4096, 4096, false, false, true}) < 1 << 20);
  CHECK(bytes({1000, 1000, 1000, true, true, true}) < 10 << 20);
  CHECK(bytes({1000, 1000, 1000, true, true, true}, 8) < 16 << 20);
}

TEST_CASE("arrays on the stack are few, whatever the extents, types and operands") {
  const auto most = [](const ir::graph& g, std::vector<std::int64_t> hints = {}) {
    std::int64_t bytes = 0;
    for (const auto& k : kernels(g, hints)) bytes = std::max(bytes, stack_arrays(engine::emit::cpu(k).text));
    return bytes;
  };
  const std::int64_t allowed = 48 << 10;
  const ir::dim s = ir::dim::symbol(0), t = ir::dim::symbol(1);
  std::int64_t seen = 0;
  for (const dtype type : {dtype::f32, dtype::f64})
    for (const auto& extents : std::vector<std::pair<ir::dim, ir::dim>>{{64, 300},
                                                                        {64, 4000},
                                                                        {64, 4096},
                                                                        {16, 30000},
                                                                        {1000, 512},
                                                                        {60, 512},
                                                                        {60, 500},
                                                                        {8000, 130},
                                                                        {s, t},
                                                                        {s, 500}}) {
      const ir::dim rows = extents.first, columns = extents.second;
      CAPTURE(rows.text());
      CAPTURE(columns.text());
      const std::vector<std::int64_t> hints =
          rows.is_number() ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{700, 600};
      for (const std::int64_t axis : {0, 1}) {
        ir::graph g;
        const value x = {g, g.add_input(type, {rows, columns})};
        const auto along = [&](const value& v, op combiner) {
          return expand(reduce(v, combiner, {axis}), {axis}, {rows, columns});
        };
        const value e = exp(x - along(x, op::maximum)), y = e / along(e, op::add), z = y - along(y * sin(x), op::add);
        g.outputs = {z.id()};
        const std::int64_t one = most(g, hints);
        CHECK(one <= allowed);
        seen = std::max(seen, one);
        // Rows and columns together.
        g.outputs.push_back(reduce(exp(z) * x, op::add, {1 - axis}).id());
        CHECK(most(g, hints) <= allowed);
      }
      ir::graph g;
      value total = {g, g.add_input(type, {rows, columns})};
      for (int i = 0; i < 20; ++i) total = total * permute(value{g, g.add_input(type, {columns, rows})}, {1, 0});
      g.outputs = {total.id()};
      CHECK(most(g, hints) <= allowed);
      // As many sums and values of columns as a kernel takes.
      ir::graph h;
      const value x = {h, h.add_input(type, {rows, columns})};
      value all = x;
      for (int i = 0; i < 12; ++i) {
        const value sums = reduce(exp(x * (1.0 + i)), op::add, {0});
        all = all + expand(sqrt(sums) * (1.0 + i) + sums, {0}, {rows, columns});
      }
      h.outputs = {all.id()};
      CHECK(most(h, hints) <= allowed);
    }
  CHECK(seen > 1000);  // there are some
}

TEST_CASE("costly operations beyond some number are calls of one function each") {
  const auto chain = [](int n, dtype t) {
    ir::graph g;
    value y(g, g.add_input(t, {1000}));
    for (int i = 0; i < n; ++i) y = i % 2 ? exp(y) : ir::push(op::tanh, {y});
    g.outputs = {y.id()};
    return source_of(g);
  };
  const auto count = [](const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  for (const dtype t : {dtype::f32, dtype::f64, dtype::bf16}) {
    const std::string few = chain(32, t), many = chain(64, t), most = chain(256, t);
    CHECK(count(few, "called_") == 0);
    CHECK(count(body(many), " tanh(") == 0);
    CHECK(count(many, "noinline)) v_" + std::string(t == dtype::f64 ? "f64" : "f32") + " called_tanh_") == 1);
    CHECK(count(most, "noinline)) ") == count(many, "noinline)) "));
    CHECK(count(body(most), "called_tanh_") == 4 * count(body(many), "called_tanh_"));
  }
}
