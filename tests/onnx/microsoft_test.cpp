// com.microsoft's operators: against results that ONNX Runtime 1.30 recorded, and against loops in f64.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../paths.hpp"
#include "microsoft_cases.hpp"

using namespace sinter;
using namespace onnx_test;

namespace {

/// Checks the results of a case on one backend, with fixed or open axes.
void check_case(const recorded_case& c, const std::vector<filled>& want, bool interpreted, bool open) {
  const std::string file = c.model(open);
  const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
  const auto y = m(c.arguments());
  CAPTURE(c.name);
  CAPTURE(interpreted);
  CAPTURE(open);
  REQUIRE(y.size() == want.size());
  for (std::size_t k = 0; k < y.size(); ++k) {
    const io::array a = y[k].to_array();
    CHECK(std::vector<std::int64_t>(a.extents.begin(), a.extents.end()) == want[k].extents);
    CHECK(a.type == dtype_of_type(want[k].type));
    const auto got = elements_of(y[k]);
    REQUIRE(got.size() == want[k].count());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double far =
          std::fabs(got[i] - want[k].elements[i]) / std::fmax(1, std::fabs(c.tolerance < 1 ? want[k].elements[i] : 1));
      worst = std::fmax(worst, std::isnan(far) ? 1e9 : far);
    }
    INFO("result " << k);
    CHECK(worst <= c.tolerance);
  }
}

/// A grouped attention with a cache, in loops of f64: rows (lanes, rows, heads · size) after `before[lane]` old keys.
struct looped_groups {
  std::size_t lanes, rows, heads, groups, size, room;
  std::vector<double> q, k, v, keys, values;  ///< keys and values: (lanes, groups, room, size)
  std::vector<std::size_t> before;
  double cap = 0;
  std::int64_t window = -1;

  double& cached(std::vector<double>& all, std::size_t lane, std::size_t g, std::size_t at, std::size_t d) const {
    return all[((lane * groups + g) * room + at) * size + d];
  }
  void put_rows() {
    for (std::size_t b = 0; b < lanes; ++b)
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t g = 0; g < groups; ++g)
          for (std::size_t d = 0; d < size; ++d) {
            const std::size_t from = ((b * rows + r) * groups + g) * size + d;
            cached(keys, b, g, before[b] + r, d) = k[from];
            cached(values, b, g, before[b] + r, d) = v[from];
          }
  }
  std::vector<double> run() {
    put_rows();
    std::vector<double> out(lanes * rows * heads * size, 0.0);
    for (std::size_t b = 0; b < lanes; ++b)
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t h = 0; h < heads; ++h) row(out, b, r, h);
    return out;
  }
  void row(std::vector<double>& out, std::size_t b, std::size_t r, std::size_t h) {
    const std::size_t g = h / (heads / groups), last = before[b] + r, to = ((b * rows + r) * heads + h) * size;
    std::vector<double> weight(last + 1, 0.0);
    double sum = 0;
    for (std::size_t t = 0; t <= last; ++t) {
      if (window > 0 && t + static_cast<std::size_t>(window) <= last) continue;
      double score = 0;
      for (std::size_t d = 0; d < size; ++d) score += q[to + d] * cached(keys, b, g, t, d);
      score /= std::sqrt(static_cast<double>(size));
      weight[t] = std::exp(cap > 0 ? cap * std::tanh(score / cap) : score);
      sum += weight[t];
    }
    for (std::size_t t = 0; t <= last; ++t)
      for (std::size_t d = 0; d < size; ++d) out[to + d] += weight[t] / sum * cached(values, b, g, t, d);
  }
};
std::vector<double> doubles(std::size_t n, double seed) {
  const auto v = some(n, seed);
  return {v.begin(), v.end()};
}
/// The recorded_case of looped rows, whose cache has `past` places.
recorded_case case_of(const looped_groups& l, std::size_t past, double total) {
  const auto e = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  std::vector<double> last;
  for (const std::size_t n : l.before) last.push_back(static_cast<double>(n + l.rows) - 1);
  const auto cache = [&](const char* name, const std::vector<double>& all) {
    filled out = given(name, {e(l.lanes), e(l.groups), e(past), e(l.size)}, {});
    for (std::size_t lane = 0; lane < l.lanes * l.groups; ++lane)
      for (std::size_t k = 0; k < past * l.size; ++k) out.elements.push_back(all[lane * l.room * l.size + k]);
    return out;
  };
  return {"",
          "GroupQueryAttention",
          microsoft,
          {given("q", {e(l.lanes), e(l.rows), e(l.heads * l.size)}, l.q),
           given("k", {e(l.lanes), e(l.rows), e(l.groups * l.size)}, l.k),
           given("v", {e(l.lanes), e(l.rows), e(l.groups * l.size)}, l.v), cache("pk", l.keys), cache("pv", l.values),
           given("l", {e(l.lanes)}, last, i32), given("t", {}, {total}, i32)},
          {attribute("num_heads", e(l.heads)), attribute("kv_num_heads", e(l.groups)),
           attribute_float("softcap", static_cast<float>(l.cap)), attribute("local_window_size", l.window)},
          {onnx_test::f32, onnx_test::f32, onnx_test::f32}};
}

}  // namespace

