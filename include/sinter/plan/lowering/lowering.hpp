// plan/lowering/lowering.hpp: a kernel under construction from its roots: where each value is computed, and the memory that
// it reads.
#pragma once

#include <optional>

#include "../../base/sorted.hpp"
#include "../kernel/body.hpp"
#include "../kernel/index.hpp"
#include "../kernel/root.hpp"

namespace sinter::engine::plan {

class lowering;

/// The greatest number of conditions of a read; each pad or concatenation on the way to memory adds some.
inline constexpr std::size_t max_ranges = 16;

/// The lowering of an op into kernels. (ops/NAME.hpp)
struct op_lowering {
  bool stored;  ///< its result is always in memory
  /// Appends the roots whose computation puts the node into memory.
  void (*roots)(const ir::graph& g, node_id id, series<root>& out);
  /// Places a root that is the node itself in the kernel.
  void (*place)(lowering& l, const root& r);
  /// The node's instruction if its root iterates at `at`; `to` receives the place of its store.
  int (*root_value)(lowering& l, node_id id, const coordinates& at, coordinates& to);
  /// The node's instruction at `at`, computed in the reading kernel.
  int (*value)(lowering& l, node_id id, const coordinates& at);
  /// For a view: its operand's coordinates, over axes that may extend the kernel's. Else null.
  coordinates (*through)(lowering& l, node_id id, const coordinates& at, const series<dim>& axes);
  /// For an op that selects an operand by range: the coordinates of each operand. Else null.
  series<coordinates> (*parts)(const ir::graph& g, node_id id, const coordinates& at, std::size_t axes);
};

/// The row of an op. (ops/table.hpp)
SINTER_API const op_lowering& lowering_of(ir::op code);

/// The graph whose nodes a kernel computes, and the values that are known.
struct lowering_scope {
  /// A value at coordinates, computed under ranges.
  struct known_value {
    coordinates at;
    int value = -1;
    series<range> ranges;
  };
  struct placed_value {
    coordinates first;
    int second = -1;
  };

  const ir::graph* graph = nullptr;
  const memory_map* memory = nullptr;
  sorted_set<node_id> targets;
  sorted_map<node_id, placed_value> placed;  ///< roots of this kernel: coordinates and instruction
  sorted_map<node_id, series<known_value>> memo;
};

/// The part of a node, computed in its kernel. `input` gives the part's inputs, which are values of the node's own graph.
struct lowered_part {
  lowering_scope scope;  ///< the part's; that of the node's graph while the part is computed
  memory_map memory;
  node_id site = ir::no_node;
  sinter::detail::callback<int(std::size_t input, const coordinates& at)> input;
  bool outside = false;  ///< an input is being computed

  lowered_part(const ir::graph& part, node_id of, series<std::int64_t> hints) : site(of) {
    memory.stored.assign(part.size(), 0);
    memory.strides.resize(part.size());
    memory.hints = std::move(hints);
    scope.graph = &part;
    scope.memory = &memory;
  }
  lowered_part(const lowered_part&) = delete;
  lowered_part& operator=(const lowered_part&) = delete;
};

class lowering {
 public:
  lowering(const ir::graph& g, std::span<const root> roots, const memory_map& memory, series<dim> axes)
      : roots_(roots), axes_(std::move(axes)) {
    here_.graph = &g;
    here_.memory = &memory;
  }

  kernel run() {
    for (const auto& r : roots_) here_.targets.insert(r.target);
    for (const auto& r : roots_)
      if (r.value == r.target) lowering_of(graph()[r.value].code).place(*this, r);
      else place_aligned(r);
    if (k_.stands_alone() && !k_.by_recipe && roots_.size() > 1)
      throw refusal{"a scan, a sort or a search has a kernel of its own", ir::no_node};
    for (auto& e : axes_) k_.axes.push_back({e, role::inner});
    return std::move(k_);
  }

  const ir::graph& graph() const { return *here_.graph; }
  const memory_map& memory() const { return *here_.memory; }
  std::span<const root> roots() const { return roots_; }
  kernel& code() { return k_; }
  const series<dim>& axes() const { return axes_; }
  std::size_t n() const { return axes_.size(); }

