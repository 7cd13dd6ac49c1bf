// expect: error
// match: \[from_span\] the range's elements are of no dtype: these are float, double
// lines: 20

#include <sinter/sinter.hpp>

using namespace sinter;

auto wrong(const std::vector<char>& text) { return from_span(text, 1, -1); }
