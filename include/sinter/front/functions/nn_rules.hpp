// front/functions/nn_rules.hpp: softmax, norms and losses of rows, on operands without a static type; compiled once.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "../../ir/attention_site.hpp"
#include "../evaluate/formula.hpp"
#include "../evaluate/handle_rules.hpp"
#include "autocast.hpp"
#include "indexing.hpp"
#include "nn_rows.hpp"

namespace sinter::detail {

inline handle handle_of(const lazy_operand& x, location at) {
  if (x.stage->fill) return untyped_values(*x.stage, x.expression, at);
  return untyped_tensor({x.stage->terms, x.stage->count, x.expression}, at);
}

/// The last axis.
inline op_shapes::axis_list last_of(int rank) { return op_shapes::normalize({-1}, rank); }

/// x without its last axis, whose extent is 1.
inline handle without_last(const handle& x, location at) {
  return views::reshape(x, op_shapes::part(x.extents, 0, x.extents.rank - 1), at);
}

/// A size as a rank-0 tensor.
inline formula size_of_dtype(dim n, dtype type, location at) {
  if (type == dtype::f64) return untyped(size_value<double>(n, at), at);
  if (type == dtype::f32) return untyped(size_value<float>(n, at), at);
  if (type == dtype::i64) return untyped(size_value<std::int64_t>(n, at), at);
  return untyped(size_value<std::int32_t>(n, at), at);
}

/// x / n, in f64.
inline formula shared_by(const formula& x, dim n, location at) {
  if (n.is_symbolic()) return (x / size_of_dtype(n, x.type(), at)).value(at);
  return (x * formula_number{1 / static_cast<double>(n.bits)}).value(at);
}
/// x / n.
inline formula divided_by(const formula& x, dim n, location at) {
  if (n.is_symbolic()) return (x / size_of_dtype(n, x.type(), at)).value(at);
  return (x / formula_number{static_cast<double>(n.bits)}).value(at);
}

/// x - max along the axis. The maximum has no derivative, since it cancels.
inline formula shifted_rows(const formula& x, const op_shapes::axis_list& axes, const char* op, location at) {
  const formula top = apply(ir::op::stop_gradient, total(ir::op::maximum, x, axes, true, op, at)).value(at);
  return x - top;
}

/// The mean over the last axis of n elements, whose sum may be beyond the dtype: they are multiplied by a power of two below 1 / n, which
/// changes no bit of a mean that is not subnormal.
inline formula mean_of_rows(const formula& y, dim n, location at) {
  const auto mean = [&](const formula& power, const formula& share) -> formula {
    return (formula(total(ir::op::add, y * power, last_of(y.rank()), true, "sum", at)) / share).value(at);
  };
  if (n.is_symbolic()) {
    const bool wide = y.type() == dtype::f64;
    const dtype bits = wide ? dtype::u64 : dtype::u32;
    const formula_number exponent{wide ? 0x7ff0000000000000p0 : 0x7f800000p0};
    const formula size = size_of_dtype(n, y.type(), at);
    const formula masked = apply(ir::op::bit_and, formula::of(ir::op::bit_cast, {size}, bits), exponent);
    const formula power = (0.5 / formula::of(ir::op::bit_cast, {masked}, y.type())).value(at);
    return mean(power, (size * power).value(at));
  }
  const auto count = static_cast<std::uint64_t>(n.bits);
  const double power = std::ldexp(1.0, -static_cast<int>(std::bit_width(count)));
  return mean(formula_number{power}, formula_number{power * static_cast<double>(count)});
}

SINTER_API handle total_squares(const handle& y, const op_shapes::axis_list& axes, bool keep, location at) {
  if (axes.count == 0 || !(tracing() || on_gpu("norm", {&y}, at))) {
    const formula x = cast_to(dtype::f64, y);
    return total(ir::op::add, x * x, axes, keep, "sum", at);
  }
  const handle h = formula(y).value(at);
  const handle s = sum_squares(h, {axes.at, static_cast<std::size_t>(axes.count)}, at);
  return keep ? views::reshape(s, op_shapes::reduce(h.extents, axes, true).shape, at) : s;
}
inline formula squares_of_rows(const formula& y, location at) {
  return total_squares(y.value(at), last_of(y.rank()), true, at);
}

/// 1 / sqrt(v + eps) of an f64; eps is rounded to `type`.
inline formula inverse_root_of(dtype type, const formula& v, double eps, location at) {
  const double own = type == dtype::f64 ? eps : static_cast<double>(static_cast<float>(eps));
  return cast_to(type, apply(ir::op::rsqrt, v + own)).value(at);
}

/// (x - mean) / sqrt(variance + eps) over the last axis, in f32 or f64.
inline formula standard_rows(const formula& y, double eps, location at) {
  const dim n = y.extents(at)[y.rank() - 1];
  const formula about = apply(ir::op::stop_gradient, mean_of_rows(y, n, at)).value(at);
  const formula off = (y - about).value(at);
  const formula rest = mean_of_rows(off, n, at);
  const formula squares = squares_of_rows(off, at);
  const formula mean = cast_to(dtype::f64, rest);
  const formula left = (shared_by(squares, n, at) - mean * mean).value(at);
  // A selection has a derivative at 0 too: that of the operand it takes.
  const formula v = select(apply(ir::op::lt, left, 0), 0, left).value(at);
  if (y.type() != dtype::f64) return (off - rest) * inverse_root_of(y.type(), v, eps, at);
  // Squares that are infinite leave 0.
  return (off - rest) * inverse_root_of(y.type(), select(apply(ir::op::isinf, squares), squares, v), eps, at);
}

/// y / sqrt(mean(y²) + eps) over the last axis.
inline formula unit_rows(const formula& y, double eps, location at) {
  const formula v = shared_by(squares_of_rows(y, at), y.extents(at)[y.rank() - 1], at);
  return y * inverse_root_of(y.type(), v, eps, at);
}

/// f() as nodes, as one program of a GPU, or on the host.
template <class F>
handle composed(const char* op, std::span<const handle* const> operands, std::span<const std::int64_t> facts,
                const F& f, location at) {
  return !tracing() && on_gpu(op, operands, at) ? launch(op, operands, facts, f, at) : f();
}
inline std::int64_t fact(double x) { return std::bit_cast<std::int64_t>(x); }

/// The data of an operand for the engine's functions of rows. The operand outlives the reader.
struct source_reader {
  dims extents;
  local_list<engine::operand, 8> operands;
  operand_list list{operands.data()};
  engine::row_source source;

