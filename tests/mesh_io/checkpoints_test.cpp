// Checkpoints of placed trees: written on one mesh, loaded on others and in one process; batches that ranks share.
#include <sinter/data.hpp>
#include <sinter/mesh_io.hpp>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "../mesh/findings.hpp"
#include "../mesh/programs.hpp"
#include "../scratch_folder.hpp"

using namespace programs;

namespace {

struct weights {
  tensor<double, 2> up;
  tensor<float, 1> bias;
  tensor<double, 0> scale;
};
struct state_of_run {
  row_shards<weights, dp> rows;
  placed<weights, invariant<dp>> all;
  placed<tensor<double, 2>, shard<dp, 1>> columns;
  std::vector<placed<tensor<double, 1>, replicated<dp>>> list;
  std::int64_t epoch = 0;
  std::string note;
};
struct whole_state {
  weights rows, all;
  tensor<double, 2> columns;
  std::vector<tensor<double, 1>> list;
  std::int64_t epoch = 0;
  std::string note;
};
weights some_weights(double seed) {
  return {some(7, 3, seed), cast<float>(sin(arange<double>(5) + seed)), tensor<double, 0>(seed + 0.5)};
}
whole_state whole_run() {
  return {some_weights(1), some_weights(2), some(4, 12, 3), {sin(arange<double>(3)), cos(arange<double>(2))}, 17,
          "a note"};
}
std::vector<double> all_of(const weights& w) {
  std::vector<double> out = numbers_of(w.up);
  for (const auto& more : {numbers_of(w.bias), numbers_of(w.scale)}) out.insert(out.end(), more.begin(), more.end());
  return out;
}
template <class M>
state_of_run on_mesh(const M& m, const whole_state& s) {
  const std::int64_t n = 12 / m.template size<dp>(), first = n * m.template index<dp>();
  state_of_run out{cut_rows<dp>(m, s.rows),
                   placed<weights, invariant<dp>>(s.all),
                   placed<tensor<double, 2>, shard<dp, 1>>(tensor<double, 2>(slice<1>(s.columns, first, first + n))),
                   {},
                   s.epoch,
                   s.note};
  for (const auto& x : s.list) out.list.emplace_back(x);
  return out;
}
void expect_same(findings& wrong, const state_of_run& a, const state_of_run& b, const std::string& where) {
  wrong.close(all_of(a.rows.part()), all_of(b.rows.part()), where + " rows", 0);
  wrong.expect(a.rows.rows() == b.rows.rows(), where + " numbers of rows");
  wrong.close(all_of(local(a.all)), all_of(local(b.all)), where + " all", 0);
  wrong.close(numbers_of(local(a.columns)), numbers_of(local(b.columns)), where + " columns", 0);
  for (std::size_t k = 0; k < 2; ++k)
    wrong.close(numbers_of(local(a.list.at(k))), numbers_of(local(b.list.at(k))), where + " list", 0);
  wrong.expect(a.epoch == b.epoch && a.note == b.note, where + " numbers");
}
whole_state other_run() {
  return {some_weights(5), some_weights(6), some(4, 12, 7), {zeros<double>(3), zeros<double>(2)}, 0, ""};
}

}  // namespace

TEST_CASE("checkpoints go from four ranks to one, to three, to no mesh") {
  const scratch_folder folder;
  findings wrong;
  const whole_state want = whole_run();
  const auto pass_on = [&](int ranks, std::int64_t before, std::int64_t step) {
    on_threads(ranks, [&](int rank) {
      const auto m = make_mesh<dp>({ranks});
      const io::mesh_checkpoints saved(folder.path, m);
      state_of_run s = on_mesh(m, before < 0 ? want : other_run());
      const auto found = saved.resume(s);
      wrong.expect(found.value_or(-1) == before, "the step");
      expect_same(wrong, s, on_mesh(m, want), "rank " + std::to_string(rank) + " of " + std::to_string(ranks));
      saved.save(step, s);
    });
  };
  pass_on(4, -1, 10);
  pass_on(1, 10, 20);
  pass_on(3, 20, 30);
  CHECK(wrong.all() == "");
  // A plain tree in a single process.
  whole_state plain = other_run();
  const io::mesh_checkpoints alone(folder.path, make_mesh<dp>({1}));
  CHECK(alone.resume(plain) == 30);
  CHECK(all_of(plain.rows) == all_of(want.rows));
  CHECK(numbers_of(plain.columns) == numbers_of(want.columns));
  CHECK(plain.note == "a note");
  CHECK(alone.steps() == std::vector<std::int64_t>{10, 20, 30});
}

