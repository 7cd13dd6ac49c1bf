// io/trees.hpp: trees in files: save and load by the paths of their leaves.
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

#include "archive.hpp"

namespace sinter::io {

struct save_options {
  /// Texts that a .safetensors file holds beside the arrays.
  std::map<std::string, std::string> metadata = {};
  /// Maps a leaf's path to its name in the file.
  std::function<std::string(const std::string&)> rename = {};
  /// Numbers, flags, enums and text are saved, too; false saves only tensors.
  bool numbers = true;
  /// Returns only when the file is on the disk.
  bool durable = false;
};

struct load_options {
  /// false: leaves that the file lacks keep their values, and arrays that the tree lacks are ignored.
  bool strict = true;
  /// true: arrays that the tree lacks are ignored.
  bool surplus = false;
  /// Maps a leaf's path to its name in the file.
  std::function<std::string(const std::string&)> rename = {};
  /// false: loads only tensors; other leaves keep their values.
  bool numbers = true;
  /// Elements of another dtype are converted.
  bool cast = false;
  /// The device of tensors; by default the leaf's, else the default device.
  std::optional<device> where = {};
};

namespace detail {

namespace trees = sinter::detail;

/// The dtype in a file of a leaf that is not a tensor: the dtype of a number, `u8` for the bytes of text and values. Empty
/// for classes that are compared by ==.
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

class leaf_saver {
 public:
  SINTER_API leaf_saver(const char* op, const save_options& how, location at);

  SINTER_API void tensor(const trees::tree_place& at, bool defined, location donated,
                         const std::function<trees::handle()>& value);
  SINTER_API void bytes(const trees::tree_place& at, dtype type, std::vector<std::int64_t> extents, const void* data);
  SINTER_API void write(const std::string& path);

 private:
  SINTER_API std::string renamed(const trees::tree_place& at);

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
      to.tensor(place, x.defined(), x.donated_to(), [&] { return x.as_handle(); });
    } else if constexpr (tensor_like<Leaf>) {
      bool defined = true;
      location donated;
      if constexpr (trees::is_tensor<Leaf>) {
        defined = x.defined();
        donated = trees::access::donated_to(x);
      }
      to.tensor(place, defined, donated, [&] { return trees::untyped(x, at); });
    } else if constexpr (trees::text_leaf<Leaf>) {
      to.bytes(place, dtype::u8, {static_cast<std::int64_t>(x.size())}, x.data());
    } else if constexpr (trees::bytes_leaf<Leaf>) {
      to.bytes(place, dtype::u8, {static_cast<std::int64_t>(sizeof x)}, &x);
    } else if constexpr (scalar_type<Leaf>().has_value()) {
      to.bytes(place, *scalar_type<Leaf>(), {}, &x);
    }
  });
}

/// Takes the leaves of a tree from a file, and collects all mismatches.
class leaf_loader {
 public:
  SINTER_API leaf_loader(const char* op, const archive& from, const load_options& how, location at);

  SINTER_API std::string renamed(const trees::tree_place& at) const;
  bool has(const trees::tree_place& at) const { return from_.contains(renamed(at)); }
  /// The keys of a map in the file. With `of_leaves`, the map's values are leaves, and keys include the points of names. Keys of
  /// renamed names are not found.
  SINTER_API std::set<std::string> keys(const trees::tree_place& at, bool of_leaves) const;

  /// The value of a tensor; false if no array fits. `now` is the leaf's present value, and is null for an undefined leaf.
  /// With `open` and without `now`, any dtype and rank fit.
  SINTER_API bool tensor(const trees::tree_place& at, dtype type, const dims& shape, const trees::handle* now,
                         trees::handle& out, bool open = false);
  /// The bytes of a number, text or a value.
  SINTER_API void bytes(const trees::tree_place& at, dtype type, const dims& shape,
                        const std::function<void(const array&)>& take);
  void missing(const trees::tree_place& at) { note(renamed(at), "the file does not have it"); }

  /// user_error that lists all mismatches.
  SINTER_API void finish();

 private:
  SINTER_API bool note(const std::string& name, const std::string& what);
  SINTER_API bool find(const std::string& name, dtype type, array& out);

  const char* op_;
  const archive& from_;
  const load_options& how_;
  location at_;
  std::vector<std::string> faults_;
  std::set<std::string> used_;
};

/// Calls f(child, place) for each child of a tuple or a struct.
template <class T, class F>
void with_places(T& t, const trees::tree_place& at, const F& f) {
  trees::with_children(t, [&]<class... Child>(Child&... child) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(child, trees::tree_place{&at, I, trees::child_name<std::remove_const_t<T>, I>(), nullptr}), ...);
    }
    (std::index_sequence_for<Child...>{});
  });
}

/// Gives the vectors, maps, optionals and variants of a new tree the structure in the file. Returns whether the file has any
/// leaf of it.
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

/// Takes the leaves of a tree whose structure is complete.
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

/// Writes the leaves of a tree under their paths, `blocks.0.qkv.w`: as a .npz file if `path` ends so, else as .safetensors.
/// An existing file is replaced once all is written. Tensors may be on any device; numbers, flags, enums and text become
/// arrays, too. user_error for an undefined leaf and while traced, system_error if the file cannot be written.
template <class T>
void save(const std::string& path, const T& tree, const save_options& how = {}, location at = location::current()) {
  detail::leaf_saver to("io::save", how, at);
  detail::save_leaves(to, tree, at.in("io::save"));
  to.write(path);
}

/// Takes the leaves of a tree from a file, which is mapped: tensors on the host are read on first use. Vectors, maps,
/// optionals and variants keep their structure. user_error that names every leaf that is missing, surplus, or of another
/// dtype or shape; system_error for a damaged file. On an error the tree stays unchanged.
template <class T>
void load(const archive& from, T& tree, const load_options& how = {}, location at = location::current()) {
  tree = detail::loaded("io::load", from, tree, false, how, at.in("io::load"));
}
template <class T>
void load(const std::string& path, T& tree, const load_options& how = {}, location at = location::current()) {
  load(open_archive(path, at.in("io::load")), tree, how, at);
}
/// A new tree, whose vectors, maps, optionals and variants have the structure in the file:
/// `io::load<gpt>("gpt.safetensors")`. The keys of maps are unknown if names are renamed. Errors as above.
template <class T>
T load(const archive& from, const load_options& how = {}, location at = location::current()) {
  return detail::loaded("io::load", from, T{}, true, how, at.in("io::load"));
}
template <class T>
T load(const std::string& path, const load_options& how = {}, location at = location::current()) {
  return load<T>(open_archive(path, at.in("io::load")), how, at);
}

}  // namespace sinter::io

#if !defined(SINTER_COMPILED)
#include "tree_rules.hpp"
#endif
