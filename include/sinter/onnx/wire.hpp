// onnx/wire.hpp: the protobuf wire format: varints, fixed and length-delimited fields, read from bytes that are not trusted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../base/error.hpp"

namespace sinter::onnx::wire {

using bytes = std::span<const std::byte>;

/// A message that contains texts of a file, without control characters and of limited length.
inline std::string printable(std::string text) {
  constexpr std::size_t longest = 8000;
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  return text;
}
/// Throws user_error about a wrong file.
[[noreturn]] inline void fail_file(const std::string& why) { throw user_error("sinter: [onnx] " + printable(why)); }

/// A list of a file's numbers, names or values. Access to a missing element throws user_error.
template <class T>
class list_of : public std::vector<T> {
  using base = std::vector<T>;

 public:
  using base::base;
  list_of() = default;
  list_of(base v) : base(std::move(v)) {}
  T& operator[](std::size_t k) { return base::operator[](checked(k)); }
  const T& operator[](std::size_t k) const { return base::operator[](checked(k)); }
  T& at(std::size_t k) { return (*this)[k]; }
  const T& at(std::size_t k) const { return (*this)[k]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[this->size() - 1]; }
  const T& back() const { return (*this)[this->size() - 1]; }
  void pop_back() {
    checked(0);
    base::pop_back();
  }
  /// The elements from place `first` up to place `last`.
  list_of from(std::size_t first, std::size_t last = ~std::size_t{0}) const {
    last = std::min(last, this->size());
    if (first > last) checked(first);
    return list_of(this->begin() + static_cast<std::ptrdiff_t>(first),
                   this->begin() + static_cast<std::ptrdiff_t>(last));
  }

 private:
  std::size_t checked(std::size_t k) const {
    if (k >= this->size())
      fail_file("it has " + std::to_string(this->size()) + " axes, inputs or numbers where number " +
                std::to_string(static_cast<std::ptrdiff_t>(k)) + " is wanted");
    return k;
  }
};

/// Reads the fields of a message one after the other. Fields are views into the file's bytes, and end within them.
class reader {
 public:
  explicit reader(bytes message) : rest_(message) {}

  /// Goes to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field_ = static_cast<std::uint32_t>(key >> 3);
    kind_ = static_cast<int>(key & 7);
    if (field_ == 0 || key >> 35 != 0) fail_file("the file is damaged: it has a field of number 0");
    switch (kind_) {
      case 0:
        number_ = varint();
        return true;
      case 1:
        payload_ = take(8);
        std::memcpy(&number_, payload_.data(), 8);
        return true;
      case 2: {
        const std::uint64_t length = varint();
        payload_ = take(length);
        return true;
      }
      case 5: {
        payload_ = take(4);
        std::uint32_t word = 0;
        std::memcpy(&word, payload_.data(), 4);
        number_ = word;
        return true;
      }
      default:
        fail_file("the file is damaged: it has a field of wire type " + std::to_string(kind_));
    }
  }

  std::uint32_t field() const { return field_; }
  bool is_message() const { return kind_ == 2; }

  /// The content of a length-delimited field.
  bytes message() const {
    if (kind_ != 2) fail_file("the file is damaged: field " + std::to_string(field_) + " is no message");
    return payload_;
  }
  std::string_view text() const {
    const bytes b = message();
    return {reinterpret_cast<const char*>(b.data()), b.size()};
  }
  std::int64_t integer() const {
    if (kind_ == 2) fail_file("the file is damaged: field " + std::to_string(field_) + " is no number");
    return static_cast<std::int64_t>(number_);
  }
  float single() const {
    if (kind_ != 5) fail_file("the file is damaged: field " + std::to_string(field_) + " is no float");
    float x = 0;
    std::memcpy(&x, &number_, 4);
    return x;
  }

  /// Appends a repeated number, packed or alone.
  void integers(std::vector<std::int64_t>& out) const {
    if (kind_ != 2) {
      out.push_back(integer());
      return;
    }
    for (reader r(payload_); !r.rest_.empty();) out.push_back(static_cast<std::int64_t>(r.varint()));
  }
  /// Appends a repeated float or double, packed or alone.
  template <class T>
  void fixed(std::vector<T>& out) const {
    if (kind_ != 2) {
      if (kind_ != (sizeof(T) == 4 ? 5 : 1)) fail_file("the file is damaged: a repeated number is of another size");
      T x{};
      std::memcpy(&x, &number_, sizeof(T));
      out.push_back(x);
      return;
    }
    if (payload_.size() % sizeof(T) != 0) fail_file("the file is damaged: packed numbers are cut short");
    const std::size_t first = out.size();
    out.resize(first + payload_.size() / sizeof(T));
    if (!payload_.empty()) std::memcpy(out.data() + first, payload_.data(), payload_.size());
  }

 private:
  std::uint64_t varint() {
    std::uint64_t x = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (rest_.empty()) fail_file("the file is cut short within a number");
      const auto b = static_cast<std::uint64_t>(rest_[0]);
      rest_ = rest_.subspan(1);
      if (shift < 64) x |= (b & 127) << shift;
      if (b < 128) return x;
    }
    fail_file("the file is damaged: a number has more than ten bytes");
  }
  bytes take(std::uint64_t count) {
    if (count > rest_.size())
      fail_file("the file is cut short: a field of " + std::to_string(count) + " bytes has " +
                std::to_string(rest_.size()) + " left");
    const bytes out = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(static_cast<std::size_t>(count));
    return out;
  }

  bytes rest_;
  bytes payload_;
  std::uint32_t field_ = 0;
  int kind_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace sinter::onnx::wire
