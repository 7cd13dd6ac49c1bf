// io/dlpack.hpp: shares tensors with other libraries without a copy, by the structs of DLPack's ABI, 0.8 and 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "array.hpp"

namespace sinter::io {

/// The structs as they lie in memory; the structs of <dlpack/dlpack.h> are accepted, too.
namespace dlpack {

struct device {
  std::int32_t type, id;  ///< 1: the host, 2: CUDA, 3: pinned memory of the host, 13: CUDA's managed memory
};
struct data_type {
  std::uint8_t code, bits;  ///< 0 signed, 1 unsigned, 2 floating, 4 bfloat, 6 bool, 10 e4m3fn, 12 e5m2
  std::uint16_t lanes;
};
/// DLTensor.
struct view {
  void* data;
  dlpack::device where;
  std::int32_t ndim;
  data_type type;
  std::int64_t* shape;
  std::int64_t* strides;  ///< null for row-major
  std::uint64_t byte_offset;
};
/// DLManagedTensor.
struct managed {
  view dl_tensor;
  void* manager_ctx;
  void (*deleter)(managed*);
};
/// DLManagedTensorVersioned.
struct managed_versioned {
  std::uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(managed_versioned*);
  std::uint64_t flags;  ///< 1: read-only, 2: a copy
  view dl_tensor;
};

}  // namespace dlpack

namespace detail {

/// The struct of this header for either struct, under its own name or DLPack's.
template <class M>
using own_managed = std::conditional_t < requires(M& m) {
  m.flags;
}
, dlpack::managed_versioned, dlpack::managed > ;
template <class M>
concept dl_managed = requires(M& m) {
  m.dl_tensor.byte_offset;
  m.deleter(&m);
  requires sizeof(M) == sizeof(own_managed<M>);
};

inline dlpack::data_type dl_type(dtype type) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(type));
  if (type == dtype::f8_e4m3) return {10, 8, 1};
  if (type == dtype::f8_e5m2) return {12, 8, 1};
  if (type == dtype::bf16) return {4, bits, 1};
  const std::uint8_t code = is_bool(type) ? 6 : is_float(type) ? 2 : is_unsigned(type) ? 1 : 0;
  return {code, bits, 1};
}
inline dtype type_of_dl(const dlpack::data_type& t, location at) {
  for (int i = 0; i <= static_cast<int>(dtype::f8_e5m2); ++i) {
    const auto type = static_cast<dtype>(i);
    const dlpack::data_type d = dl_type(type);
    if (d.code == t.code && d.bits == t.bits && t.lanes == 1) return type;
  }
  fail("io::from_dlpack",
       "no tensor has elements of DLPack's code " + std::to_string(t.code) + " with " + std::to_string(t.bits) +
           " bits and " + std::to_string(t.lanes) + " lanes; convert them first",
       at);
}

/// The data that an exported tensor keeps alive.
template <class Managed>
struct exported {
  Managed tensor{};
  storage memory;
  std::int64_t shape[max_rank + 1] = {}, strides[max_rank + 1] = {};
};

template <class Managed>
Managed* export_dl(sinter::detail::handle h, location at) {
  if (h.tracer || engine::current()) fail("io::to_dlpack", "a function is being traced; export what it returns", at);
  const device where = h.memory.where();
  // The consumer may use another stream.
  if (where.is_cuda()) engine::synchronize(where);
  else h.memory.wait();
  auto* const e = new exported<Managed>;
  for (int i = 0; i < h.extents.rank; ++i) {
    e->shape[i] = h.extents[i].bits;
    e->strides[i] = h.strides[i].bits;
  }
  e->tensor.dl_tensor = {h.data,
                         where.is_cuda() ? dlpack::device{2, where.index} : dlpack::device{1, 0},
                         h.extents.rank,
                         dl_type(h.type),
                         e->shape,
                         e->strides,
                         0};
  if constexpr (requires { e->tensor.flags; }) {
    e->tensor.major = 1;
    e->tensor.minor = 0;
  }
  e->memory = std::move(h.memory);
  e->tensor.manager_ctx = e;
  e->tensor.deleter = [](Managed* m) { delete static_cast<exported<Managed>*>(m->manager_ctx); };
  return &e->tensor;
}

/// A block whose end calls a deleter.
template <class Managed>
storage adopted(Managed* m) {
  struct owner : sinter::detail::block {
    Managed* managed;
  };
  auto* const b = new owner;
  b->managed = m;
  b->release = [](sinter::detail::block* x) noexcept {
    auto* const mine = static_cast<owner*>(x);
    if (mine->managed->deleter) mine->managed->deleter(mine->managed);
    delete mine;
  };
  return storage(b);
}

