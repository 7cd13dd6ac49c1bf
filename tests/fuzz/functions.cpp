// test_fuzz_functions: random programs of the front end's functions: linear algebra, transforms, windows, orders, places.
//
//   test_fuzz_functions --seeds 0..2000 [--backend cpu|cuda|reference] [--share 0|1|2: a third of them]
//
// A seed stands for a program of some calls of functions.hpp, and its two matrices; the first seeds for each function alone. Its values compiled, of open and of static
// extents in turn, are compared with the eager ones; forward with reverse derivatives; lanes with each. Exits with 1 when any
// differ, after telling the first call that does, and what reruns just that seed.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "functions.hpp"

namespace {

using namespace fuzz;

/// The first of a seed's calls. Seeds up to `alone` stand for one function each.
struct program {
  static constexpr std::uint64_t alone = std::size(table);

  std::uint64_t seed = 0;
  int calls = 0;

  const function& drawn(dice& d) const {
    const auto k = static_cast<std::size_t>(d.below(std::ssize(table)));
    return table[seed < alone ? static_cast<std::size_t>(seed) : k];
  }

  matrix operator()(const matrix& a, const matrix& b) const {
    dice d{std::mt19937_64(seed)};
    matrix x = a, y = b;
    for (int i = 0; i < calls; ++i) {
      const function& f = drawn(d);
      dice own{std::mt19937_64(d.bits())};
      const bool keep = d.coin();
      matrix z = bounded_size(f.call(own, x, y));
      z = tanh(0.5 * z);
      if (keep) y = x;
      x = z;
    }
    return x;
  }
  /// 8 × 8 at most.
  static matrix bounded_size(const matrix& x) { return slice<1>(slice<0>(x, 0, 8), 0, 8); }

  std::string name(int call) const {
    dice d{std::mt19937_64(seed)};
    for (int i = 0;; ++i) {
      const function& f = drawn(d);
      d.bits(), d.bits();
      if (i == call) return f.name;
    }
  }
  bool smooth() const {
    dice d{std::mt19937_64(seed)};
    bool all = true;
    for (int i = 0; i < calls; ++i) {
      all = all && drawn(d).smooth;
      d.bits(), d.bits();
    }
    return all;
  }
};

struct settings {
  std::uint64_t first = 0, last = 0, share = 0, step = 1;
  std::string backend = "reference";
};

struct drawn_program {
  program p;
  matrix a, b, da, db;
};

drawn_program draw(std::uint64_t seed) {
  dice d{std::mt19937_64(seed * 2 + 1)};
  drawn_program out;
  const auto calls = static_cast<int>(1 + d.below(5));
  out.p = {seed, seed < program::alone ? 1 : calls};
  const auto some = [&](std::int64_t m, std::int64_t n) {
    std::vector<double> all;
    for (std::int64_t i = 0; i < m * n; ++i) all.push_back(2 * static_cast<double>(d.below(1 << 20)) / (1 << 20) - 1);
    return matrix(from_span(all, m, n));
  };
  const std::int64_t m = 1 + d.below(6), n = 1 + d.below(6);
  // As a view with steps at times.
  const auto laid = [&] {
    const matrix x = some(m, n);
    return d.below(4) == 0 ? matrix(transpose(matrix(transpose(x).contiguous()))) : x;
  };
  out.a = laid(), out.da = laid();
  out.b = some(1 + d.below(4), 1 + d.below(4));
  out.db = some(out.b.size(0), out.b.size(1));
  return out;
}

std::string difference(const matrix& got, const matrix& want, double tolerance) {
  if (got.shape() != want.shape())
    return "shape (" + got.size(0).text() + ", " + got.size(1).text() + "), not (" + want.size(0).text() + ", " +
           want.size(1).text() + ")";
  const auto g = got.to_vector(), w = want.to_vector();
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i]))) continue;
    if (!(std::fabs(g[i] - w[i]) <= tolerance * (1 + std::fabs(w[i]))))
      return "element " + std::to_string(i) + ": " + std::to_string(g[i]) + ", not " + std::to_string(w[i]) + " (by " +
             std::to_string(g[i] - w[i]) + ")";
  }
  return "";
}

options how(const settings& s, bool open) {
  options o;
  o.backend = s.backend;
  o.dynamic = open ? dynamic::yes : dynamic::no;
  return o;
}
matrix placed(const matrix& x, const settings& s) { return s.backend == "cuda" ? matrix(x.to(device::cuda(0))) : x; }

