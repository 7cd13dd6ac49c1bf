// tests/paths.hpp: where things lie and what builds them. The texts are in paths.cpp, so that no other object depends on the clone.
#pragma once

#include <string>

namespace test_paths {

extern const std::string emulator;   ///< the folder of the emulated libraries
extern const std::string data;       ///< tests/ of the source
extern const std::string library;    ///< the compiled engine
extern const std::string cxx;        ///< what compiled the tests
extern const std::string cxx_flags;  ///< with these flags

}  // namespace test_paths
