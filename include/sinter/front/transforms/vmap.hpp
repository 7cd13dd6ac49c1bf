// front/transforms/vmap.hpp: vmap: a function of one item becomes a function of many items.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../control/parts.hpp"
#include "../trees/stacked.hpp"
#include "call_alone.hpp"

namespace sinter {

template <auto... Axes>
struct in_axes_t {};
template <auto... Axes>
struct out_axes_t {};

/// The lane axes of vmap's arguments. Each argument has an entry: an axis (negative axes count from the end), or `none`.
template <auto... Axes>
inline constexpr in_axes_t<Axes...> in_axes{};
/// The lane axes of the results: one entry for all, or an entry for each part of a tuple.
template <auto... Axes>
inline constexpr out_axes_t<Axes...> out_axes{};

namespace detail {

template <class T>
inline constexpr bool are_in_axes = false;
template <auto... Axes>
inline constexpr bool are_in_axes<in_axes_t<Axes...>> = true;
template <class T>
inline constexpr bool are_out_axes = false;
template <auto... Axes>
inline constexpr bool are_out_axes<out_axes_t<Axes...>> = true;
template <class T>
concept axes_of_lanes = are_in_axes<T> || are_out_axes<T>;

/// An entry of in_axes or out_axes, for a tree T.
template <auto Axis>
struct lane_axis {
  static constexpr bool shared = false;
  template <class T>
  using lane = typename lanes<Axis>::template type<T>;
  template <class T>
  using stack = typename stacks<Axis>::template type<T>;
};
template <auto Axis>
requires std::is_same_v<std::remove_const_t<decltype(Axis)>, none_t>
struct lane_axis<Axis> {
  static constexpr bool shared = true;
  template <class T>
  using lane = T;
  template <class T>
  using stack = T;
};

/// Entry I of a list; an empty list stands for zeros.
template <std::size_t I, auto... Axes>
constexpr auto entry_at() {
  if constexpr (sizeof...(Axes) == 0) return lane_axis<0>{};
  else if constexpr (I < sizeof...(Axes)) return std::tuple_element_t<I, std::tuple<lane_axis<Axes>...>>{};
  else return lane_axis<none>{};
}

/// Whether an argument has lanes. Numbers, traced or not, and trees without tensors are shared by all lanes.
template <class T>
inline constexpr bool has_lanes = facts_of<T>.tensors > 0 && !is_number<T>;

template <class Entry, class T>
using entry_for = std::conditional_t<has_lanes<T>, Entry, lane_axis<none>>;

/// Finds tensors of too low a rank for the stack's axis.
template <int Axis>
struct short_results {
  template <class T>
  static constexpr bool of() {
    if constexpr (tensor_like<T> || shaped_struct<T>) return Axis < -T::rank - 1 || Axis > T::rank;
    else return false;
  }
};
struct struct_parts {
  template <class T>
  static constexpr bool of() {
    return branch_of<T>() == branch::structure && !shaped_struct<T>;
  }
};

template <auto Axis>
constexpr bool is_entry() {
  using entry = std::remove_const_t<decltype(Axis)>;
  return std::is_same_v<entry, int> || std::is_same_v<entry, none_t>;
}

/// The fault of an argument T with its lanes along this axis.
template <class T, auto Axis>
constexpr transform_fault fault_of_argument(lane_axis<Axis>) {
  if constexpr (lane_axis<Axis>::shared) return transform_fault::none;
  else if constexpr (any_part<plain_parts, T>()) return transform_fault::plain_struct;
  else if constexpr (any_part<short_parts<Axis>, T>()) return transform_fault::lane_axis;
  else if constexpr (Axis != 0 && any_part<stacked_parts, T>()) return transform_fault::stacked_axis;
  else return transform_fault::none;
}

/// Checks a result in the same way.
template <class T, auto Axis>
constexpr bool check_result(lane_axis<Axis>) {
  if constexpr (lane_axis<Axis>::shared) return true;
  else {
    constexpr bool axes = !any_part<short_results<Axis>, T>(), structs = Axis == 0 || !any_part<struct_parts, T>();
    static_assert(axes, "sinter: [vmap] an axis of out_axes is out of range for the rank of its result");
    static_assert(structs,
                  "sinter: [vmap] a struct comes back as stacked<S>, along axis 0; its entry in out_axes is 0");
    return axes && structs;
  }
}

/// The number of lanes, which each argument must confirm.
struct lane_count {
  dim lanes = 0;
  int argument = -1;

