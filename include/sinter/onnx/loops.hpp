// onnx/loops.hpp: loops and branches of nodes: carried values, slices and stacks whose dtypes and ranks are known at run time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../front/control/parts.hpp"
#include "values.hpp"

namespace sinter::onnx {

/// Loops of a known number of steps up to this limit are traced step by step.
inline constexpr std::int64_t max_unrolled = 4;

/// A value of the trace `around`, in the current trace. An undefined value stays undefined.
inline node brought_in(const std::shared_ptr<engine::tracer>& around, const node& x) {
  return x ? value_of(engine::current()->adopt(around.get(), x.id(), place_of_nodes())) : x;
}

/// The arguments of a step.
struct turn {
  node index;  ///< the index of the slices, i64
  std::vector<node> carried, slices;
};
/// The results of a step: the next carried values, and the values to stack.
struct turned {
  std::vector<node> carried, stacked;
};
using turn_body = std::function<turned(const turn&)>;

inline std::string kind_of(const node& x) { return std::string(dtype_name(x.type())) + " " + text_of(extents_of(x)); }

/// x with extents written as those of `like`; user_error if x and `like` differ in dtype or extents.
inline node fitted(const node& x, const node& like, const std::string& what) {
  const extents e = extents_of(x), want = extents_of(like);
  bool same = x.type() == like.type() && e.size() == want.size();
  for (std::size_t a = 0; same && a < e.size(); ++a) same = e[a] == want[a];
  if (!same) wire::fail_file(what + " is " + kind_of(like) + " before and " + kind_of(x) + " after a step");
  return reshape_to(x, want);
}
inline std::vector<node> fitted_to_carry(const std::vector<node>& next, const std::vector<node>& before) {
  if (next.size() != before.size()) wire::fail_file("a step gives another number of values than it carries");
  std::vector<node> out;
  for (std::size_t k = 0; k < next.size(); ++k)
    out.push_back(fitted(next[k], before[k], "the carried value " + std::to_string(k)));
  return out;
}

/// Slice i of x along its first axis.
inline node slice_at(const node& x, std::int64_t i) {
  extents e = extents_of(x);
  e.erase(e.begin());
  return reshape_to(sliced(x, 0, dim(i), 1), e);
}

namespace detail_ {

inline turned unrolled_steps(std::int64_t length, turned now, const std::vector<node>& xs, bool reverse,
                             const turn_body& body) {
  std::vector<std::vector<node>> stacks;
  for (std::int64_t step = 0; step < length; ++step) {
    const std::int64_t i = reverse ? length - 1 - step : step;
    turn t{constant(dtype::i64, static_cast<double>(i)), now.carried, {}};
    for (const node& x : xs) t.slices.push_back(slice_at(x, i));
    turned next = body(t);
    now.carried = fitted_to_carry(next.carried, now.carried);
    stacks.resize(next.stacked.size());
    for (std::size_t k = 0; k < stacks.size(); ++k)
      stacks[k].insert(reverse ? stacks[k].begin() : stacks[k].end(), unsqueezed(next.stacked[k], {0}));
  }
  for (const auto& s : stacks) now.stacked.push_back(joined(s, 0));
  return now;
}

}  // namespace detail_

/// A trace of a part of the current trace, with its own inputs.
class part {
 public:
  part() : around_(engine::current()), tracer_(engine::make_inner_tracer()) {}

  const std::shared_ptr<engine::tracer>& around() const { return around_; }
  engine::tracer& tracer() const { return *tracer_; }
  ir::node_id input(dtype type, const ir::shape& extents) {
    return tracer_->graph.add_input(type, extents, place_of_nodes());
  }
  /// Runs f within the part. f returns the part's results.
  template <class F>
  void run(F&& f) {
    const sinter::detail::part_scope scope(tracer_);
    series<ir::node_id> out;
    for (const node& y : f()) out.push_back(y.id());
    tracer_->graph.outputs = std::move(out);
  }

 private:
  std::shared_ptr<engine::tracer> around_, tracer_;
};

/// Steps over the first axis of `xs`, whose extent is `length`. The steps are one loop of the graph; a known number of at
/// most max_unrolled steps is traced step by step. The body brings in values of the trace around. `reverse` steps from the
/// last slice to the first; stacks are in the order of slices. Throws user_error if a carried value changes its dtype or
/// extents.
inline turned repeated(dim length, const std::vector<node>& carried, const std::vector<node>& xs, bool reverse,
                       const turn_body& body) {
  if (!length.is_symbolic() && length.bits > 0 && length.bits <= max_unrolled)
    return detail_::unrolled_steps(length.bits, {carried, {}}, xs, reverse, body);
  part p;
  const ir::node_id index = p.input(dtype::i64, {});
  std::vector<ir::node_id> before, slices;
  series<ir::node_id> operands;
  for (const node& x : carried) {
    operands.push_back(x.id());
    before.push_back(p.input(x.type(), x.extents()));
  }
  for (const node& x : xs) {
    extents e = extents_of(x);
    if (e[0] != length)
      wire::fail_file("values that are read step by step have " + e[0].text() + " and " + length.text() + " slices");
    e[0] = length;  // the extent is written as `length`
    operands.push_back(reshape_to(x, e).id());
    slices.push_back(p.input(x.type(), ir::shape(x.extents().begin() + 1, x.extents().end())));
  }
  p.run([&] {
    turn t{value_of(index), {}, {}};
    for (const auto id : before) t.carried.push_back(value_of(id));
    for (const auto id : slices) t.slices.push_back(value_of(id));
    turned next = body(t);
    std::vector<node> all = fitted_to_carry(next.carried, t.carried);
    all.insert(all.end(), next.stacked.begin(), next.stacked.end());
    return all;
  });
  const auto results = engine::push_loop(*engine::current(), p.tracer(), carried.size(), std::move(operands),
                                         engine::to_ir(length), place_of_nodes(), reverse);
  turned out;
  for (std::size_t k = 0; k < results.size(); ++k)
    (k < carried.size() ? out.carried : out.stacked).push_back(value_of(results[k]));
  return out;
}

/// Steps as long as `test` of the carried values holds. No derivative flows through the steps.
inline std::vector<node> repeated_while(const std::vector<node>& carried,
                                        const std::function<node(const std::vector<node>&)>& test,
                                        const std::function<std::vector<node>(const std::vector<node>&)>& body) {
  part tested, step;
  series<ir::node_id> init;
  std::vector<ir::node_id> seen, before;
  for (const node& x : carried) {
    init.push_back(x.id());
    seen.push_back(tested.input(x.type(), x.extents()));
    before.push_back(step.input(x.type(), x.extents()));
  }
  const auto values = [](const std::vector<ir::node_id>& ids) {
    std::vector<node> out;
    for (const auto id : ids) out.push_back(value_of(id));
    return out;
  };
  tested.run([&] { return std::vector<node>{test(values(seen))}; });
  step.run([&] {
    const auto now = values(before);
    return fitted_to_carry(body(now), now);
  });
  std::vector<node> out;
  for (const auto id :
       engine::push_while(*engine::current(), tested.tracer(), step.tracer(), std::move(init), place_of_nodes()))
    out.push_back(value_of(id));
  return out;
}

/// Whether a derivative of the traced function is being taken. Then its graph must stay whole.
inline bool stays_whole() {
  const auto& call = engine::current()->outermost().call;
  return call && call->whole > 0;
}

}  // namespace sinter::onnx
