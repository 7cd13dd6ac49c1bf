// onnx/importer.hpp: runs a model's graph on a trace: names, constants, folding, functions and inner graphs.
#pragma once

#include <bit>
#include <unordered_map>

#include "../base/kept.hpp"
#include "operators.hpp"

namespace sinter::onnx {

/// The values of a graph that is being run, by name, and the frame of the graph around it.
struct frame {
  frame* outer = nullptr;
  std::unordered_map<std::string, item> values;
  std::unordered_map<std::string, const attribute_proto*> attributes;  ///< the attributes of a function's call
  const std::map<std::string, std::int64_t>* opsets = nullptr;
  bool of_function = false;                            ///< a function does not see the names around its call
  const std::map<std::string, item>* given = nullptr;  ///< replaces initialisers and constants of the model's graph

  const item* given_for(const std::string& name) const {
    const auto it = given ? given->find(name) : std::map<std::string, item>::const_iterator();
    return given && it != given->end() ? &it->second : nullptr;
  }
  item* find(const std::string& name) {
    for (frame* f = this; f; f = f->of_function ? nullptr : f->outer)
      if (const auto it = f->values.find(name); it != f->values.end()) return &it->second;
    return nullptr;
  }
};

/// The rows of an operator, ascending by version; empty for an unknown operator. (table.hpp)
std::span<const row* const> rows_of(std::string_view domain, std::string_view name);
/// The row of an operator of the user's; null without one. (model_rules.hpp)
const row* registered_row(std::string_view domain, std::string_view name);
inline const row* row_for(std::string_view domain, std::string_view name, std::int64_t version) {
  const row* found = nullptr;
  for (const row* r : rows_of(domain, name))
    if (!found || r->since <= version) found = r;
  return found ? found : registered_row(domain, name);
}

/// Checks that a number of the file may become an extent. Numbers whose bits stand for a size of calls may not.
inline dim number_of_file(std::int64_t v) {
  if (dim(v).is_symbolic()) wire::fail_file("the number " + std::to_string(v) + " is no extent, position or count");
  return dim(v);
}

inline host_values host_of(const io::array& a) {
  host_values h;
  h.type = a.type;
  for (auto e : a.extents) h.shape.push_back(dim(e));
  const auto n = static_cast<std::size_t>(a.numel());
  visit_dtype(a.type, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < n; ++i) {
      T x{};
      std::memcpy(static_cast<void*>(&x), a.data + i * sizeof(T), sizeof(T));
      if constexpr (is_narrow_float<T>) h.floats.push_back(static_cast<double>(static_cast<float>(x)));
      else if constexpr (std::is_floating_point_v<T>) h.floats.push_back(static_cast<double>(x));
      else h.ints.push_back(number_of_file(static_cast<std::int64_t>(x)));
    }
  });
  return h;
}

/// Element k as a literal of the array's dtype.
inline ir::scalar element_of(const io::array& a, std::int64_t k) {
  ir::scalar out;
  visit_dtype(a.type, [&]<class T>(std::type_identity<T>) {
    T x{};
    std::memcpy(static_cast<void*>(&x), a.data + static_cast<std::size_t>(k) * sizeof(T), sizeof(T));
    if constexpr (is_narrow_float<T>) out.f = static_cast<double>(static_cast<float>(x));
    else if constexpr (std::is_floating_point_v<T>) out.f = static_cast<double>(x);
    else out.i = static_cast<std::int64_t>(x);
  });
  return out;
}
/// A literal converted from one dtype to another, as a cast does it.
inline ir::scalar converted(const ir::scalar& x, dtype from, dtype to) {
  if (from == to) return x;
  if (is_float(from)) return ir::scalar::of(to, x.f);
  if (is_float(to))
    return {from == dtype::u64 ? static_cast<double>(static_cast<std::uint64_t>(x.i)) : static_cast<double>(x.i), 0};
  ir::scalar out;
  visit_dtype(to, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) out.i = static_cast<std::int64_t>(static_cast<T>(x.i));
  });
  return out;
}

