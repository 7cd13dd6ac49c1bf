// Launches whose table is more than parameters may take: in the GPU's memory, written before them.
#include <cmath>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/run/cuda/program/nvrtc.hpp>
#include <sinter/sinter.hpp>

namespace {

using namespace sinter;
using vec = tensor<float, 1>;
using vectors = std::vector<vec>;
namespace cuda = engine::run::cuda;

/// What the driver was asked for.
struct requests {
  int launches = 0, graphs = 0, nodes = 0, copies = 0;
  bool no_copies = false;  ///< it refuses to copy
} asked;

template <auto Entry, int requests::*Count>
struct counted;
template <class... A, cuda::api::result (*cuda::driver_table::*Entry)(A...), int requests::*Count>
struct counted<Entry, Count> {
  static inline cuda::api::result (*real)(A...) = nullptr;
  static cuda::api::result call(A... a) {
    ++(asked.*Count);
    return asked.no_copies && Count == &requests::copies ? 999 : real(a...);
  }
  static void put(cuda::driver_table& table) {
    real = table.*Entry;
    table.*Entry = call;
  }
};

device counted_gpu() {
  static const bool done = [] {
    static_cast<void>(tensor<float, 0>(1.f).to(device::cuda(0)));  // starts it
    auto& table = cuda::detail::driver_instance().table;
    counted<&cuda::driver_table::launch, &requests::launches>::put(table);
    counted<&cuda::driver_table::graph_launch, &requests::graphs>::put(table);
    counted<&cuda::driver_table::graph_add_kernel, &requests::nodes>::put(table);
    counted<&cuda::driver_table::copy_to_device, &requests::copies>::put(table);
    return true;
  }();
  static_cast<void>(done);
  return device::cuda(0);
}

/// What parameters may take before CUDA 12.1; the NVRTC is that of the driver.
struct older_driver {
  int now = (cuda::load_nvrtc(), cuda::find_nvrtc(), std::exchange(cuda::detail::driver_instance().version, 12000));
  ~older_driver() { cuda::detail::driver_instance().version = now; }
};

std::vector<float> numbers(const vec& x) { return x.to(device::cpu()).to_vector(); }

/// Parts of one array, of which some begin in part of a vector.
struct parts {
  std::vector<float> values;
  vectors all;

  parts(int count, float first, device where) {
    const vec here = first + uniform<float>(make_key(std::uint64_t(first)), 44 * count), whole = here.to(where);
    values = here.to_vector();
    for (int i = 0; i < count; ++i) all.push_back(slice<0>(whole, begin(i), begin(i) + length(i)));
  }
  static std::int64_t begin(int i) { return 44 * i + (i % 5 == 0); }
  static std::int64_t length(int i) { return 1 + i % 43; }
};

struct arguments {
  parts p, m, v, g;
  arguments(int count, int round, device where)
      : p(count, float(round), where), m(count, 3, where), v(count, float(1 + round), where), g(count, 1, where) {}
};

const auto adam = [](const vectors& p, const vectors& m, const vectors& v, const vectors& g, tensor<float, 0> rate) {
  const auto m2 = tree_map([](auto m, auto g) { return 0.5f * m + g; }, m, g);
  const auto v2 = tree_map([](auto v, auto g) { return 0.25f * v + g * g; }, v, g);
  return std::tuple{tree_map([&](auto p, auto m, auto v) { return p - rate * m / (sqrt(v) + 1.f); }, p, m2, v2), m2,
                    v2};
};

template <class Results>
void check_adam(const Results& got, const arguments& x, float rate) {
  const auto& [p, m, v] = got;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const auto a = numbers(p[i]), b = numbers(m[i]), c = numbers(v[i]);
    REQUIRE(a.size() == std::size_t(parts::length(int(i))));
    for (std::size_t j = 0; j < a.size(); ++j) {
      const std::size_t at = std::size_t(parts::begin(int(i))) + j;
      const float m2 = 0.5f * x.m.values[at] + x.g.values[at];
      const float v2 = 0.25f * x.v.values[at] + x.g.values[at] * x.g.values[at];
      REQUIRE(b[j] == doctest::Approx(m2));
      REQUIRE(c[j] == doctest::Approx(v2));
      REQUIRE(a[j] == doctest::Approx(x.p.values[at] - rate * m2 / (std::sqrt(v2) + 1)));
    }
  }
}

}  // namespace

