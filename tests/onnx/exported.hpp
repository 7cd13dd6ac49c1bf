// A model exported again: loaded, traced, saved, loaded, compared bit by bit.
#pragma once

#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace onnx_test {

/// The graph of a call of a model.
inline sinter::graph graph_of(const sinter::onnx::model& m, const sinter::onnx::tensor_list& x) {
  const auto t = sinter::engine::make_tracer();
  {
    const sinter::engine::tracing_scope scope(t);
    sinter::onnx::tensor_list in;
    for (const auto& v : x) in.push_back(v.input(*t, {}));
    for (const auto& y : m(in)) t->graph.outputs.push_back(y.node({}));
  }
  return sinter::graph(std::shared_ptr<const sinter::engine::tracer>(t));
}

/// Whether arrays have equal bits; NaN equals NaN.
inline bool same_bits(const sinter::io::array& a, const sinter::io::array& b) {
  if (a.type != b.type || a.extents != b.extents) return false;
  return sinter::visit_dtype(a.type, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      T x{}, y{};
      std::memcpy(static_cast<void*>(&x), a.data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      std::memcpy(static_cast<void*>(&y), b.data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      const bool nan =
          static_cast<double>(x) != static_cast<double>(x) && static_cast<double>(y) != static_cast<double>(y);
      if (!nan && std::memcmp(&x, &y, sizeof(T)) != 0) return false;
    }
    return true;
  });
}

/// The largest difference of elements, relative to the largest magnitude, or to 1; infinite for other extents or dtypes.
inline double difference(const sinter::io::array& a, const sinter::io::array& b) {
  if (a.type != b.type || a.extents != b.extents) return INFINITY;
  return sinter::visit_dtype(a.type, [&]<class T>(std::type_identity<T>) {
    double most = 0, size = 1;
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      T x{}, y{};
      std::memcpy(static_cast<void*>(&x), a.data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      std::memcpy(static_cast<void*>(&y), b.data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      const auto p = static_cast<double>(x), q = static_cast<double>(y);
      if (p == q || (p != p && q != q)) continue;
      if (!std::isfinite(p) || !std::isfinite(q)) return double{INFINITY};
      most = std::max(most, std::fabs(p - q));
      size = std::max(size, std::fabs(q));
    }
    return most / size;
  });
}

struct exported {
  bool refused = false;
  std::string why;    ///< of a refusal, or how the result differs; "" if it is right
  bool equal = true;  ///< in all bits
};

/// Saves the model's graph for these inputs at `path`, loads it, and compares the results.
inline exported export_again(const sinter::onnx::model& m, const sinter::onnx::tensor_list& x, const std::string& path,
                             const sinter::options& how, bool values = true) {
  try {
    sinter::onnx::save(path, graph_of(m, x));
  } catch (const sinter::user_error& e) {
    return {true, e.what()};
  }
  const auto want = m(x), y = sinter::onnx::load(path, how)(x);
  if (y.size() != want.size()) return {false, "another number of results"};
  exported out;
  for (std::size_t k = 0; values && k < y.size(); ++k) {
    const auto a = y[k].to_array(), b = want[k].to_array();
    out.equal = out.equal && same_bits(a, b);
    if (const double off = difference(a, b); !(off <= 1e-5))
      out.why = "result " + std::to_string(k) + " differs by " + std::to_string(off);
  }
  return out;
}

}  // namespace onnx_test