  void note(int from, dim extent, location where) {
    const auto number = [](int n) { return std::to_string(n); };
    if (argument >= 0 && extent != lanes)
      fail("vmap",
           (from == argument ? "the tensors of argument " + number(from) + " have " + lanes.text() + " and " +
                                   extent.text() + " lanes"
                             : "argument " + number(from) + " has " + extent.text() + " lanes, argument " +
                                   number(argument) + " has " + lanes.text()) +
               "; give all the same number, or share an argument by the entry none in in_axes",
           where);
    if (argument < 0) lanes = extent, argument = from;
  }
};

/// Moves axis `from` to the front.
inline handle lanes_first(handle h, int from, location at) {
  if (from == 0) return h;
  op_shapes::axis_list perm;
  perm.at[perm.count++] = from;
  for (int i = 0; i < h.extents.rank; ++i)
    if (i != from) perm.at[perm.count++] = i;
  return views::permute(h, perm, at);
}
/// Moves the first axis to `to`.
inline handle lanes_at(handle h, int to, location at) {
  if (to == 0) return h;
  op_shapes::axis_list perm;
  for (int i = 0; i < h.extents.rank; ++i) perm.at[perm.count++] = i == to ? 0 : i < to ? i + 1 : i;
  return views::permute(h, perm, at);
}

/// The result of all lanes, from the result of one lane.
inline handle lanes_of_result(ir::node_id node, bool varies, dim lanes, int axis, location at) {
  handle h = of_node(node);
  if (!varies) {
    dims to{lanes};
    for (dim e : h.extents) to.push(e);
    h = views::broadcast(h, to, at);
  }
  return lanes_at(std::move(h), axis, at);
}

inline std::shared_ptr<engine::tracer> body_of_lanes() {
  auto body = engine::make_inner_tracer();
  body->in_lanes = true;
  return body;
}

/// A trace of a function for all lanes.
class lane_trace {
 public:
  explicit lane_trace(location where) : where_(where) {}

  dim lanes() const { return count_.lanes; }

  /// The argument of one lane; it becomes an operand.
  template <class T, auto Axis>
  auto argument(const T& x, lane_axis<Axis>, int index) {
    if constexpr (lane_axis<Axis>::shared) return x;
    else
      return tree_as<typename lane_axis<Axis>::template lane<T>>(x, [&]<class From, class To>(const From& leaf,
                                                                                              std::type_identity<To>) {
        if constexpr (is_dynamic<From>) {
          return From(operand(of_node(leaf.node(where_)), place_of_lanes(Axis, leaf.rank()), index));
        } else {
          constexpr int axis = place_of_axis(Axis, From::rank);
          return typed<typename To::value_type, To::static_shape>(operand(untyped(leaf, where_), axis, index), where_);
        }
      });
  }

  template <class F, class... Args>
  auto call(F& f, Args&&... args) {
    const part_scope scope(body_);
    auto result = settle_tree(detail::invoke(where_, f, std::forward<Args>(args)...));
    push_leaves(*body_, result, body_->graph.outputs, where_);
    return result;
  }

  void push() {
    if (count_.argument < 0)
      fail("vmap", "there are no lanes: no argument that has an axis in in_axes holds a tensor", where_);
    const series<char> varies(operands_.size(), 1);
    pushed_ = engine::push_lanes(*outer_, *body_, std::move(operands_), {varies.data(), varies.size()},
                                 engine::to_ir(count_.lanes), where_);
  }