TEST_CASE("a mesh of two axes writes each part once") {
  const scratch_folder folder;
  findings wrong;
  using tile = placed<tensor<double, 2>, shard<dp, 0>, shard<tp, 1>>;
  using both = placed<tensor<double, 1>, shard<dp, 0>, shard<tp, 0>>;
  using half = placed<tensor<double, 2>, shard<tp, 0>>;
  const auto x = some(4, 6), h = some(2, 3, 1);
  const tensor<double, 1> line = sin(arange<double>(12));
  on_threads(4, [&](int rank) {
    const auto m = make_mesh<dp, tp>({2, 2});
    const std::int64_t i = m.index<dp>(), j = m.index<tp>(), r = rank;
    const std::tuple now{tile(tensor<double, 2>(slice<1>(slice<0>(x, 2 * i, 2 * i + 2), 3 * j, 3 * j + 3))),
                         both(tensor<double, 1>(slice<0>(line, 3 * r, 3 * r + 3))),
                         half(tensor<double, 2>(slice<0>(h, j, j + 1)))};
    io::mesh_checkpoints(folder.path, m).save(1, now);
  });
  CHECK(wrong.all() == "");
  std::tuple<tensor<double, 2>, tensor<double, 1>, tensor<double, 2>> plain{zeros<double>(4, 6), zeros<double>(12),
                                                                            zeros<double>(2, 3)};
  CHECK(io::mesh_checkpoints(folder.path, make_mesh<dp>({1})).resume(plain) == 1);
  CHECK(numbers_of(std::get<0>(plain)) == numbers_of(x));
  CHECK(numbers_of(std::get<1>(plain)) == numbers_of(line));
  CHECK(numbers_of(std::get<2>(plain)) == numbers_of(h));
}

TEST_CASE("checkpoints that do not fit, and states that are not complete") {
  const scratch_folder folder;
  const auto m = make_mesh<dp>({1});
  const io::mesh_checkpoints saved(folder.path, m, {.keep = 2});
  std::tuple<tensor<double, 2>> none{some(2, 2)};
  CHECK(!saved.resume(none));
  for (const std::int64_t step : {1, 2, 3}) saved.save(step, std::tuple{some(2, 2, static_cast<double>(step))});
  CHECK(saved.steps() == std::vector<std::int64_t>{2, 3});
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) files += entry.is_regular_file();
  CHECK(files == 4);
  CHECK(saved.resume(none) == 3);
  CHECK(numbers_of(std::get<0>(none)) == numbers_of(some(2, 2, 3)));
  // A part without an index does not count.
  std::ofstream(folder.path + "/step_000000000009.5.0-of-1.safetensors") << "not complete";
  CHECK(saved.resume(none) == 3);
  std::tuple<tensor<double, 2>> larger{some(3, 2)};
  CHECK_THROWS_WITH_AS(saved.resume(larger), doctest::Contains("0: it is f64 (2, 2), the tree's is f64 (3, 2)"),
                       user_error);
  std::tuple more{some(2, 2), some(1, 1)};
  CHECK_THROWS_WITH_AS(saved.resume(more), doctest::Contains("1: the files do not have it"), user_error);
  std::tuple<tensor<float, 2>> other{cast<float>(some(2, 2))};
  CHECK_THROWS_WITH_AS(saved.resume(other), doctest::Contains("it is f64 (2, 2), the tree's is f32 (2, 2)"),
                       user_error);
  CHECK(std::get<0>(other).size(0) == 2);
}

TEST_CASE("a tree that is one tensor, with fewer rows than ranks, and none") {
  const scratch_folder folder;
  findings wrong;
  const tensor<float, 2> two{{1, 2}, {3, 4}}, none = zeros<float>(0, 3);
  on_threads(4, [&](int rank) {
    const auto m = make_mesh<dp>({4});
    const auto mine = cut_rows<dp>(m, two);
    wrong.close(numbers_of(mine.part()),
                rank == 0   ? std::vector<double>{1, 2}
                : rank == 1 ? std::vector<double>{3, 4}
                            : std::vector<double>{0, 0},
                "rows of rank " + std::to_string(rank), 0);
    io::mesh_checkpoints(folder.path, m, {.name = "two"}).save(1, mine);
    io::mesh_checkpoints(folder.path, m, {.name = "none"}).save(1, cut_rows<dp>(m, none));
  });
  on_threads(3, [&](int) {
    const auto m = make_mesh<dp>({3});
    auto back = cut_rows<dp>(m, tensor<float, 2>(zeros<float>(2, 2)));
    wrong.expect(io::mesh_checkpoints(folder.path, m, {.name = "two"}).resume(back) == 1, "the step");
    wrong.close(numbers_of(back.part()), numbers_of(cut_rows<dp>(m, two).part()), "rows", 0);
  });
  CHECK(wrong.all() == "");
  tensor<float, 2> whole = zeros<float>(2, 2), empty = zeros<float>(0, 3);
  const auto alone = make_mesh<dp>({1});
  CHECK(io::mesh_checkpoints(folder.path, alone, {.name = "two"}).resume(whole) == 1);
  CHECK(numbers_of(whole) == numbers_of(two));
  CHECK(io::mesh_checkpoints(folder.path, alone, {.name = "none"}).resume(empty) == 1);
}

