// Programs with exchanges: saved, given to other ranks, and what becomes of bytes that are damaged. The ranks are pretended.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sinter/jit/pipeline.hpp>

#include "../environment_value.hpp"
#include "../scratch_folder.hpp"

namespace {

using namespace sinter;
namespace eng = engine;
namespace det = engine::detail;
namespace ops = ir::ops;
using ir::placement;
using ir::value;
namespace fs = std::filesystem;

location at(int line) { return {"saved_exchanges.cpp", line}; }

/// Rank 1 of 2, whose partner is a rule for each exchange.
class lone_group final : public eng::run::rank_group {
 public:
  std::int64_t size() const override { return 2; }
  std::int64_t index() const override { return 1; }
  void run(const eng::run::exchange& e, const void* in, void* out) override {
    told.push_back(located(e.text(), e.where));
    REQUIRE(e.type == dtype::f32);
    const auto n = static_cast<std::int64_t>(e.elements);
    const auto* const x = static_cast<const float*>(in);
    auto* const y = static_cast<float*>(out);
    using k = eng::run::exchange_kind;
    const bool joins = e.what == k::all_gather || e.what == k::all_to_all;
    for (std::int64_t i = 0; i < (joins ? 2 * n : n); ++i)
      y[i] = e.what == k::reduce_scatter ? x[i] + 2 * x[n + i]
             : e.what == k::all_gather   ? x[i % n] * (i < n ? 0.5f : 1.f)
             : e.what == k::all_to_all   ? x[i]
                                         : x[i] * (e.what == k::all_reduce ? 1.5f : 0.25f);
  }
  void compare(const std::string& text, const char* op, location where) override {
    told.push_back(std::string(op) + located(text, where));
  }
  static std::string located(const std::string& text, location where) {
    return text + " at " + where.file + ":" + std::to_string(where.line);
  }
  std::vector<std::string> told;
};

/// What orders did, in turn, and what another rank gives.
struct orders {
  std::vector<std::string> did;
  bool plans_are_mine = true;
  std::vector<std::shared_ptr<const std::string>> given, coming;
  std::string key;
};
bool is_plan(const std::string& text) { return text.starts_with(eng::run::plan_key); }

class pretended_order final : public eng::run::kernel_order {
 public:
  pretended_order(orders& all, const std::vector<std::string>& texts) : all_(all), texts_(texts) {
    all_.did.push_back(of() + " asked");
    if (is_plan(texts_[0])) all_.key = texts_[0];
  }
  ~pretended_order() override { all_.did.push_back(of() + " ended"); }
  std::string_view name(std::size_t k) const override { return texts_[k]; }
  bool is_mine(std::size_t k) const override { return !is_plan(texts_[k]) || all_.plans_are_mine; }
  void give(const std::vector<std::size_t>& which, std::string bundle) override {
    all_.did.push_back(of() + " given");
    CHECK(which.size() == texts_.size());
    if (is_plan(texts_[0])) all_.given.push_back(std::make_shared<const std::string>(std::move(bundle)));
  }
  std::vector<std::shared_ptr<const std::string>> take() override {
    return is_plan(texts_[0]) ? all_.coming : decltype(all_.coming){};
  }

 private:
  std::string of() const { return is_plan(texts_[0]) ? "plan" : "kernels"; }
  orders& all_;
  std::vector<std::string> texts_;
};

class pretended_world final : public eng::run::rank_world {
 public:
  explicit pretended_world(orders& all) : all_(all) {}
  int size() const override { return 2; }
  int rank() const override { return 1; }
  std::shared_ptr<eng::run::rank_group> group(const std::string&, const std::vector<int>&, location) override {
    return nullptr;
  }
  bool compares_programs() const override { return true; }
  std::unique_ptr<eng::run::kernel_order> order_kernels(const std::vector<std::string>& texts) override {
    return std::make_unique<pretended_order>(all_, texts);
  }

