// mesh_io/part_rules.hpp: the definitions for parts.hpp; compiled once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "../io/checkpoint_rules.hpp"
#include "../io/tree_rules.hpp"
#include "parts.hpp"

namespace sinter::io::detail {

/// Where a part of a tensor lies in the whole.
struct part_place {
  std::vector<std::int64_t> whole, first, extents;
};

/// "12,5;3,0": the whole extents, then the first indices.
inline std::string place_text(const part_place& p) {
  const auto listed = [](const std::vector<std::int64_t>& v) {
    std::string out;
    for (const std::int64_t n : v) out += (out.empty() ? "" : ",") + std::to_string(n);
    return out;
  };
  return listed(p.whole) + ";" + listed(p.first);
}
/// The place that a text tells of an array of these extents; nothing if it does not fit.
inline std::optional<part_place> read_place(const std::string& text, const std::vector<std::int64_t>& extents) {
  part_place p;
  p.extents = extents;
  std::vector<std::int64_t>* to = &p.whole;
  std::int64_t n = -1;
  for (const char c : text + ",") {
    if (c >= '0' && c <= '9' && n < std::int64_t{1} << 55) {
      n = std::max<std::int64_t>(n, 0) * 10 + (c - '0');
    } else if (c == ',' || c == ';') {
      if (n >= 0) to->push_back(n);
      n = -1;
      if (c == ';') to = &p.first;
    } else {
      return std::nullopt;
    }
  }
  if (p.whole.size() != extents.size() || p.first.size() != extents.size()) return std::nullopt;
  for (std::size_t k = 0; k < extents.size(); ++k)
    if (extents[k] > p.whole[k] || p.first[k] > p.whole[k] - extents[k]) return std::nullopt;
  return p;
}

/// Copies the elements that two parts of one tensor have in common. Returns their number.
inline std::int64_t copy_common(const part_place& from, const std::byte* source, const part_place& to,
                                std::byte* target, std::size_t item) {
  const std::size_t rank = from.whole.size();
  std::vector<std::int64_t> first(rank), count(rank);
  std::int64_t all = 1;
  for (std::size_t k = 0; k < rank; ++k) {
    first[k] = std::max(from.first[k], to.first[k]);
    count[k] = std::min(from.first[k] + from.extents[k], to.first[k] + to.extents[k]) - first[k];
    if (count[k] <= 0) return 0;
    all *= count[k];
  }
  const std::int64_t row = rank == 0 ? 1 : count[rank - 1];
  const auto offset = [&](const part_place& p, std::int64_t line) {
    std::int64_t at = 0, stride = 1;
    for (std::size_t k = rank; k-- > 0;) {
      const std::int64_t i = k + 1 == rank ? 0 : line % count[k];
      if (k + 1 != rank) line /= count[k];
      at += (first[k] + i - p.first[k]) * stride;
      stride *= p.extents[k];
    }
    return static_cast<std::size_t>(at) * item;
  };
  for (std::int64_t line = 0; line < all / row; ++line)
    std::memcpy(target + offset(to, line), source + offset(from, line), static_cast<std::size_t>(row) * item);
  return all;
}

/// The place of this rank's part of a tensor; and whether this rank writes it, being the first that has it.
inline part_place place_of(const part_leaf& x, mesh_axes_view axes, bool& writes) {
  part_place p;
  p.whole = p.extents = x.extents;
  p.first.assign(p.extents.size(), 0);
  writes = true;
  for (std::size_t i = axes.size(); i-- > 0;) {  // the last axis of the mesh divides last
    const auto& h = x.holds[i];
    if (h.how != sinter::detail::meshes::kind::shard) {
      writes = writes && axes[i].place.index == 0;
      continue;
    }
    const auto k = static_cast<std::size_t>(h.along);
    p.first[k] += axes[i].place.index * p.whole[k];
    p.whole[k] *= axes[i].place.ranks;
  }
  if (x.rows >= 0 && !p.whole.empty()) {
    p.whole[0] = x.rows;
    p.first[0] = std::min(p.first[0], x.rows);
    p.extents[0] = std::min(p.extents[0], x.rows - p.first[0]);
  }
  return p;
}

/// The place of this rank among all of its mesh, row-major.
inline std::int64_t own_place(mesh_axes_view axes) {
  std::int64_t r = 0;
  for (const auto& a : axes) r = r * a.place.ranks + a.place.index;
  return r;
}
inline std::int64_t ranks_of(mesh_axes_view axes) {
  std::int64_t n = 1;
  for (const auto& a : axes) n *= a.place.ranks;
  return n;
}

SINTER_API part_leaf& part_walk::push(part_leaf::kind what, dtype type, const sinter::detail::tree_place& at,
                                      const void* leaf) {
  part_leaf p;
  p.what = what;
  p.type = type;
  p.name = name_of(at);
  p.leaf = const_cast<void*>(leaf);
  leaves_.push_back(std::move(p));
  return leaves_.back();
}
SINTER_API void part_walk::check_rows(std::size_t tensors, std::size_t rows) {
  if (tensors != rows)
    fail("io::mesh_checkpoints",
         "row_shards(part, rows) has one number of rows for each tensor; it has " + std::to_string(rows) +
             " numbers for " + std::to_string(tensors) + " tensors",
         {});
}

/// The rows of a tensor's part that are in the whole; they come first in its memory.
inline sinter::detail::handle without_padding(const part_leaf& x, const part_place& p, location at) {
  if (p.extents == x.extents) return x.value(x.leaf, at);
  array a = array_of(x.value(x.leaf, at), at);
  a.extents = p.extents;
  return handle_of(a);
}
/// The elements of a text, a number or a flag.
inline sinter::detail::handle small_value(const part_leaf& x, location at) {
  if (x.what == part_leaf::kind::text) return x.value(x.leaf, at);
  if (x.what == part_leaf::kind::bytes) return handle_of(copied_array(x.type, x.extents, x.leaf));
  const bool flag = (*static_cast<const std::vector<bool>*>(x.leaf))[x.size];
  return handle_of(copied_array(x.type, {}, &flag));
}

/// Writes this rank's parts. Numbers and text are written by the first rank.
inline void save_parts(const std::string& path, const part_walk& tree, mesh_axes_view axes, location at) {
  const char* op = "io::mesh_checkpoints";
  if (engine::current()) fail(op, "a function is being traced; return the tree from it and save the result", at);
  std::map<std::string, std::string> metadata;
  std::vector<named_leaf> written;
  std::set<std::string> names;
  for (const part_leaf& x : tree.leaves()) {
    if (!is_utf8(x.name) || x.name == "__metadata__" || x.name.find('\0') != std::string::npos)
      fail(op, "a leaf cannot have the name \"" + shown(x.name) + "\" in a file", at);
    if (!names.insert(x.name).second) fail(op, "two leaves have the name " + shown(x.name), at);
    if (x.what != part_leaf::kind::tensor) {
      if (own_place(axes) == 0) written.push_back({x.name, small_value(x, at)});
      continue;
    }
    if (x.donated.line)
      fail(op, "the tensor " + shown(x.name) + " was " + sinter::detail::text_of_donation(x.donated), at);
    if (!x.defined)
      fail(op, "the tensor " + shown(x.name) + " is default-constructed and holds nothing; assign to it first", at);
    bool writes = false;
    const part_place p = place_of(x, axes, writes);
    if (!writes) continue;
    metadata[x.name] = place_text(p);
    written.push_back({x.name, without_padding(x, p, at)});
  }
  file_writer out(op, path, true, at);
  write_safetensors(out, written, metadata, at);
  out.finish();
}

/// Takes this rank's parts from the files of all ranks of a saved mesh, which are mapped: only the elements that it needs are read.
class part_loader {
 public:
  part_loader(std::vector<archive> files, mesh_axes_view axes, location at)
      : files_(std::move(files)), axes_(axes), at_(at) {}

