// examples/support/csv.hpp: a file of numbers separated by commas.
#pragma once

#include <charconv>
#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

struct table {
  std::size_t columns = 0;
  std::vector<float> values;  // row by row

  std::size_t rows() const { return columns ? values.size() / columns : 0; }
  float at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

/// Reads a table without header; throws std::runtime_error naming the file and line when it is not one.
inline table read_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path + "; give its place with --data");
  table t;
  std::string line;
  for (std::size_t row = 1; std::getline(file, line); ++row) {
    const auto wrong = [&](const std::string& what) {
      throw std::runtime_error(path + ":" + std::to_string(row) + ": " + what);
    };
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const std::size_t before = t.values.size();
    for (const char *p = line.data(), *end = p + line.size(); p < end; ++p) {
      float x = 0;
      const auto [next, error] = std::from_chars(p, end, x);
      if (error != std::errc() || (next != end && *next != ',')) wrong("expected numbers separated by commas");
      t.values.push_back(x);
      p = next;
    }
    const std::size_t columns = t.values.size() - before;
    if (t.columns == 0) t.columns = columns;
    if (columns != t.columns || columns == 0) wrong("expected as many numbers as in the first line");
  }
  if (t.columns == 0) throw std::runtime_error(path + " is empty");
  return t;
}
