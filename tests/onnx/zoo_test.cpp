// Models of a folder, where $SINTER_ONNX_ZOO names it: NAME/model.onnx and NAME/input_K.npy. Each is exported again: it gives the same
// values on the CPU, mostly with equal bits, and ONNX Runtime gives for both files the same results.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../scratch_folder.hpp"
#include "exported.hpp"

using namespace sinter;
namespace fs = std::filesystem;

namespace {

struct zoo_model {
  std::string name, path;
  onnx::tensor_list inputs;
};

std::vector<zoo_model> zoo() {
  std::vector<zoo_model> out;
  const char* const folder = std::getenv("SINTER_ONNX_ZOO");
  if (!folder || !*folder) {
    MESSAGE("skipped: SINTER_ONNX_ZOO is not set to a folder of models");
    return out;
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path file = entry.path() / "model.onnx";
    if (!fs::exists(file)) continue;
    zoo_model m{entry.path().filename().string(), file.string(), {}};
    for (int k = 0; fs::exists(entry.path() / ("input_" + std::to_string(k) + ".npy")); ++k)
      m.inputs.push_back(io::read_npy((entry.path() / ("input_" + std::to_string(k) + ".npy")).string()));
    out.push_back(std::move(m));
  }
  return out;
}

}  // namespace

TEST_CASE("models are exported, and come back with the same values on the CPU") {
  const scratch_folder scratch;
  int equal = 0;
  std::string others;
  for (const zoo_model& z : zoo()) {
    const onnx::model m = onnx::load(z.path, {.progress = false});
    const auto out = onnx_test::export_again(m, z.inputs, scratch.path + "/m.onnx", {.progress = false});
    CHECK_MESSAGE(!out.refused, z.name << ": " << out.why);
    if (!out.refused) CHECK_MESSAGE(out.why == "", z.name);
    equal += !out.refused && out.equal;
    if (!out.refused && !out.equal) others += " " + z.name;
  }
  MESSAGE(equal << " with equal bits" << (others.empty() ? "" : "; others:") << others);
}

TEST_CASE("ONNX Runtime gives the same results for a model and for its export") {
  const auto models = zoo();
  if (models.empty()) return;
  if (const auto why = onnx::runtime_problem(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  const scratch_folder scratch;
  double worst = 0;
  for (const zoo_model& z : models) {
    const std::string path = scratch.path + "/m.onnx";
    std::string why;
    try {
      const onnx::model m = onnx::load(z.path, {.progress = false});
      onnx::save(path, onnx_test::graph_of(m, z.inputs));
      const auto want = onnx::runtime_model(z.path)(z.inputs), y = onnx::runtime_model(path)(z.inputs);
      REQUIRE(y.size() == want.size());
      for (std::size_t k = 0; k < y.size(); ++k) {
        const double off = onnx_test::difference(y[k].to_array(), want[k].to_array());
        worst = std::max(worst, off);
        if (!(off <= 1e-5)) why = "result " + std::to_string(k) + " differs by " + std::to_string(off);
      }
    } catch (const error& e) {
      why = e.what();
    }
    CHECK_MESSAGE(why == "", z.name);
  }
  MESSAGE(models.size() << " models, " << worst << " at most");
}
