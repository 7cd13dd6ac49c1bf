// Branches and loops of models from files: they are one step of the graph, differentiable, with open extents.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "calls.hpp"
#include "model_writer.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::attribute_graph;
using onnx_test::attribute_list;
using onnx_test::attribute_text;
using onnx_test::bytes_of;
using onnx_test::contains;
using onnx_test::message_of;
using onnx_test::node;
using onnx_test::on;
using onnx_test::some;
using onnx_test::value;

namespace {

using numbers = std::vector<float>;
using whole = std::vector<std::int64_t>;

struct recurrent_case {
  std::string op, direction;
  std::int64_t steps, batch, size, hidden;
  bool lengths = false, before_reset = false, peepholes = false;
  std::int64_t gates() const { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }
  std::int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
  std::size_t count(std::int64_t n) const { return static_cast<std::size_t>(n * directions()); }
  numbers w() const { return some(count(gates() * hidden * size), 1, 0.6); }
  numbers r() const { return some(count(gates() * hidden * hidden), 2, 0.6); }
  numbers b() const { return some(count(2 * gates() * hidden), 3, 0.6); }
  numbers p() const { return some(count(3 * hidden), 4, 0.6); }
  whole length() const {
    whole out;
    for (std::int64_t i = 0; i < batch; ++i) out.push_back(lengths ? std::max<std::int64_t>(1, steps - 2 * i) : steps);
    return out;
  }

  std::string model(const std::string& steps_axis, const std::string& batch_axis = "") const {
    onnx_test::graph g;
    const std::int64_t d = directions();
    g.initializers = {onnx_test::tensor("w", {d, gates() * hidden, size}, w()),
                      onnx_test::tensor("r", {d, gates() * hidden, hidden}, r()),
                      onnx_test::tensor("b", {d, 2 * gates() * hidden}, b())};
    std::vector<std::string> in{"x", "w", "r", "b", ""};
    if (lengths) {
      onnx_test::message t;  // i32
      t.number(1, static_cast<std::uint64_t>(batch)).number(2, 6).text(8, "lengths");
      std::string raw;
      for (const auto n : length()) {
        const auto v = static_cast<std::int32_t>(n);
        raw.append(reinterpret_cast<const char*>(&v), 4);
      }
      g.initializers.push_back(t.text(9, raw));
      in[4] = "lengths";
    }
    std::vector<std::string> out{"y", "last"};
    if (op == "LSTM") {
      out.push_back("cell");
      if (peepholes) {
        g.initializers.push_back(onnx_test::tensor("p", {d, 3 * hidden}, p()));
        in.insert(in.end(), {"", "", "p"});
      }
    }
    std::vector<onnx_test::message> a{attribute("hidden_size", hidden), attribute_text("direction", direction)};
    if (before_reset) a.push_back(attribute("linear_before_reset", 1));
    g.inputs = {value("x", onnx_test::f32,
                      {steps_axis, batch_axis.empty() ? std::to_string(batch) : batch_axis, std::to_string(size)})};
    for (const auto& o : out) g.outputs.push_back(value(o, onnx_test::f32, {}));
    g.nodes = {node(op, in, out, a)};
    return g.model();
  }

