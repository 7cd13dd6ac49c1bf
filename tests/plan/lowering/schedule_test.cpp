// Roles of axes, merging, passes, chunks, kept values.
#include "../graphs.hpp"

using namespace graphs;

TEST_CASE("axes that every access walks as one are one") {
  graph g;
  const value x = input(g, {3, 4, 5}), y = input(g, {5});
  CHECK(extents(scheduled({exp(x)})) == "(60,)");
  const kernel bias = scheduled({x + broadcast(reshape(y, {1, 1, 5}), {3, 4, 5})});
  CHECK(extents(bias) == "(12, 5)");
  CHECK(roles(bias) == "oi");
  CHECK(extents(scheduled({exp(permute(x, {2, 0, 1})) + exp(permute(x, {2, 0, 1}))})) == "(5, 12)");
  CHECK(extents(scheduled({exp(permute(x, {0, 2, 1}))})) == "(3, 5, 4)");
}

TEST_CASE("a reduction along the last axis is a pass over each row") {
  graph g;
  const value x = input(g, {3, 4, 5});
  const kernel k = scheduled({sum(x, {2})});
  CHECK(extents(k) == "(12, 5)");
  CHECK(roles(k) == "oi");
  CHECK(k.stages == 2);
  CHECK(k.chunks == 1);
}

TEST_CASE("a reduction along the first axis sums rows, in chunks when there are many") {
  graph g;
  const value x = input(g, {1000, 64}), large = input(g, {4096, 512});
  const kernel k = scheduled({sum(x, {0})});
  CHECK(roles(k) == "ri");
  CHECK(k.stages == 1);
  CHECK(k.body.back().span == reduce_scope::row);
  CHECK(k.body.back().after_rows);
  const kernel many = scheduled({sum(large, {0})});
  CHECK(many.chunks > 1);
  CHECK(many.chunks <= max_chunks);
  CHECK(scheduled({sum(input(g, {8, 8}), {0})}).chunks == 1);
}

TEST_CASE("outer axes share the chunks") {
  graph g;
  const kernel k = scheduled({sum(input(g, {16, 4096, 64}), {1})});
  CHECK(roles(k) == "ori");
  CHECK(k.chunks <= max_chunks / 16);
}

TEST_CASE("a long line is cut into blocks, a sum of it into chunks") {
  graph g;
  const value x = input(g, {1 << 20}), small = input(g, {2 * block_elements - 1});
  CHECK(scheduled({exp(x)}).block == block_elements);
  CHECK(scheduled({exp(small)}).block == 0);
  const kernel k = scheduled({sum(x, {0})});
  CHECK(k.block == block_elements);
  CHECK(k.chunks == 64);
  CHECK(k.body.back().span == reduce_scope::both);
  CHECK(scheduled({exp(input(g, {dim::symbol(0)}))}, {1 << 20}).block == block_elements);
  CHECK(scheduled({exp(input(g, {dim::symbol(0)}))}, {100}).block == 0);
}

TEST_CASE("each reduction of a row is one more pass") {
  graph g;
  const value x = input(g, {6, 50});
  const value m = reduce(x, op::maximum, {1}), e = exp(x - expand(m, {1}, {6, 50})), s = sum(e, {1});
  const kernel k = scheduled({m, s, e / expand(s, {1}, {6, 50})});
  CHECK(k.stages == 3);
  CHECK(roles(k) == "oi");
}

TEST_CASE("a costly value that two passes need is kept, one that one pass needs is not") {
  graph g;
  const value x = input(g, {6, 50});
  auto kept = [](const kernel& k) {
    int n = 0;
    for (const auto& i : k.body) n += i.kept;
    return n;
  };
  const value e = exp(x), s = sum(e, {1});
  CHECK(kept(scheduled({s, e * expand(s, {1}, {6, 50})})) == 1);
  const value t = sum(x, {1});
  CHECK(kept(scheduled({t, e * expand(t, {1}, {6, 50})})) == 0);
  const value cheap = x + x, c = sum(cheap, {1});
  CHECK(kept(scheduled({c, cheap * expand(c, {1}, {6, 50})})) == 0);
  const value wide = input(g, {2, kept_row_bytes}), we = exp(wide), ws = sum(we, {1});
  CHECK(kept(scheduled({ws, we * expand(ws, {1}, wide.extents())})) == 0);
}

TEST_CASE("sums along rows and along columns share a walk; other pairs of axes do not") {
  graph g;
  const value x = input(g, {6, 50}), y = input(g, {4, 5, 6});
  const kernel both = scheduled({sum(x, {0}), sum(x, {1})});
  CHECK(roles(both) == "ri");
  CHECK(roles(scheduled({sum(x, {1}), sum(x, {0, 1})})) == "ri");
  CHECK(refused([&] { scheduled({sum(y, {0, 2}), sum(y, {1, 2})}); }).why == "reductions along different axes");
}

TEST_CASE("what needs a row again after all rows is refused") {
  graph g;
  const value x = input(g, {6, 50}), columns = sum(x, {0});
  const value few = input(g, {50, 6}), of_few = sum(few, {0});
  CHECK(refused([&] { scheduled({of_few, few - expand(of_few, {0}, {50, 6})}); }).why != "");
  const value all = sum(x, {0, 1});
  CHECK(refused([&] { scheduled({all, x * expand(all, {0, 1}, {6, 50})}); }).why != "");
  CHECK(refused([&] { scheduled({of_few, expand(of_few, {0}, {50, 6})}); }).why != "");
  CHECK(refused([&] { scheduled({columns, sum(columns, {0})}); }).why != "");
  // What follows per column, or per number, is computed when the rows are done.
  CHECK(scheduled({columns, exp(columns)}).stages == 1);
  CHECK(refused([&] { scheduled({all, exp(all)}); }).why.empty());
}

