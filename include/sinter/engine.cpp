// engine.cpp: the engine as one translation unit, for programs whose other units define SINTER_COMPILED. The CMake targets
// build it. Without CMake it is one more source file of the program.
#if !defined(SINTER_COMPILED)
#define SINTER_COMPILED
#endif

#include "base/floats_begin.hpp"

#include "jit/pipeline.hpp"

#include "jit/factors.hpp"

#include "jit/meshes.hpp"

#include "jit/fourier.hpp"

#include "front/define.hpp"

#include "windows/define.hpp"

#include "base/floats_end.hpp"
extern "C" [[gnu::visibility("default")]] const char SINTER_BUILD = 0;

namespace {
constexpr bool is_version_word(const char* word, const char* version) {
  for (; *word == *version || (*word == '_' && *version == '.'); ++word, ++version)
    if (!*word) return true;
  return false;
}
#define SINTER_QUOTED(x) #x
#define SINTER_WORD_TEXT(x) SINTER_QUOTED(x)
static_assert(is_version_word(SINTER_WORD_TEXT(SINTER_VERSION_WORD), SINTER_VERSION));
}  // namespace
