// Saved graphs: every op there and back, files of earlier versions, weights, open sizes, parts, custom ops, damage.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/engine/saved_graph.hpp>
#include <sinter/io.hpp>
#include <sinter/ir/mesh_axes.hpp>
#include <sinter/sinter.hpp>

#include "../paths.hpp"
#include "../scratch_folder.hpp"
#include "../texts.hpp"

using namespace sinter;
using texts::contains;
using texts::message_of;

namespace {

graph::id input(graph& g, dtype t, ir::shape s) { return g.add_input(t, std::move(s), {}); }

/// A graph of one pointwise op.
graph pointwise_sample(ir::op o) {
  using rule = ir::dtype_rule;
  const auto& r = ir::row(o);
  const dtype t = r.rule == rule::random                            ? dtype::u64
                  : r.rule == rule::integer || r.rule == rule::bits ? dtype::i32
                                                                    : dtype::f32;
  graph g;
  series<graph::id> in;
  for (int k = 0; k < r.arity; ++k) in.push_back(input(g, k == 0 && r.rule == rule::selection ? dtype::b8 : t, {2, 3}));
  ir::attributes a;
  if (r.rule == rule::conversion) a.type = dtype::bf16;
  if (r.rule == rule::same_size) a.type = dtype::i32;
  g.set_outputs({g.push(o, in, a, {})});
  return g;
}

ir::attributes with(series<std::int64_t> ints, ir::shape dims = {}, ir::op combiner = ir::op::add) {
  ir::attributes a;
  a.ints = std::move(ints);
  a.dims = std::move(dims);
  a.combiner = combiner;
  return a;
}

/// A collective over three ranks; the axis's name has brackets, as those of meshes have.
template <class X, class Push>
void push_collective(ir::op o, const X& x, const Push& push) {
  using ir::op;
  constexpr auto code = [](ir::placement p) { return static_cast<std::int64_t>(p); };
  const std::int64_t axis = ir::mesh_axis_number("rows@(rows:3,columns:2)"), shared = code(ir::placement::replicated);
  if (o == op::all_reduce)
    for (const op c : {op::add, op::maximum}) push({x()}, with({axis, 3, code(ir::placement::invariant)}, {}, c));
  else if (o == op::all_gather) push({x()}, with({axis, 3, shared, 1}));
  else if (o == op::reduce_scatter) push({x()}, with({axis, 2, 0}));
  else if (o == op::all_to_all) push({x()}, with({axis, 2, 0, 1}));
  else if (o == op::collective_permute) push({x()}, with({axis, 3, -1, 0, 1}));
  else if (o == op::collective_broadcast) push({x()}, with({axis, 3, shared, 2}));
  else if (o == op::axis_index) push({}, with({axis, 3}));
  else push({x()}, with({axis, 3, code(ir::placement::varying), code(ir::placement::partial)}));
}

graph attends(ir::op o) {
  using heads = tensor<float, 3>;
  const auto f = [](heads q, heads k, heads v) { return attention(q, k, v, causal); };
  const auto derivative = [f](heads q, heads k, heads v) {
    return grad([&](heads x) { return sum(sin(f(x, k, v))); })(q);
  };
  const spec<heads> q{{2, 3, 4}}, k{{2, 5, 4}};
  return o == ir::op::attention ? trace(f)(q, k, k) : trace(derivative)(q, k, k);
}

/// A graph with one structural op, in several forms where it has some.
graph structural_sample(ir::op o) {
  using ir::op;
  if (o == op::attention || o == op::attention_back) return attends(o);
  graph g;
  series<graph::id> out;
  const auto x = [&] { return input(g, dtype::f32, {4, 5}); };
  const auto index = [&] { return input(g, dtype::i64, {2, 5}); };
  const auto push = [&](series<graph::id> in, ir::attributes a) {
    out.push_back(g.push(o, std::move(in), std::move(a), {}));
  };
  ir::attributes a;
  switch (o) {
    case op::input:
      out = {x()};
      break;
    case op::constant:
      for (const double v : {0.1, -0.0, 1e300 * 1e300, std::numeric_limits<double>::quiet_NaN()})
        out.push_back(g.constant(dtype::f64, v, {2}, {}));
      for (const dtype t : {dtype::b8, dtype::i8, dtype::u64, dtype::f16, dtype::f8_e4m3})
        out.push_back(g.constant(t, 1, {}, {}));
      break;
    case op::iota:
      a = with({1}, {2, 3});
      a.type = dtype::i32;
      push({}, a);
      break;
    case op::reshape:
      push({x()}, with({}, {20}));
      break;
    case op::broadcast:
      push({input(g, dtype::f32, {1, 5})}, with({}, {3, 5}));
      break;
    case op::permute:
      push({x()}, with({1, 0}));
      break;
    case op::slice:
      push({x()}, with({2, -1}, {2, 3, 1, 4}));
      break;
    case op::pad:
      a = with({}, {1, 0, 0, 2});
      a.literal.f = 0.5;
      push({x()}, a);
      break;
    case op::concat:
      push({x(), x(), x()}, with({1}));
      break;
    case op::window:
      push({input(g, dtype::f32, {9})}, with({2, 1}, {3, 4, 1}));
      break;
    case op::reduce:
      for (const op c : {op::add, op::mul, op::maximum, op::minimum}) push({x()}, with({0, 1}, {}, c));
      push({input(g, dtype::i32, {4})}, with({0}, {}, op::bit_or));
      break;
    case op::sum_squares:
      push({x()}, with({1}));
      break;
    case op::arg_reduce:
      push({x()}, with({1}, {}, op::minimum));
      break;
    case op::scan:
      push({x()}, with({1, 0}));
      push({x(), x()}, with({0, 1}));
      break;
    case op::argsort:
      push({x()}, with({1, 1}, {3}));
      push({x()}, with({0, 0}, {4}));
      break;
    case op::dot:
      push({x(), input(g, dtype::f32, {5, 3})}, with({0, 1}));
      break;
    case op::gather:
      push({x(), index()}, with({0}));
      break;
    case op::scatter_add:
      push({x(), index(), input(g, dtype::f32, {2, 5})}, with({0}));
      break;
    case op::scatter:
      push({x(), index(), input(g, dtype::f32, {2, 5})}, with({0, 0}, {}, op::identity));
      push({x(), index(), input(g, dtype::f32, {2, 5})}, with({0, 1}, {}, op::maximum));
      break;
    case op::searchsorted:
      push({input(g, dtype::f32, {7}), input(g, dtype::f32, {3})}, with({0, 1}));
      break;
    case op::size:
      push({}, with({}, {12}));
      break;
    default:
      if (ir::is_collective(o)) push_collective(o, x, push);
      break;
  }
  g.set_outputs(std::move(out));
  return g;
}

using vec = tensor<float, 1>;

graph branches() {
  return trace([](vec x) {
    return cond(
        sum(x) > 0.f, [](vec v) { return exp(v); }, [](vec v) { return v - 1.f; }, x);
  })(spec<vec>{{5}});
}
graph loops() {
  return trace([](vec x) {
    const auto [last, all] = scan(
        [](vec h, tensor<float, 0> y) {
          return std::pair{vec(h * 0.5f + y), vec(h + 1.f)};
        },
        x, x);
    const auto w = while_loop([](vec v) { return sum(v) < 100.f; }, [](vec v) { return v * 2.f + 1.f; }, last);
    return std::pair{all, w};
  })(spec<vec>{{4}});
}

/// One graph for each op, and for each kind of step.
std::vector<std::pair<std::string, graph>> samples() {
  std::vector<std::pair<std::string, graph>> out;
  const int structural = static_cast<int>(std::size(ir::structural_rows));
  for (int k = 0; k < ir::pointwise_count + structural; ++k) {
    const auto o = static_cast<ir::op>(k);
    if (o == ir::op::opaque || o == ir::op::pick) continue;  // in the steps below
    out.emplace_back(ir::name(o), ir::is_pointwise(o) ? pointwise_sample(o) : structural_sample(o));
  }
  out.emplace_back("cond", branches());
  out.emplace_back("loops", loops());
  return out;
}

/// Without places, which differ with the file's name.
std::string without_places(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(" at \"");
    const std::string tail = line.size() > 2 && line.substr(line.size() - 2) == " {" ? " {" : "";
    out += (at == std::string::npos ? line : line.substr(0, at) + tail) + "\n";
  }
  return out;
}

