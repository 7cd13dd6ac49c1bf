// The text that kernels start with: every function, dtype, width and tail against long double and the scalar vocabulary.
#include <doctest/doctest.h>
#include <sinter/emit/prelude/cpu.hpp>
#include <sinter/emit/prelude/exp.hpp>
#include <sinter/emit/prelude/gemm.hpp>
#include <sinter/emit/prelude/math.hpp>
#include <sinter/ir/vocabulary.hpp>
#include <sinter/run/build/build.hpp>

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../../sanitizers.hpp"

namespace {

using namespace sinter;
namespace voc = sinter::vocabulary;
template <class T>
using limits = std::numeric_limits<T>;

/// One set of instructions: the lanes, and what it adds to the compiler's arguments.
struct target {
  int lanes;
  const char* flags;
};

std::vector<target> targets() {
  std::vector<target> all = {{16, ""}, {8, ""}, {4, ""}};
#if defined(__x86_64__)
  all.insert(all.end(), {{8, "-march=x86-64-v3"}, {4, "-march=x86-64-v2"}, {8, "-march=x86-64 -DSINTER_LIBMVEC=0"}});
#endif
  return all;
}

/// Products take longer to compile; what differs between these is the shape of their register blocks.
std::vector<target> product_targets() {
  std::vector<target> all = {{16, ""}};
#if defined(__x86_64__)
  all.insert(all.end(), {{8, "-march=x86-64-v3"}, {4, "-march=x86-64-v2"}});
#endif
  return all;
}

std::shared_ptr<const engine::run::module> build(const target& t, std::string_view kernels) {
  std::string text = "#define SINTER_W " + std::to_string(t.lanes) + "\n";
  for (const auto piece : {engine::emit::prelude_core, engine::emit::prelude_memory, engine::emit::prelude_fold,
                           engine::emit::prelude_arithmetic, engine::emit::prelude_round, engine::emit::prelude_math,
                           engine::emit::prelude_power, engine::emit::prelude_exp, engine::emit::prelude_random,
                           engine::emit::prelude_draws, engine::emit::prelude_transpose, engine::emit::prelude_threads,
                           engine::emit::prelude_gemm})
    text += piece;
  text += kernels;
  ::setenv("SINTER_CXXFLAGS", ("-O1 " + std::string(t.flags)).c_str(), 1);
  const std::string sources[] = {text};
  auto made = engine::run::build(sources);
  ::unsetenv("SINTER_CXXFLAGS");
  return made[0].code;
}

std::mt19937_64 random_bits(7);

template <class T>
std::vector<T> values(std::size_t count) {
  std::vector<T> v;
  if constexpr (std::is_floating_point_v<T>) {
    using L = limits<T>;
    for (T x : {T(0),
                L::infinity(),
                L::denorm_min(),
                T(3) * L::denorm_min(),
                L::min() - L::denorm_min(),
                L::min(),
                L::epsilon(),
                T(1e-3),
                T(0.25),
                T(0.5),
                T(1) - L::epsilon() / 2,
                T(1),
                T(1) + L::epsilon(),
                T(1.5),
                T(2),
                T(2.5),
                T(3),
                T(10),
                T(86),
                T(88.5),
                T(88.72),
                T(88.73),
                T(89),
                T(104),
                T(127.5),
                T(128),
                T(255),
                T(300),
                T(709.5),
                T(710.5),
                T(746),
                T(1024),
                T(32767.5),
                T(65504),
                T(65519.996),
                T(65520),
                T(1e6) + T(0.5),
                T(8388607.5),
                T(16777216),
                T(2147483648.0),
                T(4294967296.0),
                T(9223372036854775808.0),
                T(18446744073709551616.0),
                T(1e10),
                T(1e22),
                T(1e30),
                L::max() / 2,
                L::max()})
      v.insert(v.end(), {x, -x});
    v.push_back(L::quiet_NaN());
    std::uniform_real_distribution<T> small(-2, 2), wide(-100, 100);
    while (v.size() < count) {
      T any;
      const auto bits = random_bits();
      std::memcpy(&any, &bits, sizeof any);
      v.insert(v.end(), {any, small(random_bits), wide(random_bits)});
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    while (v.size() < count) v.push_back(random_bits() % 2 != 0);
  } else {
    for (int x : {0, 1, -1, 2, -2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100}) v.push_back(static_cast<T>(x));
    for (T x : {limits<T>::min(), limits<T>::max(), T(limits<T>::min() + 1), T(limits<T>::max() - 1)}) v.push_back(x);
    while (v.size() < count)
      v.insert(v.end(), {static_cast<T>(random_bits()), static_cast<T>(static_cast<int>(random_bits() % 41) - 20)});
  }
  v.resize(std::max(count, v.size()));
  return v;
}

/// Every pair of the first values, then pairs at random.
template <class T>
std::pair<std::vector<T>, std::vector<T>> pairs() {
  const auto v = values<T>(160);
  const std::size_t special = std::is_floating_point_v<T> ? 95 : 19;
  std::vector<T> a, b;
  for (std::size_t i = 0; i < special && i < v.size(); ++i)
    for (std::size_t j = 0; j < special && j < v.size(); ++j) a.push_back(v[i]), b.push_back(v[j]);
  for (int i = 0; i < 2003; ++i) a.push_back(v[random_bits() % v.size()]), b.push_back(v[random_bits() % v.size()]);
  return {a, b};
}

/// Error in units of the last place of the exact value; 0 when both are NaN or equal.
template <class T>
double ulps(T got, long double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : INFINITY;
  const T nearest = static_cast<T>(exact);
  if (got == nearest) return 0;
  if (std::isnan(got) || std::isinf(exact)) return INFINITY;
  int e = 0;
  std::frexp(exact, &e);
  const long double unit = std::ldexp(1.0L, std::max(e, limits<T>::min_exponent) - limits<T>::digits);
  const long double g =
      std::isinf(got) ? std::copysign(std::ldexp(1.0L, limits<T>::max_exponent), got) : static_cast<long double>(got);
  return static_cast<double>(std::fabs(g - exact) / unit);
}

template <class T>
double distance(T got, long double exact) {
  if constexpr (std::is_floating_point_v<T>) return ulps(got, exact);
  else return got == static_cast<T>(exact) ? 0 : INFINITY;
}

using kernel = void(const void* const*, long);

/// Runs kernel `name` in its vector form with every tail, and in its scalar form; the results must be within `limit`
/// ulps of expected(i), and nothing past the end may be written.
template <class R, class Expected>
void check(const engine::run::module& code, const std::string& name, std::vector<const void*> in, std::size_t n,
           Expected expected, double limit = 0) {
  for (const char* form : {"_v", "_s"}) {
    auto* f = code.symbol<kernel>((name + form).c_str());
    for (const std::size_t count : {n, n - 1, n - 5, n - 11, std::size_t{1}, std::size_t{0}}) {
      std::vector<unsigned char> out(count * sizeof(R) + 64, 0xa5);
      auto pointers = in;
      pointers.push_back(out.data());
      f(pointers.data(), static_cast<long>(count));
      double worst = 0;
      std::size_t where = 0;
      for (std::size_t i = 0; i < count; ++i) {
        R got;
        std::memcpy(&got, out.data() + i * sizeof(R), sizeof(R));
        double d = distance(got, expected(i));
        if (std::is_same_v<R, bool> && out[i] > 1) d = INFINITY;
        if (d > worst) worst = d, where = i;
      }
      INFO(name, std::string(form), " of ", count, " at ", where, ": expected ", static_cast<double>(expected(where)));
      CHECK(worst <= limit);
      if (!(worst <= limit)) return;
      bool clean = true;
      for (std::size_t i = count * sizeof(R); i < out.size(); ++i) clean = clean && out[i] == 0xa5;
      CHECK(clean);
    }
  }
}

// The kernels: NAME_v by vectors and tails, NAME_s by scalars.
constexpr std::string_view wrappers = R"(
#define EACH(R, vector_value, tail_value, scalar_value, name) \
  extern "C" void name##_v(void** p, long n) { \
    t_##R* r = (t_##R*)p[LAST]; \
    for (long i = 0; i < n; i += SINTER_W) { const long m = n - i; if (m >= SINTER_W) store(r + i, vector_value); else store(r + i, tail_value, m); } \
  } \
  extern "C" void name##_s(void** p, long n) { t_##R* r = (t_##R*)p[LAST]; for (long i = 0; i < n; ++i) store1(r + i, scalar_value); }
#define P(k, A) ((const t_##A*)p[k] + i)
#define K1(f, A, R) EACH(R, f(load(P(0, A))), f(load(P(0, A), m)), f(load1(P(0, A))), f##_##A)
#define K2(f, A, R) EACH(R, f(load(P(0, A)), load(P(1, A))), f(load(P(0, A), m), load(P(1, A), m)), f(load1(P(0, A)), load1(P(1, A))), f##_##A)
#define KO(f, op, A) EACH(A, (load(P(0, A)) op load(P(1, A))), (load(P(0, A), m) op load(P(1, A), m)), ((s_##A)(load1(P(0, A)) op load1(P(1, A)))), f##_##A)
#define K3(f, A) EACH(A, f(load(P(0, b8)), load(P(1, A)), load(P(2, A))), f(load(P(0, b8), m), load(P(1, A), m), load(P(2, A), m)), f(load1(P(0, b8)), load1(P(1, A)), load1(P(2, A))), f##_##A)
#define KD(f) EACH(u64, f(load(P(0, u64)), load(P(1, u64)), load(P(2, u64))), f(load(P(0, u64), m), load(P(1, u64), m), load(P(2, u64), m)), f(load1(P(0, u64)), load1(P(1, u64)), load1(P(2, u64))), f##_u64)
#define KC(A, R) EACH(R, convert<v_##R>(load(P(0, A))), convert<v_##R>(load(P(0, A), m)), convert<s_##R>(load1(P(0, A))), convert_##A##_##R)
#define KM(A, R) EACH(R, load(P(0, A)), load(P(0, A), m), load1(P(0, A)), copy_##A##_##R)
// Reads backwards with a stride, by offsets and from the front; p[1] receives the strided copy.
#define KX(A) \
  extern "C" void memory_##A(void** p, long n, long stride) { \
    const t_##A* a = (const t_##A*)p[0]; t_##A *strided = (t_##A*)p[1], *gathered = (t_##A*)p[2], *streamed = (t_##A*)p[3]; \
    for (long i = 0; i < n; i += SINTER_W) { \
      const long m = n - i; \
      if (m >= SINTER_W) { \
        store_strided(strided + i * stride, stride, load_strided(a + i * stride, stride)); \
        store(gathered + i, load_at(a, (lanes() + i) * stride)); \
        store_stream(streamed + i, load(a + i)); \
      } else { \
        store_strided(strided + i * stride, stride, load_strided(a + i * stride, stride, m), m); \
        store(gathered + i, load_at(a, (lanes() + i) * stride, m), m); \
        store(streamed + i, load(a + i, m), m); \
      } \
    } \
    stream_end(); \
  }
