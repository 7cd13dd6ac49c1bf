// A compressible gas in two dimensions: Euler's equations with limited slopes (van Leer, 1974) and Rusanov's fluxes (1961), periodic.
// A shear layer rolls up into vortices, and a tube with a jump in pressure has the shock that theory knows (Sod, 1978).
//
//   gas2d [--device cpu|cuda] [--size CELLS] [--steps N] [--svg gas2d.png]
#include "support/plot.hpp"
#include "support/program.hpp"

using namespace sinter;
using scalar = tensor<double, 0>;
using field = tensor<double, 2>;

constexpr double heat_ratio = 1.4;

/// Densities of mass, of momentum across and down, and of energy.
struct gas {
  field mass, across, down, energy;
};

field pressure(const gas& u) {
  return (heat_ratio - 1) * (u.energy - 0.5 * (square(u.across) + square(u.down)) / u.mass);
}
field sound(const gas& u) { return sqrt(heat_ratio * pressure(u) / u.mass); }

gas resting(const field& mass, const field& v, const field& w, const field& p) {
  return {mass, mass * v, mass * w, p / (heat_ratio - 1) + 0.5 * mass * (square(v) + square(w))};
}

/// What flows along an axis, and how fast waves are.
template <int Axis>
std::pair<gas, field> flux(const gas& u) {
  const field v = (Axis == 0 ? u.down : u.across) / u.mass, p = pressure(u);
  gas f{u.mass * v, u.across * v, u.down * v, (u.energy + p) * v};
  (Axis == 0 ? f.down : f.across) = (Axis == 0 ? f.down : f.across) + p;
  return {f, abs(v) + sound(u)};
}

/// What each cell loses along an axis in a time of 1, times its width.
template <int Axis>
gas outflow(const gas& u) {
  const auto half_slope = [](const field& x) {
    const field a = x - roll(x, 1, axis<Axis>), b = roll(x, -1, axis<Axis>) - x;
    return where(a * b > 0.0, a * b / (a + b), 0.0);
  };
  const gas left = tree_map([&](const field& x) { return x + half_slope(x); }, u);
  const gas right = tree_map([&](const field& x) { return roll(x - half_slope(x), -1, axis<Axis>); }, u);
  const auto [fl, speed_l] = flux<Axis>(left);
  const auto [fr, speed_r] = flux<Axis>(right);
  const field speed = maximum(speed_l, speed_r);
  return tree_map(
      [&](const field& a, const field& b, const field& l, const field& r) {
        const field through = 0.5 * (a + b - speed * (r - l));
        return through - roll(through, 1, axis<Axis>);
      },
      fl, fr, left, right);
}

gas euler_step(const gas& u, const scalar& ratio) {
  return tree_map([&](const field& u, const field& a, const field& b) { return u - ratio * (a + b); }, u, outflow<0>(u),
                  outflow<1>(u));
}

/// As many steps as it takes, of the lengths that are stable; the average of two steps and none is of second order (Heun).
const auto advance = [](const gas& start, const scalar& time) {
  const double dx = 1.0 / double(start.mass.size(0));
  const auto step = [&](const std::pair<gas, scalar>& now) {
    const auto& [u, left] = now;
    const scalar fastest = max(maximum(abs(u.across), abs(u.down)) / u.mass + sound(u));
    const scalar dt = minimum(0.4 * dx / fastest, left);
    const gas twice = euler_step(euler_step(u, dt / dx), dt / dx);
    return std::pair{tree_map([](const field& a, const field& b) { return 0.5 * (a + b); }, u, twice),
                     scalar(left - dt)};
  };
  return while_loop([](const std::pair<gas, scalar>& now) { return now.second > 1e-12; }, step, std::pair{start, time})
      .first;
};

bool simulate(const arguments& given) {
  const int steps = given.steps(24);
  const int n = given("size", 128);
  const field x = (arange<double>(n) + 0.5) / double(n) + zeros<double>(n, 1), y = transpose(x),
              one = ones<double>(n, n);
  const auto run = compile(advance);

  const field inside = 0.5 * (tanh((y - 0.25) * 40.0) - tanh((y - 0.75) * 40.0));
  const field push = 0.05 * sin(4 * M_PI * x) * (exp(-square(y - 0.25) * 200.0) + exp(-square(y - 0.75) * 200.0));
  gas u = resting(1.0 + inside, inside - 0.5, push, 2.5 * one);
  const auto totals = [](const gas& u) {
    return tensor<double, 1>(stack(mean(u.mass), mean(u.across), mean(u.down), mean(u.energy)));
  };
  const auto before = totals(u);
  data::progress_bar bar(steps);
  for (int i = 0; i < steps; ++i) {
    u = run(u, 0.1);
    bar.show(i + 1, "time " + std::to_string(0.1 * (i + 1)) + ", density from " + std::to_string(min(u.mass).item()) +
                        " to " + std::to_string(max(u.mass).item()));
  }
  write_png(given("svg", "gas2d.png"), cast<float>(u.mass).to_vector(), std::uint32_t(n));

  const auto high = abs(x - 0.5) < 0.25;
  const gas tube = run(resting(where(high, 1.0, 0.125) * one, 0.0 * one, 0.0 * one, where(high, 1.0, 0.1) * one), 0.08);
  const auto at = [&](const field& f, double place) { return f(0, int(place * n)); };
  bool right = below("mass, momentum and energy that were lost", max(abs(totals(u) - before)).item(), 1e-12);
  right &= agrees("density behind the shock", at(tube.mass, 0.75 + 0.08 * 1.3), 0.26557, 0.01);
  right &= agrees("density behind the contact", at(tube.mass, 0.75 + 0.08 * 0.3), 0.42632, 0.01);
  right &= agrees("pressure behind the shock", at(pressure(tube), 0.75 + 0.08 * 1.3), 0.30313, 0.005);
  return right & agrees("velocity behind the shock", at(tube.across / tube.mass, 0.75 + 0.08 * 1.3), 0.92745, 0.02);
}

int main(int argc, char** argv) { return run_program(argc, argv, "[--steps N] [--size N]", simulate); }
