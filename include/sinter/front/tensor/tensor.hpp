// front/tensor/tensor.hpp: the only tensor type: a handle to storage, or to a node of a graph under construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "../../base/storage.hpp"
#include "../../engine/engine.hpp"
#include "../../ir/node.hpp"
#include "../shapes/names.hpp"
#include "../shapes/shape_rules.hpp"
#include "braces.hpp"
#include "fitting.hpp"
#include "operators.hpp"
#include "trace_handle.hpp"

namespace sinter {

template <class T, dims Shape = dims(-1)>
class tensor;

struct non_blocking_t {};
/// x.to(device::cpu(), non_blocking): the program continues while the GPU copies.
inline constexpr non_blocking_t non_blocking{};

namespace detail {

struct access;

/// The device of a factory's result: the device that the caller gave, or else the default for new tensors.
struct target {
  std::optional<device> given;
  target() = default;
  target(device where) : given(where) {}
};

/// Elements in host memory, for reading at once: the tensor's own memory, or a copy. A traced tensor breaks the graph.
/// On entry `data`, `extents` and `strides` describe the tensor; on return, the elements. (loop_moves.hpp)
SINTER_API storage read_on_host(const trace_handle& traced, const storage& memory, dtype type, void*& data,
                                dim* extents, dim* strides, int rank, const char* what, location at);

/// Moves elements that a factory wrote on the host to the device of the factory's result. (loop_moves.hpp)
SINTER_API storage placed(storage written, std::size_t bytes, const target& where, location at);

/// The index of an element, and the place where it was written.
struct place_index {
  template <extent_like I>
  place_index(I i, location at = location::current()) : index(static_cast<std::int64_t>(i)), where(at) {}
  std::int64_t index;
  location where;
};

/// The index of an element of the leading axis, with the caller's place.
struct element_index {
  template <extent_like I>
  element_index(I i, location at = location::current()) : index(i), where(at) {}
  dim index;
  location where;
};

// (places.hpp)
template <class X>
auto leading_element(const X& x, const element_index& i);
template <class X, class I>
auto elements_at(const X& x, const I& index);
template <class X, class Axis>
auto places_in_range(const X& x, Axis axis, dim first, dim last, location at);
template <class X, class... I>
auto places_of(const X& x, location at, const I&... index);

template <class I>
concept index_like = extent_like<I> || tensor_like<I>;

/// A tensor that evaluates `e`; while tracing, a tensor of its nodes. (evaluate.hpp)
template <tensor_like E>
auto evaluate(const E& e, location at = location::current());

/// Makes a new tensor the values of an expression of its dtype and static shape. (evaluate.hpp)
template <class Tensor, class E>
void evaluate_into(Tensor& out, const E& e, device otherwise, location at);

/// A size as a rank-0 tensor. (evaluate.hpp)
template <class T>
tensor<T, dims{}> size_value(dim n, location at);

/// Sets a rank-0 tensor to a number. (trace_push.hpp)
template <class T, class Tensor>
void store_scalar(Tensor& out, T value, location at);

struct another_dtype_or_rank_write_cast_or_reshape {};

/// The mark of a handle that was donated to a call.
inline constexpr std::uint32_t donated_mark = std::uint32_t{1} << 31;
/// The location of the call that an empty handle was donated to, from its data pointer and marks; without a line if there is
/// none.
inline location donated_to(const void* data, std::uint32_t marks) {
  if (!(marks & donated_mark)) return {};
  return {static_cast<const char*>(data), static_cast<int>(marks & ~donated_mark)};
}

template <class T>
inline constexpr bool is_tensor = false;
template <class T, dims Shape>
inline constexpr bool is_tensor<tensor<T, Shape>> = true;

/// A vector, an array or a span of numbers.
template <class V>
concept list_of_numbers = !tensor_like<V> && requires(const V& v) {
  v.data();
  requires scalar_like<typename V::value_type>;
};

/// The dtype of `tensor(args...)` when the arguments do not determine one.
template <class First>
struct undeduced;

template <class E, class T, int Rank>
concept same_kind = tensor_like<E> && dtype_of<typename E::value_type>
== dtype_of<T>&& E::rank == Rank;

}  // namespace detail

/// A tensor type.
template <class X>
concept any_tensor = detail::is_tensor<std::remove_cvref_t<X>>;

/// `Shape` is a rank (`tensor<float, 2>`) or a static shape (`tensor<float, dims{dyn, 64}>`). A copy is a handle to the
/// same elements. Elements may be strided: views share storage.
template <class T, dims Shape>
class tensor : public detail::operators<tensor<T, Shape>>, public detail::assignment_operators<tensor<T, Shape>> {
  static_assert(element<T>,
                "sinter: [tensor] the dtypes are float, double, f16, bf16, f8_e4m3, f8_e5m2, bool, std::int8_t to "
                "std::int64_t and "
                "std::uint8_t to std::uint64_t");
  static_assert(Shape.rank >= 0 && Shape.rank <= max_rank,
                "sinter: [tensor] a rank of 0 to 12 or a static shape stands behind the dtype: tensor<float, 2>, "
                "tensor<float, dims{dyn, 64}>");

