// base/engine_end.hpp: ends what engine_begin.hpp begins.
#if SINTER_FRUGAL
#pragma GCC pop_options
#endif
