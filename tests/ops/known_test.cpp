// What NumPy's, SciPy's and PyTorch's pages say of these functions, values and shapes; indices out of range, extents of nothing.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/linalg.hpp>
#include <sinter/sinter.hpp>
#include <sinter/windows.hpp>

#include "../close.hpp"

using namespace sinter;
using doubles = std::vector<double>;
using i1 = tensor<std::int64_t, 1>;
using i2 = tensor<std::int64_t, 2>;
using d1 = tensor<double, 1>;
using d2 = tensor<double, 2>;

namespace {

const double missing = std::nan(""), inf = INFINITY;

template <class X>
doubles numbers_of(const X& x) {
  const auto all = detail::evaluate(x).to_vector();
  return doubles(all.begin(), all.end());
}
template <class X>
doubles shape_of(const X& x) {
  doubles out;
  for (const dim e : x.shape()) out.push_back(static_cast<double>(e.bits));
  return out;
}
void check_known(int line, const doubles& got, const doubles& want) {
  CAPTURE(line);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    const bool equal = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    if (!equal) CHECK(std::fabs(got[i] - want[i]) <= 1e-6 * (1 + std::fabs(want[i])));
  }
}

}  // namespace

#define SINTER_KNOWN(X, ...) check_known(__LINE__, numbers_of(X), doubles{__VA_ARGS__});
#define SINTER_SHAPE(X, ...) check_known(__LINE__, shape_of(detail::evaluate(X)), doubles{__VA_ARGS__});
#define SINTER_REFUSED(X) CHECK_THROWS_AS(detail::evaluate(X), user_error);

