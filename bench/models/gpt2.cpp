// bench/models/gpt2.cpp: rows of GPT-2: forward, and steps of training in f32 and with products in bf16, by several optimizers.
#include "gpt2.hpp"

#include <sinter/optim.hpp>

namespace models {
namespace {

gpt2::network network_for(const settings& s) {
  const gpt2::configuration few{.vocabulary = 97, .positions = 32, .width = 32, .heads = 4};
  return gpt2::make_network(s.small ? few : gpt2::configuration{}, s.layers_or(12, 2));
}

ids text_for(const settings& s, std::uint64_t seed) {
  return randint<std::int64_t>(make_key(seed), 0, s.small ? 97 : 50257, s.batch_or(1, 2), s.length_or(64, 12));
}

workload forward(const settings& s) {
  return called(
      s, "gpt2_forward", [](const gpt2::network& net, const ids& text) { return gpt2::logits(net, text); },
      network_for(s), text_for(s, 2));
}

workload train(const settings& s) {
  return descended(s, "gpt2_train", &gpt2::loss, network_for(s), text_for(s, 2), text_for(s, 3));
}

workload train_bf16(const settings& s) {
  return trained(s, "gpt2_train_bf16", autocast<bf16>(step_of(&gpt2::loss)), start(network_for(s)), text_for(s, 2),
                 text_for(s, 3));
}

/// A step of an optimizer of the library.
template <class Optimizer>
workload trained_by(const settings& s, const char* name, const Optimizer& opt) {
  const gpt2::network net = network_for(s);
  const auto step = [inner = optim::train_step(opt, &gpt2::loss)](const auto& state, const ids& text, const ids& next) {
    auto [loss, p, after] = inner(state.first, state.second, text, next);
    return std::pair{loss, std::pair{p, after}};
  };
  return trained(s, name, autocast<bf16>(step), std::pair{net, opt.init(net)}, text_for(s, 2), text_for(s, 3));
}

workload adamw_bf16(const settings& s) { return trained_by(s, "gpt2_adamw_bf16", optim::adamw({.rate = 1e-3})); }
workload clip_bf16(const settings& s) {
  return trained_by(s, "gpt2_clip_bf16", optim::chain(optim::clip_by_global_norm(1), optim::adamw({.rate = 1e-3})));
}

}  // namespace

std::vector<row> gpt2_rows() {
  return {{"gpt2_forward", false, 1e-4f, forward},
          {"gpt2_train", true, 1e-4f, train},
          {"gpt2_train_bf16", true, 2e-2f, train_bf16},
          {"gpt2_adamw_bf16", true, 2e-2f, adamw_bf16},
          {"gpt2_clip_bf16", true, 2e-2f, clip_bf16}};
}

}  // namespace models
