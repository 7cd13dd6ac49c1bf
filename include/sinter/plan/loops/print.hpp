// plan/loops/print.hpp: schedules and trees as text.
#pragma once

#include "../schedule/intrinsics.hpp"
#include "../schedule/step.hpp"
#include "names.hpp"

namespace sinter::engine::plan::loops {

namespace detail {

inline std::string joined_names(const tree& t, const series<int>& pieces) {
  std::string out;
  for (int p : pieces) out += (out.empty() ? "" : " ") + name(t, p);
  return out;
}
inline std::string value_name(int v) { return v < 0 ? "-" : "v" + std::to_string(v); }

inline std::string text_of_tile(const tree& t, int x) {
  const tile& tile = t.tiles[static_cast<std::size_t>(x)];
  std::string sides;
  for (const auto& s : tile.along)
    sides += (sides.empty() ? "" : ", ") + (s.piece >= 0 ? name(t, s.piece) : "i" + std::to_string(s.axis)) + " " +
             s.extent.text();
  std::string out = "t" + std::to_string(x) + " = " + value_name(tile.value) + " (" + sides + ") " +
                    dtype_name(tile.type) + " in " + text_of(tile.in);
  if (tile.as != layout::rows) out += std::string(" as ") + text_of(tile.as);
  if (tile.row >= 0)
    out += std::string(" of ") + schedules::intrinsics()[static_cast<std::size_t>(tile.row)].word + "." +
           "xys"[tile.operand];
  if (tile.slots > 1) out += " slots " + std::to_string(tile.slots);
  if (tile.behind > 0) out += " behind " + std::to_string(tile.behind);
  if (tile.padded) out += " padded";
  if (tile.memory >= 0) out += " in t" + std::to_string(tile.memory);
  return out + " at " + (tile.at < 0 ? "top" : name(t, tile.at));
}

inline std::string text_of_guards(std::uint32_t guards) {
  std::string out;
  for (int a = 0; guards >> a; ++a)
    if (guards >> a & 1u) out += (out.empty() ? " if i" : ", i") + std::to_string(a);
  return out.empty() ? out : out + " within";
}
inline std::string text_of_bound(const affine& at) {
  std::string out = at.offset.text();
  for (std::size_t a = 0; a < at.stride.size(); ++a)
    if (!at.stride[a].is(0)) out += " + i" + std::to_string(a) + "*" + at.stride[a].text();
  if (at.index >= 0) out += " + v" + std::to_string(at.index) + "*" + at.indirect.text();
  return out;
}
inline std::string text_of_loop(const tree& t, const node& n) {
  if (n.piece < 0) return "launch";
  const piece& p = t.loop(n.piece);
  std::string out = std::string("for ") + name(t, n.piece) + " of " + p.extent.text() + " " + text_of(p.to);
  if (!p.step.is(1)) out += " step " + p.step.text();
  if (p.part != turns::all) out += std::string(" ") + text_of(p.part);
  if (p.ahead) out += " " + std::to_string(p.ahead);
  for (const auto& l : p.low) out += " from " + text_of_bound(l);
  for (const auto& h : p.high) out += " below " + text_of_bound(h);
  return out;
}

inline std::string text_of_statement(const tree& t, const node& n) {
  std::string out = text_of(n.what);
  if (n.what == act::store)
    out += " " + std::to_string(n.value) + " = " + value_name(t.code->stores[static_cast<std::size_t>(n.value)].value);
  else if (n.what == act::wait) out += " t" + std::to_string(n.tile) + " but " + std::to_string(n.lag);
  else if (n.what != act::barrier) out += " " + value_name(n.value);
  if (n.what != act::wait && n.tile >= 0) out += " from t" + std::to_string(n.tile);
  if (n.to >= 0) out += " to t" + std::to_string(n.to);
  if (n.row >= 0) out += std::string(" by ") + schedules::intrinsics()[static_cast<std::size_t>(n.row)].word;
  if (n.what == act::copy) out += std::string(" by ") + text_of(n.by);
  if (!n.over.empty()) out += " over " + joined_names(t, n.over);
  std::string body;
  for (int b : n.body) body += (body.empty() ? " of " : " ") + value_name(b);
  return out + body + text_of_guards(n.guards);
}

inline void print_node(const tree& t, int from, int depth, std::string& out) {
  const node& n = t[from];
  out += std::string(static_cast<std::size_t>(2 * depth), ' ') +
         (n.what == act::loop ? text_of_loop(t, n) : text_of_statement(t, n)) + "\n";
  for (int c : n.inside) print_node(t, c, depth + 1, out);
}

/// The text of a step; `t` has the pieces that the steps make.
struct step_text {
  const tree& t;
  std::string at(int p) const { return p < 0 ? "top" : "p" + std::to_string(p); }
  std::string operator()(const schedules::split& s) const {
    return "split " + at(s.piece) + " by " + s.by.text() +
           (s.rest == tail::none ? "" : std::string(" ") + text_of(s.rest));
  }
  std::string operator()(const schedules::reorder& s) const {
    std::string out = "order";
    for (int p : s.pieces) out += " " + at(p);
    return out;
  }
  std::string operator()(const schedules::bind_to& s) const { return "bind " + at(s.piece) + " " + text_of(s.to); }
  std::string operator()(const schedules::stage& s) const {
    std::string out = "stage " + value_name(s.value) + " at " + at(s.at) + " in " + text_of(s.in);
    if (s.as != layout::rows) out += std::string(" as ") + text_of(s.as);
    if (s.slots > 1) out += " slots " + std::to_string(s.slots);
    if (s.behind > 0) out += " behind " + std::to_string(s.behind);
    return s.by == mover::threads ? out : out + " by " + text_of(s.by);
  }
  std::string operator()(const schedules::keep& s) const {
    return "keep " + value_name(s.value) + " at " + at(s.at) + " in " + text_of(s.in);
  }
  std::string operator()(const schedules::use_matrix& s) const {
    return "matrix " + value_name(s.value) + " " + schedules::intrinsics()[static_cast<std::size_t>(s.row)].word;
  }
  std::string operator()(const schedules::share& s) const {
    return "share " + value_name(s.value) + " over " + at(s.over) +
           (s.how == schedules::share::way::block ? " block" : " launch");
  }
  std::string operator()(const schedules::skew& s) const {
    return "skew " + value_name(s.value) + " over " + at(s.over);
  }
};

}  // namespace detail

/// A line a step; pieces have the numbers in which splits make them, behind the axes.
inline std::string text_of(const schedules::schedule& s) {
  std::string out = std::string(s.recipe) + "\n";
  const tree none;
  for (const auto& one : s.steps) out += "  " + std::visit(detail::step_text{none}, one) + "\n";
  return out;
}

/// The tiles, then a line a statement.
inline std::string text_of(const tree& t) {
  std::string out;
  for (std::size_t x = 0; x < t.tiles.size(); ++x) out += detail::text_of_tile(t, static_cast<int>(x)) + "\n";
  for (const auto& l : t.launches) detail::print_node(t, l.root, 0, out);
  return out;
}

}  // namespace sinter::engine::plan::loops