  /// The result of all lanes, from the result of one lane.
  template <class T, auto Axis>
  auto result(const T& y, lane_axis<Axis>) {
    return tree_as<typename lane_axis<Axis>::template stack<T>>(y, [&]<class From, class To>(const From& of_lane,
                                                                                             std::type_identity<To>) {
      const ir::node_id node = pushed_.nodes[next_];
      const bool varies = pushed_.varies[next_++] != 0;
      handle h;
      if constexpr (lane_axis<Axis>::shared) {
        if (varies)
          fail("vmap", "a result whose entry in out_axes is none differs from lane to lane; give it an axis", where_);
        h = of_node(node);
      } else if constexpr (is_dynamic<To>) {
        h = lanes_of_result(node, varies, count_.lanes, place_of_lanes(Axis, of_lane.rank() + 1), where_);
      } else {
        h = lanes_of_result(node, varies, count_.lanes, place_of_axis(Axis, To::rank), where_);
      }
      if constexpr (is_dynamic<To>) return To(h);
      else return typed<typename To::value_type, To::static_shape>(h, where_);
    });
  }

 private:
  /// The position of an axis, checked against a rank known at run time.
  int place_of_lanes(int axis, int rank) const {
    if (axis < -rank || axis >= rank)
      fail("vmap",
           "axis " + std::to_string(axis) + " of in_axes or out_axes is out of range for a dynamic_tensor of rank " +
               std::to_string(rank),
           where_);
    return axis < 0 ? axis + rank : axis;
  }
  /// The part of a value in one lane: an input of the body.
  handle operand(const handle& all, int axis, int index) {
    const handle h = lanes_first(all, axis, where_);
    count_.note(index, h.extents[0], where_);
    operands_.push_back(node_of(h, where_));
    handle lane;
    lane.type = h.type;
    for (int i = 1; i < h.extents.rank; ++i) lane.extents.push(h.extents[i]);
    lane.strides = row_major_strides(lane.extents);
    lane.tracer = body_;
    lane.node = body_->graph.add_input(h.type, engine::to_ir(lane.extents.extent, lane.extents.rank), where_);
    return lane;
  }

  location where_;
  lane_count count_;
  std::shared_ptr<engine::tracer> outer_ = engine::current(), body_ = body_of_lanes();
  series<ir::node_id> operands_;
  engine::lanes_result pushed_;
  std::size_t next_ = 0;
};

/// The function that vmap returns.
template <class F, class In, class Out>
class vmapped;
template <class F, auto... In, auto... Out>
class vmapped<F, in_axes_t<In...>, out_axes_t<Out...>> {
  template <class... Args>
  static constexpr transform_fault fault_in() {
    if constexpr (sizeof...(In) != 0 && sizeof...(In) != sizeof...(Args)) return transform_fault::entries;
    else if constexpr (!((... && is_entry<In>()) && (... && is_entry<Out>()))) return transform_fault::entry;
    else return fault_of_call<decltype(passed(std::declval<Args>()))...>(std::index_sequence_for<Args...>{});
  }
  template <class... Args>
  static constexpr transform_fault fault_of = fault_in<Args...>();

 public:
  vmapped(F f, location where) : f_(std::move(f)), where_(where) {}

