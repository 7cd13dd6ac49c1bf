// Operators that read images at places, count n-grams, take determinants, or draw random numbers, against loops of their own.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "calls.hpp"
#include "model_writer.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::attribute_float;
using onnx_test::attribute_floats;
using onnx_test::attribute_list;
using onnx_test::attribute_text;
using onnx_test::bytes_of;
using onnx_test::contains;
using onnx_test::message_of;
using onnx_test::node;
using onnx_test::on;
using onnx_test::some;
using onnx_test::value;

namespace {

using numbers = std::vector<float>;

/// Of an image (h, w), zeros beyond each corner that is not there.
double open_sample(const float* image, int h, int w, double y, double x) {
  const int y0 = static_cast<int>(std::floor(y)), x0 = static_cast<int>(std::floor(x));
  double sum = 0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const int r = y0 + i, c = x0 + j;
      if (r < 0 || r >= h || c < 0 || c >= w) continue;
      sum += static_cast<double>(image[r * w + c]) * (i ? y - y0 : 1 - (y - y0)) * (j ? x - x0 : 1 - (x - x0));
    }
  return sum;
}
/// The four weighted corners of a sample of RoiAlign.
std::vector<double> corners(const float* image, int h, int w, double y, double x) {
  if (y < -1 || y > h || x < -1 || x > w) return {0, 0, 0, 0};
  y = std::max(y, 0.0);
  x = std::max(x, 0.0);
  int y0 = static_cast<int>(y), x0 = static_cast<int>(x), y1 = y0 + 1, x1 = x0 + 1;
  if (y0 >= h - 1) y = y1 = y0 = h - 1;
  if (x0 >= w - 1) x = x1 = x0 = w - 1;
  const double b = y - y0, a = x - x0;
  const auto at = [&](int r, int c) { return static_cast<double>(image[r * w + c]); };
  return {at(y0, x0) * (1 - b) * (1 - a), at(y0, x1) * (1 - b) * a, at(y1, x0) * b * (1 - a), at(y1, x1) * b * a};
}

struct roi_case {
  bool largest, half_pixel;
  std::int64_t ratio;
};
onnx_test::graph roi_graph(const roi_case& c) {
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::f32, {"2", "3", "7", "9"}), value("rois", onnx_test::f32, {"4", "4"}),
              value("which", onnx_test::i64, {"4"})};
  g.outputs = {value("y", onnx_test::f32, {"4", "3", "2", "3"})};
  g.nodes = {
      node("RoiAlign", {"x", "rois", "which"}, {"y"},
           {attribute("output_height", 2), attribute("output_width", 3), attribute("sampling_ratio", c.ratio),
            attribute_float("spatial_scale", 0.5f), attribute_text("mode", c.largest ? "max" : "avg"),
            attribute_text("coordinate_transformation_mode", c.half_pixel ? "half_pixel" : "output_half_pixel")})};
  return g;
}
const numbers regions{1, 2, 13.5f, 11, 4, 4, 4.5f, 5, -6, -3, 9, 30, 0, 0, 17, 13};
const std::vector<std::int64_t> images{0, 1, 1, 0};

double roi_expected(const roi_case& c, const numbers& x, std::size_t r, std::size_t channel, int ph, int pw) {
  const float* image = x.data() + (static_cast<std::size_t>(images[r]) * 3 + channel) * 63;
  double from[4];
  for (std::size_t k = 0; k < 4; ++k)
    from[k] = static_cast<double>(regions[r * 4 + k]) * 0.5 - (c.half_pixel ? 0.5 : 0);
  double h = from[3] - from[1], w = from[2] - from[0];
  if (!c.half_pixel) h = std::max(h, 1.0), w = std::max(w, 1.0);
  const double bin_h = h / 2, bin_w = w / 3;
  const int gh = static_cast<int>(c.ratio ? c.ratio : std::ceil(bin_h)),
            gw = static_cast<int>(c.ratio ? c.ratio : std::ceil(bin_w));
  double sum = 0, top = -1e30;
  for (int i = 0; i < gh; ++i)
    for (int j = 0; j < gw; ++j)
      for (const double v : corners(image, 7, 9, from[1] + ph * bin_h + (i + 0.5) * bin_h / gh,
                                    from[0] + pw * bin_w + (j + 0.5) * bin_w / gw)) {
        sum += v;
        top = std::max(top, v);
      }
  return c.largest ? top : sum / std::max(gh * gw, 1);
}

}  // namespace

