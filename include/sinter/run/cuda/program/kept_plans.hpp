// run/cuda/program/kept_plans.hpp: the plans of a library's calls on one GPU, made once and kept.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "../../../base/series.hpp"
#include "../device/memory.hpp"

namespace sinter::engine::run::cuda::detail {

/// A library's handle on one GPU, and its plans: `Plan` has what, alignment, where and handle.
template <class Plan>
struct kept_plans {
  std::mutex mutex;
  void* handle = nullptr;
  series<std::unique_ptr<Plan>> plans;
  std::mutex tuning;
  series<std::unique_ptr<Plan>> tuned;
};

/// The plan for `what` at this alignment; `make` completes a new one. Throws system_error if the library `name` cannot start.
template <class Plan, class What, class Table, class Make>
Plan& kept_plan(kept_plans<Plan>& here, const What& what, int alignment, gpu& g, const Table& call, const char* name,
                Make&& make) {
  const std::lock_guard lock(here.mutex);
  for (const auto& p : here.plans)
    if (p->alignment == alignment && p->what == what) return *p;
  const context_scope scope(g);
  if (here.handle == nullptr)
    if (const int r = call.create(&here.handle); r != 0)
      throw system_error(std::string("[cuda] ") + name + " could not start: " + call.words(r));
  auto p = std::make_unique<Plan>();
  p->what = what;
  p->alignment = alignment;
  p->where = &g;
  p->handle = here.handle;
  make(*p);
  here.plans.push_back(std::move(p));
  return *here.plans.back();
}

}  // namespace sinter::engine::run::cuda::detail
