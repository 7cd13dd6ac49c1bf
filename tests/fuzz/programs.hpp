// tests/fuzz/programs.hpp: graphs through engine::build, on the host or a GPU, on guarded memory.
#pragma once

#include <sinter/jit/pipeline.hpp>

#include "kernels.hpp"

namespace fuzz {

/// Memory of a device with marks around it.
class device_block {
 public:
  device_block(const std::vector<unsigned char>& content, sinter::device where)
      : memory_(sinter::engine::allocate(content.size() + 2 * guard, where)), bytes_(content.size()) {
    std::vector<unsigned char> all(bytes_ + 2 * guard, mark);
    std::copy(content.begin(), content.end(), all.begin() + guard);
    sinter::engine::copy(memory_.data(), where, all.data(), {}, all.size());
  }
  unsigned char* data() const { return static_cast<unsigned char*>(memory_.data()) + guard; }
  const sinter::storage& memory() const { return memory_; }
  /// True when nothing in it nor around it has changed.
  bool holds(const std::vector<unsigned char>& content) const {
    std::vector<unsigned char> all(bytes_ + 2 * guard);
    sinter::engine::copy(all.data(), {}, memory_.data(), memory_.where(), all.size());
    bool same = std::equal(content.begin(), content.end(), all.begin() + guard);
    for (std::size_t i = 0; i < guard; ++i) same = same && all[i] == mark && all[all.size() - 1 - i] == mark;
    return same;
  }

 private:
  static constexpr std::size_t guard = 256;
  static constexpr unsigned char mark = 0x5a;
  sinter::storage memory_;
  std::size_t bytes_;
};

/// Builds and calls a graph; the first thing that is wrong with a result, as `wanted`, or "".
inline std::string run_program(const sinter::ir::graph& g, const inputs& in, const std::vector<layout>& layouts,
                               const std::vector<const bounded*>& wanted, const sinter::options& how,
                               sinter::device where, tally& count) {
  const auto traced = std::make_shared<sinter::engine::tracer>();
  traced->graph = g;
  std::vector<device_block> blocks;
  std::vector<std::vector<unsigned char>> contents;
  for (const auto& x : in.operands) {
    contents.emplace_back(x.memory->data(), x.memory->data() + x.memory->size());
    blocks.emplace_back(contents.back(), where);
  }
  std::vector<sinter::engine::argument> arguments;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const guarded& memory = *in.operands[i].memory;
    const auto offset = memory.size() > 0 ? in.operands[i].data - memory.data() : 0;
    arguments.push_back({place_of(blocks[i].data() + offset, memory.size()), &blocks[i].memory(), in.values[i].type,
                         static_cast<int>(layouts[i].strides.size()), in.values[i].extents.data(),
                         layouts[i].strides.data()});
  }
  const auto program = sinter::engine::build(traced, arguments, how, where);
  count.kernels += program->describe().kernels;
  count.unfused += program->describe().kernels_unfused;
  const std::string backend = where.is_cuda() ? "cuda" : "cpu";
  if (program->describe().backend != backend) return "it runs on " + program->describe().backend;
  std::vector<sinter::engine::output> results;
  // The second call may be a recorded one.
  for (int call = how.mode == sinter::mode::reduce_overhead ? 0 : 1; call < 2; ++call) {
    results = std::vector<sinter::engine::output>(program->output_count());
    program->run(arguments, std::vector<std::uint8_t>(arguments.size()), results.data());
  }
  for (std::size_t k = 0; k < results.size(); ++k) {
    const bounded& x = *wanted[k];
    const std::string which = "result " + std::to_string(k) + ", ";
    if (std::vector<std::int64_t>(results[k].extents, results[k].extents + results[k].rank) != x.value.extents)
      return which + "which has other extents";
    std::vector<unsigned char> got(x.bound.size() * sinter::size_of(x.value.type));
    sinter::engine::copy(got.data(), {}, results[k].memory.data(), where, got.size());
    const std::string why = difference(x, got.data(), count.compared, count.seen);
    if (!why.empty()) return which + why;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (!blocks[i].holds(contents[i])) return "input " + std::to_string(i) + " or what is around it was written to";
  return "";
}

}  // namespace fuzz
