// io/trees.hpp: trees in files: save, load, by the paths of their leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "safetensors.hpp"
#include "zip.hpp"

namespace sinter::io {

struct save_options {
  /// Texts beside the arrays of a .safetensors file.
  std::map<std::string, std::string> metadata = {};
  /// The name in the file of a leaf's path.
  std::function<std::string(const std::string&)> rename = {};
  /// Numbers, flags, enums and text, too: false for tensors alone.
  bool numbers = true;
  /// Returns when the file is on the disk.
  bool durable = false;
};

struct load_options {
  /// false: leaves that the file lacks keep their values, and arrays that the tree lacks are left alone.
  bool strict = true;
  /// true: arrays that the tree lacks are left alone.
  bool surplus = false;
  /// The name in the file of a leaf's path.
  std::function<std::string(const std::string&)> rename = {};
  /// false: tensors alone; other leaves keep their values.
  bool numbers = true;
  /// Elements of another dtype are converted.
  bool cast = false;
  /// By default where the leaf is, else the default device.
  std::optional<device> where = {};
};

namespace detail {

inline archive parse_archive(const std::string& path, storage whole, location at) {
  archive a;
  a.path = path;
  a.whole = std::move(whole);
  const auto file = detail::bytes_of(a.whole);
  const bool zip = file.size() >= 4 &&
                   (std::memcmp(file.data(), "PK\x03\x04", 4) == 0 || std::memcmp(file.data(), "PK\x05\x06", 4) == 0);
  const std::string wrong = zip ? detail::read_zip(a.whole, a.records) : detail::read_safetensors(a);
  if (!wrong.empty()) detail::fail_file("io::open_archive", path, wrong, at);
  return a;
}

}  // namespace detail

/// Opens a .safetensors or a .npz file, whichever it is. system_error for a file that is neither, or damaged.
inline archive open_archive(const std::string& path, location at = location::current()) {
  return detail::parse_archive(path, detail::map_file("io::open_archive", path, at), at);
}
/// The same of the bytes of a file, which are copied.
inline archive open_archive(std::span<const std::byte> file, location at = location::current()) {
  return detail::parse_archive("bytes", detail::kept_bytes({file.begin(), file.end()}), at);
}

namespace detail {

namespace trees = sinter::detail;

/// What a leaf that is no tensor is in a file: the dtype of a number, `u8` for the bytes of text and values; none for classes that
/// are compared by ==.
template <class T>
constexpr std::optional<dtype> scalar_type() {
  if constexpr (trees::text_leaf<T> || trees::bytes_leaf<T>) return dtype::u8;
  else if constexpr (std::is_enum_v<T>) return scalar_type<std::underlying_type_t<T>>();
  else if constexpr (std::is_same_v<T, bool>) return dtype::b8;
  else if constexpr (std::is_integral_v<T>) {
    constexpr dtype integers[2][4] = {{dtype::u8, dtype::u16, dtype::u32, dtype::u64},
                                      {dtype::i8, dtype::i16, dtype::i32, dtype::i64}};
    return integers[std::is_signed_v<T>][sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3];
  } else if constexpr (element<T>) return dtype_of<T>;
  else return std::nullopt;
}

/// The path of a leaf, of a tree that is a leaf itself "value".
inline std::string name_of(const trees::tree_place& at) {
  const std::string path = trees::path_of(at);
  return path.empty() ? "value" : path;
}

class leaf_saver {
 public:
  leaf_saver(const char* op, const save_options& how, location at) : op_(op), how_(how), at_(at) {
    if (engine::current()) fail(op, "a function is being traced; return the tree from it and save the result", at);
  }

