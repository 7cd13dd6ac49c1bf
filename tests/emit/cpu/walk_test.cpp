// Trees as CPU text: drawn kernels by drawn schedules, and every recipe, against plain recursion. SINTER_LOOPS_SEEDS=A..B takes other seeds.
#include <array>
#include <cstdlib>
#include <cstring>
#include <list>

#include "../../plan/loops/compiled.hpp"
#include "../../plan/loops/programs.hpp"
#include "../../plan/loops/random_programs.hpp"

#include <fstream>
#include <sinter/plan/loops/print.hpp>
#include <sstream>

#include "../../golden_file.hpp"

#include <sinter/plan/schedule/recipes.hpp>

using namespace kernels;

namespace {

constexpr schedules::facts cpu{};

/// Programs with their trees, which refer to each other.
struct built {
  program p;
  loops::tree t;
};

bool binds_threads(const schedules::step& s) {
  const auto* const to = std::get_if<schedules::bind_to>(&s);
  return to && to->to == loops::bind::threads;
}

/// The tree of a program that a CPU prints; null if the schedule is refused or binds pieces to threads. Barriers of threads would take most
/// of the time.
const built* made(std::list<built>& all, program p, const schedules::schedule& s) {
  if (std::any_of(s.steps.begin(), s.steps.end(), binds_threads)) return nullptr;
  all.push_back({std::move(p), {}});
  all.back().p.k.symbols = static_cast<int>(all.back().p.sizes.size());
  try {
    all.back().t = loops::build(all.back().p.k, s);
  } catch (const refusal&) {
    all.pop_back();
    return nullptr;
  }
  if (sinter::engine::emit::is_for_cpu(all.back().t)) return &all.back();
  all.pop_back();
  return nullptr;
}

}  // namespace

TEST_CASE("drawn kernels by drawn schedules, as text") {
  std::uint64_t from = 1, to = 180;
  if (const char* set = std::getenv("SINTER_LOOPS_SEEDS")) {
    from = std::strtoull(set, nullptr, 10);
    const char* dots = std::strstr(set, "..");
    to = dots ? std::strtoull(dots + 2, nullptr, 10) : from;
  }
  constexpr std::size_t at_once = 25;
  std::size_t count = 0;
  for (auto seed = from; seed <= to;) {
    std::list<built> all;
    batch texts;
    for (; seed <= to && texts.size() < at_once; ++seed) {
      drawn d(seed);
      drawn_case c = drawn_program(d);
      const auto s = drawn_schedule(c.p, d).run();
      if (const built* b = made(all, std::move(c.p), s))
        texts.add(b->p, b->t, seed, c.bound, loops::text_of(s) + loops::text_of(b->t));
    }
    count += texts.size();
    if (texts.size() > 0) texts.check();
  }
  MESSAGE(count << " trees ran as text");
  CHECK((to - from < 100 || count > (to - from) / 10));
}

namespace {

/// Adds an option of a recipe for a program.
void add(std::list<built>& all, batch& to, const schedules::recipe& r, program p, const schedules::facts& f, int option,
         double bound = 0) {
  REQUIRE(r.takes(p.k, f));
  const auto s = r.make(p.k, f, option);
  const built* b = made(all, std::move(p), s);
  REQUIRE(b != nullptr);
  to.add(b->p, b->t, 3, bound, loops::text_of(s) + loops::text_of(b->t));
}

bool has_avx2(std::string_view what) { return what == "avx2"; }
bool has_no_matrix(std::string_view) { return false; }

}  // namespace

TEST_CASE("products by their recipe, as text") {
  std::list<built> all;
  batch texts;
  const auto product = [&](int m, int n, int k, dtype t, int option) {
    add(all, texts, schedules::cpu_product, matrix_product(m, n, k, t, t == dtype::bf16 ? dtype::f32 : t), cpu, option);
  };
  for (dtype t : {dtype::f32, dtype::bf16, dtype::f64, dtype::i32}) product(5, 33, 17, t, 2);
  for (int option : {0, 1, 3}) product(9, 35, 260, dtype::f32, option);
  product(1, 1, 1, dtype::f32, 0);
  product(0, 4, 4, dtype::f32, 0);
  product(16, 64, 30, dtype::f32, 0);
  add(all, texts, schedules::cpu_product, matrix_product(19, 37, 11), {.has = has_no_matrix}, 2);
  add(all, texts, schedules::cpu_product, matrix_product(19, 37, 270), {.has = has_avx2}, 1);
  add(all, texts, schedules::cpu_product, matrix_product(19, 37, 20, dtype::bf16, dtype::f32), {.has = has_avx2}, 1);
  for (dtype t : {dtype::f32, dtype::bf16})
    add(all, texts, schedules::cpu_product, with_neighbours(19, 37, 41, t), cpu, 2);
  CHECK(texts.text().find("micro<s_f32, 8, 32/SINTER_W, linear>(") != std::string::npos);
  texts.check();
}

