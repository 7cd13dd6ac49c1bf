// front/functions/factory_errors.hpp: short errors for factories called without a dtype, with another type, or without extents.
#pragma once

#include <string_view>

#include "factories.hpp"
#include "random.hpp"

namespace sinter {

namespace detail {
/// Whether <sinter/complex.hpp> has the factory of complex numbers, or <sinter/mesh.hpp> that of placed tensors.
template <class T>
constexpr bool is_made_elsewhere(std::string_view name) {
  const bool random = name == "uniform" || name == "normal";
  return (requires(const T& z) { z.imag(); } && (name == "zeros" || name == "ones")) ||
         (requires { typename T::placements; } && random);
}
}  // namespace detail

// An ellipsis: any callable function of the user's is preferred.
#define SINTER_NO_DTYPE(NAME, EXAMPLE)                                                                             \
  template <class T, class... A>                                                                                   \
  requires(!element<T> && !detail::is_made_elsewhere<T>(#NAME)) tensor<float, 0> NAME(const A&...) {               \
    static_assert(element<T>, "sinter: [" #NAME                                                                    \
                              "] the dtypes are float, double, f16, bf16, f8_e4m3, f8_e5m2, bool, std::int8_t to " \
                              "std::int64_t and std::uint8_t to std::uint64_t");                                   \
    return {};                                                                                                     \
  }                                                                                                                \
  template <int None = 0>                                                                                          \
  requires(None == 0) tensor<float, 0> NAME(...) {                                                                 \
    static_assert(None != 0, "sinter: [" #NAME "] the dtype stands in front: " EXAMPLE);                           \
    return {};                                                                                                     \
  }
SINTER_NO_DTYPE(zeros, "zeros<float>(3, 4)")
SINTER_NO_DTYPE(ones, "ones<float>(3, 4)")
SINTER_NO_DTYPE(full, "full<float>(1.5f, 3, 4)")
SINTER_NO_DTYPE(arange, "arange<float>(10)")
SINTER_NO_DTYPE(linspace, "linspace<float>(0, 1, 5)")
SINTER_NO_DTYPE(eye, "eye<float>(3)")
SINTER_NO_DTYPE(uniform, "uniform<float>(key, 3, 4)")
SINTER_NO_DTYPE(normal, "normal<float>(key, 3, 4)")
SINTER_NO_DTYPE(randint, "randint<int>(key, 0, 10, 3, 4)")
#undef SINTER_NO_DTYPE

#define SINTER_FACTORY_USAGE(NAME, CALLS)                                 \
  template <element T>                                                    \
  tensor<T, 0> NAME(...) {                                                \
    static_assert(!sizeof(T), "sinter: [" #NAME "] is called as " CALLS); \
    return {};                                                            \
  }                                                                       \
  template <element T, class I, class... More>                            \
  tensor<T, 0> NAME(std::initializer_list<I>, const More&...) {           \
    static_assert(!sizeof(T), "sinter: [" #NAME "] is called as " CALLS); \
    return {};                                                            \
  }
SINTER_FACTORY_USAGE(full, "full<float>(1.5f, 3, 4): the value, then the extents")
SINTER_FACTORY_USAGE(arange, "arange<float>(stop) or arange<float>(start, stop, step)")
SINTER_FACTORY_USAGE(linspace, "linspace<float>(start, stop, count)")
SINTER_FACTORY_USAGE(eye, "eye<float>(rows) or eye<float>(rows, columns)")
SINTER_FACTORY_USAGE(uniform, "uniform<float>(key, 3, 4): a key, then the extents")
SINTER_FACTORY_USAGE(normal, "normal<float>(key, 3, 4): a key, then the extents")
SINTER_FACTORY_USAGE(randint, "randint<int>(key, low, high, 3, 4): a key, the bounds, then the extents")
#undef SINTER_FACTORY_USAGE

#define SINTER_DEVICE_FIRST(NAME)                                                              \
  template <element T, class I, class... More>                                                 \
  requires std::is_integral_v<I> tensor<T, 0> NAME(device, I, More...) {                       \
    static_assert(!sizeof(I), "sinter: [" #NAME "] a device stands last, behind the extents"); \
    return {};                                                                                 \
  }
SINTER_DEVICE_FIRST(zeros)
SINTER_DEVICE_FIRST(ones)
SINTER_DEVICE_FIRST(full)
SINTER_DEVICE_FIRST(arange)
SINTER_DEVICE_FIRST(linspace)
SINTER_DEVICE_FIRST(eye)
#undef SINTER_DEVICE_FIRST

#define SINTER_EXTENTS(NAME)                                                                                      \
  template <int None = 0, std::size_t R, class... A>                                                              \
  requires(None == 0) tensor<float, 0> NAME(const dim(&)[R], const A&...) {                                       \
    static_assert(None != 0, "sinter: [" #NAME "] the dtype stands in front: " #NAME "<float>(3, 4)");            \
    return {};                                                                                                    \
  }                                                                                                               \
  template <element T, std::floating_point F, class... More>                                                      \
  tensor<T, 0> NAME(F, const More&...) {                                                                          \
    static_assert(!sizeof(F), "sinter: [" #NAME "] extents are integers");                                        \
    return {};                                                                                                    \
  }                                                                                                               \
  template <element T, dims Shape, class... I>                                                                    \
  requires(detail::extents_then_device<I...> && detail::count_extents<I...> != Shape.rank) tensor<T, Shape> NAME( \
      detail::extent_here, I...) {                                                                                \
    static_assert(detail::count_extents<I...> == Shape.rank,                                                      \
                  "sinter: [" #NAME "] give as many extents as the shape has axes, the known ones too");          \
    return {};                                                                                                    \
  }
SINTER_EXTENTS(zeros)
SINTER_EXTENTS(ones)
#undef SINTER_EXTENTS

}  // namespace sinter