 private:
  orders& all_;
};

ops::mesh_axis_of axis() { return {ir::mesh_axis_number("dp"), 2}; }

/// All collectives, among more than 200 nodes.
ir::graph exchanging() {
  ir::graph g;
  const auto a = axis();
  int line = 1;
  const auto input = [&](ir::shape extents) {
    return value(g, g.add_input(dtype::f32, std::move(extents), at(line)), at(line));
  };
  const value x = input({4, 6}), w = input({4, 6});
  const auto same = static_cast<std::int64_t>(placement::invariant);
  ir::attributes checked;
  checked.ints = {a.number, a.ranks, same, same};
  value h = ir::value(g, g.push(ir::op::as, {x.id()}, checked, at(2)), at(2));
  std::vector<value> sums;
  for (int k = 0; k < 40; ++k) {
    const value here(g, h.id(), at(10 + k));
    h = sin(here * (0.1 * k + 1.0) + w) + here * 0.5;
    if (k % 10 == 3) sums.push_back(ops::all_reduce(value(g, h.id(), at(100 + k)), a, placement::replicated));
    if (k == 20) h = h + ops::collective_permute(value(g, h.id(), at(90)), a, {1, 0});
    if (k == 30) h = h + cast(broadcast(reshape(ops::axis_index(h, a), {1, 1}), h.extents()), dtype::f32);
  }
  const value last(g, h.id(), at(91));
  std::vector<value> all{h,
                         w * 2.0,
                         ops::all_gather(last, a, placement::replicated, 1),
                         ops::reduce_scatter(last * 3.0, a, 0),
                         ops::all_to_all(last, a, 0, 1),
                         ops::collective_broadcast(last, a, placement::replicated, 0)};
  for (const value& s : sums) all.push_back(s * 2.0);
  for (const value& v : all) g.outputs.push_back(v.id());
  return g;
}

/// A graph with arguments, which this thread compiles as a rank with a cache folder.
struct rank {
  rank(orders& all, const std::string& cache, device on = {}) : folder("SINTER_CACHE_DIR", cache), where(on) {
    const auto world = std::make_shared<pretended_world>(all);
    world->bind(axis().number, group);
    eng::run::world_of_thread() = world;
  }
  ~rank() { eng::run::world_of_thread() = nullptr; }
  rank(const rank&) = delete;
  rank& operator=(const rank&) = delete;

  std::shared_ptr<const det::code> compiled(const std::string& structure = "s") const {
    const auto given = memory.arguments();
    return det::compile(g, {given.data(), given.size()}, {.name = "f"}, where, {}, nullptr, structure, {});
  }
  /// The bytes of all results, and each exchange with its line.
  std::string results(const std::shared_ptr<const det::code>& c, bool donates = false) const {
    det::laid_out own(examples(), where);
    const auto given = own.arguments();
    series<eng::output> out(c->results.size());
    const std::vector<std::uint8_t> donate(given.size(), donates);
    group->told.clear();
    det::bound_program(c, {}, nullptr, "f")
        .run({given.data(), given.size()}, {}, {donate.data(), donate.size()}, out.data());
    std::string all;
    for (const auto& o : out) {
      std::size_t bytes = size_of(o.type);
      for (int d = 0; d < o.rank; ++d) bytes *= static_cast<std::size_t>(o.extents[d]);
      std::string here(bytes, '\0');
      eng::copy(here.data(), {}, o.memory.data(), where, bytes);
      all += here;
    }
    for (const auto& t : group->told) all += t + "\n";
    return all;
  }

  series<eng::example> examples() const {
    return {{eng::random_values(dtype::f32, {4, 6}, 1)}, {eng::random_values(dtype::f32, {4, 6}, 2)}};
  }
  environment_value folder;
  device where;
  std::shared_ptr<lone_group> group = std::make_shared<lone_group>();
  ir::graph g = exchanging();
  det::laid_out memory{examples(), where};
};

bool has_stage(const det::code& c, const char* name) {
  return std::any_of(c.about.stages.begin(), c.about.stages.end(), [&](const auto& s) { return s.name == name; });
}
bool was_planned(const std::shared_ptr<const det::code>& c) {
  CHECK(has_stage(*c, "plan") != has_stage(*c, "read"));
  CHECK(has_stage(*c, "plan") == has_stage(*c, "rewrite"));
  return has_stage(*c, "plan");
}
std::size_t plans_in(const std::string& folder) {
  std::size_t n = 0;
  for (const auto& f : fs::directory_iterator(folder)) n += f.path().string().ends_with(".plan");
  return n;
}
std::size_t count(const std::vector<std::string>& all, const std::string& what) {
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), what));
}

/// The plan that a rank gives to the others, its key, and its program's results.
struct given_plan {
  given_plan() {
    orders all;
    const rank maker(all, folder.path + "/maker");
    const auto c = maker.compiled();
    CHECK(was_planned(c));
    results = maker.results(c);
    REQUIRE(all.given.size() == 1);
    bytes = *all.given[0];
    key = all.key;
    did = all.did;
  }
  std::string payload() const {
    std::string out = bytes;
    REQUIRE(eng::run::detail::unpack_entry(out, key) == nullptr);
    return out;
  }
  scratch_folder folder;
  std::string bytes, key, results;
  std::vector<std::string> did;
};

/// What reads bytes as the program of `exchanging()`.
struct reader {
  explicit reader(device on = {}) : where(on) {}
  device where;
  ir::graph g = exchanging();
  std::size_t exchanges = 0;
  ir::graph steps = det::with_steps(g, where, {}, exchanges);
  det::known_places places{g};
  det::known_calls calls{steps};
  bool reads(std::string_view bytes) {
    det::code c;
    c.where = where;
    det::sized s;
    return det::read_program(bytes, steps, c, s, places, calls);
  }
  /// Whether a program is read that `f` has changed before it was written.
  bool reads_changed(const std::string& right, const std::function<void(det::code&, det::sized&)>& f) {
    det::code c;
    c.where = where;
    det::sized s;
    REQUIRE(det::read_program(right, steps, c, s, places, calls));
    f(c, s);
    det::byte_writer out;
    det::walk_program(out, c, s, places, calls);
    return reads(out.out);
  }
};

}  // namespace

TEST_CASE("a program with exchanges is planned once, and its steps are the collectives of the graph") {
  for (const auto& one : {std::pair{"0", device{}}, {"1", device{}}, {"0", device::cuda()}}) {
    const char* const compared = one.first;
    const device where = one.second;
    CAPTURE(compared);
    CAPTURE(where.text());
    const environment_value checks("SINTER_MESH_CHECK", compared);
    const scratch_folder folder;
    orders all;
    const rank r(all, folder.path, where);
    const auto first = r.compiled(), second = r.compiled();
    CHECK(was_planned(first));
    CHECK_FALSE(was_planned(second));
    CHECK(plans_in(folder.path) == 1);
    // Four sums are a bucket; five other exchanges.
    CHECK(first->about.collectives == 6);
    CHECK(second->about.collectives == 6);
    CHECK(second->guards);
    CHECK(second->guards->digest == first->guards->digest);
    const std::string wanted = r.results(first);
    CHECK(r.group->told.size() == (compared[0] == '1' ? 7 : 6));
    CHECK(wanted.find("permute of 24 f32 from 1,0 at saved_exchanges.cpp:90\n") != std::string::npos);
    CHECK(r.results(second) == wanted);
    CHECK(r.results(second, true) == wanted);
    // What explain() asks for is planned again.
    REQUIRE(second->reasons);
    CHECK(second->reasons(*second).apart.size() == first->reasons(*first).apart.size());
    CHECK(was_planned(r.compiled("another")));
    // A plan for a GPU is saved when its kernels are compiled, and not given.
    CHECK(count(all.did, "plan given") == (where.is_cuda() ? 0 : 2));
  }
}

TEST_CASE("a rank gives its plan before it compiles, and another one reads it") {
  const given_plan made;
  CHECK(made.did == std::vector<std::string>{"plan asked", "plan given", "plan ended", "kernels asked", "kernels given",
                                             "kernels ended"});
  orders all;
  all.plans_are_mine = false;
  all.coming = {std::make_shared<const std::string>(made.bytes)};
  const rank taker(all, made.folder.path + "/taker");
  const auto c = taker.compiled();
  CHECK_FALSE(was_planned(c));
  CHECK(taker.results(c) == made.results);
  CHECK(all.given.empty());
  CHECK(count(all.did, "plan asked") == 1);
  CHECK(plans_in(made.folder.path + "/taker") == 1);
  CHECK_FALSE(was_planned(taker.compiled()));  // from its own folder
  CHECK(count(all.did, "plan asked") == 1);
}

