// A fixed unit of compile work that tells how fast this machine is: standard headers, templates and optimised code. With
// MANY_HEADERS it takes as much memory in its time as a user's unit does: machines differ in what a page costs.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
#if defined(MANY_HEADERS)
#include <filesystem>
#include <future>
#include <iostream>
#include <locale>
#include <random>
#include <ranges>
#include <regex>
#include <shared_mutex>
#include <valarray>
constexpr int steps = 2;
#else
constexpr int steps = 4;
#endif

template <int N>
struct step {
  static int run(std::vector<int> v, const std::string& s) {
    std::map<std::string, std::vector<std::tuple<int, double, step>>> m;
    std::sort(v.begin(), v.end(), [&](int a, int b) { return a % (N + 2) < b % (N + 2); });
    for (int i : v) m[s + std::to_string(i)].emplace_back(i, i * 0.5, step{});
    std::function<int(int)> f = [&](int i) { return static_cast<int>(m.size()) + i; };
    return f(std::accumulate(v.begin(), v.end(), N)) + step<N - 1>::run(v, s);
  }
};
template <>
struct step<0> {
  static int run(const std::vector<int>& v, const std::string&) { return static_cast<int>(v.size()); }
};

int main() { return step<steps>::run({3, 1, 2}, "x"); }
