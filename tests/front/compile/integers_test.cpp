// C++ integers given for rank-0 tensors are read at each call.
#include "integer_programs.hpp"

#include "../../stderr_text.hpp"
#include "../../texts.hpp"

#include <concepts>
#include <cstdlib>

using namespace integer_programs;
using texts::contains;

namespace {

struct overloaded {
  vec operator()(vec x, whole n) const { return x + cast<float>(n); }
  vec operator()(vec x, int n) const { return x * n; }
};

vec plain(vec x, const whole& n) { return x + cast<float>(n); }

template <class F>
std::size_t made_by(const F& f) {
  const vec x{1, 2, 3};
  for (int n = 0; n < 5; ++n) CHECK(f(x, n).to_vector() == floats{1 + float(n), 2 + float(n), 3 + float(n)});
  return f.specialisations();
}

}  // namespace

TEST_CASE("integers of every dtype and flags") {
  every_integer({}, device::cpu());
  every_integer({.backend = "reference"}, device::cpu());
}

TEST_CASE("a decoder's steps share kernels, with extents open and fixed") {
  decoding({}, device::cpu(), 2);
  decoding({.dynamic = dynamic::yes}, device::cpu(), 1);
  decoding({.dynamic = dynamic::no, .backend = "reference"}, device::cpu(), 3);
}

TEST_CASE("values that are read, derivatives, stances") {
  for (const char* backend : {"auto", "reference"}) {
    reading({.backend = backend}, device::cpu());
    gradients({.backend = backend}, device::cpu());
  }
  const auto f = compile(plain);
  const stance_scope eagerly(stance::eager);
  CHECK(f(vec{1, 2}, 4).to_vector() == floats{5, 6});
}

TEST_CASE(
    "functions of every kind, whose integers are inputs where the parameter is a rank-0 tensor and nothing else") {
  CHECK(made_by(compile(plain)) == 1);
  CHECK(made_by(compile(&plain)) == 1);
  CHECK(made_by(compile([](vec x, whole n) { return x + cast<float>(n); })) == 1);
  CHECK(made_by(compile([](auto x, const whole& n) { return x + cast<float>(n); })) == 1);
  CHECK(made_by(compile([](const auto& x, whole&& n) { return x + cast<float>(n); })) == 1);
  CHECK(made_by(compile([](auto x, tensor<double, 0> n) { return x + cast<float>(n); })) == 1);
  CHECK(made_by(compile([k = 0](vec x, whole n) mutable { return ++k, x + cast<float>(n); })) == 1);
  CHECK(made_by(compile([](vec x, int n) { return x + n; })) == 5);
  CHECK(made_by(compile([](vec x, auto n) { return x + n; })) == 5);
  CHECK(made_by(compile([](vec x, std::integral auto n) { return x + n; })) == 5);
  const auto f = compile(overloaded());
  for (int n = 0; n < 3; ++n) CHECK(f(vec{1, 2}, n).to_vector() == floats{float(n), 2 * float(n)});
  CHECK(f.specialisations() == 3);
}

TEST_CASE("beside C++ floats, sizes, precompiled, explained, verified, within another trace") {
  const auto f = compile([](auto x, auto rate, whole n) { return x * rate + cast<float>(n); });
  f.precompile(spec<vec>{{3}}, 2.f, 1);
  {
    const stance_scope only(stance::fail_on_recompile);
    for (int n = 0; n < 4; ++n) CHECK(f(vec{1, 2, 3}, 0.5f * float(n), n).to_vector()[1] == 2 * float(n));
  }
  CHECK(f(vec{1, 2, 3}, 1.f, vec{1, 2, 3, 4}.size(0)).to_vector()[2] == 7);
  CHECK(bool(verify(f)(vec{1, 2, 3}, 2.f, 5)));
  CHECK(contains(explain(f)(vec{1, 2, 3}, 2.f, 5).text(), "tensor 2: i32 ()"));
  const auto inner = compile(plain);
  const auto outer = compile([&](vec x) { return inner(x, 3) * inner(x, x.size(0)); }, {.dynamic = dynamic::yes});
  CHECK(outer(vec{1, 2, 3}).to_vector() == floats{16, 25, 36});
  CHECK(outer(vec{1, 2, 3, 4}).to_vector() == floats{20, 30, 42, 56});
  CHECK(outer.specialisations() == 1);
}

namespace {

template <std::size_t>
using short_whole = tensor<std::int32_t, 0>;

template <std::size_t... I>
void many_of(std::index_sequence<I...>) {
  const auto f = compile([](vec x, short_whole<I>... n) {
    ((x = x + cast<float>(n)), ...);  // an expression of 67 operands takes long to compile
    return x;
  });
  const auto call = [&](int each, int last) { return f(vec{1}, (I + 1 < sizeof...(I) ? each : last)...)(0); };
  CHECK(call(-1, -2) == 1.f - 65 - 2);
  CHECK(call(-1, -2) == 1.f - 65 - 2);
  CHECK(f.specialisations() == 1);
  CHECK(call(3, -2) == 1.f + 63 * 3 + 3 + 3 - 2);
  CHECK(f.specialisations() == 2);
}

}  // namespace

TEST_CASE("of more than 64 numbers the others are guarded by value, negative ones too") {
  many_of(std::make_index_sequence<66>());
}

TEST_CASE("the warning at the limit says what to write for an integer, and names a field") {
  struct state {
    vec w;
    int epoch = 0;
  };
  const auto f = compile([](vec x, int n) { return x * n; }, {.recompile_limit = 2, .name = "counted"});
  std::string said = stderr_text([&] {
    for (int n = 0; n < 4; ++n) f(vec{1}, n);
  });
  CHECK(contains(said, "argument 1: 0, 1, 2"));
  CHECK(contains(said, "Write tensor<std::int64_t, 0> for the parameter"));
  const auto g = compile([](const std::tuple<int, state>& s) { return std::get<1>(s).w * std::get<1>(s).epoch; },
                         {.recompile_limit = 2, .name = "epochs"});
  setenv("SINTER_LOGS", "recompiles", 1);
  said = stderr_text([&] {
    for (int n = 0; n < 4; ++n) g(std::tuple(1, state{vec{1}, n}));
  });
  unsetenv("SINTER_LOGS");
  const std::string name = "argument 0[1].epoch";
  CHECK(contains(said, "epochs: " + name + " is 1, was 0; make it a tensor<std::int64_t, 0>"));
  CHECK(contains(said, "the guard that kept failing: " + name + ": 0, 1, 2"));
  CHECK(contains(said, "Make it a tensor<std::int64_t, 0>, whose value is read at each call; or call it with fewer"));
}