/// Of what is refused eagerly, as maxima of nothing are, that it is refused compiled.
std::string value_differs(const settings& s, const program& p, const drawn_program& d, bool open) {
  const auto compiled = [&] { return compile(p, how(s, open))(placed(d.a, s), placed(d.b, s)).to(device()); };
  matrix want;
  try {
    want = p(d.a, d.b);
  } catch (const user_error& e) {
    try {
      compiled();
    } catch (const user_error&) {
      return "";
    }
    return "refused eagerly alone: " + std::string(e.what());
  }
  return difference(compiled(), want, 1e-8);
}
bool is_refused(const drawn_program& d) {
  try {
    d.p(d.a, d.b);
  } catch (const user_error&) {
    return true;
  }
  return false;
}

std::string values_differ(const settings& s, const drawn_program& d, bool open) {
  std::string later;
  for (int calls = d.p.calls; calls > 0; --calls) {
    program p = d.p;
    p.calls = calls;
    std::string why;
    try {
      why = value_differs(s, p, d, open);
    } catch (const std::exception& e) {
      why = e.what();
    }
    if (why.empty() && calls == d.p.calls) return "";
    if (why.empty()) return "call " + std::to_string(calls) + ", " + d.p.name(calls) + ": " + later;
    if (calls == 1) return "call 0, " + d.p.name(0) + ": " + why;
    later = why;
  }
  return "";
}

/// Whether forward and reverse mode agree on c·(J t).
std::string derivatives_differ(const settings& s, const drawn_program& d) {
  const program p = d.p;
  const auto both = [p](const matrix& a, const matrix& b, const matrix& da, const matrix& db) {
    const auto weighed = [p](const matrix& x, const matrix& y) {
      const matrix z = p(x, y);
      const matrix k = reshape(cos(arange<double>(z.numel())), z.size(0), z.size(1));
      return sum(z * k);
    };
    const auto along = jvp<0, 1>(weighed)(a, b, da, db).second;
    const auto [ga, gb] = grad<0, 1>(weighed)(a, b);
    return std::tuple{along, tensor<double, 0>(sum(ga * da) + sum(gb * db))};
  };
  const auto [forward, reverse] =
      compile(both, how(s, p.seed % 2 == 0))(placed(d.a, s), placed(d.b, s), placed(d.da, s), placed(d.db, s));
  const double f = forward.item(), r = reverse.item();
  if (std::isnan(f) || std::isnan(r) || std::fabs(f - r) <= 1e-6 * (1 + std::fabs(f))) return "";
  return "forward mode gives " + std::to_string(f) + ", reverse mode " + std::to_string(r);
}

std::string lanes_differ(const drawn_program& d) {
  const program p = d.p;
  const auto lanes = vmap(p)(stack(d.a, d.da, d.a * 0.5), stack(d.b, d.db, d.b * 0.25));
  return difference(lanes[1], p(d.da, d.db), 1e-8);
}

std::string check(const settings& s, std::uint64_t seed) {
  const drawn_program d = draw(seed);
  std::string why = values_differ(s, d, seed % 2 == 0);
  if (why.empty() && seed < program::alone) why = values_differ(s, d, seed % 2 != 0);
  if (!why.empty()) return "values: " + why;
  if (is_refused(d)) return "";
  if (s.backend != "reference" && seed % 4 != 0 && seed >= program::alone) return "";
  if (d.p.smooth()) why = derivatives_differ(s, d);
  if (!why.empty()) return "derivatives: " + why;
  if (seed % 4 == 0 || seed < program::alone) why = lanes_differ(d);
  return why.empty() ? "" : "lanes: " + why;
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], text = argv[i + 1];
    const auto dots = text.find("..");
    if (name == "--backend") s.backend = text;
    if (name == "--share") s.share = std::strtoull(text.c_str(), nullptr, 10), s.step = 3;
    if (name == "--seeds") {
      s.first = std::strtoull(text.c_str(), nullptr, 10);
      s.last = dots == std::string::npos ? s.first : std::strtoull(text.c_str() + dots + 2, nullptr, 10);
    }
  }
  std::uint64_t failed = 0, drawn = 0;
  for (std::uint64_t seed = s.first + s.share; seed <= s.last; seed += s.step) {
    ++drawn;
    std::string why;
    try {
      why = check(s, seed);
    } catch (const std::exception& e) {
      why = e.what();
    }
    if (why.empty()) continue;
    ++failed;
    const program p = draw(seed).p;
    std::string calls;
    for (int i = 0; i < p.calls; ++i) calls += (i > 0 ? ", " : "") + p.name(i);
    std::printf("FAILED seed %llu (%s): %s\nrerun: test_fuzz_functions --seeds %llu..%llu --backend %s\n",
                static_cast<unsigned long long>(seed), calls.c_str(), why.c_str(),
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed), s.backend.c_str());
    std::fflush(stdout);
  }
  std::printf("%llu programs of %zu functions on %s; %llu failed\n", static_cast<unsigned long long>(drawn),
              std::size(table), s.backend.c_str(), static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}
