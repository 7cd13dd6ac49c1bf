// jit/check/verify.hpp: runs a program kernel by kernel beside the reference, and finds the first op that differs.
#pragma once

#include "../../engine/verify.hpp"
#include "../../ir/compose_attention.hpp"
#include "../backends/reference.hpp"
#include "rounding_bounds.hpp"

namespace sinter::engine::detail {

SINTER_API device common_device(const ir::graph& g, std::span<const argument> all, std::size_t given,
                                const options& how, device otherwise);
SINTER_API std::shared_ptr<const code> compile(const ir::graph& traced, std::span<const argument> arguments,
                                               const options& how, device where, const size_layout& layout,
                                               build_capture* inside, const std::string& structure,
                                               const trace_times& spent = {});

/// Whether an extent of the graph depends on a symbol. (trace/sizes.hpp)
SINTER_API bool uses(const ir::graph& g, int symbol);

/// The layout by which a graph's inputs determine its size symbols s0, s1, …: each from an extent that is its multiple plus a
/// number. Empty without symbols. user_error that names a symbol that no input determines. (trace/sizes.hpp)
SINTER_API size_layout graph_layout(const ir::graph& g, std::span<const argument> inputs);

/// Separate memory of a node.
struct held {
  series<std::int64_t> extents, strides;
  dtype type = dtype::f32;
  storage memory;

  /// `layout`: the strides of a padded array; empty: row-major.
  held(const ir::node& n, const series<ir::dim>& layout, device where, std::span<const std::int64_t> sizes)
      : type(n.type) {
    for (const auto& e : n.extents) extents.push_back(e.evaluate(sizes));
    std::int64_t count = 1;
    strides.resize(extents.size());
    for (std::size_t d = extents.size(); d-- > 0; count = strides[d] * extents[d])
      strides[d] = layout.empty() ? count : layout[d].evaluate(sizes);
    memory = allocate(static_cast<std::size_t>(count) * size_of(type), where);
  }
  ir::literal_array values() const {
    return read({memory.data(), &memory, type, static_cast<int>(extents.size()), extents.data(), strides.data()});
  }
};

/// Arguments in memory for examples of a graph's inputs.
class laid_out {
 public:
  laid_out(const series<example>& inputs, device where) {
    memory_.reserve(inputs.size());
    for (const auto& x : inputs) {
      series<std::int64_t> strides = x.strides;
      std::int64_t count = 1, low = 0, high = 0;
      if (strides.empty()) strides.resize(x.value.extents.size());
      for (std::size_t d = strides.size(); d-- > 0; count *= x.value.extents[d]) {
        if (x.strides.empty()) strides[d] = count;
        const std::int64_t reach = (x.value.extents[d] - 1) * strides[d];
        (reach < 0 ? low : high) += reach;
      }
      const std::size_t item = size_of(x.value.type);
      ir::literal_array flat{x.value.type, {}, {}, {}};
      const auto room = static_cast<std::size_t>(count == 0 ? 0 : high - low + 1);
      (is_float(flat.type) ? void(flat.f.resize(room)) : void(flat.i.resize(room)));
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t at = -low, rest = i;
        for (std::size_t d = strides.size(); d-- > 0; rest /= x.value.extents[d])
          at += rest % x.value.extents[d] * strides[d];
        const auto from = static_cast<std::size_t>(i), to = static_cast<std::size_t>(at);
        if (is_float(flat.type)) flat.f[to] = x.value.f[from];
        else flat.i[to] = x.value.i[from];
      }
      const storage host = allocate(room * item);
      ir::pack(flat, host.data());
      memory_.push_back(where.is_cuda() ? allocate(room * item, where) : host);
      if (where.is_cuda()) copy(memory_.back().data(), where, host.data(), {}, room * item);
      extents_.push_back(x.value.extents);
      strides_.push_back(std::move(strides));
      types_.push_back(x.value.type);
      first_.push_back(static_cast<char*>(memory_.back().data()) - low * static_cast<std::int64_t>(item));
    }
  }

