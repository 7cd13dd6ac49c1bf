// plan/schedule/recipe.hpp: recipes: functions that write a schedule for kernels of a form.
#pragma once

#include "facts.hpp"
#include "intrinsics.hpp"
#include "step.hpp"

namespace sinter::engine::plan::schedules {

/// `make` is called for kernels that `takes` accepts, with an option below `options`.
struct recipe {
  const char* name;
  bool (*takes)(const kernel&, const facts&);
  int options;
  schedule (*make)(const kernel&, const facts&, int option);
};

/// Writes steps, and keeps count of the pieces that they make.
class steps {
 public:
  steps(const char* recipe, const kernel& k) : pieces_(static_cast<int>(k.axes.size())) { s_.recipe = recipe; }

  /// Splits a piece; returns the inner part.
  int split(int piece, std::int64_t by, loops::tail rest) {
    s_.steps.push_back(schedules::split{piece, by, rest});
    return pieces_++;
  }
  template <class Step>
  void add(Step s) {
    s_.steps.push_back(std::move(s));
  }
  void bind(const series<int>& pieces, loops::bind to) {
    for (int p : pieces) add(bind_to{p, to});
  }
  schedule done() { return std::move(s_); }

 private:
  schedule s_;
  int pieces_;
};

/// The only reduction of a kernel, if it is a contraction with an axis of each kind.
inline std::optional<contraction> only_contraction(const kernel& k) {
  std::optional<contraction> found;
  for (std::size_t v = 0; v < k.body.size(); ++v) {
    if (k.body[v].kind == kind::product) return std::nullopt;
    if (k.body[v].kind != kind::reduce) continue;
    if (found) return std::nullopt;
    found = contraction_of(k, static_cast<int>(v));
    if (!found) return std::nullopt;
  }
  if (found && (found->m.empty() || found->n.empty() || found->k.empty())) return std::nullopt;
  return found;
}

/// `by`, or less where an axis is shorter: the least multiple of `unit` that holds it; at least a unit.
inline std::int64_t clipped(std::int64_t by, const dim& extent, std::int64_t unit) {
  by = std::max(by, unit);
  const auto n = extent.number();
  return !n || *n >= by ? by : std::max<std::int64_t>(1, (*n + unit - 1) / unit) * unit;
}

inline series<int> all_but_last(const series<int>& axes) {
  series<int> out = axes;
  if (!out.empty()) out.pop_back();
  return out;
}
inline void append(series<int>& to, const series<int>& more) {
  for (int x : more) to.push_back(x);
}
inline bool is_plain_load(const kernel& k, int v) {
  const auto& i = k.body[static_cast<std::size_t>(v)];
  return i.kind == kind::load && !is_guarded(i) && i.at.at.index < 0;
}
/// Whether a target has an intrinsic for a contraction's operands.
inline int matrix_row(const kernel& k, const contraction& c, const facts& f, scope who) {
  const dtype x = k.body[static_cast<std::size_t>(unwidened(k, c.x))].type,
              y = k.body[static_cast<std::size_t>(unwidened(k, c.y))].type;
  int found = -1;
  const auto all = intrinsics();
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].who == who && all[r].x == x && all[r].y == y &&
        all[r].sum == k.body[static_cast<std::size_t>(c.reduce)].type && (!f.has || f.has(all[r].needs)))
      found = static_cast<int>(r);
  return found;
}

/// The columns of a product by groups of warps: the most, a power of two, that divide an extent; 0: none.
inline std::int64_t group_columns(const dim& extent, const intrinsic& i, std::int64_t most) {
  const std::int64_t all = extent.number().value_or(0);
  for (std::int64_t n = most; n >= 4 * i.n; n /= 2)
    if (all > 0 && all % n == 0) return n;
  return 0;
}
/// The row of the intrinsics for a product on a CPU. Factors that no row takes as they are may be widened first.
struct cpu_row {
  int row = -1;
  bool widens = false;
};
inline cpu_row cpu_row_of(const kernel& k, const contraction& c, const facts& f) {
  if (const int row = matrix_row(k, c, f, scope::thread); row >= 0) return {row, false};
  const auto all = intrinsics();
  const auto type = [&](int v) { return k.body[static_cast<std::size_t>(v)].type; };
  cpu_row out;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].who == scope::thread && all[r].x == type(c.x) && all[r].y == type(c.y) && all[r].sum == type(c.reduce) &&
        (!f.has || f.has(all[r].needs)))
      out = {static_cast<int>(r), true};
  return out;
}

}  // namespace sinter::engine::plan::schedules
