// The schedules of kernels on blocks of threads: they cover every element once, fit the target's facts, and need no printer.
#include <doctest/doctest.h>

#include <sinter/plan/kernel/sized.hpp>
#include <sinter/plan/schedule/fit.hpp>
#include <sinter/plan/schedule/print.hpp>
#include <variant>

#include "../graphs.hpp"

using namespace graphs;

namespace {

const target gpu = gpu_target();

kernel only(std::initializer_list<value> outputs, const target& t = gpu, std::vector<std::int64_t> hints = {}) {
  graph& g = outputs.begin()->owner();
  for (const auto& v : outputs) g.outputs.push_back(v.id());
  memory_map m;
  m.strides.resize(g.size());
  m.hints = std::move(hints);
  auto kernels = fuse(g, m, t).kernels;
  REQUIRE(kernels.size() == 1);
  return kernels[0];
}

std::int64_t number(const dim& d) {
  REQUIRE(d.is_number());
  return *d.number();
}

/// A row's vectors are those of a group of threads, or a loop covers them; a launch has all rows.
void check_rows(const kernel& k, const row_shape& s, const grid& g) {
  const std::int64_t rows = number(k.extent(role::outer)), length = number(k.extent(role::inner));
  CHECK(number(s.count) * s.width >= length);
  CHECK((number(s.count) - 1) * s.width < std::max<std::int64_t>(length, 1));
  CHECK(s.in_part == (length % s.width != 0));
  if (s.held) CHECK(std::int64_t{s.group} * s.vectors >= number(s.count));
  CHECK(s.threads() <= 1024);
  CHECK(g.threads == s.threads());
  CHECK(number(g.blocks) >= s.chunks * ((rows + s.rows - 1) / s.rows));
}

}  // namespace

TEST_CASE("rows of any length are covered") {
  for (const std::int64_t rows : {0, 1, 3, 7, 128, 5000})
    for (const std::int64_t length : {1, 2, 5, 31, 32, 33, 100, 257, 1000, 4095, 4096, 50257, 300001})
      for (const dtype type : {dtype::f32, dtype::bf16, dtype::f64}) {
        if (rows * length > 400000000) continue;
        graph g;
        const kernel k = only({sum(exp(input(g, {rows, length}, type)), {1})});
        if (rows == 0) continue;
        const auto s = schedule_blocks(k, gpu);
        INFO(text_of(s));
        if (const auto* shape = std::get_if<row_shape>(&s.shape)) check_rows(k, *shape, s.launches[0]);
        else CHECK(length == 1);  // which sums nothing
      }
}

TEST_CASE("columns of any number are covered, and their parts are added up") {
  for (const std::int64_t rows : {2, 3, 100, 4096, 100003})
    for (const std::int64_t columns : {2, 3, 33, 100, 1023, 4096}) {
      graph g;
      const kernel k = only({sum(input(g, {rows, columns}), {0})});
      const auto s = schedule_blocks(k, gpu);
      INFO(text_of(s));
      const auto* shape = std::get_if<column_shape>(&s.shape);
      REQUIRE(shape != nullptr);
      CHECK(number(shape->tiles) * shape->across * shape->width >= columns);
      CHECK(shape->threads() <= 1024);
      CHECK(s.finish.has_value() == (shape->chunks > 1));
      CHECK(s.launches.size() == (shape->chunks > 1 ? 2 : 1));
      CHECK(number(s.launches[0].blocks) == number(shape->tiles) * shape->chunks);
      if (s.finish) CHECK(s.finish->parts.is(shape->chunks));
    }
}

TEST_CASE("columns of many values share a multiprocessor with fewer threads, and their blocks are one wave") {
  const auto resident_threads = [](int sums, std::int64_t columns) {
    graph g;
    const value x = cast(input(g, {100352, columns}, dtype::bf16), dtype::f32);
    for (int i = 0; i < sums; ++i) {
      const value about = input(g, {1, columns}), by = input(g, {1, columns});
      g.outputs.push_back(
          sum((x - sinter::ir::broadcast(about, x.extents())) * sinter::ir::broadcast(by, x.extents()), {0}).id());
    }
    memory_map m;
    m.strides.resize(g.size());
    const auto kernels = fuse(g, m, gpu).kernels;
    REQUIRE(kernels.size() == 1);
    CHECK_FALSE(is_heavy(kernels[0]));
    const auto s = schedule_blocks(kernels[0], gpu);
    INFO(text_of(s));
    REQUIRE(std::holds_alternative<column_shape>(s.shape));
    const grid& main = s.launches[0];
    CHECK(number(main.blocks) <= std::int64_t{main.resident} * gpu.multiprocessors);
    return main.resident * main.threads;
  };
  for (const std::int64_t columns : {64, 96, 352, 1000}) {
    INFO(columns);
    CHECK(resident_threads(1, columns) == 1024);
    CHECK(resident_threads(4, columns) == 512);
  }
}

TEST_CASE("a walk copies rows ahead into shared memory, if the target copies so, within what it has") {
  const auto norm = [](const target& t) {
    graph g;
    const value x = input(g, {8192, 4096}), w = input(g, {8192, 4096}), gain = input(g, {4096});
    const value y = softmax(x) * expand(gain, {0}, x.extents());
    return schedule_blocks(only({y * w, sum(w * y, {0})}, t), t);
  };
  for (const int capability : {75, 80, 86, 90}) {
    const target t = gpu_target({.capability = capability});
    CHECK(t.copies_async == (capability >= 80));
    const auto s = norm(t);
    INFO(text_of(s));
    const auto* walk = std::get_if<persistent_rows>(&s.shape);
    REQUIRE(walk != nullptr);
    CHECK(s.launches[0].shared <= t.shared_bytes);
    if (!t.copies_async) CHECK(walk->staged == 0);
    if (capability == 90) CHECK(walk->staged >= 2);
    CHECK(s.finish.has_value());
  }
}

