// Writing: several texts of different lengths against loops over plain numbers, with caches that grow; sampled tokens; maps of integer blocks.
#include <sinter/sinter.hpp>

#include <sinter/models.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "../close.hpp"
#include "plain.hpp"

using namespace sinter;
using models::token_list;

namespace {

using map = models::stored_linear<double>;
using gpt2 = models::gpt2::model<double, map>;
using llama = models::llama::model<double, map>;

const std::string plain_llama = llama_config(R"("rope_theta": 100, "tie_word_embeddings": true)");

ids row_of(const token_list& tokens) { return from_span(tokens, 1, static_cast<std::int64_t>(tokens.size())); }
/// The scores behind a text's last token.
doubles next_scores(const published& p, bool is_gpt2, const token_list& text) {
  const ids x = row_of(text);
  const doubles all = is_gpt2 ? gpt2_logits(p, "", x)
                              : mapped(llama_hidden(p, x, {1, 0.1}), p.get("model.embed_tokens.weight"), {}, 12);
  return doubles(all.end() - (is_gpt2 ? 11 : 9), all.end());
}
std::int64_t largest(const doubles& x) { return std::max_element(x.begin(), x.end()) - x.begin(); }
/// What follows a text, the most probable token each time.
token_list followed(const published& p, bool is_gpt2, token_list text, std::size_t count) {
  token_list out;
  for (; out.size() < count; text.push_back(out.back())) out.push_back(largest(next_scores(p, is_gpt2, text)));
  return out;
}

/// Three prompts, padded in front, then two more tokens each, one at a time; f(m, ids, caches, starts) gives scores and caches.
template <class Model>
void check_padded(const Model& m, const published& p, bool is_gpt2) {
  const std::vector<token_list> prompts{{1, 7, 3, 0, 5}, {4}, {2, 8, 8}};
  ids rows{{1, 7, 3, 0, 5}, {0, 0, 0, 0, 4}, {0, 0, 2, 8, 8}};
  const tensor<std::int64_t, 1> starts{0, 4, 2};
  auto c = room(m, 3, 8);
  auto texts = prompts;
  for (int step = 0; step < 3; ++step) {
    auto [h, next] = hidden(m, rows, c, starts);
    c = next;
    const tensor<double, 3> y = scores(m, tensor<double, 3>(slice<1>(h, -1)));
    const auto got = y.to_vector();
    doubles want;
    token_list more;
    for (auto& text : texts) {
      const doubles one = next_scores(p, is_gpt2, text);
      want.insert(want.end(), one.begin(), one.end());
      more.push_back((static_cast<std::int64_t>(text.size()) * 3 + step) % 9);
      text.push_back(more.back());
    }
    check_close(got, want, 1e-9);
    rows = from_span(more, 3, 1);
  }
}

template <class Model>
void check_writing(const Model& m, const published& p, bool is_gpt2) {
  const std::vector<token_list> prompts{{1, 7, 3}, {4}, {2, 8}};
  models::writer w(m);
  const std::size_t count = is_gpt2 ? 4 : 12;
  const auto got = w.write(prompts, {.most = static_cast<std::int64_t>(count)});
  REQUIRE(got.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(got[i] == followed(p, is_gpt2, prompts[i], count));
}

// ---- Integer blocks, from their definition.

/// The weights (outputs, inputs) that are left of some.
doubles rounded(const doubles& w, std::size_t inputs, int bits) {
  doubles out;
  const float most = bits == 8 ? 127 : 7;
  for (std::size_t row = 0; row < w.size(); row += inputs)
    for (std::size_t first = 0; first < inputs; first += 32) {
      float largest = 0;
      const std::size_t last = std::min(inputs, first + 32);
      for (std::size_t i = first; i < last; ++i) largest = std::max(largest, std::abs(static_cast<float>(w[row + i])));
      const auto scale = static_cast<float>(bf16(largest / most));
      for (std::size_t i = first; i < last; ++i) {
        const float q = scale == 0 ? 0 : std::nearbyint(static_cast<float>(w[row + i]) / scale);
        out.push_back(static_cast<double>(std::min(std::max(q, -most), most)) * static_cast<double>(scale));
      }
    }
  return out;
}
map packed(const tensor<double, 2>& w, int bits) {
  const std::int64_t outputs = w.size(0), inputs = w.size(1), count = (inputs + 31) / 32;
  const tensor<float, 2> small = cast<float>(w);
  std::vector<std::uint8_t> words(static_cast<std::size_t>(outputs * count * 32 * bits / 8));
  std::vector<bf16> scales(static_cast<std::size_t>(outputs * count));
  const auto rows = small.to_vector();
  models::detail::pack_rows(rows, inputs, bits, words.data(), scales.data());
  return {
      std::nullopt,
      models::blocks{from_span(words, outputs, count, 32 * bits / 8), from_span(scales, outputs, count), inputs, bits},
      std::nullopt};
}

}  // namespace

TEST_CASE("several texts of different lengths, with caches, are those of one text at a time") {
  const published p = gpt2_of("");
  p.write(gpt2_config);
  const auto g = models::gpt2::load<double, map>(p.folder);
  check_padded(g, p, true);
  check_writing(g, p, true);
  published q = llama_of(false);
  q.write(plain_llama);
  const auto l = models::llama::load<double, map>(q.folder);
  check_padded(l, q, false);
  check_writing(l, q, false);
}

TEST_CASE("a writer compiles twice for all lengths, and a step writes into its caches") {
  published p = llama_of(false);
  p.write(plain_llama);
  models::writer w(models::llama::load<double, map>(p.folder));
  const token_list prompt{1, 7, 3, 0, 5};
  const token_list first = w.write({prompt}, {.most = 150})[0];
  CHECK(first.size() == 150);
  CHECK(token_list(first.begin(), first.begin() + 8) == followed(p, false, prompt, 8));
  token_list late = prompt;
  late.insert(late.end(), first.begin(), first.begin() + 140);
  CHECK(token_list(first.begin() + 140, first.begin() + 143) == followed(p, false, late, 3));
  CHECK(w.places() == 154);
  CHECK(w.specialisations() == 2);
  for (const std::size_t n : {2, 9, 64, 70, 130}) {
    token_list longer;
    for (std::size_t i = 0; i < n; ++i) longer.push_back(static_cast<std::int64_t>(i * 5 % 9));
    CHECK(w.write({longer}, {.most = 2})[0] == followed(p, false, longer, 2));
  }
  CHECK(w.specialisations() == 2);

  // The caches of one step are the memory of the next.
  w.write({prompt}, {.most = 1});
  const void* const before = w.held()[1].k.data();
  w.write_on({2, 2}, {.most = 9});
  CHECK(w.held()[1].k.data() == before);
  CHECK(w.specialisations() == 2);
}

TEST_CASE("writing on, ends, what sees tokens, and the places of a model") {
  published p = gpt2_of("");
  p.matrix("wpe.weight", 40, 12);
  std::string config = gpt2_config;
  config.replace(config.find("\"n_positions\": 7"), 16, "\"n_positions\": 40");
  p.write(config);
  const auto m = models::gpt2::load<double, map>(p.folder);
  models::writer w(m);
  const token_list prompt{1, 7, 3}, said_first = followed(p, true, prompt, 6);
  CHECK(w.write({prompt}, {.most = 6})[0] == said_first);
  token_list all = prompt;
  all.insert(all.end(), said_first.begin(), said_first.end());
  for (const std::int64_t t : {5, 0, 10}) all.push_back(t);
  CHECK(w.write_on({5, 0, 10}, {.most = 4}) == followed(p, true, all, 4));

  // A text without its end; the other goes on.
  const token_list other{9, 9}, other_said = followed(p, true, other, 6);
  const std::int64_t end = said_first[3];
  const auto cut = [&](const token_list& x) { return token_list(x.begin(), std::find(x.begin(), x.end(), end)); };
  const auto both = w.write({prompt, other}, {.most = 6, .ends = {end}});
  CHECK(both[0] == cut(said_first));
  CHECK(both[1] == cut(other_said));
  std::vector<std::pair<std::size_t, std::int64_t>> seen;
  const auto stopped = w.write({prompt, other}, {.most = 6, .see = [&](std::size_t which, std::int64_t token) {
                                                   seen.emplace_back(which, token);
                                                   return which == 1 || seen.size() < 4;
                                                 }});
  CHECK(stopped[0].size() == 3);
  CHECK(stopped[1] == other_said);
  CHECK(seen.size() == 9);
  CHECK(seen[0] == std::pair<std::size_t, std::int64_t>(0, said_first[0]));

  CHECK(w.write({token_list(38, 4)}, {.most = 100})[0].size() == 3);
  CHECK(w.write({prompt}, {.most = 0})[0].empty());
  token_list behind = prompt;
  behind.push_back(4);
  CHECK(w.write_on({4}, {.most = 2}) == followed(p, true, behind, 2));
  w.write({prompt}, {.most = 0});
  CHECK(w.write_on({4}, {.most = 0}).empty());
  behind.push_back(6);
  CHECK(w.write_on({6}, {.most = 2}) == followed(p, true, behind, 2));
  w.write({prompt, other}, {.most = 0});
  check_said(said([&] { w.write_on({1}); }), "the last prompts were several; write begins new texts");
  check_said(said([&] { w.write({token_list(40, 4)}); }), "prompt 0 has 40 tokens, and the model has places for 40");
  check_said(said([&] { w.write({}); }), "there are no prompts");
  check_said(said([&] { w.write({{1}, {}}); }), "prompt 1 has no tokens");
  w.write({prompt, other}, {.most = 1});
  check_said(said([&] { w.write_on({1}); }), "the last prompts were several; write begins new texts");
  // A mistake before a step changes nothing; a token that sees an error is written.
  const token_list begun = w.write({prompt}, {.most = 2})[0];
  check_said(said([&] { w.write_on({5}, {.choose = {.top_k = -1}}); }), "top_k is -1");
  check_said(said([&] {
               w.write_on({5}, {.see = [](std::size_t, std::int64_t) -> bool { throw std::runtime_error("seen"); }});
             }),
             "seen");
  token_list whole = prompt;
  whole.insert(whole.end(), begun.begin(), begun.end());
  whole.push_back(5);
  whole.push_back(followed(p, true, whole, 1)[0]);
  whole.push_back(2);
  CHECK(w.write_on({2}, {.most = 1}) == followed(p, true, whole, 1));
  check_said(said([&] { w.write({prompt}, {.choose = {.temperature = -1}}); }), "the temperature is -1");
  check_said(said([&] { w.write({prompt}, {.choose = {.temperature = 1, .top_k = -2}}); }), "top_k is -2");
  check_said(said([&] { w.write({prompt}, {.choose = {.temperature = 1, .top_p = 0}}); }), "top_p is 0");
}

TEST_CASE("sampled tokens: candidates exactly, frequencies by chi-square, and keys that repeat") {
  const tensor<double, 2> x{{0.5, 2, -1, 2, 0.1, 1.5, -0.3}, {3, -2, 0, 0.2, 0.2, -5, 1}};
  const auto flat = x.to_vector();
  for (const double warmth : {0.5, 1.0, 2.5})
    for (const std::int64_t k : {0, 1, 3, 7, 50})
      for (const double p : {1.0, 0.9, 0.5, 0.05}) {
        const models::sampling how{warmth, k, p};
        const auto [values, tokens] = models::candidates(x, how);
        const auto v = values.to_vector();
        const auto t = tokens.to_vector();
        const auto kept = static_cast<std::size_t>(tokens.size(1));
        CHECK(kept == static_cast<std::size_t>(k == 0 || k > 7 ? 7 : k));
        for (std::size_t row = 0; row < 2; ++row) {
          std::vector<std::pair<double, std::int64_t>> order;
          for (std::int64_t i = 0; i < 7; ++i) order.emplace_back(-flat[row * 7 + static_cast<std::size_t>(i)], i);
          std::stable_sort(order.begin(), order.end());
          double total = 0, sum = 0;
          for (std::size_t i = 0; i < kept; ++i) total += std::exp(-order[i].first / warmth);
          for (std::size_t i = 0; i < kept; ++i) {
            CHECK(t[row * kept + i] == order[i].second);
            const bool in = i == 0 || p == 1 || sum / total < p - 1e-6;
            CHECK(std::isfinite(v[row * kept + i]) == in);
            if (in) CHECK(v[row * kept + i] == doctest::Approx((order[0].first - order[i].first) / warmth));
            sum += std::exp(-order[i].first / warmth);
          }
        }
      }

  const auto drawn = compile(
      [](const tensor<double, 2>& x, const key& k, const models::sampling& how) { return models::sampled(x, k, how); });
  const std::int64_t many = 4000;
  const tensor<double, 2> rows = broadcast_to(slice<0>(x, 0, 1), std::array<std::int64_t, 2>{many, 7});
  struct setting {
    models::sampling how;
    std::vector<std::int64_t> tokens;
  };
  for (const setting& s :
       {setting{{.temperature = 1}, {0, 1, 2, 3, 4, 5, 6}}, setting{{.temperature = 2, .top_k = 3}, {1, 3, 5}},
        setting{{.temperature = 1, .top_p = 0.6}, {1, 3}}}) {
    std::vector<double> seen(7);
    for (const std::int64_t t : drawn(rows, make_key(5), s.how).to_vector()) ++seen[static_cast<std::size_t>(t)];
    double total = 0, square = 0, inside = 0;
    const double warmth = s.how.temperature;
    for (const auto t : s.tokens) total += std::exp(flat[static_cast<std::size_t>(t)] / warmth);
    for (const auto t : s.tokens) {
      const double want = static_cast<double>(many) * std::exp(flat[static_cast<std::size_t>(t)] / warmth) / total;
      square += (seen[static_cast<std::size_t>(t)] - want) * (seen[static_cast<std::size_t>(t)] - want) / want;
      inside += seen[static_cast<std::size_t>(t)];
    }
    CHECK(inside == static_cast<double>(many));
    CHECK(square < 22.5);  // 6 degrees of freedom exceed it once in a thousand keys
    CHECK(drawn(rows, make_key(5), s.how).to_vector() == models::sampled(rows, make_key(5), s.how).to_vector());
    CHECK(drawn(rows, make_key(5), s.how).to_vector() != drawn(rows, make_key(6), s.how).to_vector());
  }
  CHECK(drawn(x, make_key(1), models::sampling{}).to_vector() == token_list{1, 0});
}

TEST_CASE("temperatures of any size, scores of any size") {
  const double inf = std::numeric_limits<double>::infinity();
  const tensor<double, 2> x{{0.5, 2, -1, 1.5}, {3e300, -2, 2e300, 1e300}, {-inf, 5, 4, -inf}, {-3e38, -3.1e38, 1, inf}};
  const token_list largest{1, 0, 1, 3};
  for (const double warmth : {1e-300, 1e-46, 1e-40, 1.2e-38, 1e-30, 1e-10})
    for (const std::int64_t k : {0, 3})
      for (const double p : {1.0, 0.9}) {
        const models::sampling how{warmth, k, p};
        CHECK(models::sampled(x, make_key(3), how).to_vector() == largest);
        CHECK(models::sampled(tensor<float, 2>(cast<float>(slice<0>(x, 0, 1))), make_key(3), how).to_vector() ==
              token_list{1});
      }
  // A single token: its probability is 1 at any temperature.
  CHECK(models::sampled(tensor<double, 2>{{-inf, -7, -inf}}, make_key(1), {.temperature = 1e300}).to_vector() ==
        token_list{1});
  CHECK(models::candidates(x, {.temperature = 1e-20}).first.to_vector()[0] == 0);
}

TEST_CASE(
    "maps of integer blocks against the weights that they stand for: rows few and many, odd sizes, tiles, nothing") {
  const auto f = compile([](const map& m, const tensor<double, 2>& x) { return m(x); });
  const auto g = compile([](const map& m, const tensor<double, 3>& x) { return m(x); });
  struct sizes {
    std::int64_t rows, inputs, outputs;
  };
  for (const int bits : {4, 8})
    for (const sizes s : {sizes{1, 32, 5}, sizes{3, 45, 7}, sizes{9, 1, 3}, sizes{6, 100, 1}, sizes{2, 64, 33},
                          sizes{0, 40, 4}, sizes{7, 9000, 70}, sizes{5, 3, 0}}) {
      INFO(bits, " bits, ", s.rows, " x ", s.inputs, " x ", s.outputs);
      tensor<double, 2> w = normal<double>(make_key(s.inputs), s.outputs, s.inputs);
      const tensor<double, 2> x = normal<double>(make_key(7), s.rows, s.inputs);
      map m = packed(w, bits);
      m.bias = normal<double>(make_key(8), s.outputs);
      const doubles left = rounded(w.to_vector(), static_cast<std::size_t>(s.inputs), bits);
      if (s.outputs > 0)
        check_close(
            models::detail::unpacked<double>(m.packed->words, m.packed->scales, s.inputs, bits, location::current())
                .to_vector(),
            left, 0);
      const doubles want = s.rows == 0 || s.outputs == 0
                               ? doubles()
                               : mapped(x.to_vector(), left, m.bias->to_vector(), static_cast<std::size_t>(s.inputs));
      check_close(m(x).to_vector(), want, 1e-9);
      check_close(f(m, x).to_vector(), want, 1e-9);
      if (s.rows == 6) check_close(g(m, tensor<double, 3>(reshape(x, 2, 3, s.inputs))).to_vector(), want, 1e-9);
    }
  map m = packed(tensor<double, 2>{{1, -2, 0}, {0, 0, 0}}, 4);
  CHECK(m(tensor<double, 2>{{1, 1, 1}}).to_vector()[1] == 0);
  check_said(said([&] { m(tensor<double, 2>{{1, 1}}); }), "x has 2 features, the map takes 3");
  check_said(said([] { map()(tensor<double, 2>{{1, 1}}); }), "neither a weight nor blocks");
  check_said(said([] { models::map_outputs(map(), location::current()); }), "neither a weight nor blocks");
  check_said(said([] { models::map_device(map(), location::current()); }), "neither a weight nor blocks");
  m = packed(tensor<double, 2>{{1, INFINITY}, {1, 2}}, 8);
  const auto y = m(tensor<double, 2>{{1, 1}}).to_vector();
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == doctest::Approx(3).epsilon(0.01));
}