TEST_CASE("a rank plans itself what does not come, or comes damaged") {
  const given_plan made;
  const auto changed = [&](auto&& f) {
    std::string bytes = made.bytes;
    f(bytes);
    return bytes;
  };
  const auto packed = [](const std::string& key, const std::string& bytes) {
    return eng::run::detail::pack_entry({&key, 1}, bytes);
  };
  const std::string right = made.payload();
  const std::vector<std::vector<std::string>> cases{
      {},
      {""},
      {changed([](std::string& b) { b.pop_back(); })},
      {changed([](std::string& b) { b[b.size() / 2] = static_cast<char>(b[b.size() / 2] ^ 4); })},
      {packed("another program", right)},
      {packed(made.key, right.substr(0, right.size() / 2))},
      {packed(made.key, right + "more")},
      {packed(made.key, "x"), changed([](std::string& b) { b.resize(40); })}};
  for (std::size_t k = 0; k < cases.size(); ++k) {
    CAPTURE(k);
    orders all;
    all.plans_are_mine = false;
    for (const auto& b : cases[k]) all.coming.push_back(std::make_shared<const std::string>(b));
    const rank taker(all, made.folder.path + "/taker" + std::to_string(k));
    const auto c = taker.compiled();
    CHECK(was_planned(c));
    CHECK(taker.results(c) == made.results);
  }
}

TEST_CASE("of many changed bytes none is read as a program that leads out of its memory") {
  const given_plan made;
  const std::string right = made.payload();
  reader r;
  REQUIRE(r.reads(right));
  for (std::size_t n = 0; n < right.size(); n += 1 + right.size() / 500) CHECK_FALSE(r.reads(right.substr(0, n)));
  std::mt19937 draw(7);
  int refused = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    std::string bytes = right;
    for (unsigned k = draw() % 4; k < 4; ++k) bytes[draw() % bytes.size()] = static_cast<char>(draw());
    refused += !r.reads(bytes);
  }
  CHECK(refused > 100);
}

TEST_CASE("each number that leads out of a program is found") {
  const given_plan made;
  const std::string right = made.payload();
  reader r;
  using changes = std::function<void(det::code&, det::sized&)>;
  const auto first_call = [](det::sized& s) -> eng::run::step& {
    return *std::find_if(s.kernels.steps.begin(), s.kernels.steps.end(), [](const auto& one) { return one.call; });
  };
  const auto first_kernel = [](det::sized& s) -> eng::run::step& {
    return *std::find_if(s.kernels.steps.begin(), s.kernels.steps.end(), [](const auto& one) { return !one.call; });
  };
  REQUIRE(r.reads_changed(right, [](det::code&, det::sized&) {}));
  const std::vector<changes> all{
      [&](auto&, auto& s) { first_kernel(s).operands[0] = 100000; },
      [&](auto&, auto& s) { first_kernel(s).operands[0] = -1; },
      [&](auto&, auto& s) { first_kernel(s).members = 0; },
      [&](auto&, auto& s) { first_kernel(s).members = 1000; },
      [&](auto&, auto& s) { first_kernel(s).scratch = s.kernels.scratch_bytes + 1; },
      [&](auto&, auto& s) { first_kernel(s).scratch = -8; },
      [&](auto&, auto& s) { first_kernel(s).threads = 1 << 20; },
      [&](auto&, auto& s) { first_kernel(s).threads = 1, first_kernel(s).of_thread = s.kernels.scratch_bytes + 1; },
      [&](auto&, auto& s) { first_call(s).operands.push_back(0); },
      [&](auto&, auto& s) { first_call(s).operands[0] = -2; },
      [&](auto&, auto& s) { first_call(s).call = nullptr; },
      [&](auto&, auto& s) { first_kernel(s).call = first_call(s).call; },
      [](auto&, auto& s) { s.kernels.steps.pop_back(); },
      [](auto&, auto& s) { s.kernels.scratch_bytes = -1; },
      [](auto&, auto& s) { s.kernels.intermediates.push_back(s.kernels.scratch_bytes + 64); },
      [](auto&, auto& s) { s.kernels.intermediates[0] = -64; },
      [](auto& c, auto&) { c.texts.of[0] = c.texts.distinct.size(); },
      [](auto& c, auto&) { c.texts.of.pop_back(); },
      [](auto& c, auto&) { c.texts.step[0] = c.about.steps.size(); },
      [](auto& c, auto&) { c.results.pop_back(); },
      [](auto& c, auto&) { c.results[0].extents[0] = ir::dim(5); },
      [](auto& c, auto&) { c.results[0].type = dtype::f64; },
      [](auto& c, auto&) { c.results[0].kind = 1 << 20; },
      [](auto& c, auto&) { c.results[0].kind = -5; },
      [](auto& c, auto&) { c.results[2].kind = c.donors[0].kind; },  // of other extents
      [](auto& c, auto&) { c.results[0].also.push_back(9); },
      [](auto& c, auto&) { c.donors[0].kind = 1 << 20; },
      [](auto& c, auto&) { c.donors.push_back({}); },
  };
  for (std::size_t k = 0; k < all.size(); ++k) {
    CAPTURE(k);
    CHECK_FALSE(r.reads_changed(right, all[k]));
  }
}

