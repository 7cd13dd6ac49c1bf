// onnx/dynamic.hpp: dynamic_tensor: a tensor whose dtype and rank are known at run time.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "../front/evaluate/print.hpp"
#include "../io/array.hpp"
#include "../io/npy.hpp"

namespace sinter {

/// A handle to elements, or to a value of the current trace, like tensor<T, N>, but with dtype and rank as values. Rank 12 at
/// most.
class dynamic_tensor {
 public:
  /// An empty handle.
  dynamic_tensor() = default;
  /// The same elements, or the value of an expression.
  template <tensor_like X>
  dynamic_tensor(const X& x, location at = location::current()) : dynamic_tensor(detail::untyped(x, at)) {}
  /// A tensor over a file's array.
  dynamic_tensor(const io::array& a) : dynamic_tensor(io::detail::handle_of(a)) {}
  explicit dynamic_tensor(const detail::handle& h)
      : type_(h.type), extents_(h.extents), strides_(h.strides), memory_(h.memory), data_(h.data) {
    if (h.tracer) traced_ = detail::trace_handle(h.tracer, h.node);
  }
  /// The value of a node of the current trace.
  static dynamic_tensor of_node(ir::node_id id) { return dynamic_tensor(detail::of_node(id)); }

  /// A new input of the graph in place of the tensor.
  dynamic_tensor input(engine::tracer& t, location where) const {
    dims e = extents_;
    t.input_extents(static_cast<int>(t.graph.inputs.size()), e.extent, e.rank);
    return of_node(t.graph.add_input(type_, engine::to_ir(e.extent, e.rank), where));
  }
  /// A result of a call.
  template <class Output>
  static dynamic_tensor made(Output& out) {
    detail::handle h;
    h.type = out.type;
    int rank = 0;
    if constexpr (requires { out.rank; }) rank = out.rank;
    else rank = static_cast<int>(out.extents.size());
    for (int i = 0; i < rank; ++i) h.extents.push(out.extents[static_cast<std::size_t>(i)]);
    h.strides = detail::row_major_strides(h.extents);
    h.memory = std::move(out.memory);
    h.data = static_cast<std::byte*>(h.memory.data());
    return dynamic_tensor(h);
  }
  /// Zeros with x's dtype and extents, in a trace.
  static dynamic_tensor zeros_like(const dynamic_tensor& x, location at) {
    return of_node(detail::push_constant(*engine::current(), x.type_, {}, x.extents_.extent, x.rank(), at, true));
  }
  /// A tensor with the same dtype and extents, without elements.
  dynamic_tensor shaped() const {
    dynamic_tensor x;
    x.type_ = type_;
    x.extents_ = extents_;
    return x;
  }

  bool defined() const { return memory_ || is_traced(); }
  bool is_traced() const { return static_cast<bool>(traced_); }
  dtype type() const { return type_; }
  int rank() const { return extents_.rank; }
  /// The extents; symbolic ones are possible while traced.
  const dims& shape() const { return extents_; }
  dim size(int axis, location at = location::current()) const {
    const int i = axis < 0 ? axis + rank() : axis;
    if (i < 0 || i >= rank()) detail::fail_axis("size", axis, rank(), at);
    return detail::read_at(extents_[i], at);
  }

  /// A tensor of this dtype and rank. user_error if it has others.
  template <any_tensor X>
  X as(location at = location::current()) const {
    demand_defined(at);
    if (type_ != dtype_of<typename X::value_type> || rank() != X::rank)
      fail("dynamic_tensor",
           "it holds " + text() + ", asked for is " + dtype_name(dtype_of<typename X::value_type>) + " of rank " +
               std::to_string(X::rank) + "; ask for what it holds, and cast<T>(x) that",
           at);
    if (!is_traced()) detail::check_static<X::static_shape>("dynamic_tensor", detail::to_index<X::rank>(extents_), at);
    return detail::typed<typename X::value_type, X::static_shape>(as_handle(), at);
  }
  template <class T, dims Shape>
  operator tensor<T, Shape>() const {
    return as<tensor<T, Shape>>();
  }

  /// "f32 (2, 3)".
  std::string text() const { return std::string(dtype_name(type_)) + " " + text::shape(extents_); }

