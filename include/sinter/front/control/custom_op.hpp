// front/control/custom_op.hpp: the user's own ops, as nodes that do not fuse.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../evaluate/handle.hpp"
#include "../evaluate/views.hpp"
#include "../shapes/einsum_parse.hpp"
#include "../trees/stacked.hpp"
#include "parts.hpp"

namespace sinter {

/// Elements in row-major order, as a custom op's functions see them: on the host, or on a GPU for a function that launches.
template <class T, int Rank>
struct elements {
  T* data = nullptr;
  std::array<std::int64_t, static_cast<std::size_t>(Rank)> extents{};

  std::int64_t size() const {
    std::int64_t n = 1;
    for (auto e : extents) n *= e;
    return n;
  }
  T& operator[](std::int64_t i) const { return data[i]; }
  T* begin() const { return data; }
  T* end() const { return data + size(); }
};

/// The value of a shape rule: a result's dtype, rank and extents.
template <class T, int Rank>
struct result_of {
  index_array<Rank> extents{};
};

/// CUDA C++ for a custom op. It defines `extern "C" __global__ void entry(...)`. The parameters are a pointer for each
/// operand, a pointer for each result, and each extent of each operand and result as a long long. Elements lie in row-major
/// order. Each element of the first result has a thread, in blocks of `threads`; the last block may be partial.
struct cuda_source {
  std::string text;
  std::string entry;
  int threads = 256;
};

namespace detail {

template <class R>
inline constexpr bool is_result = false;
template <class T, int Rank>
inline constexpr bool is_result<result_of<T, Rank>> = true;

/// The results of a shape rule as a tuple.
template <class R>
auto results_tuple(R r) {
  if constexpr (is_result<R>) return std::tuple{std::move(r)};
  else return r;
}

template <class R>
struct result_facts;
template <class T, int Rank>
struct result_facts<result_of<T, Rank>> {
  using value_type = T;
  static constexpr int rank = Rank;
  using view = elements<T, Rank>;
  using tensor_type = tensor<T, of_any_extent<Rank>>;
};

template <class View>
View view_of(const ir::foreign_array& a) {
  View v;
  v.data = static_cast<decltype(v.data)>(a.data);
  for (std::size_t d = 0; d < v.extents.size(); ++d) v.extents[d] = a.extents[d];
  return v;
}

template <class X>
using operand_view = elements<const typename X::value_type, X::rank>;

/// Calls f(views of the operands…, views of the results…, more…).
template <class Xs, class Rs>
struct foreign_call;
template <class... X, class... R>
struct foreign_call<std::tuple<X...>, std::tuple<R...>> {
  template <class F, class... More>
  static void run(const F& f, ir::foreign_arrays in, ir::foreign_arrays out, More... more) {
    [&]<std::size_t... I, std::size_t... J>(std::index_sequence<I...>, std::index_sequence<J...>) {
      f(view_of<operand_view<X>>(in[I])..., view_of<typename result_facts<R>::view>(out[J])..., more...);
    }
    (std::index_sequence_for<X...>{}, std::index_sequence_for<R...>{});
  }
};

[[noreturn]] inline void fail_pull(const std::string& name, const dims& operand, const dims& given, location at) {
  fail(name,
       "its vjp returns a cotangent of shape " + text::shape(given) + " for an operand of shape " +
           text::shape(operand) + "; they have to be equal",
       at);
}

/// The graph of a vjp. f(operands…, results…, cotangents…) gives the cotangent of the floating operand, or a tuple with one for
/// each floating operand.
template <class F, class... X, class... R>
ir::graph trace_pull(const F& f, const std::string& name, const std::tuple<X...>& operands,
                     const std::tuple<R...>& results, location at) {
  const auto t = engine::make_tracer();
  const auto input = [&](const auto& x) { return input_tree(t, x, at); };
  const auto inputs = [&](const auto& all) {
    return std::apply([&](const auto&... x) { return std::tuple{input(x)...}; }, all);
  };
  // Braces fix the order of the inputs: operands, results, cotangents.
  const auto in = inputs(operands);
  const auto out = inputs(results);
  const auto cotangents = inputs(results);
  const engine::tracing_scope scope(t);
  auto pulled = settle_tree(std::apply([&](auto&&... x) { return detail::invoke(at, f, std::move(x)...); },
                                       std::tuple_cat(in, out, cotangents)));
  const auto all = [&] {
    if constexpr (tensor_like<decltype(pulled)>) return std::tuple{pulled};
    else return pulled;
  }();
  constexpr std::size_t given = std::tuple_size_v<std::remove_cvref_t<decltype(all)>>;
  constexpr std::size_t floating = (std::size_t{0} + ... + std::size_t{is_float(dtype_of<typename X::value_type>)});
  static_assert(given == floating,
                "sinter: [custom_op] the vjp returns a cotangent for each floating operand, in order");
  if constexpr (given == floating) {
    std::size_t next = 0;
    const auto keep = [&]<class Operand>(const Operand& x, std::size_t k) {
      if constexpr (is_float(dtype_of<typename Operand::value_type>)) {
        std::size_t at_k = 0;
        const auto one = [&]<class C>(const C& c) {
          if (at_k++ != k) return;
          if constexpr (alike<C, Operand>) {
            if (c.shape() != x.shape()) fail_pull(name, to_dims(x.shape()), to_dims(c.shape()), at);
            t->graph.outputs.push_back(push(*t, c, at));
          } else {
            fail(name, "its vjp returns a cotangent of another dtype or rank than the operand's", at);
          }
        };
        std::apply([&](const auto&... c) { (one(c), ...); }, all);
        ++next;
      }
    };
    std::apply([&](const auto&... x) { (keep(x, next), ...); }, operands);
  }
  if (!t->captures.empty())
    fail(name, "its vjp uses a tensor from outside; a derivative is a function of operands, results and cotangents",
         at);
  if (!t->graph.effects.empty()) fail_rule_effect(name, "its vjp", at);
  return t->graph;
}

/// The graph of a jvp. f(operands…, results…, tangents of the floating operands…) gives the tangent of the floating result,
/// or a tuple with one for each floating result.
template <class F, class... X, class... R>
ir::graph trace_push(const F& f, const std::string& name, const std::tuple<X...>& operands,
                     const std::tuple<R...>& results, location at) {
  const auto t = engine::make_tracer();
  const auto input = [&](const auto& x) { return input_tree(t, x, at); };
  const auto floating = []<class T>(const T& x) {
    if constexpr (is_float(dtype_of<typename T::value_type>)) return std::tuple<const T&>(x);
    else return std::tuple<>();
  };
  const auto of = [&](const auto& all) {
    return std::apply([&](const auto&... x) { return std::tuple_cat(floating(x)...); }, all);
  };
  const auto inputs = [&](const auto& all) {
    return std::apply([&](const auto&... x) { return std::tuple{input(x)...}; }, all);
  };
  // The inputs in this order: operands, results, tangents.
  const auto in = inputs(operands);
  const auto out = inputs(results);
  const auto tangents = inputs(of(operands));
  const engine::tracing_scope scope(t);
  auto pushed = settle_tree(std::apply([&](auto&&... x) { return detail::invoke(at, f, std::move(x)...); },
                                       std::tuple_cat(in, out, tangents)));
  const auto all = [&] {
    if constexpr (tensor_like<decltype(pushed)>) return std::tuple{pushed};
    else return pushed;
  }();
  const auto wanted = of(results);
  constexpr bool as_many = std::tuple_size_v<std::remove_cvref_t<decltype(all)>> == std::tuple_size_v<decltype(wanted)>;
  static_assert(as_many, "sinter: [custom_op] the jvp returns a tangent for each floating result, in order");
  if constexpr (as_many) [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto keep = [&]<class V, class Y>(const V& v, const Y& y) {
        if constexpr (alike<V, Y>) {
          if (v.shape() != y.shape())
            fail(name,
                 "its jvp returns a tangent of shape " + text::shape(to_dims(v.shape())) + " for a result of shape " +
                     text::shape(to_dims(y.shape())) + "; they have to be equal",
                 at);
          t->graph.outputs.push_back(push(*t, v, at));
        } else {
          fail(name, "its jvp returns a tangent of another dtype or rank than the result's", at);
        }
      };
      (keep(std::get<I>(all), std::get<I>(wanted)), ...);
    }
  (std::make_index_sequence<std::tuple_size_v<decltype(wanted)>>{});
  if (!t->captures.empty())
    fail(name, "its jvp uses a tensor from outside; a derivative is a function of operands, results and tangents", at);
  if (!t->graph.effects.empty()) fail_rule_effect(name, "its jvp", at);
  return t->graph;
}

/// The graph of a rule for lanes. f(operands…) of all lanes gives the results of all lanes, a tensor or a tuple. Lanes are the
/// first axis of each tensor; operands that all lanes share are repeated.
template <class F, class... X, class... R>
ir::graph trace_lanes(const F& f, const std::string& name, const std::tuple<X...>& operands,
                      const std::tuple<R...>& results, std::span<const char> varies, const ir::dim& lanes,
                      location at) {
  const auto t = engine::make_tracer();
  const dim n = engine::from_ir(lanes);
  const auto of_lanes = [&](const auto& extents) {
    dims all{n};
    for (const dim e : extents) all.push(e);
    return all;
  };
  const engine::tracing_scope scope(t);
  std::size_t k = 0;
  const auto input = [&]<class E, dims S>(const tensor<E, S>& like) {
    const bool own = varies[k++] != 0;
    const dims all = of_lanes(like.shape());
    const handle h = of_node(t->graph.add_input(dtype_of<E>, own ? to_ir(all) : to_shape(like.shape()), at));
    return typed<E, with_axis(S, 0)>(own ? h : views::broadcast(h, all, at), at);
  };
  auto in = std::apply([&](const auto&... x) { return std::tuple{input(x)...}; }, operands);
  auto made = settle_tree(std::apply([&](auto&... x) { return detail::invoke(at, f, std::move(x)...); }, in));
  const auto all = [&] {
    if constexpr (tensor_like<decltype(made)>) return std::tuple{made};
    else return made;
  }();
  constexpr bool as_many = std::tuple_size_v<std::remove_cvref_t<decltype(all)>> == sizeof...(R);
  static_assert(as_many, "sinter: [custom_op] the rule for lanes returns the results, in order");
  const auto keep = [&]<class V, class E, dims S>(const V& v, const tensor<E, S>& y) {
    if constexpr (V::rank == S.rank + 1 && dtype_of<typename V::value_type> == dtype_of<E>) {
      const dims want = of_lanes(y.shape());
      if (!(to_dims(v.shape()) == want))
        fail(name,
             "its rule for lanes returns a result of shape " + text::shape(to_dims(v.shape())) + "; all lanes are " +
                 text::shape(want),
             at);
      t->graph.outputs.push_back(push(*t, v, at));
    } else {
      fail(name, "its rule for lanes returns another dtype or rank than the result's with one more axis", at);
    }
  };
  if constexpr (as_many) [&]<std::size_t... I>(std::index_sequence<I...>) {
      (keep(std::get<I>(all), std::get<I>(results)), ...);
    }
  (std::index_sequence_for<R...>{});
  if (!t->captures.empty())
    fail(name, "its rule for lanes uses a tensor from outside; it is a function of operands", at);
  return t->graph;
}

/// Names have letters, digits and underscores; they are used in messages and never in kernels.
template <fixed_string Name>
constexpr bool is_name() {
  std::size_t n = 0;
  for (const char c : Name.text) {
    if (c == 0) break;
    const bool digit = c >= '0' && c <= '9';
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (digit && n > 0) || c == '_')) return false;
    ++n;
  }
  return n > 0;
}