/// A model whose caches cannot be had at times.
struct scarce {
  gpt2 inner;
};
bool no_caches = false;
auto hidden(const scarce& m, const ids& x, models::gpt2::caches<double> c, const tensor<std::int64_t, 1>& starts) {
  return models::gpt2::hidden(m.inner, x, std::move(c), starts);
}
tensor<double, 3> scores(const scarce& m, const tensor<double, 3>& h) { return models::gpt2::scores(m.inner, h); }
std::int64_t max_places(const scarce& m) { return models::gpt2::max_places(m.inner); }
models::gpt2::caches<double> room(const scarce& m, std::int64_t batch, std::int64_t places) {
  if (no_caches) throw std::runtime_error("no caches");
  return models::gpt2::room(m.inner, batch, places);
}

TEST_CASE("after an error without caches a writer has no texts, and begins anew") {
  const published p = gpt2_of("");
  p.write(gpt2_config);
  models::writer w(scarce{models::gpt2::load<double, map>(p.folder)});
  const token_list prompt{1, 7, 3};
  for (int i = 0; i < 2; ++i) {
    CHECK(w.write({prompt}, {.most = 2})[0] == followed(p, true, prompt, 2));
    no_caches = true;
    check_said(said([&] { w.write({prompt}, {.most = 2}); }), "no caches");
    CHECK(w.places() == 0);
    CHECK(w.held().empty());
    check_said(said([&] { w.write_on({5}, {.most = 2}); }), "no caches");
    no_caches = false;
    CHECK(w.write_on({5}, {.most = 2}) == followed(p, true, {5}, 2));
  }
}

