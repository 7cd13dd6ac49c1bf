// rewrite/fission.hpp: moves work out of a loop whose steps do not depend on each other, and does it for all steps at once.
#pragma once

#include <algorithm>
#include <utility>

#include "../base/sorted.hpp"
#include "../batch/batch.hpp"
#include "../ir/value.hpp"

namespace sinter::engine::rewrite {

namespace detail {

/// The dependences of a node in a loop's body.
enum class reach : char {
  constants,  ///< the same in all steps
  slices,     ///< differs by step, but does not depend on earlier steps
  steps,      ///< depends on earlier steps, or cannot be moved
};

/// The weight of an extent; open extents count as if they were of medium size.
inline double weight(const ir::shape& extents) {
  double n = 1;
  for (const auto& d : extents)
    n *= static_cast<double>(d.number().value_or(std::max<std::int64_t>(d.lower_bound(), 32)));
  return n;
}

/// The nodes of `g` that `roots` need, as a graph whose inputs stand for the nodes `given`.
inline ir::graph cut_out(const ir::graph& g, const series<ir::node_id>& given, const series<ir::node_id>& roots) {
  ir::graph out;
  series<ir::node_id> moved(g.size(), ir::no_node);
  for (auto id : given) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  series<char> needed(g.size(), 0);
  for (auto id : roots) needed[id] = 1;
  for (ir::node_id id = static_cast<ir::node_id>(g.size()); id-- > 0;)
    if (needed[id] && moved[id] == ir::no_node)
      for (auto in : g[id].in) needed[in] = 1;
  for (ir::node_id id = 0; id < g.size(); ++id) {
    const ir::node& n = g[id];
    if (!needed[id] || moved[id] != ir::no_node) continue;
    ensure(n.code != ir::op::input, "the inputs of what is cut out are given");
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
  }
  for (auto id : roots) out.outputs.push_back(moved[id]);
  return out;
}

/// One loop, and the work that leaves it. Before the loop go products of slices, as one product of all steps, and values that
/// are the same in all steps. After the loop go products that steps only add to a carried value, or only stack.
class loop_fission {
 public:
  loop_fission(const ir::node& n, const series<ir::node_id>& picks)
      : step_(*n.attr.step), body_(step_.parts[0]), n_(n), picks_(picks) {
    classify();
    choose_early();
    choose_late();
  }

  bool changes() const { return !early_.empty() || !late_.empty(); }

  /// Pushes the smaller loop and the work that left it; `operands` are the node's operands in `out`. Returns the same results
  /// as before.
  series<ir::node_id> push(ir::graph& out, const series<ir::node_id>& operands) const {
    values_of_steps all = outer(out, operands);
    const batch::lane_values early = at_once(out, all, early_);
    for (std::size_t k = 0; k < early_.size(); ++k) all.add(early_[k], early[k].x, early[k].varies);
    series<ir::node_id> out_of = push_loop(out, operands, early);
    const auto add_stack = [&](ir::node_id node, std::size_t k) { all.add(node, {out, out_of[k], n_.where}, true); };
    for (std::size_t k = step_.carried; k < body_.outputs.size(); ++k)
      if (!leaves_late(k)) add_stack(body_.outputs[k], k);
    for (std::size_t j = 0; j < stacks_.size(); ++j) add_stack(stacks_[j], picks_.size() + j);
    add_late(out, operands, all, out_of);
    out_of.resize(picks_.size());
    return out_of;
  }

 private:
  static constexpr unsigned as_output = 2;  ///< number of readers that an output counts as

  /// A result that is computed after the loop: a carried value that only sums, or a stack. Its terms are views of values that
  /// are computed for all steps at once.
  struct late_result {
    std::size_t place;
    series<ir::node_id> roots;
    series<series<ir::node_id>> views;  ///< of each term, the last view first
  };

  std::size_t first_slice() const { return step_.carried + 1; }
  std::size_t first_constant() const { return first_slice() + step_.sliced; }
  double weight_of(ir::node_id id) const { return weight(body_[id].extents); }
  bool is_stack(std::size_t place) const { return place >= step_.carried; }
  bool is_view(ir::node_id id) const { return ir::is_view(body_[id].code) && body_[id].in.size() == 1; }

