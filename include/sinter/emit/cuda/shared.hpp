// emit/cuda/shared.hpp: independent pointwise kernels -> one launch; kernels that are alike share a body.
#pragma once

#include <span>

#include "../../base/series.hpp"
#include "../../plan/fusion/horizontal.hpp"
#include "launch.hpp"
#include "pointwise.hpp"

namespace sinter::engine::emit::detail {

/// A body of a shared launch, and its kernels.
struct shared_body {
  series<std::size_t> members;  ///< by number in the launch
  plan::common_kernel common;   ///< for a single member, the kernel itself
  pointwise_shape shape;
  series<dim> blocks;            ///< of each member
  std::size_t at = 0, from = 0;  ///< in the table: its buffers, and its numbers, preceded by the members' first blocks

  bool in_table() const { return members.size() > 1; }
};

/// The bodies of a shared launch; bodies of a single kernel come first.
inline series<shared_body> bodies_of(std::span<const kernel* const> kernels) {
  sorted_map<std::string, series<std::size_t>> alike;
  series<std::string> form;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    form.push_back(plan::form_of(*kernels[k]));
    alike[form.back()].push_back(k);
  }
  series<shared_body> out;
  for (const bool together : {false, true})
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const auto& kin = alike[form[k]];
      if (together != (kin.size() >= plan::least_alike) || (together && kin[0] != k)) continue;
      out.emplace_back();
      if (together) out.back().members = kin;
      else out.back().members = {k};
    }
  return out;
}

/// Chooses the shape of a body.
inline void shape_body(shared_body& b, std::span<const kernel* const> kernels, const cuda_target& t, int threads) {
  series<const kernel*> members;
  std::int64_t count = 0;
  for (const auto k : b.members) {
    members.push_back(kernels[k]);
    count += plan::traced_elements(*kernels[k]);
  }
  writer unused;
  if (!b.in_table()) {
    b.common.code = *members[0];
    b.shape = shape_of(b.common.code, t, threads);
    b.blocks = {blocks_for(cuda_printer(b.common.code, unused), b.shape.blocks)};
    return;
  }
  b.common = plan::in_common({members.data(), members.size()});
  b.shape = shape_of(b.common.code, t, threads, count);
  for (std::size_t m = 0; m < members.size(); ++m) {
    dim blocks = b.shape.blocks;
    for (std::size_t n = 0; n < b.common.numbers.size(); ++n)
      blocks = ir::substituted(blocks, b.common.first + static_cast<int>(n), b.common.numbers[n][m]);
    b.blocks.push_back(blocks_for(cuda_printer(*members[m], unused), blocks));
  }
}

/// Prints a block's search for its member, then the member's buffers, whose first number is `first`, and numbers.
inline void print_member(writer& out, const cuda_printer& p, const shared_body& b, int first, bool in_memory) {
  const auto number = [](std::size_t n) { return std::to_string(n); };
  const std::size_t count = b.members.size();
  out.line("int member = 0;");
  if (in_memory) {
    // Memory latency is high: each lane of a warp reads one entry of all, then of a 32nd of them.
    std::size_t step = 1;
    while (step * 32 < count) step *= 32;
    out.block("for (int step = " + number(step) + "; step > 0; step /= 32)", [&] {
      out.line("const int at = member + step*(threadIdx.x%32);");
      out.line("const bool begun = at < " + number(count) + " && kin.n[" + number(b.from) + " + at] <= shared_block;");
      out.line("member += step*(__popc(__ballot_sync(0xffffffffu, begun)) - 1);");
    });
  } else {
    out.block("for (int end = " + number(count) + "; end - member > 1;)", [&] {
      out.line("const int middle = (member + end)/2;");
      out.line("if (kin.n[" + number(b.from) + " + middle] <= shared_block) member = middle;");
      out.line("else end = middle;");
    });
  }
  out.line("const " + p.idx() + " block = shared_block - kin.n[" + number(b.from) + " + member];");
  declare_member(out, b.common.code, count, b.from + count, static_cast<int>(b.common.numbers.size()), b.at,
                 b.common.apart, first);
}

/// Kernels without reductions, each in separate blocks.
inline void print_cuda_shared(cuda_source& s, writer& out, std::span<const kernel* const> kernels,
                              const cuda_target& t) {
  constexpr int threads = 256;
  series<int> first;  // for each kernel, the number of its first buffer
  int buffers = 0;
  for (const auto* k : kernels) {
    ensure(!k->is_product() && !scatters(*k), "kernels that share a launch are pointwise");
    first.push_back(buffers);
    buffers += static_cast<int>(k->buffers.size());
  }
  auto bodies = bodies_of(kernels);
  auto& table = s.table;
  dim begin = 0;
  for (auto& b : bodies) {
    shape_body(b, kernels, t, threads);
    b.at = table.buffers.size();
    b.from = table.numbers.size();
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
  cuda_launch_of(s, out, kernels, kernel_entry, begin, threads, 0, [&] {
    dim passed = 0;
    out.line("const long shared_block = block;");
    if (table.in_memory) out.line("const auto& kin = *all_kin;");
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      const auto& b = bodies[i];
      std::string condition = "if (shared_block < " + (passed + b.blocks[0]).text() + ")";
      if (b.in_table())
        condition =
            i + 1 == bodies.size() ? "" : "if (shared_block < kin.n[" + std::to_string(bodies[i + 1].from) + "])";
      out.block(i > 0 ? condition.empty() ? "else" : "else " + condition : condition, [&] {
        cuda_printer p(b.common.code, out, first[b.members[0]]);
        if (b.in_table()) print_member(out, p, b, first[b.members[0]], table.in_memory);
        else out.line("const " + p.idx() + " block = shared_block - (" + passed.text() + ");");
        print_pointwise(p, b.shape);
      });
      passed += b.blocks[0];
    }
  });
}

/// A table of kernels of one shape: `members` of `common`.
inline void make_table(cuda_source& s, const plan::common_kernel& common, std::span<const std::size_t> members,
                       const cuda_target& t) {
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