TEST_CASE("Adam of more parameters than a launch's hold is one launch, recorded or not") {
  // Where each array is an allocation of the driver's this takes long; the next case, of fewer parameters, does not.
  if (std::getenv("SINTER_CUDA_NO_CACHE") != nullptr) return;
  const device gpu = counted_gpu();
  const arguments first(600, 0, gpu), second(600, 1, gpu);
  for (const mode how : {mode::standard, mode::reduce_overhead}) {
    const auto f = compile(adam, {.mode = how});
    check_adam(f(first.p.all, first.m.all, first.v.all, first.g.all, 0.5f), first, 0.5f);
    CHECK(f.report().kernels == 1);
    asked = {};
    check_adam(f(second.p.all, second.m.all, second.v.all, second.g.all, 2.f), second, 2);
    CHECK(asked.launches + asked.graphs == 1);
    CHECK(asked.nodes == (how == mode::reduce_overhead));
    CHECK(asked.copies == 1);
  }
}

TEST_CASE("where parameters take 4 KB, and more operands take turns than a recording has copies") {
  const device gpu = counted_gpu();
  const older_driver here;
  constexpr int turns = 6;
  std::vector<arguments> sets;
  for (int i = 0; i < turns; ++i) sets.emplace_back(100, i, gpu);
  for (const mode how : {mode::standard, mode::reduce_overhead}) {
    const bool recorded = how == mode::reduce_overhead;
    CAPTURE(recorded);
    const auto f = compile(adam, {.mode = how});
    const auto call = [&](std::size_t k, float rate) {
      const arguments& x = sets[k];
      return f(x.p.all, x.m.all, x.v.all, x.g.all, rate);
    };
    check_adam(call(0, 0.5f), sets[0], 0.5f);
    CHECK(f.report().sources[0].find("* const all_members") != std::string::npos);
    for (int round = 0; round < 3; ++round) {
      std::vector<decltype(call(0, 0))> kept;
      asked = {};
      for (std::size_t k = 0; k < turns; ++k) kept.push_back(call(k, 0.25f * float(round)));
      CHECK(asked.launches == (recorded ? 0 : turns));
      CHECK(asked.graphs == (recorded ? turns : 0));
      CHECK(asked.copies == turns);
      CHECK(asked.nodes == (recorded && round == 0 ? 4 : 0));
      for (std::size_t k = 0; k < turns; ++k) check_adam(kept[k], sets[k], 0.25f * float(round));
    }
    // Where results take turns, too, a recorded call has its table.
    if (std::getenv("SINTER_CUDA_NO_CACHE") != nullptr) continue;
    auto held = call(0, 2);
    for (int i = 0; i < 6; ++i) held = call(0, 2);
    asked = {};
    held = call(0, 2);
    CHECK(asked.copies == (recorded ? 0 : 1));
    CHECK(asked.launches + asked.graphs == 1);
    check_adam(held, sets[0], 2);
  }
}

TEST_CASE("a recorded call whose table could not be sent is none") {
  const device gpu = counted_gpu();
  const older_driver here;
  const arguments x(100, 0, gpu), y(100, 1, gpu);
  const auto f = compile(adam, {.mode = mode::reduce_overhead});
  const auto call = [&](const arguments& a) { return f(a.p.all, a.m.all, a.v.all, a.g.all, 0.5f); };
  call(x);
  check_adam(call(x), x, 0.5f);
  asked = {.no_copies = true};
  CHECK_THROWS_AS(call(y), system_error);
  asked = {};
  check_adam(call(y), y, 0.5f);
  CHECK(asked.copies == 1);
}