TEST_CASE("RoiAlign agrees with its definition in all modes") {
  const numbers pixels = some(2 * 3 * 7 * 9, 1);
  for (const bool largest : {false, true})
    for (const bool half_pixel : {false, true})
      for (const std::int64_t ratio : {0, 1, 2}) {
        const roi_case c{largest, half_pixel, ratio};
        const std::string file = roi_graph(c).model(22);
        for (const bool interpreted : {false, true}) {
          INFO("max " << largest << " half_pixel " << half_pixel << " ratio " << ratio);
          const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
          const auto y = m({from_span(pixels, 2, 3, 7, 9), from_span(regions, 4, 4), from_span(images, 4)})[0]
                             .as<tensor<float, 4>>();
          for (int r = 0; r < 4; ++r)
            for (int k = 0; k < 3; ++k)
              for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 3; ++j)
                  CHECK(static_cast<double>(y(r, k, i, j)) ==
                        doctest::Approx(
                            roi_expected(c, pixels, static_cast<std::size_t>(r), static_cast<std::size_t>(k), i, j))
                            .epsilon(1e-4));
        }
      }
}

TEST_CASE("MaxRoiPool takes the largest element of each bin, 0 of none") {
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::f32, {"2", "1", "4", "5"}), value("rois", onnx_test::f32, {"2", "5"})};
  g.outputs = {value("y", onnx_test::f32, {"2", "1", "2", "2"})};
  g.nodes = {node("MaxRoiPool", {"x", "rois"}, {"y"}, {attribute_list("pooled_shape", {2, 2})})};
  const std::string file = g.model();
  numbers x;
  for (int k = 0; k < 40; ++k) x.push_back(static_cast<float>(k));
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    const auto y = m({from_span(x, 2, 1, 4, 5), from_span(numbers{0, 0, 0, 3, 3, 1, 2, 1, 9, 9}, 2, 5)})[0]
                       .as<tensor<float, 4>>()
                       .to_vector();
    CHECK(y == numbers{6, 8, 16, 18, 39, 0, 0, 0});
  }
}

