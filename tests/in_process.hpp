// tests/in_process.hpp: test cases in processes of their own.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

/// A variable of the environment; nothing where it is not set.
inline std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

/// Runs a test case of this program, skipped or not, in a process of its own, after what a shell is to set. The exit status.
inline int in_process(const std::string& test_case, const std::string& settings) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const int raw = std::system((settings + " '" + self + "' --no-skip --test-case='" + test_case + "'").c_str());
  return WIFEXITED(raw) ? WEXITSTATUS(raw) : 1000;
}
