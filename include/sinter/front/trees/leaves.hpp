// front/trees/leaves.hpp: the leaves of a call's arguments, for guards, kernels and messages.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "../../base/callback.hpp"
#include "../../base/text.hpp"
#include "../../engine/engine.hpp"
#include "../tensor/number.hpp"
#include "items.hpp"
#include "names.hpp"
#include "tree.hpp"
#include "tree_map.hpp"

namespace sinter::detail {

/// A C++ number that may differ between calls of a specialisation.
template <class T>
inline constexpr bool is_floating_scalar = false;
template <scalar_like T>
inline constexpr bool is_floating_scalar<T> = !std::is_integral_v<T> && !std::is_same_v<T, long double> &&
                                              !std::is_same_v<T, dim> && !std::is_same_v<T, formula_number>;

template <class T>
std::uint64_t bits_of(T x) {
  if constexpr (std::is_enum_v<T>) return static_cast<std::uint64_t>(static_cast<std::underlying_type_t<T>>(x));
  else if constexpr (is_narrow_float<T>) return x.bits;
  else if constexpr (std::is_same_v<T, float>) return std::bit_cast<std::uint32_t>(x);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<std::uint64_t>(x);
  else return static_cast<std::uint64_t>(x);
}

/// The number of words of a leaf that is not a tensor.
template <class T>
std::size_t words_of(const T& x) {
  if constexpr (text_leaf<T>) return 1 + (x.size() + 7) / 8;
  else if constexpr (bytes_leaf<T>) return (sizeof(T) + 7) / 8;
  else return 1;
}

inline std::uint64_t* put_bytes(const void* from, std::size_t bytes, std::uint64_t* to) {
  if (bytes == 0) return to;  // `from` is null for an empty string_view
  const std::size_t words = (bytes + 7) / 8;
  to[words - 1] = 0;
  std::memcpy(to, from, bytes);
  return to + words;
}

/// Compares by ==. Compares paths by their text, because their == equates "a//b" and "a/b".
template <class T>
bool same_value(const T& a, const T& b) {
  if constexpr (requires { bool(a.native() == b.native()); }) return bool(a.native() == b.native());
  else return bool(a == b);
}

template <class T>
inline constexpr engine::value_class value_class_of = {
    [](const void* a, const void* b) { return same_value(*static_cast<const T*>(a), *static_cast<const T*>(b)); },
    [](const void* x) -> std::shared_ptr<const void> { return on_heap(*static_cast<const T*>(x)); }};

/// Writes the words of the leaf, which identify its value. Text begins with its length.
template <class T>
std::uint64_t* put_words(const T& x, std::uint64_t* to) {
  if constexpr (text_leaf<T>) {
    *to = x.size();
    return put_bytes(x.data(), x.size(), to + 1);
  } else if constexpr (bytes_leaf<T>) {
    return put_bytes(&x, sizeof x, to);
  } else if constexpr (hashable_leaf<T>) {
    *to = engine::value_number(value_class_of<T>, std::hash<T>()(x), &x);
    return to + 1;
  } else {
    *to = bits_of(x);
    return to + 1;
  }
}

/// A leaf that is not a tensor, as text for messages.
template <class T>
std::string value_text(const T& x) {
  if constexpr (text_leaf<T>) return "\"" + std::string(x) + "\"";
  else if constexpr (bytes_leaf<T>) return {};
  else if constexpr (hashable_leaf<T>) return "of hash " + std::to_string(std::hash<T>()(x));
  else if constexpr (std::is_same_v<T, dim>) return x.text();
  else if constexpr (std::is_same_v<T, bool>) return x ? "true" : "false";
  else if constexpr (std::is_enum_v<T>) return std::to_string(static_cast<std::int64_t>(x));
  else if constexpr (std::is_integral_v<T>) return std::to_string(x);
  else if constexpr (std::is_same_v<T, double>) return text::number(x);
  else return text::number(static_cast<float>(x));
}

[[noreturn]] inline void fail_argument(const std::string& name, bool traced, location donated, location where) {
  if (donated.line) fail(name, "an argument holds a tensor that was " + text_of_donation(donated), where);
  fail(name,
       traced ? "an argument was traced by a function that has returned, or whose trace is another thread's; return it "
                "from there and pass the result"
              : "an argument holds a default-constructed tensor; assign to it first",
       where);
}

/// Fails if a leaf is a tensor without memory.
struct undefined_finder {
  const std::string* name;
  location where;