// Folds of the first m of SINTER_W elements.
#define KF(f, A, identity) extern "C" void f##_##A(void** p, long m) { *(t_##A*)p[1] = (t_##A)f(keep(load((const t_##A*)p[0]), m, (s_##A)(identity))); }
)";

const char* const integers[] = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
const char* const floats[] = {"f32", "f64"};
const char* const unary_math[] = {"exp",     "exp2", "expm1", "log",   "log2", "log1p", "sqrt", "rsqrt", "cbrt",
                                  "sin",     "cos",  "tan",   "asin",  "acos", "atan",  "sinh", "cosh",  "tanh",
                                  "sigmoid", "erf",  "erfc",  "floor", "ceil", "round", "trunc"};

std::string line(std::initializer_list<std::string> parts) {
  std::string out;
  for (const auto& p : parts) out += out.empty() ? p + "(" : (out.back() == '(' ? "" : ", ") + p;
  return out + ")\n";
}

std::string every_kernel() {
  std::string t(wrappers);
  std::vector<std::string> numbers(std::begin(integers), std::end(integers));
  numbers.insert(numbers.end(), std::begin(floats), std::end(floats));
  auto all = numbers;
  all.push_back("b8");
  t += "#define LAST 1\n";
  for (const auto& a : all)
    for (const auto& r : all) t += line({"KC", a, r});
  for (const auto& a : numbers)
    for (const char* f : {"negate", "abs", "sign"}) t += line({"K1", f, a, a});
  for (const auto& a : all) t += line({"KM", a, a}) + line({"KX", a});
  for (const char* h : {"f16", "bf16"}) {
    t += line({"KM", h, "f32"}) + line({"KM", "f32", h}) + line({"KX", h});
    t += line({"K1", std::string("round_") + h, "f32", "f32"});
  }
  for (const char* a : integers) t += line({"K1", "bit_not", a, a});
  t += "K1(bit_not, b8, b8)\n";
  for (const char* a : floats) {
    for (const char* f : unary_math) t += line({"K1", f, a, a});
    for (const char* f : {"isnan", "isinf", "isfinite"}) t += line({"K1", f, a, "b8"});
  }
  t += "#undef LAST\n#define LAST 2\n";
  for (const auto& a : all)
    for (const char* f : {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
      t += line({"K2", f, a, "b8"});
  for (const auto& a : numbers) {
    for (const char* f : {"divide", "remainder", "power", "maximum", "minimum"}) t += line({"K2", f, a, a});
    t += line({"KO", "add", "+", a}) + line({"KO", "sub", "-", a}) + line({"KO", "mul", "*", a});
  }
  for (const char* a : integers) t += line({"K2", "shift_left", a, a}) + line({"K2", "shift_right", a, a});
  for (const auto& a : all)
    if (a[0] != 'f')
      t += line({"KO", "bit_and", "&", a}) + line({"KO", "bit_or", "|", a}) + line({"KO", "bit_xor", "^", a});
  t += "K2(atan2, f32, f32)\nK2(atan2, f64, f64)\nK2(philox, u64, u64)\nK2(gauss, u64, u64)\n#undef LAST\n#define LAST "
       "3\n";
  for (const auto& a : all) t += line({"K3", "select", a});
  t += "KD(gamma_root)\nKD(poisson_count)\n";
  for (const auto& a : numbers) {
    t += line({"KF", "fold_add", a, "0"}) + line({"KF", "fold_mul", a, "1"}) +
         line({"KF", "fold_maximum", a, "load1((const t_" + a + "*)p[0])"}) +
         line({"KF", "fold_minimum", a, "load1((const t_" + a + "*)p[0])"});
    if (a[0] != 'f') t += line({"KF", "fold_bit_or", a, "0"}) + line({"KF", "fold_bit_and", a, "-1"});
  }
  return t + "KF(fold_bit_or, b8, false)\nKF(fold_bit_and, b8, true)\n";
}

template <class T>
std::string dtype_name() {
  return dtype_of<T> == dtype::b8 ? "b8" : sinter::dtype_name(dtype_of<T>);
}

template <class F>
void for_integers(F f) {
  f(std::int8_t{}), f(std::int16_t{}), f(std::int32_t{}), f(std::int64_t{}), f(std::uint8_t{}), f(std::uint16_t{}),
      f(std::uint32_t{}), f(std::uint64_t{});
}
template <class F>
void for_numbers(F f) {
  for_integers(f), f(float{}), f(double{});
}
template <class F>
void for_all(F f) {
  for_numbers(f), f(bool{});
}

/// A container of bytes for elements that std::vector<bool> would pack.
template <class T>
struct array {
  explicit array(const std::vector<T>& v) : size(v.size()), bytes(size * sizeof(T)) {
    for (std::size_t i = 0; i < size; ++i) {
      const T x = v[i];
      std::memcpy(bytes.data() + i * sizeof(T), &x, sizeof(T));
    }
  }
  T operator[](std::size_t i) const {
    T x;
    std::memcpy(&x, bytes.data() + i * sizeof(T), sizeof(T));
    return x;
  }
  const void* data() const { return bytes.data(); }
  std::size_t size;
  std::vector<unsigned char> bytes;
};

void check_casts(const engine::run::module& code) {
  for_all([&]<class A>(A) {
    const array<A> a(values<A>(1003));
    for_all([&]<class R>(R) {
      const auto expected = [&](std::size_t i) { return static_cast<long double>(voc::convert<R>(a[i])); };
      check<R>(code, "convert_" + dtype_name<A>() + "_" + dtype_name<R>(), {a.data()}, a.size, expected);
    });
    check<A>(code, "copy_" + dtype_name<A>() + "_" + dtype_name<A>(), {a.data()}, a.size,
             [&](std::size_t i) { return static_cast<long double>(a[i]); });
  });
}

template <class T>
void check_arithmetic(const engine::run::module& code) {
  const std::string n = "_" + dtype_name<T>();
  const array<T> v(values<T>(1003));
  const auto [pa, pb] = pairs<T>();
  const array<T> a(pa), b(pb);
  const auto one = [&](const char* f, auto g) {
    check<T>(code, f + n, {v.data()}, v.size, [&](std::size_t i) { return static_cast<long double>(g(v[i])); });
  };
  const auto two = [&]<class R>(R, const char* f, auto g) {
    check<R>(code, f + n, {a.data(), b.data()}, a.size,
             [&](std::size_t i) { return static_cast<long double>(g(a[i], b[i])); });
  };
  if constexpr (!std::is_same_v<T, bool>) {
    one("negate", [](T x) { return voc::negate(x); });
    one("abs", [](T x) { return voc::abs(x); });
    one("sign", [](T x) { return voc::sign(x); });
    two(T{}, "divide", [](T x, T y) { return voc::divide(x, y); });
    two(T{}, "remainder", [](T x, T y) { return voc::remainder(x, y); });
    two(T{}, "maximum", [](T x, T y) { return voc::maximum(x, y); });
    two(T{}, "minimum", [](T x, T y) { return voc::minimum(x, y); });
    if constexpr (std::is_floating_point_v<T>) {
      two(T{}, "add", [](T x, T y) { return x + y; });
      two(T{}, "sub", [](T x, T y) { return x - y; });
      two(T{}, "mul", [](T x, T y) { return x * y; });
    } else {
      using U = std::uint64_t;
      two(T{}, "add", [](T x, T y) { return static_cast<T>(static_cast<U>(x) + static_cast<U>(y)); });
      two(T{}, "sub", [](T x, T y) { return static_cast<T>(static_cast<U>(x) - static_cast<U>(y)); });
      two(T{}, "mul", [](T x, T y) { return static_cast<T>(static_cast<U>(x) * static_cast<U>(y)); });
      two(T{}, "power", [](T x, T y) { return voc::power(x, y); });
      two(T{}, "shift_left", [](T x, T y) { return voc::shift_left(x, y); });
      two(T{}, "shift_right", [](T x, T y) { return voc::shift_right(x, y); });
    }
  }
  if constexpr (!std::is_floating_point_v<T>) {
    one("bit_not", [](T x) { return voc::bit_not(x); });
    two(T{}, "bit_and", [](T x, T y) { return static_cast<T>(x & y); });
    two(T{}, "bit_or", [](T x, T y) { return static_cast<T>(x | y); });
    two(T{}, "bit_xor", [](T x, T y) { return static_cast<T>(x ^ y); });
  }
  two(bool{}, "equal", [](T x, T y) { return x == y; });
  two(bool{}, "not_equal", [](T x, T y) { return x != y; });
  two(bool{}, "less", [](T x, T y) { return x < y; });
  two(bool{}, "less_equal", [](T x, T y) { return x <= y; });
  two(bool{}, "greater", [](T x, T y) { return x > y; });
  two(bool{}, "greater_equal", [](T x, T y) { return x >= y; });
  const array<bool> m(values<bool>(a.size));
  check<T>(code, "select" + n, {m.data(), a.data(), b.data()}, a.size,
           [&](std::size_t i) { return static_cast<long double>(m[i] ? a[i] : b[i]); });
}

template <class T>
void check_math(const engine::run::module& code) {
  using L = long double;
  const std::string n = "_" + dtype_name<T>();
  const array<T> v(values<T>(6007));
  const auto one = [&](const char* f, double limit, auto g) {
    check<T>(
        code, f + n, {v.data()}, v.size, [&](std::size_t i) { return static_cast<L>(g(static_cast<L>(v[i]))); }, limit);
  };
  one("exp", std::is_same_v<T, float> ? 1.2 : 4, [](L x) { return std::exp(x); });
  one("exp2", 4, [](L x) { return std::exp2(x); });
  one("expm1", 4, [](L x) { return std::expm1(x); });
  one("log", 4, [](L x) { return std::log(x); });
  one("log2", 4, [](L x) { return std::log2(x); });
  one("log1p", 4, [](L x) { return std::log1p(x); });
  one("sqrt", 0.5, [](L x) { return std::sqrt(x); });
  one("rsqrt", 2, [](L x) { return 1 / std::sqrt(x); });
  one("cbrt", 4, [](L x) { return std::cbrt(x); });
  one("sin", 4, [](L x) { return std::sin(x); });
  one("cos", 4, [](L x) { return std::cos(x); });
  one("tan", 4, [](L x) { return std::tan(x); });
  one("asin", 4, [](L x) { return std::asin(x); });
  one("acos", 4, [](L x) { return std::acos(x); });
  one("atan", 4, [](L x) { return std::atan(x); });
  one("sinh", 4, [](L x) { return std::sinh(x); });
  one("cosh", 4, [](L x) { return std::cosh(x); });
  one("tanh", 4, [](L x) { return std::tanh(x); });
  // By its formula: 0 from where exp(-x) overflows.
  one("sigmoid", 6, [](L x) { return 1 / (1 + static_cast<L>(static_cast<T>(std::exp(-x)))); });
  one("erf", 4, [](L x) { return std::erf(x); });
  one("erfc", 4, [](L x) { return std::erfc(x); });
  one("floor", 0, [](L x) { return std::floor(x); });
  one("ceil", 0, [](L x) { return std::ceil(x); });
  one("round", 0, [](L x) { return std::nearbyint(x); });
  one("trunc", 0, [](L x) { return std::trunc(x); });
  for (const char* f : {"sin", "tan", "asin", "atan", "sinh", "tanh", "erf", "expm1", "log1p"}) {
    const std::vector<T> zeros(16, T(-0.0));
    std::vector<T> out(16);
    const void* p[] = {zeros.data(), out.data()};
    code.symbol<kernel>((f + n + "_v").c_str())(p, 16);
    CHECK_MESSAGE(std::signbit(out[0]), f, n, " of -0");
  }
  const auto test = [&](const char* f, auto g) {
    check<bool>(code, f + n, {v.data()}, v.size, [&](std::size_t i) { return static_cast<L>(g(v[i])); });
  };
  test("isnan", [](T x) { return std::isnan(x); });
  test("isinf", [](T x) { return std::isinf(x); });
  test("isfinite", [](T x) { return std::isfinite(x); });
  const auto [pa, pb] = pairs<T>();
  const array<T> a(pa), b(pb);
  // x87's pow of an infinity mistakes large even exponents for odd ones.
  const auto exact_power = [&](std::size_t i) {
    return std::isinf(a[i]) ? static_cast<L>(std::pow(static_cast<double>(a[i]), static_cast<double>(b[i])))
                            : std::pow(static_cast<L>(a[i]), static_cast<L>(b[i]));
  };
  check<T>(code, "power" + n, {a.data(), b.data()}, a.size, exact_power, 4);
  // Exponents that all lanes have, which are computed without pow.
  for (const T by : {T(2), T(1), T(0), T(-0.0), T(-1), T(3), T(4), T(-2), T(0.5)}) {
    const array<T> same(std::vector<T>(v.size, by));
    check<T>(
        code, "power" + n, {v.data(), same.data()}, v.size,
        [&](std::size_t i) { return by == 0 ? L(1) : std::pow(static_cast<L>(v[i]), static_cast<L>(by)); },
        by == 3 || by == 4 || by == -2 ? 4 : 1);
  }
  check<T>(
      code, "atan2" + n, {a.data(), b.data()}, a.size,
      [&](std::size_t i) { return std::atan2(static_cast<L>(a[i]), static_cast<L>(b[i])); }, 4);
}

/// The nearest value with `digits` significant bits and least exponent `least`, ties to even; `top` and above overflow.
double nearest(double x, int digits, int least, double top) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  int e = 0;
  std::frexp(x, &e);
  const double unit = std::ldexp(1.0, std::max(e, least) - digits), r = std::nearbyint(x / unit) * unit;
  return std::fabs(r) >= top ? std::copysign(INFINITY, x) : r;
}

double decode_f16(std::uint16_t h) {
  const int e = h >> 10 & 31, m = h & 1023;
  const double v = e == 31 ? (m ? NAN : INFINITY) : e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, e - 25);
  return h & 0x8000 ? -v : v;
}
double decode_bf16(std::uint16_t h) {
  const std::uint32_t u = std::uint32_t{h} << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}

