// Captured tensors that are assigned anew are read; captured keys are told.
#include "capture_programs.hpp"

#include <atomic>
#include <thread>

using namespace capture_programs;

TEST_CASE("a variable captured by reference is read as it is now, and a warning has the line") {
  assigned_anew({}, device::cpu());
  assigned_anew({.backend = "reference"}, device::cpu());
  assigned_anew({.dynamic = dynamic::yes}, device::cpu());
}

TEST_CASE("... kernels that are made in the background, too") {
  vec w{1, 2, 3};
  const auto f = compile([&](vec x) { return x * w * 0.37f; }, {.tier = tier::background});
  for (int k = 1; k < 4; ++k) {
    f(vec{1, 1, 1});
    f.wait_ready();
    w = w + 1.f;
    f(vec{1, 1, 1});
    f.wait_ready();
    CHECK(f(vec{1, 1, 1}).to_vector()[2] == (3.f + float(k)) * 0.37f);
  }
}

TEST_CASE("members of a class, at extents that are open, beside numbers") {
  members({}, device::cpu());
  members({.backend = "reference"}, device::cpu());
  members({.tier = tier::background, .hot_calls = 2}, device::cpu());
  members({.recompile_limit = 1}, device::cpu());
}

TEST_CASE("what is held, or made inside, is not traced again") {
  quiet({}, device::cpu());
  quiet({.backend = "reference"}, device::cpu());
  shared({}, device::cpu());
}

TEST_CASE("frequent extents, whose kernels are their own") {
  vec w{1, 2, 3, 4};
  const auto f = compile([&](vec x) { return x * w; }, {.dynamic = dynamic::yes, .hot_calls = 3});
  for (int round = 0; round < 3; ++round) {
    for (int k = 0; k < 12; ++k) CHECK(f(vec{1, 1, 1, 1}).to_vector() == w.to_vector());
    f.wait_ready();
    for (int k = 0; k < 12; ++k) CHECK(f(vec{1, 1, 1, 1}).to_vector() == w.to_vector());
    w = w * 2.f;
  }
}

TEST_CASE("under a stance it is an error, and afterwards traced") {
  vec w{1, 2};
  const auto f = compile([&](vec x) { return x * w; });
  f(vec{1, 1});
  w = vec{5, 6};
  {
    const stance_scope only(stance::fail_on_recompile);
    CHECK(contains(texts::error_of([&] { f(vec{1, 1}); }), "a tensor that the function captures by reference"));
  }
  {
    const stance_scope only(stance::eager_on_recompile);
    CHECK(f(vec{1, 1}).to_vector() == floats{5, 6});
  }
  CHECK(f(vec{1, 1}).to_vector() == floats{5, 6});
}

TEST_CASE("many threads meet at a variable that was assigned anew") {
  vec w{1, 2};
  const auto f = compile([&](vec x) { return x * w; });
  for (int round = 0; round < 20; ++round) {
    const floats want = (w * 2.f).to_vector();
    std::vector<std::thread> all;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      all.emplace_back([&] {
        for (int k = 0; k < 20; ++k) wrong += f(vec{2, 2}).to_vector() != want;
      });
    for (auto& t : all) t.join();
    CHECK(wrong == 0);
    w = w + 1.f;
  }
}

TEST_CASE("a key assigned anew between calls draws anew, and one that is kept draws the same") {
  const vec x{1, 2, 3, 4};
  key k = make_key(7), other = k;
  const auto f = compile([&](vec x) { return vec(x + uniform<float>(k, x.size(0))); });
  const floats first = f(x).to_vector();
  CHECK(f(x).to_vector() == first);
  other = make_key(8);
  k = make_key(9);
  CHECK(f(x).to_vector() != first);
  CHECK(f(x).to_vector() == vec(x + uniform<float>(make_key(9), 4)).to_vector());
}

TEST_CASE("a captured key is told once, wherever its numbers are drawn") {
  const vec x{1, 2, 3, 4};
  key k = make_key(7);
  const auto told = [&](auto fn) {
    const auto f = compile(std::move(fn), {.name = "drawing"});
    const std::string said = stderr_text([&] {
      f(x);
      f(vec{1, 2});
    });
    CHECK(count(said, "[sinter:warning]") <= 1);
    return contains(said,
                    "drawing: it captures a random key: calls draw the same numbers as long as anything else holds "
                    "that key, and one assigned in its place is traced anew") &&
           contains(said, "captures_test.cpp:");
  };
  CHECK(told([&](vec x) { return x + uniform<float>(k, x.size(0)); }));
  CHECK(told([=](vec x) { return x + normal<float>(split(k).second, x.size(0)); }));
  CHECK(told([&](vec x) {
    return fori_loop(
        0, 3, [&](auto, vec y) { return vec(y + uniform<float>(k, y.size(0))); }, x);
  }));
  CHECK(told([&](vec x) {
    return cond(
        sum(x) > 0.f, [&](vec y) { return vec(y + uniform<float>(k, y.size(0))); }, [](vec y) { return y; }, x);
  }));
  CHECK(!told([](vec x) { return x + uniform<float>(make_key(3), x.size(0)); }));
  CHECK(!told([&](vec x) {
    if (sum(x).item() > 0) return vec(x + uniform<float>(k, x.size(0)));
    return x;
  }));
  const auto given = compile([](vec x, key k) { return vec(x + uniform<float>(k, x.size(0))); });
  CHECK(stderr_text([&] { given(x, k); }).empty());
}
