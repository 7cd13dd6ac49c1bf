// Files and batches of tensors on a GPU.
#include <doctest/doctest.h>

#include <sinter/data.hpp>
#include <sinter/io.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "../scratch_folder.hpp"

using namespace sinter;

namespace {
const device gpu = device::cuda(0);
}

TEST_CASE("batches go to a GPU, by a thread or not, and come from one") {
  const auto y = arange<std::int64_t>(1000);
  const auto x = expand_dims<1>(cast<float>(y)) * ones<float>(256);
  for (const int ahead : {0, 2}) {
    std::int64_t rows = 0;
    for (auto& [a, b] : data::batches(std::tuple{tensor<float, 2>(x), y},
                                      {.size = 300, .shuffle = make_key(1), .prefetch = ahead, .where = gpu})) {
      CHECK(a.device() == gpu);
      CHECK(b.device() == gpu);
      rows += static_cast<std::int64_t>(b.size(0));
      const tensor<float, 1> first = sum(a, axis<1>).to(device::cpu());
      const auto labels = b.to(device::cpu());
      for (std::int64_t i = 0; i < labels.size(0); i += 7) CHECK(first(i) == 256 * static_cast<float>(labels(i)));
    }
    CHECK(rows == 1000);
  }
  std::vector<std::int64_t> seen;
  for (auto& b : data::batches(y.to(gpu), {.size = 600, .shuffle = make_key(1)})) {
    CHECK(b.device() == gpu);
    for (const std::int64_t i : b.to_vector()) seen.push_back(i);
  }
  std::sort(seen.begin(), seen.end());
  CHECK(seen == y.to_vector());
}

TEST_CASE("trees of a GPU are saved, and loaded where they are") {
  const scratch_folder here;
  const std::string path = here.path + "/x.safetensors";
  std::pair<tensor<float, 2>, int> tree{tensor<float, 2>{{1, 2}, {3, 4}}.to(gpu), 3};
  tree.first = transpose(tree.first);
  io::save(path, tree);
  std::pair<tensor<float, 2>, int> other{zeros<float>({2, 2}, gpu), 0};
  io::load(path, other);
  CHECK(other.first.device() == gpu);
  CHECK(other.first.to_vector() == std::vector<float>{1, 3, 2, 4});
  CHECK(other.second == 3);
  const auto third = io::load<std::pair<tensor<float, 2>, int>>(path, {.where = gpu});
  CHECK(third.first.device() == gpu);
  CHECK(tensor<float, 2>(third.first * 2.f).to_vector() == std::vector<float>{2, 6, 4, 8});
  CHECK(io::load<std::pair<tensor<float, 2>, int>>(path).first.device() == device::cpu());
}

TEST_CASE("DLPack of a GPU shares its memory") {
  const tensor<float, 1> x = tensor<float, 1>{1, 2, 3}.to(gpu);
  auto* const out = io::to_dlpack<io::dlpack::managed_versioned>(x * 2.f);
  CHECK(out->major == 1);
  CHECK(out->dl_tensor.where.type == 2);
  CHECK(out->dl_tensor.where.id == 0);
  const void* const data = out->dl_tensor.data;
  const auto back = io::from_dlpack<float, 1>(out);
  CHECK(back.device() == gpu);
  CHECK(back.data() == data);
  CHECK(tensor<float, 1>(back + x).to_vector() == std::vector<float>{3, 6, 9});
}