void check_halves(const engine::run::module& code) {
  std::vector<std::uint16_t> every(65536);
  for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::uint16_t>(i);
  const array<std::uint16_t> h(every);
  check<float>(code, "copy_f16_f32", {h.data()}, h.size, [&](std::size_t i) { return decode_f16(h[i]); });
  check<float>(code, "copy_bf16_f32", {h.data()}, h.size, [&](std::size_t i) { return decode_bf16(h[i]); });
  // All 16-bit values, the middles between neighbours and what lies next to those, and everything else.
  auto source = values<float>(5003);
  for (std::uint32_t i = 0; i < 65536; i += 3)
    for (const int off : {0x7fff, 0x8000, 0x8001}) {
      const std::uint32_t u = (i << 16) + static_cast<std::uint32_t>(off);
      float f;
      std::memcpy(&f, &u, 4);
      source.push_back(f);
      const auto m = static_cast<std::uint16_t>(i);
      source.push_back(std::nextafter(
          static_cast<float>((decode_f16(m) + decode_f16(static_cast<std::uint16_t>(m + 1))) / 2), off == 0x7fff ? 0.f
                                                                                                   : off == 0x8001
                                                                                                       ? INFINITY
                                                                                                       : 1.f));
      source.push_back(static_cast<float>((decode_f16(m) + decode_f16(static_cast<std::uint16_t>(m + 1))) / 2));
    }
  const array<float> v(source);
  const auto f16_of = [&](std::size_t i) { return nearest(v[i], 11, -13, 65536); };
  const auto bf16_of = [&](std::size_t i) { return nearest(v[i], 8, -125, std::ldexp(1.0, 128)); };
  check<float>(code, "round_f16_f32", {v.data()}, v.size, f16_of);
  check<float>(code, "round_bf16_f32", {v.data()}, v.size, bf16_of);
  for (const bool brain : {false, true})
    for (const char* form : {"_v", "_s"}) {
      std::vector<std::uint16_t> out(v.size);
      const void* p[] = {v.data(), out.data()};
      code.symbol<kernel>(((brain ? "copy_f32_bf16" : "copy_f32_f16") + std::string(form)).c_str())(
          p, static_cast<long>(v.size));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < v.size; ++i) {
        const double got = brain ? decode_bf16(out[i]) : decode_f16(out[i]), want = brain ? bf16_of(i) : f16_of(i);
        wrong += !(got == want || (std::isnan(got) && std::isnan(want))) || std::signbit(v[i]) != (out[i] >> 15 != 0);
      }
      CHECK_MESSAGE(wrong == 0, "stores of 16-bit floats, brain ", brain, " form ", form);
    }
}