  void classify() {
    reach_.resize(body_.size());
    readers_.resize(body_.size());
    reader_.resize(body_.size());
    for (std::size_t k = 0; k < body_.inputs.size(); ++k) {
      const bool each = k == 0 || (k >= first_slice() && k < first_constant());
      reach_[body_.inputs[k]] = each ? reach::slices : k < first_slice() ? reach::steps : reach::constants;
      if (k >= first_constant()) constants_ += weight_of(body_.inputs[k]);
    }
    live_ = body_.live();
    for (auto id : live_)
      for (auto in : body_[id].in) ++readers_[in], reader_[in] = id;
    for (auto id : body_.outputs) readers_[id] += as_output;
    room_ = 4 * weight_of_step();
    for (auto id : live_) {
      const ir::node& n = body_[id];
      if (n.code == ir::op::input) continue;
      reach r = n.code == ir::op::opaque || n.code == ir::op::pick ? reach::steps : reach::constants;
      for (auto in : n.in) r = std::max(r, reach_[in]);
      // A loop may exist to hold a large product in parts.
      if (r == reach::slices && (!fits_lanes(id) || (n.code == ir::op::dot && !leaves_early(n)))) r = reach::steps;
      reach_[id] = r;
    }
  }

  bool fits_lanes(ir::node_id id) const { return body_[id].extents.size() < static_cast<std::size_t>(max_rank); }

  /// Whether a product of slices and constants leaves early: the product of all steps must not take more memory than the
  /// steps have.
  bool leaves_early(const ir::node& n) const {
    const bool left = reach_[n.in[0]] == reach::constants, right = reach_[n.in[1]] == reach::constants;
    return left != right && weight(n.extents) <= room_ && weight_of(n.in[left ? 1 : 0]) <= room_;
  }

  /// The memory that a step needs in any case, for its slices and stacks.
  double weight_of_step() const {
    double all = 0;
    for (std::size_t k = 0; k < step_.carried; ++k)
      if (picks_[step_.carried + step_.stacked + k] != ir::no_node) all += weight_of(body_.outputs[k]);
    for (std::size_t k = first_slice(); k < first_constant(); ++k) all += weight_of(body_.inputs[k]);
    for (std::size_t k = step_.carried; k < body_.outputs.size(); ++k) all += weight_of(body_.outputs[k]);
    return all;
  }

  /// Chooses products of slices, and values that are the same in all steps, unless they are larger than their operands.
  void choose_early() {
    series<char> leaves(body_.size(), 0);
    for (auto id : live_) {
      const ir::node& n = body_[id];
      const bool computes = n.code != ir::op::input && n.code != ir::op::constant && n.code != ir::op::iota &&
                            n.code != ir::op::size && !ir::is_view(n.code);
      leaves[id] = n.code == ir::op::dot && reach_[id] == reach::slices;
      if (computes && reach_[id] == reach::constants && weight_of(id) <= constants_) leaves[id] = 2;
    }
    // Of the values that are the same in all steps, the last ones leave: those with remaining readers.
    series<char> read(body_.size(), 0);
    for (auto id : live_)
      if (leaves[id] != 2)
        for (auto in : body_[id].in) read[in] = 1;
    for (auto id : body_.outputs) read[id] = 1;
    for (auto id : live_)
      if (leaves[id] == 1 || (leaves[id] == 2 && read[id])) early_.push_back(id);
    for (auto id : early_) at_hand_.insert(id);
    for (std::size_t k = step_.carried; k < body_.outputs.size(); ++k) at_hand_.insert(body_.outputs[k]);
  }

  void choose_late() {
    // Sums of products make stacks of their operands. Other sums follow if their operands are then at hand. Otherwise they
    // stay, because their order is the user's.
    for (const bool products : {true, false})
      for (std::size_t k = 0; k < step_.carried; ++k) {
        const bool chosen = std::any_of(late_.begin(), late_.end(), [&](const auto& a) { return a.place == k; });
        if ((!products && late_.empty()) || chosen || picks_[step_.carried + step_.stacked + k] != ir::no_node)
          continue;
        late_result a{k, {}, {}};
        if (adds_up(k, a.roots)) choose(std::move(a), products);
      }
    for (std::size_t k = step_.carried; k < body_.outputs.size(); ++k)
      if (const ir::node_id id = body_.outputs[k]; reach_[id] == reach::steps && readers_[id] == as_output) {
        at_hand_.erase(id);
        if (!choose({k, {id}, {}}, true)) at_hand_.insert(id);
      }
  }

  /// Whether the carried value is itself plus terms, and no other node reads it or the partial sums.
  bool adds_up(std::size_t carried, series<ir::node_id>& terms) const {
    const ir::node_id last = body_.outputs[carried];
    ir::node_id id = body_.inputs[carried + 1];
    while (id != last) {
      if (readers_[id] != 1) return false;
      const ir::node& n = body_[reader_[id]];
      if (n.code != ir::op::add || n.in[0] == n.in[1]) return false;
      terms.push_back(n.in[n.in[0] == id ? 1 : 0]);
      id = reader_[id];
    }
    return !terms.empty() && readers_[last] == as_output;
  }

