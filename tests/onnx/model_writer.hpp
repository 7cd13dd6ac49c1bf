// A writer of small ONNX models, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onnx_test {

/// A message under way.
class message {
 public:
  message& number(int field, std::uint64_t v) {
    key(field, 0);
    varint(v);
    return *this;
  }
  message& text(int field, std::string_view s) {
    key(field, 2);
    varint(s.size());
    bytes_ += s;
    return *this;
  }
  message& part(int field, const message& m) { return text(field, m.bytes_); }
  message& single(int field, float x) {
    key(field, 5);
    bytes_.append(reinterpret_cast<const char*>(&x), 4);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }
  std::span<const std::byte> span() const { return {reinterpret_cast<const std::byte*>(bytes_.data()), bytes_.size()}; }

 private:
  void key(int field, int kind) { varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(kind)); }
  void varint(std::uint64_t v) {
    for (; v > 127; v >>= 7) bytes_ += static_cast<char>((v & 127) | 128);
    bytes_ += static_cast<char>(v);
  }
  std::string bytes_;
};

enum { f32 = 1, u8 = 2, i8 = 3, i32 = 6, i64 = 7, b8 = 9, f64 = 11 };

template <class T>
message tensor(const std::string& name, std::vector<std::int64_t> extents, const std::vector<T>& elements) {
  message t;
  for (auto e : extents) t.number(1, static_cast<std::uint64_t>(e));
  t.number(2, sizeof(T) == 4 ? f32 : i64).text(8, name);
  t.text(9, {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T)});
  return t;
}

/// An input or output; an extent is a number, or the name of an open axis.
inline message value(const std::string& name, int type, const std::vector<std::string>& axes) {
  message shape;
  for (const auto& a : axes) {
    message d;
    if (a[0] >= '0' && a[0] <= '9') d.number(1, std::stoull(a));
    else d.text(2, a);
    shape.part(1, d);
  }
  return message().text(1, name).part(
      2, message().part(1, message().number(1, static_cast<std::uint64_t>(type)).part(2, shape)));
}

/// A sequence (field 4) or an optional (9) of tensors of a dtype.
inline message value_of(int field, const std::string& name, int type) {
  const message inner = message().part(1, message().number(1, static_cast<std::uint64_t>(type)));
  return message().text(1, name).part(2, message().part(field, message().part(1, inner)));
}

inline message attribute(const std::string& name, std::int64_t v) {
  return message().text(1, name).number(3, static_cast<std::uint64_t>(v)).number(20, 2);
}
inline message attribute_text(const std::string& name, const std::string& text) {
  return message().text(1, name).text(4, text).number(20, 3);
}
inline message attribute_floats(const std::string& name, const std::vector<float>& all) {
  message a = message().text(1, name).number(20, 6);
  for (const float x : all) a.single(7, x);
  return a;
}
inline message attribute_float(const std::string& name, float x) {
  return message().text(1, name).single(2, x).number(20, 1);
}
inline message attribute_list(const std::string& name, const std::vector<std::int64_t>& all) {
  message a = message().text(1, name).number(20, 7);
  for (const auto x : all) a.number(8, static_cast<std::uint64_t>(x));
  return a;
}
inline message attribute_texts(const std::string& name, const std::vector<std::string>& all) {
  message a = message().text(1, name).number(20, 8);
  for (const auto& x : all) a.text(9, x);
  return a;
}
/// A graph within a node: its body() is given.
inline message attribute_graph(const std::string& name, const message& body) {
  return message().text(1, name).part(6, body).number(20, 5);
}
inline message node(const std::string& op, const std::vector<std::string>& in, const std::vector<std::string>& out,
                    const std::vector<message>& attributes = {}) {
  message n;
  for (const auto& i : in) n.text(1, i);
  for (const auto& o : out) n.text(2, o);
  n.text(3, op + "_of_" + out[0]).text(4, op);
  for (const auto& a : attributes) n.part(5, a);
  return n;
}

struct graph {
  std::vector<message> nodes, initializers, inputs, outputs;
  message body() const {
    message g;
    for (const auto& n : nodes) g.part(1, n);
    g.text(2, "graph");
    for (const auto& t : initializers) g.part(5, t);
    for (const auto& v : inputs) g.part(11, v);
    for (const auto& v : outputs) g.part(12, v);
    return g;
  }
  std::string model(int opset = 20) const {
    const message set = message().number(2, static_cast<std::uint64_t>(opset));
    return message().number(1, 9).part(7, body()).part(8, set).bytes();
  }
};

inline std::span<const std::byte> bytes_of(const std::string& s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

}  // namespace onnx_test
