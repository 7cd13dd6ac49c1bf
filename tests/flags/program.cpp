// Prints what a program computes, bit by bit: a line is a name, "exact" or "close", and the elements.
#include <sinter/sinter.hpp>

#include <bit>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace sinter;

namespace {

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }
std::uint64_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint64_t bits(f16 x) { return x.bits; }
std::uint64_t bits(bf16 x) { return x.bits; }
template <class T>
requires std::is_integral_v<T> std::uint64_t bits(T x) { return static_cast<std::uint64_t>(x); }

/// NaNs have one spelling: which of them an operation makes is not promised.
template <class T>
bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>) return false;
  else if constexpr (sizeof(T) == 8) return (bits(x) & ~(1ull << 63)) > 0x7ff0000000000000ull;
  else return (bits(static_cast<float>(x)) & 0x7fffffffull) > 0x7f800000ull;
}

template <class T, dims S>
void show(const char* name, const char* how, const tensor<T, S>& x) {
  std::printf("%s %s %d", name, how, static_cast<int>(sizeof(T)));
  for (const T v : x.to_vector())
    is_nan(v) ? std::printf(" nan") : std::printf(" %llx", static_cast<unsigned long long>(bits(v)));
  std::printf("\n");
}

/// Numbers that flags treat differently, then others; 53 make vectors of every width and a remainder.
template <class T>
std::vector<T> values(unsigned seed) {
  const std::uint64_t special[] = {0x7ff8000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0, 0x8000000000000000};
  std::vector<T> out;
  for (const std::uint64_t s : special) out.push_back(static_cast<T>(std::bit_cast<double>(s)));
  for (const double v : {0.5, -0.5, 2.5, -2.5, 100.25, -100.25, 1e9, -3e9, 5e9, 1.0, -1.0, 3.0, 0.1, 8388609.0, 1e-3})
    out.push_back(static_cast<T>(v));
  while (out.size() < 53) {
    seed = seed * 1664525u + 1013904223u;
    out.push_back(static_cast<T>((static_cast<double>(seed >> 8) / (1 << 24) - 0.5) * 20));
  }
  std::rotate(out.begin(), out.begin() + seed % 7, out.end());
  return out;
}

template <class T>
void pointwise(const std::string& type) {
  const auto v = values<T>(1), w = values<T>(7);
  const auto n = static_cast<std::int64_t>(v.size());
  const tensor<T, 1> a = from_span(v, n), b = from_span(w, n);
  const auto named = [&](const char* name) { return type + "/" + name; };
#define SINTER_EACH(NAME, HOW, ...) show(named(NAME).c_str(), HOW, evaluate(__VA_ARGS__));
  SINTER_EACH("fused", "exact", a * b - a * b);
  SINTER_EACH("sum_of_products", "exact", a * a + b * b - a);
  SINTER_EACH("signed_zero", "exact", a * 0 + b * -0.0);
  SINTER_EACH("floor", "exact", floor(a));
  SINTER_EACH("round", "exact", round(a));
  SINTER_EACH("maximum", "exact", maximum(a, b));
  SINTER_EACH("isnan", "exact", isnan(a));
  SINTER_EACH("isinf", "exact", isinf(a));
  SINTER_EACH("i32", "exact", cast<std::int32_t>(a));
  SINTER_EACH("exp", "close", exp(a));
  SINTER_EACH("min", "exact", min(b));
  SINTER_EACH("var", "close", var(where(abs(a) < 100, a, 0)));
  SINTER_EACH("logsumexp_of_nan", "exact", logsumexp(a));
  if constexpr (sizeof(T) == 4) {
    SINTER_EACH("reassociated", "exact", (a + b) - a);
    SINTER_EACH("reciprocal", "exact", a / 3 + b / 7);
    SINTER_EACH("divide", "exact", a / b);
    SINTER_EACH("trunc", "exact", trunc(a));
    SINTER_EACH("relu", "exact", relu(a));
    SINTER_EACH("abs", "exact", abs(a));
    SINTER_EACH("isfinite", "exact", isfinite(a));
    SINTER_EACH("equal", "exact", a == a);
    SINTER_EACH("where", "exact", where(a == a, a, b));
    SINTER_EACH("i64", "exact", cast<std::int64_t>(a));
    SINTER_EACH("f16", "exact", cast<f16>(a));
    SINTER_EACH("bf16", "exact", cast<bf16>(a * b));
    SINTER_EACH("fmod", "exact", a % b);
    SINTER_EACH("sqrt", "exact", sqrt(a));
    SINTER_EACH("mixed", "exact", cast<float>(cast<double>(a) * cast<double>(b) - cast<double>(a)));
    SINTER_EACH("log", "close", log(a));
    SINTER_EACH("sin", "close", sin(a));
    SINTER_EACH("erf", "close", erf(a));
    SINTER_EACH("sigmoid", "close", sigmoid(a));
    SINTER_EACH("pow", "close", pow(a, 3) + pow(b, 0.5));
    SINTER_EACH("max", "exact", max(a));
    SINTER_EACH("argmax", "exact", argmax(a));
    SINTER_EACH("sum", "close", sum(where(isfinite(a), a, 0)));
    SINTER_EACH("sum_of_nan", "exact", sum(a * b));
    SINTER_EACH("var_of_infinite", "exact", var(a));
    SINTER_EACH("logsumexp", "close", logsumexp(where(abs(a) < 100, a, -1e30)));
    SINTER_EACH("softmax", "close", softmax(where(abs(a) < 100, a, -1e30)));
    SINTER_EACH("norm", "close", norm(where(abs(a) < 100, a, 0)));
  }
#undef SINTER_EACH
}

