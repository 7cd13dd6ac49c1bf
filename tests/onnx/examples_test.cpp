// The networks of the examples as ONNX models: they come back with the values of the reference, and ONNX Runtime gives them, too.
#include <doctest/doctest.h>
#include <sinter/data.hpp>
#include <sinter/io.hpp>
#include <sinter/mesh.hpp>
#include <sinter/mesh_io.hpp>
#include <sinter/nn.hpp>
#include <sinter/onnx.hpp>
#include <sinter/optim.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numbers>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../../examples/support/digits.hpp"
#include "../../examples/support/pictures.hpp"
#include "../../examples/support/plot.hpp"
#include "../../examples/support/program.hpp"
#include "../scratch_folder.hpp"
#include "exported.hpp"

// Each program in a namespace; its headers are those above.
#define SINTER_EXAMPLE(NAME) namespace example_##NAME
SINTER_EXAMPLE(cnn){
#include "../../examples/cnn.cpp"
} SINTER_EXAMPLE(digits){
#include "../../examples/digits.cpp"
} SINTER_EXAMPLE(gpt){
#include "../../examples/gpt.cpp"
} SINTER_EXAMPLE(llama){
#include "../../examples/llama.cpp"
} SINTER_EXAMPLE(lstm){
#include "../../examples/lstm.cpp"
} SINTER_EXAMPLE(resnet){
#include "../../examples/resnet.cpp"
} SINTER_EXAMPLE(unet){
#include "../../examples/unet.cpp"
} SINTER_EXAMPLE(vae){
#include "../../examples/vae.cpp"
} SINTER_EXAMPLE(vit){
#include "../../examples/vit.cpp"
} SINTER_EXAMPLE(diffusion){
#include "../../examples/diffusion.cpp"
} SINTER_EXAMPLE(graph_network){
#include "../../examples/graph_network.cpp"
} SINTER_EXAMPLE(maml){
#include "../../examples/maml.cpp"
} SINTER_EXAMPLE(pinn){
#include "../../examples/pinn.cpp"
} SINTER_EXAMPLE(neural_ode) {
#include "../../examples/neural_ode.cpp"
}

using namespace sinter;

namespace {

/// Saves f for x, and compares the file's results, and ONNX Runtime's, with the reference's.
template <class F, class... X>
void leaves(const char* name, F f, const X&... x) {
  INFO(name);
  const options how{.backend = "reference"};
  const scratch_folder folder;
  const std::string path = folder.path + "/net.onnx";
  onnx::save(path, f, x...);
  const io::array want = dynamic_tensor(compile(f, how)(x...)).to_array();
  CHECK(onnx_test::difference(onnx::load(path, how)({dynamic_tensor(x)...})[0].to_array(), want) <= 1e-6);
  if (onnx::runtime_problem().empty())
    CHECK(onnx_test::difference(onnx::runtime_model(path)({dynamic_tensor(x)...})[0].to_array(), want) <= 1e-5);
}

const key seed = make_key(1);

f32_4 pictures(std::int64_t n, std::int64_t side) { return normal<float>(make_key(2), n, 1, side, side); }
f32_2 rows(std::int64_t n, std::int64_t m) { return normal<float>(make_key(3), n, m); }

}  // namespace

TEST_CASE("networks of pictures") {
  leaves(
      "cnn", [p = example_cnn::make(seed)](const f32_4& x) { return example_cnn::logits(p, x, {}); }, pictures(3, 8));
  const auto residual = example_resnet::make(seed);
  const auto statistics = nn::state(residual);
  leaves(
      "resnet",
      [=](const f32_4& x) {
        const nn::pass pass(residual, statistics, nn::inference);
        return example_resnet::logits(residual, pass, x);
      },
      pictures(2, 8));
  const auto net = example_unet::unet::init(seed);
  const auto of_net = nn::state(net);
  leaves(
      "unet",
      [=](const f32_4& x) {
        const nn::pass pass(net, of_net, nn::inference);
        return net(x, pass);
      },
      pictures(2, 16));
  leaves(
      "vit", [p = example_vit::vit::init(seed, 16, 2)](const f32_4& x) { return p(x, {}); }, pictures(2, 8));
}

TEST_CASE("networks of rows and sequences") {
  using example_digits::make_dense;
  const example_digits::mlp net{make_dense<64, 128>(seed), make_dense<128, 64>(seed), make_dense<64, 10>(seed)};
  leaves(
      "digits", [net](const f32_2& x) { return f32_2(example_digits::logits(net, x)); }, rows(5, 64));
  const auto ids = randint<std::int64_t>(seed, 0, 11, 2, 7);
  leaves(
      "gpt", [p = example_gpt::make(seed, {11, 9, 2, 16, 4})](const i64_2& x) { return example_gpt::logits(p, x, {}); },
      ids);
  leaves(
      "llama", [p = example_llama::llama::init(seed, 16, 2)](const i64_2& x) { return p(x); }, ids);
  const example_lstm::predictor waves{nn::lstm<float>::init(seed, 1, 8), nn::linear<float>::init(seed, 8, 1)};
  leaves(
      "lstm", [waves](const f32_3& x) { return example_lstm::go_on(waves, x, 4); }, normal<float>(seed, 3, 5, 1));
  const example_vae::vae coder{nn::mlp<float, nn::silu>::init(seed, {64, 32, 16}),
                               nn::mlp<float, nn::silu>::init(seed, {8, 32, 64})};
  leaves(
      "vae", [coder](const f32_2& x) { return coder.decode(slice<1>(coder.encode(x), 0, 8)); }, rows(3, 64));
}

TEST_CASE("networks of equations, graphs and tasks") {
  const example_diffusion::denoiser d{nn::mlp<float, nn::silu>::init(seed, {18, 32, 2})};
  leaves(
      "diffusion", [d](const f32_2& x, const f32_2& t) { return d(x, t); }, rows(6, 2), f32_2(abs(rows(6, 1))));
  leaves(
      "graph_network",
      [p = example_graph_network::network::init(seed)](const i64_1& from, const i64_1& to) {
        return p({from, to}, {});
      },
      randint<std::int64_t>(seed, 0, 200, 40), randint<std::int64_t>(make_key(4), 0, 200, 40));
  leaves(
      "maml",
      [p = example_maml::network::init(seed, {1, 8, 8, 1})](const f32_2& x, const f32_2& y) {
        return example_maml::adapted(p, x, y)(x);
      },
      rows(12, 1), rows(12, 1));
  leaves(
      "pinn",
      [p = example_pinn::network::init(seed, {2, 8, 1})](const f32_0& x, const f32_0& t) {
        return example_pinn::residual(p, x, t);
      },
      full<float>(0.3f), full<float>(0.7f));
  leaves(
      "neural_ode",
      [p = example_neural_ode::network::init(seed, {2, 8, 2})](const f32_2& y) {
        return example_neural_ode::model(p, y, 5);
      },
      rows(3, 2));
}
