// What the engine has of vector code, as every file that includes it has.
#define SINTER_COMPILED
#include <sinter/base/floats_begin.hpp>

#include <sinter/loops/rows.hpp>

#include <sinter/base/floats_end.hpp>
