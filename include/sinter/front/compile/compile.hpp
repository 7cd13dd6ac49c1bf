// front/compile/compile.hpp: compile(fn): a function that is traced once per specialisation, and then runs as kernels.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "../../base/kept.hpp"
#include "../functions/autocast.hpp"
#include "call.hpp"
#include "integers.hpp"
#include "mismatch.hpp"
#include "spec.hpp"

namespace sinter {

namespace detail {

/// A variable whose address stands for a list of argument types.
template <class... Args>
inline char signature_of = 0;

/// Whether a call may take over an argument of type T&&: a non-const rvalue.
template <class T>
inline constexpr bool is_lent = !std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>;

inline bool is_named(const options& how, int index) {
  return std::find(how.donate.begin(), how.donate.end(), index) != how.donate.end();
}

/// Writes a flag for each tensor: whether the call may take it.
struct donation_flags {
  std::uint8_t* next;
  bool taken;

  template <class Leaf>
  void leaf(Leaf&&) {
    using given_leaf = std::remove_reference_t<Leaf>;
    if constexpr (branch_of<std::remove_const_t<given_leaf>>() == branch::tensor)
      *next++ = taken && !std::is_const_v<given_leaf>;
  }
  void length(std::uint64_t) {}
  void key(const std::string&) {}
};

/// Makes tensors handles to nothing that name a call.
struct donation {
  location call;

  template <class Leaf>
  void leaf([[maybe_unused]] Leaf&& x) const {
    using given_leaf = std::remove_reference_t<Leaf>;
    if constexpr (is_tensor<given_leaf>) access::donate(x, call);
    else if constexpr (is_dynamic<given_leaf>) x.donate(call);
  }
  void length(std::uint64_t) const {}
  void key(const std::string&) const {}
};

/// Flags for every leaf of the donated arguments.
template <class... Args>
class donations {
  static constexpr tree_facts known = facts(type_list<std::remove_cvref_t<Args>...>{});

 public:
  donations(const options& how, std::size_t leaves, std::remove_reference_t<Args>&... args)
      : any_(!how.donate.empty() && (... || is_lent<Args>)), flags_(any_ ? leaves : 0) {
    if (!any_) return;
    donation_flags to{flags_.data(), false};
    int index = 0;
    [[maybe_unused]] const auto one = [&]<class T>(T& tree, bool may_take) {
      to.taken = may_take && is_named(how, index);
      to = visit_leaves(tree, to);
      ++index;
    };
    (one(args, is_lent<Args>), ...);
  }

  /// Empty if no argument is donated.
  std::span<const std::uint8_t> flags() { return any_ ? flags_.all() : std::span<const std::uint8_t>(); }

 private:
  const bool any_;
  items<std::uint8_t, known.fixed ? known.tensors : -1> flags_;
};

/// Empties the tensors of donated arguments, which were passed as Args&&. The empty handles name the call, and may outlive the
/// library that made it.
template <class... Args>
void empty_donated(const options& how, location call, last_kept& file, std::remove_reference_t<Args>&... args) {
  if (how.donate.empty()) return;
  call.file = file(call.file);
  int index = 0;
  const auto one = [&]<class T>(T& tree, auto lent) {
    const int own = index++;
    if constexpr (lent.value) {
      if constexpr (facts_of<T>.tensors != 0)
        if (is_named(how, own)) visit_leaves(tree, donation{call});
    }
  };
  (one(args, std::bool_constant<is_lent<Args>>()), ...);
}

}  // namespace detail

namespace detail {

/// Whether compile(F) may be called with Args. Asked only if needed, because the question instantiates a generic function.
template <class F, class... Args>
inline constexpr bool accepted_by = [] {
  if constexpr (takes_numbers<F, Args...>) return true;
  else return takes_arguments<F&, given_t<false, Args>...>() && std::is_invocable_v<F&, given_t<false, Args>...>;
}();
/// Like accepted_by, but also true after a compile error inside the function.
template <class F, class... Args>
inline constexpr bool taken_by = [] {
  if constexpr (accepted_by<F, Args...>) return true;
  else return told_to_take<F&, given_t<false, Args>...>();
}();

}  // namespace detail

/// A compiled function. It is a handle: copies share the specialisations, and a moved-from handle stays valid. Calls are safe
/// from many threads at once.
template <class F>
class compiled {
  template <class... Args>
  static constexpr bool taken = detail::taken_by<F, Args...>;
  template <class... Args>
  static constexpr bool expects = taken<const typename detail::tensor_of_spec<Args>::type&...>;

