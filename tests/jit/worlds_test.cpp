// Programs of equal graphs in worlds of several kinds: code that ranks compare is not that of ranks that do not.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/mesh.hpp>
#include <sinter/run/ranks.hpp>

namespace {

using namespace sinter;
namespace run = engine::run;

struct dp : mesh_axis {};

/// One of two ranks, which alone computes: a sum is its own part.
class lone_group final : public run::rank_group {
 public:
  std::int64_t size() const override { return 2; }
  std::int64_t index() const override { return 0; }
  void run(const run::exchange& e, const void* in, void* out) override {
    std::memcpy(out, in, e.elements * size_of(e.type));
  }
  void compare(const std::string&, const char*, location) override {}
};

class lone_world final : public run::rank_world {
 public:
  explicit lone_world(bool compares) : compares_(compares) {}
  int size() const override { return 2; }
  int rank() const override { return 0; }
  std::shared_ptr<run::rank_group> group(const std::string&, const std::vector<int>&, location) override {
    return std::make_shared<lone_group>();
  }
  bool compares_programs() const override { return compares_; }
  void begin_call(const std::shared_ptr<const run::program_guards>&) override { ++calls; }
  int calls = 0;

 private:
  bool compares_;
};

using part = placed<tensor<double, 1>, varying<dp>>;

/// The number of calls that this world's ranks count, of two of the same function.
int counted_calls(bool compares) {
  const auto world = std::make_shared<lone_world>(compares);
  run::world_of_thread() = world;
  const auto m = make_mesh<dp>({2});
  const auto f = compile(shard_map(m, [](part a) { return all_reduce<replicated<dp>>(as<partial<dp>>(a)); }));
  for (int turn = 0; turn < 2; ++turn)
    CHECK(local(f(part(tensor<double, 1>({1, 2})))).to_vector() == std::vector<double>{1, 2});
  run::world_of_thread() = nullptr;
  return world->calls;
}

}  // namespace

TEST_CASE("code is shared among worlds of one kind only") {
  CHECK(counted_calls(false) == 0);
  CHECK(counted_calls(true) == 2);
  CHECK(counted_calls(false) == 0);
}
