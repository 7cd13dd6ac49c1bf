// io/graph_rules.hpp: the definitions for graphs.hpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../engine/saved_graph.hpp"
#include "archive.hpp"
#include "array.hpp"
#include "file_rules.hpp"
#include "graphs.hpp"
#include "safetensors.hpp"

namespace sinter::io {

namespace detail {

/// The weights' metadata have the digest of the text that they belong to. Older files have none.
inline constexpr const char* graph_key = "graph";
inline std::string digest_of(std::string_view text) { return digest_text({&text, 1}); }

inline std::string weights_of(const std::string& path) { return path + ".safetensors"; }

/// A weight of the file beside a graph's, which must have the dtype and extents of its input.
inline engine::captured read_weight(const archive& from, const std::string& name, const ir::node& input, location at) {
  array a = from.at(name, nullptr, at);
  bool same = a.type == input.type && a.extents.size() == input.extents.size();
  for (std::size_t d = 0; same && d < a.extents.size(); ++d) same = input.extents[d].is(a.extents[d]);
  if (!same)
    fail("load_graph",
         from.path + ": '" + shown(name) + "' is " + kind_text(a.type, a.extents) + ", the graph takes " +
             dtype_name(input.type) + ir::text_of(input.extents) + "; save the graph and its weights again",
         at);
  engine::captured c;
  c.type = a.type;
  c.memory = std::move(a.memory);
  c.data = a.data;
  c.extents.assign(a.extents.begin(), a.extents.end());
  c.strides.resize(c.extents.size());
  std::int64_t step = 1;
  for (std::size_t d = c.extents.size(); d-- > 0; step *= c.extents[d]) c.strides[d] = step;
  return c;
}

SINTER_API graph parse_graph(std::string_view text, const std::string& source, std::span<const graph> custom) {
  engine::text_of_graph all = engine::read_graph(text, source, custom);
  if (!all.weights.empty()) fail("load_graph", source + ": its weights are missing", {});
  return engine::graph_of(std::move(all), {});
}

}  // namespace detail

SINTER_API void save_graph(const std::string& path, const graph& g, location at) {
  const std::string text = engine::written(g);
  const auto t = g.traced();
  const detail::folder_lock alone("save_graph", path, at);
  if (!t->captures.empty()) {
    std::vector<detail::named_leaf> leaves;
    for (std::size_t k = 0; k < t->captures.size(); ++k)
      leaves.push_back({engine::weight_name(k), detail::handle_of(t->captures[k])});
    detail::file_writer out("save_graph", detail::weights_of(path), false, at);
    detail::write_safetensors(out, std::move(leaves), {{detail::graph_key, detail::digest_of(text)}}, at);
    out.finish();
  }
  detail::file_writer out("save_graph", path, false, at);
  out.write(text);
  out.finish();
}

SINTER_API graph load_graph(const std::string& path, std::span<const graph> custom, location at) {
  const storage file = detail::map_file("load_graph", path, at);
  const auto bytes = detail::bytes_of(file);
  engine::text_of_graph all =
      engine::read_graph({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, detail::shown(path), custom);
  series<engine::captured> weights;
  if (!all.weights.empty()) {
    const archive from = detail::open_regular_archive(detail::weights_of(path), at);
    const auto belongs = from.metadata.find(detail::graph_key);
    const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    if (belongs != from.metadata.end() && belongs->second != detail::digest_of(text))
      fail("load_graph",
           detail::shown(path) + ": the weights beside it are another graph's; save the graph and its weights again",
           at);
    const std::size_t first = all.body.inputs.size() - all.weights.size();
    for (std::size_t k = 0; k < all.weights.size(); ++k)
      weights.push_back(detail::read_weight(from, all.weights[k], all.body[all.body.inputs[first + k]], at));
  }
  return engine::graph_of(std::move(all), std::move(weights));
}

}  // namespace sinter::io
