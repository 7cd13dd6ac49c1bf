// ir/ops/dot.hpp: dot (a, b): ints = {nb, nk}: a is (B…, M…, K…), b is (B…, K…, N…), the result (B…, M…, N…), nb = |B|, nk = |K|. f16
// and bf16 accumulate in f32.
#pragma once

#include "derivatives.hpp"
#include "elements.hpp"

namespace sinter::ir::ops {

struct dot_op {
  static void infer(inference& f) {
    f.expect(2, 2, 0);
    f.numbers(f.n.type);
    if (f.operand(1).type != f.n.type)
      f.refuse({"a is ", f.n.type, ", b is ", f.operand(1).type, "; cast one with cast<T>(x)"});
    const auto nb = f.n.attr.ints[0], nk = f.n.attr.ints[1];
    const auto ra = static_cast<std::int64_t>(f.rank(0)), rb = static_cast<std::int64_t>(f.rank(1));
    if (nb < 0 || nk < 0 || nb > ra || nk > ra || nb + nk > ra || nb + nk > rb) f.malformed();
    const auto &a = f.extents(0), &b = f.extents(1);
    const auto inner = a.end() - nk;
    if (!std::equal(a.begin(), a.begin() + nb, b.begin()))
      f.refuse({"batch extents differ: a is ", a, ", b is ", b, "; broadcast_to gives them one batch"});
    if (!std::equal(inner, a.end(), b.begin() + nb))
      f.refuse({"inner extents differ: a is ", a, ", b is ", b, "; transpose one of them"});
    f.n.extents.assign(a.begin(), inner);
    f.n.extents.insert(f.n.extents.end(), b.begin() + nb + nk, b.end());
  }
  static std::string text(const node& n) {
    return " batch=" + std::to_string(n.attr.ints.at(0)) + " inner=" + std::to_string(n.attr.ints.at(1));
  }
  static void read(words& w, node& n) {
    const std::int64_t batch = w.integer("batch"), inner = w.integer("inner");
    n.attr.ints = {batch, inner};
  }
  static void reference(const evaluation& e, literal_array& out) {
    const literal_array &a = *e.in[0], &b = *e.in[1];
    const auto nb = e.n.attr.ints[0], nk = e.n.attr.ints[1];
    const auto count = [](const extents_t& x, std::int64_t from, std::int64_t to) {
      return detail::count_of(extents_t(x.begin() + from, x.begin() + to));
    };
    const auto ra = static_cast<std::int64_t>(a.extents.size()), rb = static_cast<std::int64_t>(b.extents.size());
    const std::int64_t batch = count(a.extents, 0, nb), rows = count(a.extents, nb, ra - nk),
                       inner = count(a.extents, ra - nk, ra), columns = count(b.extents, nb + nk, rb);
    fill(out, {});
    detail::with_elements(out, [&](auto* to) {
      using T = std::remove_pointer_t<decltype(to)>;
      const auto *x = detail::column<T>(a), *y = detail::column<T>(b);
      for (std::int64_t r = 0; r < batch * rows; ++r)
        for (std::int64_t k = 0; k < inner; ++k) {
          const T left = x[r * inner + k];
          const auto* right = y + (r / rows * inner + k) * columns;
          for (std::int64_t c = 0; c < columns; ++c) {
            T& slot = to[r * columns + c];
            slot = vocabulary::apply_row<op::add, T>(slot, vocabulary::apply_row<op::mul, T>(left, right[c]));
          }
        }
    });
  }
  /// If both operands have lanes, they are a batch axis; lanes of one operand become more rows or columns of one product.
  static value batch(const lane_site& s) {
    const auto nb = s.n.attr.ints[0], nk = s.n.attr.ints[1];
    const value &a = s.in(0), &b = s.in(1);
    if (s.varies(0) && s.varies(1)) return dot(a, b, nb + 1, nk);
    if (s.varies(0)) return lanes_moved_from(dot(lanes_moved_to(a, nb), b, nb, nk), nb);
    const std::int64_t ra = s.rank(0), rb = s.rank(1), rows = ra - nb - nk;
    if (rows > 0 && rb > nb + nk) return lanes_moved_from(dot(a, lanes_moved_to(b, nb + nk), nb, nk), nb + rows);
    // A matrix times vectors: swapped, so that the lanes come first.
    const value left = turned(lanes_moved_to(b, nb), nb + 1, nk), right = turned(a, nb, rows);
    return lanes_moved_from(dot(left, right, nb, nk), nb);
  }
  /// x with `count` axes from `first` on moved to the end.
  static value turned(const value& x, std::int64_t first, std::int64_t count) {
    if (count == 0 || first + count == x.rank()) return x;
    return permute(x, moved_axes(x.rank(), first, first + count, x.rank()));
  }
  static value jvp(const site& s, const tangents& t) {
    const auto& ints = s.n().attr.ints;
    const value left = t[0] ? dot(t[0], s.in(1), ints[0], ints[1]) : value();
    if (!t[1]) return left;
    const value right = dot(s.in(0), t[1], ints[0], ints[1]);
    return left ? left + right : right;
  }
  /// With a (B, M, K), b (B, K, N) and ct (B, M, N): ct·bᵀ over N for a, aᵀ·ct over M for b.
  static value vjp(const site& s, std::size_t k, const value& ct) {
    const auto nb = static_cast<std::size_t>(s.n().attr.ints[0]), nk = static_cast<std::size_t>(s.n().attr.ints[1]);
    const value other = s.in(1 - k);
    const auto rank = static_cast<std::size_t>(other.rank());
    // The axes of `other` after the batch, with the axes contracted in the forward product on the other side.
    const std::size_t middle = k == 0 ? nb + nk : rank - nk;
    axes_t perm = iota_axes(0, nb);
    for (auto a : iota_axes(middle, rank)) perm.push_back(a);
    for (auto a : iota_axes(nb, middle)) perm.push_back(a);
    const value turned = permute(other, perm);
    const auto batch = static_cast<std::int64_t>(nb);
    if (k == 0) return dot(ct, turned, batch, static_cast<std::int64_t>(rank - middle));
    return dot(turned, ct, batch, static_cast<std::int64_t>(middle - nb));
  }
  static roundings rounding(const evaluation& e, const literal_array&) {
    const auto& a = e.in[0]->extents;
    double terms = 1;
    for (std::size_t d = a.size() - static_cast<std::size_t>(e.n.attr.ints[1]); d < a.size(); ++d)
      terms *= static_cast<double>(a[d]);
    return {std::max(terms, 1.0), false, false};
  }
};

}  // namespace sinter::ir::ops
