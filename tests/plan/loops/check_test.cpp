// Trees that break an invariant: `check` says which, and the interpreter meets it at run time.
#include <sinter/plan/loops/print.hpp>
#include <sinter/plan/schedule/recipes/gpu_product.hpp>
#include <sinter/plan/schedule/recipes/rows.hpp>

#include "kernels.hpp"

using namespace kernels;
using namespace loops;
namespace schedules = sinter::engine::plan::schedules;

namespace {

constexpr schedules::facts gpu{.threads = 4};

/// A product whose factors are copied ahead, and its tree.
struct product_tree {
  program p = matrix_product(33, 17, 70, dtype::bf16, dtype::f32);
  tree t = build(p.k, schedules::gpu_product.make(p.k, gpu, 2));
};
/// Sums of rows by several threads.
struct row_tree {
  program p = rows();
  tree t = build(p.k, schedules::rows.make(p.k, gpu, 0));
  static program rows() {
    program p;
    const int r = p.axis(3), c = p.axis(37), x = p.input(dtype::f32, {r, c}),
              s = p.reduce(op::add, dtype::f32, {x}, {c});
    p.output(p.apply(op::add, dtype::f32, {x, s}), {r, c}, dtype::f32);
    return p;
  }
};

/// The statement that holds the n-th one that `is` accepts, and its place there.
struct found_node {
  int parent = -1;
  std::size_t at = 0;
  int node = -1;
};
template <class Is>
found_node find(const tree& t, Is&& is, int skip = 0) {
  found_node out;
  for (const auto& l : t.launches)
    for_each_inside(t, l.root, [&](int n) {
      for (std::size_t i = 0; i < t[n].inside.size(); ++i)
        if (out.node < 0 && is(t[t[n].inside[i]]) && skip-- == 0) out = {n, i, t[n].inside[i]};
    });
  REQUIRE(out.node >= 0);
  return out;
}
found_node find(const tree& t, act what, int skip = 0) {
  return find(
      t, [&](const node& n) { return n.what == what; }, skip);
}
/// Whether a statement inside n is a `what`.
bool holds(const tree& t, const node& n, act what) {
  bool found = false;
  for (int c : n.inside) for_each_inside(t, c, [&](int x) { found = found || t[x].what == what; });
  return found;
}
void drop(tree& t, const found_node& f) {
  auto& inside = t[f.parent].inside;
  inside.erase(inside.begin() + f.at);
}
/// Puts what a loop holds in its place.
void splice(tree& t, const found_node& f) {
  const auto moved = t[f.node].inside;
  drop(t, f);
  auto& inside = t[f.parent].inside;
  inside.insert(inside.begin() + f.at, moved.begin(), moved.end());
}

/// Both see it: `check` with this sentence in its answer, the interpreter with any.
void both(const program& p, const tree& t, const std::string& sentence) {
  const std::string said = check(t);
  CHECK_MESSAGE(said.find(sentence) != std::string::npos, "check says: " << said << "\n" << text_of(t));
  bool seen = false;
  for (std::uint64_t seed = 1; seed < 4 && !seen; ++seed) seen = !wrong(p, t, seed).empty();
  CHECK_MESSAGE(seen, "the interpreter sees nothing: " << sentence);
}
void only_check(const tree& t, const std::string& sentence, const schedules::facts& f = {}) {
  const std::string said = check(t, f);
  CHECK_MESSAGE(said.find(sentence) != std::string::npos, "check says: " << said);
}

}  // namespace

TEST_CASE("the trees themselves break none") {
  product_tree a;
  CHECK(check(a.t) == "");
  CHECK(wrong(a.p, a.t) == "");
  row_tree b;
  CHECK(check(b.t) == "");
  CHECK(wrong(b.p, b.t) == "");
}

TEST_CASE("1: pieces cover an axis once, and nothing runs beyond its end") {
  {
    product_tree x;
    const auto f = find(x.t, [&](const node& n) {
      return n.piece >= 0 && x.t.loop(n.piece).axis == 1 && x.t.loop(n.piece).to == bind::threads;
    });
    splice(x.t, f);
    both(x.p, x.t, "is in no loop over i1.1, along which it varies");
  }
  {
    product_tree x;
    x.t[find(x.t, act::store).node].guards = 0;
    both(x.p, x.t, "store 0 may run beyond the end of axis 0");
  }
  {
    product_tree x;
    for (auto& tile : x.t.tiles) tile.padded = 0;
    both(x.p, x.t, "may run beyond the end of axis");
  }
  {
    row_tree x;
    x.t.pieces[1].extent = 1;
    both(x.p, x.t, "the turns of i1.0 end before axis 1 does");
  }
  {
    row_tree x;
    x.t.pieces[1].step = 12;
    both(x.p, x.t, "do not follow those of another piece");
  }
}

