// jit/collectives.hpp: collectives -> steps of a program, which call the data plane of the ranks that run it.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "../batch/placement_walk.hpp"
#include "../ir/ops/collectives.hpp"
#include "../ir/ops/table.hpp"
#include "../run/cuda/program/nccl.hpp"
#include "../run/host/buffer.hpp"
#include "../run/mesh/sha256.hpp"
#include "../run/ranks.hpp"
#include "mesh_guards.hpp"
#include "rings.hpp"

namespace sinter::engine::detail {

inline bool has_collectives(const ir::graph& g) {
  for (auto id : g.live()) {
    const ir::node& n = g[id];
    if (ir::is_collective(n.code)) return true;
    if (n.code != ir::op::opaque) continue;
    for (const auto& part : n.attr.step->parts)
      if (has_collectives(part)) return true;
  }
  return false;
}

/// The group of an axis on this thread's rank.
inline run::rank_group& group_along(std::int64_t axis, std::int64_t ranks, const char* op, location where) {
  run::rank_group* const g = run::world().along(axis);
  if (!g || g->size() != ranks)
    fail(op,
         "this thread is no rank of a mesh with " + ir::mesh_axis_name(axis) +
             "; make_mesh makes one, on every rank, "
             "before the call",
         where);
  return *g;
}

/// One number for each text: equal steps of a graph stay equal.
inline std::uint64_t identity_of_step(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& known = *new std::map<std::string, std::uint64_t>;
  const std::lock_guard lock(mutex);
  auto& id = known[text];
  if (id == 0) id = ir::new_identity();
  return id;
}

/// What ir::foreign::known says of the steps of collectives.
inline constexpr char known_collective[] = "collective";

/// The bytes of the first bucket of a group of ranks, which starts its exchanges early, and of the others.
inline constexpr std::int64_t first_bucket_bytes = 1 << 20, bucket_bytes = 25 << 20;

/// Replaces collectives by host calls, and `as` by its operand. Host calls run in their order, which all ranks share. Sums over
/// ranks follow in the order in which their operands are ready, and are joined into buckets. Gathers of inputs run one ahead of
/// their use, and again where the last use is long ago: the joined values need not stay in memory.
class collective_steps {
 public:
  /// `gathers` are the gathers of inputs in the order of their uses, as gathers() gives them.
  collective_steps(const ir::graph& g, bool on_gpus, series<ir::node_id> gathers = {})
      : from_(g),
        on_gpus_(on_gpus),
        moved_(g.size(), ir::no_node),
        used_(g.size(), 0),
        late_(g.size(), 0),
        bucket_(g.size(), -1),
        planned_(std::move(gathers)) {}

  /// The graph with steps. `count` receives the number of exchanges.
  static ir::graph of(const ir::graph& g, bool on_gpus, std::size_t& count) {
    collective_steps plan(g, on_gpus);
    ir::graph out = plan.run();
    if (!plan.asked_.empty()) {
      collective_steps ahead(g, on_gpus, plan.asked_);
      out = ahead.run();
      count += ahead.exchanges_;
    } else {
      count += plan.exchanges_;
    }
    return out;
  }

 private:
  ir::graph run() {
    for (auto id : from_.inputs) moved_[id] = out_.add_input(from_[id].type, from_[id].extents, from_[id].where);
    find_late();
    for (auto id : in_order()) {
      const ir::node& n = from_[id];
      if (n.code == ir::op::input || late_[id]) continue;
      if (joins(n)) put(id);
      else moved_[id] = moved(n);
    }
    for (auto id : from_.outputs) out_.outputs.push_back(operand(id));
    return std::move(out_);
  }