inline io::array array_of(const host_values& h) {
  std::vector<std::int64_t> e;
  for (const dim& d : h.shape) e.push_back(static_cast<std::int64_t>(d));
  io::array a = io::detail::make_array(h.type, e);
  visit_dtype(h.type, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < h.count(); ++i) {
      T v{};
      if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>) v = static_cast<T>(h.floats[i]);
      else if constexpr (is_narrow_float<T>) v = T(static_cast<float>(h.floats[i]));
      else v = static_cast<T>(static_cast<std::int64_t>(h.ints[i]));
      std::memcpy(static_cast<void*>(a.data + i * sizeof(T)), &v, sizeof(T));
    }
  });
  return a;
}

/// A loaded model; its handles share it.
struct loaded {
  std::string path;                   ///< the path of the file; empty for a model in memory
  std::optional<std::string> folder;  ///< the folder of external files; a model in memory may lack a folder
  storage file;
  model_proto proto;
  std::map<std::string, item> constants;  ///< initialisers of the graph, by name
  std::vector<std::string> weights;       ///< the initialisers of floating dtypes, in the file's order
  std::unordered_map<const tensor_proto*, item> tensors;
  std::map<std::pair<std::string, std::string>, const function_proto*> functions;
  std::map<std::string, storage> external;  ///< files beside the model, mapped
  std::optional<io::array> copies;          ///< memory for weights that lie unaligned in the file
  std::size_t copied = 0;                   ///< bytes of `copies` in use
  std::size_t spread = 0;  ///< bytes of sparse tensors with their zeros, beyond the bytes that the file allows
  std::map<std::pair<const void*, int>, dynamic_tensor> on_devices;  ///< weights, by block and GPU
  std::vector<std::string>
      texts;  ///< the texts that operators of ai.onnx.ml map, sorted; values of text are their places
};

/// The elements of a tensor of the file. (model_rules.hpp)
item item_of_tensor(const tensor_proto& t, const loaded& m);

/// A value that a tensor cannot hold. Reading it alone is an error.
inline item refused_item(std::string why) {
  item x;
  x.refused = std::make_shared<const std::string>(std::move(why));
  return x;
}

/// The most node runs beyond the nodes in the file. Loops and functions run their nodes repeatedly.
inline constexpr std::size_t max_runs = 500000;

/// Runs graphs on the current trace.
class importer {
 public:
  explicit importer(loaded& m) : m_(m) {}

  loaded& model() { return m_; }

  /// The key of random numbers, u64; user_error if the model has no key.
  node drawing_key() {
    if (!key_.defined())
      wire::fail_file(
          "it draws random numbers, and the function around the model is traced once; give the model a key: "
          "m.drawing(k)");
    return value_of(key_.node(place_of_nodes()));
  }
  void draw_from(dynamic_tensor key) { key_ = std::move(key); }
  std::int64_t next_draw() { return draws_++; }
  /// The indices of the loops around the current node.
  const std::vector<dynamic_tensor>& turns() const { return turns_; }
  /// A step of a loop until the end of the scope.
  class stepping {
   public:
    stepping(importer& im, const node& index) : im_(im) { im.turns_.push_back(dynamic_tensor::of_node(index.id())); }
    ~stepping() { im_.turns_.pop_back(); }
    stepping(const stepping&) = delete;
    stepping& operator=(const stepping&) = delete;

   private:
    importer& im_;
  };

