// tests/stablehlo/module.hpp: a reader of MLIR's generic text, apart from the code that writes it.
#pragma once

#include <sinter/sinter.hpp>

#include <cctype>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hlo {

struct tensor_type {
  sinter::dtype type = sinter::dtype::f32;
  std::vector<std::int64_t> extents;
  bool operator==(const tensor_type&) const = default;
};

struct operation;
struct region {
  std::vector<std::string> names;
  std::vector<tensor_type> types;
  std::vector<operation> body;
};
struct operation {
  std::string name;
  std::vector<std::string> in, out;  ///< names of values
  std::vector<region> regions;
  std::map<std::string, std::string> attributes;  ///< as they stand
  std::vector<tensor_type> in_types, out_types;
};

[[noreturn]] inline void bad(const std::string& what) { throw std::runtime_error("module: " + what); }

class reader {
 public:
  explicit reader(std::string_view text) : rest_(text) {}

  operation whole() {
    operation module = read_operation();
    space();
    if (!rest_.empty()) bad("text behind the module");
    return module;
  }
  tensor_type read_type() {
    expect("tensor<");
    tensor_type t;
    while (std::isdigit(static_cast<unsigned char>(rest_[0]))) {
      t.extents.push_back(number());
      expect("x");
    }
    std::string name;
    const auto take_name = [&] {
      for (name.clear(); std::isalnum(static_cast<unsigned char>(rest_[0])); rest_.remove_prefix(1)) name += rest_[0];
    };
    take_name();
    if (name == "complex") {  // a last axis of both parts
      t.extents.push_back(2);
      expect("<");
      take_name();
      if (name != "f32" && name != "f64") bad("complex numbers of " + name);
      expect(">");
    }
    expect(">");
    static const std::map<std::string, sinter::dtype> names{
        {"i1", sinter::dtype::b8},          {"i8", sinter::dtype::i8},
        {"i16", sinter::dtype::i16},        {"i32", sinter::dtype::i32},
        {"i64", sinter::dtype::i64},        {"ui8", sinter::dtype::u8},
        {"ui16", sinter::dtype::u16},       {"ui32", sinter::dtype::u32},
        {"ui64", sinter::dtype::u64},       {"f16", sinter::dtype::f16},
        {"bf16", sinter::dtype::bf16},      {"f32", sinter::dtype::f32},
        {"f64", sinter::dtype::f64},        {"f8E4M3FN", sinter::dtype::f8_e4m3},
        {"f8E5M2", sinter::dtype::f8_e5m2},
    };
    if (!names.contains(name)) bad("element type " + name);
    t.type = names.at(name);
    return t;
  }