  bool choose(late_result a, bool products) {
    sorted_set<ir::node_id> frontier;
    bool any = false;
    for (auto& root : a.roots) {
      series<ir::node_id> views;
      ir::node_id id = root;
      for (; body_[id].code == ir::op::reshape || body_[id].code == ir::op::permute; id = body_[id].in[0])
        views.push_back(id);
      const bool product = body_[id].code == ir::op::dot;
      any = any || product;
      if (reach_[id] == reach::constants || !fits_lanes(root) || !fits_lanes(id)) return false;
      if (products && product && !at_hand_.count(id)) {
        for (auto in : body_[id].in) {
          add_frontier(in, frontier);
          if (weight_of(in) > room_) return false;
        }
      } else if (!is_at_hand(id)) {
        return false;
      }
      if (is_stack(a.place)) continue;
      // A sum over steps of views is a view of the sum.
      root = id;
      a.views.push_back(std::move(views));
    }
    if (products && !any) return false;
    // A sum of halves without a product is rounded in each step.
    if (!any && is_narrow(body_[body_.outputs[a.place]].type)) return false;
    double more = 0;
    for (auto id : frontier) more += weight_of(id);
    for (auto id : frontier)
      if (!fits_lanes(id)) return false;
    if (more > 2 * weight_of(body_.outputs[a.place]) || more > room_) return false;
    for (auto id : frontier) stacks_.push_back(id);
    at_hand_.insert(frontier.begin(), frontier.end());
    late_.push_back(std::move(a));
    return true;
  }

  /// Adds the values that must be kept of each step for a product's operand.
  void add_frontier(ir::node_id id, sorted_set<ir::node_id>& to) const {
    while (reach_[id] == reach::steps && !at_hand_.count(id) && is_view(id) && fits_lanes(id)) id = body_[id].in[0];
    if (reach_[id] == reach::steps && !at_hand_.count(id)) to.insert(id);
  }

  /// Whether a value can be computed from slices, constants and kept values, without large intermediates.
  bool is_at_hand(ir::node_id id) const {
    if (at_hand_.count(id) || reach_[id] != reach::steps) return true;
    const ir::node& n = body_[id];
    if (n.code == ir::op::input || n.code == ir::op::opaque || n.code == ir::op::pick || n.code == ir::op::dot ||
        readers_[id] != 1 || !fits_lanes(id))
      return false;
    return std::all_of(n.in.begin(), n.in.end(), [&](ir::node_id in) { return is_at_hand(in); });
  }

  /// Nodes of the body, and their values for all steps at once.
  struct values_of_steps {
    series<ir::node_id> nodes;
    batch::lane_values values;

    void add(ir::node_id node, const ir::value& x, bool varies) {
      if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) return;
      nodes.push_back(node);
      values.push_back({x, varies});
    }
  };

  /// The index, slices and constants.
  values_of_steps outer(ir::graph& out, const series<ir::node_id>& operands) const {
    values_of_steps all;
    ir::attributes index;
    index.type = dtype::i64;
    index.dims = {step_.length};
    index.ints = {0};
    all.add(body_.inputs[0], {out, out.push(ir::op::iota, {}, std::move(index), n_.where), n_.where}, true);
    for (std::size_t k = step_.carried; k < operands.size(); ++k)
      all.add(body_.inputs[k + 1], {out, operands[k], n_.where}, k + 1 < first_constant());
    return all;
  }
  batch::lane_values at_once(ir::graph& out, const values_of_steps& all, const series<ir::node_id>& roots) const {
    return batch::push_part({out, step_.length}, cut_out(body_, all.nodes, roots), all.values);
  }

  bool leaves_late(std::size_t place) const {
    return std::any_of(late_.begin(), late_.end(), [&](const late_result& a) { return a.place == place; });
  }
  /// The index among the early values; their number if absent.
  std::size_t left_early(ir::node_id id) const {
    return static_cast<std::size_t>(std::find(early_.begin(), early_.end(), id) - early_.begin());
  }