TEST_CASE("pointwise kernels of any size are covered") {
  for (const std::int64_t n : {1, 3, 4, 1000, 4097, 1000003})
    for (const std::int64_t rows : {1, 5, 300}) {
      graph g;
      const value x = input(g, {rows, n}), b = input(g, {n});
      const kernel k = only({x + expand(b, {0}, x.extents())});
      const auto s = schedule_blocks(k, gpu);
      INFO(text_of(s));
      const auto* shape = std::get_if<pointwise_shape>(&s.shape);
      REQUIRE(shape != nullptr);
      const std::int64_t lanes = std::int64_t{shape->width} * shape->vectors * shape->threads;
      CHECK(number(s.launches[0].blocks) * lanes >= rows * n);
      if (!shape->rest) CHECK(number(shape->count) * shape->width >= rows * n);
      if (shape->in_part) CHECK(n % shape->width != 0);
    }
}

TEST_CASE("a scatter in order is a fact of the target") {
  for (const bool deterministic : {false, true}) {
    graph g;
    const value base = input(g, {50, 32}), index = input(g, {20, 32}, dtype::i64), updates = input(g, {20, 32});
    g.outputs = {scatter_add(base, index, updates, 0).id()};
    memory_map m;
    m.strides.resize(g.size());
    const target t = gpu_target({.deterministic = deterministic});
    const auto kernels = fuse(g, m, t).kernels;
    const auto s = schedule_blocks(kernels.back(), t);
    CHECK(std::holds_alternative<ordered_shape>(s.shape) == deterministic);
  }
}

TEST_CASE("a kernel follows a narrow product where tensor cores make whole rows") {
  const auto both = [](std::int64_t columns, const target& t) {
    graph g;
    const value x = input(g, {1024, 512}), w = input(g, {512, columns});
    g.outputs = {softmax(dot(x, w, 0, 1)).id()};
    memory_map m;
    m.strides.resize(g.size());
    const auto kernels = fuse(g, m, t).kernels;
    REQUIRE(kernels.size() == 2);
    return schedule_blocks(kernels[0], kernels[1], t);
  };
  const auto s = both(10, gpu_target({.tf32 = true}));
  REQUIRE(s.has_value());
  const auto& shape = std::get<row_epilogue>(s->shape);
  CHECK(shape.rows.row.rows == shape.product.m);
  CHECK(s->launches[0].threads == tensor_shape::threads);
  CHECK(!both(10, gpu_target()));
  CHECK(!both(100, gpu_target({.tf32 = true})));
  CHECK(!both(10, gpu_target({.capability = 75, .tf32 = true})));
}

TEST_CASE(
    "a long row is sorted by its keys' digits, and its first elements in rounds; a launch tells its pass by its "
    "blocks") {
  const auto schedule = [](std::int64_t n, std::int64_t count) {
    graph g;
    const value x = input(g, {n});
    sinter::ir::attributes how;
    how.ints = {0, 0};
    how.dims = {dim(count)};
    return schedule_blocks(only({value(g, g.push(op::argsort, {x.id()}, how), {})}), gpu);
  };
  struct row {
    std::int64_t n, count;
    sort_method method;
    int passes;
  };
  for (const row& r : {row{2048, 2048, sort_method::network, 0}, row{2049, 2049, sort_method::digits, 5},
                       row{100000, 100000, sort_method::digits, 5}, row{2048, 7, sort_method::network, 0},
                       row{2049, 256, sort_method::rounds, 2}, row{2049, 257, sort_method::digits, 5},
                       row{1000000, 10, sort_method::rounds, 2}}) {
    CAPTURE(r.n);
    CAPTURE(r.count);
    const auto s = schedule(r.n, r.count);
    const auto& shape = std::get<sort_shape>(s.shape);
    CHECK(shape.method == r.method);
    CHECK(shape.passes == r.passes);
    REQUIRE(s.launches.size() == static_cast<std::size_t>(1 + shape.passes));
    for (int pass = 1; pass < shape.passes; ++pass)
      CHECK(number(s.launches[static_cast<std::size_t>(pass) + 1].blocks) ==
            number(s.launches[static_cast<std::size_t>(pass)].blocks) + 1);
  }
}

TEST_CASE("open rows have the schedule of the longest row that their code assumes") {
  graph g;
  kernel k = only({softmax(input(g, {dim::symbol(0), dim::symbol(1) * 16}))}, gpu, {8192, 256});
  const auto loop = schedule_blocks(k, gpu);
  CHECK(!std::get<row_shape>(loop.shape).held);
  k.fit = fit_of(with_sizes(k, std::array<std::int64_t, 2>{8192, 255}));
  CHECK(k.fit.longest == 4096);
  const auto held = schedule_blocks(k, gpu);
  CHECK(std::get<row_shape>(held.shape).held);
  CHECK(text_of(held).find("s0") != std::string::npos);
}

TEST_CASE("a schedule is told in a line, and in full") {
  graph g;
  const kernel k = only({softmax(input(g, {128, 100}))});
  CHECK(outline_of(k) == "outer 128, inner 100; 3 passes");
  CHECK(text_of(k).find("  i0 outer 128\n  i1 inner 100\n  3 passes\n") != std::string::npos);
}
