// Index maps through every view, splits of axes, and refusals.
#include "../graphs.hpp"

using namespace graphs;

TEST_CASE("views fold into index maps") {
  graph g;
  const value x = input(g, {3, 4}), row = input(g, {1, 4}), line = input(g, {9});
  CHECK(loads(lowered(exp(x))) == "i0*4 + i1");
  CHECK(loads(lowered(exp(permute(x, {1, 0})))) == "i0 + i1*4");
  const kernel k = lowered(exp(broadcast(row, {3, 4})));
  CHECK(loads(k) == "i1");
  CHECK(k.body[0].axes == 0b10);
  CHECK(loads(lowered(exp(slice(line, {3}, {7}, {-2})))) == "i0*(-2) + 7");
  CHECK(loads(lowered(exp(slice(x, {2, 2}, {1, 0}, {1, 3})))) == "i0*4 + i1*3 + 4");
  CHECK(loads(lowered(exp(permute(slice(x, {3, 2}, {2, 1}, {-1, 1}), {1, 0})))) == "i0 + i1*(-4) + 9");
}

TEST_CASE("the strides of an input are those of its memory") {
  graph g;
  const value x = input(g, {3, 4}), y = exp(permute(x, {1, 0}));
  memory_map m = inputs_only(g);
  m.strides[x.id()] = {-1, 5};
  CHECK(loads(lowered(y, m)) == "i0*5 + i1*(-1)");
}

TEST_CASE("nothing is loaded of what has no element, or for it") {
  graph g;
  const value x = input(g, {4, 0, 3}), line = input(g, {5}), i = input(g, {0}, dtype::i64);
  memory_map m = inputs_only(g);
  m.strides[x.id()] = {65536, 0, 0};
  for (const value& v : {exp(x), reduce(exp(reshape(x, {0})), op::add, {0}), exp(slice(line, {0}, {5}, {1})) * 2.0,
                         reduce(x, op::add, {1}), gather(line, i, 0)}) {
    const kernel k = lowered(v, m);
    CHECK(loads(k) == "");
    CHECK(k.stores.size() == 1);
  }
  CHECK(extents(lowered(exp(x), m)) == "(4, 0, 3)");
}

TEST_CASE("axes of extent 1 are no loops") {
  graph g;
  const value x = input(g, {1, 5, 1});
  const kernel k = lowered(exp(x));
  CHECK(extents(k) == "(5,)");
  CHECK(loads(k) == "i0");
  CHECK(lowered(exp(input(g, {1, 1}))).axes.empty());
}

TEST_CASE("a reshape of dense memory is its offset") {
  graph g;
  const value x = input(g, {2, 6});
  const kernel k = lowered(exp(reshape(x, {3, 4})));
  CHECK(extents(k) == "(3, 4)");
  CHECK(loads(k) == "i0*4 + i1");
}

TEST_CASE("a reshape of what is computed splits the axes, or merges coordinates") {
  graph g;
  const value x = input(g, {2, 6}), y = input(g, {12}), z = input(g, {2, 3, 2});
  const kernel split = lowered(reshape(permute(permute(exp(x), {1, 0}), {1, 0}), {12}) + y);
  CHECK(extents(split) == "(2, 6)");
  CHECK(loads(split) == "i0*6 + i1; i0*6 + i1");
  const kernel merged = lowered(reshape(exp(x), {2, 3, 2}) + z);
  CHECK(extents(merged) == "(2, 3, 2)");
  CHECK(loads(merged) == "i0*6 + i1*2 + i2; i0*6 + i1*2 + i2");
}

TEST_CASE("symbolic axes split by what divides them") {
  graph g;
  const dim s = dim::symbol(0);
  const value x = input(g, {s, 4}), y = input(g, {s * dim(4)});
  const value z = reshape(exp(permute(permute(x, {1, 0}), {1, 0})), {s * dim(4)}) + y;
  memory_map m = inputs_only(g);
  m.hints = {7};
  m.strides[x.id()] = {dim(1), s};
  const kernel k = lowered(z, m);
  CHECK(extents(k) == "(s0, 4)");
  CHECK(loads(k) == "i0 + i1*(s0); i0*4 + i1");
}

