// onnx/model_rules.hpp: the definitions of model.hpp, compiled once.
#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "batched.hpp"
#include "model.hpp"
#include "order.hpp"
#include "registered.hpp"
#include "roles.hpp"
#include "table.hpp"

namespace sinter::onnx {

namespace detail_ {

using io::detail::bytes_of;
using io::detail::folder_of;

/// Whether a file name stays in a folder and its subfolders, apart from links.
inline bool stays_below(const std::string& name) {
  bool inside =
      !name.empty() && name[0] != '/' && name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
  for (std::size_t at = 0; inside && at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    inside = name.substr(at, end - at) != "..";
    at = end + 1;
  }
  return inside;
}

[[noreturn]] inline void fail_without_folder(const tensor_proto& t) {
  wire::fail_file("the tensor '" + t.name + "' is in the file '" + t.location +
                  "', and a model in memory has no folder; give the folder that the file is in: "
                  "onnx::load(bytes, \"folder\")");
}

/// A regular file beside the model. Neither its name nor a link may lead to other folders. If the model itself is a link, as
/// in caches of hubs, its files may be in the folder of the link's target.
inline const storage& external_file(const tensor_proto& t, loaded& m) {
  const std::string& name = t.location;
  if (!stays_below(name))
    wire::fail_file("the tensor '" + t.name + "' is in the file '" + name +
                    "', which is not below the model's folder; put it there");
  if (!m.folder) fail_without_folder(t);
  storage& file = m.external[name];
  if (file) return file;
  const std::string path = *m.folder + "/" + name, real = io::detail::real_path(path);
  const std::string whole = m.path.empty() ? "" : io::detail::real_path(m.path);
  if (!real.empty() && !io::detail::is_below(real, io::detail::real_path(*m.folder)) &&
      (whole.empty() || !io::detail::is_below(real, folder_of(whole))))
    wire::fail_file("the tensor '" + t.name + "' is in the file '" + name + "', a link to '" + real +
                    "', which is not below the model's folder; put the file itself there");
  return file = io::detail::map_regular_file("onnx::load", real.empty() ? path : real, place_of_nodes());
}

template <class T, class From>
void copy_numbers(io::array& a, const std::vector<From>& from, const std::string& name) {
  const auto n = static_cast<std::size_t>(a.numel());
  if (from.size() != n)
    wire::fail_file("the tensor '" + name + "' has " + std::to_string(from.size()) +
                    " elements where its extents say " + std::to_string(n));
  for (std::size_t i = 0; i < n; ++i) {
    T v{};
    if constexpr (is_narrow_float<T>) v.bits = static_cast<decltype(v.bits)>(from[i]);
    else v = static_cast<T>(from[i]);
    std::memcpy(static_cast<void*>(a.data + i * sizeof(T)), &v, sizeof(T));
  }
}

/// Bytes of a tensor, and the memory block around them.
inline wire::bytes raw_of(const tensor_proto& t, loaded& m, storage& block, std::size_t want) {
  wire::bytes raw = t.raw;
  block = m.file;
  if (t.external) {
    block = external_file(t, m);
    const wire::bytes all = bytes_of(block);
    const std::size_t length = t.length < 0 ? want : static_cast<std::size_t>(t.length);
    if (static_cast<std::size_t>(t.offset) > all.size() || length > all.size() - static_cast<std::size_t>(t.offset))
      wire::fail_file("the tensor '" + t.name + "' lies beyond the end of '" + t.location + "'");
    raw = all.subspan(static_cast<std::size_t>(t.offset), length);
  }
  if (raw.size() != want)
    wire::fail_file("the tensor '" + t.name + "' has " + std::to_string(raw.size()) + " bytes where its extents say " +
                    std::to_string(want));
  return raw;
}

/// The bytes in `copies` for the elements of a tensor in the model's file. 0 if the elements are aligned, or few.
inline std::size_t bytes_to_copy(const tensor_proto& t) {
  constexpr std::size_t line = 64;
  const auto type = dtype_of_onnx(t.type);
  if (!type || t.external || t.places || t.raw.size() < 2 * line) return 0;
  if (reinterpret_cast<std::uintptr_t>(t.raw.data()) % size_of(*type) == 0) return 0;
  return (t.raw.size() + line - 1) / line * line;
}

/// A copy of a tensor's unaligned bytes. All copies of a file are in one block, on huge pages. The pages of the file are
/// released.
inline io::array aligned_copy(const tensor_proto& t, dtype type, wire::bytes raw, const storage& block, loaded& m) {
  const std::size_t room = bytes_to_copy(t);
  if (!m.copies) {
    std::size_t all = 0;
    for (const auto& x : m.proto.graph.initializers) all += bytes_to_copy(*x);
    m.copies = io::detail::make_array(dtype::u8, {static_cast<std::int64_t>(all)});
  }
  io::array a;
  if (room != 0 && room <= m.copies->bytes().size() - m.copied) {
    a.type = type;
    a.extents = t.extents;
    a.data = m.copies->data + m.copied;
    a.memory = io::detail::part_of(m.copies->memory, a.data, raw.size());
    m.copied += room;
  } else {
    a = io::detail::make_array(type, t.extents);
  }
  constexpr std::size_t piece = std::size_t{1} << 22;
  for (std::size_t at = 0; at < raw.size(); at += piece) {
    const wire::bytes part = raw.subspan(at, std::min(piece, raw.size() - at));
    std::memcpy(a.data + at, part.data(), part.size());
    io::detail::leave_memory(block, part);
  }
  return a;
}

}  // namespace detail_

namespace detail_ {

/// Elements of a format without a dtype, in a wider dtype.
inline item unpacked(const tensor_proto& t, loaded& m) {
  const int bits = t.type == 25 || t.type == 26 ? 2 : t.type == 18 || t.type == 20 || t.type == 24 ? 8 : 4;
  std::size_t count = 0;
  if (!io::detail::count_bytes(t.extents, 1, count) || t.extents.size() > static_cast<std::size_t>(max_rank) ||
      count > (std::size_t{1} << 40))
    wire::fail_file("the tensor '" + t.name + "' has extents that no tensor has");
  const std::size_t each = static_cast<std::size_t>(8 / bits), packed = (count + each - 1) / each;
  std::vector<unsigned char> bytes;
  if (t.has_raw || t.external) {
    storage block;
    const wire::bytes raw = raw_of(t, m, block, packed);
    for (const std::byte b : raw) bytes.push_back(static_cast<unsigned char>(b));
  } else {
    if (t.ints.size() != packed)
      wire::fail_file("the tensor '" + t.name + "' has another number of elements than its extents say");
    for (const auto v : t.ints) bytes.push_back(static_cast<unsigned char>(v));
  }
  host_values h;
  h.type = rows::carrier_of(t.type);
  for (const auto e : t.extents) h.shape.push_back(dim(e));
  for (std::size_t k = 0; k < count; ++k) {
    const unsigned code =
        static_cast<unsigned>(bytes[k / each] >> (k % each * static_cast<std::size_t>(bits))) & ((1u << bits) - 1);
    const bool negative = code >> (bits - 1) != 0;
    if (const auto f = rows::float_format(t.type)) {
      const unsigned rest = code & ((1u << (bits - 1)) - 1), e = rest >> f->mantissa,
                     part = rest & ((1u << f->mantissa) - 1);
      const double scale = std::ldexp(1.0, f->least - f->mantissa);
      double v = e == 0 ? part * scale : std::ldexp((1u << f->mantissa) + part, static_cast<int>(e) - 1) * scale;
      if (f->has_nan && negative && rest == 0) v = std::numeric_limits<double>::quiet_NaN();
      h.floats.push_back(negative ? -v : v);
    } else if (t.type == 24) {
      h.floats.push_back(code == 255 ? std::numeric_limits<double>::quiet_NaN()
                                     : std::ldexp(1.0, static_cast<int>(code) - 127));
    } else {
      const bool is_signed = t.type == 22 || t.type == 26;
      h.ints.push_back(dim(static_cast<std::int64_t>(code) - (is_signed && negative ? std::int64_t{1} << bits : 0)));
    }
  }
  item out;
  out.x = dynamic_tensor(array_of(h));
  out.format = t.type;
  return out;
}
}  // namespace detail_

namespace detail_ {

/// The row-major places of a sparse tensor's elements. The file gives a number for each element, or a number for each axis of
/// each element.
inline std::vector<std::int64_t> places_of_sparse(const tensor_proto& t, std::int64_t count, std::int64_t all,
                                                  loaded& m) {
  const io::array a = item_of_tensor(*t.places, m).x.to_array(place_of_nodes());
  const auto rank = static_cast<std::int64_t>(t.extents.size());
  const bool by_axis = a.extents.size() == 2;
  if (a.type != dtype::i64 || a.numel() != (by_axis ? count * rank : count) || a.extents.size() > 2)
    wire::fail_file("the sparse tensor '" + t.name + "' has other places than one for each element");
  std::vector<std::int64_t> out;
  for (std::int64_t k = 0, next = 0; k < count; ++k) {
    std::int64_t at = 0, part = 0;
    for (std::int64_t d = 0; d < (by_axis ? rank : 1); ++d, ++next) {
      const std::int64_t extent = by_axis ? t.extents[static_cast<std::size_t>(d)] : all;
      std::memcpy(&part, a.data + 8 * next, 8);
      if (part < 0 || part >= extent)
        wire::fail_file("the sparse tensor '" + t.name + "' has an element at " + std::to_string(part) +
                        " of an axis of " + std::to_string(extent));
      at = at * extent + part;
    }
    out.push_back(at);
  }
  return out;
}
/// A sparse tensor with all its zeros. It may be 64 times as large as its stored elements. All sparse tensors of a file may
/// exceed that by 64 MiB in total.
inline item dense_of(const tensor_proto& t, loaded& m) {
  tensor_proto held = t;
  held.places.reset();
  held.extents = {t.places->extents.empty() ? 1 : t.places->extents[0]};
  const io::array values = item_of_tensor(held, m).x.to_array(place_of_nodes());
  std::size_t bytes = 0;
  constexpr std::size_t most = std::size_t{64} << 20;
  const std::size_t each = size_of(values.type), free = 64 * values.bytes().size();
  const bool counted =
      io::detail::count_bytes(t.extents, each, bytes) && t.extents.size() <= static_cast<std::size_t>(max_rank);
  const std::size_t beyond = bytes > free ? bytes - free : 0;
  if (!counted || beyond > most - m.spread)
    wire::fail_file("the sparse tensor '" + t.name + "' is too large beside its " + std::to_string(values.numel()) +
                    " elements; make it dense");
  m.spread += beyond;
  io::array a = io::detail::make_array(values.type, t.extents);
  if (bytes > 0) std::memset(a.data, 0, bytes);
  const auto places = places_of_sparse(t, values.numel(), a.numel(), m);
  for (std::size_t k = 0; k < places.size(); ++k)
    std::memcpy(a.data + static_cast<std::size_t>(places[k]) * each, values.data + k * each, each);
  item out;
  out.x = dynamic_tensor(a);
  return out;
}

}  // namespace detail_

/// The elements of a tensor of the file. Aligned elements stay in the mapped file; others are copied.
inline item item_of_tensor(const tensor_proto& t, const loaded& shared) {
  auto& m = const_cast<loaded&>(shared);
  if (t.places) return detail_::dense_of(t, m);
  if (is_packed(t.type)) return detail_::unpacked(t, m);
  const auto type = dtype_of_onnx(t.type);
  if (!type) wire::fail_file("the tensor '" + t.name + "' is of " + name_of_onnx(t.type) + ", which no tensor holds");
  std::size_t want = 0;
  if (!io::detail::count_bytes(t.extents, size_of(*type), want) ||
      t.extents.size() > static_cast<std::size_t>(max_rank))
    wire::fail_file("the tensor '" + t.name + "' has extents that no tensor has");
  io::array a;
  if (t.has_raw || t.external) {
    storage block;
    const wire::bytes raw = detail_::raw_of(t, m, block, want);
    if (reinterpret_cast<std::uintptr_t>(raw.data()) % size_of(*type) == 0 && block && want > 0) {
      a.type = *type;
      a.extents = t.extents;
      a.data = static_cast<std::byte*>(block.data()) + (raw.data() - static_cast<const std::byte*>(block.data()));
      a.memory = io::detail::part_of(block, a.data, want);
    } else {
      a = detail_::aligned_copy(t, *type, raw, block, m);
    }
  } else {
    const std::size_t held = (t.floats.size() + t.ints.size() + t.doubles.size());
    if (want / size_of(*type) != held)
      wire::fail_file("the tensor '" + t.name + "' has " + std::to_string(held) + " elements where its extents say " +
                      std::to_string(want / size_of(*type)));
    a = io::detail::make_array(*type, t.extents);
    visit_dtype(*type, [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_same_v<T, float>) detail_::copy_numbers<T>(a, t.floats, t.name);
      else if constexpr (std::is_same_v<T, double>) detail_::copy_numbers<T>(a, t.doubles, t.name);
      else detail_::copy_numbers<T>(a, t.ints, t.name);
    });
  }
  io::detail::settle_flags(a);
  item out;
  out.x = dynamic_tensor(a);
  return out;
}

