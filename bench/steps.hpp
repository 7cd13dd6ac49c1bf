// bench/steps.hpp: the steps of a report as JSON, for bench/kernels.py.
#pragma once

#include <cstddef>
#include <cstdio>

#include <sinter/sinter.hpp>

namespace bench {

/// Prints how many calls there were, and a line for each step of a call.
inline void print_steps(const sinter::report& r, int calls) {
  std::printf("{\"calls\": %d}\n", calls);
  for (std::size_t k = 0; k < r.steps.size(); ++k) {
    const auto& step = r.steps[k];
    std::printf("{\"step\": %zu, \"name\": \"%s\", \"read\": %lld, \"written\": %lld, \"flops\": %lld}\n", k,
                step.name.c_str(), static_cast<long long>(step.read), static_cast<long long>(step.written),
                static_cast<long long>(step.flops));
  }
}

}  // namespace bench
