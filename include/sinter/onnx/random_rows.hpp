// onnx/random_rows.hpp: random numbers: uniform, normal, Bernoulli, Multinomial, Dropout in training.
#pragma once

#include <bit>
#include <random>

#include "../front/functions/random.hpp"
#include "gather_rows.hpp"

namespace sinter::onnx::rows {

/// The key of a node, from its seed, else from the model's key. Each node without a seed and each step of a loop has a
/// different key.
inline key key_of(call& c) {
  const auto* seed = c.attribute("seed");
  node state;
  if (seed) {
    const double number = seed->type == 1 ? static_cast<double>(seed->f) : static_cast<double>(seed->i);
    item known;
    known.host = std::make_shared<const host_values>(
        host_values{dtype::u64, {}, {dim(static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(number) >> 1))}, {}});
    state = c.im.value(known);
  } else {
    state = c.im.drawing_key();
  }
  key k{dynamic_tensor::of_node(state.id()).as<tensor<std::uint64_t, 0>>(place_of_nodes())};
  if (!seed) k = fold_in(k, c.im.next_draw(), place_of_nodes());
  for (const dynamic_tensor& turn : c.im.turns()) {
    const node index = value_of(turn.node(place_of_nodes()));
    k = fold_in(k, dynamic_tensor::of_node(index.id()).as<tensor<std::int64_t, 0>>(place_of_nodes()), place_of_nodes());
  }
  return k;
}

enum class drawn { uniform, normal };

/// The numbers that ONNX's reference draws for a seed. They are NumPy's RandomState: MT19937, 53 bits a number, normal
/// numbers by the polar method.
class seeded_numbers {
 public:
  explicit seeded_numbers(std::uint32_t seed) : bits_(seed) {}
  double next(drawn what) { return what == drawn::uniform ? uniform() : normal(); }

 private:
  double uniform() {
    const auto a = static_cast<std::uint32_t>(bits_()) >> 5, b = static_cast<std::uint32_t>(bits_()) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
  }
  double normal() {
    if (has_next_) {
      has_next_ = false;
      return next_;
    }
    double x = 0, y = 0, r = 0;
    do {
      x = 2 * uniform() - 1;
      y = 2 * uniform() - 1;
      r = x * x + y * y;
    } while (r >= 1 || r == 0);
    const double f = std::sqrt(-2 * std::log(r) / r);
    next_ = f * x;
    has_next_ = true;
    return f * y;
  }

  std::mt19937 bits_;
  double next_ = 0;
  bool has_next_ = false;
};
/// Numbers of a node with a seed. They are constants, and their extents are known.
inline node seeded(call& c, drawn what, dtype type, const extents& e) {
  const auto* seed = c.attribute("seed");
  const std::int64_t number = seed->type == 1 ? whole_of(static_cast<double>(seed->f)) : seed->i;
  const auto n = static_cast<std::int64_t>(product_of(e));
  const bool some = std::all_of(e.begin(), e.end(), [](const dim& d) { return d >= 0; });
  if (!some || n > std::int64_t{1} << 20)
    c.refuse("it draws " + text_of(e) + " numbers of a seed, which are constants; 2^20 at most");
  seeded_numbers from(static_cast<std::uint32_t>(number));
  host_values h{type, e, {}, {}};
  for (std::int64_t k = 0; k < n; ++k) h.floats.push_back(from.next(what));
  item x;
  x.host = std::make_shared<const host_values>(std::move(h));
  return c.im.value(x);
}
/// Uniform floats in [0, 1), or normal floats of mean 0 and variance 1.
inline node draw(call& c, drawn what, dtype type, const extents& e) {
  if (c.has_attribute("seed") && c.im.turns().empty()) return seeded(c, what, type, e);
  const key k = key_of(c);
  const dim n = product_of(e);
  const location at = place_of_nodes();
  const auto of = [&]<class T>(std::type_identity<T>) {
    const tensor<T, 1> x = what == drawn::uniform ? sinter::detail::draw_uniform<T, dims(1)>(k, {n}, {}, at)
                                                  : sinter::detail::draw_normal<T, dims(1)>(k, {n}, {}, at);
    return reshape_to(value_of(dynamic_tensor(x, at).node(at)), e);
  };
  if (type == dtype::f64) return of(std::type_identity<double>());
  return to_type(of(std::type_identity<float>()), type);
}

