// onnx::save: functions and models as ONNX files, loaded again: names, sizes, weights, refusals, equal bits.
#include <doctest/doctest.h>
#include <sinter/fft.hpp>
#include <sinter/nn.hpp>
#include <sinter/onnx.hpp>
#include <sinter/onnx/proto.hpp>
#include <sinter/sinter.hpp>
#include <sinter/windows.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "../scratch_folder.hpp"
#include "../texts.hpp"
#include "exported.hpp"
#include "operator_models.hpp"

using namespace sinter;
using texts::contains;
using texts::message_of;

namespace {

onnx::model_proto parsed(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  auto m = onnx::wire::read_model(onnx_test::bytes_of(bytes));
  for (auto& t : m.graph.initializers) t->raw = {};
  return m;
}
std::map<std::string, int> operators(const std::string& path) {
  std::map<std::string, int> out;
  for (const auto& n : parsed(path).graph.nodes) ++out[n.op];
  return out;
}

const options interpreted{.backend = "reference"};

/// The files of weights beside a model.
std::vector<std::string> weights_of(const std::string& model) {
  std::vector<std::string> out;
  const std::filesystem::path path(model);
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(path.filename().string() + ".") && name.ends_with(".data"))
      out.push_back(entry.path().string());
  }
  return out;
}

/// Saves f for x, loads the file, and compares with f on the same backend.
template <class F, class... X>
void same_after(const char* name, const scratch_folder& folder, double tolerance, F f, const X&... x) {
  INFO(name);
  const std::string path = folder.path + "/f.onnx";
  onnx::save(path, f, x...);
  const auto y = onnx::load(path, interpreted)({dynamic_tensor(x)...});
  const auto want = dynamic_tensor(compile(f, interpreted)(x...));
  REQUIRE(y.size() == 1);
  const io::array a = y[0].to_array(), b = want.to_array();
  if (tolerance == 0) {
    CHECK(onnx_test::same_bits(a, b));
    return;
  }
  REQUIRE(a.extents == b.extents);
  REQUIRE(a.type == dtype::f64);
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    double p = 0, q = 0;
    std::memcpy(&p, a.data + 8 * i, 8);
    std::memcpy(&q, b.data + 8 * i, 8);
    CHECK(p == doctest::Approx(q).epsilon(tolerance));
  }
}

tensor<double, 2> some(std::int64_t n, std::int64_t m) {
  return reshape(sin(arange<double>(n * m) * 1.7 + 0.3) * 1.5, n, m);
}
tensor<double, 4> image(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  return reshape(sin(arange<double>(n * h * w * c) * 0.7 + 0.1), n, h, w, c);
}

}  // namespace

