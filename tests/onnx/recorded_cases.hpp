// Cases whose results ONNX Runtime recorded: a model with its inputs, and how they are written for tests/onnx/record.mjs.
#pragma once

#include <sinter/io.hpp>
#include <sinter/onnx.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "calls.hpp"
#include "model_writer.hpp"

namespace onnx_test {

/// Elements of an input or result.
struct filled {
  std::string name;
  int type = f32;
  std::vector<std::int64_t> extents;
  std::vector<double> elements;
  bool constant = false;                ///< an initialiser of the model
  std::vector<std::string> texts = {};  ///< the elements of text

  std::size_t count() const { return elements.size(); }
};
inline std::size_t count_of(const std::vector<std::int64_t>& extents) {
  std::size_t n = 1;
  for (auto e : extents) n *= static_cast<std::size_t>(e);
  return n;
}
inline filled reals(const std::string& name, std::vector<std::int64_t> extents, double seed, double size = 1) {
  const auto v = some(count_of(extents), seed, size);
  return {name, f32, std::move(extents), {v.begin(), v.end()}};
}
inline filled given(const std::string& name, std::vector<std::int64_t> extents, std::vector<double> v, int type = f32) {
  return {name, type, std::move(extents), std::move(v)};
}
inline constexpr int text = 8;
inline filled texts(const std::string& name, std::vector<std::int64_t> extents, std::vector<std::string> v) {
  filled out{name, text, std::move(extents), {}};
  out.texts = std::move(v);
  return out;
}
/// Integers from low to high that look like no pattern.
inline filled whole(const std::string& name, std::vector<std::int64_t> extents, double seed, double low, double high,
                    int type) {
  filled out{name, type, std::move(extents), {}};
  for (const float v : some(count_of(out.extents), seed))
    out.elements.push_back(std::floor(low + (high - low + 1) * 0.4999 * (1 + static_cast<double>(v))));
  return out;
}
inline filled fixed(filled x) {
  x.constant = true;
  return x;
}

inline std::string bytes_of_elements(const filled& x) {
  std::string out;
  const auto put = [&](auto v) { out.append(reinterpret_cast<const char*>(&v), sizeof v); };
  for (const double v : x.elements) {
    if (x.type == f32) put(static_cast<float>(v));
    else if (x.type == f64) put(v);
    else if (x.type == i64) put(static_cast<std::int64_t>(v));
    else if (x.type == i32) put(static_cast<std::int32_t>(v));
    else if (x.type == 5) put(static_cast<std::int16_t>(v));
    else put(static_cast<std::uint8_t>(static_cast<std::int64_t>(v)));
  }
  return out;
}
inline message tensor_of(const filled& x) {
  message t;
  for (auto e : x.extents) t.number(1, static_cast<std::uint64_t>(e));
  return t.number(2, static_cast<std::uint64_t>(x.type)).text(8, x.name).text(9, bytes_of_elements(x));
}
inline sinter::dtype dtype_of_type(int type) {
  using sinter::dtype;
  const std::map<int, dtype> all{{f32, dtype::f32}, {u8, dtype::u8},   {i8, dtype::i8}, {5, dtype::i16},
                                 {i32, dtype::i32}, {i64, dtype::i64}, {b8, dtype::b8}, {f64, dtype::f64}};
  return all.at(type);
}
inline sinter::dynamic_tensor tensor_of_elements(const filled& x) {
  const sinter::io::array a = sinter::io::detail::make_array(dtype_of_type(x.type), x.extents);
  const std::string bytes = bytes_of_elements(x);
  if (!bytes.empty()) std::memcpy(a.data, bytes.data(), bytes.size());
  return a;
}

/// A model of a node with its inputs. An input without a name is left out.
struct recorded_case {
  std::string name, op, domain;
  std::vector<filled> in;
  std::vector<message> attributes = {};
  std::vector<int> results = {f32};  ///< the type of each result; 0: none; negative: not a result of the model
  double tolerance = 2e-5;
  int version = 1;

