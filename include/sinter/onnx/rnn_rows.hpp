// onnx/rnn_rows.hpp: recurrent operators: RNN, GRU, LSTM, as loops of the graph.
#pragma once

#include "loops.hpp"
#include "resize_rows.hpp"

namespace sinter::onnx::rows {

/// Common state of the three operators, for one direction. They compute narrower floats in f32, because errors of steps add up.
struct recurrent {
  call& c;
  node x;  ///< (steps, batch, size)
  dim steps, batch, hidden;
  int gates = 1;
  std::vector<std::string> functions;
  std::vector<double> alpha, beta;  ///< a factor for each function
  double clip = 0;
  node lengths;  ///< (batch, 1), or undefined

  /// The k-th activation of a direction, of a clipped value.
  node act(std::size_t direction, std::size_t k, const node& v) const {
    return act_unclipped(direction, k, clip > 0 ? clipped(v, -clip, clip) : v);
  }
  node act_unclipped(std::size_t direction, std::size_t k, const node& v) const {
    const std::size_t i = direction * (functions.size() / directions()) + k;
    return activation(functions[i], v, alpha[i], beta[i]);
  }
  std::size_t directions() const { return c.s("direction", "forward") == "bidirectional" ? 2 : 1; }
};
inline node part_of(const node& w, std::size_t direction) {
  const extents e = extents_of(w).from(1);
  return reshape_to(sliced(w, 0, dim(static_cast<std::int64_t>(direction)), 1), e);
}
/// Gate k of values with all gates in the last axis.
inline node gate(const node& x, int k, dim hidden) { return sliced(x, x.rank() - 1, dim(k) * hidden, hidden); }

enum class recurrence_kind { rnn, gru, lstm };

/// The weights of one direction, with the gates in the last axis.
struct recurrent_weights {
  node recur, inner, bias, peep;  ///< inner: the candidate's weights in a GRU