TEST_CASE("elementwise functions come back with equal bits") {
  const scratch_folder folder;
  const auto x = some(3, 4), y = some(4, 3);
  const auto z = transpose(y);
#define SAME(...) \
  same_after(     \
      #__VA_ARGS__, folder, 0, [](const auto& a, [[maybe_unused]] const auto& b) { return __VA_ARGS__; }, x, z)
  SAME(a + b * 2.0 - b / (a + 3.0));
  SAME(exp(a) * log(abs(b) + 1.0) + sqrt(abs(a)));
  SAME(sin(a) + cos(b) * tan(a));
  SAME(tanh(a) + sigmoid(b) + erf(a));
  SAME(asin(a * 0.5) + acos(b * 0.5) + atan(a));
  SAME(sinh(a) + cosh(b) + asinh(a) + acosh(abs(b) + 1.0) + atanh(a * 0.5));
  SAME(maximum(a, b) + minimum(a, 0.25) + fmod(a, b));
  SAME(floor(a) + ceil(b) + round(a) + trunc(b) + sign(a));
  SAME(where(a > b, a, -b) + where(a == b || a < 0.0, 1.0, a));
  SAME(cast<std::int32_t>(a * 10.0) / 3 + (cast<std::int32_t>(b * 10.0) & 6));
  SAME(isnan(a) | isinf(b) | !(isfinite(a)));
  same_after(
      "attention", folder, 1e-12, [](const auto& a, const auto& b) { return attention(a, b, b, causal); }, x, z);
  SAME(pow(abs(a), b));
#undef SAME
#define NEAR(...) \
  same_after(     \
      #__VA_ARGS__, folder, 1e-9, [](const auto& a, [[maybe_unused]] const auto& b) { return __VA_ARGS__; }, x, z)
  NEAR(expm1(a * 1e-3) + expm1(b) + log1p(abs(a) * 1e-4) + log1p(abs(b)));
  NEAR(hypot(a, b) + rsqrt(abs(a) + 0.1) + cbrt(b) + exp2(a) + log2(abs(b) + 1.0));
  NEAR(erfc(a));
#undef NEAR
}

TEST_CASE("movement, reductions, products and places come back with equal bits") {
  const scratch_folder folder;
  const auto x = some(4, 6);
#define SAME(...) \
  same_after(     \
      #__VA_ARGS__, folder, 0, [](const auto& a) { return __VA_ARGS__; }, x)
  SAME(permute<1, 0>(reshape(a, 6, 4)));
  SAME(concat<1>(slice<1>(a, 1, 5, 2), flip<0>(a), slice<0>(a, -1, to_end, -1)));
  SAME(pad(a, {{1, 0}, {0, 2}}, 3.0));
  SAME(broadcast_to(sum(a, axis<0>), 4, 6) + expand_dims<1>(max(a, axis<1>)));
  SAME(prod(a, axis<1>) + min(a, axis<1>));
  SAME(any(a > 1.0, axis<1>) ^ all(a > -1.0, axis<1>));
  SAME(argmax(a, axis<1>) + argmin(a, axis<1>));
  SAME(cumsum(a, axis<1>));
  SAME(sort(a, axis<1>));
  SAME(argsort(a, axis<0>));
  SAME(matmul(a, transpose(a)) + eye<double>(4));
  SAME(softmax(a));
  SAME(layer_norm(a));
  SAME(sum(a));
#undef SAME
  const tensor<std::int64_t, 1> rows{3, 0, 2, 3};
  same_after(
      "take", folder, 0, [](const auto& a, const auto& i) { return take(a, i, axis<0>); }, x, rows);
  same_after(
      "scatter", folder, 0,
      [](const auto& a, const auto& i) {
        return grad([&](const tensor<double, 2>& v) { return sum(take(v, i, axis<0>) * take(v, i, axis<0>)); })(a);
      },
      x, rows);
  const tensor<double, 3> left = reshape(arange<double>(2 * 3 * 4) * 0.1, 2, 3, 4),
                          right = reshape(arange<double>(2 * 4 * 5) * 0.2, 2, 4, 5);
  same_after(
      "batched", folder, 0, [](const auto& a, const auto& b) { return matmul(a, b); }, left, right);
  same_after(
      "einsum", folder, 0, [](const auto& a, const auto& b) { return einsum<"bij,bjk->ik">(a, b); }, left, right);
}

TEST_CASE("convolutions and pools are recognised") {
  const scratch_folder folder;
  const auto soft = [](const auto& a) { return maximum(a, 0.0) + log1p(exp(-abs(a))); };
  same_after("softplus", folder, 0, soft, some(3, 4));
  CHECK(operators(folder.path + "/f.onnx")["Softplus"] == 1);
  CHECK(operators(folder.path + "/f.onnx")["Log"] == 0);
  const auto x = image(2, 3, 9, 8);
  const tensor<double, 4> w = reshape(cos(arange<double>(4 * 3 * 3 * 3)), 4, 3, 3, 3);
  const auto conv = [](const auto& a, const auto& k) { return conv2d(a, k, {.stride = 2, .padding = 1}); };
  same_after("conv", folder, 1e-12, conv, x, w);
  CHECK(operators(folder.path + "/f.onnx")["Conv"] == 1);
  CHECK(operators(folder.path + "/f.onnx")["Gather"] == 0);
  const auto y = image(2, 4, 9, 8);
  const tensor<double, 4> one = reshape(cos(arange<double>(8 * 3 * 2)), 8, 1, 3, 2),
                          two = reshape(cos(arange<double>(6 * 2 * 3 * 3)), 6, 2, 3, 3);
  same_after(
      "a channel each", folder, 1e-12,
      [](const auto& a, const auto& k) {
        return conv2d(a, k, {.stride = {2, 1}, .padding = 1, .groups = 4});
      },
      y, one);
  CHECK(operators(folder.path + "/f.onnx")["Conv"] == 1);
  CHECK(operators(folder.path + "/f.onnx")["Gather"] == 0);
  same_after(
      "a channel each, dilated", folder, 1e-12,
      [](const auto& a, const auto& k) { return conv2d(a, k, {.dilation = 2, .groups = 4}); }, y, one);
  CHECK(operators(folder.path + "/f.onnx")["Conv"] == 1);
  same_after(
      "groups", folder, 1e-12,
      [](const auto& a, const auto& k) {
        return conv2d(a, k, {.stride = {1, 2}, .padding = 2, .groups = 2});
      },
      y, two);
  CHECK(operators(folder.path + "/f.onnx")["Conv"] == 1);
  CHECK(operators(folder.path + "/f.onnx")["Pad"] == 0);
  same_after(
      "groups without padding", folder, 1e-12,
      [](const auto& a, const auto& k) { return conv2d(a, k, {.dilation = 2, .groups = 2}); }, y, two);
  CHECK(operators(folder.path + "/f.onnx")["Conv"] == 1);
  same_after(
      "max pool", folder, 0, [](const auto& a) { return max_pool2d(a, 3, {.stride = 2, .padding = 1}); }, x);
  CHECK(operators(folder.path + "/f.onnx")["MaxPool"] == 1);
  same_after(
      "mean pool", folder, 1e-12, [](const auto& a) { return avg_pool2d(a, 2); }, x);
  CHECK(operators(folder.path + "/f.onnx")["AveragePool"] == 1);
}

TEST_CASE("transforms come back with equal bits") {
  const scratch_folder folder;
  const auto x = some(3, 6);
  const auto parts = [](const auto& z) -> tensor<double, 2> { return concat<0>(z.real(), z.imag()); };
  same_after(
      "fft", folder, 0, [&](const auto& a) { return parts(fft::fft(a)); }, x);
  CHECK(operators(folder.path + "/f.onnx")["DFT"] == 1);
  same_after(
      "ifft", folder, 0, [&](const auto& a) { return parts(fft::ifft(a)); }, x);
  same_after(
      "scaled", folder, 1e-12,
      [&](const auto& a) -> tensor<double, 2> {
        return parts(fft::fft<fft::ortho>(a)) + parts(fft::ifft<fft::ortho>(a)) * 2.0 +
               parts(fft::fft<fft::forward>(a)) * 3.0 + parts(fft::ifft<fft::forward>(a)) * 5.0 + 100.0;
      },
      x);
}

TEST_CASE("branches and loops come back with equal bits") {
  const scratch_folder folder;
  using vec = tensor<double, 1>;
  for (const double by : {1.0, -1.0})
    same_after(
        "cond", folder, 0,
        [](const vec& v) {
          return vec(cond(
              sum(v) > 0.0, [](vec h) { return exp(h); }, [](vec h) { return h - 1.0; }, v));
        },
        vec(arange<double>(5) * by));
  const auto x = some(5, 3);
  same_after(
      "scan", folder, 0,
      [](const tensor<double, 2>& a) {
        const auto [last, all] = scan(
            [](vec h, vec r) {
              return std::pair{vec(h * 0.5 + r), vec(h * r)};
            },
            vec(zeros<double>(3)), a);
        return all + broadcast_to(last, 5, 3);
      },
      x);
  same_after(
      "reversed", folder, 0,
      [](const tensor<double, 2>& a) {
        const auto [last, all] = scan(
            [](vec h, vec r) {
              return std::pair{vec(h * 0.5 + r), vec(h * r)};
            },
            vec(zeros<double>(3)), a, reversed);
        return all + broadcast_to(last, 5, 3);
      },
      x);
  same_after(
      "while", folder, 0,
      [](const vec& v) {
        return vec(while_loop([](vec h) { return sum(h) < 50.0; }, [](vec h) { return h * 2.0 + 1.0; }, v));
      },
      vec(arange<double>(4)));
}

TEST_CASE("erfc keeps the precision of large arguments") {
  const scratch_folder folder;
  const auto f = [](const auto& x) { return erfc(x); };
  const tensor<double, 1> x = arange<double>(-40, 260) * 0.1;
  same_after("f64", folder, 1e-12, f, x);
  onnx::save(folder.path + "/e.onnx", f, spec<tensor<float, 1>>{{4}});
  const auto y = onnx::load(folder.path + "/e.onnx", interpreted)({tensor<float, 1>{9.f, -9.f, 0.f, INFINITY}})[0];
  const auto got = y.as<tensor<float, 1>>().to_vector();
  CHECK(got[0] == doctest::Approx(std::erfc(9.0)).epsilon(1e-6));
  CHECK(got[1] == 2.f);
  CHECK(got[2] == 1.f);
  CHECK(got[3] == 0.f);
}

TEST_CASE("weights beside a model are that model's: an older model's are another file until it is replaced") {
  const scratch_folder folder;
  const std::string path = folder.path + "/net.onnx";
  const auto save = [&](float factor, std::size_t inside) {
    const tensor<float, 2> w = reshape(arange<float>(40 * 30) * factor, 40, 30);
    const auto f = [w](tensor<float, 2> x) { return matmul(x, w); };
    onnx::save(path, trace(f)(spec<tensor<float, 2>>{{1, 40}}), {.inline_bytes = inside});
  };
  const auto value = [&] {
    return onnx::load(path, interpreted)({ones<float>(1, 40)})[0].as<tensor<float, 2>>()(0, 1);
  };
  save(1, 100);
  const auto first = weights_of(path);
  const float before = value();
  const std::string other = path + ".0123.data", model = folder.path + "/old.onnx";
  std::ofstream(other) << "another's";
  std::filesystem::copy_file(path, model);
  REQUIRE(first.size() == 1);
  std::filesystem::copy_file(first[0], folder.path + "/kept");
  save(2, 100);
  CHECK(value() == 2 * before);
  CHECK(weights_of(path).size() == 2);  // the other's stays
  CHECK(!std::filesystem::exists(first[0]));
  CHECK_THROWS_AS(onnx::load(model, interpreted)({ones<float>(1, 40)}), error);  // never the newer weights
  save(3, std::size_t{1} << 20);
  CHECK(value() == 3 * before);
  CHECK(weights_of(path) == std::vector<std::string>{other});
}

TEST_CASE("names, open axes, weights beside the model") {
  const scratch_folder folder;
  const std::string path = folder.path + "/net.onnx";
  const tensor<float, 2> w = reshape(sin(arange<float>(40 * 30)), 40, 30);
  const auto f = [w](tensor<float, 2> x) { return std::pair{relu(matmul(x, w)), reshape(x, x.shape()[0] * 2, 20)}; };
  const graph g = trace(f, {.dynamic = dynamic::yes})(spec<tensor<float, 2>>{{3, 40}});
  onnx::save(path, g, {.called = {{"pixels"}, {"hidden", "halves"}}, .axes = {"batch"}, .inline_bytes = 100});
  REQUIRE(weights_of(path).size() == 1);
  CHECK(std::filesystem::file_size(weights_of(path)[0]) >= 4 * 40 * 30);
  CHECK(std::filesystem::file_size(path) < 4 * 40 * 30);
  const onnx::model m = onnx::load(path, interpreted);
  CHECK(m.inputs()[0].text() == "pixels: f32 (batch, 40)");
  CHECK(m.outputs()[0].name == "hidden");
  for (const std::int64_t n : {2, 5}) {
    const tensor<float, 2> x = reshape(cos(arange<float>(n * 40)), n, 40);
    const auto y = m({dynamic_tensor(x)});
    const auto [a, b] = compile(f, interpreted)(x);
    CHECK(onnx_test::same_bits(y[0].to_array(), dynamic_tensor(a).to_array()));
    CHECK(onnx_test::same_bits(y[1].to_array(), dynamic_tensor(b).to_array()));
  }
  const auto why = [&](onnx::save_options how) { return message_of([&] { onnx::save(path, g, how); }); };
  CHECK(contains(why({.called = {{"a", "b"}, {}}}), "there are 2 names for 1 values"));
  CHECK(contains(why({.called = {{}, {"y", "y"}}}), "the name 'y' is empty, or given twice"));
  CHECK(contains(why({.called = {{"w0"}, {}}}), "the name 'w0' is a weight's"));
  onnx::save(path, g, {.called = {{"v3"}, {"v5", "v1"}}});
  CHECK(onnx::load(path).inputs()[0].name == "v3");
}

TEST_CASE("ops without a counterpart are refused by name, all at once") {
  const auto f = [](tensor<float, 1> x) { return lgamma(x) + digamma(x) + cumprod(x, axis<0>); };
  const std::string why = message_of([&] { onnx::save("/nowhere/f.onnx", f, spec<tensor<float, 1>>{{4}}); });
  CHECK(contains(why, "[onnx::save] these ops have no counterpart in ONNX"));
  CHECK(contains(why, "lgamma"));
  CHECK(contains(why, "digamma"));
  CHECK(contains(why, "scan mul"));
  CHECK(contains(why, "export_test.cpp"));
  int without = 0;
  int code = 0;
  for (const auto& d : onnx::exported_ops()) {
    const bool collective = ir::is_collective(static_cast<ir::op>(code++));
    CHECK(!(collective && !d.how.empty()));
    without += d.how.empty() && !collective;
  }
  CHECK(onnx::exported_ops().size() == static_cast<std::size_t>(ir::pointwise_count) + std::size(ir::structural_rows));
  CHECK(without < 14);
  CHECK(without > 0);
}

TEST_CASE("models that are saved side by side read their own weights") {
  const scratch_folder folder;
  const std::string path = folder.path + "/f.onnx";
  const auto x = some(2, 200);
  std::vector<std::thread> savers;
  for (int t = 0; t < 4; ++t)
    savers.emplace_back([&, t] {
      for (int k = 0; k < 10; ++k) {
        const tensor<double, 2> w = full<double>(static_cast<double>(t + 1), 2, 200);
        onnx::save(path, trace([w](const tensor<double, 2>& a) { return a * w; })(x), {.inline_bytes = 0});
      }
    });
  for (auto& s : savers) s.join();
  CHECK(weights_of(path).size() == 1);
  const auto y = onnx::load(path, interpreted)({dynamic_tensor(x)})[0].as<tensor<double, 2>>();
  const double by = y(0, 0) / x(0, 0);
  CHECK((by == 1 || by == 2 || by == 3 || by == 4));
}

TEST_CASE("models of operators are exported, and come back with equal bits") {
  const scratch_folder folder;
  int all = 0, exported = 0;
  std::set<std::string> refused;
  for (const auto& m : onnx_test::operator_models()) {
    onnx::tensor_list x;
    try {
      const std::string file = onnx_test::model_of(m, false);
      const onnx::model loaded = onnx::load(onnx_test::bytes_of(file), interpreted);
      for (const auto& d : loaded.inputs()) {
        const io::array a = io::detail::make_array(d.type, d.extents);
        std::memset(a.data, 0, a.bytes().size());
        for (std::int64_t k = 0; d.type == dtype::f64 && k < a.numel(); ++k) {
          const double v = 0.3 + 0.17 * static_cast<double>(k % 5);
          std::memcpy(a.data + 8 * k, &v, 8);
        }
        x.emplace_back(a);
      }
      static_cast<void>(onnx_test::graph_of(loaded, x));
      ++all;
      const auto out = onnx_test::export_again(loaded, x, folder.path + "/m.onnx", interpreted);
      if (out.refused) {
        refused.insert(out.why);
        continue;
      }
      INFO(operators(folder.path + "/m.onnx").begin()->first);
      CHECK_MESSAGE(out.why == "", m.op);
      ++exported;
    } catch (const user_error&) {}  // a model of sequences, or that reads values
  }
  std::string why;
  for (const auto& r : refused) why += r + "\n";
  MESSAGE(exported << " of " << all << " exported; refused:\n" << why);
  CHECK(exported > all * 9 / 10);
}
