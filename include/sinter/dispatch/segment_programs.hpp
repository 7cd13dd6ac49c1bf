// dispatch/segment_programs.hpp: the programs of the graphs between two breaks, by their structure.
#pragma once

#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "../engine.hpp"

namespace sinter::engine::detail {

/// The programs of segments, by the nodes of their graph in order and by how their inputs lie. Nodes have been pushed in
/// the order in which the function does, so that a function's next call finds its segments without printing them.
class segment_table {
 public:
  std::shared_ptr<const program> get(const ir::graph& g, std::span<const argument> inputs, const options& how,
                                     device where) {
    std::string key = how.backend;
    const auto add = [&key](std::int64_t x) {
      char bytes[sizeof x];
      std::memcpy(bytes, &x, sizeof x);
      key.append(bytes, sizeof x);
    };
    add(where.index * 2 + where.is_cuda());
    add(static_cast<std::int64_t>(how.mode) | static_cast<std::int64_t>(how.precision) << 8 |
        std::int64_t{how.deterministic} << 16);
    for (const auto& x : inputs) {
      add(kernel_facts(x));
      for (int d = 0; d < x.rank; ++d) add(x.strides[d]);
    }
    ir::append_structure(key, g);
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = known_.find(key); at != known_.end()) return at->second.code;
    }
    if (current_stance == stance::fail_on_recompile)
      fail(how.name,
           "a stance forbids to compile, and the call takes a way between two graph breaks that is new: other branches "
           "or "
           "extents");
    auto t = make_tracer();
    t->graph = g;
    entry made{build(std::move(t), inputs, how, where), g};
    auto code = made.code;
    const std::lock_guard lock(mutex_);
    if (known_.size() >= most_segments) known_.clear();
    known_.insert_or_assign(std::move(key), std::move(made));
    return code;
  }

 private:
  struct entry {
    std::shared_ptr<const program> code;
    ir::graph graph;  ///< keeps alive what the key names by its address
  };

  static constexpr std::size_t most_segments = 4096;
  std::mutex mutex_;
  std::unordered_map<std::string, entry> known_;
};

}  // namespace sinter::engine::detail