TEST_CASE("updates within loops: each turn has a table of its own") {
  struct state {
    tensor<std::int32_t, 0> turn;
    vectors p;
  };
  const device gpu = counted_gpu();
  const older_driver here;
  const auto unrolled = [](const vectors& p, const vectors& g) {
    return fori_loop(
        0, 3, [&](auto, const vectors& p) { return tree_map([](auto p, auto g) { return 0.5f * p + g; }, p, g); }, p);
  };
  const auto counting = [](const vectors& p, const vectors& g) {
    const auto end =
        while_loop([](const state& s) { return s.turn < 3; },
                   [&](const state& s) {
                     return state{s.turn + 1, tree_map([](auto p, auto g) { return 0.5f * p + g; }, s.p, g)};
                   },
                   state{tensor<std::int32_t, 0>(0), p});
    return end.p;
  };
  const auto check = [&](const auto& loop) {
    for (const mode how : {mode::standard, mode::reduce_overhead}) {
      const auto f = compile(loop, {.mode = how});
      for (int i = 0; i < 7; ++i) {
        const parts p(150, float(i), gpu), g(150, float(2 * i), gpu);
        asked = {};
        const vectors got = f(p.all, g.all);
        if (how == mode::reduce_overhead && i > 0) CHECK(asked.launches == 0);
        for (std::size_t k = 0; k < got.size(); ++k) {
          const auto all = numbers(got[k]);
          for (std::size_t j = 0; j < all.size(); ++j) {
            const std::size_t at = std::size_t(parts::begin(int(k))) + j;
            REQUIRE(all[j] == doctest::Approx(p.values[at] / 8 + g.values[at] * 1.75f));
          }
        }
      }
      std::string text;
      for (const auto& source : f.report().sources) text += source;
      CHECK(text.find("* const all_members") != std::string::npos);
    }
  };
  check(unrolled);
  check(counting);
}

TEST_CASE("numbers of the host in a table in memory") {
  const device gpu = counted_gpu();
  const older_driver here;
  struct parameter {
    vec w;
    float rate;
  };
  for (const mode how : {mode::standard, mode::reduce_overhead}) {
    const auto f = compile(
        [](const std::vector<parameter>& all) {
          vectors out;
          for (const auto& p : all) out.push_back(p.w - p.w * p.rate);
          return out;
        },
        {.mode = how});
    std::vector<parameter> all;
    for (int i = 0; i < 200; ++i) all.push_back({full<float>(2, 1 + i % 10, gpu), 0});
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 200; ++i) all[std::size_t(i)].rate = 0.25f * float(i + round);
      const auto got = f(all);
      for (std::size_t i = 0; i < all.size(); ++i)
        for (const float x : numbers(got[i])) REQUIRE(x == 2 - 2 * all[i].rate);
    }
    CHECK(f.report().sources[0].find("* const all_members") != std::string::npos);
    asked = {};
    f(all);
    CHECK(asked.launches + asked.graphs == 1);
  }
}

TEST_CASE("small and large parameters: one launch") {
  using bytes = tensor<std::uint8_t, 1>;
  const device gpu = counted_gpu();
  const auto f = [](const std::vector<bytes>& x, const bytes& one) {
    return tree_map([&](auto a) { return a + a + one; }, x);
  };
  const bytes one = full<std::uint8_t>(1, 1, gpu);
  std::vector<bytes> x;
  for (const std::int64_t n : {1, 5 << 20, 7, (4 << 20) + 3, 1000, 1, 16, 1, 33, 1})
    x.push_back(randint<std::uint8_t>(make_key(std::uint64_t(n)), 0, 100, n).to(gpu));
  const auto compiled = compile(f);
  compiled(x, one);
  asked = {};
  const auto got = compiled(x, one);
  CHECK(asked.launches == 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto a = x[i].to(device::cpu()).to_vector(), b = got[i].to(device::cpu()).to_vector();
    REQUIRE(a.size() == b.size());
    std::size_t wrong = 0;
    for (std::size_t j = 0; j < a.size(); ++j) wrong += b[j] != std::uint8_t(2 * a[j] + 1);
    CHECK(wrong == 0);
  }
}