// clang-format off
TEST_CASE("known values of orders") {
  SINTER_KNOWN(sort(d2{{1, 4}, {3, 1}}), 1, 4, 1, 3)
  SINTER_KNOWN(sort(d2{{1, 4}, {3, 1}}, axis<0>), 1, 1, 3, 4)
  SINTER_KNOWN(sort(tensor<std::int8_t, 1>{5, -128, 127, 0}), -128, 0, 5, 127)
  SINTER_KNOWN(sort(tensor<std::uint8_t, 1>{5, 255, 0}, {.descending = true}), 255, 5, 0)
  SINTER_KNOWN(sort(tensor<std::uint64_t, 1>{5, std::uint64_t(1) << 63, 0}), 0, 5, 9223372036854775808.0)
  SINTER_KNOWN(argsort(d1{3, 1, 3, missing, 1}), 1, 4, 0, 2, 3)
  SINTER_KNOWN(argsort(d1{3, 1, 3, missing, 1}, {.descending = true}), 0, 2, 1, 4, 3)
  SINTER_KNOWN(argsort(d1{0.0, -0.0, -inf, inf}), 2, 0, 1, 3)
  SINTER_KNOWN(topk(tensor<std::int32_t, 1>{1, 5, 3, 5}, 2).indices, 1, 3)
  SINTER_KNOWN(topk(d2{{1, 5, 3}, {9, 2, 4}}, 2).values, 5, 3, 9, 4)
  SINTER_SHAPE(topk(d2{{1, 5, 3}}, 0).values, 1, 0)
  SINTER_REFUSED(topk(d1{1, 2}, 3).values)
  SINTER_KNOWN(sort(slice<0>(d1{5, 4, 3, 2, 1, 0}, 0, to_end, 2)), 1, 3, 5)
  SINTER_KNOWN(sort(flip(d1{1, 2, 3})), 1, 2, 3)
  SINTER_SHAPE(sort(d2(zeros<double>(0, 3))), 0, 3)
  SINTER_SHAPE(argsort(d2(zeros<double>(3, 0))), 3, 0)
  const d1 five{11, 12, 13, 14, 15};
  SINTER_KNOWN(searchsorted(five, d1{13, -10, 20, 12, 13}), 2, 0, 5, 1, 2)
  SINTER_KNOWN(searchsorted(five, d1{13}, {.right = true}), 3)
  SINTER_KNOWN(searchsorted(five, d1{missing, inf, -inf}), 5, 5, 0)
  SINTER_KNOWN(searchsorted(d1(zeros<double>(0)), d1{1, 2}), 0, 0)
  SINTER_KNOWN(searchsorted(d2{{1, 2, 3}, {4, 5, 6}}, d2{{2, 4}, {4, 9}}), 1, 3, 0, 3)
  SINTER_KNOWN(unique(d1{3, 1, 2, 1, missing, missing, 3}), 1, 2, 3, missing)
  SINTER_KNOWN(unique(i1{5, 5}, {.size = 3, .fill = -1}), 5, -1, -1)
  SINTER_SHAPE(unique(d1(zeros<double>(0))), 0)
  SINTER_KNOWN(nonzero(d2{{3, 0}, {0, 4}})[1], 0, 1)
  SINTER_KNOWN(nonzero(tensor<bool, 1>{true, false, true})[0], 0, 2)
  const d2 m{{10, 7, 4}, {3, 2, 1}};
  SINTER_KNOWN(median(m), 3.5)
  SINTER_KNOWN(median(m, axis<0>), 6.5, 4.5, 2.5)
  SINTER_KNOWN(median(m, axis<-1>), 7, 2)
  SINTER_SHAPE(median(m, axis<1>, keepdims), 2, 1)
  SINTER_KNOWN(quantile(m, 0.5), 3.5)
  SINTER_KNOWN(percentile(m, 50, axis<1>), 7, 2)
  SINTER_KNOWN(quantile(m, {0.0, 1.0}, axis<0>), 3, 2, 1, 10, 7, 4)
  SINTER_REFUSED(median(d1(zeros<double>(0))))
  SINTER_KNOWN(median(d1{missing, 1, 2}), missing)
  SINTER_KNOWN(median(d1{inf, -inf}), missing)
  SINTER_KNOWN(median(d1{inf, inf}), inf)
  SINTER_KNOWN(histogram(d1{1, 2, 1}, d1{0, 1, 2, 3}).counts, 0, 2, 1)
  SINTER_KNOWN(histogram(d1{1, 2, 1, 4}, 4, 0, 4).counts, 0, 2, 1, 1)
  SINTER_KNOWN(histogram(d1{0, 1, 2, 3, 4, 5}, 5, 0, 5).counts, 1, 1, 1, 1, 2)
  SINTER_KNOWN(histogram(d1(zeros<double>(0)), 3, 0, 1).counts, 0, 0, 0)
  SINTER_KNOWN(bincount(i1{0, 1, 1, 3, 2, 1, 7}), 1, 3, 1, 1, 0, 0, 0, 1)
  SINTER_SHAPE(bincount(i1(zeros<std::int64_t>(0))), 0)
  SINTER_KNOWN(bincount(i1{0, 1, 1}, d1{0.5, 1, 2}), 0.5, 3)
  SINTER_KNOWN(segment_sum(d2{{1, 2}, {3, 4}, {5, 6}}, i1{1, -1, 1}, 2), 0, 0, 6, 8)
  SINTER_KNOWN(segment_max(d1{1, 2, 3}, i1{0, 0, 2}, 3), 2, -inf, 3)
  SINTER_KNOWN(segment_mean(d1{1, 2, 3}, i1{0, 0, 2}, 3), 1.5, missing, 3)
}