 public:
  using value_type = T;
  using tensor_like_tag = void;
  static constexpr int rank = Shape.rank;
  static constexpr dims static_shape = Shape;

  /// An empty handle: only assignment, destruction and defined() make sense. A tensor donated to a call becomes an empty
  /// handle, too (options.donate), and keeps its extents.
  tensor() = default;
  tensor(const tensor&) = default;
  tensor(tensor&&) = default;
  ~tensor() = default;

  /// Makes the handle refer to the other's elements. The elements it referred to keep their values.
  tensor& operator=(const tensor&) & = default;
  tensor& operator=(tensor&&) & = default;
  // The compiler's error quotes the line of a deleted function. An assignment to a temporary would be lost.
  // clang-format off
  template <class E>
  tensor& operator=(const E&) && = delete;  // nothing is written into a view: write view.fill(value), x(i, j) = value, or x = where(...), concat(...) or scatter_add(...)
  template <scalar_like A>
  requires(rank > 0) tensor& operator=(A) & = delete;  // for one value everywhere write x.fill(value), or x = full_like(x, value)
  // clang-format on

  /// Evaluates an expression (a stage point), or views a tensor under another static shape.
  /// user_error when the extents do not fit the static shape.
  template <detail::same_kind<T, rank> E>
  requires(!std::is_same_v<E, tensor>) tensor(const E& e, location at = location::current()) {
    static_assert(fits(Shape, E::static_shape), "sinter: [tensor] the static shapes differ");
    if constexpr (any_tensor<E>) {
      adopt(e, at);
    } else if constexpr (std::is_same_v<T, typename E::value_type> && Shape == E::static_shape) {
      detail::evaluate_into(*this, e, {}, at);
    } else {
      adopt(detail::evaluate(e, at), at);
    }
  }

  // Wrong calls: clang++ prints the text when the overload is chosen; g++ prints the parameter, and quotes the second line.
#if defined(__clang__)
  template <tensor_like E>
  requires(!detail::same_kind<E, T, rank> && !(rank == 0 && detail::is_number<E>))
      SINTER_WRONG_CALL("[tensor] another dtype or rank: write cast<T>(x), or reshape it")
  tensor(const E&);
#else
  // clang-format off
  template <tensor_like E>
  requires(!detail::same_kind<E, T, rank> && !(rank == 0 && detail::is_number<E>)) tensor(const E&, detail::another_dtype_or_rank_write_cast_or_reshape = {}) = delete;  // another dtype or rank: write cast<T>(x), or reshape it
  // clang-format on
#endif

  // clang-format off
  template <detail::list_of_numbers V>
  explicit tensor(const V&) = delete;  // from a vector or an array: from_span(v), or from_span(v, 3, 4) for its extents
  template <scalar_like First, scalar_like... More>
  requires(rank > 0 && sizeof...(More) < max_rank) explicit tensor(First, More...) = delete;  // of these extents: zeros<T>(3, 4), ones or full; of these elements: braces
  // clang-format on

  /// A rank-0 tensor of one value.
  template <scalar_like A>
  requires(rank == 0) tensor(A value, location at = location::current()) {
    if constexpr (std::is_same_v<A, dim>) *this = detail::size_value<T>(value, at);
    else detail::store_scalar(*this, static_cast<T>(value), at);
  }

