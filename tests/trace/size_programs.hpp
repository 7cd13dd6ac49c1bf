// Programs of two open extents H and W whose shapes hold quotients, remainders and products of them.
#pragma once

#include <string>

#include <sinter/sinter.hpp>
#include <sinter/windows.hpp>

namespace size_programs {

using namespace sinter;
using matrix = tensor<float, 2>;

/// x as an image.
inline auto image(const matrix& x) { return expand_dims<0>(expand_dims<0>(x)); }
inline matrix cropped(const matrix& x, const dim& h, const dim& w) { return slice<1>(slice<0>(x, 0, h), 0, w); }

/// Ten sizes of both, none of which are multiples of one another throughout.
inline constexpr std::pair<int, int> sizes[] = {{9, 13},  {10, 11}, {16, 12}, {17, 31}, {33, 15},
                                                {40, 21}, {23, 45}, {50, 14}, {11, 64}, {29, 28}};

/// each(name, program) for programs that one specialisation answers at all sizes.
template <class Each>
void windows(Each each) {
  each("tiles of what they divide", [](matrix x) {
    const dim h = x.size(0) / 4, w = x.size(1) / 4;
    return (reshape(cropped(x, h * 4, w * 4), h, 4, w, 4) * 2.f).eval();
  });
  each("tiles as rows", [](matrix x) {
    const dim h = x.size(0) / 4 * 4, w = x.size(1) / 4 * 4;
    return (reshape(permute<0, 2, 1, 3>(reshape(cropped(x, h, w), h / 4, 4, w / 4, 4)), -1, 16) * 2.f).eval();
  });
  each("less a remainder", [](matrix x) {
    const dim h = x.size(0) - x.size(0) % 3, w = x.size(1) - x.size(1) % 5;
    return reshape(cropped(x, h, w), h / 3 * (w / 5), 15) + 1.f;
  });
  each("padded by a remainder", [](matrix x) {
    const matrix p = pad(x, {{0, (4 - x.size(0) % 4) % 4}, {0, (4 - x.size(1) % 4) % 4}});
    return (reshape(p, p.size(0) / 4, 4, p.size(1) / 4, 4) * 2.f).eval();
  });
  each("attention in windows, rolled", [](matrix x) {
    const dim h = (x.size(0) + 6) / 7, w = (x.size(1) + 6) / 7;
    const matrix p = roll(pad(x, {{0, h * 7 - x.size(0)}, {0, w * 7 - x.size(1)}}), -3, axis<0>);
    const auto y = softmax(reshape(permute<0, 2, 1, 3>(reshape(p, h, 7, w, 7)), -1, 49));
    const matrix z = reshape(permute<0, 2, 1, 3>(reshape(y, h, w, 7, 7)), h * 7, w * 7);
    return (cropped(roll(z, 3, axis<0>), x.size(0), x.size(1)) + x).eval();
  });
  each("halves of halves", [](matrix x) {
    const dim h = x.size(0) / 2 / 2;
    return reshape(slice<0>(x, 0, x.size(0) / 4 * 4), h, 4, -1) + 1.f;
  });
  each("two pools", [](matrix x) {
    const auto y = avg_pool2d(avg_pool2d(image(x), 2), 2);
    return reshape(y, -1) + 1.f;
  });
  each("three pools with padding", [](matrix x) {
    const pool_options padded{.stride = 2, .padding = 1};
    const auto y = max_pool2d(max_pool2d(max_pool2d(image(x), 2, padded), 3, padded), 2, {.stride = 1});
    return reshape(y, y.size(2) * y.size(3)) + 1.f;
  });
  each("a pool whose last window hangs over",
       [](matrix x) { return reshape(max_pool2d(image(x), 2, {.stride = 2, .ceil_mode = true}), -1) + 1.f; });
  each("a convolution of ceil(n / 2)", [](matrix x) {
    const auto w = full<float>(0.5f, 3, 1, 3, 3);
    const auto y = conv<"nchw,oihw->nchw">(image(x), w, {.stride = 2, .padding = same});
    return (transpose(reshape(y, 3, -1)) + 1.f).eval();
  });
  each("unfolded and folded", [](matrix x) {
    const auto y = unfold(image(x), 2, {.stride = 2});
    return reshape(fold(y, {x.size(0), x.size(1)}, 2, {.stride = 2}), -1) + 1.f;
  });
}

template <class Each>
void ranges(Each each) {
  each("every second of the upper half", [](matrix x) { return (slice<0>(x, x.size(0) / 2, to_end, 2) * 2.f).eval(); });
  each("every second before a half from the end",
       [](matrix x) { return (slice<0>(x, 0, x.size(0) - x.size(0) / 2, 2) * 2.f).eval(); });
  each("every second of the middle third",
       [](matrix x) { return (slice<0>(x, x.size(0) / 3, 2 * x.size(0) / 3, 2) * 2.f).eval(); });
  each("every third back", [](matrix x) { return (slice<0>(x, to_end, -1000, -3) * 2.f).eval(); });
  each("even rows, then odd ones",
       [](matrix x) { return (concat(slice<0>(x, 0, to_end, 2), slice<0>(x, 1, to_end, 2)) + x).eval(); });
  each("halves exchanged", [](matrix x) {
    const dim n = (x.size(0) + 1) / 2;
    return (concat(slice<0>(x, n, to_end), slice<0>(x, 0, n)) + x).eval();
  });
  each("parts as array_split has them", [](matrix x) {
    const dim n = x.size(0), a = (n + 2) / 3, b = a + (n + 1) / 3;
    return (concat(slice<0>(x, b, to_end), slice<0>(x, 0, a), slice<0>(x, a, b)) + x).eval();
  });
  each("sums of parts that are the whole", [](matrix x) {
    const dim n = x.size(0);
    return (zeros<float>((n + 2) / 3 + (n + 1) / 3 + n / 3, x.size(1)) + x).eval();
  });
  each("one size in two forms", [](matrix x) {
    const dim n = x.size(0), all = n + (4 - n % 4) % 4;
    return (pad(x, {{0, all - n}, {0, 0}}) + zeros<float>((n + 3) / 4 * 4, x.size(1))).eval();
  });
  each("interleaved", [](matrix x) {
    const dim n = x.size(0) / 2;
    return reshape(stack<1>(slice<0>(x, 0, n), slice<0>(x, n, 2 * n)), 2 * n, -1) + 1.f;
  });
  each("rows of another length", [](matrix x) {
    const dim n = x.size(0) * x.size(1), k = (x.size(0) + 1) / 2;
    return (reshape(slice<0>(flatten(x), 0, n / k * k), n / k, k) * 2.f).eval();
  });
  each("a product of sums", [](matrix x) {
    const matrix p = pad(x, {{1, 0}, {2, 1}});
    return reshape(flatten(p), x.size(0) + 1, -1) + 1.f;
  });
  each("in chunks of four", [](matrix x) {
    const dim c = (x.size(0) + 3) / 4;
    const auto p = reshape(pad(x, {{0, c * 4 - x.size(0)}, {0, 0}}), c, 4, x.size(1));
    return slice<0>(reshape(cumsum<1>(p), c * 4, x.size(1)), 0, x.size(0)) + 1.f;
  });
  each("after a read", [](matrix x) {
    if (sum(x).item() > 1e9f) x = x * 2.f;
    const dim h = x.size(0) / 4, w = x.size(1) / 4;
    return (reshape(cropped(x, h * 4, w * 4), h * w, 16) * 2.f).eval();
  });
  each("the gradient of tiles", [](matrix x) {
    return grad([](matrix a) {
      const dim h = a.size(0) / 4, w = a.size(1) / 4;
      const auto y = max(reshape(cropped(a, h * 4, w * 4), h, 4, w, 4), axis<1, 3>);
      return sum(y * y);
    })(x);
  });
  each("lanes", [](matrix x) {
    return vmap([](tensor<float, 1> row) {
      const dim n = row.size(0) / 2;
      return reshape(slice<0>(row, 0, 2 * n), n, 2) * 2.f;
    })(x);
  });
}

template <class Each>
void resizes(Each each) {
  const auto to = [&](const std::string& name, const resize_options& o) {
    each(name, [o](matrix x) { return interpolate(image(x), o); });
  };
  to("twice as large", {.scale = {2}, .mode = resize::linear});
  to("a tenth larger", {.scale = {1.1}});
  to("a third", {.scale = {1.0 / 3}, .mode = resize::nearest_exact});
  to("cubic between corners", {.scale = {1.5}, .mode = resize::cubic, .align_corners = true});
  to("half, smoothed", {.scale = {0.5}, .mode = resize::linear, .antialias = true});
  to("to a size", {.size = {5, 9}, .mode = resize::linear});
  to("to a size between corners", {.size = {5, 1}, .mode = resize::linear, .align_corners = true});
  to("nearest of a size", {.size = {5, 9}});
  each("the gradient of a resize", [](matrix x) {
    return grad([](matrix a) {
      const auto y = interpolate(image(a), {.scale = {2}, .mode = resize::linear});
      return sum(y * y);
    })(x);
  });
  each("pooled and resized back", [](matrix x) {
    const auto y = interpolate(max_pool2d(image(x), 2), {.scale = {2}});
    return (pad(y, {{0, 0}, {0, 0}, {0, x.size(0) - y.size(2)}, {0, x.size(1) - y.size(3)}}) + image(x)).eval();
  });
}

}  // namespace size_programs
