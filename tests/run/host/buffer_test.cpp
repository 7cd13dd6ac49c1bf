#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sinter/run/host/buffer.hpp>
#include <sinter/run/host/lapack.hpp>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "../../sanitizers.hpp"
#include "../support.hpp"

using namespace sinter;

namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

void fill(const storage& s, unsigned char with) { std::memset(s.data(), with, s.bytes()); }

bool holds(const storage& s, unsigned char expected) {
  const auto* p = static_cast<const unsigned char*>(s.data());
  for (std::size_t i = 0; i < s.bytes(); ++i)
    if (p[i] != expected) return false;
  return true;
}

}  // namespace

TEST_CASE("every size class is the smallest that fits, and wastes little") {
  using engine::run::detail::bytes_of, engine::run::detail::class_of;
  std::vector<std::size_t> sizes;
  for (std::size_t n = 1; n < 5000; ++n) sizes.push_back(n);
  for (int bit = 13; bit <= 46; ++bit)
    for (long delta : {-65L, -1L, 0L, 1L, 64L, 1000L})
      sizes.push_back((std::size_t{1} << bit) + static_cast<std::size_t>(delta));
  for (const std::size_t n : sizes) {
    const std::size_t c = class_of(n);
    REQUIRE(c < engine::run::detail::class_count);
    REQUIRE(bytes_of(c) >= n);
    REQUIRE(bytes_of(c) % 64 == 0);
    if (c > 0 && bytes_of(c) < engine::run::detail::huge_page) REQUIRE(bytes_of(c - 1) < n);
    REQUIRE(bytes_of(c) <= std::max(n + n / 8 + 64, n + n / 8 + engine::run::detail::huge_page * (n >= MiB)));
  }
}

TEST_CASE("blocks are aligned, disjoint and as large as asked for") {
  std::vector<storage> live;
  unsigned char tag = 0;
  for (std::size_t bytes : {0, 1, 7, 63, 64, 65, 960, 961, 4096, 65536, 1000000, 2097088, 2097089, 5000000})
    for (int i = 0; i < 3; ++i) {
      live.push_back(engine::run::allocate(bytes));
      CHECK(live.back().bytes() == bytes);
      CHECK(live.back().data() != nullptr);
      CHECK(reinterpret_cast<std::uintptr_t>(live.back().data()) % 64 == 0);
      CHECK(live.back().unique());
      fill(live.back(), tag++);
    }
  for (std::size_t i = 0; i < live.size(); ++i) CHECK(holds(live[i], static_cast<unsigned char>(i)));
}

TEST_CASE("a freed block serves the next request of its size") {
  for (std::size_t bytes : {100u, 10'000u, 300'000u, 9'000'000u}) {
    storage a = engine::run::allocate(bytes);
    void* const first = a.data();
    a = {};
    a = engine::run::allocate(bytes);
    CHECK(a.data() == first);
  }
}

TEST_CASE("page faults of a large buffer are paid once") {
  fill(engine::run::allocate(64 * MiB), 1);
  const long before = page_faults();
  for (int i = 0; i < 8; ++i) fill(engine::run::allocate(64 * MiB), 2);
  CHECK(page_faults() - before < 256);
}

TEST_CASE("trim returns what is free to the system") {
  { auto a = engine::run::allocate(32 * MiB); }
  CHECK(engine::run::cached_bytes() >= 32 * MiB);
  engine::run::trim();
  CHECK(engine::run::cached_bytes() == 0);
}

TEST_CASE("a request that cannot be met names its size") {
  // The first is more than a process can address; less may be promised by a system that has not got it.
  for (std::size_t bytes : {std::size_t{1} << 48, std::size_t{1} << 62, ~std::size_t{0}}) {
    std::string what;
    try {
      auto a = engine::run::allocate(bytes);
    } catch (const system_error& e) {
      what = e.what();
    }
    CHECK(support::contains(what, std::to_string(bytes) + " bytes"));
  }
}

