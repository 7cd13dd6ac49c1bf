// jit/backends/registered.hpp: a backend of the user's: graphs become callables, one for each set of extents.
#pragma once

#include <memory>
#include <mutex>

#include "../../engine/backends.hpp"
#include "../../engine/graph.hpp"
#include "reference.hpp"

namespace sinter::engine::detail {

struct registered_backend {
  const char* name;
  backend_row row;
};

/// Operands as a backend sees them: row-major; others are copied.
class row_major_operands {
 public:
  explicit row_major_operands(std::span<const argument> all) {
    copies_.reserve(all.size());
    for (const argument& a : all) arrays_.push_back({elements(a), a.type, a.extents, a.rank});
  }
  backend_arrays arrays() const { return {arrays_.data(), arrays_.size()}; }

 private:
  void* elements(const argument& a) {
    if (is_row_major(a)) return a.data;
    const ir::literal_array values = read(a);
    const storage host = allocate(static_cast<std::size_t>(ir::detail::count_of(values.extents)) * size_of(a.type));
    ir::pack(values, host.data());
    copies_.push_back(host);
    if (a.where().is_cuda()) {
      copies_.back() = allocate(host.bytes(), a.where());
      copy(copies_.back().data(), a.where(), host.data(), device::cpu(), host.bytes());
    }
    return copies_.back().data();
  }
  series<ir::foreign_array> arrays_;
  series<storage> copies_;
};

/// The callables of one graph, by its sizes. Thread-safe.
class backend_calls {
 public:
  backend_calls(const registered_backend& of, bool open) : of_(of), open_(open) {}

  /// Makes the callable of a graph without open sizes, so that a problem shows at once.
  void prepare(const ir::graph& g, std::span<const argument> arguments) {
    const row_major_operands operands(arguments);
    if (!open_) call_for(g, operands.arrays(), {});
  }

  void run(const code& c, std::span<const argument> arguments, std::span<const std::int64_t> sizes, output* outputs) {
    const row_major_operands operands(arguments);
    const backend_call call = call_for(c.graph, operands.arrays(), sizes);
    series<ir::foreign_array> results;
    for (std::size_t k = 0; k < c.results.size(); ++k)
      results.push_back({outputs[k].memory.data(), outputs[k].type, outputs[k].extents, outputs[k].rank});
    call(operands.arrays(), {results.data(), results.size()});
  }

 private:
  struct made {
    series<std::int64_t> sizes;
    backend_call call;
  };
  backend_call call_for(const ir::graph& g, backend_arrays examples, std::span<const std::int64_t> sizes) {
    const std::lock_guard lock(mutex_);
    for (const made& m : made_)
      if (!open_ || std::equal(m.sizes.begin(), m.sizes.end(), sizes.begin(), sizes.end())) return m.call;
    ir::graph fixed = g;
    if (open_) fixed.replace_sizes([&](const ir::dim& d) { return ir::dim(d.evaluate(sizes)); });
    backend_call call = of_.row.compile(graph(std::move(fixed)), examples);
    if (!call)
      throw system_error(std::string("the backend '") + of_.name +
                         "' made no function of the graph; it returned an empty one");
    if (made_.size() == max_kept) made_.erase(made_.begin());
    made_.push_back({series<std::int64_t>(sizes.begin(), sizes.end()), call});
    return call;
  }

  static constexpr std::size_t max_kept = 64;
  const registered_backend& of_;
  const bool open_;
  std::mutex mutex_;
  series<made> made_;
};

inline void generate_registered(const registered_backend& b, code& c, std::span<const argument> arguments,
                                const options&) {
  interpret_instead(c);
  c.about.backend = b.name;
  auto calls = make_on_heap<backend_calls>(b, c.layout.any_open());
  calls->prepare(c.graph, arguments);
  c.foreign = [calls](const code& of, std::span<const argument> all, std::span<const std::int64_t> sizes,
                      output* outputs) { calls->run(of, all, sizes, outputs); };
}

}  // namespace sinter::engine::detail
