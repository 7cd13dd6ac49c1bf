// bench/gpu_time.hpp: the time of a call on a GPU.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include <sinter/sinter.hpp>

namespace bench {

/// Seconds of a call and what it leaves to do on the GPU.
inline double seconds_of(sinter::device gpu, const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  sinter::synchronize(gpu);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Median microseconds of a call: batches of at least 2 ms between two events, about `seconds` in all.
inline double median_us(sinter::device gpu, const std::function<void()>& f, double seconds = 1) {
  for (int i = 0; i < 3; ++i) f();
  const double one = seconds_of(gpu, f);
  const int inner = std::max(1, static_cast<int>(2e-3 / std::max(one, 1e-7)));
  const int batches = std::clamp(static_cast<int>(seconds / std::max(one * inner, 1e-6)), 5, 400);
  std::vector<double> times;
  sinter::event before(gpu, sinter::timed), after(gpu, sinter::timed);
  for (int b = 0; b < batches; ++b) {
    before.record();
    for (int i = 0; i < inner; ++i) f();
    after.record();
    after.synchronize();
    times.push_back(double(after.since(before)) * 1e3 / inner);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace bench
