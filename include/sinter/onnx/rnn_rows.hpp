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
template <recurrence_kind Kind>
void recurrent_row(call& c) {
  constexpr int gates = Kind == recurrence_kind::rnn ? 1 : Kind == recurrence_kind::gru ? 3 : 4;
  const bool batch_first = c.i("layout", 0) != 0;
  recurrent r{c, c.x(0), 0, 0, 0, gates, {}, {}, {}, c.f("clip", 0), {}};
  if (batch_first) r.x = permuted(r.x, {1, 0, 2});
  r.steps = size_of_axis(r.x, 0);
  r.batch = size_of_axis(r.x, 1);
  r.hidden = c.i("hidden_size", 0);
  if (r.hidden < 1) r.hidden = size_of_axis(c.x(2), 2);
  if (const auto* a = c.attribute("activations")) r.functions = a->strings;
  const std::vector<std::string> usual = Kind == recurrence_kind::rnn ? std::vector<std::string>{"Tanh"}
                                         : Kind == recurrence_kind::gru
                                             ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                             : std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"};
  const std::size_t directions = r.directions();
  if (r.functions.empty())
    for (std::size_t d = 0; d < directions; ++d) r.functions.insert(r.functions.end(), usual.begin(), usual.end());
  if (r.functions.size() != usual.size() * directions) c.refuse("its activations are not those of each direction");
  if (const auto* a = c.attribute("activation_alpha")) r.alpha.assign(a->floats.begin(), a->floats.end());
  if (const auto* a = c.attribute("activation_beta")) r.beta.assign(a->floats.begin(), a->floats.end());
  if (c.has(4)) r.lengths = reshape_to(to_type(c.x(4), dtype::i64), {r.batch, dim(1)});
  const dtype type = r.x.type();
  std::vector<node> outputs, last, last_cell;
  for (std::size_t d = 0; d < directions; ++d) {
    const node w = permuted(part_of(c.x(1), d), {1, 0}), recur = permuted(part_of(c.x(2), d), {1, 0});
    node wb, rb;
    if (c.has(3)) {
      const node b = part_of(c.x(3), d);
      wb = sliced(b, 0, 0, dim(gates) * r.hidden);
      rb = sliced(b, 0, dim(gates) * r.hidden, dim(gates) * r.hidden);
    }
    const auto initial = [&](std::size_t k) {
      if (!c.has(k)) return constant(type, 0, {r.batch, r.hidden});
      const node all = c.x(k);
      return part_of(batch_first ? permuted(all, {1, 0, 2}) : all, d);
    };
    node h = initial(5), cell;
    if (Kind == recurrence_kind::lstm) cell = initial(6);
    node projected = product(r.x, w);  // of all steps at once
    if (wb) projected = plus(projected, wb);
    const auto with_state = [&](const node& now, const node& s) {
      const node y = plus(now, product(s, recur));
      return rb ? plus(y, rb) : y;
    };
    std::vector<node> all;
    if constexpr (Kind == recurrence_kind::rnn) {
      run_direction(r, d, h, nullptr, all, projected, [&](const node& now) { h = r.act(d, 0, with_state(now, h)); });
    } else if constexpr (Kind == recurrence_kind::gru) {
      const bool after = c.i("linear_before_reset", 0) != 0;
      const node zr = sliced(recur, 1, 0, r.hidden * 2), hh = sliced(recur, 1, r.hidden * 2, r.hidden);
      run_direction(r, d, h, nullptr, all, projected, [&](const node& now) {
        node from_h = product(h, zr);
        if (rb) from_h = plus(from_h, sliced(rb, 0, 0, r.hidden * 2));
        const node z = r.act(d, 0, plus(gate(now, 0, r.hidden), gate(from_h, 0, r.hidden)));
        const node reset = r.act(d, 0, plus(gate(now, 1, r.hidden), gate(from_h, 1, r.hidden)));
        node inner;
        if (after) {
          inner = product(h, hh);
          if (rb) inner = plus(inner, sliced(rb, 0, r.hidden * 2, r.hidden));
          inner = times(reset, inner);
        } else {
          inner = product(times(reset, h), hh);
          if (rb) inner = plus(inner, sliced(rb, 0, r.hidden * 2, r.hidden));
        }
        const node next = r.act(d, 1, plus(gate(now, 2, r.hidden), inner));
        h = plus(times(minus(constant(type, 1), z), next), times(z, h));
      });
    } else {
      node peep;
      if (c.has(7)) peep = part_of(c.x(7), d);
      const bool coupled = c.i("input_forget", 0) != 0;
      run_direction(r, d, h, &cell, all, projected, [&](const node& now) {
        const node s = with_state(now, h);
        const auto peeped = [&](int g, int p, const node& of) {
          const node v = gate(s, g, r.hidden);
          return peep ? plus(v, times(gate(peep, p, r.hidden), of)) : v;
        };
        const node i = r.act(d, 0, peeped(0, 0, cell));
        const node f = coupled ? minus(constant(type, 1), i) : r.act(d, 0, peeped(2, 2, cell));
        const node g = r.act(d, 1, gate(s, 3, r.hidden));
        cell = plus(times(f, cell), times(i, g));
        const node o = r.act(d, 0, peeped(1, 1, cell));
        h = times(o, r.act(d, 2, cell));
      });
    }
    std::vector<node> stacked;
    for (const node& y : all) stacked.push_back(reshape_to(y, {dim(1), dim(1), r.batch, r.hidden}));
    outputs.push_back(joined(stacked, 0));
    last.push_back(unsqueezed(h, {0}));
    if (cell) last_cell.push_back(unsqueezed(cell, {0}));
  }
  node y = joined(outputs, 1), y_h = joined(last, 0);  // (steps, directions, batch, hidden)
  if (batch_first) {
    y = permuted(y, {2, 0, 1, 3});
    y_h = permuted(y_h, {1, 0, 2});
  }
  c.give(0, y);
  c.give(1, y_h);
  if (Kind == recurrence_kind::lstm) {
    const node y_c = joined(last_cell, 0);
    c.give(2, batch_first ? permuted(y_c, {1, 0, 2}) : y_c);
  }
}

inline const row recurrents[] = {
    {"GRU", "", 1, recurrent_row<recurrence_kind::gru>, "products, step by step"},
    {"LSTM", "", 1, recurrent_row<recurrence_kind::lstm>, "products, step by step"},
    {"RNN", "", 1, recurrent_row<recurrence_kind::rnn>, "products, step by step"},
};

}  // namespace sinter::onnx::rows