  /// From nested braces: `tensor<float, 2>{{1, 2}, {3, 4}}`. user_error when they are ragged.
  tensor(typename detail::nested<T, rank>::type list, location at = location::current()) requires(rank > 0) {
    from_list(list, {}, at);
  }
  // Braces of another depth are an error. For `{{}, {}}` the constructor above wins over these templates.
  template <int Depth = rank>
  requires(rank > 0)
      tensor(std::initializer_list<typename detail::nested<T, Depth>::type>, location = location::current()) {
    static_assert(Depth < rank, "sinter: [tensor] the braces nest deeper than the tensor has axes");
  }
  template <int Depth = (rank > 1 ? rank - 2 : 0)>
  requires(rank > 1)
      tensor(std::initializer_list<typename detail::nested<T, Depth>::type>, location = location::current()) {
    static_assert(Depth + 1 == rank, "sinter: [tensor] the braces nest less deep than the tensor has axes");
  }
  /// Nested braces on a device: `tensor<float, 2>({{1, 2}, {3, 4}}, device::cuda(0))`.
  tensor(typename detail::nested<T, rank>::type list, sinter::device where,
         location at = location::current()) requires(rank > 0) {
    from_list(list, where, at);
  }

  /// False for an empty handle: default-constructed, or donated to a call.
  bool defined() const { return is_traced() || memory_; }
  /// True for a value of a graph under construction.
  bool is_traced() const { return static_cast<bool>(tracer_); }

  /// The extents; symbolic ones are possible while traced.
  const index_array<rank>& shape() const { return extents_; }
  /// The extent of an axis; negative axes count from the end. user_error if the axis does not exist.
  dim size(int axis, location at = location::current()) const {
    const int i = detail::normalize_axis(axis, rank);
    if (i < 0) detail::fail_axis("size", axis, rank, at);
    return detail::read_at(extents_[static_cast<std::size_t>(i)], at);
  }
  /// The number of elements.
  dim numel() const { return detail::product(extents_); }
  /// Steps between neighbours along each axis, in elements. A traced tensor has the strides of a contiguous one, as its
  /// data() has.
  const index_array<rank>& strides() const { return strides_; }
  /// True when the elements lie in row-major order, without gaps.
  bool is_contiguous() const {
    dim step = 1;
    for (std::size_t i = rank; i-- > 0;) {
      if (extents_[i] != 1 && strides_[i] != step) return numel() == 0;
      step *= extents_[i];
    }
    return true;
  }

  /// The device of the elements; for a traced tensor, the device on which the traced function will run.
  sinter::device device(location at = location::current()) const;
  /// The elements on a device: this handle if they are there already, else a row-major copy. Copies to the host wait for
  /// the work that produces the elements. user_error while traced, and if the device does not exist.
  tensor to(sinter::device where, location at = location::current()) const;
  /// Like to(where), but a copy from a GPU to the host does not block. It is made in the order of the current stream, into
  /// pinned memory. The first use of its elements (data, item, to_vector, printing, a view, an operand or argument) waits for
  /// it. That use throws system_error for a failure on the GPU. The source may be destroyed or changed at once.
  tensor to(sinter::device where, non_blocking_t, location at = location::current()) const;

  /// The address of the first element, in the device's memory. While traced it breaks the graph, and returns a row-major copy
  /// for reading only, which lives as long as a tensor refers to the value.
  T* data(location at = location::current()) const {
    if (tracer_) return copy_to_read("data", at);
    concrete("data", at);
    if (engine::reads_count) engine::count_read("data", memory_, true, at);
    memory_.wait();
    return data_;
  }
  /// The only element; user_error unless there is exactly one. While traced it breaks the graph.
  T item(location at = location::current()) const { return only("item", at); }
  /// The value for `if (x)`, as item() gives it.
  explicit operator bool() const requires(rank == 0 && std::is_same_v<T, bool>) { return only("if", {}); }
  /// The elements in row-major order. While traced it breaks the graph.
  std::vector<T> to_vector(location at = location::current()) const {
    const tensor here = on_host("to_vector", at);
    const auto n = static_cast<std::size_t>(here.numel());
    std::vector<T> out;
    try {
      out.resize(n);
    } catch (const std::exception&) {
      detail::fail_memory("to_vector", detail::to_dims(extents_), n * sizeof(T), at);
    }
    here.template each<0>(here.data_, [next = out.begin()](const T& x) mutable { *next++ = x; });
    return out;
  }
  /// Row-major elements: this handle if its elements are row-major already, else a copy.
  tensor contiguous(location at = location::current()) const;

