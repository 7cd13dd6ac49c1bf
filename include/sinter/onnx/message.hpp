// onnx/message.hpp: a protobuf message under construction, and ONNX's messages for nodes, tensors and values.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "../base/dtype.hpp"

namespace sinter::onnx::wire {

/// Fields are appended in the order of calls.
class message {
 public:
  message& number(int field, std::uint64_t v) {
    key(field, 0);
    varint(v);
    return *this;
  }
  message& number(int field, std::int64_t v) { return number(field, static_cast<std::uint64_t>(v)); }
  message& number(int field, int v) { return number(field, static_cast<std::int64_t>(v)); }
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
  /// Fields of a message that is written elsewhere.
  message& append(const message& m) {
    bytes_ += m.bytes_;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int kind) { varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(kind)); }
  void varint(std::uint64_t v) {
    for (; v > 127; v >>= 7) bytes_ += static_cast<char>((v & 127) | 128);
    bytes_ += static_cast<char>(v);
  }
  std::string bytes_;
};

/// TensorProto.DataType of a dtype.
constexpr int data_type(dtype t) {
  switch (t) {
    case dtype::f32:
      return 1;
    case dtype::u8:
      return 2;
    case dtype::i8:
      return 3;
    case dtype::u16:
      return 4;
    case dtype::i16:
      return 5;
    case dtype::i32:
      return 6;
    case dtype::i64:
      return 7;
    case dtype::b8:
      return 9;
    case dtype::f16:
      return 10;
    case dtype::f64:
      return 11;
    case dtype::u32:
      return 12;
    case dtype::u64:
      return 13;
    case dtype::bf16:
      return 16;
    case dtype::f8_e4m3:
      return 17;
    case dtype::f8_e5m2:
      return 19;
  }
  return 0;
}

inline message int_attribute(const char* name, std::int64_t v) {
  return message().text(1, name).number(3, v).number(20, 2);
}
inline message text_attribute(const char* name, std::string_view v) {
  return message().text(1, name).text(4, v).number(20, 3);
}
inline message ints_attribute(const char* name, const std::vector<std::int64_t>& v) {
  message m;
  m.text(1, name);
  for (const std::int64_t x : v) m.number(8, x);
  return m.number(20, 7);
}
inline message graph_attribute(const char* name, const message& graph) {
  return message().text(1, name).part(6, graph).number(20, 5);
}

}  // namespace sinter::onnx::wire