namespace detail_ {

/// Whether a graph, or an inner one, has operators of ai.onnx.ml.
inline bool maps_texts(const std::vector<node_proto>& nodes) {
  for (const node_proto& n : nodes) {
    if (n.domain == "ai.onnx.ml") return true;
    for (const attribute_proto& a : n.attributes)
      if (a.g && maps_texts(a.g->nodes)) return true;
  }
  return false;
}
inline void collect_texts(const attribute_proto& a, bool any, std::vector<std::string>& out) {
  out.insert(out.end(), a.strings.begin(), a.strings.end());
  if (a.t) out.insert(out.end(), a.t->texts.begin(), a.t->texts.end());
  if (any && !a.s.empty()) out.push_back(a.s);
}
/// Domains and names.
using function_names = std::set<std::pair<std::string_view, std::string_view>>;
/// The texts that operators of ai.onnx.ml map to numbers or back, also in inner graphs. A call of a function of the model
/// may give them as well.
inline void collect_texts(const function_names& functions, const std::vector<node_proto>& nodes,
                          std::vector<std::string>& out) {
  for (const node_proto& n : nodes) {
    const bool calls = functions.contains({n.domain, n.op});
    for (const attribute_proto& a : n.attributes) {
      if (a.g) collect_texts(functions, a.g->nodes, out);
      const bool maps = n.domain == "ai.onnx.ml" && a.name != "nodes_modes";
      if (maps || calls) collect_texts(a, calls || a.name == "default_string", out);
    }
  }
}
inline std::vector<std::string> texts_of(const model_proto& p) {
  std::vector<std::string> all;
  bool maps = maps_texts(p.graph.nodes);
  for (const function_proto& f : p.functions) maps = maps || maps_texts(f.nodes);
  if (!maps) return all;
  function_names functions;
  for (const function_proto& f : p.functions) functions.emplace(f.domain, f.name);
  collect_texts(functions, p.graph.nodes, all);
  for (const function_proto& f : p.functions) {
    collect_texts(functions, f.nodes, all);
    for (const attribute_proto& a : f.defaults) collect_texts(a, true, all);
  }
  if (!all.empty()) all.push_back("_Unused");
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

inline value_description described(const std::string& name, const type_proto& t, bool has_texts) {
  using kind_t = value_description::kind_t;
  value_description d;
  d.name = name;
  if (t.kind == type_proto::kind_t::sequence || t.kind == type_proto::kind_t::optional) {
    d.kind = t.kind == type_proto::kind_t::sequence ? kind_t::sequence : kind_t::optional;
    for (const type_proto& inner : t.inner) d.inner.push_back(described("", inner, has_texts));
    return d;
  }
  d.type = rows::carrier_of(t.element);
  d.is_text = t.element == text_format && has_texts;
  const bool held = dtype_of_onnx(t.element) || is_packed(t.element) || d.is_text;
  const bool unknown = t.kind == type_proto::kind_t::none || (t.kind == type_proto::kind_t::tensor && t.element == 0);
  d.kind = unknown || (t.kind == type_proto::kind_t::tensor && held) ? kind_t::tensor : kind_t::other;
  d.has_type = !unknown;
  d.has_shape = t.has_shape;
  for (const auto& a : t.axes) {
    d.extents.push_back(a.extent < 0 || !a.name.empty() ? -1 : a.extent);
    d.axes.push_back(a.name);
  }
  return d;
}
inline value_description describe(const value_info& v, bool has_texts) { return described(v.name, v.type, has_texts); }

/// Collects nodes without a row, also in inner graphs. Each function is visited once.
inline void find_refused(const std::vector<node_proto>& nodes, const loaded& m,
                         const std::map<std::string, std::int64_t>& opsets, std::vector<std::string>& out, int depth,
                         std::set<const function_proto*>& seen) {
  if (depth > 64) wire::fail_file("graphs or functions are nested more than 64 deep");
  std::set<std::string_view> results;
  for (const node_proto& n : nodes)
    for (const std::string& name : n.outputs)
      if (!name.empty() && !results.insert(name).second)
        wire::fail_file("the value '" + name + "' is given twice, the second time by node '" + n.name + "' (" + n.op +
                        "); give the results of nodes names of their own");
  for (const node_proto& n : nodes) {
    const auto version = opsets.count(n.domain) ? opsets.at(n.domain) : 1;
    const auto fn = m.functions.find({n.domain, n.op});
    if (!row_for(n.domain, n.op, version)) {
      if (fn != m.functions.end()) {
        if (seen.insert(fn->second).second)
          find_refused(fn->second->nodes, m, fn->second->opsets, out, depth + 1, seen);
      } else out.push_back((n.domain.empty() ? "" : n.domain + ".") + n.op + " (node '" + n.name + "')");
    }
    for (const auto& a : n.attributes)
      if (a.g) find_refused(a.g->nodes, m, opsets, out, depth + 1, seen);
  }
}

/// The first tensor in an external file, among tensors of nodes and of inner graphs; null if all are in the model's file.
inline const tensor_proto* find_external(const graph_proto& g);
inline const tensor_proto* find_external(const std::vector<node_proto>& nodes) {
  for (const node_proto& n : nodes)
    for (const attribute_proto& a : n.attributes) {
      if (a.t && a.t->external) return a.t.get();
      if (const tensor_proto* const within = a.g ? find_external(*a.g) : nullptr) return within;
    }
  return nullptr;
}
inline const tensor_proto* find_external(const graph_proto& g) {
  for (const auto& t : g.initializers) {
    if (t->external) return t.get();
    if (t->places && t->places->external) return t->places.get();
  }
  return find_external(g.nodes);
}

/// Checks that a model without a folder names no external file.
inline void check_folder(const loaded& m) {
  if (m.folder) return;
  const tensor_proto* t = find_external(m.proto.graph);
  for (std::size_t k = 0; !t && k < m.proto.functions.size(); ++k) t = find_external(m.proto.functions[k].nodes);
  if (t && stays_below(t->location)) fail_without_folder(*t);
}

/// Whether nodes draw random numbers without a seed, also in inner graphs.
inline bool find_draws(const std::vector<node_proto>& nodes, const std::map<std::string, std::int64_t>& opsets) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const node_proto& n) {
    const auto version = opsets.count(n.domain) ? opsets.at(n.domain) : 1;
    return rows::draws(n, version) ||
           std::any_of(n.attributes.begin(), n.attributes.end(),
                       [&](const attribute_proto& a) { return a.g && find_draws(a.g->nodes, opsets); });
  });
}

