// front/eager/loop_moves.hpp: the devices of operands, and moving elements between devices and layouts; compiled once.
#pragma once

#include <utility>

#include "../../base/local_list.hpp"
#include "../tensor/trace_push.hpp"
#include "loop.hpp"

namespace sinter::detail {

/// user_error naming two operands that are on different devices.
[[noreturn]] inline void fail_devices(const char* op, const engine::argument& a, const engine::argument& b,
                                      location at) {
  const auto extents = [](const engine::argument& x) {
    dims d;
    for (int i = 0; i < x.rank; ++i) d.push(x.extents[i]);
    return d;
  };
  fail_devices(op, extents(a), a.where(), extents(b), b.where(), at);
}

SINTER_API void check_devices(const operand_list& list, int first, const char* op, location at) {
  const engine::operand* one = nullptr;
  for (int i = first; i < list.count; ++i) {
    const engine::operand& x = list.at[i];
    if (!x.is_tensor() || (x.rank == 0 && !x.where().is_cuda())) continue;
    if (!one) one = &x;
    else if (!(one->where() == x.where())) fail_devices(op, *one, x, at);
  }
}

inline void put_operand(const term& t, const void* place, engine::operand& x, location at) {
  x = {};
  x.type = t.type;
  x.rank = t.rank;
  x.by_value = t.is != term::tensor && t.is != term::index;
  if (t.read == nullptr) {
    x.data = const_cast<void*>(place);
    return;
  }
  operand_facts own;
  t.read(place, own);
  x.data = own.data;
  x.extents = as_numbers(own.extents);
  x.strides = as_numbers(own.strides);
  x.axis = own.axis;
  if (t.is != term::tensor) return;
  if (*own.traced) engine::fail_out_of_trace(*own.traced->tracer(), at);
  if (*own.memory) own.memory->wait();
  x.owner = own.memory;
}

/// Appends the operands of `e`, without comparing devices. An undefined tensor is reported even if shapes do not fit.
inline void put_operands(expression_view e, operand_list& list, location at, dim* extents) {
  for (int i = 0; i < e.count; ++i) {
    if (e.terms[i].is == term::operation) continue;
    engine::operand& x = list.at[list.count++];
    put_operand(e.terms[i], e.place(i), x, at);
    if (x.owner && !*x.owner) {
      operand_facts nothing;
      e.terms[i].read(e.place(i), nothing);
      const location call = donated_to(nothing.data, nothing.marks);
      if (extents && !call.line) extents_of(e, extents, at);
      fail_undefined("tensor", at, call);
    }
    list.on_gpu |= x.owner && x.where().is_cuda();
  }
}

/// The extents that operands broadcast to. False if they do not broadcast.
inline bool broadcast(const operand_list& list, dim* out, int rank) {
  std::fill_n(out, rank, dim(1));
  for (int i = 0; i < list.count; ++i) {
    const engine::operand& x = list.at[i];
    for (int k = 0, to = rank - x.rank; k < x.rank; ++k, ++to) {
      if (x.extents[k] == out[to].bits || x.extents[k] == 1) continue;
      if (out[to].bits != 1) return false;
      out[to].bits = x.extents[k];
    }
  }
  return true;
}

/// Checks that the operands of each operation are on one device. Returns the index after the last term of `i`; `operand`
/// counts operands.
SINTER_COLD inline int check_devices(expression_view e, int i, const operand_list& list, int& operand, location at) {
  const term& t = e.terms[i];
  if (t.is != term::operation) {
    ++operand;
    return i + 1;
  }
  const int first = operand;
  int next = i + 1;
  for (int k = 0; k < t.arity; ++k) next = check_devices(e, next, list, operand, at);
  const auto& where = *static_cast<const location*>(e.place(i));
  check_devices({list.at, operand, true}, first, ir::name(t.code), where.line ? where : at);
  return next;
}

SINTER_API void collect(expression_view e, operand_list& list, location at, dim* extents) {
  int operand = list.count;
  put_operands(e, list, at, extents);
  if (extents && !broadcast(list, extents, e.terms[0].rank)) extents_of(e, extents, at);
  if (list.on_gpu) check_devices(e, 0, list, operand, at);
}

SINTER_API device device_of(const operand_list& list, device otherwise) {
  bool any = false;
  for (int i = 0; i < list.count; ++i) {
    const engine::operand& x = list.at[i];
    if (!x.is_tensor()) continue;
    if (x.where().is_cuda()) return x.where();
    any |= x.rank > 0;
  }
  return any ? device{} : otherwise;
}

SINTER_API engine::output run_stage_as(const char* name, const void* signature, const operand_list& list,
                                       std::span<const std::int64_t> facts, device where, location at,
                                       engine::pushing trace) {
  for (int i = 0; i < list.count; ++i)
    if (where.is_cuda() && list.at[i].is_tensor() && list.at[i].rank == 0 && !list.at[i].where().is_cuda())
      list.at[i].by_value = true;
  return engine::run_stage({name, signature, {list.at, static_cast<std::size_t>(list.count)}, facts, where, at}, trace);
}

SINTER_API device resolve(const char* op, const target& where, location at) {
  const auto& t = engine::current();
  if (t && t->where && where.given && !(*where.given == *t->where))
    fail(op,
         "the traced function runs on " + t->where->text() + ", where its arguments are, not on " +
             where.given->text() + "; leave the device out",
         at);
  if (where.given) engine::check_device(*where.given, op, at);
  if (t && !t->where) t->where = where.given;
  if (t && t->where) return *t->where;
  return where.given ? *where.given : engine::default_device();
}

SINTER_API storage read_on_host(const trace_handle& traced, const storage& memory, dtype type, void*& data,
                                dim* extents, dim* strides, int rank, const char* what, location at) {
  storage from = memory;
  if (traced) {
    engine::captured x = engine::read(*traced, what, at);
    std::copy_n(x.extents.begin(), rank, extents);
    std::copy_n(x.strides.begin(), rank, strides);
    from = std::move(x.memory);
    data = x.data;
  } else {
    if (engine::reads_count) engine::count_read(what, memory, false, at);
  }
  from.wait();
  if (!from.where().is_cuda()) return from;
  const engine::tracing_scope eagerly(nullptr);
  engine::operand x;
  x.data = data;
  x.owner = &from;
  x.type = type;
  x.rank = rank;
  x.extents = as_numbers(extents);
  x.strides = as_numbers(strides);
  storage copy = moved(x, {}, at);
  data = copy.data();
  dim step = 1;
  for (int i = rank; i-- > 0; step *= extents[i]) strides[i] = step;
  return copy;
}

SINTER_API storage placed(storage written, std::size_t bytes, const target& where, location at) {
  if (const device to = resolve("tensor", where, at); to.is_cuda()) written = copied(written.data(), {}, to, bytes);
  if (engine::reads_count) engine::count_made(written);
  return written;
}

/// Drops axes of extent 1, and joins neighbours with equal steps in both operands; the remaining loops.
struct copy_loops {
  dims extents, to, from;

