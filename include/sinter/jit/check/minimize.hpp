// jit/check/minimize.hpp: reduces a graph that fails verify() to its smallest part that still fails.
#pragma once

#include "../../report/program.hpp"
#include "verify.hpp"

namespace sinter::engine {

SINTER_API ir::literal_array random_values(dtype type, const series<std::int64_t>& extents, std::uint64_t seed) {
  ir::literal_array out{type, extents, {}, {}};
  std::uint64_t bits = 0x9e3779b97f4a7c15ull * (seed + 1);
  const auto next = [&] {
    bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
    return static_cast<double>(bits >> 11) * 0x1p-53;  // in [0, 1)
  };
  std::int64_t count = 1;
  for (auto e : extents) count *= e;
  for (std::int64_t i = 0; i < count; ++i)
    if (is_float(type)) {
      // A sum of uniform numbers is close to normal.
      const double x = next() + next() + next() + next() - 2;
      out.f.push_back(static_cast<double>(static_cast<float>(std::ldexp(std::round(x * 64), -5))));
    } else {
      out.i.push_back(is_bool(type) ? next() < 0.5 : static_cast<std::int64_t>(next() * 8));
    }
  return out;
}

namespace detail {

/// A graph without dead nodes, and the values of its inputs.
struct candidate_graph {
  ir::graph g;
  series<reporting::spelled_input> inputs;
  series<std::int64_t> sizes;  ///< of the graph's symbols
};

/// Whether the extent of some input determines a size symbol.
inline bool is_told(const ir::graph& g, int symbol) {
  for (auto id : g.inputs)
    for (const auto& e : g[id].extents)
      if (const auto form = linear_in(e, symbol); form && form->coefficient > 0 && form->rest.is_number()) return true;
  return false;
}

/// Makes symbol s<fixed>, if given, and symbols that no input determines, numbers; renumbers the others without gaps.
inline void close_sizes(candidate_graph& s, int fixed = -1) {
  series<std::int64_t> kept;
  for (int k = 0; k < static_cast<int>(s.sizes.size()); ++k) {
    const std::int64_t number = s.sizes[static_cast<std::size_t>(k)];
    const auto next = static_cast<int>(kept.size());
    const bool stays = k != fixed && is_told(s.g, k) && uses(s.g, k);
    if (!stays || next != k)
      s.g.replace_sizes(
          [&](const ir::dim& d) { return substituted(d, k, stays ? ir::dim::symbol(next) : ir::dim(number)); });
    if (stays) kept.push_back(number);
  }
  s.sizes = std::move(kept);
}

/// The part of `s` that `outputs` need; the node `cut`, if given, becomes an input with that value.
inline candidate_graph part_of(const candidate_graph& s, series<ir::node_id> outputs, ir::node_id cut = ir::no_node,
                               const ir::literal_array* value = nullptr) {
  series<char> needed(s.g.size());
  for (auto id : outputs) needed[id] = 1;
  for (auto id = static_cast<ir::node_id>(s.g.size()); id-- > 0;)
    if (needed[id] && id != cut)
      for (auto in : s.g[id].in) needed[in] = 1;
  candidate_graph out;
  series<ir::node_id> moved(s.g.size(), ir::no_node);
  for (ir::node_id id = 0; id < s.g.size(); ++id) {
    if (!needed[id]) continue;
    const ir::node& n = s.g[id];
    if (id == cut) {
      moved[id] = out.g.add_input(n.type, n.extents, n.where);
      out.inputs.push_back({*value, {}, 0});
    } else if (n.code == ir::op::input) {
      moved[id] = out.g.add_input(n.type, n.extents, n.where);
      out.inputs.push_back(s.inputs[static_cast<std::size_t>(n.attr.ints[0])]);
    } else {
      series<ir::node_id> in;
      for (auto x : n.in) in.push_back(moved[x]);
      moved[id] = out.g.push(n.code, std::move(in), n.attr, n.where);
    }
  }
  for (auto id : outputs) out.g.outputs.push_back(moved[id]);
  out.sizes = s.sizes;
  close_sizes(out);
  return out;
}

class reduction {
 public:
  reduction(candidate_graph s, const options& how, device where) : now_(std::move(s)), how_(how), where_(where) {}

  reproduction run() {
    out_.what = examine(now_);
    kind_ = out_.what.found;
    if (kind_ == verification::outcome::agrees) return out_;
    fewer_sizes();
    fewer_results();
    while (cut_one()) {}
    simpler_inputs();
    out_.nodes = now_.g.size();
    write();
    return out_;
  }

 private:
  /// The greatest number of compilations.
  static constexpr std::size_t max_tries = 400;