TEST_CASE("com.microsoft's operators give ONNX Runtime's results") {
  const auto& all = microsoft_cases();
  if (const char* path = std::getenv("SINTER_RECORD")) return write_cases(path, all);
  const recorded want = read_recorded(test_paths::data + "/onnx/microsoft_recorded.txt");
  for (const recorded_case& c : all) {
    const auto it = want.find(c.name);
    INFO(c.name);
    REQUIRE(it != want.end());
    check_case(c, it->second, true, false);
    check_case(c, it->second, false, true);
  }
}

TEST_CASE("groups of queries with a cache, against loops") {
  struct form {
    std::size_t lanes, rows, heads, groups, size, past;
    std::vector<std::size_t> before;
    double cap;
    std::int64_t window;
  };
  const form forms[] = {{1, 1, 1, 1, 1, 0, {0}, 0, -1},         {2, 5, 6, 3, 7, 0, {0, 0}, 0, -1},
                        {2, 1, 6, 2, 5, 9, {9, 4}, 1.25, -1},   {3, 4, 4, 1, 3, 11, {7, 0, 2}, 0, 3},
                        {2, 3, 2, 2, 8, 32, {17, 29}, 0.5, 40}, {1, 2, 3, 3, 1, 1, {1}, 0, 1}};
  for (const bool interpreted : {false, true})
    for (const form& f : forms) {
      std::size_t end = 0;
      for (const std::size_t n : f.before) end = std::max(end, n + f.rows);
      const std::size_t room = std::max(f.past, end), each = f.lanes * f.groups * room * f.size;
      looped_groups l{f.lanes,
                      f.rows,
                      f.heads,
                      f.groups,
                      f.size,
                      room,
                      doubles(f.lanes * f.rows * f.heads * f.size, 1),
                      doubles(f.lanes * f.rows * f.groups * f.size, 2),
                      doubles(f.lanes * f.rows * f.groups * f.size, 3),
                      doubles(each, 4),
                      doubles(each, 5),
                      f.before,
                      f.cap,
                      f.window};
      const recorded_case c = case_of(l, f.past, static_cast<double>(end));
      const std::string file = c.model(true);
      const auto y = onnx::load(bytes_of(file), on(interpreted))(c.arguments());
      const auto got = elements_of(y[0]), keys = elements_of(y[1]), want = l.run();
      CAPTURE(room);
      REQUIRE(got.size() == want.size());
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-5));
      REQUIRE(keys.size() == each);
      for (std::size_t lane = 0; lane < f.lanes; ++lane)
        for (std::size_t k = 0; k < (f.before[lane] + f.rows) * f.size; ++k)
          CHECK(keys[lane * f.groups * room * f.size + k] ==
                doctest::Approx(l.keys[lane * f.groups * room * f.size + k]));
    }
}

TEST_CASE("attention, rotary positions and skip norms in f16 stay near f32") {
  const int half = 10;
  const auto halved = [](const dynamic_tensor& x) -> dynamic_tensor {
    const auto v = elements_of(x);
    const io::array to = io::detail::make_array(dtype::f16, x.to_array().extents);
    for (std::size_t k = 0; k < v.size(); ++k) {
      const f16 h(static_cast<float>(v[k]));
      std::memcpy(static_cast<void*>(to.data + 2 * k), &h, 2);
    }
    return to;
  };
  for (recorded_case c : microsoft_cases()) {
    const std::string family = c.name.substr(0, c.name.find('_'));
    if (family != "skip" && family != "attention" && family != "heads" && family != "groups" && family != "turned")
      continue;
    const std::string wide = c.model();
    onnx::tensor_list x = c.arguments();
    const auto want = onnx::load(bytes_of(wide), on(true))(x);
    std::size_t next = 0;
    for (filled& in : c.in) {
      if (in.name.empty()) continue;
      if (in.type == onnx_test::f32) {
        in.type = half;
        x[next] = halved(x[next]);
      }
      ++next;
    }
    for (int& type : c.results)
      if (type == onnx_test::f32) type = half;
    const std::string narrow = c.model();
    const auto y = onnx::load(bytes_of(narrow), on(true))(x);
    CAPTURE(c.name);
    for (std::size_t r = 0; r < y.size(); ++r) {
      const auto got = elements_of(y[r]), near = elements_of(want[r]);
      REQUIRE(got.size() == near.size());
      double worst = 0;
      for (std::size_t k = 0; k < got.size(); ++k) worst = std::fmax(worst, std::fabs(got[k] - near[k]));
      CHECK(worst < 3e-3);
    }
  }
}