inline std::string refusal_text(const std::vector<std::string>& refused) {
  std::string out =
      std::to_string(refused.size()) + (refused.size() == 1 ? " node has" : " nodes have") + " no operator here: ";
  for (std::size_t i = 0; i < refused.size() && i < 40; ++i) out += (i ? ", " : "") + refused[i];
  if (refused.size() > 40) out += ", ...";
  return out +
         "; export the model with other operators, or give them a function in the file: a local function of these "
         "names is "
         "run";
}

}  // namespace detail_

struct model::state {
  loaded m;
  std::vector<value_description> inputs, outputs;
  std::set<std::string> optional;  ///< inputs whose elements are in the file
  std::shared_ptr<engine::function> fn;
  std::shared_ptr<engine::function> with_weights;
  std::shared_ptr<engine::function> derivative;
  options how;
  location where;
  std::recursive_mutex busy;

  bool draws = false;                   ///< whether the model draws random numbers without a seed
  std::atomic<std::uint64_t> calls{0};  ///< calls of a model that draws random numbers, without a given key
  /// The arguments after the inputs of a call: the key of this call, if the model draws random numbers.
  tensor_list key_of_call(const dynamic_tensor& given) {
    if (!draws) return {};
    if (given.defined()) return {given};
    return {dynamic_tensor(make_key(calls++).state)};
  }

