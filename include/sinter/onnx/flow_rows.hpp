// onnx/flow_rows.hpp: If, Loop and Scan: branches and loops of the graph, if carried values keep their dtypes and ranks.
#pragma once

#include <map>

#include "gather_rows.hpp"
#include "loops.hpp"

namespace sinter::onnx::rows {

/// The most steps that are traced one by one.
inline constexpr std::int64_t max_steps = 4096;

inline item known_item(host_values h) {
  item x;
  x.host = std::make_shared<const host_values>(std::move(h));
  return x;
}
inline item known_number(dtype type, std::int64_t v) { return known_item({type, {}, {dim(v)}, {}}); }
inline item traced_item(const node& v, int format = 0) {
  item x;
  x.x = dynamic_tensor::of_node(v.id());
  x.format = format;
  return x;
}
inline const graph_proto& graph_of(call& c, const char* name) {
  const auto* a = c.attribute(name);
  if (!a || !a->g) c.refuse(std::string("it lacks its ") + name);
  return *a->g;
}
inline const graph_proto& body_of(call& c) { return graph_of(c, "body"); }

/// Values of steps, stacked along a new axis.
inline item stacked_items(call& c, const std::vector<item>& all, int axis) {
  std::vector<node> parts;
  for (const item& x : all) {
    const node v = c.im.value(x);
    parts.push_back(unsqueezed(v, {axis < 0 ? axis + v.rank() + 1 : axis}));
  }
  return traced_item(joined(parts, axis < 0 ? axis + parts[0].rank() : axis), all[0].format);
}

inline bool all_tensors(const std::vector<item>& all) {
  return std::none_of(all.begin(), all.end(), [](const item& x) { return x.list || x.is_optional || !x.present(); });
}

/// Results of inner graphs that are parts of the graph: nodes, and formats of their elements.
struct part_results {
  std::vector<item> items;
  std::vector<int> formats;