TEST_CASE("known values of rearrangements and small functions") {
  SINTER_KNOWN(diff(d1{1, 2, 4, 7, 0}), 1, 2, 3, -7)
  SINTER_KNOWN(diff(d1{1, 2, 4, 7, 0}, 2), 1, 1, -10)
  SINTER_SHAPE(diff(d1{1}), 0)
  SINTER_SHAPE(diff(d2(zeros<double>(2, 3)), 1, axis<-2>), 1, 3)
  SINTER_KNOWN(roll(arange<double>(5), 2), 3, 4, 0, 1, 2)
  SINTER_KNOWN(roll(arange<double>(5), -7), 2, 3, 4, 0, 1)
  SINTER_KNOWN(roll(d2{{0, 1}, {2, 3}}, 1), 3, 0, 1, 2)
  SINTER_KNOWN(roll(d2{{0, 1}, {2, 3}}, 1, axis<-1>), 1, 0, 3, 2)
  SINTER_SHAPE(roll(d1(zeros<double>(0)), 3), 0)
  SINTER_KNOWN(repeat(d2{{1, 2}, {3, 4}}, 2), 1, 1, 2, 2, 3, 3, 4, 4)
  SINTER_KNOWN(repeat(d2{{1, 2}, {3, 4}}, 2, axis<0>), 1, 2, 1, 2, 3, 4, 3, 4)
  SINTER_SHAPE(repeat(d1{1, 2}, 0), 0)
  SINTER_REFUSED(repeat(d1{1}, -1))
  SINTER_KNOWN(kron(d1{1, 10, 100}, d1{5, 6, 7}), 5, 6, 7, 50, 60, 70, 500, 600, 700)
  SINTER_SHAPE(kron(d2(zeros<double>(2, 3)), d2(zeros<double>(4, 5))), 8, 15)
  SINTER_KNOWN(rot90(d2{{1, 2}, {3, 4}}), 2, 4, 1, 3)
  SINTER_KNOWN(rot90<2>(d2{{1, 2}, {3, 4}}), 4, 3, 2, 1)
  SINTER_KNOWN(rot90<-1>(d2{{1, 2}, {3, 4}}), 3, 1, 4, 2)
  SINTER_KNOWN(diag(d1{1, 2}, 1), 0, 1, 0, 0, 0, 2, 0, 0, 0)
  SINTER_KNOWN(diag(d2{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}, -1), 3, 7)
  SINTER_SHAPE(diag(d2{{1, 2}}, 5), 0)
  SINTER_KNOWN(diagonal(reshape(arange<double>(8), 2, 2, 2)), 0, 6, 1, 7)
  SINTER_KNOWN(trace_of(d2{{1, 2}, {3, 4}}, 1), 2)
  SINTER_KNOWN(trace_of(tensor<std::int8_t, 2>{{100, 0}, {0, 100}}), -56)
  SINTER_KNOWN(cov(d2{{0, 1, 2}, {2, 1, 0}}), 1, -1, -1, 1)
  SINTER_KNOWN(corrcoef(d2{{0, 1, 2}, {2, 1, 0}}), 1, -1, -1, 1)
  SINTER_KNOWN(cov(d1{1, 2, 3, 4}), 5.0 / 3)
  { const auto [a, b] = meshgrid(d1{1, 2, 3}, d1{4, 5}); SINTER_SHAPE(a, 2, 3) SINTER_KNOWN(b, 4, 4, 4, 5, 5, 5) }
  SINTER_KNOWN(block_diag(d2{{1, 2}}, d2{{3}}), 1, 2, 0, 0, 0, 3)
  { const auto r = tril_indices(3, -1); SINTER_KNOWN(r[0], 1, 2, 2) SINTER_KNOWN(r[1], 0, 0, 1) }
  SINTER_KNOWN(moveaxis(d2{{1, 2, 3}, {4, 5, 6}}, axis<0>, axis<-1>), 1, 4, 2, 5, 3, 6)
  SINTER_KNOWN(outer(d2{{1, 2}}, d1{3, 4}), 3, 4, 6, 8)
  SINTER_KNOWN(nan_to_num(d1{missing, inf, -inf, 1}), 0, 1.7976931348623157e308, -1.7976931348623157e308, 1)
  SINTER_KNOWN(nan_to_num(d1{missing, inf}, 5.0), 5, 1.7976931348623157e308)
  SINTER_KNOWN(nansum(d1{1, missing}), 1)
  SINTER_KNOWN(nanmean(d2{{1, missing}, {3, 4}}, axis<0>), 2, 4)
  SINTER_KNOWN(nanmax(d1{missing, missing}), missing)
  SINTER_KNOWN(nanvar(d1{1, missing, 3}), 1)
  SINTER_KNOWN(logaddexp(d1{std::log(1e-50), -inf}, d1{std::log(2.5e-50), -inf}), -113.87649168, -inf)
  SINTER_KNOWN(hypot(d1{3e200}, d1{4e200}), 5e200)
  SINTER_KNOWN(sinc(d1{0, 1, 0.5}), 1, 0, 0.6366197723675814)
  SINTER_KNOWN(isclose(d1{1e10, 1e-7}, d1{1.00001e10, 1e-8}), 1, 0)
  SINTER_KNOWN(isclose(d1{missing, inf}, d1{missing, inf}), 0, 1)
  SINTER_KNOWN(popcount(tensor<std::int8_t, 1>{-1, 3}), 8, 2)
  SINTER_KNOWN(glu(d1{1, 2, 0, 0}), 0.5, 1)
  SINTER_REFUSED(glu(d1{1, 2, 3}))
  SINTER_KNOWN(logcumsumexp(d1{0, 0, -inf}), 0, std::log(2), std::log(2))
  SINTER_KNOWN(lgamma(d1{0.5, 3, -1}), 0.5723649429247, 0.6931471805599453, inf)
  SINTER_KNOWN(digamma(d1{1}), -0.5772156649015329)
  SINTER_KNOWN(erfinv(d1{0.5, 1, -1, 2}), 0.4769362762044699, inf, -inf, missing)
  SINTER_KNOWN(cumprod(i1{2, 3, 4}), 2, 6, 24)
  SINTER_KNOWN(cummax(d1{1, 3, 2, missing, 5}), 1, 3, 3, missing, missing)
  SINTER_KNOWN(selu(d1{-1, 1}), -1.1113307, 1.0507010)
  SINTER_KNOWN(relu6(d1{-1, 7, 3}), 0, 6, 3)
  SINTER_KNOWN(log_sigmoid(d1{0, -800}), -0.6931471805599453, -800)
}