  /// All states (steps, directions, batch, hidden) in f64.
  std::vector<double> expected(const numbers& x) const {
    const auto S = static_cast<std::size_t>(steps), B = static_cast<std::size_t>(batch),
               H = static_cast<std::size_t>(hidden), I = static_cast<std::size_t>(size),
               D = static_cast<std::size_t>(directions()), G = static_cast<std::size_t>(gates());
    std::vector<double> y(S * D * B * H, 0.0);
    const numbers W = w(), R = r(), bias = b(), P = p();
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    for (std::size_t d = 0; d < D; ++d)
      for (std::size_t n = 0; n < B; ++n) {
        std::vector<double> h(H, 0.0), c(H, 0.0);
        const bool back = d == 1 || direction == "reverse";
        for (std::size_t k = 0; k < S; ++k) {
          const std::size_t t = back ? S - 1 - k : k;
          if (static_cast<std::int64_t>(t) >= length()[n]) continue;
          const auto of_x = [&](std::size_t g, std::size_t j) {
            double s = bias[(d * 2 * G + g) * H + j];
            for (std::size_t i = 0; i < I; ++i) s += x[(t * B + n) * I + i] * W[((d * G + g) * H + j) * I + i];
            return s;
          };
          const auto of_h = [&](std::size_t g, std::size_t j, const std::vector<double>& v) {
            double s = bias[(d * 2 * G + G + g) * H + j];
            for (std::size_t i = 0; i < H; ++i) s += v[i] * R[((d * G + g) * H + j) * H + i];
            return s;
          };
          std::vector<double> next(H), cell(H), reset(H);
          if (op == "GRU")
            for (std::size_t j = 0; j < H; ++j) reset[j] = sigmoid(of_x(1, j) + of_h(1, j, h)) * h[j];
          for (std::size_t j = 0; j < H; ++j) {
            if (op == "RNN") next[j] = std::tanh(of_x(0, j) + of_h(0, j, h));
            if (op == "GRU") {
              const double z = sigmoid(of_x(0, j) + of_h(0, j, h)), gate = sigmoid(of_x(1, j) + of_h(1, j, h));
              const double inner = before_reset ? gate * of_h(2, j, h) : of_h(2, j, reset);
              next[j] = (1 - z) * std::tanh(of_x(2, j) + inner) + z * h[j];
            }
            if (op == "LSTM") {
              const auto peep = [&](std::size_t q, double v) { return peepholes ? P[(d * 3 + q) * H + j] * v : 0.0; };
              const double i = sigmoid(of_x(0, j) + of_h(0, j, h) + peep(0, c[j])),
                           f = sigmoid(of_x(2, j) + of_h(2, j, h) + peep(2, c[j]));
              cell[j] = f * c[j] + i * std::tanh(of_x(3, j) + of_h(3, j, h));
              next[j] = sigmoid(of_x(1, j) + of_h(1, j, h) + peep(1, cell[j])) * std::tanh(cell[j]);
            }
          }
          h = next;
          c = cell;
          for (std::size_t j = 0; j < H; ++j) y[((t * D + d) * B + n) * H + j] = h[j];
        }
      }
    return y;
  }
};

tensor<float, 3> input_of(const recurrent_case& c) {
  return from_span(some(static_cast<std::size_t>(c.steps * c.batch * c.size), 5, 0.6), c.steps, c.batch, c.size);
}

/// x (3) goes through a body of a Loop: v + k·x, and v · 2 is stacked.
onnx_test::graph body_that_adds(const std::string& condition) {
  onnx_test::graph b;
  b.initializers = {onnx_test::tensor("two", {}, numbers{2}), onnx_test::tensor("limit", {}, numbers{20})};
  b.inputs = {value("k", onnx_test::i64, {}), value("on", onnx_test::b8, {}), value("v", onnx_test::f32, {"3"})};
  b.outputs = {value("more", onnx_test::b8, {}), value("next", onnx_test::f32, {"3"})};
  b.nodes = {node("Cast", {"k"}, {"step"}, {attribute("to", 1)}), node("Mul", {"step", "x"}, {"part"}),
             node("Add", {"v", "part"}, {"next"})};
  if (condition == "same") b.nodes.push_back(node("Identity", {"on"}, {"more"}));
  else {  // while the sum is small
    b.nodes.push_back(node("ReduceSum", {"next"}, {"sum"}, {attribute("keepdims", 0)}));
    b.nodes.push_back(node("Less", {"sum", "limit"}, {"more"}));
  }
  return b;
}
onnx_test::graph with_stack(onnx_test::graph b) {
  b.outputs.push_back(value("twice", onnx_test::f32, {"3"}));
  b.nodes.push_back(node("Mul", {"next", "two"}, {"twice"}));
  return b;
}
std::string loop_model(const std::string& count, const onnx_test::graph& body, bool stacks) {
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("steps", {}, whole{7}), onnx_test::tensor("v", {3}, numbers{0, 1, 2})};
  g.inputs = {value("x", onnx_test::f32, {"3"})};
  if (count == "given") g.inputs.push_back(value("given", onnx_test::i64, {}));
  g.outputs = {value("y", onnx_test::f32, {"3"})};
  if (stacks) g.outputs.push_back(value("all", onnx_test::f32, {"n", "3"}));
  g.nodes = {node("Loop", {count, "", "v"},
                  stacks ? std::vector<std::string>{"y", "all"} : std::vector<std::string>{"y"},
                  {attribute_graph("body", body.body())})};
  return g.model();
}

}  // namespace

TEST_CASE("recurrent operators agree with their definition, both ways, with lengths of their own") {
  std::vector<recurrent_case> cases;
  for (const char* op : {"RNN", "GRU", "LSTM"})
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (const bool lengths : {false, true}) cases.push_back({op, direction, 7, 3, 2, 5, lengths, lengths, lengths});
  cases.push_back({"LSTM", "forward", 3, 1, 2, 3});
  cases.push_back({"GRU", "reverse", 1, 2, 1, 1});
  for (const auto& c : cases)
    for (const bool interpreted : {false, true}) {
      INFO(c.op << " " << c.direction << " lengths " << c.lengths << " interpreted " << interpreted);
      const std::string file = c.model(std::to_string(c.steps));
      const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
      const tensor<float, 3> x = input_of(c);
      const auto all = m({x});
      const auto got = all[0].as<tensor<float, 4>>().to_vector();
      const auto want = c.expected(x.to_vector());
      REQUIRE(got.size() == want.size());
      for (std::size_t k = 0; k < got.size(); ++k)
        CHECK(static_cast<double>(got[k]) == doctest::Approx(want[k]).epsilon(1e-4));
      CHECK(all[1].size(0) == dim(c.directions()));
    }
}