  /// Marks gathers of inputs, and the views of them.
  void find_late() {
    using ir::op;
    series<char> held(from_.size(), 0);
    for (auto id : from_.live()) {
      const ir::node& n = from_[id];
      const bool view = n.code == op::reshape || n.code == op::permute || n.code == op::slice || n.code == op::as ||
                        n.code == op::identity;
      held[id] = n.code == op::input || ((view || n.code == op::pad) && held[n.in[0]]);
      late_[id] = n.code == op::all_gather ? n.attr.ints[1] > 1 && held[n.in[0]] : view && late_[n.in[0]];
    }
  }
  /// Nodes in their order, and sums over ranks right behind their operands.
  series<ir::node_id> in_order() const {
    series<ir::node_id> order = from_.live();
    std::vector<std::pair<ir::node_id, ir::node_id>> turn(from_.size());
    for (auto id : order) {
      const ir::node& n = from_[id];
      turn[id] = joins(n) || n.code == ir::op::as ? std::pair{turn[n.in[0]].first, turn[n.in[0]].second + 1}
                                                  : std::pair{id, ir::node_id{}};
    }
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return turn[a] < turn[b]; });
    return order;
  }

  /// An operand in the new graph.
  ir::node_id operand(ir::node_id id) {
    constexpr std::size_t kept_for = 2;  // gathers
    if (bucket_[id] >= 0) exchange_bucket(static_cast<std::size_t>(bucket_[id]));
    if (!late_[id]) return moved_[id];
    if (moved_[id] == ir::no_node || asked_.size() > used_[id] + kept_for)
      moved_[id] = from_[id].code == ir::op::all_gather ? gathered(id) : moved(from_[id]);
    used_[id] = asked_.size();
    return moved_[id];
  }
  /// The gather that is due, which may have been pushed ahead; then pushes the next one.
  ir::node_id gathered(ir::node_id id) {
    asked_.push_back(id);
    const ir::node_id now = ahead_ != ir::no_node ? ahead_ : step(from_[id]);
    ahead_ = asked_.size() < planned_.size() ? step(from_[planned_[asked_.size()]]) : ir::no_node;
    return now;
  }

  /// Sums of one kind over the same ranks, which one exchange computes. Results are side by side in the order of `members`.
  struct bucket {
    ir::op code = ir::op::all_reduce;
    std::int64_t axis = 0;
    dtype type = dtype::f32;
    std::int64_t bytes = 0;
    series<ir::node_id> members;
  };
  static run::reduction reduction_of(const ir::node& n) {
    if (n.code == ir::op::reduce_scatter || n.attr.combiner == ir::op::add) return run::reduction::sum;
    return n.attr.combiner == ir::op::maximum ? run::reduction::most : run::reduction::least;
  }
  /// Whether the data plane combines the ranks' values.
  bool is_combined_outside(const ir::node& n) const {
    return !on_gpus_ || n.attr.ints[1] == 1 || run::cuda::nccl_combines(n.type, reduction_of(n));
  }
  bool joins(const ir::node& n) const {
    const bool sums =
        n.code == ir::op::reduce_scatter || (n.code == ir::op::all_reduce && n.attr.combiner == ir::op::add);
    return sums && is_combined_outside(n) && n.attr.ints[1] > 1 && ir::product(n.extents).number();
  }
  void put(ir::node_id id) {
    const ir::node& n = from_[id];
    moved_[id] = operand(n.in[0]);  // until the exchange
    std::size_t k = 0;
    const auto takes = [&](const bucket& b) {
      return b.code == n.code && b.axis == n.attr.ints[0] && b.type == n.type;
    };
    while (k < buckets_.size() && !takes(buckets_[k])) ++k;
    if (k == buckets_.size()) buckets_.push_back({n.code, n.attr.ints[0], n.type, 0, {}});
    bucket& b = buckets_[k];
    b.members.push_back(id);
    b.bytes += *ir::product(from_[n.in[0]].extents).number() * static_cast<std::int64_t>(size_of(n.type));
    bucket_[id] = static_cast<std::int64_t>(k);
    if (b.bytes >= (early_.contains(b.axis) ? bucket_bytes : first_bucket_bytes)) exchange_bucket(k);
  }
  /// No member depends on another: an operand that needs a result has the exchange run first.
  void exchange_bucket(std::size_t k) {
    const series<ir::node_id> members = std::exchange(buckets_[k].members, {});
    buckets_[k].bytes = 0;
    early_.insert(buckets_[k].axis);
    for (auto id : members) bucket_[id] = -1;
    if (members.size() == 1) {
      moved_[members[0]] = summed_alone(from_[members[0]], moved_[members[0]]);
      return;
    }
    const ir::node& first = from_[members[0]];
    const bool scatters = first.code == ir::op::reduce_scatter;
    const std::int64_t ranks = first.attr.ints[1];
    series<ir::value> flat;
    ir::dim all = 0;
    for (auto id : members) {
      const ir::node& n = from_[id];
      const ir::value x(out_, moved_[id], n.where);
      const ir::dim own = ir::product(n.extents);
      flat.push_back(scatters ? reshape(ir::ops::cut_into_lanes(x, ranks, n.attr.ints[2]), {ranks, own})
                              : reshape(x, {own}));
      all += own;
    }
    const ir::value sum =
        exchanged(first, scatters ? run::exchange_kind::reduce_scatter : run::exchange_kind::all_reduce,
                  concat(flat, scatters ? 1 : 0), {all});
    std::int64_t at = 0;
    for (auto id : members) {
      const ir::dim own = ir::product(from_[id].extents);
      moved_[id] = reshape(slice(sum, {own}, {at}, {1}), from_[id].extents).id();
      at += *own.number();
    }
  }
  ir::node_id summed_alone(const ir::node& n, ir::node_id in) {
    const ir::value x(out_, in, n.where);
    const bool outside = is_combined_outside(n);
    if (n.code == ir::op::all_reduce)
      return outside ? exchanged(n, run::exchange_kind::all_reduce, x, n.extents).id() : combined_here(n, x).id();
    const ir::value parts = ir::ops::cut_into_lanes(x, n.attr.ints[1], n.attr.ints[2]);
    if (!outside) return combined_here(n, parts).id();
    return exchanged(n, run::exchange_kind::reduce_scatter, parts, n.extents).id();
  }

  ir::node_id moved(const ir::node& n) {
    if (ir::is_collective(n.code)) return step(n);
    series<ir::node_id> in;
    for (auto id : n.in) in.push_back(operand(id));
    ir::attributes attr = n.attr;
    if (n.code == ir::op::opaque) {
      bool changes = false;
      for (const auto& part : n.attr.step->parts) changes = changes || has_collectives(part);
      if (changes) {
        ir::opaque made = *n.attr.step;
        for (auto& part : made.parts) part = of(part, on_gpus_, exchanges_);
        attr.step = ir::seal(std::move(made));
      }
      if (attr.step->has_effect) attr.ints = {};  // its turn among this graph's effects
    }
    return out_.push(n.code, std::move(in), std::move(attr), n.where);
  }

  ir::node_id step(const ir::node& n) {
    const auto& ints = n.attr.ints;
    const std::int64_t ranks = ints[1];
    if (n.code == ir::op::axis_index) return index_step(n);
    const ir::value x(out_, operand(n.in[0]), n.where);
    if (n.code == ir::op::as) return is_checked(n) ? checked(n, x).id() : x.id();
    using k = run::exchange_kind;
    switch (n.code) {
      case ir::op::all_reduce:
      case ir::op::reduce_scatter:
        return summed_alone(n, x.id());
      case ir::op::all_gather:
        return ir::ops::joined_lanes(exchanged(n, k::all_gather, x, ir::ops::behind(ranks, x.extents())), ints[3]).id();
      case ir::op::all_to_all: {
        const ir::value parts = ir::ops::cut_into_lanes(x, ranks, ints[2]);
        return ir::ops::joined_lanes(exchanged(n, k::all_to_all, parts, parts.extents()), ints[3]).id();
      }
      case ir::op::collective_permute:
        return exchanged(n, k::permute, x, n.extents).id();
      default:
        return exchanged(n, k::broadcast, x, n.extents).id();
    }
  }

  /// x of all ranks, combined by kernels: exact extremes of floats, and sums of dtypes that NCCL does not add.
  ir::value combined_here(const ir::node& n, const ir::value& x) {
    const std::int64_t ranks = n.attr.ints[1];
    const bool scatters = n.code == ir::op::reduce_scatter;
    const ir::value all = scatters
                              ? exchanged(n, run::exchange_kind::all_to_all, x, x.extents())
                              : exchanged(n, run::exchange_kind::all_gather, x, ir::ops::behind(ranks, x.extents()));
    return reduce(all, scatters ? ir::op::add : n.attr.combiner, {0});
  }
  /// A step of the data plane. `n` gives the attributes.
  ir::value exchanged(const ir::node& n, run::exchange_kind what, const ir::value& x, ir::shape extents) {
    run::exchange e;
    e.what = what;
    e.type = n.type;
    e.where = n.where;
    e.is_compared = checks_;
    if (n.code == ir::op::all_reduce) e.how = reduction_of(n);
    if (what == run::exchange_kind::broadcast) e.root = n.attr.ints[3];
    if (what == run::exchange_kind::permute) e.sources.assign(n.attr.ints.begin() + 2, n.attr.ints.end());
    const std::int64_t axis = n.attr.ints[0], ranks = n.attr.ints[1];
    if (ranks == 1 && !(what == run::exchange_kind::permute && e.sources[0] < 0)) return reshape(x, std::move(extents));
    const bool takes_parts = what == run::exchange_kind::reduce_scatter || what == run::exchange_kind::all_to_all;
    exchanges_ += ranks > 1;
    auto f = std::make_shared<ir::foreign>();
    f->host = [e, axis, ranks, takes_parts](ir::foreign_arrays in, ir::foreign_arrays out) {
      run::exchange now = e;
      now.elements = elements_of(in[0]) / static_cast<std::size_t>(takes_parts ? ranks : 1);
      if (ranks == 1) std::memset(out[0].data, 0, now.elements * size_of(e.type));
      else group_along(axis, ranks, run::name(e.what), e.where).run(now, in[0].data, out[0].data);
    };
    if (on_gpus_) {
      f->gpu.apart = true;
      f->gpu.launch = [e, axis, ranks, takes_parts](ir::foreign_arrays in, ir::foreign_arrays out, void* stream) {
        run::exchange now = e;
        now.elements = elements_of(in[0]) / static_cast<std::size_t>(takes_parts ? ranks : 1);
        run::cuda::exchange_on_gpus(group_along(axis, ranks, run::name(e.what), e.where), now, in[0].data, out[0].data,
                                    stream);
      };
    }
    f->plain = [call = f->host](ir::foreign_arrays in, ir::foreign_arrays out) { on_own_memory(call, in, out); };
    return pushed(n, std::move(f), {x.id()}, {n.type, std::move(extents)});
  }

  /// `as` marks the inputs of shard_map with their placement.
  bool is_checked(const ir::node& n) const {
    const auto same = static_cast<std::int64_t>(ir::placement::invariant),
               own = static_cast<std::int64_t>(ir::placement::replicated);
    const auto& ints = n.attr.ints;
    return checks_ && ints[1] > 1 && ints[2] == ints[3] && (ints[2] == same || ints[2] == own);
  }
  /// x, after the ranks have compared its bytes.
  ir::value checked(const ir::node& n, const ir::value& x) {
    const std::int64_t axis = n.attr.ints[0], ranks = n.attr.ints[1];
    const std::string placement = ir::name(static_cast<ir::placement>(n.attr.ints[2]));
    auto f = std::make_shared<ir::foreign>();
    f->host = [axis, ranks, placement, type = n.type, where = n.where](ir::foreign_arrays in, ir::foreign_arrays out) {
      const std::size_t bytes = elements_of(in[0]) * size_of(type);
      if (bytes > 0) std::memcpy(out[0].data, in[0].data, bytes);
      const auto digest = run::sha256_of({static_cast<const char*>(in[0].data), bytes});
      std::string text = "an input that is " + placement + ", with the digest ";
      for (std::size_t k = 0; k < 8; ++k)
        text += "0123456789abcdef"[digest[k] >> 4], text += "0123456789abcdef"[digest[k] & 15];
      group_along(axis, ranks, "shard_map", where).compare(text, "shard_map", where);
    };
    return pushed(n, std::move(f), {x.id()}, {n.type, n.extents});
  }

  ir::node_id index_step(const ir::node& n) {
    const std::int64_t axis = n.attr.ints[0], ranks = n.attr.ints[1];
    if (ranks == 1) return out_.constant(dtype::i64, 0.0, {}, n.where);
    auto f = std::make_shared<ir::foreign>();
    f->host = [axis, ranks, where = n.where](ir::foreign_arrays, ir::foreign_arrays out) {
      *static_cast<std::int64_t*>(out[0].data) = group_along(axis, ranks, "axis_index", where).index();
    };
    if (on_gpus_) {
      f->gpu.brief = true;
      f->gpu.launch = [axis, ranks, where = n.where](ir::foreign_arrays, ir::foreign_arrays out, void* stream) {
        const std::int64_t own = group_along(axis, ranks, "axis_index", where).index();
        run::cuda::write_number(out[0].data, own, stream);
      };
    }
    return pushed(n, std::move(f), {}, {dtype::i64, {}}).id();
  }

  ir::value pushed(const ir::node& n, std::shared_ptr<ir::foreign> f, series<ir::node_id> in, ir::result_type result) {
    f->name = ir::name(n.code);
    f->known = known_collective;
    f->identity = identity_of_step(f->name + ir::ops::record_of(n.code).text(n) + n.where.file + ":" +
                                   std::to_string(n.where.line));
    ir::opaque step;
    step.kind = ir::opaque_kind::host_call;
    step.function = std::move(f);
    step.results = {std::move(result)};
    return {out_, ir::push_opaque(out_, ir::seal(std::move(step)), std::move(in), n.where)[0], n.where};
  }

  /// The interpreter frees its arrays when an exchange fails. MPI may still access the exchange's memory, which the allocator
  /// keeps.
  template <class F>
  static void on_own_memory(const F& call, ir::foreign_arrays in, ir::foreign_arrays out) {
    const auto bytes = [](const ir::foreign_array& a) { return elements_of(a) * size_of(a.type); };
    const storage from = run::allocate(bytes(in[0])), to = run::allocate(bytes(out[0]));
    ir::foreign_array given = in[0], made = out[0];
    given.data = from.data();
    made.data = to.data();
    if (bytes(given) > 0) std::memcpy(given.data, in[0].data, bytes(given));
    call(ir::foreign_arrays(&given, 1), ir::foreign_arrays(&made, 1));
    if (bytes(made) > 0) std::memcpy(out[0].data, made.data, bytes(made));
  }
  static std::size_t elements_of(const ir::foreign_array& a) {
    std::size_t count = 1;
    for (int d = 0; d < a.rank; ++d) count *= static_cast<std::size_t>(a.extents[d]);
    return count;
  }

  const ir::graph& from_;
  bool on_gpus_;  ///< GPUs exchange by themselves
  bool checks_ = checks_mesh();
  ir::graph out_;
  series<ir::node_id> moved_;    ///< nodes in the new graph; of a sum in a bucket its operand
  series<std::size_t> used_;     ///< for late nodes, the gathers before the last use
  series<char> late_;            ///< pushed where they are used
  series<std::int64_t> bucket_;  ///< of sums that wait for others; -1 otherwise
  series<bucket> buckets_;
  sorted_set<std::int64_t> early_;  ///< axes that had their first exchange
  series<ir::node_id> planned_, asked_;
  ir::node_id ahead_ = ir::no_node;
  std::size_t exchanges_ = 0;
};

/// What a program's code depends on of this thread's world; empty for most worlds.
inline std::string world_key(device where) {
  std::string out;
  if (run::world().compares_programs()) out += " compared";
  if (exchanges_on_gpus(where)) out += " on GPUs";
  return out;
}

/// The graph that a backend compiles for a device, and the number of its exchanges. Calls are replaced by their parts first, which would drop
/// steps with effects. Then products are cut beside exchanges. user_error for a step in which ranks would wait for ever.
inline ir::graph with_steps(const ir::graph& traced, device where, const options& how, std::size_t& exchanges) {
  ir::graph g = ir::inlined(traced);
  refuse_waiting(g);
  if (rewrite::may_have_rings(g))
    if (auto rings = rings_of(g, where, how); rings.changes()) g = rings.run();
  return collective_steps::of(g, exchanges_on_gpus(where), exchanges);
}

}  // namespace sinter::engine::detail
