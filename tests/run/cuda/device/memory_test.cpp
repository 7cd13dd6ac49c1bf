#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include <sinter/run/cuda/device/pinned.hpp>

#include "../support.hpp"

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

TEST_CASE("a copy to the host is waited for when it is read; its source may go at once") {
  const std::int64_t n = 5000;
  const std::vector<float> ones(n, 1.0f);
  storage in = on_gpu(ones), out = cuda::allocate(n * 4, 0);
  const float factor = 2;
  void* const given[] = {out.data(), in.data(), const_cast<float*>(&factor)};
  const long sizes[] = {n};
  cuda::execute(scale_sequence(n), given, sizes);
  const storage copy = cuda::copy_to_host(out, out.data(), n * 4);
  REQUIRE(copy);
  CHECK(copy.where() == device::cpu());
  CHECK(copy.bytes() == n * 4);
  CHECK((copy.get()->arrive.load() != nullptr));
  // The next tensor takes the memory, in the order of the stream.
  out = storage();
  const storage next = cuda::allocate(n * 4, 0);
  void* const again[] = {next.data(), next.data(), const_cast<float*>(&factor)};
  cuda::execute(scale_sequence(n), again, sizes);
  copy.wait();
  CHECK((copy.get()->arrive.load() == nullptr));
  const auto* const values = static_cast<const float*>(copy.data());
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); i += 99) REQUIRE(values[i] == 2 + static_cast<float>(i));
}

TEST_CASE("a copy to the host is of what another stream wrote before it was asked for") {
  const std::int64_t n = 5000;
  const storage in = on_gpu(std::vector<float>(n, 1.0f)), out = cuda::allocate(n * 4, 0);
  const float factor = 7;
  void* const given[] = {out.data(), in.data(), const_cast<float*>(&factor)};
  const long sizes[] = {n};
  const cuda::stream mine(0);
  {
    const cuda::stream_scope scope(mine.get());
    cuda::use(out, true);
    cuda::execute(scale_sequence(n), given, sizes);
  }
  const storage copy = cuda::copy_to_host(out, out.data(), n * 4);
  copy.wait();
  CHECK(static_cast<const float*>(copy.data())[n - 1] == 7 + static_cast<float>(n - 1));
}

TEST_CASE("memory whose copy runs on another stream is not taken before the copy is done") {
  const storage x = on_gpu(std::vector<int>{1, 2, 3}), y = on_gpu(std::vector<int>{4, 5, 6});
  const cuda::stream mine(0);
  const auto copy_there = [&](const storage& from) {
    const cuda::stream_scope scope(mine.get());
    return cuda::copy_to_host(from, from.data(), 12);
  };
  cuda::trim_pinned(0);
  // The pinned memory of one that nobody reads.
  copy_there(x);
  const storage here = cuda::copy_to_host(y, y.data(), 12);
  here.wait();
  cuda::synchronize(mine.get());
  CHECK(static_cast<const int*>(here.data())[0] == 4);
  // The GPU's.
  storage source = on_gpu(std::vector<int>{7, 8, 9});
  const storage there = copy_there(source);
  source = storage();
  const storage next = on_gpu(std::vector<int>{10, 11, 12});
  cuda::synchronize(cuda::default_queue(0));
  there.wait();
  CHECK(static_cast<const int*>(there.data())[0] == 7);
}

TEST_CASE("pinned memory is reused once the copy to it is done, and goes back") {
  const storage x = on_gpu(std::vector<int>{1, 2, 3});
  cuda::trim_pinned(0);
  storage a = cuda::copy_to_host(x, x.data(), 12), b = cuda::copy_to_host(x, x.data(), 12);
  a.wait();
  void* const first = a.data();
  CHECK(b.data() != first);
  a = storage();
  a = cuda::copy_to_host(x, x.data(), 8);
  CHECK(a.data() == first);
  // What nobody has read yet goes, and is waited for before it is taken again.
  a = storage();
  b = storage();
  for (int i = 0; i < 100; ++i) {
    const storage c = cuda::copy_to_host(x, x.data(), 12),
                  d = cuda::copy_to_host(x, static_cast<int*>(x.data()) + 1, 8);
    d.wait();
    CHECK(static_cast<const int*>(d.data())[0] == 2);
  }
  cuda::trim_pinned(0);
}

TEST_CASE("many threads copy to the host, and read what others copied") {
  const storage x = on_gpu(std::vector<int>{5, 6, 7});
  const storage shared = cuda::copy_to_host(x, x.data(), 12);
  std::vector<int> wrong(6);
  std::vector<std::thread> threads;
  for (auto& w : wrong)
    threads.emplace_back([&] {
      shared.wait();
      w += static_cast<const int*>(shared.data())[1] != 6;
      for (int i = 0; i < 50; ++i) {
        const storage c = cuda::copy_to_host(x, x.data(), 12);
        if (i % 3 == 0) continue;
        c.wait();
        w += static_cast<const int*>(c.data())[2] != 7;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == std::vector<int>(6));
}

TEST_CASE("a copy of memory that others free is waited for by who asks") {
  const storage x = on_gpu(std::vector<int>{5, 6, 7});
  sinter::detail::block b;
  b.data = x.data();
  b.bytes = 12;
  b.where = x.where();
  b.release = [](sinter::detail::block*) noexcept {};
  CHECK_FALSE(cuda::copy_to_host(storage(&b), x.data(), 12));
}

TEST_CASE("storage may outlive everything: at the end of the process, and in a forked child") {
  static storage kept = cuda::allocate(5000, 0);
  const auto r = in_child([] {
    kept = storage();
    return 0;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
}
