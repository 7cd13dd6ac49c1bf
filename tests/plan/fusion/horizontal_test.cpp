// Which kernels share a launch, and which of them a body.
#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <sinter/emit/cuda/kernel.hpp>
#include <sinter/plan/fusion/horizontal.hpp>

#include "../graphs.hpp"

using namespace graphs;
namespace emit = sinter::engine::emit;

namespace {

constexpr std::int64_t large = 32764;

/// Shapes of which few have as many elements as another, and some end in part of a vector.
shape shape_of(int i) {
  if (i % 3 == 0) return {5 + i % 61};
  if (i % 3 == 1) return {3 + i % 37, 64};
  return {3, 3, 2 + i % 29};
}

/// Adam's updates of n parameters, which share the number of steps.
graph updates(int n) {
  graph g;
  const value t = input(g, {});
  for (int i = 0; i < n; ++i) {
    const shape s = shape_of(i);
    const value p = input(g, s), d = input(g, s), first = input(g, s), second = input(g, s);
    const value a = first * 0.9 + d * 0.1, b = second * 0.999 + d * d * 0.001;
    const value down = sinter::ir::broadcast(sinter::ir::reshape(t, shape(s.size(), 1)), s);
    for (const value& x : {p - a / down * 0.001 / (b * down + 1e-8), a, b}) g.outputs.push_back(x.id());
  }
  return g;
}

std::vector<kernel> planned(const graph& g, std::vector<std::int64_t> hints = {}) {
  memory_map m;
  m.strides.resize(g.size());
  m.hints = std::move(hints);
  const auto kernels = fuse(g, m, gpu_target()).kernels;
  return {kernels.begin(), kernels.end()};
}

emit::cuda_source source_of(const std::vector<kernel>& kernels, const sinter::series<std::size_t>& group,
                            std::int64_t max_bytes) {
  std::vector<const kernel*> all;
  for (const auto k : group) all.push_back(&kernels[k]);
  return emit::cuda(all, gpu_target({.parameter_bytes = max_bytes}));
}

std::int64_t parameter_bytes(const emit::cuda_source& s, const std::vector<kernel>& kernels,
                             const sinter::series<std::size_t>& group) {
  std::size_t buffers = 0;
  for (const auto k : group) buffers += kernels[k].buffers.size();
  if (!s.table.numbers.empty()) {
    CHECK(s.parameters.size() + s.table.buffers.size() <= buffers);
    buffers = s.parameters.size() + (s.table.in_memory ? 1 : s.table.buffers.size());
  }
  const auto numbers = s.table.in_memory ? 0 : static_cast<std::int64_t>(s.table.numbers.size()) * s.table.number_bytes;
  return 8 * static_cast<std::int64_t>(buffers) + (numbers + 7) / 8 * 8 + 8 + 8 * kernels[0].symbols;
}

/// Every kernel runs once; the launches.
std::vector<emit::cuda_source> launches_of(const std::vector<kernel>& kernels, std::int64_t max_bytes) {
  std::vector<emit::cuda_source> out;
  std::vector<int> seen(kernels.size());
  for (const auto& group : horizontal({kernels.begin(), kernels.end()}, max_bytes)) {
    for (const auto k : group) ++seen[k];
    out.push_back(source_of(kernels, group, max_bytes));
    CHECK(out.back().launches.size() == 1);
    CHECK(parameter_bytes(out.back(), kernels, group) <= max_bytes);
  }
  CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(seen.size()));
  return out;
}

}  // namespace

TEST_CASE("updates of any number of parameters are one launch, whose text stays as long as it is") {
  std::size_t length = 0;
  for (const int n : {40, 100, 700}) {
    CAPTURE(n);
    const auto kernels = planned(updates(n));
    CHECK(kernels.size() == static_cast<std::size_t>(n));
    const auto launches = launches_of(kernels, large);
    REQUIRE(launches.size() == 1);
    const std::string& text = launches[0].texts[0];
    CHECK(launches[0].parameters.size() == 1);  // the number of steps
    CHECK(text.find("pack<4, t_f32>") != std::string::npos);
    if (length > 0) CHECK(text.size() < length + 200);
    else length = text.size();
    // What is more than parameters may take lies in memory.
    const std::size_t each = 7 * 8 + 2 * 4;
    for (const std::int64_t most : {large, std::int64_t{4096}}) {
      const auto one = launches_of(kernels, most);
      REQUIRE(one.size() == 1);
      CHECK(one[0].table.in_memory == (static_cast<std::int64_t>(n * each) + 16 > most));
    }
  }
}

