// plan/kernel/contraction.hpp: a matrix product in a kernel, as a `product` or as a sum of products.
#pragma once

#include <optional>

#include "body.hpp"

namespace sinter::engine::plan {

/// A sum over `k` of x(batch, m, k) · y(batch, k, n). Axes are the kernel's; the k axes of a `product` are numbered behind them.
struct contraction {
  int reduce = -1;     ///< the instruction whose value it is
  int x = -1, y = -1;  ///< the factors; -1 in a `product`, whose operands are memory
  access a, b;         ///< where the factors lie, if they are loads, or casts of loads to a wider type
  series<int> batch, m, n, k;
};

/// The extent of an axis of a contraction.
inline const dim& extent_of(const kernel& c, int axis) {
  const auto a = static_cast<std::size_t>(axis);
  return a < c.axes.size() ? c.axes[a].extent : c.products[0].k[a - c.axes.size()];
}

/// The instruction before any casts from other floating types.
inline int uncast(const kernel& c, int id) {
  const auto is_float_cast = [](const instruction& i) {
    return i.kind == kind::compute && ir::row(i.code).rule == ir::dtype_rule::conversion && is_float(i.type);
  };
  while (is_float_cast(c.body[static_cast<std::size_t>(id)])) id = c.body[static_cast<std::size_t>(id)].args[0];
  return id;
}

/// The value before casts to wider types: a matrix unit takes it as it is.
inline int unwidened(const kernel& c, int id) {
  for (;;) {
    const auto& i = c.body[static_cast<std::size_t>(id)];
    if (i.kind != kind::compute || ir::row(i.code).rule != ir::dtype_rule::conversion) return id;
    const dtype from = c.body[static_cast<std::size_t>(i.args[0])].type;
    if (is_float(from) != is_float(i.type) || is_bool(from) || size_of(from) >= size_of(i.type)) return id;
    id = i.args[0];
  }
}

namespace detail {

inline contraction contraction_of_product(const kernel& c, int id) {
  const product& p = c.products[0];
  contraction out{id, -1, -1, p.a, p.b, {}, {}, {}, {}};
  const int axes = static_cast<int>(c.axes.size());
  for (int a = 0; a < axes; ++a) (a < p.batch ? out.batch : a < p.batch + p.m ? out.m : out.n).push_back(a);
  for (int j = 0; j < static_cast<int>(p.k.size()); ++j) out.k.push_back(axes + j);
  return out;
}

/// Where a factor lies: a load without a guard, whose rounding to a narrower type is not between.
inline access place_of_factor(const kernel& c, int id) {
  const auto& load = c.body[static_cast<std::size_t>(uncast(c, id))];
  const bool widened = size_of(c.body[static_cast<std::size_t>(id)].type) >= size_of(load.type);
  return load.kind == kind::load && !is_guarded(load) && widened ? load.at : access{};
}

}  // namespace detail

/// The contraction that instruction `id` is: a product, or a sum of products whose factors both vary along all summed axes.
inline std::optional<contraction> contraction_of(const kernel& c, int id) {
  const auto& sum = c.body[static_cast<std::size_t>(id)];
  if (sum.kind == kind::product) return detail::contraction_of_product(c, id);
  if (sum.kind != kind::reduce || sum.rule != merge_rule::one || sum.code != ir::op::add || sum.squares)
    return std::nullopt;
  const auto& terms = c.body[static_cast<std::size_t>(sum.args[0])];
  if (terms.kind != kind::compute || terms.code != ir::op::mul) return std::nullopt;
  contraction out{id, terms.args[0], terms.args[1], {}, {}, {}, {}, {}, sum.over};
  const std::uint32_t x = c.body[static_cast<std::size_t>(out.x)].axes,
                      y = c.body[static_cast<std::size_t>(out.y)].axes;
  for (int a : sum.over)
    if (!(x >> a & y >> a & 1u)) return std::nullopt;
  for (int a = 0; a < static_cast<int>(c.axes.size()); ++a) {
    if (std::count(sum.over.begin(), sum.over.end(), a)) continue;
    const bool in_x = x >> a & 1u, in_y = y >> a & 1u;
    if (in_x || in_y) (in_x && in_y ? out.batch : in_x ? out.m : out.n).push_back(a);
  }
  out.a = detail::place_of_factor(c, out.x);
  out.b = detail::place_of_factor(c, out.y);
  return out;
}

/// The contraction that number `part` of a weighted reduction is: a sum of weights, which vary as args[0] does, times args[part].
/// Nothing if that number varies along no further axis, as the sum of the weights.
inline std::optional<contraction> contraction_of_part(const kernel& c, int id, std::size_t part) {
  const auto& sum = c.body[static_cast<std::size_t>(id)];
  if (sum.kind != kind::reduce || sum.rule != merge_rule::weighted || part == 0 || part >= sum.args.size())
    return std::nullopt;
  contraction out{id, sum.args[0], sum.args[part], {}, {}, {}, {}, {}, sum.over};
  const std::uint32_t x = c.body[static_cast<std::size_t>(out.x)].axes,
                      y = c.body[static_cast<std::size_t>(out.y)].axes;
  for (int a : sum.over)
    if (!(x >> a & y >> a & 1u)) return std::nullopt;
  for (int a = 0; a < static_cast<int>(c.axes.size()); ++a) {
    if (std::count(sum.over.begin(), sum.over.end(), a)) continue;
    const bool in_x = x >> a & 1u, in_y = y >> a & 1u;
    if (in_x || in_y) (in_x && in_y ? out.batch : in_x ? out.m : out.n).push_back(a);
  }
  if (out.m.empty() || out.n.empty()) return std::nullopt;
  return out;
}

/// The contraction of a kernel with one `product`.
inline std::optional<contraction> product_of(const kernel& c) {
  if (!c.is_product()) return std::nullopt;
  for (std::size_t i = 0; i < c.body.size(); ++i)
    if (c.body[i].kind == kind::product) return contraction_of(c, static_cast<int>(i));
  return std::nullopt;
}

namespace detail {

/// A factor of a product as a value of `type`.
inline int loaded_factor(kernel& k, const access& at, dtype type) {
  instruction i;
  i.kind = kind::load;
  i.type = k.buffers[static_cast<std::size_t>(at.buffer)].type;
  i.at = at;
  i.axes = axes_of(k, at.at);
  const bool same = i.type == type;
  const int load = add(k, std::move(i));
  return same ? load : converted(k, load, type);
}

}  // namespace detail

/// A kernel of one `product` with that product as a sum over further axes, added in f32 if its type is narrower. Other kernels
/// are returned as they are.
inline kernel as_reduction(const kernel& c) {
  if (!c.is_product()) return c;
  kernel k = c;
  const product p = c.products[0];
  k.products.clear();
  const std::size_t rank = c.axes.size() + p.k.size();
  for (const dim& e : p.k) k.axes.push_back({e, role::inner});
  const auto widen = [&](affine& at) { at.stride.resize(at.stride.empty() ? 0 : rank); };
  for (auto& i : k.body) {
    widen(i.at.at);
    for (auto& r : i.ranges) widen(r.at);
  }
  for (auto& s : k.stores) widen(s.at.at);
  series<instruction> body = std::move(k.body);
  k.body.clear();
  series<int> moved(body.size(), -1);
  const std::uint32_t kept = (1u << c.axes.size()) - 1;
  for (std::size_t b = 0; b < body.size(); ++b) {
    instruction i = std::move(body[b]);
    for (int& a : i.args) a = moved[static_cast<std::size_t>(a)];
    if (i.at.at.index >= 0) i.at.at.index = moved[static_cast<std::size_t>(i.at.at.index)];
    i.axes &= kept;
    if (i.kind == kind::product) {
      const dtype sum = is_narrow(p.type) ? dtype::f32 : p.type;
      const int x = detail::loaded_factor(k, p.a, sum), y = detail::loaded_factor(k, p.b, sum);
      i.kind = kind::reduce;
      i.code = ir::op::add;
      i.type = sum;
      i.args = {compute(k, ir::op::mul, sum, {x, y})};
      for (std::size_t j = c.axes.size(); j < rank; ++j) i.over.push_back(static_cast<int>(j));
      const int total = add(k, std::move(i));
      moved[b] = sum == p.type ? total : converted(k, total, p.type);
      continue;
    }
    moved[b] = add(k, std::move(i));
  }
  for (auto& s : k.stores) {
    s.value = moved[static_cast<std::size_t>(s.value)];
    if (s.at.at.index >= 0) s.at.at.index = moved[static_cast<std::size_t>(s.at.at.index)];
  }
  return k;
}

}  // namespace sinter::engine::plan