/// Runs fn in a trace of its own.
template <class F, class... X>
auto run_alone(const char* name, const F& fn, location at, const X&... x) {
  options how;
  how.name = name;
  flat_arguments<X...> flat(how.name, at, x...);
  const device on = flat.where(how);
  const engine::trace_target to{on, at};
  const engine::traced traced = trace_call(fn, to, x...);
  const auto code = engine::build(traced.graph, flat.tensors(), how, on);
  const series<std::uint8_t> keep(flat.tensors().size());
  return run_program<call_result_t<const F, X...>>(*code, traced.skeleton.get(), flat.tensors(),
                                                   {keep.data(), keep.size()});
}

/// The arrays of trees' tensors, which must be on the host.
template <class... X>
series<ir::foreign_array> arrays_of(const X&... x) {
  series<ir::foreign_array> out;
  (out.push_back({access::data(x), dtype_of<typename X::value_type>, as_numbers(x.shape().data()), X::rank}), ...);
  return out;
}

/// A new result on the host, whose elements the op writes.
template <class R>
auto new_result(const char* name, const R& r, location at) {
  using T = typename result_facts<R>::value_type;
  constexpr dims shape = of_any_extent<result_facts<R>::rank>;
  storage memory =
      engine::allocate(static_cast<std::size_t>(checked_numel(name, to_dims(r.extents), sizeof(T), at)) * sizeof(T));
  T* const data = static_cast<T*>(memory.data());
  return access::make<T, shape>(std::move(memory), data, r.extents, row_major_strides(r.extents));
}

}  // namespace detail