  void tensor(const trees::tree_place& at, bool defined, const std::function<trees::handle()>& value) {
    const std::string name = renamed(at);
    if (!defined)
      fail(op_, "the tensor " + shown(name) + " is default-constructed and holds nothing; assign to it first", at_);
    leaves_.push_back({name, value()});
  }
  void bytes(const trees::tree_place& at, dtype type, std::vector<std::int64_t> extents, const void* data) {
    if (how_.numbers) leaves_.push_back({renamed(at), handle_of(copied_array(type, std::move(extents), data))});
  }
  void write(const std::string& path) {
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

 private:
  std::string renamed(const trees::tree_place& at) {
    std::string name = name_of(at);
    if (how_.rename) name = how_.rename(name);
    if (!is_utf8(name) || name == "__metadata__" || name.find('\0') != std::string::npos)
      fail(op_, "a leaf cannot have the name \"" + shown(name) + "\" in a file", at_);
    if (!names_.insert(name).second) fail(op_, "two leaves have the name " + shown(name) + "; rename one of them", at_);
    return name;
  }

  const char* op_;
  const save_options& how_;
  location at_;
  std::vector<named_leaf> leaves_;
  std::set<std::string> names_;
};

template <class T>
void save_leaves(leaf_saver& to, const T& tree, location at) {
  trees::visit_places<true>(tree, trees::tree_place{}, [&]<class Leaf>(const trees::tree_place& place, const Leaf& x) {
    if constexpr (trees::is_dynamic<Leaf>) {
      to.tensor(place, x.defined(), [&] { return x.as_handle(); });
    } else if constexpr (tensor_like<Leaf>) {
      bool defined = true;
      if constexpr (trees::is_tensor<Leaf>) defined = x.defined();
      to.tensor(place, defined, [&] { return trees::untyped(x, at); });
    } else if constexpr (trees::text_leaf<Leaf>) {
      to.bytes(place, dtype::u8, {static_cast<std::int64_t>(x.size())}, x.data());
    } else if constexpr (trees::bytes_leaf<Leaf>) {
      to.bytes(place, dtype::u8, {static_cast<std::int64_t>(sizeof x)}, &x);
    } else if constexpr (scalar_type<Leaf>().has_value()) {
      to.bytes(place, *scalar_type<Leaf>(), {}, &x);
    }
  });
}

/// Elements of another dtype: integers by way of 64 bits, others by way of double.
inline array converted(const array& a, dtype to) {
  if (a.type == to) return a;
  array out = make_array(to, a.extents);
  const auto n = static_cast<std::size_t>(a.numel());
  const bool whole = !is_float(a.type) && !is_float(to);
  visit_dtype(a.type, [&]<class From>(std::type_identity<From>) {
    const std::byte* p = a.data;
    std::vector<double> wide(whole ? 0 : n);
    std::vector<std::int64_t> integers(whole ? n : 0);
    for (std::size_t i = 0; i < n; ++i, p += sizeof(From)) {
      From x;
      std::memcpy(&x, p, sizeof x);
      if (whole) integers[i] = static_cast<std::int64_t>(x);
      else wide[i] = static_cast<double>(x);
    }
    visit_dtype(to, [&]<class To>(std::type_identity<To>) {
      std::byte* q = out.data;
      for (std::size_t i = 0; i < n; ++i, q += sizeof(To)) {
        const To y = whole ? static_cast<To>(integers[i]) : static_cast<To>(wide[i]);
        std::memcpy(q, &y, sizeof y);
      }
    });
  });
  return out;
}

/// Takes the leaves of a tree from a file, and notes all that does not fit.
class leaf_loader {
 public:
  leaf_loader(const char* op, const archive& from, const load_options& how, location at)
      : op_(op), from_(from), how_(how), at_(at) {
    if (engine::current())
      fail(op, "a function is being traced; load before it is called, and pass the tree to it", at);
  }

  std::string renamed(const trees::tree_place& at) const {
    const std::string name = name_of(at);
    return how_.rename ? how_.rename(name) : name;
  }
  bool has(const trees::tree_place& at) const { return from_.contains(renamed(at)); }
  /// The keys of a map in the file, of leaves with the points that names have; of names that are renamed nothing can be told.
  std::set<std::string> keys(const trees::tree_place& at, bool of_leaves) const {
    std::set<std::string> out;
    const std::string path = trees::path_of(at), before = path.empty() ? "" : path + ".";
    for (auto i = from_.records.lower_bound(before); i != from_.records.end() && i->first.starts_with(before); ++i)
      out.insert(i->first.substr(before.size(),
                                 of_leaves ? std::string::npos : i->first.find('.', before.size()) - before.size()));
    return out;
  }