TEST_CASE("what is alike shares a launch whatever its size") {
  const std::int64_t lengths[] = {1, 5 << 20, 4097, (5 << 20) + 3, 1, 64 << 20, 1000, 1, 4 << 20, 33, 1};
  graph g;
  for (const auto n : lengths) {
    const value p = input(g, {n}), d = input(g, {n});
    const value m = p * 0.9 + d;
    g.outputs.push_back(m.id());
    g.outputs.push_back((p - m * 0.1).id());
  }
  const auto kernels = planned(g);
  REQUIRE(kernels.size() == std::size(lengths));
  for (const std::int64_t most : {large, std::int64_t{256}}) {
    const auto launches = launches_of(kernels, most);
    REQUIRE(launches.size() == 1);
    CHECK(launches[0].table.in_memory == (most == 256));
    CHECK(launches[0].texts[0].find("pack<4, t_f32>") != std::string::npos);
  }
}

TEST_CASE("parameters of any rank share a body, those that lie otherwise few launches") {
  graph g;
  memory_map m;
  const auto add = [&](int i, bool turned) {
    shape s(static_cast<std::size_t>(1 + i % 6), 1);
    for (std::size_t d = 0; d < s.size(); ++d) s[d] = 2 + (i + 3 * static_cast<int>(d)) % 7;
    const value p = input(g, s), d = input(g, s);
    m.strides.resize(g.size());
    if (turned) {
      dim n = 1;
      for (const dim& e : s) m.strides[p.id()].push_back(n), n *= e;
    }
    const value first = p * 0.9 + d;
    g.outputs.push_back(first.id());
    g.outputs.push_back((p - first * 0.1).id());
  };
  const auto forms = [&](std::size_t launches) {
    m.strides.resize(g.size());
    const auto fused = fuse(g, m, gpu_target()).kernels;
    const std::vector<kernel> kernels(fused.begin(), fused.end());
    CHECK(launches_of(kernels, large).size() == launches);
    CHECK(launches_of(kernels, 4096).size() == launches);
    std::set<std::string> out;
    for (const auto& k : kernels) out.insert(form_of(k));
    return out.size();
  };
  for (int i = 0; i < 60; ++i) add(i, false);
  CHECK(forms(1) == 1);
  // Of two to six axes, of which each has strides of one, two or four elements: more than a launch has bodies.
  for (int i = 0; i < 60; ++i) add(i, true);
  CHECK(forms(2) == 36);
}

TEST_CASE("large kernels of another kind have a launch each") {
  const std::int64_t n = 5 << 20;
  const auto kernels = [](auto&& f) {
    graph g;
    for (int i = 0; i < 6; ++i) g.outputs.push_back(f(g, i).id());
    return planned(g);
  };
  auto exps = kernels([&](graph& g, int) { return exp(input(g, {n})); });
  CHECK(launches_of(exps, large).size() == 1);
  // Bodies differ, or a few are alike.
  const auto chain = [&](graph& g, int i) {
    value x = input(g, {n});
    for (int j = 0; j <= i / 3; ++j) x = exp(x);
    return x;
  };
  CHECK(launches_of(kernels(chain), large).size() == 6);
  // What reads across is done in tiles.
  const auto turned = [&](graph& g, int) { return exp(sinter::ir::permute(input(g, {n / 1024, 1024}), {1, 0})); };
  CHECK(launches_of(kernels(turned), large).size() == 6);
  // Intermediates.
  for (std::size_t k = 0; k < 6; ++k) {
    exps.push_back(exps[k]);
    for (auto& b : exps.back().buffers)
      b.id = b.written ? b.id + 100 : exps[k].buffers[b.id == exps[k].buffers[0].id].id;
  }
  CHECK(launches_of(exps, large).size() == 7);
}

TEST_CASE("more than 2^31 elements: a body with indices of 64 bits, and no more blocks than a grid has") {
  const auto alike = [](int n, std::int64_t elements, sinter::dtype type = sinter::dtype::f32) {
    graph g;
    for (int i = 0; i < n; ++i) {
      const value x = input(g, {elements + 4 * i}, type);
      g.outputs.push_back((x + x).id());
    }
    return g;
  };
  auto kernels = planned(alike(5, std::int64_t{3} << 30));
  for (auto& k : planned(alike(5, 1000))) {
    for (auto& b : k.buffers) b.id += 10;
    kernels.push_back(k);
  }
  const auto launches = launches_of(kernels, large);
  REQUIRE(launches.size() == 1);
  const auto& s = launches[0];
  CHECK(s.table.number_bytes == 8);
  CHECK(s.texts[0].find("const long first = (long)block*") != std::string::npos);
  CHECK(s.texts[0].find("const unsigned first = (unsigned)block*") != std::string::npos);
  CHECK(*s.table.numbers[4].number() == 4 * ((std::int64_t{3} << 30) / 1024) + 3);
  // 2^29 blocks of 256 elements each at most: three have room.
  const auto many = launches_of(planned(alike(8, std::int64_t{1} << 37, sinter::dtype::i8)), large);
  CHECK(many.size() == 3);
  for (const auto& l : many) CHECK(*l.launches[0].blocks.number() <= emit::max_blocks);
}