template <class T>
void check_memory(const engine::run::module& code, const std::string& type) {
  auto* f = code.symbol<void(const void* const*, long, long)>(("memory_" + type).c_str());
  for (const long n : {0L, 1L, 3L, 5L, 13L, 16L, 37L, 64L})
    for (const long stride : {1L, 2L, 3L, -2L}) {
      const long first = stride < 0 ? -n * stride : 0;
      std::vector<T> in(static_cast<std::size_t>(n * std::abs(stride) + n + 1)), strided(in.size(), T{2}),
          gathered(static_cast<std::size_t>(n) + 1, T{2});
      for (auto& x : in) x = static_cast<T>(random_bits() % 2);
      struct alignas(64) line {
        T at[128];
      } streamed{};
      const void* p[] = {in.data() + first, strided.data() + first, gathered.data(), streamed.at};
      f(p, n, stride);
      bool good = gathered[static_cast<std::size_t>(n)] == T{2};
      for (long i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(first + i * stride);
        good = good && strided[at] == in[at] && gathered[static_cast<std::size_t>(i)] == in[at] &&
               streamed.at[i] == in[static_cast<std::size_t>(first + i)];
        strided[at] = T{2};
      }
      for (const T x : strided) good = good && x == T{2};
      CHECK_MESSAGE(good, type, " n ", n, " stride ", stride);
    }
}

