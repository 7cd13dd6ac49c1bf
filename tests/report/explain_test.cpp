// explain(fn)(args...): kernels with their ops, lines, bytes and FLOPs, and why neighbours stayed apart.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../texts.hpp"

using namespace sinter;
using texts::contains;

TEST_CASE("explain tells kernels, their ops and lines, bytes and operations") {
  const auto x = ones<float>(64, 100);
  const int line = __LINE__ + 1;
  const auto f = compile([](tensor<float, 2> a) { return exp(a) * 2.0f; }, {.name = "scaled"});
  const explanation e = explain(f)(x);
  CHECK(e.name == "scaled");
  CHECK(e.breaks.empty());
  REQUIRE(e.specialisations.size() == 1);
  const report& r = e.specialisations[0].what;
  REQUIRE(r.steps.size() == 1);
  const kernel_report& k = r.steps[0];
  CHECK(k.name == "exp mul");
  CHECK(k.read == 64 * 100 * 4);
  CHECK(k.written == 64 * 100 * 4);
  CHECK(k.flops == 2 * 64 * 100);
  REQUIRE(k.ops.size() == 2);
  CHECK(k.ops[0].name == "exp");
  CHECK(k.ops[0].where.line == line);
  CHECK(contains(k.ops[0].where.file, "explain_test.cpp"));
  REQUIRE(k.source == 0);
  CHECK(contains(r.sources[0], "sinter_kernel"));
  CHECK((k.tier == "compiled" || k.tier == "disk" || k.tier == "memory"));
  std::string stages;
  for (const auto& s : r.stages) stages += s.name + " ";
  CHECK(stages == "trace rewrite plan emit compile bind ");
  const std::string text = e.text();
  CHECK(contains(text, "scaled: 1 specialisation, 0 graph breaks\n"));
  CHECK(contains(text, "kernel 0: exp mul over (6400,), reads 25.0 KiB, writes 25.0 KiB, 12800 FLOPs"));
  CHECK(k.schedule == "inner 6400; 1 pass");
  CHECK(contains(text, "\n    schedule: inner 6400; 1 pass\n"));
  CHECK(contains(text, "f32 exp at " + std::string(__FILE__) + ":" + std::to_string(line)));
  CHECK(contains(text, "= f32(64, 100) exp %0"));
}

TEST_CASE("explain tells the steps and the tree of the recipe that takes a kernel") {
  const auto f = [](tensor<float, 2> x, tensor<float, 2> y) { return exp(matmul(x, y)); };
  const auto e = explain(f)(ones<float>(40, 70), ones<float>(70, 50));
  const report& r = e.specialisations.at(0).what;
  REQUIRE(r.steps.size() == 1);
  const std::string& loops = r.steps[0].loops;
  INFO(loops);
  CHECK(loops.compare(0, 12, "cpu product\n") == 0);
  CHECK(contains(loops, "\nlaunch\n  for i1.0 of 1 grid"));
  CHECK(contains(e.text(), "\n      cpu product\n        split p1 by "));
  const auto scan = [](tensor<float, 1> x) { return cumsum(x, axis<0>); };
  CHECK(explain(scan)(ones<float>(9)).specialisations.at(0).what.steps.at(0).loops == "");
}

TEST_CASE("explain tells layers that are alike once") {
  using matrix = tensor<float, 2>;
  const auto f = [](matrix h, std::vector<matrix> w) {
    for (const matrix& one : w) h = tanh(matmul(h, one));
    return std::pair(sum(w[0]), h);
  };
  const auto e = explain(f)(normal<float>(make_key(1), 4, 5), std::vector<matrix>(7, normal<float>(make_key(2), 5, 5)));
  const std::string text = e.text();
  CHECK(contains(text, "  7 x: kernels "));
  CHECK(contains(text, "\n    kernel 1: "));
  CHECK(!contains(text, "kernel 4: "));
  CHECK(contains(text, "of arguments, 84 B of results, "));
  const report& r = e.specialisations[0].what;
  CHECK(r.argument_bytes == (4 * 5 + 7 * 5 * 5) * 4);
  CHECK(r.result_bytes == 84);
  CHECK(r.replaced_bytes == 80);  // the last layer takes the place of the first operand
}