  /// Iterates a root along the kernel's axes, or along the axes that an earlier reduction keeps.
  void place_aligned(const root& r) {
    std::string why =
        "iterates over " + ir::text_of(r.extents) + " where the kernel iterates over " + ir::text_of(axes_);
    const auto all = candidates();
    for (const auto& candidate : all) {
      const auto at = align(r.extents, candidate, candidate.size() == n());
      if (!at) continue;
      depth_ = 0;
      ranges_.clear();
      if (&candidate == &all.back()) return place_at(r, *at);
      const auto saved = k_;
      const auto memo = here_.memo;
      const auto kept = kept_;
      try {
        return place_at(r, *at);
      } catch (const refusal& no) {
        if (no.needs_memory != ir::no_node) throw;
        why = no.why;
        k_ = saved;
        here_.memo = memo;
        kept_ = kept;
      }
    }
    throw refusal{why, ir::no_node};
  }

  std::optional<coordinates> align(const ir::shape& extents, const series<std::size_t>& along, bool may_split) const {
    coordinates at;
    std::size_t j = 0;
    for (const dim& e : extents) {
      affine c = constant_coordinate(0, n());
      if (const auto end = run_of(e, along, j); end > j) {
        dim stride = 1;
        for (std::size_t x = end; x-- > j;) {
          c.stride[along[x]] = stride;
          stride *= axes_[along[x]];
        }
        j = end;
        at.push_back(std::move(c));
        continue;
      }
      for (dim rest = e; !rest.is(1);) {
        if (j == along.size()) return std::nullopt;
        const dim& axis = axes_[along[j]];
        const auto q = rest.divided_by(axis);
        if (!q) {
          const auto inner = axis.divided_by(rest);
          if (may_split && inner && !inner->is(1) && !rest.is(0) && !axis.is(0))
            throw split_request{along[j], rest, *inner};
          return std::nullopt;
        }
        c.stride[along[j++]] = *q;
        rest = *q;
      }
      at.push_back(std::move(c));
    }
    return j == along.size() ? std::optional(std::move(at)) : std::nullopt;
  }

  /// The instruction for node `id` at coordinates `at`.
  int value_at(node_id id, coordinates at) {
    const ir::node& v = graph()[id];
    for (std::size_t d = 0; d < at.size(); ++d)
      if (v.extents[d].is(1)) at[d] = constant_coordinate(0, n());
    if (part_ != nullptr && v.code == ir::op::input) return input_of_part(*part_, id, at);
    if (const auto p = here_.placed.find(id); p != here_.placed.end()) {
      if (!(p->second.first == at))
        throw refusal{"%" + std::to_string(id) + " is read at another index than it is computed at", ir::no_node};
      return p->second.second;
    }
    if (here_.targets.count(id))
      throw refusal{"%" + std::to_string(id) + " is complete only when its kernel ends", ir::no_node};
    if (const auto known = here_.memo.find(id); known != here_.memo.end())
      for (const auto& x : known->second)
        if (x.at == at && holds_here(x.ranges)) return x.value;
    const int value = memory().stored[id] && !has_nothing(id) ? load(id, at) : computed(id, at);
    here_.memo[id].push_back({std::move(at), value, ranges_});  // after its operands, so mostly at the map's end
    return value;
  }

  /// The instruction for a node of a part at coordinates `at`. Its instructions are the site's.
  int value_in(lowered_part& part, node_id id, const coordinates& at) {
    enter(part);
    int value = -1;
    try {
      value = value_at(id, at);
    } catch (const refusal& no) {  // no node of a part can be in memory
      if (part.outside) throw;
      throw refusal{no.why, ir::no_node};
    }
    leave(part);
    return value;
  }

  /// An empty node is never read in a loop: it is not loaded, because the load could be hoisted out of the loop.
  bool has_nothing(node_id id) const { return ir::product(graph()[id].extents).is(0); }

  /// A value that is too deep, or one instruction too many, must be in memory: compilers take long for very large kernels.
  int computed(node_id id, const coordinates& at) {
    if ((depth_ >= max_deep || k_.body.size() >= max_instructions) && !graph()[id].in.empty())
      throw refusal{"more operations than a kernel may have, or have in a row", id};
    if (has_nothing(id)) return of_nothing(id, at);
    ++depth_;
    const int value = lowering_of(graph()[id].code).value(*this, id, at);
    --depth_;
    return value;
  }

