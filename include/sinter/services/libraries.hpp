// services/libraries.hpp: the library of the process that contains an address, and keeping it loaded.
#pragma once

#include "../engine/engine.hpp"
#include "../run/library.hpp"

namespace sinter::engine {

SINTER_API void keep_loaded(const void* address) { run::keep_loaded(address); }

SINTER_API bool in_one_library(const void* a, const void* b) { return run::library_of(a) == run::library_of(b); }

}  // namespace sinter::engine
