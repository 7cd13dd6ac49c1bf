// tests/ir/attention_texts.hpp: attention in users' words, and what looks like it, each a function of one signature.
#pragma once

#include <cmath>
#include <limits>
#include <sinter/sinter.hpp>

namespace attention_texts {

using namespace sinter;
using four = tensor<float, 4>;
using three = tensor<float, 3>;
using two = tensor<float, 2>;

/// Operands besides q, k and v (batch, heads, places, features).
struct extras {
  tensor<bool, 2> mask;         ///< (queries, keys)
  two bias;                     ///< (queries, keys)
  tensor<std::int64_t, 2> ids;  ///< (batch, places)
  tensor<std::int64_t, 1> lengths;
  four keep;  ///< 0 or 1, (batch, heads, queries, keys)
};

struct sample {
  const char* name;
  four (*of)(const four& q, const four& k, const four& v, const extras& x);
  const char* why;  ///< a near miss: the finder's reason
};

inline constexpr float inf = std::numeric_limits<float>::infinity();

inline float scale(const four& q) { return 1 / std::sqrt(static_cast<float>(std::int64_t(q.size(3)))); }
inline four scores(const four& q, const four& k) { return matmul(q, transpose(k)) * scale(q); }
inline auto places(const four& q, const four& k) {
  const auto i = expand_dims<-1>(arange<std::int64_t>(q.size(2)));
  return std::pair{i, arange<std::int64_t>(k.size(2))};
}
inline four repeated(const four& x, std::int64_t times) {
  const auto wide = broadcast_to(expand_dims<2>(x), x.size(0), x.size(1), times, x.size(2), x.size(3));
  return reshape(wide, x.size(0), x.size(1) * times, x.size(2), x.size(3));
}
inline four first_heads(const four& x, std::int64_t n) { return slice<1>(x, 0, n); }

#define SINTER_TEXT(NAME, ...)                                                     \
  {                                                                                \
    NAME,                                                                          \
        [](const four& q, const four& k, const four& v, const extras& x) -> four { \
          (void)q, (void)k, (void)v, (void)x;                                      \
          __VA_ARGS__                                                              \
        },                                                                         \
        ""                                                                         \
  }
#define SINTER_MISS(NAME, WHY, ...)                                                \
  {                                                                                \
    NAME,                                                                          \
        [](const four& q, const four& k, const four& v, const extras& x) -> four { \
          (void)q, (void)k, (void)v, (void)x;                                      \
          __VA_ARGS__                                                              \
        },                                                                         \
        WHY                                                                        \
  }

// clang-format off
inline const sample found[] = {
  SINTER_TEXT("PyTorch's documentation", return matmul(softmax(matmul(q, transpose(k)) * scale(q)), v);),
  SINTER_TEXT("scores divided", return matmul(softmax(matmul(q, transpose(k)) / std::sqrt(float(std::int64_t(q.size(3))))), v);),
  SINTER_TEXT("queries scaled before", return matmul(softmax(matmul(four(q * scale(q)), transpose(k))), v);),
  SINTER_TEXT("without a scale", return matmul(softmax(matmul(q, transpose(k))), v);),
  SINTER_TEXT("an added mask of -inf", return matmul(softmax(scores(q, k) + where(x.mask, 0.0f, -inf)), v);),
  SINTER_TEXT("BERT's added mask", return matmul(softmax(scores(q, k) + (1.0f - cast<float>(x.mask)) * -10000.0f), v);),
  SINTER_TEXT("a filled mask", return matmul(softmax(where(x.mask, scores(q, k), -inf)), v);),
  SINTER_TEXT("Hugging Face's least number", return matmul(softmax(where(x.mask, scores(q, k), std::numeric_limits<float>::lowest())), v);),
  SINTER_TEXT("GPT-2's multiplied mask", const auto b = evaluate(cast<float>(x.mask)); return matmul(softmax(scores(q, k) * b - 1e10f * (1.0f - b)), v);),
  SINTER_TEXT("a triangle", const auto [i, j] = places(q, k); return matmul(softmax(where(j <= i, scores(q, k), -inf)), v);),
  SINTER_TEXT("Flax's einsum", return einsum<"bhqk,bhkd->bhqd">(softmax(einsum<"bhqd,bhkd->bhqk">(four(q * scale(q)), k)), v);),
  SINTER_TEXT("a softmax by hand", const auto s = scores(q, k); const four e = exp(s - max(s, axis<-1>, keepdims)); return matmul(e / sum(e, axis<-1>, keepdims), v);),
  SINTER_TEXT("by a reciprocal", const auto s = scores(q, k); const four e = exp(s - max(s, axis<-1>, keepdims)); return matmul(e * (1.0f / sum(e, axis<-1>, keepdims)), v);),
  SINTER_TEXT("exp of log_softmax", return matmul(exp(log_softmax(scores(q, k))), v);),
  SINTER_TEXT("exp less logsumexp", const auto s = scores(q, k); const four m = max(s, axis<-1>, keepdims); const four l = log(sum(exp(s - m), axis<-1>, keepdims)) + m; return matmul(exp(s - l), v);),
  SINTER_TEXT("a soft cap", return matmul(softmax(tanh(scores(q, k) / 50.0f) * 50.0f), v);),
  SINTER_TEXT("ALiBi", const auto [i, j] = places(q, k); const auto h = cast<float>(reshape(arange<std::int64_t>(q.size(1)), -1, 1, 1)); return matmul(softmax(scores(q, k) + exp2(h * -2.0f) * cast<float>(j - i)), v);),
  SINTER_TEXT("a sliding window", const auto [i, j] = places(q, k); return matmul(softmax(where(j <= i && i - j < 3, scores(q, k), -inf)), v);),
  SINTER_TEXT("packed documents", return matmul(softmax(where(reshape(x.ids, x.ids.size(0), 1, -1, 1) == reshape(x.ids, x.ids.size(0), 1, 1, -1), scores(q, k), -inf)), v);),
  SINTER_TEXT("dropout, multiplied", return matmul(softmax(scores(q, k)) * x.keep / 0.9f, v);),
  SINTER_TEXT("dropout, chosen", return matmul(where(x.keep > 0.5f, softmax(scores(q, k)) / 0.9f, 0.0f), v);),
  SINTER_TEXT("grouped heads", return matmul(softmax(scores(q, repeated(first_heads(k, 2), 2))), repeated(first_heads(v, 2), 2));),
  SINTER_TEXT("one head of keys", return matmul(softmax(scores(q, first_heads(k, 1))), first_heads(v, 1));),
  SINTER_TEXT("bf16, whose softmax is in f32", const auto a = evaluate(cast<bf16>(q)), b = evaluate(cast<bf16>(k)), c = evaluate(cast<bf16>(v)); return cast<float>(matmul(cast<bf16>(softmax(cast<float>(matmul(a, transpose(b))) * scale(q))), c));),
  SINTER_TEXT("bf16, scaled and masked before the cast", const auto a = evaluate(cast<bf16>(q)), b = evaluate(cast<bf16>(k)), c = evaluate(cast<bf16>(v)); const auto s = evaluate(matmul(a, transpose(b)) * bf16(0.5f) + cast<bf16>(x.bias)); return cast<float>(matmul(cast<bf16>(softmax(cast<float>(s))), c));),
  SINTER_TEXT("rotary", return matmul(softmax(scores(rotary(q), rotary(k))), v);),
  SINTER_TEXT("T5's bias", return matmul(softmax(matmul(q, transpose(k)) + x.bias), v);),
  SINTER_TEXT("ONNX's roots of the scale", const float root = std::sqrt(scale(q)); return matmul(softmax(matmul(four(q * root), transpose(four(k * root))) + x.bias), v);),
  SINTER_TEXT("a softmax of where", const auto s = scores(q, k); const four e = where(x.mask, exp(s - max(s, axis<-1>, keepdims)), 0.0f); return matmul(e / sum(e, axis<-1>, keepdims), v);),
  SINTER_TEXT("rows that see nothing give 0", const four s = where(x.mask, scores(q, k), -inf); const four m = max(s, axis<-1>, keepdims); const four e = exp(s - where(m == -inf, 0.0f, m)); const four t = sum(e, axis<-1>, keepdims); return matmul(e / where(t == 0.0f, 1.0f, t), v);),
  SINTER_TEXT("lengths", const auto [i, j] = places(q, k); return matmul(softmax(where(j < reshape(x.lengths, -1, 1, 1, 1), scores(q, k), -inf)), v);),
  SINTER_TEXT("normed queries and keys", const four a = rms_norm(q), b = rms_norm(k); return matmul(softmax(scores(a, b)), v);),
  SINTER_TEXT("gated weights", return matmul(softmax(scores(q, k)) * sigmoid(x.bias), v);),
  SINTER_TEXT("powers as they are", const four e = exp(scores(q, k)); return matmul(e / sum(e, axis<-1>, keepdims), v);),
};

inline const sample missed[] = {
  SINTER_MISS("a softmax over queries", "not divided by their sum", return matmul(softmax<-2>(scores(q, k)), v);),
  SINTER_MISS("no softmax", "no softmax", return matmul(scores(q, k), v);),
  SINTER_MISS("sigmoids", "no softmax", return matmul(sigmoid(scores(q, k)), v);),
  SINTER_MISS("one more in the sum", "no softmax", const auto s = scores(q, k); const four e = exp(s - max(s, axis<-1>, keepdims)); return matmul(e / (1.0f + sum(e, axis<-1>, keepdims)), v);),
  SINTER_MISS("a little more in the sum", "no softmax", const auto s = scores(q, k); const four e = exp(s - max(s, axis<-1>, keepdims)); return matmul(e / (sum(e, axis<-1>, keepdims) + 1e-6f), v);),
  SINTER_MISS("scores less their mean squares", "more than the product", const auto s = scores(q, k); return matmul(softmax(s * mean(s * s, axis<-1>, keepdims)), v);),
  SINTER_MISS("two products", "two products", return matmul(softmax(scores(q, k) + matmul(q, transpose(four(k * k)))), v);),
  SINTER_MISS("mixed heads", "no softmax", const four w = softmax(scores(q, k)); return matmul(einsum<"hg,bgqk->bhqk">(two(slice<1>(slice<0>(x.bias, 0, 4), 0, 4)), w), v);),
  SINTER_MISS("weights of a table", "no product", return matmul(softmax(x.keep + x.bias), v);),
  SINTER_MISS("squared powers", "no softmax", const four e = exp(scores(q, k)); return matmul(e * e / sum(e, axis<-1>, keepdims), v);),
  SINTER_MISS("weights times scores", "depends on the scores", const auto s = scores(q, k); return matmul(softmax(s) * s, v);),
  SINTER_MISS("rectified scores", "no softmax", const four r = relu(scores(q, k)); return matmul(r / sum(r, axis<-1>, keepdims), v);),
  SINTER_MISS("a softmax of 16 bits", "16 bits", const auto s = evaluate(cast<bf16>(scores(q, k))); const auto e = evaluate(exp(s - max(s, axis<-1>, keepdims))); return matmul(four(cast<float>(e / sum(e, axis<-1>, keepdims))), v);),
  SINTER_MISS("powers of 2", "powers of e", const auto s = scores(q, k); const four e = exp2(s - max(s, axis<-1>, keepdims)); return matmul(e / sum(e, axis<-1>, keepdims), v);),
  SINTER_MISS("weights read again", "another node reads", const four w = softmax(scores(q, k)); return matmul(w, v) + sum(w, axis<-2>, keepdims)[0][0][0][0];),
  SINTER_MISS("sums of other powers", "not the sum", const auto s = scores(q, k); const four e = exp(s - max(s, axis<-1>, keepdims)); return matmul(e / sum(exp(s * 0.5f), axis<-1>, keepdims), v);),
  SINTER_MISS("running weights", "no softmax", return matmul(cumsum<-1>(softmax(scores(q, k))), v);),
};
// clang-format on
#undef SINTER_TEXT
#undef SINTER_MISS

}  // namespace attention_texts
