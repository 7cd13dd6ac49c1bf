// Integers of a file stay integers, to the last bit: literals, fills, bounds, comparisons, exponents; static, open, interpreted.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "calls.hpp"
#include "model_writer.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::attribute_float;
using onnx_test::attribute_list;
using onnx_test::attribute_text;
using onnx_test::bytes_of;
using onnx_test::message;
using onnx_test::node;
using onnx_test::value;

namespace {

using i64 = std::int64_t;
using u64 = std::uint64_t;
constexpr i64 odd = (i64{1} << 53) + 1, even = i64{1} << 53, most = std::numeric_limits<i64>::max(),
              least = std::numeric_limits<i64>::min();
/// Its highest bits are those that stand for sizes of calls within.
constexpr i64 marked = -6 * (i64{1} << 60) + 3;
constexpr u64 all_ones = ~u64{0};

template <class T>
constexpr int type_of() {
  if constexpr (std::is_same_v<T, bool>) return 9;
  else if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? 1 : 11;
  else if constexpr (std::is_signed_v<T>) return sizeof(T) == 1 ? 3 : sizeof(T) == 2 ? 5 : sizeof(T) == 4 ? 6 : 7;
  else return sizeof(T) == 1 ? 2 : sizeof(T) == 2 ? 4 : sizeof(T) == 4 ? 12 : 13;
}
template <class T>
std::string bytes_in(const std::vector<T>& v) {
  std::string out;
  for (const T x : v) out.append(reinterpret_cast<const char*>(&x), sizeof x);
  return out;
}
template <class T>
message numbers(const std::string& name, const std::vector<i64>& extents, const std::vector<T>& v,
                int type = type_of<T>()) {
  message t;
  for (const i64 e : extents) t.number(1, static_cast<u64>(e));
  return t.number(2, static_cast<u64>(type)).text(8, name).text(9, bytes_in(v));
}
template <class T>
message one(const std::string& name, T v) {
  return numbers(name, {}, std::vector<T>{v});
}
template <class T>
message list(const std::string& name, const std::vector<T>& v) {
  return numbers(name, {static_cast<i64>(v.size())}, v);
}
message attribute_tensor(const std::string& name, const message& t) {
  return message().text(1, name).part(5, t).number(20, 4);
}

/// Rows side by side in one model: what each gives, as bytes.
struct rows {
  onnx_test::graph g;
  std::vector<std::vector<i64>> extents;
  std::vector<int> types;
  onnx::tensor_list x;
  std::vector<std::string> want;

  template <class T>
  void input(const std::string& name, const std::vector<i64>& e, const std::vector<T>& v) {
    extents.push_back(e);
    types.push_back(type_of<T>());
    io::array a = io::detail::make_array(dtype_of<T>, e);
    std::memcpy(a.data, bytes_in(v).data(), v.size() * sizeof(T));
    x.emplace_back(a);
    names.push_back(name);
  }
  void constant(const message& t) { g.initializers.push_back(t); }
  /// The result of the last of these nodes.
  template <class T>
  void gives(const std::string& result, std::vector<message> nodes, const std::vector<T>& elements) {
    g.nodes.insert(g.nodes.end(), nodes.begin(), nodes.end());
    g.outputs.push_back(message().text(1, result));
    results.push_back(result);
    want.push_back(bytes_in(elements));
  }
  void check(int opset = 22) {
    for (const bool open : {false, true})
      for (const bool interpreted : {false, true}) {
        g.inputs.clear();
        for (std::size_t k = 0; k < names.size(); ++k) {
          std::vector<std::string> axes;
          for (std::size_t a = 0; a < extents[k].size(); ++a)
            axes.push_back(open ? names[k] + "_" + static_cast<char>('a' + a) : std::to_string(extents[k][a]));
          g.inputs.push_back(value(names[k], types[k], axes));
        }
        options how = onnx_test::on(interpreted);
        if (open) how.dynamic = dynamic::yes;
        const std::string file = g.model(opset);
        const auto y = onnx::load(bytes_of(file), how)(x);
        REQUIRE(y.size() == want.size());
        for (std::size_t k = 0; k < y.size(); ++k) {
          const io::array a = y[k].to_array();
          INFO(results[k] << std::string(open ? ", open" : ", static")
                          << std::string(interpreted ? ", reference: " : ": ") << y[k]);
          CHECK(std::string(reinterpret_cast<const char*>(a.data), a.bytes().size()) == want[k]);
        }
      }
  }

