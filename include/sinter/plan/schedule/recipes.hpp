// plan/schedule/recipes.hpp: all recipes, in the order in which kernels are offered to them.
#pragma once

#include "recipes/attention.hpp"
#include "recipes/attention_back.hpp"
#include "recipes/cpu_product.hpp"
#include "recipes/gpu_product.hpp"
#include "recipes/rows.hpp"

namespace sinter::engine::plan::schedules {

namespace detail {
inline constexpr const recipe* all_recipes[] = {&attention, &attention_back, &cpu_product, &gpu_product, &rows};
}

inline std::span<const recipe* const> recipes() { return detail::all_recipes; }

/// The first recipe that takes a kernel whose product is a sum (as_reduction()); null if none does.
inline const recipe* recipe_for(const kernel& k, const facts& f) {
  for (const recipe* r : recipes())
    if (r->takes(k, f)) return r;
  return nullptr;
}

}  // namespace sinter::engine::plan::schedules