 public:
  compiled(F fn, const options& how, location where) : state_(detail::make_on_heap<state>(std::move(fn), how, where)) {}
  compiled(const compiled&) = default;
  compiled& operator=(const compiled&) = default;

  /// The function's result for trees of tensors. Guards compare tensors by dtype, extents, layout and device. They compare
  /// integers, enums, flags, text, vector lengths, engaged optionals, is_value classes and hashable classes by value. A call
  /// that differs is traced anew. A floating argument is a number<T> in the function, and each call reads it; in a struct it
  /// is compared by value. An integer whose parameter is a rank-0 tensor is also read by each call. Inside another trace, the
  /// function becomes part of that trace. Expressions in the result become tensors.
  template <class... Args>
  requires(taken<Args...>) auto operator()(Args&&... args) const {
    return called(self().where, std::forward<Args>(args)...);
  }
  // The same with the line of the call, for donated arguments. A default argument cannot follow a pack. `At` is compared
  // first, so that the function is not asked about too few arguments.
  template <class A, std::same_as<location> At = location>
  requires(taken<A>) auto operator()(A&& a, At at = location::current()) const {
    return called(at, std::forward<A>(a));
  }
  template <class A, class B, std::same_as<location> At = location>
  requires(taken<A, B>) auto operator()(A&& a, B&& b, At at = location::current()) const {
    return called(at, std::forward<A>(a), std::forward<B>(b));
  }
  template <class A, class B, class C, std::same_as<location> At = location>
  requires(taken<A, B, C>) auto operator()(A&& a, B&& b, C&& c, At at = location::current()) const {
    return called(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c));
  }
  template <class A, class B, class C, class D, std::same_as<location> At = location>
  requires(taken<A, B, C, D>) auto operator()(A&& a, B&& b, C&& c, D&& d, At at = location::current()) const {
    return called(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d));
  }
  template <class A, class B, class C, class D, class E, std::same_as<location> At = location>
  requires(taken<A, B, C, D, E>) auto operator()(A&& a, B&& b, C&& c, D&& d, E&& e, At at = location::current()) const {
    return called(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d),
                  std::forward<E>(e));
  }
  template <class A, class B, class C, class D, class E, class G, std::same_as<location> At = location>
  requires(taken<A, B, C, D, E, G>) auto operator()(A&& a, B&& b, C&& c, D&& d, E&& e, G&& g,
                                                    At at = location::current()) const {
    return called(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d),
                  std::forward<E>(e), std::forward<G>(g));
  }

  // A wrong call. Mismatch is the first argument that differs, and the type that the function wants.
  template <class... Args, std::enable_if_t<!taken<Args...>, int> = 0,
            class Mismatch = detail::mismatch_t<F, detail::given_t<false, Args>...>>
  SINTER_WRONG_ARGUMENTS("compile")
  detail::wrong_call<> operator()(Args&&...) const {
    return {};
  }

  /// Makes the kernels of calls with arguments like these, ahead of such a call. A spec stands for a tensor. Tensors are read
  /// for dtypes, extents, strides and devices, not for elements. user_error for a function that reads values: calls compile
  /// its segments.
  template <class... Args>
  requires(expects<Args...>) void precompile(const Args&... args) const {
    constexpr bool numbers = detail::takes_numbers<F, const typename detail::tensor_of_spec<Args>::type&...>;
    const auto prepare = [&](auto&, const engine::call& c, const engine::tracing& tracing, auto&&...) {
      self().specialised->prepare(c, tracing);
    };
    detail::with_opened<F>([&](const auto&... settled) { asked(false, prepare, settled...); },
                           detail::expected<numbers>(args, self().where)...);
  }
  template <class... Args, std::enable_if_t<!expects<Args...>, int> = 0,
            class Mismatch = detail::mismatch_t<F, typename detail::tensor_of_spec<Args>::type...>>
  SINTER_WRONG_ARGUMENTS("precompile")
  void precompile(const Args&...) const {}

  /// use(graph, tensors, options, device) for a call with these arguments. Without Open, the trace fixes all extents. With
  /// Open, its open extents and number inputs are those of the specialisation that would answer the call. user_error for a
  /// function that reads values.
  template <bool Open = false, class Use, class... Args>
  auto inspect(const Use& use, const Args&... args) const {
    const auto look = [&](auto& flat, const engine::call& c, const engine::tracing& tracing, auto&&...) {
      auto sizes = Open ? self().specialised->open_sizes(c, tracing) : engine::size_layout{};
      engine::traced made = engine::trace_sizes(c, tracing, std::move(sizes));
      series<engine::argument> inputs(flat.tensors().begin(), flat.tensors().end());
      const auto numbers = Open ? self().specialised->take_numbers(c, tracing, made, inputs) : nullptr;
      return use(made.graph, std::span<const engine::argument>(inputs), how(), c.where);
    };
    constexpr bool numbers = detail::takes_numbers<F, const Args&...>;
    if constexpr (detail::accepted_by<F, const Args&...>)
      return detail::with_opened<F>([&](const auto&... settled) { return asked(false, look, settled...); },
                                    detail::given<numbers>(args)...);
  }

  /// use(call, tracing): the engine's view of a call with these arguments, which it may trace.
  template <class Use, class... Args>
  void ask(const Use& use, const Args&... args) const {
    const auto look = [&](auto&, const engine::call& c, const engine::tracing& tracing, auto&&...) { use(c, tracing); };
    detail::with_opened<F>([&](const auto&... settled) { asked(false, look, settled...); }, args...);
  }

  /// Waits for kernels that are compiled in the background.
  void wait_ready() const { self().specialised->wait_ready(); }

  /// The compilation's report of the specialisation used last.
  sinter::report report() const { return self().specialised->last(); }
  /// The explanation of all specialisations, the one used last first.
  explanation explain() const { return self().specialised->explain(); }
  /// The options given to compile().
  const options& how() const { return self().specialised->how(); }
  /// The number of specialisations.
  std::size_t specialisations() const { return self().specialised->size(); }

 private:
  struct state {
    state(F f, const options& how, location at)
        : fn(std::move(f)), specialised(engine::make_function(how, at)), where(at) {}
    F fn;
    std::shared_ptr<engine::function> specialised;
    location where;
    detail::last_kept caller;  ///< the file of the last call with donated arguments
  };

  /// A call at `at`. After a successful call, donated arguments are empty.
  template <class... Args>
  auto called(location at, Args&&... args) const {
    constexpr bool numbers = detail::takes_numbers<F, Args...>;
    constexpr bool may_throw = !std::is_nothrow_invocable_v<F&, detail::given_t<numbers, Args>...>;
    static_assert(may_throw, "sinter: [compile] the function is noexcept, but exceptions end a trace; drop noexcept");
    if constexpr (detail::accepted_by<F, Args...> && may_throw) {
      using result_type = detail::call_result_t<F, detail::given_t<numbers, Args>...>;
      if constexpr (!(... || detail::is_lent<Args>)) {
        return routed<result_type, numbers>(std::forward<Args>(args)...);
      } else if constexpr (std::is_void_v<result_type>) {
        routed<result_type, numbers>(std::forward<Args>(args)...);
        detail::empty_donated<Args...>(how(), at, self().caller, args...);
      } else {
        return donating<result_type, numbers>(at, std::forward<Args>(args)...);
      }
    }
  }

  template <class Result, bool Numbers, class... Args>
  Result donating(location at, Args&&... args) const {
    Result result = routed<Result, Numbers>(std::forward<Args>(args)...);  // in no inner scope: g++ 12 would move it
    detail::empty_donated<Args...>(how(), at, self().caller, args...);
    return result;
  }

  /// Runs the call as a program, or as a part of a trace.
  template <class Result, bool Numbers, class... Args>
  Result routed(Args&&... args) const {
    const auto& outer = engine::current();
    if (!outer)
      return detail::with_opened<F>(
          [&]<class... Opened>(Opened&&... x) {
            return call<Result>(detail::given<Numbers>(std::forward<Opened>(x))...);
          },
          std::forward<Args>(args)...);
    const bool unbroken = outer->call && self().specialised->how().fullgraph;
    const engine::counted_scope fullgraph(unbroken ? &outer->call->fullgraph : nullptr);
    return natively<Result>(detail::given<Numbers>(args)...);
  }

  /// Runs the function natively, on copies: the owner of an argument does not see changes to it.
  template <class Result, class... Args>
  Result natively(const Args&... args) const {
    if constexpr (std::is_void_v<Result>) detail::invoke(self().where, self().fn, Args(args)...);
    else return detail::settle_tree(detail::invoke(self().where, self().fn, Args(args)...));
  }

  /// Asks the engine about a call: then(arguments, call, tracing, target, answered). `answered` is null, or the
  /// engine::traced of a function that was found to read values. Only a `live` call, whose tensors have elements, can be
  /// answered that way.
  template <class Then, class... Args>
  auto asked(bool live, Then&& then, const Args&... args) const {
    const state& s = self();
    const options& how = s.specialised->how();
    detail::flat_arguments<Args...> flat(how.name, s.where, args...);
    const device on = flat.where(how);
    engine::trace_target to{on, s.where};
    to.how = live ? &how : nullptr;
    to.held = live ? &s.specialised->held() : nullptr;
    to.signature = &detail::signature_of<Args...>;
    to.arguments = flat.tensors();
    to.memory_budget = how.memory_budget;
    to.backend = how.backend;
    std::shared_ptr<void> answered;
    const auto trace = [&](const engine::trace_request& request) {
      for (int index : how.donate)
        if (index < 0 || index >= static_cast<int>(sizeof...(Args)))
          detail::fail_donation(how.name, index, sizeof...(Args), s.where);
      engine::trace_target asked_for = to;
      asked_for.request = &request;
      engine::traced made = detail::trace_call(self().fn, asked_for, args...);
      if (made.answer) answered = detail::on_heap(made);
      return made;
    };
    const auto describe = [&](int leaf, bool of_tensors) { return detail::describe_leaf(leaf, of_tensors, args...); };
    const std::pair what(&trace, &describe);
    const engine::tracing tracing{[](const void* w, const engine::trace_request& request) {
                                    return (*static_cast<decltype(&what)>(w)->first)(request);
                                  },
                                  [](const void* w, int leaf, bool of_tensors) {
                                    return (*static_cast<decltype(&what)>(w)->second)(leaf, of_tensors);
                                  },
                                  &what};
    const engine::call c{&detail::signature_of<Args...>, flat.tensors(), flat.statics(), on,
                         static_cast<std::uint64_t>(detail::product_dtype)};
    return then(flat, c, tracing, to, answered);
  }

  template <class Result, class... Args>
  Result call(Args&&... args) const {
    if (engine::current_stance == stance::eager) return natively<Result>(args...);
    return asked(
        true,
        [&](auto& flat, const engine::call& c, const engine::tracing& tracing, engine::trace_target& to,
            std::shared_ptr<void>& answered) -> Result {
          engine::function& f = *self().specialised;
          {
            const engine::found hit = f.find(c, tracing);
            if (hit.code) {
              detail::donations<Args...> donated(f.how(), flat.tensors().size(), args...);
              return detail::run_program<Result>(*hit.code, hit.skeleton, flat.tensors(), donated.flags());
            }
            to.answer = hit.reads_values;
          }
          if (!to.answer) return natively<Result>(args...);
          if (answered) return detail::answer_of<Result>(*static_cast<engine::traced*>(answered.get()));
          const engine::trace_request request = f.segment_request(c);
          to.request = &request;
          engine::traced again = detail::trace_call(self().fn, to, std::as_const(args)...);
          f.answered(c, again.did);
          return detail::answer_of<Result>(again);
        },
        std::as_const(args)...);
  }

  state& self() const { return *static_cast<state*>(state_.get()); }

  std::shared_ptr<void> state_;  ///< points to a `state`
};

