// tests/stderr_text.hpp: what a piece of code writes to stderr.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace {

/// f's writes to stderr, which do not appear there.
template <class F>
std::string stderr_text(F&& f) {
  std::fflush(stderr);
  std::FILE* const file = std::tmpfile();
  const int before = dup(2);
  dup2(fileno(file), 2);
  f();
  std::fflush(stderr);
  dup2(before, 2);
  close(before);
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace
