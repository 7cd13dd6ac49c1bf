// front/tensor/number.hpp: a floating C++ argument of a compiled function; the trace need not know its value.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../../engine/engine.hpp"
#include "../../ir/concrete.hpp"
#include "expr.hpp"

namespace sinter {

namespace detail {

/// The common type of two C++ numbers: floating types win over integers, wider floating types over narrower ones.
template <class A, class B>
constexpr auto common_number() {
  constexpr bool a = !std::is_integral_v<A>, b = !std::is_integral_v<B>;
  if constexpr (std::is_same_v<A, B> || (a && !b)) return std::type_identity<A>{};
  else if constexpr (b && !a) return std::type_identity<B>{};
  else if constexpr (std::is_same_v<A, double> || std::is_same_v<B, double> || std::is_same_v<A, long double> ||
                     std::is_same_v<B, long double>)
    return std::type_identity<double>{};
  else return std::type_identity<float>{};
}

template <class A>
struct number_value {
  using type = A;
};
template <class T>
struct number_value<number<T>> {
  using type = T;
};

/// The common type of two operands, one of them a number.
template <class A, class B>
using met = typename decltype(common_number<typename number_value<A>::type, typename number_value<B>::type>())::type;

template <class A, class B>
concept numbers = (is_number<A> && (is_number<B> || scalar_like<B>)) || (scalar_like<A> && is_number<B>);

}  // namespace detail

/// A floating argument of a compiled function, inside that function. In an expression it takes the dtype of the tensor
/// beside it, as a C++ number does, and each call reads its value. Converting it to T gives the value of this call, and
/// restricts the specialisation to that value. Arithmetic with C++ numbers gives numbers. A comparison gives a
/// number<bool>: a condition of where(), or an `if`, which specialises.
template <class T>
class number {
 public:
  using value_type = T;
  using tensor_like_tag = void;
  static constexpr int rank = 0;
  static constexpr dims static_shape{};

  explicit number(T value) { x_.value = value; }
  /// The argument of a trace; specialising it sets `bit` of the tracer's numbers.
  number(T value, std::shared_ptr<engine::tracer> tracer, ir::node_id node, std::uint64_t bit) : sources_(bit) {
    x_.value = value;
    x_.traced = detail::trace_handle(std::move(tracer), node);
  }

  /// The value. In a trace, reading it adds a guard.
  explicit(std::is_same_v<T, bool>) operator T() const {
    if (x_.traced) x_.traced.tracer()->specialise(sources_);
    if (sizes_.is_symbolic()) detail::fixed_size(sizes_);
    return x_.value;
  }
  /// A rank-0 tensor of another dtype. The conversion to dtype T is implicit, too.
  template <element U>
  requires(!std::is_same_v<U, T>) operator tensor<U, dims{}>() const {
    return detail::evaluate(detail::make<ir::op::cast, U>({}, *this));
  }
  index_array<0> shape(location = {}) const { return {}; }
  bool is_traced() const { return static_cast<bool>(x_.traced); }

  number& operator+=(const auto& b) { return *this = number(*this + b, T{}); }
  number& operator-=(const auto& b) { return *this = number(*this - b, T{}); }
  number& operator*=(const auto& b) { return *this = number(*this * b, T{}); }
  number& operator/=(const auto& b) { return *this = number(*this / b, T{}); }

  /// user_error for a number of a trace that has ended.
  void check_traced_now(location at) const {
    if (x_.traced && !(engine::current() && engine::current()->is_within(x_.traced.tracer().get())))
      engine::fail_out_of_trace(*x_.traced.tracer(), at);
  }
  /// The address of the value, for calls.
  const T* address() const { return &x_.value; }
  /// The number as an operand of dtype U, for expressions.
  template <class U>
  detail::weak<U> as() const {
    return {static_cast<U>(x_.value), x_.traced, x_.type};
  }