/// Compiles a function of trees of tensors. The first call with a new kind of arguments traces `fn`, differentiates, fuses,
/// emits, compiles and loads; later calls run the kernels. `fn` takes its arguments by value or const reference. It runs only
/// while tracing, possibly several times; a function that reads values (`item`, `if`) runs at each call. A captured concrete
/// tensor is read by every call. Other captures keep their value from the trace. options.donate lets a call reuse the memory
/// of arguments passed as rvalues, so `p = step(std::move(p), x)` updates p in place. Exceptions that `fn` throws while
/// traced pass through, and leave the compiled function unchanged.
// clang-format off
template <class F>
auto compile(F&& fn, const options& how = {}, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  using function = std::decay_t<F>;
  static_assert(std::is_class_v<function> || std::is_pointer_v<function> || std::is_member_pointer_v<function>,
                "sinter: [compile] takes a function: compile([](tensor<float, 1> x) { return x * 2; })");
  return compiled<std::decay_t<F>>(std::forward<F>(fn), how, where);
}

namespace detail {

template <class>
inline constexpr bool is_compiled = false;
template <class F>
inline constexpr bool is_compiled<compiled<F>> = true;

/// The function that verify, minimize and explain return: calls `use` with a compiled function and arguments.
template <class F, class Use>
class use_of_compiled {
 public:
  use_of_compiled(compiled<F> f, Use use) : f_(std::move(f)), use_(std::move(use)) {}

