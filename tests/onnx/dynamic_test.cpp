// Tensors whose dtype and rank are values: conversions, text, files, derivatives, lanes, threads.
#include <doctest/doctest.h>
#include <sinter/io.hpp>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "../scratch_folder.hpp"
#include "calls.hpp"
#include "model_writer.hpp"

using namespace sinter;
using onnx_test::contains;
using onnx_test::message_of;
using tensors = std::map<std::string, dynamic_tensor>;

namespace {

const tensor<double, 2> a{{1, 2, 3}, {4, 5, 6}};
const tensor<double, 1> b{0.5, -1, 2};

double at(const dynamic_tensor& x, std::initializer_list<int> place) {
  const io::array all = x.to_array();
  std::int64_t k = 0;
  std::size_t d = 0;
  for (int i : place) k = k * all.extents[d++] + i;
  double v = 0;
  std::memcpy(&v, all.data + 8 * k, 8);
  return v;
}

/// Σ x·x·y, of run-time ranks.
tensor<double, 0> cubic(const dynamic_tensor& x, const dynamic_tensor& y) {
  return sum((x * x * y).as<tensor<double, 2>>());
}

/// y = x·w + b, for tests that run a model from several threads.
std::string line() {
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("w", {2, 2}, std::vector<float>{1, 2, 3, 4}),
                    onnx_test::tensor("b", {2}, std::vector<float>{0.5f, -0.5f})};
  g.inputs = {onnx_test::value("x", onnx_test::f32, {"N", "2"})};
  g.outputs = {onnx_test::value("y", onnx_test::f32, {"N", "2"})};
  g.nodes = {onnx_test::node("Gemm", {"x", "w", "b"}, {"y"})};
  return g.model();
}

}  // namespace

TEST_CASE("dtypes and ranks are checked on the way back, and elements are shared") {
  const dynamic_tensor x = a;
  CHECK(x.type() == dtype::f64);
  CHECK(x.rank() == 2);
  CHECK(x.size(-1) == 3);
  const tensor<double, 2> back = x;
  CHECK(back.data() == a.data());
  const auto fixed = x.as<tensor<double, dims{2, 3}>>();
  CHECK(fixed(1, 2) == 6);
  CHECK(contains(message_of([&] { x.as<tensor<double, dims{2, 4}>>(); }), "(2, 3)"));
  CHECK(contains(message_of([&] { x.as<tensor<float, 2>>(); }), "it holds f64 (2, 3), asked for is f32 of rank 2"));
  CHECK(contains(message_of([&] { x.as<tensor<double, 3>>(); }), "asked for is f64 of rank 3"));
  CHECK(contains(message_of([&] { x.size(2); }), "2"));
  CHECK(contains(message_of([&] { static_cast<void>(dynamic_tensor().to_array()); }), "default-constructed"));
  CHECK(contains(message_of([&] { static_cast<void>(x + x); }), "compile"));
  const dynamic_tensor of_expression = a + 1.0;
  CHECK(at(of_expression, {1, 0}) == 5);
  const dynamic_tensor part = a[1];
  CHECK(at(part, {1}) == 5);
  const dynamic_tensor turned = transpose(a);
  CHECK(at(turned, {2, 1}) == 6);
  CHECK(turned.as<tensor<double, 2>>()(2, 1) == 6);
}

TEST_CASE("it is printed as a tensor of its dtype and rank is") {
  const auto same = [](const auto& x) {
    std::ostringstream by_type, by_value;
    by_type << x;
    by_value << dynamic_tensor(x);
    CHECK(by_type.str() == by_value.str());
  };
  same(a);
  same(b);
  same(tensor<float, 0>(1.5f));
  same(tensor<bool, 1>{true, false});
  same(tensor<f16, 1>{f16(0.5f)});
  same(tensor<std::int8_t, 2>{{-1, 2}});
  same(zeros<float>(0, 3));
  same(arange<float>(2000));
  {
    const print_scope shorter({.precision = 1, .threshold = 2, .edge_items = 1});
    same(a);
  }
  same(transpose(a));
  CHECK(to_string(dynamic_tensor()) == "nothing");
}

TEST_CASE("npy files are written and read, of all dtypes") {
  const scratch_folder here;
  const std::string path = here.path + "/x.npy";
  const auto through = [&](const auto& x) {
    io::write_npy(path, dynamic_tensor(x).to_array());
    const dynamic_tensor y = io::read_npy(path);
    CHECK(y.text() == dynamic_tensor(x).text());
    CHECK(to_string(y) == to_string(x));
  };
  through(a);
  through(tensor<float, 0>(2.f));
  through(tensor<bool, 1>{true, false, true});
  through(tensor<std::uint16_t, 1>{1, 65535});
  through(zeros<std::int64_t>(0, 2));
  through(transpose(a));
}

