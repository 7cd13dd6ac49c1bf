// complex/tensor.hpp: the tensor of complex numbers: a tree of two tensors, the real and the imaginary parts; its operators.
#pragma once

#include <complex>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../sinter.hpp"

namespace sinter {

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

/// A tensor of complex numbers.
template <class X>
concept complex_tensor = requires {
  typename std::remove_cvref_t<X>::complex_tensor_tag;
};

namespace detail {

// The rest of the library treats it as a struct.
template <class T, dims Shape>
inline constexpr bool is_tensor<tensor<std::complex<T>, Shape>> = false;

template <class T>
inline constexpr bool is_std_complex = false;
template <class T>
inline constexpr bool is_std_complex<std::complex<T>> = true;

/// An operand beside a complex tensor: another complex tensor, a tensor or a number.
template <class X>
concept complex_operand = complex_tensor<X> || is_std_complex<X> || operand_like<X>;
/// An operand beside a complex tensor that is not a complex tensor itself.
template <class X>
concept beside_complex = !complex_tensor<X> && complex_operand<X>;

/// The complex tensor of these parts; a part may be broadcast to the other.
template <tensor_like Re, tensor_like Im>
auto joined_parts(const Re& real, const Im& imaginary, location at) {
  const auto re = stage(real, at);
  const auto im = stage(imaginary, at);
  using T = typename Re::value_type;
  constexpr dims shape = op_shapes::broadcast(Re::static_shape, Im::static_shape).shape;
  using result = tensor<std::complex<T>, shape>;
  if constexpr (Re::static_shape == shape && Im::static_shape == shape) {
    if (re.shape() == im.shape()) return result(re, im);
  }
  const op_shapes::outcome all = op_shapes::broadcast(to_dims(re.shape()), to_dims(im.shape()));
  op_shapes::demand("complex", all, at, {to_dims(re.shape()), to_dims(im.shape())});
  const auto widened = [&](const auto& x) {
    return typed<T, shape>(views::broadcast(untyped(x, at), all.shape, at), at);
  };
  return result(widened(re), widened(im));
}

/// An operand's real part; a real operand is its own.
template <complex_operand X>
auto real_of(const X& x, location at) {
  if constexpr (complex_tensor<X> || is_std_complex<X>) return x.real();
  else if constexpr (tensor_like<X>) return stage(x, at);
  else return x;
}
template <class X>
inline constexpr bool has_imaginary = complex_tensor<X> || is_std_complex<X>;
/// An operand's imaginary part; 0 for a real operand.
template <complex_operand X>
auto imaginary_of(const X& x) {
  if constexpr (has_imaginary<X>) return x.imag();
  else return 0;
}

/// The dtype of the parts of a complex tensor, and of a real tensor.
template <class X>
struct part_of;
template <complex_tensor X>
struct part_of<X> : std::type_identity<typename X::real_type> {};
template <beside_complex X>
requires tensor_like<X>
struct part_of<X> : std::type_identity<typename X::value_type> {
};

/// Returns false after a compile-time error if dtypes differ.
template <class A, class B>
constexpr bool same_parts() {
  if constexpr ((complex_tensor<A> || tensor_like<A>)&&(complex_tensor<B> || tensor_like<B>)) {
    if constexpr (is_number<A> || is_number<B>) return true;
    else {
      constexpr bool same = std::is_same_v<typename part_of<A>::type, typename part_of<B>::type>;
      static_assert(same,
                    "sinter: [complex] beside complex64 stand complex64 and float, beside complex128 complex128 and "
                    "double; cast one with cast<T>(x)");
      return same;
    }
  } else {
    return true;
  }
}

/// A part of z selected by z.at(…), like tensor_part of real tensors: .set replaces it, .add adds to it, .multiply multiplies
/// it.
template <class Z, class Part>
class complex_part {
 public:
  complex_part(Part real, Part imaginary) : re_(std::move(real)), im_(std::move(imaginary)) {}