TEST_CASE("a step of few rows reads packed weights, and stores no floats") {
  const std::int64_t n = 192, k = 1040, block = 32, blocks = 33;
  for (const std::int64_t rows : {1, 4, 5, 0}) {
    recorded_case c{"",
                    "MatMulNBits",
                    microsoft,
                    {reals("a", {rows, k}, 1), fixed(whole("b", {n, blocks, 16}, 2, 0, 255, u8)),
                     fixed(reals("s", {n * blocks}, 3, 0.1)), fixed(whole("z", {n * 17}, 4, 0, 255, u8))},
                    {attribute("N", n), attribute("K", k), attribute("bits", 4), attribute("block_size", block)}};
    const std::string file = c.model();
    const onnx::model m = onnx::load(bytes_of(file));
    const auto got = elements_of(m(c.arguments())[0]);
    if (rows > 0 && rows <= 4) CHECK(m.last().scratch_bytes < 4 * static_cast<std::size_t>(n * k) / 8);
    REQUIRE(got.size() == static_cast<std::size_t>(rows * n));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          const auto at = [](std::int64_t x) { return static_cast<std::size_t>(x); };
          const auto byte = static_cast<unsigned>(c.in[1].elements[at(j * blocks * 16 + i / 2)]);
          const auto zero = static_cast<unsigned>(c.in[3].elements[at(j * 17 + i / block / 2)]);
          const double w = (static_cast<double>(i % 2 ? byte >> 4 : byte & 15) -
                            static_cast<double>(i / block % 2 ? zero >> 4 : zero & 15)) *
                           c.in[2].elements[at(j * blocks + i / block)];
          sum += c.in[0].elements[at(r * k + i)] * w;
          size += std::fabs(w);
        }
        CHECK(std::fabs(got[static_cast<std::size_t>(r * n + j)] - sum) <= 1e-5 * size);
      }
  }
}

TEST_CASE("com.microsoft's operators refuse in words") {
  const auto error_of = [](const recorded_case& c) {
    const std::string file = c.model();
    return message_of([&] { onnx::load(bytes_of(file), on(true))(c.arguments()); });
  };
  const filled x = reals("x", {2, 3, 5}, 1), w = reals("w", {5, 24}, 2), b = reals("b", {24}, 3);
  CHECK(contains(error_of({"", "Attention", microsoft, {x, w, b}, {attribute("num_heads", 5)}}), "has no 5 heads"));
  CHECK(contains(error_of({"", "Attention", microsoft, {x, w, b}}), "num_heads are not given"));
  CHECK(contains(error_of({"",
                           "Attention",
                           microsoft,
                           {x, w, b, given("m", {8}, {1, 1, 1, 1, 1, 1, 1, 1}, i32)},
                           {attribute("num_heads", 2)}}),
                 "its mask (8) is no mask of scores (2, 2, 3, 3)"));
  CHECK(contains(
      error_of({"", "Attention", microsoft, {x, w, b}, {attribute("num_heads", 2), attribute("do_rotary", 1)}}),
      "export it with RotaryEmbedding nodes"));
  CHECK(contains(error_of({"",
                           "MatMulNBits",
                           microsoft,
                           {reals("a", {3, 32}, 1), whole("b", {5, 2, 8}, 2, 0, 255, u8), reals("s", {10}, 3)},
                           {attribute("N", 5), attribute("K", 32), attribute("bits", 3), attribute("block_size", 16)}}),
                 "its weights have 3 bits; 2, 4 and 8 are supported"));
  CHECK(contains(error_of({"",
                           "MatMulNBits",
                           microsoft,
                           {reals("a", {3, 31}, 1), whole("b", {5, 2, 8}, 2, 0, 255, u8), reals("s", {10}, 3)},
                           {attribute("N", 5), attribute("K", 32), attribute("bits", 4), attribute("block_size", 16)}}),
                 "its rows are (3, 31) where K is 32"));
  CHECK(contains(error_of({"",
                           "SkipLayerNormalization",
                           microsoft,
                           {reals("x", {3, 5}, 1), reals("s", {2, 3, 5}, 2), reals("g", {5}, 3)}}),
                 "its skip (2, 3, 5) does not fit (3, 5)"));
}
