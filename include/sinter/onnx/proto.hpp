// onnx/proto.hpp: ONNX's messages as plain structs: model, graph, node, attribute, tensor.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../base/extent.hpp"
#include "wire.hpp"

namespace sinter::onnx {

/// A TensorProto. Its elements are bytes of the file, or of an external file.
struct tensor_proto {
  std::string name;
  int type = 0;  ///< TensorProto.DataType
  std::vector<std::int64_t> extents;
  wire::bytes raw;
  bool has_raw = false;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;  ///< int32_data, int64_data and uint64_data
  std::vector<double> doubles;
  std::vector<std::string> texts;
  bool external = false;
  std::string location;
  std::int64_t offset = 0, length = -1;
  std::shared_ptr<tensor_proto> places;  ///< of a sparse tensor: the places of its stored elements
};

struct type_proto {
  enum class kind_t { none, tensor, sequence, optional, other } kind = kind_t::none;
  int element = 0;
  bool has_shape = false;
  struct axis {
    std::int64_t extent = -1;  ///< -1: open
    std::string name;
  };
  std::vector<axis> axes;
  std::vector<type_proto> inner;  ///< the type of the elements of a sequence or an optional
};

struct value_info {
  std::string name;
  type_proto type;
};

struct graph_proto;

struct attribute_proto {
  std::string name, reference;
  int type = 0;
  float f = 0;
  std::int64_t i = 0;
  std::string s;
  std::shared_ptr<tensor_proto> t;
  std::shared_ptr<graph_proto> g;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;
};

struct node_proto {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs;
  std::vector<attribute_proto> attributes;