  value_list trace(const value_list& inputs, const tensor_map* weights, const dynamic_tensor& key, location at);
  void check(const value_list& x) const;
  tensor_list tensors(const value_list& results) const;
};

namespace detail_ {

/// A call of `body` through an engine function, which compiles it. The leaves are the arguments.
using list_body = std::function<value_list(const tensor_list&)>;
class function_call {
 public:
  function_call(engine::function& f, const tensor_list& leaves, const list_body& body, location where)
      : f_(f), leaves_(leaves), body_(body), where_(where), to_{{}, where} {
    const options& how = f.how();
    for (const dynamic_tensor& x : leaves) arguments_.push_back(x.as_argument());
    to_.on = how.device ? *how.device : engine::default_device();
    for (std::size_t k = arguments_.size(); k-- > 0;)
      if (!arguments_[k].by_value) to_.on = arguments_[k].where();
    static const char signature = 0;
    to_.how = &how;
    to_.held = &f.held();
    to_.signature = &signature;
    to_.arguments = {arguments_.data(), arguments_.size()};
    to_.memory_budget = how.memory_budget;
  }

  value_list run(std::span<const std::uint64_t> statics) {
    const engine::tracing tracing{[](const void* w, const engine::trace_request& r) {
                                    return static_cast<function_call*>(const_cast<void*>(w))->trace_for(r);
                                  },
                                  [](const void*, int leaf, bool) {
                                    engine::leaf_text t;
                                    engine::name_leaf(t, leaf, "");
                                    return t;
                                  },
                                  this};
    const engine::call c{to_.signature, to_.arguments, statics, to_.on,
                         static_cast<std::uint64_t>(sinter::detail::product_dtype)};
    {
      const engine::found hit = f_.find(c, tracing);
      if (hit.code) return results_of(*hit.code, *static_cast<const value_list*>(hit.skeleton));
      to_.answer = hit.reads_values;
    }
    if (!to_.answer) wire::fail_file("the engine answers no call in this stance; compile the model in a function");
    if (!answered_) {
      const engine::trace_request request = f_.segment_request(c);
      to_.request = &request;
      answered_ = traced(to_);
      f_.answered(c, answered_->did);
    }
    auto next = answered_->answer->begin();
    return filled(*static_cast<const value_list*>(answered_->skeleton.get()),
                  [&] { return dynamic_tensor::made(*next++); });
  }

 private:
  /// Values of a given structure, with tensors in order.
  template <class Next>
  static value_list filled(const value_list& kind, const Next& next) {
    value_list out;
    for (const value& k : kind) out.push_back(k.mapped([&](const dynamic_tensor&) { return next(); }));
    return out;
  }
  value_list results_of(const engine::program& code, const value_list& kind) const {
    std::vector<engine::output> results(code.output_count());
    code.run(to_.arguments, {}, results.data());
    auto next = results.begin();
    return filled(kind, [&] { return dynamic_tensor::made(*next++); });
  }
  engine::traced trace_for(const engine::trace_request& request) {
    engine::trace_target target = to_;
    target.request = &request;
    engine::traced made = traced(target);
    if (made.answer) answered_ = made;
    return made;
  }
  engine::traced traced(const engine::trace_target& target) const {
    engine::traced out;
    out.graph = engine::make_tracer(target);
    const engine::tracing_scope scope(out.graph);
    const engine::live_scope until_here(*out.graph);
    tensor_list inputs;
    for (const dynamic_tensor& x : leaves_) inputs.push_back(x.input(*out.graph, where_));
    series<ir::node_id> nodes;
    value_list kind;
    for (const value& y : body_(inputs))
      kind.push_back(y.mapped([&](const dynamic_tensor& x) {
        nodes.push_back(x.node(where_));
        return dynamic_tensor();
      }));
    out.graph->graph.outputs = std::move(nodes);
    out.skeleton = std::make_shared<value_list>(std::move(kind));
    engine::finish(out);
    return out;
  }

  engine::function& f_;
  const tensor_list& leaves_;
  const list_body& body_;
  location where_;
  std::vector<engine::argument> arguments_;
  engine::trace_target to_;
  std::optional<engine::traced> answered_;
};
inline value_list call_function(engine::function& f, const tensor_list& leaves, std::span<const std::uint64_t> statics,
                                const list_body& body, location where) {
  return function_call(f, leaves, body, where).run(statics);
}

}  // namespace detail_