  /// The values of items from `first`.
  std::vector<node> values(call& c, std::size_t first = 0) {
    if (!all_tensors(items)) wire::fail_file("a sequence or an optional among its results");
    std::vector<node> out;
    formats.clear();
    for (const item& x : items) formats.push_back(x.format);
    for (std::size_t k = first; k < items.size(); ++k) out.push_back(c.im.value(items[k]));
    return out;
  }
};

/// Checks that the condition is a flag. The flag may have any rank.
inline void check_flag(dtype t) {
  if (!is_bool(t)) wire::fail_file(std::string("its condition is ") + dtype_name(t) + ", and no flag");
}
inline node flag_of(const node& x) {
  check_flag(x.type());
  return reshape_to(x, {});
}

/// Both branches as parts of the graph. Throws user_error if their results differ in dtype or extents, or if a branch reads
/// values.
inline void if_as_cond(call& c, const graph_proto& yes, const graph_proto& no) {
  const node predicate = flag_of(c.x(0));
  part parts[2];
  part_results results[2];
  std::vector<extents> shapes;
  std::vector<dtype> types;
  parts[0].run([&] {
    results[0].items = c.im.run(yes, &c.at, {});
    const auto all = results[0].values(c);
    for (const node& y : all) {
      shapes.push_back(extents_of(y));
      types.push_back(y.type());
    }
    return all;
  });
  parts[1].run([&] {
    results[1].items = c.im.run(no, &c.at, {});
    auto all = results[1].values(c);
    bool same = all.size() == shapes.size() && results[0].formats == results[1].formats;
    for (std::size_t k = 0; same && k < all.size(); ++k) {
      const extents e = extents_of(all[k]);
      if (all[k].type() != types[k]) wire::fail_file("its branches give values of different dtypes");
      same = e.size() == shapes[k].size();
      for (std::size_t a = 0; same && a < e.size(); ++a) same = e[a] == shapes[k][a];
      if (same) all[k] = reshape_to(all[k], shapes[k]);
    }
    if (!same) wire::fail_file("its branches give values of different extents");
    return all;
  });
  const auto out =
      engine::push_cond(*engine::current(), predicate.id(), parts[0].tracer(), parts[1].tracer(), place_of_nodes());
  for (std::size_t k = 0; k < out.size(); ++k) c.give(k, traced_item(value_of(out[k]), results[0].formats[k]));
}

/// The beginning of an error's message. Errors of inner graphs contain each other.
inline std::string without_prefix(const std::string& what) {
  const std::string prefix = "sinter: [onnx] ";
  const std::string text = what.rfind(prefix, 0) == 0 ? what.substr(prefix.size()) : what;
  return text.size() > 1000 ? text.substr(0, 1000) + "..." : text;
}
/// Runs `first`. If it cannot become a part of the graph, runs `otherwise`, which reads values or goes step by step. `how`
/// names the latter in errors.
template <class First, class Otherwise>
void tried(call& c, const char* how, const First& first, const Otherwise& otherwise) {
  const auto given = c.in;
  std::string why;
  try {
    return first();
  } catch (const user_error& e) {
    why = without_prefix(e.what());
  }
  c.in = given;
  c.out.clear();
  try {
    otherwise();
  } catch (const user_error& e) {
    c.refuse(std::string(how) + ": " + without_prefix(e.what()) + "; as a part of the graph: " + why);
  }
}

inline bool is_known(call& c, std::size_t k) { return c.in[k].host || !c.in[k].x.is_traced(); }

inline void if_(call& c) {
  const graph_proto &yes = graph_of(c, "then_branch"), &no = graph_of(c, "else_branch");
  const auto by_value = [&] {
    const host_values& h = c.host(0);
    c.out = c.im.run(!h.ints.empty() && h.ints[0].bits != 0 ? yes : no, &c.at, {});
  };
  check_flag(c.type(0));
  if (is_known(c, 0)) return by_value();
  tried(
      c, "with its condition read", [&] { if_as_cond(c, yes, no); }, by_value);
}

/// For each result of a body, the input that it passes through unchanged; -1 if it changes.
inline std::vector<int> passed_through(const graph_proto& body) {
  std::map<std::string_view, int> inputs;
  for (std::size_t j = 0; j < body.inputs.size(); ++j) inputs.emplace(body.inputs[j].name, static_cast<int>(j));
  for (const auto& n : body.nodes) {  // in order, so that chains are followed
    const bool same = n.op == "Identity" && n.domain.empty() && n.outputs.size() == 1 && n.inputs.size() == 1;
    const auto found = same ? inputs.find(n.inputs[0]) : inputs.end();
    const int from = found == inputs.end() ? -1 : found->second;
    for (const auto& name : n.outputs) inputs.erase(name);
    if (from >= 0) inputs[n.outputs[0]] = from;
  }
  std::vector<int> out;
  for (const auto& y : body.outputs) {
    const auto from = inputs.find(y.name);
    out.push_back(from == inputs.end() ? -1 : from->second);
  }
  return out;
}

/// Builds a Loop as a loop of the graph.
struct loop_builder {
  call& c;
  const graph_proto& body;
  std::vector<item> start;            ///< the first carried values
  std::vector<std::size_t> changing;  ///< carried values that a step changes
  std::size_t scanned = 0;
  std::vector<int> formats;  ///< formats of carried values, then of scanned values
  bool always = true;        ///< the body's condition is known to hold