TEST_CASE("rows by their recipe, as text") {
  std::list<built> all;
  batch texts;
  for (const auto& size : {std::array{1, 1}, {3, 33}, {0, 3}, {4, 0}})
    add(all, texts, schedules::rows, softmax(size[0], size[1]), cpu, size[1] % 2, derived);
  texts.check();
}

TEST_CASE("attention by its recipe, as text") {
  std::list<built> all;
  batch texts;
  for (bool causal : {false, true}) {
    add(all, texts, schedules::attention, attention_of(33, 150, 8, 20, dtype::f32, causal), cpu, 0, 1e-5);
    add(all, texts, schedules::attention, attention_of(70, 33, 16, 33, dtype::bf16, causal), {.has = has_avx2}, 1,
        1e-5);
    add(all, texts, schedules::attention, attention_of(5, 7, 3, 4, dtype::bf16, causal), cpu, 2, 1e-5);
    add(all, texts, schedules::attention, attention_of(1, 1, 1, 1, dtype::f32, causal), cpu, 2, 1e-5);
  }
  CHECK(texts.text().find("micro<s_f32, 8, 1, linear>(terms, weights") != std::string::npos);
  texts.check();
}

TEST_CASE("gradients of attention by their recipe, as text") {
  std::list<built> all;
  batch texts;
  for (bool causal : {false, true})
    for (bool by_keys : {false, true}) {
      add(all, texts, schedules::attention_back, attention_back_of(1, 70, 33, 8, 20, dtype::f32, causal, by_keys),
          {.has = has_avx2}, 0, derived);
      add(all, texts, schedules::attention_back, attention_back_of(2, 33, 150, 16, 9, dtype::f32, causal, by_keys), cpu,
          1, derived);
      add(all, texts, schedules::attention_back, attention_back_of(3, 9, 17, 3, 4, dtype::bf16, causal, by_keys),
          {.has = has_avx2}, 1, derived);
    }
  CHECK(texts.text().find("micro<s_f32, 4, 16/SINTER_W, linear>(terms, ") != std::string::npos);
  texts.check();
}

namespace {

bool has_avx512(std::string_view what) { return what == "avx2" || what == "avx512f"; }
constexpr schedules::facts avx512{.has = has_avx512};

/// relu(x(b, m, k) · y(b, k, n) + bias(n)) as the planner has it: with a `product`.
kernel planned_product(std::int64_t b, std::int64_t m, std::int64_t n, std::int64_t k, bool across) {
  kernel c;
  for (const std::int64_t e : {b, m, n}) c.axes.push_back({e, role::inner});
  for (int u = 0; u < 4; ++u) c.buffers.push_back({u, dtype::f32, u == 3});
  product p;
  p.a = {0, {0, {m * k, k, 0, 1}, 0, -1}};
  p.b = {1, {0, {k * n, 0, across ? k : 1, across ? 1 : n}, 0, -1}};
  p.k = {k};
  p.terms = k;
  p.batch = p.m = 1;
  c.products.push_back(p);
  instruction i;
  i.kind = kind::product;
  i.axes = 7;
  const int sum = add(c, std::move(i));
  instruction bias;
  bias.kind = kind::load;
  bias.at = {2, {0, {0, 0, 1}, 0, -1}};
  bias.axes = 4;
  const int biased = compute(c, op::add, dtype::f32, {sum, add(c, std::move(bias))});
  const int value = compute(c, op::maximum, dtype::f32, {biased, literal(c, dtype::f32, scalar::of(dtype::f32, 0))});
  c.stores.push_back({value, {3, {0, {m * n, n, 1}, 0, -1}}, false, {}});
  c.label = "dot add maximum";
  return c;
}

/// What a source computes of random numbers.
std::vector<float> computed(const kernel& c, const sinter::engine::emit::source& s,
                            sinter::engine::run::kernel_function* call) {
  const auto n = [&](int a) { return *c.axes[static_cast<std::size_t>(a)].extent.number(); };
  const std::int64_t k = *c.products[0].k[0].number();
  std::mt19937 random(7);
  std::normal_distribution<float> draw;
  std::vector<std::vector<float>> arrays{std::vector<float>(static_cast<std::size_t>(n(0) * n(1) * k)),
                                         std::vector<float>(static_cast<std::size_t>(n(0) * k * n(2))),
                                         std::vector<float>(static_cast<std::size_t>(n(2))),
                                         std::vector<float>(static_cast<std::size_t>(n(0) * n(1) * n(2)), -77.0f)};
  std::vector<void*> buffers;
  for (auto& a : arrays) {
    if (&a != &arrays[3])
      for (float& x : a) x = draw(random);
    buffers.push_back(a.data());
  }
  constexpr std::int64_t threads = 3;
  std::vector<double> scratch(static_cast<std::size_t>(s.scratch.bytes({}, threads)) / 8 + 16, NAN);
  auto* const words = reinterpret_cast<long*>(scratch.data());
  words[0] = static_cast<long>(s.scratch.threads({}, threads));
  words[1] = static_cast<long>(s.scratch.of_thread({}));
  call(buffers.data(), reinterpret_cast<char*>(scratch.data()), nullptr);
  return arrays[3];
}

void golden(const std::string& name, const std::string& got) { golden_file::check("trees/" + name + ".txt", got); }
std::string text_by(const schedules::recipe& r, const program& p, int option) {
  sinter::engine::emit::writer out;
  sinter::engine::emit::print_tree(loops::build(p.k, r.make(p.k, avx512, option)), "by_tree", out);
  return out.text();
}

}  // namespace

