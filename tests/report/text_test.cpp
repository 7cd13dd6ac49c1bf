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

TEST_CASE("a choice is told with the ways that were measured") {
  sinter::report r;
  r.choices.push_back({"dot", 3, false, {{"option 1", 12.34}, {"library", 14}, {"kernel", 20.06}}});
  r.choices.push_back({"attention", -1, true, {{"kernels", 5}, {"composition", 6}}});
  CHECK(sinter::engine::reporting::text_of_choices(r) ==
        "  kernel 3 (dot): option 1, 12.3 us; library took 14.0, kernel took 20.1; measured now\n"
        "  attention: kernels, 5.0 us; composition took 6.0; measured earlier\n");
}