namespace detail_ {

inline std::string list_text(const std::vector<value_description>& all) {
  std::string out;
  for (const auto& d : all) out += (out.empty() ? "" : ", ") + d.text();
  return out;
}
/// Appends the properties of values except their elements: kinds, dtypes, ranks and counts.
inline void add_kinds(std::vector<std::uint64_t>& to, const value_list& all) {
  to.push_back(all.size());
  for (const value& x : all) {
    to.push_back(x.is_tensor() ? 1u : x.is_sequence() ? 2u : 0u);
    if (x.is_tensor())
      to.push_back(static_cast<std::uint64_t>(x.tensor().type()) << 8 | static_cast<std::uint64_t>(x.tensor().rank()));
    if (x.is_sequence()) add_kinds(to, x.elements());
  }
}
inline std::vector<std::uint64_t> kinds(const value_list& x) {
  std::vector<std::uint64_t> out;
  add_kinds(out, x);
  return out;
}
inline value_list values_of(const tensor_list& x) { return {x.begin(), x.end()}; }
inline tensor_list leaves_of(const value_list& all) {
  tensor_list out;
  for (const value& x : all)
    x.mapped([&](const dynamic_tensor& t) {
      out.push_back(t);
      return t;
    });
  return out;
}
inline bool is_tensor_of(const dynamic_tensor& x, const value_description& want) {
  return (!want.has_type || x.type() == want.type) &&
         (!want.has_shape || static_cast<int>(want.extents.size()) == x.rank());
}
/// Whether a value has the declared kind. A bare value may stand for an optional.
inline bool is_of_kind(const value& x, const value_description& want) {
  using kind_t = value_description::kind_t;
  switch (want.kind) {
    case kind_t::tensor:
      return x.is_tensor() && (!x.tensor().defined() || is_tensor_of(x.tensor(), want));
    case kind_t::sequence:
      if (!x.is_sequence()) return false;
      return want.inner.empty() || std::all_of(x.elements().begin(), x.elements().end(),
                                               [&](const value& e) { return is_of_kind(e, want.inner[0]); });
    case kind_t::optional:
      return !x.has_value() || want.inner.empty() || is_of_kind(x, want.inner[0]);
    default:
      return false;
  }
}
/// A value as an item, whose tensors are in the current trace.
inline item item_of(const value& x, int format, location at) {
  item out;
  if (x.is_tensor()) {
    const dynamic_tensor& t = x.tensor();
    if (t.defined()) out.x = t.is_traced() ? t : dynamic_tensor::of_node(t.node(at));
    out.format = format;
    return out;
  }
  out.list = std::make_shared<std::vector<item>>();
  out.is_optional = !x.has_value();
  if (x.is_sequence())
    for (const value& e : x.elements()) out.list->push_back(item_of(e, format, at));
  return out;
}
inline value value_of_item(importer& im, const item& x) {
  if (!x.list) return x.present() ? value(dynamic_tensor::of_node(im.value(x).id())) : value();
  if (x.is_optional) return {};
  value_list out;
  for (const item& e : *x.list) out.push_back(value_of_item(im, e));
  return value(std::move(out));
}
inline int packed_format(const type_proto& t) {
  if (!t.inner.empty()) return packed_format(t.inner[0]);
  return is_packed(t.element) || t.element == text_format ? t.element : 0;
}
}  // namespace detail_

namespace detail_ {

/// The tensor of a Constant node; null for other nodes.
inline const tensor_proto* tensor_of_constant(const node_proto& n) {
  if (n.op != "Constant" || !n.domain.empty() || n.outputs.empty()) return nullptr;
  const attribute_proto* a = n.find("value");
  return a ? a->t.get() : nullptr;
}
/// Throws user_error unless the given weights are tensors of the file and have its dtypes and extents. Weights that are also
/// inputs may have other extents.
inline void check_weights(const graph_proto& g, const tensor_map& given) {
  std::map<std::string_view, const tensor_proto*> all;
  for (const node_proto& n : g.nodes)
    if (const tensor_proto* t = tensor_of_constant(n)) all[n.outputs[0]] = t;
  for (const auto& t : g.initializers) all[t->name] = t.get();
  std::set<std::string_view> inputs;
  for (const auto& v : g.inputs) inputs.insert(v.name);
  for (const auto& [name, x] : given) {
    const auto it = all.find(name);
    if (it == all.end())
      wire::fail_file("the weight '" + name +
                      "' is given, which the model does not have; weights() and parameters() "
                      "name those that it has");
    const tensor_proto& t = *it->second;
    const extents want(t.extents.begin(), t.extents.end()), e(x.shape().begin(), x.shape().end());
    bool fits = x.type() == rows::carrier_of(t.type) && (inputs.count(name) || e.size() == want.size());
    for (std::size_t a = 0; fits && !inputs.count(name) && a < e.size(); ++a) fits = e[a] == want[a];
    if (!fits)
      wire::fail_file("the weight '" + name + "' is given as " + x.text() + " and is " +
                      dtype_name(rows::carrier_of(t.type)) + " " + text_of(want) + " in the file");
  }
}

}  // namespace detail_

/// Throws user_error unless the inputs are as the file declares them.
inline void model::state::check(const value_list& x) const {
  const auto& want = inputs;
  if (x.size() > want.size())
    wire::fail_file("the model takes " + std::to_string(want.size()) + " inputs and is given " +
                    std::to_string(x.size()) + "; it has " + detail_::list_text(want));
  std::map<std::string, dim> named;
  for (std::size_t k = 0; k < x.size(); ++k) {
    bool fits = detail_::is_of_kind(x[k], want[k]);
    const bool shaped = fits && want[k].is_tensor() && want[k].has_shape && x[k].tensor().defined();
    for (std::size_t a = 0; fits && shaped && a < want[k].extents.size(); ++a) {
      const dim e = x[k].tensor().shape()[static_cast<int>(a)];
      if (want[k].extents[a] >= 0) fits = e == want[k].extents[a];
      else if (const auto& name = want[k].axes[a]; !name.empty()) {
        const auto [it, fresh] = named.emplace(name, e);
        if (!fresh && it->second != e)
          wire::fail_file("the axis " + name + " of the inputs is " + it->second.text() + " and " + e.text());
      }
    }
    if (!fits)
      wire::fail_file("the input " + want[k].text() + " is given " + x[k].text() +
                      (want[k].is_tensor() ? "" : "; sequences and optionals are given to run() as onnx::value"));
  }
}
/// The results as tensors. Throws user_error unless all results are tensors.
inline tensor_list model::state::tensors(const value_list& results) const {
  tensor_list out;
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!results[k].is_tensor())
      wire::fail_file("the result " + (k < outputs.size() ? outputs[k].text() : std::to_string(k)) +
                      " is no tensor; call the model by run(), which gives onnx::value");
    out.push_back(results[k].tensor());
  }
  return out;
}
inline value_list model::state::trace(const value_list& given_inputs, const tensor_map* weights,
                                      const dynamic_tensor& key, location at) {
  const std::lock_guard lock(busy);
  check(given_inputs);
  const location before = std::exchange(place_of_nodes(), at.in("onnx"));
  struct restore {
    location l;
    ~restore() { place_of_nodes() = l; }
  } const until_here{before};
  importer im(m);
  im.draw_from(key);
  std::map<std::string, item> given;
  if (weights) detail_::check_weights(m.proto.graph, *weights);
  if (weights)
    for (const auto& [name, x] : *weights) {
      item w;
      w.x = x.is_traced() ? x : dynamic_tensor::of_node(x.node(at));
      given[name] = std::move(w);
    }
  std::vector<item> list;
  std::size_t next = 0;
  std::set<std::string> initialised;
  for (const auto& t : m.proto.graph.initializers) initialised.insert(t->name);
  for (const auto& info : m.proto.graph.inputs) {
    item x;
    const bool optional = initialised.count(info.name) != 0;
    if (!optional && next < given_inputs.size())
      x = detail_::item_of(given_inputs[next++], detail_::packed_format(info.type), at);
    list.push_back(std::move(x));
  }
  value_list out;
  for (const item& y : im.run(m.proto.graph, nullptr, list, weights ? &given : nullptr))
    out.push_back(detail_::value_of_item(im, y));
  return out;
}