TEST_CASE("a recurrent graph does not grow with the sequence, whose axis stays open") {
  recurrent_case c{"LSTM", "bidirectional", 0, 2, 3, 4};
  std::size_t ops = 0;
  for (const std::int64_t steps : {8, 80}) {
    c.steps = steps;
    const std::string file = c.model(std::to_string(steps));
    const onnx::model m = onnx::load(bytes_of(file), on(true));
    m({input_of(c)});
    if (ops) CHECK(m.last().kernels_unfused == ops);
    ops = m.last().kernels_unfused;
  }
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    c.op = op;
    const std::string file = c.model("T", "B");
    const onnx::model m = onnx::load(bytes_of(file));
    for (const std::int64_t steps : {6, 9, 2, 33}) {
      c.steps = steps;
      c.batch = 1 + steps % 4;
      const tensor<float, 3> x = input_of(c);
      const auto got = m({x})[0].as<tensor<float, 4>>().to_vector();
      const auto want = c.expected(x.to_vector());
      REQUIRE(got.size() == want.size());
      for (std::size_t k = 0; k < got.size(); ++k)
        CHECK(static_cast<double>(got[k]) == doctest::Approx(want[k]).epsilon(1e-4));
    }
    CHECK(m.specialisations() <= 2);
  }
}

TEST_CASE("LinearAttention is one loop over steps that stay open") {
  onnx_test::graph g;
  g.inputs = {value("q", onnx_test::f32, {"1", "T", "4"}), value("k", onnx_test::f32, {"1", "T", "2"}),
              value("v", onnx_test::f32, {"1", "T", "3"}), value("d", onnx_test::f32, {"1", "T", "1"}),
              value("b", onnx_test::f32, {"1", "T", "1"})};
  g.outputs = {value("y", onnx_test::f32, {"1", "T", "6"}), value("last", onnx_test::f32, {"1", "1", "2", "3"})};
  g.nodes = {
      node("LinearAttention", {"q", "k", "v", "", "d", "b"}, {"y", "last"},
           {attribute("q_num_heads", 2), attribute("kv_num_heads", 1), attribute_text("update_rule", "gated_delta")})};
  const std::string file = g.model(26);
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    for (const std::int64_t n : {5, 8, 13}) {
      const auto of = [&](std::int64_t size, double seed) {
        return tensor<float, 3>(from_span(some(static_cast<std::size_t>(n * size), seed, 0.6), 1, n, size));
      };
      const auto q = of(4, 1), k = of(2, 2), v = of(3, 3), d = of(1, 4), b = of(1, 5);
      const auto all = m({q, k, v, d, b});
      const auto y = all[0].as<tensor<float, 3>>();
      double state[2][3] = {};
      for (int t = 0; t < static_cast<int>(n); ++t) {
        for (auto& row : state)
          for (double& e : row) e *= std::exp(static_cast<double>(d(0, t, 0)));
        for (int e = 0; e < 3; ++e) {
          double found = 0;
          for (int i = 0; i < 2; ++i) found += state[i][e] * static_cast<double>(k(0, t, i));
          const double add = (static_cast<double>(v(0, t, e)) - found) * static_cast<double>(b(0, t, 0));
          for (int i = 0; i < 2; ++i) state[i][e] += static_cast<double>(k(0, t, i)) * add;
          for (int h = 0; h < 2; ++h) {
            double want = 0;
            for (int i = 0; i < 2; ++i) want += static_cast<double>(q(0, t, 2 * h + i)) * state[i][e];
            CHECK(static_cast<double>(y(0, t, 3 * h + e)) == doctest::Approx(want / std::sqrt(2.0)).epsilon(1e-4));
          }
        }
      }
    }
    CHECK(m.specialisations() <= 2);
  }
}