namespace {
enum class phase : std::uint8_t { warm, main };
using part_type = placed<tensor<double, 1>, shard<dp, 0>>;
struct facts {
  std::vector<bool> done;
  bool last = false;
  phase now = phase::warm;
  double rate = 0;
  std::string note;
  part_type x;
};
}  // namespace

TEST_CASE("flags, enums and text of a tree are saved") {
  const scratch_folder folder;
  findings wrong;
  on_threads(2, [&](int rank) {
    const auto m = make_mesh<dp>({2});
    const tensor<double, 1> own = arange<double>(3) + 3.0 * rank;
    const io::mesh_checkpoints saved(folder.path, m);
    saved.save(4, facts{{true, false, true}, true, phase::main, 0.25, "two words", part_type(own)});
    facts back{{false, true, false}, false, phase::warm, 0, "", part_type(tensor<double, 1>(zeros<double>(3)))};
    wrong.expect(saved.resume(back) == 4, "the step");
    wrong.expect(back.done == std::vector<bool>{true, false, true} && back.last && back.now == phase::main,
                 "flags and an enum");
    wrong.expect(back.rate == 0.25 && back.note == "two words", "a number and a text");
    wrong.close(numbers_of(local(back.x)), numbers_of(own), "a part", 0);
    facts fewer = back;
    fewer.done.pop_back();
    try {
      saved.load(4, fewer);
      wrong.expect(false, "a surplus flag is an error");
    } catch (const user_error& e) {
      wrong.expect(std::string(e.what()).find("done.2: the tree does not have it") != std::string::npos, e.what());
    }
  });
  CHECK(wrong.all() == "");
}

TEST_CASE("ranks share batches: one order, equal numbers of steps, on any mesh") {
  const tensor<double, 1> d = arange<double>(23);
  const key k = make_key(3);
  std::vector<std::vector<double>> all;
  for (const auto& b : data::batches(d, {.size = 6, .shuffle = k, .drop_last = true})) all.push_back(numbers_of(b));
  CHECK(all.size() == 3);
  for (const std::int64_t ranks : {1, 2, 3}) {
    std::vector<std::vector<double>> joined(3);
    for (std::int64_t r = 0; r < ranks; ++r) {
      std::size_t at = 0;
      const mesh_slot own{r, ranks};
      for (const auto& b : data::batches(d, {.size = 6, .shuffle = k, .drop_last = true, .shard = own})) {
        const auto part = numbers_of(b);
        CHECK(part.size() == static_cast<std::size_t>(6 / ranks));
        joined[at].insert(joined[at].end(), part.begin(), part.end());
        ++at;
      }
      CHECK(at == 3);
    }
    CHECK(joined == all);
  }
  // Resumed in the middle with another number of ranks.
  const auto second =
      data::batches(d, {.size = 6, .shuffle = k, .drop_last = true, .first = 1, .shard = mesh_slot{1, 2}});
  CHECK(numbers_of(*second.begin()) == std::vector<double>(all[1].begin() + 3, all[1].end()));
  CHECK(make_mesh<dp>({1}).slot<dp>().count == 1);
  const auto odd = [&](std::int64_t size, mesh_slot own) { return data::batches(d, {.size = size, .shard = own}); };
  CHECK_THROWS_WITH_AS(odd(5, {0, 2}), doctest::Contains("a batch of 5 rows does not divide among 2 ranks"),
                       user_error);
  CHECK_THROWS_WITH_AS(odd(6, {0, 2}), doctest::Contains("the last batch of 5 rows does not divide among 2 ranks"),
                       user_error);
  CHECK_THROWS_WITH_AS(odd(6, {2, 2}), doctest::Contains(".shard is index 2 of 2"), user_error);
}

namespace {

struct marks {
  std::chrono::nanoseconds spent{};
  std::vector<bool> done;
  std::array<std::int16_t, 3> counts{};
  tensor<float, 1> x;
};

}  // namespace

template <>
inline constexpr bool sinter::is_value<std::chrono::nanoseconds> = true;

TEST_CASE("values and flags are saved, too") {
  const scratch_folder folder;
  const marks want{
      std::chrono::nanoseconds(123456789012), {true, false, true, true}, {1, -2, 3}, tensor<float, 1>({1, 2})};
  on_threads(2, [&](int) { io::mesh_checkpoints(folder.path, make_mesh<dp>({2})).save(4, want); });
  marks got{{}, {false, false, false, false}, {}, zeros<float>(2)};
  const io::mesh_checkpoints alone(folder.path, make_mesh<dp>({1}));
  CHECK(alone.resume(got) == 4);
  CHECK(got.spent == want.spent);
  CHECK(got.done == want.done);
  CHECK(got.counts == want.counts);
  CHECK(got.x.to_vector() == want.x.to_vector());
  got.done.push_back(true);
  CHECK_THROWS_WITH_AS(alone.resume(got), doctest::Contains("done.4: the files do not have it"), user_error);
}