TEST_CASE("explain tells what each stage took, the trace and derivatives among them") {
  const auto slow = [](tensor<float, 1> a) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return sum(tanh(a) * a);
  };
  const auto check = [](const report& r, const std::string& names) {
    std::string stages;
    double end = 0;
    for (const auto& s : r.stages) {
      stages += s.name + " ";
      CHECK(s.milliseconds >= 0);
      CHECK(s.started == doctest::Approx(end));
      end = s.started + s.milliseconds;
    }
    CHECK(stages == names);
    CHECK(r.stages[0].milliseconds >= 20);
    CHECK(r.milliseconds >= end);
    CHECK(r.milliseconds < end + 1000);
    CHECK(r.lowered > 0);
    for (const auto& k : r.steps) CHECK(k.started >= 20);
  };
  const auto x = ones<float>(57);
  check(explain(slow)(x).specialisations[0].what, "trace rewrite plan emit compile bind ");
  const auto g = [&](tensor<float, 1> a) { return value_and_grad(slow)(a); };
  check(explain(g)(x).specialisations[0].what, "trace autodiff rewrite plan emit compile bind ");
  // Between breaks each segment has its own.
  const auto broken = [&](tensor<float, 1> a) {
    const float s = sum(a * 3.f).item();
    return evaluate(slow(a * 2.f) + s);
  };
  const report all = explain(broken)(x).specialisations[0].what;
  std::vector<double> traces;
  for (const auto& s : all.stages)
    if (s.name == "trace") traces.push_back(s.milliseconds);
  REQUIRE(traces.size() == 2);
  CHECK(traces[0] < 20);
  CHECK(traces[1] >= 20);
}

TEST_CASE("products count two operations a term, reductions one, slices what they read") {
  const auto e = explain([](tensor<float, 2> a, tensor<float, 2> b) { return matmul(a, b); })(ones<float>(8, 16),
                                                                                              ones<float>(16, 32));
  REQUIRE(e.specialisations[0].what.steps.size() == 1);
  CHECK(e.specialisations[0].what.steps[0].flops == 2 * 8 * 16 * 32);
  CHECK(e.specialisations[0].what.steps[0].read == (8 * 16 + 16 * 32) * 4);
  const auto s = explain([](tensor<float, 2> a) { return sum(a, axis<1>); })(ones<float>(8, 16));
  CHECK(s.specialisations[0].what.steps[0].flops == 8 * 16);
  CHECK(s.specialisations[0].what.steps[0].written == 8 * 4);
}

TEST_CASE("explain says why neighbours are not one kernel, in the user's words") {
  const int line = __LINE__ + 2;
  const auto f = [](tensor<float, 2> a, tensor<float, 2> b) {
    const tensor<float, 2> p = matmul(a, b);
    return std::pair(p, matmul(p, b));
  };
  const auto e = explain(f)(ones<float>(32, 32), ones<float>(32, 32));
  const report& r = e.specialisations[0].what;
  REQUIRE(r.steps.size() == 2);
  REQUIRE(r.apart.size() == 1);
  CHECK(r.apart[0].first == 0);
  CHECK(r.apart[0].second == 1);
  CHECK(r.apart[0].why == "two matrix products");
  CHECK(contains(e.text(), "kernels 0 and 1 are not one: two matrix products"));
  CHECK(!contains(e.text(), "no array in common"));
  CHECK(r.steps[0].ops[0].where.line == line);
}