TEST_CASE("gradients go through an LSTM from a file") {
  for (const bool interpreted : {false, true}) {
    const recurrent_case c{"LSTM", "bidirectional", 6, 2, 2, 3};
    const std::string file = c.model("T");
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    const tensor<float, 3> x = input_of(c);
    const auto squares = [&](const onnx::tensor_map& w, const tensor<float, 3>& in) {
      double loss = 0;
      for (const auto& y : m(w, {in})) {
        double sum = 0, n = 0;
        const io::array a = y.to_array();
        for (std::int64_t k = 0; k < a.numel(); ++k, ++n) {
          float v = 0;
          std::memcpy(&v, a.data + static_cast<std::size_t>(k) * 4, 4);
          sum += static_cast<double>(v) * static_cast<double>(v);
        }
        loss += sum / n;
      }
      return loss;
    };
    const auto g = m.square_gradients({x});
    const onnx::tensor_map weights = m.weights();
    CHECK(g.loss == doctest::Approx(squares(weights, x)).epsilon(1e-4));
    const double step = 1e-2;
    for (const char* name : {"w", "r", "b"}) {
      const io::array whole_weight = weights.at(name).to_array(), gradient = g.weights.at(name).to_array();
      for (std::int64_t k = 0; k < whole_weight.numel(); k += 5) {
        const auto moved = [&](double by) {
          io::array a = io::detail::copied_array(whole_weight.type, whole_weight.extents, whole_weight.data);
          float v = 0;
          std::memcpy(&v, a.data + static_cast<std::size_t>(k) * 4, 4);
          v += static_cast<float>(by);
          std::memcpy(static_cast<void*>(a.data + static_cast<std::size_t>(k) * 4), &v, 4);
          onnx::tensor_map other = weights;
          other[name] = dynamic_tensor(a);
          return squares(other, x);
        };
        float d = 0;
        std::memcpy(&d, gradient.data + static_cast<std::size_t>(k) * 4, 4);
        const double numeric = (moved(step) - moved(-step)) / (2 * step);
        INFO(name << " " << k);
        CHECK(std::fabs(static_cast<double>(d) - numeric) <= 1e-4 + 0.02 * std::fabs(numeric));
      }
    }
    const auto of_x = g.inputs[0].as<tensor<float, 3>>();
    for (int t = 0; t < 6; t += 2) {
      tensor<float, 3> more = x.contiguous(), less = from_span(x.to_vector(), 6, 2, 2);
      more = from_span(x.to_vector(), 6, 2, 2);
      more(t, 1, 0) += static_cast<float>(step);
      less(t, 1, 0) -= static_cast<float>(step);
      const double numeric = (squares(weights, more) - squares(weights, less)) / (2 * step);
      CHECK(std::fabs(static_cast<double>(of_x(t, 1, 0)) - numeric) <= 1e-4 + 0.02 * std::fabs(numeric));
    }
  }
}

TEST_CASE("a Loop of a known number of steps is one loop, and stacks") {
  const std::string file = loop_model("steps", with_stack(body_that_adds("same")), true);
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    const tensor<float, 1> x{1.f, -0.5f, 0.25f};
    const auto all = m({x});
    const auto y = all[0].as<tensor<float, 1>>();
    const auto stack = all[1].as<tensor<float, 2>>();
    REQUIRE(stack.size(0) == 7);
    for (int i = 0; i < 3; ++i) {
      float v = static_cast<float>(i);
      for (int k = 0; k < 7; ++k) {
        v += static_cast<float>(k) * x(i);
        CHECK(stack(k, i) == doctest::Approx(2 * v));
      }
      CHECK(y(i) == doctest::Approx(v));
    }
    CHECK(m.last().breaks.empty());
  }
}

TEST_CASE("a Loop that ends by a condition is a while_loop; what it stacks is cut behind") {
  const tensor<float, 1> x{1.f, 0.5f, 0.25f};
  const auto expected = [&](std::int64_t most, std::vector<numbers>* steps) {
    numbers v{0, 1, 2};
    for (std::int64_t k = 0; k < most; ++k) {
      float sum = 0;
      for (int i = 0; i < 3; ++i) sum += v[static_cast<std::size_t>(i)] += static_cast<float>(k) * x(i);
      if (steps) steps->push_back(v);
      if (!(sum < 20)) break;
    }
    return v;
  };
  for (const bool interpreted : {false, true}) {
    {
      const std::string file = loop_model("", body_that_adds("sum"), false);
      const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
      const auto y = m({x})[0].as<tensor<float, 1>>().to_vector();
      const numbers want = expected(100, nullptr);
      for (std::size_t i = 0; i < 3; ++i) CHECK(y[i] == doctest::Approx(want[i]));
      CHECK(m.last().breaks.empty());
    }
    {
      const std::string file = loop_model("given", body_that_adds("sum"), false);
      const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
      for (const std::int64_t most : {0, 2, 50}) {
        const auto y = m({x, tensor<std::int64_t, 0>(most)})[0].as<tensor<float, 1>>().to_vector();
        const numbers want = expected(most, nullptr);
        for (std::size_t i = 0; i < 3; ++i) CHECK(y[i] == doctest::Approx(want[i]));
      }
      CHECK(m.specialisations() == 1);
    }
    {
      const std::string file = loop_model("steps", with_stack(body_that_adds("sum")), true);
      const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
      std::vector<numbers> steps;
      const numbers want = expected(7, &steps);
      const auto all = m({x});
      const auto y = all[0].as<tensor<float, 1>>().to_vector();
      const auto stack = all[1].as<tensor<float, 2>>();
      REQUIRE(stack.size(0) == static_cast<std::int64_t>(steps.size()));
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(y[i] == doctest::Approx(want[i]));
        for (std::size_t k = 0; k < steps.size(); ++k)
          CHECK(stack(static_cast<int>(k), static_cast<int>(i)) == doctest::Approx(2 * steps[k][i]));
      }
    }
  }
}

