// Scratch memory: blocks alive together never overlap. In place: each condition has a case that needs it.
#include "graphs.hpp"
#include "may_replace.hpp"

#include <random>

using namespace graphs;

TEST_CASE("blocks that are alive together do not overlap") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 bits(seed);
    std::vector<lifetime> blocks;
    std::int64_t total = 0, widest = 0;
    for (int b = 0, n = static_cast<int>(bits() % 30); b < n; ++b) {
      const std::size_t first = bits() % 12;
      blocks.push_back({b, first, first + bits() % 5, static_cast<std::int64_t>(bits() % 5 == 0 ? 0 : bits() % 1000)});
      total += (blocks.back().bytes + 63) / 64 * 64;
    }
    const arena a = place(blocks);
    for (std::size_t step = 0; step < 20; ++step) {
      std::int64_t alive = 0;
      for (const auto& b : blocks)
        if (b.first <= step && step <= b.last) alive += b.bytes;
      widest = std::max(widest, alive);
    }
    CHECK(a.bytes <= total);
    CHECK(a.bytes >= widest);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto at = a.offset.at(blocks[i].buffer);
      CHECK(at % 64 == 0);
      CHECK(at >= 0);
      CHECK(at + blocks[i].bytes <= a.bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
        const auto other = a.offset.at(blocks[j].buffer);
        const bool apart = at + blocks[i].bytes <= other || other + blocks[j].bytes <= at;
        CHECK((!together || apart));
      }
    }
  }
}

TEST_CASE("memory of what is no longer needed is used again") {
  CHECK(place({{0, 0, 1, 640}, {1, 1, 2, 640}, {2, 2, 3, 640}, {3, 3, 4, 640}}).bytes == 1280);
  CHECK(place({}).bytes == 0);
}

TEST_CASE("an intermediate lives from the kernel that writes it to the last that reads it") {
  graph g;
  const value x = input(g, {300, 4}), columns = sum(x, {0});
  const value y = x - expand(columns, {0}, {300, 4});
  const value z = sum(y * y, {0}), w = y * expand(z, {0}, {300, 4});
  const fused f = fuse_to({w});
  REQUIRE(f.kernels.size() >= 3);
  const sinter::sorted_set<int> elsewhere{static_cast<int>(x.id()), static_cast<int>(w.id())};
  const auto lives = lifetimes(g, f.kernels, f.strides, elsewhere, {});
  bool found = false;
  for (const auto& l : lives) {
    CHECK(elsewhere.count(l.buffer) == 0);
    CHECK(l.first < l.last);
    if (l.buffer != static_cast<int>(columns.id())) continue;
    found = true;
    CHECK(l.first == 0);
    CHECK(l.bytes == 16);
  }
  CHECK(found);
}

namespace {

bool replaces(const fused& f, const value& in, const value& out) {
  return may_replace(replacements(f.kernels, {}), static_cast<int>(in.id()), static_cast<int>(out.id()));
}

}  // namespace

TEST_CASE("a result may take the memory of what it is computed from, element by element") {
  graph g;
  const value x = input(g, {8, 5}), y = input(g, {8, 5}), z = exp(x) + y;
  const fused f = fuse_to({z});
  CHECK(replaces(f, x, z));
  CHECK(replaces(f, y, z));
}

TEST_CASE("... or of what its kernels do not read") {
  graph g;
  const value x = input(g, {8, 5}), y = input(g, {8, 5}), z = exp(x);
  CHECK(replaces(fuse_to({z}), y, z));
}

TEST_CASE("... but not what a later kernel reads, or one of the same step") {
  graph g;
  const value x = input(g, {8, 5}), z = exp(x), p = dot(x, permute(x, {1, 0}), 0, 1);
  fused f = fuse_to({z, p});
  REQUIRE(f.kernels.size() == 2);
  if (f.kernels[0].is_product()) std::swap(f.kernels[0], f.kernels[1]);
  CHECK(!replaces(f, x, z));
  std::swap(f.kernels[0], f.kernels[1]);
  CHECK(replaces(f, x, z));
  const std::size_t apart[] = {0, 1}, beside[] = {0, 0};
  const int in = static_cast<int>(x.id()), out = static_cast<int>(z.id());
  CHECK(may_replace(replacements(f.kernels, apart), in, out));
  CHECK(!may_replace(replacements(f.kernels, beside), in, out));
}