  loop_builder(call& k, const graph_proto& b, std::vector<item> carried)
      : c(k), body(b), start(std::move(carried)), scanned(b.outputs.size() - 1 - start.size()) {
    const auto same = passed_through(body);
    for (std::size_t i = 0; i < start.size(); ++i)
      if (same[1 + i] != static_cast<int>(2 + i)) changing.push_back(i);
  }
  std::vector<node> first_values() {
    std::vector<node> out;
    for (const auto k : changing) out.push_back(c.im.value(start[k]));
    return out;
  }
  /// The results of a step: the condition, the changed carried values, and the scanned values.
  struct step_values {
    node on;
    std::vector<node> carried, scanned;
  };
  step_values step(const node& index, const std::vector<node>& now) {
    std::vector<item> in{traced_item(index), known_number(dtype::b8, 1)};
    in.insert(in.end(), start.begin(), start.end());
    for (std::size_t j = 0; j < changing.size(); ++j)
      in[2 + changing[j]] = traced_item(now[j], start[changing[j]].format);
    const importer::stepping one(c.im, index);
    std::vector<item> out = c.im.run(body, &c.at, in);
    if (!all_tensors(out)) wire::fail_file("a sequence or an optional among what it carries");
    item& condition = out[0];
    if (!condition.host && !condition.x.is_traced()) c.im.host(condition);
    step_values y;
    if (!condition.host || condition.host->ints.at(0).bits == 0) {
      always = false;
      y.on = flag_of(c.im.value(condition));
    }
    formats.clear();
    for (std::size_t k = 1; k < out.size(); ++k) formats.push_back(out[k].format);
    for (const auto k : changing) y.carried.push_back(c.im.value(out[1 + k]));
    for (std::size_t k = 1 + start.size(); k < out.size(); ++k) y.scanned.push_back(c.im.value(out[k]));
    return y;
  }
  void give(const std::vector<node>& last, const std::vector<node>& stacks) {
    for (std::size_t k = 0; k < start.size(); ++k) c.give(k, start[k]);
    for (std::size_t j = 0; j < changing.size(); ++j) c.give(changing[j], traced_item(last[j], formats[changing[j]]));
    for (std::size_t k = 0; k < stacks.size(); ++k)
      c.give(start.size() + k, traced_item(stacks[k], formats[start.size() + k]));
  }

