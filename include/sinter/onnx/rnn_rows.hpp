// onnx/rnn_rows.hpp: recurrent operators: RNN, GRU, LSTM, step by step.
#pragma once

#include "resize_rows.hpp"

namespace sinter::onnx::rows {

/// What the three have in common, for one direction.
struct recurrent {
  call& c;
  node x;  ///< (steps, batch, size)
  dim steps, batch, hidden;
  int gates = 1;
  std::vector<std::string> functions;
  std::vector<double> alpha, beta;
  double clip = 0;
  node lengths;  ///< (batch, 1), or none

  node act(std::size_t direction, std::size_t k, const node& v) const {
    const std::size_t each = functions.size() / directions();
    const std::size_t i = direction * each + k;
    const node y = clip > 0 ? clipped(v, -clip, clip) : v;
    const std::string& name = functions[i];
    const bool leaky = name == "LeakyRelu", hard = name == "HardSigmoid";
    const double a = i < alpha.size() ? alpha[i]
                     : leaky          ? 0.01
                     : hard           ? 0.2
                                      : 1,
                 b = i < beta.size() ? beta[i]
                     : hard          ? 0.5
                                     : 1;
    return activation(name, y, a, b);
  }
  std::size_t directions() const { return c.s("direction", "forward") == "bidirectional" ? 2 : 1; }
};
inline node part_of(const node& w, std::size_t direction) {
  extents e = extents_of(w);
  e.erase(e.begin());
  return reshape_to(sliced(w, 0, dim(static_cast<std::int64_t>(direction)), 1), e);
}
/// Gate k of values with all gates in the last axis.
inline node gate(const node& x, int k, dim hidden) { return sliced(x, x.rank() - 1, dim(k) * hidden, hidden); }

/// One direction: h (batch, hidden) step by step; `step` gives the next h from x's part and h.
template <class Step>
void run_direction(const recurrent& r, std::size_t direction, node& h, node* cell, std::vector<node>& all,
                   const node& projected, const Step& step) {
  const auto n = static_cast<std::int64_t>(r.steps);
  const bool back = direction == 1 || r.c.s("direction", "forward") == "reverse";
  all.resize(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t t = back ? n - 1 - k : k;
    extents e = extents_of(projected);
    e.erase(e.begin());
    const node now = reshape_to(sliced(projected, 0, dim(t), 1), e);
    const node before = h, cell_before = cell ? *cell : node();
    step(now);
    if (r.lengths) {
      const node on = pointwise(op::lt, constant(dtype::i64, static_cast<double>(t)), r.lengths);
      all[static_cast<std::size_t>(t)] = choose(on, h, constant(h.type(), 0));
      h = choose(on, h, before);
      if (cell) *cell = choose(on, *cell, cell_before);
    } else all[static_cast<std::size_t>(t)] = h;
  }
}

enum class recurrence_kind { rnn, gru, lstm };

/// The weights of one direction, with the gates in the last axis.
struct recurrent_weights {
  node recur, bias, peep;
};
/// The next h of a GRU.
inline node gru_step(const recurrent& r, std::size_t d, const recurrent_weights& w, const node& now, const node& h) {
  const dim n = r.hidden;
  const node zr = sliced(w.recur, 1, 0, n * 2), hh = sliced(w.recur, 1, n * 2, n);
  const auto biased = [&](const node& y, dim first, dim count) {
    return w.bias ? plus(y, sliced(w.bias, 0, first, count)) : y;
  };
  const node from_h = biased(product(h, zr), 0, n * 2);
  const node z = r.act(d, 0, plus(gate(now, 0, n), gate(from_h, 0, n)));
  const node reset = r.act(d, 0, plus(gate(now, 1, n), gate(from_h, 1, n)));
  const bool after = r.c.i("linear_before_reset", 0) != 0;
  const node inner =
      after ? times(reset, biased(product(h, hh), n * 2, n)) : biased(product(times(reset, h), hh), n * 2, n);
  const node next = r.act(d, 1, plus(gate(now, 2, n), inner));
  return plus(times(minus(constant(h.type(), 1), z), next), times(z, h));
}
/// The next h of an LSTM, and of its cell.
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
  return times(o, r.act(d, 2, cell));
}
inline recurrent facts_of(call& c, int gates, const std::vector<std::string>& usual) {
  recurrent r{c, c.x(0), 0, 0, 0, gates, {}, {}, {}, c.f("clip", 0), {}};
  if (c.i("layout", 0) != 0) r.x = permuted(r.x, {1, 0, 2});
  r.steps = size_of_axis(r.x, 0);
  r.batch = size_of_axis(r.x, 1);
  r.hidden = c.i("hidden_size", 0);
  if (r.hidden < 1) r.hidden = size_of_axis(c.x(2), 2);
  if (const auto* a = c.attribute("activations")) r.functions = a->strings;
  if (r.functions.empty())
    for (std::size_t d = 0; d < r.directions(); ++d) r.functions.insert(r.functions.end(), usual.begin(), usual.end());
  if (r.functions.size() != usual.size() * r.directions()) c.refuse("its activations are not those of each direction");
  if (const auto* a = c.attribute("activation_alpha")) r.alpha.assign(a->floats.begin(), a->floats.end());
  if (const auto* a = c.attribute("activation_beta")) r.beta.assign(a->floats.begin(), a->floats.end());
  if (c.has(4)) r.lengths = reshape_to(to_type(c.x(4), dtype::i64), {r.batch, dim(1)});
  return r;
}
/// All states of one direction, (steps, 1, batch, hidden); h and cell become the last.
template <recurrence_kind Kind>
node states_of(const recurrent& r, std::size_t d, node& h, node& cell) {
  call& c = r.c;
  recurrent_weights w{permuted(part_of(c.x(2), d), {1, 0}), {}, {}};
  node projected = product(r.x, permuted(part_of(c.x(1), d), {1, 0}));  // of all steps at once
  if (c.has(3)) {
    const node b = part_of(c.x(3), d);
    const dim n = dim(r.gates) * r.hidden;
    projected = plus(projected, sliced(b, 0, 0, n));
    w.bias = sliced(b, 0, n, n);
  }
  if (Kind == recurrence_kind::lstm && c.has(7)) w.peep = part_of(c.x(7), d);
  std::vector<node> all;
  run_direction(r, d, h, Kind == recurrence_kind::lstm ? &cell : nullptr, all, projected, [&](const node& now) {
    if constexpr (Kind == recurrence_kind::rnn) {
      const node y = plus(now, product(h, w.recur));
      h = r.act(d, 0, w.bias ? plus(y, w.bias) : y);
    } else if constexpr (Kind == recurrence_kind::gru) h = gru_step(r, d, w, now, h);
    else h = lstm_step(r, d, w, now, h, cell);
  });
  std::vector<node> stacked;
  for (const node& y : all) stacked.push_back(reshape_to(y, {dim(1), dim(1), r.batch, r.hidden}));
  return joined(stacked, 0);
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
      const node all = c.x(k);
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
  c.give(0, batch_first ? permuted(y, {2, 0, 1, 3}) : y);
  c.give(1, ordered(joined(last, 0)));
  if (lstm) c.give(2, ordered(joined(last_cell, 0)));
}

inline const row recurrents[] = {
    {"GRU", "", 1, recurrent_row<recurrence_kind::gru>, "products, step by step"},
    {"LSTM", "", 1, recurrent_row<recurrence_kind::lstm>, "products, step by step"},
    {"RNN", "", 1, recurrent_row<recurrence_kind::rnn>, "products, step by step"},
};

}  // namespace sinter::onnx::rows
