// find_attention: what users write is found, as traced and rewritten, and the op has its values; near misses are told why they are none.
#include <doctest/doctest.h>

#include <sinter/ir/find_attention.hpp>
#include <sinter/jit/backends/attention_notes.hpp>
#include <sinter/rewrite/rewrite.hpp>
#include <string>

#include "arrays.hpp"
#include "attention_texts.hpp"

using namespace attention_texts;
using arrays::literal_array;
using ir::op;

namespace {

constexpr std::int64_t batch = 2, heads = 4, places_count = 5, features = 8;

/// The last product of a graph, by which attention ends.
ir::node_id last_product(const ir::graph& g) {
  ir::node_id found = ir::no_node;
  for (auto id : g.live())
    if (g[id].code == op::dot) found = id;
  return found;
}

ir::graph traced(const sample& t) {
  const four x = full<float>(1, {batch, heads, places_count, features});
  extras more{ones<bool>(places_count, places_count), ones<float>(places_count, places_count),
              ones<std::int64_t>(batch, places_count), full<std::int64_t>(3, {batch}),
              full<float>(1, {batch, heads, places_count, places_count})};
  return trace(t.of)(x, x, x, more).body();
}

std::vector<literal_array> operands(const ir::graph& g) {
  std::vector<literal_array> in;
  for (auto id : g.inputs) {
    arrays::extents_t e;
    for (const auto& d : g[id].extents) e.push_back(*d.number());
    const auto seed = static_cast<unsigned>(in.size()) + 1;
    in.push_back(g[id].type == dtype::i64 ? arrays::random(g[id].type, e, seed, 1, 4)
                                          : arrays::random(g[id].type, e, seed));
    // A mask's rows see their own place.
    if (g[id].type == dtype::b8 && e == arrays::extents_t{places_count, places_count})
      for (std::int64_t i = 0; i < places_count; ++i) in.back().i[static_cast<std::size_t>(i * places_count + i)] = 1;
  }
  return in;
}

/// The op's values beside those of the text.
void same_values(ir::graph g, const ir::attention_site& site, ir::node_id mix, double tolerance) {
  const ir::value made = ir::push_found(g, site, mix);
  REQUIRE(made);
  REQUIRE(made.extents() == g[mix].extents);
  g.outputs = {mix, made.id()};
  ir::check(g, "found");
  const auto y = arrays::run(g, operands(g));
  CHECK(arrays::difference(y[0], y[1], tolerance) == "");
}

}  // namespace

TEST_CASE("attention in users' words is found, as traced and as rewritten, and the op computes it") {
  CHECK(std::size(found) >= 30);
  for (const sample& t : found) {
    CAPTURE(std::string(t.name));
    const bool half = std::string(t.name).find("bf16") != std::string::npos;
    for (const ir::graph& g : {traced(t), engine::rewrite::run_all(traced(t))}) {
      const ir::node_id mix = last_product(g);
      REQUIRE(mix != ir::no_node);
      const std::size_t before = g.size();
      const auto what = ir::find_attention(g, mix);
      CHECK(g.size() == before);
      CHECK_MESSAGE(what.site.has_value(), std::string(what.why) << " at %" << what.at << "\n" << ir::print(g));
      if (what.site) same_values(g, *what.site, mix, half ? 2e-2 : 1e-5);
    }
  }
}

TEST_CASE("what only looks like attention is not found, and the finder says why") {
  CHECK(std::size(missed) >= 15);
  for (const sample& t : missed) {
    CAPTURE(std::string(t.name));
    for (const ir::graph& g : {traced(t), engine::rewrite::run_all(traced(t))}) {
      const auto what = ir::find_attention(g, last_product(g));
      CHECK(!what.site.has_value());
      CHECK_MESSAGE(std::string(what.why).find(t.why) != std::string::npos, std::string(what.why) << "\n"
                                                                                                  << ir::print(g));
      CHECK(what.at != ir::no_node);
    }
  }
}

namespace {

/// What explain() says of a text where the target refuses attention with `refusal`; the reasons, joined.
std::string said_of(const sample& t, const std::string& refusal) {
  const engine::detail::attention_refusal why = [&](const ir::graph&, ir::node_id) { return refusal; };
  std::string out;
  for (const auto& x : engine::detail::attention_notes(why).of(traced(t))) out += x.what + ": " + x.why + "\n";
  return out;
}

}  // namespace

TEST_CASE("explain() says why what looks like attention is none, and why attention has no kernel") {
  for (const sample& t : found) {
    CAPTURE(std::string(t.name));
    CHECK(said_of(t, "") == "");
    CHECK(said_of(t, "its features are open") == "attention: its features are open\n");
  }
  for (const sample& t : missed) {
    const std::string name = t.name;
    CAPTURE(name);
    const std::string said = said_of(t, "");
    // No row is a power, as a softmax's are.
    const bool powers = name != "no softmax" && name != "rectified scores" && name != "sigmoids";
    if (powers) CHECK_MESSAGE(said.find(t.why) != std::string::npos, said);
    else CHECK(said == "");
  }
}

TEST_CASE("explain() says why a gradient is composed, and the forward pass with it") {
  const four x = full<float>(1, {batch, heads, places_count, features});
  const auto f = [](four q, four k, four v) { return tensor<float, 0>(sum(sin(attention(q, k, v, causal)))); };
  const ir::graph g = trace(grad<0, 1, 2>(f))(x, x, x).body();
  const engine::detail::attention_refusal why = [](const ir::graph& in, ir::node_id id) {
    return std::string(in[id].code == op::attention_back && in[id].attr.ints[0] == 1 ? "no memory" : "");
  };
  std::string said;
  for (const auto& n : engine::detail::attention_notes(why).of(g)) said += n.what + ": " + n.why + "\n";
  CHECK(said.find("a gradient of attention: no memory\n") != std::string::npos);
  CHECK(said.find("a gradient of attention: another gradient of it has none\n") != std::string::npos);
  CHECK(said.find("attention: its gradient has none\n") != std::string::npos);
}