SINTER_API const std::vector<value_description>& model::inputs() const { return s_->inputs; }
SINTER_API const std::vector<value_description>& model::outputs() const { return s_->outputs; }
SINTER_API tensor_map model::weights() const {
  const std::lock_guard lock(s_->busy);
  importer im(s_->m);
  tensor_map out;
  for (const auto& t : s_->m.proto.graph.initializers)
    if (const auto type = dtype_of_onnx(t->type); type && is_float(*type)) out[t->name] = im.tensor(*t).x;
  return out;
}

SINTER_API tensor_map model::parameters() const {
  const std::lock_guard lock(s_->busy);
  importer im(s_->m);
  detail_::role_finder roles(s_->m);
  tensor_map out;
  const auto take = [&](const std::string& name, const tensor_proto& t, bool of_node) {
    const auto type = dtype_of_onnx(t.type);
    if (!type || !is_float(*type)) return;
    const unsigned read = roles.roles_of(name);
    const dynamic_tensor x = im.tensor(t).x;
    if (detail_::is_parameter(read, x, of_node)) out[name] = x;
  };
  for (const node_proto& n : s_->m.proto.graph.nodes)
    if (const tensor_proto* t = detail_::tensor_of_constant(n)) take(n.outputs[0], *t, true);
  for (const auto& t : s_->m.proto.graph.initializers) take(t->name, *t, false);
  return out;
}

SINTER_API tensor_list model::operator()(const tensor_list& inputs, location at) const {
  return s_->tensors(run(detail_::values_of(inputs), at));
}
SINTER_API value_list model::run(const value_list& inputs, location at) const {
  if (engine::current()) return s_->trace(inputs, nullptr, key_, at);
  s_->check(inputs);
  tensor_list leaves = detail_::leaves_of(inputs);
  for (const auto& k : s_->key_of_call(key_)) leaves.push_back(k);
  return detail_::call_function(
      *s_->fn, leaves, detail_::kinds(inputs),
      [&](const tensor_list& x) {
        value_list traced;
        auto next = x.begin();
        for (const value& v : inputs) traced.push_back(v.mapped([&](const dynamic_tensor&) { return *next++; }));
        return s_->trace(traced, nullptr, next == x.end() ? dynamic_tensor() : *next, at);
      },
      s_->where);
}
SINTER_API tensor_list model::operator()(const tensor_map& weights, const tensor_list& inputs, location at) const {
  if (engine::current()) return s_->tensors(s_->trace(detail_::values_of(inputs), &weights, key_, at));
  s_->check(detail_::values_of(inputs));
  tensor_list leaves = inputs;
  std::vector<std::uint64_t> statics = detail_::kinds(detail_::values_of(inputs));
  for (const auto& [name, x] : weights) {
    leaves.push_back(x);
    statics.push_back(std::hash<std::string>()(name));
  }
  for (const auto& k : s_->key_of_call(key_)) leaves.push_back(k);
  return s_->tensors(detail_::call_function(
      *s_->with_weights, leaves, statics,
      [&](const tensor_list& x) {
        tensor_map traced;
        std::size_t k = inputs.size();
        for (const auto& [name, unused] : weights) traced[name] = x[k++];
        return s_->trace(value_list(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(inputs.size())), &traced,
                         k < x.size() ? x[k] : dynamic_tensor(), at);
      },
      s_->where));
}
SINTER_API tensor_map model::by_name(const tensor_map& named, location at) const {
  tensor_list list;
  tensor_map others = named;  // initialisers that are also inputs
  for (const auto& d : s_->inputs) {
    const auto it = others.find(d.name);
    if (it == others.end())
      wire::fail_file("the input '" + d.name + "' is not given; the model has " + detail_::list_text(s_->inputs));
    list.push_back(it->second);
    others.erase(it);
  }
  for (const auto& [name, unused] : others)
    if (!s_->optional.count(name))
      wire::fail_file("the input '" + name + "' is given, which the model does not have; it has " +
                      detail_::list_text(s_->inputs));
  const tensor_list results = others.empty() ? (*this)(list, at) : (*this)(others, list, at);
  tensor_map out;
  for (std::size_t k = 0; k < results.size(); ++k) out[s_->outputs[k].name] = results[k];
  return out;
}

SINTER_API model model::drawing(const tensor<std::uint64_t, 0>& key) const {
  model out = *this;
  out.key_ = dynamic_tensor(key);
  return out;
}

SINTER_API const std::vector<std::string>& model::texts() const { return s_->m.texts; }
SINTER_API std::vector<std::int64_t> model::places_of_texts(const std::vector<std::string>& texts) const {
  std::vector<std::int64_t> out;
  for (const std::string& t : texts) out.push_back(rows::place_of_text(s_->m, t));
  return out;
}

SINTER_API report model::last() const { return s_->fn->last(); }
SINTER_API explanation model::explain() const { return s_->fn->explain(); }
SINTER_API std::size_t model::specialisations() const { return s_->fn->size(); }
SINTER_API std::size_t model::nodes() const { return s_->m.proto.graph.nodes.size(); }
SINTER_API std::map<std::string, std::size_t> model::operators_used() const {
  std::map<std::string, std::size_t> out;
  for (const auto& n : s_->m.proto.graph.nodes) ++out[(n.domain.empty() ? "" : n.domain + ".") + n.op];
  return out;
}