  std::string model(bool open = false) const {
    graph g;
    std::vector<std::string> takes, gives;
    for (const filled& x : in) {
      takes.push_back(x.name);
      if (x.name.empty()) continue;
      std::vector<std::string> axes;
      for (std::size_t a = 0; a < x.extents.size(); ++a)
        axes.push_back(open ? x.name + std::to_string(a) : std::to_string(x.extents[a]));
      if (x.constant) g.initializers.push_back(tensor_of(x));
      else g.inputs.push_back(value(x.name, x.type, axes));
    }
    for (std::size_t k = 0; k < results.size(); ++k) {
      gives.push_back(results[k] ? "y" + std::to_string(k) : "");
      if (results[k] > 0)
        g.outputs.push_back(
            message()
                .text(1, gives.back())
                .part(2, message().part(1, message().number(1, static_cast<std::uint64_t>(results[k])))));
    }
    g.nodes.push_back(node(op, takes, gives, attributes).text(7, domain));
    const message set = message().text(1, domain).number(2, static_cast<std::uint64_t>(version));
    return g.model(domain.empty() ? 21 : 20) + (domain.empty() ? "" : message().part(8, set).bytes());
  }
  /// The arguments of a call. `m` is needed for text.
  sinter::onnx::tensor_list arguments(const sinter::onnx::model* m = nullptr) const {
    sinter::onnx::tensor_list out;
    for (filled x : in) {
      if (x.name.empty() || x.constant) continue;
      if (x.type == text) {
        const auto places = m->places_of_texts(x.texts);
        x = given(x.name, x.extents, {places.begin(), places.end()}, i64);
      }
      out.push_back(tensor_of_elements(x));
    }
    return out;
  }
};

/// A line of JSON for each case, which record.mjs reads.
inline void write_cases(const std::string& path, const std::vector<recorded_case>& all) {
  std::ofstream out(path, std::ios::app);
  out.precision(17);
  const auto list = [&](const auto& v) {
    out << "[";
    for (std::size_t k = 0; k < v.size(); ++k) out << (k ? "," : "") << v[k];
    out << "]";
  };
  for (const recorded_case& c : all) {
    out << "{\"name\":\"" << c.name << "\",\"model\":\"";
    constexpr char digits[] = "0123456789abcdef";
    for (const char b : c.model())
      out << digits[static_cast<unsigned char>(b) >> 4] << digits[static_cast<unsigned char>(b) & 15];
    out << "\",\"inputs\":[";
    bool first = true;
    for (const filled& x : c.in) {
      if (x.name.empty() || x.constant) continue;
      out << (first ? "" : ",") << "{\"name\":\"" << x.name << "\",\"type\":" << x.type << ",\"dims\":";
      list(x.extents);
      out << ",\"data\":";
      if (x.type == text) {
        std::vector<std::string> quoted;
        for (const auto& t : x.texts) quoted.push_back("\"" + t + "\"");
        list(quoted);
      } else if (std::any_of(x.elements.begin(), x.elements.end(), [](double v) { return std::isnan(v); })) {
        std::vector<std::string> with_nan;
        for (const double v : x.elements) with_nan.push_back(std::isnan(v) ? "null" : std::to_string(v));
        list(with_nan);
      } else {
        list(x.elements);
      }
      out << "}";
      first = false;
    }
    out << "]}\n";
  }
}

using recorded = std::map<std::string, std::vector<filled>>;
/// The results in a file of record.mjs: "case result type rank extents… elements…", a line each.
inline recorded read_recorded(const std::string& path) {
  recorded out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream s(line);
    std::string name, element;
    filled x;
    std::size_t rank = 0;
    s >> name >> x.name >> x.type >> rank;
    x.extents.resize(rank);
    for (auto& e : x.extents) s >> e;
    while (s >> element) {
      if (x.type == text) x.texts.push_back(element);
      else x.elements.push_back(element == "NaN" ? std::nan("") : std::stod(element));
    }
    out[name].push_back(std::move(x));
  }
  return out;
}

/// The elements of any dtype.
inline std::vector<double> elements_of(const sinter::dynamic_tensor& x) {
  const sinter::io::array a = x.to_array();
  std::vector<double> out;
  sinter::visit_dtype(a.type, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t k = 0; k < a.numel(); ++k) {
      T v{};
      std::memcpy(static_cast<void*>(&v), a.data + static_cast<std::size_t>(k) * sizeof(T), sizeof(T));
      if constexpr (std::is_arithmetic_v<T>) out.push_back(static_cast<double>(v));
      else out.push_back(static_cast<double>(static_cast<float>(v)));
    }
  });
  return out;
}

}  // namespace onnx_test
