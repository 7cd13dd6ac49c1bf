// tests/fuzz/control_graph.hpp: random graphs with branches and loops, whose parts are random graphs.
#pragma once

#include <utility>

#include "random_graph.hpp"

namespace fuzz {

/// No loop takes more steps, whatever its test says.
inline constexpr std::int64_t max_turns = 4;

class control_graph : public random_graph {
 public:
  control_graph(std::uint64_t seed, recipe how) : random_graph(seed, std::move(how), {}) {
    for (int i = 0; i < 2; ++i) keep(input(any_type(), any_shape(3)));
    grow(how_.steps);
    for (std::uint64_t n = 1 + below(2); n > 0; --n) {
      attempt([&] { control(); });
      grow(2);
    }
    derive(how_.derivatives);
    choose_outputs();
  }

 private:
  using values = std::vector<node_id>;
  struct kind_of_value {
    dtype type;
    shape extents;
  };

  /// A part: it reads its inputs and nothing else.
  control_graph(std::uint64_t seed, const recipe& around, const std::vector<kind_of_value>& inputs)
      : random_graph(seed, around, {}) {
    how_.max_inputs = 0;
    how_.depth += 1;
    for (const auto& x : inputs) pool_.push_back(input(x.type, x.extents));
    grow(1 + static_cast<int>(below(3)));
    if (how_.depth < 2 && chance(15)) attempt([&] { control(); });
    if (chance(10)) derive(1);
  }

  void control() {
    switch (below(5)) {
      case 0:
      case 1:
        return branch();
      case 2:
      case 3:
        return loop();
      default:
        return loop_while();
    }
  }

  kind_of_value kind(node_id x) const { return {type_of(x), shape_of(x)}; }
  std::vector<kind_of_value> kinds(const values& all) const {
    std::vector<kind_of_value> out;
    for (auto x : all) out.push_back(kind(x));
    return out;
  }
  values operands(std::uint64_t n) {
    values out;
    for (; n > 0; --n) out.push_back(any());
    return out;
  }
  node_id all_of(node_id x, op combiner) {
    std::vector<std::int64_t> axes(rank(x));
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
    return axes.empty() ? x : reduce(x, combiner, axes);
  }
  /// A bool without axes: an input of its own, or what follows from a value.
  node_id predicate() {
    if (chance(50) && graph.inputs.size() < how_.max_inputs) return keep(input(dtype::b8, {}));
    const node_id x = any();
    if (sinter::is_bool(type_of(x))) return all_of(x, chance(50) ? op::bit_or : op::bit_and);
    const node_id one = all_of(x, chance(50) ? op::maximum : op::minimum);
    return push(op::lt, {one, literal(type_of(x), {})});
  }
  /// A value of this kind, at times a new one.
  node_id like(const kind_of_value& k) {
    const node_id x = tensor(k.type, k.extents);
    if (sinter::is_bool(k.type) || chance(40)) return x;
    const node_id y = push(one_of({op::add, op::mul, op::maximum}), {x, tensor(k.type, k.extents)});
    return sinter::is_float(k.type) && chance(50) ? push(op::tanh, {y}) : y;
  }
  /// What is carried on: mostly what was carried with something else, so that the order of the steps matters.
  node_id after(node_id carried) {
    const kind_of_value k = kind(carried);
    if (sinter::is_bool(k.type) || chance(25)) return like(k);
    node_id y = push(one_of({op::mul, op::sub, op::add}), {carried, tensor(k.type, k.extents)});
    if (sinter::is_float(k.type) && chance(60)) y = push(one_of({op::tanh, op::sin}), {y});
    return chance(60) ? push(one_of({op::sub, op::add, op::maximum}), {y, tensor(k.type, k.extents)}) : y;
  }
  void push_step(sinter::ir::opaque step, const values& in) {
    const std::size_t given = step.kind == sinter::ir::opaque_kind::loop ? step.carried + step.stacked : 100;
    const auto results =
        push_opaque(graph, sinter::ir::seal(std::move(step)), {in.begin(), in.end()}, {"fuzz.cpp", ++lines_});
    // What a loop carried before each step is for derivatives.
    for (std::size_t k = 0; k < results.size(); ++k)
      if (rank(results[k]) <= 5 && (k < given || chance(20))) keep(results[k]);
  }