/// The user's own op; made by custom_op().
template <fixed_string Name, class Cpu, class Cuda, class Shape, class Pull, class Push = none_t, class Lanes = none_t>
class custom_function {
 public:
  custom_function(Cpu cpu, Cuda cuda, Shape shape, Pull pull, Push push, Lanes lanes, location at)
      : state_(std::make_shared<state>(state{std::move(cpu), std::move(cuda), std::move(shape), std::move(pull),
                                             std::move(push), std::move(lanes), ir::new_identity(), at})) {}

  /// The result, or a tuple of the results.
  template <tensor_like... X>
  auto operator()(const X&... x) const {
    return apply(state_->at, detail::stage(x, state_->at)...);
  }
  /// The same for a library: errors and reports name the line `at` of the library's caller.
  template <tensor_like... X>
  auto call_at(location at, const X&... x) const {
    return apply(at, detail::stage(x, at)...);
  }

 private:
  struct state {
    Cpu cpu;
    Cuda cuda;
    Shape shape;
    Pull pull;
    Push push;
    Lanes lanes;
    std::uint64_t identity;
    location at;
  };

  template <class... X>
  auto apply(location at, const X&... x) const {
    const auto read = [&](auto extents) {
      for (dim& e : extents) e = detail::read_at(e, at);
      return extents;
    };
    const auto shapes = detail::results_tuple(state_->shape(read(x.shape())...));
    using results = std::remove_cvref_t<decltype(shapes)>;
    using call = detail::foreign_call<std::tuple<X...>, results>;
    constexpr bool fits = requires(const Cpu& f, ir::foreign_arrays a) { call::run(f, a, a); };
    static_assert(fits,
                  "sinter: [custom_op] the host function takes elements<const T, rank> for each operand, then "
                  "elements<T, rank> for each result");
    if (const auto& t = engine::current())
      return traced_results(t, push_on<results, call>(*t, shapes, at, x...), shapes);
    return eager<call>(shapes, at, x...);
  }

