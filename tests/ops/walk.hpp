// tests/ops/walk.hpp: runs functions eagerly and in one graph on both backends, and their derivatives against differences.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/engine/saved_graph.hpp>
#include <sinter/io/graphs.hpp>
#include <sinter/sinter.hpp>

#include "../front/ops_support.hpp"

namespace ops {

/// A tensor with irregular values in [low, high]; no two calls of a program need equal ones.
template <class T, int R>
tensor<T, R> between(const sinter::index_array<R>& extents, double low, double high, int seed = 1) {
  auto t = sinter::detail::empty<T, dims(R)>("between", extents, {});
  std::uint64_t state = static_cast<std::uint64_t>(seed) * 0x9e3779b97f4a7c15u;
  for (std::int64_t i = 0, n = t.numel(); i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    t.data()[i] = static_cast<T>(low + (high - low) * static_cast<double>(state >> 40) / double(1 << 24));
  }
  return t;
}

/// x as T holds it.
template <class T>
double rounded(double x) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<double>(static_cast<T>(x));
  else return static_cast<double>(static_cast<T>(static_cast<float>(x)));
}

/// f of each element.
template <class F>
array map(array a, F&& f) {
  for (auto& x : a.at) x = f(x);
  return a;
}

/// The weight of element i in the scalar that derivatives are taken of.
inline double weight(std::size_t i) { return 0.5 + static_cast<double>(i * 7 % 11) / 8; }

/// The backends that a graph is checked on: with a GPU, emulated or real, "cuda" too, unless SINTER_TEST_EMULATED is 0.
inline std::vector<std::string> backends() {
  const char* emulated = std::getenv("SINTER_TEST_EMULATED");
  if (sinter::device_count() > 0 && !(emulated && std::string_view(emulated) == "0"))
    return {"reference", "cpu", "cuda"};
  return {"reference", "cpu"};
}

/// The captured tensors copied to the GPU, if the backend is "cuda".
inline void place(sinter::engine::tracer& t, const std::string& backend) {
  if (backend != "cuda") return;
  const auto gpu = sinter::device::cuda(0);
  for (std::size_t i = 0; i < t.captures.size(); ++i) {
    sinter::engine::captured c = t.captures[i];
    const auto offset = static_cast<char*>(c.data) - static_cast<char*>(c.memory.data());
    c.memory = sinter::detail::copied(c.memory.data(), sinter::device::cpu(), gpu, c.memory.bytes());
    c.data = static_cast<char*>(c.memory.data()) + offset;
    t.captures.replace(i, std::move(c));
  }
}

/// A result in memory of the host.
inline sinter::storage on_host(const sinter::engine::output& o) {
  return sinter::detail::copied(o.memory.data(), o.memory.where(), sinter::device::cpu(), o.memory.bytes());
}

/// Collects rows into one graph; run() builds it for each backend and checks every result.
class walk {
 public:
  /// Checks f(x…) against `want`, eagerly here and compiled in run().
  template <class F, class... X>
  void row(const char* name, const array& want, double tolerance, F f, const X&... x) {
    INFO("row ", std::string(name));
    check_equal(values(f(x...)), want, tolerance);
    const sinter::engine::tracing_scope scope(tracer_);
    const auto y = sinter::detail::evaluate(f(sinter::detail::push_value(tracer_, x, {})...), location{});
    expect(name, sinter::detail::access::node(y), want, tolerance);
  }

  /// As row, and checks the derivatives by every f64 operand.
  template <class F, class... X>
  void smooth(const char* name, const array& want, double tolerance, F f, const X&... x) {
    row(name, want, tolerance, f, x...);
    std::vector<array> slopes;
    differences(slopes, f, std::index_sequence_for<X...>{}, x...);
    const sinter::engine::tracing_scope scope(tracer_);
    std::vector<sinter::ir::node_id> marks;
    const std::tuple inputs{marked(x, marks)...};  // braces: in argument order
    const auto y = sinter::detail::evaluate(std::apply(f, inputs), location{});
    const auto gradients =
        sinter::engine::gradient(tracer_->graph, weighted_sum(sinter::detail::access::node(y)), marks, {});
    REQUIRE(gradients.size() == slopes.size());
    for (std::size_t i = 0; i < slopes.size(); ++i)
      expect(std::string("derivative ") + std::to_string(i) + " of " + name, gradients[i], slopes[i], 2e-7);
  }

  /// Checks, in run(), the node that push(graph, nodes of x…) returns.
  template <class F, class... X>
  void node(const char* name, const array& want, double tolerance, F push, const X&... x) {
    const sinter::engine::tracing_scope scope(tracer_);
    const auto pushed = [&](const auto&... t) { return push(tracer_->graph, sinter::detail::access::node(t)...); };
    expect(name, pushed(sinter::detail::push_value(tracer_, x, {})...), want, tolerance);
  }

  void run() const {
    check_saved();
    for (const std::string& backend : backends()) {
      INFO("backend ", backend);
      if (check(backend, expected_)) continue;
      FAIL_CHECK("all rows together do not build; the rows that fail alone follow");
      for (const auto& e : expected_) {
        INFO("row ", e.name);
        CHECK(check(backend, {e}));
      }
    }
  }

