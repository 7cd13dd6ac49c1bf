// windows/define.hpp: instances of convolutions that programs share; the compiled engine includes it once.
#pragma once

#include "conv.hpp"

namespace sinter::detail::windows {
#define SINTER_X(T, S) template handle convolved<T, S>(const handle&, handle, const conv_plan&, bool, location);
SINTER_CONVOLVED(SINTER_X)
#undef SINTER_X
}  // namespace sinter::detail::windows
