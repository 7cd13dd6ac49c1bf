// ravel: a tree's floating tensors as one vector, and back.
#include <optional>
#include <string>

#include "../../texts.hpp"
#include "derivatives.hpp"

using namespace derivatives;
using texts::contains;
using texts::error_of;

namespace ravelled {

struct params {
  tensor<double, dims{2, 3}> w;
  std::vector<vec> b;
  std::optional<real> scale;
  tensor<std::int64_t, 1> steps;
  int width = 2;
};

}  // namespace ravelled

TEST_CASE("a tree as a vector and back, outside of compile and in it") {
  using ravelled::params;
  const params p{
      tensor<double, dims{2, 3}>{{1, 2, 3}, {4, 5, 6}}, {vec{7, 8}, vec{9}}, real(10.0), tensor<std::int64_t, 1>{3}, 4};
  const auto [v, back] = ravel(p);
  CHECK(v.to_vector() == doubles{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const auto check = [](const params& q) {
    CHECK(elements_of(q) == doubles{2, 4, 6, 8, 10, 12, 14, 16, 18, 20});
    CHECK(q.steps.to_vector() == std::vector<std::int64_t>{3});
    CHECK(q.width == 4);
  };
  check(back(v * 2.0));
  const auto doubled = [](const params& p) {
    const auto [v, back] = ravel(p);
    return back(v * 2.0);
  };
  for (const auto& q : everywhere(doubled, p)) check(q);
  // A Newton step on the vector of a tree.
  const auto loss = [back = back](const vec& v) {
    const params q = back(v);
    return sum(q.w * q.w) * 0.5 + sum(exp(q.b[0])) + sum(q.b[1] * q.b[1]) + *q.scale * *q.scale;
  };
  check_derivatives([loss](const vec& v) { return real(loss(v)); }, vec(v * 0.1));
  CHECK(contains(error_of([back = back] { back(vec{1, 2}); }), "[ravel] a vector of 2 elements for a tree of 10"));
}