/// The same by the interpreter, which is part of the engine, and numbers that its rewrites fold.
template <class T>
void interpreted(const char* name) {
  const auto f = compile(
      [](const tensor<T, 1>& a, const tensor<T, 1>& b) {
        const tensor<T, 1> nan = full<T>(std::bit_cast<double>(0x7ff8000000000000), 3),
                           big = full<T>(2.5, 3) * full<T>(1e9, 3);
        return std::vector<tensor<T, 1>>{evaluate(a * b - a * b),
                                         evaluate((a + b) - a),
                                         evaluate(b * -0.0),
                                         floor(a),
                                         round(a),
                                         maximum(a, b),
                                         relu(a),
                                         cast<T>(isinf(a)),
                                         cast<T>(isnan(a)),
                                         cast<T>(cast<std::int32_t>(a)),
                                         cast<T>(cast<f16>(a)),
                                         evaluate(a % b),
                                         cumsum<0>(a),
                                         maximum(nan, big),
                                         cast<T>(cast<std::int32_t>(big)),
                                         cast<T>(isnan(nan)),
                                         floor(big)};
      },
      {.backend = "reference"});
  const auto v = values<T>(1), w = values<T>(7);
  for (const auto& x : f(from_span(v), from_span(w))) show(name, "exact", x);
}

void others() {
  const tensor<float, 1> x = from_span(values<float>(3), 53);
  show("half", "exact", evaluate(cast<f16>(x) * cast<f16>(x) - cast<f16>(x)));
  show("subnormal", "exact", evaluate(full<float>(1e-38f, 19) * full<float>(0.01f, 19)));
  show("zero_tail", "exact", evaluate(full<float>(2.5f, 3) - floor(full<float>(2.5f, 3))));
  show("normal", "exact", normal<double>(make_key(7), 37));
  show("uniform", "exact", uniform<float>(make_key(7), 37));
  const tensor<float, 2> m = reshape(where(abs(x) < 100, x, 1), 53, 1);
  show("matmul", "close", evaluate(matmul(m + zeros<float>(53, 9), transpose(m + zeros<float>(53, 9)))));
}

}  // namespace

int main() {
  pointwise<float>("f32");
  pointwise<double>("f64");
  interpreted<float>("f32/reference");
  interpreted<double>("f64/reference");
  others();
}