  /// Results of a graph for its inputs, in order.
  std::vector<item> run(const graph_proto& g, frame* outer, const std::vector<item>& inputs,
                        const std::map<std::string, item>* given = nullptr) {
    const deeper one(depth_, "graphs are nested more than 64 deep");
    frame f;
    f.outer = outer;
    f.opsets = outer ? outer->opsets : &m_.proto.opsets;
    f.given = given;
    for (const auto& t : g.initializers) {
      const item* changed = f.given_for(t->name);
      f.values[t->name] = changed ? *changed : tensor(*t);
    }
    for (std::size_t k = 0; k < inputs.size() && k < g.inputs.size(); ++k)
      if (inputs[k].present() || !f.values.count(g.inputs[k].name)) f.values[g.inputs[k].name] = inputs[k];
    std::vector<std::string> results;
    for (const auto& o : g.outputs) results.push_back(o.name);
    return run_nodes(g.nodes, f, results);
  }

  /// The item of a tensor of the file. Each tensor has a single item.
  const item& tensor(const tensor_proto& t) {
    const auto [it, fresh] = m_.tensors.try_emplace(&t);
    if (!fresh) return it->second;
    const bool held = dtype_of_onnx(t.type) || is_packed(t.type);
    it->second =
        held ? item_of_tensor(t, m_)
             : refused_item("the tensor '" + t.name + "' is of " + name_of_onnx(t.type) + ", which no tensor holds");
    return it->second;
  }

  /// The elements of an item, bit by bit: known, or read.
  io::array elements(const item& x) {
    if (x.refused) wire::fail_file(*x.refused);
    if (x.list || !x.present()) wire::fail_file("a sequence where a tensor is read");
    return x.host ? array_of(*x.host) : x.x.to_array(place_of_nodes());
  }

  /// The elements of an item. Its integers may become extents.
  const host_values& host(item& x) {
    if (!x.host) {
      if (x.refused) wire::fail_file(*x.refused);
      if (x.list || !x.present()) wire::fail_file("a sequence where a tensor is read");
      x.host = std::make_shared<const host_values>(host_of(x.x.to_array(place_of_nodes())));
    }
    return *x.host;
  }

  /// Whether an item's elements are known, or become known by reading a constant. Integers whose bits stand for sizes stay in
  /// the tensor.
  bool is_known(item& x) {
    if (x.host) return true;
    if (x.refused) return false;
    const io::array a = x.x.to_array(place_of_nodes());
    if (a.type == dtype::i64 || a.type == dtype::u64)
      for (std::int64_t k = 0; k < a.numel(); ++k) {
        std::int64_t v = 0;
        std::memcpy(&v, a.data + 8 * k, 8);
        if (dim(v).is_symbolic()) return false;
      }
    x.host = std::make_shared<const host_values>(host_of(a));
    return true;
  }

  /// The node of an item in the current graph.
  node value(const item& x) {
    if (x.list) wire::fail_file("it has a sequence where a tensor belongs");
    if (x.refused) wire::fail_file(*x.refused);
    const auto& t = engine::current();
    if (x.x.is_traced()) return value_of(x.x.node(place_of_nodes()));
    if (x.host && !x.x.defined()) return host_node(*x.host);
    // A number is a constant, whether or not a row has read it.
    if (item known = x; x.x.defined() && x.x.shape().numel().bits == 1 && is_known(known))
      return host_node(*known.host);
    const device where = t->outermost().where.value_or(engine::default_device());
    if (x.x.memory().where() == where || !x.x.defined()) return value_of(x.x.node(place_of_nodes()));
    dynamic_tensor& moved = m_.on_devices[{x.x.bytes(), where.index}];
    if (!moved.defined()) moved = x.x.to(where);
    return value_of(moved.node(place_of_nodes()));
  }

 private:
  friend class call;

  /// One more level of nesting until the end of the scope.
  class deeper {
   public:
    deeper(int& depth, const char* why) : depth_(depth) {
      if (depth_ >= 64) wire::fail_file(why);
      ++depth_;
    }
    ~deeper() { --depth_; }
    deeper(const deeper&) = delete;
    deeper& operator=(const deeper&) = delete;

   private:
    int& depth_;
  };