  /// The value of a tensor; false when there is none that fits. `now`: what the leaf has, undefined where it is null. `open`: without
  /// that it is of any dtype and rank.
  bool tensor(const trees::tree_place& at, dtype type, const dims& shape, const trees::handle* now, trees::handle& out,
              bool open = false) {
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
  /// The bytes of a number, text or a value.
  void bytes(const trees::tree_place& at, dtype type, const dims& shape,
             const std::function<void(const array&)>& take) {
    if (!how_.numbers) return;
    array a;
    const std::string name = renamed(at);
    if (!find(name, type, a)) return;
    if (how_.cast && a.type != type) a = converted(a, type);
    if (const std::string wrong = misfit(a, type, shape); !wrong.empty()) note(name, wrong);
    else take(a);
  }
  void missing(const trees::tree_place& at) { note(renamed(at), "the file does not have it"); }

  /// user_error naming all that does not fit.
  void finish() {
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

 private:
  bool note(const std::string& name, const std::string& what) {
    faults_.push_back(shown(name) + ": " + what);
    return false;
  }
  bool find(const std::string& name, dtype type, array& out) {
    if (!from_.contains(name)) return how_.strict ? note(name, "the file does not have it") : false;
    used_.insert(name);
    out = from_.at(name, &type, at_);
    return true;
  }

  const char* op_;
  const archive& from_;
  const load_options& how_;
  location at_;
  std::vector<std::string> faults_;
  std::set<std::string> used_;
};

/// Calls f(child, place) for what a tuple or a struct has.
template <class T, class F>
void with_places(T& t, const trees::tree_place& at, const F& f) {
  trees::with_children(t, [&]<class... Child>(Child&... child) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(child, trees::tree_place{&at, I, trees::child_name<T, I>(), nullptr}), ...);
    }
    (std::index_sequence_for<Child...>{});
  });
}

/// Makes the vectors, maps, optionals and variants of a new tree as the file has them; whether it has any leaf of the tree.
template <class T>
bool shape_tree(const leaf_loader& from, T& t, const trees::tree_place& at) {
  constexpr trees::branch b = trees::branch_of<T>();
  bool any = false;
  if constexpr (b == trees::branch::tensor || b == trees::branch::scalar) {
    return from.has(at);
  } else if constexpr (b == trees::branch::array) {
    for (std::size_t i = 0; i < t.size(); ++i)
      any |= shape_tree(from, t[i], trees::tree_place{&at, i, nullptr, nullptr});
  } else if constexpr (b == trees::branch::vector) {
    t.clear();
    for (std::size_t i = 0;; ++i) {
      typename T::value_type next{};
      if (!shape_tree(from, next, trees::tree_place{&at, i, nullptr, nullptr})) break;
      t.push_back(std::move(next));
      any = true;
    }
  } else if constexpr (b == trees::branch::map) {
    t.clear();
    for (const std::string& key : from.keys(at, trees::is_leaf<typename T::mapped_type>))
      any |= shape_tree(from, t[key], trees::tree_place{&at, 0, nullptr, &key});
  } else if constexpr (b == trees::branch::optional) {
    if (any = shape_tree(from, t.emplace(), at); !any) t.reset();
  } else if constexpr (b == trees::branch::variant) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((any = any || shape_tree(from, t.template emplace<I>(), trees::tree_place{&at, I, nullptr, nullptr})), ...);
      if (!any) t.template emplace<0>();
    }
    (trees::places_of(trees::children_of<T>{}));
  } else if constexpr (b != trees::branch::refused) {
    with_places(t, at, [&](auto& child, const trees::tree_place& place) { any |= shape_tree(from, child, place); });
  }
  return any;
}

template <class T>
void load_tensor(leaf_loader& from, T& t, const trees::tree_place& at, location where) {
  trees::handle now, value;
  const bool defined = t.defined();
  if constexpr (trees::is_dynamic<T>) {
    if (defined) now = t.as_handle();
    if (from.tensor(at, t.type(), dims(), defined ? &now : nullptr, value, true)) t = T(value);
  } else {
    if (defined) now = trees::untyped(t, where);
    if (from.tensor(at, dtype_of<typename T::value_type>, T::static_shape, defined ? &now : nullptr, value))
      t = trees::typed<typename T::value_type, T::static_shape>(std::move(value), where);
  }
}