  source_reader(const row_stage& stage, const void* expression, location at)
      : extents(int{stage.terms->rank}), operands(static_cast<std::size_t>(stage.count)) {
    collect({stage.terms, stage.count, expression}, list, at, extents.extent);
    source.operands = {operands.data(), static_cast<std::size_t>(list.count)};
    source.type = stage.terms->type;
    source.rank = extents.rank;
    source.extents = as_numbers(extents.extent);
    if (stage.fill && stage.terms->is != term::tensor) {
      source.expression = expression;
      source.fill = stage.fill;
    }
  }
  source_reader(const source_reader&) = delete;
};

/// Calls f with the stage and the expression of x, in f32 if its dtype is narrow.
template <class F>
auto with_wide(const lazy_operand& x, location at, const F& f) {
  if (is_narrow(x.stage->terms->type)) return cast_to(dtype::f32, handle_of(x, at)).with_stage(f);
  return f(*x.stage, x.expression);
}

/// The engine's f of the rows of x on the host. A handle without memory where the engine has no such function.
inline handle mapped_rows(const row_call& c, engine::row_map f, const lazy_operand& x, std::span<const handle> scales) {
  return with_wide(x, c.at, [&](const row_stage& stage, const void* expression) {
    const source_reader r(stage, expression, c.at);
    bool here = !r.list.on_gpu && std::find(r.extents.begin(), r.extents.end(), dim(0)) == r.extents.end();
    std::vector<engine::operand> operands;
    operands.reserve(scales.size());
    engine::row_source by[2];
    for (std::size_t i = 0; i < scales.size(); ++i) {
      here = here && scales[i].type == r.source.type && scales[i].extents.rank <= r.extents.rank &&
             !scales[i].memory.where().is_cuda();
      operands.push_back(operand_of(scales[i]));
      by[i].operands = {&operands.back(), 1};
      by[i].type = scales[i].type;
      by[i].rank = scales[i].extents.rank;
      by[i].extents = as_numbers(scales[i].extents.extent);
      here = here && broadcasts_to(by[i], r.source);
    }
    if (!here) return handle();
    handle out = allocate(c.op, r.source.type, r.extents, c.at);
    engine::map_rows(f, r.source, c.axis, c.eps, {by, scales.size()}, out.data);
    return out;
  });
}

SINTER_API handle normalised_rows(const row_call& c, engine::row_map f, const lazy_operand& x,
                                  std::span<const handle> scales) {
  std::vector<handle> by;
  const auto on_host = [](const handle& s) { return !s.memory.where().is_cuda(); };
  if (!tracing() && std::all_of(scales.begin(), scales.end(), on_host)) {
    for (const handle& s : scales) by.push_back(widened(s).value(c.at));
    if (const handle y = mapped_rows(c, f, x, by); y.memory) return narrowed(c.type, y, c.at);
  }
  const handle own = handle_of(x, c.at);
  std::vector<const handle*> all{&own};
  for (const handle& s : scales) all.push_back(&s);
  const std::int64_t facts[] = {static_cast<std::int64_t>(f), static_cast<std::int64_t>(c.type), fact(c.eps)};
  return composed(
      c.op, all, facts,
      [&] {
        const formula y = widened(own).value(c.at);
        formula rows = f == engine::row_map::layer_norm ? standard_rows(y, c.eps, c.at) : unit_rows(y, c.eps, c.at);
        if (scales.size() > 0) rows = rows * widened(scales[0]);
        if (scales.size() > 1) rows = rows + widened(scales[1]);
        return narrowed(c.type, rows, c.at);
      },
      c.at);
}

/// softmax or its logarithm as operations.
inline formula soft_rows(bool logarithm, const formula& y, int axis, location at) {
  const char* const op = logarithm ? "log_softmax" : "softmax";
  const op_shapes::axis_list axes = op_shapes::normalize({axis}, y.rank());
  if (y.extents(at)[axis] == 0) return y;
  if (logarithm) {
    const formula z = shifted_rows(y, axes, op, at);
    return z - apply(ir::op::log, total(ir::op::add, apply(ir::op::exp, z), axes, true, "sum", at));
  }
  const formula e = apply(ir::op::exp, shifted_rows(y, axes, op, at)).value(at);
  const formula part = (1 / formula(total(ir::op::add, e, axes, true, "sum", at))).value(at);
  return e * part;
}

SINTER_API handle softmax_rows(const row_call& c, engine::row_map f, const lazy_operand& x) {
  if (!tracing())
    if (const handle y = mapped_rows(c, f, x, {}); y.memory) return narrowed(c.type, y, c.at);
  const handle own = handle_of(x, c.at);
  const handle* const operands[] = {&own};
  const std::int64_t facts[] = {static_cast<std::int64_t>(f), static_cast<std::int64_t>(c.type), c.axis};
  return composed(
      c.op, operands, facts,
      [&] {
        const formula y = widened(own).value(c.at);
        return narrowed(c.type, soft_rows(f == engine::row_map::log_softmax, y, c.axis, c.at), c.at);
      },
      c.at);
}

SINTER_API handle softmax_of_seen(const handle& s, const handle* mask, location at) {
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  std::vector<const handle*> operands{&s};
  if (mask) operands.push_back(mask);
  return composed(
      "attention", operands, {},
      [&] {
        const op_shapes::axis_list last = last_of(s.extents.rank);
        const formula seen = mask ? select(*mask, s, lowest).value(at) : s;
        const formula top =
            apply(ir::op::stop_gradient, total(ir::op::maximum, seen, last, true, "attention", at)).value(at);
        const formula e = apply(ir::op::exp, seen - select(apply(ir::op::eq, top, lowest), 0.0, top)).value(at);
        const formula sum = total(ir::op::add, e, last, true, "sum", at);
        const formula part = (1 / select(apply(ir::op::eq, sum, 0.0), 1.0, sum)).value(at);
        return (e * part).value(at);
      },
      at);
}

SINTER_API handle traced_attention(const attention_call& c) {
  const int r = c.q->extents.rank;
  const bool groups = r > 2 && !(c.q->extents[r - 3] == c.k->extents[r - 3]);
  if (groups && r == max_rank) return {};
  const bool lowered = c.q->type == dtype::f32 && product_dtype != dtype::f32;
  const auto operand = [&](const handle& x) { return node_of(lowered ? push_cast(x, product_dtype, c.at) : x, c.at); };
  dims to = c.q->extents;
  if (groups) {
    to = op_shapes::part(c.k->extents, 0, r - 2);
    to.push(c.q->extents[r - 3] / c.k->extents[r - 3]);
    to.push(c.q->extents[r - 2]);
    to.push(c.q->extents[r - 1]);
  }
  ir::attention_site site;
  site.q = operand(groups ? views::reshape(*c.q, to, c.at) : *c.q);
  site.k = operand(*c.k);
  site.v = operand(*c.v);
  site.products = node_of(*c.products, c.at);
  site.score = node_of(views::broadcast(*c.score, c.products->extents, c.at), c.at);
  if (c.allowed) site.allowed = node_of(views::broadcast(*c.allowed, c.products->extents, c.at), c.at);
  site.batch = static_cast<std::size_t>(r - 2);
  site.groups = groups;
  site.guarded = c.guarded;
  const ir::value made = ir::push_attention(engine::current()->graph, site, c.at);
  if (!made) return {};
  handle out = of_node(made.id());
  if (lowered) out = push_cast(out, dtype::f32, c.at);
  to = c.q->extents;
  to[r - 1] = c.v->extents[r - 1];
  return groups ? views::reshape(out, to, c.at) : out;
}

/// The element of z at each label, along z's last axis. In kernels it is a sum over a mask: with its derivative, the sum fuses
/// into the loops over the row, and a gather's derivative would be a scatter. `later`: labels are checked after the run.
inline handle at_labels(const formula& z, const handle& labels, const char* op, bool later, location at) {
  const int rank = z.rank();
  const dim count = z.extents(at)[rank - 1];
  dims column = labels.extents;
  column.push(1);
  if (!tracing()) {
    checked_indices(op, labels, count, at);
    const handle index = views::reshape(labels, column, at);
    return without_last(gather_elements(z.value(at), index, rank - 1, at.in("take_along_axis")), at);
  }
  if (later) check_later(op, labels, count, at);
  const formula chosen =
      apply(ir::op::eq, views::reshape(labels, column, at), formula::index(labels.type, dims{count}, 0));
  return total(ir::op::add, select(chosen, z, 0), last_of(rank), false, "sum", at);
}

/// losses_of_classes as operations.
class class_losses {
 public:
  class_losses(const class_loss& c, const handle& given, const handle* weights, bool later, location at)
      : c_(c), labels_(formula(given).value(at)), weights_(weights), later_(later), at_(at) {}

