// jit/check/finite.hpp: a program whose results are checked: reports the first op that made a NaN or an infinity, by the
// reference.
#pragma once

#include "../backends/reference.hpp"

namespace sinter::engine {

/// The sizes that the arguments determine. (guards/sizes.hpp)
SINTER_API bool bind_sizes(const size_layout& layout, std::span<const argument> tensors, std::int64_t* sizes);

}  // namespace sinter::engine

namespace sinter::engine::detail {

/// Whether x is of the kind that is sought: NaN, or infinities.
inline bool is_sought(double x, bool nan) { return nan ? x != x : x == x && x - x != 0; }

inline bool holds(const ir::literal_array& x, bool nan) {
  return std::any_of(x.f.begin(), x.f.end(), [&](double v) { return is_sought(v, nan); });
}

/// Whether a result has a NaN, or an infinity.
inline bool holds(const output& o, bool nan) {
  if (!is_float(o.type)) return false;
  series<std::int64_t> strides(static_cast<std::size_t>(o.rank));
  std::int64_t count = 1;
  for (std::size_t d = strides.size(); d-- > 0; count *= o.extents[d]) strides[d] = count;
  const argument a{o.memory.data(), &o.memory, o.type, o.rank, o.extents, strides.data(), false};
  return holds(read(a), nan);
}

/// user_error naming the first node with a NaN or an infinity, as in `result`, whose operands have none.
[[noreturn]] inline void tell_first(const ir::graph& traced, std::span<const argument> inputs,
                                    std::span<const std::int64_t> sizes, std::size_t result, bool nan,
                                    const std::string& name) {
  const char* const what = nan ? "a NaN" : "an infinity";
  const std::string begin = "result " + std::to_string(result) + " has " + what + ": ";
  ir::graph g = traced;
  g.effects = {};
  g.outputs = traced.outputs;
  series<ir::node_id> shown;
  for (const auto id : g.live())
    if (g[id].code != ir::op::opaque) shown.push_back(id);
  g.outputs = shown;
  series<ir::literal_array> given;
  for (const auto& a : inputs) given.push_back(read(a));
  const auto values = ir::evaluate(g, given, sizes);
  series<char> has(g.size(), 0);
  for (std::size_t i = 0; i < shown.size(); ++i) has[shown[i]] = holds(values[i], nan);
  for (const auto id : shown) {
    const ir::node& n = g[id];
    if (!has[id] || std::any_of(n.in.begin(), n.in.end(), [&](ir::node_id k) { return has[k] != 0; })) continue;
    if (n.code == ir::op::constant) continue;
    if (n.code == ir::op::input)
      fail(name, begin + "input " + std::to_string(n.attr.ints[0]) + " of the graph has one already", n.where);
    const ir::node& made = n.code == ir::op::pick ? g[n.in[0]] : n;
    fail(name, begin + "the first op that made one of operands without is " + ir::name(made.code), made.where);
  }
  fail(name, begin + "it came from a constant, or the interpreter has none; see verify()",
       traced[traced.outputs[result]].where);
}

class finite_program final : public program {
 public:
  finite_program(std::shared_ptr<const program> made, ir::graph traced, capture_list captures, size_layout layout,
                 std::string name)
      : made_(std::move(made)),
        traced_(std::move(traced)),
        captures_(std::move(captures)),
        layout_(std::move(layout)),
        name_(std::move(name)) {}

  /// Nothing is donated, because the arguments are examined after the call.
  void run(std::span<const argument> arguments, std::span<const argument> numbers, std::span<const std::uint8_t>,
           output* outputs) const override {
    const series<std::uint8_t> kept(arguments.size(), 0);
    made_->run(arguments, numbers, {kept.data(), kept.size()}, outputs);
    for (const bool nan : {true, false})
      for (std::size_t k = 0; k < made_->output_count(); ++k) {
        if (!holds(outputs[k], nan)) continue;
        series<std::int64_t> sizes(layout_.sizes.size());
        if (!layout_.sizes.empty()) bind_sizes(layout_, arguments, sizes.data());
        series<argument> given(arguments.begin(), arguments.end());
        given.insert(given.end(), numbers.begin(), numbers.end());
        const auto all = all_arguments({given.data(), given.size()}, captures_);
        tell_first(traced_, {all.data(), all.size()}, {sizes.data(), sizes.size()}, k, nan, name_);
      }
  }

  std::size_t output_count() const override { return made_->output_count(); }
  report describe() const override { return made_->describe(); }
  std::size_t text_bytes() const override { return made_->text_bytes(); }
  report explain() const override { return made_->explain(); }

 private:
  std::shared_ptr<const program> made_;
  ir::graph traced_;
  capture_list captures_;
  size_layout layout_;
  std::string name_;
};

}  // namespace sinter::engine::detail
