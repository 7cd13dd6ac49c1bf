// ONNX's own cases, where $SINTER_ONNX_SUITE names their folder: on the reference interpreter, every tenth from $SINTER_ONNX_TENTH on,
// which .ci/run draws by the commit; all when it is "all".
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "../paths.hpp"
#include "../scratch_folder.hpp"
#include "exported.hpp"

using namespace sinter;
namespace fs = std::filesystem;

namespace {

double element_of(const io::array& a, std::int64_t i) {
  return visit_dtype(a.type, [&]<class T>(std::type_identity<T>) {
    T v{};
    std::memcpy(static_cast<void*>(&v), a.data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    if constexpr (is_narrow_float<T>) return static_cast<double>(static_cast<float>(v));
    else return static_cast<double>(v);
  });
}

bool agree(const io::array& y, const io::array& want) {
  if (y.type != want.type || y.extents != want.extents) return false;
  for (std::int64_t i = 0; i < want.numel(); ++i) {
    const double a = element_of(y, i), b = element_of(want, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!(std::fabs(a - b) <= 1e-7 + 1e-3 * std::fabs(b))) return false;
  }
  return true;
}
bool agree(const onnx::value& y, const onnx::value& want) {
  if (y.is_tensor() != want.is_tensor() || y.is_sequence() != want.is_sequence()) return false;
  if (want.is_tensor()) return agree(y.tensor().to_array(), want.tensor().to_array());
  if (!want.is_sequence()) return true;
  const auto &a = y.elements(), &b = want.elements();
  bool same = a.size() == b.size();
  for (std::size_t k = 0; same && k < a.size(); ++k) same = agree(a[k], b[k]);
  return same;
}

/// What files beside the model hold.
onnx::value_list values(const fs::path& folder, const char* what, const std::vector<onnx::value_description>& kinds) {
  onnx::value_list out;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const fs::path file = folder / (std::string(what) + "_" + std::to_string(k) + ".pb");
    if (!fs::exists(file)) break;
    out.push_back(onnx::read_value(file.string(), kinds[k]));
  }
  return out;
}

/// Names of cases, each with a reason.
std::map<std::string, std::string> listed(const char* file) {
  std::map<std::string, std::string> out;
  std::ifstream in(std::string(test_paths::data) + "/onnx/" + file);
  for (std::string line; std::getline(in, line);)
    if (const auto tab = line.find('\t'); line[0] != '#' && tab != std::string::npos)
      out[line.substr(0, tab)] = line.substr(tab + 1);
  return out;
}

/// "" or how the case fails.
std::string failure_of(const fs::path& folder) {
  options how;
  how.backend = "reference";
  try {
    const onnx::model m = onnx::load((folder / "model.onnx").string(), how);
    for (int k = 0; fs::exists(folder / ("test_data_set_" + std::to_string(k))); ++k) {
      const fs::path set = folder / ("test_data_set_" + std::to_string(k));
      const auto want = values(set, "output", m.outputs()), y = m.run(values(set, "input", m.inputs()));
      if (y.size() < want.size()) return "it gives too few results";
      for (std::size_t i = 0; i < want.size(); ++i)
        if (!agree(y[i], want[i])) return "output " + std::to_string(i) + " differs";
    }
  } catch (const user_error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("cases of ONNX's suite agree but for those that are listed") {
  const auto left_out = listed("excluded.txt"), differing = listed("differing.txt");
  CHECK(left_out.size() > 40);
  CHECK(differing.size() < 16);
  const char* const suite = std::getenv("SINTER_ONNX_SUITE");
  if (!suite || !*suite) {
    MESSAGE("skipped: SINTER_ONNX_SUITE is not set to the folder of ONNX's cases");
    return;
  }
  const char* const share = std::getenv("SINTER_ONNX_TENTH");
  const bool all = share && std::string(share) == "all";
  std::vector<fs::path> cases;
  for (const auto& entry : fs::recursive_directory_iterator(suite))
    if (entry.path().filename() == "model.onnx" && fs::exists(entry.path().parent_path() / "test_data_set_0"))
      cases.push_back(entry.path().parent_path());
  std::sort(cases.begin(), cases.end());
  const std::size_t first = all || !share ? 0 : static_cast<std::size_t>(std::strtoul(share, nullptr, 10) % 10);
  int right = 0, known = 0;
  for (std::size_t k = first; k < cases.size(); k += all ? 1 : 10) {
    const std::string name = cases[k].filename().string();
    if (left_out.count(name)) continue;
    const std::string why = failure_of(cases[k]);
    if (differing.count(name)) {
      ++known;
      continue;
    }
    INFO(name << ": " << why);
    CHECK(why.empty());
    right += why.empty();
  }
  MESSAGE(right << " of " << cases.size() << " agree, " << known << " are known to differ");
  CHECK(right > 0);
}

// Where $SINTER_ONNX_EXPORT is set, too: each case of tensors is traced, saved, loaded and compared. Compositions may round
// otherwise, by 1e-5 at most. ONNX Runtime runs the saved file, where it is found.
TEST_CASE("cases of ONNX's suite are exported, come back with the same values, and ONNX Runtime gives them, too") {
  const char* const suite = std::getenv("SINTER_ONNX_SUITE");
  if (!suite || !*suite || !std::getenv("SINTER_ONNX_EXPORT")) {
    MESSAGE("skipped: SINTER_ONNX_SUITE and SINTER_ONNX_EXPORT are not both set");
    return;
  }
  const auto left_out = listed("excluded.txt");
  const options how{.backend = "reference"};
  const scratch_folder scratch;
  const bool beside = onnx::runtime_problem().empty();
  int cases = 0, exported = 0, equal = 0, ran = 0;
  std::map<std::string, int> refusals, of_runtime;
  for (const auto& entry : fs::recursive_directory_iterator(suite)) {
    const fs::path folder = entry.path().parent_path();
    if (entry.path().filename() != "model.onnx" || !fs::exists(folder / "test_data_set_0")) continue;
    const std::string name = folder.filename().string(), path = scratch.path + "/m.onnx";
    if (left_out.count(name)) continue;
    onnx_test::exported out;
    onnx::tensor_list in, want;
    try {
      const onnx::model m = onnx::load(entry.path().string(), how);
      for (const auto& v : values(folder / "test_data_set_0", "input", m.inputs())) in.push_back(v.tensor());
      static_cast<void>(onnx_test::graph_of(m, in));
      out = onnx_test::export_again(m, in, path, how);
      if (!out.refused) want = m(in);
    } catch (const user_error&) {
      continue;  // sequences, texts, or shapes that depend on values: no graph
    }
    ++cases;
    exported += !out.refused;
    if (out.refused) {
      ++refusals[out.why];
      continue;
    }
    equal += out.equal;
    CHECK_MESSAGE(out.why == "", name);
    if (!beside) continue;
    try {
      const auto y = onnx::runtime_model(path)(in);
      ++ran;
      REQUIRE(y.size() == want.size());
      for (std::size_t k = 0; k < y.size(); ++k) {
        const double off = onnx_test::difference(y[k].to_array(), want[k].to_array());
        const dtype type = want[k].to_array().type;
        // Halves have 11 and 8 digits.
        const double most = type == dtype::f16 ? 0x1p-10 : type == dtype::bf16 ? 0x1p-7 : 1e-5;
        CHECK_MESSAGE(off <= most, name << " in ONNX Runtime, result " << k);
      }
    } catch (const user_error& e) {
      ++of_runtime[name + ": " + std::string(e.what()).substr(0, 200)];
    }
  }
  const auto listing = [](const std::map<std::string, int>& all) {
    std::string text;
    for (const auto& [what, times] : all) text += std::to_string(times) + " times: " + what + "\n";
    return text;
  };
  MESSAGE(exported << " of " << cases << " exported, " << equal << " with equal bits\n" << listing(refusals));
  MESSAGE("ONNX Runtime runs " << ran << ", refuses\n" << listing(of_runtime));
  CHECK(exported * 10 >= cases * 9);
}
