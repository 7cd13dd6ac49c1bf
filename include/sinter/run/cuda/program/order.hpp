// run/cuda/program/order.hpp: the order of a sequence's steps: a step waits for steps on the same memory, if either writes it.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "../../../base/series.hpp"
#include "../../../base/sorted.hpp"
#include "program.hpp"

namespace sinter::engine::run::cuda {

namespace detail {

/// The memory of a step: an operand of the table; in scratch memory, the bytes.
struct access {
  int index = -1;  ///< -1: the step's own scratch memory
  std::int64_t from = 0, to = 0;
  bool written = false;
};

inline series<access> accesses(const sequence& s, const step& of) {
  const auto given = static_cast<std::size_t>(s.given);
  series<access> out;
  for (const operand& o : of.operands) {
    if (!o.touched || o.index < 0) continue;
    access a{o.index, 0, 0, o.written};
    if (const auto i = static_cast<std::size_t>(o.index); i >= given) {
      a.from = s.intermediates[i - given];
      a.to = a.from + s.intermediate_bytes[i - given];
    }
    out.push_back(a);
  }
  if (of.scratch_bytes > 0) out.push_back({-1, of.scratch, of.scratch + of.scratch_bytes, true});
  return out;
}

/// True if two accesses may overlap: they have one operand, share scratch memory, or are a result and the argument whose
/// storage it may take, as in `shared`.
inline bool meet(const sorted_set<std::pair<int, int>>& shared, const access& a, const access& b) {
  if (!a.written && !b.written) return false;
  if (a.index >= 0 && a.index == b.index) return true;
  if (a.to > a.from && b.to > b.from) return a.from < b.to && b.from < a.to;
  return shared.contains({a.index, b.index}) || shared.contains({b.index, a.index});
}

}  // namespace detail

/// For each step, the earlier steps that must end before it begins, without those for which another of these waits.
SINTER_API series<series<int>> dependencies(const sequence& s) {
  const std::size_t count = s.steps.size();
  sorted_set<std::pair<int, int>> shared;
  for (const sharing& w : s.shared) shared.emplace(w.result, w.argument);
  series<series<detail::access>> touched;
  for (const step& one : s.steps) touched.push_back(detail::accesses(s, one));
  series<series<int>> out(count);
  series<series<bool>> reached(count);
  for (std::size_t j = 0; j < count; ++j) {
    reached[j].resize(count);
    for (std::size_t i = j; i-- > 0;) {
      if (reached[j][i]) continue;
      const bool waits = std::any_of(touched[i].begin(), touched[i].end(), [&](const detail::access& a) {
        return std::any_of(touched[j].begin(), touched[j].end(),
                           [&](const detail::access& b) { return detail::meet(shared, a, b); });
      });
      if (!waits) continue;
      out[j].push_back(static_cast<int>(i));
      reached[j][i] = true;
      for (std::size_t k = 0; k < i; ++k)
        if (reached[i][k]) reached[j][k] = true;
    }
  }
  return out;
}

/// The steps of a sequence on the stream for exchanges, with the other steps that wait for them, and that they wait for. A step
/// that waits for one of them also waits for all before it.
SINTER_API series<apart_step> steps_apart(const sequence& s) {
  series<apart_step> out;
  const auto is_apart = [&](std::size_t i) { return s.steps[i].what == action::call && s.steps[i].call->is_apart(); };
  sorted_set<std::pair<int, int>> shared;
  for (const sharing& w : s.shared) shared.emplace(w.result, w.argument);
  const auto waits = [&](std::size_t i, std::size_t j) {
    for (const auto& a : detail::accesses(s, s.steps[i]))
      for (const auto& b : detail::accesses(s, s.steps[j]))
        if (detail::meet(shared, a, b)) return true;
    return false;
  };
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    if (!is_apart(i)) continue;
    apart_step one{static_cast<int>(i), -1, -1};
    for (std::size_t k = i; k-- > 0 && one.after < 0;)
      if (!is_apart(k) && waits(k, i)) one.after = static_cast<int>(k);
    for (std::size_t k = i + 1; k < s.steps.size() && one.before < 0; ++k)
      if (!is_apart(k) && waits(i, k)) one.before = static_cast<int>(k);
    out.push_back(one);
  }
  return out;
}

/// Steps of a recorded call between places where its streams wait for each other.
struct piece {
  std::shared_ptr<sequence> own;    ///< null if `steps` is a whole sequence
  const sequence* steps = nullptr;  ///< one graph
  bool is_alone = false;            ///< a single step, which no graph can hold
  std::size_t waits = 0;            ///< before it, the call's stream waits for the first ones of the steps apart
  std::size_t requests = 0;         ///< after it, so many further steps apart are requested, which wait for it
};

/// The pieces of a sequence, in their order. A step apart is requested as early as the steps that it waits for permit.
SINTER_API series<piece> pieces_of(const sequence& s) {
  series<piece> out;
  if (s.apart.empty()) {
    out.push_back({nullptr, &s});
    return out;
  }
  sequence none = s;
  none.steps = {};
  none.apart = {};
  none.table_bytes = 0;
  std::size_t requested = 0, waited = 0;
  const auto begin = [&] {
    auto own = std::make_shared<sequence>(none);
    const sequence* const steps = own.get();
    out.push_back({std::move(own), steps});
  };
  const auto request_behind = [&](int step) {
    const std::size_t before = requested;
    while (requested < s.apart.size() && s.apart[requested].after <= step) ++requested;
    if (requested == before) return;
    out.back().requests = requested - before;
    begin();
  };
  begin();
  request_behind(-1);
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    const step& one = s.steps[i];
    const bool calls = one.what == action::call;
    if (calls && one.call->is_apart()) continue;
    std::size_t need = waited;
    for (std::size_t k = waited; k < requested; ++k)
      if (s.apart[k].before >= 0 && s.apart[k].before <= static_cast<int>(i)) need = k + 1;
    const bool is_alone = calls && one.call->nodes() > max_nodes;
    if (!out.back().steps->steps.empty() && (need > waited || is_alone || out.back().is_alone)) begin();
    if (need > waited) out.back().waits = waited = need;
    out.back().is_alone = is_alone;
    out.back().own->steps.push_back(one);
    if (one.table_at >= 0) out.back().own->table_bytes = s.table_bytes;
    request_behind(static_cast<int>(i));
  }
  if (out.back().steps->steps.empty()) out.pop_back();
  return out;
}

}  // namespace sinter::engine::run::cuda
