// front/call.hpp: a call in the engine's terms: arguments as leaves, a function as a graph, outputs as a result tree.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../base/callback.hpp"
#include "../base/text.hpp"
#include "../engine.hpp"
#include "evaluate.hpp"
#include "items.hpp"
#include "number.hpp"
#include "tree_map.hpp"

namespace sinter::detail {

/// A tree with its expressions evaluated: a stage point.
template <class T>
auto settle_tree(T&& t) {
  using tree_type = std::remove_cvref_t<T>;
  if constexpr (facts_of<T>.lazy)
    return map_tree(
        "tree", {}, [](const auto& x) { return x; }, t);
  else return tree_type(std::forward<T>(t));
}

template <class T>
using settled = decltype(settle_tree(std::declval<T>()));

/// A C++ number that a call can leave open.
template <class T>
inline constexpr bool is_floating_scalar = false;
template <scalar_like T>
inline constexpr bool is_floating_scalar<T> = !std::is_integral_v<T> && !std::is_same_v<T, long double> &&
                                              !std::is_same_v<T, dim> && !std::is_same_v<T, formula_number>;

/// "text", as it is written; an array that no 0 ends is text to its end.
template <class T>
inline constexpr bool is_text_literal = false;
template <std::size_t N>
inline constexpr bool is_text_literal<const char (&)[N]> = true;

/// What a function is given for an argument: floating ones are numbers, if Numbers; expressions are tensors, and text
/// literals std::string.
template <bool Numbers, class T>
decltype(auto) given(T&& x) {
  using value = std::remove_cvref_t<T>;
  if constexpr (is_text_literal<T&&>) return std::string(std::begin(x), std::find(std::begin(x), std::end(x), '\0'));
  else if constexpr (is_floating_scalar<value> && Numbers) return number<value>(x);
  else if constexpr (facts_of<T>.lazy && !is_number<value>) return settle_tree(std::forward<T>(x));
  else return static_cast<T&&>(x);
}
template <bool Numbers, class T>
using given_t = std::remove_cvref_t<decltype(given<Numbers>(std::declval<T>()))>;

/// Whether F takes its floating arguments as numbers.
template <class F, class... Args>
inline constexpr bool takes_numbers = std::is_invocable_v<F&, given_t<true, Args>...>;

template <class Result>
struct call_result {
  using type = settled<Result>;
};
template <>
struct call_result<void> {
  using type = void;
};

/// The result of calling F with the trees Args by value, as a tree of tensors; void stays void.
template <class F, class... Args>
using call_result_t = typename call_result<std::invoke_result_t<F&, Args...>>::type;

template <class T>
std::uint64_t bits_of(T x) {
  if constexpr (std::is_enum_v<T>) return static_cast<std::uint64_t>(static_cast<std::underlying_type_t<T>>(x));
  else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) return x.bits;
  else if constexpr (std::is_same_v<T, float>) return std::bit_cast<std::uint32_t>(x);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<std::uint64_t>(x);
  else return static_cast<std::uint64_t>(x);
}

/// How many words a leaf that is no tensor is.
template <class T>
std::size_t words_of(const T& x) {
  if constexpr (text_leaf<T>) return 1 + (x.size() + 7) / 8;
  else if constexpr (bytes_leaf<T>) return (sizeof(T) + 7) / 8;
  else return 1;
}

inline std::uint64_t* put_bytes(const void* from, std::size_t bytes, std::uint64_t* to) {
  if (bytes == 0) return to;  // of a string_view of nothing `from` is null
  const std::size_t words = (bytes + 7) / 8;
  to[words - 1] = 0;
  std::memcpy(to, from, bytes);
  return to + words;
}

template <class T>
inline constexpr engine::value_class value_class_of = {
    [](const void* a, const void* b) { return bool(*static_cast<const T*>(a) == *static_cast<const T*>(b)); },
    [](const void* x) -> std::shared_ptr<const void> { return on_heap(*static_cast<const T*>(x)); }};

/// Writes those words: all that there is to know of the leaf. Text begins with its length.
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

/// A leaf that is no tensor, for people.
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

[[noreturn]] inline void fail_argument(const std::string& name, bool traced, location where) {
  fail(name,
       traced ? "an argument was traced by a function that has returned; return it from there and pass the result"
              : "an argument holds a default-constructed tensor; assign to it first",
       where);
}

/// The leaves of a call's arguments, as guards and kernels see them. Points into the arguments.
template <class... Args>
class flat_arguments {
  static constexpr tree_facts known = facts(type_list<Args...>{});

