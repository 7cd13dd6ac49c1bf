// gpt.cpp: a GPT learns the characters of a text and goes on writing; --load DIR reads GPT-2's published weights.
#include <sinter/io.hpp>
#include <sinter/nn.hpp>
#include <sinter/optim.hpp>
#include "support/program.hpp"
using namespace sinter;

// clang-format off
struct block { nn::layer_norm<float> n1, n2; nn::self_attention<float> mix; nn::linear<float> up, down; };
struct gpt { nn::embedding<float> tokens, places; std::vector<block> blocks; nn::layer_norm<float> last; };
using ids = tensor<std::int64_t, 2>;

tensor<float, 3> logits(const gpt& p, const ids& x, nn::dropout drop) {
  tensor<float, 3> h = drop(p.tokens(x) + p.places(arange<std::int64_t>(x.size(1))));
  for (auto& b : p.blocks) {
    h = h + drop(b.mix(b.n1(h), causal));
    h = h + drop(b.down(gelu_tanh(b.up(b.n2(h)))));
  }
  return matmul(p.last(h), transpose(p.tokens.weight));
}
// clang-format on

struct sizes {
  std::int64_t vocabulary, places, layers, width, heads;
};

gpt make(const key& k, const sizes& s) {
  const auto small = nn::normal_of(0.02);
  const auto keys = split(k, 2 + 3 * s.layers);
  gpt p{nn::embedding<float>::init(keys[0], s.vocabulary, s.width, {small}),
        nn::embedding<float>::init(keys[1], s.places, s.width, {small}),
        {},
        nn::layer_norm<float>::init(s.width)};
  for (std::size_t i = 2; i < keys.size(); i += 3)
    p.blocks.push_back({nn::layer_norm<float>::init(s.width), nn::layer_norm<float>::init(s.width),
                        nn::self_attention<float>::init(keys[i], s.width, {.heads = s.heads, .weight = small}),
                        nn::linear<float>::init(keys[i + 1], s.width, 4 * s.width, {.weight = small}),
                        nn::linear<float>::init(keys[i + 2], 4 * s.width, s.width, {.weight = small})});
  return p;
}

// ---- Writing: keys and values of each place are computed once and kept.

using caches = std::vector<attention_cache<float, 4>>;

struct choice_of {
  std::int64_t best = 20;  ///< the next token is one of so many
  nn::constant temperature = 0.8;
};

/// The token behind x, which stands behind what the caches hold; and the caches with x.
std::pair<ids, caches> next_token(const gpt& p, caches c, const ids& x, const key& k, const choice_of& how) {
  tensor<float, 3> h = p.tokens(x) + p.places(arange<std::int64_t>(x.size(1)) + c[0].length);
  for (std::size_t i = 0; i < p.blocks.size(); ++i) {
    const block& b = p.blocks[i];
    tensor<float, 3> y;
    std::tie(y, c[i]) = b.mix(b.n1(h), c[i], causal);
    h = h + y;
    h = h + b.down(gelu_tanh(b.up(b.n2(h))));
  }
  const tensor<float, 2> end = reshape(slice<1>(h, -1), 1, -1);
  const tensor<float, 2> scores = matmul(p.last(end), transpose(p.tokens.weight)) / float(how.temperature);
  const auto [score, token] = topk(scores, how.best);
  return {take_along_axis(token, expand_dims<-1>(categorical(k, score))), std::move(c)};
}

/// What follows a beginning: up to `count` tokens, as there are places.
std::vector<std::int64_t> write(const gpt& p, std::vector<std::int64_t> text, std::int64_t count, const choice_of& how) {
  const auto step = compile(next_token, {.donate = {1}, .name = "write"});
  const std::int64_t most = std::min<std::int64_t>(p.places.weight.size(0), std::ssize(text) + count);
  caches c;
  for (const block& b : p.blocks) c.push_back(b.mix.cache(1, most));
  ids x = from_span(text, 1, std::ssize(text));
  stopwatch clock;
  std::int64_t timed = 0;
  for (std::uint64_t i = 0; std::ssize(text) < most; ++i, ++timed) {
    if (i == 2) clock = {}, timed = 0;  // both lengths of x are compiled
    std::tie(x, c) = step(p, std::move(c), x, fold_in(make_key(3), i), how);
    text.push_back(x.item());
  }
  std::printf("writing     %.0f tokens/s\n", static_cast<double>(timed) / clock.seconds());
  return text;
}

