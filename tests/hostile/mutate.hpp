// Mutations of models that know ONNX's messages, and of any bytes.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "draws.hpp"
#include "protobuf.hpp"

namespace hostile {

inline std::uint64_t number_of_note(draws& draw) {
  static const std::int64_t notable[] = {0,
                                         1,
                                         2,
                                         3,
                                         4,
                                         7,
                                         12,
                                         13,
                                         64,
                                         127,
                                         128,
                                         255,
                                         256,
                                         65536,
                                         1000000007,
                                         4294967296,
                                         -1,
                                         -2,
                                         -3,
                                         -9,
                                         -128,
                                         INT64_MAX,
                                         INT64_MIN,
                                         INT64_MAX - 1,
                                         INT64_MAX / 2,
                                         std::int64_t{1} << 40,
                                         std::int64_t{1} << 56,
                                         -6 * (std::int64_t{1} << 60),
                                         -6 * (std::int64_t{1} << 60) + 1,
                                         INT32_MAX,
                                         INT32_MIN};
  if (draw.below(3) == 0) return draw() >> draw.below(64);
  return static_cast<std::uint64_t>(notable[draw.below(std::size(notable))]);
}

inline const std::vector<std::string>& words() {
  static const std::vector<std::string> all{"",
                                            "x0",
                                            "x1",
                                            "y0",
                                            "loss",
                                            "nearest",
                                            "linear",
                                            "cubic",
                                            "reflect",
                                            "edge",
                                            "wrap",
                                            "constant",
                                            "sum",
                                            "mean",
                                            "none",
                                            "add",
                                            "mul",
                                            "max",
                                            "min",
                                            "CRD",
                                            "SAME_UPPER",
                                            "VALID",
                                            "bidirectional",
                                            "reverse",
                                            "Relu",
                                            "HardSigmoid",
                                            "ij->ji",
                                            "...i,i...->",
                                            "ii,ii->i",
                                            "location",
                                            "offset",
                                            "length",
                                            "../x",
                                            "/etc/passwd",
                                            "99999999999999999999",
                                            "axis",
                                            "axes",
                                            "perm",
                                            "pads",
                                            "strides",
                                            "dilations",
                                            "kernel_shape",
                                            "group",
                                            "to",
                                            "keepdims",
                                            "value",
                                            "value_ints",
                                            "value_int",
                                            "size",
                                            "k",
                                            "mode",
                                            "num_outputs",
                                            "blocksize",
                                            "alpha",
                                            "shape",
                                            "body",
                                            "then_branch",
                                            "else_branch",
                                            "equation",
                                            "output_padding",
                                            "output_shape",
                                            "hidden_size",
                                            "direction",
                                            "activations",
                                            "q_num_heads",
                                            "kv_num_heads",
                                            "num_groups",
                                            "num_heads",
                                            "batch_dims",
                                            "starts",
                                            "ends",
                                            "split",
                                            "training_mode",
                                            "axis_w",
                                            "block_size",
                                            "output_dtype",
                                            "dtype",
                                            "num_scan_inputs",
                                            "upper",
                                            std::string("\0", 1),
                                            "\xff\xfe",
                                            std::string(300, 'n')};
  return all;
}

/// Where a field is: the fields around it, and its place among them.
struct place {
  parts* among;
  std::size_t at;
  kind within;
};
inline void find_places(parts& all, kind within, std::vector<place>& out) {
  for (std::size_t k = 0; k < all.size(); ++k) {
    out.push_back({&all, k, within});
    find_places(all[k].inner, all[k].is, out);
  }
}
inline void find_texts(const parts& all, kind within, std::vector<std::string>& names, std::vector<std::string>& ops) {
  for (const part& p : all) {
    if (within == kind::node && p.field == 4) ops.push_back(p.bytes);
    else if (p.wire == 2 && p.is == kind::none && p.bytes.size() < 40) names.push_back(p.bytes);
    find_texts(p.inner, p.is, names, ops);
  }
}

/// What mutations take from: the same model and another one.
struct stock {
  std::vector<std::string> names, ops;
  parts other;
};

inline void damage_elements(std::string& s, draws& draw) {
  if (s.empty()) {
    s.assign(8 * draw.below(4), '\0');
    return;
  }
  const std::size_t width = std::size_t{1} << draw.below(4), at = draw.below(s.size()) / width * width;
  const std::uint64_t x = number_of_note(draw);
  for (std::size_t i = 0; i < width && at + i < s.size(); ++i) s[at + i] = static_cast<char>(x >> 8 * i);
  if (draw.below(8) == 0) s.resize(draw.below(2 * s.size() + 1));
}
inline void change_field(part& p, kind within, const stock& from, draws& draw) {
  if (p.wire == 0) {
    p.number = number_of_note(draw);
    return;
  }
  if (p.wire != 2 || (within == kind::tensor && p.field != 8)) return damage_elements(p.bytes, draw);
  const auto& pool = within == kind::node && p.field == 4 && !from.ops.empty() ? from.ops
                     : draw.below(2) && !from.names.empty()                    ? from.names
                                                                               : words();
  p.bytes = pool[draw.below(pool.size())];
}

/// A field of a message of this kind in another model; false where it has none.
inline bool take_field(const parts& other, kind within, draws& draw, part& out) {
  std::vector<place> all, fitting;
  find_places(const_cast<parts&>(other), kind::model, all);
  for (const place& p : all)
    if (p.within == within) fitting.push_back(p);
  if (fitting.empty()) return false;
  const place& p = fitting[draw.below(fitting.size())];
  out = (*p.among)[p.at];
  return true;
}

/// The graph within branches of If, so deep.
inline void nest(parts& model, std::size_t deep) {
  for (part& p : model) {
    if (p.is != kind::graph) continue;
    parts outputs;
    for (const part& v : p.inner)
      if (v.field == 12) outputs.push_back(v);
    std::string inside = written(p.inner);
    const auto field = [](std::uint32_t number, std::string bytes) {
      part f;
      f.field = number;
      f.wire = 2;
      f.bytes = std::move(bytes);
      return f;
    };
    for (std::size_t k = 0; k < deep; ++k) {
      parts branch{field(1, "then_branch"), field(6, inside)}, twin{field(1, "else_branch"), field(6, inside)};
      parts n{field(1, "x0"), field(2, "y0"), field(4, "If"), field(5, written(branch))};
      if (inside.size() < 20000) n.push_back(field(5, written(twin)));
      parts g{field(1, written(n))};
      g.insert(g.end(), outputs.begin(), outputs.end());
      inside = written(g);
    }
    p.is = kind::none;
    p.inner.clear();
    p.bytes = inside;
    return;
  }
}

inline void mutate_once(parts& model, const stock& from, draws& draw) {
  std::vector<place> all;
  find_places(model, kind::model, all);
  if (all.empty()) return;
  const place& p = all[draw.below(all.size())];
  parts& among = *p.among;
  part& here = among[p.at];
  switch (draw.below(12)) {
    case 0:
      among.erase(among.begin() + static_cast<std::ptrdiff_t>(p.at));
      return;
    case 1: {
      part copy = here;
      among.insert(among.begin() + static_cast<std::ptrdiff_t>(draw.below(among.size() + 1)), std::move(copy));
      return;
    }
    case 2:
      std::swap(here, among[draw.below(among.size())]);
      return;
    case 3:
    case 4: {
      part other;
      if (!take_field(from.other, p.within, draw, other)) return;
      if (draw.below(2)) here = std::move(other);
      else among.insert(among.begin() + static_cast<std::ptrdiff_t>(draw.below(among.size() + 1)), std::move(other));
      return;
    }
    case 5:
      if (draw.below(20) == 0) nest(model, 1 + draw.below(100));
      return;
    default:
      // A field that is no message: of those after a random one, the first.
      for (std::size_t k = draw.below(all.size()), n = 0; n < all.size(); ++n, k = (k + 1) % all.size()) {
        part& leaf = (*all[k].among)[all[k].at];
        if (leaf.is != kind::none) continue;
        return change_field(leaf, all[k].within, from, draw);
      }
  }
}

/// A fault of the bytes themselves.
inline void damage_bytes(std::string& s, draws& draw) {
  if (s.empty()) return;
  const std::size_t at = draw.below(s.size());
  switch (draw.below(5)) {
    case 0:
      s[at] = static_cast<char>(s[at] ^ 1 << draw.below(8));
      return;
    case 1:
      s.resize(at);
      return;
    case 2:
      s.erase(at, draw.below(16));
      return;
    case 3:
      s.insert(at, s.substr(draw.below(s.size()), draw.below(64)));
      return;
    default: {
      const std::uint64_t x = number_of_note(draw);
      for (std::size_t i = 0, width = std::size_t{1} << draw.below(4); i < width && at + i < s.size(); ++i)
        s[at + i] = static_cast<char>(x >> 8 * i);
    }
  }
}

/// A model with one to six mutations, which may take parts of another.
inline std::string mutated_model(const std::string& file, const std::string& other, draws& draw) {
  parts model;
  stock from;
  if (!read_parts(file, kind::model, model)) {
    std::string s = file;
    damage_bytes(s, draw);
    return s;
  }
  read_parts(other, kind::model, from.other);
  find_texts(model, kind::model, from.names, from.ops);
  find_texts(from.other, kind::model, from.names, from.ops);
  for (std::size_t n = draw.below(4) ? 1 + draw.below(2) : 1 + draw.below(6); n > 0; --n)
    mutate_once(model, from, draw);
  std::string s = written(model);
  if (draw.below(16) == 0) damage_bytes(s, draw);
  return s;
}

}  // namespace hostile