TEST_CASE("a block finds its kernel in the table") {
  const int n = 50;
  const auto kernels = planned(updates(n));
  const auto s = launches_of(kernels, large)[0];
  const auto blocks = s.launches[0].blocks.number();
  REQUIRE(blocks.has_value());
  REQUIRE(s.table.buffers.size() == 7 * n);
  REQUIRE(s.table.numbers.size() == 2 * n);
  std::int64_t before = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const auto first = *s.table.numbers[k].number();
    CHECK(first == before);
    const auto end = k + 1 < n ? *s.table.numbers[k + 1].number() : *blocks;
    const auto elements = *kernels[k].axes[0].extent.number();
    CHECK(end - first == (elements + 1023) / 1024);
    before = end;
  }
}

TEST_CASE("what is not alike has bodies of its own, up to as many as are quickly compiled") {
  graph g;
  for (int i = 0; i < 40; ++i) {
    value x = input(g, {100});
    for (int j = 0; j <= i % 20; ++j) x = j % 3 == i / 20 ? exp(x) : x * (2.0 + i);
    g.outputs.push_back(x.id());
  }
  const auto kernels = planned(g);
  REQUIRE(kernels.size() == 40);
  const auto launches = launches_of(kernels, large);
  CHECK(launches.size() == 2);
  for (const auto& s : launches) CHECK(s.table.buffers.empty());
}

TEST_CASE("few that are alike have bodies of their own") {
  CHECK(launches_of(planned(updates(3)), 4096)[0].table.buffers.empty());
  CHECK(!launches_of(planned(updates(4)), 4096)[0].table.buffers.empty());
}

TEST_CASE("kernels of no elements, and strides that run back") {
  graph g;
  for (int i = 0; i < 5; ++i) g.outputs.push_back(exp(input(g, {0})).id());
  for (int i = 0; i < 10; ++i) {
    const value x = input(g, {20 + i, 3});
    const std::vector<std::int64_t> steps = {i % 2 ? -1 : 2, 1};
    g.outputs.push_back(exp(sinter::ir::slice(x, {10, 3}, {i % 2 ? 15 : 0, 0}, steps)).id());
  }
  const auto kernels = planned(g);
  const auto launches = launches_of(kernels, large);
  REQUIRE(launches.size() == 1);
  for (const auto& n : launches[0].table.numbers) CHECK(*n.number() >= 0);
  std::set<std::string> forms;
  for (const auto& k : kernels) forms.insert(form_of(k));
  CHECK(forms.size() == 3);
}

TEST_CASE("parts of one array: nothing but their numbers differs") {
  graph g;
  g.outputs = {exp(input(g, {20})).id()};
  std::vector<kernel> alike(6, planned(g)[0]);
  for (int i = 0; i < 6; ++i) alike[static_cast<std::size_t>(i)].stores[0].at.at.offset = 20 + 20 * i;
  const auto launches = launches_of(alike, 4096);
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].table.buffers.empty());
  CHECK(launches[0].table.numbers.size() == 12);
  CHECK(launches[0].parameters.size() == alike[0].buffers.size());
  CHECK(launches[0].texts[0].find("table<0, 12, int> members") != std::string::npos);
}

TEST_CASE("what lies askew shares no body with what is read in vectors") {
  auto kernels = planned(updates(20));
  for (std::size_t k = 0; k < 10; ++k)
    for (auto& b : kernels[k].buffers) b.alignment = 4;
  const auto launches = launches_of(kernels, large);
  REQUIRE(launches.size() == 1);
  const std::string& text = launches[0].texts[0];
  std::size_t bodies = 0;
  for (std::size_t at = 0; (at = text.find("int member = 0;", at)) != std::string::npos; ++at) ++bodies;
  CHECK(bodies == 2);
  CHECK(text.find("pack<4, t_f32>") != std::string::npos);
  CHECK(text.find("pack<1, t_f32>") != std::string::npos);
}

TEST_CASE("rows that are read across share a body by how they are aligned") {
  graph g;
  for (int i = 0; i < 12; ++i) {
    const std::int64_t rows = 3 + i, columns = i % 2 ? 8 + 4 * i : 7 + 2 * i;
    const value x = input(g, {rows, columns}), b = input(g, {columns});
    g.outputs.push_back((x * expand(b, {0}, {rows, columns})).id());
  }
  const auto launches = launches_of(planned(g), large);
  REQUIRE(launches.size() == 1);
  const std::string& text = launches[0].texts[0];
  CHECK(text.find("pack<4, t_f32>") != std::string::npos);
  CHECK(text.find("pack<1, t_f32>") != std::string::npos);
}

