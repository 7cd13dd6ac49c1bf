// engine/saved_graph.hpp: graphs as text, for files. (trace/saved_graph.hpp)
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph.hpp"
#include "tracer.hpp"

namespace sinter::engine {

/// What a saved graph's text says; the elements of its weights lie elsewhere.
struct text_of_graph {
  ir::graph body;
  size_layout layout;
  series<std::string> weights;  ///< names of the last inputs
};

/// The name of captured tensor k in files.
inline std::string weight_name(std::size_t k) { return "w" + std::to_string(k); }

/// The text of a graph, which read_graph() takes in all later versions. user_error for a graph that calls the host.
SINTER_API std::string written(const graph& g);
/// The graph of a text from `source`. Custom ops have the functions of equally named ones in `custom`. user_error that names
/// the line if the text is damaged, of a newer op-set, or has an unknown custom op.
SINTER_API text_of_graph read_graph(std::string_view text, const std::string& source, std::span<const graph> custom);
SINTER_API graph graph_of(text_of_graph text, series<captured> weights);

/// The graph without calls and attention: they are replaced by their parts and by the ops that compute them, also in branches and loops.
SINTER_API ir::graph ordinary(const ir::graph& g);

}  // namespace sinter::engine

// After the declarations, which the definitions that it brings along need.
#include "engine.hpp"