TEST_CASE("a reshape that no axes follow names what has to be in memory") {
  graph g;
  const value x = input(g, {2, 6});
  const value flipped = permute(exp(x), {1, 0});
  CHECK(refused([&] { lowered(exp(reshape(flipped, {4, 3}))); }).needs_memory == flipped.id());
  const value r = reshape(x, {3, 4}), y = exp(r);
  memory_map m = inputs_only(g);
  m.strides[x.id()] = {1, 2};
  CHECK(refused([&] { lowered(y, m); }).needs_memory == r.id());
}

TEST_CASE("a stored reshape is written in the order of its operand") {
  graph g;
  const value x = input(g, {2, 6}), r = reshape(x, {3, 4});
  memory_map m = inputs_only(g);
  m.strides[x.id()] = {1, 2};
  sinter::series<root> roots;
  append_roots(g, r.id(), roots);
  const kernel k = lower(g, roots, m);
  CHECK(loads(k) == "i0 + i1*2");
  CHECK(text(k.stores.at(0).at.at) == "i0*6 + i1");
}

TEST_CASE("a gather reads at a clamped index") {
  graph g;
  const value x = input(g, {5, 4}), index = input(g, {3, 4}, dtype::i32);
  const kernel k = lowered(exp(gather(x, index, 0)));
  const instruction* read = nullptr;
  for (const auto& i : k.body)
    if (i.kind == kind::load && i.at.at.index >= 0) read = &i;
  REQUIRE(read != nullptr);
  CHECK(text(read->at.at) == "i1");
  CHECK(read->at.at.indirect.is(4));
  CHECK(read->axes == 0b11);
  const auto& high = k.body[static_cast<std::size_t>(read->at.at.index)];
  CHECK(high.code == op::minimum);
  const auto& bound = k.body[static_cast<std::size_t>(high.args[1])];
  CHECK(bound.kind == kind::position);
  CHECK(bound.at.at.offset.is(4));
  CHECK(k.body[static_cast<std::size_t>(high.args[0])].code == op::maximum);
}

TEST_CASE("a scatter_add stores at a bounded index") {
  graph g;
  const value base = input(g, {5, 4}), index = input(g, {3, 4}, dtype::i64), updates = input(g, {3, 4});
  const value y = scatter_add(base, index, updates, 0);
  sinter::series<root> both;  // a copy of the base, then what is added
  append_roots(g, y.id(), both);
  const std::vector<root> roots{both.back()};
  const kernel k = lower(g, roots, inputs_only(g));
  REQUIRE(k.stores.size() == 1);
  CHECK(k.stores[0].accumulate);
  CHECK(k.stores[0].bound.is(5));
  CHECK(k.stores[0].at.at.indirect.is(4));
  CHECK(text(k.stores[0].at.at) == "i1");
}

TEST_CASE("what has no index map has to be in memory") {
  graph g;
  const value x = input(g, {5, 4}), index = input(g, {5, 4}, dtype::i64);
  const value total = sum(x, {1});
  CHECK(refused([&] { lowered(exp(total)); }).needs_memory == total.id());
  const value once = gather(x, index, 0);
  CHECK(refused([&] { lowered(exp(gather(once, index, 1))); }).needs_memory == once.id());
  const value product = dot(x, permute(x, {1, 0}), 0, 1);
  CHECK(refused([&] { lowered(exp(product)); }).needs_memory == product.id());
  const value costly = exp(x);
  CHECK(refused([&] { lowered(dot(costly, permute(x, {1, 0}), 0, 1)); }).needs_memory == costly.id());
}