std::string v1_path() { return test_paths::data + "/io/graphs_v1.txt"; }

std::vector<std::string> v1_texts() {
  std::ifstream in(v1_path());
  const std::string all{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<std::string> out;
  for (std::size_t at = all.find("sinter graph 1\n"); at != std::string::npos;) {
    const std::size_t next = all.find("sinter graph 1\n", at + 1);
    out.push_back(all.substr(at, next - at));
    at = next;
  }
  return out;
}

void check_same(const graph& a, const graph& b) {
  CHECK(a.text() == b.text());
  const ir::graph x = a.body(), y = b.body();
  CHECK(ir::equal(x.numbered(x.live()), y.numbered(y.live())));
}

}  // namespace

TEST_CASE("every op there and back") {
  std::size_t ops = 0;
  for (const auto& sample : samples()) {
    const std::string& name = sample.first;
    const graph& g = sample.second;
    INFO(name);
    REQUIRE(g.outputs().size() > 0);
    CHECK(contains(g.text(), name == "loops" || name == "cond" ? "opaque" : " " + name));
    const std::string text = engine::written(g);
    const graph again = io::detail::parse_graph(text, name);
    check_same(g, again);
    CHECK(engine::written(again) == text);
    ++ops;
  }
  CHECK(ops == static_cast<std::size_t>(ir::pointwise_count) + std::size(ir::structural_rows));
}