TEST_CASE("a Loop whose values grow is traced step by step; one without an end is refused") {
  onnx_test::graph b;
  b.inputs = {value("k", onnx_test::i64, {}), value("on", onnx_test::b8, {}), value("v", onnx_test::f32, {"n"})};
  b.outputs = {value("on2", onnx_test::b8, {}), value("next", onnx_test::f32, {"m"})};
  b.nodes = {node("Identity", {"on"}, {"on2"}), node("Concat", {"v", "x"}, {"next"}, {attribute("axis", 0)})};
  const std::string file = loop_model("steps", b, false);
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    const auto y = m({tensor<float, 1>{1, 2, 3}})[0].as<tensor<float, 1>>();
    CHECK(y.size(0) == 24);
    CHECK(y(23) == 3);
  }
  const std::string endless = loop_model("", body_that_adds("same"), false);
  const onnx::model m = onnx::load(bytes_of(endless), on(true));
  const std::string said = message_of([&] { m({tensor<float, 1>{1, 2, 3}}); });
  CHECK(contains(said, "(Loop)"));
  CHECK(contains(said, "it takes more than 4096 steps"));
  CHECK(contains(said, "it has no condition and no number of steps: it never ends"));
}

TEST_CASE("a Loop or Scan of no steps stacks nothing, of the extents that a step has") {
  // Each step appends x, so that steps are traced one by one.
  onnx_test::graph b;
  b.inputs = {value("k", onnx_test::i64, {}), value("on", onnx_test::b8, {}), value("v", onnx_test::f32, {"n"})};
  b.outputs = {value("on2", onnx_test::b8, {}), value("next", onnx_test::f32, {"m"}),
               value("all", onnx_test::f32, {"m"}), value("places", onnx_test::i64, {})};
  b.nodes = {node("Identity", {"on"}, {"on2"}), node("Concat", {"v", "x"}, {"next"}, {attribute("axis", 0)}),
             node("Identity", {"next"}, {"all"}), node("Identity", {"k"}, {"places"})};
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("none", {}, whole{0}), onnx_test::tensor("v", {2}, numbers{1, 2})};
  g.inputs = {value("x", onnx_test::f32, {"n"}), value("count", onnx_test::i64, {}), value("go", onnx_test::b8, {})};
  const auto put = [&](const std::string& name, const std::string& count, const std::string& condition) {
    g.nodes.push_back(node("Loop", {count, condition, "v"}, {name, name + "_all", name + "_places"},
                           {attribute_graph("body", b.body())}));
    for (const char* behind : {"", "_all", "_places"}) g.outputs.push_back(onnx_test::message().text(1, name + behind));
  };
  put("known", "none", "");
  put("told", "count", "");
  put("refused", "", "go");
  const std::string grows = g.model();
  const std::string same = loop_model("given", with_stack(body_that_adds("same")), true);
  for (const bool interpreted : {false, true})
    for (const bool open : {false, true}) {
      options how = on(interpreted);
      if (open) how.dynamic = dynamic::yes;
      const onnx::model m = onnx::load(bytes_of(grows), how);
      const auto y = m({tensor<float, 1>{5, 6, 7}, tensor<std::int64_t, 0>(0), tensor<bool, 0>(false)});
      REQUIRE(y.size() == 9);
      for (std::size_t k = 0; k < 9; k += 3) {
        CHECK(y[k].as<tensor<float, 1>>().to_vector() == numbers{1, 2});
        CHECK(y[k + 1].text() == "f32 (0, 5)");
        CHECK(y[k + 2].text() == "i64 (0,)");
      }
      const onnx::model one = onnx::load(bytes_of(same), how);
      for (const std::int64_t steps : {0, 2, 0}) {
        const auto z = one({tensor<float, 1>{1, 2, 3}, tensor<std::int64_t, 0>(steps)});
        CHECK(z[1].text() == "f32 (" + std::to_string(steps) + ", 3)");
      }
    }
  // A body that fails without values of a step gives the kinds that it declares.
  onnx_test::graph fails = b;
  fails.outputs[2] = value("all", onnx_test::f32, {"4"});
  fails.nodes[2] = node("Reshape", {"next", "four"}, {"all"});
  fails.initializers = {onnx_test::tensor("four", {1}, whole{4})};
  fails.outputs[1] = value("next", onnx_test::f32, {"4"});
  const std::string told = loop_model("given", fails, true);
  fails.outputs[2] = value("all", onnx_test::f32, {"m"});
  const std::string untold = loop_model("given", fails, true);
  onnx_test::graph scan;
  scan.inputs = {value("v", onnx_test::f32, {"n"}), value("a", onnx_test::f32, {"3"})};
  scan.outputs = {value("next", onnx_test::f32, {"m"}), value("sum", onnx_test::f32, {"3"})};
  scan.nodes = {node("Concat", {"v", "a"}, {"next"}, {attribute("axis", 0)}), node("Add", {"a", "a"}, {"sum"})};
  onnx_test::graph h;
  h.inputs = {value("v", onnx_test::f32, {"2"}), value("x", onnx_test::f32, {"n", "3"})};
  h.outputs = {onnx_test::message().text(1, "last"), onnx_test::message().text(1, "sums")};
  h.nodes = {node("Scan", {"v", "x"}, {"last", "sums"},
                  {attribute("num_scan_inputs", 1), attribute_graph("body", scan.body())})};
  const std::string scanned = h.model();
  for (const bool interpreted : {false, true}) {
    const auto y = onnx::load(bytes_of(scanned), on(interpreted))({tensor<float, 1>{1, 2}, zeros<float>(0, 3)});
    CHECK(y[0].as<tensor<float, 1>>().to_vector() == numbers{1, 2});
    CHECK(y[1].text() == "f32 (0, 3)");
    const onnx::tensor_list no_step{tensor<float, 1>{1, 2, 3}, tensor<std::int64_t, 0>(0)};
    CHECK(onnx::load(bytes_of(told), on(interpreted))(no_step)[1].text() == "f32 (0, 4)");
    const onnx::model m = onnx::load(bytes_of(untold), on(interpreted));
    CHECK(
        contains(message_of([&] { m(no_step); }), "it takes no step, and its body does not tell what it would stack"));
  }
}

