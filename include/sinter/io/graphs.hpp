// io/graphs.hpp: graphs in files: readable text, and captured tensors beside it as .safetensors.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "../sinter.hpp"

namespace sinter::io {

/// Writes g as text. Captured tensors go to a file beside it, whose name is `path` with ".safetensors". Custom ops are saved by
/// name, and calls with derivative rules of their own as their ops. user_error for a graph that calls the host; system_error for a
/// file that cannot be written.
SINTER_API void save_graph(const std::string& path, const graph& g, location at = location::current());

/// The graph of a file that this or an earlier version of sinter wrote. `custom` are graphs that contain the file's custom
/// ops: these are found by name, dtypes and ranks. user_error that names the line, for a damaged file, an op-set of a newer
/// sinter, or an unknown custom op. system_error for an unreadable file.
SINTER_API graph load_graph(const std::string& path, std::span<const graph> custom = {},
                            location at = location::current());

namespace detail {
/// The same for a text without weights.
SINTER_API graph parse_graph(std::string_view text, const std::string& source, std::span<const graph> custom = {});
}  // namespace detail

}  // namespace sinter::io

#if !defined(SINTER_COMPILED)
#include "graph_rules.hpp"
#endif
