// tests/paths.cpp: the texts that the build writes.
#include "paths.hpp"

#include <test_paths.hpp>

namespace test_paths {

const std::string emulator = SINTER_TEST_EMULATOR;
const std::string data = SINTER_TEST_DATA;
const std::string library = SINTER_TEST_LIBRARY;
const std::string cxx = SINTER_TEST_CXX;
const std::string cxx_flags = SINTER_TEST_CXXFLAGS;

}  // namespace test_paths