TEST_CASE("models of integer blocks are the models of the weights that the blocks stand for") {
  for (const int bits : {4, 8}) {
    const models::load_options how{.weights = bits == 4 ? models::weights::int4 : models::weights::int8};
    published p = llama_of(false);
    p.write(plain_llama);
    const auto l = models::llama::load<double, map>(p.folder, how);
    // The embedding's rows stay; the head is made of blocks of them.
    const auto embedding = p.matrices.at("model.embed_tokens.weight");
    for (auto& [name, w] : p.matrices)
      if (name != "model.embed_tokens.weight")
        w = from_span(rounded(w.to_vector(), static_cast<std::size_t>(w.size(1)), bits), w.size(0), w.size(1));
    const ids x{{1, 8, 3, 0}, {4, 4, 2, 7}};
    check_close(flatten(models::llama::logits(l, x)).to_vector(),
                mapped(llama_hidden(p, x, {1, 0.1}), rounded(embedding.to_vector(), 12, bits), {}, 12), 1e-9);
    models::writer w(l);
    CHECK(w.write({{1, 2, 3}, {4}}, {.most = 3}).size() == 2);
    CHECK(w.write({{1, 2, 3, 4, 5, 6}, {4}}, {.most = 3}).size() == 2);
    // Products of up to four rows are another function: prompts of up to four tokens have a specialisation of their own.
    models::writer one(l);
    const std::pair<token_list, std::size_t> lengths[] = {
        {{1, 2, 3, 4, 5, 6}, 2}, {{8, 0, 3, 3, 1}, 2}, {{5, 2}, 3}, {{1, 7, 3, 0}, 3}, {{4, 2, 4, 2, 4}, 3}};
    for (const auto& length : lengths) {
      token_list text = length.first;
      const token_list got = one.write({text}, {.most = 3})[0];
      CHECK(one.specialisations() == length.second);
      for (const std::int64_t token : got) {
        const doubles want =
            mapped(llama_hidden(p, row_of(text), {1, 0.1}), rounded(embedding.to_vector(), 12, bits), {}, 12);
        CHECK(token == largest(doubles(want.end() - 9, want.end())));
        text.push_back(token);
      }
    }

    published q = gpt2_of("");
    q.write(gpt2_config);
    const auto g = models::gpt2::load<double, map>(q.folder, how);
    const auto table = q.matrices.at("wte.weight");
    for (auto& [name, w] : q.matrices)
      if (name != "wte.weight" && name != "wpe.weight") {
        const tensor<double, 2> turned = transpose(w);
        w = transpose(tensor<double, 2>(
            from_span(rounded(turned.to_vector(), static_cast<std::size_t>(w.size(0)), bits), w.size(1), w.size(0))));
      }
    const ids y{{1, 10, 3, 0, 7}};
    const doubles head = rounded(table.to_vector(), 12, bits);
    q.matrices["head"] = from_span(head, 11, 12);
    check_close(flatten(models::gpt2::logits(g, y)).to_vector(), gpt2_logits(q, "", y, "head"), 1e-9);
  }
  published p = llama_of(true);
  p.write(llama_config("\"rope_theta\": 100"));
  check_said(said([&] { models::llama::load<double>(p.folder, {.weights = models::weights::int4}); }),
             "weights of integers need maps that hold them; load<T, models::stored_linear<T>>");
}

TEST_CASE("damaged files of weights are errors in words") {
  published p = llama_of(true);
  p.write(llama_config("\"rope_theta\": 100"));
  const std::string path = p.folder + "/model.safetensors";
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (std::size_t n = 0; n < whole.size(); n += whole.size() / 23) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << whole.substr(0, n);
    CHECK_THROWS_AS((models::llama::load<double, map>(p.folder)), error);
  }
  std::string huge = whole;
  for (int i = 0; i < 8; ++i) huge[static_cast<std::size_t>(i)] = '\x7f';
  std::ofstream(path, std::ios::binary | std::ios::trunc) << huge;
  CHECK_THROWS_AS((models::llama::load<double, map>(p.folder)), error);
}
