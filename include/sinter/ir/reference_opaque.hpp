// ir/reference_opaque.hpp: the interpreter's branches, loops and calls of users' functions.
#pragma once

#include <algorithm>
#include <utility>

#include "../base/series.hpp"
#include "graph.hpp"
#include "literal_array.hpp"

namespace sinter::ir {

/// Stores the elements in their dtype.
inline void pack(const literal_array& x, void* to) {
  visit_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    T* const p = static_cast<T*>(to);
    if constexpr (std::is_same_v<T, double>) std::copy(x.f.begin(), x.f.end(), p);
    else if constexpr (is_float(dtype_of<T>))
      std::transform(x.f.begin(), x.f.end(), p, [](double v) { return T(static_cast<float>(v)); });
    else std::transform(x.i.begin(), x.i.end(), p, [](std::int64_t v) { return static_cast<T>(v); });
  });
}

/// The elements of row-major memory.
inline literal_array unpack(const void* from, dtype type, series<std::int64_t> extents) {
  literal_array out{type, std::move(extents), {}, {}};
  std::int64_t n = 1;
  for (auto e : out.extents) n *= e;
  visit_dtype(type, [&]<class T>(std::type_identity<T>) {
    const T* const p = static_cast<const T*>(from);
    for (std::int64_t i = 0; i < n; ++i)
      if constexpr (std::is_same_v<T, double>) out.f.push_back(p[i]);
      else if constexpr (is_float(dtype_of<T>)) out.f.push_back(static_cast<double>(static_cast<float>(p[i])));
      else out.i.push_back(static_cast<std::int64_t>(p[i]));
  });
  return out;
}