  const attribute_proto* find(std::string_view key) const {
    for (const auto& a : attributes)
      if (a.name == key) return &a;
    return nullptr;
  }
};

struct graph_proto {
  std::string name;
  std::vector<node_proto> nodes;
  std::vector<std::shared_ptr<tensor_proto>> initializers;
  std::vector<value_info> inputs, outputs, infos;
};

struct function_proto {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<attribute_proto> defaults;
  std::vector<node_proto> nodes;
  std::map<std::string, std::int64_t> opsets;
};

struct model_proto {
  std::int64_t ir_version = 0, version = 0;
  std::string producer, producer_version, domain, doc;
  std::map<std::string, std::string> properties;
  std::map<std::string, std::int64_t> opsets;
  graph_proto graph;
  std::vector<function_proto> functions;
};

namespace wire {

inline constexpr int deepest = 64;

inline void check_depth(int depth) {
  if (depth > deepest) fail_file("graphs or types are nested more than 64 deep");
}

inline std::string text_of(const reader& r) { return std::string(r.text()); }

inline tensor_proto read_tensor(bytes message) {
  tensor_proto t;
  for (reader r(message); r.next();) switch (r.field()) {
      case 1:
        r.integers(t.extents);
        break;
      case 2:
        t.type = static_cast<int>(r.integer());
        break;
      case 3:
        fail_file("a tensor is in segments, which nothing writes");
      case 4:
        r.fixed(t.floats);
        break;
      case 5:
      case 7:
      case 11:
        r.integers(t.ints);
        break;
      case 6:
        t.texts.push_back(text_of(r));
        break;
      case 8:
        t.name = text_of(r);
        break;
      case 9:
        t.raw = r.message();
        t.has_raw = true;
        break;
      case 10:
        r.fixed(t.doubles);
        break;
      case 13: {
        std::string key, value;
        for (reader e(r.message()); e.next();) {
          if (e.field() == 1) key = text_of(e);
          if (e.field() == 2) value = text_of(e);
        }
        const auto number = [&] {
          if (value.empty() || value.size() > 18 || value.find_first_not_of("0123456789") != std::string::npos)
            fail_file("external data has the " + key + " '" + value + "', which is no number");
          return static_cast<std::int64_t>(std::stoll(value));
        };
        if (key == "location") t.location = value;
        if (key == "offset") t.offset = number();
        if (key == "length") t.length = number();
        break;
      }
      case 14:
        t.external = r.integer() == 1;
        break;
      default:
        break;
    }
  if (t.extents.size() > 64) fail_file("the tensor '" + t.name + "' has more than 64 axes");
  return t;
}

/// Reads a SparseTensorProto: a tensor with places.
inline tensor_proto read_sparse(bytes message) {
  tensor_proto t;
  std::vector<std::int64_t> extents;
  auto places = std::make_shared<tensor_proto>();
  for (reader r(message); r.next();) switch (r.field()) {
      case 1:
        t = read_tensor(r.message());
        break;
      case 2:
        *places = read_tensor(r.message());
        break;
      case 3:
        r.integers(extents);
        break;
      default:
        break;
    }
  if (extents.size() > 64) fail_file("the tensor '" + t.name + "' has more than 64 axes");
  t.extents = std::move(extents);
  t.places = std::move(places);
  return t;
}

/// The elements of a SequenceProto, or the element of an OptionalProto. Each element is a tensor or a list.
struct value_proto {
  type_proto::kind_t kind = type_proto::kind_t::none;
  tensor_proto tensor;
  std::vector<value_proto> elements;
};
inline value_proto read_value(bytes message, type_proto::kind_t kind, int depth) {
  check_depth(depth);
  value_proto v;
  v.kind = kind;
  if (kind == type_proto::kind_t::tensor) {
    v.tensor = read_tensor(message);
    return v;
  }
  for (reader r(message); r.next();) switch (r.field()) {
      case 3:
        v.elements.push_back(read_value(r.message(), type_proto::kind_t::tensor, depth + 1));
        break;
      case 5:
        v.elements.push_back(read_value(r.message(), type_proto::kind_t::sequence, depth + 1));
        break;
      case 7:
        v.elements.push_back(read_value(r.message(), type_proto::kind_t::optional, depth + 1));
        break;
      case 4:
      case 6:
        fail_file("a sequence or an optional holds sparse tensors or maps, which are not read");
      default:
        break;
    }
  if (kind == type_proto::kind_t::optional && v.elements.size() > 1) fail_file("an optional holds more than one value");
  return v;
}

inline type_proto read_type(bytes message, int depth) {
  check_depth(depth);
  type_proto t;
  for (reader r(message); r.next();) {
    if (r.field() == 1) {
      t.kind = type_proto::kind_t::tensor;
      for (reader e(r.message()); e.next();) {
        if (e.field() == 1) t.element = static_cast<int>(e.integer());
        if (e.field() != 2) continue;
        t.has_shape = true;
        for (reader s(e.message()); s.next();) {
          if (s.field() != 1) continue;
          type_proto::axis a;
          for (reader d(s.message()); d.next();) {
            if (d.field() == 1) a.extent = d.integer();
            if (d.field() == 2) a.name = text_of(d);
          }
          t.axes.push_back(a);
        }
      }
    } else if (r.field() == 4 || r.field() == 9) {
      t.kind = r.field() == 4 ? type_proto::kind_t::sequence : type_proto::kind_t::optional;
      for (reader e(r.message()); e.next();)
        if (e.field() == 1) t.inner.push_back(read_type(e.message(), depth + 1));
    } else if (r.is_message() && r.field() != 6) {
      t.kind = type_proto::kind_t::other;
    }
  }
  return t;
}

inline value_info read_value_info(bytes message) {
  value_info v;
  for (reader r(message); r.next();) {
    if (r.field() == 1) v.name = text_of(r);
    if (r.field() == 2) v.type = read_type(r.message(), 0);
  }
  return v;
}

inline graph_proto read_graph(bytes message, int depth);

inline attribute_proto read_attribute(bytes message, int depth) {
  attribute_proto a;
  for (reader r(message); r.next();) switch (r.field()) {
      case 1:
        a.name = text_of(r);
        break;
      case 2:
        a.f = r.single();
        break;
      case 3:
        a.i = r.integer();
        break;
      case 4:
        a.s = text_of(r);
        break;
      case 5:
        a.t = std::make_shared<tensor_proto>(read_tensor(r.message()));
        break;
      case 6:
        a.g = std::make_shared<graph_proto>(read_graph(r.message(), depth + 1));
        break;
      case 7:
        r.fixed(a.floats);
        break;
      case 8:
        r.integers(a.ints);
        break;
      case 9:
        a.strings.push_back(text_of(r));
        break;
      case 20:
        a.type = static_cast<int>(r.integer());
        break;
      case 22:
        a.t = std::make_shared<tensor_proto>(read_sparse(r.message()));
        break;
      case 21:
        a.reference = text_of(r);
        break;
      default:
        break;
    }
  if (a.name.empty()) fail_file("the file is damaged: an attribute has no name");
  return a;
}

inline node_proto read_node(bytes message, int depth) {
  node_proto n;
  for (reader r(message); r.next();) switch (r.field()) {
      case 1:
        n.inputs.push_back(text_of(r));
        break;
      case 2:
        n.outputs.push_back(text_of(r));
        break;
      case 3:
        n.name = text_of(r);
        break;
      case 4:
        n.op = text_of(r);
        break;
      case 5:
        n.attributes.push_back(read_attribute(r.message(), depth));
        break;
      case 7:
        n.domain = text_of(r);
        break;
      default:
        break;
    }
  if (n.op.empty()) fail_file("the file is damaged: a node has no operator");
  if (n.domain == "ai.onnx") n.domain.clear();
  return n;
}

inline graph_proto read_graph(bytes message, int depth) {
  check_depth(depth);
  graph_proto g;
  for (reader r(message); r.next();) switch (r.field()) {
      case 1:
        g.nodes.push_back(read_node(r.message(), depth));
        break;
      case 2:
        g.name = text_of(r);
        break;
      case 5:
        g.initializers.push_back(std::make_shared<tensor_proto>(read_tensor(r.message())));
        break;
      case 11:
        g.inputs.push_back(read_value_info(r.message()));
        break;
      case 12:
        g.outputs.push_back(read_value_info(r.message()));
        break;
      case 13:
        g.infos.push_back(read_value_info(r.message()));
        break;
      case 15:
        g.initializers.push_back(std::make_shared<tensor_proto>(read_sparse(r.message())));
        break;
      default:
        break;
    }
  return g;
}

inline void read_opset(bytes message, std::map<std::string, std::int64_t>& to) {
  std::string domain;
  std::int64_t version = 1;
  for (reader r(message); r.next();) {
    if (r.field() == 1) domain = text_of(r);
    if (r.field() == 2) version = r.integer();
  }
  if (domain == "ai.onnx") domain.clear();
  to[domain] = version;
}

inline void read_property(bytes message, std::map<std::string, std::string>& to) {
  std::string key, value;
  for (reader r(message); r.next();) {
    if (r.field() == 1) key = text_of(r);
    if (r.field() == 2) value = text_of(r);
  }
  to[key] = value;
}

inline function_proto read_function(bytes message) {
  function_proto f;
  for (reader r(message); r.next();) switch (r.field()) {
      case 1:
        f.name = text_of(r);
        break;
      case 4:
        f.inputs.push_back(text_of(r));
        break;
      case 5:
        f.outputs.push_back(text_of(r));
        break;
      case 6:
        f.attributes.push_back(text_of(r));
        break;
      case 7:
        f.nodes.push_back(read_node(r.message(), 0));
        break;
      case 9:
        read_opset(r.message(), f.opsets);
        break;
      case 10:
        f.domain = text_of(r);
        break;
      case 11:
        f.defaults.push_back(read_attribute(r.message(), 0));
        break;
      case 13:
        f.overload = text_of(r);
        break;
      default:
        break;
    }
  return f;
}

inline model_proto read_model(bytes message) {
  model_proto m;
  for (reader r(message); r.next();) switch (r.field()) {
      case 1:
        m.ir_version = r.integer();
        break;
      case 2:
        m.producer = text_of(r);
        break;
      case 3:
        m.producer_version = text_of(r);
        break;
      case 4:
        m.domain = text_of(r);
        break;
      case 5:
        m.version = r.integer();
        break;
      case 6:
        m.doc = text_of(r);
        break;
      case 14:
        read_property(r.message(), m.properties);
        break;
      case 7:
        m.graph = read_graph(r.message(), 0);
        break;
      case 8:
        read_opset(r.message(), m.opsets);
        break;
      case 25:
        m.functions.push_back(read_function(r.message()));
        break;
      default:
        break;
    }
  if (m.graph.nodes.empty() && m.graph.outputs.empty()) fail_file("the file holds no graph: it is no ONNX model");
  return m;
}

}  // namespace wire
}  // namespace sinter::onnx
