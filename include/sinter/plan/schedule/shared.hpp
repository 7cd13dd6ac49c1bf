// plan/schedule/shared.hpp: independent pointwise kernels in one launch: which share a body, and the blocks of each.
#pragma once

#include <span>

#include "../kernel/common.hpp"
#include "blocks.hpp"

namespace sinter::engine::plan {

/// A body of a shared launch, and its kernels.
struct shared_body {
  series<std::size_t> members;  ///< by number in the launch
  common_kernel common;         ///< for a single member, the kernel itself
  pointwise_shape shape;
  series<dim> blocks;  ///< of each member

  bool in_table() const { return members.size() > 1; }
};

/// The threads of a shared launch's blocks.
inline constexpr int shared_threads = 256;

namespace detail {

/// Chooses the shape of a body.
inline void shape_body(shared_body& b, std::span<const kernel* const> kernels, const target& t) {
  series<const kernel*> members;
  std::int64_t count = 0;
  for (const auto k : b.members) {
    members.push_back(kernels[k]);
    count += traced_elements(*kernels[k]);
  }
  if (!b.in_table()) {
    b.common.code = *members[0];
    b.shape = pointwise_of(b.common.code, t, shared_threads);
    b.blocks = {blocks_for(b.common.code, b.shape.blocks)};
    return;
  }
  b.common = in_common({members.data(), members.size()});
  b.shape = pointwise_of(b.common.code, t, shared_threads, count);
  for (std::size_t m = 0; m < members.size(); ++m) {
    dim blocks = b.shape.blocks;
    for (std::size_t n = 0; n < b.common.numbers.size(); ++n)
      blocks = ir::substituted(blocks, b.common.first + static_cast<int>(n), b.common.numbers[n][m]);
    b.blocks.push_back(blocks_for(*members[m], blocks));
  }
}

}  // namespace detail

/// The bodies of a shared launch, with their shapes; bodies of a single kernel come first.
SINTER_API series<shared_body> schedule_shared(std::span<const kernel* const> kernels, const target& t) {
  sorted_map<std::string, series<std::size_t>> alike;
  series<std::string> form;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    form.push_back(form_of(*kernels[k]));
    alike[form.back()].push_back(k);
  }
  series<shared_body> out;
  for (const bool together : {false, true})
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const auto& members = alike[form[k]];
      if (together != (members.size() >= min_alike) || (together && members[0] != k)) continue;
      out.emplace_back();
      if (together) out.back().members = members;
      else out.back().members = {k};
      detail::shape_body(out.back(), kernels, t);
    }
  return out;
}

}  // namespace sinter::engine::plan
