#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "../support.hpp"

using namespace sinter;
using namespace support;

namespace {

void scale(const storage& out, const storage& in, float factor, std::int64_t n) {
  cuda::use(in, false);
  cuda::use(out, true);
  void* const given[] = {out.data(), in.data(), &factor};
  const long sizes[] = {n};
  cuda::execute(scale_sequence(n), given, sizes);
}

}  // namespace

TEST_CASE("each thread has a current stream, the default one unless it says otherwise") {
  cuda::queue& common = cuda::default_queue(0);
  CHECK(&cuda::current_queue(0) == &common);
  const cuda::stream mine(0);
  CHECK(&mine.get() != &common);
  CHECK(mine.device() == 0);
  {
    const cuda::stream_scope scope(mine.get());
    CHECK(&cuda::current_queue(0) == &mine.get());
    std::thread([&] { CHECK(&cuda::current_queue(0) == &common); }).join();
    const cuda::stream another(0);
    const cuda::stream_scope inner(another.get());
    CHECK(&cuda::current_queue(0) == &another.get());
  }
  CHECK(&cuda::current_queue(0) == &common);
}

TEST_CASE("streams are reused, and there is an end to them") {
  cuda::queue* first = nullptr;
  {
    const cuda::stream a(0);
    first = &a.get();
  }
  const cuda::stream b(0);
  CHECK(&b.get() == first);
  std::vector<std::unique_ptr<cuda::stream>> many;
  const std::string words = message_of([&] {
    for (int i = 0; i < 100; ++i) many.push_back(std::make_unique<cuda::stream>(0));
  });
  CHECK(many.size() == 62);
  CHECK(words == "[cuda] more than 63 streams of cuda(0) are in use at once; let some of them go");
}

TEST_CASE("a tensor written on one stream and read on another: the reader waits by itself") {
  const std::int64_t n = 1000;
  const cuda::stream a(0), b(0);
  for (int round = 0; round < 5; ++round) {
    const storage in = on_gpu(std::vector<float>(n, 1.0f));
    storage middle, out;
    {
      const cuda::stream_scope scope(a.get());
      middle = cuda::allocate(n * 4, 0);
      scale(middle, in, 2, n);
    }
    {
      const cuda::stream_scope scope(b.get());
      out = cuda::allocate(n * 4, 0);
      scale(out, middle, 3, n);
    }
    cuda::use(out, false);
    const auto result = on_host<float>(out, n);
    for (std::size_t i = 0; i < result.size(); ++i)
      REQUIRE(result[i] == (2 + static_cast<float>(i)) * 3 + static_cast<float>(i));
  }
}

TEST_CASE("a block that another stream still reads is not reused before") {
  const std::int64_t n = 1000;
  const cuda::stream other(0);
  for (int round = 0; round < 5; ++round) {
    storage in = on_gpu(std::vector<float>(n, 1.0f));
    void* const address = in.data();
    storage out;
    {
      const cuda::stream_scope scope(other.get());
      out = cuda::allocate(n * 4, 0);
      scale(out, in, 2, n);
    }
    in = storage();
    // The same block, overwritten at once on the stream that it belongs to.
    const storage next = on_gpu(std::vector<float>(n, 50.0f));
    CHECK(next.data() == address);
    cuda::use(out, false);
    CHECK(on_host<float>(out, n)[7] == 9);
  }
}

TEST_CASE("a write waits for readers on other streams") {
  const std::int64_t n = 1000;
  const cuda::stream other(0);
  const storage in = on_gpu(std::vector<float>(n, 1.0f)), ones = on_gpu(std::vector<float>(n, 1.0f));
  storage out;
  {
    const cuda::stream_scope scope(other.get());
    out = cuda::allocate(n * 4, 0);
    scale(out, in, 2, n);
  }
  scale(in, ones, 40, n);
  // And a read on the other stream for the write.
  storage again;
  {
    const cuda::stream_scope scope(other.get());
    again = cuda::allocate(n * 4, 0);
    scale(again, in, 1, n);
  }
  cuda::use(out, false);
  CHECK(on_host<float>(out, n)[5] == 7);
  cuda::use(again, false);
  CHECK(on_host<float>(again, n)[5] == 50);
}

TEST_CASE("events: done, waited for, held, and the time between them") {
  const cuda::stream a(0), b(0);
  cuda::event start(0, true), end(0, true), plain(0);
  CHECK(plain.done());
  const std::int64_t n = 100'000;
  const storage in = on_gpu(std::vector<float>(n, 1.0f));
  storage out;
  cuda::synchronize(0);
  {
    const cuda::stream_scope scope(a.get());
    out = cuda::allocate(n * 4, 0);
    start.record(a.get());
    scale(out, in, 2, n);
    end.record(a.get());
    plain.record(a.get());
  }
  plain.hold(b.get());
  cuda::synchronize(b.get());
  CHECK(plain.done());
  end.synchronize();
  CHECK(end.done());
  CHECK(end.elapsed(start) >= 0);
  CHECK(std::isfinite(end.elapsed(start)));
  cuda::synchronize(a.get());
  CHECK(a.done());
}

TEST_CASE("another library's context is left as it was") {
  const cuda::gpu& g = cuda::device_at(0);
  std::thread([&] {
    const auto& call = cuda::driver();
    CHECK(call.context_set(g.context) == cuda::api::success);
    const storage a = on_gpu(std::vector<int>{1, 2, 3});
    CHECK(on_host<int>(a, 3)[2] == 3);
    cuda::api::context now = nullptr;
    CHECK(call.context_get(&now) == cuda::api::success);
    CHECK(now == g.context);
  }).join();
}

TEST_CASE("once work is given up, no wait for it succeeds") {
  const cuda::stream s(0);
  cuda::event e(0);
  e.record(s.get());
  e.synchronize();
  CHECK(e.done());
  CHECK(s.done());
  cuda::give_up_work("rank 3 has died");
  const auto words = [](const auto& wait) { return message_of(wait).find("rank 3 has died") != std::string::npos; };
  CHECK(words([&] { e.synchronize(); }));
  CHECK(words([&] { static_cast<void>(e.done()); }));
  CHECK(words([&] { static_cast<void>(s.done()); }));
  CHECK(words([&] { cuda::synchronize(s.get()); }));
  cuda::detail::given_up().any.store(false);
  cuda::detail::given_up().reason.clear();
  CHECK(e.done());
}