TEST_CASE("... nor when several kernels write the result, or read it again") {
  graph g;
  const value x = input(g, {8, 5}), z = exp(x);
  fused f = fuse_to({z});
  f.kernels.push_back(f.kernels[0]);
  for (auto& b : f.kernels[1].buffers)
    if (b.id == static_cast<int>(x.id())) b.id = 1000;
  CHECK(!replaces(f, x, z));
}

TEST_CASE("... nor what is read at another element") {
  graph g;
  const value x = input(g, {6, 6}), z = x + permute(x, {1, 0});
  CHECK(!replaces(fuse_to({z}), x, z));
  graph h;
  const value v = input(h, {6}), w = v + slice(v, {6}, {5}, {-1});
  CHECK(!replaces(fuse_to({w}), v, w));
  graph k;
  const value a = input(k, {6, 6}), index = input(k, {6, 6}, dtype::i64), b = gather(a, index, 0);
  CHECK(!replaces(fuse_to({b}), a, b));
}

TEST_CASE("... nor what a later pass over the row reads") {
  graph g;
  const value x = input(g, {6, 40}), z = softmax(x);
  const fused f = fuse_to({z});
  REQUIRE(f.kernels.size() == 1);
  CHECK(!replaces(f, x, z));
}

TEST_CASE("... nor an operand of the product, but what its epilogue adds") {
  graph g;
  const value a = input(g, {6, 6}), b = input(g, {6, 6}), c = input(g, {6, 6}), z = dot(a, b, 0, 1) + c;
  const fused f = fuse_to({z});
  REQUIRE(f.kernels.size() == 1);
  CHECK(!replaces(f, a, z));
  CHECK(!replaces(f, b, z));
  CHECK(replaces(f, c, z));
}

TEST_CASE("... nor by parts, by adding, or by nothing at all") {
  graph g;
  const value x = input(g, {6, 4}), part = input(g, {3, 4});
  sinter::ir::attributes a;
  a.ints = {0};
  const value z = push(op::concat, {part, exp(part)}, a);
  CHECK(!replaces(fuse_to({z}), x, z));
  graph h;
  const value base = input(h, {6, 4}), index = input(h, {6, 4}, dtype::i64), u = input(h, {6, 4});
  const value s = scatter_add(base, index, u, 0);
  CHECK(!replaces(fuse_to({s}), u, s));
  const value other = input(h, {6, 4});
  std::vector<kernel> adding = fuse_to({s}).kernels;
  std::erase_if(adding, [](const kernel& k) { return !k.stores.at(0).accumulate; });
  REQUIRE(adding.size() == 1);
  const auto may = [&](const std::vector<kernel>& kernels, int in, int out) {
    const sinter::series<kernel> all(kernels.begin(), kernels.end());
    return may_replace(replacements(all, {}), in, out);
  };
  CHECK(!may(adding, static_cast<int>(other.id()), static_cast<int>(s.id())));
  CHECK(!may({}, 0, 1));
}

namespace {

/// Whether intermediate `to` takes over the memory of `from`, in kernels planned for a GPU, or for the CPU.
bool takes_over(const std::vector<value>& outputs, const value& from, const value& to, bool gpu) {
  graph& g = outputs[0].owner();
  g.outputs.clear();
  for (const auto& v : outputs) g.outputs.push_back(v.id());
  memory_map m;
  m.strides.resize(g.size());
  const fused f = fuse(g, m, gpu ? gpu_target() : target{});
  sinter::sorted_set<int> elsewhere;
  for (auto id : g.inputs) elsewhere.insert(static_cast<int>(id));
  for (auto id : g.outputs) elsewhere.insert(static_cast<int>(id));
  const auto lives = lifetimes(g, f.kernels, f.strides, elsewhere, {});
  const auto over = taken_over(g, lives, replacements(f.kernels, {}));
  const auto place_of = [&](const value& v) {
    std::size_t n = 0;
    while (n < lives.size() && lives[n].buffer != static_cast<int>(v.id())) ++n;
    REQUIRE(n < lives.size());
    return n;
  };
  const placed_lives placed = place_in_turn(lives, over);
  const bool takes = over[place_of(to)] == static_cast<int>(place_of(from));
  if (takes) CHECK(placed.offset[place_of(to)] == placed.offset[place_of(from)]);
  return takes;
}

value times(const value& x, std::int64_t columns) {
  return dot(x, input(x.owner(), {x.extents()[1], columns}, x.get().type), 0, 1);
}

}  // namespace