  /// The elements on the host, in row-major order. While traced it breaks the graph.
  io::array to_array(location at = location::current()) const {
    demand_defined(at);
    detail::handle h = is_traced() ? io::detail::handle_of(engine::read(*traced_, "to_array", at)) : as_handle();
    const engine::tracing_scope eagerly(nullptr);
    return io::detail::array_of(std::move(h), at);
  }

  detail::handle as_handle() const {
    detail::handle h;
    h.type = type_;
    h.extents = extents_;
    h.strides = strides_;
    h.memory = memory_;
    h.data = data_;
    if (is_traced()) {
      h.tracer = traced_.tracer();
      h.node = engine::node_of(*traced_);
    }
    return h;
  }

  /// The node in the current trace; elements become an input of the graph.
  ir::node_id node(location at) const {
    demand_defined(at);
    const auto& t = engine::current();
    if (!is_traced()) return detail::capture(*t, memory_, data_, type_, rank(), extents_.extent, strides_.extent, at);
    const ir::node_id id = engine::node_of(*traced_);
    return traced_.tracer() == t ? id : t->adopt(traced_.tracer().get(), id, at);
  }

  /// The facts that the engine reads; points into the tensor.
  engine::argument as_argument() const {
    engine::argument a;
    a.data = data_;
    a.owner = &memory_;
    a.type = type_;
    a.rank = rank();
    a.extents = detail::as_numbers(extents_.extent);
    a.strides = detail::as_numbers(strides_.extent);
    a.by_value = rank() == 0 && !memory_.where().is_cuda();
    a.marks = marks_;
    return a;
  }
  const storage& memory() const { return memory_; }
  std::byte* bytes() const {
    memory_.wait();
    return data_;
  }
  const dims& strides() const { return strides_; }
  /// Makes it an empty handle; a later read names the call. Its dtype and extents stay known.
  void donate(location call) {
    memory_ = {};
    traced_ = {};
    data_ = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(call.file)));
    marks_ = detail::donated_mark | static_cast<std::uint32_t>(call.line);
  }
  location donated_to() const { return detail::donated_to(data_, marks_); }
  /// Marks an axis whose extent differs between calls, as sinter's mark_dynamic does.
  void mark_dynamic(int axis, std::int64_t least, std::int64_t most) {
    if (const location call = donated_to(); call.line) detail::fail_undefined("mark_dynamic", {}, call);
    marks_ = engine::add_mark(marks_, axis, true, least, most);
  }
  /// The elements on a device: this handle when they are there.
  dynamic_tensor to(device where, location at = location::current()) const {
    demand_defined(at);
    if (is_traced()) detail::fail_moved_while_traced(at);
    if (memory_.where() == where) return *this;
    const engine::tracing_scope eagerly(nullptr);
    const detail::handle h = detail::contiguous(as_handle(), at);
    dynamic_tensor out(h);
    const std::size_t count = static_cast<std::size_t>(h.extents.numel()) * size_of(type_);
    out.memory_ = engine::allocate(count, where);
    out.data_ = static_cast<std::byte*>(out.memory_.data());
    if (count) engine::copy(out.memory_, out.data_, h.memory, h.data, count);
    return out;
  }

  /// Of the same dtype, in a trace; extents broadcast. user_error outside of a trace: compile the function.
  friend dynamic_tensor operator+(const dynamic_tensor& a, const dynamic_tensor& b) {
    return paired(ir::op::add, a, b);
  }
  friend dynamic_tensor operator-(const dynamic_tensor& a, const dynamic_tensor& b) {
    return paired(ir::op::sub, a, b);
  }
  friend dynamic_tensor operator*(const dynamic_tensor& a, const dynamic_tensor& b) {
    return paired(ir::op::mul, a, b);
  }
  friend dynamic_tensor operator/(const dynamic_tensor& a, const dynamic_tensor& b) {
    return paired(ir::op::div, a, b);
  }
  friend dynamic_tensor operator*(double a, const dynamic_tensor& b) { return number(a, b) * b; }
  friend dynamic_tensor operator*(const dynamic_tensor& a, double b) { return a * number(b, a); }
  friend dynamic_tensor operator+(const dynamic_tensor& a, double b) { return a + number(b, a); }
  friend dynamic_tensor operator-(const dynamic_tensor& a, double b) { return a - number(b, a); }
  friend dynamic_tensor operator/(const dynamic_tensor& a, double b) { return a / number(b, a); }
  /// Integers beside integers stay integers, of which every bit counts.
  template <std::integral I>
  friend dynamic_tensor operator*(I a, const dynamic_tensor& b) {
    return number(a, b) * b;
  }
  template <std::integral I>
  friend dynamic_tensor operator*(const dynamic_tensor& a, I b) {
    return a * number(b, a);
  }
  template <std::integral I>
  friend dynamic_tensor operator+(const dynamic_tensor& a, I b) {
    return a + number(b, a);
  }
  template <std::integral I>
  friend dynamic_tensor operator-(const dynamic_tensor& a, I b) {
    return a - number(b, a);
  }
  template <std::integral I>
  friend dynamic_tensor operator/(const dynamic_tensor& a, I b) {
    return a / number(b, a);
  }

  /// Its dtype, extents and elements, as a tensor<T, N> of these is printed. Ends the graph so far while traced.
  friend std::string to_string(const dynamic_tensor& x, location at = location::current()) {
    if (!x.defined() && !x.donated_to().line) return "nothing";
    const io::array a = x.to_array(at);
    std::string out = std::string(dtype_name(a.type)) + text::shape(x.extents_) + ' ';
    const dims strides = detail::row_major_strides(x.extents_);
    visit_dtype(a.type, [&]<class T>(std::type_identity<T>) {
      detail::print_axis(out, reinterpret_cast<const T*>(a.data), a.extents.data(), detail::as_numbers(strides.extent),
                         x.rank(), 0, a.numel() > detail::printing.threshold || a.numel() == 0, detail::printing);
    });
    return out;
  }
  template <class Traits>
  friend std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const dynamic_tensor& x) {
    return out << to_string(x, location{});
  }

 private:
  void demand_defined(location at) const {
    if (const location call = donated_to(); call.line) detail::fail_undefined("dynamic_tensor", at, call);
    if (!defined()) fail("dynamic_tensor", "it is default-constructed and holds nothing; assign to it first", at);
  }
  static dynamic_tensor literal(const ir::scalar& x, const dynamic_tensor& like) {
    traced_only({});
    return of_node(detail::push_constant(*engine::current(), like.type_, x, nullptr, 0, {}, true));
  }
  static dynamic_tensor number(double x, const dynamic_tensor& like) {
    return literal(ir::scalar::of(like.type_, x), like);
  }
  template <std::integral I>
  static dynamic_tensor number(I x, const dynamic_tensor& like) {
    const auto bits = static_cast<std::int64_t>(x);
    const bool below = std::is_signed_v<I> && bits < 0, beyond = !std::is_signed_v<I> && bits < 0;
    const bool wide = !is_float(like.type_) && size_of(like.type_) == 8 && !(is_unsigned(like.type_) ? below : beyond);
    return wide ? literal({0, bits}, like) : number(static_cast<double>(x), like);
  }
  static void traced_only(location at) {
    if (!engine::current())
      fail("dynamic_tensor", "arithmetic on tensors of run-time dtypes is compiled; call this in a function that is",
           at);
  }
  static dynamic_tensor paired(ir::op code, const dynamic_tensor& a, const dynamic_tensor& b) {
    traced_only({});
    if (a.type_ != b.type_)
      fail(ir::name(code), "the operands are " + a.text() + " and " + b.text() + ", of different dtypes", {});
    dims to(0);
    const int rank = std::max(a.rank(), b.rank());
    for (int i = 0; i < rank; ++i) {
      const int p = i + a.rank() - rank, q = i + b.rank() - rank;
      const dim x = p < 0 ? dim(1) : a.extents_[p], y = q < 0 ? dim(1) : b.extents_[q];
      if (x != 1 && y != 1 && x != y)
        fail(ir::name(code), "the operands are " + a.text() + " and " + b.text() + ", which do not broadcast", {});
      to.push(x == 1 ? y : x);
    }
    auto& g = engine::current()->graph;
    const auto wide = [&](const dynamic_tensor& x) {
      return detail::push_broadcast(g, x.node({}), x.extents_.extent, x.rank(), to.extent, rank, {});
    };
    const ir::node_id left = wide(a), right = wide(b);
    return of_node(g.push(code, {left, right}));
  }

  dtype type_ = dtype::f32;
  dims extents_{}, strides_{};
  storage memory_;
  std::byte* data_ = nullptr;
  std::uint32_t marks_ = 0;
  detail::trace_handle traced_;
};

namespace onnx {

using tensor_list = std::vector<dynamic_tensor>;

}  // namespace onnx

}  // namespace sinter