TEST_CASE("known values of indices and places") {
  const d2 a{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}};
  SINTER_KNOWN(a[-1], 6, 7, 8)
  SINTER_KNOWN((a[i1{-1, 0}]), 6, 7, 8, 0, 1, 2)
  SINTER_KNOWN(take(a, i1{0, 2}, axis<-1>), 0, 2, 3, 5, 6, 8)
  SINTER_KNOWN(take(a, i2{{0}, {1}}, i1{0, -1}), 0, 2, 3, 5)
  SINTER_REFUSED(take(a, i1{3}))
  SINTER_REFUSED(take(a, i1{-4}))
  SINTER_KNOWN(take(a, i1{2, 1}, i1{-1, -2}), 8, 4)
  SINTER_SHAPE(take(a, i1(zeros<std::int64_t>(0))), 0, 3)
  SINTER_KNOWN(take(tensor<bool, 1>{true, false}, i1{1, 0}), 0, 1)
  SINTER_KNOWN(take_along_axis(a, i2{{-1}, {0}, {1}}), 2, 3, 7)
  SINTER_KNOWN(take_along_axis(a, argsort(a, {.descending = true})), 2, 1, 0, 5, 4, 3, 8, 7, 6)
  SINTER_KNOWN(gather_nd<2>(a, i2{{0, 0}, {2, -1}}), 0, 8)
  SINTER_KNOWN(compress(a, tensor<bool, 1>{false, true, true}, axis<1>), 1, 2, 4, 5, 7, 8)
  SINTER_KNOWN(compress(a, tensor<bool, 1>{false, true, true}, axis<0>, {.size = 1}), 3, 4, 5)
  SINTER_KNOWN(a.at(i2{{0}, {1}}, i1{0, 2}).set(-1), -1, 1, -1, -1, 4, -1, 6, 7, 8)
  SINTER_KNOWN(a.at(axis<-1>, -2, to_end).set(d1{9, 9}), 0, 9, 9, 3, 9, 9, 6, 9, 9)
  SINTER_KNOWN(a.at(1).add(10), 0, 1, 2, 13, 14, 15, 6, 7, 8)
  SINTER_KNOWN(a.at(i1{0, 0}).add(d2{{1, 1, 1}}), 2, 3, 4, 3, 4, 5, 6, 7, 8)
  SINTER_KNOWN(a.at(-1, -1).multiply(2), 0, 1, 2, 3, 4, 5, 6, 7, 16)
  SINTER_KNOWN(a.at(i1{0, 1}).min(1), 0, 1, 1, 1, 1, 1, 6, 7, 8)
  SINTER_REFUSED(a.at(3).set(0))
  SINTER_REFUSED(a.at(i1{5}).set(0))
  SINTER_KNOWN(a.at(axis<0>, 2, 9).set(0), 0, 1, 2, 3, 4, 5, 0, 0, 0)
  SINTER_KNOWN(a.at(axis<0>, 2, 1).set(7), 0, 1, 2, 3, 4, 5, 6, 7, 8)
  SINTER_KNOWN(dynamic_slice(a, i1{5, -5}, {2, 2}), 3, 4, 6, 7)
  SINTER_KNOWN(dynamic_update_slice(a, d2{{-1}}, i1{9, 9}), 0, 1, 2, 3, 4, 5, 6, 7, -1)
  SINTER_KNOWN(scatter_set(d1{1, 2, 3}, i1{0, 0}, d1{8, 9}), 9, 2, 3)
  SINTER_KNOWN(scatter_max(d1{1, 2, 3}, i1{-1, 0}, d1{8, 0}), 1, 2, 8)
  SINTER_KNOWN(slice<0>(arange<double>(10), -3, to_end), 7, 8, 9)
  SINTER_KNOWN(slice<0>(arange<double>(10), 8, 2, -3), 8, 5)
}