namespace {

/// x and its sum over axes, which x is scaled by.
kernel scaled_by_sums(const value& x, std::vector<std::int64_t> over, std::vector<std::int64_t> hints = {}) {
  const value s = sum(x, over);
  return scheduled({s, x * expand(s, over, x.extents())}, std::move(hints));
}

bool by_columns(const shape& s, std::vector<std::int64_t> over) {
  graph g;
  const value x = input(g, s);
  return refused([&] { scaled_by_sums(x, over); }).why.empty();
}

}  // namespace

TEST_CASE("columns that are needed again after their sums are walked in blocks, vectors across them") {
  graph g;
  const kernel k = scaled_by_sums(input(g, {100, 2000}), {0});
  CHECK(extents(k) == "(2000, 100)");
  CHECK(roles(k) == "oi");
  CHECK(k.columns == 128);
  CHECK(k.vector_axis() == 0);
  CHECK(k.stages == 2);
  CHECK(k.chunks == 1);
  const kernel middle = scaled_by_sums(input(g, {8, 200, 64}), {1});
  CHECK(extents(middle) == "(8, 64, 200)");
  CHECK(roles(middle) == "ooi");
  CHECK(middle.columns == 64);
  CHECK(middle.vector_axis() == 1);
  CHECK(extents(scaled_by_sums(input(g, {50, 3, 40}), {0})) == "(120, 50)");
  CHECK(extents(scaled_by_sums(input(g, {50, 3, 40}), {0, 1})) == "(40, 150)");
  CHECK(extents(scaled_by_sums(input(g, {50, 3, 2, 40}), {0, 2})) == "(3, 40, 50, 2)");
  // What the rows' nest takes stays there.
  CHECK(scaled_by_sums(input(g, {100, 200}), {1}).columns == 0);
  CHECK(scheduled({sum(input(g, {100, 200}), {0})}).columns == 0);
}

TEST_CASE("blocks of columns are as wide as leaves enough of them") {
  const auto block = [](std::int64_t rows, std::int64_t columns) {
    graph g;
    return scaled_by_sums(input(g, {rows, columns}), {0}).columns;
  };
  CHECK(block(1000, 1024) == 128);
  CHECK(block(1000, 512) == 64);
  CHECK(block(100, 100) == 64);
  CHECK(block(100, 40) == 32);
  CHECK(block(100, 16) == 16);
  graph g;
  const dim n = dim::symbol(0), m = dim::symbol(1);
  CHECK(scaled_by_sums(input(g, {n, m}), {0}, {100, 2000}).columns == 128);
}

TEST_CASE("few or long columns, and reads along them, are left to kernels of rows") {
  CHECK(by_columns({100, 16}, {0}));
  CHECK(!by_columns({100, 15}, {0}));
  CHECK(by_columns({longest_column, 1024}, {0}));
  CHECK(!by_columns({longest_column + 1, 1024}, {0}));
  CHECK(by_columns({512, 64}, {0}));
  CHECK(!by_columns({513, 64}, {0}));  // one task
  CHECK(by_columns({4, 513, 64}, {1}));
  graph g;
  const value x = permute(input(g, {200, 100}), {1, 0}), s = sum(x, {0});
  CHECK(refused([&] { scheduled({s, x * expand(s, {0}, x.extents())}); }).why != "");
  // A sum of rows that has no columns' vectors.
  const value y = input(g, {100}), wide = expand(y, {1}, {100, 200}), t = sum(wide, {0});
  CHECK(refused([&] { scheduled({t, wide * expand(t, {0}, wide.extents())}); }).why != "");
  CHECK(refused([&] {
          const value z = input(g, {100, 200}), c = sum(z, {0});
          const std::vector<root> roots{whole(c), whole(z * expand(c, {0}, z.extents()))};
          kernel k = lower(g, roots, inputs_only(g));
          schedule(k, {}, gpu_target());
        }).why != "");
}

TEST_CASE("a costly value of columns is kept while a block of them fits") {
  const auto kept = [](std::int64_t rows) {
    graph g;
    const value e = exp(input(g, {rows, 1024})), s = sum(e, {0});
    int n = 0;
    for (const auto& i : scheduled({s, e * expand(s, {0}, e.extents())}).body) n += i.kept;
    return n;
  };
  CHECK(kept(kept_column_bytes / 512) == 1);
  CHECK(kept(kept_column_bytes / 512 + 1) == 0);
}

TEST_CASE("a row's result that does not vary along the summed rows is refused") {
  graph g;
  const value x = input(g, {8, 3}), y = input(g, {3});
  const value columns = sum(x + expand(y, {0}, {8, 3}), {0}), single = sum(y, {0});
  CHECK(refused([&] { scheduled({columns, single}); }).why != "");
}

TEST_CASE("an index of an extreme is found in one walk of its axis") {
  graph g;
  const value x = input(g, {6, 50});
  auto extreme = [&](std::int64_t axis) {
    sinter::ir::attributes a;
    a.combiner = op::maximum;
    a.ints = {axis};
    return push(op::arg_reduce, {x}, a);
  };
  CHECK(roles(scheduled({extreme(1)})) == "oi");
  const kernel first = scheduled({extreme(0)});
  CHECK(extents(first) == "(50, 6)");
  CHECK(roles(first) == "oi");
}

TEST_CASE("axes of a product merge within their group") {
  graph g;
  const value a = input(g, {2, 3, 4, 5}), b = input(g, {5, 6, 7});
  const kernel k = scheduled({dot(a, b, 0, 1)});
  CHECK(extents(k) == "(24, 42)");
  CHECK(k.products[0].m == 1);
  CHECK(k.products[0].batch == 0);
}