TEST_CASE("open extents are numbers of the table") {
  graph g;
  for (int i = 0; i < 6; ++i) g.outputs.push_back(exp(input(g, {dim::symbol(i % 2), i + 2})).id());
  const auto kernels = planned(g, {100, 300});
  const auto groups = horizontal({kernels.begin(), kernels.end()}, 4096);
  REQUIRE(groups.size() == 1);
  const auto s = source_of(kernels, groups[0], 4096);
  const std::int64_t sizes[] = {700, 3000};
  std::int64_t blocks = 0;
  for (int i = 0; i < 6; ++i) {
    CHECK(s.table.numbers[static_cast<std::size_t>(i)].evaluate(sizes) == blocks);
    blocks += (sizes[i % 2] * (i + 2) + 1023) / 1024;
  }
  CHECK(s.launches[0].blocks.evaluate(sizes) == blocks);
  // Large in the traced call.
  const auto wide = planned(g, {100, 5 << 20});
  CHECK(horizontal({wide.begin(), wide.end()}, 4096).size() == 1);
}

TEST_CASE("a fill runs directly before the kernel that first adds to it") {
  graph g;
  const value index = input(g, {64}, dtype::i64), x = input(g, {64, 32}), w = input(g, {32, 32});
  value h = x;
  for (int i = 0; i < 4; ++i) h = dot(exp(h), w, 0, 1);
  const value zero(g, g.constant(dtype::f32, 0.0, {500000, 32}));
  const value at = expand(index, {1}, {64, 32});
  g.outputs = {scatter_add(zero, at, h, 0).id(), sum(h, {0}).id()};
  const auto kernels = planned(g);
  const auto groups = horizontal({kernels.begin(), kernels.end()}, large);
  std::size_t fill = groups.size(), adds = groups.size();
  for (std::size_t n = 0; n < groups.size(); ++n)
    for (const auto k : groups[n]) {
      bool reads = false;
      for (const auto& b : kernels[k].buffers) reads = reads || !b.written;
      if (!reads) fill = n;
      if (kernels[k].stores[0].accumulate) adds = n;
    }
  REQUIRE(adds < groups.size());
  CHECK(fill + 1 == adds);
}

namespace {

/// The launches of a chain of products with the sum of all squares of each; `scaled` products by the sum of those sums are
/// results, too.
struct squares_of_products {
  std::size_t launches = 0, of_sums = 0,
              largest = 0;  // in all; those with sums, and the kernels of the largest of them

  squares_of_products(int n, bool scaled) {
    graph g;
    value h = input(g, {600, 600}), total;
    std::vector<value> made;
    for (int i = 0; i < n; ++i) {
      h = dot(h, input(g, {600, 600}), 0, 1);
      const value squares = sum(h * h, {0, 1});
      total = total ? total + squares : squares;
      made.push_back(h);
    }
    g.outputs.push_back(total.id());
    for (const value& x : made)
      if (scaled)
        g.outputs.push_back((x * sinter::ir::broadcast(sinter::ir::reshape(total, {1, 1}), x.extents())).id());
    const auto kernels = planned(g);
    std::vector<std::size_t> at(kernels.size());
    for (const auto& group : horizontal({kernels.begin(), kernels.end()}, large)) {
      const bool sums = makes_numbers(kernels[group[0]]);
      of_sums += sums;
      if (sums) largest = std::max(largest, group.size());
      for (const auto k : group) at[k] = launches;
      ++launches;
    }
    check_order(kernels, at);
  }

  /// What writes a buffer runs before what reads it.
  static void check_order(const std::vector<kernel>& kernels, const std::vector<std::size_t>& at) {
    for (std::size_t a = 0; a < kernels.size(); ++a)
      for (std::size_t b = 0; b < kernels.size(); ++b)
        for (const auto& made : kernels[a].buffers)
          for (const auto& read : kernels[b].buffers)
            if (a != b && made.written && !read.written && made.id == read.id) CHECK(at[a] < at[b]);
  }
};

}  // namespace

TEST_CASE("sums of large arrays wait for their reader, and share a launch") {
  const squares_of_products s(100, true);
  CHECK(s.of_sums == 1);
  CHECK(s.largest == 100);
  CHECK(s.launches == 100 + 1 + 1 + 1);  // products, sums, their sum, results
}

TEST_CASE("sums whose operands nothing reads later do not wait") {
  const squares_of_products s(100, false);
  CHECK(s.of_sums == 100);
}

TEST_CASE("fewer than four sums of a shape do not wait") {
  const squares_of_products s(3, true);
  CHECK(s.largest == 1);
}