TEST_CASE("explain says why kernels that have nothing in common are not one") {
  const auto f = [](tensor<float, 1> a, tensor<float, 2> b) { return std::pair(a * 2.f, exp(b)); };
  const auto two = explain(f)(ones<float>(3), ones<float>(4, 5));
  CHECK(contains(two.text(), "  pairs of kernels are not one: they touch no array in common"));
  const auto more = explain([f](tensor<float, 1> a, tensor<float, 2> b) {
    return std::tuple(f(a, b), matmul(b, transpose(b)));
  })(ones<float>(3), ones<float>(4, 5));
  CHECK(contains(more.text(), "all other pairs of kernels are not one: they touch no array in common"));
}

TEST_CASE("explain tells what is taken and scattered, and why a scatter_add is not one with the copy of its base") {
  const int line = __LINE__ + 2;
  const auto f = [](tensor<float, 2> x, tensor<std::int32_t, 1> at, tensor<float, 2> updates) {
    const tensor<float, 2> rows = exp(take(x, at, axis<0>));
    return std::pair(rows, scatter_add(x, at, updates, axis<0>));
  };
  const auto e = explain(f)(ones<float>(8, 4), tensor<std::int32_t, 1>{1, 0, 7}, ones<float>(3, 4));
  const report& r = e.specialisations[0].what;
  INFO(e.text());
  std::string ops;
  for (const auto& k : r.steps)
    for (const auto& o : k.ops) ops += o.name + ":" + std::to_string(o.where.line - line) + " ";
  CHECK(contains(ops, "gather:0 exp:0 "));
  CHECK(contains(ops, "scatter_add:1 "));
  std::size_t writers = 0;
  for (const auto& a : r.apart) {
    CHECK(a.first < a.second);
    writers += contains(r.steps[a.second].name, "scatter_add") && a.why == "a scatter has a kernel of its own";
  }
  CHECK(writers > 0);
  CHECK(!contains(e.text(), "no array in common"));
}

TEST_CASE("what is refused to one part of an array is not refused to another, which is told by itself") {
  const auto f = [](tensor<float, 2> a, tensor<float, 2> b) {
    const tensor<float, 2> p = matmul(a, b);
    return concat<0>(matmul(p, a), exp(b), p);
  };
  const auto e = explain(f)(ones<float>(32, 32), ones<float>(32, 32));
  const report& r = e.specialisations[0].what;
  INFO(e.text());
  for (const auto& k : r.steps) CHECK(contains(k.name, "dot"));
  for (const auto& a : r.apart) CHECK(a.why == "two matrix products");
}

TEST_CASE("kernels of segments and of branches are told to be of graphs of their own") {
  const auto broken = explain([](tensor<float, 1> a) -> tensor<float, 1> {
    if (sum(exp(a)).item() > 0) return a + 1;
    return a * 2;
  })(ones<float>(8));
  INFO(broken.text());
  REQUIRE(broken.specialisations[0].what.steps.size() == 2);
  CHECK(broken.specialisations[0].what.steps[1].first == 1);
  CHECK(contains(broken.text(), "  kernels of different graphs (0 | 1) are not one: segments between graph breaks"));
  CHECK(!contains(broken.text(), "no array in common"));
  const auto branches = explain([](tensor<float, 1> a) {
    return cond(
        sum(a) > 0, [](auto x) { return exp(x); }, [](auto x) { return sin(x); }, a);
  })(ones<float>(8));
  INFO(branches.text());
  CHECK(contains(branches.text(), "  kernels of different graphs (0-1 | 2 | 3) are not one"));
}

TEST_CASE("every specialisation is told, the one that served the call first; arguments are not donated") {
  const auto f = compile([](tensor<float, 1> a) { return a + 1; }, {.dynamic = dynamic::no, .donate = {0}});
  tensor<float, 1> x{1, 2, 3}, y{1, 2};
  f(x);
  f(y);
  const auto e = explain(f)(x);
  CHECK(x(0) == 1);
  REQUIRE(e.specialisations.size() == 2);
  CHECK(e.specialisations[0].what.steps[0].written == 12);
  CHECK(e.specialisations[1].what.steps[0].written == 8);
}