TEST_CASE("known values of windows") {
  const auto img = reshape(d2{{1, 2}, {3, 4}}, 1, 1, 2, 2);
  SINTER_KNOWN(interpolate(img, {.size = {4, 4}, .mode = resize::linear}), 1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4)
  SINTER_KNOWN(interpolate(img, {.size = {4, 4}, .mode = resize::linear, .align_corners = true}), 1, 4. / 3, 5. / 3, 2, 5. / 3, 2, 7. / 3, 8. / 3, 7. / 3, 8. / 3, 3, 10. / 3, 3, 10. / 3, 11. / 3, 4)
  SINTER_KNOWN(interpolate(img, {.size = {4, 4}, .mode = resize::nearest}), 1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4)
  SINTER_KNOWN(avg_pool1d(reshape(d1{1, 2, 3, 4, 5, 6, 7}, 1, 1, 7), 3, {.stride = 2}), 2, 4, 6)
  { const auto p = max_pool1d_with_indices(reshape(d1{1, 2, 3, 4, 5, 6, 7, 8}, 1, 1, 8), 2); SINTER_KNOWN(p.values, 2, 4, 6, 8) SINTER_KNOWN(p.indices, 1, 3, 5, 7) SINTER_KNOWN(max_unpool1d(p.values, p.indices, 2), 0, 2, 0, 4, 0, 6, 0, 8) }
  SINTER_KNOWN(adaptive_avg_pool1d(reshape(arange<double>(5), 1, 1, 5), 3), 0.5, 2, 3.5)
  SINTER_SHAPE(conv2d(tensor<double, 4>(zeros<double>(2, 4, 5, 5)), tensor<double, 4>(zeros<double>(6, 4, 3, 3)), {.stride = 2, .padding = 1}), 2, 6, 3, 3)
  SINTER_REFUSED(max_pool1d(reshape(d1{1, 2}, 1, 1, 2), 3))
  SINTER_REFUSED(conv1d(reshape(d1{1, 2}, 1, 1, 2), reshape(d1{1, 2, 3}, 1, 1, 3)))
  SINTER_KNOWN(conv1d(reshape(d1{1, 2, 3}, 1, 1, 3), reshape(d1{1, 10}, 1, 1, 2)), 21, 32)
  SINTER_KNOWN(conv_transpose1d(reshape(d1{1, 2}, 1, 1, 2), reshape(d1{1, 10}, 1, 1, 2), {.stride = 2}), 1, 10, 2, 20)
  SINTER_KNOWN(fold(unfold(img, 2, {.padding = 1}), {2, 2}, 2, {.padding = 1}), 4, 8, 12, 16)
}

