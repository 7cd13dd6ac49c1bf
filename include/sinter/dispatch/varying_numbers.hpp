// dispatch/varying_numbers.hpp: the floating constants in which graphs of one function differ: arguments of shared kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "../base/series.hpp"
#include "../engine/engine.hpp"
#include "../ir/concrete.hpp"
#include "hot_extents.hpp"

namespace sinter::engine::detail {

template <class T>
void append_bytes(std::string& key, const T& x) {
  char bytes[sizeof x];
  std::memcpy(bytes, &x, sizeof x);
  key.append(bytes, sizeof x);
}

/// The key of a graph's structure. It holds the nodes in order, the layouts of the inputs, and how the inputs determine the
/// sizes. It omits floating constants, which are listed if results need them. Nodes are in the function's order of pushing,
/// so that its next call finds the program without printing the graph. Questions about sizes are repeated at each call, so
/// nothing else matters.
inline std::string structure_key(const ir::graph& g, std::span<const argument> inputs, const size_layout& layout,
                                 const options& how, device where, series<ir::node_id>& constants) {
  std::string key = how.backend;
  const auto add = [&key](auto x) { append_bytes(key, x); };
  add(where.index * 2 + where.is_cuda());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const argument& x = inputs[i];
    add(kernel_facts(x));
    const bool dense = !layout.tensors.empty() && layout.tensors[i].dense;
    add(dense);
    for (int d = 0; d < x.rank; ++d) {
      if (dense) add(layout.tensors[i].order[static_cast<std::size_t>(d)]);
      else add(x.strides[d]);
    }
  }
  add(layout.sizes.size());
  for (const open_size& s : layout.sizes) {
    add(s.derived);
    if (!s.derived) add(s.factor), add(s.offset), add(s.most);
    add(s.value.is_number());
    if (const auto n = s.value.number()) add(*n);
    else add(reinterpret_cast<std::uintptr_t>(s.value.symbolic()));
    for (const fact_of& f : s.extents) add(f.tensor), add(f.axis);
  }
  ir::append_structure(key, g, &constants);
  series<char> live(g.size(), 0);
  for (const auto id : g.live()) live[id] = 1;
  erase_if(constants, [&](ir::node_id id) { return !live[id]; });
  return key;
}

/// The floating constants that are arguments of the kernels shared by graphs which are otherwise equal. Constants that may
/// depend on C++ numbers (graph::constant_apart) are arguments from the first graph on, others once they have differed.
class varying {
 public:
  varying() = default;
  varying(const ir::graph& g, const series<ir::node_id>& constants)
      : first_(bits_of(g, constants)), argument_(constants.size(), literal) {
    for (std::size_t i = 0; i < constants.size(); ++i)
      if (!g[constants[i]].attr.ints.empty()) become_argument(i);
  }

  /// Notes a further graph, with its constants in order. True if there are more arguments than before.
  bool note(const ir::graph& g, const series<ir::node_id>& constants) {
    const std::size_t before = arguments_.size();
    const auto now = bits_of(g, constants);
    for (std::size_t i = 0; i < now.size(); ++i)
      if (argument_[i] == literal && now[i] != first_[i]) become_argument(i);
    return arguments_.size() != before;
  }

  /// The constant of each argument.
  series<ir::node_id> of(const series<ir::node_id>& constants) const {
    series<ir::node_id> out;
    for (const std::size_t i : arguments_) out.push_back(constants[i]);
    return out;
  }
  /// The argument of constant number i, or -1.
  int argument_of(std::size_t i) const { return argument_[i]; }

 private:
  static constexpr int literal = -1;

  static series<std::uint64_t> bits_of(const ir::graph& g, const series<ir::node_id>& constants) {
    series<std::uint64_t> out;
    for (const auto id : constants) out.push_back(std::bit_cast<std::uint64_t>(g[id].attr.literal.f));
    return out;
  }

  void become_argument(std::size_t i) {
    argument_[i] = static_cast<int>(arguments_.size());
    arguments_.push_back(i);
  }

  series<std::uint64_t> first_;
  series<int> argument_;           ///< for each constant, the number of its argument, or `literal`
  series<std::size_t> arguments_;  ///< for each argument, the number of its constant
};

