// Lists of a scope: nested, of objects, beside exceptions and threads; a thread's second long one allocates nothing.
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>
#include <sinter/base/local_list.hpp>

#include "../allocations.hpp"

namespace {

using sinter::detail::local_list;
using numbers = local_list<std::int64_t, 4>;

int alive = 0;
struct counted {
  counted() noexcept { ++alive; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --alive; }
  std::int64_t value = 7;
};

/// Fills lists of n, n - 1, ... numbers within one another and sees that each stays as it was written.
bool nest(std::int64_t n) {
  numbers list(static_cast<std::size_t>(n));
  std::iota(list.data(), list.data() + n, n);
  bool good = reinterpret_cast<std::uintptr_t>(list.data()) % 16 == 0;
  if (n > 0) good = nest(n - 1) && good;
  for (std::int64_t i = 0; i < n; ++i) good = good && list[static_cast<std::size_t>(i)] == n + i;
  return good;
}

template <class F>
void in_thread(F f) {
  std::thread(f).join();
}

}  // namespace

TEST_CASE("lists within lists keep their elements; the first call alone allocates") {
  in_thread([] {
    const long before = allocations;
    CHECK(nest(4));
    CHECK(allocations == before);  // on the stack
    CHECK(nest(60));
    const long first = allocations;
    CHECK(first > before);
    for (int i = 0; i < 10; ++i) CHECK(nest(60));
    CHECK(nest(20));
    CHECK(allocations == first);
    CHECK(nest(61));
    CHECK(allocations > first);  // as much as it lacks, and then what it lacked is kept
    CHECK(allocations_of([] { nest(61); }, 0) == 0);
  });
}

TEST_CASE("what does not fit beside an open list does so once it is closed") {
  in_thread([] {
    const auto within = [] { numbers one(100), two(1000); };
    CHECK(allocations_of(within) == 0);
    {
      numbers open(10);
      CHECK(allocations_of(within) == 1);  // the second of them
    }
    CHECK(allocations_of([&] {
            numbers open(10);
            within();
          }) == 0);
  });
}

TEST_CASE("lists that are closed in another order, as those of fibers are, keep their elements") {
  in_thread([] {
    nest(60);
    for (int round = 0; round < 3; ++round) {
      auto a = std::make_unique<numbers>(100);
      auto b = std::make_unique<numbers>(50);
      std::iota(a->data(), a->data() + 100, 0);
      std::iota(b->data(), b->data() + 50, 1000);
      a.reset();
      auto c = std::make_unique<numbers>(80), d = std::make_unique<numbers>(5000);
      std::iota(c->data(), c->data() + 80, 2000);
      std::iota(d->data(), d->data() + 5000, 3000);
      for (std::int64_t i = 0; i < 50; ++i) CHECK((*b)[static_cast<std::size_t>(i)] == 1000 + i);
      b.reset();
      CHECK(nest(60));
      for (std::int64_t i = 0; i < 80; ++i) CHECK((*c)[static_cast<std::size_t>(i)] == 2000 + i);
      d.reset();
      c.reset();
    }
    CHECK(allocations_of([] { nest(60); }, 0) == 0);
  });
}

TEST_CASE("objects are made and destroyed, also where an exception leaves") {
  for (const std::size_t n : {0u, 3u, 4u, 5u, 500u}) {
    CAPTURE(n);
    try {
      local_list<counted, 4> list(n);
      CHECK(alive == static_cast<int>(n));
      CHECK(list.size() == n);
      for (const counted& x : list.all()) CHECK(x.value == 7);
      numbers more(n);
      throw std::runtime_error("leave");
    } catch (const std::runtime_error&) {
      CHECK(alive == 0);
    }
  }
  CHECK(allocations_of([] { local_list<counted, 4> list(500); }, 0) == 0);
}

TEST_CASE("a thread has its own, also while it ends") {
  struct at_end {
    ~at_end() { nest(50); }
  };
  in_thread([] {
    static thread_local at_end first;
    static_cast<void>(&first);
    nest(50);
    static thread_local at_end second;
    static_cast<void>(&second);
    in_thread([] {
      const long before = allocations;
      nest(50);
      CHECK(allocations > before);
    });
    const long before = allocations;
    CHECK(nest(50));
    CHECK(allocations == before);
  });
}
