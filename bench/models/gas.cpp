// bench/models/gas.cpp: steps of a compressible gas in two dimensions: the Euler equations with limited slopes (van Leer, 1979)
// and Rusanov's fluxes (1961), periodic.
#include <tuple>

#include "layers.hpp"

namespace models {
namespace {

constexpr float gamma_of_air = 1.4f;

/// Densities of mass, momentum and energy.
struct gas {
  matrix mass, across, down, energy;
};

/// Element i of the result is element i + by of x along an axis, periodic.
template <int Axis>
matrix shifted(const matrix& x, int by) {
  return concat<Axis>(slice<Axis>(x, by), slice<Axis>(x, 0, by));
}

/// The smaller of two slopes of one sign, else 0.
template <tensor_like X, tensor_like Y>
matrix minmod(const X& a, const Y& b) {
  return where(a * b > 0, where(abs(a) < abs(b), a, b), 0);
}

/// What is to the left and to the right of the face behind each cell.
template <int Axis>
std::pair<gas, gas> at_faces(const gas& u) {
  const auto slope = [](const matrix& x) { return minmod(x - shifted<Axis>(x, -1), shifted<Axis>(x, 1) - x); };
  const gas half = tree_map([&](const matrix& x) { return 0.5f * slope(x); }, u);
  const auto next = [](const matrix& x, const matrix& s) { return shifted<Axis>(evaluate(x - s), 1); };
  return {tree_map([](auto x, auto s) { return x + s; }, u, half), tree_map(next, u, half)};
}

/// The flux along an axis of what has `momentum` along it, and the speed of the fastest wave.
template <int Axis>
std::pair<gas, matrix> flux(const gas& u) {
  const matrix v = (Axis == 0 ? u.down : u.across) / u.mass;
  const matrix pressure = (gamma_of_air - 1) * (u.energy - 0.5f * (u.across * u.across + u.down * u.down) / u.mass);
  const matrix push_across = Axis == 1 ? pressure : zeros_like(pressure);
  const matrix push_down = Axis == 0 ? pressure : zeros_like(pressure);
  return {{u.mass * v, u.across * v + push_across, u.down * v + push_down, (u.energy + pressure) * v},
          abs(v) + sqrt(gamma_of_air * pressure / u.mass)};
}

/// The change by what flows along one axis.
template <int Axis>
gas flow(const gas& u) {
  const auto sides = at_faces<Axis>(u);
  const auto left = flux<Axis>(sides.first), right = flux<Axis>(sides.second);
  const matrix fastest = maximum(left.second, right.second);
  const auto through = [&](auto fl, auto fr, auto l, auto r) { return 0.5f * (fl + fr - fastest * (r - l)); };
  const gas f = tree_map(through, left.first, right.first, sides.first, sides.second);
  return tree_map([](const matrix& f) { return f - shifted<Axis>(f, -1); }, f);
}

gas step(const gas& u, float ratio) {
  return tree_map([&](auto u, auto a, auto b) { return u - ratio * (a + b); }, u, flow<0>(u), flow<1>(u));
}

gas blob(int n) {
  const matrix y = expand_dims(linspace<float>(-1, 1, n), axis<1>) + zeros<float>(n, n), x = transpose(y);
  const matrix mass = 1.f + 0.5f * exp(-20.f * (x * x + y * y));
  return {mass, 0.2f * mass * sin(3.f * y), 0.1f * mass, 2.5f + 0.5f * exp(-10.f * (x * x + y * y))};
}

template <int Steps>
workload steps(const settings& s) {
  const auto advance = [](gas u) {
    for (int i = 0; i < Steps; ++i) u = step(u, 0.1f);
    return stack(u.mass, u.across, u.down, u.energy);
  };
  return called(s, "gas", advance, blob(s.small ? 16 : 256));
}

}  // namespace

std::vector<row> gas_rows() {
  return {{"gas_2", false, 1e-5f, &steps<2>}, {"gas_8", false, 1e-5f, &steps<8>}, {"gas_32", false, 1e-5f, &steps<32>}};
}

}  // namespace models