inline sinter::detail::handle read_dl(const dlpack::view& v, location at) {
  const auto wrong = [&](const std::string& what) { fail("io::from_dlpack", what, at); };
  sinter::detail::handle h;
  h.type = type_of_dl(v.type, at);
  if (v.ndim < 0 || v.ndim > max_rank)
    wrong("it has " + std::to_string(v.ndim) + " axes; a tensor has 12 at most: reshape it first");
  const std::span<const std::int64_t> extents(v.shape, static_cast<std::size_t>(v.ndim));
  std::size_t bytes = 0;
  if (!count_bytes(extents, size_of(h.type), bytes))
    wrong("it has extents " + shape_text(extents) + ", which no tensor has");
  h.extents.rank = h.strides.rank = v.ndim;
  std::int64_t step = 1;
  for (int i = v.ndim; i-- > 0;) {
    h.extents[i] = v.shape[i];
    h.strides[i] = v.strides ? v.strides[i] : step;
    step *= v.shape[i];
  }
  h.data = static_cast<std::byte*>(v.data) + (v.data ? v.byte_offset : 0);
  if (!v.data && bytes > 0) wrong("it has no elements in memory");
  if (reinterpret_cast<std::uintptr_t>(h.data) % size_of(h.type) != 0)
    wrong("its elements are not aligned; copy them first");
  return h;
}
inline device device_of_dl(const dlpack::device& d, location at) {
  if (d.type == 1 || d.type == 3) return {};
  if (d.type != 2 && d.type != 13)
    fail("io::from_dlpack",
         "it is on a device of DLPack's type " + std::to_string(d.type) + "; move it to the host or to CUDA first", at);
  engine::check_device(device::cuda(d.id), "io::from_dlpack", at);
  return device::cuda(d.id);
}

template <class Managed>
sinter::detail::handle import_dl(Managed* m, dtype type, const dims& shape, location at) {
  if (!m) fail("io::from_dlpack", "the pointer is null", at);
  bool read_only = false;
  if constexpr (requires { m->flags; }) {
    read_only = m->flags & 1;
    if (m->major != 1)
      fail("io::from_dlpack", "it is of version " + std::to_string(m->major) + " of DLPack's ABI; 1 is read", at);
  }
  const dlpack::view& v = m->dl_tensor;
  sinter::detail::handle h = read_dl(v, at);
  array told;
  told.type = h.type;
  for (const dim& e : h.extents) told.extents.push_back(e.bits);
  if (const std::string wrong = misfit(told, type, shape); !wrong.empty()) fail("io::from_dlpack", wrong, at);
  const device where = device_of_dl(v.where, at);
  h.memory = adopted(m);
  sinter::detail::block* const b = h.memory.get();
  b->data = h.data;
  b->bytes = told.bytes().size();
  b->where = where;
  if (!read_only) return h;
  // Read-only elements must not be written through a handle.
  if (where.is_cuda()) fail("io::from_dlpack", "it is read-only and on a GPU; copy it there first", at);
  const sinter::detail::handle copy = sinter::detail::allocate("io::from_dlpack", h.type, h.extents, at);
  sinter::detail::copy_elements(copy, h);
  return copy;
}

}  // namespace detail

/// A tensor for another library, which shares elements and strides until it calls the deleter: `io::to_dlpack(x)`, or
/// `io::to_dlpack<DLManagedTensorVersioned>(x)`. Waits for the GPU's work. user_error while traced.
template <detail::dl_managed Managed = dlpack::managed, tensor_like X>
Managed* to_dlpack(const X& x, location at = location::current()) {
  if (engine::current()) fail("io::to_dlpack", "a function is being traced; export what it returns", at);
  return reinterpret_cast<Managed*>(
      detail::export_dl<detail::own_managed<Managed>>(sinter::detail::untyped(x, at.in("io::to_dlpack")), at));
}

/// Another library's tensor, on the host or on CUDA, without a copy: `io::from_dlpack<float, 2>(m)`. The last handle calls
/// the deleter. Read-only tensors are copied. user_error for another dtype or shape; the caller then keeps the tensor.
template <element T, dims Shape, detail::dl_managed Managed>
tensor<T, Shape> from_dlpack(Managed* m, location at = location::current()) {
  return sinter::detail::typed<T, Shape>(
      detail::import_dl(reinterpret_cast<detail::own_managed<Managed>*>(m), dtype_of<T>, Shape, at), at);
}

}  // namespace sinter::io
