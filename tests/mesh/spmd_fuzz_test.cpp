// Random programs of placed tensors: ranks that are threads and simulated ranks against the same program of whole tensors, with first
// derivatives. SINTER_SPMD_PROGRAMS is the number of programs, and SINTER_SPMD_FROM the first seed.
#include <cstdlib>
#include <random>

#include "findings.hpp"
#include "programs.hpp"

using namespace programs;

namespace {

constexpr std::int64_t width = 12;
using whole_tensor = tensor<double, 2>;

/// Kinds of values: parts by rows, parts by columns, replicated, invariant, partial.
enum kind { by_rows, by_columns, replica, one, share, kinds };

struct step {
  int op = 0;
  std::size_t a = 0, b = 0;
  int of = 0;  ///< the kind of an op of all kinds
};

/// The types and functions of ranks.
struct spmd {
  template <class... P>
  using held = placed<tensor<double, 2>, P...>;
  using rows = held<shard<dp, 0>>;
  using columns = held<shard<dp, 1>>;
  using repl = held<replicated<dp>>;
  using inv = held<>;
  using part = held<partial<dp>>;

  static repl to_repl(const inv& x) { return as<replicated<dp>>(x); }
  template <int K, class X>
  static auto cut(const X& x) {
    return as<shard<dp, K>>(x);
  }
  static repl sum(const part& x) { return all_reduce<replicated<dp>>(x); }
  static inv sum_once(const part& x) { return all_reduce<invariant<dp>>(x); }
  template <int K>
  static auto scatter(const part& x) {
    return reduce_scatter<dp, K>(x);
  }
  template <int K, class X>
  static repl join(const X& x) {
    return all_gather<replicated<dp>, K>(x);
  }
  template <int K, class X>
  static inv join_once(const X& x) {
    return all_gather<invariant<dp>, K>(x);
  }
  static columns turn(const rows& x) { return all_to_all<dp, 1, 0>(x); }
  static rows turn(const columns& x) { return all_to_all<dp, 0, 1>(x); }
  static rows pass_on(const rows& x, std::int64_t) { return as<shard<dp, 0>>(permute<dp>(x, shift(1))); }
  static tensor<bool, 0> positive(const repl& x) { return local(sinter::sum(x)) > 0.0; }
  static loss_type total(const rows& x) { return all_reduce<invariant<dp>>(sinter::sum(x)); }
};
/// The same for whole tensors.
struct whole {
  using rows = whole_tensor;
  using columns = whole_tensor;
  using repl = whole_tensor;
  using inv = whole_tensor;
  using part = whole_tensor;

  static whole_tensor to_repl(const whole_tensor& x) { return x; }
  template <int K>
  static whole_tensor cut(const whole_tensor& x) {
    return x;
  }
  static whole_tensor sum(const whole_tensor& x) { return x; }
  static whole_tensor sum_once(const whole_tensor& x) { return x; }
  template <int K>
  static whole_tensor scatter(const whole_tensor& x) {
    return x;
  }
  template <int K>
  static whole_tensor join(const whole_tensor& x) {
    return x;
  }
  template <int K>
  static whole_tensor join_once(const whole_tensor& x) {
    return x;
  }
  static whole_tensor turn(const whole_tensor& x) { return x; }
  static whole_tensor pass_on(const whole_tensor& x, std::int64_t ranks) { return roll(x, width / ranks, axis<0>); }
  static tensor<bool, 0> positive(const whole_tensor& x) { return sinter::sum(x) > 0.0; }
  static tensor<double, 0> total(const whole_tensor& x) { return sinter::sum(x); }
};

/// The values of a program so far.
template <class W>
struct pools {
  std::vector<typename W::rows> rows;
  std::vector<typename W::columns> columns;
  std::vector<typename W::repl> repl;
  std::vector<typename W::inv> inv;
  std::vector<typename W::part> part;

