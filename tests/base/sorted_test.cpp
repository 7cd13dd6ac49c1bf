// The engine's set and map do what std::set and std::map do: random operations on both.
#include <map>
#include <random>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <sinter/base/sorted.hpp>

TEST_CASE("random operations leave what std::set and std::map have") {
  std::mt19937 any(11);
  for (int round = 0; round < 100; ++round) {
    sinter::sorted_set<int> keys;
    sinter::sorted_map<int, std::string> values;
    std::set<int> want_keys;
    std::map<int, std::string> want;
    for (int step = 0; step < 80; ++step) {
      const int k = static_cast<int>(any() % 40);
      const std::string text = std::to_string(any());
      CHECK(keys.contains(k) == want_keys.contains(k));
      CHECK(values.contains(k) == want.contains(k));
      switch (any() % 5) {
        case 0:
          CHECK(keys.insert(k).second == want_keys.insert(k).second);
          break;
        case 1:
          CHECK(keys.erase(k) == want_keys.erase(k));
          break;
        case 2:
          CHECK(values.emplace(k, text).second == want.emplace(k, text).second);
          break;
        case 3:
          values[k] += text, want[k] += text;
          break;
        default:
          if (const auto found = values.find(k); found != values.end()) {
            values.erase(found);
            want.erase(k);
          } else {
            CHECK_THROWS_AS(values.at(k), std::out_of_range);
          }
      }
      REQUIRE(std::equal(keys.begin(), keys.end(), want_keys.begin(), want_keys.end()));
      REQUIRE(std::equal(values.begin(), values.end(), want.begin(), want.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first && a.second == b.second; }));
    }
  }
}