  /// The result of `op` on two numbers with common type M; f computes its value.
  template <ir::op Op, class M, class A, class B, class F>
  static number combined(const A& a, const B& b, F&& f) {
    const auto x = part<M>(a), y = part<M>(b);
    number out(static_cast<T>(f(x.value, y.value)));
    if (!x.traced && !y.traced) return out;
    for (const auto& operand : {x, y}) {
      out.x_.traced = operand.traced;
      out.check_traced_now({});
    }
    const auto& tracer = engine::current();
    engine::tracer& t = *tracer;
    const ir::node_id in[] = {push(t, x, {}), push(t, y, {})};
    out.x_.traced = detail::trace_handle(tracer, ir::push_pointwise(t.graph, Op, dtype_of<T>, in, 2, {}));
    out.sources_ = sources(a) | sources(b);
    const dim m = sizes(a), n = sizes(b);
    out.sizes_ = !m.is_symbolic() ? n : !n.is_symbolic() ? m : m * n;
    return out;
  }

 private:
  template <class U>
  friend class number;

  /// x rounded to T.
  template <class U>
  number(const number<U>& x, T) : x_(x.template as<T>()), sources_(x.sources_), sizes_(x.sizes_) {}

  template <class M, class A>
  static detail::weak<M> part(const A& a) {
    if constexpr (detail::is_number<A>) {
      return a.template as<M>();
    } else {
      if constexpr (std::is_same_v<A, dim>)
        if (a.is_symbolic()) {
          const auto present = static_cast<M>(detail::present_size(a));
          const auto& t = engine::current();
          return {present, detail::trace_handle(t, ir::push_size(t->graph, dtype_of<M>, engine::to_ir(a), {})),
                  dtype_of<M>};
        }
      return {static_cast<M>(a), {}, dtype_of<M>};
    }
  }
  template <class A>
  static std::uint64_t sources(const A& a) {
    if constexpr (detail::is_number<A>) return a.sources_;
    else return 0;
  }

  template <class A>
  static dim sizes(const A& a) {
    if constexpr (detail::is_number<A>) return a.sizes_;
    else if constexpr (std::is_same_v<A, dim>) return a;
    else return 0;
  }

  detail::weak<T> x_{};
  std::uint64_t sources_ = 0;
  dim sizes_ = 0;  ///< open sizes that the number depends on; a number if there are none
};

#define SINTER_X(SYMBOL, OP, RESULT)                                                                    \
  template <class A, class B>                                                                           \
  requires detail::numbers<A, B>                                                                        \
  auto operator SYMBOL(const A& a, const B& b) {                                                        \
    using M = detail::met<A, B>;                                                                        \
    return number<RESULT>::template combined<ir::op::OP, M>(a, b, [](M x, M y) { return x SYMBOL y; }); \
  }                                                                                                     \
  template <class T, tensor_like B>                                                                     \
  requires(!detail::is_number<B>) constexpr auto operator SYMBOL(const number<T>& a, const B& b) {      \
    return detail::make<ir::op::OP>({}, a, b);                                                          \
  }
SINTER_X(+, add, M)
SINTER_X(-, sub, M)
SINTER_X(*, mul, M)
SINTER_X(/, div, M)
SINTER_X(<, lt, bool)
SINTER_X(<=, le, bool)
SINTER_X(>, gt, bool)
SINTER_X(>=, ge, bool)
SINTER_X(==, eq, bool)
SINTER_X(!=, ne, bool)
#undef SINTER_X
// Tensor first: reversing the operators above would match better than the operators of two tensors.
#define SINTER_X(SYMBOL, OP)                                                                       \
  template <tensor_like A, class T>                                                                \
  requires(!detail::is_number<A>) constexpr auto operator SYMBOL(const A& a, const number<T>& b) { \
    return detail::make<ir::op::OP>({}, a, b);                                                     \
  }
SINTER_X(==, eq)
SINTER_X(!=, ne)
#undef SINTER_X

template <class T>
auto operator-(const number<T>& a) {
  return number<T>::template combined<ir::op::mul, T>(a, -1, [](T x, T) { return -x; });
}
template <class T>
const number<T>& operator+(const number<T>& a) {
  return a;
}

}  // namespace sinter