  /// One element, bounds-checked; assigning to it writes the shared storage. user_error on a GPU. While traced it breaks the
  /// graph, and the element is for reading only.
  template <extent_like... I>
  requires(rank > 0 && sizeof...(I) + 1 == rank) T& operator()(detail::place_index first, I... rest) const {
    return element_at({first.index, static_cast<std::int64_t>(rest)...}, first.where);
  }
  /// A compile-time error for a wrong number of indices.
  template <extent_like... I>
  requires(sizeof...(I) + 1 != rank) T& operator()(detail::place_index, I...) const {
    static_assert(sizeof...(I) + 1 == rank, "sinter: [element access] give one index for each axis");
    return *data_;
  }
  T& operator()(location at = location::current()) const requires(rank == 0) { return element_at({}, at); }

  /// The i-th item of the leading axis, without that axis: a view. Negative indices count from the end; user_error outside
  /// [-extent, extent).
  auto operator[](detail::element_index i) const requires(rank > 0) { return detail::leading_element(*this, i); }
  /// take(x, index): items of the leading axis.
  template <tensor_like I>
  requires(!std::is_same_v<typename I::value_type, bool>) auto operator[](const I& index) const requires(rank > 0) {
    return detail::elements_at(*this, index);
  }
  template <tensor_like I>
  requires(std::is_same_v<typename I::value_type, bool>) SINTER_WRONG_CALL("[take] " SINTER_MASK_IS_NO_INDEX)
  detail::wrong_call<> operator[](const I&) const { return {}; }

  /// Names first <= i < last of an axis, as slice does. x.at(axis<0>, 2, 5).set(y), or .add, .multiply, .min, .max, is a copy
  /// of x with that part changed. (places.hpp)
  template <class Axis, extent_like First, extent_like Last>
  requires(!detail::index_like<Axis>) auto at(Axis axis, First first, Last last,
                                              location where = location::current()) const {
    return detail::places_in_range(*this, axis, dim(first), dim(last), where);
  }
  /// The same for one to four indices of the first axes, as take has them: integers, or i32 and i64 tensors, which broadcast.
  template <detail::index_like I>
  auto at(const I& i, location where = location::current()) const {
    return detail::places_of(*this, where, i);
  }
  template <detail::index_like I, detail::index_like J>
  auto at(const I& i, const J& j, location where = location::current()) const {
    return detail::places_of(*this, where, i, j);
  }
  template <detail::index_like I, detail::index_like J, detail::index_like K>
  auto at(const I& i, const J& j, const K& k, location where = location::current()) const {
    return detail::places_of(*this, where, i, j, k);
  }
  template <detail::index_like I, detail::index_like J, detail::index_like K, detail::index_like L>
  auto at(const I& i, const J& j, const K& k, const L& l, location where = location::current()) const {
    return detail::places_of(*this, where, i, j, k, l);
  }

  /// Writes one value everywhere; all handles to the storage see it. user_error while traced, for a view with gaps on a GPU,
  /// and for a number that T cannot hold.
  const tensor& fill(detail::fitting<T, detail::fill_name> value, location at = location::current()) const {
    concrete("fill", at);
    if (engine::reads_count) engine::count_read("fill", memory_, true, at);
    memory_.wait();
    if (on_gpu()) fill_on_gpu(value, at);
    else each<0>(data_, [value](T& x) { x = value.value; });
    return *this;
  }

 private:
  friend struct detail::access;
  template <class U, dims Other>
  friend class tensor;