  /// The memory operand of `id`, through views, at coordinates over `axes` (which may extend the kernel's). `within` receives the
  /// conditions of pads that are read through.
  access address(node_id id, coordinates at, const series<dim>& axes, series<range>* within = nullptr) {
    for (;;) {
      const ir::node& v = graph()[id];
      for (std::size_t d = 0; d < at.size(); ++d)
        if (v.extents[d].is(1)) at[d] = constant_coordinate(0, axes.size());
      if (here_.targets.count(id))
        throw refusal{"%" + std::to_string(id) + " is complete only when its kernel ends", ir::no_node};
      if (memory().stored[id])
        return {buffer(k_, graph(), memory(), id, false), linear(at, strides_of(id), axes.size())};
      if (within != nullptr && id < memory().read_through.size() && memory().read_through[id]) {
        at = lowering_of(v.code).parts(graph(), id, at, axes.size())[0];
        id = v.in[0];
        for (std::size_t d = 0; d < at.size(); ++d)
          if (!v.attr.dims[d].is(0) || !v.attr.dims[at.size() + d].is(0))
            within->push_back({at[d], graph()[id].extents[d]});
        continue;
      }
      const auto through = lowering_of(v.code).through;
      if (through == nullptr) throw refusal{"an operand that is read as a whole has to be in memory", id};
      if (reads_offset(v))
        return {buffer(k_, graph(), memory(), v.in[0], false), linear(at, row_major_strides(v.extents), axes.size())};
      at = through(*this, id, at, axes);
      id = v.in[0];
    }
  }

  /// A stand-in for an element of an empty node: a literal with its axes.
  int of_nothing(node_id id, const coordinates& at) {
    instruction i;
    i.kind = kind::literal;
    i.type = graph()[id].type;
    for (const affine& c : at) i.axes |= axes_of(k_, c);
    return add(k_, std::move(i));
  }

  int load(node_id id, const coordinates& at) { return load_from(id, element(at, strides_of(id))); }

  /// The element offset of coordinates under strides; the kernel computes the sum of several loaded indices.
  affine element(const coordinates& at, const series<dim>& strides) {
    int first = -1;
    bool several = false;
    for (const affine& c : at) {
      several = several || (c.index >= 0 && first >= 0 && c.index != first);
      if (c.index >= 0) first = c.index;
    }
    if (!several) return linear(at, strides, n());
    affine offset = constant_coordinate(0, n());
    int sum = -1;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const affine part = strides[d] * at[d];
      if (part.index < 0) {
        offset = offset + part;
        continue;
      }
      const int one = value_of(part);
      sum = sum < 0 ? one : combined(k_, ir::op::add, sum, one);
    }
    offset.indirect = 1;
    offset.index = sum;
    return offset;
  }

  /// The same for coordinates over `axes`; only coordinates over the kernel's axes alone have loaded indices.
  affine sum_of(const coordinates& at, const series<dim>& factors, std::size_t axes) {
    return axes == n() ? element(at, factors) : linear(at, factors, axes);
  }

  int load_from(node_id id, affine offset) {
    instruction i;
    i.kind = kind::load;
    i.type = graph()[id].type;
    i.where = graph()[id].where;
    i.origin = id;
    i.at = {buffer(k_, graph(), memory(), id, false), std::move(offset)};
    i.axes = axes_of(k_, i.at.at);
    for (std::size_t k = 0; k < k_.body.size(); ++k)
      if (k_.body[k].kind == kind::load && k_.body[k].at == i.at && holds_here(ranges_of(k_.body[k])))
        return static_cast<int>(k);
    if (!ranges_.empty()) {
      const int guard = inside(k_, guarding_, ranges_);
      i.args = {guard};
      i.axes |= k_.body[static_cast<std::size_t>(guard)].axes;
    }
    return add(k_, std::move(i));
  }