  node host_node(const host_values& h) {
    const std::size_t n = h.count();
    const auto literal = [&](std::size_t i) {
      return is_float(h.type) ? ir::scalar{h.floats[i], 0} : ir::scalar{0, h.ints[i].bits};
    };
    bool uniform = n > 0 && h.is_number();
    for (std::size_t i = 1; uniform && i < n; ++i)
      uniform = is_float(h.type)
                    ? std::bit_cast<std::uint64_t>(h.floats[i]) == std::bit_cast<std::uint64_t>(h.floats[0])
                    : h.ints[i].bits == h.ints[0].bits;
    auto& t = *engine::current();
    if (uniform || n == 0)
      return value_of(detail::push_constant(t, h.type, n ? literal(0) : ir::scalar{}, h.shape.data(),
                                            static_cast<int>(h.shape.size()), place_of_nodes(), true));
    if (!h.is_number()) {
      std::vector<node> parts;
      for (const dim& d : h.ints) parts.push_back(reshape_to(size_node(d, h.type), {dim(1)}));
      return reshape_to(joined(parts, 0), h.shape);
    }
    dynamic_tensor x(array_of(h));
    const device where = t.outermost().where.value_or(engine::default_device());
    if (where.is_cuda()) x = x.to(where);
    return value_of(x.node(place_of_nodes()));
  }