TEST_CASE("a derivative goes through a Loop with a condition when its number of steps is known") {
  const std::string file = loop_model("steps", body_that_adds("sum"), false);
  const onnx::model m = onnx::load(bytes_of(file), on(true));
  const tensor<float, 1> x{1.f, 0.5f, 0.25f};
  const auto g = m.square_gradients({x}).inputs[0].as<tensor<float, 1>>();
  const auto loss = [&](int i, float by) {
    tensor<float, 1> moved = from_span(x.to_vector(), 3);
    moved(i) += by;
    double sum = 0;
    for (const float v : m({moved})[0].as<tensor<float, 1>>().to_vector())
      sum += static_cast<double>(v) * static_cast<double>(v);
    return sum / 3;
  };
  for (int i = 0; i < 3; ++i)
    CHECK(static_cast<double>(g(i)) == doctest::Approx((loss(i, 1e-2f) - loss(i, -1e-2f)) / 2e-2).epsilon(0.01));
}

TEST_CASE("Scan reads and stacks along axes and both ways, over an open axis") {
  onnx_test::graph b;  // s + x, and what it is
  b.inputs = {value("s", onnx_test::f32, {"2"}), value("a", onnx_test::f32, {"2"}), value("c", onnx_test::f32, {"2"})};
  b.outputs = {value("s2", onnx_test::f32, {"2"}), value("o", onnx_test::f32, {"2"}),
               value("o2", onnx_test::f32, {"2"})};
  b.nodes = {node("Mul", {"a", "c"}, {"p"}), node("Add", {"s", "p"}, {"s2"}), node("Identity", {"s2"}, {"o"}),
             node("Sub", {"s2", "c"}, {"o2"})};
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("s", {2}, numbers{0.5f, -1})};
  g.inputs = {value("a", onnx_test::f32, {"2", "T"}), value("c", onnx_test::f32, {"T", "2"})};
  g.outputs = {value("last", onnx_test::f32, {"2"}), value("all", onnx_test::f32, {"2", "T"}),
               value("back", onnx_test::f32, {"T", "2"})};
  for (const bool a_back : {false, true})
    for (const bool c_back : {false, true}) {
      g.nodes = {
          node("Scan", {"s", "a", "c"}, {"last", "all", "back"},
               {attribute("num_scan_inputs", 2), attribute_graph("body", b.body()),
                attribute_list("scan_input_axes", {1, 0}), attribute_list("scan_input_directions", {a_back, c_back}),
                attribute_list("scan_output_axes", {-1, 0}), attribute_list("scan_output_directions", {0, 1})})};
      const std::string file = g.model();
      for (const bool interpreted : {false, true}) {
        const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
        for (const std::int64_t n : {6, 3, 11}) {
          const tensor<float, 2> a = from_span(some(static_cast<std::size_t>(2 * n), 1, 0.6), 2, n),
                                 c = from_span(some(static_cast<std::size_t>(2 * n), 2, 0.6), n, 2);
          const auto all = m({a, c});
          const auto stack = all[1].as<tensor<float, 2>>(), back = all[2].as<tensor<float, 2>>();
          for (int j = 0; j < 2; ++j) {
            float s = j ? -1.f : 0.5f;
            for (std::int64_t k = 0; k < n; ++k) {
              const auto ka = static_cast<int>(a_back ? n - 1 - k : k), kc = static_cast<int>(c_back ? n - 1 - k : k);
              s += a(j, ka) * c(kc, j);
              CHECK(stack(j, static_cast<int>(k)) == doctest::Approx(s));
              CHECK(back(static_cast<int>(n - 1 - k), j) == doctest::Approx(s - c(kc, j)));
            }
            CHECK(all[0].as<tensor<float, 1>>()(j) == doctest::Approx(s));
          }
        }
        CHECK(m.specialisations() <= 2);
      }
    }
}

