// tests/fuzz/kernels.hpp: graphs planned and printed, and calls of their kernels on guarded, poisoned memory.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <sinter/emit/cpu/kernel.hpp>
#include <sinter/ir/define.hpp>
#include <sinter/plan/memory.hpp>
#include <sinter/run/host/program.hpp>
#include <string>
#include <vector>

#include "../sanitizers.hpp"
#include "../stack_arrays.hpp"
#include "batch.hpp"
#include "bounds.hpp"
#include "random_graph.hpp"
#include "random_values.hpp"

namespace fuzz {

/// Memory whose every byte is poisoned, between guards that must stay as they are. Under the address sanitizer there
/// are no guards, so that it sees what is read beyond the ends as well.
class guarded {
 public:
  guarded(std::size_t bytes, unsigned char poison) : bytes_(bytes), memory_(allocate(bytes + 2 * guard)) {
    std::memset(data(), poison, bytes_);
    for (std::size_t i = 0; i < guard; ++i) before(i) = after(i) = mark(i);
  }
  unsigned char* data() const { return memory_.get() + guard; }
  std::size_t size() const { return bytes_; }
  bool intact() const {
    for (std::size_t i = 0; i < guard; ++i)
      if (before(i) != mark(i) || after(i) != mark(i)) return false;
    return true;
  }

 private:
#if SINTER_TEST_ADDRESS_SANITIZER
  static constexpr std::size_t guard = 0;
#else
  static constexpr std::size_t guard = 256;
#endif
  struct release {
    void operator()(unsigned char* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  static unsigned char* allocate(std::size_t bytes) {
    return static_cast<unsigned char*>(::operator new (bytes, std::align_val_t{64}));
  }
  static unsigned char mark(std::size_t i) { return static_cast<unsigned char>(0x5a ^ (i & 7)); }
  unsigned char& before(std::size_t i) const { return memory_.get()[i]; }
  unsigned char& after(std::size_t i) const { return memory_.get()[guard + bytes_ + i]; }

  std::size_t bytes_;
  std::unique_ptr<unsigned char, release> memory_;
};

/// Where an array of no element lies: at no address that may be read, as the engine's do.
inline unsigned char* place_of(unsigned char* data, std::size_t bytes) { return bytes > 0 ? data : nullptr; }

/// How an input lies in memory; strides in elements, which may be negative or 0.
struct layout {
  std::vector<std::int64_t> strides;
  std::int64_t low = 0, high = 0;  ///< offsets of the first and the last element from that at index 0
};

/// Row-major, permuted, with gaps, reversed, or broadcast.
inline layout random_layout(std::mt19937_64& bits, const std::vector<std::int64_t>& extents) {
  layout l;
  const std::size_t rank = extents.size();
  l.strides.assign(rank, 0);
  std::vector<std::size_t> order(rank);
  for (std::size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  const auto style = bits() % 10;
  if (style >= 6) std::shuffle(order.begin(), order.end(), bits);
  std::int64_t s = style == 9 ? 2 : 1;
  for (auto d : order) {
    const std::int64_t n = std::max<std::int64_t>(extents[d], 1) + (style == 7 ? 1 : 0);
    // An empty array's other extents may multiply to more than 64 bits; nothing is read there.
    const bool fits = s < (std::int64_t{1} << 60) / n;
    l.strides[d] = fits ? s : 0;
    s = fits ? s * n : 0;
    if (style == 8 && bits() % 2) l.strides[d] = -l.strides[d];
    if (style == 5 && bits() % 2) l.strides[d] = 0;
  }
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t reach = (extents[d] - 1) * l.strides[d];
    (reach < 0 ? l.low : l.high) += reach;
  }
  return l;
}

inline layout row_major_layout(const std::vector<std::int64_t>& extents) {
  layout l;
  l.strides.assign(extents.size(), 0);
  std::int64_t s = 1;
  for (std::size_t d = extents.size(); d-- > 0; s *= extents[d]) l.strides[d] = s;
  l.high = s - 1;
  return l;
}

/// f(offset, index) for every element in row-major order.
template <class F>
void for_each_element(const std::vector<std::int64_t>& extents, const std::vector<std::int64_t>& strides, F&& f) {
  std::size_t n = 1;
  for (auto e : extents) n *= static_cast<std::size_t>(e);
  std::vector<std::int64_t> at(extents.size());
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < n; ++i) {
    f(offset, i);
    for (std::size_t d = extents.size(); d-- > 0;) {
      offset += strides[d];
      if (++at[d] < extents[d]) break;
      offset -= at[d] * strides[d];
      at[d] = 0;
    }
  }
}

/// An input in memory; where its strides are 0, `x` takes the last value written to the element.
struct operand {
  std::unique_ptr<guarded> memory;
  unsigned char* data = nullptr;

