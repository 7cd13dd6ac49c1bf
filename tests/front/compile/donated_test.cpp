// Handles that were donated to a call: empty after one that succeeded, as before after one that threw; what reads of them say.
#include <complex>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/complex.hpp>

#include "../../texts.hpp"

namespace {

using namespace sinter;
using texts::error_of;
using vec = tensor<float, 1>;
using matrix = tensor<float, 2>;
using number0 = tensor<float, 0>;
using floats = std::vector<float>;

struct model {
  matrix w;
  std::optional<vec> bias;
  std::vector<vec> more;
  std::map<std::string, vec> named;
  std::variant<vec, matrix> either;
  tensor<complex64, 1> z;
  int layers = 2;
};

model made() {
  return {matrix{{1, 2}, {3, 4}}, vec{5, 6},    {vec{7}, vec{8, 9, 10}},
          {{"a", vec{11}}},       matrix{{12}}, tensor<complex64, 1>{1, 2}};
}
bool all_empty(const model& m) {
  return !m.w.defined() && !m.bias->defined() && !m.more[0].defined() && !m.more[1].defined() &&
         !m.named.at("a").defined() && !std::get<matrix>(m.either).defined() && !m.z.real().defined() &&
         !m.z.imag().defined();
}
bool as_made(const model& m) {
  return m.w.to_vector() == floats{1, 2, 3, 4} && m.bias->to_vector() == floats{5, 6} &&
         m.more[1].to_vector() == floats{8, 9, 10} && m.named.at("a").item() == 11 &&
         std::get<matrix>(m.either).item() == 12 && m.z.imag().to_vector() == floats{0, 0};
}

const auto step_of = [](model m, vec by) {
  m.w = m.w * 2.f;
  m.more[1] = m.more[1] - by;
  return m;
};

}  // namespace

TEST_CASE("every leaf of a donated argument is an empty handle after a call, whether its memory was taken or not") {
  for (const char* backend : {"cpu", "reference"}) {
    const auto step = compile(step_of, {.backend = backend, .donate = {0}});
    const auto none = compile([](model m) { return sum(m.w); }, {.backend = backend, .donate = {0}});
    for (int k = 0; k < 3; ++k) {
      model m = made();
      const model r = step(std::move(m), vec{1, 1, 1});
      CHECK(all_empty(m));
      CHECK(m.layers == 2);
      CHECK(r.w.to_vector() == floats{2, 4, 6, 8});
      CHECK(r.more[1].to_vector() == floats{7, 8, 9});
      CHECK(r.named.at("a").item() == 11);
      model n = made();
      CHECK(none(std::move(n)).item() == 10);
      CHECK(all_empty(n));
      m = made();  // what is assigned to is as new
      CHECK(as_made(m));
    }
  }
}

TEST_CASE("a function without results, one that reads values, one that is called eagerly or in a trace donate, too") {
  const options how{.donate = {0}};
  float seen = 0;
  const auto none = compile([&](model m) { host_call([&](const matrix& w) { seen = w(1, 1); }, m.w); }, how);
  const auto reads = compile([](model m) { return sum(m.w).item() > 3 ? m.w : matrix(m.w * 2.f); }, how);
  const auto step = compile(step_of, how);
  for (int k = 0; k < 2; ++k) {
    model m = made();
    none(std::move(m));
    CHECK(all_empty(m));
    CHECK(seen == 4);
    m = made();
    CHECK(reads(std::move(m)).to_vector() == floats{1, 2, 3, 4});
    CHECK(all_empty(m));
    m = made();
    {
      const stance_scope scope(stance::eager);
      CHECK(step(std::move(m), vec{1, 1, 1}).more[1](0) == 7);
    }
    CHECK(all_empty(m));
    const auto outer = compile([&](model m) {
      model n = m;
      const model r = step(std::move(n), vec{1, 1, 1});
      CHECK(all_empty(n));
      return matrix(r.w + m.w);
    });
    m = made();
    CHECK(outer(std::move(m)).to_vector() == floats{3, 6, 9, 12});
    CHECK(as_made(m));
  }
}

TEST_CASE("other copies and views of what was donated keep their elements") {
  const auto step = compile(step_of, {.donate = {0}});
  for (int k = 0; k < 2; ++k) {
    model m = made();
    const matrix copy = m.w, view = transpose(m.w);
    const vec row = m.w[1];
    const auto lazy = m.w + 1.f;
    step(std::move(m), vec{1, 1, 1});
    CHECK(all_empty(m));
    CHECK(copy.to_vector() == floats{1, 2, 3, 4});
    CHECK(view.to_vector() == floats{1, 3, 2, 4});
    CHECK(row.to_vector() == floats{3, 4});
    CHECK(matrix(lazy).to_vector() == floats{2, 3, 4, 5});
  }
  const auto twice = compile([](vec a, vec b) { return a + b; }, {.donate = {0, 1}});
  for (int k = 0; k < 2; ++k) {
    vec x{1, 2}, y = x;
    CHECK(twice(std::move(x), std::move(y)).to_vector() == floats{2, 4});
    CHECK(!x.defined());
    CHECK(!y.defined());
    vec z{3, 4};
    CHECK(twice(std::move(z), std::move(z)).to_vector() == floats{6, 8});
    CHECK(!z.defined());
  }
}

