// Opaque nodes: inference, printing, checking and interpretation.
#include <sinter/ir/define.hpp>

#include "arrays.hpp"
#include "steps.hpp"

using arrays::literal_array;
using sinter::dtype;
using steps::graph;
using steps::value;
using steps::values;

namespace {

constexpr auto f64 = dtype::f64;

value input(graph& g, dtype t, sinter::ir::shape e) { return {g, g.add_input(t, std::move(e))}; }

values running(const values& in, bool reverse = false) {
  return steps::loop(
      3, {in[0]}, {in[1]}, {in[2]},
      [](value i, values c, values x, values k) {
        const value turn = cast(i, f64), kept = c[0] * k[0], read = kept + x[0], next = read + turn;
        return values{next, next * 2.0};
      },
      reverse);
}

std::shared_ptr<const sinter::ir::opaque> recorder(std::vector<double>& log, double tag) {
  sinter::ir::opaque s;
  s.kind = sinter::ir::opaque_kind::host_call;
  auto f = std::make_shared<sinter::ir::foreign>();
  f->name = "record";
  f->identity = 7;
  f->host = [&log, tag](sinter::ir::foreign_arrays in, sinter::ir::foreign_arrays) {
    log.push_back(tag + (in.empty() ? 0 : *static_cast<const double*>(in[0].data)));
  };
  s.function = f;
  return sinter::ir::seal(std::move(s));
}

}  // namespace

TEST_CASE("a loop carries values, reads slices and stacks; its history is what was carried before each step") {
  for (bool reverse : {false, true}) {
    graph g;
    const values in{input(g, f64, {}), input(g, f64, {3}), input(g, f64, {})};
    for (const auto& v : running(in, reverse)) g.outputs.push_back(v.id());
    sinter::ir::check(g, "test");
    const auto got =
        arrays::run(g, {arrays::of(f64, {}, {1}), arrays::of(f64, {3}, {5, 6, 7}), arrays::of(f64, {}, {2})});
    double c = 1;
    std::vector<double> y(3), before(3);
    for (int turn = 0; turn < 3; ++turn) {
      const auto i = static_cast<std::size_t>(reverse ? 2 - turn : turn);
      before[i] = c;
      c = c * 2 + 5 + static_cast<double>(i) + static_cast<double>(i);
      y[i] = c * 2;
    }
    CHECK(got[0].f == sinter::series<double>{c});
    CHECK(got[1].f == sinter::series<double>(y.begin(), y.end()));
    CHECK(got[2].f == sinter::series<double>(before.begin(), before.end()));
  }
}

TEST_CASE("a loop of no steps gives its start and empty stacks") {
  graph g;
  const values in{input(g, f64, {2}), input(g, f64, {0, 2})};
  const auto out = steps::loop(0, {in[0]}, {in[1]}, {}, [](value, values c, values x, values) {
    return values{c[0] + x[0], x[0]};
  });
  for (const auto& v : out) g.outputs.push_back(v.id());
  const auto got = arrays::run(g, {arrays::of(f64, {2}, {1, 2}), arrays::of(f64, {0, 2}, {})});
  CHECK(got[0].f == sinter::series<double>{1, 2});
  CHECK(got[1].extents == sinter::series<std::int64_t>{0, 2});
}

TEST_CASE("cond runs one branch; while_loop runs until its test fails") {
  graph g;
  const values in{input(g, dtype::b8, {}), input(g, f64, {2})};
  const auto out = steps::cond(
      in, [](const values& x) { return values{x[0] * 2.0}; }, [](const values& x) { return values{x[0] - 1.0}; });
  const auto grown = steps::while_loop(
      {value(g, g.constant(f64, 1.0, {}))}, [](const values& x) { return values{lt(x[0], 100.0)}; },
      [](const values& x) { return values{x[0] * 3.0}; });
  g.outputs = {out[0].id(), grown[0].id()};
  sinter::ir::check(g, "test");
  for (int yes : {0, 1}) {
    const auto got = arrays::run(g, {arrays::of(dtype::b8, {}, {double(yes)}), arrays::of(f64, {2}, {4, 5})});
    CHECK(got[0].f == (yes ? sinter::series<double>{8, 10} : sinter::series<double>{3, 4}));
    CHECK(got[1].f == sinter::series<double>{243});
  }
}

TEST_CASE("equal steps are one node, and print with their parts") {
  graph g;
  const values in{input(g, f64, {}), input(g, f64, {3}), input(g, f64, {})};
  const auto a = running(in), b = running(in), c = running(in, true);
  CHECK(a[0].id() == b[0].id());
  CHECK(a[0].id() != c[0].id());
  g.outputs = {a[1].id()};
  CHECK(print(g) ==
        "%0 = f64() input 0\n%1 = f64(3,) input 1\n%2 = f64() input 2\n"
        "%3 = bool() opaque loop length=3 carried=1 sliced=1 stacked=1 -> f64() f64(3,) f64(3,) %0 %1 %2 {\n"
        "  %0 = i64() input 0\n  %1 = f64() input 1\n  %2 = f64() input 2\n  %3 = f64() input 3\n"
        "  %4 = f64() cast %0\n  %5 = f64() mul %1 %3\n  %6 = f64() add %5 %2\n  %7 = f64() add %6 %4\n"
        "  %8 = f64() constant 2\n  %9 = f64() mul %7 %8\n  return %7 %9\n}\n"
        "%4 = f64(3,) pick 1 %3\nreturn %4\n");
}

TEST_CASE("effects live without a result, once a push, in order") {
  std::vector<double> log;
  graph g;
  const value x = input(g, f64, {});
  const auto one = recorder(log, 100), two = recorder(log, 200);
  sinter::ir::push_opaque(g, one, {x.id()}, {});
  sinter::ir::push_opaque(g, two, {(x * 2.0).id()}, {});
  sinter::ir::push_opaque(g, one, {x.id()}, {});
  g.outputs = {(x + 1.0).id()};
  sinter::ir::check(g, "test");
  CHECK(g.effects.size() == 3);
  arrays::run(g, {arrays::of(f64, {}, {5})});
  CHECK(log == std::vector<double>{105, 210, 105});
  CHECK(print(g).find(" after ") != std::string::npos);

  graph copy;
  const value y = input(copy, f64, {});
  copy.outputs = sinter::ir::splice(copy, g, {y.id()});
  CHECK(copy.effects.empty());
  CHECK(arrays::run(copy, {arrays::of(f64, {}, {5})})[0].f == sinter::series<double>{6});
  CHECK(log.size() == 3);
}

TEST_CASE("what does not fit is refused with both sides") {
  graph g;
  const values in{input(g, dtype::b8, {}), input(g, f64, {2})};
  const auto branches = arrays::message([&] {
    steps::cond(
        in, [](const values& x) { return x; }, [](const values& x) { return values{slice(x[0], {1}, {0}, {1})}; });
  });
  CHECK(branches ==
        "[cond] result 0 is f64(2,) in one branch and f64(1,) in the other; both have to return the same "
        "dtypes and extents");
  const auto carry = arrays::message([&] {
    steps::loop(4, {in[1]}, {}, {}, [](value, values c, values, values) { return values{cast(c[0], dtype::f32)}; });
  });
  CHECK(carry ==
        "[loop] carried value 0 is f64(2,) at the start and f32(2,) after a step; the body has to return what "
        "it was given");
}
