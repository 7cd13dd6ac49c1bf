// examples/support/checked.hpp: what programs with a known answer share: a command line, a device, results beside what is known.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include <sinter/sinter.hpp>

struct settings {
  int steps = 1;
  std::string svg = {};
  std::string data = {};  ///< the file that is read, where there is one
  int size = 0;           ///< of a grid, where there is one
};

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

/// Runs body(settings) with what the command line says, and ends with 0 where it returns true:
/// --device cpu|cuda|cuda:1, --steps N or --epochs N, --svg FILE, --data FILE, --size N.
template <class Body>
int run_example(int argc, char** argv, settings s, Body&& body) {
  const std::string program = std::string(argv[0]).substr(std::string(argv[0]).find_last_of('/') + 1);
  try {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
      const bool cuda = value.rfind("cuda", 0) == 0;
      if ((name == "--steps" || name == "--epochs") && std::atoi(value.c_str()) > 0) s.steps = std::atoi(value.c_str());
      else if (name == "--size" && s.size > 0 && std::atoi(value.c_str()) > 0) s.size = std::atoi(value.c_str());
      else if (name == "--svg" && !value.empty()) s.svg = value;
      else if (name == "--data" && !value.empty() && !s.data.empty()) s.data = value;
      else if (name == "--device" && (value == "cpu" || cuda))
        sinter::set_default_device(cuda ? sinter::device::cuda(value.size() > 5 ? std::atoi(&value[5]) : 0)
                                        : sinter::device::cpu());
      else
        throw std::runtime_error("usage: " + program + " [--device cpu|cuda] [--steps N] [--svg FILE]" +
                                 (s.data.empty() ? "" : " [--data FILE]") + (s.size > 0 ? " [--size N]" : ""));
    }
    const bool right = body(s);
    if (!s.svg.empty()) std::printf("picture: %s\n", s.svg.c_str());
    return right ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), e.what());
    return 2;
  }
}