  recurrent_weights within(const std::shared_ptr<engine::tracer>& around) const {
    return {brought_in(around, recur), brought_in(around, inner), brought_in(around, bias), brought_in(around, peep)};
  }
};
/// The next h of a GRU.
inline node gru_step(const recurrent& r, std::size_t d, const recurrent_weights& w, const node& now, const node& h) {
  const dim n = r.hidden;
  const auto biased = [&](const node& y, dim first, dim count) {
    return w.bias ? plus(y, sliced(w.bias, 0, first, count)) : y;
  };
  const node from_h = biased(product(h, w.recur), 0, n * 2);
  const node z = r.act(d, 0, plus(gate(now, 0, n), gate(from_h, 0, n)));
  const node reset = r.act(d, 0, plus(gate(now, 1, n), gate(from_h, 1, n)));
  const bool after = r.c.i("linear_before_reset", 0) != 0;
  const node inner =
      after ? times(reset, biased(product(h, w.inner), n * 2, n)) : biased(product(times(reset, h), w.inner), n * 2, n);
  const node next = r.act(d, 1, plus(gate(now, 2, n), inner));
  return plus(times(minus(constant(h.type(), 1), z), next), times(z, h));
}
/// The next h of an LSTM. Updates its cell.
inline node lstm_step(const recurrent& r, std::size_t d, const recurrent_weights& w, const node& now, const node& h,
                      node& cell) {
  const node y = plus(now, product(h, w.recur)), s = w.bias ? plus(y, w.bias) : y;
  const auto peeped = [&](int g, int p, const node& of) {
    const node v = gate(s, g, r.hidden);
    return w.peep ? plus(v, times(gate(w.peep, p, r.hidden), of)) : v;
  };
  const node i = r.act(d, 0, peeped(0, 0, cell));
  const bool coupled = r.c.i("input_forget", 0) != 0;
  const node f = coupled ? minus(constant(h.type(), 1), i) : r.act(d, 0, peeped(2, 2, cell));
  const node g = r.act(d, 1, gate(s, 3, r.hidden));
  cell = plus(times(f, cell), times(i, g));
  const node o = r.act(d, 0, peeped(1, 1, cell));
  return times(o, r.act_unclipped(d, 2, cell));  // only gates are clipped
}
/// ONNX's spelling of an activation, whose letters may be in another case. Runtimes accept such names.
inline std::string known_activation(const std::string& name) {
  for (const char* known : {"Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh",
                            "HardSigmoid", "Elu", "Softsign", "Softplus"})
    if (small_letters(name) == small_letters(known)) return known;
  return name;
}
/// A factor for each activation. The list has a factor for each activation, or only for activations that take a factor.
inline std::vector<double> factors_of(const std::vector<std::string>& functions, const std::vector<float>& given,
                                      bool second) {
  std::vector<double> out;
  std::size_t next = 0;
  const bool for_all = given.size() == functions.size();
  for (std::size_t k = 0; k < functions.size(); ++k) {
    const std::string& name = functions[k];
    const bool two = name == "Affine" || name == "ScaledTanh" || name == "HardSigmoid";
    const bool one = two || name == "LeakyRelu" || name == "ThresholdedRelu" || name == "Elu";
    double x = second && name == "Affine" ? 0
               : name == "HardSigmoid"    ? (second ? 0.5 : 0.2)
               : name == "LeakyRelu"      ? 0.01
                                          : 1;
    if (for_all) x = static_cast<double>(given[k]);
    else if ((second ? two : one) && next < given.size()) x = static_cast<double>(given[next++]);
    out.push_back(x);
  }
  return out;
}
inline recurrent facts_of(call& c, int gates, const std::vector<std::string>& usual) {
  recurrent r{c, wide(c.x(0)), 0, 0, 0, gates, {}, {}, {}, c.f("clip", 0), {}};
  if (c.i("layout", 0) != 0) r.x = permuted(r.x, {1, 0, 2});
  r.steps = size_of_axis(r.x, 0);
  r.batch = size_of_axis(r.x, 1);
  r.hidden = c.i("hidden_size", 0);
  if (r.hidden < 1) r.hidden = size_of_axis(c.x(2), 2);
  if (const auto* a = c.attribute("activations")) r.functions = a->strings;
  for (std::string& name : r.functions) name = known_activation(name);
  if (r.functions.empty())
    for (std::size_t d = 0; d < r.directions(); ++d) r.functions.insert(r.functions.end(), usual.begin(), usual.end());
  if (r.functions.size() != usual.size() * r.directions()) c.refuse("its activations are not those of each direction");
  const auto floats_of = [&](const char* name) {
    const auto* a = c.attribute(name);
    return a ? a->floats : std::vector<float>();
  };
  r.alpha = factors_of(r.functions, floats_of("activation_alpha"), false);
  r.beta = factors_of(r.functions, floats_of("activation_beta"), true);
  if (c.has(4)) r.lengths = reshape_to(to_type(c.x(4), dtype::i64), {r.batch, dim(1)});
  return r;
}
/// The weights of one direction, and the products with x for all steps, which do not depend on earlier steps.
template <recurrence_kind Kind>
std::pair<recurrent_weights, node> prepared(const recurrent& r, std::size_t d) {
  call& c = r.c;
  recurrent_weights w{permuted(part_of(wide(c.x(2)), d), {1, 0}), {}, {}, {}};
  node projected = product(r.x, permuted(part_of(wide(c.x(1)), d), {1, 0}));
  if (c.has(3)) {
    const node b = part_of(wide(c.x(3)), d);
    const dim n = dim(r.gates) * r.hidden;
    projected = plus(projected, sliced(b, 0, 0, n));
    w.bias = sliced(b, 0, n, n);
  }
  if (Kind == recurrence_kind::lstm && c.has(7)) w.peep = part_of(wide(c.x(7)), d);
  if (Kind == recurrence_kind::gru) {
    w.inner = sliced(w.recur, 1, r.hidden * 2, r.hidden);
    w.recur = sliced(w.recur, 1, 0, r.hidden * 2);
  }
  return {w, projected};
}
/// All states of one direction, (steps, 1, batch, hidden). h and cell become the last states.
template <recurrence_kind Kind>
node states_of(const recurrent& r, std::size_t d, node& h, node& cell) {
  const auto [weights, projected] = prepared<Kind>(r, d);
  const auto around = engine::current();
  const bool back = d == 1 || r.c.s("direction", "forward") == "reverse";
  constexpr bool lstm = Kind == recurrence_kind::lstm;
  std::vector<node> carried{h};
  if (lstm) carried.push_back(cell);
  const turned out = repeated(r.steps, carried, {projected}, back, [&, &held = weights](const turn& t) {
    const recurrent_weights w = held.within(around);
    const node now = t.slices[0], before = t.carried[0];
    turned next{t.carried, {}};
    if constexpr (Kind == recurrence_kind::rnn) {
      const node y = plus(now, product(before, w.recur));
      next.carried[0] = r.act(d, 0, w.bias ? plus(y, w.bias) : y);
    } else if constexpr (Kind == recurrence_kind::gru) next.carried[0] = gru_step(r, d, w, now, before);
    else next.carried[0] = lstm_step(r, d, w, now, before, next.carried[1]);
    next.stacked = {next.carried[0]};
    if (r.lengths) {  // after a sequence's end its state stays, and 0 is stacked
      const node on = pointwise(op::lt, t.index, brought_in(around, r.lengths));
      next.stacked[0] = choose(on, next.carried[0], constant(before.type(), 0));
      for (std::size_t k = 0; k < next.carried.size(); ++k) next.carried[k] = choose(on, next.carried[k], t.carried[k]);
    }
    return next;
  });
  h = out.carried[0];
  if (lstm) cell = out.carried[1];
  return unsqueezed(out.stacked[0], {1});
}
template <recurrence_kind Kind>
void recurrent_row(call& c) {
  constexpr bool lstm = Kind == recurrence_kind::lstm;
  const std::vector<std::string> usual = Kind == recurrence_kind::rnn ? std::vector<std::string>{"Tanh"}
                                         : Kind == recurrence_kind::gru
                                             ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                             : std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"};
  const bool batch_first = c.i("layout", 0) != 0;
  const recurrent r = facts_of(c, Kind == recurrence_kind::rnn ? 1 : lstm ? 4 : 3, usual);
  std::vector<node> outputs, last, last_cell;
  for (std::size_t d = 0; d < r.directions(); ++d) {
    const auto initial = [&](std::size_t k) {
      if (!c.has(k)) return constant(r.x.type(), 0, {r.batch, r.hidden});
      const node all = wide(c.x(k));
      return part_of(batch_first ? permuted(all, {1, 0, 2}) : all, d);
    };
    node h = initial(5), cell;
    if (lstm) cell = initial(6);
    outputs.push_back(states_of<Kind>(r, d, h, cell));
    last.push_back(unsqueezed(h, {0}));
    if (lstm) last_cell.push_back(unsqueezed(cell, {0}));
  }
  const auto ordered = [&](const node& y) { return batch_first ? permuted(y, {1, 0, 2}) : y; };
  const node y = joined(outputs, 1);  // (steps, directions, batch, hidden)
  const auto give = [&](std::size_t k, const node& v) { c.give(k, to_type(v, c.type(0))); };
  give(0, batch_first ? permuted(y, {2, 0, 1, 3}) : y);
  give(1, ordered(joined(last, 0)));
  if (lstm) give(2, ordered(joined(last_cell, 0)));
}

inline const row recurrents[] = {
    {"GRU", "", 1, recurrent_row<recurrence_kind::gru>, "products, scan"},
    {"LSTM", "", 1, recurrent_row<recurrence_kind::lstm>, "products, scan"},
    {"RNN", "", 1, recurrent_row<recurrence_kind::rnn>, "products, scan"},
};

}  // namespace sinter::onnx::rows
