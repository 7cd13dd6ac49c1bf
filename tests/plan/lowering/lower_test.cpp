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
