// report/kernels.hpp: describes a plan's kernels for explain(): ops, lines, bytes, operations.
#pragma once

#include <algorithm>

#include "../base/sorted.hpp"
#include "../engine/report.hpp"
#include "../plan/fusion/fuse.hpp"
#include "../plan/schedule/print.hpp"

namespace sinter::engine::reporting {

namespace detail {

inline std::int64_t count(const plan::kernel& k, std::uint32_t axes, std::span<const std::int64_t> sizes) {
  std::int64_t n = 1;
  for (std::size_t a = 0; a < k.axes.size(); ++a)
    if (axes >> a & 1) n *= k.axes[a].extent.evaluate(sizes);
  return n;
}

inline std::uint32_t walked(const plan::kernel& k, const plan::affine& at) {
  std::uint32_t mask = at.index >= 0 ? k.body[static_cast<std::size_t>(at.index)].axes : 0;
  for (std::size_t a = 0; a < at.stride.size() && a < 32; ++a)
    if (!at.stride[a].is(0)) mask |= 1u << a;
  return mask;
}

/// The elements of each buffer that the kernel reads, and that it writes.
class traffic {
 public:
  traffic(const plan::kernel& k, const ir::graph& g, std::span<const std::int64_t> sizes)
      : k_(k), g_(g), sizes_(sizes), read_(k.buffers.size()), written_(k.buffers.size()) {
    for (const auto& i : k.body)
      if (plan::reads_memory(i))
        add(read_, i.at.buffer,
            count(k, walked(k, i.at.at), sizes) *
                (i.kind == plan::kind::search ? i.ranges[0].extent.evaluate(sizes) : 1));
    for (const auto& p : k.products) {
      for (const auto* x : {&p.a, &p.b}) {
        std::int64_t n = count(k, walked(k, x->at), sizes);
        for (std::size_t a = 0; a < p.k.size(); ++a)
          if (!x->at.stride[k.axes.size() + a].is(0)) n *= p.k[a].evaluate(sizes);
        add(read_, x->buffer, n);
      }
    }
    for (const auto& s : k.stores) {
      const auto value = s.value >= 0 ? k.body[static_cast<std::size_t>(s.value)].axes : 0;
      add(written_, s.at.buffer, count(k, walked(k, s.at.at) | (s.accumulate ? value : 0), sizes));
    }
  }
  std::int64_t read() const { return bytes(read_); }
  std::int64_t written() const { return bytes(written_); }

 private:
  void add(series<std::int64_t>& to, int buffer, std::int64_t n) const { to[static_cast<std::size_t>(buffer)] += n; }
  std::int64_t bytes(const series<std::int64_t>& elements) const {
    std::int64_t total = 0;
    for (std::size_t b = 0; b < elements.size(); ++b) {
      const ir::node& v = g_[static_cast<ir::node_id>(k_.buffers[b].id)];
      total +=
          std::min(elements[b], ir::product(v.extents).evaluate(sizes_)) * static_cast<std::int64_t>(size_of(v.type));
    }
    return total;
  }

  const plan::kernel& k_;
  const ir::graph& g_;
  std::span<const std::int64_t> sizes_;
  series<std::int64_t> read_, written_;
};

}  // namespace detail

/// Adds each op and line once.
inline void add_op(series<op_report>& ops, op_report op) {
  const bool known = std::any_of(ops.begin(), ops.end(), [&](const op_report& o) {
    return o.name == op.name && o.where.line == op.where.line && std::string_view(o.where.file) == op.where.file;
  });
  if (!known) ops.push_back(std::move(op));
}

/// The report of a kernel, for extents under `sizes`.
SINTER_API kernel_report describe(const plan::kernel& k, const ir::graph& g, std::span<const std::int64_t> sizes) {
  kernel_report out;
  out.name = k.label;
  series<ir::dim> space;
  std::uint32_t all = 0;
  for (const auto& a : k.axes) {
    space.push_back(a.extent);
    all = all << 1 | 1;
  }
  out.space = ir::text_of(space);
  out.schedule = plan::outline_of(k);
  const detail::traffic moved(k, g, sizes);
  out.read = moved.read();
  out.written = moved.written();
  for (const auto& i : k.body) {
    const std::string name = plan::op_name(i);
    if (name.empty()) continue;
    if (i.kind == plan::kind::load) {
      add_op(out.ops, {name, sinter::dtype_name(i.type), k.body[static_cast<std::size_t>(i.at.at.index)].where});
      continue;
    }
    std::uint32_t axes = i.axes & all;
    for (auto a : i.over) axes |= 1u << a;
    if (is_float(i.type) || (!i.args.empty() && is_float(k.body[static_cast<std::size_t>(i.args[0])].type))) {
      std::int64_t n = detail::count(k, axes, sizes);
      if (i.kind == plan::kind::product)
        for (const auto& e : k.products[0].k) n *= e.evaluate(sizes);
      out.flops += i.kind == plan::kind::product ? 2 * n : n;
    }
    add_op(out.ops, {name, sinter::dtype_name(i.type), i.where});
  }
  for (const auto& s : k.stores)
    if (const std::string name = plan::op_name(s); !name.empty()) {
      const ir::node& n = g[static_cast<ir::node_id>(k.buffers[static_cast<std::size_t>(s.at.buffer)].id)];
      add_op(out.ops, {name, sinter::dtype_name(n.type), n.where});
    }
  return out;
}

}  // namespace sinter::engine::reporting