TEST_CASE("compiled functions take and give them, alone and in maps") {
  for (const char* backend : {"reference", "auto"}) {
    options how;
    how.backend = backend;
    const auto f = compile(
        [](const dynamic_tensor& x, const tensors& more) {
          return tensors{{"sum", x + more.at("y")}, {"scaled", 2.0 * x / 4.0 - 1.0}};
        },
        how);
    const tensors y = f(a, tensors{{"y", b}});
    CHECK(at(y.at("sum"), {1, 2}) == 8);
    CHECK(at(y.at("scaled"), {1, 2}) == 2);
    // Another rank and dtype is another specialisation, not an error.
    const tensors z = f(b, tensors{{"y", a}});
    CHECK(z.at("sum").text() == "f64 (2, 3)");
    CHECK(f(tensor<float, 1>{1, 2, 3}, tensors{{"y", tensor<float, 0>(1)}}).at("sum").text() == "f32 (3,)");
    CHECK(contains(message_of([&] { f(a, tensors{{"y", tensor<float, 1>{1, 2, 3}}}); }), "of different dtypes"));
    CHECK(contains(message_of([&] { f(a, tensors{{"y", tensor<double, 1>{1, 2}}}); }), "do not broadcast"));
    CHECK_THROWS_AS(f(a, tensors{{"z", b}}), std::out_of_range);  // of the function itself
    CHECK(contains(message_of([&] { f(a, tensors{{"y", dynamic_tensor()}}); }), "default-constructed"));
  }
}

TEST_CASE("derivatives: grad, value_and_grad, jvp, vjp, linearize, hvp") {
  const dynamic_tensor x = a, y = b, v = a * 0.5;
  const auto by_value =
      compile([](const dynamic_tensor& p, const dynamic_tensor& q) { return value_and_grad<0, 1>(cubic)(p, q); });
  const auto [l, both] = by_value(x, y);
  CHECK(l.item() == doctest::Approx(17 * 0.5 - 29 + 45 * 2));
  CHECK(at(std::get<0>(both), {1, 2}) == doctest::Approx(2 * 6 * 2));
  CHECK(std::get<1>(both).text() == "f64 (3,)");
  CHECK(at(std::get<1>(both), {1}) == doctest::Approx(29));
  const dynamic_tensor g = grad(cubic)(x, y);
  CHECK(at(g, {0, 1}) == doctest::Approx(-4));
  const auto [value, along] = jvp(cubic)(x, y, v);
  CHECK(value.item() == doctest::Approx(l.item()));
  CHECK(along.item() == doctest::Approx(l.item()));  // x·∇/2 of what is of second degree
  const dynamic_tensor h = hvp(cubic)(x, y, v);
  CHECK(at(h, {1, 2}) == doctest::Approx(2 * 3 * 2));
  const auto squares = [](const dynamic_tensor& p) { return p * p; };
  const auto taken = vjp(squares)(x);  // clang++ 16 and older capture no structured binding
  const auto& back = taken.second;
  CHECK(at(taken.first, {1, 1}) == 25);
  const dynamic_tensor ct = ones<double>(2, 3);
  CHECK(at(back(ct), {1, 1}) == 10);
  CHECK(contains(message_of([&] { back(y); }), "cotangent"));
  const auto [s2, forward] = linearize(squares)(x);
  CHECK(at(forward(v), {1, 1}) == 25);
  const auto compiled_back = compile([&](const dynamic_tensor& p, const dynamic_tensor& c) {
    const auto [r, pull] = vjp(squares)(p);
    return std::pair{r, pull(c)};
  });
  CHECK(at(compiled_back(x, ct).second, {0, 2}) == 6);
  CHECK(contains(message_of([&] { jvp(cubic)(x, y, y); }), "tangent"));
}

TEST_CASE("derivatives by maps, with leaves that are no floats") {
  const auto loss = [](const tensors& w) {
    return sum((w.at("a") * w.at("a")).as<tensor<double, 2>>()) + sum((3.0 * w.at("b")).as<tensor<double, 1>>());
  };
  const tensors w{{"a", a}, {"b", b}, {"n", tensor<std::int64_t, 1>{1, 2}}};
  const tensors g = grad(loss)(w);
  CHECK(at(g.at("a"), {1, 0}) == 8);
  CHECK(at(g.at("b"), {2}) == 3);
  CHECK(g.at("n").text() == "i64 (2,)");
  const auto [y, dy] = jvp(loss)(w, w);
  CHECK(dy.item() == doctest::Approx(2 * 91 + 4.5));
  const auto step = compile([&](const tensors& p) {
    return tree_map([](const dynamic_tensor& x, const dynamic_tensor& d) { return x - 0.1 * d; },
                    tensors{{"a", p.at("a")}}, tensors{{"a", grad(loss)(p).at("a")}});
  });
  CHECK(at(step(w).at("a"), {1, 2}) == doctest::Approx(6 - 1.2));
}