  template <class... Args>
  requires(taken_by<F, const Args&...>) auto operator()(const Args&... args) const { return use_(f_, args...); }
  template <class... Args, std::enable_if_t<!taken_by<F, const Args&...>, int> = 0,
            class Mismatch = mismatch_t<F, given_t<false, const Args&>...>>
  SINTER_WRONG_ARGUMENTS("compile")
  wrong_call<> operator()(const Args&...) const {
    return {};
  }

 private:
  compiled<F> f_;
  Use use_;
};

}  // namespace detail

/// fn.precompile(args...): makes the kernels of calls with arguments like these ahead of such a call.
/// `precompile(step, params, spec<tensor<float, 2>>{{64, 100}})`
template <class F, class... Args>
requires(detail::taken_by<F, const typename detail::tensor_of_spec<Args>::type&...>) void precompile(
    const compiled<F>& fn, const Args&... args) {
  fn.precompile(args...);
}
template <class F, class... Args,
          std::enable_if_t<!detail::taken_by<F, const typename detail::tensor_of_spec<Args>::type&...>, int> = 0,
          class Mismatch = detail::mismatch_t<F, typename detail::tensor_of_spec<Args>::type...>>
SINTER_WRONG_ARGUMENTS("precompile")
void precompile(const compiled<F>&, const Args&...) {}
template <class F, class... Args>
requires(!detail::is_compiled<F>)
    SINTER_WRONG_CALL("[precompile] the function is not compiled; write auto f = compile(fn); precompile(f, args...)")
void precompile(const F&, const Args&...) {}

}  // namespace sinter