 public:
  flat_arguments(const std::string& name, location where, const Args&... args)
      : tensors_(count<true>(args...)), statics_(count<false>(args...)) {
    engine::argument* next = tensors_.data();
    std::uint64_t* value = statics_.data();
    [[maybe_unused]] const auto leaf = [&]<class Leaf>(const Leaf& x) {
      if constexpr (is_number<Leaf>) {
        ::new (static_cast<void*>(next)) engine::argument;
        next->data = const_cast<typename Leaf::value_type*>(x.address());
        next->type = dtype_of<typename Leaf::value_type>;
        next++->by_value = true;
      } else if constexpr (tensor_like<Leaf>) {
        if (!access::memory(x)) fail_argument(name, x.is_traced(), where);
        constexpr dtype type = dtype_of<typename Leaf::value_type>;
        ::new (static_cast<void*>(next))
            engine::argument{access::data(x), &access::memory(x),           type,
                             Leaf::rank,      as_numbers(x.shape().data()), as_numbers(x.strides().data())};
        next->marks = access::marks(x);
        next++->by_value = Leaf::rank == 0 && !access::memory(x).where().is_cuda();
      } else {
        value = put_words(x, value);
      }
    };
    (for_each_leaf(args, leaf, [&](std::uint64_t n) { *value++ = n; }), ...);
  }

  std::span<const engine::argument> tensors() { return tensors_.all(); }
  /// Where the call runs: where its tensors are, rank-0 ones of the host aside; else options.device, else the default.
  device where(const options& how) {
    for (const auto& t : tensors_.all())
      if (!t.by_value) return t.where();
    return how.device ? *how.device : engine::default_device();
  }
  std::span<const std::uint64_t> statics() { return statics_.all(); }

 private:
  template <bool Tensors>
  static std::size_t count(const Args&... args) {
    if constexpr (known.fixed) {
      return static_cast<std::size_t>(Tensors ? known.tensors : known.statics);
    } else {
      std::size_t n = 0;
      const auto leaf = [&]<class Leaf>([[maybe_unused]] const Leaf& x) {
        if constexpr (tensor_like<Leaf>) n += Tensors;
        else if constexpr (!Tensors) n += words_of(x);
      };
      (for_each_leaf(args, leaf, [&](std::uint64_t) { n += !Tensors; }), ...);
      return n;
    }
  }

  items<engine::argument, known.fixed ? known.tensors : -1> tensors_;
  items<std::uint64_t, known.fixed ? known.statics : -1> statics_;
};

/// "argument 1", or for a tree "argument 1 leaf 3", and the value of what is no tensor: the leaf-th tensor of a call, or what
/// holds the leaf-th word of its statics.
template <class... Args>
SINTER_COLD engine::leaf_text describe_leaf(int leaf, bool of_tensors, const Args&... args) {
  engine::leaf_text out;
  int argument = 0;
  [[maybe_unused]] const auto one = [&]<class T>(const T& tree) {
    int within = 0;
    const auto found = [&](std::size_t words) {
      const int first = std::exchange(leaf, leaf - static_cast<int>(words));
      if (first < 0 || leaf >= 0) return false;
      engine::name_leaf(out, argument, is_leaf<T> ? -1 : within);
      return true;
    };
    for_each_leaf(
        tree,
        [&]<class Leaf>(const Leaf& x) {
          if constexpr (tensor_like<Leaf>) {
            if (of_tensors) found(1);
          } else if (!of_tensors && found(words_of(x))) {
            out.value = value_text(x);
            out.floating = is_floating_scalar<Leaf>;
          }
          ++within;
        },
        [&](std::uint64_t n) {
          if (!of_tensors && found(1)) engine::name_length(out, n);
        });
    ++argument;
  };
  (one(args), ...);
  return out;
}

/// The tree with every tensor replaced by a new input of the graph.
template <class T>
T input_tree(const std::shared_ptr<engine::tracer>& tracer, const T& t, location where) {
  if constexpr (facts_of<T>.tensors == 0) return t;
  else
    return map_tree(
        "trace", where,
        [&]<class E, dims Shape>(const tensor<E, Shape>& x) {
          index_array<Shape.rank> extents = x.shape();
          tracer->input_extents(static_cast<int>(tracer->graph.inputs.size()), extents.data(), Shape.rank);
          check_static<Shape>("trace", extents, where);
          const ir::node_id node =
              tracer->graph.add_input(dtype_of<E>, engine::to_ir(extents.data(), Shape.rank), where);
          return access::traced<E, Shape>(tracer, node, extents);
        },
        t);
}

/// The number as an input of the graph. One too many for the tracer's bits is taken by its value.
template <class T>
number<T> input_tree(const std::shared_ptr<engine::tracer>& tracer, const number<T>& x, location where) {
  const auto leaf = static_cast<int>(tracer->graph.inputs.size());
  const ir::node_id node = tracer->graph.add_input(dtype_of<T>, {}, where);
  const engine::specialised value{{leaf, -1}, bits_of(*x.address()), where};
  const std::size_t bit = tracer->numbers.size();
  if (bit == 64) {
    tracer->specialise(value);
    return x;
  }
  tracer->numbers.push_back(value);
  return number<T>(*x.address(), tracer, node, std::uint64_t{1} << bit);
}