namespace detail {

using array_pointers = series<const literal_array*>;

inline series<std::int64_t> numbers_of(const shape& extents, std::span<const std::int64_t> sizes) {
  series<std::int64_t> e;
  for (const auto& d : extents) e.push_back(d.evaluate(sizes));
  return e;
}

inline std::size_t count_elements(const series<std::int64_t>& extents) {
  std::size_t n = 1;
  for (auto e : extents) n *= static_cast<std::size_t>(e);
  return n;
}

inline literal_array zeros_of(const result_type& r, std::span<const std::int64_t> sizes) {
  literal_array out{r.type, numbers_of(r.extents, sizes), {}, {}};
  if (is_float(r.type)) out.f.resize(count_elements(out.extents));
  else out.i.resize(count_elements(out.extents));
  return out;
}

inline void copy_slice(const literal_array& from, std::size_t begin, literal_array& to, std::size_t at,
                       std::size_t count) {
  if (is_float(from.type)) std::copy_n(from.f.begin() + begin, count, to.f.begin() + at);
  else std::copy_n(from.i.begin() + begin, count, to.i.begin() + at);
}

inline literal_array slice_of(const literal_array& x, std::size_t i) {
  literal_array out{x.type, {x.extents.begin() + 1, x.extents.end()}, {}, {}};
  const std::size_t count = count_elements(out.extents);
  if (is_float(x.type)) out.f.resize(count);
  else out.i.resize(count);
  copy_slice(x, i * count, out, 0, count);
  return out;
}

inline series<literal_array> copies(const array_pointers& in, std::size_t from, std::size_t to) {
  series<literal_array> out;
  for (std::size_t k = from; k < to; ++k) out.push_back(*in[k]);
  return out;
}

inline series<literal_array> run_loop(const opaque& step, const array_pointers& in, const series<char>& picked,
                                      std::span<const std::int64_t> sizes) {
  const std::size_t carried = step.carried, stacked = step.stacked;
  const auto length = static_cast<std::size_t>(step.length.evaluate(sizes));
  series<literal_array> out = copies(in, 0, carried);
  for (std::size_t k = carried; k < step.results.size(); ++k)
    out.push_back(picked[k] ? zeros_of(step.results[k], sizes) : literal_array{});
  series<literal_array> inputs(1 + in.size());
  inputs[0] = {dtype::i64, {}, {}, {0}};
  for (std::size_t k = carried + step.sliced; k < in.size(); ++k) inputs[k + 1] = *in[k];
  const auto keep = [&](std::size_t k, const literal_array& x, std::size_t i) {
    const std::size_t count = count_elements(x.extents);
    if (picked[k]) copy_slice(x, 0, out[k], i * count, count);
  };
  for (std::size_t turn = 0; turn < length; ++turn) {
    const std::size_t i = step.reverse ? length - 1 - turn : turn;
    inputs[0].i[0] = static_cast<std::int64_t>(i);
    for (std::size_t k = 0; k < carried; ++k) {
      keep(carried + stacked + k, out[k], i);
      inputs[k + 1] = std::move(out[k]);
    }
    for (std::size_t k = carried; k < carried + step.sliced; ++k) inputs[k + 1] = slice_of(*in[k], i);
    auto values = evaluate(step.parts[0], inputs, sizes);
    for (std::size_t k = 0; k < carried; ++k) out[k] = std::move(values[k]);
    for (std::size_t k = carried; k < carried + stacked; ++k) keep(k, values[k], i);
  }
  return out;
}

inline series<literal_array> run_while(const opaque& step, const array_pointers& in,
                                       std::span<const std::int64_t> sizes) {
  series<literal_array> inputs = copies(in, 0, in.size());
  while (evaluate(step.parts[0], inputs, sizes)[0].i[0] != 0) {
    auto values = evaluate(step.parts[1], inputs, sizes);
    for (std::size_t k = 0; k < step.carried; ++k) inputs[k] = std::move(values[k]);
  }
  inputs.resize(step.carried);
  return inputs;
}

/// Calls a host function on separate arrays.
inline series<literal_array> run_foreign(const opaque& step, const array_pointers& in,
                                         std::span<const std::int64_t> sizes) {
  series<series<char>> memory(in.size() + step.results.size());
  series<series<std::int64_t>> extents(memory.size());
  series<foreign_array> all;
  for (std::size_t k = 0; k < memory.size(); ++k) {
    const bool operand = k < in.size();
    const dtype type = operand ? in[k]->type : step.results[k - in.size()].type;
    extents[k] = operand ? in[k]->extents : numbers_of(step.results[k - in.size()].extents, sizes);
    memory[k].resize(count_elements(extents[k]) * size_of(type));
    if (operand) pack(*in[k], memory[k].data());
    all.push_back({memory[k].data(), type, extents[k].data(), static_cast<int>(extents[k].size())});
  }
  const foreign_arrays arrays(all.data(), all.size());
  const foreign& f = *step.function;
  (f.plain ? f.plain : f.host)(arrays.subspan(0, in.size()), arrays.subspan(in.size()));
  series<literal_array> out;
  for (std::size_t k = in.size(); k < all.size(); ++k)
    out.push_back(unpack(all[k].data, all[k].type, std::move(extents[k])));
  return out;
}

/// Whether each result of an opaque node is picked.
inline series<char> is_picked(const series<node_id>& picks_of_step) {
  series<char> out;
  for (auto pick : picks_of_step) out.push_back(pick != no_node);
  return out;
}

/// The results of an opaque node; results without a pick may be empty.
inline series<literal_array> opaque_results(const node& n, const array_pointers& in, const series<char>& picked,
                                            std::span<const std::int64_t> sizes) {
  const opaque& step = *n.attr.step;
  switch (step.kind) {
    case opaque_kind::cond: {
      const graph& part = step.parts[in[0]->i[0] != 0 ? 0 : 1];
      const auto inputs = copies(in, 1, in.size());
      return evaluate(part, inputs, sizes);
    }
    case opaque_kind::loop:
      return run_loop(step, in, picked, sizes);
    case opaque_kind::while_loop:
      return run_while(step, in, sizes);
    case opaque_kind::call:
      return evaluate(step.parts[0], copies(in, 0, in.size()), sizes);
    default:
      return run_foreign(step, in, sizes);
  }
}

}  // namespace detail
}  // namespace sinter::ir