  /// Calls f with the pool of a kind; `linear` for all kinds.
  template <class F>
  void of(int k, const F& f) {
    if (k == by_rows) f(rows);
    if (k == by_columns) f(columns);
    if (k == replica) f(repl);
    if (k == one) f(inv);
  }
};

/// An op: the kinds of its operands and of its result; -1 for each kind but `share`.
struct op_row {
  int a, b, result;
};
constexpr op_row ops[] = {
    {-1, -1, -1},                       // 0: sin
    {-1, -1, -1},                       // 1: tanh of a product
    {-1, -1, -1},                       // 2: sum
    {share, share, share},              // 3: sum of shares
    {replica, share, share},            // 4: product with a share
    {share, share, share},              // 5: multiple of a share
    {one, one, replica},                // 6
    {replica, replica, by_rows},        // 7
    {replica, replica, by_columns},     // 8
    {one, one, by_columns},             // 9
    {share, share, replica},            // 10
    {share, share, one},                // 11
    {share, share, by_rows},            // 12
    {share, share, by_columns},         // 13
    {by_rows, by_rows, replica},        // 14
    {by_columns, by_columns, replica},  // 15
    {by_rows, by_rows, one},            // 16
    {by_columns, by_columns, one},      // 17
    {by_rows, by_rows, by_columns},     // 18
    {by_columns, by_columns, by_rows},  // 19
    {by_rows, by_rows, by_rows},        // 20: permute
    {replica, replica, replica},        // 21: products
    {by_rows, replica, by_rows},        // 22
    {replica, by_columns, by_columns},  // 23
    {by_columns, by_rows, share},       // 24
    {by_rows, replica, by_rows},        // 25: a loop that communicates
    {by_rows, replica, by_rows},        // 26: a branch
    {replica, one, replica},            // 27: a loop over an invariant value
};
constexpr int op_count = static_cast<int>(std::size(ops));

std::vector<step> draw_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<std::size_t> count(kinds, 0);
  count[by_rows] = count[by_columns] = count[one] = 1;
  std::vector<step> out;
  const std::size_t length = 3 + below(10);
  while (out.size() < length) {
    step s;
    s.op = static_cast<int>(below(op_count));
    op_row row = ops[s.op];
    if (row.a < 0) {
      s.of = static_cast<int>(below(share));
      row = {s.of, s.of, s.of};
    }
    const auto a = static_cast<std::size_t>(row.a), b = static_cast<std::size_t>(row.b);
    if (count[a] == 0 || count[b] == 0) continue;
    s.a = below(count[a]);
    s.b = below(count[b]);
    ++count[static_cast<std::size_t>(row.result)];
    out.push_back(s);
  }
  return out;
}

template <class W>
void run_step(pools<W>& p, const step& s, std::int64_t ranks) {
  const auto of_kind = [&](const auto& f) {
    p.of(s.of, [&](auto& pool) {
      auto y = f(pool[s.a], pool[s.b]);
      pool.push_back(y);
    });
  };
  switch (s.op) {
    case 0:
      return of_kind([](const auto& x, const auto&) { return std::remove_cvref_t<decltype(x)>(sin(x)); });
    case 1:
      return of_kind([](const auto& x, const auto& y) { return std::remove_cvref_t<decltype(x)>(tanh(x * y * 0.7)); });
    case 2:
      return of_kind([](const auto& x, const auto& y) { return std::remove_cvref_t<decltype(x)>(x + y); });
    case 3:
      return p.part.push_back(typename W::part(p.part[s.a] + p.part[s.b]));
    case 4:
      return p.part.push_back(typename W::part(sin(p.repl[s.a]) * p.part[s.b]));
    case 5:
      return p.part.push_back(typename W::part(p.part[s.a] * -0.6));
    case 6:
      return p.repl.push_back(W::to_repl(p.inv[s.a]));
    case 7:
      return p.rows.push_back(W::template cut<0>(p.repl[s.a]));
    case 8:
      return p.columns.push_back(W::template cut<1>(p.repl[s.a]));
    case 9:
      return p.columns.push_back(W::template cut<1>(p.inv[s.a]));
    case 10:
      return p.repl.push_back(W::sum(p.part[s.a]));
    case 11:
      return p.inv.push_back(W::sum_once(p.part[s.a]));
    case 12:
      return p.rows.push_back(W::template scatter<0>(p.part[s.a]));
    case 13:
      return p.columns.push_back(W::template scatter<1>(p.part[s.a]));
    case 14:
      return p.repl.push_back(W::template join<0>(p.rows[s.a]));
    case 15:
      return p.repl.push_back(W::template join<1>(p.columns[s.a]));
    case 16:
      return p.inv.push_back(W::template join_once<0>(p.rows[s.a]));
    case 17:
      return p.inv.push_back(W::template join_once<1>(p.columns[s.a]));
    case 18:
      return p.columns.push_back(W::turn(p.rows[s.a]));
    case 19:
      return p.rows.push_back(W::turn(p.columns[s.a]));
    case 20:
      return p.rows.push_back(W::pass_on(p.rows[s.a], ranks));
    case 21:
      return p.repl.push_back(typename W::repl(matmul(p.repl[s.a], p.repl[s.b]) * 0.2));
    case 22:
      return p.rows.push_back(typename W::rows(matmul(p.rows[s.a], p.repl[s.b]) * 0.2));
    case 23:
      return p.columns.push_back(typename W::columns(matmul(p.repl[s.a], p.columns[s.b]) * 0.2));
    case 24:
      return p.part.push_back(typename W::part(matmul(p.columns[s.a], p.rows[s.b]) * 0.2));
    case 25: {
      const auto w = p.repl[s.b];
      return p.rows.push_back(fori_loop(
          0, 3, [&](auto, typename W::rows y) { return W::pass_on(typename W::rows(tanh(matmul(y, w) * 0.3)), ranks); },
          typename W::rows(p.rows[s.a])));
    }
    case 26:
      return p.rows.push_back(cond(
          W::positive(p.repl[s.b]), [](typename W::rows y) { return typename W::rows(sin(y)); },
          [](typename W::rows y) { return typename W::rows(y * 0.3); }, typename W::rows(p.rows[s.a])));
    default: {
      const auto w = p.inv[s.b];
      return p.repl.push_back(fori_loop(
          0, 2, [&](auto, typename W::repl y) { return typename W::repl(tanh(y * W::to_repl(w))); },
          typename W::repl(p.repl[s.a])));
    }
  }
}

