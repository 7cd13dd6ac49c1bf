// front/evaluate/formula.hpp: a pointwise expression whose dtypes and ranks are known at run time. Functions of handles are written with
// it and compiled once.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "../eager/reduce.hpp"
#include "formula_loop.hpp"
#include "views.hpp"

namespace sinter::detail {

/// Like expr: it owns its operands, operands broadcast, and `value` is its stage point. An int or a formula_number is a fixed
/// number. A double is a literal that a trace may vary. All numbers have the dtype of the operand beside them.
class formula {
 public:
  formula(const handle& x) : slots_(2) {
    slots_[1].x = x;
    if (x.tracer) slots_[1].traced = trace_handle(x.tracer, x.node);
    terms_.push_back({term::tensor, {}, x.type, static_cast<std::int8_t>(x.extents.rank), 0, place(1), &read});
  }
  formula(int value) : formula(std::int64_t{value}) {}
  formula(std::int64_t value) : formula(static_cast<double>(value), value, term::fixed) {}
  formula(formula_number value) : formula(value.value, whole_of(value.value), term::fixed) {}
  formula(double value) : formula(value, whole_of(value), term::literal) {}

  /// The positions along an axis of these extents.
  static formula index(dtype type, const dims& extents, int axis) {
    formula x;
    x.slots_.emplace_back();
    x.slots_[1].x.extents = extents;
    x.slots_[1].axis = axis;
    x.terms_.push_back({term::index, {}, type, static_cast<std::int8_t>(extents.rank), 0, place(1), &read});
    return x;
  }

  dtype type() const { return terms_[0].type; }
  int rank() const { return terms_[0].rank; }
  bool is_number() const { return terms_[0].is == term::literal || terms_[0].is == term::fixed; }

  dims extents(location at) const {
    dims out(rank());
    extents_of(expression_view{terms_.data(), count(), slots_.data()}, out.extent, at);
    return out;
  }

  /// Calls f with the stage and the address of the expression, which live as long as the call. A GPU's programs of other combiners
  /// are others.
  template <class F>
  auto with_stage(const F& f, ir::op combiner = ir::op::identity) const {
    formula_head& head = slots_[0].head;
    head = {terms_.data(), count()};
    const char* const name = terms_[0].is == term::operation ? ir::name(terms_[0].code) : "contiguous";
    return f(row_stage{terms_.data(), count(), &fill_formula, name, signature(combiner)}, slots_.data());
  }

  /// The values, as the stage point of an expression gives them.
  handle value(location at) const {
    if (terms_[0].is == term::tensor) {
      const handle& x = slots_[1].x;
      return tracing() && !x.tracer ? of_node(node_of(x, at)) : x;
    }
    return with_stage([&](const row_stage& s, const void* expression) { return untyped_values(s, expression, at); });
  }

  /// `code` of operands, one of which at least is not a number.
  static formula of(ir::op code, std::initializer_list<formula> operands, dtype target = {}) {
    formula out;
    const auto rule = ir::row(code).rule;
    const int first = rule == ir::dtype_rule::selection ? 1 : 0;
    dtype beside = target, in[3];
    for (const formula& x : operands)
      if (&x - operands.begin() >= first && !x.is_number()) beside = x.type();
    std::int8_t rank = 0;
    int k = 0;
    for (const formula& x : operands) {
      in[k] = x.is_number() ? beside : x.type();
      rank = std::max(rank, x.terms_[0].rank);
      ++k;
    }
    out.terms_.push_back({term::operation, code, {}, rank, static_cast<std::int8_t>(k), 0, nullptr});
    const char* const problem = ir::apply(rule, in, k, target, out.terms_[0].type);
    ensure(problem == nullptr, problem ? problem : "");
    k = 0;
    for (const formula& x : operands) out.append(x, in[k++]);
    return out;
  }

 private:
  /// 0 for a number beyond 64 bits, which has no whole part to keep.
  static std::int64_t whole_of(double x) { return x > -0x1p63 && x < 0x1p63 ? static_cast<std::int64_t>(x) : 0; }

  /// A part of the expression: first its head, then a tensor or a number each.
  struct slot {
    formula_head head;
    location where;  ///< of all operations: unknown, so that the stage point's location counts
    handle x;
    trace_handle traced;
    double written = 0;  ///< a number as it was given, and as an integer
    std::int64_t whole = 0;
    int axis = 0;                   ///< of an index
    alignas(8) char value[8] = {};  ///< in the dtype of its term
  };

  formula() : slots_(1) {}
  formula(double value, std::int64_t whole, term::kind is) : slots_(2) {
    slots_[1].written = value;
    slots_[1].whole = whole;
    terms_.push_back({is, {}, dtype::f64, 0, 0, number_place(1), nullptr});
    put_number(slots_[1], dtype::f64);
  }

  int count() const { return static_cast<int>(terms_.size()); }
  static std::uint32_t place(std::size_t i) { return static_cast<std::uint32_t>(i * sizeof(slot)); }
  static std::uint32_t number_place(std::size_t i) {
    return place(i) + static_cast<std::uint32_t>(offsetof(slot, value));
  }

