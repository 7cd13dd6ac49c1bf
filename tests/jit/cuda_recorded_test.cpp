// Loops, branches and the user's kernels in recorded calls: what they give, beside the host and calls that are not recorded; and
// that such a call asks the driver for one graph and for nothing else.
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/run/cuda/device/driver.hpp>
#include <sinter/sinter.hpp>

#include "../close.hpp"
#include "../emulator/select.hpp"

namespace {

using namespace sinter;
namespace cuda = engine::run::cuda;

using scalar = tensor<float, 0>;
using vec = tensor<float, 1>;
using matrix = tensor<float, 2>;

template <auto Entry>
struct counted;
template <class... A, cuda::api::result (*cuda::driver_table::*Entry)(A...)>
struct counted<Entry> {
  static inline cuda::api::result (*real)(A...) = nullptr;
  static inline std::atomic<long> calls = 0;
  static cuda::api::result call(A... a) { return ++calls, real(a...); }
  static long so_far() {
    auto& entry = cuda::detail::driver_instance().table.*Entry;
    if (entry != call) real = std::exchange(entry, call);
    return calls;
  }
};

struct requests {
  long graphs = 0, others = 0;
  bool operator==(const requests&) const = default;
};

/// What was asked of the driver so far that a GPU does, or that waits for it. Memory is another matter: a fill may poison it.
requests asked() {
  using t = cuda::driver_table;
  cuda::driver();
  return {counted<&t::graph_launch>::so_far(),
          counted<&t::launch>::so_far() + counted<&t::copy_within>::so_far() + counted<&t::copy_to_host>::so_far() +
              counted<&t::copy_to_device>::so_far() + counted<&t::event_synchronize>::so_far()};
}
template <class F>
requests of(F&& f) {
  const requests before = asked();
  f();
  const requests after = asked();
  return {after.graphs - before.graphs, after.others - before.others};
}
constexpr requests one_graph{1, 0}, whatever{-1, 0};

const device gpu = device::cuda(0);

template <class Tree>
std::vector<float> values(const Tree& t) {
  std::vector<float> out;
  tree_map(
      [&](auto x) {
        const auto host = x.to(device::cpu()).to_vector();
        out.insert(out.end(), host.begin(), host.end());
        return x;
      },
      t);
  return out;
}

matrix waves(std::int64_t rows, std::int64_t columns, int turn) {
  return sin(reshape(cast<float>(arange<std::int64_t>(rows * columns)), {rows, columns}) * 0.37f + float(turn));
}
vec wave(std::int64_t n, int turn) { return cos(cast<float>(arange<std::int64_t>(n)) * 0.71f + float(turn)); }

/// Calls of f, recorded from the second one on, with arguments(turn) elsewhere each time; all results are looked at in the end.
template <class F, class Arguments>
void check_recorded(const std::string& what, F f, Arguments arguments, requests each = one_graph) {
  CAPTURE(what);
  const auto on_host = compile(f), plain = compile(f), recorded = compile(f, {.mode = mode::reduce_overhead});
  using result = decltype(std::apply(recorded, arguments(0)));
  std::vector<result> got;
  std::vector<std::vector<float>> want;
  std::vector<decltype(arguments(0))> kept;
  for (int turn = 0; turn < 8; ++turn) {
    CAPTURE(turn);
    const auto given = arguments(turn);
    const auto there = to(given, gpu);
    if (turn % 3 == 0) kept.push_back(there);
    const requests made = of([&] { got.push_back(std::apply(recorded, there)); });
    // The second one may measure products.
    if (turn > 1 && each.graphs >= 0) CHECK(made.graphs == each.graphs);
    if (turn > 1 && each.graphs == 1) CHECK(made.others == 0);
    want.push_back(values(std::apply(on_host, given)));
    check_close(values(std::apply(plain, there)), want.back(), 2e-5);
  }
  for (std::size_t turn = 0; turn < got.size(); ++turn) check_close(values(got[turn]), want[turn], 2e-5);
  CHECK(recorded.specialisations() == 1);
  CHECK(recorded.report().backend == "cuda");
  // Kernels of bodies are not to be begun early, which would cost all others that.
  if (!emulator::real()) CHECK(!cuda::detail::driver_instance().refuses_early_edges);
}

/// A cell's state over the rows of xs, and what it gives for each.
const auto rnn = [](const matrix& w, const vec& h, const matrix& xs) {
  return scan(
      [&](const vec& h, const vec& x) {
        const vec next = tanh(matmul(h, w) + x);
        return std::pair{next, vec(next * x)};
      },
      h, xs);
};

const auto halves = [](const vec& x) {
  return while_loop([](const vec& v) { return sum(v * v) > 1.0f; }, [](const vec& v) { return v * 0.5f; }, x);
};

/// A driver that is not as it should be, until the end of the scope.
struct driver_without {
  explicit driver_without(const char* what) { ::setenv("SINTER_EMULATOR_CONDITIONS", what, 1); }
  ~driver_without() {
    ::unsetenv("SINTER_EMULATOR_CONDITIONS");
    cuda::detail::driver_instance().refuses_conditions = false;
  }
};

}  // namespace

