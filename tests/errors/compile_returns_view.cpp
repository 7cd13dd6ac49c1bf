// expect: error
// match: the result holds a std::string_view, which later calls would return too; return a std::string
// lines: 60
#include <string_view>
#include <utility>

#include <sinter/sinter.hpp>

auto f = sinter::compile([](sinter::tensor<float, 1> x, std::string_view name) { return std::pair(x, name); });
auto y = f(sinter::tensor<float, 1>{1, 2}, std::string_view("a"));
