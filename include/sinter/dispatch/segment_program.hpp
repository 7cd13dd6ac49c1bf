// dispatch/segment_program.hpp: the program of a graph between two graph breaks, and programs for its frequent extents.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "../base/callback.hpp"
#include "../base/series.hpp"
#include "../engine/engine.hpp"
#include "specialisation.hpp"

namespace sinter::engine::detail {

/// Whether a segment is compiled, and its count.
struct admission {
  bool compiled = true;
  bool by_place = false;  ///< not compiled, because the line's functions have too many
  std::uint64_t set = 0;
  bool later = false;
};

/// Runs a graph for calls whose inputs have one layout. Used under its holder's lock.
class segment {
 public:
  segment(std::shared_ptr<const program> code, ir::graph g, size_layout l, admission a)
      : how(a), graph_(std::move(g)), layout_(std::move(l)), bytes_(code->text_bytes()), code_(std::move(code)) {}

  const std::shared_ptr<const program>& code() const { return code_; }
  const ir::graph& graph() const { return graph_; }
  std::size_t bytes() const { return bytes_; }

  /// The values of the layout's sizes, from the inputs.
  series<std::int64_t> sizes_of(std::span<const argument> inputs) const {
    series<std::int64_t> sizes(layout_.sizes.size());
    ensure(sizes.empty() || bind_sizes(layout_, inputs.first(layout_.tensors.size()), sizes.data()),
           "a segment's sizes are those of its inputs");
    return sizes;
  }

  /// The program for these sizes.
  const std::shared_ptr<const program>& code_for(const series<std::int64_t>& sizes) const {
    for (const frequent& f : frequent_)
      if (f.sizes == sizes) return f.code;
    return code_;
  }

  /// Takes kernels that were made meanwhile.
  void replace(std::shared_ptr<const program> code) {
    bytes_ += code->text_bytes() - code_->text_bytes();
    code_ = std::move(code);
  }

  /// Counts calls from now on, if sizes are open.
  void watch(int hot_calls) {
    if (layout_.any_open()) warmth_ = std::make_unique<hot_extents>(hot_calls);
  }
  /// Counts a call that code() answers; whether these sizes should now get a program, of which there are at most `most`.
  bool just_hot(const series<std::int64_t>& sizes, std::size_t most) {
    if (!warmth_ || !warmth_->counts() || frequent_.size() >= most) return false;
    std::uint64_t facts = 0;
    for (const std::int64_t s : sizes) facts = (facts ^ static_cast<std::uint64_t>(s)) * 0x9e3779b97f4a7c15u;
    return warmth_->just_hot(facts ^ facts >> 29);
  }
  /// The graph for these sizes only.
  std::shared_ptr<tracer> fixed_at(const series<std::int64_t>& sizes) const {
    auto t = make_on_heap<tracer>();
    t->graph = graph_;
    t->graph.replace_sizes([&](const ir::dim& d) { return ir::dim(d.evaluate({sizes.data(), sizes.size()})); });
    return t;
  }
  void add(series<std::int64_t> sizes, std::shared_ptr<const program> code) {
    bytes_ += code->text_bytes();
    frequent_.push_back({std::move(sizes), std::move(code)});
  }

  admission how;
  std::uint64_t used = 0;

 private:
  struct frequent {
    series<std::int64_t> sizes;
    std::shared_ptr<const program> code;
  };

  ir::graph graph_;  ///< keeps alive the objects whose addresses are in the segment's key
  size_layout layout_;
  std::size_t bytes_;
  std::shared_ptr<const program> code_;
  series<frequent> frequent_;
  std::unique_ptr<hot_extents> warmth_;
};

}  // namespace sinter::engine::detail