  /// `length` steps without a condition. False if the body has a condition.
  bool counted(dim length) {
    const turned out = repeated(length, first_values(), {}, false, [&](const turn& t) {
      step_values y = step(t.index, t.carried);
      return turned{y.carried, y.scanned};
    });
    if (!always) return false;
    give(out.carried, out.stacked);
    return true;
  }
  /// `length` steps. Steps after the condition has failed change nothing. If values are scanned, the number of effective
  /// steps is read.
  void masked(std::int64_t length, bool starts) {
    std::vector<node> init = first_values();
    init.push_back(constant(dtype::b8, starts));
    init.push_back(constant(dtype::i64, 0));
    const turned out = repeated(dim(length), init, {}, false, [&](const turn& t) {
      const std::size_t n = changing.size();
      const node on = t.carried[n];
      step_values y = step(t.index, {t.carried.begin(), t.carried.begin() + static_cast<std::ptrdiff_t>(n)});
      std::vector<node> next;
      for (std::size_t k = 0; k < n; ++k)
        next.push_back(choose(on, fitted(y.carried[k], t.carried[k], "a carried value"), t.carried[k]));
      next.push_back(y.on ? pointwise(op::bit_and, on, y.on) : on);
      next.push_back(plus(t.carried[n + 1], to_type(on, dtype::i64)));
      return turned{next, y.scanned};
    });
    std::vector<node> last(out.carried.begin(), out.carried.end() - 2);
    if (out.stacked.empty()) return give(last, {});
    // A read ends the graph, so nodes are requested again.
    give(last, out.stacked);
    item taken = traced_item(out.carried.back());
    const dim count = c.im.host(taken).ints.at(0);
    for (std::size_t k = start.size(); k < c.out.size(); ++k) {
      const int format = c.out[k].format;
      c.give(k, traced_item(sliced(c.im.value(c.out[k]), 0, 0, count), format));
    }
  }
  /// Steps as long as the condition holds, and at most `most` steps if it is given.
  void while_(const item* most, const item* on) {
    std::vector<node> init = first_values();
    init.push_back(on ? flag_of(c.im.value(*on)) : constant(dtype::b8, 1));
    init.push_back(constant(dtype::i64, 0));
    const auto around = engine::current();
    const node limit = most ? reshape_to(to_type(c.im.value(*most), dtype::i64), {}) : node();
    const std::size_t n = changing.size();
    const auto last = repeated_while(
        init,
        [&](const std::vector<node>& now) {
          const node in_time = limit ? pointwise(op::lt, now[n + 1], brought_in(around, limit)) : node();
          return in_time ? pointwise(op::bit_and, now[n], in_time) : now[n];
        },
        [&](const std::vector<node>& now) {
          step_values y = step(now[n + 1], {now.begin(), now.begin() + static_cast<std::ptrdiff_t>(n)});
          std::vector<node> next = y.carried;
          next.push_back(y.on ? y.on : constant(dtype::b8, 1));
          next.push_back(now[n + 1] + 1.0);
          return next;
        });
    if (!limit && always) wire::fail_file("it has no condition and no number of steps: it never ends");
    give({last.begin(), last.end() - 2}, {});
  }
};

/// The stack of a loop without steps: no elements, with the dtype and extents of a step's value.
inline item stacked_none(call& c, const item& one) {
  if (one.list || one.is_optional || !one.present()) c.refuse("it stacks a sequence or an optional");
  extents e = one.shape();
  e.insert(e.begin(), dim(0));
  return traced_item(constant(one.type(), 0, e), one.format);
}
/// The results of a step that does not run, for their dtypes and extents only. They come from `step`, else from the body's
/// declarations.
template <class Step>
std::vector<item> kinds_of_step(call& c, const graph_proto& body, const Step& step) {
  try {
    return step();
  } catch (const user_error& e) {
    std::vector<item> out;
    for (const value_info& y : body.outputs) {
      extents shape;
      for (const auto& a : y.type.axes) shape.push_back(a.extent < 0 ? dim(-1) : dim(a.extent));
      if (!y.type.has_shape || !dtype_of_onnx(y.type.element) || std::count(shape.begin(), shape.end(), dim(-1)) != 0)
        c.refuse("it takes no step, and its body does not tell what it would stack: " + without_prefix(e.what()));
      out.push_back(traced_item(constant(*dtype_of_onnx(y.type.element), 0, shape)));
    }
    return out;
  }
}

/// Runs the loop step by step. The number of steps is known, or the condition is read at each step.
inline void loop_by_steps(call& c, const graph_proto& body, std::vector<item> carried) {
  std::int64_t most = max_steps + 1;
  if (c.has(0)) most = c.integers(0).at(0);
  bool on = !c.has(1) || c.integers(1).at(0) != 0;
  std::vector<std::vector<item>> scanned(body.outputs.size() - 1 - carried.size());
  for (std::int64_t k = 0; on && k < most; ++k) {
    if (k == max_steps) c.refuse("it takes more than " + std::to_string(max_steps) + " steps");
    std::vector<item> in{known_number(dtype::i64, k), known_number(dtype::b8, 1)};
    in.insert(in.end(), carried.begin(), carried.end());
    std::vector<item> out = c.im.run(body, &c.at, in);
    if (k + 1 < most) on = c.im.host(out[0]).ints.at(0).bits != 0;
    for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = out[1 + i];
    for (std::size_t i = 0; i < scanned.size(); ++i) scanned[i].push_back(out[1 + carried.size() + i]);
  }
  for (std::size_t i = 0; i < carried.size(); ++i) c.give(i, carried[i]);
  if (scanned.empty()) return;
  std::vector<item> none;
  if (scanned[0].empty())
    none = kinds_of_step(c, body, [&] {
      std::vector<item> in{known_number(dtype::i64, 0), known_number(dtype::b8, 1)};
      in.insert(in.end(), carried.begin(), carried.end());
      return c.im.run(body, &c.at, in);
    });
  for (std::size_t i = 0; i < scanned.size(); ++i)
    c.give(carried.size() + i,
           none.empty() ? stacked_items(c, scanned[i], 0) : stacked_none(c, none.at(1 + carried.size() + i)));
}
/// The Loop as a loop of the graph. If values are scanned or a derivative is taken, the number of steps is read.
inline void loop_as_one(call& c, const graph_proto& body, const std::vector<item>& carried) {
  if (!all_tensors(carried)) wire::fail_file("it carries a sequence or an optional");
  loop_builder b(c, body, carried);
  const bool reads = b.scanned > 0 || stays_whole();
  const bool limited = c.has(0), known_length = limited && (is_known(c, 0) || reads),
             known_start = !c.has(1) || is_known(c, 1) || reads;
  std::optional<dim> length;
  if (known_length) length = c.sizes(0).at(0);
  // Files write the largest number to mean no limit.
  if (length && !length->is_symbolic() && length->bits > (std::int64_t{1} << 53)) length.reset();
  bool starts = true;
  if (known_start && c.has(1)) starts = c.integers(1).at(0) != 0;
  if (length && known_start && b.counted(starts ? *length : dim(0))) return;
  const bool number = length && !length->is_symbolic() && length->bits <= max_steps;
  if (reads && number && known_start) return b.masked(std::max<std::int64_t>(length->bits, 0), starts);
  if (b.scanned > 0) wire::fail_file("it stacks values of an unknown number of steps");
  item most = limited ? c.in[0] : item(), on = c.has(1) ? c.in[1] : item();
  b.while_(limited && (length || !known_length) ? &most : nullptr, c.has(1) ? &on : nullptr);
}
inline void loop(call& c) {
  const graph_proto& body = body_of(c);
  const std::vector<item> carried(c.in.begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(c.in.size())),
                                  c.in.end());
  if (body.outputs.size() < carried.size() + 1) c.refuse("its body gives fewer values than it carries");
  if (body.inputs.size() < carried.size() + 2) c.refuse("its body takes fewer values than it carries");
  if (c.has(0) && is_known(c, 0)) {
    const dim most = c.sizes(0).at(0);
    const bool no_condition = passed_through(body)[0] == 1 && (!c.has(1) || is_known(c, 1));
    if (!most.is_symbolic() && most.bits > 0 && most.bits <= max_unrolled && no_condition)
      return loop_by_steps(c, body, carried);
  }
  tried(
      c, "step by step", [&] { loop_as_one(c, body, carried); }, [&] { loop_by_steps(c, body, carried); });
}