  operand(literal_array& x, const layout& l) {
    const std::size_t size = size_of(x.type);
    bool empty = false;
    for (auto e : x.extents) empty = empty || e == 0;
    memory = std::make_unique<guarded>(empty ? 0 : static_cast<std::size_t>(l.high - l.low + 1) * size, 0xff);
    data = place_of(memory->data() - (empty ? 0 : l.low * static_cast<std::int64_t>(size)), memory->size());
    sinter::visit_dtype(x.type, [&]<class T>(std::type_identity<T>) {
      T* const p = reinterpret_cast<T*>(data);
      for_each_element(x.extents, l.strides, [&](std::int64_t offset, std::size_t i) {
        if constexpr (std::is_same_v<T, double>) p[offset] = x.f[i];
        else if constexpr (sinter::is_float(sinter::dtype_of<T>)) p[offset] = T(static_cast<float>(x.f[i]));
        else p[offset] = static_cast<T>(x.i[i]);
      });
      for_each_element(x.extents, l.strides, [&](std::int64_t offset, std::size_t i) {
        if constexpr (std::is_same_v<T, double>) x.f[i] = p[offset];
        else if constexpr (sinter::is_float(sinter::dtype_of<T>))
          x.f[i] = static_cast<double>(static_cast<float>(p[offset]));
        else x.i[i] = static_cast<std::int64_t>(p[offset]);
      });
    });
  }
};

/// Why an element of a result in memory is wrong; "" when all are right. `compared` counts those with a bound.
inline std::string difference(const bounded& want, const unsigned char* got, std::size_t& compared, std::size_t& seen) {
  std::string why;
  const dtype t = want.value.type;
  sinter::visit_dtype(t, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < want.bound.size() && why.empty(); ++i) {
      ++seen;
      if (sinter::is_bool(t) && got[i] > 1) {
        why = "element " + std::to_string(i) + ": a bool is the byte " + std::to_string(got[i]);
        return;
      }
      const double e = want.bound[i];
      if (e == unknown) continue;
      ++compared;
      T x;
      std::memcpy(&x, got + i * sizeof(T), sizeof(T));
      if constexpr (sinter::is_float(sinter::dtype_of<T>)) {
        const double r = want.value.f[i];
        double y = 0;
        if constexpr (std::is_same_v<T, double>) y = x;
        else y = static_cast<double>(static_cast<float>(x));
        const double allowed = e > 0 ? 2 * e + detail::unit(t) * std::fabs(r) : 0;
        const bool same = r == y || (std::isnan(r) && std::isnan(y)) || std::fabs(r - y) <= allowed;
        if (!same)
          why = "element " + std::to_string(i) + ": " + sinter::text::number(y) + ", not " + sinter::text::number(r) +
                " +- " + sinter::text::number(allowed);
      } else if (static_cast<std::int64_t>(x) != want.value.i[i]) {
        why = "element " + std::to_string(i) + ": " + std::to_string(static_cast<std::int64_t>(x)) + ", not " +
              std::to_string(want.value.i[i]);
      }
    }
  });
  return why;
}

/// A graph planned for one layout of its inputs.
struct planned {
  sinter::ir::graph graph;
  std::vector<layout> layouts;
  sinter::engine::plan::fused kernels;
  std::vector<sinter::engine::emit::source> sources;
  std::size_t first = 0;  ///< of its kernels in the batch
};

inline std::vector<std::int64_t> extents_of(const shape& s, std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> e;
  for (const auto& d : s) e.push_back(d.evaluate(sizes));
  return e;
}

/// Results get a node each, which is no input; a reshaped result is its operand's memory.
inline void separate_results(sinter::ir::graph& g) {
  std::vector<node_id> taken(g.inputs.begin(), g.inputs.end());
  for (auto& out : g.outputs) {
    node_id id = out;
    while (g[id].code == op::reshape) id = g[id].in[0];
    if (std::find(taken.begin(), taken.end(), id) != taken.end()) id = g.mark(out);
    taken.push_back(id);
    out = id;
  }
}

/// A layout for each input. With symbols, inputs are row-major, which an empty layout says.
inline std::vector<layout> layouts_of(const sinter::ir::graph& g, std::mt19937_64& bits, bool symbols) {
  std::vector<layout> all;
  for (auto id : g.inputs) all.push_back(symbols ? layout() : random_layout(bits, extents_of(g[id].extents, {})));
  return all;
}

/// Plans and prints.
inline planned plan_graph(sinter::ir::graph g, std::vector<layout> layouts, std::vector<std::int64_t> hints) {
  planned p;
  separate_results(g);
  sinter::engine::plan::memory_map memory;
  memory.hints = hints;
  memory.strides.resize(g.size());
  for (std::size_t i = 0; i < g.inputs.size() && hints.empty(); ++i)
    memory.strides[g.inputs[i]].assign(layouts[i].strides.begin(), layouts[i].strides.end());
  p.layouts = std::move(layouts);
  // Of half of the graphs, intermediates that products read or write have gaps between their rows.
  sinter::engine::plan::target host;
  if (g.size() % 2 == 1) host.padding = {.alignment = 16, .min_row = 1, .min_array = 1};
  p.kernels = sinter::engine::plan::fuse(g, memory, host);
  for (const auto& k : p.kernels.kernels) p.sources.push_back(sinter::engine::emit::cpu(k));
  p.graph = std::move(g);
  return p;
}

