// onnx/operators.hpp: the arguments of an operator's row: its inputs as items, its attributes, and the places of its results.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <span>

#include "proto.hpp"
#include "values.hpp"

namespace sinter::onnx {

/// Elements that are known while the model is traced. Integers and flags may be sizes of later calls.
struct host_values {
  dtype type = dtype::i64;
  extents shape;
  extents ints;                  ///< the elements, unless the dtype is floating
  wire::list_of<double> floats;  ///< the elements of a floating dtype

  std::size_t count() const { return is_float(type) ? floats.size() : ints.size(); }
  bool is_number() const {
    for (const dim& d : ints)
      if (d.is_symbolic()) return false;
    return true;
  }
};

/// A value of the model while it is traced: nothing, a tensor, or a list of items. The list is a sequence, or an optional
/// with at most one item.
struct item {
  dynamic_tensor x;                         ///< a traced tensor, or the elements of a weight
  std::shared_ptr<const host_values> host;  ///< the elements, if they are known
  std::shared_ptr<std::vector<item>> list;
  bool is_optional = false;
  int format = 0;  ///< a TensorProto.DataType without a dtype: the elements are in a wider dtype
  std::shared_ptr<const std::string> refused;  ///< why a tensor cannot hold the value; reported when the value is read

  bool present() const { return x.defined() || host || list || refused; }
  dtype type() const { return host ? host->type : x.type(); }
  extents shape() const {
    if (host) return host->shape;
    return extents(x.shape().begin(), x.shape().end());
  }
};

class importer;
struct frame;

/// The dtype of a TensorProto.DataType; nothing for strings, complex numbers and narrow formats.
inline std::optional<dtype> dtype_of_onnx(int type) {
  switch (type) {
    case 1:
      return dtype::f32;
    case 2:
      return dtype::u8;
    case 3:
      return dtype::i8;
    case 4:
      return dtype::u16;
    case 5:
      return dtype::i16;
    case 6:
      return dtype::i32;
    case 7:
      return dtype::i64;
    case 9:
      return dtype::b8;
    case 10:
      return dtype::f16;
    case 11:
      return dtype::f64;
    case 12:
      return dtype::u32;
    case 13:
      return dtype::u64;
    case 16:
      return dtype::bf16;
    case 17:
      return dtype::f8_e4m3;
    case 19:
      return dtype::f8_e5m2;
    default:
      return std::nullopt;
  }
}
/// The TensorProto.DataType of text. Its values are places in the model's texts, as i64; -1 is any other text.
inline constexpr int text_format = 8;
/// Whether a format of 8, 4 or 2 bits lacks a dtype. Its elements are held in a wider dtype.
inline bool is_packed(int type) { return type == 18 || type == 20 || (type >= 21 && type <= 26); }
inline const char* name_of_onnx(int type) {
  constexpr const char* names[] = {
      "undefined", "float",      "uint8",      "int8",         "uint16",         "int16",      "int32",
      "int64",     "string",     "bool",       "float16",      "double",         "uint32",     "uint64",
      "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
      "uint4",     "int4",       "float4e2m1", "float8e8m0",   "uint2",          "int2"};
  return type >= 0 && type < static_cast<int>(std::size(names)) ? names[type] : "of an unknown type";
}

/// The TensorProto.DataType of a text like "FLOAT"; 0 if the text names no type.
inline int format_of_text(std::string_view text) {
  constexpr std::string_view names[] = {"UNDEFINED", "FLOAT",  "UINT8", "INT8",    "UINT16", "INT16",  "INT32",
                                        "INT64",     "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64"};
  const auto found = std::find(std::begin(names), std::end(names), text);
  return found == std::end(names) ? 0 : static_cast<int>(found - std::begin(names));
}

/// Checks that an integer attribute may become an extent. Integers whose bits stand for a size of calls may not.
inline std::int64_t number_of_attribute(std::int64_t v) {
  if (dim(v).is_symbolic())
    wire::fail_file("an attribute is " + std::to_string(v) + ", which no extent, position or count is");
  return v;
}

/// One node of the model while it is traced.
class call {
 public:
  call(importer& i, const node_proto& node, frame& in_frame, std::int64_t opset)
      : im(i), n(node), at(in_frame), version(opset) {}

  importer& im;
  const node_proto& n;
  frame& at;
  std::int64_t version;  ///< the version of the operator's domain
  wire::list_of<item> in, out;