inline std::int64_t entry(const std::vector<std::int64_t>& all, std::size_t k) { return k < all.size() ? all[k] : 0; }

/// A Scan: its states, its inputs with the steps as first axis, and its directions.
struct scan_builder {
  call& c;
  const graph_proto& body;
  std::vector<item> states, xs;
  std::vector<bool> turned_in, turned_out;
  dim steps;

  std::vector<item> step(const std::vector<item>& now, const std::vector<item>& slices) {
    std::vector<item> in = now;
    in.insert(in.end(), slices.begin(), slices.end());
    return c.im.run(body, &c.at, in);
  }
  std::size_t stacks() const { return body.outputs.size() - states.size(); }

  /// A loop of the graph. Returns the last states, then stacks with the steps as first axis. `length`, if given, is the
  /// length of one lane.
  std::vector<item> as_one(const node& length = {}) {
    std::vector<node> init, sliced_values;
    for (const item& x : states) init.push_back(c.im.value(x));
    const bool reverse = std::find(turned_in.begin(), turned_in.end(), false) == turned_in.end();
    for (std::size_t k = 0; k < xs.size(); ++k) {
      const node x = c.im.value(xs[k]);
      sliced_values.push_back(turned_in[k] && !reverse ? flipped(x, 0) : x);
    }
    std::vector<int> formats;
    const auto around = engine::current();
    const turned out = repeated(steps, init, sliced_values, reverse, [&](const turn& t) {
      std::vector<item> now, slices;
      for (std::size_t k = 0; k < states.size(); ++k) now.push_back(traced_item(t.carried[k], states[k].format));
      for (std::size_t k = 0; k < xs.size(); ++k) slices.push_back(traced_item(t.slices[k], xs[k].format));
      const importer::stepping one(c.im, t.index);
      part_results results{step(now, slices), {}};
      std::vector<node> all = results.values(c);
      formats = results.formats;
      if (length) {
        const node on = pointwise(op::lt, t.index, brought_in(around, length));
        for (std::size_t k = 0; k < all.size(); ++k)
          all[k] = k < states.size() ? choose(on, fitted(all[k], t.carried[k], "a state"), t.carried[k])
                                     : choose(on, all[k], constant(all[k].type(), 0));
      }
      const auto last = all.begin() + static_cast<std::ptrdiff_t>(states.size());
      return turned{{all.begin(), last}, {last, all.end()}};
    });
    std::vector<item> result;
    for (std::size_t k = 0; k < out.carried.size(); ++k) result.push_back(traced_item(out.carried[k], formats[k]));
    for (std::size_t k = 0; k < out.stacked.size(); ++k) {
      const bool flip = turned_out[k] != reverse;
      result.push_back(traced_item(flip ? flipped(out.stacked[k], 0) : out.stacked[k], formats[states.size() + k]));
    }
    return result;
  }
  std::vector<item> by_steps() {
    const auto n = static_cast<std::int64_t>(steps);
    if (n > max_steps) c.refuse("it takes more than " + std::to_string(max_steps) + " steps");
    std::vector<item> now = states;
    std::vector<std::vector<item>> all(stacks());
    for (std::int64_t k = 0; k < n; ++k) {
      std::vector<item> slices;
      for (std::size_t i = 0; i < xs.size(); ++i)
        slices.push_back(traced_item(slice_at(c.im.value(xs[i]), turned_in[i] ? n - 1 - k : k), xs[i].format));
      const std::vector<item> out = step(now, slices);
      for (std::size_t i = 0; i < states.size(); ++i) now[i] = out[i];
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i].insert(turned_out[i] ? all[i].begin() : all[i].end(), out[states.size() + i]);
    }
    std::vector<item> none;
    if (n == 0 && !all.empty())
      none = kinds_of_step(c, body, [&] {
        std::vector<item> slices;
        for (const item& x : xs) {
          const extents e = x.shape().from(1);
          slices.push_back(traced_item(constant(x.type(), 0, e), x.format));
        }
        return step(states, slices);
      });
    for (std::size_t i = 0; i < all.size(); ++i)
      now.push_back(n == 0 ? stacked_none(c, none.at(states.size() + i)) : stacked_items(c, all[i], 0));
    return now;
  }
};