/// A parameter's name in GPT-2's file.
std::string gpt2_name(std::string path) {
  const std::pair<std::string, std::string> names[] = {
      {"tokens.", "wte."},          {"places.", "wpe."},         {"blocks.", "h."},      {".n1.", ".ln_1."},
      {".n2.", ".ln_2."},           {".mix.qkv.", ".attn.c_attn."}, {".mix.out.", ".attn.c_proj."},
      {".up.", ".mlp.c_fc."},       {".down.", ".mlp.c_proj."},  {"last.", "ln_f."}};
  for (const auto& [ours, theirs] : names)
    if (const auto at = path.find(ours); at != path.npos) path.replace(at, ours.size(), theirs);
  return path;
}

int write_with_gpt2(const arguments& given, const std::string& folder) {
  const data::bpe_tokenizer words(folder + "/vocab.json", folder + "/merges.txt");
  gpt p = make(make_key(1), {words.size(), given("length", 1024), given("layers", 12), given("width", 768), given("heads", 12)});
  io::load(folder + "/model.safetensors", p, {.strict = false, .rename = gpt2_name, .numbers = false});
  const auto text = write(p, words.encode(given("prompt", "The tensor compiler")), given("tokens", 100), {40, 0.8});
  std::printf("%s\n", words.decode(text).c_str());
  return 0;
}

int train(const arguments& given) {
  if (given.has("load")) return write_with_gpt2(given, given("load", ""));
  const bool half = default_device().is_cuda();  // products in bf16
  const std::string text = data::read_text(given("text", SINTER_EXAMPLE_DATA "/../../docs/compile.md"));
  const data::char_tokenizer letters(text);
  const tensor<std::int64_t, 1> corpus = from_span(letters.encode(text));
  const std::int64_t length = given("length", 64), batch = given("batch", 16), one = 1;
  const std::int64_t epoch = std::max(one, std::ssize(text) / (batch * length)), steps = given("steps", epoch * given("epochs", 20));

  const auto opt = optim::chain(optim::clip_by_global_norm(1.f), optim::adamw({.rate = optim::warmup_cosine(given("rate", 1e-3), steps / 20, steps), .weight_decay = 0.1f}));
  auto step = compile([&](gpt p, auto state, ids x, ids y, key k) {
    const auto loss = [&](const gpt& p) { return mean(nn::cross_entropy(logits(p, x, nn::dropout{0.1f, k}), y)); };
    const auto run = [&] { return value_and_grad(loss)(p); };
    auto [l, g] = half ? autocast<bf16>(run)() : run();
    auto [q, next] = opt.update(p, g, state);
    return std::tuple{l, q, next};
  }, {.donate = {0, 1}, .name = "step"});

  gpt p = make(make_key(1), {letters.size(), length, given("layers", 4), given("width", 128), given("heads", 4)});
  auto run = std::pair{p, opt.init(p)};
  const io::checkpoints saved(given("save", "gpt_checkpoints"));
  const std::int64_t first = given.has("save") ? saved.resume(run).value_or(0) : 0;
  loss_curve losses;
  data::progress_bar bar(steps);
  stopwatch clock;
  for (std::int64_t i = first; i < steps; ++i) {
    if (i == first + 1) clock = {};  // the step is compiled
    const auto [ka, kb] = split(fold_in(make_key(2), static_cast<std::uint64_t>(i)));
    const ids at = expand_dims<1>(randint<std::int64_t>(ka, 0, std::ssize(text) - length, batch)) + arange<std::int64_t>(length);
    auto [loss, next, state] = step(std::move(run.first), std::move(run.second), take(corpus, at), take(corpus, at + one), kb);
    run = {std::move(next), std::move(state)};
    losses.add(loss);
    if ((i + 1) % epoch != 0 && i + 1 != steps) continue;
    const double seen = static_cast<double>((i - first) * batch * length);
    bar.show(i + 1, words("loss %.4f   %.0f tokens/s", losses.last(), seen / clock.seconds()));
    if (given.has("save")) saved.save(i + 1, run);
  }
  const auto tokens = write(run.first, letters.encode(given("prompt", "The ")), given("tokens", 60), {});
  std::printf("%s\n", letters.decode(tokens).c_str());
  losses.write(given("svg", "gpt.svg"), "gpt: loss");
  return verdict(given, -losses.last());
}

int main(int argc, char** argv) {
  return run_program(argc, argv, "[--text FILE] [--steps N] [--batch N] [--length N] [--layers N] [--width N] [--heads N] [--rate X] "
                     "[--save DIR] [--load DIR] [--prompt TEXT] [--tokens N]", train);
}
