// The engine's vector does what std::vector does: random operations on both, elements that own memory.
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sinter/base/series.hpp>

using sinter::series;

namespace {

template <class T>
bool same(const series<T>& a, const std::vector<T>& b) {
  return std::vector<T>(a.begin(), a.end()) == b && a.size() == b.size() && a.empty() == b.empty();
}

std::string drawn(std::mt19937& any, std::string) {
  return std::string(any() % 40, static_cast<char>('a' + any() % 26));
}
int drawn(std::mt19937& any, int) { return static_cast<int>(any()); }

std::size_t measure(const std::string& x) { return x.size(); }
std::size_t measure(int x) { return static_cast<std::size_t>(x); }

}  // namespace

// Of numbers a few are held within the series.
TEST_CASE_TEMPLATE("random operations leave what std::vector has", T, std::string, int) {
  std::mt19937 any(7);
  for (int round = 0; round < 200; ++round) {
    series<T> a;
    std::vector<T> b;
    for (int step = 0; step < 60; ++step) {
      const T x = drawn(any, T());
      const std::size_t i = any() % (b.size() + 1), j = i + any() % (b.size() - i + 1), n = any() % 12;
      const auto at = b.begin() + static_cast<std::ptrdiff_t>(i), to = b.begin() + static_cast<std::ptrdiff_t>(j);
      switch (any() % 11) {
        case 0:
          a.push_back(x), b.push_back(x);
          break;
        case 1:
          if (!b.empty()) a.push_back(a[i % b.size()]), b.push_back(T(b[i % b.size()]));
          break;
        case 2:
          CHECK(*a.insert(a.begin() + i, x) == x);
          b.insert(at, x);
          break;
        case 3:
          a.insert(a.begin() + i, {x, T(), x}), b.insert(at, {x, T(), x});
          break;
        case 4:
          CHECK(a.erase(a.begin() + i, a.begin() + j) == a.begin() + i);
          b.erase(at, to);
          break;
        case 5:
          a.resize(n, x), b.resize(n, x);
          break;
        case 6:
          a.assign(n, x), b.assign(n, x);
          break;
        case 7: {
          series<T> c = a;
          a = std::move(c);
          a = static_cast<const series<T>&>(a);
          break;
        }
        case 8:
          CHECK(erase_if(a, [&](const auto& s) { return measure(s) % 3 == 0; }) ==
                std::erase_if(b, [&](const auto& s) { return measure(s) % 3 == 0; }));
          break;
        case 9: {
          const series<T> before = a;
          series<T> other{x};
          a.swap(other);
          CHECK((a == series<T>{x} && other == before));
          a = std::move(other);
          break;
        }
        default:
          if (!b.empty()) a.pop_back(), b.pop_back();
      }
      REQUIRE(same(a, b));
    }
    CHECK(same(series<T>(b), b));
    CHECK_THROWS_AS(a.at(a.size()), std::out_of_range);
  }
}

TEST_CASE("an element of a temporary series is a value") {
  const auto made = [] {
    return series<series<std::string>>{{"a word that is kept apart from its string", "b"}, {"c"}};
  };
  std::string all;
  for (const std::string& word : made()[0]) all += word;
  for (const std::string& word : made().back()) all += word;
  for (const std::string& word : made().front()) all += word.substr(0, 1);
  CHECK(all == "a word that is kept apart from its stringbcab");
  static_assert(std::is_same_v<decltype(made()[0]), series<std::string>>);
}