inline planned plan_graph(sinter::ir::graph g, std::mt19937_64& bits, std::vector<std::int64_t> hints) {
  auto layouts = layouts_of(g, bits, !hints.empty());
  return plan_graph(std::move(g), std::move(layouts), std::move(hints));
}

struct tally {
  std::size_t compared = 0, seen = 0, kernels = 0, unfused = 0;

  tally& operator+=(const tally& t) {
    compared += t.compared;
    seen += t.seen;
    kernels += t.kernels;
    unfused += t.unfused;
    return *this;
  }
};

/// Random inputs in memory, and their values as the reference reads them.
struct inputs {
  std::vector<literal_array> values;
  std::vector<operand> operands;

  inputs(const sinter::ir::graph& g, const std::vector<layout>& layouts, std::mt19937_64& bits,
         const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 0; i < g.inputs.size(); ++i) {
      const auto& n = g[g.inputs[i]];
      values.push_back(random_values(bits, n.type, extents_of(n.extents, sizes)));
      operands.emplace_back(values.back(), sizes.empty() ? layouts[i] : row_major_layout(values.back().extents));
    }
  }
};

/// Runs a planned graph on poisoned memory; the first thing that is wrong with a result, as `wanted`, or "".
inline std::string run(const planned& p, const batch& b, const inputs& in, const std::vector<const bounded*>& wanted,
                       const std::vector<std::int64_t>& sizes, tally& count) {
  const auto& g = p.graph;
  std::vector<std::unique_ptr<guarded>> results;
  std::map<int, int> slot;
  std::vector<void*> table;
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    slot[static_cast<int>(g.inputs[i])] = static_cast<int>(table.size());
    table.push_back(in.operands[i].data);
  }
  sinter::sorted_set<int> given;
  for (auto id : g.inputs) given.insert(static_cast<int>(id));
  for (auto id : g.outputs) {
    const auto& n = g[id];
    const bool floating = sinter::is_float(n.type);
    const auto bytes = static_cast<std::size_t>(sinter::ir::product(n.extents).evaluate(sizes)) * size_of(n.type);
    results.push_back(std::make_unique<guarded>(bytes, floating ? 0xff : 0xa5));
    slot[static_cast<int>(id)] = static_cast<int>(table.size());
    table.push_back(place_of(results.back()->data(), bytes));
    given.insert(static_cast<int>(id));
  }
  const auto lives = sinter::engine::plan::lifetimes(g, p.kernels.kernels, p.kernels.strides, given, sizes);
  const auto arena = sinter::engine::plan::place(lives);
  const guarded scratch(static_cast<std::size_t>(arena.bytes), 0xff);
  for (const auto& life : lives) {
    slot[life.buffer] = static_cast<int>(table.size());
    table.push_back(place_of(scratch.data() + arena.offset.at(life.buffer), static_cast<std::size_t>(life.bytes)));
  }
  count.kernels += p.kernels.kernels.size();
  count.unfused += p.kernels.unfused;
  for (const auto& s : p.sources)
    if (const std::int64_t bytes = stack_arrays(s.text); bytes > 48 << 10)
      return "a kernel has " + std::to_string(bytes) + " bytes of arrays on the stack";
  for (std::size_t k = 0; k < p.kernels.kernels.size(); ++k) {
    std::vector<void*> args;
    for (const auto& u : p.kernels.kernels[k].buffers) args.push_back(table[static_cast<std::size_t>(slot.at(u.id))]);
    const auto& memory = p.sources[k].scratch;
    constexpr std::int64_t max_threads = 3;
    const guarded local(static_cast<std::size_t>(memory.bytes(sizes, max_threads)), 0xff);
    const std::int64_t parts[] = {memory.threads(sizes, max_threads), memory.of_thread(sizes)};
    if (memory.by_thread()) std::memcpy(local.data(), parts, sizeof(parts));
    b.entry(p.first + k)(args.data(), reinterpret_cast<char*>(local.data()), sizes.data());
    if (!local.intact()) return "kernel " + std::to_string(k) + " writes outside its scratch memory";
  }
  if (!scratch.intact()) return "a kernel writes outside the intermediates";
  for (const auto& o : in.operands)
    if (!o.memory->intact()) return "a kernel writes around an input";
  for (std::size_t k = 0; k < g.outputs.size(); ++k) {
    if (!results[k]->intact()) return "a kernel writes around result " + std::to_string(k);
    const std::string why = difference(*wanted[k], results[k]->data(), count.compared, count.seen);
    if (!why.empty()) return "result " + std::to_string(k) + ", " + why;
  }
  return "";
}

/// The same on random inputs.
inline std::string run(const planned& p, const batch& b, std::mt19937_64& bits, const std::vector<std::int64_t>& sizes,
                       tally& count) {
  const inputs in(p.graph, p.layouts, bits, sizes);
  const auto want = evaluate(p.graph, in.values, sizes);
  std::vector<const bounded*> wanted;
  for (auto id : p.graph.outputs) wanted.push_back(&want[id]);
  return run(p, b, in, wanted, sizes, count);
}

}  // namespace fuzz
