// Decoding by a model of Llama's kind, one text: microseconds of a token, the bytes that a step has to read, and the share of a copy's
// bandwidth, for weights as bf16, int8 and int4. Weights are drawn; their shapes are those of Llama 3.2 1B, or with --small of an eighth.
//
//   decode [--device cpu|cuda] [--small] [--layers N] [--places N]
//
// --places: the tokens in the caches, which have room for as many again.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <sinter/models.hpp>

using namespace sinter;
namespace llama = models::llama;

namespace {

struct shape_of_model {
  std::int64_t width = 2048, hidden = 8192, heads = 32, keys = 8, tokens = 128256, layers = 16, places = 1024;
};

/// A map's weights in `bits` bits: 16, 8 or 4.
models::stored_linear<bf16> map_of(std::uint64_t seed, std::int64_t in, std::int64_t out, std::int64_t bits) {
  models::stored_linear<bf16> m;
  const tensor<float, 2> x = normal<float>(make_key(seed), bits == 16 ? in : out, bits == 16 ? out : (in + 31) / 32);
  if (bits == 16) {
    m.weight = tensor<bf16, 2>(cast<bf16>(x * 0.02f));
    return m;
  }
  const tensor<float, 3> words = uniform<float>(make_key(seed + 1), out, (in + 31) / 32, 4 * bits);
  m.packed = models::blocks{tensor<std::uint8_t, 3>(cast<std::uint8_t>(words * 256.0f)),
                            tensor<bf16, 2>(cast<bf16>(x * 0.002f)), in, bits};
  return m;
}

using model = llama::model<bf16, models::stored_linear<bf16>>;

model drawn_model(const shape_of_model& s, std::int64_t bits) {
  const std::int64_t each = s.width / s.heads;
  const auto norm = [&] { return nn::rms_norm<bf16>{tensor<bf16, 1>(ones<bf16>(s.width)), 1e-5}; };
  std::uint64_t seed = 1;
  const auto map = [&](std::int64_t in, std::int64_t out) { return map_of(seed += 2, in, out, bits); };
  model m;
  m.embed_tokens.weight = tensor<bf16, 2>(cast<bf16>(normal<float>(make_key(1), s.tokens, s.width) * 0.02f));
  m.norm = norm();
  m.lm_head = map(s.width, s.tokens);
  for (std::int64_t i = 0; i < s.layers; ++i)
    m.layers.push_back(
        {norm(),
         norm(),
         {map(s.width, (s.heads + 2 * s.keys) * each), map(s.width, s.width), s.heads, s.keys, llama::places{500000}},
         map(s.width, s.hidden),
         map(s.width, s.hidden),
         map(s.hidden, s.width)});
  return m;
}

/// Bytes of weights and caches that a step reads.
double bytes_of(const shape_of_model& s, std::int64_t bits) {
  const double each = static_cast<double>(s.width) / static_cast<double>(s.heads), width = static_cast<double>(s.width),
               keys = static_cast<double>(s.keys) * each, layers = static_cast<double>(s.layers),
               weights = layers * width * (2 * width + 2 * keys + 3 * static_cast<double>(s.hidden)) +
                         width * static_cast<double>(s.tokens);
  const double of_weight = bits == 16 ? 2 : static_cast<double>(bits) / 8 + 2.0 / 32;
  return weights * of_weight + layers * static_cast<double>(s.places) * 2 * keys * 2;
}

/// Seconds of a call: the least of three means, after calls that compile.
template <class F>
double seconds_of(F&& f, int calls) {
  for (int i = 0; i < 5; ++i) f();
  synchronize();
  double least = 1e30;
  for (int again = 0; again < 3; ++again) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) f();
    synchronize();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls);
  }
  return least;
}

/// Bytes a second of a copy of 1 GiB, read and written.
double copy_rate() {
  const std::int64_t n = std::int64_t{1} << 28;
  const tensor<float, 1> x = normal<float>(make_key(9), n);
  const auto copied = compile([](const tensor<float, 1>& y) -> tensor<float, 1> { return y * 1.0000001f; });
  tensor<float, 1> y;
  return 8.0 * static_cast<double>(n) / seconds_of([&] { y = copied(x); }, 5);
}

void run(const shape_of_model& s, std::int64_t bits, double rate) {
  const model m = drawn_model(s, bits);
  using ids = tensor<std::int64_t, 2>;
  const auto step = compile(
      [](const model& m, const ids& token, llama::caches<bf16> c) {
        auto [h, kept] = llama::hidden(m, token, std::move(c));
        return std::pair{ids(argmax(llama::scores(m, h), axis<-1>)), std::move(kept)};
      },
      {.mode = mode::reduce_overhead, .donate = {2}});
  llama::caches<bf16> c = llama::room(m, 1, 2 * s.places);
  ids token = full<std::int64_t>(7, 1, s.places);
  std::tie(token, c) = step(m, token, std::move(c));
  token = ids(slice<1>(token, s.places - 1, s.places));
  const double seconds = seconds_of([&] { std::tie(token, c) = step(m, token, std::move(c)); }, 30);
  const double bytes = bytes_of(s, bits);
  std::printf("%2d bits: %9.1f us a token, %6.0f MB, %7.1f GB/s, %5.1f %% of a copy\n", static_cast<int>(bits),
              seconds * 1e6, bytes * 1e-6, bytes / seconds * 1e-9, 100 * bytes / seconds / rate);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  shape_of_model s;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const char* const next = i + 1 < count ? words[i + 1] : "";
    if (word == "--small") s = {1024, 2816, 16, 4, 32000, 4, 512};
    else if (word == "--layers") s.layers = std::atoll(next), ++i;
    else if (word == "--places") s.places = std::atoll(next), ++i;
    else if (word == "--device")
      set_default_device(std::strcmp(next, "cuda") == 0 ? device::cuda(0) : device::cpu()), ++i;
    else return std::fprintf(stderr, "decode [--device cpu|cuda] [--small] [--layers N] [--places N]\n"), 2;
  }
  if (s.places < 100) return std::fprintf(stderr, "decode: --places needs 100 or more\n"), 2;
  const double rate = copy_rate();
  std::printf("a copy: %.0f GB/s\n", rate * 1e-9);
  for (const std::int64_t bits : {16, 8, 4}) run(s, bits, rate);
}
