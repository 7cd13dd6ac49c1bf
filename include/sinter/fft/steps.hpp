// fft/steps.hpp: the transform of rows as a step of a graph on (b, n, 2), with interleaved parts; its derivatives are
// transforms.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../complex.hpp"
#include "../engine/fourier.hpp"
#include "../sinter.hpp"

namespace sinter::fft {

/// The scaled transform: the inverse by 1 / n, both by 1 / √n, or the transform by 1 / n.
enum class norm : std::uint8_t { backward, ortho, forward };
using enum norm;

namespace steps {

using engine::fourier_request;
using engine::fourier_scale;
using sinter::detail::handle;
namespace views = sinter::detail::views;

/// Rows of complex numbers.
template <class T>
using rows_of = tensor<T, 3>;

/// The transform on the host, and a textbook form for the reference.
struct host_code {
  fourier_request how;

  template <class X, class... Y>
  void operator()(const X& x, const Y&... y) const {
    const ir::foreign_array in[] = {array(x)}, out[] = {array(y)...};
    engine::fourier(how, {in, 1}, {out, sizeof...(Y)});
  }
  host_code plain() const {
    host_code out = *this;
    out.how.plain = true;
    return out;
  }
  std::string known() const {
    constexpr const char* scales[] = {"", " root", " whole"};
    return std::string(how.inverse ? "fft inverse" : "fft") + scales[static_cast<int>(how.scale)];
  }

  template <class E>
  static ir::foreign_array array(const E& e) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(e.data)>>;
    return {const_cast<T*>(e.data), dtype_of<T>, e.extents.data(), static_cast<int>(e.extents.size())};
  }
};

template <class T>
rows_of<T> transform(const rows_of<T>& x, const fourier_request& how, location at);

inline fourier_request turned(fourier_request how) {
  how.inverse = !how.inverse;
  return how;
}

/// Lanes become more rows.
template <class T>
rows_of<T> transform_lanes(const tensor<T, 4>& x, const fourier_request& how) {
  const dim n = x.size(2);
  return transform(rows_of<T>(reshape(x, std::array<dim, 3>{x.size(0) * x.size(1), n, 2})), how, location::current());
}
template <class Y, class X>
auto as_lanes(const Y& y, const X& x) {
  return reshape(y, std::array<dim, 4>{x.size(0), x.size(1), x.size(2), 2});
}

/// The step on the host, and with `cuda` on a GPU. The cotangent is transformed in the other direction, with the same factor.
template <class T, class Cuda>
auto make_step(fourier_request how, Cuda cuda) {
  return custom_op<"fft">(
      host_code{how}, cuda, [](const auto& x) { return result_of<T, 3>{x}; },
      [how](const rows_of<T>& x, const rows_of<T>&, const rows_of<T>& ct) {
        static_cast<void>(x);
        return transform(ct, turned(how), location::current());
      },
      [how](const rows_of<T>&, const rows_of<T>&, const rows_of<T>& dx) {
        return transform(dx, how, location::current());
      },
      [how](const tensor<T, 4>& x) { return std::tuple{as_lanes(transform_lanes(x, how), x)}; });
}

/// The step by cuFFT, without scaling.
struct library_code {
  fourier_request how;

