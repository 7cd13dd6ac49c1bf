// tests/mesh/findings.hpp: what ranks that are threads found wrong; doctest's checks are for one thread.
#pragma once

#include <cmath>
#include <mutex>
#include <string>
#include <vector>

namespace programs {

class findings {
 public:
  void expect(bool right, const std::string& what) {
    if (right) return;
    const std::lock_guard lock(mutex_);
    all_ += what + "; ";
  }
  void close(const std::vector<double>& a, const std::vector<double>& b, const std::string& what,
             double tolerance = 1e-12) {
    bool right = a.size() == b.size();
    for (std::size_t i = 0; right && i < a.size(); ++i)
      right = std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i]));
    expect(right, what);
  }
  std::string all() const { return all_; }

 private:
  std::mutex mutex_;
  std::string all_;
};

}  // namespace programs
