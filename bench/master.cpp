// optim::master<bf16> beside AdamW in f32: a GPT, as in examples/gpt.cpp, learns the characters of a text.
//
//   master [--text FILE] [--steps N] [--seeds N] [--layers N] [--width N] [--batch N] [--length N] [--device cpu|cuda]
//
// Prints the mean loss of the last tenth of the steps for each seed, once in f32 and once with bf16 parameters. The seeds of f32 tell the
// spread; with bf16 the mean of the seeds lies within it, else the program returns 1.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <sinter/sinter.hpp>

#include <sinter/data.hpp>
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>

using namespace sinter;

namespace {

template <class T>
struct block {
  nn::layer_norm<T> n1, n2;
  nn::self_attention<T> mix;
  nn::linear<T> up, down;
};
template <class T>
struct gpt {
  nn::embedding<T> tokens, places;
  std::vector<block<T>> blocks;
  nn::layer_norm<T> last;
};
using ids = tensor<std::int64_t, 2>;

template <class T>
f32_0 loss(const gpt<T>& given, const ids& x, const ids& y) {
  const gpt<float> p = cast_tree<float>(given);
  f32_3 h = p.tokens(x) + p.places(arange<std::int64_t>(x.size(1)));
  for (const auto& b : p.blocks) {
    h = h + b.mix(b.n1(h), causal);
    h = h + b.down(gelu_tanh(b.up(b.n2(h))));
  }
  return mean(nn::cross_entropy(matmul(p.last(h), transpose(p.tokens.weight)), y));
}

struct settings {
  std::string text = "docs/compile.md", device = "cpu";
  std::int64_t steps = 500, seeds = 3, layers = 2, width = 64, heads = 4, batch = 16, length = 64;
};

gpt<float> make(const key& k, std::int64_t letters, const settings& s) {
  const nn::embedding_options small{nn::normal_of(0.02)};
  gpt<float> p{nn::embedding<float>::init(fold_in(k, 0), letters, s.width, small),
               nn::embedding<float>::init(fold_in(k, 1), s.length, s.width, small),
               {},
               nn::layer_norm<float>::init(s.width)};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto [a, b, c] = split<3>(fold_in(k, 2 + i));
    p.blocks.push_back({nn::layer_norm<float>::init(s.width), nn::layer_norm<float>::init(s.width),
                        nn::self_attention<float>::init(a, s.width, {.heads = s.heads}),
                        nn::linear<float>::init(b, s.width, 4 * s.width),
                        nn::linear<float>::init(c, 4 * s.width, s.width)});
  }
  return p;
}

/// The mean loss of the last tenth of the steps.
template <class P, class Opt, class State>
double trained(const Opt& opt, P p, State state, const tensor<std::int64_t, 1>& corpus, std::int64_t seed,
               const settings& s) {
  using T = typename decltype(p.tokens.weight)::value_type;
  const auto step = compile(autocast<bf16>(optim::train_step(opt, loss<T>)), {.donate = {0, 1}});
  std::vector<f32_0> losses;
  f32_0 l;
  const std::int64_t last = std::int64_t(corpus.size(0)) - s.length;
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const ids at =
        randint<std::int64_t>(fold_in(make_key(1000 + seed), i), 0, last, s.batch, 1) + arange<std::int64_t>(s.length);
    std::tie(l, p, state) = step(std::move(p), std::move(state), ids(take(corpus, at)), ids(take(corpus, at + 1)));
    losses.push_back(l);
  }
  double sum = 0;
  const auto tenth = std::max<std::size_t>(losses.size() / 10, 1);
  for (std::size_t i = losses.size() - tenth; i < losses.size(); ++i) sum += double(losses[i].item());
  return sum / static_cast<double>(tenth);
}

settings parse(int argc, char** argv) {
  settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--text") s.text = value;
    else if (name == "--device") s.device = value;
    else if (name == "--steps") s.steps = std::stol(value);
    else if (name == "--seeds") s.seeds = std::stol(value);
    else if (name == "--layers") s.layers = std::stol(value);
    else if (name == "--width") s.width = std::stol(value);
    else if (name == "--batch") s.batch = std::stol(value);
    else if (name == "--length") s.length = std::stol(value);
    else std::fprintf(stderr, "master: what is %s?\n", name.c_str()), std::exit(2);
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  const settings s = parse(argc, argv);
  if (s.device == "cuda") {
    if (device_count() == 0) return std::printf("no GPU: nothing to measure\n"), 0;
    set_default_device(device::cuda(0));
  }
  const std::string text = data::read_text(s.text);
  const data::char_tokenizer letters(text);
  const tensor<std::int64_t, 1> corpus = from_span(letters.encode(text));
  const optim::adamw of({.rate = optim::warmup_cosine(1e-3, s.steps / 20, s.steps), .weight_decay = 0.1});
  std::vector<double> wide, narrow;
  for (std::int64_t seed = 1; seed <= s.seeds; ++seed) {
    const gpt<float> p = make(make_key(seed), letters.size(), s);
    const auto opt = optim::master<bf16>(of, make_key(seed));
    const auto state = opt.init(p);
    narrow.push_back(trained(opt, opt.parameters(state), state, corpus, seed, s));
    wide.push_back(trained(of, p, of.init(p), corpus, seed, s));
    std::printf("seed %ld: f32 %.4f, master<bf16> %.4f\n", long(seed), wide.back(), narrow.back());
    std::fflush(stdout);
  }
  const auto [least, most] = std::minmax_element(wide.begin(), wide.end());
  double mean = 0;
  for (const double x : narrow) mean += x / static_cast<double>(narrow.size());
  const bool within = mean >= *least && mean <= *most;
  std::printf("mean of master<bf16> %.4f is %s [%.4f, %.4f]\n", mean, within ? "within" : "outside", *least, *most);
  return within ? 0 : 1;
}