SINTER_API model::gradients model::square_gradients(const tensor_list& inputs, location at) const {
  s_->check(detail_::values_of(inputs));
  const tensor_map all = weights();
  tensor_list leaves = inputs;
  for (const auto& [name, x] : all) leaves.push_back(x);
  for (const auto& k : s_->key_of_call(key_)) leaves.push_back(k);
  const tensor_list results = s_->tensors(detail_::call_function(
      *s_->derivative, leaves, detail_::kinds(detail_::values_of(leaves)),
      [&](const tensor_list& x) {
        auto& t = *engine::current();
        const engine::counted_scope whole(t.call ? &t.call->whole : nullptr);  // values to read are computed apart
        tensor_list marked = x;
        series<ir::node_id> wrt;
        for (auto& l : marked)
          if (is_float(l.type())) {
            const ir::node_id id = t.graph.mark(l.node(at));
            wrt.push_back(id);
            l = dynamic_tensor::of_node(id);
          }
        tensor_map traced;
        std::size_t k = inputs.size();
        for (const auto& [name, unused] : all) traced[name] = marked[k++];
        const value_list given(marked.begin(), marked.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
        const tensor_list y =
            s_->tensors(s_->trace(given, &traced, k < marked.size() ? marked[k] : dynamic_tensor(), at));
        place_of_nodes() = at;
        node loss;
        for (const auto& r : y) {
          if (!is_float(r.type())) continue;
          const node v = to_type(value_of(r.node(at)), dtype::f32);
          const node part = mean_over(v * v, all_axes(v.rank()), false);
          loss = loss ? loss + part : part;
        }
        if (!loss) wire::fail_file("no result is floating: there is no gradient");
        const auto grads = engine::gradient(t, loss.id(), {wrt.data(), wrt.size()}, at);
        tensor_list out{dynamic_tensor::of_node(loss.id())};
        for (const auto g : grads) out.push_back(dynamic_tensor::of_node(g));
        return detail_::values_of(out);
      },
      s_->where));
  gradients out;
  out.loss = static_cast<double>(results[0].as<tensor<float, 0>>().item());
  std::size_t next = 1;
  for (const auto& x : inputs) out.inputs.push_back(is_float(x.type()) ? results[next++] : dynamic_tensor());
  for (const auto& [name, x] : all) out.weights[name] = results[next++];
  return out;
}

SINTER_API metadata model::describe() const {
  const model_proto& p = s_->m.proto;
  return {p.producer, p.producer_version, p.domain, p.doc, p.version, p.ir_version, p.opsets, p.properties};
}
SINTER_API std::vector<std::string> model::value_names() const {
  const graph_proto& g = s_->m.proto.graph;
  std::vector<std::string> out;
  std::set<std::string_view> seen;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && seen.insert(name).second) out.push_back(name);
  };
  for (const auto& v : g.inputs) add(v.name);
  for (const auto& t : g.initializers) add(t->name);
  for (const auto& n : g.nodes)
    for (const auto& y : n.outputs) add(y);
  return out;
}
SINTER_API model model::with_outputs(const std::vector<std::string>& names, location at) const {
  const std::lock_guard lock(s_->busy);
  const auto all = value_names();
  auto s = std::make_shared<state>();
  s->m = s_->m;
  if (s->m.copies) s->m.copied = s->m.copies->bytes().size();  // the room that is left is the other model's
  s->m.functions.clear();
  for (const auto& f : s->m.proto.functions) s->m.functions[{f.domain, f.name}] = &f;
  s->inputs = s_->inputs;
  s->outputs = s_->outputs;
  s->optional = s_->optional;
  s->how = s_->how;
  s->where = at;
  s->draws = s_->draws;
  graph_proto& g = s->m.proto.graph;
  for (const std::string& name : names) {
    if (std::find(all.begin(), all.end(), name) == all.end())
      fail("onnx::model",
           "the graph has no value '" + wire::printable(name) + "'; value_names() lists those that it has", at);
    value_info v;
    v.name = name;
    for (const auto& list : {g.infos, g.inputs})
      for (const value_info& known : list)
        if (known.name == name) v = known;
    g.outputs.push_back(v);
    s->outputs.push_back(detail_::describe(v, !s->m.texts.empty()));
  }
  for (auto* f : {&s->fn, &s->with_weights, &s->derivative}) *f = engine::make_function(s->how, at);
  model out(std::move(s));
  out.key_ = key_;
  return out;
}

namespace detail_ {

/// The user's operators. Rows stay where they are for the life of the process.
struct registered_operators {
  struct entry {
    std::string domain, name;
    std::function<tensor_list(const operator_call&)> fn;
    row as_row{};
  };
  std::mutex lock;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<entry>> all;

  static registered_operators& instance() {
    static auto* const one = new registered_operators;
    return *one;
  }
  entry* find(std::string_view domain, std::string_view name) {
    const std::lock_guard here(lock);
    const auto it = all.find({std::string(domain), std::string(name)});
    return it == all.end() ? nullptr : it->second.get();
  }
};
inline operator_call::attribute attribute_for_user(call& c, const attribute_proto& a) {
  operator_call::attribute out;
  out.i = a.i;
  out.f = static_cast<double>(a.f);
  out.s = a.s;
  out.ints = a.ints;
  out.floats.assign(a.floats.begin(), a.floats.end());
  out.strings = a.strings;
  if (a.t) out.t = item_of_tensor(*a.t, c.im.model()).x;
  return out;
}
/// The row of every operator of the user's.
inline void run_registered(call& c) {
  const auto* e = registered_operators::instance().find(c.n.domain, c.n.op);
  operator_call of;
  of.name = c.n.name;
  of.results = c.n.outputs.size();
  for (std::size_t k = 0; k < c.in.size(); ++k)
    of.inputs.push_back(c.has(k) ? dynamic_tensor::of_node(c.x(k).id()) : dynamic_tensor());
  for (const attribute_proto& a : c.n.attributes)
    if (const auto* given = c.attribute(a.name)) of.attributes[a.name] = attribute_for_user(c, *given);
  const tensor_list results = e->fn(of);
  if (results.size() < of.results)
    c.refuse("its function gives " + std::to_string(results.size()) + " results of " + std::to_string(of.results));
  for (std::size_t k = 0; k < of.results; ++k) {
    if (!results[k].defined()) c.refuse("its function gives an empty handle as result " + std::to_string(k));
    c.give(k, value_of(results[k].node(place_of_nodes())));
  }
}

}  // namespace detail_

inline const row* registered_row(std::string_view domain, std::string_view name) {
  const auto* e = detail_::registered_operators::instance().find(domain, name);
  return e ? &e->as_row : nullptr;
}
SINTER_API void register_operator(const std::string& domain, const std::string& name,
                                  std::function<tensor_list(const operator_call&)> fn, location at) {
  const std::string own = domain == "ai.onnx" ? "" : domain;
  auto& list = detail_::registered_operators::instance();
  auto e = std::make_unique<detail_::registered_operators::entry>();
  e->domain = own;
  e->name = name;
  e->fn = std::move(fn);
  const bool there = !rows_of(own, name).empty();
  const std::lock_guard here(list.lock);
  if (!e->fn) fail("onnx::register_operator", "the function of " + name + " is empty", at);
  if (there || list.all.count({own, name}))
    fail("onnx::register_operator",
         "there is an operator " + (own.empty() ? "" : own + ".") + name + " already; choose another domain or name",
         at);
  e->as_row = {e->name.c_str(), e->domain.c_str(), 1, detail_::run_registered, of_user};
  list.all[{own, name}] = std::move(e);
}