  handle of(const lazy_operand& given, const dims& logits) {
    rows_ = op_shapes::all_axes(logits.rank - 1);
    const dim classes = logits[logits.rank - 1];
    const formula last = size_of_dtype(classes, labels_.type, at_);
    const formula known = apply(ir::op::bit_and, apply(ir::op::ge, labels_, 0), apply(ir::op::lt, labels_, last));
    counts_ = apply(ir::op::bit_and, known, apply(ir::op::ne, labels_, c_.ignore)).value(at_);
    const handle y = rows_of(given);
    const handle safe = select(apply(ir::op::eq, labels_, c_.ignore), 0, labels_).value(at_);
    const handle picked = at_labels(y, safe, c_.op, later_, at_);
    const formula own = select(counts_, apply(ir::op::neg, picked), 0);
    weight_ = row_weights(y.type, safe);
    if (c_.smoothing == 0) return reduced(own * weight_);
    const formula all = total(ir::op::add, weights_ ? formula(y) * widened(*weights_) : formula(y),
                              last_of(logits.rank), false, "sum", at_);
    const formula each = select(counts_, divided_by(all, classes, at_) * -c_.smoothing, 0);
    return reduced(own * weight_ * (1 - c_.smoothing) + each);
  }

 private:
  /// Log-probabilities, 0 in rows that do not count.
  handle rows_of(const lazy_operand& given) const {
    const formula x = widened(handle_of(given, at_));
    if (!c_.logits && c_.smoothing == 0) return x.value(at_);
    dims column = counts_.extents;
    column.push(1);
    const formula counted = select(views::reshape(counts_, column, at_), x, 0);
    if (!c_.logits) return counted.value(at_);
    const row_call call{"log_softmax", x.type(), x.rank() - 1, 0, at_};
    return counted.with_stage([&](const row_stage& s, const void* expression) {
      return softmax_rows(call, engine::row_map::log_softmax, {&s, expression});
    });
  }
  /// Each row's weight: the weight of its class, and 0 for a row that does not count.
  handle row_weights(dtype type, const handle& safe) const {
    if (!weights_) return cast_to(type, counts_).value(at_);
    const location at = at_.in("take");
    const handle all = widened(*weights_).value(at_);
    check_readable("take", all.extents, 0, safe.extents, at);
    return select(counts_, take_at(all, safe, 0, safe.extents, at), 0).value(at_);
  }
  handle reduced(const formula& lazy) const {
    const handle losses = lazy.value(at_);
    if (c_.how == row_losses::each) return losses;
    const handle sum = total(ir::op::add, losses, rows_, false, "sum", at_);
    if (c_.how == row_losses::sum) return sum;
    return (formula(sum) / total(ir::op::add, weight_, rows_, false, "sum", at_)).value(at_);
  }

