// tests/front/compile/integer_programs.hpp: C++ integers given for rank-0 tensors, on the host and on a GPU.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

namespace integer_programs {

using namespace sinter;
using vec = tensor<float, 1>;
using floats = std::vector<float>;
using whole = tensor<std::int64_t, 0>;

template <class X>
auto read(const X& x) {
  return x.to(device::cpu()).to_vector();
}

/// Calls with further values are answered by the kernels of the first, and take what C++ converts to the parameter.
template <class Given, class Wanted>
void converts(const options& how, device on) {
  CAPTURE(sinter::dtype_name(dtype_of<Wanted>));
  const auto f = compile([](vec x, tensor<Wanted, 0> n) { return std::tuple(broadcast_to(n, 3), x * 2); }, how);
  const vec x = vec{1, 2, 3}.to(on);
  f(x, Given(1));
  const stance_scope only(stance::fail_on_recompile);
  for (const Given n : {std::numeric_limits<Given>::min(), std::numeric_limits<Given>::max(), Given(0), Given(1)}) {
    CHECK(read(std::get<0>(f(x, n)))[2] == static_cast<Wanted>(n));
    CHECK(read(std::get<1>(f(x, n))) == floats{2, 4, 6});
  }
  CHECK(f.specialisations() == 1);
}

template <class Given>
void converts_to_all(const options& how, device on) {
  converts<Given, Given>(how, on);
  converts<Given, std::int64_t>(how, on);
  converts<Given, std::uint8_t>(how, on);
  converts<Given, float>(how, on);
  converts<Given, bool>(how, on);
}

inline void every_integer(const options& how, device on) {
  converts_to_all<bool>(how, on);
  converts_to_all<std::int8_t>(how, on);
  converts_to_all<std::int16_t>(how, on);
  converts_to_all<std::int32_t>(how, on);
  converts_to_all<std::int64_t>(how, on);
  converts_to_all<std::uint8_t>(how, on);
  converts_to_all<std::uint16_t>(how, on);
  converts_to_all<std::uint32_t>(how, on);
  converts_to_all<std::uint64_t>(how, on);
}

/// A step of a decoder: keys at a position, over all before it.
inline tensor<float, 2> decoded(const tensor<float, 2>& cache, const vec& key, const whole& at) {
  const auto rows = reshape(arange<std::int64_t>(cache.size(0)), cache.size(0), 1);
  return where(rows == at, reshape(key, 1, key.size(0)), cache);
}

inline void decoding(const options& how, device on, std::size_t specialisations) {
  const auto f = compile([](auto cache, vec key, whole at) { return decoded(cache, key, at); }, how);
  for (const std::int64_t rows : {20, 21, 23}) {
    auto cache = full<float>(-1.f, rows, 2).to(on);
    for (int at = 0; at < rows; ++at) cache = f(cache, vec{float(at), float(-at)}.to(on), at);
    const auto got = read(cache);
    for (int at = 0; at < rows; ++at) {
      REQUIRE(got[static_cast<std::size_t>(2 * at)] == float(at));
      REQUIRE(got[static_cast<std::size_t>(2 * at + 1)] == float(-at));
    }
  }
  CHECK(f.specialisations() == specialisations);
}

/// Reading the value ends the graph, as of other tensors; the segments serve every value.
inline void reading(const options& how, device on) {
  const auto f = compile(
      [](auto x, whole n) {
        if (n.item() > 3) return vec(x + 1.f);
        return vec(x * cast<float>(n));
      },
      how);
  const vec x = vec{1, 2, 3}.to(on);
  for (int n = 0; n < 8; ++n) CHECK(read(f(x, n))[1] == (n > 3 ? 3.f : 2.f * float(n)));
  CHECK(f.specialisations() == 1);
  const stance_scope only(stance::fail_on_recompile);
  CHECK(read(f(x, -7))[2] == -21);
  CHECK(read(f(x, 70))[2] == 4);
}

inline void gradients(const options& how, device on) {
  const auto f = compile(
      value_and_grad([](auto x, whole n, tensor<bool, 0> up) { return sum(where(up, x * x * cast<float>(n), x)); }),
      how);
  const vec x = vec{1, 2, 3}.to(on);
  for (int n = 1; n < 12; ++n) CHECK(read(f(x, n, n % 2 == 0).second)[1] == (n % 2 == 0 ? 4.f * float(n) : 1.f));
  CHECK(f.specialisations() == 1);
}

}  // namespace integer_programs