  template <class X, class Y>
  void operator()(const X& x, const Y& y, void* stream) const {
    const ir::foreign_array in[] = {host_code::array(x)}, out[] = {host_code::array(y)};
    engine::fourier_by_library(how, {in, 1}, {out, 1}, stream);
  }
};

/// Integers with a dtype's size: the type of a second result, the kernels' work memory, which derivatives ignore.
template <class T>
using word_of = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <class T>
using gpu_results = std::tuple<rows_of<T>, tensor<word_of<T>, 3>>;
template <class T>
gpu_results<T> transform_on_gpu(const rows_of<T>& x, const fourier_request& how, location at);

template <class T>
auto make_on_gpu(fourier_request how) {
  using work_of = tensor<word_of<T>, 3>;
  return custom_op<"fft">(
      host_code{how}, cuda_source{engine::fourier_text(how, dtype_of<T>), "sinter_fourier", 256},
      [](const auto& x) {
        return std::tuple{result_of<T, 3>{x}, result_of<word_of<T>, 3>{x}};
      },
      [how](const rows_of<T>&, const rows_of<T>&, const work_of&, const rows_of<T>& ct, const auto&...) {
        return transform(ct, turned(how), location::current());
      },
      [how](const rows_of<T>&, const rows_of<T>&, const work_of&, const rows_of<T>& dx) {
        return transform(dx, how, location::current());
      },
      [how](const tensor<T, 4>& x) {
        const auto both = transform_on_gpu(
            rows_of<T>(reshape(x, std::array<dim, 3>{x.size(0) * x.size(1), x.size(2), 2})), how, location::current());
        return std::tuple{as_lanes(std::get<0>(both), x), as_lanes(std::get<1>(both), x)};
      });
}

/// The op for a direction and a scale, made once.
template <class Make>
const auto& op_of(const fourier_request& how, Make make) {
  using op = decltype(make(how));
  static const op ops[] = {make({false, fourier_scale::none}),  make({false, fourier_scale::root}),
                           make({false, fourier_scale::whole}), make({true, fourier_scale::none}),
                           make({true, fourier_scale::root}),   make({true, fourier_scale::whole})};
  return ops[(how.inverse ? 3 : 0) + static_cast<int>(how.scale)];
}

template <class T>
gpu_results<T> transform_on_gpu(const rows_of<T>& x, const fourier_request& how, location at) {
  return op_of(how, [](fourier_request h) { return make_on_gpu<T>(h); }).call_at(at, x);
}

/// The length from which a row on a GPU is a matrix whose columns and rows are transformed; kernels use a block for each row.
inline constexpr std::int64_t long_row = 1024;

/// The largest factor of n that is at most its root, or 1.
inline std::int64_t side_of(std::int64_t n) {
  std::int64_t side = 1;
  for (std::int64_t f = 2; f * f <= n; ++f)
    if (n % f == 0) side = f;
  return side;
}

/// x (b, h, w, 2) with axes 1 and 2 exchanged, as (b·w, h, 2).
template <class T>
rows_of<T> turned_rows(const tensor<T, 4>& x) {
  const auto y = permute(x, axis<0, 2, 1, 3>);
  return reshape(y, std::array<dim, 3>{x.size(0) * x.size(2), x.size(1), 2});
}

/// Rows as a complex tensor (b, n), and back.
template <class T>
using signals_of = tensor<std::complex<T>, 2>;
template <class T>
signals_of<T> unwoven(const rows_of<T>& x) {
  return {tensor<T, 2>(squeeze<2>(slice<2>(x, 0, 1))), tensor<T, 2>(squeeze<2>(slice<2>(x, 1, 2)))};
}
template <class T>
rows_of<T> woven(const signals_of<T>& z) {
  return stack<2>(z.real(), z.imag());
}
/// exp(i·angle) of angles in double.
template <class T, class Angle>
auto turns_of(const Angle& angle) {
  return complex(cast<T>(cos(angle)), cast<T>(sin(angle)));
}

inline double scale_of(fourier_scale how, std::int64_t n) {
  const auto count = static_cast<double>(n);
  return how == fourier_scale::none ? 1 : how == fourier_scale::whole ? 1 / count : 1 / std::sqrt(count);
}

/// Transforms columns, multiplies by the twiddle factors, and transforms rows: (b, n, 2) with n = side·rest.
template <class T>
rows_of<T> transform_long(const rows_of<T>& x, const fourier_request& how, std::int64_t side, location at) {
  const dim b = x.size(0);
  const std::int64_t n = x.size(1), rest = n / side;
  const fourier_request plain{how.inverse, fourier_scale::none};
  const tensor<T, 4> in = reshape(x, std::array<dim, 4>{b, side, rest, 2});
  const auto columns = reshape(unwoven(transform(turned_rows<T>(in), plain, at)), std::array<dim, 3>{b, rest, side});
  // Products of places are integers, and angles are doubles, so the factors are accurate.
  const sinter::detail::index_leaf<std::int64_t, dims(2)> row({rest, side}, 0), column({rest, side}, 1);
  const double by = (how.inverse ? 2 : -2) * 3.141592653589793 / static_cast<double>(n);
  const tensor<std::complex<T>, 3> turned = columns * turns_of<T>(mul(cast<double>(row * column), by));
  const tensor<T, 4> again = stack<3>(turned.real(), turned.imag());
  const tensor<T, 4> y = reshape(transform(turned_rows<T>(again), plain, at), std::array<dim, 4>{b, side, rest, 2});
  const rows_of<T> out = reshape(permute(y, axis<0, 2, 1, 3>), std::array<dim, 3>{b, n, 2});
  return how.scale == fourier_scale::none ? out : rows_of<T>(out * static_cast<T>(scale_of(how.scale, n)));
}

/// A convolution with a chirp, by transforms of the next power of two from 2n - 1 on: for large primes.
template <class T>
rows_of<T> transform_chirp(const rows_of<T>& x, const fourier_request& how, location at) {
  const std::int64_t n = x.size(1);
  std::int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  const double by = (how.inverse ? 1 : -1) * 3.141592653589793 / static_cast<double>(n);
  const auto chirp_at = [&](const auto& k, double sign) {
    return turns_of<T>(mul(cast<double>(fmod(mul(k, k), 2 * n)), sign * by));
  };
  const sinter::detail::index_leaf<std::int64_t, dims(2)> k({1, n}, 1), place({1, m}, 1);
  const auto chirp = chirp_at(k, 1);
  const auto near = minimum(place, sub(m, place));
  const signals_of<T> other = where(lt(near, n), chirp_at(minimum(near, n), -1), T(0));
  const signals_of<T> z = unwoven(x) * chirp;
  const signals_of<T> padded = concat<1>(z, zeros_like(broadcast_to(slice<1>(other, 0, m - n), z.size(0), m - n)));
  const signals_of<T> product =
      unwoven(transform(woven<T>(padded), {}, at)) * unwoven(transform(woven<T>(other), {}, at));
  const signals_of<T> y = unwoven(transform(woven<T>(product), {true, fourier_scale::whole}, at));
  return woven<T>(slice<1>(y, 0, n) * chirp * static_cast<T>(scale_of(how.scale, n)));
}

/// Whether cuFFT is called, by the sizes in the traced call. A graph that calls it cannot be recorded.
inline bool is_for_library(dim rows, dim n) {
  const auto present = [](dim d) { return d.is_symbolic() ? sinter::detail::present_size(d) : d.bits; };
  const std::int64_t b = present(rows), length = present(n);
  constexpr std::int64_t least = 1 << 16, most = std::int64_t{1} << 31;
  return length > 0 && b < most && length < most / 2 && b * length >= least && engine::has_fourier_library();
}

/// x·scale(n).
template <class T>
rows_of<T> scaled(const rows_of<T>& x, fourier_scale how, dim n, location at) {
  if (how == fourier_scale::none) return x;
  if (!n.is_symbolic()) return mul(x, static_cast<T>(scale_of(how, n.bits)), at);
  const auto count = sinter::detail::size_value<T>(n, at);
  if (how == fourier_scale::root) return div(x, sqrt(count, at), at);
  return div(x, count, at);
}

/// On a GPU: transforms rows of a known length for which one block is too slow.
template <class T>
rows_of<T> transform_in_parts(const rows_of<T>& x, const fourier_request& how, location at) {
  const std::int64_t side = side_of(x.size(1));
  return side >= 8 ? transform_long(x, how, side, at) : transform_chirp(x, how, at);
}

template <class T>
rows_of<T> transform(const rows_of<T>& x, const fourier_request& how, location at) {
  if (!x.device(at).is_cuda())
    return op_of(how, [](fourier_request h) { return make_step<T>(h, none); }).call_at(at, x);
  const dim n = x.size(1);
  if (is_for_library(x.size(0), n)) {
    const auto y = op_of({how.inverse, fourier_scale::none}, [](fourier_request h) {
                     return make_step<T>(h, library_code{h});
                   }).call_at(at, x);
    return scaled<T>(y, how.scale, n, at);
  }
  if (n.is_symbolic() || n.bits <= long_row) return std::get<0>(transform_on_gpu(x, how, at));
  if (sinter::detail::tracing()) return transform_in_parts(x, how, at);
  return sinter::detail::call_alone(
      "fft", at, [&](const rows_of<T>& rows) { return transform_in_parts(rows, how, at); }, x);
}

}  // namespace steps
}  // namespace sinter::fft