  series<argument> arguments() const {
    series<argument> out;
    for (std::size_t i = 0; i < types_.size(); ++i)
      out.push_back({first_[i], &memory_[i], types_[i], static_cast<int>(extents_[i].size()), extents_[i].data(),
                     strides_[i].data(), extents_[i].empty() && !memory_[i].where().is_cuda()});
    return out;
  }

 private:
  series<storage> memory_;
  series<series<std::int64_t>> extents_, strides_;
  series<dtype> types_;
  series<char*> first_;
};

/// A compiled graph whose steps run one at a time, on memory that can be examined.
class kernel_case {
 public:
  kernel_case(const code& c, const build_capture& inside, std::span<const argument> all) : c_(c), inside_(inside) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      known.emplace(inside.graph.inputs[i], read(all[i]));
      table_.push_back(all[i].data);
    }
    for (ir::node_id node = 0; node < inside.operand.size(); ++node) {
      const int at = inside.operand[node];
      if (at < 0 || inside.graph[node].code == ir::op::input) continue;
      held h(inside.graph[node], inside.strides[node], c.where, sizes());
      if (table_.size() <= static_cast<std::size_t>(at)) table_.resize(static_cast<std::size_t>(at) + 1);
      table_[static_cast<std::size_t>(at)] = h.memory.data();
      memory_.emplace(node, std::move(h));
    }
  }

  arrays known;  ///< complete values in memory

  /// The number of steps from this one on that belong to the same kernel: they share scratch memory.
  std::size_t together(std::size_t step) const {
    std::size_t n = 1;
    while (step + n < inside_.kernel.size() && inside_.kernel[step + n] == inside_.kernel[step]) ++n;
    return n;
  }
  void run(std::size_t first, std::size_t count) const {
    const auto only = [&](auto& one, const auto& all) {
      for (std::size_t s = first; s < first + count; ++s) one.steps.push_back(all.steps[s]);
    };
    if (c_.where.is_cuda()) {
      run::cuda::sequence one = inside_.numbers->launches;
      one.steps.clear();
      one.apart.clear();
      only(one, inside_.numbers->launches);
      one.intermediates.clear();
      run::cuda::execute(one, {table_.data(), table_.size()}, sizes().data());
      return;
    }
    run::sequence one;
    only(one, inside_.numbers->kernels);
    one.scratch_bytes = inside_.numbers->kernels.scratch_bytes;
    run::execute(one, {table_.data(), table_.size()}, sizes().data());
  }
  void run_all() const {
    for (std::size_t s = 0; s < inside_.kernel.size(); s += together(s)) run(s, together(s));
  }
  ir::literal_array values(ir::node_id id) const { return memory_.at(id).values(); }
  std::span<const std::int64_t> sizes() const { return {inside_.sizes.data(), inside_.sizes.size()}; }

 private:
  const code& c_;
  const build_capture& inside_;
  series<void*> table_;
  sorted_map<ir::node_id, held> memory_;
};

/// Compares one program with the reference.
class verifier {
 public:
  verifier(const ir::graph& traced, std::span<const argument> all, const options& how, device where,
           size_layout layout = {})
      : traced_(traced), all_(all), how_(how), where_(where), layout_(std::move(layout)), sizes_(layout_.sizes.size()) {
    if (how_.mode == mode::reduce_overhead) how_.mode = mode::standard;  // examined programs are not recorded
    const bool fits = sizes_.empty() || bind_sizes(layout_, all_.subspan(0, layout_.tensors.size()), sizes_.data());
    ensure(fits, "a program is verified on a call that it is for");
  }