TEST_CASE("explain says what each specialisation assumes and why it was made") {
  const auto f = compile([](tensor<float, 1> a, int n) { return a * n; }, {.dynamic = dynamic::no});
  const tensor<float, 1> x{1, 2, 3}, y{1, 2};
  f(x, 2);
  f(x, 3);
  const auto e = explain(f)(y, 3);
  REQUIRE(e.specialisations.size() == 3);
  const std::string text = e.text();
  INFO(text);
  CHECK(contains(e.specialisations[2].why, "the first call"));
  CHECK(contains(e.specialisations[1].why, "3"));
  CHECK(contains(e.specialisations[1].why, "2"));
  CHECK(e.specialisations[0].why == "argument 0 axis 0 is 2, was 3");
  CHECK(!e.specialisations[0].guards.empty());
  CHECK(contains(text, "specialisation 0: " + e.specialisations[0].why));
  CHECK(contains(text, "  guard: " + e.specialisations[0].guards[0]));
}

TEST_CASE("explain tells graph breaks with their lines, and the kernels of all segments") {
  const auto f = compile([](tensor<float, 1> a) -> tensor<float, 1> {
    const tensor<float, 1> b = exp(a);
    if (sum(b).item() > 0) return b + 1;
    return b * 2;
  });
  const int line = __LINE__ - 3;
  const auto e = explain(f)(ones<float>(8));
  const std::string text = e.text();
  INFO(text);
  REQUIRE(e.breaks.size() == 1);
  CHECK(e.breaks[0].where.line == line);
  CHECK(contains(text, ", 1 graph break\n"));
  CHECK(contains(text, "explain_test.cpp:" + std::to_string(line)));
  REQUIRE(e.specialisations.size() == 1);
  const report& r = e.specialisations[0].what;
  CHECK(r.steps.size() == r.kernels);
  REQUIRE(r.steps.size() >= 2);
  CHECK(contains(r.steps.front().name, "exp"));
  CHECK(r.steps.back().name == "add");
  CHECK(contains(r.sources[static_cast<std::size_t>(r.steps.back().source)], "+"));
}

TEST_CASE("a graph break is told once, however many specialisations have it") {
  const auto f = compile([](tensor<float, 1> a, int n) { return tensor<float, 1>(a * (sum(a).item() + float(n))); });
  for (const int n : {1, 2, 3}) f(ones<float>(4), n);
  const auto e = explain(f)(ones<float>(4), 1);
  CHECK(e.specialisations.size() == 3);
  CHECK(e.breaks.size() == 1);
}

TEST_CASE("a specialisation with open extents is told by symbols, and costs what its first call does") {
  const auto f = compile([](tensor<float, 2> a) { return exp(a); });
  f(ones<float>(64, 10));
  const auto e = explain(f)(ones<float>(32, 10));
  REQUIRE(e.specialisations.size() == 2);
  const auto& open = e.specialisations[0];
  INFO(e.text());
  CHECK(open.why == "argument 0 axis 0 is 32, was 64");
  CHECK(contains(open.what.graph, "f32(s0, 10) exp"));
  CHECK(contains(open.what.steps[0].space, "s0"));
  CHECK(open.what.steps[0].written == 32 * 10 * 4);
  CHECK(open.what.steps[0].flops == 32 * 10);
}