namespace detail_ {

SINTER_API std::vector<bool> inputs_of_lanes(const model& m, location at) {
  std::vector<bool> out;
  for (const value_description& d : m.inputs())
    out.push_back(d.is_tensor() && d.has_shape && !d.extents.empty() && d.extents[0] == 1);
  if (std::find(out.begin(), out.end(), true) == out.end())
    fail("onnx::batched", "no input has a leading axis of 1: " + list_text(m.inputs()), at);
  return out;
}
SINTER_API tensor_list call_lane(const model& m, const std::vector<bool>& which, const tensor_list& lanes,
                                 const tensor_list& whole, location at) {
  tensor_list in;
  auto lane = lanes.begin(), other = whole.begin();
  for (const bool is_lane : which)
    in.push_back(is_lane ? dynamic_tensor::of_node(unsqueezed(value_of((*lane++).node(at)), {0}).id()) : *other++);
  tensor_list out;
  for (const dynamic_tensor& y : m(in, at)) {
    const node v = value_of(y.node(at));
    extents e = extents_of(v);
    if (!e.empty() && always_equal(e[0], 1)) e.erase(e.begin());
    out.push_back(dynamic_tensor::of_node(reshape_to(v, e).id()));
  }
  return out;
}

inline model make_model(std::string path, std::optional<std::string> folder, storage file, wire::bytes bytes,
                        const options& how, location at) {
  auto s = std::make_shared<model::state>();
  s->m.path = std::move(path);
  s->m.folder = std::move(folder);
  s->m.file = std::move(file);
  s->m.proto = wire::read_model(bytes);
  put_in_order(s->m.proto.graph.nodes);
  for (function_proto& f : s->m.proto.functions) put_in_order(f.nodes);
  s->how = how;
  s->where = at;
  const model_proto& p = s->m.proto;
  for (const auto& f : p.functions) s->m.functions[{f.domain, f.name}] = &f;
  s->m.texts = texts_of(p);
  const bool has_texts = !s->m.texts.empty();
  std::set<std::string> initialised;
  for (const auto& t : p.graph.initializers) initialised.insert(t->name);
  for (const auto& v : p.graph.inputs) {
    if (initialised.count(v.name)) s->optional.insert(v.name);
    else s->inputs.push_back(describe(v, has_texts));
  }
  for (const auto& v : p.graph.outputs) s->outputs.push_back(describe(v, has_texts));
  std::vector<std::string> refused;
  std::set<const function_proto*> seen;
  find_refused(p.graph.nodes, s->m, p.opsets, refused, 0, seen);
  if (!refused.empty()) wire::fail_file(refusal_text(refused));
  check_folder(s->m);
  s->draws = find_draws(p.graph.nodes, p.opsets);
  for (const auto& f : p.functions) s->draws = s->draws || find_draws(f.nodes, f.opsets);
  for (auto* f : {&s->fn, &s->with_weights, &s->derivative}) *f = engine::make_function(how, at);
  return model(std::move(s));
}

}  // namespace detail_

SINTER_API model load(const std::string& path, const options& how, location at) {
  const storage file = io::detail::map_file("onnx::load", path, at);
  return detail_::make_model(path, io::detail::folder_of(path), file, io::detail::bytes_of(file), how, at);
}
SINTER_API model load(std::span<const std::byte> file, const options& how, location at) {
  const io::array copy = io::detail::copied_array(dtype::u8, {static_cast<std::int64_t>(file.size())}, file.data());
  return detail_::make_model("", std::nullopt, copy.memory, copy.bytes(), how, at);
}

namespace detail_ {

SINTER_API model load_beside(std::span<const std::byte> file, const std::string& folder, const options& how,
                             location at) {
  if (folder.empty()) fail("onnx::load", "the folder's name is empty; \".\" is the process's working folder", at);
  const io::array copy = io::detail::copied_array(dtype::u8, {static_cast<std::int64_t>(file.size())}, file.data());
  return make_model("", folder, copy.memory, copy.bytes(), how, at);
}

}  // namespace detail_

SINTER_API io::array read_tensor(const std::string& path, location at) {
  loaded m;
  m.path = path;
  m.folder = io::detail::folder_of(path);
  m.file = io::detail::map_file("onnx::read_tensor", path, at);
  return item_of_tensor(wire::read_tensor(io::detail::bytes_of(m.file)), m).x.to_array(at);
}

namespace detail_ {

inline value value_of_proto(const wire::value_proto& v, const loaded& m, location at) {
  if (v.kind == type_proto::kind_t::tensor) return value(dynamic_tensor(item_of_tensor(v.tensor, m).x.to_array(at)));
  value_list out;
  for (const auto& e : v.elements) out.push_back(value_of_proto(e, m, at));
  if (v.kind == type_proto::kind_t::optional) return out.empty() ? value() : out[0];
  return value(std::move(out));
}

}  // namespace detail_

SINTER_API value read_value(const std::string& path, const value_description& kind, location at) {
  using kind_t = value_description::kind_t;
  if (kind.kind == kind_t::other) wire::fail_file("'" + kind.name + "' is of a kind that is not read");
  loaded m;
  m.path = path;
  m.folder = io::detail::folder_of(path);
  m.file = io::detail::map_file("onnx::read_value", path, at);
  const auto is = kind.kind == kind_t::tensor     ? type_proto::kind_t::tensor
                  : kind.kind == kind_t::sequence ? type_proto::kind_t::sequence
                                                  : type_proto::kind_t::optional;
  return detail_::value_of_proto(wire::read_value(io::detail::bytes_of(m.file), is, 0), m, at);
}

SINTER_API std::vector<operator_description> operators() {
  std::vector<operator_description> out;
  for (const row* r : all_rows()) out.push_back({r->name, r->domain, r->since, r->how});
  return out;
}

namespace detail_ {

inline std::vector<std::size_t> places_of(const std::vector<value_description>& all,
                                          const std::vector<std::string>& which,
                                          const std::vector<signature_check::kind>& kinds, const char* what,
                                          location at) {
  std::vector<std::size_t> out;
  const std::size_t named = which.empty() ? all.size() : which.size();
  if (named != kinds.size())
    fail("onnx::function",
         std::string("the function has ") + std::to_string(kinds.size()) + " " + what + " and the model has " +
             std::to_string(named) + ": " + list_text(all),
         at);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    std::size_t place = k;
    if (!which.empty())
      for (place = 0; place < all.size() && all[place].name != which[k];) ++place;
    if (place == all.size())
      fail("onnx::function", std::string("the model has no ") + what + " '" + which[k] + "'; it has " + list_text(all),
           at);
    const value_description& d = all[place];
    if (!d.is_tensor() || (d.has_type && d.type != kinds[k].type) ||
        (d.has_shape && static_cast<int>(d.extents.size()) != kinds[k].rank))
      fail("onnx::function",
           std::string("number ") + std::to_string(k) + " of the function's " + what + " is " +
               dtype_name(kinds[k].type) + " of rank " + std::to_string(kinds[k].rank) + ", the model's is " + d.text(),
           at);
    out.push_back(place);
  }
  return out;
}

}  // namespace detail_

SINTER_API signature_check::signature_check(const model& m, const names& which, const std::vector<kind>& takes,
                                            const std::vector<kind>& gives, location at)
    : inputs(detail_::places_of(m.inputs(), which.inputs, takes, "arguments", at)),
      outputs(detail_::places_of(m.outputs(), which.outputs, gives, "results", at)) {
  if (inputs.size() != m.inputs().size())
    fail("onnx::function", "the function leaves out inputs of the model: " + detail_::list_text(m.inputs()), at);
}

}  // namespace sinter::onnx
