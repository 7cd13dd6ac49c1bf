// Every row of ops.def in every dtype that its rule allows, compiled against the reference, on special values; every cast.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

#include "../share.hpp"
#include "walk.hpp"

using namespace sinter;

namespace {

const double inf = std::numeric_limits<double>::infinity();

/// Values that every kind of dtype has an opinion about; in integers they wrap or saturate.
const std::vector<double> interesting = {0,
                                         -0.0,
                                         1,
                                         -1,
                                         2,
                                         -2,
                                         3,
                                         7,
                                         -7,
                                         0.5,
                                         -0.5,
                                         1.5,
                                         2.5,
                                         -2.5,
                                         63,
                                         64,
                                         -64,
                                         100,
                                         127,
                                         -128,
                                         255,
                                         32767,
                                         -32768,
                                         65504,
                                         1e6,
                                         -1e6,
                                         2147483647.0,
                                         -2147483648.0,
                                         4294967295.0,
                                         9.2e18,
                                         -9.2e18,
                                         1e30,
                                         -1e30,
                                         1e-30,
                                         inf,
                                         -inf,
                                         std::nan("")};

/// Pairs of the values: operand 0 runs over the first, 1 over the second, 2 over another.
detail::handle operand(dtype type, int which) {
  const auto n = static_cast<std::int64_t>(interesting.size());
  const auto h = detail::allocate("operand", type, dims{n, n}, {});
  visit_dtype(type, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < n * n; ++i) {
      const std::int64_t k = which == 0 ? i / n : which == 1 ? i % n : (i / n + i % n) % n;
      const T x = vocabulary::convert<T>(interesting[static_cast<std::size_t>(k)]);
      std::memcpy(h.data + i * static_cast<std::int64_t>(sizeof(T)), &x, sizeof(T));
    }
  });
  return h;
}

struct result {
  std::string row;
  dtype type;
  std::vector<double> floats;
  std::vector<std::int64_t> others;
};

std::vector<result> run(const engine::tracer& t, const std::vector<std::string>& names, const std::string& backend) {
  options how;
  how.backend = backend;
  const auto placed = std::make_shared<engine::tracer>(t);
  ops::place(*placed, backend);
  const auto program = engine::build(placed, {}, how);
  REQUIRE(program->describe().backend == backend);
  std::vector<engine::output> outputs(program->output_count());
  program->run({}, {}, outputs.data());
  std::vector<result> all;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    result r{names[i], outputs[i].type, {}, {}};
    visit_dtype(r.type, [&]<class T>(std::type_identity<T>) {
      const auto memory = ops::on_host(outputs[i]);
      const T* p = static_cast<const T*>(memory.data());
      for (std::size_t k = 0; k < interesting.size() * interesting.size(); ++k) {
        if constexpr (is_float(dtype_of<T>)) r.floats.push_back(static_cast<double>(p[k]));
        else r.others.push_back(static_cast<std::int64_t>(p[k]));
      }
    });
    all.push_back(std::move(r));
  }
  return all;
}

double tolerance(dtype t) { return t == dtype::f64 ? 4e-15 : t == dtype::f32 ? 1e-6 : t == dtype::f16 ? 1e-3 : 8e-3; }

void compare(const engine::tracer& t, const std::vector<std::string>& names, const std::string& backend) {
  INFO("backend ", backend);
  const auto want = run(t, names, "reference"), got = run(t, names, backend);
  const std::size_t n = interesting.size();
  for (std::size_t i = 0; i < want.size(); ++i) {
    INFO("row ", want[i].row, " gives ", std::string(dtype_name(want[i].type)));
    std::optional<std::size_t> wrong;
    for (std::size_t k = 0; k < n * n && !wrong; ++k) {
      const bool same = is_float(want[i].type)
                            ? ops::close(got[i].floats[k], want[i].floats[k], tolerance(want[i].type))
                            : got[i].others[k] == want[i].others[k];
      if (!same) wrong = k;
    }
    if (!wrong) continue;
    const std::size_t k = *wrong;
    if (is_float(want[i].type))
      FAIL_CHECK("of ", interesting[k / n], " and ", interesting[k % n], " is ", got[i].floats[k], ", expected ",
                 want[i].floats[k]);
    else
      FAIL_CHECK("of ", interesting[k / n], " and ", interesting[k % n], " is ", got[i].others[k], ", expected ",
                 want[i].others[k]);
  }
}