TEST_CASE("the backend cudagraphs runs each op as a kernel of its own, and records calls") {
  const auto f = [](const matrix& x, const matrix& w) { return vec(sum(tanh(matmul(x, w) * 2.f) + 1.f, axis<1>)); };
  const auto on_host = compile(f), fused = compile(f), apart = compile(f, {.backend = "cudagraphs"});
  std::vector<vec> kept;
  for (int turn = 0; turn < 6; ++turn) {
    const matrix x = waves(9, 7, turn), w = waves(7, 5, 1 - turn);
    const auto there = to(std::tuple{x, w}, gpu);
    const requests made = of([&] { kept.push_back(std::apply(apart, there)); });
    if (turn > 1) CHECK(made == one_graph);
    static_cast<void>(std::apply(fused, there));
    check_close(values(kept.back()), values(on_host(x, w)), 2e-5);
  }
  CHECK(apart.report().backend == "cudagraphs");
  CHECK(apart.report().kernels > fused.report().kernels);
}

TEST_CASE("a scan of any length is a part of the graph, and so are its gradients") {
  for (const std::int64_t steps : {0, 1, 2, 7}) {
    const auto given = [&](int turn) {
      return std::tuple{waves(6, 6, turn), wave(6, turn), waves(steps, 6, 1 - turn)};
    };
    CAPTURE(steps);
    const requests each = steps == 0 ? whatever : one_graph;  // one copy is no graph
    check_recorded(
        "values", [](auto w, auto h, auto xs) { return rnn(w, h, xs); }, given, each);
    check_recorded(
        "the last state, and nothing stacked", [](auto w, auto h, auto xs) { return vec(rnn(w, h, xs).first * 2.f); },
        given, each);
    check_recorded(
        "gradients",
        [](auto w, auto h, auto xs) {
          return value_and_grad([&](auto all) {
            const auto [last, ys] = rnn(std::get<0>(all), std::get<1>(all), std::get<2>(all));
            return sum(last) + sum(ys * ys);
          })(std::tuple{w, h, xs});
        },
        given, each);
  }
}

TEST_CASE("both branches, whatever of their results is read") {
  const auto both = [](const vec& x, const matrix& w) {
    return cond(
        sum(x) > 0.0f,
        [&] {
          return std::pair{vec(x * 2.0f), vec(matmul(x, w))};
        },
        [&] {
          return std::pair{vec(matmul(x, w) - 1.0f), vec(exp(x))};
        });
  };
  const auto given = [](int turn) {
    return std::tuple{vec(wave(5, turn) + (turn % 2 ? 1.5f : -1.5f)), waves(5, 5, turn)};
  };
  check_recorded(
      "both results", [&](auto x, auto w) { return both(x, w); }, given);
  check_recorded(
      "the first", [&](auto x, auto w) { return both(x, w).first; }, given);
  check_recorded(
      "the second", [&](auto x, auto w) { return vec(both(x, w).second + x); }, given);
}

TEST_CASE("a loop that ends when it will: no turn, one, many; without a word to the host") {
  check_recorded(
      "halves", [](auto x) { return halves(x * 1.0f); },
      [](int turn) {
        return std::tuple{vec(wave(5, turn) * (turn % 3 == 0 ? 0.01f : turn % 3 == 1 ? 1.2f : 900.f))};
      });
  check_recorded(
      "two carried, one read, a product in test and body",
      [](auto x, auto w) {
        using state = std::pair<vec, scalar>;
        const state last = while_loop([&](const state& s) { return sum(matmul(s.first, w)) + s.second < 20.f; },
                                      [&](const state& s) {
                                        return state{abs(matmul(s.first, w)), s.second + sum(s.first) + 1.f};
                                      },
                                      state{x, scalar(0.f)});
        return scalar(last.second * 2.f);
      },
      [](int turn) {
        return std::tuple{abs(wave(4, turn)).eval(), abs(waves(4, 4, turn)).eval()};
      });
}

