// Choices among measured ways: kept in memory and on disk, and never taken from a file of something else.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <sinter/run/build/choices.hpp>

#include "../../scratch_folder.hpp"

using namespace sinter::engine;

namespace {

std::string key_of(const char* what) { return std::string(run::choice_key) + what; }

bool same(const run::measured_ways& a, const run::measured_ways& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].name != b[i].name || a[i].microseconds != b[i].microseconds) return false;
  return true;
}

}  // namespace

TEST_CASE("a choice is found in memory, and by another table on disk") {
  const scratch_folder folder;
  const run::cache_folder_scope there(folder.path);
  const run::measured_ways ways{{"option 3", 1.5}, {"library", 2.25}};
  run::choice_table one, other;
  CHECK(one.find(key_of("a")).empty());
  one.store(key_of("a"), ways);
  CHECK(same(one.find(key_of("a")), ways));
  CHECK(same(other.find(key_of("a")), ways));
  CHECK(other.find(key_of("b")).empty());
  CHECK(run::disk_cache::entry_name(key_of("a")).ends_with(".choice"));
  const auto now = run::disk_cache().contents();
  CHECK(now.kernels == 0);
  CHECK(now.bytes > 0);
  run::disk_cache().clear();
  CHECK(run::choice_table().find(key_of("a")).empty());
}

TEST_CASE("bytes that are no choice are none") {
  const scratch_folder folder;
  const run::cache_folder_scope there(folder.path);
  for (const std::string& bytes : {std::string("x"), std::string("\5\0\0\0\0\0\0\0abc", 11), std::string(9, '\xff')}) {
    run::disk_cache().store(key_of("odd"), bytes);
    CHECK(run::choice_table().find(key_of("odd")).empty());
  }
  // A whole entry under the name of another key.
  run::choice_table().store(key_of("mine"), {{"kernel", 1}});
  std::filesystem::copy_file(folder.path + "/" + run::disk_cache::entry_name(key_of("mine")),
                             folder.path + "/" + run::disk_cache::entry_name(key_of("other")));
  CHECK(run::choice_table().find(key_of("other")).empty());
  CHECK(!run::choice_table().find(key_of("mine")).empty());
}