  const class_loss& c_;
  const handle labels_;
  const handle* weights_;
  const bool later_;
  const location at_;
  handle counts_, weight_;
  op_shapes::axis_list rows_;
};

SINTER_API handle losses_of_classes(const class_loss& c, const lazy_operand& x, const handle& labels,
                                    const handle* weights, location at) {
  dims logits(int{x.stage->terms->rank});
  extents_of({x.stage->terms, x.stage->count, x.expression}, logits.extent, at);
  const bool later = tracing();
  const auto narrow = [&](const handle& losses) { return narrowed(c.type, losses, at); };
  if (labels.type == dtype::i32) check_number<std::int32_t>("ne", c.ignore, "cast the tensor with cast<T>(x)", at);
  if (tracing() || !on_gpu(c.op, {&labels}, at))
    return narrow(class_losses(c, labels, weights, later, at).of(x, logits));
  const handle own = handle_of(x, at);
  std::vector<const handle*> operands{&own, &labels};
  if (weights) operands.push_back(weights);
  on_gpu(c.op, operands, at);  // all on one device
  const std::int64_t facts[] = {c.logits, static_cast<std::int64_t>(c.type), static_cast<std::int64_t>(c.how),
                                fact(c.smoothing), c.ignore};
  return launch(
      c.op, operands, facts,
      [&] {
        return formula(own).with_stage([&](const row_stage& s, const void* expression) {
          return narrow(class_losses(c, labels, weights, later, at).of({&s, expression}, logits));
        });
      },
      at);
}

/// -log(softmax(x))[label] of each row in f64, without storing more. A handle without memory for rows without elements.
inline handle row_losses_on_host(const lazy_operand& x, const handle& labels, location at) {
  return with_wide(x, at, [&](const row_stage& stage, const void* expression) {
    const source_reader r(stage, expression, at);
    const dim classes = r.extents[r.extents.rank - 1];
    if (r.list.on_gpu || classes == dim(0)) return handle();
    const auto chosen = checked_indices("cross_entropy", labels, classes, at);
    handle loss = allocate("cross_entropy", dtype::f64, op_shapes::part(r.extents, 0, r.extents.rank - 1), at);
    engine::row_losses(r.source, chosen, reinterpret_cast<double*>(loss.data));
    return loss;
  });
}

/// The mean of all elements.
inline handle mean_of_all(const formula& x, location at) {
  const dim n = x.extents(at).numel();
  return divided_by(total(ir::op::add, x, op_shapes::all_axes(x.rank()), false, "sum", at), n, at).value(at);
}

SINTER_API handle cross_entropy_of_rows(dtype type, const lazy_operand& x, const handle& labels, location at) {
  if (!tracing())
    if (const handle losses = row_losses_on_host(x, labels, at); losses.memory)
      return cast_to(type, mean_of_all(losses, at)).value(at);
  const bool later = tracing();
  const handle own = handle_of(x, at);
  const handle* const operands[] = {&own, &labels};
  const std::int64_t facts[] = {static_cast<std::int64_t>(type)};
  return composed(
      "cross_entropy", operands, facts,
      [&] {
        const formula y = widened(own).value(at);
        const op_shapes::axis_list last = last_of(y.rank());
        const formula z = shifted_rows(y, last, "cross_entropy", at);
        const formula all = apply(ir::op::log, total(ir::op::add, apply(ir::op::exp, z), last, false, "sum", at));
        const formula picked = at_labels(z, labels, "cross_entropy", later, at);
        return narrowed(type, mean_of_all(all - picked, at), at);
      },
      at);
}

}  // namespace sinter::detail