/// x with an axis moved to another place.
inline node axis_moved(const node& x, int from, int to) {
  std::vector<int> perm;
  for (int a = 0; a < x.rank(); ++a)
    if (a != from) perm.push_back(a);
  perm.insert(perm.begin() + to, from);
  return permuted(x, perm);
}
inline scan_builder scan_of(call& c, std::size_t first) {
  const graph_proto& body = body_of(c);
  const auto inputs = static_cast<std::size_t>(std::max<std::int64_t>(c.i("num_scan_inputs", 0), 0));
  if (inputs < 1 || inputs + first > c.in.size()) c.refuse("its number of scanned inputs is not one of its inputs");
  const std::size_t states = c.in.size() - first - inputs;
  if (body.outputs.size() < states) c.refuse("its body gives fewer values than it carries");
  const auto at = c.in.begin() + static_cast<std::ptrdiff_t>(first);
  scan_builder b{c, body, {at, at + static_cast<std::ptrdiff_t>(states)}, {}, {}, {}, 0};
  for (std::size_t k = first; k < c.in.size(); ++k) c.given(k);
  const auto turned = c.list(first ? "directions" : "scan_input_directions"),
             out_turned = c.list("scan_output_directions");
  for (std::size_t k = 0; k < inputs; ++k) b.turned_in.push_back(entry(turned, k) != 0);
  for (std::size_t k = 0; k < b.stacks(); ++k) b.turned_out.push_back(entry(out_turned, k) != 0);
  return b;
}