/// The sum of all values, each with a weight of its own.
template <class W>
auto run_program(const std::vector<step>& all, const typename W::rows& a, const typename W::columns& b,
                 const typename W::inv& c, std::int64_t ranks) {
  pools<W> p;
  p.rows.push_back(a);
  p.columns.push_back(b);
  p.inv.push_back(c);
  for (const step& s : all) run_step(p, s, ranks);
  typename W::rows sum = p.rows[0];
  double weight = 1;
  const auto add = [&](const auto& rows) { sum = typename W::rows(sum + rows * (weight = 0.9 * weight + 0.03)); };
  for (const auto& x : p.rows) add(x);
  for (const auto& x : p.columns) add(W::turn(x));
  for (const auto& x : p.repl) add(W::template cut<0>(x));
  for (const auto& x : p.inv) add(W::template cut<0>(x));
  for (const auto& x : p.part) add(W::template scatter<0>(x));
  return W::total(sum);
}

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("random programs of ranks compute what one device computes") {
  const std::uint64_t from = number_from("SINTER_SPMD_FROM", 1), count = number_from("SINTER_SPMD_PROGRAMS", 60);
  const options interpreted{.backend = "reference"};
  const auto a = some(width, width), b = some(width, width, 0.4), c = some(width, width, 0.8);
  findings wrong;
  for (std::uint64_t seed = from; seed < from + count; ++seed) {
    const auto all = draw_program(seed);
    const std::int64_t ranks = std::array<std::int64_t, 3>{2, 3, 4}[seed % 3];
    const std::string name = "seed " + std::to_string(seed);
    const auto want = compile(
        [&](whole_tensor x, whole_tensor y, whole_tensor z) {
          return value_and_grad<0, 1, 2>([&](whole_tensor u, whole_tensor v, whole_tensor w) {
            return run_program<whole>(all, u, v, w, ranks);
          })(x, y, z);
        },
        interpreted)(a, b, c);
    const auto f = [&all, ranks](spmd::rows x, spmd::columns y, spmd::inv z) {
      auto [l, g] = value_and_grad<0, 1, 2>(
          [&](spmd::rows u, spmd::columns v, spmd::inv w) { return run_program<spmd>(all, u, v, w, ranks); })(x, y, z);
      return std::tuple{l, std::get<0>(g), std::get<1>(g), std::get<2>(g)};
    };
    const std::vector<double> g0 = numbers_of(std::get<0>(want.second)), g1 = numbers_of(std::get<1>(want.second)),
                              g2 = numbers_of(std::get<2>(want.second)), l = numbers_of(want.first);
    constexpr double close = 1e-9;
    try {
      const auto got = compile(simulate(f, simulated_mesh<dp>({ranks})), interpreted)(a, b, c);
      wrong.close(numbers_of(std::get<0>(got)), l, name + ", simulated loss", close);
      wrong.close(numbers_of(std::get<1>(got)), g0, name + ", simulated rows", close);
      wrong.close(numbers_of(std::get<2>(got)), g1, name + ", simulated columns", close);
      wrong.close(numbers_of(std::get<3>(got)), g2, name + ", simulated whole", close);
      on_threads(static_cast<int>(ranks), [&](int) {
        const auto m = make_mesh<dp>({ranks});
        const auto step = compile(
            shard_map(m,
                      [&f](spmd::rows x, spmd::columns y, spmd::inv z) {
                        auto [loss, d0, d1, d2] = f(x, y, z);
                        return std::tuple{loss, all_gather<invariant<dp>, 0>(d0), all_gather<invariant<dp>, 1>(d1), d2};
                      }),
            interpreted);
        const auto own = step(a, b, c);
        wrong.close(numbers_of(local(std::get<0>(own))), l, name + ", loss", close);
        wrong.close(numbers_of(local(std::get<1>(own))), g0, name + ", rows", close);
        wrong.close(numbers_of(local(std::get<2>(own))), g1, name + ", columns", close);
        wrong.close(numbers_of(local(std::get<3>(own))), g2, name + ", whole", close);
      });
    } catch (const std::exception& problem) {
      wrong.expect(false, name + ": " + problem.what());
    }
    if (wrong.all().size() > 2000) break;
  }
  CHECK(wrong.all() == "");
}