template <class T>
void check_folds(const engine::run::module& code, int lanes) {
  const auto fold = [&](const char* name, long m, const array<T>& v) {
    T out{};
    const void* p[] = {v.data(), &out};
    code.symbol<kernel>((name + ("_" + dtype_name<T>())).c_str())(p, m);
    return out;
  };
  for (int round = 0; round < 20; ++round)
    for (long m = 1; m <= lanes; ++m) {
      std::vector<T> x(16);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(static_cast<int>(random_bits() % 5) - 2);
      const array<T> v(x);
      INFO(dtype_name<T>(), " first ", m, " of ", lanes);
      if constexpr (!std::is_same_v<T, bool>) {
        T sum = 0, product = 1, top = v[0], bottom = v[0];
        for (long i = 0; i < m; ++i) {
          const T y = v[static_cast<std::size_t>(i)];
          // In 64 bits: the product of two u16 overflows an int.
          if constexpr (std::is_integral_v<T>) product = static_cast<T>(std::uint64_t(product) * std::uint64_t(y));
          else product = static_cast<T>(product * y);
          sum = static_cast<T>(sum + y), top = std::max(top, y), bottom = std::min(bottom, y);
        }
        CHECK(fold("fold_add", m, v) == sum);
        CHECK(fold("fold_mul", m, v) == product);
        CHECK(fold("fold_maximum", m, v) == top);
        CHECK(fold("fold_minimum", m, v) == bottom);
      }
      if constexpr (!std::is_floating_point_v<T>) {
        T any = v[0], both = v[0];
        for (long i = 0; i < m; ++i)
          any = static_cast<T>(any | v[static_cast<std::size_t>(i)]),
          both = static_cast<T>(both & v[static_cast<std::size_t>(i)]);
        CHECK(fold("fold_bit_or", m, v) == any);
        CHECK(fold("fold_bit_and", m, v) == both);
      } else {
        x[random_bits() % static_cast<std::size_t>(m)] = NAN;
        CHECK(std::isnan(fold("fold_maximum", m, array<T>(x))));
        CHECK(std::isnan(fold("fold_minimum", m, array<T>(x))));
      }
    }
}

/// The bits of every function of floats must not depend on what computes it: `_v`, `_s`, and the code for other lanes of the same
/// machine, of which `seen` has the results.
template <class T>
void check_same_bits(const engine::run::module& code, std::map<std::string, std::vector<T>>& seen) {
  static const auto inputs = [] {
    auto [a, b] = pairs<T>();
    const auto more = values<T>(6007);
    for (std::size_t i = 0; i < more.size(); ++i) {
      const T exponents[] = {2, T(0.5), 1, 0, -1, 3, 4, -2, 5};
      a.push_back(more[i]), b.push_back(exponents[random_bits() % 9]);
    }
    return std::pair{array<T>(a), array<T>(b)};
  }();
  const auto& [a, b] = inputs;
  std::vector<std::string> functions(std::begin(unary_math), std::end(unary_math));
  functions.insert(functions.end(), {"power", "atan2"});
  for (const std::string& f : functions)
    for (const char* form : {"_v", "_s"}) {
      std::vector<T> out(a.size);
      const void* p[] = {a.data(), f == "power" || f == "atan2" ? b.data() : out.data(), out.data()};
      code.symbol<kernel>((f + "_" + dtype_name<T>() + form).c_str())(p, static_cast<long>(a.size));
      const auto& first = seen.emplace(f, out).first->second;
      std::size_t differ = 0;
      for (std::size_t i = 0; i < out.size(); ++i)
        differ += std::memcmp(&out[i], &first[i], sizeof(T)) != 0 && !(std::isnan(out[i]) && std::isnan(first[i]));
      CHECK_MESSAGE(differ == 0, f, "_", dtype_name<T>(), form, ": ", differ, " of ", out.size(), " have other bits");
    }
}

TEST_CASE("an element has the same bits in scalar and vector code, whatever else the kernel holds") {
  std::map<std::string, std::vector<float>> f32;
  std::map<std::string, std::vector<double>> f64;
  // The lanes of kernels whose widest values have 4 bytes, and 8.
  int lanes = 4;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) lanes = 16;
  else if (__builtin_cpu_supports("avx2")) lanes = 8;
#endif
  for (const int each : {lanes, std::max(lanes / 2, 4)}) {
    CAPTURE(each);
    const auto code = build({each, ""}, every_kernel());
    check_same_bits<float>(*code, f32);
    check_same_bits<double>(*code, f64);
  }
}

TEST_CASE("the prelude computes the vocabulary on every dtype, width and tail") {
  for (const auto& t : targets()) {
    CAPTURE(t.lanes);
    const std::string flags = t.flags;
    CAPTURE(flags);
    const auto code = build(t, every_kernel());
    check_casts(*code);
    for_all([&]<class T>(T) { check_arithmetic<T>(*code); });
    check_math<float>(*code);
    check_math<double>(*code);
    check_halves(*code);
    for_numbers([&]<class T>(T) { check_memory<T>(*code, dtype_name<T>()); });
    check_memory<std::uint8_t>(*code, "b8");
    check_memory<std::uint16_t>(*code, "f16");
    check_memory<std::uint16_t>(*code, "bf16");
    for_all([&]<class T>(T) { check_folds<T>(*code, t.lanes); });
    const array<std::uint64_t> key(values<std::uint64_t>(500)), counter(values<std::uint64_t>(500));
    std::vector<unsigned char> out(500 * 8);
    const auto check_words = [&](const std::string& name, auto want) {
      for (const char* form : {"_u64_v", "_u64_s"}) {
        const void* p[] = {key.data(), counter.data(), out.data()};
        code->symbol<kernel>((name + form).c_str())(p, 500);
        for (std::size_t i = 0; i < 500; ++i) {
          std::uint64_t got;
          std::memcpy(&got, out.data() + 8 * i, 8);
          REQUIRE(got == want(key[i], counter[i]));
        }
      }
    };
    check_words("philox", voc::philox);
    check_words("gauss", voc::gauss);
    // Shapes and rates in turn, so that lanes of a vector end at different attempts.
    const double parameters[] = {0.3,   1,     2.5,  11.9, 12, 40,     1e3, 1e8,      1e12,        0,
                                 0.999, 1e300, 1e-9, 7,    -1, 0x1p31, 3e9, HUGE_VAL, std::nan("")};
    std::vector<std::uint64_t> words;
    for (std::size_t i = 0; i < 500; ++i)
      words.push_back(std::bit_cast<std::uint64_t>(parameters[i * 7 % std::size(parameters)]));
    const array<std::uint64_t> of(words);
    const auto check_draws = [&](const std::string& name, auto want) {
      for (const char* form : {"_u64_v", "_u64_s"}) {
        const void* p[] = {key.data(), counter.data(), of.data(), out.data()};
        code->symbol<kernel>((name + form).c_str())(p, 500);
        for (std::size_t i = 0; i < 500; ++i) {
          std::uint64_t got;
          std::memcpy(&got, out.data() + 8 * i, 8);
          const double x = std::bit_cast<double>(got), y = std::bit_cast<double>(want(key[i], counter[i], of[i]));
          REQUIRE((std::isnan(y) ? std::isnan(x) : x == y));
        }
      }
    };
    check_draws("gamma_root", voc::gamma_root);
    check_draws("poisson_count", voc::poisson_count);
  }
}