/// The graph with constants as rank-0 inputs, before its last `captured` inputs.
inline ir::graph with_inputs(const ir::graph& g, const series<ir::node_id>& constants, std::size_t captured) {
  ir::graph out;
  series<ir::node_id> moved(g.size(), ir::no_node), given, order;
  for (const auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (const auto id : constants) {
    const ir::node& n = g[id];
    given.push_back(out.add_input(n.type, {}, n.where));
    moved[id] = ir::push_broadcast(out, given.back(), nullptr, 0, n.extents.data(), static_cast<int>(n.extents.size()),
                                   n.where);
  }
  for (const auto id : g.live()) {
    if (moved[id] != ir::no_node) continue;
    const ir::node& n = g[id];
    series<ir::node_id> in;
    for (const auto operand : n.in) in.push_back(moved[operand]);
    moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
  }
  for (const auto id : g.outputs) out.outputs.push_back(moved[id]);
  const std::size_t first = g.inputs.size() - captured;
  for (std::size_t k = 0; k < g.inputs.size() + given.size(); ++k)
    order.push_back(k < first                  ? moved[g.inputs[k]]
                    : k < first + given.size() ? given[k - first]
                                               : moved[g.inputs[k - given.size()]]);
  out.order_inputs(std::move(order));
  return out;
}

/// The values of constants as arguments, which point into it.
class constant_values {
 public:
  constant_values() = default;
  constant_values(const ir::graph& g, const series<ir::node_id>& constants) {
    for (const auto id : constants) {
      std::uint64_t bits = 0;
      visit_dtype(g[id].type, [&]<class T>(std::type_identity<T>) {
        if constexpr (is_float(dtype_of<T>)) {
          const T x = [&] {
            if constexpr (std::is_same_v<T, double>) return g[id].attr.literal.f;
            else return static_cast<T>(static_cast<float>(g[id].attr.literal.f));
          }();
          std::memcpy(&bits, &x, sizeof x);
        }
      });
      bits_.push_back(bits);
      types_.push_back(g[id].type);
    }
  }

  std::size_t size() const { return bits_.size(); }
  argument operator[](std::size_t i) const {
    argument a;
    a.data = const_cast<std::uint64_t*>(&bits_[i]);
    a.type = types_[i];
    a.by_value = true;
    return a;
  }

 private:
  series<std::uint64_t> bits_;
  series<dtype> types_;
};

/// A graph that takes constants as inputs, and a call's arguments with their values.
struct opened_numbers {
  opened_numbers(const ir::graph& g, const series<ir::node_id>& constants, std::size_t captured,
                 std::span<const argument> tensors)
      : graph(with_inputs(g, constants, captured)), given(g, constants), inputs(tensors.begin(), tensors.end()) {
    for (std::size_t i = 0; i < given.size(); ++i) inputs.push_back(given[i]);
  }

  ir::graph graph;
  const constant_values given;
  series<argument> inputs;
};

/// The program of calls from now on: set once, or again when the kernels are ready. The earlier program stays.
struct served {
  void serve(std::shared_ptr<const program> p) {
    (first_ ? ready_ : first_) = p;
    now.store(p.get(), std::memory_order_release);
  }

  std::atomic<const program*> now{nullptr};

 private:
  std::shared_ptr<const program> first_, ready_;
};

/// A program that takes constants after a call's arguments.
struct shared_kernels : served {
  explicit shared_kernels(capture_list x) : captures(std::move(x)) {}

  const capture_list captures;
  varying constants;

  /// Whether a trace has captured the same tensors.
  bool reads(const capture_list& x) const {
    return std::equal(captures.begin(), captures.end(), x.begin(), x.end(), [](const captured& a, const captured& b) {
      return a.memory == b.memory && a.data == b.data && a.type == b.type && a.extents == b.extents &&
             a.strides == b.strides;
    });
  }
};

/// Shared kernels with the constants of one graph.
class supplied_program final : public program {
 public:
  supplied_program(std::shared_ptr<const shared_kernels> kernels, constant_values constants)
      : kernels_(std::move(kernels)), constants_(std::move(constants)) {
    for (std::size_t i = 0; i < constants_.size(); ++i) numbers_.push_back(constants_[i]);
  }

  void run(std::span<const argument> arguments, std::span<const argument>, std::span<const std::uint8_t> donate,
           output* outputs) const override {
    now().run(arguments, {numbers_.data(), numbers_.size()}, donate, outputs);
  }
  std::size_t output_count() const override { return now().output_count(); }
  report describe() const override { return now().describe(); }
  std::size_t text_bytes() const override { return now().text_bytes(); }
  report explain() const override { return now().explain(); }

 private:
  const program& now() const { return *kernels_->now.load(std::memory_order_acquire); }

  std::shared_ptr<const shared_kernels> kernels_;
  constant_values constants_;
  series<argument> numbers_;  ///< point into constants_
};

/// Specialisations that differ at most in C++ numbers. Changes while one is made.
struct constant_family {
  std::string structure;  ///< of their graphs with the arguments' layouts, without floating constants
  std::size_t open = 0;   ///< number of extents that these leave open
  varying constants;
  std::shared_ptr<shared_kernels> kernels;
  std::shared_ptr<hot_extents> warmth;  ///< for open extents: frequent ones get their own kernels
  bool frequent = false;                ///< this family was made for frequent extents
};

}  // namespace sinter::engine::detail
