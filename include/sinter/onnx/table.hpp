// onnx/table.hpp: the rows of all operators, found by name.
#pragma once

#include <algorithm>

#include "control_rows.hpp"
#include "count_rows.hpp"
#include "fourier_rows.hpp"
#include "nn_rows.hpp"
#include "random_rows.hpp"
#include "region_rows.hpp"
#include "sample_rows.hpp"
#include "svm_rows.hpp"

namespace sinter::onnx {

/// Every row, by domain and name, then by version.
inline const std::vector<const row*>& all_rows() {
  static const std::vector<const row*> all = [] {
    std::vector<const row*> list;
    const auto take = [&](std::span<const row> some) {
      for (const row& r : some) list.push_back(&r);
    };
    take(rows::elementwise);
    take(rows::shapes);
    take(rows::reductions);
    take(rows::gathers);
    take(rows::networks);
    take(rows::windows);
    take(rows::resizes);
    take(rows::samples);
    take(rows::fouriers);
    take(rows::recurrents);
    take(rows::quantised);
    take(rows::controls);
    take(rows::flows);
    take(rows::regions);
    take(rows::randoms);
    take(rows::counts);
    take(rows::fused);
    take(rows::heads);
    take(rows::packed);
    take(rows::columns);
    take(rows::trees);
    take(rows::vector_machines);
    std::stable_sort(list.begin(), list.end(), [](const row* a, const row* b) {
      return std::tuple(std::string_view(a->domain), std::string_view(a->name), a->since) <
             std::tuple(std::string_view(b->domain), std::string_view(b->name), b->since);
    });
    return list;
  }();
  return all;
}

inline std::span<const row* const> rows_of(std::string_view domain, std::string_view name) {
  const auto& all = all_rows();
  const auto key = std::pair(domain, name);
  const auto of = [](const row* r) { return std::pair(std::string_view(r->domain), std::string_view(r->name)); };
  const auto first =
      std::lower_bound(all.begin(), all.end(), key, [&](const row* r, const auto& k) { return of(r) < k; });
  auto last = first;
  while (last != all.end() && of(*last) == key) ++last;
  return {all.data() + (first - all.begin()), static_cast<std::size_t>(last - first)};
}

}  // namespace sinter::onnx
