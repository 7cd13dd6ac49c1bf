// Sums of pads, which gradients of many parts are, become concatenations of the same values.
#include <bit>
#include <random>

#include <sinter/rewrite/rewrite.hpp>

#include "../ir/arrays.hpp"

using namespace sinter::engine::rewrite;
namespace ir = sinter::ir;
using sinter::dtype;
using sinter::ir::graph;

namespace {

/// Parts of random places along an axis of 7 x 60 x 3, padded with zeros and added up among other terms.
struct sum_of_parts {
  graph g;
  std::vector<arrays::literal_array> inputs;

  value input(dtype t, arrays::extents_t extents) {
    inputs.push_back(arrays::random(t, extents, static_cast<unsigned>(inputs.size()) + 3));
    auto& last = inputs.back();
    if (!last.f.empty()) last.f[0] = -0.0;
    return {g, g.add_input(t, {extents[0], extents[1], extents[2]})};
  }
  static value padded(const value& x, std::size_t axis, std::int64_t start, std::int64_t extent) {
    ir::shape low(3, 0), high(3, 0);
    low[axis] = start;
    high[axis] = extent - start - *x.extents()[axis].number();
    return pad(x, std::move(low), high, 0.0);
  }
};

void check_same(const sum_of_parts& s, const graph& after) {
  const std::span<const arrays::literal_array> given(s.inputs.data(), s.inputs.size());
  const auto want = evaluate(s.g, given), got = evaluate(after, given);
  REQUIRE(got.size() == want.size());
  CHECK(got[0].i == want[0].i);
  REQUIRE(got[0].f.size() == want[0].f.size());
  for (std::size_t i = 0; i < got[0].f.size(); ++i)
    REQUIRE(std::bit_cast<std::uint64_t>(got[0].f[i]) == std::bit_cast<std::uint64_t>(want[0].f[i]));
}

std::size_t count(const graph& g, op code) {
  std::size_t n = 0;
  for (const auto id : g.live()) n += g[id].code == code;
  return n;
}

}  // namespace

TEST_CASE("parts side by side, with gaps and in any order, are one concatenation") {
  for (const dtype t : {dtype::f64, dtype::f32, dtype::i64})
    for (const bool gaps : {false, true})
      for (const bool from_right : {false, true}) {
        sum_of_parts s;
        value sum;
        for (int k = 0; k < 30; ++k) {
          const std::int64_t place = 2 * ((k * 7) % 30);
          const value x = s.input(t, {7, gaps && k % 3 == 0 ? 1 : 2, 3});
          const value one = sum_of_parts::padded(x + x, 1, place, 63);
          sum = !sum ? one : from_right ? one + sum : sum + one;
        }
        s.g.outputs = {sum.id()};
        const graph after = run_all(s.g);
        CHECK(count(after, op::pad) == 0);
        CHECK(count(after, op::concat) == 1);
        check_same(s, after);
      }
}

TEST_CASE("parts that overlap are layers, equal places are added up first, other terms stay") {
  sum_of_parts s;
  const value other = s.input(dtype::i64, {7, 60, 3});
  value sum = other;
  for (int k = 0; k < 56; ++k)
    sum = sum + sum_of_parts::padded(s.input(dtype::i64, {7, 4, 3}), 1, k, 60);  // four at each place
  for (int k = 0; k < 40; ++k) sum = sum + sum_of_parts::padded(s.input(dtype::i64, {7, 1, 3}), 1, 30, 60);
  sum = sum + sum_of_parts::padded(s.input(dtype::i64, {2, 60, 3}), 0, 3, 7) + other;
  s.g.outputs = {sum.id()};
  const graph after = run_all(s.g);
  CHECK(count(after, op::pad) == 1);
  CHECK(count(after, op::concat) <= 6);
  check_same(s, after);
}

TEST_CASE("few pads, those that mostly overlap, and those that something else reads stay as they are") {
  const auto pads_left = [](int n, std::int64_t length, std::int64_t apart, bool shown) {
    sum_of_parts s;
    value sum;
    for (int k = 0; k < n; ++k) {
      const value one = sum_of_parts::padded(s.input(dtype::f32, {7, length, 3}), 1, apart * k, 64);
      sum = sum ? sum + one : one;
      if (shown) s.g.outputs.push_back(sum.id());
    }
    if (!shown) s.g.outputs = {sum.id()};
    return count(run_all(s.g), op::pad);
  };
  CHECK(pads_left(15, 2, 2, false) == 15);
  CHECK(pads_left(16, 2, 2, false) == 0);
  CHECK(pads_left(30, 34, 1, false) == 30);
  CHECK(pads_left(30, 2, 2, true) == 30);
}