  /// Runs nodes in order, and forgets each value after its last use.
  std::vector<item> run_nodes(const std::vector<node_proto>& nodes, frame& f, const std::vector<std::string>& results) {
    std::unordered_map<std::string, std::size_t> last;
    for (std::size_t k = 0; k < nodes.size(); ++k) note_uses(nodes[k], k, last);
    for (const auto& r : results) last[r] = nodes.size();
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      run_node(nodes[k], f);
      for (const auto& name : nodes[k].inputs)
        if (const auto it = last.find(name); it != last.end() && it->second == k) f.values.erase(name);
    }
    std::vector<item> out;
    for (const auto& r : results) {
      item* x = f.find(r);
      if (!x) wire::fail_file("the graph's result '" + r + "' is made by no node");
      out.push_back(*x);
    }
    return out;
  }

  static void note_uses(const node_proto& n, std::size_t k, std::unordered_map<std::string, std::size_t>& last) {
    for (const auto& name : n.inputs) last[name] = k;
    for (const auto& a : n.attributes)
      if (a.g)
        for (const auto& inner : a.g->nodes) note_uses(inner, k, last);
    for (const auto& a : n.attributes)
      if (a.g)
        for (const auto& o : a.g->outputs) last[o.name] = k;
  }

  static std::string text_of(const node_proto& n) { return "node '" + n.name + "' (" + n.op + ")"; }
  [[noreturn]] static void fail_node(const node_proto& n, std::string what) {
    const std::string prefix = "sinter: [onnx] ", place = text_of(n) + " at ";
    if (what.rfind(prefix, 0) == 0) what = what.substr(prefix.size());
    if (const auto at = what.find(place); at != what.npos) what.erase(at, place.size());
    wire::fail_file("node '" + n.name + "' (" + n.op + "): " + what);
  }

  /// Nodes of the graph have the place "node 'NAME' (OP) at FILE" and the user's line until the end of the scope.
  class placed {
   public:
    placed(const node_proto& n, const location& call) : before_(place_of_nodes()) {
      if (call.line == 0) return;
      const std::string file = wire::printable(text_of(n)) + " at " + call.file;
      place_of_nodes() = {sinter::detail::kept(file.c_str()), call.line, call.op};
    }
    ~placed() { place_of_nodes() = before_; }
    placed(const placed&) = delete;
    placed& operator=(const placed&) = delete;

   private:
    location before_;
  };

  void run_node(const node_proto& n, frame& f) {
    if (++runs_ > max_runs + 4 * m_.proto.graph.nodes.size())
      wire::fail_file("its loops are of more than 500,000 nodes step by step");
    if (n.op == "Constant" && n.domain.empty() && !n.outputs.empty())
      if (const item* changed = f.given_for(n.outputs[0])) {
        f.values[n.outputs[0]] = *changed;
        return;
      }
    const placed here(n, call_);
    try {
      const auto it = m_.functions.find({n.domain, n.op});
      const std::int64_t version = version_of(n.domain, f);
      call c(*this, n, f, version);
      for (const auto& name : n.inputs) {
        item* x = name.empty() ? nullptr : f.find(name);
        if (!x && !name.empty()) wire::fail_file("its input '" + name + "' is made by no node before it");
        c.in.push_back(x ? *x : item());
      }
      const row* r = row_for(n.domain, n.op, version);
      const bool moves = moves_text(c);
      if (it != m_.functions.end() && rows_of(n.domain, n.op).empty()) run_function(*it->second, c, f);
      else if (!r) wire::fail_file("there is no row for it");
      else if (!fold(*r, c)) r->run(c);
      for (item& y : c.out)
        if (moves) y.format = text_format;
      for (std::size_t k = 0; k < n.outputs.size(); ++k)
        if (!n.outputs[k].empty()) {
          if (k >= c.out.size()) wire::fail_file("it gives no result " + std::to_string(k));
          f.values[n.outputs[k]] = c.out[k];
        }
    } catch (const user_error& e) {
      if (std::string_view(e.what()).rfind("sinter: [onnx] node '", 0) == 0) throw;
      fail_node(n, e.what());
    } catch (const std::logic_error&) {  // a list is shorter than the operator requires
      fail_node(n, "it has fewer inputs, axes or numbers than it reads");
    }
  }

  static std::int64_t version_of(const std::string& domain, const frame& f) {
    for (const frame* g = &f; g; g = g->outer)
      if (g->opsets)
        if (const auto it = g->opsets->find(domain); it != g->opsets->end()) return it->second;
    return 1;
  }

  void run_function(const function_proto& fn, call& c, frame& f) {
    const deeper one(depth_, "functions call one another more than 64 deep");
    frame g;
    g.outer = &f;
    g.of_function = true;
    g.opsets = &fn.opsets;
    for (const auto& d : fn.defaults) g.attributes[d.name] = &d;
    for (const auto& a : c.n.attributes)
      if (const auto* given = c.attribute(a.name)) g.attributes[a.name] = given;
    for (std::size_t k = 0; k < fn.inputs.size(); ++k) g.values[fn.inputs[k]] = k < c.in.size() ? c.in[k] : item();
    c.out = run_nodes(fn.nodes, g, fn.outputs);
  }

  /// Whether a node only moves text. Text that another operator than those of ai.onnx.ml would read is an error.
  bool moves_text(const call& c) const;
  bool fold(const row& r, call& c);
  bool fold_sizes(call& c);

  loaded& m_;
  location call_ = place_of_nodes();  ///< the user's call
  int depth_ = 0;
  std::size_t runs_ = 0;
  std::int64_t draws_ = 0;
  dynamic_tensor key_;
  std::vector<dynamic_tensor> turns_;
};

