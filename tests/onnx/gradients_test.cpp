// Every differentiable operator: gradients and second derivatives against finite differences, in f64, on both backends.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/onnx/proto.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "../hostile/draws.hpp"
#include "operator_models.hpp"

using namespace sinter;
using onnx_test::operator_model;
using tensors = std::map<std::string, dynamic_tensor>;

namespace {

/// Names of the operators in nodes, and in the graphs within.
void put_operators(const std::vector<onnx::node_proto>& nodes, std::set<std::string>& out) {
  for (const auto& n : nodes) {
    out.insert(n.op);
    for (const auto& a : n.attributes)
      if (a.g) put_operators(a.g->nodes, out);
  }
}
std::set<std::string> operators_of(const operator_model& m) {
  std::set<std::string> out;
  const std::string file = onnx_test::model_of(m, false);
  put_operators(onnx::wire::read_model(onnx_test::bytes_of(file)).graph.nodes, out);
  return out;
}

options on(const char* backend) {
  options how;
  how.backend = backend;
  return how;
}

/// Elements that a model's arguments have, and a direction, of draws.
struct point {
  tensors x, along;
};
point point_of(const operator_model& m, std::uint64_t seed) {
  hostile::draws draw{seed};
  const auto drawn = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(draw() >> 11) * 0x1p-53;
  };
  point p;
  for (std::size_t k = 0; k < m.in.size(); ++k) {
    if (m.in[k].is != onnx_test::operand::what::argument) continue;
    const auto& a = m.in[k].of;
    for (const bool direction : {false, true}) {
      const io::array all = io::detail::make_array(dtype::f64, a.extents);
      for (std::int64_t i = 0; i < all.numel(); ++i) {
        const double v = direction ? drawn(-1, 1) : drawn(a.low, a.high);
        std::memcpy(all.data + 8 * i, &v, 8);
      }
      (direction ? p.along : p.x)[onnx_test::name_of_input(k)] = all;
    }
  }
  return p;
}
std::vector<double> numbers(const dynamic_tensor& x) {
  const io::array a = x.to_array();
  std::vector<double> out(static_cast<std::size_t>(a.numel()));
  if (!out.empty()) std::memcpy(out.data(), a.data, 8 * out.size());
  return out;
}
/// x + by·along, of one leaf or of all.
tensors moved(const tensors& x, const tensors& along, double by) {
  tensors out;
  for (const auto& [name, v] : x) {
    const auto d = numbers(along.at(name));
    const io::array a = v.to_array(), b = io::detail::make_array(dtype::f64, a.extents);
    for (std::size_t i = 0; i < d.size(); ++i) {
      double e = 0;
      std::memcpy(&e, a.data + 8 * i, 8);
      e += by * d[i];
      std::memcpy(b.data + 8 * i, &e, 8);
    }
    out[name] = b;
  }
  return out;
}

tensor<double, 0> loss_of(const onnx::model& m, const tensors& x) {
  onnx::tensor_list list;
  for (const auto& d : m.inputs()) list.push_back(x.at(d.name));
  return m(list)[0].as<tensor<double, 0>>();
}

constexpr double step = 1e-5;

void check_near(const std::string& what, double got, double want, double tolerance) {
  INFO(what, ": ", got, " in place of ", want);
  CHECK(std::fabs(got - want) <= tolerance * (1 + std::fabs(want)));
}

struct derivatives {
  double loss = 0;
  tensors gradient, along;
};
/// Checks one operator on the interpreter; its derivatives.
derivatives checked(const operator_model& m, const std::string& name, const point& p) {
  const std::string file = onnx_test::model_of(m, true);
  const onnx::model model = onnx::load(onnx_test::bytes_of(file), on("reference"));
  const auto loss = [&](const tensors& x) { return loss_of(model, x); };
  const auto all = compile(
      [&](const tensors& x, const tensors& v) {
        const auto [l, g] = value_and_grad(loss)(x);
        return std::tuple{l, g, hvp(loss)(x, v)};
      },
      on("reference"));
  const auto [l, g, h] = all(p.x, p.along);
  const auto value = [&](const tensors& x) { return loss_of(model, x).item(); };
  check_near(name + " in a trace", l.item(), value(p.x), 1e-12);
  const auto up = std::get<1>(all(moved(p.x, p.along, step), p.along)),
             down = std::get<1>(all(moved(p.x, p.along, -step), p.along));
  for (const auto& [leaf, x] : p.x) {
    const auto slope = numbers(g.at(leaf)), curve = numbers(h.at(leaf)), right = numbers(up.at(leaf)),
               left = numbers(down.at(leaf));
    REQUIRE(slope.size() == numbers(x).size());
    for (std::size_t i = 0; i < slope.size(); ++i) {
      const std::string what = name + " by " + leaf + "[" + std::to_string(i) + "]";
      tensors one;
      for (const auto& [other, v] : p.x) {
        const io::array zero = io::detail::make_array(dtype::f64, v.to_array().extents);
        std::memset(zero.data, 0, zero.bytes().size());
        const double unit = 1;
        if (other == leaf) std::memcpy(zero.data + 8 * i, &unit, 8);
        one[other] = zero;
      }
      const double difference = (value(moved(p.x, one, step)) - value(moved(p.x, one, -step))) / (2 * step);
      check_near("the gradient of " + what, slope[i], difference, 1e-6);
      check_near("the second derivative of " + what, curve[i], (right[i] - left[i]) / (2 * step), 1e-5);
    }
  }
  return {l.item(), g, h};
}

}  // namespace

