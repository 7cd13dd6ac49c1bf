// front/control/parts.hpp: traces a branch or a loop's body within the current trace, with trees as inputs and outputs.
#pragma once

#include <string>
#include <type_traits>

#include "../compile/call.hpp"

namespace sinter::detail {

template <int Rank>
inline constexpr dims of_any_extent = dims(Rank);

/// Traces a part until the end of the scope. Reading a value of the outer trace must not break that graph meanwhile.
class part_scope {
 public:
  explicit part_scope(const std::shared_ptr<engine::tracer>& part)
      : whole_(part->outer && part->outermost().call ? &part->outermost().call->whole : nullptr), scope_(part) {}

 private:
  engine::counted_scope whole_;
  engine::tracing_scope scope_;
};

/// Whether two leaves have one dtype and rank.
template <class A, class B>
inline constexpr bool alike = dtype_of<typename A::value_type> == dtype_of<typename B::value_type>&& A::rank == B::rank;

template <class A, class B>
struct fits_carry {
  static constexpr bool value = alike<A, B>;
};
/// Whether the result of a body can be its next carry.
template <class C, class Next>
constexpr bool keeps_carry() {
  if constexpr (std::is_void_v<Next>) return false;
  else return std::is_same_v<C, settled<Next>> || trees_match<fits_carry, C, settled<Next>>();
}

/// The fault of the functions of a loop or a branch.
enum class part_fault { none, arguments, pair, carry, condition, no_result, results };

[[noreturn]] inline void fail_carry(const char* op, const dims& start, const dims& after, location at) {
  fail(op,
       "the carry is " + text::shape(start) + " at the start and " + text::shape(after) +
           " after a step; the body has to return the shapes that it was given",
       at);
}

[[noreturn]] inline void fail_rule_effect(const std::string& op, const char* what, location at) {
  fail(op,
       std::string(what) +
           " calls a function of the host, which derivatives do not do; call it where the derivative is asked for",
       at);
}

/// The values in a tree beside its tensors.
template <class T>
series<std::uint64_t> value_words(const T& tree) {
  series<std::uint64_t> words;
  for_each_leaf(tree, [&]<class Leaf>(const Leaf& x) {
    if constexpr (!tensor_like<Leaf>) {
      const std::size_t before = words.size();
      words.resize(before + words_of(x));
      put_words(x, words.data() + before);
    }
  });
  return words;
}

/// user_error if two trees differ in values beside tensors: these are configuration, which no branch and no step may change.
template <class A, class B>
void check_values(const char* op, const A& a, const B& b, const char* what, location at) {
  if constexpr (facts_of<A>.statics > 0 && facts_of<B>.statics > 0)
    if (value_words(a) != value_words(b)) fail(op, std::string(what) + "; keep it in a rank-0 tensor", at);
}

/// Whether a tree holds numbers, flags or text outside of structs; fields of structs are configuration.
template <class T>
constexpr bool bare_numbers();
template <class... T>
constexpr bool any_bare_numbers(type_list<T...>) {
  return (... || bare_numbers<T>());
}
template <class T>
constexpr bool bare_numbers() {
  constexpr branch b = branch_of<T>();
  if constexpr (facts_of<T>.statics == 0 || b == branch::structure) return false;
  else if constexpr (b == branch::scalar) return true;
  else if constexpr (has_elements(b)) return bare_numbers<element_in<T>>();
  else return any_bare_numbers(children_of<T>{});
}

/// The result of a body, as the next carry.
template <class C, class Next>
C carried(const char* op, const C& was, const Next& is, location at) {
  check_values(op, was, is, "a step changes a number, flag or text in a struct of the carry", at);
  return map_tree(
      op, at,
      [&]<class A, class B>(const A& a, const B& b) {
        static_assert(alike<A, B>, "sinter: the body returns a carry of another dtype or rank than it was given");
        if constexpr (alike<A, B>) {
          if (a.shape() != b.shape()) fail_carry(op, to_dims(a.shape()), to_dims(b.shape()), at);
          if constexpr (std::is_same_v<A, B>) return b;
          else return A(b, at);
        } else {
          return a;
        }
      },
      was, is);
}

/// Appends the nodes of all leaves.
template <class T>
void push_leaves(engine::tracer& t, const T& tree, series<ir::node_id>& to, location at) {
  for_each_leaf(tree, [&]<class Leaf>(const Leaf& x) {
    if constexpr (is_dynamic<Leaf>) to.push_back(x.node(at));
    else if constexpr (tensor_like<Leaf>) to.push_back(push(t, x, at));
  });
}

/// The tree with the values of nodes, in order.
template <class T>
T traced_tree(const std::shared_ptr<engine::tracer>& t, const T& like, const ir::node_id*& next) {
  return map_tree(
      "trace", {}, [&]<class E, dims S>(const tensor<E, S>& x) { return access::traced<E, S>(t, *next++, x.shape()); },
      like);
}

/// The tree with tensors of open extents, which keep their rank.
template <class T>
auto relaxed(const T& tree) {
  return map_tree(
      "cond", {}, []<class E, dims S>(const tensor<E, S>& x) { return tensor<E, of_any_extent<S.rank>>(x); }, tree);
}

template <class T>
constexpr void check_carry() {
  constexpr tree_facts f = facts_of<T>;
  static_assert(f.tensors > 0 && !bare_numbers<T>(),
                "sinter: a carry holds tensors only; write a number as a rank-0 tensor: tensor<float, 0>(0)");
}

}  // namespace sinter::detail