  void load(const part_walk& tree) {
    for (const part_leaf& x : tree.leaves()) {
      used_.insert(x.name);
      if (x.what == part_leaf::kind::tensor) {
        tensor(x);
      } else if (x.what == part_leaf::kind::text) {
        if (!x.assign) faults_.push_back(shown(x.name) + ": text of a tree that is loaded is a std::string");
        else if (const auto a = value(x, 1)) x.assign(x.leaf, handle_of(*a), at_);
      } else if (const auto a = value(x, x.extents.size())) {
        if (x.what == part_leaf::kind::flag)
          (*static_cast<std::vector<bool>*>(x.leaf))[x.size] = a->data[0] != std::byte{0};
        else std::memcpy(x.leaf, a->data, x.size);
      }
    }
    finish();
  }

 private:
  void tensor(const part_leaf& x) {
    if (!x.defined) return fault(x.name, "the tree's tensor is default-constructed; its extents are those of the part");
    bool writes = false;
    const part_place to = place_of(x, axes_, writes);
    array out = make_array(x.type, x.extents);
    std::memset(static_cast<void*>(out.data), 0, out.bytes().size());  // also the rows behind the whole
    part_place here = to;
    here.extents = x.extents;  // of the memory; its rows behind the whole have no element in a file
    std::int64_t wanted = 1, found = 0;
    for (const std::int64_t e : to.extents) wanted *= e;
    bool any = false;
    for (const archive& file : files_) {
      if (!file.contains(x.name)) continue;
      any = true;
      const array a = file.at(x.name, nullptr, at_);
      const auto text = file.metadata.find(x.name);
      const auto from = text == file.metadata.end() ? std::nullopt : read_place(text->second, a.extents);
      if (!from) fail_file("io::mesh_checkpoints", file.path, "tells no place of " + shown(x.name), at_);
      if (a.type != out.type || from->whole != to.whole)
        return fault(x.name,
                     "it is " + kind_text(a.type, from->whole) + ", the tree's is " + kind_text(out.type, to.whole));
      found += copy_common(*from, a.data, here, out.data, size_of(out.type));
    }
    if (!any) fault(x.name, "the files do not have it");
    else if (found != wanted)
      fault(x.name, "the files have " + std::to_string(found) + " of " + std::to_string(wanted) + " elements");
    else x.assign(x.leaf, handle_of(out), at_);
  }
  /// A text or a number, as an array of this rank.
  std::optional<array> value(const part_leaf& x, std::size_t rank) {
    for (const archive& file : files_)
      if (file.contains(x.name)) {
        array a = file.at(x.name, nullptr, at_);
        const bool fits = x.what == part_leaf::kind::text || a.extents == x.extents;
        if (a.type == x.type && a.extents.size() == rank && fits) return a;
        fault(x.name, "it is " + kind_text(a.type, a.extents));
        return std::nullopt;
      }
    fault(x.name, "the files do not have it");
    return std::nullopt;
  }
  void fault(const std::string& name, const std::string& what) { faults_.push_back(shown(name) + ": " + what); }
  void finish() {
    for (const archive& file : files_)
      for (const std::string& name : file.names())
        if (used_.insert(name).second) fault(name, "the tree does not have it");
    if (faults_.empty()) return;
    std::string all = "the checkpoint does not fit the tree:";
    for (std::size_t i = 0; i < std::min<std::size_t>(faults_.size(), 50); ++i) all += "\n  " + faults_[i];
    fail("io::mesh_checkpoints", all, at_);
  }