TEST_CASE("2: what is read is computed there, or in a tile that was written") {
  {
    row_tree x;
    x.t[find(x.t, act::store).node].body.clear();
    both(x.p, x.t, "which is not defined there");
  }
  {
    row_tree x;
    drop(x.t, find(x.t, [&](const node& n) {
           bool defines = false;
           for_each_inside(x.t, static_cast<int>(&n - x.t.nodes.data()),
                           [&](int c) { defines = defines || x.t[c].what == act::define; });
           return defines && n.piece >= 0 && x.t.loop(n.piece).to == bind::threads;
         }));
    both(x.p, x.t, "from a tile before it is written");
  }
}

TEST_CASE("3: an accumulator starts outside its loops, and its terms keep their order") {
  {
    product_tree x;
    const auto f = find(x.t, act::fill);
    const auto loop = find(x.t, [&](const node& n) {
      return n.piece >= 0 && x.t.origin(n.piece) == 2 && x.t.loop(n.piece).part == turns::all;
    });
    drop(x.t, f);
    auto& inside = x.t[loop.node].inside;
    inside.insert(inside.begin(), f.node);
    both(x.p, x.t, "starts anew in each turn of i2.0");
  }
  {
    product_tree x;
    drop(x.t, find(x.t, act::fill));
    both(x.p, x.t, "that was not filled with what changes nothing");
  }
  {
    row_tree x;
    std::swap(x.t.folds[0].order[0], x.t.folds[0].order[1]);
    only_check(x.t, "are added in another order than its fold says");
  }
}

TEST_CASE("4: each position is stored once") {
  {
    row_tree x;
    const auto f = find(x.t, act::store);
    const int again = x.t.add(node(x.t[f.node]));
    x.t[f.parent].inside.push_back(again);
    both(x.p, x.t, "store 0 stores a position twice");
  }
  {
    row_tree x;
    drop(x.t, find(x.t, act::store));
    both(x.p, x.t, "store 0 is nowhere");
  }
}

TEST_CASE("5: between a write and another thread's read lies a barrier or a wait") {
  {
    row_tree x;
    drop(x.t, find(x.t, act::barrier));
    both(x.p, x.t, "meets what other threads write or read since the last barrier");
  }
  product_tree whole;
  int barriers = 0, waits = 0;
  for_each_inside(whole.t, whole.t.launches[0].root, [&](int n) {
    barriers += whole.t[n].what == act::barrier;
    waits += whole.t[n].what == act::wait;
  });
  CHECK(barriers == 1);  // a turn of terms has one
  CHECK(waits == 2);
  for (int n = 0; n < barriers; ++n) {
    product_tree x;
    drop(x.t, find(x.t, act::barrier, n));
    both(x.p, x.t, "meets what other threads write or read since the last barrier");
  }
  for (int n = 0; n < waits; ++n) {
    product_tree x;
    drop(x.t, find(x.t, act::wait, n));
    both(x.p, x.t, "from a copy that no wait has met");
  }
  {
    product_tree x;
    x.t[find(x.t, act::wait).node].lag = 2;
    both(x.p, x.t, "from a copy that no wait has met");
  }
  {
    product_tree x;
    x.t[find(x.t, act::wait).node].lag = 3;
    both(x.p, x.t, "lets 3 copies of v0 fly, which has 3 slots");
  }
  {
    product_tree x;
    x.t.tiles[static_cast<std::size_t>(x.t[find(x.t, act::copy).node].to)].slots = 2;
    both(x.p, x.t, "run 2 turns ahead in 2 slots");
  }
}

TEST_CASE("6: all threads of a block meet the same barriers") {
  row_tree x;
  const auto loop = find(
      x.t, [&](const node& n) { return n.piece >= 0 && x.t.loop(n.piece).to == bind::threads; }, 1);
  piece part = x.t.loop(x.t[loop.node].piece);
  part.of = x.t.origin(x.t[loop.node].piece);
  part.extent = 1;
  x.t.pieces.push_back(part);
  node barrier;
  barrier.what = act::barrier;
  x.t[loop.node].piece = static_cast<int>(x.t.pieces.size()) - 1;
  const int made = x.t.add(barrier);
  x.t[loop.node].inside.push_back(made);
  both(x.p, x.t, "which not all threads enter");
}