TEST_CASE("each number that leads out of a program is found, on a GPU") {
  const scratch_folder folder;
  orders none;
  const rank r(none, folder.path, device::cuda());
  CHECK(was_planned(r.compiled()));
  reader from(device::cuda());
  const std::string right = eng::run::disk_cache().find(det::program_key(from.g, from.where, from.places, "s"));
  REQUIRE_FALSE(right.empty());
  using eng::run::cuda::action;
  const auto first = [](det::sized& s, action what) -> eng::run::cuda::step& {
    return *std::find_if(s.launches.steps.begin(), s.launches.steps.end(),
                         [&](const auto& one) { return one.what == what; });
  };
  REQUIRE(from.reads_changed(right, [](det::code&, det::sized&) {}));
  const std::vector<std::function<void(det::code&, det::sized&)>> all{
      [&](auto&, auto& s) { first(s, action::launch).operands[0].index = 1 << 20; },
      [&](auto&, auto& s) { first(s, action::launch).operands[0].bytes = 1 << 20; },
      [&](auto&, auto& s) { first(s, action::launch).text = 1000; },
      [&](auto&, auto& s) { first(s, action::launch).number = -1; },
      [&](auto&, auto& s) { first(s, action::launch).tabled = 1000; },
      [&](auto&, auto& s) { first(s, action::launch).scratch = s.launches.scratch_bytes + 1; },
      [&](auto&, auto& s) { first(s, action::launch).what = static_cast<action>(9); },
      [&](auto&, auto& s) { first(s, action::launch).what = action::call; },
      [&](auto&, auto& s) { first(s, action::call).call = nullptr; },
      [&](auto&, auto& s) { first(s, action::call).operands.push_back({0}); },
      [](auto&, auto& s) { s.launches.device = 5; },
      [](auto&, auto& s) { s.launches.given += 1; },
      [](auto&, auto& s) { s.launches.sizes = 3; },
      [](auto&, auto& s) { s.launches.intermediates.push_back(0); },
      [](auto&, auto& s) {
        s.launches.shared.push_back({-1, 0});
      },
  };
  for (std::size_t k = 0; k < all.size(); ++k) {
    CAPTURE(k);
    CHECK_FALSE(from.reads_changed(right, all[k]));
  }
}

TEST_CASE("a program with calls of a user's is neither saved nor ordered") {
  const scratch_folder folder;
  orders all;
  rank r(all, folder.path);
  auto f = std::make_shared<ir::foreign>();
  f->name = "noted";
  f->identity = ir::new_identity();
  f->host = [](ir::foreign_arrays, ir::foreign_arrays) {};
  ir::opaque step;
  step.kind = ir::opaque_kind::host_call;
  step.function = f;
  ir::push_opaque(r.g, ir::seal(std::move(step)), {r.g.outputs[0]}, at(300));
  for (int turn = 0; turn < 2; ++turn) CHECK(was_planned(r.compiled()));
  CHECK(plans_in(folder.path) == 0);
  CHECK(count(all.did, "plan asked") == 0);
}