/// Tells the tracer whether there are floating C++ values in a tree.
template <class T>
void note_scalars(engine::tracer& t, const T& tree) {
  if constexpr (facts_of<T>.statics != 0)
    for_each_leaf(tree, [&]<class Leaf>(const Leaf&) { t.has_scalars = t.has_scalars || is_floating_scalar<Leaf>; });
}

/// The tree with handles to nothing.
template <class T>
T hollow(const T& t) {
  if constexpr (facts_of<T>.tensors == 0) return t;
  else
    return map_tree(
        "trace", {}, []<class E, dims Shape>(const tensor<E, Shape>&) { return tensor<E, Shape>(); }, t);
}

template <class T>
constexpr bool holds_view();

template <class... T>
constexpr bool holds_view(type_list<T...>) {
  return (... || holds_view<T>());
}

/// Whether a tree has text that it does not own.
template <class T>
constexpr bool holds_view() {
  constexpr branch b = branch_of<T>();
  if constexpr (b == branch::refused || b == branch::tensor) return false;
  else if constexpr (b == branch::scalar) return std::is_same_v<T, std::string_view>;
  else if constexpr (b == branch::array || b == branch::vector || b == branch::optional)
    return holds_view<typename T::value_type>();
  else return holds_view(children_of<T>{});
}

/// Calls fn once on inputs shaped like `args` and keeps what it did; of a function that reads values, the results. Whatever
/// fn throws passes through.
template <class F, class... Args>
SINTER_COLD engine::traced trace_call(F& fn, const engine::trace_target& to, const Args&... args) {
  using result_type = call_result_t<F, Args...>;
  const location where = to.where;
  engine::traced out;
  out.graph = engine::make_tracer(to);
  const engine::tracing_scope scope(out.graph);
  const engine::live_scope until_here(*out.graph);
  std::tuple<Args...> inputs{input_tree(out.graph, args, where)...};
  if (to.request) (note_scalars(*out.graph, args), ...);
  if constexpr (std::is_void_v<result_type>) {
    std::apply([&](Args&... input) { detail::invoke(where, fn, std::move(input)...); }, inputs);
  } else {
    constexpr bool owned = !holds_view<result_type>();
    static_assert(
        owned,
        "[compile] the result holds a std::string_view, which later calls would return too; return a std::string");
    result_type result =
        std::apply([&](Args&... input) { return settle_tree(detail::invoke(where, fn, std::move(input)...)); }, inputs);
    series<ir::node_id> nodes;
    for_each_leaf(result, [&]<class Leaf>([[maybe_unused]] Leaf&& x) {
      if constexpr (tensor_like<std::remove_cvref_t<Leaf>>) nodes.push_back(push(*out.graph, x, where));
      else if constexpr (std::is_same_v<Leaf, dim&>) x = engine::returned_size(*out.graph, x);
      else if constexpr (std::is_same_v<Leaf, const dim&>) static_cast<void>(static_cast<std::int64_t>(x));
    });
    out.graph->graph.outputs = std::move(nodes);
    out.skeleton = on_heap(hollow(result));
  }
  engine::finish(out);
  return out;
}

/// The result tree: the skeleton's tensors are what `next` gives, in order.
template <class Result, class Next>
Result assemble(const void* skeleton, Next&& next) {
  const Result& shape = *static_cast<const Result*>(skeleton);
  if constexpr (facts_of<Result>.tensors == 0) return shape;
  else
    return map_tree(
        "run", {},
        [&]<class E, dims Shape>(const tensor<E, Shape>&) {
          auto& out = next();
          index_array<Shape.rank> extents;
          std::copy_n(std::data(out.extents), Shape.rank, extents.data());
          E* data = static_cast<E*>(out.memory.data());
          return access::make<E, Shape>(std::move(out.memory), data, extents, row_major(extents));
        },
        shape);
}

/// What trace_call has answered.
template <class Result>
SINTER_COLD Result answer_of(engine::traced& t) {
  if constexpr (!std::is_void_v<Result>) {
    engine::captured* next = t.answer->data();
    return assemble<Result>(t.skeleton.get(), [&]() -> engine::captured& { return *next++; });
  }
}

/// Runs a program and puts its outputs where the skeleton has tensors.
template <class Result>
Result run_program(const engine::program& code, const void* skeleton, std::span<const engine::argument> arguments,
                   std::span<const std::uint8_t> donate) {
  constexpr tree_facts known = [] {
    if constexpr (std::is_void_v<Result>) return tree_facts{};
    else return facts_of<Result>;
  }();
  items<engine::output, known.fixed ? known.tensors : -1> outputs(code.output_count());
  code.run(arguments, donate, outputs.data());
  if constexpr (!std::is_void_v<Result>) {
    engine::output* next = outputs.data();
    return assemble<Result>(skeleton, [&]() -> engine::output& { return *next++; });
  }
}

}  // namespace sinter::detail