TEST_CASE("loops in branches, branches in loops, loops in loops") {
  const auto given = [](int turn) { return std::tuple{wave(4, turn), waves(3, 4, turn), waves(4, 4, turn)}; };
  const auto step = [](const vec& c, const vec& x, const matrix& w) {
    return cond(
        sum(c * x) > 0.0f, [&] { return vec(tanh(matmul(c, w)) + x); }, [&] { return halves(c * 3.0f - x); });
  };
  check_recorded(
      "cond and while in scan",
      [&](auto c, auto xs, auto w) {
        return scan([&](const vec& c, const vec& x) { return std::pair{step(c, x, w), sum(c)}; }, c, xs);
      },
      given);
  check_recorded(
      "scan in cond",
      [&](auto c, auto xs, auto w) {
        return cond(
            sum(c) > 0.3f, [&] { return rnn(w, c, xs).first; }, [&] { return vec(c - 1.0f); });
      },
      given);
  check_recorded(
      "scan in while in while",
      [&](auto c, auto xs, auto w) {
        return while_loop([](const vec& v) { return sum(v * v) < 300.0f; },
                          [&](const vec& v) { return vec(halves(rnn(w, v, xs).first * 5.f) + v + v * v + 1.f); }, c);
      },
      given);
}

TEST_CASE("the user's kernel, alone and in bodies") {
  const auto twice = custom_op<"twice">(
      [](elements<const float, 1> x, elements<float, 1> y, elements<float, 1> z) {
        for (std::int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i], z[i] = x[i] + 1;
      },
      cuda_source{R"(
extern "C" __global__ void twice(const float* x, float* y, float* z, long long n, long long, long long) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i], z[i] = x[i] + 1;
}
)",
                  "twice", 64},
      [](const index_array<1>& n) {
        return std::tuple{result_of<float, 1>{n}, result_of<float, 1>{n}};
      },
      none);
  const auto given = [](int turn) { return std::tuple{wave(70, turn)}; };
  check_recorded(
      "between kernels", [&](auto x) { return vec(std::get<0>(twice(exp(x))) + x); }, given);
  check_recorded(
      "in a loop within a branch",
      [&](auto x) {
        return cond(
            sum(x) > 0.f,
            [&] {
              return fori_loop(
                  0, 3, [&](auto, const vec& v) { return vec(std::get<1>(twice(v)) + v); }, x);
            },
            [&] { return std::get<0>(twice(x)); });
      },
      given);
  // A function of the host is no part of a graph: the call runs step by step, as ever.
  const auto on_host = custom_op<"on_host">(
      [](elements<const float, 1> x, elements<float, 1> y) {
        for (std::int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + 4;
      },
      none, [](const index_array<1>& n) { return result_of<float, 1>{n}; }, none);
  check_recorded("a host function",
                 [&](auto x) {
                   return fori_loop(
                       0, 2, [&](auto, const vec& v) { return vec(on_host(v * 2.f)); }, x);
                 },
                 given, {0, 0});
}

TEST_CASE("state that is lent to a loop, call after call") {
  const auto step = [](const std::pair<vec, matrix>& s, const matrix& xs) {
    const auto g = grad([&](auto w) { return sum(rnn(w, s.first, xs).second); })(s.second);
    return std::pair{std::pair{vec(rnn(s.second, s.first, xs).first), matrix(s.second - 0.1f * g)}, sum(g)};
  };
  const auto on_host = compile(step);
  for (const bool lend : {false, true}) {
    options how{.mode = mode::reduce_overhead};
    if (lend) how.donate = {0};
    const auto recorded = compile(step, how);
    std::pair<vec, matrix> a{wave(6, 0), waves(6, 6, 1)}, b = to(a, gpu);
    for (int turn = 0; turn < 9; ++turn) {
      const matrix xs = waves(4, 6, turn);
      const auto [next, total] = on_host(a, xs);
      const auto [after, same] = lend ? recorded(std::move(b), xs.to(gpu)) : recorded(b, xs.to(gpu));
      check_close(values(same), values(total), 2e-4);
      check_close(values(after), values(next), 2e-4);
      a = next;
      b = after;
    }
  }
}

