// The same as integers_test on a GPU.
#include "integer_programs.hpp"

#include <type_traits>

using namespace integer_programs;

TEST_CASE("integers of every dtype and flags") {
  const auto each = []<class... T>(std::type_identity<T>...) { (converts<T, T>({}, device::cuda(0)), ...); };
  each(std::type_identity<bool>(), std::type_identity<std::int8_t>(), std::type_identity<std::uint16_t>(),
       std::type_identity<std::int32_t>(), std::type_identity<std::int64_t>(), std::type_identity<std::uint64_t>());
  converts<std::int32_t, std::int64_t>({}, device::cuda(0));
  converts<std::int64_t, float>({}, device::cuda(0));
}

TEST_CASE("a decoder's steps share kernels, recorded or not") {
  decoding({.dynamic = dynamic::yes}, device::cuda(0), 2);  // one is for even sizes
  decoding({.mode = mode::reduce_overhead}, device::cuda(0), 2);
}

TEST_CASE("values that are read, derivatives") {
  reading({}, device::cuda(0));
  gradients({}, device::cuda(0));
}