/// A copy of elements that ends where unreadable memory begins.
template <class T>
class guarded {
 public:
  explicit guarded(const std::vector<T>& v) : bytes_(v.size() * sizeof(T)), room_((bytes_ + page - 1) / page * page) {
    base_ =
        static_cast<char*>(::mmap(nullptr, room_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    ::mprotect(base_ + room_, page, PROT_NONE);
    if (bytes_ > 0) std::memcpy(data(), v.data(), bytes_);
  }
  guarded(const guarded&) = delete;
  guarded& operator=(const guarded&) = delete;
  ~guarded() { ::munmap(base_, room_ + page); }
  T* data() const { return reinterpret_cast<T*>(base_ + room_ - bytes_); }

 private:
  static constexpr std::size_t page = 65536;
  std::size_t bytes_, room_;
  char* base_ = nullptr;
};

// The epilogue adds to what is there, so that a missing or repeated call shows; `bias` has an element a column.
constexpr const char* product = R"(
#define PRODUCT(name, m_, n_, k_, S, T, row_a, column_a, row_b, column_b) \
  extern "C" void product_##name(void** p, long m, long n, long k, const long* s, const long* const* o, int parallel) { \
    t_##S* c = (t_##S*)p[2]; \
    const t_##S* bias = (const t_##S*)p[3]; \
    gemm<s_##S, STREAMS>(m_, n_, k_, matrix_of((const t_##T*)p[0], row_a, column_a), matrix_of((const t_##T*)p[1], row_b, column_b), \
                [=](long i, long j, v_##S v, int lanes) { t_##S* to = c + i * n + j; store(to, load(to, lanes) + v + load(bias + j, lanes), lanes); }, parallel ? room_of((char*)p[4], 64) : room_alone((char*)p[4], 64)); \
  }
)";

constexpr const char* products = R"(
#define STREAMS true
#define LINEAR(name, S, T) PRODUCT(name, m, n, k, S, T, linear{s[0]}, linear{s[1]}, linear{s[2]}, linear{s[3]})
LINEAR(f32, f32, f32) LINEAR(f64, f64, f64) LINEAR(i32, i32, i32) LINEAR(i8, i8, i8) LINEAR(u64, u64, u64) LINEAR(f16, f32, f16) LINEAR(bf16, f32, bf16)
PRODUCT(tables, m, n, k, f32, f32, table{o[0]}, table{o[1]}, table{o[2]}, table{o[3]})
PRODUCT(half_tables, m, n, k, f64, f64, linear{s[0]}, table{o[1]}, table{o[2]}, linear{s[3]})
PRODUCT(row, fixed<1>{}, n, k, f32, f32, linear{s[0]}, linear{s[1]}, linear{s[2]}, linear{s[3]})
PRODUCT(column, m, fixed<1>{}, k, f32, f32, linear{s[0]}, linear{s[1]}, linear{s[2]}, linear{s[3]})
PRODUCT(row_f64, fixed<1>{}, n, k, f64, f64, linear{s[0]}, linear{s[1]}, linear{s[2]}, linear{s[3]})
PRODUCT(column_i8, m, fixed<1>{}, k, i8, i8, linear{s[0]}, linear{s[1]}, linear{s[2]}, linear{s[3]})
PRODUCT(row_bf16, fixed<1>{}, n, k, f32, bf16, linear{s[0]}, linear{s[1]}, linear{s[2]}, linear{s[3]})
PRODUCT(column_f16, m, fixed<1>{}, k, f32, f16, linear{s[0]}, linear{s[1]}, linear{s[2]}, linear{s[3]})
)";

