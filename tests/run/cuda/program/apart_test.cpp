// Steps on the stream for exchanges: other steps wait for them where they touch the same memory, and only there.
#include <doctest/doctest.h>
#include <sinter/run/cuda/program/control.hpp>
#include <sinter/run/cuda/program/graph.hpp>
#include <sinter/run/cuda/program/order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "../support.hpp"

using namespace sinter;
using namespace support;

namespace {

/// Copies its operand to its result.
class copy_step final : public cuda::routine {
 public:
  copy_step(std::size_t bytes, bool apart, bool fails = false) : bytes_(bytes), apart_(apart), fails_(fails) {}
  void run(void* const* buffers, char*, const long*, cuda::queue& q) const override {
    if (fails_) throw std::runtime_error("this step fails");
    CHECK((q.handle == cuda::exchange_queue(0).handle) == apart_);
    cuda::driver().copy_within(reinterpret_cast<cuda::api::address>(buffers[1]),
                               reinterpret_cast<cuda::api::address>(buffers[0]), bytes_, q.handle);
  }
  bool is_apart() const override { return apart_; }
  bool is_brief() const override { return true; }

 private:
  std::size_t bytes_;
  bool apart_, fails_;
};

constexpr std::size_t bytes = 256;

cuda::step fill_of(int operand, unsigned char value) {
  cuda::step s;
  s.what = cuda::action::fill;
  s.operands = {{operand, 0, true}};
  s.bytes = bytes;
  s.value = value;
  s.label = "a fill";
  return s;
}
cuda::step copy_of(int from, int to, bool apart, bool fails = false) {
  cuda::step s;
  s.what = cuda::action::call;
  s.operands = {{from, 0, false}, {to, 0, true}};
  s.call = std::make_shared<copy_step>(bytes, apart, fails);
  s.label = "a copy";
  return s;
}

}  // namespace

TEST_CASE("steps apart know what they wait for, and what waits for them") {
  cuda::sequence s;
  s.given = 4;
  s.steps = {fill_of(0, 1), fill_of(3, 5),        copy_of(0, 1, true), copy_of(1, 2, true),
             fill_of(3, 6), copy_of(2, 3, false), fill_of(0, 2)};
  const auto apart = cuda::steps_apart(s);
  REQUIRE(apart.size() == 2);
  CHECK(apart[0].step == 2);
  CHECK(apart[0].after == 0);
  CHECK(apart[0].before == 6);  // which overwrites its operand
  CHECK(apart[1].step == 3);
  CHECK(apart[1].after == -1);
  CHECK(apart[1].before == 5);
}

TEST_CASE("a recorded call has steps apart between its graphs") {
  cuda::sequence s;
  s.given = 4;
  s.steps = {fill_of(0, 1), fill_of(3, 5),        copy_of(0, 1, true), copy_of(1, 2, true),
             fill_of(3, 6), copy_of(2, 3, false), fill_of(0, 2)};
  CHECK(cuda::pieces_of(s).size() == 1);
  s.apart = cuda::steps_apart(s);
  const auto pieces = cuda::pieces_of(s);
  REQUIRE(pieces.size() == 4);
  const std::size_t steps[] = {1, 2, 1, 1}, waits[] = {0, 0, 2, 0}, requests[] = {2, 0, 0, 0};
  for (std::size_t k = 0; k < 4; ++k) {
    CAPTURE(k);
    CHECK(pieces[k].steps->steps.size() == steps[k]);
    CHECK(pieces[k].waits == waits[k]);
    CHECK(pieces[k].requests == requests[k]);
    CHECK(pieces[k].is_alone == (k == 2));
  }
}

TEST_CASE("sequences with steps apart compute what they compute in a row") {
  std::mt19937 random(7);
  const auto any = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  constexpr int arrays = 4, scratch = 3;
  for (int turn = 0; turn < 60; ++turn) {
    cuda::sequence s;
    s.given = arrays;
    // Intermediates overlap, as those that are not alive at once do.
    s.intermediates = {0, 128, 512};
    s.intermediate_bytes = {bytes, bytes, bytes};
    s.scratch_bytes = 1024;
    std::vector<std::vector<unsigned char>> want(arrays, std::vector<unsigned char>(bytes, 9));
    std::vector<unsigned char> memory(1024, 0);
    const auto at = [&](int k) {
      return k < arrays ? want[static_cast<std::size_t>(k)].data()
                        : memory.data() + s.intermediates[static_cast<std::size_t>(k - arrays)];
    };
    s.steps.push_back(fill_of(arrays, 0)), s.steps.push_back(fill_of(arrays + 2, 0));
    s.steps.push_back(fill_of(arrays + 1, 0));
    for (int k = 0; k < 24; ++k) {
      const int to = any(arrays + scratch), from = any(arrays + scratch);
      const bool overlap =
          from >= arrays && to >= arrays && std::abs(at(from) - at(to)) < static_cast<std::ptrdiff_t>(bytes);
      if (any(3) == 0 || from == to || overlap) {
        s.steps.push_back(fill_of(to, static_cast<unsigned char>(k + 10)));
        std::fill_n(at(to), bytes, static_cast<unsigned char>(k + 10));
      } else {
        s.steps.push_back(copy_of(from, to, any(2) == 0));
        std::copy_n(at(from), bytes, at(to));
      }
    }
    s.apart = cuda::steps_apart(s);
    // Step by step, then recorded: more sets of addresses than there are copies, and the first ones again.
    cuda::recording recorded(s, std::make_shared<cuda::scratch_pool>());
    std::vector<std::vector<storage>> sets(6);
    for (std::size_t call = 0; call < 9; ++call) {
      auto& given = sets[call % sets.size()];
      given.clear();
      std::vector<void*> table;
      for (int k = 0; k < arrays; ++k) {
        given.push_back(on_gpu(std::vector<unsigned char>(bytes, 9)));
        table.push_back(given.back().data());
      }
      if (call == 0) cuda::execute(s, table, nullptr);
      else recorded.launch(table, nullptr);
      CAPTURE(turn);
      CAPTURE(call);
      for (int k = 0; k < arrays; ++k)
        CHECK(on_host<unsigned char>(given[static_cast<std::size_t>(k)], bytes) == want[static_cast<std::size_t>(k)]);
    }
    CHECK(recorded.copies() > 0);
  }
}

TEST_CASE("what follows a step that fails waits for the steps apart before it") {
  cuda::sequence s;
  s.given = 2;
  s.steps = {fill_of(0, 1), copy_of(0, 1, true), copy_of(0, 1, false, true)};
  s.apart = cuda::steps_apart(s);
  const storage a = on_gpu(std::vector<unsigned char>(bytes, 9)), b = on_gpu(std::vector<unsigned char>(bytes, 8));
  void* const table[] = {a.data(), b.data()};
  CHECK_THROWS_WITH_AS(cuda::execute(s, table, nullptr), "this step fails", std::runtime_error);
  CHECK(on_host<unsigned char>(b, bytes) == std::vector<unsigned char>(bytes, 1));
  s.steps.insert(s.steps.begin() + 1, fill_of(0, 2));  // recorded are two steps or more
  s.apart = cuda::steps_apart(s);
  cuda::recording recorded(s, std::make_shared<cuda::scratch_pool>(), 0);
  CHECK_THROWS_WITH_AS(recorded.launch(table, nullptr), "this step fails", std::runtime_error);
  CHECK(recorded.copies() == 1);
  CHECK(on_host<unsigned char>(b, bytes) == std::vector<unsigned char>(bytes, 2));
}
