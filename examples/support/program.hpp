// examples/support/program.hpp: what the programs share: options of the command line, main, a clock, words, results beside what is known.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <sinter/data.hpp>
#include <sinter/sinter.hpp>

#include "curve.hpp"

#if !defined(SINTER_EXAMPLE_DATA)
#define SINTER_EXAMPLE_DATA "examples/data"
#endif

/// `--name value` of the names in a usage text, "[--epochs N] [--text FILE]".
class arguments {
 public:
  arguments(int argc, char** argv, const std::string& usage) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      if (i + 1 == argc || usage.find("[" + name + " ") == usage.npos)
        throw std::runtime_error("usage: " + std::string(argv[0]) + " " + usage);
      given_[name] = argv[i + 1];
    }
  }

  bool has(const std::string& name) const { return given_.count("--" + name) != 0; }
  /// What stands behind --name, else `otherwise`.
  std::string operator()(const std::string& name, const char* otherwise) const {
    const auto at = given_.find("--" + name);
    return at == given_.end() ? otherwise : at->second;
  }
  /// --steps, or --epochs.
  int steps(int otherwise) const { return (*this)("steps", (*this)("epochs", otherwise)); }
  /// A number above 0.
  template <class T>
  requires std::is_arithmetic_v<T> T operator()(const std::string& name, T otherwise) const {
    const double x = std::atof((*this)(name, "0").c_str());
    if (has(name) && !(x > 0)) throw std::runtime_error("--" + name + " takes a number above 0");
    return has(name) ? static_cast<T>(x) : otherwise;
  }

 private:
  std::map<std::string, std::string> given_;
};

/// main: `f(arguments)` on the device of --device, what main returns, or whether all is right; an error is a line.
template <class F>
int run_program(int argc, char** argv, const std::string& usage, F f) {
  try {
    const arguments given(argc, argv, usage + " [--epochs N] [--svg FILE] [--expect NUMBER] [--device cpu|cuda]");
    const std::string device = given("device", "");
    if (device.rfind("cuda", 0) == 0)
      sinter::set_default_device(sinter::device::cuda(device.size() > 5 ? std::atoi(&device[5]) : 0));
    else if (device == "cpu") sinter::set_default_device(sinter::device::cpu());
    else if (!device.empty()) throw std::runtime_error("--device is cpu or cuda");
    if constexpr (std::is_same_v<decltype(f(given)), bool>) return f(given) ? 0 : 1;
    else return f(given);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 2;
  }
}

/// printf into a string.
template <class... T>
std::string words(const char* format, T... x) {
  char text[256];
  std::snprintf(text, sizeof text, format, x...);
  return text;
}

class stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Losses that the device may still be computing; a picture of them.
class loss_curve {
 public:
  void add(const sinter::tensor<float, 0>& loss) { losses_.push_back(loss); }
  std::size_t size() const { return losses_.size(); }
  /// The mean of the last `n`, or of those that there are.
  double last(std::size_t n = 1) const {
    double sum = 0;
    const std::size_t count = std::min(n, losses_.size());
    for (std::size_t i = losses_.size() - count; i < losses_.size(); ++i) sum += losses_[i].item();
    return sum / static_cast<double>(std::max<std::size_t>(count, 1));
  }
  void write(const std::string& path, const std::string& title) const {
    std::vector<double> numbers;
    for (const auto& l : losses_) numbers.push_back(l.item());
    write_curve(path, title, "step", numbers);
    std::printf("loss curve  %s\n", path.c_str());
  }

 private:
  std::vector<sinter::tensor<float, 0>> losses_;
};

/// What main returns: 1, told, when a result is not at least what --expect says.
inline int verdict(const arguments& given, double result) {
  const double wanted = std::atof(given("expect", "-1e30").c_str());
  if (result >= wanted) return 0;
  std::fprintf(stderr, "expected %g or more, not %g\n", wanted, result);
  return 1;
}

/// Prints a result beside what it should be; whether they are at most `tolerance` apart.
inline bool agrees(const char* what, double found, double known, double tolerance) {
  const bool right = std::abs(found - known) <= tolerance;
  std::printf("%-38s %12.6g   known %12.6g   within %.1e%s\n", what, found, known, tolerance, right ? "" : "   WRONG");
  return right;
}
/// Prints a result, or an error, that should be small.
inline bool below(const char* what, double found, double limit) {
  const bool right = found <= limit;
  std::printf("%-38s %12.6g   at most %10.3g%s\n", what, found, limit, right ? "" : "   WRONG");
  return right;
}