  template <class E>
  void adopt(const E& e, location at) {
    if constexpr (!fits(E::static_shape, Shape) || E::static_shape != Shape)
      detail::check_static<Shape>("tensor", e.extents_, at);
    memory_ = e.memory_;
    if constexpr (std::is_same_v<T, typename E::value_type>) data_ = e.data_;
    else data_ = reinterpret_cast<T*>(e.data_);  // the two 64-bit integer types
    extents_ = e.extents_;
    strides_ = e.strides_;
    marks_ = e.marks_;
    tracer_ = e.tracer_;
  }
  T only(const char* what, location at) const {
    if (numel() != 1 && !defined()) fail_nothing(what, at);
    if (numel() != 1) detail::fail_one_element(what, detail::to_dims(extents_), at);
    if (memory_ && !engine::reads_count && !on_gpu()) {
      memory_.wait();
      return *data_;
    }
    return *on_host(what, at).data_;
  }
  T& element_at(const index_array<rank>& index, location at) const {
    if (tracer_) return element_of_copy(index, at);
    concrete("element access", at);
    if (engine::reads_count) engine::count_read("element access", memory_, true, at);
    memory_.wait();
    if (on_gpu()) detail::fail_on_gpu("element access", detail::to_dims(extents_), memory_.where(), at);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      if (index[i] < 0 || index[i] >= extents_[i])
        detail::fail_index(detail::to_dims(index), detail::to_dims(extents_), at);
      offset += index[i] * strides_[i];
    }
    return data_[offset];
  }
  /// The concrete tensor of a traced one, as this call computed it.
  tensor now(const char* what, location at, bool for_good = false) const;
  /// The elements in host memory, for reading at once.
  tensor on_host(const char* what, location at) const;
  T* copy_to_read(const char* what, location at) const;
  T& element_of_copy(const index_array<rank>& index, location at) const;
  tensor moved(sinter::device where, location at, bool waits = true) const;
  bool on_gpu() const { return memory_.where().is_cuda(); }
  void from_list(const typename detail::nested<T, rank>::type& list, const detail::target& where, location at);
  void fill_on_gpu(T value, location at) const;
  void concrete(const char* what, location at) const {
    if (tracer_) detail::fail_traced(what, at);
    if (!memory_) fail_nothing(what, at);
  }
  [[noreturn]] SINTER_COLD void fail_nothing(const char* what, location at) const {
    detail::fail_undefined(what, at, detail::donated_to(data_, marks_));
  }
  template <std::size_t Axis, class F>
  void each(T* p, F&& f) const {
    if constexpr (Axis == rank) f(*p);
    else
      for (std::int64_t i = 0; i < extents_[Axis]; ++i, p += strides_[Axis]) each<Axis + 1>(p, f);
  }

  storage memory_;
  T* data_ = nullptr;  ///< of a donated handle: the file name of the call
  index_array<rank> extents_{};
  index_array<rank> strides_{};
  std::uint32_t marks_ = 0;  ///< see engine::add_mark; of a donated handle: donated_mark and the call's line
  detail::trace_handle tracer_;
};

template <tensor_like E>
tensor(const E&) -> tensor<typename E::value_type, E::static_shape>;
// These guides lead to errors.
template <class First, class... More>
requires(!tensor_like<First>) tensor(const First&, const More&...)
->tensor<detail::undeduced<First>, dims{}>;
template <class T>
tensor(std::initializer_list<T>) -> tensor<detail::undeduced<T>, dims{}>;
template <class T>
tensor(std::initializer_list<std::initializer_list<T>>) -> tensor<detail::undeduced<T>, dims{}>;

template <class First>
class tensor<detail::undeduced<First>, dims{}> {
 public:
  template <class... Args>
  constexpr tensor(const Args&...) {
    constexpr bool list = detail::list_of_numbers<First>;
    static_assert(!list,
                  "sinter: [tensor] of a vector or an array is from_span(v), or from_span(v, 3, 4) for its extents");
    static_assert(
        list, "sinter: [tensor] of extents is zeros<float>(3, 4), ones or full; of elements, tensor<float, 1>{3, 4}");
  }
  template <class T>
  constexpr tensor(std::initializer_list<T> list) : tensor(list.size()) {}
  template <class T>
  constexpr tensor(std::initializer_list<std::initializer_list<T>> list) : tensor(list.size()) {}
};