  template <class Leaf>
  void leaf(const Leaf& x) const {
    if constexpr (is_dynamic<Leaf>) {
      if (!x.memory()) fail_argument(*name, x.is_traced(), x.donated_to(), where);
    } else if constexpr (tensor_like<Leaf> && !is_number<Leaf>) {
      if (!access::memory(x)) fail_argument(*name, x.is_traced(), access::donated_to(x), where);
    }
  }
  void length(std::uint64_t) const {}
  void key(const std::string&) const {}
};

/// Counts tensors, and the words of all other leaves.
struct leaf_counter {
  std::size_t tensors = 0, statics = 0;

  template <class Leaf>
  void leaf([[maybe_unused]] const Leaf& x) {
    tensors += is_dynamic<Leaf> || tensor_like<Leaf>;
    if constexpr (is_dynamic<Leaf>) ++statics;
    else if constexpr (!tensor_like<Leaf>) statics += words_of(x);
  }
  void length(std::uint64_t) { ++statics; }
  void key(const std::string& k) { statics += words_of(k); }
};

/// Writes leaves one after the other, without undefined tensors. It is two pointers, so that a walk keeps them in registers.
struct leaf_writer {
  engine::argument* next;
  std::uint64_t* value;

  template <class Leaf>
  [[gnu::always_inline]] void leaf(const Leaf& x) {
    if constexpr (is_number<Leaf>) {
      ::new (static_cast<void*>(next++)) engine::argument{.data = const_cast<typename Leaf::value_type*>(x.address()),
                                                          .owner = nullptr,
                                                          .type = dtype_of<typename Leaf::value_type>,
                                                          .rank = 0,
                                                          .extents = nullptr,
                                                          .strides = nullptr,
                                                          .by_value = true,
                                                          .marks = 0};
    } else if constexpr (is_dynamic<Leaf>) {
      *value++ = static_cast<std::uint64_t>(x.type()) << 8 | static_cast<std::uint64_t>(x.rank());
      if (x.memory()) ::new (static_cast<void*>(next++)) engine::argument(x.as_argument());
    } else if constexpr (tensor_like<Leaf>) {
      if (!access::memory(x)) return;
      ::new (static_cast<void*>(next++))
          engine::argument{.data = access::data(x),
                           .owner = &access::memory(x),
                           .type = dtype_of<typename Leaf::value_type>,
                           .rank = Leaf::rank,
                           .extents = as_numbers(x.shape().data()),
                           .strides = as_numbers(x.strides().data()),
                           .by_value = Leaf::rank == 0 && !access::memory(x).where().is_cuda(),
                           .marks = access::marks(x)};
    } else {
      value = put_words(x, value);
    }
  }
  void length(std::uint64_t n) { *value++ = n; }
  void key(const std::string& k) { value = put_words(k, value); }
};

/// The leaves of a call's arguments for guards and kernels. Points into the arguments.
template <class... Args>
class flat_arguments {
  static constexpr tree_facts known = facts(type_list<Args...>{});

 public:
  flat_arguments(const std::string& name, [[maybe_unused]] location where, const Args&... args)
      : flat_arguments(counted(args...)) {
    leaf_writer to{tensors_.data(), statics_.data()};
    ((to = visit_leaves(args, to)), ...);
    if (to.next != tensors_.all().data() + tensors_.all().size())
      (visit_leaves(args, undefined_finder{&name, where}), ...);
  }

  std::span<const engine::argument> tensors() { return tensors_.all(); }
  /// The device of the call: that of its tensors, except rank-0 tensors of the host; else options.device, else the default.
  device where(const options& how) {
    for (const auto& t : tensors_.all())
      if (!t.by_value) return t.where();
    return how.device ? *how.device : engine::default_device();
  }
  std::span<const std::uint64_t> statics() { return statics_.all(); }

 private:
  explicit flat_arguments(const leaf_counter& n) : tensors_(n.tensors), statics_(n.statics) {}

