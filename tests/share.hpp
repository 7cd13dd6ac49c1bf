// tests/share.hpp: what CI takes in turns, a third at each commit.
#pragma once

#include <cstddef>
#include <cstdlib>

/// Whether part i of something is looked at now: one of three where SINTER_TEST_SHARE is a number, else each.
inline bool in_turn(std::size_t i) {
  const char* share = std::getenv("SINTER_TEST_SHARE");
  return !share || !*share || i % 3 == static_cast<std::size_t>(std::atoi(share)) % 3;
}
