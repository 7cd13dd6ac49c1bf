// base/kept.hpp: names that outlive the library whose text they are.
#pragma once

#include "config.hpp"
#include "location.hpp"

namespace sinter::detail {

/// Text of the engine's own that is equal to `text`; for null null. Equal texts give one address, which stays for good.
SINTER_API const char* kept(const char* text);

/// The place in such names: graphs, programs and reports outlive a library that was called while they were made, and its text.
inline location kept(location at) { return {kept(at.file), at.line, kept(at.op)}; }

}  // namespace sinter::detail

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