TEST_CASE("files of version 1 load") {
  const auto all = samples();
  if (std::getenv("SINTER_UPDATE_GRAPHS")) {
    std::ofstream out(v1_path());
    for (const auto& [name, g] : all) out << without_places(engine::written(g));
  }
  const auto texts = v1_texts();
  REQUIRE(texts.size() == all.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    INFO(all[k].first);
    CHECK(io::detail::parse_graph(texts[k], "v1").text() == all[k].second.text());
  }
}

TEST_CASE("weights lie beside the text; a loaded graph runs, is traced and differentiated") {
  const scratch_folder folder;
  const std::string path = folder.path + "/net.graph";
  const tensor<float, 2> w = transpose(tensor<float, 2>{{1, 2, 3}, {4, 5, 6}});
  const tensor<double, 0> scale = 0.5;
  const auto f = [w, scale](tensor<float, 2> x) { return std::pair{tanh(matmul(x, w)), sum(x) * cast<float>(scale)}; };
  const tensor<float, 2> x{{0.1f, -0.2f, 0.3f}, {0.5f, 0.25f, -1.f}};
  const graph g = trace(f)(x);
  io::save_graph(path, g);
  const graph back = io::load_graph(path);
  CHECK(back.captured() == 2);
  CHECK(back.text() == g.text());
  const auto [a, b] = back.run<tensor<float, 2>, tensor<float, 0>>(x);
  const auto [wa, wb] = compile(f)(x);
  CHECK(all(a == wa).item());
  CHECK(b.item() == wb.item());
  const auto place = back[back.outputs()[0]].where;
  CHECK(contains(place.file, "saved_graph_test.cpp"));
  CHECK(place.line > 0);
  const auto slope =
      grad([&](tensor<float, 2> y) { return sum(std::get<0>(back.run<tensor<float, 2>, tensor<float, 0>>(y))); })(x);
  CHECK(all(slope == grad([&](tensor<float, 2> y) { return sum(f(y).first); })(x)).item());

  io::save(path + ".safetensors", std::map<std::string, tensor<float, 1>>{{"w0", {1}}, {"w1", {2}}});
  CHECK(contains(message_of([&] { io::load_graph(path); }), "the graph takes"));
  CHECK(contains(message_of([&] { io::load_graph(folder.path + "/none"); }), "[load_graph]"));
}