TEST_CASE("an intermediate takes over what its kernel is the last to read, in the last of its passes, too") {
  for (const bool gpu : {false, true}) {
    INFO("gpu " << gpu);
    graph g;
    const value x = input(g, {300, 40}), p = times(x, 3000), soft = softmax(p);
    CHECK(takes_over({times(soft, 5)}, p, soft, gpu));
  }
}

TEST_CASE("... but not what is read later, at other elements, of another size, or for elements' rows") {
  for (const bool gpu : {false, true}) {
    INFO("gpu " << gpu);
    graph g;
    const value x = input(g, {300, 40}), p = times(x, 3000), soft = softmax(p);
    CHECK(!takes_over({times(soft, 5), times(p, 7)}, p, soft, gpu));
    graph h;
    const value a = times(input(h, {400, 40}), 400), turned = softmax(permute(a, {1, 0}));
    CHECK(!takes_over({times(turned, 5)}, a, turned, gpu));
    graph k;
    const value b = times(input(k, {300, 40}), 3000), wide = cast(softmax(b), dtype::f64);
    CHECK(!takes_over({times(wide, 5)}, b, wide, gpu));
    graph l;
    const value column = times(input(l, {300, 40}), 1), row = reshape(column, {300}),
                d = times(input(l, {300, 8}), 3000);
    const value scores = softmax(d * expand(row, {1}, d.extents())), t = sum(scores * scores, {1});
    CHECK(!takes_over({times(scores, 5), dot(expand(t, {1}, {300, 3}), input(l, {3, 2}), 0, 1)}, column, t, gpu));
  }
}

TEST_CASE("lives in turn are one block, and overlap with no other") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 bits(seed);
    sinter::series<lifetime> lives;
    sinter::series<int> from;
    for (int b = 0, n = 1 + static_cast<int>(bits() % 30); b < n; ++b) {
      const std::size_t first = bits() % 12;
      lives.push_back({b, first, first + bits() % 5, static_cast<std::int64_t>(bits() % 1000)});
      from.push_back(-1);
      if (b == 0 || bits() % 2) continue;
      const auto other = static_cast<std::size_t>(bits() % static_cast<unsigned>(b));
      if (std::count(from.begin(), from.end(), static_cast<int>(other))) continue;
      lives.back().first = lives[other].last;
      lives.back().last = std::max(lives.back().last, lives.back().first + 1);
      lives.back().bytes = lives[other].bytes;
      from.back() = static_cast<int>(other);
    }
    const placed_lives placed = place_in_turn(lives, from);
    for (std::size_t i = 0; i < lives.size(); ++i) {
      CHECK(placed.offset[i] % 64 == 0);
      CHECK(placed.offset[i] + lives[i].bytes <= placed.bytes);
      if (from[i] >= 0) CHECK(placed.offset[i] == placed.offset[static_cast<std::size_t>(from[i])]);
      for (std::size_t j = 0; j < i; ++j) {
        const bool in_turn = from[i] == static_cast<int>(j) || from[j] == static_cast<int>(i);
        const bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        const bool disjoint = placed.offset[i] + lives[i].bytes <= placed.offset[j] ||
                              placed.offset[j] + lives[j].bytes <= placed.offset[i];
        CHECK((in_turn || !together || disjoint));
      }
    }
  }
}
