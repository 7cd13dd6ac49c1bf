// base/entry.hpp: what printed kernels call their entry points.
#pragma once

namespace sinter::engine {

/// A kernel's text has one entry, of one of these names. In an image that name is followed by what tells the text from
/// others (run/build/unit.hpp).
inline constexpr const char* kernel_entry = "sinter_kernel";
/// The entry of a second text, which finishes a kernel's work.
inline constexpr const char* finish_entry = "sinter_finish";

}  // namespace sinter::engine
