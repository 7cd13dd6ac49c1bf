// tests/jit/tuned.hpp: mode::max_autotune: what was measured and chosen, in this process and in others.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sinter/sinter.hpp>

#include "../environment_value.hpp"
#include "../in_process.hpp"
#include "../scratch_folder.hpp"

namespace tuned {

inline std::vector<std::string> choices_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& f : std::filesystem::directory_iterator(folder))
    if (f.path().string().ends_with(".choice")) out.push_back(f.path().string());
  return out;
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// The names of a choice's candidates, the chosen one first.
inline std::vector<std::string> names_of(const sinter::choice_report& c) {
  std::vector<std::string> out;
  for (const auto& w : c.candidates) out.push_back(w.name);
  return out;
}

/// What a process finds that is told to find choices kept, or to measure: SINTER_TEST_EXPECT is "kept" or "measured". The chosen ways
/// go to, or are compared with, the file "chosen" beside the cache.
inline void check_expected(const sinter::report& r) {
  const bool kept = variable("SINTER_TEST_EXPECT") == "kept";
  REQUIRE(!r.choices.empty());
  CHECK((r.measured == 0) == kept);
  std::string chosen;
  for (const auto& c : r.choices) {
    CHECK(c.kept == kept);
    CHECK(c.candidates.size() >= 2);
    chosen += c.what + " " + c.candidates[0].name + "\n";
    if (c.step >= 0) CHECK(r.steps.at(static_cast<std::size_t>(c.step)).chosen == c.candidates[0].name);
  }
  const std::string path = variable("SINTER_CACHE_DIR") + "/../chosen";
  if (kept) CHECK(bytes_of(path) == chosen);
  else write(path, chosen);
}

inline int process(const std::string& child, const std::string& cache, const std::string& expected,
                   const std::string& more = "") {
  return in_process(child, "SINTER_CACHE_DIR='" + cache + "' SINTER_TEST_EXPECT=" + expected + " " + more);
}

/// The first process measures, and the second one does not. Damaged choices and those of something else are measured again.
inline void cold_then_warm(const std::string& child) {
  const scratch_folder folder;
  const std::string cache = folder.path + "/cache";
  REQUIRE(process(child, cache, "measured") == 0);
  REQUIRE(choices_in(cache).size() >= 2);
  CHECK(process(child, cache, "kept") == 0);
  for (const auto& f : choices_in(cache)) {
    std::string bytes = bytes_of(f);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write(f, bytes);
  }
  CHECK(process(child, cache, "measured") == 0);
  CHECK(process(child, cache, "kept") == 0);
  for (const auto& f : choices_in(cache)) write(f, bytes_of(f).substr(0, 100));
  CHECK(process(child, cache, "measured") == 0);
  // Whole entries, each under the name of another one.
  const auto files = choices_in(cache);
  std::string next = bytes_of(files.back());
  for (const auto& f : files) {
    const std::string own = bytes_of(f);
    write(f, next);
    next = own;
  }
  CHECK(process(child, cache, "measured") == 0);
  CHECK(process(child, cache, "kept") == 0);
}

}  // namespace tuned