namespace detail {

/// An operand whose type the engine does not know.
struct operand_facts {
  const storage* memory = nullptr;  ///< a tensor's memory, whose elements may still be in transfer
  void* data = nullptr;             ///< data of a tensor or a number
  const dim* extents = nullptr;
  const dim* strides = nullptr;
  const trace_handle* traced = nullptr;  ///< of a tensor or a number
  std::uint32_t marks = 0;               ///< of a tensor
  dtype type{};                          ///< dtype of a number in a trace
  int axis = 0;                          ///< of an index leaf
};

/// The members of a new tensor whose type the engine does not know. Its maker sets the address of the elements.
struct tensor_parts {
  storage* memory;
  dim* extents;
  dim* strides;
  trace_handle* traced;
};

/// Makes tensors from parts and takes them apart; for the rest of front/.
struct access {
  template <class T, dims Shape>
  static tensor_parts parts(tensor<T, Shape>& t) {
    return {&t.memory_, t.extents_.data(), t.strides_.data(), &t.tracer_};
  }
  template <class T, dims Shape>
  static void point_to(tensor<T, Shape>& t, void* data) {
    t.data_ = static_cast<T*>(data);
  }
  /// A tensor over `memory`; `data` points into it.
  template <class T, dims Shape>
  static tensor<T, Shape> make(storage memory, T* data, const index_array<Shape.rank>& extents,
                               const index_array<Shape.rank>& strides) {
    tensor<T, Shape> t;
    t.memory_ = std::move(memory);
    t.data_ = data;
    t.extents_ = extents;
    t.strides_ = strides;
    return t;
  }
  /// The value of a node; its extents are numbers.
  template <class T, dims Shape>
  static tensor<T, Shape> traced(std::shared_ptr<engine::tracer> tracer, ir::node_id node,
                                 const index_array<Shape.rank>& extents) {
    tensor<T, Shape> t;
    t.extents_ = extents;
    t.strides_ = row_major_strides(extents);
    t.tracer_ = trace_handle(std::move(tracer), node);
    return t;
  }
  template <class T, dims Shape>
  static const storage& memory(const tensor<T, Shape>& t) {
    return t.memory_;
  }
  /// The address of the elements, after they have arrived.
  template <class T, dims Shape>
  static T* data(const tensor<T, Shape>& t) {
    t.memory_.wait();
    return t.data_;
  }
  template <class T, dims Shape>
  static const std::shared_ptr<engine::tracer>& tracer(const tensor<T, Shape>& t) {
    return t.tracer_.tracer();
  }
  /// The node of a traced tensor in the current graph.
  template <class T, dims Shape>
  static ir::node_id node(const tensor<T, Shape>& t) {
    return engine::node_of(*t.tracer_);
  }
  /// Gives the engine the facts of a tensor operand.
  template <class T, dims Shape>
  static void read(const tensor<T, Shape>& t, operand_facts& out) {
    out.memory = &t.memory_;
    out.data = t.data_;
    out.extents = t.extents_.data();
    out.strides = t.strides_.data();
    out.traced = &t.tracer_;
    out.marks = t.marks_;
  }
  template <class T, dims Shape>
  static tensor<T, Shape> known(const tensor<T, Shape>& t, const char* what, location at) {
    return t.now(what, at, true);
  }
  template <class T, dims Shape>
  static tensor<T, Shape> on_host(const tensor<T, Shape>& t, const char* what, location at) {
    return t.on_host(what, at);
  }
  /// Makes t an empty handle; a later read names the call.
  template <class T, dims Shape>
  static void donate(tensor<T, Shape>& t, location call) {
    t.memory_ = {};
    t.tracer_ = {};
    t.data_ = static_cast<T*>(const_cast<void*>(static_cast<const void*>(call.file)));
    t.marks_ = donated_mark | static_cast<std::uint32_t>(call.line);
  }
  template <class T, dims Shape>
  static location donated_to(const tensor<T, Shape>& t) {
    return detail::donated_to(t.data_, t.marks_);
  }
  /// The marks of the axes by mark_dynamic and mark_static.
  template <class T, dims Shape>
  static std::uint32_t& marks(tensor<T, Shape>& t) {
    return t.marks_;
  }
  template <class T, dims Shape>
  static std::uint32_t marks(const tensor<T, Shape>& t) {
    return t.marks_;
  }
};

}  // namespace detail
}  // namespace sinter