TEST_CASE("lanes: vmap over an axis of run-time ranks") {
  const auto one = [](const dynamic_tensor& x, const dynamic_tensor& y) { return x * y + 1.0; };
  const dynamic_tensor x = a, y = b;
  const dynamic_tensor each = vmap(one, in_axes<0, none>)(x, y);
  CHECK(each.text() == "f64 (2, 3)");
  CHECK(at(each, {1, 2}) == 13);
  const dynamic_tensor columns = vmap(one, in_axes<1, 0>)(x, y);
  CHECK(columns.text() == "f64 (3, 2)");
  CHECK(at(columns, {2, 1}) == 13);
  CHECK(vmap(one, in_axes<1, 0>, out_axes<-1>)(x, y).text() == "f64 (2, 3)");
  const auto by_name = compile(vmap([](const tensors& m) { return tensors{{"y", m.at("x") * m.at("x")}}; }));
  CHECK(at(by_name(tensors{{"x", a}}).at("y"), {1, 1}) == 25);
  const auto gradients = vmap(grad([](const dynamic_tensor& p) { return sum((p * p).as<tensor<double, 1>>()); }));
  CHECK(at(gradients(x), {1, 2}) == 12);
  CHECK(
      contains(message_of([&] { vmap(one, in_axes<2, none>)(x, y); }), "out of range for a dynamic_tensor of rank 2"));
  CHECK(contains(message_of([&] { vmap(one)(x, y); }), "lanes"));
}

TEST_CASE("one model is called from several threads") {
  const std::string file = line();
  for (const char* backend : {"reference", "auto"}) {
    options how;
    how.backend = backend;
    const onnx::model m = onnx::load(onnx_test::bytes_of(file), how);
    std::vector<int> wrong(4, 0);
    std::vector<std::thread> all;
    for (std::size_t k = 0; k < wrong.size(); ++k)
      all.emplace_back([&, k] {
        for (int i = 0; i < 12; ++i) {
          const std::int64_t n = 1 + (i + static_cast<int>(k)) % 5;
          const tensor<float, 2> x = full<float>(static_cast<float>(i), n, 2);
          const auto y = m({x})[0].as<tensor<float, 2>>();
          const float at_0 = static_cast<float>(4 * i) + 0.5f;
          wrong[k] += y.size(0) != n || y(n - 1, 0) != at_0;
          wrong[k] += m.weights().size() != 2;
          if (i == 6) wrong[k] += m.square_gradients({x}).inputs.size() != 1;
        }
      });
    for (auto& t : all) t.join();
    for (int w : wrong) CHECK(w == 0);
  }
}

TEST_CASE("integers beside integers are exact to the last bit") {
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  const std::uint64_t top = ~std::uint64_t{0};
  auto f = compile([&](const dynamic_tensor& a, const dynamic_tensor& b) {
    return std::vector<dynamic_tensor>{a + odd, a - odd, a * odd, odd * a, a / odd, b + top, b - 1, a * 2.0};
  });
  const auto y = f(tensor<std::int64_t, 1>{1, odd}, tensor<std::uint64_t, 1>{1, 0});
  const auto is = [&](std::size_t k, std::vector<std::int64_t> want) {
    CHECK(y[k].as<tensor<std::int64_t, 1>>().to_vector() == want);
  };
  is(0, {odd + 1, 2 * odd});
  is(1, {1 - odd, 0});
  is(2, {odd, static_cast<std::int64_t>(static_cast<std::uint64_t>(odd) * static_cast<std::uint64_t>(odd))});
  is(3, {odd, static_cast<std::int64_t>(static_cast<std::uint64_t>(odd) * static_cast<std::uint64_t>(odd))});
  is(4, {0, 1});
  CHECK(y[5].as<tensor<std::uint64_t, 1>>().to_vector() == std::vector<std::uint64_t>{0, top});
  CHECK(y[6].as<tensor<std::uint64_t, 1>>().to_vector() == std::vector<std::uint64_t>{0, top});
  is(7, {2, 2 * odd});
}
