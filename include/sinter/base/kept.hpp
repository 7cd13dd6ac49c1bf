// base/kept.hpp: names that outlive the library that contains their text.
#pragma once

#include <atomic>
#include <cstring>

#include "config.hpp"
#include "location.hpp"

namespace sinter::detail {

/// The engine's own copy of a text, which is permanent; null for null. Equal texts give one address.
SINTER_API const char* kept(const char* text);

/// The location with permanent names: graphs, programs and reports outlive a library that was called while they were made.
inline location kept(location at) { return {kept(at.file), at.line, kept(at.op)}; }

/// kept() for texts that are mostly the previous one: then it takes no lock. Texts are compared, because a library may be
/// loaded where another one was. Thread-safe.
class last_kept {
 public:
  const char* operator()(const char* text) {
    const char* last = last_.load(std::memory_order_acquire);
    if (std::strcmp(text, last) != 0) last_.store(last = kept(text), std::memory_order_release);
    return last;
  }

 private:
  std::atomic<const char*> last_{""};
};

}  // namespace sinter::detail

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