inline node call::x(std::size_t k) const { return im.value(given(k)); }
inline const host_values& call::host(std::size_t k) {
  given(k);
  return im.host(in[k]);
}
inline const extents& call::sizes(std::size_t k) {
  const host_values& h = host(k);
  if (is_float(h.type)) wire::fail_file("input " + std::to_string(k) + " is of floats where integers belong");
  return h.ints;
}
inline wire::list_of<std::int64_t> call::integers(std::size_t k) {
  wire::list_of<std::int64_t> out;
  for (const dim& d : sizes(k)) out.push_back(static_cast<std::int64_t>(d));
  return out;
}
inline ir::scalar call::scalar(std::size_t k, dtype as) {
  const io::array a = im.elements(given(k));
  if (a.numel() != 1) wire::fail_file("input " + std::to_string(k) + " is not one number");
  return converted(element_of(a, 0), a.type, as);
}
inline wire::list_of<double> call::numbers(std::size_t k) {
  const host_values& h = host(k);
  if (is_float(h.type)) return h.floats;
  wire::list_of<double> out;
  for (const dim& d : h.ints) out.push_back(static_cast<double>(static_cast<std::int64_t>(d)));
  return out;
}
inline double call::number(std::size_t k) {
  const auto all = numbers(k);
  if (all.size() != 1) wire::fail_file("input " + std::to_string(k) + " is not one number");
  return all[0];
}
inline const attribute_proto* call::attribute(std::string_view name) const {
  const attribute_proto* a = n.find(name);
  if (!a || a->reference.empty()) return a;
  for (const frame* f = &at; f; f = f->outer) {
    if (const auto it = f->attributes.find(a->reference); it != f->attributes.end()) return it->second;
    if (f->of_function) break;
  }
  return nullptr;
}

inline constexpr std::size_t folded_most = 16384;

inline const host_values* call::known(std::size_t k) {
  item& x = in.at(k);
  if (x.host) return x.host.get();
  if (!x.x.defined() || x.x.is_traced() || x.x.shape().numel() > dim(static_cast<std::int64_t>(folded_most)))
    return nullptr;
  return im.is_known(x) ? x.host.get() : nullptr;
}

