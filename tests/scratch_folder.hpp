// tests/scratch_folder.hpp: a folder that goes with the scope.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace {

struct scratch_folder {
  scratch_folder() {
    std::string name = "/tmp/sinter-test-XXXXXX";
    path = mkdtemp(name.data());
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

}  // namespace