 private:
  std::vector<std::string> names, results;
};

template <class T>
message filled(const std::string& in, const std::string& out, T v) {
  return node("ConstantOfShape", {in}, {out}, {attribute_tensor("value", list<T>("v", {v}))});
}

}  // namespace

TEST_CASE("ConstantOfShape gives the integer of the file, however it is spelled") {
  rows r;
  r.input<float>("few", {3}, {0, 0, 0});
  r.input<float>("many", {70}, std::vector<float>(70));
  r.g.nodes = {node("Shape", {"few"}, {"few_shape"}), node("Shape", {"many"}, {"many_shape"})};
  const auto both = [&]<class T>(const std::string& name, T v) {
    r.gives(name + "3", {filled("few_shape", name + "3", v)}, std::vector<T>(3, v));
    r.gives(name + "70", {filled("many_shape", name + "70", v)}, std::vector<T>(70, v));
  };
  both("odd", odd);
  both("most", most);
  both("least", least);
  both("marked", marked);
  both("ones", all_ones);
  both("high", u64{1} << 63);
  both("marked_u", static_cast<u64>(marked));
  both("i32", std::int32_t{-2147483647 - 1});
  both("u32", std::uint32_t{4294967295u});
  both("i8", std::int8_t{-128});
  both("b8", true);
  both("f64", 0x1.fffffffffffffp1023);
  r.check();
}

TEST_CASE("Pad fills with the integer that it is given, in the file or by a call") {
  rows r;
  r.input<i64>("x", {2}, {1, odd});
  r.input<u64>("u", {2}, {1, all_ones});
  r.input<i64>("told", {}, {odd});
  r.input<i64>("told_mark", {}, {marked});
  r.input<std::int32_t>("n", {2}, {1, 2});
  r.constant(list<i64>("pads", {1, 1}));
  r.constant(one("odd", odd));
  r.constant(one("most", most));
  r.constant(one("marked", marked));
  r.constant(one("ones", all_ones));
  r.constant(one("i32", std::int32_t{2147483647}));
  const auto pad = [&]<class T>(const std::string& x, const std::string& fill, std::vector<T> want) {
    r.gives("pad_" + x + fill, {node("Pad", {x, "pads", fill}, {"pad_" + x + fill})}, want);
  };
  pad("x", "odd", std::vector<i64>{odd, 1, odd, odd});
  pad("x", "most", std::vector<i64>{most, 1, odd, most});
  pad("x", "marked", std::vector<i64>{marked, 1, odd, marked});
  pad("x", "told", std::vector<i64>{odd, 1, odd, odd});
  pad("x", "told_mark", std::vector<i64>{marked, 1, odd, marked});
  pad("u", "ones", std::vector<u64>{all_ones, 1, all_ones, all_ones});
  pad("n", "i32", std::vector<std::int32_t>{2147483647, 1, 2, 2147483647});
  r.check();
}

TEST_CASE("Range steps by integers of any size") {
  rows r;
  r.input<float>("three", {3}, {0, 0, 0});
  r.input<i64>("told", {}, {odd});
  for (const auto& [name, v] : std::vector<std::pair<std::string, i64>>{{"zero", 0},
                                                                        {"one", 1},
                                                                        {"odd", odd},
                                                                        {"odd3", odd + 3},
                                                                        {"least", least},
                                                                        {"most", most},
                                                                        {"marked", marked},
                                                                        {"marked3", marked + 3},
                                                                        {"end", least + 300 * odd},
                                                                        {"back", -odd}})
    r.constant(one(name, v));
  const auto range = [&](const char* a, const char* b, const char* c, const std::vector<i64>& want) {
    const std::string name = std::string(a) + "_" + b + "_" + c;
    r.gives(name, {node("Range", {a, b, c}, {name})}, want);
  };
  range("odd", "odd3", "one", {odd, odd + 1, odd + 2});
  range("told", "odd3", "one", {odd, odd + 1, odd + 2});
  range("marked", "marked3", "one", {marked, marked + 1, marked + 2});
  range("least", "most", "most", {least, -1, most - 1});
  range("most", "least", "least", {most, -1});
  range("one", "least", "least", {1, least + 1});
  std::vector<i64> steps, down;
  for (i64 k = 0; k < 300; ++k) steps.push_back(least + k * odd);
  range("least", "end", "odd", steps);
  for (i64 k = 0; k < 1024; ++k) down.push_back(most - k * odd);
  range("most", "zero", "back", down);
  r.g.nodes.push_back(node("Size", {"three"}, {"size"}));
  r.g.nodes.push_back(node("Mul", {"size", "odd"}, {"far"}));
  range("zero", "far", "odd", {0, odd, 2 * odd});
  r.check();
}