TEST_CASE("Scan of version 8 reads sequences of a batch, each of its own length") {
  onnx_test::graph b;
  b.inputs = {value("s", onnx_test::f32, {"2"}), value("a", onnx_test::f32, {"2"})};
  b.outputs = {value("s2", onnx_test::f32, {"2"}), value("o", onnx_test::f32, {"2"})};
  b.nodes = {node("Add", {"s", "a"}, {"s2"}), node("Identity", {"s2"}, {"o"})};
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("lengths", {3}, whole{6, 2, 0})};
  g.inputs = {value("s", onnx_test::f32, {"3", "2"}), value("a", onnx_test::f32, {"3", "6", "2"})};
  g.outputs = {value("last", onnx_test::f32, {"3", "2"}), value("all", onnx_test::f32, {"3", "6", "2"})};
  for (const bool lengths : {false, true}) {
    g.nodes = {node("Scan", {lengths ? "lengths" : "", "s", "a"}, {"last", "all"},
                    {attribute("num_scan_inputs", 1), attribute_graph("body", b.body())})};
    const std::string file = g.model(8);
    for (const bool interpreted : {false, true}) {
      const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
      const tensor<float, 2> s = from_span(some(6, 1, 0.6), 3, 2);
      const tensor<float, 3> a = from_span(some(36, 2, 0.6), 3, 6, 2);
      const auto all = m({s, a});
      const auto last = all[0].as<tensor<float, 2>>();
      const auto stack = all[1].as<tensor<float, 3>>();
      const int steps[] = {6, lengths ? 2 : 6, lengths ? 0 : 6};
      for (int n = 0; n < 3; ++n)
        for (int j = 0; j < 2; ++j) {
          float v = s(n, j);
          for (int k = 0; k < 6; ++k) {
            if (k < steps[n]) v += a(n, k, j);
            CHECK(stack(n, k, j) == doctest::Approx(k < steps[n] ? v : 0.f));
          }
          CHECK(last(n, j) == doctest::Approx(v));
        }
    }
  }
}

TEST_CASE("If is cond where both branches give one kind, and reads its condition where they do not") {
  onnx_test::graph yes, no, longer;
  yes.outputs = no.outputs = {value("r", onnx_test::f32, {"3"})};
  yes.nodes = {node("Mul", {"x", "x"}, {"r"})};
  no.nodes = {node("Neg", {"x"}, {"r"})};
  longer.outputs = {value("r", onnx_test::f32, {"6"})};
  longer.nodes = {node("Concat", {"x", "x"}, {"r"}, {attribute("axis", 0)})};
  for (const bool same : {true, false}) {
    onnx_test::graph g;
    g.inputs = {value("on", onnx_test::b8, {}), value("x", onnx_test::f32, {"3"})};
    g.outputs = {value("y", onnx_test::f32, {"n"})};
    g.nodes = {node(
        "If", {"on"}, {"y"},
        {attribute_graph("then_branch", yes.body()), attribute_graph("else_branch", (same ? no : longer).body())})};
    const std::string file = g.model();
    for (const bool interpreted : {false, true}) {
      const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
      const tensor<float, 1> x{1, -2, 3};
      const auto a = m({tensor<bool, 0>(true), x})[0].as<tensor<float, 1>>(),
                 b = m({tensor<bool, 0>(false), x})[0].as<tensor<float, 1>>();
      CHECK(a(1) == 4);
      CHECK(b.size(0) == (same ? 3 : 6));
      CHECK(b(1) == (same ? 2 : -2));
      CHECK(m.last().breaks.empty() == same);
      if (same) CHECK(m.specialisations() == 1);
    }
  }
}

