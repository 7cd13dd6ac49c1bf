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

struct sizes { std::int64_t tokens, places, layers, width, heads; };
// clang-format on

gpt make(const key& k, const sizes& s) {
  using norm = nn::layer_norm<float>;
  using linear = nn::linear<float>;
  const nn::embedding_options small{nn::normal_of(0.02)};
  gpt p{nn::embedding<float>::init(fold_in(k, 0), s.tokens, s.width, small),
        nn::embedding<float>::init(fold_in(k, 1), s.places, s.width, small),
        {},
        norm::init(s.width)};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto [a, b, c] = split<3>(fold_in(k, 2 + i));
    const auto mix = nn::self_attention<float>::init(a, s.width, {.heads = s.heads});
    p.blocks.push_back({norm::init(s.width), norm::init(s.width), mix, linear::init(b, s.width, 4 * s.width),
                        linear::init(c, 4 * s.width, s.width)});
  }
  return p;
}

// ---- Writing: keys and values of each place are computed once and kept.

using caches = std::vector<attention_cache<float, 4>>;

/// The token behind x, which stands behind what the caches hold, and the caches with x.
std::pair<ids, caches> next_token(const gpt& p, caches c, const ids& x, const key& k, float temperature,
                                  std::int64_t best) {
  tensor<float, 3> h = p.tokens(x) + p.places(arange<std::int64_t>(x.size(1)) + c[0].length), y;
  for (std::size_t i = 0; i < p.blocks.size(); ++i) {
    const block& b = p.blocks[i];
    std::tie(y, c[i]) = b.mix(b.n1(h), c[i], causal);
    h = h + y;
    h = h + b.down(gelu_tanh(b.up(b.n2(h))));
  }
  const tensor<float, 2> end = reshape(slice<1>(h, -1), 1, -1);
  const auto [score, token] = topk(matmul(p.last(end), transpose(p.tokens.weight)), best);
  return {take_along_axis(token, expand_dims<-1>(categorical(k, score / temperature))), std::move(c)};
}

/// A beginning and what follows it: up to --tokens more, as there are places.
std::vector<std::int64_t> write(const gpt& p, std::vector<std::int64_t> text, const arguments& given) {
  const auto step = compile(next_token, {.donate = {1}, .name = "write"});
  const auto first = std::ssize(text),
             last = std::min(std::int64_t(p.places.weight.size(0)), first + given("tokens", 100));
  caches c;
  for (const block& b : p.blocks) c.push_back(b.mix.cache(1, last));
  ids x = from_span(text, 1, first);
  stopwatch clock;
  for (std::int64_t i = first; i < last; ++i) {
    if (i == first + 2) clock = {};  // both lengths of x are compiled
    std::tie(x, c) = step(p, std::move(c), x, fold_in(make_key(3), i), given("temperature", 0.8f), given("best", 20));
    text.push_back(x.item());
  }
  std::printf("writing     %.0f tokens/s\n", double(last - first - 2) / clock.seconds());
  return text;
}

/// GPT-2 124M: DIR has model.safetensors, vocab.json and merges.txt as published.
int write_with_gpt2(const arguments& given, const std::string& folder) {
  const auto name = [](std::string path) {
    // clang-format off
    for (const auto& [ours, theirs] : std::map<std::string, std::string>{
             {"tokens.", "wte."}, {"places.", "wpe."}, {"blocks.", "h."}, {".n1.", ".ln_1."}, {".n2.", ".ln_2."},
             {".mix.qkv.", ".attn.c_attn."}, {".mix.out.", ".attn.c_proj."}, {".up.", ".mlp.c_fc."},
             {".down.", ".mlp.c_proj."}, {"last.", "ln_f."}})  // clang-format on
      if (const auto at = path.find(ours); at != path.npos) path.replace(at, ours.size(), theirs);
    return path;
  };
  const data::bpe_tokenizer letters(folder + "/vocab.json", folder + "/merges.txt");
  gpt p = make(make_key(1),
               {letters.size(), given("length", 1024), given("layers", 12), given("width", 768), given("heads", 12)});
  io::load(folder + "/model.safetensors", p, {.surplus = true, .rename = name, .numbers = false});
  std::printf("%s\n", letters.decode(write(p, letters.encode(given("prompt", "A compiler is")), given)).c_str());
  return 0;
}

int train(const arguments& given) {
  if (given.has("load")) return write_with_gpt2(given, given("load", ""));
  const std::string text = data::read_text(given("text", SINTER_EXAMPLE_DATA "/../../docs/compile.md"));
  const data::char_tokenizer letters(text);
  const tensor<std::int64_t, 1> corpus = from_span(letters.encode(text));
  const std::int64_t length = given("length", 64), batch = given("batch", 16), one = 1;
  const std::int64_t epoch = std::max(one, std::ssize(text) / (batch * length));
  const std::int64_t steps = given("steps", epoch * given("epochs", 20));

  const auto rate = optim::warmup_cosine(given("rate", 1e-3), steps / 20, steps);
  const auto opt = optim::chain(optim::clip_by_global_norm(1), optim::adamw({.rate = rate, .weight_decay = 0.1}));
  auto step = compile(
      [&](gpt p, auto state, ids x, ids y, key k) {
        const auto loss = [&](const gpt& p) { return mean(nn::cross_entropy(logits(p, x, nn::dropout{0.1f, k}), y)); };
        const auto run = [&] { return value_and_grad(loss)(p); };
        auto [l, g] = default_device().is_cuda() ? autocast<bf16>(run)() : run();
        auto [q, next] = opt.update(p, g, state);
        return std::tuple{l, q, next};
      },
      {.donate = {0, 1}, .name = "step"});

  gpt p = make(make_key(1), {letters.size(), length, given("layers", 4), given("width", 128), given("heads", 4)});
  auto state = opt.init(p);
  auto run = std::pair{std::move(p), std::move(state)};
  const io::checkpoints saved(given("save", ""));
  const std::int64_t first = given.has("save") ? saved.resume(run).value_or(0) : 0;
  loss_curve losses;
  data::progress_bar bar(steps);
  stopwatch clock;
  for (std::int64_t i = first; i < steps; ++i) {
    const auto [ka, kb] = split(fold_in(make_key(2), i));
    const ids at = randint<std::int64_t>(ka, 0, std::ssize(text) - length, batch, 1) + arange<std::int64_t>(length);
    auto [loss, p, s] = step(std::move(run.first), std::move(run.second), take(corpus, at), take(corpus, at + one), kb);
    run = {std::move(p), std::move(s)};
    losses.add(loss);
    if (i == first) losses.last(), clock = {};  // the step is compiled
    if ((i + 1) % epoch != 0 && i + 1 != steps) continue;
    bar.show(i + 1, words("loss %.4f", losses.last()));
    if (given.has("save")) saved.save(i + 1, run);
  }
  const double loss = losses.last(10), seen = double((steps - first - 1) * batch * length);
  std::printf("training    %.0f tokens/s, loss %.4f\n", seen / clock.seconds(), loss);
  std::printf("%s\n", letters.decode(write(run.first, letters.encode(given("prompt", "The ")), given)).c_str());
  losses.write(given("svg", "gpt.svg"), "gpt: loss");
  return verdict(given, -loss);
}

int main(int argc, char** argv) {
  return run_program(argc, argv,
                     "[--text FILE] [--steps N] [--batch N] [--length N] [--layers N] [--width N] [--heads N] "
                     "[--rate X] [--save DIR] [--load DIR] [--prompt TEXT] [--tokens N] [--temperature X] [--best N]",
                     train);
}