template <class T>
void load_scalar(leaf_loader& from, T& t, const trees::tree_place& at) {
  if constexpr (std::is_same_v<T, std::string>) {
    from.bytes(at, dtype::u8, dims(1),
               [&](const array& a) { t.assign(reinterpret_cast<const char*>(a.data), a.bytes().size()); });
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    static_assert(!std::is_same_v<T, std::string_view>,
                  "sinter: [io::load] text of a tree that is loaded is a std::string");
  } else if constexpr (scalar_type<T>().has_value()) {
    dims shape;
    if (trees::bytes_leaf<T>) shape.push(static_cast<std::int64_t>(sizeof t));
    from.bytes(at, *scalar_type<T>(), shape,
               [&](const array& a) { std::memcpy(static_cast<void*>(&t), a.data, sizeof t); });
  }
}

/// Takes the leaves of a tree whose vectors, maps, optionals and variants are as they should be.
template <class T>
void load_leaves(leaf_loader& from, T& t, const trees::tree_place& at, location where) {
  constexpr trees::branch b = trees::branch_of<T>();
  if constexpr (b == trees::branch::tensor) {
    load_tensor(from, t, at, where);
  } else if constexpr (b == trees::branch::scalar) {
    load_scalar(from, t, at);
  } else if constexpr (b == trees::branch::array || b == trees::branch::vector) {
    for (std::size_t i = 0; i < t.size(); ++i) {
      const trees::tree_place place{&at, i, nullptr, nullptr};
      if constexpr (!std::is_lvalue_reference_v<decltype(t[i])>) {
        bool flag = t[i];  // std::vector<bool>
        load_leaves(from, flag, place, where);
        t[i] = flag;
      } else {
        load_leaves(from, t[i], place, where);
      }
    }
  } else if constexpr (b == trees::branch::map) {
    for (auto& [key, x] : t) load_leaves(from, x, trees::tree_place{&at, 0, nullptr, &key}, where);
  } else if constexpr (b == trees::branch::optional) {
    if (t) load_leaves(from, *t, at, where);
  } else if constexpr (b == trees::branch::variant) {
    trees::with_alternative(
        t,
        [&](auto i) {
          load_leaves(from, *get_if<i>(&t), trees::tree_place{&at, i, nullptr, nullptr}, where);
        },
        trees::places_of(trees::children_of<T>{}));
  } else if constexpr (b != trees::branch::refused) {
    with_places(t, at, [&](auto& child, const trees::tree_place& place) { load_leaves(from, child, place, where); });
  }
}

template <class T>
T loaded(const char* op, const archive& from, T tree, bool made, const load_options& how, location at) {
  leaf_loader loader(op, from, how, at);
  if (made) shape_tree(loader, tree, trees::tree_place{});
  load_leaves(loader, tree, trees::tree_place{}, at);
  loader.finish();
  return tree;
}

}  // namespace detail

/// Writes the leaves of a tree under their paths, `blocks.0.qkv.w`: a .npz file where `path` ends so, else .safetensors. What is
/// there is replaced when all is written. Tensors of any device; numbers, flags, enums and text are arrays, too. user_error for a leaf
/// that holds nothing and while traced, system_error when it cannot be written.
template <class T>
void save(const std::string& path, const T& tree, const save_options& how = {}, location at = location::current()) {
  detail::leaf_saver to("io::save", how, at);
  detail::save_leaves(to, tree, at.in("io::save"));
  to.write(path);
}

/// Takes the leaves of a tree from a file, which is mapped: tensors on the host are read when they are used. Vectors, maps, optionals
/// and variants stay as they are. user_error naming every leaf that is missing, surplus, or of another dtype or shape; the tree is as
/// it was then, and where the file is damaged, a system_error.
template <class T>
void load(const archive& from, T& tree, const load_options& how = {}, location at = location::current()) {
  tree = detail::loaded("io::load", from, tree, false, how, at.in("io::load"));
}
template <class T>
void load(const std::string& path, T& tree, const load_options& how = {}, location at = location::current()) {
  load(open_archive(path, at.in("io::load")), tree, how, at);
}
/// A new tree, whose vectors, maps, optionals and variants are made as the file has them: `io::load<gpt>("gpt.safetensors")`. Names
/// that are renamed tell no keys of maps.
template <class T>
T load(const archive& from, const load_options& how = {}, location at = location::current()) {
  return detail::loaded("io::load", from, T{}, true, how, at.in("io::load"));
}
template <class T>
T load(const std::string& path, const load_options& how = {}, location at = location::current()) {
  return load<T>(open_archive(path, at.in("io::load")), how, at);
}

}  // namespace sinter::io
