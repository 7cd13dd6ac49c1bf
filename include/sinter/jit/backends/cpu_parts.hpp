// jit/backends/cpu_parts.hpp: opaque steps on the host.
#pragma once

#include "../../base/callback.hpp"
#include "../../run/host/control.hpp"
#include "parts.hpp"

namespace sinter::engine::detail {

/// A user's function, on the parent's buffers; unread results are in scratch memory.
class host_function final : public run::routine {
 public:
  host_function(std::shared_ptr<const ir::foreign> f, foreign_shapes shapes)
      : function_(std::move(f)), shapes_(std::move(shapes)) {
    run::layout at;
    for (std::size_t k = shapes_.operands(); k < shapes_.size(); ++k) unread_.push_back(at.add(shapes_.bytes(k)));
    bytes_ = at.bytes();
  }
  void run(void* const* buffers, char* scratch, const long*) const override {
    foreign_list all(shapes_.size());
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = shapes_.array(k, buffers[k]);
    for (std::size_t k = shapes_.operands(); k < all.size(); ++k)
      if (!all[k].data) all[k].data = scratch + unread_[k - shapes_.operands()];
    shapes_.call(function_->host, all);
  }
  std::int64_t scratch_bytes() const override { return bytes_; }
  const ir::foreign& function() const { return *function_; }
  std::size_t operands() const { return shapes_.size(); }

 private:
  std::shared_ptr<const ir::foreign> function_;
  foreign_shapes shapes_;
  series<std::int64_t> unread_;
  std::int64_t bytes_ = 0;
};

/// The routine of an opaque node, from its parts' steps.
inline std::shared_ptr<const run::routine> host_routine(const ir::graph& g, const ir::node& n,
                                                        series<run::sequence> parts, bound_sizes sizes,
                                                        series<char> in_place = {}) {
  const ir::opaque& step = *n.attr.step;
  switch (step.kind) {
    case ir::opaque_kind::cond:
      return make_on_heap<run::host_branch>(std::move(parts[0]), std::move(parts[1]), n.in.size(),
                                            bytes_of_results(step, sizes));
    case ir::opaque_kind::loop:
      return make_on_heap<run::host_loop>(std::move(parts[0]), shape_of_loop(g, n, sizes, std::move(in_place)));
    case ir::opaque_kind::while_loop:
      return make_on_heap<run::host_while>(std::move(parts[0]), std::move(parts[1]), bytes_of_carried(g, n, sizes),
                                           std::move(in_place), step.constants);
    case ir::opaque_kind::call:
      return make_on_heap<run::host_part>(std::move(parts[0]), n.in.size(), bytes_of_results(step, sizes));
    default:
      return make_on_heap<host_function>(step.function, foreign_shapes(g, n, sizes));
  }
}

}  // namespace sinter::engine::detail