TEST_CASE("DeformConv reads its taps where the offsets say; its gradients are those of differences") {
  constexpr int n = 2, ch = 4, h = 5, w = 6, out = 2, kh = 2, kw = 3, oh = 3, ow = 3;
  onnx_test::graph g;
  const auto weights = some(out * (ch / 2) * kh * kw, 3);
  g.initializers = {onnx_test::tensor("w", {out, ch / 2, kh, kw}, weights),
                    onnx_test::tensor("b", {out}, numbers{0.5f, -0.25f})};
  g.inputs = {value("x", onnx_test::f32, {"2", "4", "5", "6"}), value("o", onnx_test::f32, {"2", "24", "3", "3"}),
              value("m", onnx_test::f32, {"2", "12", "3", "3"})};
  g.outputs = {value("y", onnx_test::f32, {"2", "2", "3", "3"})};
  g.nodes = {node(
      "DeformConv", {"x", "w", "o", "b", "m"}, {"y"},
      {attribute("group", 2), attribute("offset_group", 2), attribute_list("kernel_shape", {kh, kw}),
       attribute_list("pads", {1, 1, 0, 2}), attribute_list("strides", {2, 2}), attribute_list("dilations", {1, 2})})};
  const std::string file = g.model(22);
  const numbers x = some(n * ch * h * w, 1), offsets = some(n * 24 * oh * ow, 2), mask = some(n * 12 * oh * ow, 4);
  const auto expected = [&](int b, int o, int i, int j) {
    double sum = o ? -0.25 : 0.5;
    for (int c = 0; c < 2; ++c)
      for (int p = 0; p < kh; ++p)
        for (int q = 0; q < kw; ++q) {
          const int channel = o * 2 + c, field = channel / 2, tap = p * kw + q;
          const auto at = [&](int k) { return static_cast<std::size_t>(((b * 24 + k) * oh + i) * ow + j); };
          const double dy = static_cast<double>(offsets[at((field * 6 + tap) * 2)]),
                       dx = static_cast<double>(offsets[at((field * 6 + tap) * 2 + 1)]);
          const double v =
              open_sample(x.data() + (b * ch + channel) * h * w, h, w, i * 2 - 1 + p + dy, j * 2 - 1 + q * 2 + dx);
          sum += v * static_cast<double>(weights[static_cast<std::size_t>(((o * 2 + c) * kh + p) * kw + q)]) *
                 static_cast<double>(mask[static_cast<std::size_t>(((b * 12 + field * 6 + tap) * oh + i) * ow + j)]);
        }
    return sum;
  };
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    const tensor<float, 4> tx = from_span(x, n, ch, h, w), to = from_span(offsets, n, 24, oh, ow),
                           tm = from_span(mask, n, 12, oh, ow);
    const auto y = m({tx, to, tm})[0].as<tensor<float, 4>>();
    for (int b = 0; b < n; ++b)
      for (int o = 0; o < out; ++o)
        for (int i = 0; i < oh; ++i)
          for (int j = 0; j < ow; ++j)
            CHECK(static_cast<double>(y(b, o, i, j)) == doctest::Approx(expected(b, o, i, j)).epsilon(1e-4));
    if (!interpreted) continue;
    const auto g2 = m.square_gradients({tx, to, tm});
    const auto of_offset = g2.inputs[1].as<tensor<float, 4>>();
    const auto loss = [&](int k, float by) {
      tensor<float, 4> moved = from_span(offsets, n, 24, oh, ow);
      moved(1, k, 1, 2) += by;
      double sum = 0, count = 0;
      for (const float v : m({tx, moved, tm})[0].as<tensor<float, 4>>().to_vector())
        sum += static_cast<double>(v) * static_cast<double>(v), ++count;
      return sum / count;
    };
    for (int k = 0; k < 24; k += 5)
      CHECK(std::fabs(static_cast<double>(of_offset(1, k, 1, 2)) - (loss(k, 1e-2f) - loss(k, -1e-2f)) / 2e-2) <= 2e-3);
  }
}

TEST_CASE("Det of small and large matrices, in lanes") {
  for (const std::int64_t size : {1, 2, 3, 7}) {
    onnx_test::graph g;
    const std::string s = std::to_string(size);
    g.inputs = {value("x", onnx_test::f32, {"2", "3", s, s})};
    g.outputs = {value("y", onnx_test::f32, {"2", "3"})};
    g.nodes = {node("Det", {"x"}, {"y"})};
    const std::string file = g.model(22);
    const auto n = static_cast<std::size_t>(size);
    const numbers x = some(6 * n * n, 1);
    const auto expected = [&](std::size_t lane) {
      std::vector<double> a(x.begin() + static_cast<std::ptrdiff_t>(lane * n * n),
                            x.begin() + static_cast<std::ptrdiff_t>((lane + 1) * n * n));
      double det = 1;
      for (std::size_t k = 0; k < n; ++k) {
        std::size_t p = k;
        for (std::size_t i = k; i < n; ++i)
          if (std::fabs(a[i * n + k]) > std::fabs(a[p * n + k])) p = i;
        if (p != k) det = -det;
        for (std::size_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[p * n + j]);
        det *= a[k * n + k];
        for (std::size_t i = k + 1; i < n; ++i)
          for (std::size_t j = n; j-- > k;) a[i * n + j] -= a[i * n + k] / a[k * n + k] * a[k * n + j];
      }
      return det;
    };
    for (const bool interpreted : {false, true}) {
      const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
      const auto y = m({from_span(x, 2, 3, size, size)})[0].as<tensor<float, 2>>().to_vector();
      for (std::size_t k = 0; k < 6; ++k)
        CHECK(static_cast<double>(y[k]) == doctest::Approx(expected(k)).epsilon(1e-3));
    }
  }
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::f32, {"2", "3"})};
  g.outputs = {value("y", onnx_test::f32, {})};
  g.nodes = {node("Det", {"x"}, {"y"})};
  const std::string file = g.model(22);
  const onnx::model m = onnx::load(bytes_of(file), on(true));
  CHECK(contains(message_of([&] {
                   m({tensor<float, 2>{{1, 2, 3}, {4, 5, 6}}});
                 }),
                 "(Det): of (2, 3), which is no square matrix"));
}