TEST_CASE("7: an intrinsic has whole operands, as it takes them") {
  {
    product_tree x;
    const auto f = find(x.t, act::matrix);
    x.t[f.node].over.pop_back();
    both(x.p, x.t, "is in no loop over i2.2");
  }
  {
    product_tree x;
    x.t[find(x.t, act::matrix).node].row = schedules::row_of("mma_f16");
    only_check(x.t, "takes f16, not bf16");
  }
  {
    product_tree x;
    x.t.tiles[static_cast<std::size_t>(x.t[find(x.t, act::matrix).node].to)].row = -1;
    only_check(x.t, "adds to a tile that is not its sum");
  }
  program p = matrix_product(4, 4, 4);
  schedules::schedule s{"by hand", {}};
  for (int a : {0, 1, 2}) s.steps.push_back(schedules::bind_to{a, bind::matrix});
  s.steps.push_back(schedules::use_matrix{3, schedules::row_of("mma_tf32")});
  CHECK_THROWS_AS(build(p.k, s), refusal);
}

TEST_CASE("8: tiles fit the target's memory") {
  product_tree x;
  only_check(x.t, "bytes of shared memory", {.shared_bytes = 1000});
  only_check(x.t, "bytes of a thread's registers", {.register_bytes = 4});
  program p = matrix_product(4, 4, 4);
  const tree t = build(p.k, {"by hand", {schedules::stage{0, 0, space::stack}}});
  only_check(t, "bytes of the stack", {.stack_bytes = 8});
}

TEST_CASE("9: dims are over the size symbols of the kernel") {
  row_tree x;
  x.t.pieces[0].extent = dim::symbol(5);
  only_check(x.t, "has a symbol that no axis has");
}

TEST_CASE("an intrinsic's registers are read as they lie") {
  // What a warp's lanes hold of a sum is the left operand of the next product only where the maps say so.
  const auto all = schedules::intrinsics();
  const auto& bf16 = all[static_cast<std::size_t>(schedules::row_of("mma_bf16"))];
  for (const auto& i : all)
    for (int o = 0; o < 3; ++o) {
      const auto& f = schedules::operand_of(i, o);
      const int rows = o == 1 ? i.k : i.m, columns = o == 0 ? i.k : i.n;
      INFO(i.word, " operand ", o);
      CHECK(f.count() * f.width() == rows * columns);
      std::vector<char> seen(static_cast<std::size_t>(rows * columns), 0);
      for (int lane = 0; lane < f.width(); ++lane)
        for (int r = 0; r < f.count(); ++r) {
          const int e = f.element(lane, r);
          REQUIRE((e >> 8) < rows);
          REQUIRE((e & 255) < columns);
          ++seen[static_cast<std::size_t>((e >> 8) * columns + (e & 255))];
        }
      CHECK(std::count(seen.begin(), seen.end(), 1) == rows * columns);
    }
  CHECK(std::equal(bf16.fs.lanes.begin(), bf16.fs.lanes.end(), bf16.fx.lanes.begin()));
}

TEST_CASE("products by groups of warps") {
  const program p = matrix_product(260, 260, 512, dtype::bf16, dtype::f32);
  const tree good = build(p.k, schedules::gpu_product.make(p.k, gpu, 8));
  SUBCASE("warps that divide the terms, too") {
    tree t = good;
    for (auto& q : t.pieces)
      if (q.to == bind::unrolled) q.to = bind::threads;
    only_check(t, "the rows of four warps, which follow each other");
  }
  SUBCASE("copies into slots that products of the last turn read") {
    tree t = good;
    for (auto& q : t.pieces)
      if (q.ahead > 0) q.ahead = 3;
    only_check(t, "meets what other threads write or read");
  }
  SUBCASE("sums that are read before the products end") {
    tree t = good;
    const auto stored =
        find(t, [&](const node& n) { return n.what == act::loop && n.piece >= 0 && holds(t, n, act::store); });
    const auto ring =
        find(t, [&](const node& n) { return n.what == act::loop && n.piece >= 0 && holds(t, n, act::matrix); });
    if (stored.node == ring.node) return;
    drop(t, stored);
    t[ring.node].inside.push_back(stored.node);
    only_check(t, "whose products run on in the loop");
  }
}
