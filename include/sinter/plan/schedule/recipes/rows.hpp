// plan/schedule/recipes/rows.hpp: reductions along the last axis: lanes of a vector on a CPU, the threads of a block on a GPU.
#pragma once

#include "../recipe.hpp"

namespace sinter::engine::plan::schedules {

namespace detail {

inline bool takes_rows(const kernel& k, const facts&) {
  if (k.axes.empty()) return false;
  const int last = static_cast<int>(k.axes.size()) - 1;
  bool any = false;
  for (std::size_t v = 0; v < k.body.size(); ++v) {
    const auto& i = k.body[v];
    if (i.kind == kind::product) return false;
    if (i.kind != kind::reduce) continue;
    any = true;
    if (i.over.size() != 1 || i.over[0] != last) return false;
  }
  return any;
}

/// Options: the threads of a row (GPU), or its lanes (CPU).
inline schedule make_rows(const kernel& k, const facts& f, int option) {
  const int row = static_cast<int>(k.axes.size()) - 1;
  steps s("rows", k);
  const std::int64_t lanes = option == 0 ? 4 : 8;
  series<int> order;
  for (int a = 0; a < row; ++a) order.push_back(a);
  s.bind(order, loops::bind::grid);
  if (f.threads == 0) {
    const int vector = s.split(row, lanes, loops::tail::guard);
    s.bind({vector}, loops::bind::lanes);
    append(order, {row, vector});
  } else {
    const int thread = s.split(row, lanes * f.threads, loops::tail::guard),
              vector = s.split(thread, lanes, loops::tail::guard);
    s.bind({thread}, loops::bind::threads);
    s.bind({vector}, loops::bind::unrolled);
    append(order, {row, thread, vector});
    for (std::size_t v = 0; v < k.body.size(); ++v)
      if (k.body[v].kind == kind::reduce) s.add(share{static_cast<int>(v), thread, share::way::block});
  }
  s.add(reorder{order});
  return s.done();
}

}  // namespace detail

inline constexpr recipe rows{"rows", detail::takes_rows, 2, detail::make_rows};

}  // namespace sinter::engine::plan::schedules
