// emit/cuda/shared.hpp: independent pointwise kernels -> one launch; kernels that are alike share a body.
#pragma once

#include <span>

#include "../../base/series.hpp"
#include "../../plan/schedule/print.hpp"
#include "launch.hpp"
#include "pointwise.hpp"

namespace sinter::engine::emit::detail {

/// A body's part of the table: the first of its buffers, and of its numbers, preceded by the members' first blocks.
struct table_part {
  std::size_t at = 0, from = 0;
};

/// Prints a block's search for its member, then the member's buffers, whose first number is `first`, and numbers.
inline void print_member(writer& out, const cuda_printer& p, const plan::shared_body& b, const table_part& part,
                         int first, bool in_memory) {
  const auto number = [](std::size_t n) { return std::to_string(n); };
  const std::size_t count = b.members.size();
  out.line("int member = 0;");
  if (in_memory) {
    // Memory latency is high: each lane of a warp reads one entry of all, then of a 32nd of them.
    std::size_t step = 1;
    while (step * 32 < count) step *= 32;
    out.block("for (int step = " + number(step) + "; step > 0; step /= 32)", [&] {
      out.line("const int at = member + step*(threadIdx.x%32);");
      out.line("const bool begun = at < " + number(count) + " && members.n[" + number(part.from) +
               " + at] <= shared_block;");
      out.line("member += step*(__popc(__ballot_sync(0xffffffffu, begun)) - 1);");
    });
  } else {
    out.block("for (int end = " + number(count) + "; end - member > 1;)", [&] {
      out.line("const int middle = (member + end)/2;");
      out.line("if (members.n[" + number(part.from) + " + middle] <= shared_block) member = middle;");
      out.line("else end = middle;");
    });
  }
  out.line("const " + p.idx() + " block = shared_block - members.n[" + number(part.from) + " + member];");
  declare_member(out, b.common.code, count, part.from + count, static_cast<int>(b.common.numbers.size()), part.at,
                 b.common.apart, first);
}

/// Kernels without reductions, each in separate blocks.
inline void print_cuda_shared(cuda_source& s, writer& out, std::span<const kernel* const> kernels,
                              const plan::target& t) {
  series<int> first;  // for each kernel, the number of its first buffer
  int buffers = 0;
  for (const auto* k : kernels) {
    ensure(!k->is_product() && !plan::scatters(*k), "kernels that share a launch are pointwise");
    first.push_back(buffers);
    buffers += static_cast<int>(k->buffers.size());
  }
  const auto bodies = plan::schedule_shared(kernels, t);
  s.schedule = plan::text_of(bodies);
  series<table_part> parts;
  auto& table = s.table;
  dim begin = 0;
  for (const auto& b : bodies) {
    parts.push_back({table.buffers.size(), table.numbers.size()});
    for (const auto& blocks : b.blocks) {
      if (b.in_table()) table.numbers.push_back(begin);
      begin += blocks;
    }
    for (const auto& n : b.common.numbers) table.numbers.insert(table.numbers.end(), n.begin(), n.end());
    for (std::size_t i = 0; i < b.common.code.buffers.size(); ++i) {
      const auto apart = std::find(b.common.apart.begin(), b.common.apart.end(), static_cast<int>(i));
      if (apart == b.common.apart.end()) s.parameters.push_back(first[b.members[0]] + static_cast<int>(i));
      else
        for (const auto k : b.members) table.buffers.push_back(first[k] + static_cast<int>(i));
    }
    if (b.in_table() && needs_wide_index(b.common.code)) table.number_bytes = 8;
  }
  std::sort(s.parameters.begin(), s.parameters.end());
  table.in_memory = !table.numbers.empty() && bytes_with_table(s, sizes_of(kernels, s)) > t.parameter_bytes;
  cuda_launch_of(s, out, kernels, kernel_entry, {begin, plan::shared_threads}, [&] {
    dim passed = 0;
    out.line("const long shared_block = block;");
    if (table.in_memory) out.line("const auto& members = *all_members;");
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      const auto& b = bodies[i];
      std::string condition = "if (shared_block < " + (passed + b.blocks[0]).text() + ")";
      if (b.in_table())
        condition =
            i + 1 == bodies.size() ? "" : "if (shared_block < members.n[" + std::to_string(parts[i + 1].from) + "])";
      out.block(i > 0 ? condition.empty() ? "else" : "else " + condition : condition, [&] {
        cuda_printer p(b.common.code, out, first[b.members[0]]);
        if (b.in_table()) print_member(out, p, b, parts[i], first[b.members[0]], table.in_memory);
        else out.line("const " + p.idx() + " block = shared_block - (" + passed.text() + ");");
        print_pointwise(p, b.shape);
      });
      passed += b.blocks[0];
    }
  });
}

/// A table of kernels of one shape: `members` of `common`.
inline void make_table(cuda_source& s, const plan::common_kernel& common, std::span<const std::size_t> members,
                       const plan::target& t) {
  const auto buffers = common.code.buffers.size();
  s.members = members.size();
  for (std::size_t b = 0; b < buffers; ++b)
    if (std::find(common.apart.begin(), common.apart.end(), static_cast<int>(b)) == common.apart.end())
      s.parameters.push_back(static_cast<int>(b));
  for (const int b : common.apart)
    for (std::size_t m = 0; m < members.size(); ++m) s.table.buffers.push_back(static_cast<int>(m * buffers) + b);
  for (const auto& values : common.numbers)
    for (const std::size_t m : members) s.table.numbers.push_back(values[m]);
  if (common.numbers.empty()) s.table.numbers.push_back(0);  // a table has at least one number
  if (needs_wide_index(common.code)) s.table.number_bytes = 8;
  s.table.in_memory = bytes_with_table(s, common.first) > t.parameter_bytes;
}

}  // namespace sinter::engine::emit::detail