#if !SINTER_TEST_MANY_ADDRESSES
TEST_CASE("under a memory limit free blocks of other sizes make room, and failure leaves everything usable") {
  const auto r = support::in_child([] {
    engine::run::trim();
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = 600 * MiB;
    ::setrlimit(RLIMIT_AS, &limit);
    { auto cached = engine::run::allocate(200 * MiB); }
    if (engine::run::cached_bytes() < 200 * MiB) return 1;
    auto larger = engine::run::allocate(400 * MiB);
    if (engine::run::cached_bytes() != 0) return 2;
    try {
      auto none = engine::run::allocate(300 * MiB);
      return 3;
    } catch (const system_error&) {}
    fill(larger, 1);
    larger = {};
    fill(engine::run::allocate(8 * MiB), 1);
    return 0;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
}
#endif

TEST_CASE("many threads allocate, free and hand over blocks") {
  std::mutex mutex;
  std::deque<std::pair<storage, unsigned char>> handed;
  std::atomic<int> damaged{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<storage, unsigned char>> mine;
    for (int i = 0; i < 4000; ++i) {
      const std::size_t scale = std::size_t{1} << random() % 18;
      const auto tag = static_cast<unsigned char>(random());
      mine.emplace_back(engine::run::allocate(random() % scale), tag);
      fill(mine.back().first, tag);
      if (mine.size() > 20) {
        std::swap(mine[random() % mine.size()], mine.back());
        if (!holds(mine.back().first, mine.back().second)) ++damaged;
        if (random() % 2) {
          const std::lock_guard lock(mutex);
          handed.push_back(std::move(mine.back()));
        }
        mine.pop_back();
      }
      std::pair<storage, unsigned char> taken;
      if (random() % 2) {
        const std::lock_guard lock(mutex);
        if (handed.size() > 50) taken = std::move(handed.front()), handed.pop_front();
      }
      if (taken.first && !holds(taken.first, taken.second)) ++damaged;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) threads.emplace_back(work, i);
  for (auto& t : threads) t.join();
  CHECK(damaged == 0);
  for (const auto& [s, tag] : handed) CHECK(holds(s, tag));
}

TEST_CASE("what an ended thread had freed is available to others") {
  void* first = nullptr;
  std::thread([&] { first = engine::run::allocate(777).data(); }).join();
  std::vector<storage> live;
  bool found = false;
  for (int i = 0; i < 300 && !found; ++i) {
    live.push_back(engine::run::allocate(777));
    found = live.back().data() == first;
  }
  CHECK(found);
}

TEST_CASE("tensors may be destroyed with the static objects and by ending threads") {
  const auto r = support::in_child([] {
    static storage outlives;
    outlives = engine::run::allocate(5000);
    fill(outlives, 3);
    engine::run::trim();
    std::thread([] {
      // Constructed before the thread's free lists, hence destroyed after them.
      static thread_local std::vector<storage> late;
      late.push_back(engine::run::allocate(128));
      late.push_back(engine::run::allocate(3 * MiB));
    }).join();
    using engine::run::detail::bytes_of, engine::run::detail::class_of;
    if (engine::run::cached_bytes() != bytes_of(class_of(128 + 64)) + bytes_of(class_of(3 * MiB + 64))) return 1;
    std::exit(7);
    return 0;
  });
  CHECK_MESSAGE(r.status == 7, r.error_text);
}

TEST_CASE("adopted memory stays in place and is released once") {
  int calls = 0;
  char bytes[100];
  {
    storage a = engine::run::adopt(bytes, sizeof bytes, [&](void* p) { calls += p == bytes ? 1 : 100; });
    storage b = a;
    CHECK(b.data() == bytes);
    CHECK(b.bytes() == 100);
    a = {};
    CHECK(calls == 0);
  }
  CHECK(calls == 1);
  auto owned = std::make_unique<int>(5);
  int* const raw = owned.get();
  storage c = engine::run::adopt(raw, sizeof(int), [keep = std::move(owned)](void*) {});
  CHECK(*static_cast<int*>(c.data()) == 5);
}

TEST_CASE("a small allocation takes less than one of the C library with its shared owner") {
  const auto best_of = [](const auto& once) {
    double best = 1e9;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 100'000; ++i) once();
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count() / 100'000);
    }
    return best;
  };
  const double ours = best_of([] {
    const storage a = engine::run::allocate(256);
    __asm__ volatile("" ::"r"(a.data()) : "memory");
  });
  const double theirs = best_of([] {
    const std::shared_ptr<void> a(std::aligned_alloc(64, 256), std::free);
    __asm__ volatile("" ::"r"(a.get()) : "memory");
  });
  CHECK(ours < theirs);
}

TEST_CASE("a LAPACK that cannot be used is told, or passed over where it is the system's") {
  CHECK(support::contains(engine::run::detail::open_lapack("/nonexistent.so").problem,
                          "SINTER_LIBLAPACK=/nonexistent.so cannot be opened: "));
  CHECK(
      support::contains(engine::run::detail::open_lapack("libm.so.6").problem, "libm.so.6 lacks functions of LAPACK"));
  CHECK(!engine::run::detail::open_lapack("none").found);
  CHECK(engine::run::detail::has_long_integers("OpenBLAS 0.3.20 USE64BITINT DYNAMIC_ARCH NO_AFFINITY SkylakeX"));
  CHECK(!engine::run::detail::has_long_integers("OpenBLAS 0.3.20 DYNAMIC_ARCH NO_AFFINITY SkylakeX"));
}