  /// The kernel or function that runs on a GPU.
  template <class Call>
  static void set_device_code(ir::foreign& f, const std::shared_ptr<const state>& own) {
    const auto by_kernel = [&f](const cuda_source& kernel) {
      f.gpu.source = kernel.text;
      f.gpu.entry = kernel.entry;
      f.gpu.threads = kernel.threads;
    };
    const auto by_function = [&](auto run) {
      f.gpu.launch = [own](ir::foreign_arrays in, ir::foreign_arrays out, void* stream) {
        decltype(run)::run(own->cuda, in, out, stream);
      };
    };
    if constexpr (std::is_same_v<Cuda, cuda_source>) {
      by_kernel(own->cuda);
    } else if constexpr (requires { own->cuda.kernel(); }) {
      if (const cuda_source* kernel = own->cuda.kernel()) by_kernel(*kernel);
      else by_function(Call());
    } else if constexpr (!std::is_same_v<Cuda, none_t>) {
      by_function(Call());
    }
  }

  template <class Results, class Call, class... X>
  series<ir::node_id> push_on(engine::tracer& t, const Results& shapes, location at, const X&... x) const {
    auto f = std::make_shared<ir::foreign>();
    const auto own = state_;
    f->name = Name.text;
    f->identity = own->identity;
    f->host = [own](ir::foreign_arrays in, ir::foreign_arrays out) { Call::run(own->cpu, in, out); };
    if constexpr (requires { own->cpu.plain(); })
      f->plain = [own](ir::foreign_arrays in, ir::foreign_arrays out) { Call::run(own->cpu.plain(), in, out); };
    if constexpr (requires { own->cpu.known(); }) f->known = own->cpu.known();
    set_device_code<Call>(*f, own);
    if constexpr (!std::is_same_v<Pull, none_t> || !std::is_same_v<Push, none_t> || !std::is_same_v<Lanes, none_t>) {
      const auto like = [](const auto& y) {
        using Y = std::remove_cvref_t<decltype(y)>;
        return detail::access::make<typename Y::value_type, Y::static_shape>({}, nullptr, y.shape(), {});
      };
      const auto outs = std::apply(
          [&](const auto&... r) {
            return std::tuple{detail::access::make<
                typename detail::result_facts<std::remove_cvref_t<decltype(r)>>::value_type,
                detail::of_any_extent<detail::result_facts<std::remove_cvref_t<decltype(r)>>::rank>>({}, nullptr,
                                                                                                     r.extents, {})...};
          },
          shapes);
      if constexpr (!std::is_same_v<Pull, none_t>)
        f->pull = [own, outs, ins = std::tuple{like(x)...}, at] {
          return detail::trace_pull(own->pull, Name.text, ins, outs, at);
        };
      if constexpr (!std::is_same_v<Push, none_t>)
        f->push = [own, outs, ins = std::tuple{like(x)...}, at] {
          return detail::trace_push(own->push, Name.text, ins, outs, at);
        };
      if constexpr (!std::is_same_v<Lanes, none_t>)
        f->batch = [own, outs, ins = std::tuple{like(x)...}, at](std::span<const char> varies, const ir::dim& lanes) {
          return detail::trace_lanes(own->lanes, Name.text, ins, outs, varies, lanes, at);
        };
    }
    series<ir::node_id> operands{detail::push(t, x, at)...};
    series<ir::result_type> types;
    std::apply(
        [&](const auto&... r) {
          (types.push_back({dtype_of<typename detail::result_facts<std::remove_cvref_t<decltype(r)>>::value_type>,
                            detail::to_shape(r.extents)}),
           ...);
        },
        shapes);
    return engine::push_foreign(t, std::move(f), false, std::move(operands), std::move(types), at);
  }

