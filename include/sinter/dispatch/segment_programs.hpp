// dispatch/segment_programs.hpp: the programs of the graphs between two graph breaks, by structure and sizes.
#pragma once

#include <cstring>
#include <string>
#include <utility>

#include "../base/callback.hpp"
#include "../base/log.hpp"
#include "../base/text.hpp"
#include "../engine/engine.hpp"
#include "../ir/print.hpp"
#include "function_state.hpp"
#include "raise_numbers.hpp"

namespace sinter::engine {

namespace detail {

/// The call's extents that are numbers: with the structure, they identify a segment.
inline std::string fixed_sizes(const live_call& call, const size_layout& layout) {
  std::string out;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const argument& x = call.arguments[i];
    out += (i ? " (" : "(");
    for (int a = 0; a < x.rank; ++a) {
      const auto axis = layout.tensors.empty() ? 0 : static_cast<std::size_t>(layout.tensors[i].first + a);
      const int k = layout.tensors.empty() ? -1 : layout.size_of_axis[axis];
      const bool open = k >= 0 && !layout.sizes[static_cast<std::size_t>(k)].is_fixed();
      out += (a ? ", " : "") + (open ? "any" : std::to_string(x.extents[a]));
    }
    out += ")";
  }
  return out;
}

/// Whether there are open sizes, as open as requested.
inline bool is_open(const size_layout& layout) {
  for (const open_size& s : layout.sizes)
    if (s.is_fixed()) return false;
  return layout.any_open();
}

/// The number in which the function's segments differ from a further one, with its values. Empty if they differ in other ways.
inline std::string differing_number(function_state& held, const ir::graph& g) {
  ir::node_id at = ir::no_node;
  series<std::pair<std::uint64_t, std::string>> values;
  held.for_each_segment([&](const segment& s) {
    if (s.graph().size() != g.size()) return;
    ir::node_id differs = ir::no_node;
    for (ir::node_id i = 0; i < g.size(); ++i) {
      const ir::node &x = g[i], &y = s.graph()[i];
      if (x.code != y.code || x.in != y.in) return;
      if (x.attr == y.attr) continue;
      if (x.code != ir::op::constant || differs != ir::no_node) return;
      differs = i;
    }
    if (differs == ir::no_node || (at != ir::no_node && at != differs)) return;
    at = differs;
    values.emplace_back(s.used, ir::ops::literal_text(g[at].type, s.graph()[at].attr.literal));
  });
  if (at == ir::no_node) return {};
  sort_stably(values, [](const auto& a, const auto& b) { return a.first < b.first; });
  constexpr std::size_t max_values = 8;
  const bool more = values.size() > max_values;
  if (more) values.resize(max_values);
  return sinter::detail::located("the guard that kept failing: a number in the graph, " +
                                     text::join(values, ", ", [](const auto& v) { return v.second; }) +
                                     (more ? ", ..." : ""),
                                 g[at].where);
}

inline constexpr const char* keep_tensors =
    "What differs from call to call, or from round to round, is part of a segment's graph: an integer that is read and "
    "computed with as a C++ number, or the counter of a loop. Keep it a tensor: x * count, not x * count.item()";

/// Refuses a segment beyond the limit: an error, or one warning.
inline void refuse_segment(const tracer& t, const ir::graph& g, const std::string& extents, const admission& a) {
  const options& how = *t.call->how;
  if (const std::string& beyond = t.call->beyond; !beyond.empty()) {
    if (how.on_limit == on_limit::error) fail(how.name, beyond, t.call->where);
    return;  // the maker of the specialisation has warned
  }
  std::string message, remedy =
                           "Keep the sizes open (dynamic::automatic or mark_dynamic, and no size as an integer), call "
                           "it with fewer distinct "
                           "extents, raise .recompile_limit, or say .on_limit = on_limit::evict";
  if (a.by_place) {
    message = "this line of the program has made " + std::to_string(limits::max_of_one_place) +
              " specialisations beyond the first of each of its functions, segments between graph breaks among them";
    const std::string differs = differing_number(*t.call->held, g);
    message += "; " + (differs.empty() ? "this call has " + extents : differs);
    if (!differs.empty()) remedy = std::string(keep_tensors) + "; or say .on_limit = on_limit::evict";
  } else {
    const std::size_t most = t.call->held->most();
    message = "segments between graph breaks are compiled for " +
              (most == 1 ? "one set" : std::to_string(most) + " sets") +
              " of extents, as many as .recompile_limit allows; this call has " + extents;
    const auto narrowed = narrowed_sizes(t);
    for (const narrowed_size& n : narrowed)
      message += "; " + size_report{n.what.tensor, n.what.axis, n.how, n.why, n.where}.text();
    if (narrowed.empty() && how.dynamic != dynamic::no)
      remedy =
          "Extents of 0 and 1 have segments of their own; call it with fewer distinct extents, raise "
          ".recompile_limit, or say .on_limit = on_limit::evict";
  }
  if (how.on_limit == on_limit::error) fail(how.name, message + ". " + remedy, t.call->where);
  if (t.call->held->warn_now())
    logs::warn_once(sinter::detail::located(
        logs::printable(how.name) + ": " + message + ". It is interpreted, which is slow. " + remedy, t.call->where));
}

/// The state for functions that are traced at each call: outside compile() grad has no limits.
inline function_state& held_by_nobody() {
  static const auto& how = *new options{.name = "grad"};
  static auto& all = *new function_state(how, {});  // threads may outlive statics
  return all;
}

/// The program for a segment's graph in a call. Floating constants that differ between graphs of this structure are
/// arguments, which follow the inputs in `given`.
inline std::shared_ptr<const program> segment_program(const tracer& t, const ir::graph& traced,
                                                      series<argument>& inputs, constant_values& given,
                                                      const size_layout& layout) {
  function_state& held = t.call->held ? *t.call->held : held_by_nobody();
  options how = *t.call->how;
  const device where = t.where.value_or(device{});
  // Rules of derivatives belong to this call; the inlined graph does not.
  ir::graph raised;
  if (ir::has_calls(traced)) raised = ir::inlined(traced);
  if (has_parts(raised.size() > 0 ? raised : traced)) raised = raise_constants(raised.size() > 0 ? raised : traced);
  const ir::graph& g = raised.size() > 0 ? raised : traced;
  series<ir::node_id> constants;
  std::string key = structure_key(g, inputs, layout, how, where, constants);
  const std::uint64_t structure = std::hash<std::string>()(key);
  varying numbers = held.varying_of(structure, g, constants);
  const bool more = numbers.note(g, constants);
  const auto differing = numbers.of(constants);
  given = constant_values(g, differing);
  for (std::size_t i = 0; i < given.size(); ++i) inputs.push_back(given[i]);
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const int which = numbers.argument_of(i);
    append_bytes(key, which);
    if (which < 0) append_bytes(key, g[constants[i]].attr.literal.f);
  }
  if (auto known = held.find(key, inputs, where)) return known;
  if (current_stance == stance::fail_on_recompile)
    fail(how.name,
         "a stance forbids to compile, and the call takes a way between two graph breaks that is new: other branches "
         "or extents",
         t.call->where);
  const auto fresh = make_on_heap<tracer>();
  fresh->graph = differing.empty() ? g : with_inputs(g, differing, 0);
  fresh->assumed.layout = layout;
  fresh->spent = t.spent_until_now();
  const std::string extents = fixed_sizes(*t.call, layout);
  const admission in = !t.call->beyond.empty() ? admission{false}
                       : t.call->held          ? held.admit(t.call, extents, is_open(layout))
                                               : admission{};
  if (!in.compiled) {
    refuse_segment(t, fresh->graph, extents, in);
    how.backend = interpreter;
    key += " " + how.backend;
    if (auto known = held.find(key, inputs, where)) return known;
  }
  logs::to("recompiles", [&] {
    return sinter::detail::located(
        logs::printable(how.name) + ": a segment between graph breaks is " + (in.compiled ? "made" : "interpreted") +
            " for extents " + extents + ", of " + std::to_string(fresh->graph.live().size()) + " nodes",
        fresh->graph.outputs.empty() ? location{} : fresh->graph[fresh->graph.outputs[0]].where);
  });
  if (more && in.compiled) held.varies(structure, std::move(numbers));
  const bool later = in.compiled && how.tier == tier::background && function_state::swaps() && held.wants_kernels();
  if (later) how.backend = interpreter;
  const auto code = held.keep(key, {build(fresh, inputs, how, where), fresh->graph, layout, in});
  if (later) held.build_later(key, *fresh, inputs, where);
  if (in.compiled && held.just_many(in))
    logs::warn_once(logs::printable(how.name) + ": " + std::to_string(limits::max_of_one_place) +
                    " segments between graph breaks have been made in one call, and more are. " + keep_tensors);
  return code;
}

}  // namespace detail
}  // namespace sinter::engine
