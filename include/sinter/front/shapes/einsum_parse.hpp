// front/shapes/einsum_parse.hpp: the einsum notation, parsed at compile time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "../../base/dims.hpp"
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
  constexpr void erase(int i) {
    for (--count; i < count; ++i) at[i] = at[i + 1];
    at[count] = 0;
  }
  constexpr char operator[](int i) const { return at[i]; }
  constexpr const char* begin() const { return at; }
  constexpr const char* end() const { return at + count; }
};

enum class fault : std::uint8_t { none, character, ellipsis, rank, operands, arrow, result_repeated, result_unknown };

struct notation {
  int count = 0;
  labels operand[max_operands];
  labels result;
  fault error = fault::none;
};

constexpr bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// The labels for the axes of '...' are digits, with 0 for the last: axes of different operands meet as they broadcast.
constexpr bool of_ellipsis(char label) { return label >= '0' && label <= '9'; }
constexpr void push_ellipsis(labels& to, int axes) {
  for (int i = axes; i-- > 0;) to.push(static_cast<char>('0' + i));
}

/// The result when none is written: the axes of '...', then the labels that occur once, in alphabetical order, capitals first.
constexpr labels implicit_result(const notation& n, int ellipsis, bool& too_many) {
  labels r;
  push_ellipsis(r, ellipsis);
  for (int code = 'A'; code <= 'z'; ++code) {
    const char c = static_cast<char>(code);
    int seen = 0;
    for (int i = 0; i < n.count; ++i)
      for (char l : n.operand[i]) seen += l == c;
    if (seen != 1) continue;
    if (r.count == max_rank) too_many = true;
    else r.push(c);
  }
  return r;
}

/// The number of axes of an operand of this rank without a label: `written` labels are read, `s` has the rest.
constexpr int unlabelled(int rank, int written, const char* s) {
  for (; *s != 0 && *s != ',' && *s != '-'; ++s) written += is_label(*s);
  return rank > written ? rank - written : 0;
}

/// '...' stands for the axes of an operand that its labels leave over; `ranks` has the operands' ranks.
constexpr notation parse(const char* s, std::span<const int> ranks = {}) {
  notation n;
  n.count = 1;
  bool arrow = false, spread = false;
  int most = 0;
  for (; *s != 0; ++s) {
    labels& now = arrow ? n.result : n.operand[n.count - 1];
    if (*s == ' ') continue;
    if (*s == ',') {
      if (arrow) n.error = fault::arrow;
      else if (n.count == max_operands) n.error = fault::operands;
      else ++n.count;
      spread = false;
    } else if (*s == '-') {
      if (arrow || s[1] != '>') n.error = fault::arrow;
      arrow = true;
      spread = false;
      ++s;
    } else if (*s == '.') {
      if (spread || s[1] != '.' || s[2] != '.') {
        n.error = fault::ellipsis;
        return n;
      }
      spread = true;
      s += 2;
      const auto i = static_cast<std::size_t>(n.count - 1);
      const int axes = arrow ? most : i < ranks.size() ? unlabelled(ranks[i], now.count, s + 1) : 0;
      if (axes > most) most = axes;
      if (now.count + axes > max_rank) n.error = fault::rank;
      else push_ellipsis(now, axes);
    } else if (!is_label(*s)) {
      n.error = fault::character;
    } else if (arrow && now.has(*s)) {
      n.error = fault::result_repeated;
    } else if (now.count == max_rank) {
      n.error = fault::rank;
    } else {
      now.push(*s);
    }
    if (n.error != fault::none) return n;
  }
  if (!arrow) {
    bool too_many = false;
    n.result = implicit_result(n, most, too_many);
    if (too_many) n.error = fault::rank;
  }
  for (char c : n.result) {
    bool known = false;
    for (int i = 0; i < n.count; ++i) known = known || n.operand[i].has(c);
    if (!known) n.error = fault::result_unknown;
  }
  return n;
}

/// The position where a label repeats within one operand; -1: none.
constexpr int repeated(const labels& l) {
  for (int i = 0; i < l.count; ++i)
    if (l.find(l[i]) < i) return i;
  return -1;
}
constexpr bool has_ellipsis(const labels& l) {
  for (char c : l)
    if (of_ellipsis(c)) return true;
  return false;
}

/// The labels of an operand after taking diagonals.
constexpr labels once(labels l) {
  for (int again; (again = repeated(l)) >= 0;) l.erase(again);
  return l;
}
constexpr notation once(notation n) {
  for (auto& operand : n.operand) operand = once(operand);
  return n;
}

/// The extent of every label, from the operands that have it; or the reason for an error.
struct measured {
  dim extent[128] = {};
  const char* error = nullptr;
  const char* hint = nullptr;

  constexpr dims of(const labels& l) const {
    dims d;
    for (char c : l) d.push(extent[static_cast<int>(c)]);
    return d;
  }
};

constexpr measured measure(const notation& n, std::span<const dims> operands) {
  measured m;
  for (int c = 0; c < 128; ++c) m.extent[c] = of_ellipsis(static_cast<char>(c)) ? dim(1) : dim(dyn);
  const auto refuse = [&](const char* error, const char* hint) { m.error = error, m.hint = hint; };
  for (int i = 0; i < n.count; ++i) {
    const dims& d = operands[static_cast<std::size_t>(i)];
    if (d.rank != n.operand[i].count) {
      refuse("an operand's rank is not its number of labels", "write one label per axis, or '...' for the others");
      return m;
    }
    for (int j = 0; j < d.rank; ++j) {
      const char label = n.operand[i][j];
      dim& e = m.extent[static_cast<int>(label)];
      if (of_ellipsis(label) && !op_shapes::broadcasts(e, d[j]))
        refuse("the axes of '...' do not broadcast", "make extents equal or 1, counted from the last of them");
      else if (!of_ellipsis(label) && !op_shapes::agree(e, d[j]))
        refuse("a label has two extents", "give equal extents to equal labels");
      if (m.error) return m;
      e = of_ellipsis(label) ? op_shapes::common(e, d[j]) : op_shapes::either(e, d[j]);
    }
  }
  return m;
}

/// The roles of two operands' labels in their product.
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
