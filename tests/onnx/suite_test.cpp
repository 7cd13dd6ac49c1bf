// ONNX's own cases, where $SINTER_ONNX_SUITE names their folder: every tenth, on the reference interpreter.
#include <doctest/doctest.h>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdlib>
#include <filesystem>

using namespace sinter;
namespace fs = std::filesystem;

namespace {

std::vector<io::array> arrays(const fs::path& folder, const std::string& what) {
  std::vector<io::array> out;
  for (int k = 0;; ++k) {
    const fs::path file = folder / (what + "_" + std::to_string(k) + ".pb");
    if (!fs::exists(file)) return out;
    out.push_back(onnx::read_tensor(file.string()));
  }
}

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

}  // namespace

TEST_CASE("cases of ONNX's suite agree, or are refused with a reason") {
  const char* const suite = std::getenv("SINTER_ONNX_SUITE");
  if (!suite) {
    MESSAGE("skipped: SINTER_ONNX_SUITE is not set to the folder of ONNX's cases");
    return;
  }
  options how;
  how.backend = "reference";
  int right = 0, refused = 0;
  std::vector<fs::path> cases;
  for (const auto& entry : fs::recursive_directory_iterator(suite))
    if (entry.path().filename() == "model.onnx") cases.push_back(entry.path().parent_path());
  std::sort(cases.begin(), cases.end());
  for (std::size_t k = 0; k < cases.size(); k += 10) {
    const fs::path set = cases[k] / "test_data_set_0";
    try {
      const onnx::model m = onnx::load((cases[k] / "model.onnx").string(), how);
      onnx::tensor_list x;
      for (const auto& a : arrays(set, "input")) x.emplace_back(a);
      const auto want = arrays(set, "output");
      const auto y = m(x);
      bool same = y.size() >= want.size();
      for (std::size_t i = 0; same && i < want.size(); ++i) same = agree(y[i].to_array(), want[i]);
      INFO(cases[k].string());
      CHECK(same);
      right += same;
    } catch (const user_error&) {
      ++refused;
    }
  }
  MESSAGE(right << " agree, " << refused << " are refused");
  CHECK(right > 8 * refused);
}