  template <complex_operand Y>
  Z set(const Y& y, location at = location::current()) const {
    return {re_.set(real_of(y, at), at), im_.set(imaginary_of(y), at)};
  }
  template <complex_operand Y>
  Z add(const Y& y, location at = location::current()) const {
    return {re_.add(real_of(y, at), at), im_.add(imaginary_of(y), at)};
  }
  template <complex_operand Y>
  Z multiply(const Y& y, location at = location::current()) const {
    constexpr bool real = !has_imaginary<Y>;
    static_assert(real,
                  "sinter: [at] multiply takes real factors; by complex ones write z.at(i).set(take(z, i) * y) for "
                  "indices that differ");
    if constexpr (real) return {re_.multiply(y, at), im_.multiply(y, at)};
    else return {};
  }
  // Members that refuse complex numbers.
  template <class Y>
  Z min(const Y&) const {
    static_assert(!sizeof(Y), "sinter: [at] complex numbers have no order: no .min, no .max");
    return {};
  }
  template <class Y>
  Z max(const Y& y) const {
    return min(y);
  }

 private:
  Part re_, im_;
};

}  // namespace detail

// clang-format off
#define SINTER_COMPLEX_OPERATOR(SYMBOL, NAME)                                                      \
  template <detail::complex_operand B>                                                             \
  friend auto operator SYMBOL(detail::here<tensor> a, const B& b) { return NAME(a.value, b, a.at); } \
  template <detail::beside_complex A>                                                              \
  friend auto operator SYMBOL(const A& a, detail::here<tensor> b) { return NAME(a, b.value, b.at); } \
  template <detail::complex_operand B>                                                             \
  friend tensor& operator SYMBOL##=(tensor& a, const B& b) { return a = tensor(NAME(a, b, location{})); }
// Complex numbers have no order.
#define SINTER_COMPLEX_ORDER(SYMBOL)                                                \
  template <detail::complex_operand B>                                              \
  friend tensor<bool, Shape> operator SYMBOL(const tensor&, const B&) {             \
    static_assert(!sizeof(B), "sinter: [complex] complex numbers have no order; compare abs(z), or real(z)"); \
    return {};                                                                      \
  }
// clang-format on

/// Complex numbers: handles to a tensor of real parts and a tensor of imaginary parts, z.real() and z.imag(). It is a tree of
/// the two: compiled functions, loops, vmap and derivatives accept it. The gradient of a real loss is ∂L/∂re + i·∂L/∂im, so z
/// - rate·gradient descends. `T` is float (complex64) or double (complex128).
template <class T, dims Shape>
class tensor<std::complex<T>, Shape> {
  static_assert(is_plain_float<T>,
                "sinter: [complex] complex numbers are std::complex<float> and std::complex<double>");

 public:
  using value_type = std::complex<T>;
  using real_type = T;
  using part_type = tensor<T, Shape>;
  using complex_tensor_tag = void;
  template <dims Other>
  using of_shape = tensor<value_type, Other>;
  static constexpr int rank = Shape.rank;
  static constexpr dims static_shape = Shape;

  tensor() = default;
  /// From parts of equal extents; else a user_error.
  tensor(part_type real, part_type imaginary, location at = location::current())
      : re_(std::move(real)), im_(std::move(imaginary)) {
    if (re_.shape() != im_.shape())
      fail("complex",
           "the real part is " + text::shape(detail::to_dims(re_.shape())) + ", the imaginary one " +
               text::shape(detail::to_dims(im_.shape())) + "; they have equal extents",
           at);
  }
  /// z under another static shape; user_error if the extents do not fit it.
  template <complex_tensor E>
  requires(std::is_same_v<typename E::value_type, value_type>&& E::rank == rank && !std::is_same_v<E, tensor>)
      tensor(const E& z, location at = location::current())
      : re_(z.real(), at), im_(z.imag(), at) {}
  /// From one number.
  tensor(value_type z, location at = location::current()) requires(rank == 0) : re_(z.real(), at), im_(z.imag(), at) {}
  /// From nested braces: `tensor<complex64, 1>{{1, 2}, {0, -1}}` is 1 + 2i and -i. user_error when they are ragged.
  tensor(typename detail::nested<value_type, rank>::type list, location at = location::current()) requires(rank > 0) {
    index_array<rank> extents{};
    detail::nested_extents<value_type, rank>(list, extents.data(), true, at);
    std::vector<value_type> all(static_cast<std::size_t>(std::int64_t(detail::product(extents))));
    detail::nested_copy<value_type, rank>(list, all.data());
    put(all, extents, at);
  }

  /// Copies numbers in row-major order.
  static tensor from(const std::vector<value_type>& all, const index_array<rank>& extents,
                     location at = location::current()) {
    tensor z;
    z.put(all, extents, at);
    return z;
  }

  const part_type& real() const { return re_; }
  const part_type& imag() const { return im_; }

