// jit/reference.hpp: the backend that interprets the graph; also what answers where there is no compiler.
#pragma once

#include "../base/series.hpp"
#include "../ir/reference_opaque.hpp"
#include "code.hpp"

namespace sinter::engine::detail {

/// The elements of an argument in host memory: what is on a GPU is copied, from its first element to its last.
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
  std::int64_t n = 1;
  for (auto e : out.extents) n *= e;
  dispatch(x.type, [&]<class T>(std::type_identity<T>) {
    series<std::int64_t> at(static_cast<std::size_t>(x.rank));
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t offset = 0, rest = i;
      for (int d = x.rank; d-- > 0;) {
        offset += rest % x.extents[d] * x.strides[d];
        rest /= x.extents[d];
      }
      const T value = static_cast<const T*>(host.data())[offset];
      if constexpr (is_float(dtype_of<T>))
        out.f.push_back(
            static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value)));
      else out.i.push_back(static_cast<std::int64_t>(value));
    }
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
  c.about.backend = "reference";
  c.results.clear();
  for (auto id : c.graph.outputs) {
    result_spec r;
    r.type = c.graph[id].type;
    r.extents = c.graph[id].extents;
    c.results.push_back(std::move(r));
  }
  settle(c);
}

}  // namespace sinter::engine::detail
