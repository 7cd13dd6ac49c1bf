// front/einsum_parse.hpp: the einsum notation, parsed at compile time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "../base/dims.hpp"
#include "op_shapes.hpp"

namespace sinter {

/// A string literal as a template argument.
template <std::size_t N>
struct fixed_string {
  char text[N] = {};
  constexpr fixed_string(const char (&s)[N]) {
    for (std::size_t i = 0; i < N; ++i) text[i] = s[i];
  }
};

namespace einsum_rules {

inline constexpr int max_operands = 8;

/// Labels of one operand, or of the result.
struct labels {
  int count = 0;
  char at[max_rank] = {};

  constexpr int find(char c) const {
    for (int i = 0; i < count; ++i)
      if (at[i] == c) return i;
    return -1;
  }
  constexpr bool has(char c) const { return find(c) >= 0; }
  constexpr void push(char c) { at[count++] = c; }
  constexpr char operator[](int i) const { return at[i]; }
  constexpr const char* begin() const { return at; }
  constexpr const char* end() const { return at + count; }
};

enum class fault : std::uint8_t {
  none,
  character,
  ellipsis,
  repeated,
  rank,
  operands,
  arrow,
  result_repeated,
  result_unknown
};

struct notation {
  int count = 0;
  labels operand[max_operands];
  labels result;
  fault error = fault::none;
};

constexpr bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Labels that occur in one operand only, in alphabetical order, capitals first: the result when none is written.
constexpr labels implicit_result(const notation& n, bool& too_many) {
  labels r;
  for (int code = 'A'; code <= 'z'; ++code) {
    const char c = static_cast<char>(code);
    int seen = 0;
    for (int i = 0; i < n.count; ++i) seen += n.operand[i].has(c);
    if (seen != 1) continue;
    if (r.count == max_rank) too_many = true;
    else r.push(c);
  }
  return r;
}

constexpr notation parse(const char* s) {
  notation n;
  n.count = 1;
  bool arrow = false;
  for (; *s != 0; ++s) {
    labels& now = arrow ? n.result : n.operand[n.count - 1];
    if (*s == ' ') continue;
    if (*s == ',') {
      if (arrow) n.error = fault::arrow;
      else if (n.count == max_operands) n.error = fault::operands;
      else ++n.count;
    } else if (*s == '-') {
      if (arrow || s[1] != '>') n.error = fault::arrow;
      arrow = true;
      ++s;
    } else if (*s == '.') {
      n.error = fault::ellipsis;
    } else if (!is_label(*s)) {
      n.error = fault::character;
    } else if (now.has(*s)) {
      n.error = arrow ? fault::result_repeated : fault::repeated;
    } else if (now.count == max_rank) {
      n.error = fault::rank;
    } else {
      now.push(*s);
    }
    if (n.error != fault::none) return n;
  }
  if (!arrow) {
    bool too_many = false;
    n.result = implicit_result(n, too_many);
    if (too_many) n.error = fault::rank;
  }
  for (char c : n.result) {
    bool known = false;
    for (int i = 0; i < n.count; ++i) known = known || n.operand[i].has(c);
    if (!known) n.error = fault::result_unknown;
  }
  return n;
}

/// The extent of every label, from the operands that carry it; the result's shape.
constexpr op_shapes::outcome shape(const notation& n, std::span<const dims> operands) {
  dim extent[128] = {};
  for (auto& e : extent) e = dyn;
  for (int i = 0; i < n.count; ++i) {
    const dims& d = operands[static_cast<std::size_t>(i)];
    if (d.rank != n.operand[i].count)
      return op_shapes::refuse("an operand's rank is not its number of labels", "write one label per axis");
    for (int j = 0; j < d.rank; ++j) {
      dim& e = extent[static_cast<int>(n.operand[i][j])];
      if (!op_shapes::agree(e, d[j]))
        return op_shapes::refuse("a label has two extents", "give equal extents to equal labels");
      e = op_shapes::either(e, d[j]);
    }
  }
  dims r;
  for (char c : n.result) r.push(extent[static_cast<int>(c)]);
  return {r};
}

/// How the labels of two operands take part in their product.
struct contraction {
  labels batch, rows, cols, inner;  ///< in both and kept; in a; in b; in both and summed
  labels a_summed, b_summed;        ///< in one operand only and not kept
};

constexpr contraction classify(const labels& a, const labels& b, const labels& kept) {
  contraction c;
  for (char l : a) {
    if (b.has(l)) (kept.has(l) ? c.batch : c.inner).push(l);
    else (kept.has(l) ? c.rows : c.a_summed).push(l);
  }
  for (char l : b)
    if (!a.has(l)) (kept.has(l) ? c.cols : c.b_summed).push(l);
  return c;
}

}  // namespace einsum_rules
}  // namespace sinter
