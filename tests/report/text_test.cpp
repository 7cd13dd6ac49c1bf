// Texts of reports: what is there several times in a row is told once.
#include <string>

#include <doctest/doctest.h>

#include <sinter/report/text.hpp>

using sinter::series;

TEST_CASE("repetitions are the longest there are, of one kernel or several") {
  const auto told = [](series<std::size_t> kernels) {
    std::string out;
    for (const auto& r : sinter::engine::reporting::repetitions_of(kernels))
      out += std::to_string(r.first) + ":" + std::to_string(r.period) + "x" + std::to_string(r.times) + " ";
    return out;
  };
  CHECK(told({}) == "");
  CHECK(told({1, 2, 3}) == "0:1x1 1:1x1 2:1x1 ");
  CHECK(told({1, 1}) == "0:1x1 1:1x1 ");  // two lines say as much
  CHECK(told({9, 1, 1, 1, 1, 8}) == "0:1x1 1:1x4 5:1x1 ");
  CHECK(told({1, 2, 3, 1, 2, 3, 1, 2}) == "0:3x2 6:1x1 7:1x1 ");
  CHECK(told({1, 1, 2, 1, 1, 2, 1, 1, 2}) == "0:3x3 ");
}
