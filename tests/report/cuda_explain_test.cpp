// explain and verify on a GPU; without one the same on the host.
#include "../front/ops_support.hpp"

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include <sinter/sinter.hpp>

using namespace sinter;

namespace {

device gpu() { return device_count() > 0 ? device::cuda(0) : device::cpu(); }

auto network() {
  return [](tensor<float, 2> x, tensor<float, 2> w, tensor<float, 1> b) {
    const tensor<float, 2> h = tanh(matmul(x, w) + b);
    const tensor<float, 2> p = softmax(matmul(h, w), axis<1>);
    return std::tuple(sum(p * h, axis<0>), exp(h) - mean(x), transpose(p) + 1.0f);
  };
}

}  // namespace

TEST_CASE("a program of a GPU is verified launch by launch") {
  const auto x = ops::sample<float, 2>({48, 40}).to(gpu()), w = ops::sample<float, 2>({40, 40}).to(gpu());
  const auto b = ops::sample<float, 1>({40}).to(gpu());
  const verification v = verify(network())(x, w, b);
  INFO(v.text());
  CHECK(v);
  CHECK(v.kernels >= 4);
  CHECK(v.compared >= 3 * 48 * 40);
  CHECK(verify([](tensor<float, 2> a, auto rate) { return a * rate + sum(a, axis<0>); })(x, 0.5f));
}

TEST_CASE("launches and library calls are explained") {
  const auto x = ops::sample<float, 2>({48, 40}).to(gpu()), w = ops::sample<float, 2>({40, 40}).to(gpu());
  const auto b = ops::sample<float, 1>({40}).to(gpu());
  const auto e = explain(network())(x, w, b);
  INFO(e.text());
  REQUIRE(e.specialisations.size() == 1);
  const report& r = e.specialisations[0].what;
  CHECK(r.backend == (device_count() > 0 ? "cuda" : "cpu"));
  CHECK(r.steps.size() == r.kernels);
  CHECK(!r.apart.empty());
  std::int64_t flops = 0;
  std::set<std::int64_t> printed;
  for (const auto& k : r.steps) {
    flops += k.flops;
    CHECK((k.source < 0) == (k.tier == "library"));
    if (k.source >= 0) printed.insert(k.source);
    CHECK(k.schedule.empty() == (k.source < 0));
    if (device_count() > 0 && k.source >= 0) CHECK(k.schedule.find(" blocks of ") != std::string::npos);
    for (const auto& o : k.ops) CHECK(o.where.line > 0);
  }
  CHECK(printed.size() == r.sources.size());
  CHECK(flops >= 2 * 2 * 48 * 40 * 40);
  for (const auto& a : r.apart) {
    CHECK(a.first < a.second);
    CHECK(a.second < r.steps.size());
    CHECK(!a.why.empty());
  }
}

TEST_CASE("a kernel of two launches is one kernel and one source") {
  std::string folder = "/tmp/sinter-test-XXXXXX";
  REQUIRE(mkdtemp(folder.data()));
  const auto f = compile([](auto x) { return sum(x * 0.731f, axis<1>); }, {.cache_dir = folder});
  f(full<float>(1.f, 2, 1 << 18).to(gpu()));
  const report r = f.report();
  std::filesystem::remove_all(folder);
  CHECK(r.kernels == 1);
  CHECK(r.compiled == 1);
  REQUIRE(r.steps.size() == 1);
  REQUIRE(r.sources.size() == 1);
  CHECK(r.steps[0].source == 0);
  CHECK(r.sources[0].find("sinter_kernel") != std::string::npos);
  CHECK((r.sources[0].find("sinter_finish") != std::string::npos) == (device_count() > 0));
}