  bool defined() const { return re_.defined(); }
  bool is_traced() const { return re_.is_traced(); }
  const index_array<rank>& shape() const { return re_.shape(); }
  dim size(int axis, location at = location::current()) const { return re_.size(axis, at); }
  dim numel() const { return re_.numel(); }
  sinter::device device(location at = location::current()) const { return re_.device(at); }
  tensor to(sinter::device where, location at = location::current()) const {
    return {re_.to(where, at), im_.to(where, at)};
  }
  /// The only number; user_error unless there is exactly one. While traced it breaks the graph.
  value_type item(location at = location::current()) const { return {re_.item(at), im_.item(at)}; }
  /// The numbers in row-major order. While traced it breaks the graph.
  std::vector<value_type> to_vector(location at = location::current()) const {
    const std::vector<T> re = re_.to_vector(at), im = im_.to_vector(at);
    std::vector<value_type> out(re.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = {re[i], im[i]};
    return out;
  }
  /// One number, bounds-checked.
  template <extent_like... I>
  requires(sizeof...(I) + 1 == rank) value_type operator()(detail::place_index first, I... rest) const {
    return {re_(first, rest...), im_(first, rest...)};
  }
  /// The i-th item of the leading axis, without that axis: a view.
  auto operator[](detail::element_index i) const requires(rank > 0) {
    return detail::joined_parts(re_[i], im_[i], i.where);
  }

  /// Items of the leading axis, as take selects them.
  template <tensor_like I>
  auto operator[](const I& index) const requires(rank > 0) {
    const auto re = re_[index];
    return tensor<value_type, std::remove_cvref_t<decltype(re)>::static_shape>(re, im_[index]);
  }
  /// A range of an axis, or elements by indices of the first axes, to replace or change, as in a real tensor: z.at(1,
  /// 2).set(y).
  template <class Axis, extent_like First, extent_like Last>
  requires(!detail::index_like<Axis>) auto at(Axis axis, First first, Last last,
                                              location where = location::current()) const {
    return part_at(re_.at(axis, first, last, where), im_.at(axis, first, last, where));
  }
  template <detail::index_like I>
  auto at(const I& i, location where = location::current()) const {
    return part_at(re_.at(i, where), im_.at(i, where));
  }
  template <detail::index_like I, detail::index_like J>
  auto at(const I& i, const J& j, location where = location::current()) const {
    return part_at(re_.at(i, j, where), im_.at(i, j, where));
  }
  template <detail::index_like I, detail::index_like J, detail::index_like K>
  auto at(const I& i, const J& j, const K& k, location where = location::current()) const {
    return part_at(re_.at(i, j, k, where), im_.at(i, j, k, where));
  }
  template <detail::index_like I, detail::index_like J, detail::index_like K, detail::index_like L>
  auto at(const I& i, const J& j, const K& k, const L& l, location where = location::current()) const {
    return part_at(re_.at(i, j, k, l, where), im_.at(i, j, k, l, where));
  }

  // The fields of the tree.
  static constexpr auto sinter_fields(auto& self) { return std::tie(self.re_, self.im_); }

  SINTER_COMPLEX_OPERATOR(+, add)
  SINTER_COMPLEX_OPERATOR(-, sub)
  SINTER_COMPLEX_OPERATOR(*, mul)
  SINTER_COMPLEX_OPERATOR(/, div)
  SINTER_COMPLEX_ORDER(<)
  SINTER_COMPLEX_ORDER(<=)
  SINTER_COMPLEX_ORDER(>)
  SINTER_COMPLEX_ORDER(>=)
  friend tensor operator-(detail::here<tensor> z) {
    return {part_type(neg(z.value.re_, z.at), z.at), part_type(neg(z.value.im_, z.at), z.at)};
  }
  friend tensor operator+(const tensor& z) { return z; }

 private:
  template <class Part>
  static auto part_at(const Part& re, const Part& im) {
    return detail::complex_part<tensor, Part>(re, im);
  }
  void put(const std::vector<value_type>& all, const index_array<rank>& extents, location at) {
    std::vector<T> re(all.size()), im(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) re[i] = all[i].real(), im[i] = all[i].imag();
    re_ = detail::copy_from<T, dims(rank)>(re.data(), re.size(), extents, {}, at);
    im_ = detail::copy_from<T, dims(rank)>(im.data(), im.size(), extents, {}, at);
  }

  part_type re_, im_;
};

#undef SINTER_COMPLEX_OPERATOR
#undef SINTER_COMPLEX_ORDER

}  // namespace sinter