  SINTER_WRONG_TRANSFORM(
      "vmap", true, lanes,
      "the function does not take one lane of these arguments: tensors without the axis in in_axes, S "
      "of a stacked<S>; their number, a dtype or a rank differs")
  operator()(Args&&...) const { return {}; }
  SINTER_WRONG_TRANSFORM("vmap", true, entries, "in_axes has an entry for each argument, or none at all")
  operator()(Args&&...) const { return {}; }
  SINTER_WRONG_TRANSFORM("vmap", true, entry, "an entry of in_axes or out_axes is an int or none: in_axes<0, none, -1>")
  operator()(Args&&...) const { return {}; }
  SINTER_WRONG_TRANSFORM("vmap", true, no_lanes,
                         "no argument has lanes: in_axes names none for all tensors, or there is no tensor")
  operator()(Args&&...) const { return {}; }
  SINTER_WRONG_TRANSFORM(
      "vmap", true, plain_struct,
      "an argument holds a struct, which has no place for tensors of one axis less: give a stacked<S> "
      "(stack_tree makes one of a std::vector<S>), or share it by the entry none: in_axes<none, 0>")
  operator()(Args&&...) const { return {}; }
  SINTER_WRONG_TRANSFORM("vmap", true, lane_axis,
                         "an axis of in_axes is out of range for the rank of its argument; the entry none shares an "
                         "argument: in_axes<0, none>")
  operator()(Args&&...) const { return {}; }
  SINTER_WRONG_TRANSFORM("vmap", true, stacked_axis,
                         "the items of a stacked<S> lie along axis 0; its entry in in_axes is 0")
  operator()(Args&&...) const { return {}; }
  SINTER_WRONG_TRANSFORM(
      "vmap", true, no_result,
      "the function returns nothing; return the tensors of one lane. For an effect write a loop over "
      "unstack(x)")
  operator()(Args&&...) const { return {}; }

  template <class... Args>
  auto operator()(Args&&... args) const {
    if constexpr (fault_of<Args...> == transform_fault::none)
      return call(std::index_sequence_for<Args...>{}, passed(std::forward<Args>(args))...);
  }

 private:
  /// Numbers stay numbers; expressions become tensors.
  template <class T>
  static auto passed(T&& x) {
    if constexpr (is_number<std::remove_cvref_t<T>>) return std::remove_cvref_t<T>(x);
    else return settle_tree(std::forward<T>(x));
  }

  template <std::size_t I, class T>
  using entry = entry_for<decltype(entry_at<I, In...>()), T>;
  template <std::size_t I, class T>
  using lane = typename entry<I, T>::template lane<T>;

  /// The fault of the first argument that cannot have its lanes along its axis.
  template <class... T, std::size_t... I>
  static constexpr transform_fault fault_of_lanes(std::index_sequence<I...>) {
    transform_fault found = transform_fault::none;
    static_cast<void>((... || ((found = fault_of_argument<T>(entry<I, T>{})) != transform_fault::none)));
    return found;
  }
  template <class... T, std::size_t... I>
  static constexpr transform_fault fault_of_call(std::index_sequence<I...>) {
    constexpr transform_fault of_lanes = fault_of_lanes<T...>(std::index_sequence<I...>{});
    if constexpr (!(... || !entry<I, T>::shared)) return transform_fault::no_lanes;
    else if constexpr (of_lanes != transform_fault::none) return of_lanes;
    else {
      constexpr bool right = told_to_take<F&, lane<I, T>...>(), takes = std::is_invocable_v<F&, lane<I, T>...>;
      if constexpr (!takes) return right ? transform_fault::none : transform_fault::lanes;
      else
        return std::is_void_v<std::invoke_result_t<F&, lane<I, T>...>> ? transform_fault::no_result
                                                                       : transform_fault::none;
    }
  }

  template <class... T, std::size_t... I>
  static constexpr bool check_arguments(std::index_sequence<I...>) {
    if constexpr (std::is_invocable_v<F&, lane<I, T>...>) return check_results<call_result_t<F, lane<I, T>...>>();
    else return false;
  }

  /// Whether Out has an entry for each part of a result.
  static constexpr bool in_parts = sizeof...(Out) > 1;