TEST_CASE("lvalues, const rvalues, and arguments that options.donate does not name stay as they are") {
  const auto step = compile([](vec a, vec b) { return a + b; }, {.donate = {0}});
  for (int k = 0; k < 3; ++k) {
    vec a{1, 2}, b{3, 4};
    const vec c{5, 6};
    const float* const memory = c.data();
    CHECK(step(a, std::move(b)).to_vector() == floats{4, 6});
    CHECK(a.to_vector() == floats{1, 2});
    CHECK(b.to_vector() == floats{3, 4});
    const vec r = step(std::move(c), b);
    CHECK(r.data() != memory);
    CHECK(c.to_vector() == floats{5, 6});
    CHECK(step(std::move(a), std::move(b)).to_vector() == floats{4, 6});
    CHECK(!a.defined());
    CHECK(b.to_vector() == floats{3, 4});
    {
      const stance_scope scope(stance::eager);
      CHECK(step(vec(c), std::move(b)).to_vector() == floats{8, 10});
    }
    CHECK(b.to_vector() == floats{3, 4});
  }
}

TEST_CASE("after a call that threw the arguments are as before") {
  bool refuse = false;
  const auto refuses = compile(
      [&](model m) {
        if (refuse) throw std::runtime_error("no");
        return m;
      },
      {.donate = {0}});
  model m = made();
  refuse = true;
  CHECK_THROWS_AS(refuses(std::move(m)), std::runtime_error);
  CHECK(as_made(m));
  {
    const stance_scope scope(stance::eager);
    CHECK_THROWS_AS(refuses(std::move(m)), std::runtime_error);
  }
  CHECK(as_made(m));

  const auto finite = compile([](vec x) { return sqrt(x); }, {.donate = {0}, .check_finite = true});
  for (int k = 0; k < 2; ++k) {
    vec x{4, -1};
    CHECK_THROWS_AS(finite(std::move(x)), user_error);
    CHECK(x.to_vector() == floats{4, -1});
    vec y{4, 9};
    CHECK(finite(std::move(y)).to_vector() == floats{2, 3});
    CHECK(!y.defined());
  }
}

TEST_CASE("a function of the host that throws in the midst of a call finds nothing overwritten") {
  const auto refuse = [](const number0& s) {
    if (s.item() < 0) throw std::runtime_error("negative");
  };
  const auto step = compile(
      [&](std::vector<matrix> p, number0 s) {
        auto next = tree_map([&](const auto& x) { return x * 0.5f + s; }, p);
        host_call(refuse, sum(next[1]));
        return next;
      },
      {.donate = {0}});
  for (int k = 0; k < 3; ++k) {
    std::vector<matrix> p{matrix{{2, 4}}, matrix{{6}, {8}}};
    CHECK_THROWS_AS(step(std::move(p), number0(-100.f)), std::runtime_error);
    CHECK(p[0].to_vector() == floats{2, 4});
    CHECK(p[1].to_vector() == floats{6, 8});
    const auto q = step(std::move(p), number0(1.f));
    CHECK(!p[0].defined());
    CHECK(q[1].to_vector() == floats{4, 5});
  }
  const auto looped = compile(
      [&](matrix p, number0 s) {
        const matrix next = p * 0.5f;
        fori_loop(
            0, 2,
            [&](auto, number0 x) {
              host_call(refuse, x);
              return number0(x - 1.f);
            },
            number0(sum(next) + s));
        return next;
      },
      {.donate = {0}});
  for (int k = 0; k < 2; ++k) {
    matrix p{{2, 4}};
    CHECK_THROWS_AS(looped(std::move(p), number0(-2.5f)), std::runtime_error);
    CHECK(p.to_vector() == floats{2, 4});
    CHECK(looped(std::move(p), number0(5.f)).to_vector() == floats{1, 2});
    CHECK(!p.defined());
  }
}

TEST_CASE("verify, minimize, explain and precompile donate nothing") {
  const auto step = compile(step_of, {.donate = {0}});
  model m = made();
  const vec by{1, 1, 1};
  precompile(step, std::move(m), by);
  CHECK(as_made(m));
  explain(step)(std::move(m), by);
  CHECK(as_made(m));
  CHECK(bool(verify(step)(std::move(m), by)));
  CHECK(as_made(m));
  minimize(step)(std::move(m), by);
  CHECK(as_made(m));
}