TEST_CASE("explain says which line keeps an extent from being open") {
  const auto f = compile(
      [](tensor<float, 2> x, tensor<float, 1> y) {
        const std::int64_t n = x.size(0);
        float factor = static_cast<float>(n);
        if (x.size(1) > 10) factor += 1;
        if (y.size(0) == 2 * x.size(1)) factor += 2;
        return (sum(x) * factor + sum(y)).eval();
      },
      {.dynamic = dynamic::yes, .name = "sized"});
  const int line = __LINE__ - 7;
  const auto e = explain(f)(ones<float>(64, 20), ones<float>(40));
  INFO(e.text());
  REQUIRE(e.specialisations.size() == 1);
  const auto& sizes = e.specialisations[0].sizes;
  REQUIRE(sizes.size() == 3);
  const auto check = [&](const size_report& s, int tensor, int axis, int at, const std::string& words) {
    CHECK(s.tensor == tensor);
    CHECK(s.axis == axis);
    CHECK(s.where.line == at);
    CHECK(contains(s.text(), words));
    CHECK(contains(e.text(), "\n  " + s.text() + "\n"));
  };
  check(sizes[0], 0, 0, line, "size(0) of tensor 0 is fixed at 64: converted to an integer (at ");
  check(sizes[1], 0, 1, line + 2, "size(1) of tensor 0 is at least 11: compared with a number (at ");
  check(sizes[2], 1, 0, line + 3, "size(0) of tensor 1 is s1*2 + 18: equal to s1*2 + 18 (at ");
  // Where all are numbers in the end it is told as well.
  const auto g = compile([](tensor<float, 1> x) { return x * static_cast<float>(static_cast<int>(x.size(0))); },
                         {.dynamic = dynamic::yes});
  const auto all = explain(g)(ones<float>(7));
  REQUIRE(all.specialisations[0].sizes.size() == 1);
  CHECK(contains(all.text(), "size(0) of tensor 0 is fixed at 7: converted to an integer (at "));
  // An op of the user whose rule wants numbers.
  const auto rigid = custom_op<"rigid">(
      [](elements<const float, 1> x, elements<float, 1> y) {
        for (std::int64_t i = 0; i < y.size(); ++i) y[i] = x[i];
      },
      none,
      [](const index_array<1>& x) {
        const std::int64_t n = x[0];
        return result_of<float, 1>{{n}};
      },
      none);
  const int made = __LINE__ - 1;
  const auto h = compile([=](tensor<float, 1> x) { return rigid(x) * 2.f; }, {.dynamic = dynamic::yes});
  const auto told = explain(h)(ones<float>(7));
  REQUIRE(told.specialisations[0].sizes.size() == 1);
  CHECK(told.specialisations[0].sizes[0].where.line > made - 12);
  CHECK(told.specialisations[0].sizes[0].where.line <= made);
}

TEST_CASE("explain names the buffers in memory when a call needs most") {
  const int line = __LINE__ + 2;
  const auto f = compile([](tensor<float, 2> x, std::vector<tensor<float, 2>> w) {
    auto h = evaluate(matmul(x, w[0])), g = evaluate(softmax(matmul(h, w[1])));
    return std::pair(matmul(g, w[2]), matmul(h, w[3]));
  });
  const auto draw = [](int seed, int rows, int columns) { return normal<float>(make_key(seed), rows, columns); };
  const std::vector<tensor<float, 2>> w{draw(2, 40, 300), draw(3, 300, 500), draw(4, 500, 7), draw(5, 300, 7)};
  const explanation e = explain(f)(draw(1, 200, 40), w);
  const report& r = e.specialisations.at(0).what;
  std::int64_t intermediates = 0, arguments = 0, results = 0;
  for (const buffer_report& b : r.peak.buffers)
    (b.what == "argument" ? arguments : b.what == "result" ? results : intermediates) += b.bytes;
  CHECK(arguments == static_cast<std::int64_t>(r.argument_bytes));
  CHECK(results + static_cast<std::int64_t>(r.replaced_bytes) == static_cast<std::int64_t>(r.result_bytes));
  // h, and the product that becomes its softmax in place.
  CHECK(intermediates == (200 * 300 + 200 * 500) * 4);
  REQUIRE(r.peak.buffers.size() >= 3);
  CHECK(r.peak.step < r.steps.size());
  const std::string text = e.text();
  CHECK(contains(text, "in memory at most, "));
  CHECK(contains(text, "234.4 KiB: intermediate %"));
  CHECK(contains(text, "f32(200, 300) dot at " + std::string(__FILE__) + ":" + std::to_string(line)));
  CHECK(contains(text, "argument %"));
}
