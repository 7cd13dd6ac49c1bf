// plan/schedule/passes.hpp: what each pass over a kernel's rows reads, reduces, keeps and stores.
#pragma once

#include "../../base/sorted.hpp"
#include "vectors.hpp"

namespace sinter::engine::plan {

/// The reductions and the stores that a pass serves.
struct work {
  series<int> reductions;
  series<const store*> stores;
  bool empty() const { return reductions.empty() && stores.empty(); }
};

/// Whether each element of the inner axes has its own sum over the rows.
inline bool is_array(const kernel& k, int id) {
  const auto& i = k.body[static_cast<std::size_t>(id)];
  return i.span == reduce_scope::row && (k.body[static_cast<std::size_t>(i.args[0])].axes & k.mask(role::inner)) != 0;
}

/// True when the kernel only adds rows to arrays of sums, with elementwise operations.
inline bool only_columns(const kernel& k) {
  if (k.stages > 1) return false;
  for (int id = 0; id < static_cast<int>(k.body.size()); ++id)
    if (is_reduction(k.body[static_cast<std::size_t>(id)]) && !is_array(k, id)) return false;
  return true;
}

/// Sums of f32 are in f64. Sums of columns are only if a thread has nothing but its columns: beside rows' own reductions
/// they are in registers for whole rows.
inline bool is_wide(const kernel& k, int id) {
  const auto& i = k.body[static_cast<std::size_t>(id)];
  return is_f32_sum(i) && i.type == dtype::f32 && (!is_array(k, id) || only_columns(k));
}

inline std::int64_t accumulator_bytes(const kernel& k, int id) {
  const auto& i = k.body[static_cast<std::size_t>(id)];
  if (i.kind == kind::arg_reduce) return 16;
  return is_wide(k, id) ? 8 : static_cast<std::int64_t>(size_of(compute_type(i.type)));
}

/// Whether results of several rows, or of several blocks of one, are combined.
inline bool combines_rows(const kernel& k) {
  return std::any_of(k.body.begin(), k.body.end(),
                     [](const auto& i) { return i.span == reduce_scope::row || i.span == reduce_scope::both; });
}

/// Whether a store depends on all rows.
inline bool is_final_store(const kernel& k, const store& s) {
  if (is_uniform_store(k, s)) return false;
  if (k.body[static_cast<std::size_t>(s.value)].after_rows) return true;
  return combines_rows(k) && !varies(k, s, k.mask(k.block ? role::inner : role::row));
}

/// The stores that depend on all rows.
struct finals {
  series<const store*> along, single;  ///< stores that vary along the inner axes, and the others
};
inline finals final_stores(const kernel& k) {
  finals f;
  for (const auto& s : k.stores)
    if (is_final_store(k, s)) (varies(k, s, k.mask(role::inner)) ? f.along : f.single).push_back(&s);
  return f;
}

/// The work on a row's elements in pass `stage`.
inline work work_of(const kernel& k, int stage) {
  work w;
  for (int id = 0; id < static_cast<int>(k.body.size()); ++id) {
    const auto& i = k.body[static_cast<std::size_t>(id)];
    if (!is_reduction(i) || k.body[static_cast<std::size_t>(i.args[0])].stage != stage) continue;
    if (i.span == reduce_scope::row && !is_array(k, id)) continue;  // once per row
    w.reductions.push_back(id);
  }
  for (const auto& s : k.stores)
    if (!is_uniform_store(k, s) && !is_final_store(k, s) && varies(k, s, k.mask(role::inner)) &&
        k.body[static_cast<std::size_t>(s.value)].stage == stage)
      w.stores.push_back(&s);
  return w;
}

/// The value that a store encodes for its memory. Encoding is a conversion to a narrow type, so the operand of such a conversion
/// is enough.
inline int encoded(const kernel& k, const store& s) {
  const auto& i = k.body[static_cast<std::size_t>(s.value)];
  const bool narrows =
      i.kind == kind::compute && ir::row(i.code).rule == ir::dtype_rule::conversion && is_narrow(i.type);
  return narrows && !s.accumulate ? i.args[0] : s.value;
}

/// The values that the work computes, in order, except those `known`; what lies behind values that are `held` is not needed.
inline series<int> needed(const kernel& k, const work& w, const sorted_set<int>& known = {},
                          const sorted_set<int>& held = {}) {
  sorted_set<int> ids;
  auto visit = [&](auto&& self, int id) -> void {
    if (known.count(id) || !ids.insert(id).second || held.count(id)) return;
    const auto& i = k.body[static_cast<std::size_t>(id)];
    if (!is_guarded(i))  // its guard takes its place
      for (int a : i.args) self(self, a);
    if (i.at.at.index >= 0 && i.kind != kind::arg_reduce) self(self, i.at.at.index);
  };
  for (int id : w.reductions) visit(visit, k.body[static_cast<std::size_t>(id)].args[0]);
  for (const auto* s : w.stores) {
    visit(visit, known.count(s->value) || held.count(s->value) ? s->value : encoded(k, *s));
    if (s->at.at.index >= 0) visit(visit, s->at.at.index);
  }
  return {ids.begin(), ids.end()};
}

/// The values that one pass computes and a later pass reads. With `recompute`, only values that are read from memory or
/// costly; the others are computed again.
inline sorted_set<int> values_to_keep(const kernel& k, bool recompute) {
  const std::uint32_t inner = k.mask(role::inner);
  sorted_map<int, int> first;
  sorted_set<int> keep;
  for (int pass = 0; pass < k.stages; ++pass) {
    sorted_set<int> seen;
    auto visit = [&](auto&& self, int id) -> void {
      const auto& i = k.body[static_cast<std::size_t>(id)];
      if (!(i.axes & inner) || is_reduction(i) || !seen.insert(id).second) return;
      const bool again = !first.emplace(id, pass).second && first[id] < pass;
      if (again && i.kind != kind::position && i.kind != kind::inside &&
          (!recompute || i.kind == kind::load || (i.kind == kind::compute && ir::is_expensive(i.code)))) {
        keep.insert(id);
        return;
      }
      if (!is_guarded(i))
        for (int a : i.args) self(self, a);
      if (i.at.at.index >= 0) self(self, i.at.at.index);
    };
    const auto w = work_of(k, pass);
    for (int id : w.reductions) visit(visit, k.body[static_cast<std::size_t>(id)].args[0]);
    for (const auto* s : w.stores) visit(visit, s->value);
  }
  return keep;
}

/// The bytes of an element of each of these values in registers.
inline std::int64_t bytes_of(const kernel& k, const sorted_set<int>& ids) {
  std::int64_t n = 0;
  for (int id : ids) {
    const auto& i = k.body[static_cast<std::size_t>(id)];
    n += static_cast<std::int64_t>(size_of(i.kind == kind::load ? i.type : compute_type(i.type)));
  }
  return n;
}

/// Reductions along the rows, one for each column.
inline series<int> arrays_of(const kernel& k) {
  series<int> ids;
  for (int id = 0; id < static_cast<int>(k.body.size()); ++id) {
    const auto& i = k.body[static_cast<std::size_t>(id)];
    if (is_reduction(i) && i.span != reduce_scope::inner && is_array(k, id)) ids.push_back(id);
  }
  return ids;
}

/// The loads along a row that need no index: `of_rows`, those that differ from row to row and the first pass reads, else those
/// that are the same for all rows.
inline series<int> loads_of(const kernel& k, bool of_rows) {
  const std::uint32_t inner = k.mask(role::inner), row = k.mask(role::row);
  series<int> ids;
  work w;
  for (int stage = 0; stage < k.stages; ++stage) {
    const auto more = work_of(k, stage);
    w.reductions.insert(w.reductions.end(), more.reductions.begin(), more.reductions.end());
    w.stores.insert(w.stores.end(), more.stores.begin(), more.stores.end());
    if (of_rows) break;
  }
  for (int id : needed(k, w)) {
    const auto& i = k.body[static_cast<std::size_t>(id)];
    if (i.kind != kind::load || !(i.axes & inner) || i.at.at.index >= 0) continue;
    if (of_rows ? (i.axes & row) != 0 : !(i.axes & ~inner)) ids.push_back(id);
  }
  return ids;
}

inline bool has_uniform_stores(const kernel& k) {
  return std::any_of(k.stores.begin(), k.stores.end(), [&](const auto& s) { return is_uniform_store(k, s); });
}

}  // namespace sinter::engine::plan