  copy_loops(const dims& e, const dims& to_strides, const dims& from_strides) {
    for (int i = 0; i < e.rank; ++i) {
      if (e[i] == 1) continue;
      const int last = extents.rank - 1;
      if (last >= 0 && to[last] == to_strides[i] * e[i] && from[last] == from_strides[i] * e[i]) {
        extents[last] *= e[i];
        to[last] = to_strides[i];
        from[last] = from_strides[i];
      } else {
        extents.push(e[i]);
        to.push(to_strides[i]);
        from.push(from_strides[i]);
      }
    }
    if (extents.rank == 0) {
      extents.push(1);
      to.push(1);
      from.push(1);
    }
  }
};

SINTER_API void copy_elements(void* to, const dims& to_strides, const void* from, const dims& from_strides,
                              const dims& extents, std::int64_t bytes) {
  const std::int64_t total = extents.numel();
  if (total == 0) return;
  const copy_loops loops(extents, to_strides, from_strides);
  const int inner = loops.extents.rank - 1;
  const std::int64_t count = loops.extents[inner], rows = total / count;
  const bool large = total > 1 << 15;
  (void)large;
#pragma omp parallel for if (large)
  for (std::int64_t r = 0; r < rows; ++r) {
    std::byte* t = static_cast<std::byte*>(to);
    const std::byte* f = static_cast<const std::byte*>(from);
    std::int64_t rest = r;
    for (int i = inner; i-- > 0; rest /= loops.extents[i]) {
      t += rest % loops.extents[i] * loops.to[i] * bytes;
      f += rest % loops.extents[i] * loops.from[i] * bytes;
    }
    switch (bytes) {
      case 1:
        copy_row<1>(t, loops.to[inner], f, loops.from[inner], count);
        break;
      case 2:
        copy_row<2>(t, loops.to[inner], f, loops.from[inner], count);
        break;
      case 4:
        copy_row<4>(t, loops.to[inner], f, loops.from[inner], count);
        break;
      default:
        copy_row<8>(t, loops.to[inner], f, loops.from[inner], count);
    }
  }
}

SINTER_API storage new_memory(const char* op, const dims& extents, std::size_t element, location at) {
  const auto bytes = static_cast<std::size_t>(checked_numel(op, extents, element, at)) * element;
  try {
    return engine::allocate(bytes);
  } catch (const system_error& lacks) {
    throw system_error("[" + std::string(at.op ? at.op : op) + "] " +
                       located(text::shape(extents) + ": " + lacks.what(), at));
  }
}

SINTER_API storage copied(const void* from, device from_where, device to, std::size_t bytes) {
  storage memory = engine::allocate(bytes, to);
  if (bytes) engine::copy(memory.data(), to, from, from_where, bytes);
  return memory;
}

SINTER_API storage moved(const engine::operand& x, device to, location at, bool waits) {
  const device here = x.where();
  if (!(here == to) && engine::current()) fail_moved_while_traced(at);
  if (!(here == to)) engine::check_device(to, "to", at);
  dims extents, strides, packed(x.rank);
  for (int i = 0; i < x.rank; ++i) {
    extents.push(x.extents[i]);
    strides.push(x.strides[i]);
  }
  std::int64_t step = 1;
  bool row_major = true;
  for (int i = x.rank; i-- > 0; step *= extents[i]) {
    packed[i] = step;
    row_major &= extents[i] == 1 || strides[i] == step;
  }
  const auto bytes =
      static_cast<std::size_t>(checked_numel("contiguous", extents, size_of(x.type), at)) * size_of(x.type);
  const auto there = [&](const storage& owner, const void* data) {
    if (!waits && here.is_cuda() && !to.is_cuda()) return engine::copy_to_host(owner, data, bytes);
    storage memory = engine::allocate(bytes, to);
    if (bytes) engine::copy(memory, memory.data(), owner, data, bytes);
    return memory;
  };
  if (row_major || step == 0) return there(*x.owner, x.data);
  storage memory;
  if (here.is_cuda()) {
    static constexpr char signature = 0;
    engine::operand operand = x;
    const engine::tracing_scope eagerly(nullptr);
    memory = run_stage_as("contiguous", &signature, {&operand, 1, true}, {}, here, at,
                          {[](const void* what) {
                             const auto& tensor = *static_cast<const engine::operand*>(what);
                             return engine::current()->capture(tensor, {});
                           },
                           &operand})
                 .memory;
  } else {
    memory = new_memory("contiguous", extents, size_of(x.type), at);
    copy_elements(memory.data(), packed, x.data, strides, extents, static_cast<std::int64_t>(size_of(x.type)));
  }
  return here == to ? memory : there(memory, memory.data());
}

/// The elements of an eager expression, whose extents go to `extents`.
inline storage run_rows(expression_view e, const row_stage& stage, dim* extents, device otherwise, location at) {
  const term& result = e.terms[0];
  const auto count = static_cast<std::size_t>(e.count);
  local_list<engine::operand, 16> operands(count);
  operand_list list{operands.data()};
  collect(e, list, at, extents);
  if (const device where = device_of(list, otherwise); where.is_cuda()) {
    const std::pair<expression_view, location> what(e, at);
    const auto trace = [](const void* w) {
      const auto& [expression, its] = *static_cast<decltype(&what)>(w);
      return push(*engine::current(), expression, its);
    };
    return run_stage_as(stage.name, stage.signature, list, {}, where, at, {trace, &what}).memory;
  }
  dims d;
  space s;
  s.rank = result.rank;
  for (int i = 0; i < result.rank; ++i) {
    d.push(extents[i]);
    s.extent[i] = extents[i];
  }
  const auto bytes = static_cast<std::int64_t>(size_of(result.type));
  storage memory = new_memory("tensor", d, static_cast<std::size_t>(bytes), at);
  local_list<leaf, 16> leaves(count);
  bind_leaves(list, result.rank, leaves.data());
  int leaf_number = 0;
  for (int i = 0; i < list.count; ++i) leaf_number += !list.at[i].is_number();
  for_each_row(s, leaves.data(), leaf_number, e.expression, stage.fill, static_cast<char*>(memory.data()), bytes);
  return memory;
}

SINTER_API void* run_rows(const row_stage& stage, const void* expression, device otherwise, location at,
                          const tensor_parts& out) {
  const expression_view e{stage.terms, stage.count, expression};
  *out.memory = run_rows(e, stage, out.extents, otherwise, at);
  put_strides(out.extents, out.strides, stage.terms->rank);
  return out.memory->data();
}

SINTER_API void* stage_point(const row_stage& stage, const void* expression, device otherwise, location at,
                             const tensor_parts& out) {
  const auto& t = engine::current();
  if (!t) return run_rows(stage, expression, otherwise, at, out);
  push_point(t, {stage.terms, stage.count, expression}, at, out);
  return nullptr;
}

SINTER_API void check_some(const char* op, const dims& extents, const int* axes, int count, location at) {
  for (int i = 0; i < count; ++i)
    if (extents[axes[i]] == 0)
      fail(op,
           "of nothing: axis " + std::to_string(axes[i]) + " of " + text::shape(extents) +
               " is empty; test the extent before, or pad",
           at);
}

SINTER_API bool broadcasts_to(const engine::row_source& x, const engine::row_source& to) {
  for (int i = 0; i < x.rank; ++i)
    if (x.extents[i] != 1 && x.extents[i] != to.extents[to.rank - x.rank + i]) return false;
  return true;
}

}  // namespace sinter::detail
