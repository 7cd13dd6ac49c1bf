// base/engine_end.hpp: ends the region of engine_begin.hpp.
#if SINTER_FRUGAL
#pragma GCC pop_options
#endif