 private:
  /// The graph of all rows as a file, and back.
  void check_saved() const {
    const auto copy = std::make_shared<sinter::engine::tracer>(*tracer_);
    for (const auto& e : expected_) copy->graph.outputs.push_back(e.node);
    const sinter::graph whole{std::shared_ptr<const sinter::engine::tracer>(copy)};
    const std::string text = sinter::engine::written(whole);
    const auto back = sinter::engine::read_graph(text, "rows", {&whole, 1});
    CHECK(sinter::ir::print(back.body) == sinter::ir::print(sinter::ir::inlined(copy->graph)));
  }

  struct expectation {
    std::string name;
    sinter::ir::node_id node;
    array want;
    double tolerance;
  };

  /// False when the program of these rows cannot be built for the backend.
  bool check(const std::string& backend, const std::vector<expectation>& rows) const {
    // Building consumes the captures.
    const auto copy = std::make_shared<sinter::engine::tracer>(*tracer_);
    for (const auto& e : rows) copy->graph.outputs.push_back(e.node);
    place(*copy, backend);
    sinter::options how;
    how.backend = backend;
    std::shared_ptr<const sinter::engine::program> program;
    try {
      program = sinter::engine::build(copy, {}, how);
    } catch (const std::exception& e) {
      MESSAGE(std::string(e.what()));
      return false;
    }
    if (program->describe().backend != backend) return false;
    std::vector<sinter::engine::output> outputs(program->output_count());
    REQUIRE(outputs.size() == rows.size());
    program->run({}, {}, outputs.data());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      INFO("row ", rows[i].name);
      check_equal(read(outputs[i]), rows[i].want, rows[i].tolerance);
    }
    return true;
  }

  void expect(std::string name, sinter::ir::node_id node, const array& want, double tolerance) {
    expected_.push_back({std::move(name), node, want, tolerance});
  }

  template <class T, dims S>
  auto marked(const tensor<T, S>& x, std::vector<sinter::ir::node_id>& marks) const {
    const auto t = sinter::detail::push_value(tracer_, x, {});
    if constexpr (!std::is_same_v<T, double>) return t;
    else {
      marks.push_back(tracer_->graph.mark(sinter::detail::access::node(t)));
      return sinter::detail::access::traced<T, S>(tracer_, marks.back(), x.shape());
    }
  }

  /// The sum of weight(i) · y[i], pushed.
  sinter::ir::node_id weighted_sum(sinter::ir::node_id y) const {
    dims extents;
    std::vector<std::int64_t> axes;
    for (const auto& e : tracer_->graph[y].extents) {
      axes.push_back(extents.rank);
      extents.push(*e.number());
    }
    const auto weights = sinter::detail::allocate("weights", sinter::dtype::f64, extents, {});
    for (std::int64_t i = 0; i < extents.numel(); ++i)
      reinterpret_cast<double*>(weights.data)[i] = weight(static_cast<std::size_t>(i));
    auto& g = tracer_->graph;
    const auto product = g.push(sinter::ir::op::mul, {y, sinter::detail::node_of(weights, {})});
    if (axes.empty()) return product;
    sinter::ir::attributes all;
    all.ints = axes;
    return g.push(sinter::ir::op::reduce, {product}, all);
  }

  template <class F, std::size_t... K, class... X>
  static void differences(std::vector<array>& out, F& f, std::index_sequence<K...>, const X&... x) {
    (difference<K>(out, f, x...), ...);
  }

  /// Central differences of the weighted sum by every element of operand K.
  template <std::size_t K, class F, class... X>
  static void difference(std::vector<array>& out, F& f, const X&... x) {
    std::tuple copies{sinter::detail::materialize(x, {})...};
    auto& varied = std::get<K>(copies);
    if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(varied)>::value_type, double>) {
      const auto total = [&] {
        const array y = values(std::apply(f, copies));
        double s = 0;
        for (std::size_t i = 0; i < y.at.size(); ++i) s += weight(i) * y.at[i];
        return s;
      };
      array slope{{varied.shape().begin(), varied.shape().end()}, {}};
      for (std::int64_t i = 0; i < varied.numel(); ++i) {
        double& e = varied.data()[i];
        const double middle = e, h = 1e-5 * (1 + std::abs(middle));
        e = middle + h;
        const double up = total();
        e = middle - h;
        slope.at.push_back((up - total()) / (2 * h));
        e = middle;
      }
      out.push_back(std::move(slope));
    }
  }

  static array read(const sinter::engine::output& o) {
    array a{{o.extents, o.extents + o.rank}, {}};
    sinter::visit_dtype(o.type, [&]<class T>(std::type_identity<T>) {
      const auto memory = on_host(o);
      const T* p = static_cast<const T*>(memory.data());
      for (std::int64_t i = 0, n = count(a.extents); i < n; ++i) a.at.push_back(static_cast<double>(p[i]));
    });
    return a;
  }

  std::shared_ptr<sinter::engine::tracer> tracer_ = std::make_shared<sinter::engine::tracer>();
  std::vector<expectation> expected_;
};

}  // namespace ops
