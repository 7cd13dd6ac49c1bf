// Ranks where threads are lacking, and memory that a lost exchange may still write to.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <errno.h>
#include <pthread.h>
#include <sinter/run/host/buffer.hpp>
#include <sinter/run/ranks.hpp>

#include <atomic>
#include <string>
#include <vector>

#include "../sanitizers.hpp"

using namespace sinter;
using namespace sinter::engine;

#if !SINTER_TEST_MANY_ADDRESSES
/// How many threads may still start; -1 for any number.
static std::atomic<int> threads_left{-1};

extern "C" int pthread_create(pthread_t* to, const pthread_attr_t* how, void* (*f)(void*), void* with) {
  using call = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const call real = reinterpret_cast<call>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.load() == 0) return EAGAIN;
  if (threads_left.load() > 0) --threads_left;
  return real(to, how, f, with);
}

TEST_CASE("ranks that cannot all start are an error, and those that did start do not wait for ever") {
  threads_left = 2;
  std::atomic<int> alone = 0;
  const auto run = [&] {
    run::run_on_threads(4, [&](int rank) {
      const auto g = run::world().group("dp", {0, 1, 2, 3}, {});
      const float x = static_cast<float>(rank);
      float y = 0;
      run::exchange e;
      e.elements = 1;
      try {
        g->run(e, &x, &y);
      } catch (const system_error&) {
        ++alone;
        throw;
      }
    });
  };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("2 of 4 threads could be started"), system_error);
  CHECK(alone == 2);
  threads_left = -1;
}
#endif

TEST_CASE("kept memory is not given out again") {
  const auto places = [](bool keep) {
    std::vector<const void*> out;
    for (int k = 0; k < 8; ++k) {
      const storage s = run::allocate(12345);
      out.push_back(s.data());
      // A part of it will do.
      if (keep) run::kept_memory::get().keep(static_cast<const char*>(s.data()) + 100, 4);
    }
    return out;
  };
  const auto reused = places(false);
  CHECK(reused[1] == reused[0]);
  const auto kept = places(true);
  for (std::size_t a = 0; a < kept.size(); ++a)
    for (std::size_t b = a + 1; b < kept.size(); ++b) CHECK(kept[a] != kept[b]);
}

TEST_CASE("memory that users share stays theirs to free, and is kept where an exchange may still access it") {
  static int freed;
  freed = 0;
  static char mine[64], kept[64];
  const auto share = [](char* data) { return run::adopt(data, 64, [](void*) { ++freed; }); };
  { const storage s = share(mine); }
  CHECK(freed == 1);
  run::kept_memory::get().keep(kept + 63, 1);
  { const storage s = share(kept); }
  { const storage s = share(mine); }
  CHECK(freed == 2);
}

TEST_CASE("ranks of threads compare texts") {
  const auto run = [](bool differ) {
    run::run_on_threads(3, [&](int rank) {
      const auto g = run::world().group("dp", {0, 1, 2}, {});
      g->compare("first", "test", {"a.cpp", 1});
      g->compare(differ && rank == 1 ? "other" : "second", "test", {"a.cpp", 2});
    });
  };
  CHECK_NOTHROW(run(false));
  CHECK_THROWS_WITH_AS(run(true), doctest::Contains("second (at a.cpp:2); other (at a.cpp:2)"), system_error);
}
