// io/tree_rules.hpp: the definitions for trees.hpp; compiled once.
#pragma once

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "archive_rules.hpp"
#include "trees.hpp"

namespace sinter::io::detail {

/// The path of a leaf; "value" for a tree that is a leaf.
inline std::string name_of(const trees::tree_place& at) {
  const std::string path = trees::path_of(at);
  return path.empty() ? "value" : path;
}

SINTER_API leaf_saver::leaf_saver(const char* op, const save_options& how, location at) : op_(op), how_(how), at_(at) {
  if (engine::current()) fail(op, "a function is being traced; return the tree from it and save the result", at);
}

SINTER_API void leaf_saver::tensor(const trees::tree_place& at, bool defined, location donated,
                                   const std::function<trees::handle()>& value) {
  const std::string name = renamed(at);
  if (donated.line) fail(op_, "the tensor " + shown(name) + " was " + sinter::detail::text_of_donation(donated), at_);
  if (!defined)
    fail(op_, "the tensor " + shown(name) + " is default-constructed and holds nothing; assign to it first", at_);
  leaves_.push_back({name, value()});
}

SINTER_API void leaf_saver::bytes(const trees::tree_place& at, dtype type, std::vector<std::int64_t> extents,
                                  const void* data) {
  if (how_.numbers) leaves_.push_back({renamed(at), handle_of(copied_array(type, std::move(extents), data))});
}

SINTER_API void leaf_saver::write(const std::string& path) {
  file_writer out(op_, path, how_.durable, at_);
  if (path.ends_with(".npz")) {
    if (!how_.metadata.empty()) fail(op_, "a .npz file has no metadata; save a .safetensors file", at_);
    write_zip(out, leaves_, op_, at_);
  } else {
    for (const auto& [key, text] : how_.metadata)
      if (!is_utf8(key) || !is_utf8(text)) fail(op_, "the metadata " + shown(key) + " is not UTF-8", at_);
    write_safetensors(out, leaves_, how_.metadata, at_);
  }
  out.finish();
}

SINTER_API std::string leaf_saver::renamed(const trees::tree_place& at) {
  std::string name = name_of(at);
  if (how_.rename) name = how_.rename(name);
  if (!is_utf8(name) || name == "__metadata__" || name.find('\0') != std::string::npos)
    fail(op_, "a leaf cannot have the name \"" + shown(name) + "\" in a file", at_);
  if (!names_.insert(name).second) fail(op_, "two leaves have the name " + shown(name) + "; rename one of them", at_);
  return name;
}

SINTER_API leaf_loader::leaf_loader(const char* op, const archive& from, const load_options& how, location at)
    : op_(op), from_(from), how_(how), at_(at) {
  if (engine::current()) fail(op, "a function is being traced; load before it is called, and pass the tree to it", at);
}

SINTER_API std::string leaf_loader::renamed(const trees::tree_place& at) const {
  const std::string name = name_of(at);
  return how_.rename ? how_.rename(name) : name;
}

SINTER_API std::set<std::string> leaf_loader::keys(const trees::tree_place& at, bool of_leaves) const {
  std::set<std::string> out;
  const std::string path = trees::path_of(at), before = path.empty() ? "" : path + ".";
  for (auto i = from_.records.lower_bound(before); i != from_.records.end() && i->first.starts_with(before); ++i)
    out.insert(i->first.substr(before.size(),
                               of_leaves ? std::string::npos : i->first.find('.', before.size()) - before.size()));
  return out;
}

SINTER_API bool leaf_loader::tensor(const trees::tree_place& at, dtype type, const dims& shape,
                                    const trees::handle* now, trees::handle& out, bool open) {
  array a;
  const std::string name = renamed(at);
  if (!find(name, type, a)) return false;
  dims want = shape;
  if (now) want = now->extents;
  const bool any = open && !now;
  if (!any && how_.cast && a.type != type) a = converted(a, type);
  if (const std::string wrong = any ? "" : misfit(a, type, want); !wrong.empty()) return note(name, wrong);
  if (any && a.extents.size() > 12) return note(name, "it has more than 12 axes");
  out = handle_of(a);
  const device where = how_.where ? *how_.where : now ? now->memory.where() : default_device();
  if (where.is_cuda()) {
    engine::check_device(where, op_, at_);
    const std::size_t bytes = a.bytes().size();
    const storage there = engine::allocate(bytes, where);
    engine::copy(there, there.data(), out.memory, out.data, bytes);
    out.memory = there;
    out.data = static_cast<std::byte*>(there.data());
  }
  return true;
}

SINTER_API void leaf_loader::bytes(const trees::tree_place& at, dtype type, const dims& shape,
                                   const std::function<void(const array&)>& take) {
  if (!how_.numbers) return;
  array a;
  const std::string name = renamed(at);
  if (!find(name, type, a)) return;
  if (how_.cast && a.type != type) a = converted(a, type);
  if (const std::string wrong = misfit(a, type, shape); !wrong.empty()) note(name, wrong);
  else take(a);
}

SINTER_API void leaf_loader::finish() {
  if (how_.strict && !how_.surplus)
    for (const auto& [name, r] : from_.records)
      if (!used_.contains(name)) note(name, "the tree does not have it");
  if (faults_.empty()) return;
  std::string all = from_.path + " does not fit the tree:";
  constexpr std::size_t most = 50;
  for (std::size_t i = 0; i < faults_.size() && i < most; ++i) all += "\n  " + faults_[i];
  if (faults_.size() > most) all += "\n  and " + std::to_string(faults_.size() - most) + " more";
  fail(op_, all + "\n  load with .rename, .cast, .numbers = false, .surplus or .strict = false where that is meant",
       at_);
}

SINTER_API bool leaf_loader::note(const std::string& name, const std::string& what) {
  faults_.push_back(shown(name) + ": " + what);
  return false;
}

SINTER_API bool leaf_loader::find(const std::string& name, dtype type, array& out) {
  if (!from_.contains(name)) return how_.strict ? note(name, "the file does not have it") : false;
  used_.insert(name);
  out = from_.at(name, &type, at_);
  return true;
}

}  // namespace sinter::io::detail