TEST_CASE("a read of a donated handle names the call, whatever reads") {
  const auto step = compile([](matrix x, number0 s) { return x * s; }, {.donate = {0, 1}});
  matrix x{{1, 2}, {3, 4}};
  number0 s = 2.f;
  step(x, s);
  const matrix r = step(std::move(x), std::move(s));
  const std::string call = "donated to the call at " + std::string(__FILE__) + ":" + std::to_string(__LINE__ - 1) + " ";
  const matrix other{{1, 2}, {3, 4}};
  const auto names = [&](int line, auto read) {
    INFO(line);
    const std::string text = error_of(read);
    CHECK_MESSAGE(text.find(call) != std::string::npos, text);
  };
  names(__LINE__, [&] { s.item(); });
  names(__LINE__, [&] { s(); });
  names(__LINE__, [&] { x.item(); });
  names(__LINE__, [&] { x.to_vector(); });
  names(__LINE__, [&] { x.data(); });
  names(__LINE__, [&] { x(0, 1); });
  names(__LINE__, [&] { x[0]; });
  names(__LINE__, [&] { x.fill(1); });
  names(__LINE__, [&] { x.device(); });
  names(__LINE__, [&] { x.to(device::cpu()); });
  names(__LINE__, [&] { to_string(x); });
  names(__LINE__, [&] { std::ostringstream() << s; });
  names(__LINE__, [&] { matrix y = x + 1.f; });
  names(__LINE__, [&] { matrix y = other * s; });
  names(__LINE__, [&] { matrix y = x + matrix{{1, 2, 3}}; });
  names(__LINE__, [&] { sum(x); });
  names(__LINE__, [&] { matmul(other, x); });
  names(__LINE__, [&] { transpose(x); });
  names(__LINE__, [&] { concat<0>(other, x); });
  names(__LINE__, [&] { matrix y = softmax(x, axis<1>); });
  names(__LINE__, [&] { sort(x, axis<0>); });
  names(__LINE__, [&] { matrix y = x.at(0).set(1.f); });
  names(__LINE__, [&] { step(x, number0(1.f)); });
  names(__LINE__, [&] { step(std::move(x), number0(1.f)); });
  names(__LINE__, [&] { compile([&](matrix y) { return y + x; })(other); });
  names(__LINE__, [&] { compile([x](matrix y) { return matmul(y, x); })(other); });
  names(__LINE__, [&] { compile([&](matrix y) { return y * s.item(); })(other); });
  names(__LINE__, [&] { grad([](matrix y) { return sum(y); })(x); });
  names(__LINE__, [&] { vmap([](vec y) { return sum(y); })(x); });
  names(__LINE__, [&] { scan([](number0 c, vec y) { return std::pair{number0(c + sum(y)), c}; }, number0(0.f), x); });
  names(__LINE__, [&] { tree_map([](const auto& y) { return y * 2.f; }, std::vector{other, x}); });
  names(__LINE__, [&] { mark_dynamic(x, 0); });
  names(__LINE__, [&] { mark_static(x, 0); });
  names(__LINE__, [&] { verify(step)(x, number0(1.f)); });
  names(__LINE__, [&] {
    const matrix y = x;
    y.to_vector();
  });
  names(__LINE__, [&] {
    const matrix y = std::move(x);
    y.to_vector();
  });
  names(__LINE__, [&] {
    const tensor<float, dims{2, 2}> y = x;
    matmul(y, y);
  });
  x = r;
  CHECK(x.to_vector() == floats{2, 4, 6, 8});
}

TEST_CASE("a rank-0 tensor that was moved from has nothing to read") {
  number0 a = 1.f;
  const number0 b = std::move(a);
  CHECK(error_of([&] { a.item(); }).find("holds nothing") != std::string::npos);
  CHECK(b.item() == 1);
}

TEST_CASE("a handle that is two arguments lends no memory: the kernels read the other one, too") {
  const auto f = compile(
      [](matrix a, matrix b) {
        return std::pair{matrix(a * 2.f), matrix(matmul(b, b))};
      },
      {.donate = {0}});
  for (int k = 0; k < 3; ++k) {
    matrix x{{1, 2}, {3, 4}};
    const float* const memory = x.data();
    const auto [twice, square] = f(std::move(x), x);
    CHECK(twice.to_vector() == floats{2, 4, 6, 8});
    CHECK(square.to_vector() == floats{7, 10, 15, 22});
    CHECK(twice.data() != memory);
    CHECK(!x.defined());
    matrix y{{1, 2}, {3, 4}};  // and one that is one argument does
    const matrix z{{1, 2}, {3, 4}};
    const float* const own = y.data();
    const auto [first, second] = f(std::move(y), z);
    CHECK((first.data() == own || second.data() == own));
  }
}

TEST_CASE("after a call that finds no memory for another result the argument has its own again") {
  const auto f = compile(
      [](matrix x, vec y, std::int64_t copies) {
        return std::pair{matrix(x * 2.f), matrix(broadcast_to(y, copies, 2) + 1.f)};
      },
      {.donate = {0}});
  const vec y{5, 6};
  for (int k = 0; k < 3; ++k) {
    matrix x{{1, 2}, {3, 4}};
    const float* const memory = x.data();
    CHECK_THROWS_WITH_AS(f(std::move(x), y, std::int64_t{1} << 50), doctest::Contains("out of memory"), system_error);
    REQUIRE(x.defined());
    CHECK(x.data() == memory);
    CHECK(x.to_vector() == floats{1, 2, 3, 4});
    const matrix twice = f(std::move(x), y, std::int64_t{3}).first;
    CHECK(twice.data() == memory);
    CHECK(!x.defined());
  }
}
