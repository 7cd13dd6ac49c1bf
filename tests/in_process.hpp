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

inline std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// Runs a test case of a program, skipped or not, in a process of its own, after what a shell is to set. The exit status.
inline int in_program(const std::string& program, const std::string& test_case, const std::string& settings) {
  const int raw = std::system((settings + " '" + program + "' --no-skip --test-case='" + test_case + "'").c_str());
  return WIFEXITED(raw) ? WEXITSTATUS(raw) : 1000;
}
/// Of this program.
inline int in_process(const std::string& test_case, const std::string& settings) {
  return in_program(this_program(), test_case, settings);
}