TEST_CASE("every operator has a model, which says whether it has a gradient") {
  std::set<std::string> seen;
  for (const auto& m : onnx_test::operator_models()) seen.merge(operators_of(m));
  for (const auto& o : onnx::operators()) {
    INFO("tests/onnx/operator_models.hpp has no model of " << o.name);
    CHECK(seen.count(o.name) == 1);
  }
}

TEST_CASE("models of single operators load, and run with results of their number") {
  for (const auto& m : onnx_test::operator_models()) {
    INFO(m.op);
    const std::string file = onnx_test::model_of(m, false);
    const onnx::model model = onnx::load(onnx_test::bytes_of(file), on("reference"));
    onnx::tensor_list x;
    const point p = point_of(m, 3);
    for (const auto& d : model.inputs()) x.push_back(p.x.at(d.name));
    CHECK(model(x).size() == m.reals.size());
  }
}

TEST_CASE("gradients and second derivatives of operators") {
  const auto& models = onnx_test::operator_models();
  // Kernels of a compiled function are made together, so that of many operators there is one.
  constexpr std::size_t each = 24;
  std::vector<std::size_t> some;
  for (std::size_t k = 0; k < models.size(); ++k)
    if (!models[k].no_gradient) some.push_back(k);
  for (std::size_t first = 0; first < some.size(); first += each) {
    const std::size_t last = std::min(first + each, some.size());
    std::vector<onnx::model> loaded;
    std::vector<std::string> names;
    std::map<std::string, tensors> x, along;
    std::vector<derivatives> want;
    for (std::size_t k = first; k < last; ++k) {
      const operator_model& m = models[some[k]];
      const auto all = operators_of(m);
      names.push_back(std::to_string(some[k]) + " (" + (m.op.empty() ? *all.rbegin() : m.op) + ")");
      const point p = point_of(m, 11 + some[k]);
      want.push_back(checked(m, names.back(), p));
      loaded.push_back(onnx::load(onnx_test::bytes_of(onnx_test::model_of(m, true))));
      x[names.back()] = p.x;
      along[names.back()] = p.along;
    }
    const auto total = [&](const std::map<std::string, tensors>& at) {
      tensor<double, 0> sum = loss_of(loaded[0], at.at(names[0]));
      for (std::size_t k = 1; k < loaded.size(); ++k) sum = sum + loss_of(loaded[k], at.at(names[k]));
      return sum;
    };
    const auto compiled =
        compile([&](const std::map<std::string, tensors>& at, const std::map<std::string, tensors>& v) {
          const auto [l, g] = value_and_grad(total)(at);
          return std::tuple{l, g, hvp(total)(at, v)};
        });
    const auto [l, g, h] = compiled(x, along);
    double sum = 0;
    for (std::size_t k = 0; k < want.size(); ++k) {
      sum += want[k].loss;
      for (const auto& [leaf, by] : want[k].gradient) {
        const auto slope = numbers(g.at(names[k]).at(leaf)), curve = numbers(h.at(names[k]).at(leaf));
        const auto slope_wanted = numbers(by), curve_wanted = numbers(want[k].along.at(leaf));
        for (std::size_t i = 0; i < slope.size(); ++i) {
          check_near("compiled, the gradient of " + names[k], slope[i], slope_wanted[i], 1e-9);
          check_near("compiled, the second derivative of " + names[k], curve[i], curve_wanted[i], 1e-9);
        }
      }
    }
    check_near("compiled, the losses", l.item(), sum, 1e-9);
  }
}