  template <class... R>
  static auto traced_results(const std::shared_ptr<engine::tracer>& t, const series<ir::node_id>& nodes,
                             const std::tuple<R...>& shapes) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      auto all = std::tuple{detail::access::traced<typename detail::result_facts<R>::value_type,
                                                   detail::of_any_extent<detail::result_facts<R>::rank>>(
          t, nodes[I], std::get<I>(shapes).extents)...};
      if constexpr (sizeof...(R) == 1) return std::get<0>(std::move(all));
      else return all;
    }
    (std::index_sequence_for<R...>{});
  }

  template <class Call, class... R, class... X>
  auto eager(const std::tuple<R...>& shapes, location at, const X&... x) const {
    if ((false || ... || detail::access::memory(x).where().is_cuda()))
      return detail::run_alone(
          Name.text,
          [&](const X&... inner) {
            const auto& t = engine::current();
            return traced_results(t, push_on<std::tuple<R...>, Call>(*t, shapes, at, inner...), shapes);
          },
          at, x...);
    auto all = std::apply([&](const R&... r) { return std::tuple{detail::new_result(Name.text, r, at)...}; }, shapes);
    const auto call = [&](const X&... dense) {
      const auto in = detail::arrays_of(dense...);
      const auto out = std::apply([](const auto&... r) { return detail::arrays_of(r...); }, all);
      Call::run(state_->cpu, {in.data(), in.size()}, {out.data(), out.size()});
    };
    call(x.contiguous(at)...);
    if constexpr (sizeof...(R) == 1) return std::get<0>(std::move(all));
    else return all;
  }

  std::shared_ptr<const state> state_;
};

/// The user's own op: `auto op = custom_op<"name">(cpu, cuda, shape, vjp, jvp, lanes); y = op(a, b);`
///   cpu    receives elements<const T, rank> for each operand, then elements<T, rank> for each result; row-major. If it is a
///          class with a function plain(), the reference interpreter calls the result of plain().
///   cuda   a cuda_source, or a function that launches: it receives the same with addresses on the GPU, then the stream as void*.
///          With `none`, operands are copied to the host and results back at each call, with a warning. If it is a class whose
///          function kernel() returns a `const cuda_source*`, that kernel runs, and the function only if there is none.
///   shape  receives index_array<rank> for each operand, and returns a result_of<T, rank>, or a tuple of them.
///   vjp    receives the operands, the results and the results' cotangents, all tensors. It returns the cotangent of each
///          floating operand, a tensor or a tuple; or `none`.
///   jvp    receives the operands, the results and the floating operands' tangents. It returns the tangent of each floating
///          result, a tensor or a tuple; or `none`. If one of vjp and jvp is given, the other follows from it if it is linear.
///          Without either, differentiating is a user_error.
///   lanes  the rule for vmap: receives the operands of all lanes, and returns the results of all lanes. Lanes are the first
///          axis of each. With `none` the op runs lane by lane.
/// The op is one node that does not fuse, on every backend, in compile(), loops and branches, and eagerly. It must be a
/// function of its operands: equal calls in one trace run once.
template <fixed_string Name, class Cpu, class Cuda, class Shape, class Pull = none_t, class Push = none_t,
          class Lanes = none_t>
auto custom_op(Cpu cpu, Cuda cuda, Shape shape, Pull vjp = {}, Push jvp = {}, Lanes lanes = {},
               location at = location::current()) {
  static_assert(detail::is_name<Name>(),
                "sinter: [custom_op] a name consists of letters, digits and underscores, and starts with no digit");
  return custom_function<Name, Cpu, Cuda, Shape, Pull, Push, Lanes>(
      std::move(cpu), std::move(cuda), std::move(shape), std::move(vjp), std::move(jvp), std::move(lanes), at);
}

}  // namespace sinter