TEST_CASE("constants of nodes are integers to the last bit") {
  rows r;
  r.input<i64>("x", {3}, {1, 2, 3});
  const auto add = [&](const char* name, const message& a, std::vector<i64> want) {
    r.gives(
        name,
        {node("Constant", {}, {std::string(name) + "_c"}, {a}), node("Add", {"x", std::string(name) + "_c"}, {name})},
        want);
  };
  add("odd", attribute("value_int", odd), {odd + 1, odd + 2, odd + 3});
  add("marked", attribute("value_int", marked), {marked + 1, marked + 2, marked + 3});
  add("list", attribute_list("value_ints", {odd, marked, least}), {odd + 1, marked + 2, least + 3});
  r.check();
}

TEST_CASE("elementwise operators compare, clip, shift and raise integers") {
  rows r;
  r.input<i64>("x", {4}, {odd, even, -odd, 3});
  r.input<u64>("u", {2}, {all_ones, 1});
  r.input<std::int32_t>("n", {2}, {2, -1});
  r.input<float>("f", {2}, {-1, 1});
  r.input<i64>("power", {1}, {(i64{1} << 24) + 1});
  r.constant(one("odd", odd));
  r.constant(one("most", most));
  r.constant(one("top", all_ones));
  r.constant(one("far", (i64{1} << 32) + 1));
  r.constant(one("to_f", (i64{1} << 24) + 1));
  r.constant(one("one_f", 1.f));
  r.constant(one("forty_f", 39.f));
  r.constant(one("half_f", 0.5f));
  r.constant(list<i64>("three", {3, 3, 3, 3}));
  r.gives<i64>("clip", {node("Clip", {"x", "odd", "most"}, {"clip"})}, {odd, odd, odd, odd});
  r.gives<i64>("clip_up", {node("Clip", {"x", "", "odd"}, {"clip_up"})}, {odd, even, -odd, 3});
  r.gives<i64>("clip_attribute", {node("Clip", {"x"}, {"clip_attribute"}, {attribute_float("max", 5)})},
               {5, 5, -odd, 3});
  r.gives<i64>("clip_least", {node("Clip", {"x"}, {"clip_least"}, {attribute_float("min", 4)})}, {odd, even, 4, 4});
  r.gives<u64>("clip_u", {node("Clip", {"u", "top"}, {"clip_u"})}, {all_ones, all_ones});
  r.gives<bool>("equal", {node("Equal", {"x", "odd"}, {"equal"})}, {true, false, false, false});
  r.gives<bool>("less", {node("Less", {"x", "odd"}, {"less"})}, {false, true, true, true});
  r.gives<bool>("less_u", {node("Less", {"u", "top"}, {"less_u"})}, {false, true});
  r.gives<i64>("max", {node("Max", {"x", "odd"}, {"max"})}, {odd, odd, odd, odd});
  r.gives<i64>("mod", {node("Mod", {"x", "three"}, {"mod"})}, {0, 2, 0, 0});
  r.gives<i64>("relu", {node("Relu", {"x"}, {"relu"})}, {odd, even, 0, 3});
  r.gives<i64>("where", {node("Where", {"equal", "most", "x"}, {"where"})}, {most, even, -odd, 3});
  r.gives<i64>("shrink",
               {node("Shrink", {"x"}, {"shrink"}, {attribute_float("lambd", 3.5), attribute_float("bias", 1)})},
               {odd - 1, even - 1, -odd + 1, 0});
  r.gives<i64>("shrink_cut",
               {node("Shrink", {"x"}, {"shrink_cut"}, {attribute_float("lambd", 2.5), attribute_float("bias", 1.5)})},
               {odd - 2, even - 2, -odd + 2, 1});
  r.gives<i64>("pow1", {node("Pow", {"x", "one_f"}, {"pow1"})}, {odd, even, -odd, 3});
  r.gives<i64>("pow39", {node("Pow", {"three", "forty_f"}, {"pow39"})}, std::vector<i64>(4, 4052555153018976267));
  r.gives<i64>("root", {node("Pow", {"three", "half_f"}, {"root"})}, {1, 1, 1, 1});
  r.gives<std::int32_t>("pow_far", {node("Pow", {"n", "far"}, {"pow_far"})}, {0, -1});
  r.gives<float>("pow_parity", {node("Pow", {"f", "to_f"}, {"pow_parity"})}, {-1, 1});
  r.gives<float>("pow_told", {node("Pow", {"f", "power"}, {"pow_told"})}, {-1, 1});
  r.check();
}

