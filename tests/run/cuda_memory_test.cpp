#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "cuda_support.hpp"

using namespace sinter;
using namespace support;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// Whether storages overlap, or lie unaligned.
bool disjoint(const std::vector<storage>& all) {
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> spans;
  for (const auto& s : all) {
    const auto at = reinterpret_cast<std::uintptr_t>(s.data());
    if (at % 256 != 0) return false;
    spans.emplace_back(at, at + std::max<std::size_t>(s.bytes(), 1));
  }
  std::sort(spans.begin(), spans.end());
  for (std::size_t i = 1; i < spans.size(); ++i)
    if (spans[i].first < spans[i - 1].second) return false;
  return true;
}

/// Each test begins with nothing reserved.
struct trimmed {
  trimmed() { cuda::trim(0); }
  ~trimmed() { cuda::trim(0); }
};

}  // namespace

TEST_CASE("memory is counted, reused and returned") {
  const trimmed clean;
  const auto before = cuda::memory_of(0);
  CHECK(before.total > 0);
  void* first = nullptr;
  {
    const storage a = cuda::allocate(1000, 0), b = cuda::allocate(3 * mib, 0), c = cuda::allocate(0, 0);
    first = a.data();
    CHECK(c.data() != nullptr);
    CHECK(a.bytes() == 1000);
    CHECK(a.where() == device::cuda(0));
    const auto now = cuda::memory_of(0);
    CHECK(now.allocated - before.allocated == 1024 + 3 * mib + 512);
    CHECK(now.reserved - before.reserved == 22 * mib);
    CHECK(now.driver_allocations - before.driver_allocations == 2);
    CHECK(now.allocations - before.allocations == 3);
    CHECK(now.peak >= now.allocated);
    // On a GPU others may take and return memory meanwhile.
    if (!emulator::real()) CHECK(now.available <= before.available - 22 * mib);
    CHECK(now.available > 0);
    CHECK(now.available + now.reserved <= now.total);
  }
  CHECK(cuda::memory_of(0).allocated == before.allocated);
  CHECK(cuda::memory_of(0).reserved == before.reserved + 22 * mib);
  CHECK(cuda::allocate(900, 0).data() == first);
  CHECK(cuda::memory_of(0).driver_allocations == before.driver_allocations + 2);
  cuda::trim(0);
  CHECK(cuda::memory_of(0).reserved == before.reserved);
}

TEST_CASE("freed neighbours become one block again, in any order") {
  const trimmed clean;
  for (const std::size_t bytes : {std::size_t{128} << 10, 4 * mib}) {
    const std::size_t many = bytes < mib ? 16 : 5;
    std::vector<std::size_t> order(many);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 random(3);
    for (int round = 0; round < 10; ++round) {
      std::vector<storage> all;
      for (std::size_t i = 0; i < many; ++i) all.push_back(cuda::allocate(bytes, 0));
      CHECK(disjoint(all));
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t i : order) all[i] = storage();
      // One segment: no fragment stays.
      CHECK(cuda::memory_of(0).reserved == (bytes < mib ? 2 * mib : 20 * mib));
    }
    cuda::trim(0);
  }
}

TEST_CASE("random interleavings of every size") {
  const trimmed clean;
  std::mt19937_64 random(11);
  std::vector<storage> held;
  std::vector<unsigned char> marks;
  const auto size = [&] {
    switch (random() % 4) {
      case 0:
        return random() % 4096;
      case 1:
        return random() % (std::size_t{256} << 10);
      case 2:
        return random() % (2 * mib);
      default:
        return random() % (24 * mib);
    }
  };
  for (int i = 0; i < 3000; ++i) {
    if (held.size() < 40 && random() % 5 < 3) {
      const auto bytes = size();
      held.push_back(cuda::allocate(bytes, 0));
      marks.push_back(static_cast<unsigned char>(random()));
      // The first and last bytes of each block are its own.
      for (const std::size_t at : {std::size_t{0}, bytes - 1})
        if (bytes > 0)
          cuda::copy(static_cast<char*>(held.back().data()) + at, device::cuda(0), &marks.back(), device::cpu(), 1);
    } else if (!held.empty()) {
      const std::size_t k = random() % held.size();
      for (const std::size_t at : {std::size_t{0}, held[k].bytes() - 1})
        if (held[k].bytes() > 0) {
          unsigned char mark = 0;
          cuda::copy(&mark, device::cpu(), static_cast<char*>(held[k].data()) + at, device::cuda(0), 1);
          REQUIRE(mark == marks[k]);
        }
      held[k] = held.back();
      held.pop_back();
      marks[k] = marks.back();
      marks.pop_back();
    }
    if (i % 500 == 0) REQUIRE(disjoint(held));
  }
  held.clear();
  cuda::trim(0);
  CHECK(cuda::memory_of(0).reserved == 0);
}

TEST_CASE("many threads allocate and free") {
  const trimmed clean;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      std::mt19937 random(t);
      std::vector<storage> mine;
      for (int i = 0; i < 2000; ++i) {
        if (mine.size() < 10) mine.push_back(cuda::allocate(random() % 100'000, 0));
        else mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(random() % mine.size()));
      }
    });
  for (auto& t : threads) t.join();
  CHECK(cuda::memory_of(0).allocated == 0);
}

TEST_CASE("a request beyond any GPU is refused at once") {
  CHECK(contains(message_of([] { cuda::allocate(std::size_t{1} << 50, 0); }), "a tensor of 1125899906842624 bytes"));
}

TEST_CASE("copies of every size and direction arrive whole") {
  std::mt19937 random(5);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{64} << 10, (std::size_t{64} << 10) + 1,
                                  4 * mib, 4 * mib + 3, 13 * mib}) {
    std::vector<unsigned char> from(bytes), to(bytes);
    for (auto& b : from) b = static_cast<unsigned char>(random());
    const storage a = cuda::allocate(bytes, 0), b = cuda::allocate(bytes, 0);
    std::vector<unsigned char> changed = from;
    cuda::copy(a.data(), device::cuda(0), changed.data(), device::cpu(), bytes);
    // It has been read.
    std::fill(changed.begin(), changed.end(), static_cast<unsigned char>(0));
    cuda::copy(b.data(), device::cuda(0), a.data(), device::cuda(0), bytes);
    cuda::copy(to.data(), device::cpu(), b.data(), device::cuda(0), bytes);
    CHECK(to == from);
  }
}

TEST_CASE("pinned memory is copied from and to as well") {
  const std::size_t bytes = 3 * mib;
  void* pinned = nullptr;
  const cuda::context_scope here(cuda::device_at(0));
  REQUIRE(cuda::driver().host_allocate(&pinned, bytes, 0) == cuda::api::success);
  std::memset(pinned, 42, bytes);
  const storage a = cuda::allocate(bytes, 0);
  cuda::copy(a.data(), device::cuda(0), pinned, device::cpu(), bytes);
  std::memset(pinned, 0, bytes);
  cuda::copy(pinned, device::cpu(), a.data(), device::cuda(0), bytes);
  const auto* const values = static_cast<const unsigned char*>(pinned);
  CHECK(std::all_of(values, values + bytes, [](unsigned char v) { return v == 42; }));
  cuda::driver().host_free(pinned);
}

TEST_CASE("storage may outlive everything: at the end of the process, and in a forked child") {
  static storage kept = cuda::allocate(5000, 0);
  const auto r = in_child([] {
    kept = storage();
    return 0;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
}