  void branch() {
    values in = operands(1 + below(3));
    control_graph yes(bits_(), how_, kinds(in)), no(bits_(), how_, kinds(in));
    for (std::uint64_t n = 1 + below(3); n > 0; --n) {
      const node_id x = yes.any();
      yes.graph.outputs.push_back(x);
      no.graph.outputs.push_back(no.like(yes.kind(x)));
    }
    in.insert(in.begin(), predicate());
    sinter::ir::opaque step;
    step.parts.push_back(std::move(yes.graph));
    step.parts.push_back(std::move(no.graph));
    push_step(std::move(step), in);
  }

  void loop() {
    sinter::ir::opaque step;
    step.kind = sinter::ir::opaque_kind::loop;
    const auto length = one_of<std::int64_t>({0, 1, 2, 2, 3, 3, max_turns});
    step.length = length;
    step.reverse = chance(40);
    values in = operands(below(3));
    step.carried = in.size();
    std::vector<kind_of_value> inputs{{dtype::i64, {}}};
    for (auto x : in) inputs.push_back(kind(x));
    for (std::uint64_t n = below(3); n > 0; --n) {
      const node_id x = step.carried > 0 && chance(70) ? in[below(step.carried)] : any();
      if (rank(x) > 4) continue;
      shape all = shape_of(x);
      all.insert(all.begin(), dim(length));
      in.push_back(tensor(type_of(x), all));
      inputs.push_back(kind(x));
      ++step.sliced;
    }
    for (std::uint64_t n = below(3); n > 0; --n) {
      in.push_back(any());
      inputs.push_back(kind(in.back()));
      ++step.constants;
    }
    control_graph body(bits_(), how_, inputs);
    for (std::size_t k = 0; k < step.carried; ++k) body.graph.outputs.push_back(body.after(body.graph.inputs[k + 1]));
    for (std::uint64_t n = below(3) + (step.carried == 0 ? 1 : 0); n > 0; --n) {
      body.graph.outputs.push_back(body.any());
      ++step.stacked;
    }
    step.parts.push_back(std::move(body.graph));
    push_step(std::move(step), in);
  }

  /// Carries a counter that ends it.
  void loop_while() {
    sinter::ir::opaque step;
    step.kind = sinter::ir::opaque_kind::while_loop;
    const auto number = [](growing_graph& g, std::int64_t n) { return g.graph.constant(dtype::i64, scalar{0, n}, {}); };
    values in{number(*this, static_cast<std::int64_t>(below(max_turns + 2)))};
    for (auto x : operands(1 + below(2))) in.push_back(x);
    step.carried = in.size();
    for (auto x : operands(below(2))) in.push_back(x);
    step.constants = in.size() - step.carried;
    control_graph test(bits_(), how_, kinds(in)), body(bits_(), how_, kinds(in));
    node_id more = test.push(op::lt, {test.graph.inputs[0], number(test, max_turns)});
    if (chance(40)) more = test.push(op::bit_and, {more, test.predicate()});
    test.graph.outputs.push_back(more);
    body.graph.outputs.push_back(body.push(op::add, {body.graph.inputs[0], number(body, 1)}));
    for (std::size_t k = 1; k < step.carried; ++k) body.graph.outputs.push_back(body.after(body.graph.inputs[k]));
    step.parts.push_back(std::move(test.graph));
    step.parts.push_back(std::move(body.graph));
    push_step(std::move(step), in);
  }
};

}  // namespace fuzz