  template <class R>
  static constexpr bool check_results() {
    if constexpr (!std::is_void_v<R>) {
      constexpr bool tensors = facts_of<R>.tensors > 0;
      static_assert(tensors, "sinter: [vmap] the function returns no tensor, but results of each lane are stacked");
      if constexpr (!tensors) return false;
      else if constexpr (in_parts) return check_parts<R>(std::make_index_sequence<sizeof...(Out)>{});
      else return check_result<R>(entry_at<0, Out...>());
    } else {
      return false;
    }
  }
  template <class R, std::size_t... I>
  static constexpr bool check_parts(std::index_sequence<I...>) {
    constexpr bool parts = [] {
      if constexpr (!is_tuple<R>) return false;
      else return count_types(children_of<R>{}) == sizeof...(Out);
    }();
    static_assert(parts,
                  "sinter: [vmap] out_axes has one entry, or one for each part of the pair or tuple that the function "
                  "returns");
    if constexpr (parts) {
      return [&]<class... C>(type_list<C...>) {
        return (... && check_result<C>(entry_at<I, Out...>()));
      }(children_of<R>{});
    } else {
      return false;
    }
  }

  template <std::size_t... I, class... Args>
  auto call(std::index_sequence<I...> places, const Args&... args) const {
    if constexpr (check_arguments<Args...>(places)) {
      if (engine::current()) return under_trace(places, args...);
      return call_alone(
          "vmap", where_, [this](const auto&... x) { return this->under_trace(std::index_sequence<I...>{}, x...); },
          args...);
    }
  }

  template <std::size_t... I, class... Args>
  auto under_trace(std::index_sequence<I...>, const Args&... args) const {
    lane_trace trace(where_);
    std::tuple<lane<I, Args>...> one{trace.argument(args, entry<I, Args>{}, static_cast<int>(I))...};
    const auto y = trace.call(f_, std::get<I>(std::move(one))...);
    trace.push();
    return results(trace, y);
  }

  template <class R>
  static auto results(lane_trace& trace, const R& y) {
    if constexpr (!in_parts) {
      return trace.result(y, entry_at<0, Out...>());
    } else {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto parts = with_children(y, child_references{});
        // Braces fix the order of evaluation.
        auto all = std::tuple{trace.result(std::get<I>(parts), entry_at<I, Out...>())...};
        if constexpr (is_pair<R>) return std::pair{std::get<0>(std::move(all)), std::get<1>(std::move(all))};
        else return all;
      }
      (std::make_index_sequence<sizeof...(Out)>{});
    }
  }

  mutable F f_;
  location where_;
};

}  // namespace detail

/// The function that applies f to each lane of its arguments: `vmap(f)(xs)` is f of each row of xs, stacked. f is traced
/// once, on the ranks of one lane; each op becomes an op on all lanes. An entry of `in` stands for an argument. It is the
/// axis of the lanes in each of the argument's tensors, or `none` if all lanes share the argument. The default is 0 for
/// arguments with tensors. Numbers, flags and captured tensors are shared. A stacked<S> arrives as S. Results have their
/// lanes along `out`, 0 by default, and structs S become stacked<S>. Inside compile() it becomes part of the graph; outside,
/// each call traces and runs it. user_error for unequal numbers of lanes, for elements that f reads (`item`), and for effects
/// in f.
// clang-format off
template <class F, detail::axes_of_lanes In = in_axes_t<>, detail::axes_of_lanes Out = out_axes_t<>>
auto vmap(F&& f, In = {}, Out = {}, location where = location::current()) {  // of a function template, [](auto... x) { return f(x...); }
  // clang-format on
  constexpr bool ordered = !detail::are_out_axes<In> || std::is_same_v<Out, out_axes_t<>>;
  static_assert(ordered && !(detail::are_in_axes<Out>), "sinter: [vmap] in_axes<...> stands before out_axes<...>");
  if constexpr (detail::are_out_axes<In>)
    return detail::vmapped<std::decay_t<F>, in_axes_t<>, In>(std::forward<F>(f), where);
  else return detail::vmapped<std::decay_t<F>, In, Out>(std::forward<F>(f), where);
}

}  // namespace sinter
