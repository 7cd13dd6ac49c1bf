// bench/models/heat.cpp: ten steps of heat in a plate whose border is cold, by slices of a padded array.
#include "layers.hpp"

namespace models {
namespace {

matrix step(const matrix& u) {
  const matrix padded = pad(u, {{1, 1}, {1, 1}});
  const auto at = [&](int i, int j) {
    return slice<1>(slice<0>(padded, 1 + i, 1 + i + u.size(0)), 1 + j, 1 + j + u.size(1));
  };
  return u + 0.2f * (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) - 4.f * u);
}

matrix ten_steps(matrix u) {
  for (int i = 0; i < 10; ++i) u = step(u);
  return u;
}

}  // namespace

std::vector<row> heat_rows() {
  return {{"heat_10", false, 1e-5f, [](const settings& s) {
             const int n = s.small ? 24 : 2048;
             return called(s, "heat", &ten_steps, normal<float>(make_key(20), n, n));
           }}};
}

}  // namespace models