  verification run() {
    try {
      build_capture inside;
      inside.sizes = sizes_;
      const auto made = compile(traced_, all_, how_, where_, layout_, &inside, "");
      if (made->interpreted) {
        out_.found = verification::outcome::no_kernels;
        out_.problem = made->about.problem.empty() ? "the backend is " + made->about.backend : made->about.problem;
      } else {
        kernel_case s(*made, inside, all_);
        if (kernels_agree(made->about, inside, s)) compare_results(inside, s);
      }
    } catch (const std::exception& e) {
      out_.found = verification::outcome::threw;
      out_.problem = e.what();
    }
    return out_;
  }

 private:
  bool kernels_agree(const sinter::report& about, const build_capture& inside, kernel_case& s) {
    sorted_map<int, std::size_t> complete;  // the last kernel that writes a node
    for (std::size_t k = 0; k < inside.written.size(); ++k)
      for (int id : inside.written[k]) complete[id] = k;
    for (std::size_t step = 0; step < inside.kernel.size(); step += s.together(step)) {
      const std::size_t k = inside.kernel[step];
      s.run(step, s.together(step));
      tolerance_check reference(inside.graph, s.known, s.sizes());
      ++out_.kernels;
      arrays made;
      for (int id : inside.written[k])
        if (complete.at(id) == k) made.emplace(static_cast<ir::node_id>(id), s.values(static_cast<ir::node_id>(id)));
      for (const auto& [node, values] : made)
        if (differs(reference, node, values)) {
          out_.kernel = about.steps[k].name;
          blame(inside.graph, node, s.known, reference);
          return false;
        }
      for (auto& [node, values] : made) s.known.emplace(node, std::move(values));
    }
    return true;
  }

  /// Records a difference between an array and the reference's value of a node.
  bool differs(tolerance_check& reference, ir::node_id id, const ir::literal_array& got) {
    const difference d = reference.compare(id, got);
    out_.compared += d.compared;
    out_.undecided += d.undecided;
    if (!d.found) return false;
    const ir::graph& g = reference.graph();
    const ir::node& n = g[id].code == ir::op::pick ? g[g[id].in[0]] : g[id];
    out_.found = verification::outcome::differs;
    out_.op = n.code == ir::op::opaque ? ir::name(*n.attr.step) : ir::name(n.code);
    if (n.code == ir::op::reduce || n.code == ir::op::arg_reduce || n.code == ir::op::scan)
      out_.op += std::string("_") + ir::name(n.attr.combiner);
    out_.where = n.where;
    out_.index = d.index;
    out_.got = d.got;
    out_.want = d.want;
    return true;
  }

  /// Compiles the ops that led to a wrong value one by one, and names the first that differs alone.
  void blame(const ir::graph& g, ir::node_id stored, const arrays& known, tolerance_check& reference) {
    bool any = false;
    sorted_set<ir::node_id> cone = {stored};
    for (series<ir::node_id> stack = {stored}; !stack.empty();) {
      const auto id = stack.back();
      stack.pop_back();
      for (auto in : g[id].in)
        if (!known.contains(in) && cone.insert(in).second) stack.push_back(in);
    }
    for (const auto id : cone) {
      const ir::node& n = g[id];
      if (n.in.empty() || ir::is_view(n.code) || n.code == ir::op::opaque || n.code == ir::op::pick) continue;
      if (differs_alone(g, n, reference)) return;
      any = true;
    }
    out_.problem = any ? "its ops agree when each is compiled alone: what differs is their fusion"
                       : "the ops within it were not compiled alone";
  }

  series<ir::dim> numbers(series<ir::dim> dims) const {
    for (auto& d : dims) d = d.evaluate({sizes_.data(), sizes_.size()});
    return dims;
  }
  ir::attributes numbers(ir::attributes a) const {
    a.dims = numbers(std::move(a.dims));
    return a;
  }

