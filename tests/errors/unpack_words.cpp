// expect: error
// match: \[pack, unpack\] bytes are a tensor of std::uint8_t
// lines: 24
#include <sinter/formats.hpp>

using namespace sinter;

auto f(const tensor<std::int32_t, 1>& x) { return unpack<4>(x); }
