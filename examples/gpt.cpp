// gpt.cpp: a GPT learns the characters of a text and goes on writing; --load DIR reads GPT-2's published weights; --mesh N trains
// on N ranks: those that a launcher started, else threads.
#include <sinter/io.hpp>
#include <sinter/mesh.hpp>
#include <sinter/mesh_io.hpp>
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

// ---- Training.

/// What all ranks have in common.
struct setting {
  explicit setting(const arguments& given)
      : text(data::read_text(given("text", SINTER_EXAMPLE_DATA "/../../docs/compile.md"))), letters(text) {
    corpus = from_span(letters.encode(text));
    length = given("length", 64), batch = given("batch", 16);
    epoch = std::max(std::int64_t{1}, std::ssize(text) / (batch * length));
    steps = given("steps", epoch * given("epochs", 20));
    sizes_ = {letters.size(), length, given("layers", 4), given("width", 128), given("heads", 4)};
    rate = given("rate", 1e-3);
  }
  auto optimizer() const {
    const auto schedule = optim::warmup_cosine(rate, steps / 20, steps);
    return optim::chain(optim::clip_by_global_norm(1), optim::adamw({.rate = schedule, .weight_decay = 0.1}));
  }
  /// The letters of step i and those behind them, and a key.
  std::tuple<ids, ids, key> batch_at(std::int64_t i) const {
    const auto [ka, kb] = split(fold_in(make_key(2), i));
    const ids at = randint<std::int64_t>(ka, 0, std::ssize(text) - length, batch, 1) + arange<std::int64_t>(length);
    return {take(corpus, at), take(corpus, at + std::int64_t{1}), kb};
  }
  gpt model() const { return make(make_key(1), sizes_); }

  std::string text;
  data::char_tokenizer letters;
  tensor<std::int64_t, 1> corpus;
  std::int64_t length, batch, epoch, steps;
  sizes sizes_;
  double rate;
};

tensor<float, 0> loss_of(const gpt& p, const ids& x, const ids& y, const key& k) {
  return mean(nn::cross_entropy(logits(p, x, nn::dropout{0.1f, k}), y));
}

struct dp : mesh_axis {};

/// Training of one rank, which has all parameters and its rows of each batch. A program without --mesh is the only rank.
int train_rank(const arguments& given, const setting& with) {
  const auto m = make_mesh<dp>({mesh_ranks()});
  const auto opt = with.optimizer();
  using model = placed<gpt, invariant<dp>>;
  using memory = placed<decltype(opt.init(with.model())), invariant<dp>>;
  using rows = placed<ids, shard<dp, 0>>;
  auto step = compile(shard_map(m,
                                [&](model p, memory state, rows x, rows y, placed<key, replicated<dp>> k) {
                                  const auto loss = [](const gpt& q, const ids& a, const ids& b, const key& c) {
                                    return loss_of(q, a, b, fold_in(c, local(axis_index<dp>())));
                                  };
                                  const auto run = [&] { return data_parallel<dp>(loss)(p, x, y, k); };
                                  auto [l, g] = default_device().is_cuda() ? autocast<bf16>(run)() : run();
                                  auto [q, next] = opt.update(local(p), local(g), local(state));
                                  return std::tuple{l, model(q), memory(next)};
                                }),
                      {.donate = {0, 1}, .name = "step"});
  auto now = std::pair{model(with.model()), memory(opt.init(with.model()))};
  auto& [p, state] = now;
  const io::mesh_checkpoints saved(given("save", ""), m);
  const std::int64_t first = given.has("save") ? saved.resume(now).value_or(0) : 0;
  loss_curve losses;
  data::progress_bar bar(with.steps);
  stopwatch clock;
  for (std::int64_t i = first; i < with.steps; ++i) {
    const auto [x, y, k] = with.batch_at(i);
    auto [loss, q, next] = step(std::move(p), std::move(state), x, y, k);
    now = {std::move(q), std::move(next)};
    losses.add(local(loss));
    if (i == first) losses.last(), clock = {};  // the step is compiled
    if ((i + 1) % with.epoch != 0 && i + 1 != with.steps) continue;
    if (mesh_rank() == 0) bar.show(i + 1, words("loss %.4f", losses.last()));
    if (given.has("save")) saved.save(i + 1, now);
  }
  if (mesh_rank() != 0) return 0;
  const double loss = losses.last(10), seen = double((with.steps - first - 1) * with.batch * with.length);
  std::printf("training    %.0f tokens/s, loss %.4f\n", seen / clock.seconds(), loss);
  const auto text = write(local(p), with.letters.encode(given("prompt", "The ")), given);
  std::printf("%s\n", with.letters.decode(text).c_str());
  losses.write(given("svg", "gpt.svg"), "gpt: loss");
  return verdict(given, -loss);
}

int train(const arguments& given) {
  if (given.has("load")) return write_with_gpt2(given, given("load", ""));
  const setting with(given);
  if (!given.has("mesh") || mesh_ranks() > 1) return train_rank(given, with);
  int result = 0;
  on_threads(given("mesh", 1), [&](int rank) {
    const int own = train_rank(given, with);
    if (rank == 0) result = own;
  });
  return result;
}

int main(int argc, char** argv) {
  return run_program(
      argc, argv,
      "[--text FILE] [--steps N] [--batch N] [--length N] [--layers N] [--width N] [--heads N] "
      "[--rate X] [--save DIR] [--load DIR] [--prompt TEXT] [--tokens N] [--temperature X] [--best N] [--mesh RANKS]",
      train);
}