constexpr const char* fixed_products = R"(
#define STREAMS false
#define FIXED(name, M, N, K) \
  PRODUCT(name##_00, fixed<M>{}, fixed<N>{}, fixed<K>{}, f32, f32, along<K>{}, along<1>{}, along<N>{}, along<1>{}) \
  PRODUCT(name##_01, fixed<M>{}, fixed<N>{}, fixed<K>{}, f32, f32, along<K>{}, along<1>{}, along<1>{}, along<K>{}) \
  PRODUCT(name##_10, fixed<M>{}, fixed<N>{}, fixed<K>{}, f32, f32, along<1>{}, along<M>{}, along<N>{}, along<1>{}) \
  PRODUCT(name##_11, fixed<M>{}, fixed<N>{}, fixed<K>{}, f32, f16, along<1>{}, along<M>{}, along<1>{}, along<K>{})
// The left operand through tables; and columns as rows, of which both the other operand's are tables.
#define GATHERED(name, M, N, K) \
  PRODUCT(name##_gathered, fixed<M>{}, fixed<N>{}, fixed<K>{}, f32, f32, table{o[0]}, table{o[1]}, along<N>{}, along<1>{}) \
  extern "C" void product_##name##_turned(void** p, long m, long n, long k, const long* s, const long* const* o, int parallel) { \
    t_f32* c = (t_f32*)p[2]; \
    const t_f32* bias = (const t_f32*)p[3]; \
    gemm<s_f32, false, true>(fixed<N>{}, fixed<M>{}, fixed<K>{}, matrix_of((const t_f32*)p[1], along<K>{}, along<1>{}), matrix_of((const t_f32*)p[0], table{o[1]}, table{o[0]}), \
                [=](long i, long j, v_f32 v, int lanes) { t_f32* to = c + i * n + j; store(to, load(to, lanes) + v + load(bias + j, lanes), lanes); }, parallel ? room_of((char*)p[4], 64) : room_alone((char*)p[4], 64)); \
  }
GATHERED(hidden, 30, 64, 65) GATHERED(wide, 70, 260, 300) GATHERED(narrow, 19, 10, 64) GATHERED(few, 5, 40, 9) GATHERED(large, 170, 200, 400) GATHERED(long_rows, 40, 700, 290)
FIXED(few, 5, 40, 9) FIXED(long_rows, 40, 700, 290)
FIXED(hidden, 30, 64, 65) FIXED(wide, 70, 260, 300) FIXED(narrow, 19, 10, 64) FIXED(one_row, 1, 70, 33) FIXED(one_column, 70, 1, 33) FIXED(none, 5, 40, 0) FIXED(large, 170, 200, 400)
)";

/// Memory for two threads, and for what they share, of numbers that show where they are read before they are written.
std::vector<double>& product_memory() {
  static std::vector<double> memory((64 + 2 * (2 << 20) + (9 << 20)) / 8, std::nan(""));
  std::fill(memory.begin(), memory.begin() + 10'000, std::nan(""));
  const long header[] = {2, 2 << 20};
  std::memcpy(memory.data(), header, sizeof(header));
  return memory;
}

/// Strides of an r by c operand: by rows, by columns, spread out.
std::pair<long, long> strides(int layout, long r, long c) {
  if (layout == 0) return {c, 1};
  if (layout == 1) return {1, r};
  return {2 * c + 3, 2};
}

template <class S, class T>
void check_product(const engine::run::module& code, const std::string& name, long m, long n, long k, int la, int lb,
                   T (*encode)(int), double (*decode)(T)) {
  const auto [ar, ac] = strides(la, m, k);
  const auto [br, bc] = strides(lb, k, n);
  const auto span = [](long r, long rs, long c, long cs) {
    return r == 0 || c == 0 ? std::size_t{0} : static_cast<std::size_t>((r - 1) * rs + (c - 1) * cs + 1);
  };
  std::vector<T> a(span(m, ar, k, ac)), b(span(k, br, n, bc));
  for (auto* v : {&a, &b})
    for (auto& x : *v) x = encode(static_cast<int>(random_bits() % 17) - 8);
  std::vector<S> bias(static_cast<std::size_t>(n));
  for (auto& x : bias) x = static_cast<S>(random_bits() % 5);
  const guarded<T> in_a(a), in_b(b);
  const guarded<S> in_bias(bias), out(std::vector<S>(static_cast<std::size_t>(m * n)));
  std::vector<long> offsets[4];
  for (long i = 0; i < m; ++i) offsets[0].push_back(i * ar);
  for (long i = 0; i < k; ++i) offsets[1].push_back(i * ac), offsets[2].push_back(i * br);
  for (long i = 0; i < n; ++i) offsets[3].push_back(i * bc);
  const long* tables[] = {offsets[0].data(), offsets[1].data(), offsets[2].data(), offsets[3].data()};
  const long steps[] = {ar, ac, br, bc};
  void* p[] = {in_a.data(), in_b.data(), out.data(), in_bias.data(), product_memory().data()};
  code.symbol<void(void**, long, long, long, const long*, const long* const*, int)>("product_" + name)(
      p, m, n, k, steps, tables, 1);
  // Sums of small integers are exact in every type. Rows of a and columns of b, in order:
  std::vector<int> left, right;
  for (long i = 0; i < m; ++i)
    for (long d = 0; d < k; ++d) left.push_back(static_cast<int>(decode(a[static_cast<std::size_t>(i * ar + d * ac)])));
  for (long j = 0; j < n; ++j)
    for (long d = 0; d < k; ++d)
      right.push_back(static_cast<int>(decode(b[static_cast<std::size_t>(d * br + j * bc)])));
  long wrong = 0;
  for (long i = 0; i < m; ++i)
    for (long j = 0; j < n; ++j) {
      const int first = static_cast<int>(bias[static_cast<std::size_t>(j)]);
      const int sum =
          std::inner_product(left.begin() + i * k, left.begin() + (i + 1) * k, right.begin() + j * k, first);
      wrong += out.data()[i * n + j] != static_cast<S>(sum);
    }
  CHECK_MESSAGE(wrong == 0, name, " ", m, "x", k, "x", n, " layouts ", la, lb, ": ", wrong, " wrong");
}

template <class T>
T plain(int x) {
  return static_cast<T>(x);
}
template <class T>
double value(T x) {
  return static_cast<double>(x);
}

std::uint16_t small_bf16(int x) {
  const float f = static_cast<float>(x);
  std::uint32_t u;
  std::memcpy(&u, &f, 4);
  return static_cast<std::uint16_t>(u >> 16);
}
std::uint16_t small_f16(int x) {
  for (std::uint32_t h = 0; h < 65536; ++h)
    if (decode_f16(static_cast<std::uint16_t>(h)) == x) return static_cast<std::uint16_t>(h);
  return 0;
}

TEST_CASE("the product is right for every shape, layout, dtype, and never reads out of bounds") {
  constexpr long shapes[][3] = {{0, 3, 4},     {3, 0, 4},       {3, 4, 0},      {1, 1, 0},      {1, 1, 1},
                                {1, 17, 5},    {17, 1, 5},      {1, 300, 70},   {300, 1, 71},   {2, 3, 4},
                                {7, 9, 11},    {8, 32, 16},     {9, 33, 17},    {33, 65, 257},  {70, 40, 600},
                                {65, 300, 3},  {130, 140, 150}, {16, 16, 1025}, {1, 513, 130},  {513, 1, 130},
                                {70, 150, 70}, {1, 5000, 90},   {5000, 1, 90},  {200, 260, 90}, {65, 1100, 90},
                                {7, 90, 300},  {3, 150, 130},   {2, 300, 70},   {4, 40, 1030}};
  std::uint16_t halves[17];
  for (int i = 0; i < 17; ++i) halves[i] = small_f16(i - 8);
  static const std::uint16_t* const half = halves;
  for (const auto& t : product_targets()) {
    const std::string flags = t.flags;
    CAPTURE(t.lanes);
    CAPTURE(flags);
    const auto code = build(t, std::string(product) + products);
    for (const auto& [m, n, k] : shapes)
      for (int layouts = 0; layouts < 9; ++layouts) {
        const int la = layouts / 3, lb = layouts % 3;
        check_product<float, float>(*code, "f32", m, n, k, la, lb, plain, value);
        check_product<float, float>(*code, "tables", m, n, k, la, lb, plain, value);
        check_product<double, double>(*code, "half_tables", m, n, k, la, lb, plain, value);
        if (layouts % 4 != 0 && m * n * k > 300'000) continue;
        check_product<double, double>(*code, "f64", m, n, k, la, lb, plain, value);
        check_product<std::int32_t, std::int32_t>(*code, "i32", m, n, k, la, lb, plain, value);
        check_product<std::int8_t, std::int8_t>(*code, "i8", m, n, k, la, lb, plain, value);
        check_product<std::uint64_t, std::uint64_t>(*code, "u64", m, n, k, la, lb, plain, [](std::uint64_t x) {
          return static_cast<double>(static_cast<std::int64_t>(x));
        });
        check_product<float, std::uint16_t>(
            *code, "f16", m, n, k, la, lb, [](int x) { return half[x + 8]; }, decode_f16);
        check_product<float, std::uint16_t>(*code, "bf16", m, n, k, la, lb, small_bf16, decode_bf16);
      }
  }
}

TEST_CASE("the product is right where extents and strides are known when it is compiled") {
  static std::uint16_t half[17];
  for (int i = 0; i < 17; ++i) half[i] = small_f16(i - 8);
  const struct {
    const char* name;
    long m, n, k;
  } known[] = {{"hidden", 30, 64, 65},   {"wide", 70, 260, 300},    {"narrow", 19, 10, 64},
               {"one_row", 1, 70, 33},   {"one_column", 70, 1, 33}, {"none", 5, 40, 0},
               {"large", 170, 200, 400}, {"few", 5, 40, 9},         {"long_rows", 40, 700, 290}};
  for (const auto& t : product_targets()) {
    const std::string flags = t.flags;
    CAPTURE(t.lanes);
    CAPTURE(flags);
    const auto code = build(t, std::string(product) + fixed_products),
               linear = build(t, std::string(product) + products);
    for (const auto& [name, m, n, k] : known) {
      for (const char* layout : {"_00", "_01", "_10"})
        check_product<float, float>(*code, std::string(name) + layout, m, n, k, layout[1] - '0', layout[2] - '0', plain,
                                    value);
      check_product<float, std::uint16_t>(
          *code, std::string(name) + "_11", m, n, k, 1, 1, [](int x) { return half[x + 8]; }, decode_f16);
      if (m == 1 || n == 1 || k == 0) continue;
      for (int la = 0; la < 3; ++la) {
        check_product<float, float>(*code, std::string(name) + "_gathered", m, n, k, la, 0, plain, value);
        check_product<float, float>(*code, std::string(name) + "_turned", m, n, k, la, 1, plain, value);
      }
    }
    for (const long n : {1L, 2L, 5L, 16L, 70L, 300L, 5000L})
      for (const long k : {0L, 1L, 7L, 64L, 301L})
        for (int layouts = n * k > 100'000 ? 6 : 0; layouts < 9 && n * k < 1'000'000; ++layouts) {
          check_product<float, float>(*linear, "row", 1, n, k, layouts / 3, layouts % 3, plain, value);
          check_product<float, float>(*linear, "column", n, 1, k, layouts / 3, layouts % 3, plain, value);
          check_product<double, double>(*linear, "row_f64", 1, n, k, layouts / 3, layouts % 3, plain, value);
          check_product<std::int8_t, std::int8_t>(*linear, "column_i8", n, 1, k, layouts / 3, layouts % 3, plain,
                                                  value);
          check_product<float, std::uint16_t>(*linear, "row_bf16", 1, n, k, layouts / 3, layouts % 3, small_bf16,
                                              decode_bf16);
          check_product<float, std::uint16_t>(
              *linear, "column_f16", n, 1, k, layouts / 3, layouts % 3, [](int x) { return half[x + 8]; }, decode_f16);
        }
  }
}

TEST_CASE("the product does not depend on the number of threads") {
  const auto code = build({16, ""}, std::string(product) + products);
  auto* f = code->symbol<void(void**, long, long, long, const long*, const long* const*, int)>("product_f32");
  for (const auto& [m, n, k] : {std::array{190L, 210L, 700L}, std::array{1L, 5000L, 300L}, std::array{300L, 1500L, 90L},
                                std::array{4L, 5000L, 300L}, std::array{5000L, 1L, 300L}}) {
    std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)),
        bias(static_cast<std::size_t>(n));
    std::uniform_real_distribution<float> any(-1, 1);
    for (auto* v : {&a, &b})
      for (auto& x : *v) x = any(random_bits);
    const long steps[] = {k, 1, n, 1};
    std::vector<float> out[2];
    for (const int parallel : {0, 1}) {
      out[parallel].resize(static_cast<std::size_t>(m * n));
      void* p[] = {a.data(), b.data(), out[parallel].data(), bias.data(), product_memory().data()};
      f(p, m, n, k, steps, nullptr, parallel);
    }
    CHECK(out[0] == out[1]);
  }
}

#if !SINTER_TEST_MANY_ADDRESSES
TEST_CASE("the product takes no memory but what it is given") {
  const auto code = build({16, ""}, std::string(product) + products);
  auto* f = code->symbol<void(void**, long, long, long, const long*, const long* const*, int)>("product_f32");
  const long m = 70, n = 40, k = 100'000;
  std::vector<float> a(static_cast<std::size_t>(m * k), 1), b(static_cast<std::size_t>(k * n), 1),
      bias(static_cast<std::size_t>(n), 2), out(static_cast<std::size_t>(m * n));
  const long steps[] = {k, 1, n, 1};
  void* p[] = {a.data(), b.data(), out.data(), bias.data(), product_memory().data()};
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{}, tight{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  tight = before;
  tight.rlim_cur = static_cast<rlim_t>(pages) * 4096 + (1 << 20);
  REQUIRE(::setrlimit(RLIMIT_AS, &tight) == 0);
  void* const refused = std::malloc(std::size_t{256} << 20);  // more than the tests before left free
  f(p, m, n, k, steps, nullptr, 0);
  ::setrlimit(RLIMIT_AS, &before);
  CHECK(refused == nullptr);
  std::free(refused);
  CHECK(std::count(out.begin(), out.end(), static_cast<float>(k + 2)) == m * n);
}
#endif

TEST_CASE("every second to fourth element, of all lanes or the first, and nothing past the last") {
  constexpr const char* loads = R"(
#define EVERY(T, S) extern "C" void every_##T##_##S(const void* const* p, long n) { \
  const t_##T* x = (const t_##T*)p[0]; \
  store((t_##T*)p[1], n == SINTER_W ? load_every<S>(x) : load_every<S>(x, n), n); }
#define EVERY_STEP(T) EVERY(T, 2) EVERY(T, 3) EVERY(T, 4)
EVERY_STEP(f32) EVERY_STEP(f64) EVERY_STEP(i8) EVERY_STEP(u16) EVERY_STEP(i64)
)";
  const auto check = [&]<class T>(T, const char* type) {
    for (const auto& t : targets()) {
      const auto code = build(t, loads);
      for (const long step : {2L, 3L, 4L})
        for (long n = 1; n <= t.lanes; ++n) {
          std::vector<T> all(static_cast<std::size_t>((n - 1) * step + 1));
          std::iota(all.begin(), all.end(), T(1));
          const guarded<T> in(all), out(std::vector<T>(static_cast<std::size_t>(n)));
          const void* p[] = {in.data(), out.data()};
          code->symbol<kernel>("every_" + std::string(type) + "_" + std::to_string(step))(p, n);
          for (long i = 0; i < n; ++i) REQUIRE(out.data()[i] == all[static_cast<std::size_t>(i * step)]);
        }
    }
  };
  check(float(), "f32");
  check(double(), "f64");
  check(std::int8_t(), "i8");
  check(std::uint16_t(), "u16");
  check(std::int64_t(), "i64");
}

TEST_CASE("loads of the first lanes never touch what follows") {
  for (const auto& t : targets()) {
    const auto code = build(t, every_kernel());
    for_numbers([&]<class T>(T) {
      for (long n = 1; n <= t.lanes; ++n) {
        const guarded<T> in(std::vector<T>(static_cast<std::size_t>(n), T(3))),
            out(std::vector<T>(static_cast<std::size_t>(n)));
        const void* p[] = {in.data(), out.data()};
        code->symbol<kernel>("copy_" + dtype_name<T>() + "_" + dtype_name<T>() + "_v")(p, n);
        for (long i = 0; i < n; ++i) REQUIRE(out.data()[i] == T(3));
      }
    });
  }
}

}  // namespace