  verification examine(const candidate_graph& s) {
    ++out_.tried;
    series<example> inputs;
    for (const auto& x : s.inputs) inputs.push_back({x.value, x.strides});
    return verify(s.g, inputs, how_, where_);
  }

  /// Continues with the candidate if it fails in the same way.
  bool accept(candidate_graph candidate) {
    if (out_.tried >= max_tries) return false;
    const verification v = examine(candidate);
    if (v.found != kind_) return false;
    out_.what = v;
    now_ = std::move(candidate);
    return true;
  }

  /// Makes sizes numbers if they need not be open.
  void fewer_sizes() {
    for (std::size_t k = now_.sizes.size(); k-- > 0;) {
      candidate_graph closed = now_;
      close_sizes(closed, static_cast<int>(k));
      accept(std::move(closed));
    }
  }

  /// Selects the first node, in topological order, that fails on its own; else one of the results that fails.
  void fewer_results() {
    for (ir::node_id id = 0; id < now_.g.size(); ++id) {
      const ir::op code = now_.g[id].code;
      if (now_.g[id].in.empty() || code == ir::op::opaque) continue;
      if (accept(part_of(now_, {id}))) return;
    }
    for (std::size_t k = now_.g.outputs.size(); k-- > 0 && now_.g.outputs.size() > 1;) {
      series<ir::node_id> fewer = now_.g.outputs;
      fewer.erase(fewer.begin() + k);
      accept(part_of(now_, fewer));
    }
  }

  /// Makes the last node that need not be computed an input; false if all are needed.
  bool cut_one() {
    arrays known;
    for (std::size_t i = 0; i < now_.inputs.size(); ++i) known.emplace(now_.g.inputs[i], now_.inputs[i].value);
    rounding_bounds reference(now_.g, known, {now_.sizes.data(), now_.sizes.size()}, 0);
    const auto& outputs = now_.g.outputs;
    for (auto id = static_cast<ir::node_id>(now_.g.size()); id-- > 0;) {
      const ir::node& n = now_.g[id];
      if (n.in.empty() || n.code == ir::op::opaque || std::count(outputs.begin(), outputs.end(), id)) continue;
      const ir::literal_array value = reference(id);
      if (accept(part_of(now_, outputs, id, &value))) return true;
    }
    return false;
  }

  void simpler_inputs() {
    for (std::size_t i = 0; i < now_.inputs.size(); ++i) {
      candidate_graph plain = now_;
      plain.inputs[i].strides.clear();
      if (!now_.inputs[i].strides.empty()) accept(std::move(plain));
      const auto& x = now_.inputs[i].value;
      if (x.f.size() + x.i.size() <= 4) continue;
      candidate_graph seeded = now_;
      seeded.inputs[i].seed = i + 1;
      seeded.inputs[i].value = random_values(x.type, x.extents, i + 1);
      accept(std::move(seeded));
    }
  }

  void write() {
    for (ir::node_id id = 0; id < now_.g.size(); ++id)
      if (now_.g[id].attr.step) {
        out_.what.problem += "; no program is written: it would hold functions of yours";
        return;
      }
    std::string settings = ".backend = \"" + how_.backend + "\"";
    if (how_.precision == precision::high) settings += ", .precision = precision::high";
    if (how_.deterministic) settings += ", .deterministic = true";
    const std::string where = where_.is_cuda() ? "device::cuda(" + std::to_string(where_.index) + ")" : "device::cpu()";
    out_.source = reporting::program(now_.g, now_.inputs, now_.sizes.size(), out_.what.text(), settings, where);
  }

  candidate_graph now_;
  options how_;
  device where_;
  verification::outcome kind_ = verification::outcome::agrees;
  reproduction out_;
};

}  // namespace detail

SINTER_API reproduction minimize(std::shared_ptr<tracer> traced, std::span<const argument> arguments,
                                 const options& how, device where) {
  const auto all = detail::all_arguments(arguments, traced->captures);
  const size_layout& layout = traced->assumed.layout;
  const ir::graph& g = traced->graph;
  detail::candidate_graph s{
      ir::has_attention(g) ? ir::compose_attention(g) : g, {}, series<std::int64_t>(layout.sizes.size())};
  const bool fits = s.sizes.empty() || bind_sizes(layout, arguments.subspan(0, layout.tensors.size()), s.sizes.data());
  ensure(fits, "a program is minimised on a call that it is for");
  for (const auto& a : all) {
    const bool plain = detail::is_row_major(a);
    s.inputs.push_back(
        {detail::read(a), plain ? series<std::int64_t>() : series<std::int64_t>(a.strides, a.strides + a.rank), 0});
  }
  const device common = detail::common_device(traced->graph, all, arguments.size(), how, where);
  return detail::reduction(detail::part_of(s, series<ir::node_id>(s.g.outputs)), how, common).run();
}

}  // namespace sinter::engine