  /// For node `id`: the result of `value` where all of `ranges` hold, else the result of `other`, which may be known to be 0.
  /// Reads of `value` are guarded.
  template <class Value, class Other>
  int where(node_id id, series<range> ranges, bool or_zero, Value&& value, Other&& other) {
    for (const auto& r : ranges)
      if (r.at.index >= 0) throw refusal{"a part of %" + std::to_string(id) + " is read at an index", id};
    erase_if(ranges, [&](const range& r) { return holds(r, axes_).value_or(false); });
    for (const auto& r : ranges)
      if (!holds(r, axes_).value_or(true)) return other();
    erase_if(ranges, [&](const range& r) { return std::find(ranges_.begin(), ranges_.end(), r) != ranges_.end(); });
    if (ranges.empty()) return value();
    if (ranges_.size() + ranges.size() > max_ranges)
      throw refusal{"a read of %" + std::to_string(id) + " depends on too many conditions", id};
    const auto outside = ranges_;
    const auto of = std::exchange(guarding_, graph()[id].code);
    for (auto& r : ranges) {
      r.likely = is_likely(r);
      ranges_.push_back(std::move(r));
    }
    const int made = value();
    const auto here = std::exchange(ranges_, outside);
    guarding_ = of;
    if (or_zero && ranges_of(k_.body[static_cast<std::size_t>(made)]) == here) return made;
    const int rest = other();
    instruction i;
    i.kind = kind::compute;
    i.code = ir::op::select;
    i.type = graph()[id].type;
    i.where = graph()[id].where;
    i.origin = id;
    i.args = {inside(k_, graph()[id].code, here), made, rest};
    for (int a : i.args) i.axes |= k_.body[static_cast<std::size_t>(a)].axes;
    return add(k_, std::move(i));
  }

  /// A store of a root's whole node, computed as instruction `value` at `at`.
  void store(const root& r, const coordinates& at, int value) {
    k_.stores.push_back(
        {value, {buffer(k_, graph(), memory(), r.target, true), linear(at, strides_of(r.target), n())}, false, {}});
    here_.placed[r.target] = {at, value};
  }

  /// Restricts later roots to iterate along these axes.
  void keep(series<std::size_t> axes) { kept_.push_back(std::move(axes)); }

  /// The coordinates of the operand of the reshape `id`; if there are none, one of the two must be in memory.
  coordinates reshaped(node_id id, const affine& offset, const series<dim>& axes) {
    const node_id below = graph()[id].in[0];
    const bool loaded = offset.index >= 0 && axes.size() == n();
    auto at = delinearize(offset, graph()[below].extents, axes);
    if (loaded && !std::holds_alternative<coordinates>(at)) return loaded_digits(offset, graph()[below].extents);
    if (const auto* split = std::get_if<split_request>(&at); split && split->axis < n()) throw *split;
    if (auto* c = std::get_if<coordinates>(&at)) return std::move(*c);
    throw refusal{"a reshape to " + ir::text_of(graph()[below].extents) + " does not follow the axes",
                  memory().stored[below] ? id : below};
  }

  /// True for a node that is in memory in row-major order before this kernel runs.
  bool is_dense(node_id id) const {
    return memory().stored[id] && !here_.targets.count(id) &&
           (memory().strides[id].empty() || memory().strides[id] == row_major_strides(graph()[id].extents));
  }

  /// True for a reshape of a dense node: a read of it needs only an offset.
  bool reads_offset(const ir::node& v) const { return v.code == ir::op::reshape && is_dense(v.in[0]); }

 private:
  void enter(lowered_part& part) {
    std::swap(here_, part.scope);
    part_ = &part;
    begun_ = k_.body.size();
  }
  void leave(lowered_part& part) {
    std::swap(here_, part.scope);
    part_ = nullptr;
    for (std::size_t i = begun_; i < k_.body.size(); ++i) {
      k_.body[i].node = ir::no_node;
      k_.body[i].origin = part.site;
    }
  }
  int input_of_part(lowered_part& part, node_id id, const coordinates& at) {
    std::size_t which = 0;
    while (graph().inputs[which] != id) ++which;
    leave(part);
    part.outside = true;
    const int value = part.input(which, at);
    part.outside = false;
    enter(part);
    return value;
  }

  /// The value of an index map.
  int value_of(affine a) {
    if (a.index < 0) return position(k_, a);
    int value = std::exchange(a.index, -1);
    const dim factor = std::exchange(a.indirect, dim(0));
    if (!factor.is(1)) value = combined(k_, ir::op::mul, value, position(k_, constant_coordinate(factor, n())));
    if (a == constant_coordinate(0, n())) return value;
    return combined(k_, ir::op::add, value, position(k_, a));
  }

  /// The mixed-radix digits of an offset from a loaded index, computed by the kernel.
  coordinates loaded_digits(const affine& offset, const ir::shape& extents) {
    coordinates at(extents.size(), constant_coordinate(0, n()));
    int rest = value_of(offset);
    for (std::size_t d = extents.size(); d-- > 0;) {
      if (extents[d].is(1)) continue;
      bool last = true;  // of the remaining ones
      for (std::size_t e = 0; e < d; ++e) last = last && extents[e].is(1);
      const int extent = last ? -1 : position(k_, constant_coordinate(extents[d], n()));
      at[d] = indirect(k_, last ? rest : combined(k_, ir::remainder, rest, extent), n());
      if (!last) rest = combined(k_, ir::quotient, rest, extent);
    }
    return at;
  }