  static void put_number(slot& s, dtype type) {
    visit_dtype(type, [&](auto of) {
      using T = typename decltype(of)::type;
      const T value = is_float(dtype_of<T>) ? static_cast<T>(s.written) : static_cast<T>(s.whole);
      std::memcpy(s.value, &value, sizeof value);
    });
  }
  static void read(const void* operand, operand_facts& out) {
    const slot& s = *static_cast<const slot*>(operand);
    out.memory = &s.x.memory;
    out.data = s.x.data;
    out.extents = s.x.extents.extent;
    out.strides = s.x.strides.extent;
    out.traced = &s.traced;
    out.axis = s.axis;
  }

  void append(const formula& x, dtype as) {
    const std::size_t before = slots_.size() - 1;
    slots_.insert(slots_.end(), x.slots_.begin() + 1, x.slots_.end());
    for (term t : x.terms_) {
      if (t.is == term::operation) t.offset = static_cast<std::uint32_t>(offsetof(slot, where));
      else t.offset += place(before);
      if (x.is_number()) {
        t.type = as;
        put_number(slots_.back(), as);
      }
      terms_.push_back(t);
    }
    terms_[0].offset = static_cast<std::uint32_t>(offsetof(slot, where));
  }

  /// An address for each structure: the key of a GPU's programs.
  const void* signature(ir::op combiner) const {
    static std::mutex mutex;
    static auto& all = *new std::map<std::string, char>;
    std::string key(1, static_cast<char>(combiner));
    for (const term& t : terms_)
      for (const int part : {int(t.is), int(t.code), int(t.type), int(t.rank)}) key += static_cast<char>(part);
    const std::lock_guard lock(mutex);
    return &all[key];
  }

  std::vector<term> terms_;
  mutable std::vector<slot> slots_;
};

inline formula operator+(const formula& a, const formula& b) { return formula::of(ir::op::add, {a, b}); }
inline formula operator-(const formula& a, const formula& b) { return formula::of(ir::op::sub, {a, b}); }
inline formula operator*(const formula& a, const formula& b) { return formula::of(ir::op::mul, {a, b}); }
inline formula operator/(const formula& a, const formula& b) { return formula::of(ir::op::div, {a, b}); }
inline formula apply(ir::op code, const formula& a) { return formula::of(code, {a}); }
inline formula apply(ir::op code, const formula& a, const formula& b) { return formula::of(code, {a, b}); }
inline formula select(const formula& condition, const formula& a, const formula& b) {
  return formula::of(ir::op::select, {condition, a, b});
}
inline formula cast_to(dtype type, const formula& x) { return formula::of(ir::op::cast, {x}, type); }

/// Statistics of narrow floats are computed in f32 and rounded once.
inline formula widened(const formula& x) { return is_narrow(x.type()) ? cast_to(dtype::f32, x) : x; }
inline handle narrowed(dtype type, const formula& x, location at) {
  return is_narrow(type) ? cast_to(type, x).value(at) : x.value(at);
}

/// The reduction of an eager formula, with the axes dropped.
template <ir::op C, class T>
handle eager_total(const formula& x, const op_shapes::axis_list& axes, location at) {
  handle h;
  h.type = dtype_of<T>;
  h.extents = h.strides = dims(x.rank() - axes.count);
  trace_handle none;
  const tensor_parts parts{&h.memory, h.extents.extent, h.strides.extent, &none};
  x.with_stage(
      [&](const row_stage& s, const void* expression) {
        h.data = static_cast<std::byte*>(
            reduced_stage<C, T, reduction_set<T>>(s, expression, s.signature, axes.at, axes.count, parts, at));
        return 0;
      },
      C);
  return h;
}

/// x combined over ascending axes, which stay with extent 1 if `keep`; like `reduce`. `name` is for errors.
inline handle total(ir::op combiner, const formula& x, const op_shapes::axis_list& axes, bool keep, const char* name,
                    location at) {
  if (axes.count == 0) return x.value(at);
  const dims extents = x.extents(at);
  const bool extreme = combiner == ir::op::maximum;
  if (extreme) check_some(name, extents, axes.at, axes.count, at);
  handle result;
  if (tracing()) {
    const ir::node_id node = node_of(x.value(at), at);
    result = of_node(push_reduce(combiner, node, axes.at, axes.count, at));
  } else if (x.type() == dtype::f32) {
    result = extreme ? eager_total<ir::op::maximum, float>(x, axes, at) : eager_total<ir::op::add, float>(x, axes, at);
  } else {
    ensure(x.type() == dtype::f64, "a formula's totals are of f32 or f64");
    result =
        extreme ? eager_total<ir::op::maximum, double>(x, axes, at) : eager_total<ir::op::add, double>(x, axes, at);
  }
  return keep ? views::reshape(result, op_shapes::reduce(extents, axes, true).shape, at) : result;
}

}  // namespace sinter::detail