  std::vector<archive> files_;
  mesh_axes_view axes_;
  location at_;
  std::vector<std::string> faults_;
  std::set<std::string> used_;
};

/// What the index of a state holds.
struct part_index {
  std::int64_t files = 0, number = 0;
  std::string mesh;
};

SINTER_API void part_files::save(std::int64_t step, const part_walk& tree, mesh_axes_view axes, const void* mesh,
                                 location at) const {
  if (step < 0) fail("io::mesh_checkpoints", "steps are not negative; it is " + std::to_string(step), at);
  const bool first = own_place(axes) == 0;
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count() & 0xffffffff;
  const std::int64_t number = sum(mesh, first ? now : 0, at);
  std::exception_ptr problem;
  const auto attempt = [&](const auto& f) {
    try {
      f();
    } catch (...) {
      problem = std::current_exception();
    }
    const std::int64_t failed = sum(mesh, problem ? 1 : 0, at);
    if (problem) std::rethrow_exception(problem);
    if (failed > 0)
      throw system_error("[io::mesh_checkpoints] " + std::to_string(failed) + " other ranks could not write step " +
                         std::to_string(step));
  };
  attempt([&] {
    make_folder("io::mesh_checkpoints", folder, at);
    save_parts(part(step, number, own_place(axes), ranks_of(axes)), tree, axes, at);
  });
  attempt([&] {
    if (!first) return;
    indexes.save(step, part_index{ranks_of(axes), number, layout}, at);
    remove_parts(step);
  });
}

SINTER_API std::int64_t part_files::last(mesh_axes_view axes, const void* mesh, location at) const {
  const bool first = own_place(axes) == 0;
  const auto all = first ? indexes.steps() : std::vector<std::int64_t>();
  return sum(mesh, all.empty() ? 0 : all.back() + 1, at) - 1;
}

SINTER_API void part_files::load(std::int64_t step, const part_walk& tree, mesh_axes_view axes, location at) const {
  part_index index;
  io::load(indexes.path(step), index, {}, at);
  std::vector<archive> files;
  for (std::int64_t r = 0; r < index.files; ++r)
    files.push_back(open_regular_archive(part(step, index.number, r, index.files), at));
  part_loader(std::move(files), axes, at).load(tree);
}

SINTER_API std::string part_files::part(std::int64_t step, std::int64_t number, std::int64_t rank,
                                        std::int64_t ranks) const {
  std::string path = indexes.path(step);
  path.resize(path.size() - std::string(".safetensors").size());
  return path + "." + std::to_string(number) + "." + std::to_string(rank) + "-of-" + std::to_string(ranks) +
         ".safetensors";
}

SINTER_API void part_files::remove_parts(std::int64_t now) const {
  std::set<std::string> kept;
  for (const std::int64_t step : indexes.steps()) {
    part_index index;
    try {
      io::load(indexes.path(step), index);
    } catch (const user_error&) {
      return;
    }
    const std::string path = part(step, index.number, 0, 1);
    kept.insert(path.substr(folder.size() + 1, path.rfind(".0-of-") - folder.size() - 1));
  }
  const std::string last = indexes.path(now).substr(folder.size() + 1);
  for (const std::string& name : files_of(folder)) {
    const auto end = name.rfind('.', name.find("-of-"));
    if (!name.starts_with(how.name + "_") || name.find("-of-") == std::string::npos || end == std::string::npos)
      continue;
    if (!kept.contains(name.substr(0, end)) && name.substr(0, last.size() - 12) <= last.substr(0, last.size() - 12))
      std::remove((folder + "/" + name).c_str());
  }
}

}  // namespace sinter::io::detail