TEST_CASE("TfIdfVectorizer counts n-grams with and without gaps, and weighs them") {
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::i64, {"2", "6"})};
  g.outputs = {value("y", onnx_test::f32, {"2", "4"})};
  const tensor<std::int64_t, 2> x{{1, 2, 1, 3, 2, 3}, {3, 3, 3, 3, 3, 1}};
  const auto run = [&](const char* mode, std::int64_t skip, bool interpreted) {
    // 3, 1; (1, 2), (3, 3)
    g.nodes = {node("TfIdfVectorizer", {"x"}, {"y"},
                    {attribute_text("mode", mode), attribute("min_gram_length", 1), attribute("max_gram_length", 2),
                     attribute("max_skip_count", skip), attribute_list("ngram_counts", {0, 2}),
                     attribute_list("ngram_indexes", {2, 0, 3, 1}), attribute_list("pool_int64s", {3, 1, 1, 2, 3, 3}),
                     attribute_floats("weights", {2, 3, 5, 7})})};
    const std::string file = g.model();
    return onnx::load(bytes_of(file), on(interpreted))({x})[0].as<tensor<float, 2>>().to_vector();
  };
  for (const bool interpreted : {false, true}) {
    CHECK(run("TF", 0, interpreted) == numbers{2, 0, 2, 1, 1, 4, 5, 0});
    CHECK(run("TF", 1, interpreted) == numbers{2, 1, 2, 2, 1, 7, 5, 0});
    CHECK(run("IDF", 0, interpreted) == numbers{3, 0, 2, 5, 3, 7, 2, 0});
    CHECK(run("TFIDF", 0, interpreted) == numbers{6, 0, 4, 5, 3, 28, 10, 0});
  }
}

