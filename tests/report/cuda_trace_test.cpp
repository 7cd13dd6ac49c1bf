// SINTER_TRACE on a GPU: trace.json has the time of each step of a call, recorded ones included, under its number in the report.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <sinter/sinter.hpp>

#include "../emulator/select.hpp"

using namespace sinter;

namespace {

constexpr int calls = 4;

void run_traced(mode how) {
  const auto f =
      compile([](tensor<float, 2> x, tensor<float, 2> w) { return softmax(matmul(tanh(matmul(x, w)), w), axis<1>); },
              {.mode = how});
  const tensor<float, 2> x = normal<float>(make_key(1), 64, 64).to(device::cuda(0));
  for (int i = 0; i < calls; ++i) f(x, x);
  synchronize(device::cuda(0));
  std::printf("%zu\n", f.report().steps.size());
}

/// Times by step number, of a run of this program's test case.
std::map<int, std::vector<double>> device_times(const std::string& test, std::size_t& steps) {
  std::string folder = "/tmp/sinter-trace-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "SINTER_TRACE=" + folder + " " + program + " --no-skip -m -tc='" + test +
                              "' | grep -x '[0-9]*' >" + folder + "/steps";
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream(folder + "/steps") >> steps;
  std::stringstream text;
  text << std::ifstream(folder + "/trace.json").rdbuf();
  std::map<int, std::vector<double>> out;
  const auto trace = nlohmann::json::parse(text.str());
  for (const auto& e : trace.at("traceEvents"))
    if (e.at("cat") == "device") {
      out[std::stoi(e.at("name").get<std::string>())].push_back(e.at("dur").get<double>());
      const auto& ops = e.at("args").at("ops");
      bool placed = false;
      for (const auto& op : ops)
        placed = placed || op.get<std::string>().find("cuda_trace_test.cpp:") != std::string::npos;
      CHECK(placed);
    }
  std::filesystem::remove_all(folder);
  return out;
}

}  // namespace

TEST_CASE("the traced GPU program" * doctest::skip()) { run_traced(mode::standard); }
TEST_CASE("the traced recorded program" * doctest::skip()) { run_traced(mode::reduce_overhead); }

TEST_CASE("each step of a traced call on a GPU has its time") {
  if (device_count() == 0) return;
  for (const char* test : {"the traced GPU program", "the traced recorded program"}) {
    CAPTURE(std::string(test));
    std::size_t steps = 0;
    const auto times = device_times(test, steps);
    CHECK(steps >= 3);
    CHECK(times.size() == steps);
    for (const auto& [number, of] : times) {
      CHECK(number < static_cast<int>(steps));
      CHECK(of.size() % calls == 0);
      for (const double us : of) CHECK(us >= 0);
    }
  }
}
