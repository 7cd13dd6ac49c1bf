// base/kept.hpp: names that outlive the library whose text they are.
#pragma once

#include <atomic>
#include <cstring>

#include "config.hpp"
#include "location.hpp"

namespace sinter::detail {

/// Text of the engine's own that is equal to `text`; for null null. Equal texts give one address, which stays for good.
SINTER_API const char* kept(const char* text);

/// The place in such names: graphs, programs and reports outlive a library that was called while they were made, and its text.
inline location kept(location at) { return {kept(at.file), at.line, kept(at.op)}; }

/// kept() of texts that mostly are the one before: then no lock is taken. Texts are compared, since a library may lie where one
/// lay that is gone. Thread-safe.
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