TEST_CASE("operators of places keep integers and take diagonals of any size") {
  rows r;
  r.input<i64>("x", {2, 2}, {odd, even, marked, odd});
  r.input<i64>("list", {5}, {odd, even, marked, odd, 0});
  r.input<u64>("u", {4}, {all_ones, 1, all_ones - 1, all_ones});
  r.input<double>("nan", {4},
                  {std::numeric_limits<double>::quiet_NaN(), 1, std::numeric_limits<double>::quiet_NaN(), 0});
  r.input<i64>("told", {}, {most});
  r.input<std::int32_t>("index", {2}, {1, 0});
  r.constant(one("most", most));
  r.constant(one("least", least));
  r.constant(one("marked", marked));
  r.constant(one("depth", i64{2}));
  r.constant(list<i64>("values", {odd, most}));
  const auto trilu = [&](const char* k, i64 upper, std::vector<i64> want) {
    const std::string name = std::string("trilu_") + k + (upper ? "u" : "l");
    r.gives(name, {node("Trilu", {"x", k}, {name}, {attribute("upper", upper)})}, want);
  };
  trilu("most", 1, {0, 0, 0, 0});
  trilu("most", 0, {odd, even, marked, odd});
  trilu("told", 1, {0, 0, 0, 0});
  trilu("least", 1, {odd, even, marked, odd});
  trilu("marked", 0, {0, 0, 0, 0});
  r.gives<i64>("eye", {node("EyeLike", {"x"}, {"eye"}, {attribute("k", most)})}, {0, 0, 0, 0});
  r.gives<i64>("unique", {node("Unique", {"list"}, {"unique", "first", "inverse", "counts"})}, {marked, 0, even, odd});
  r.gives<i64>("count_of", {node("Identity", {"counts"}, {"count_of"})}, {1, 1, 1, 2});
  r.gives<i64>("unique_rows", {node("Unique", {"x"}, {"unique_rows"}, {attribute("axis", 0)})},
               {marked, odd, odd, even});
  r.gives<u64>("unique_u", {node("Unique", {"u"}, {"unique_u"})}, {1, all_ones - 1, all_ones});
  r.gives<double>("unique_nan", {node("Unique", {"nan"}, {"unique_nan"})},
                  {0, 1, std::numeric_limits<double>::quiet_NaN()});
  r.gives<i64>("nonzero", {node("NonZero", {"list"}, {"nonzero"})}, {0, 1, 2, 3});
  r.gives<i64>("one_hot", {node("OneHot", {"index", "depth", "values"}, {"one_hot"})}, {odd, most, most, odd});
  r.gives<i64>("top",
               {node("Constant", {}, {"two"}, {attribute_list("value_ints", {2})}),
                node("TopK", {"list", "two"}, {"top", "top_at"})},
               {odd, odd});
  r.check();
}

