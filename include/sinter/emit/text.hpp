// emit/text.hpp: names of types, identities and comments as text, for the printers of all targets.
#pragma once

#include "../base/series.hpp"
#include "../base/sorted.hpp"
#include "writer.hpp"

namespace sinter::engine::emit {

using ir::dim;
using plan::compute_type;
using plan::instruction;
using plan::kernel;
using plan::kind;
using plan::reduce_scope;
using plan::role;

inline std::string element_name(dtype t) { return std::string(is_bool(t) ? "b8" : dtype_name(t)); }
inline std::string memory_type(dtype t) { return "t_" + element_name(t); }
inline std::string scalar_type(dtype t) { return "s_" + element_name(compute_type(t)); }
inline std::string vector_type(dtype t) { return "v_" + element_name(compute_type(t)); }

/// The identity of a combiner, in the type in which values are computed.
inline std::string identity_of(ir::op combiner, dtype t) {
  const dtype c = compute_type(t);
  return literal(c, ir::combiner_identity(combiner, c));
}

inline std::string comma_separated(const series<std::string>& all) {
  std::string out;
  for (const auto& one : all) out += (out.empty() ? "" : ", ") + one;
  return out;
}
inline std::string joined_text(const sorted_set<std::string>& all) {
  std::string out;
  for (const auto& one : all) out += one;
  return out;
}

/// The greatest number of inlined costly operations. With more, each is a call, because compile time grows faster than their
/// number.
inline constexpr std::ptrdiff_t max_inlined = 32;

inline bool is_costly(const instruction& i) { return i.kind == kind::compute && ir::is_expensive(i.code); }
inline bool calls_functions(const kernel& k) {
  return std::count_if(k.body.begin(), k.body.end(), is_costly) > max_inlined;
}
/// "called_tanh_f32".
inline std::string called_name(const instruction& i) {
  return std::string("called_") + ir::name(i.code) + "_" + element_name(compute_type(i.type));
}
/// "s_f32 called_tanh_f32(s_f32 a) { return tanh(a); }"; `type_of` names a value's type, `value` makes the value from the
/// parameters.
template <class Type, class Value>
std::string called_function(const kernel& k, const instruction& i, Type&& type_of, Value&& value) {
  series<std::string> names, parameters;
  for (const int a : i.args) {
    names.push_back(std::string(1, static_cast<char>('a' + names.size())));
    parameters.push_back(type_of(k.body[static_cast<std::size_t>(a)].type) + " " + names.back());
  }
  return type_of(i.type) + " " + called_name(i) + "(" + comma_separated(parameters) + ") { return " + value(names) +
         "; }\n";
}

/// True when `text` calls `function`.
inline bool calls(const std::string& text, std::string_view function) {
  for (auto at = text.find(function); at != std::string::npos; at = text.find(function, at + 1)) {
    const char before = at ? text[at - 1] : ' ';
    const char after = at + function.size() < text.size() ? text[at + function.size()] : ' ';
    if (!std::isalnum(static_cast<unsigned char>(before)) && before != '_' && (after == '(' || after == '<'))
      return true;
  }
  return false;
}

/// A part of a prelude, and the functions that require it; none: always included.
struct piece {
  std::string_view text;
  series<std::string_view> functions;
};

/// Text that cannot end or continue a comment.
inline std::string comment(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') c = ' ';
  return text;
}

/// A sum of f32 squares that is f64 to have its range.
inline bool adds_f32_squares(const kernel& k, const instruction& i) {
  return i.squares && k.body[static_cast<std::size_t>(i.args[0])].type != dtype::f64;
}

}  // namespace sinter::engine::emit