  bool has(std::size_t k) const { return k < in.size() && in[k].present(); }
  const item& given(std::size_t k) const {
    if (!has(k)) wire::fail_file("it has no input " + std::to_string(k));
    if (in[k].refused) wire::fail_file(*in[k].refused);
    return in[k];
  }
  /// The value of input k in the current graph. Call it after all reads of elements, because a read ends the graph.
  node x(std::size_t k) const;
  dtype type(std::size_t k) const { return given(k).type(); }
  extents shape(std::size_t k) const { return given(k).shape(); }
  int rank(std::size_t k) const { return static_cast<int>(shape(k).size()); }
  /// The elements of input k: known, or read. A read ends the graph.
  const host_values& host(std::size_t k);
  /// The integer elements of input k. They may be sizes of calls.
  const extents& sizes(std::size_t k);
  wire::list_of<std::int64_t> integers(std::size_t k);
  /// The only element of input k as a literal of a dtype. An integer keeps all its bits.
  ir::scalar scalar(std::size_t k, dtype as);
  /// The elements of input k if they are few and known without a read; else null.
  const host_values* known(std::size_t k);
  /// The element of input k in f64: a size or a factor.
  double number(std::size_t k);
  wire::list_of<double> numbers(std::size_t k);

  const attribute_proto* attribute(std::string_view name) const;
  std::int64_t i(std::string_view name, std::int64_t otherwise) const {
    const auto* a = attribute(name);
    return a ? number_of_attribute(a->i) : otherwise;
  }
  double f(std::string_view name, double otherwise) const {
    const auto* a = attribute(name);
    return a ? static_cast<double>(a->f) : otherwise;
  }
  std::string s(std::string_view name, const char* otherwise) const {
    const auto* a = attribute(name);
    return a ? a->s : otherwise;
  }
  wire::list_of<std::int64_t> list(std::string_view name) const {
    const auto* a = attribute(name);
    if (!a) return std::vector<std::int64_t>();
    for (const std::int64_t v : a->ints) number_of_attribute(v);
    return a->ints;
  }
  /// The TensorProto.DataType in an attribute. Before version 6 it is a text.
  int format_named(std::string_view name, int otherwise) const {
    const auto* a = attribute(name);
    if (a && !a->s.empty()) return format_of_text(a->s);
    const std::int64_t asked = a ? a->i : otherwise;
    return asked > 0 && asked < 100 ? static_cast<int>(asked) : 0;
  }
  /// The dtype in an attribute.
  dtype type_named(std::string_view name, int otherwise) const {
    const int asked = format_named(name, otherwise);
    const auto t = dtype_of_onnx(asked);
    if (!t) refuse("its " + std::string(name) + " is " + name_of_onnx(asked) + ", which no dtype is");
    return *t;
  }
  bool has_attribute(std::string_view name) const { return attribute(name) != nullptr; }

  void give(std::size_t k, const node& v) {
    item r;
    r.x = dynamic_tensor::of_node(v.id());
    give(k, std::move(r));
  }
  void give(std::size_t k, host_values v) {
    item r;
    r.host = std::make_shared<const host_values>(std::move(v));
    give(k, std::move(r));
  }
  void give(std::size_t k, item r) {
    if (out.size() <= k) out.resize(k + 1);
    out[k] = std::move(r);
  }
  void give(const node& v) { give(0, v); }
  /// Whether the model uses result k.
  bool wants(std::size_t k) const { return k < n.outputs.size() && !n.outputs[k].empty(); }
  [[noreturn]] void refuse(const std::string& why) const { wire::fail_file(why); }
};

/// The implementation of an operator in sinter.
struct row {
  const char* name;
  const char* domain;  ///< "" is ONNX's own
  int since;  ///< the first version of the operator for this row; the next row of the name, if any, replaces it
  void (*run)(call& c);
  const char* how;  ///< for the table of docs/onnx.md
};

/// The `how` of rows that the user registered.
inline constexpr const char of_user[] = "the user's function";

/// The axes in ascending order, each once.
inline std::vector<int> ascending_axes(const std::vector<std::int64_t>& axes, int rank) {
  std::set<int> all;
  for (auto a : axes) all.insert(axis_of(a, rank));
  return {all.begin(), all.end()};
}
inline std::vector<int> all_axes(int rank, int first = 0) {
  std::vector<int> all;
  for (int i = first; i < rank; ++i) all.push_back(i);
  return all;
}

}  // namespace sinter::onnx
