// base/entry.hpp: the names of printed kernels' entry points.
#pragma once

namespace sinter::engine {

/// The entry of a kernel's text is `kernel_entry` or `finish_entry`. In an image, a suffix follows the name, which distinguishes the texts
/// (run/build/unit.hpp).
inline constexpr const char* kernel_entry = "sinter_kernel";
/// The entry of a second text that finishes a kernel's work.
inline constexpr const char* finish_entry = "sinter_finish";

}  // namespace sinter::engine