namespace detail_ {

/// Elements in the form of the reference interpreter.
inline ir::literal_array literals_of(const host_values& h) {
  ir::literal_array a;
  a.type = h.type;
  for (const dim& d : h.shape) a.extents.push_back(d.bits);
  for (double x : h.floats) a.f.push_back(x);
  for (const dim& d : h.ints) a.i.push_back(d.bits);
  return a;
}
inline host_values host_of(const ir::literal_array& a) {
  host_values h;
  h.type = a.type;
  for (auto e : a.extents) h.shape.push_back(dim(e));
  if (is_float(a.type)) h.floats.assign(a.f.begin(), a.f.end());
  else
    for (auto x : a.i) h.ints.push_back(number_of_file(x));
  return h;
}

/// Whether a graph computes at most `most` elements and terms of sums.
inline bool computes_at_most(const ir::graph& g, double most) {
  double work = 0;
  for (ir::node_id id = 0; id < g.size(); ++id) {
    double n = 1;
    const auto times = [&](const ir::shape& extents) {
      for (const ir::dim& e : extents)
        n *= e.is_number() ? static_cast<double>(std::max<std::int64_t>(*e.number(), 1)) : most;
    };
    times(g[id].extents);
    if (g[id].code == op::dot) times(g[g[id].in[0]].extents);
    if (g[id].code == op::argsort) n *= 20;
    work += n;
  }
  return work <= most;
}

/// Runs a row on known elements, in a separate graph, by the reference interpreter. False if a result is a sequence or of a
/// packed format, if the row captures a value, or if it has effects. Also false if the work is too large.
inline bool evaluate_row(const row& r, call& c) {
  std::vector<ir::literal_array> values;
  std::vector<item> results;
  ir::graph g;
  {
    const auto t = engine::make_tracer();
    const engine::tracing_scope scope(t);
    for (item& x : c.in) {
      if (!x.host) continue;
      ir::shape e;
      for (const dim& d : x.host->shape) e.push_back(ir::dim(d.bits));
      x.x = dynamic_tensor::of_node(t->graph.add_input(x.host->type, e, place_of_nodes()));
      values.push_back(literals_of(*x.host));
    }
    const std::size_t given = t->graph.inputs.size();
    c.out.clear();
    r.run(c);
    if (t->graph.inputs.size() != given) return false;  // the row captured a value
    for (item& y : c.out) {
      if (y.list || y.format || (y.present() && y.x.defined() && !y.x.is_traced())) return false;
      if (!y.host && y.present()) t->graph.outputs.push_back(y.x.node(place_of_nodes()));
    }
    g = t->graph;
    results = c.out;
    c.out.clear();
    for (item& y : results) y.x = dynamic_tensor();
  }
  if (g.effects.size() || !computes_at_most(g, 16.0 * folded_most)) return false;
  const auto found = ir::evaluate(g, std::span<const ir::literal_array>(values.data(), values.size()));
  for (const ir::literal_array& y : found)
    for (const std::int64_t v : y.i)
      if (dim(v).is_symbolic()) return false;
  std::size_t next = 0;
  for (item& y : results)
    if (!y.host && next < found.size()) y.host = std::make_shared<const host_values>(host_of(found[next++]));
  c.out = std::move(results);
  return true;
}

inline bool is_one_of(std::string_view name, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

/// For operators that move elements: the inputs whose elements they move (bit k). 0 for other operators.
inline unsigned moved_inputs(std::string_view name) {
  if (is_one_of(name, {"Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Transpose", "Expand", "Tile", "Split",
                       "Identity", "Flatten", "GatherElements", "GatherND"}))
    return 1;
  if (name == "Concat") return ~0u;
  if (name == "Where") return 6;
  if (name == "ScatterND" || name == "ScatterElements") return 5;
  return 0;
}

/// Folds an operator that moves elements: it runs on indices of the elements, and the results are looked up.
inline bool fold_moved(call& c, unsigned moved) {
  std::vector<dim> table;
  std::vector<item> kept = c.in;
  dtype type = dtype::i64;
  for (std::size_t k = 0; k < c.in.size(); ++k) {
    if (!c.in[k].present() || !(moved >> std::min<std::size_t>(k, 31) & 1)) continue;
    host_values ids = *c.in[k].host;
    if (is_float(ids.type)) return false;
    type = ids.type;
    ids.type = dtype::i64;
    for (dim& d : ids.ints) {
      table.push_back(d);
      d = dim(static_cast<std::int64_t>(table.size()) - 1);
    }
    c.in[k].host = std::make_shared<const host_values>(std::move(ids));
  }
  for (const item& x : c.in)
    if (x.host && !x.host->is_number()) {
      c.in = kept;
      return false;
    }
  const bool done = evaluate_row(*row_for(c.n.domain, c.n.op, c.version), c);
  c.in = kept;
  if (!done) return false;
  for (item& y : c.out) {
    host_values h = *y.host;
    h.type = type;
    for (dim& d : h.ints) d = table[static_cast<std::size_t>(d.bits)];
    y.host = std::make_shared<const host_values>(std::move(h));
  }
  return true;
}

inline std::optional<dim> size_result(std::string_view name, dim a, dim b) {
  if (name == "Add") return a + b;
  if (name == "Sub") return a - b;
  if (name == "Mul") return a * b;
  if (name == "Div" && b.bits > 0) return a / b;
  if (name == "Mod" && b.bits > 0) return a % b;
  if (name == "Max") return a < b ? b : a;
  if (name == "Min") return a < b ? a : b;
  if (name == "Equal") return dim(a == b);
  if (name == "Less") return dim(a < b);
  if (name == "LessOrEqual") return dim(a <= b);
  if (name == "Greater") return dim(a > b);
  if (name == "GreaterOrEqual") return dim(a >= b);
  return std::nullopt;
}

}  // namespace detail_

inline bool importer::moves_text(const call& c) const {
  const auto is_text = [](const item& x) { return x.format == text_format; };
  if (std::none_of(c.in.begin(), c.in.end(), is_text) || c.n.domain == "ai.onnx.ml") return false;
  if (m_.functions.count({c.n.domain, c.n.op}) && rows_of(c.n.domain, c.n.op).empty()) return false;
  if (c.n.domain.empty() && detail_::moved_inputs(c.n.op) != 0) return true;
  wire::fail_file("its input is text, which operators of ai.onnx.ml map to numbers, and others only move");
}

/// Computes integers that may be sizes of calls: moves, casts, arithmetic, comparisons.
inline bool importer::fold_sizes(call& c) {
  const std::string& name = c.n.op;
  if (const unsigned moved = detail_::moved_inputs(name); moved) return detail_::fold_moved(c, moved);
  if (name == "Cast") {
    const dtype to = c.type_named("to", 0);
    // Narrower integers may wrap, but sizes do not.
    if (is_float(to) || size_of(to) < 4 || is_float(c.type(0))) return false;
    host_values h = *c.in[0].host;
    h.type = to;
    c.give(0, std::move(h));
    return true;
  }
  if (name == "ReduceProd") {
    if (c.in.size() > 1 || c.in[0].host->shape.size() > 1 || is_float(c.type(0))) return false;
    host_values h{c.type(0), {}, {product_of(c.in[0].host->ints)}, {}};
    if (c.i("keepdims", 1)) h.shape.assign(c.in[0].host->shape.size(), dim(1));
    c.give(0, std::move(h));
    return true;
  }
  if (c.in.size() != 2) return false;
  const host_values &a = *c.in[0].host, &b = *c.in[1].host;
  if (is_float(a.type) || is_float(b.type)) return false;
  // Sizes are signed. Kernels compare and divide u64, which may be larger.
  if (a.type == dtype::u64 && !detail_::is_one_of(name, {"Add", "Sub", "Mul", "Equal"})) return false;
  host_values out;
  out.shape = broadcast_extents(a.shape, b.shape);
  out.type =
      detail_::is_one_of(name, {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) ? dtype::b8 : a.type;
  const auto n = static_cast<std::size_t>(product_of(out.shape).bits);
  const auto index = [&](const host_values& h, std::size_t k) {
    std::size_t at = 0, step = 1;
    for (std::size_t i = h.shape.size(), o = out.shape.size(); i-- > 0;) {
      const auto e = static_cast<std::size_t>(out.shape[--o].bits), mine = static_cast<std::size_t>(h.shape[i].bits);
      at += (mine == 1 ? 0 : k % e) * step;
      step *= mine;
      k /= e;
    }
    return at;
  };
  for (std::size_t k = 0; k < n; ++k) {
    const auto r = detail_::size_result(name, a.ints[index(a, k)], b.ints[index(b, k)]);
    if (!r) return false;
    out.ints.push_back(*r);
  }
  c.give(0, std::move(out));
  return true;
}

/// Computes a node whose inputs are known now.
inline bool importer::fold(const row& r, call& c) {
  using detail_::is_one_of;
  if (c.in.empty() || r.how == of_user ||
      is_one_of(c.n.op, {"If", "Loop", "Scan", "SequenceMap", "Shape", "Size", "RandomNormalLike", "RandomUniformLike",
                         "Bernoulli", "Multinomial", "Dropout", "RandomNormal", "RandomUniform", "ConstantOfShape"}))
    return false;
  for (const attribute_proto& a : c.n.attributes)
    if (a.g) return false;
  std::size_t count = 0;
  bool number = true, any = false;
  for (item& x : c.in) {
    if (!x.present()) continue;
    if (x.list || x.format || x.refused) return false;
    const bool few = x.host || (!x.x.is_traced() && x.x.shape().numel() <= dim(static_cast<std::int64_t>(folded_most)));
    if (!few || !is_known(x)) return false;
    any = true;
    count += x.host->count();
    number = number && x.host->is_number();
    for (const dim& d : x.host->shape) number = number && !d.is_symbolic();
  }
  if (!any || count > folded_most) return false;
  if (!number) return fold_sizes(c);
  if (is_one_of(c.n.op, {"Expand", "Tile", "Range", "EyeLike", "OneHot", "Pad", "Resize", "Upsample"})) return false;
  const std::vector<item> kept = c.in;
  const bool done = detail_::evaluate_row(r, c);
  c.in = kept;
  if (!done) c.out.clear();
  return done;
}

}  // namespace sinter::onnx