  /// The remaining loop. Returns the results without the late ones, followed by the new stacks.
  series<ir::node_id> push_loop(ir::graph& out, const series<ir::node_id>& operands,
                                const batch::lane_values& early) const {
    ir::opaque made;
    made.kind = step_.kind;
    made.length = step_.length;
    made.reverse = step_.reverse;
    series<ir::node_id> given{body_.inputs[0]}, in, roots, result(picks_.size() + stacks_.size(), ir::no_node);
    series<std::size_t> place;  // of the remaining results
    const auto take = [&](std::size_t from, std::size_t to) {
      for (std::size_t k = from; k < to; ++k)
        if (is_stack(k) || !leaves_late(k)) given.push_back(body_.inputs[k + 1]), in.push_back(operands[k]);
    };
    const auto take_early = [&](bool each) {
      for (std::size_t k = 0; k < early_.size(); ++k)
        if (early[k].varies == each) given.push_back(early_[k]), in.push_back(early[k].x.id());
    };
    take(0, step_.carried);
    made.carried = in.size();
    take(step_.carried, step_.carried + step_.sliced);
    take_early(true);
    made.sliced = in.size() - made.carried;
    take(step_.carried + step_.sliced, operands.size());
    take_early(false);
    made.constants = in.size() - made.carried - made.sliced;
    const auto give = [&](ir::node_id root, std::size_t to) {
      if (const std::size_t k = left_early(root); is_stack(to) && k < early_.size() && early[k].varies) {
        result[to] = early[k].x.id();
      } else {
        roots.push_back(root);
        place.push_back(to);
      }
    };
    for (std::size_t k = 0; k < body_.outputs.size(); ++k)
      if (!leaves_late(k)) give(body_.outputs[k], k);
    for (std::size_t j = 0; j < stacks_.size(); ++j) give(stacks_[j], picks_.size() + j);
    for (std::size_t k = 0; k < step_.carried; ++k)
      if (!leaves_late(k)) place.push_back(step_.carried + step_.stacked + k);
    made.stacked = roots.size() - made.carried;
    made.parts.push_back(cut_out(body_, given, roots));
    const auto pushed = ir::push_opaque(out, ir::seal(std::move(made)), std::move(in), n_.where);
    for (std::size_t k = 0; k < pushed.size(); ++k) result[place[k]] = pushed[k];
    return result;
  }

  /// Computes the late results after the loop.
  void add_late(ir::graph& out, const series<ir::node_id>& operands, const values_of_steps& all,
                series<ir::node_id>& results) const {
    series<ir::node_id> roots;
    for (const auto& a : late_) roots.insert(roots.end(), a.roots.begin(), a.roots.end());
    const batch::lane_values terms = at_once(out, all, roots);
    std::size_t next = 0;
    for (const auto& a : late_) {
      if (is_stack(a.place)) {
        results[a.place] = terms[next++].x.id();
        continue;
      }
      ir::value sum(out, operands[a.place], n_.where);
      for (const auto& views : a.views) {
        ir::value term = ir::reduce(terms[next++].x, ir::op::add, {0});
        for (std::size_t k = views.size(); k-- > 0;) {
          const ir::node& view = body_[views[k]];
          term = ir::value(out, out.push(view.code, {term.id()}, view.attr, view.where), n_.where);
        }
        sum = sum + term;
      }
      results[a.place] = sum.id();
    }
  }

  const ir::opaque& step_;
  const ir::graph& body_;
  const ir::node& n_;
  const series<ir::node_id>& picks_;
  series<ir::node_id> live_;
  series<reach> reach_;
  series<unsigned> readers_;
  series<ir::node_id> reader_;  ///< the last reader
  double room_ = 0, constants_ = 0;
  series<ir::node_id> early_, stacks_;
  series<late_result> late_;
  sorted_set<ir::node_id> at_hand_;  ///< nodes whose values exist for all steps
};

}  // namespace detail

inline bool has_loops(const ir::graph& g) {
  for (ir::node_id id = 0; id < g.size(); ++id)
    if (g[id].code == ir::op::opaque && g[id].attr.step->kind == ir::opaque_kind::loop) return true;
  return false;
}

/// Takes work out of loops whose steps do not depend on each other.
inline ir::graph fission(const ir::graph& g) {
  if (!has_loops(g)) return g;
  const auto live = g.live();
  const ir::picks picks(g, live);
  ir::graph out;
  series<ir::node_id> moved(g.size(), ir::no_node);
  sorted_map<ir::node_id, series<ir::node_id>> results;  // of loops that work has left
  for (auto id : g.inputs) moved[id] = out.add_input(g[id].type, g[id].extents, g[id].where);
  for (auto id : live) {
    const ir::node& n = g[id];
    if (n.code == ir::op::input) continue;
    series<ir::node_id> in;
    for (auto operand : n.in) in.push_back(moved[operand]);
    if (n.code == ir::op::pick)
      if (const auto found = results.find(n.in[0]); found != results.end()) {
        moved[id] = found->second[static_cast<std::size_t>(n.attr.ints[0])];
        continue;
      }
    if (n.code == ir::op::opaque && n.attr.step->kind == ir::opaque_kind::loop && !n.attr.step->has_effect) {
      const detail::loop_fission loop(n, picks.of(id));
      if (loop.changes()) {
        results.emplace(id, loop.push(out, in));
        continue;
      }
    }
    moved[id] = out.push(n.code, std::move(in), n.attr, n.where);
  }
  for (auto id : g.outputs) out.outputs.push_back(moved[id]);
  return out;
}

}  // namespace sinter::engine::rewrite