/// Scan before version 9: sequences of a batch, each with its own length.
inline void scan_of_batch(call& c) {
  scan_builder b = scan_of(c, 1);
  const std::size_t states = b.states.size(), inputs = c.in.size() - 1 - states;
  const dim lanes = c.shape(1).at(0);
  b.steps = c.shape(1 + states).at(1);
  if (c.has(0) && std::find(b.turned_in.begin(), b.turned_in.end(), true) != b.turned_in.end())
    c.refuse("backwards over sequences of several lengths; export the model with operators of version 9 or later");
  std::vector<node> operands;
  if (c.has(0)) operands.push_back(to_type(c.x(0), dtype::i64));
  for (std::size_t k = 1; k < c.in.size(); ++k) operands.push_back(c.x(k));
  part p;
  std::vector<ir::node_id> in;
  series<ir::node_id> given;
  for (const node& x : operands) {
    given.push_back(x.id());
    size_of_axis(x, 0);  // the axis exists
    in.push_back(p.input(x.type(), ir::shape(x.extents().begin() + 1, x.extents().end())));
  }
  std::vector<int> formats;
  p.run([&] {
    std::size_t next = 0;
    const node length = c.has(0) ? value_of(in[next++]) : node();
    for (std::size_t k = 0; k < states; ++k) b.states[k] = traced_item(value_of(in[next++]), c.in[1 + k].format);
    for (std::size_t k = 0; k < inputs; ++k)
      b.xs.push_back(traced_item(value_of(in[next++]), c.in[1 + states + k].format));
    part_results results{b.as_one(length), {}};
    const auto all = results.values(c);
    formats = results.formats;
    return all;
  });
  const std::vector<char> varies(operands.size(), 1);
  const auto out = engine::push_lanes(*engine::current(), p.tracer(), std::move(given), {varies.data(), varies.size()},
                                      engine::to_ir(lanes), place_of_nodes());
  for (std::size_t k = 0; k < out.nodes.size(); ++k) {
    node y = value_of(out.nodes[k]);
    if (!out.varies[k]) {
      extents to = extents_of(y);
      to.insert(to.begin(), lanes);
      y = broadcast_to(unsqueezed(y, {0}), to);
    }
    c.give(k, traced_item(y, formats[k]));
  }
}
inline void scan_row(call& c) {
  if (c.version < 9) return scan_of_batch(c);
  scan_builder b = scan_of(c, 0);
  const std::size_t states = b.states.size(), inputs = c.in.size() - states;
  const auto axes = c.list("scan_input_axes"), out_axes = c.list("scan_output_axes");
  const auto axis = [&](std::size_t k) { return axis_of(entry(axes, k), c.rank(states + k)); };
  b.steps = c.shape(states)[static_cast<std::size_t>(axis(0))];
  const auto read_inputs = [&] {
    b.xs.clear();
    for (std::size_t k = 0; k < inputs; ++k)
      b.xs.push_back(traced_item(axis_moved(c.x(states + k), axis(k), 0), c.in[states + k].format));
  };
  std::vector<item> out;
  const auto one = [&] {
    if (!all_tensors(b.states)) wire::fail_file("it carries a sequence or an optional");
    read_inputs();
    out = b.as_one();
  };
  tried(c, "step by step", one, [&] {
    read_inputs();
    out = b.by_steps();
  });
  for (std::size_t k = 0; k < states; ++k) c.give(k, out[k]);
  for (std::size_t k = states; k < out.size(); ++k) {
    const node y = c.im.value(out[k]);
    c.give(k, traced_item(axis_moved(y, 0, axis_of(entry(out_axes, k - states), y.rank())), out[k].format));
  }
}

inline const row flows[] = {
    {"If", "", 1, if_, "cond; the branch of a condition that is known"},
    {"Loop", "", 1, loop, "scan, while_loop"},
    {"Scan", "", 1, scan_row, "scan"},
};

}  // namespace sinter::onnx::rows