  /// With numbers, whatever was open around it.
  bool differs_alone(const ir::graph& g, const ir::node& n, tolerance_check& reference) {
    ir::graph one;
    series<example> operands;
    series<ir::node_id> in;
    for (const auto x : n.in) {
      if (g[x].code == ir::op::constant) {
        in.push_back(one.push(ir::op::constant, {}, numbers(g[x].attr), g[x].where));
        continue;
      }
      in.push_back(one.add_input(g[x].type, numbers(g[x].extents), g[x].where));
      operands.push_back({reference.value(x)});
    }
    one.outputs = {one.push(n.code, std::move(in), numbers(n.attr), n.where)};
    const laid_out memory(operands, where_);
    const auto arguments = memory.arguments();
    build_capture inside;
    options alone = how_;
    alone.passes = {};
    const auto made = compile(one, arguments, alone, where_, {}, &inside, "");
    if (made->interpreted) return false;
    const kernel_case s(*made, inside, arguments);
    s.run_all();
    arrays known;
    for (std::size_t i = 0; i < operands.size(); ++i) known.emplace(one.inputs[i], operands[i].value);
    tolerance_check own(one, known, {});
    return differs(own, one.outputs[0], s.values(inside.graph.outputs[0]));
  }

  /// Compares the results with the traced graph, which also covers the rewrites and the sharing of results.
  void compare_results(const build_capture& inside, const kernel_case& s) {
    const bool composes = ir::has_attention(traced_);
    const ir::graph composed = composes ? ir::compose_attention(traced_) : ir::graph();
    const ir::graph& g = composes ? composed : traced_;
    arrays known;
    for (std::size_t i = 0; i < all_.size(); ++i) known.emplace(g.inputs[i], s.known.at(inside.graph.inputs[i]));
    tolerance_check reference(g, known, s.sizes());
    for (std::size_t k = 0; k < g.outputs.size(); ++k) {
      const auto id = inside.graph.outputs[k];
      if (!differs(reference, g.outputs[k], s.values(id))) continue;
      out_.kernel = "";
      out_.problem = "every kernel computes what the rewritten graph says, which is not what was traced";
      for (const pass& p : how_.passes)
        out_.problem += (&p == how_.passes.begin() ? "; the user's passes came first: " : ", ") + p.name;
      return;
    }
  }

  const ir::graph& traced_;
  std::span<const argument> all_;
  options how_;
  device where_;
  size_layout layout_;
  series<std::int64_t> sizes_;
  verification out_;
};

}  // namespace sinter::engine::detail

namespace sinter {

SINTER_API std::string verification::text() const {
  const std::string counts = std::to_string(compared) + " elements of " + std::to_string(kernels) +
                             " kernels agree with the reference; " + std::to_string(undecided) +
                             " more are a matter of rounding";
  if (found == outcome::agrees) return counts;
  if (found == outcome::no_kernels) return "there are no kernels to verify: " + problem;
  if (found == outcome::threw) return "compiling or running threw: " + problem;
  std::string at = "(";
  for (std::size_t i = 0; i < index.size(); ++i) at += (i ? ", " : "") + std::to_string(index[i]);
  std::string out = "[" + op + "] element " + at + ") is " + got + "; the reference has " + want;
  if (!kernel.empty()) out += "; in the kernel '" + kernel + "'";
  if (!problem.empty()) out += "; " + problem;
  return sinter::detail::located(out, where);
}

namespace engine {

SINTER_API verification verify(std::shared_ptr<tracer> traced, std::span<const argument> arguments, const options& how,
                               device where) {
  const auto all = detail::all_arguments(arguments, traced->captures);
  const device on = detail::common_device(traced->graph, all, arguments.size(), how, where);
  return detail::verifier(traced->graph, all, how, on, traced->assumed.layout).run();
}

SINTER_API verification verify(const ir::graph& g, const series<example>& inputs, const options& how, device where) {
  const detail::laid_out memory(inputs, where);
  const auto arguments = memory.arguments();
  return detail::verifier(g, arguments, how, where, detail::graph_layout(g, arguments)).run();
}

}  // namespace engine
}  // namespace sinter
