// base/floats_end.hpp: ends the region of floats_begin.hpp.
#if defined(__clang__)
#pragma float_control(pop)
#elif defined(SINTER_FLOATS_PUSHED)
#pragma GCC pop_options
#undef SINTER_FLOATS_PUSHED
#endif