TEST_CASE("roots of one kernel read each other where they are computed") {
  graph g;
  const value x = input(g, {3, 4}), total = sum(x, {1}), y = x * expand(total, {1}, {3, 4});
  const kernel k = lowered({total, y});
  CHECK(loads(k) == "i0*4 + i1");
  REQUIRE(k.stores.size() == 2);
  CHECK(text(k.stores[0].at.at) == "i0");
  CHECK(text(k.stores[1].at.at) == "i0*4 + i1");
  const value turned = slice(total, {3}, {2}, {-1}) + total;
  CHECK(refused([&] { lowered({total, turned}); }).why.find("another index") != std::string::npos);
}

TEST_CASE("equal reads are one load, in any spelling") {
  graph g;
  const value x = input(g, {3, 4});
  const kernel k = lowered(exp(x) + log(permute(permute(x, {1, 0}), {1, 0})));
  CHECK(loads(k) == "i0*4 + i1");
  CHECK(k.buffers.size() == 2);
}

TEST_CASE("iota is the position, pads and joins are stored at an offset") {
  graph g;
  const value x = input(g, {3, 4});
  const kernel k = lowered(x + iota(x, dtype::f32, {3, 4}, 1));
  const auto& p = k.body[1];
  CHECK(p.kind == kind::position);
  CHECK(text(p.at.at) == "i1");
  root part = whole(x);
  part.target = pad(x, {1, 2}, {0, 3}, 7).id();
  part.start = {1, 2};
  const std::vector<root> roots{part};
  CHECK(text(lower(g, roots, inputs_only(g)).stores.at(0).at.at) == "i0*9 + i1 + 11");
}

/// "0 <= i0 + -1 < 3, …" of a guard.
std::string text(const instruction& guard) {
  std::string out;
  for (const auto& r : guard.ranges) out += (out.empty() ? "0 <= " : ", 0 <= ") + text(r.at) + " < " + r.extent.text();
  return out;
}

TEST_CASE("what is padded is read within a range, and not at all where none of it is") {
  graph g;
  const value x = input(g, {3, 4}), p = pad(x, {1, 2}, {0, 3}, 0);
  const kernel k = lowered(slice(p, {4, 4}, {0, 1}, {1, 1}));
  REQUIRE(k.body.size() == 2);
  CHECK(text(k.body[0]) == "0 <= i0 + -1 < 3, 0 <= i1 + -1 < 4");
  CHECK(is_guarded(k.body[1]));
  CHECK(k.body[1].args[0] == 0);
  CHECK(text(k.body[1].at.at) == "i0*4 + i1 + -5");
  CHECK(k.body[1].axes == 3);
  // Inside there is nothing to ask; of a part that is all outside nothing to read.
  CHECK(lowered(slice(p, {3, 4}, {1, 2}, {1, 1})).body[0].kind == kind::load);
  CHECK(!is_guarded(lowered(slice(p, {3, 4}, {1, 2}, {1, 1})).body[0]));
  CHECK(lowered(slice(p, {4, 2}, {0, 0}, {1, 1})).buffers.size() == 1);
  CHECK(text(lowered(slice(p, {4, 4}, {0, 2}, {1, 1})).body[0]) == "0 <= i0 + -1 < 3");
  // Another literal than 0, or a computed value, is chosen.
  const kernel other = lowered(slice(pad(exp(x), {1, 2}, {0, 3}, 7), {4, 4}, {0, 1}, {1, 1}));
  CHECK(other.body.back().code == op::select);
  CHECK(is_guarded(other.body[1]));
  CHECK(other.body.back().args[0] == 0);
}

TEST_CASE("equal reads under one guard are one, those under none serve all") {
  graph g;
  const value x = input(g, {8}), p = pad(x, {1}, {1}, 0), left = slice(p, {8}, {0}, {1});
  CHECK(lowered(left + exp(left)).body.size() == 4);
  // The part under the guard reads what the other has read.
  const value inner = pad(slice(pad(x, {1}, {1}, 0), {8}, {1}, {1}), {1}, {0}, 0);
  const kernel k = lowered(slice(x, {7}, {0}, {1}) + slice(inner, {7}, {1}, {1}));
  CHECK(loads(k) == "i0");
}