TEST_CASE("known values of linear algebra") {
  SINTER_KNOWN(linalg::det(d2{{1, 2}, {3, 4}}), -2)
  SINTER_KNOWN(linalg::inv(d2{{1, 2}, {3, 4}}), -2, 1, 1.5, -0.5)
  SINTER_KNOWN(linalg::solve(d2{{1, 2}, {3, 5}}, d1{1, 2}), -1, 1)
  SINTER_KNOWN(linalg::lstsq(d2{{0, 1}, {1, 1}, {2, 1}, {3, 1}}, d1{-1, 0.2, 0.9, 2.1}), 1, -0.95)
  SINTER_KNOWN(linalg::matrix_power(d2{{0, 1}, {-1, 0}}, 3), 0, -1, 1, 0)
  SINTER_KNOWN(linalg::matrix_power(d2{{0, 1}, {-1, 0}}, -3), 0, 1, -1, 0)
  SINTER_KNOWN(linalg::slogdet(d2{{1, 2}, {3, 4}}).first, -1)
  SINTER_KNOWN(linalg::slogdet(d2{{1, 2}, {3, 4}}).second, std::log(2))
  SINTER_KNOWN(linalg::logdet(d2{{4, 1}, {2, 3}}), std::log(10))
  SINTER_KNOWN(linalg::logdet(d2{{1, 2}, {3, 4}}), NAN)
  SINTER_KNOWN(linalg::expm(d2{{0, 0}, {0, 0}}), 1, 0, 0, 1)
  SINTER_KNOWN(linalg::eigh(d2{{1, -2}, {-2, 5}}).first, 0.17157288, 5.82842712)
  SINTER_KNOWN(linalg::matrix_norm(d2{{-4, -3, -2}, {-1, 0, 1}, {2, 3, 4}}), 7.745966692414834)
  SINTER_KNOWN(linalg::matrix_norm<linalg::nuc>(d2{{-4, -3, -2}, {-1, 0, 1}, {2, 3, 4}}), 9.797958971132712)
  SINTER_KNOWN(linalg::matrix_norm<linalg::one>(d2{{-4, -3, -2}, {-1, 0, 1}, {2, 3, 4}}), 7)
  SINTER_KNOWN(linalg::matrix_norm<linalg::inf>(d2{{-4, -3, -2}, {-1, 0, 1}, {2, 3, 4}}), 9)
  SINTER_KNOWN(linalg::cholesky(d2{{4, 2}, {2, 2}}), 2, 0, 1, 1)
  SINTER_KNOWN(linalg::pinv(d2{{0, 0}, {0, 0}}), 0, 0, 0, 0)
  SINTER_SHAPE(linalg::pinv(d2(zeros<double>(0, 3))), 3, 0)
  SINTER_KNOWN(linalg::det(d2(zeros<double>(0, 0))), 1)
  SINTER_KNOWN(linalg::det(d2{{7}}), 7)
  SINTER_SHAPE(linalg::solve(d2(zeros<double>(0, 0)), d2(zeros<double>(0, 2))), 0, 2)
  SINTER_REFUSED(linalg::det(d2(zeros<double>(2, 3))))
}
// clang-format on

#undef SINTER_KNOWN
#undef SINTER_SHAPE
#undef SINTER_REFUSED