TEST_CASE("branches that cannot be read either are refused with both reasons") {
  // Within a loop of the graph there is nothing to read, and step by step there would be too many.
  onnx_test::graph yes, no, b;
  yes.outputs = no.outputs = {value("r", onnx_test::f32, {"n"})};
  yes.nodes = {node("Identity", {"a"}, {"r"})};
  no.nodes = {node("Concat", {"a", "a"}, {"r"}, {attribute("axis", 0)})};
  b.inputs = {value("s", onnx_test::f32, {"2"}), value("a", onnx_test::f32, {"2"})};
  b.outputs = {value("s2", onnx_test::f32, {"2"})};
  b.initializers = {onnx_test::tensor("zero", {}, numbers{0})};
  b.nodes = {node("ReduceSum", {"s"}, {"sum"}, {attribute("keepdims", 0)}), node("Greater", {"sum", "zero"}, {"on"}),
             node("If", {"on"}, {"picked"},
                  {attribute_graph("then_branch", yes.body()), attribute_graph("else_branch", no.body())}),
             node("ReduceSum", {"picked"}, {"more"}, {attribute("keepdims", 0)}), node("Add", {"s", "more"}, {"s2"})};
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("s", {2}, numbers{0, 1})};
  g.inputs = {value("a", onnx_test::f32, {"5000", "2"})};
  g.outputs = {value("last", onnx_test::f32, {"2"})};
  g.nodes = {node("Scan", {"s", "a"}, {"last"}, {attribute("num_scan_inputs", 1), attribute_graph("body", b.body())})};
  const std::string file = g.model();
  const onnx::model m = onnx::load(bytes_of(file), on(true));
  const std::string said = message_of([&] { m({zeros<float>(5000, 2)}); });
  INFO(said);
  CHECK(contains(said, "it takes more than 4096 steps"));
  CHECK(contains(said, "with its condition read: "));
  CHECK(contains(said, "its branches give values of different extents"));
}

TEST_CASE("a loop within a loop and a branch within it are parts of one graph") {
  onnx_test::graph inner = body_that_adds("same"), branch, other, outer;
  branch.outputs = other.outputs = {value("w", onnx_test::f32, {"3"})};
  branch.nodes = {node("Mul", {"u", "half"}, {"w"})};
  other.nodes = {node("Identity", {"u"}, {"w"})};
  outer.initializers = {onnx_test::tensor("five", {}, whole{5}), onnx_test::tensor("half", {}, numbers{0.5f}),
                        onnx_test::tensor("zero", {}, numbers{0})};
  outer.inputs = {value("j", onnx_test::i64, {}), value("going", onnx_test::b8, {}), value("z", onnx_test::f32, {"3"})};
  outer.outputs = {value("going2", onnx_test::b8, {}), value("w", onnx_test::f32, {"3"})};
  outer.nodes = {node("Identity", {"going"}, {"going2"}),
                 node("Loop", {"five", "", "z"}, {"u"}, {attribute_graph("body", inner.body())}),
                 node("ReduceSum", {"u"}, {"total"}, {attribute("keepdims", 0)}),
                 node("Greater", {"total", "zero"}, {"positive"}),
                 node("If", {"positive"}, {"w"},
                      {attribute_graph("then_branch", branch.body()), attribute_graph("else_branch", other.body())})};
  const std::string file = loop_model("steps", outer, false);
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), on(interpreted));
    for (const float scale : {1.f, -1.f}) {
      const tensor<float, 1> x{scale, scale * 0.5f, scale * 0.25f};
      std::vector<double> v{0, 1, 2};
      for (int j = 0; j < 7; ++j) {
        double total = 0;
        for (std::size_t i = 0; i < 3; ++i) total += v[i] += 10 * static_cast<double>(x(static_cast<int>(i)));
        if (total > 0)
          for (auto& e : v) e *= 0.5;
      }
      const auto y = m({x})[0].as<tensor<float, 1>>().to_vector();
      for (std::size_t i = 0; i < 3; ++i) CHECK(static_cast<double>(y[i]) == doctest::Approx(v[i]));
    }
    CHECK(m.last().breaks.empty());
    CHECK(m.specialisations() == 1);
  }
}