void compare(const engine::tracer& t, const std::vector<std::string>& names) {
  for (const auto& backend : ops::backends())
    if (backend != "reference") compare(t, names, backend);
}

constexpr dtype all_dtypes[] = {
#define SINTER_X(name, type, kind) dtype::name,
    SINTER_DTYPES(SINTER_X)
#undef SINTER_X
};

/// The dtypes whose kernels are compiled.
std::vector<dtype> dtypes_in_turn() {
  std::vector<dtype> found;
  for (std::size_t i = 0; i < std::size(all_dtypes); ++i)
    if (in_turn(i)) found.push_back(all_dtypes[i]);
  REQUIRE(!found.empty());
  return found;
}

}  // namespace

TEST_CASE("every pointwise row in every dtype") {
  for (const dtype type : dtypes_in_turn()) {
    INFO("dtype ", std::string(dtype_name(type)));
    const auto tracer = std::make_shared<engine::tracer>();
    const engine::tracing_scope scope(tracer);
    const ir::node_id x[] = {detail::node_of(operand(type, 0), {}), detail::node_of(operand(type, 1), {}),
                             detail::node_of(operand(type, 2), {})};
    const ir::node_id condition = detail::node_of(operand(dtype::b8, 2), {});
    std::vector<std::string> names;
    for (int o = 0; o < ir::pointwise_count; ++o) {
      const auto code = static_cast<ir::op>(o);
      const auto& row = ir::row(code);
      if (ir::names_type(row.rule)) continue;
      std::vector<ir::node_id> in;
      if (row.rule == ir::dtype_rule::selection) in = {condition, x[0], x[1]};
      else in.assign(x, x + row.arity);
      std::vector<dtype> types;
      for (auto id : in) types.push_back(tracer->graph[id].type);
      dtype gives{};
      if (ir::apply(row.rule, types.data(), row.arity, type, gives)) continue;
      tracer->graph.outputs.push_back(tracer->graph.push(code, in));
      names.emplace_back(row.name);
    }
    compare(*tracer, names);
  }
}

TEST_CASE("every cast, and of equal sizes every bit_cast") {
  for (const dtype type : all_dtypes) {
    INFO("from ", std::string(dtype_name(type)));
    const auto tracer = std::make_shared<engine::tracer>();
    const engine::tracing_scope scope(tracer);
    const auto x = detail::node_of(operand(type, 0), {});
    std::vector<std::string> names;
    const auto row = [&](ir::op code, dtype to) {
      ir::attributes attr;
      attr.type = to;
      tracer->graph.outputs.push_back(tracer->graph.push(code, {x}, attr));
      names.push_back(std::string(ir::name(code)) + " to " + dtype_name(to));
    };
    for (const dtype to : all_dtypes) {
      if (to == type) continue;
      row(ir::op::cast, to);
      // Of a NaN from an operation the bits are the machine's.
      if (!is_float(type) && ir::has_own_bits(type) && ir::has_own_bits(to) && size_of(type) == size_of(to))
        row(ir::op::bit_cast, to);
    }
    compare(*tracer, names);
  }
}

namespace {

/// Powers of two: sums and products of a few are exact in every floating dtype.
detail::handle exact(dtype type, int seed) {
  const auto n = static_cast<std::int64_t>(interesting.size());
  const auto h = detail::allocate("exact", type, dims{n, n}, {});
  visit_dtype(type, [&]<class T>(std::type_identity<T>) {
    constexpr double values[] = {1, -1, 2, 0.5, 1, -2, 1};
    for (std::int64_t i = 0; i < n * n; ++i) {
      const T x = vocabulary::convert<T>(values[(i * 5 + i / n + seed) % 7]);
      std::memcpy(h.data + i * static_cast<std::int64_t>(sizeof(T)), &x, sizeof(T));
    }
  });
  return h;
}

/// Pushes one structural op, repeated along the axis that it dropped so that every row has one shape.
struct structural_rows {
  engine::tracer& t;
  std::vector<std::string> names;

