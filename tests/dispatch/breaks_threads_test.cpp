// Threads that call functions with graph breaks, and what those leave when they throw.
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

using namespace sinter;

namespace {

using vec = tensor<float, 1>;
using floats = std::vector<float>;

/// Returns once `count` threads have come, or with false after a while.
class meeting {
 public:
  explicit meeting(int count) : missing_(count) {}
  bool come() {
    --missing_;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (missing_ > 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return missing_ <= 0;
  }

 private:
  std::atomic<int> missing_;
};

}  // namespace

TEST_CASE("threads that meet in their first calls, within disable, do not wait for each other's calls") {
  meeting both(2);
  std::atomic<int> met{0};
  const auto f = compile([&](vec x) {
    const vec y = x * 2.f;
    const vec z = disable([&](const vec& v) {
      met += both.come();
      return vec(v + 1.f);
    })(y);
    return vec(z * 3.f);
  });
  std::thread other([&] { CHECK(f(vec{1, 2}).to_vector() == floats{9, 15}); });
  CHECK(f(vec{3, 4}).to_vector() == floats{21, 27});
  other.join();
  CHECK(met == 2);
  CHECK(f.specialisations() == 1);
}

TEST_CASE("threads in functions that call each other within disable") {
  meeting both(2);
  std::atomic<int> met{0};
  std::function<vec(const vec&, bool)> to_f, to_g;
  const auto calls = [&](std::function<vec(const vec&, bool)>& other) {
    return [&](vec x, bool first) {
      const vec z = disable([&](const vec& v) {
        if (first) met += both.come();
        return first ? other(v, false) : vec(v + 1.f);
      })(x * 2.f);
      return vec(z + 10.f);
    };
  };
  const auto f = compile(calls(to_g)), g = compile(calls(to_f));
  to_f = [&](const vec& v, bool first) { return f(v, first); };
  to_g = [&](const vec& v, bool first) { return g(v, first); };
  std::thread other([&] { CHECK(g(vec{1}, true).to_vector() == floats{25}); });
  CHECK(f(vec{2}, true).to_vector() == floats{29});
  other.join();
  CHECK(met == 2);
}

TEST_CASE("what a first call throws after it has read a value leaves the function as good as new") {
  bool angry = true;
  const auto f = compile([&](vec x) {
    const float total = sum(x).item();
    if (angry) throw std::runtime_error("angry");
    return vec(x * total);
  });
  CHECK_THROWS_WITH_AS(f(vec{1, 2}), "angry", std::runtime_error);
  CHECK(f.specialisations() == 0);
  angry = false;
  CHECK(f(vec{1, 2}).to_vector() == floats{3, 6});
  CHECK(f(vec{2, 2}).to_vector() == floats{8, 8});
}

TEST_CASE("two threads in one function that breaks") {
  const auto f = compile([](vec x) {
    int steps = 0;
    while (sum(x).item() > 1.f) {
      x = x * 0.5f;
      ++steps;
    }
    return std::pair{x, steps};
  });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const int power = (t + i) % 6;
        const auto [x, steps] = f(vec{static_cast<float>(1 << power)});
        wrong += steps != power || x.item() != 1;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(f.specialisations() == 1);
}