TEST_CASE("a length that changes is another recording") {
  const auto f = [](auto w, auto h, auto xs) { return rnn(w, h, xs); };
  const auto on_host = compile(f);
  const auto recorded = compile(f, {.mode = mode::reduce_overhead, .dynamic = dynamic::yes});
  for (int turn = 0; turn < 26; ++turn) {
    CAPTURE(turn);
    const std::int64_t steps = turn % 2 ? 5 : 3;
    const auto given = std::tuple{waves(6, 6, turn), wave(6, turn), waves(steps, 6, -turn)};
    const auto there = to(given, gpu);
    const long graphs =
        of([&] { check_close(values(std::apply(recorded, there)), values(std::apply(on_host, given)), 2e-5); }).graphs;
    // Each length's ninth call is the first that is recorded; it may measure products.
    if (turn < 16 || turn >= 18) CHECK(graphs == (turn >= 18));
  }
  CHECK(recorded.specialisations() == 1);
}

TEST_CASE("threads and streams share a recording") {
  const auto f = [](auto x) {
    return halves(cond(
        sum(x) > 0.f, [&] { return vec(x * 40.f); }, [&] { return vec(x - 50.f); }));
  };
  const auto recorded = compile(f, {.mode = mode::reduce_overhead});
  recorded(wave(9, 0).to(gpu));
  std::vector<std::vector<float>> got(4), want(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < got.size(); ++t) {
    want[t] = values(compile(f)(wave(9, int(t))));
    threads.emplace_back([&, t] {
      stream mine(gpu);
      const stream_scope scope(mine);
      for (int i = 0; i < 6; ++i) {
        const vec y = recorded(wave(9, int(t)).to(gpu));
        got[t] = values(y);
        if (got[t] != values(recorded(wave(9, int(t)).to(gpu)))) got[t].clear();
      }
    });
  }
  for (auto& t : threads) t.join();
  for (std::size_t t = 0; t < got.size(); ++t) check_close(got[t], want[t], 2e-5);
}

TEST_CASE(
    "what no graph can hold runs step by step: no conditional nodes, products that a branch cannot have, too many "
    "steps") {
  const auto given = [](int turn) { return std::tuple{wave(4, turn), waves(4, 4, turn)}; };
  const auto branch = [](auto x, auto w) {
    return cond(
        sum(x) > 0.f, [&] { return vec(matmul(x, w) + 1.f); }, [&] { return vec(x * 2.f); });
  };
  constexpr requests none{0, 0};
  if (!emulator::real()) {
    {
      const driver_without conditions("none");
      check_recorded("no conditions", branch, given, none);
      CHECK(cuda::detail::driver_instance().refuses_conditions);
      check_recorded(
          "a loop needs none", [](auto x, auto w) { return rnn(w, x, w); }, given);
    }
    {
      const driver_without products("no products");
      // The last two kernels would overlap, if it were not for the branch.
      check_recorded(
          "no products",
          [&](auto x, auto w) {
            const vec y = exp(branch(vec(x + 1.f), w));
            return vec(cumsum<0>(y) * sum(y));
          },
          given, none);
      CHECK(!cuda::detail::driver_instance().refuses_conditions);
      check_recorded(
          "without a product", [](auto x, auto) { return halves(x * 9.f); }, given);
    }
  }
  check_recorded(
      "and then again", [&](auto x, auto w) { return branch(vec(x - 1.f), w); }, given);
  const auto counts = [](auto x, int steps) {
    return fori_loop(
        0, steps, [](auto i, const vec& v) { return vec(v * 0.5f + cast<float>(i)); }, x);
  };
  check_recorded(
      "many", [&](auto x, auto) { return counts(x, 300); }, given);
  const auto too_many = compile([&](auto x) { return counts(x, 17000); }, {.mode = mode::reduce_overhead});
  const vec x = full<float>(0, 3, gpu);
  for (int turn = 0; turn < 2; ++turn) CHECK(of([&] { too_many(x); }).graphs == 0);
}