TEST_CASE("random numbers are of their distributions, others at each call, and those of a key in a trace") {
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("logits", {1, 3}, numbers{std::log(0.2f), std::log(0.5f), std::log(0.3f)})};
  g.inputs = {value("p", onnx_test::f32, {"N"})};
  g.outputs = {value("u", onnx_test::f32, {"20000"}), value("n", onnx_test::f32, {"N"}),
               value("b", onnx_test::f32, {"N"}), value("c", 6, {"1", "20000"}), value("s", onnx_test::f32, {"N"})};
  g.nodes = {node("RandomUniform", {}, {"u"},
                  {attribute_list("shape", {20000}), attribute_float("low", -1), attribute_float("high", 3)}),
             node("RandomNormalLike", {"p"}, {"n"}, {attribute_float("mean", 2), attribute_float("scale", 0.5f)}),
             node("Bernoulli", {"p"}, {"b"}), node("Multinomial", {"logits"}, {"c"}, {attribute("sample_size", 20000)}),
             node("RandomUniformLike", {"p"}, {"s"}, {attribute_float("seed", 3)})};
  const std::string file = g.model(22);
  const tensor<float, 1> p = full<float>(0.3f, 20000);
  const auto mean_of = [](const numbers& v) {
    double s = 0;
    for (const float x : v) s += static_cast<double>(x);
    return s / static_cast<double>(v.size());
  };
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    const auto a = m({p}), b = m({p});
    const auto u = a[0].as<tensor<float, 1>>().to_vector(), n = a[1].as<tensor<float, 1>>().to_vector(),
               hit = a[2].as<tensor<float, 1>>().to_vector();
    CHECK(mean_of(u) == doctest::Approx(1).epsilon(0.03));
    CHECK(*std::min_element(u.begin(), u.end()) >= -1);
    CHECK(*std::max_element(u.begin(), u.end()) < 3);
    CHECK(mean_of(n) == doctest::Approx(2).epsilon(0.01));
    CHECK(mean_of(hit) == doctest::Approx(0.3).epsilon(0.05));
    double share[3] = {};
    for (const auto c : a[3].as<tensor<std::int32_t, 2>>().to_vector()) share[c] += 1.0 / 20000;
    CHECK(share[0] == doctest::Approx(0.2).epsilon(0.05));
    CHECK(share[1] == doctest::Approx(0.5).epsilon(0.05));
    CHECK(u != b[0].as<tensor<float, 1>>().to_vector());
    CHECK(a[4].as<tensor<float, 1>>().to_vector() == b[4].as<tensor<float, 1>>().to_vector());
    CHECK(m.specialisations() == 1);
    // RandomState(3).uniform()
    CHECK(a[4].as<tensor<float, 1>>()(0) == doctest::Approx(0.5507979).epsilon(1e-6));
    CHECK(a[4].as<tensor<float, 1>>()(1) == doctest::Approx(0.7081478).epsilon(1e-6));
    const auto drawn = [&](int seed) {
      return m.drawing(make_key(seed).state)({p})[0].as<tensor<float, 1>>().to_vector();
    };
    CHECK(drawn(5) == drawn(5));
    CHECK(drawn(5) != drawn(6));
    auto alone = compile([&](const tensor<float, 1>& x) { return m({x})[0].as<tensor<float, 1>>(); });
    CHECK(contains(message_of([&] { alone(p); }),
                   "it draws random numbers, and the function around the model is traced once; give the model a key: "
                   "m.drawing(k)"));
    auto keyed = compile(
        [&](const tensor<float, 1>& x, const key& k) { return m.drawing(k.state)({x})[0].as<tensor<float, 1>>(); });
    CHECK(keyed(p, make_key(5)).to_vector() == drawn(5));
  }
}

TEST_CASE("Dropout in training drops a share of the elements, in each step of a loop others") {
  onnx_test::graph g, body;
  body.initializers = {onnx_test::tensor("ratio", {}, numbers{0.25f})};
  onnx_test::message yes;
  yes.number(2, onnx_test::b8).text(8, "train").text(9, std::string(1, '\1'));
  body.initializers.push_back(yes);
  body.inputs = {value("s", onnx_test::f32, {}), value("r", onnx_test::f32, {"1000"})};
  body.outputs = {value("s2", onnx_test::f32, {}), value("y", onnx_test::f32, {"1000"}),
                  value("kept", onnx_test::b8, {"1000"})};
  body.nodes = {node("Identity", {"s"}, {"s2"}), node("Dropout", {"r", "ratio", "train"}, {"y", "kept"})};
  g.initializers = {onnx_test::tensor("zero", {}, numbers{0})};
  g.inputs = {value("x", onnx_test::f32, {"6", "1000"})};
  g.outputs = {value("y", onnx_test::f32, {"6", "1000"}), value("kept", onnx_test::b8, {"6", "1000"})};
  g.nodes = {node("Scan", {"zero", "x"}, {"last", "y", "kept"},
                  {attribute("num_scan_inputs", 1), onnx_test::attribute_graph("body", body.body())})};
  const std::string file = g.model(22);
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    const auto all = m({ones<float>(6, 1000)});
    const auto y = all[0].as<tensor<float, 2>>();
    const auto kept = all[1].as<tensor<bool, 2>>();
    int count = 0, same = 0;
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 1000; ++j) {
        CHECK(y(i, j) == doctest::Approx(kept(i, j) ? 1 / 0.75 : 0));
        count += kept(i, j);
        same += kept(i, j) == kept(0, j);
      }
    CHECK(count / 6000.0 == doctest::Approx(0.75).epsilon(0.04));
    CHECK(same < 5000);
  }
}
