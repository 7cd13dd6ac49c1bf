// tests/golden_file.hpp: texts beside their files in tests/golden. SINTER_UPDATE_GOLDEN=1 writes the files anew.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "paths.hpp"

namespace golden_file {

/// Compares a text with tests/golden/PATH.
inline void check(const std::string& name, const std::string& got) {
  const std::string path = test_paths::data + "/golden/" + name;
  const char* update = std::getenv("SINTER_UPDATE_GOLDEN");
  if (update != nullptr && *update == '1') std::ofstream(path) << got;
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path << " is missing; SINTER_UPDATE_GOLDEN=1 writes it");
  std::ostringstream want;
  want << file.rdbuf();
  CHECK_MESSAGE(got == want.str(), name << " has another text:\n" << got);
}

}  // namespace golden_file