inline dtype drawn_type(call& c, dtype otherwise) {
  return c.has_attribute("dtype") ? c.type_named("dtype", 1) : otherwise;
}
template <drawn What>
void random_row(call& c) {
  const bool like = !c.n.inputs.empty();
  extents e;
  if (like) e = c.shape(0);
  else
    for (const auto v : c.list("shape")) e.push_back(dim(v));
  const dtype type = drawn_type(c, like ? c.type(0) : dtype::f32), work = type == dtype::f64 ? dtype::f64 : dtype::f32;
  const node x = draw(c, What, work, e);
  const double first = What == drawn::uniform ? c.f("low", 0) : c.f("mean", 0),
               width = What == drawn::uniform ? c.f("high", 1) - first : c.f("scale", 1);
  c.give(to_type(x * width + first, type));
}
inline void bernoulli_row(call& c) {
  const node p = c.x(0);
  const dtype work = p.type() == dtype::f64 ? dtype::f64 : dtype::f32;
  const node hit = pointwise(op::lt, draw(c, drawn::uniform, work, extents_of(p)), to_type(p, work));
  c.give(to_type(hit, drawn_type(c, p.type())));
}
/// Classes drawn by their unnormalised logarithms. A class is the number of cumulative probabilities that are at most a
/// uniform number.
inline void multinomial(call& c) {
  const node logits = to_type(c.x(0), dtype::f64);
  const extents e = extents_of(logits);
  const std::int64_t samples = c.i("sample_size", 1);
  if (e.size() != 2 || samples < 1) c.refuse("of another rank than 2, or without samples");
  const node sums = ir::scan(softmax_of(logits, 1), op::add, 1, false);
  const node total = sliced(sums, 1, e[1] - 1, 1);
  const node u = times(draw(c, drawn::uniform, dtype::f64, {e[0], dim(samples)}), total);
  const node below = pointwise(op::le, unsqueezed(sums, {1}), unsqueezed(u, {2}));
  const node count = reduced(op::add, to_type(below, dtype::i64), {2}, false);
  c.give(to_type(pointwise(op::minimum, count, size_node(e[1] - 1, dtype::i64)), drawn_type(c, dtype::i32)));
}
inline void dropout(call& c) {
  const bool can_train = c.version >= 12 && c.has(2);
  const bool training = can_train && c.number(2) != 0;
  double ratio = c.version >= 12 ? 0.5 : c.f("ratio", 0.5);
  if (training && c.has(1)) ratio = c.number(1);
  const node x = c.x(0);
  if (!training || ratio == 0) {
    c.give(0, x);
    c.give(1, constant(c.version < 10 ? x.type() : dtype::b8, 1, extents_of(x)));
    return;
  }
  if (!(ratio > 0 && ratio < 1)) c.refuse("its ratio is not in [0, 1)");
  const dtype work = c.has_attribute("seed") ? dtype::f64 : dtype::f32;
  const node kept = ir::ge(draw(c, drawn::uniform, work, extents_of(x)), ratio);
  c.give(0, choose(kept, x * (1 / (1 - ratio)), constant(x.type(), 0)));
  c.give(1, kept);
}

/// Whether a node draws random numbers without a seed.
inline bool draws(const node_proto& n, std::int64_t version) {
  if (!n.domain.empty() || n.find("seed")) return false;
  for (const char* name :
       {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"})
    if (n.op == name) return true;
  return n.op == "Dropout" && version >= 12 && n.inputs.size() > 2 && !n.inputs[2].empty();
}

inline const row randoms[] = {
    {"Bernoulli", "", 1, bernoulli_row, "philox, <"},
    {"Dropout", "", 1, dropout, "the same value; in training philox, select"},
    {"Multinomial", "", 1, multinomial, "cumsum, philox, <="},
    {"RandomNormal", "", 1, random_row<drawn::normal>, "philox"},
    {"RandomNormalLike", "", 1, random_row<drawn::normal>, "philox"},
    {"RandomUniform", "", 1, random_row<drawn::uniform>, "philox"},
    {"RandomUniformLike", "", 1, random_row<drawn::uniform>, "philox"},
};

}  // namespace sinter::onnx::rows