TEST_CASE("reductions and products of integers are exact") {
  // 2450070001² + 70001² is 2 less than the square of 2450070002, which is its root in f64.
  rows r;
  r.input<i64>("sides", {2}, {2450070001, 70001});
  r.input<i64>("x", {3}, {odd, odd, odd});
  r.input<i64>("negative", {3}, {-odd, -odd, least});
  r.input<u64>("u", {1}, {all_ones});
  r.input<i64>("edge", {3}, {most, most, most});
  r.input<i64>("a", {1, 1}, {odd});
  r.input<i64>("b", {1, 1}, {1});
  r.input<i64>("bias", {1}, {odd});
  const std::vector<message> flat{attribute("keepdims", 0)};
  r.gives<i64>("l2", {node("ReduceL2", {"sides"}, {"l2"}, flat)}, {2450070001});
  r.gives<i64>("l1", {node("ReduceL1", {"negative"}, {"l1"}, flat)},
               {static_cast<i64>(2 * static_cast<u64>(odd) + (u64{1} << 63))});
  r.gives<i64>("lse", {node("ReduceLogSumExp", {"x"}, {"lse"}, flat)}, {odd + 1});
  r.gives<i64>("lse_below", {node("ReduceLogSumExp", {"negative"}, {"lse_below"}, flat)}, {-odd + 1});
  r.gives<u64>("lse_u", {node("ReduceLogSumExp", {"u"}, {"lse_u"}, flat)}, {all_ones});
  r.gives<i64>("lse_edge", {node("ReduceLogSumExp", {"edge"}, {"lse_edge"}, flat)}, {most});
  r.gives<i64>("sum", {node("ReduceSum", {"x"}, {"sum"}, flat)}, {3 * odd});
  r.gives<i64>("mean", {node("ReduceMean", {"x"}, {"mean"}, flat)}, {odd});
  r.gives<i64>("gemm",
               {node("Gemm", {"a", "b", "bias"}, {"gemm"}, {attribute_float("alpha", 2), attribute_float("beta", -1)})},
               {odd});
  r.gives<i64>(
      "gemm_half",
      {node("Gemm", {"b", "b", "b"}, {"gemm_half"}, {attribute_float("alpha", 2.5f), attribute_float("beta", 0.5f)})},
      {3});
  r.check();
}

TEST_CASE("quantised values take zero points as integers") {
  rows r;
  r.input<float>("x", {4}, {3e9f, -3e9f, 1, 2});
  r.constant(one("one", 1.f));
  r.constant(one("i32", std::int32_t{0}));
  r.constant(numbers("half", {}, std::vector<std::uint16_t>{0x3c00}, 10));
  r.constant(one("u16", std::uint16_t{40001}));
  r.constant(one("i16", std::int16_t{1001}));
  r.gives<std::int32_t>("to_i32", {node("QuantizeLinear", {"x", "one", "i32"}, {"to_i32"})},
                        {2147483647, -2147483647 - 1, 1, 2});
  r.gives<std::uint16_t>(
      "to_u16",
      {node("Cast", {"x"}, {"h"}, {attribute("to", 10)}), node("QuantizeLinear", {"h", "half", "u16"}, {"to_u16"})},
      {65535, 0, 40002, 40003});
  r.gives<std::int16_t>(
      "to_i16",
      {node("Cast", {"x"}, {"w"}, {attribute("to", 16)}), node("Cast", {"one"}, {"w1"}, {attribute("to", 16)}),
       node("QuantizeLinear", {"w", "w1", "i16"}, {"to_i16"})},
      {32767, -32768, 1002, 1003});
  r.check();
}

TEST_CASE("samples and losses of integers") {
  rows r;
  r.input<i64>("image", {1, 1, 2, 2}, {odd, even, 4, 8});
  r.input<float>("at", {1, 1, 2, 2}, {-0.5, -0.5, 0, 0});
  r.input<std::int32_t>("line", {1, 1, 2}, {16777217, 16777219});
  r.input<i64>("labels", {2}, {even, 0});
  r.input<float>("logp", {2, 2}, {-1, -2, -4, -8});
  r.constant(list<float>("scales", {1, 1, 1.5}));
  r.gives<i64>("nearest", {node("GridSample", {"image", "at"}, {"nearest"}, {attribute_text("mode", "nearest")})},
               {odd, odd});
  r.constant(one("nine", i64{9}));
  r.gives<i64>("linear", {node("Mod", {"image", "nine"}, {"small"}), node("GridSample", {"small", "at"}, {"linear"})},
               {odd % 9, (odd % 9 + even % 9 + 4 + 8) / 4});
  r.gives<std::int32_t>(
      "resized",
      {node("Resize", {"line", "", "scales"}, {"resized"},
            {attribute_text("mode", "linear"), attribute_text("coordinate_transformation_mode", "align_corners")})},
      {16777217, 16777218, 16777219});
  r.gives<float>(
      "loss", {node("NegativeLogLikelihoodLoss", {"logp", "labels"}, {"loss"}, {attribute("ignore_index", odd)})}, {2});
  r.check();
}

