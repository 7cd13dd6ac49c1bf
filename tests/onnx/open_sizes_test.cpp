// Operators that compute with the extents of their inputs, which the model leaves open: one specialisation for ten sizes.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <string>
#include <utility>
#include <vector>

#include "../close.hpp"
#include "calls.hpp"
#include "operator_models.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::attribute_text;
using onnx_test::bytes_of;
using onnx_test::message;
using onnx_test::node;

namespace {

constexpr std::pair<int, int> sizes[] = {{9, 13},  {10, 11}, {16, 12}, {17, 31}, {33, 15},
                                         {40, 21}, {23, 45}, {50, 14}, {11, 64}, {29, 28}};

struct program {
  std::string name;
  std::vector<message> nodes;
  std::vector<message> initializers = {};
};

template <class T>
message values_named(const std::string& name, const std::vector<T>& v) {
  return onnx_test::tensor(name, {static_cast<std::int64_t>(v.size())}, v);
}
message floats_named(const std::string& name, const std::vector<float>& v) { return values_named(name, v); }
message integers_named(const std::string& name, const std::vector<std::int64_t>& v) { return values_named(name, v); }

template <int R = 1>
std::vector<float> elements(const dynamic_tensor& t) {
  if constexpr (R > 6) FAIL("a result of rank ", t.rank());
  else if (t.rank() == R) return t.as<tensor<float, R>>().to_vector();
  else return elements<R + 1>(t);
  return {};
}

/// The program at ten sizes, with them open, against a model for each size alone.
void check(const program& p) {
  CAPTURE(p.name);
  onnx_test::graph g;
  g.inputs = {onnx_test::value("x", onnx_test::f32, {"1", "1", "h", "w"})};
  g.outputs = {message().text(1, "y")};
  g.nodes = p.nodes;
  g.initializers = p.initializers;
  const std::string file = g.model();
  for (const char* backend : {"reference", "auto"}) {
    CAPTURE(backend);
    const onnx::model open = onnx::load(bytes_of(file), {.dynamic = dynamic::yes, .backend = backend});
    const onnx::model fixed =
        onnx::load(bytes_of(file), {.dynamic = dynamic::no, .backend = "reference", .recompile_limit = 64});
    for (const auto& extents : sizes) {
      const auto h = extents.first, w = extents.second;
      CAPTURE(h);
      CAPTURE(w);
      const tensor<float, 4> x =
          reshape(tensor<float, 1>(from_span(onnx_test::some(static_cast<std::size_t>(h * w), h))), 1, 1, h, w);
      const dynamic_tensor got = open({x})[0], want = fixed({x})[0];
      REQUIRE(got.text() == want.text());
      check_close(elements(got), elements(want), 1e-4);
    }
    CHECK(open.specialisations() == 1);
  }
}

message resize(const std::vector<message>& attributes) {
  return node("Resize", {"x", "", "scales"}, {"y"}, attributes);
}

}  // namespace

TEST_CASE("Resize by scales, in all modes") {
  const auto by = [](float s, std::vector<message> attributes, const std::string& name) {
    check({name, {resize(attributes)}, {floats_named("scales", {1, 1, s, s})}});
  };
  for (const char* how : {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"}) {
    by(1.5f, {attribute_text("mode", "linear"), attribute_text("coordinate_transformation_mode", how)}, how);
    by(0.7f, {attribute_text("mode", "nearest"), attribute_text("coordinate_transformation_mode", how)}, how);
  }
  for (const char* how : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
    by(2.f, {attribute_text("nearest_mode", how)}, how);
  by(1.3f, {attribute_text("mode", "cubic"), attribute("exclude_outside", 1)}, "cubic");
  by(0.4f, {attribute_text("mode", "linear"), attribute("antialias", 1)}, "antialias");
}

TEST_CASE("operators whose operands are sizes") {
  const std::vector<message> shape = {node("Shape", {"x"}, {"s"}, {attribute("start", 2)}),
                                      node("Div", {"s", "two"}, {"half"}), node("Mul", {"half", "two"}, {"even"})};
  const auto with = [&](std::vector<message> more) {
    std::vector<message> all = shape;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<message> constants = {integers_named("two", {2}),         integers_named("zeros", {0, 0}),
                                          integers_named("axes", {2, 3}),     integers_named("ones", {1, 1}),
                                          integers_named("one", {1}),         integers_named("rest", {-1}),
                                          integers_named("steps", {2, 1}),    integers_named("last", {3}),
                                          floats_named("values", {0.f, 1.f}), integers_named("zero", {0})};
  const auto ends = node("Slice", {"x", "zeros", "even", "axes"}, {"c"});
  check({"Resize to sizes",
         with({node("Concat", {"ones", "half"}, {"to"}, {attribute("axis", 0)}),
               node("Resize", {"x", "", "", "to"}, {"y"}, {attribute_text("mode", "linear")})}),
         constants});
  check({"Slice, SpaceToDepth, DepthToSpace",
         with({ends, node("SpaceToDepth", {"c"}, {"d"}, {attribute("blocksize", 2)}),
               node("DepthToSpace", {"d"}, {"y"}, {attribute("blocksize", 2)})}),
         constants});
  check({"Reshape",
         with({ends, node("Gather", {"half", "zero"}, {"h"}), node("Gather", {"half", "one"}, {"w"}),
               node("Concat", {"h", "two", "w", "two"}, {"to"}, {attribute("axis", 0)}),
               node("Reshape", {"c", "to"}, {"y"})}),
         constants});
  check({"Reshape with an open axis",
         with({ends, node("Concat", {"rest", "two"}, {"to"}, {attribute("axis", 0)}),
               node("Reshape", {"c", "to"}, {"y"})}),
         constants});
  check({"Slice from the middle by two", with({node("Slice", {"x", "half", "s", "axes", "steps"}, {"y"})}), constants});
  check({"Pad",
         with({node("Sub", {"s", "even"}, {"odd"}),
               node("Concat", {"zeros", "zeros", "zeros", "odd"}, {"pads"}, {attribute("axis", 0)}),
               node("Pad", {"x", "pads"}, {"p"}), node("SpaceToDepth", {"p"}, {"y"}, {attribute("blocksize", 2)})}),
         constants});
  check({"Split",
         {node("Split", {"x"}, {"a", "b", "c"}, {attribute("axis", 3), attribute("num_outputs", 3)}),
          node("Concat", {"c", "a", "b"}, {"z"}, {attribute("axis", 3)}), node("Add", {"x", "z"}, {"y"})}});
  check({"Tile and Expand",
         with({node("Gather", {"half", "zero"}, {"h"}),
               node("Concat", {"h", "one", "one", "one"}, {"to"}, {attribute("axis", 0)}),
               node("Tile", {"x", "to"}, {"t"}), node("Expand", {"x", "to"}, {"e"}), node("Add", {"t", "e"}, {"y"})}),
         constants});
  check({"OneHot of an extent",
         with({node("Gather", {"half", "one"}, {"depth"}), node("ArgMax", {"x"}, {"i"}, {attribute("axis", 3)}),
               node("OneHot", {"i", "depth", "values"}, {"y"})}),
         constants});
}