 private:
  void space() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0]))) rest_.remove_prefix(1);
  }
  bool takes(std::string_view text) {
    space();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void expect(std::string_view text) {
    if (!takes(text)) bad("'" + std::string(text) + "' expected before '" + std::string(rest_.substr(0, 40)) + "'");
  }
  std::int64_t number() {
    std::int64_t n = 0;
    if (rest_.empty() || !std::isdigit(static_cast<unsigned char>(rest_[0]))) bad("a number expected");
    for (; !rest_.empty() && std::isdigit(static_cast<unsigned char>(rest_[0])); rest_.remove_prefix(1))
      n = n * 10 + (rest_[0] - '0');
    return n;
  }
  std::string word() {
    std::string out;
    const auto inside = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '#' || c == '.';
    };
    for (; !rest_.empty() && inside(rest_[0]); rest_.remove_prefix(1)) out += rest_[0];
    if (out.empty()) bad("a name expected before '" + std::string(rest_.substr(0, 40)) + "'");
    return out;
  }
  std::string value_name() {
    expect("%");
    return word();
  }
  std::string quoted() {
    expect("\"");
    const auto end = rest_.find('"');
    const std::string out(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return out;
  }
  /// The text up to a comma or the closing brace of the attributes.
  std::string attribute_text() {
    std::string out;
    int depth = 0;
    bool in_text = false;
    for (;; rest_.remove_prefix(1)) {
      if (rest_.empty()) bad("attributes without an end");
      const char c = rest_[0];
      if (c == '"') in_text = !in_text;
      if (!in_text && rest_.starts_with("->")) {
        out += "->";
        rest_.remove_prefix(1);
        continue;
      }
      if (!in_text && depth == 0 && (c == ',' || c == '}')) return out;
      if (!in_text && (c == '<' || c == '[' || c == '(' || c == '{')) ++depth;
      if (!in_text && (c == '>' || c == ']' || c == ')' || c == '}')) --depth;
      out += c;
    }
  }
  std::vector<tensor_type> types() {
    std::vector<tensor_type> out;
    expect("(");
    if (takes(")")) return out;
    do {
      space();
      out.push_back(read_type());
    } while (takes(","));
    expect(")");
    return out;
  }
  region read_region() {
    region r;
    expect("{");
    if (takes("^bb0(")) {
      while (!takes(")")) {
        r.names.push_back(value_name());
        expect(":");
        space();
        r.types.push_back(read_type());
        takes(",");
      }
      expect(":");
    }
    while (!takes("}")) r.body.push_back(read_operation());
    return r;
  }
  operation read_operation() {
    operation o;
    space();
    if (rest_.starts_with("%")) {
      const std::string name = value_name();
      if (takes(":")) {
        const std::int64_t count = number();
        for (std::int64_t k = 0; k < count; ++k) o.out.push_back(name + "#" + std::to_string(k));
      } else {
        o.out.push_back(name);
      }
      expect("=");
    }
    o.name = quoted();
    expect("(");
    while (!takes(")")) {
      o.in.push_back(value_name());
      takes(",");
    }
    if (takes("(")) {
      do o.regions.push_back(read_region());
      while (takes(","));
      expect(")");
    }
    if (takes("{")) {
      do {
        space();
        const std::string key = word();
        expect("=");
        space();
        o.attributes[key] = attribute_text();
      } while (takes(","));
      expect("}");
    }
    expect(":");
    o.in_types = types();
    expect("->");
    space();
    if (rest_.starts_with("(")) o.out_types = types();
    else o.out_types = {read_type()};
    if (o.in_types.size() != o.in.size() || o.out_types.size() != o.out.size()) bad(o.name + ": numbers of types");
    return o;
  }
  std::string_view rest_;
};

/// The function of a module.
inline operation function_of(const std::string& text) {
  operation module = reader(text).whole();
  if (module.name != "builtin.module" || module.regions.size() != 1 || module.regions[0].body.size() != 1)
    bad("one function expected");
  operation f = module.regions[0].body[0];
  if (f.name != "func.func" || f.regions.size() != 1) bad("func.func expected");
  return f;
}

/// Numbers of a text, in order: of "array<i64: 1, 2>", "[1, 2]", "dense<[[1, 2]]>", "1 : i64".
inline std::vector<std::int64_t> numbers_of(std::string text) {
  for (const char* type : {"i64", "i1"})
    for (auto at = text.find(type); at != std::string::npos; at = text.find(type))
      text.erase(at, std::string_view(type).size());
  const auto tensor = text.find(": tensor");
  if (tensor != std::string::npos) text.erase(tensor);
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < text.size();) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) || text[i] == '-') {
      std::size_t used = 0;
      out.push_back(std::stoll(text.substr(i), &used));
      i += used;
    } else {
      ++i;
    }
  }
  return out;
}
/// The list of a field: "offset_dims = [1, 2]" in "#stablehlo.gather<offset_dims = [1, 2], …>"; empty without it.
inline std::vector<std::int64_t> field(const std::string& text, const std::string& name) {
  for (auto at = text.find(name + " = "); at != std::string::npos; at = text.find(name + " = ", at + 1)) {
    if (at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '_')) continue;
    const std::size_t from = at + name.size() + 3;
    return numbers_of(text.substr(from, text.find_first_of(text[from] == '[' ? "]" : ",>", from) - from));
  }
  return {};
}

}  // namespace hlo