TEST_CASE("a product by its recipe has the bits of gemm()") {
  struct extents {
    std::int64_t b, m, n, k;
    bool across;
  };
  std::vector<kernel> all;
  for (const extents& e : {extents{1, 64, 80, 64, false},
                           {1, 257, 129, 257, false},
                           {2, 40, 100, 300, false},
                           {1, 128, 96, 70, true},
                           {1, 300, 70, 520, true},
                           {3, 33, 1030, 33, false},
                           {1, 512, 33, 300, false}})
    all.push_back(planned_product(e.b, e.m, e.n, e.k, e.across));
  std::vector<sinter::engine::emit::source> sources;
  std::vector<std::string> texts;
  for (const auto& c : all) {
    sources.push_back(sinter::engine::emit::cpu(c));
    auto by = sinter::engine::emit::detail::by_recipe(c, avx512);
    REQUIRE(by);
    sources.push_back(std::move(*by));
    for (std::size_t last = 2; last > 0; --last) texts.push_back(sources[sources.size() - last].text);
  }
  ::setenv("SINTER_CXXFLAGS", "-O1", 1);
  const auto made = sinter::engine::run::build(texts);
  ::unsetenv("SINTER_CXXFLAGS");
  for (std::size_t n = 0; n < all.size(); ++n)
    CHECK(computed(all[n], sources[2 * n], made[2 * n].entry()) ==
          computed(all[n], sources[2 * n + 1], made[2 * n + 1].entry()));
}

TEST_CASE("large products are printed by their recipe") {
  const kernel large = planned_product(1, 64, 1100, 1000, false), small = planned_product(1, 64, 100, 1000, false);
  const auto is_tree = [](const kernel& c, const schedules::facts& f) {
    return sinter::engine::emit::cpu(c, f).text.find("micro<s_f32, 8, 32/SINTER_W, linear>(") != std::string::npos;
  };
  CHECK(is_tree(large, avx512));
  CHECK(!is_tree(large, {}));
  CHECK(!is_tree(small, avx512));
}

TEST_CASE("the texts of recipes") {
  golden("cpu_product", text_by(schedules::cpu_product, matrix_product(1000, 1000, 500), 0));
  golden("cpu_product_epilogue", text_by(schedules::cpu_product, with_neighbours(64, 100, 64, dtype::f32), 0));
  golden("cpu_attention", text_by(schedules::attention, attention_of(128, 256, 64, 64, dtype::f32, true), 0));
  for (bool by_keys : {false, true})
    golden(by_keys ? "cpu_attention_back_keys" : "cpu_attention_back",
           text_by(schedules::attention_back, attention_back_of(1, 128, 256, 64, 64, dtype::f32, true, by_keys), 0));
}