  /// True when ranges hold wherever the current value is read.
  bool holds_here(const series<range>& ranges) const {
    return std::all_of(ranges.begin(), ranges.end(),
                       [&](const range& r) { return std::find(ranges_.begin(), ranges_.end(), r) != ranges_.end(); });
  }
  /// The ranges under which a load happens; empty: everywhere.
  const series<range>& ranges_of(const instruction& i) const {
    static const series<range> none;
    return is_guarded(i) ? k_.body[static_cast<std::size_t>(i.args[0])].ranges : none;
  }
  /// Holds at seven of eight positions, by the hints.
  bool is_likely(const range& r) const {
    std::int64_t positions = 1;
    for (std::size_t a = 0; a < n(); ++a)
      positions += std::abs(r.at.stride[a].evaluate(memory().hints)) * (axes_[a].evaluate(memory().hints) - 1);
    return 8 * r.extent.evaluate(memory().hints) >= 7 * positions;
  }

  void place_at(const root& r, const coordinates& at) {
    const ir::node& target = graph()[r.target];
    coordinates to = at;
    int value = -1;
    plan::store out;
    if (r.value == ir::no_node) {
      value = literal(k_, target.type, r.fill);
    } else if (has_nothing(r.value) && !lowering_of(graph()[r.value].code).stored) {
      value = literal(k_, target.type, {});
    } else if (r.value == r.target) {
      value = lowering_of(graph()[r.value].code).root_value(*this, r.value, at, to);
    } else {
      value = value_at(r.value, at);
    }
    if (r.indexed >= 0) {
      const auto axis = static_cast<std::size_t>(target.attr.ints[0]);
      to[axis] = indirect(k_, value_at(target.in[static_cast<std::size_t>(r.indexed)], at), n());
      out.accumulate = true;
      out.bound = target.extents[axis];
      if (target.code == ir::op::scatter) {
        out.combiner = target.attr.combiner;
        out.apart = target.attr.ints[1] != 0 || r.extents[axis].is(1);
      }
    }
    for (std::size_t d = 0; d < r.start.size(); ++d) to[d] = to[d] + constant_coordinate(r.start[d], n());
    out.value = value;
    out.at = {buffer(k_, graph(), memory(), r.target, true),
              linear(to, r.in_own_order ? row_major_strides(r.extents) : strides_of(r.target), n())};
    k_.stores.push_back(std::move(out));
    if (r.value == r.target) here_.placed[r.target] = {std::move(to), value};
  }

  /// The axis lists that a root's extents may follow: all, or those kept by a placed reduction.
  series<series<std::size_t>> candidates() const {
    series<series<std::size_t>> out(1);
    for (std::size_t a = 0; a < n(); ++a) out[0].push_back(a);
    for (const auto& k : kept_)
      if (std::find(out.begin(), out.end(), k) == out.end()) out.push_back(k);
    return out;
  }

  /// The end of the axes along[j…] whose extents multiply to `e`; j if there are none.
  std::size_t run_of(const dim& e, const series<std::size_t>& along, std::size_t j) const {
    dim covered = 1;
    for (std::size_t x = j; x < along.size(); ++x) {
      covered *= axes_[along[x]];
      if (covered == e) return x + 1;
    }
    return j;
  }

  series<dim> strides_of(node_id id) const {
    return memory().strides[id].empty() ? row_major_strides(graph()[id].extents) : memory().strides[id];
  }

  static constexpr std::size_t max_instructions = 4096;
  static constexpr int max_deep = 1000;

  std::span<const root> roots_;
  lowering_scope here_;
  lowered_part* part_ = nullptr;  ///< whose nodes are computed
  std::size_t begun_ = 0;         ///< the first instruction of its nodes
  int depth_ = 0;
  series<dim> axes_;
  kernel k_;
  series<range> ranges_;              ///< hold wherever the current value is read
  ir::op guarding_ = ir::op::pad;     ///< the op of the last range
  series<series<std::size_t>> kept_;  ///< for each placed reduction, the axes that it keeps
};

}  // namespace sinter::engine::plan