  static leaf_counter counted([[maybe_unused]] const Args&... args) {
    if constexpr (known.fixed) {
      return {static_cast<std::size_t>(known.tensors), static_cast<std::size_t>(known.statics)};
    } else {
      leaf_counter n;
      ((n = visit_leaves(args, n)), ...);
      return n;
    }
  }

  items<engine::argument, known.fixed ? known.tensors : -1> tensors_;
  items<std::uint64_t, known.fixed ? known.statics : -1> statics_;
};

/// Finds the leaf-th tensor of a call, or the leaf or length with the leaf-th word of its statics.
struct leaf_finder {
  int leaf;
  bool of_tensors;
  int argument = 0;
  bool in_tree = false;  ///< the argument is a tree
  engine::leaf_text out = {};

  bool holds(std::size_t words, const std::string& path) {
    const int first = std::exchange(leaf, leaf - static_cast<int>(words));
    if (first < 0 || leaf >= 0) return false;
    engine::name_leaf(out, argument, path);
    return true;
  }
  /// Whether a leaf or a key is the one.
  template <class Leaf>
  bool is(const Leaf& x, const std::string& path) {
    if constexpr (is_dynamic<Leaf>) {
      return holds(1, path);
    } else if constexpr (tensor_like<Leaf>) {
      return of_tensors && holds(1, path);
    } else {
      if (of_tensors || !holds(words_of(x), path)) return false;
      out.value = value_text(x);
      out.floating = is_floating_scalar<Leaf>;
      out.integer = (std::is_integral_v<Leaf> && !std::is_same_v<Leaf, bool>) || std::is_same_v<Leaf, dim>;
      out.in_tree = in_tree;
      return true;
    }
  }
  bool is_length(std::uint64_t n, const std::string& path) {
    if (of_tensors || !holds(1, path)) return false;
    engine::name_length(out, n);
    return true;
  }
};

/// Passes leaves, keys and lengths of `t`, at `path`, to `f` in the order of visit_leaves, until one matches.
template <class T>
SINTER_COLD bool find_leaf(const T& t, const std::string& path, leaf_finder& f) {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::tensor || b == branch::scalar) {
    return f.is(t, path);
  } else if constexpr (b == branch::array || b == branch::vector) {
    if (b == branch::vector && f.is_length(t.size(), path)) return true;
    for (std::size_t i = 0; i < t.size(); ++i) {
      const typename T::value_type& x = t[i];
      if (find_leaf(x, path + step_text(nullptr, i), f)) return true;
    }
    return false;
  } else if constexpr (b == branch::map) {
    if (f.is_length(t.size(), path)) return true;
    std::size_t i = 0;
    for (const auto& [key, x] : t) {
      if (f.is(key, path + "'s key " + std::to_string(i++))) return true;
      if (find_leaf(x, path + "[\"" + key + "\"]", f)) return true;
    }
    return false;
  } else if constexpr (b == branch::optional) {
    return f.is_length(t.has_value(), path) || (t && find_leaf(*t, path, f));
  } else if constexpr (b == branch::variant) {
    bool found = f.is_length(t.index(), path);
    with_alternative(
        t, [&](auto i) { found = found || find_leaf(*get_if<i>(&t), path, f); }, places_of(children_of<T>{}));
    return found;
  } else if constexpr (b != branch::refused) {
    return with_children(t, [&]<class... Child>(const Child&... child) SINTER_INLINE_LAMBDA {
      return [&]<std::size_t... I>(std::index_sequence<I...>) SINTER_INLINE_LAMBDA {
        return (... || find_leaf(child, path + step_text(child_name<T, I>(), I), f));
      }
      (std::index_sequence_for<Child...>{});
    });
  } else {
    return false;
  }
}

/// "argument 1", or in a tree "argument 1.state[3]", and the value of a leaf that is not a tensor. `leaf` counts the tensors
/// of a call, or the words of its statics.
template <class... Args>
SINTER_COLD engine::leaf_text describe_leaf(int leaf, bool of_tensors, const Args&... args) {
  leaf_finder f{leaf, of_tensors};
  [[maybe_unused]] const auto one = [&]<class T>(const T& tree) {
    f.in_tree = !is_leaf<T>;
    const bool done = find_leaf(tree, "", f);
    ++f.argument;
    return done;
  };
  static_cast<void>((... || one(args)));
  return std::move(f.out);
}

}  // namespace sinter::detail