TEST_CASE("sizes that a cast may wrap, and those beside u64, are computed as integers are") {
  rows r;
  r.input<float>("x", {300}, std::vector<float>(300));
  r.constant(one("top", all_ones));
  r.g.nodes = {node("Size", {"x"}, {"size"})};
  r.gives<std::int8_t>("wrapped", {node("Cast", {"size"}, {"wrapped"}, {attribute("to", 3)})}, {44});
  r.gives<i64>("back", {node("Cast", {"wrapped"}, {"back"}, {attribute("to", 7)})}, {44});
  r.gives<u64>("larger", {node("Cast", {"size"}, {"s"}, {attribute("to", 13)}), node("Max", {"s", "top"}, {"larger"})},
               {all_ones});
  r.gives<bool>("below", {node("Less", {"s", "top"}, {"below"})}, {true});
  r.check();
}

TEST_CASE("rows that compute with integers lose no bit") {
  rows r;
  r.input<i64>("x", {4}, {odd, even, -odd, 3});
  r.input<u64>("u", {2}, {all_ones, u64{1} << 63});
  r.input<i64>("m", {2, 2}, {odd, 1, 2, 3});
  r.constant(one("one", i64{1}));
  r.constant(one("two", i64{2}));
  r.constant(one("odd", odd));
  r.constant(one("three_u", u64{3}));
  r.constant(numbers("b", {2, 2}, std::vector<i64>{1, 1, 0, 1}));
  const auto gives = [&](const char* op, const std::vector<std::string>& in, const std::vector<i64>& want,
                         const std::vector<message>& attributes = {}) {
    const std::string name = std::string(op) + "_" + in[0] + std::to_string(r.g.nodes.size());
    r.gives(name, {node(op, in, {name}, attributes)}, want);
  };
  gives("Add", {"x", "one"}, {odd + 1, odd, even * -1, 4});
  gives("Sub", {"x", "odd"}, {0, -1, -2 * odd, 2 - even});
  gives("Mul", {"x", "two"}, {2 * odd, 2 * even, -2 * odd, 6});
  gives("Div", {"x", "two"}, {even / 2, even / 2, -even / 2, 1});
  gives("Neg", {"x"}, {-odd, -even, odd, -3});
  gives("Abs", {"x"}, {odd, even, odd, 3});
  gives("Sign", {"x"}, {1, 1, -1, 1});
  gives("Min", {"x", "odd"}, {odd, even, -odd, 3});
  gives("Sum", {"x", "x", "one"}, {2 * odd + 1, 2 * even + 1, -2 * odd + 1, 7});
  gives("BitwiseAnd", {"x", "one"}, {1, 0, 1, 1});
  gives("BitwiseOr", {"x", "one"}, {odd, odd, -odd, 3});
  gives("BitwiseXor", {"x", "one"}, {even, odd, -odd - 1, 2});
  gives("BitwiseNot", {"x"}, {-odd - 1, -even - 1, odd - 1, -4});
  r.gives<u64>("shift", {node("BitShift", {"u", "three_u"}, {"shift"}, {attribute_text("direction", "RIGHT")})},
               {all_ones >> 3, u64{1} << 60});
  r.gives<u64>("div_u", {node("Div", {"u", "three_u"}, {"div_u"})}, {all_ones / 3, (u64{1} << 63) / 3});
  r.gives<bool>("ge", {node("GreaterOrEqual", {"x", "odd"}, {"ge"})}, {true, false, false, false});
  r.gives<bool>("le", {node("LessOrEqual", {"x", "odd"}, {"le"})}, {true, true, true, true});
  r.gives<u64>("as_u", {node("Cast", {"x"}, {"as_u"}, {attribute("to", 13)})},
               {u64{odd}, u64{even}, static_cast<u64>(-odd), 3});
  gives("CumSum", {"x", "zero"}, {odd, odd + even, even, even + 3});
  gives("CumProd", {"m", "one"}, {odd, odd, 2, 6});
  const std::vector<message> flat{attribute("keepdims", 0)};
  gives("ReduceMax", {"x"}, {odd}, flat);
  gives("ReduceMin", {"x"}, {-odd}, flat);
  gives("ReduceProd", {"m"}, {6 * odd}, flat);
  gives("ReduceSumSquare", {"m"}, {static_cast<i64>(static_cast<u64>(odd) * static_cast<u64>(odd) + 14)}, flat);
  gives("ArgMax", {"x"}, {0}, flat);
  gives("MatMul", {"m", "b"}, {odd, odd + 1, 2, 5});
  gives("Einsum", {"m", "b"}, {odd + 1, 1, 5, 3}, {attribute_text("equation", "ij,kj->ik")});
  r.constant(one("zero", i64{0}));
  r.check();
}

