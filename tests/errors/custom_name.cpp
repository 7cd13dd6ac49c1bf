// expect: error
// match: a name consists of letters, digits and underscores
// lines: 40
#include <sinter/sinter.hpp>

auto op = sinter::custom_op<"a b">([] {}, sinter::none, [](auto x) { return sinter::result_of<float, 1>{x}; });