TEST_CASE("weights of another graph are refused, and saves side by side do not mix") {
  const scratch_folder folder;
  const std::string path = folder.path + "/net.graph";
  const auto saved = [&](const std::string& to, float w, bool twice) {
    const vec weight{w, w + 1};
    io::save_graph(to,
                   trace([=](vec x) { return twice ? vec(x * weight * weight) : vec(x * weight); })(spec<vec>{{2}}));
  };
  const vec x{1, 1};
  saved(path, 2, false);
  saved(folder.path + "/other.graph", 3, true);
  std::filesystem::copy_file(folder.path + "/other.graph.safetensors", path + ".safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK(contains(message_of([&] { io::load_graph(path); }), "the weights beside it are another graph's"));
  // Without a digest, as older versions wrote them.
  io::save(path + ".safetensors", std::map<std::string, vec>{{"w0", {5, 6}}});
  CHECK(all(io::load_graph(path).run<vec>(x) == vec{5, 6}).item());
  std::vector<std::thread> savers;
  for (int t = 0; t < 4; ++t)
    savers.emplace_back([&, t] {
      for (int k = 0; k < 25; ++k) saved(path, static_cast<float>(t + 2), t % 2 == 1);
    });
  for (auto& s : savers) s.join();
  const float first = io::load_graph(path).run<vec>(x)(0);
  CHECK((first == 2 || first == 9 || first == 4 || first == 25));
}

TEST_CASE("open sizes stay open") {
  const graph g = trace([](tensor<float, 2> x) { return concat<0>(flatten(x), sum(x, axis<1>)); },
                        {.dynamic = dynamic::yes})(spec<tensor<float, 2>>{{3, 5}});
  const graph back = io::detail::parse_graph(engine::written(g), "open");
  check_same(g, back);
  for (const auto& [n, m] : {std::pair{2, 7}, std::pair{6, 3}}) {
    const tensor<float, 2> x = reshape(arange<float>(n * m), n, m);
    CHECK(all(back.run<vec>(x) == g.run<vec>(x)).item());
  }
}

TEST_CASE("custom ops are found by name; calls of the host are refused") {
  const auto twice = custom_op<"twice">(
      [](elements<const float, 1> x, elements<float, 1> y) {
        for (std::int64_t i = 0; i < x.size(); ++i) y.data[i] = 2 * x.data[i];
      },
      none, [](index_array<1> n) { return result_of<float, 1>{n}; });
  const auto f = [twice](vec x) { return exp(twice(x)) + 1.f; };
  const std::string text = engine::written(trace(f)(spec<vec>{{3}}));
  CHECK(contains(text, "custom_op \"twice\" ->"));
  CHECK(contains(message_of([&] { io::detail::parse_graph(text, "g"); }), "the custom op \"twice\" is not known here"));
  const graph example = trace([twice](vec x) { return twice(x); })(spec<vec>{{7}});
  const graph back = io::detail::parse_graph(text, "g", {&example, 1});
  const vec x{0.5f, 1.f, -2.f};
  CHECK(all(back.run<vec>(x) == compile(f)(x)).item());
  const graph calls = trace([](vec x) {
    host_call([](vec) {}, x);
    return x * 2.f;
  })(spec<vec>{{3}});
  CHECK(contains(message_of([&] { engine::written(calls); }), "[save_graph] the graph calls a function of the host"));
}

TEST_CASE("damage is refused with its line") {
  const std::string head = "sinter graph 1\nops 1\ngraph\n";
  const auto why = [&](const std::string& lines) {
    return message_of([&] { io::detail::parse_graph(lines, "file"); });
  };
  const std::string x = "%0 = f32(4,) input 0\n";
  CHECK(why("") == "[load_graph] file, line 0: the text ends too early");
  CHECK(contains(why("sinter graph 2\n"), "line 1: this is no saved graph"));
  CHECK(contains(why("sinter graph 1\ngraph\nreturn\nend\n"), "the header has no op-set"));
  CHECK(contains(why("sinter graph 1\nops 99\n"), "line 2: op-set 99 is newer than this sinter's"));
  CHECK(contains(why(head + x + "%1 = f32(4,) nothing %0\n"), "line 5: there is no op 'nothing'"));
  CHECK(contains(why(head + x + "%1 = f32(4,) add %0\n"), "line 5: internal error: malformed"));
  CHECK(contains(why(head + x + "%1 = f32(4,) add %0 %7\n"), "line 5: %7 is not defined above"));
  CHECK(contains(why(head + x + "%1 = f32(5,) neg %0\n"), "line 5: the line says f32(5,), but the op gives f32(4,)"));
  CHECK(contains(why(head + x + "%1 = f32(4,) reduce add axes=[9] %0\n"), "line 5: [reduce] axes [9]"));
  CHECK(contains(why(head + x + "%1 = f32(2,) dot batch=9223372036854775807 inner=1 %0 %0\n"),
                 "line 5: expected an integer"));
  CHECK(contains(why(head + x + "%2 = f32(4,) neg %0\n"), "line 5: nodes are numbered one after another; %1 is next"));
  CHECK(contains(why(head + x + "%1 = f32(s0,) neg %0\n"), "line 5: size s0 is not declared"));
  CHECK(contains(why(head + "%0 = f32(4,) input 1\nreturn %0\nend\n"), "an input is missing"));
  CHECK(contains(why(head + x + "return %0\n"), "the text ends too early"));
  CHECK(contains(why(head + x + "return %0\nend\nmore\n"), "there is more after the end"));
  CHECK(contains(why("sinter graph 1\nops 1\nweight \"w\"\nweight \"v\"\ngraph\n" + x + "return %0\nend\n"),
                 "more weights than inputs"));
  CHECK(contains(
      why("sinter graph 1\nops 1\nsize s0 = input 3 axis 0 by 1 plus 0 most 9\ngraph\n" + x + "return %0\nend\n"),
      "an argument that does not exist"));
}
