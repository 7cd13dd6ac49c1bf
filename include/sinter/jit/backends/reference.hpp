// jit/backends/reference.hpp: the backend that interprets the graph, also in place of a missing compiler.
#pragma once

#include "../../base/series.hpp"
#include "../../engine/backends.hpp"
#include "../../ir/reference_opaque.hpp"
#include "../../ir/reference_pointwise.hpp"
#include "code.hpp"

namespace sinter::engine::detail {

/// The elements of an argument in host memory; memory of a GPU is copied, from its first element to its last.
class host_view {
 public:
  explicit host_view(const argument& x) : first_(static_cast<const char*>(x.data)) {
    if (!x.where().is_cuda()) return;
    std::int64_t low = 0, high = 1;
    for (int d = 0; d < x.rank; ++d) {
      if (x.extents[d] == 0) return;
      const std::int64_t reach = (x.extents[d] - 1) * x.strides[d];
      (reach < 0 ? low : high) += reach;
    }
    const auto item = static_cast<std::int64_t>(size_of(x.type));
    copy_.resize(static_cast<std::size_t>((high - low) * item));
    copy(copy_.data(), device::cpu(), first_ + low * item, x.where(), copy_.size());
    first_ = copy_.data() - low * item;
  }
  const void* data() const { return first_; }

 private:
  const char* first_;
  series<char> copy_;
};

inline ir::literal_array read(const argument& x) {
  const host_view host(x);
  ir::literal_array out;
  out.type = x.type;
  out.extents.assign(x.extents, x.extents + x.rank);
  const ir::detail::extents_t strides(x.strides, x.strides + x.rank),
      order = ir::detail::row_major_strides(out.extents);
  const auto n = static_cast<std::size_t>(ir::detail::count_of(out.extents));
  if (is_float(x.type)) out.f.resize(n);
  else out.i.resize(n);
  visit_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    using computed = std::conditional_t<!is_float(dtype_of<T>), std::int64_t,
                                        std::conditional_t<std::is_same_v<T, double>, double, float>>;
    ir::detail::with_elements(out, [&](auto* to) {
      const T* const from = static_cast<const T*>(host.data());
      ir::detail::walk(out.extents, strides, order, 0, 0, [&](std::int64_t i, std::int64_t j) {
        to[j] = static_cast<std::remove_pointer_t<decltype(to)>>(static_cast<computed>(from[i]));
      });
    });
  });
  return out;
}

inline void interpret(const code& c, std::span<const argument> arguments, std::span<const std::int64_t> sizes,
                      output* outputs) {
  series<ir::literal_array> inputs;
  for (const auto& a : arguments) inputs.push_back(read(a));
  const auto values = ir::evaluate(c.graph, inputs, sizes);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const storage& to = outputs[k].memory;
    if (!to.where().is_cuda()) {
      ir::pack(values[k], to.data());
      continue;
    }
    const storage host = allocate(to.bytes());
    ir::pack(values[k], host.data());
    copy(to.data(), to.where(), host.data(), device::cpu(), to.bytes());
  }
}

inline void interpret_instead(code& c) {
  c.interpreted = true;
  c.about.backend = interpreter;
  c.results.clear();
  c.donors.clear();
  c.about.peak = {};
  for (auto id : c.graph.outputs) {
    result_spec r;
    r.type = c.graph[id].type;
    r.extents = c.graph[id].extents;
    c.results.push_back(std::move(r));
  }
  finalize(c);
}

/// Generates like other backends; the chosen interpreter keeps its name.
inline void interpret_graph(code& c, const ir::graph&, std::span<const argument>, const options&) {
  const std::string chosen = c.about.backend;
  interpret_instead(c);
  c.about.backend = chosen;
}

}  // namespace sinter::engine::detail