TEST_CASE("rows that move integers lose no bit") {
  rows r;
  r.input<i64>("x", {4}, {odd, even, -odd, marked});
  r.input<i64>("m", {2, 2}, {odd, even, marked, 3});
  r.input<i64>("at", {2}, {3, 0});
  for (const auto& [name, v] : std::vector<std::pair<std::string, std::vector<i64>>>{{"four", {4}},
                                                                                     {"two", {2}},
                                                                                     {"pair", {2, 2}},
                                                                                     {"one", {1}},
                                                                                     {"six", {6}},
                                                                                     {"updates", {odd, most}},
                                                                                     {"lengths", {2, 1}},
                                                                                     {"places", {1, 1}}})
    r.constant(list(name, v));
  r.constant(numbers("keep", {2}, std::vector<std::uint8_t>{1, 0}, 9));
  r.constant(numbers("spots", {2, 1}, std::vector<i64>{1, 2}));
  r.constant(list<float>("twice", {2}));
  r.constant(one("add", odd));
  r.constant(one("count", i64{6}));
  const auto gives = [&](const char* op, const std::vector<std::string>& in, const std::vector<i64>& want,
                         const std::vector<message>& attributes = {}) {
    const std::string name = std::string(op) + "_" + in[0] + std::to_string(r.g.nodes.size());
    r.gives(name, {node(op, in, {name}, attributes)}, want);
  };
  gives("Identity", {"x"}, {odd, even, -odd, marked});
  gives("Concat", {"x", "updates"}, {odd, even, -odd, marked, odd, most}, {attribute("axis", 0)});
  gives("Slice", {"x", "one", "four"}, {even, -odd, marked});
  gives("Gather", {"x", "at"}, {marked, odd});
  gives("GatherElements", {"x", "at"}, {marked, odd});
  gives("GatherND", {"x", "spots"}, {even, -odd});
  gives("ScatterElements", {"x", "at", "updates"}, {most, even, -odd, odd});
  gives("ScatterElements", {"x", "at", "updates"},
        {static_cast<i64>(static_cast<u64>(odd) + static_cast<u64>(most)), even, -odd, marked + odd},
        {attribute_text("reduction", "add")});
  gives("ScatterElements", {"x", "at", "updates"}, {most, even, -odd, odd}, {attribute_text("reduction", "max")});
  gives("ScatterElements", {"x", "at", "updates"}, {odd, even, -odd, marked}, {attribute_text("reduction", "min")});
  gives("ScatterND", {"x", "spots", "updates"}, {odd, odd, most, marked});
  gives("Expand", {"m", "pair"}, {odd, even, marked, 3});
  gives("Tile", {"x", "two"}, {odd, even, -odd, marked, odd, even, -odd, marked});
  gives("Transpose", {"m"}, {odd, marked, even, 3});
  gives("Reshape", {"x", "pair"}, {odd, even, -odd, marked});
  gives("TopK", {"x", "two"}, {odd, even});
  gives("Compress", {"m", "keep"}, {odd, even}, {attribute("axis", 0)});
  gives("ReverseSequence", {"m", "lengths"}, {marked, even, odd, 3});
  gives("CenterCropPad", {"x", "six"}, {0, odd, even, -odd, marked, 0});
  gives("Upsample", {"x", "twice"}, {odd, odd, even, even, -odd, -odd, marked, marked});
  r.gives<i64>("split", {node("Split", {"x"}, {"split0", "split"}, {attribute("num_outputs", 2)})}, {-odd, marked});
  r.gives<i64>("taken",
               {node("SplitToSequence", {"x", "two"}, {"parts"}), node("SequenceAt", {"parts", "zero"}, {"taken"})},
               {odd, even});
  r.constant(one("zero", i64{0}));
  onnx_test::graph body;
  for (const char* name : {"k", "on", "v"}) body.inputs.push_back(message().text(1, name));
  for (const char* name : {"on2", "next", "seen"}) body.outputs.push_back(message().text(1, name));
  body.nodes = {node("Identity", {"on"}, {"on2"}), node("Add", {"v", "add"}, {"next"}),
                node("Identity", {"next"}, {"seen"})};
  r.gives<i64>(
      "looped",
      {node("Loop", {"count", "", "x"}, {"looped", "seen_all"}, {onnx_test::attribute_graph("body", body.body())})},
      {7 * odd, even + 6 * odd, 5 * odd, marked + 6 * odd});
  r.check(18);
}