TEST_CASE("an operand of a join is read within its range") {
  graph g;
  const value x = input(g, {3, 4}), y = input(g, {2, 4});
  sinter::ir::attributes a;
  a.ints = {0};
  const value all = push(op::concat, {x, y}, a);
  const kernel k = lowered(slice(all, {4, 4}, {1, 0}, {1, 1}));
  CHECK(text(k.body[0]) == "0 <= i0 + 1 < 3");
  CHECK(text(k.body[2]) == "0 <= i0 + -2 < 2");
  CHECK(k.body.back().code == op::select);
  // A part of one operand is a view of it.
  CHECK(lowered(slice(all, {2, 4}, {1, 0}, {1, 1})).body.size() == 1);
  CHECK(lowered(slice(all, {2, 4}, {3, 0}, {1, 1})).body.size() == 1);
}

TEST_CASE("of open extents an edge is an edge whatever they are") {
  graph g;
  const dim n = dim::symbol(0);
  const value x = input(g, {n, 4});
  memory_map m = inputs_only(g);
  m.hints = {100};
  const kernel k = lowered(slice(pad(x, {1, 0}, {1, 0}, 0), {n, 4}, {0, 0}, {1, 1}), m);
  CHECK(text(k.body[0]) == "0 <= i0 + -1 < s0");
  CHECK(is_likely(k.body[0]));
  CHECK(!is_guarded(lowered(slice(pad(x, {1, 0}, {1, 0}, 0), {n, 4}, {1, 0}, {1, 1}), m).body[0]));
}

TEST_CASE("what is padded is in memory where it is read at an index") {
  graph g;
  const value x = input(g, {3, 4}), i = input(g, {5, 4}, dtype::i64), p = pad(x, {1, 0}, {1, 0}, 0);
  CHECK(refused([&] { lowered(gather(p, i, 0)); }).needs_memory == p.id());
}

TEST_CASE("a product takes strided operands, and refuses a second one") {
  graph g;
  const value a = input(g, {2, 3, 4}), b = input(g, {2, 4, 5}), c = input(g, {2, 5, 4});
  const value y = dot(a, b, 1, 1), z = dot(a, permute(c, {0, 2, 1}), 1, 1);
  const kernel k = lowered(z);
  REQUIRE(k.is_product());
  CHECK(k.products[0].batch == 1);
  CHECK(k.products[0].m == 1);
  CHECK(text(k.products[0].a.at) == "i0*12 + i1*4 + i3");
  CHECK(text(k.products[0].b.at) == "i0*20 + i2*4 + i3");
  CHECK(refused([&] { lowered({y, z}); }).why == "two matrix products");
}

TEST_CASE("a product takes its terms in the order in which both operands have them, where they have one") {
  graph g;
  const value a = permute(input(g, {6, 2, 3, 4}), {0, 2, 3, 1}), b = permute(input(g, {5, 2, 3, 4}), {2, 3, 1, 0});
  const kernel k = lowered(dot(a, b, 0, 3));
  REQUIRE(k.is_product());
  CHECK(sinter::ir::text_of(k.products[0].k) == "(2, 3, 4)");
  CHECK(text(k.products[0].a.at) == "i0*24 + i2*12 + i3*4 + i4");
  CHECK(text(k.products[0].b.at) == "i1*24 + i2*12 + i3*4 + i4");
  const kernel other = lowered(dot(a, input(g, {3, 4, 2, 5}), 0, 3));
  CHECK(sinter::ir::text_of(other.products[0].k) == "(3, 4, 2)");
  CHECK(text(other.products[0].a.at) == "i0*24 + i2*4 + i3 + i4*12");
}
