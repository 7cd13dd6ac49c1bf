// models/sampling_rules.hpp: the definitions for sampling.hpp; compiled once.
#pragma once

#include <cmath>
#include <string>

#include "sampling.hpp"

namespace sinter::models::detail {

SINTER_API void check_sampling(double temperature, std::int64_t top_k, double top_p, location at) {
  if (!(temperature >= 0) || std::isinf(temperature))
    fail(at.op, "the temperature is " + std::to_string(temperature) + "; give 0 or a positive number", at);
  if (top_k < 0) fail(at.op, "top_k is " + std::to_string(top_k) + "; give a number of tokens, or 0 for all", at);
  if (!(top_p > 0 && top_p <= 1))
    fail(at.op, "top_p is " + std::to_string(top_p) + "; give a probability above 0 and up to 1", at);
}

}  // namespace sinter::models::detail