  void add(std::string name, ir::node_id y) {
    const auto n = static_cast<std::int64_t>(interesting.size());
    if (t.graph[y].extents.size() == 1) {
      ir::attributes attr;
      attr.dims = {1, n};
      y = t.graph.push(ir::op::reshape, {y}, attr);
      attr.dims = {n, n};
      y = t.graph.push(ir::op::broadcast, {y}, attr);
    }
    t.graph.outputs.push_back(y);
    names.push_back(std::move(name));
  }
  void reduce(ir::op code, ir::op combiner, ir::node_id x, std::int64_t axis) {
    ir::attributes attr;
    attr.combiner = combiner;
    attr.ints = {axis};
    add(std::string(ir::name(code)) + " " + ir::name(combiner) + " " + std::to_string(axis),
        t.graph.push(code, {x}, attr));
  }
};

}  // namespace

TEST_CASE("every reduction, product, gather and scatter in every dtype") {
  const auto n = static_cast<std::int64_t>(interesting.size());
  for (const dtype type : dtypes_in_turn()) {
    INFO("dtype ", std::string(dtype_name(type)));
    const auto tracer = std::make_shared<engine::tracer>();
    const engine::tracing_scope scope(tracer);
    structural_rows rows{*tracer, {}};
    const auto x = detail::node_of(operand(type, 1), {}), a = detail::node_of(exact(type, 1), {}),
               b = detail::node_of(exact(type, 4), {});
    ir::attributes steps;
    steps.type = dtype::i64;
    steps.dims = {n, n};
    steps.ints = {0};
    const auto index = tracer->graph.push(ir::op::iota, {}, steps);
    ir::attributes axis;
    axis.ints = {1};
    rows.add("gather", tracer->graph.push(ir::op::gather, {x, index}, axis));
    ir::attributes last;
    last.ints = {1, 0};
    for (const auto combiner : {ir::op::identity, ir::op::mul, ir::op::maximum, ir::op::minimum}) {
      if (is_bool(type) && combiner != ir::op::identity) continue;
      last.combiner = combiner;
      const auto& from = combiner == ir::op::mul ? a : x;
      const auto twice = tracer->graph.push(ir::op::bit_and, {index, tracer->graph.constant(dtype::i64, -3.0, {n, n})});
      rows.add("scatter", tracer->graph.push(ir::op::scatter, {from, twice, combiner == ir::op::mul ? b : x}, last));
    }
    for (const std::int64_t along : {0, 1}) {
      if (!is_float(type)) {
        rows.reduce(ir::op::reduce, ir::op::bit_or, x, along);
        rows.reduce(ir::op::reduce, ir::op::bit_and, x, along);
      }
      if (is_bool(type)) continue;
      rows.reduce(ir::op::reduce, ir::op::add, a, along);
      rows.reduce(ir::op::reduce, ir::op::mul, a, along);
      for (const auto combiner : {ir::op::maximum, ir::op::minimum}) {
        rows.reduce(ir::op::reduce, combiner, x, along);
        rows.reduce(ir::op::reduce, combiner, a, along);
        rows.reduce(ir::op::arg_reduce, combiner, x, along);
        rows.reduce(ir::op::arg_reduce, combiner, a, along);
      }
    }
    if (!is_bool(type)) {
      ir::attributes one;
      one.ints = {0, 1};
      rows.add("dot", tracer->graph.push(ir::op::dot, {a, b}, one));
      rows.add("scatter_add", tracer->graph.push(ir::op::scatter_add, {a, index, b}, axis));
    }
    compare(*tracer, rows.names);
  }
}
