// run/mesh/mpi.hpp: MPI's functions and constants, by dlopen: two tables, for Open MPI, whose handles are addresses, and for
// MPICH, whose handles are numbers.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "../../base/config.hpp"
#include "../../base/dtype.hpp"
#include "../../base/error.hpp"
#include "../descriptor.hpp"
#include "../ranks.hpp"

namespace sinter::engine::run {

namespace detail {

/// A constant: the symbol of Open MPI's object (its mpi.h), and MPICH's number (MPICH ABI initiative).
struct mpi_constant {
  const char* symbol;
  int number;
};
inline constexpr mpi_constant mpi_world{"ompi_mpi_comm_world", 0x44000000},
    mpi_errors_return{"ompi_mpi_errors_return", 0x54000001}, mpi_sum{"ompi_mpi_op_sum", 0x58000003};

/// The datatype with the bytes of T; MPI's own sums suit it if it is T's.
template <class T>
constexpr mpi_constant mpi_type() {
  if constexpr (std::is_same_v<T, float>) return {"ompi_mpi_float", 0x4c00040a};
  else if constexpr (std::is_same_v<T, double>) return {"ompi_mpi_double", 0x4c00080b};
  else if constexpr (sizeof(T) == 1) {
    return std::is_same_v<T, std::int8_t> ? mpi_constant{"ompi_mpi_int8_t", 0x4c000137}
                                          : mpi_constant{"ompi_mpi_uint8_t", 0x4c00013b};
  } else if constexpr (sizeof(T) == 2) {
    return std::is_same_v<T, std::int16_t> ? mpi_constant{"ompi_mpi_int16_t", 0x4c000238}
                                           : mpi_constant{"ompi_mpi_uint16_t", 0x4c00023c};
  } else if constexpr (sizeof(T) == 4) {
    return std::is_signed_v<T> ? mpi_constant{"ompi_mpi_int32_t", 0x4c000439}
                               : mpi_constant{"ompi_mpi_uint32_t", 0x4c00043d};
  } else {
    static_assert(sizeof(T) == 8);
    return std::is_signed_v<T> ? mpi_constant{"ompi_mpi_int64_t", 0x4c00083a}
                               : mpi_constant{"ompi_mpi_uint64_t", 0x4c00083e};
  }
}
template <class T>
inline constexpr bool has_mpi_sum = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                    (std::is_integral_v<T> && !std::is_same_v<T, bool>);

template <class Handle>
Handle mpi_handle(void* library, const mpi_constant& c) {
  if constexpr (std::is_pointer_v<Handle>) return ::dlsym(library, c.symbol);
  else return c.number;
}

/// MPI's functions. They return 0 for success.
template <class Handle>
struct mpi_functions {
  using H = Handle;
  int (*init_thread)(int*, char***, int, int*);
  int (*initialized)(int*);
  int (*finalized)(int*);
  int (*query_thread)(int*);
  int (*finalize)();
  int (*comm_rank)(H, int*);
  int (*comm_size)(H, int*);
  int (*comm_group)(H, H*);
  int (*group_incl)(H, int, const int*, H*);
  int (*comm_create_group)(H, H, int, H*);
  int (*comm_dup)(H, H*);
  int (*comm_set_errhandler)(H, H);
  int (*bcast)(void*, int, H, int, H);
  int (*allgather)(const void*, int, H, void*, int, H, H);
  int (*iallreduce)(const void*, void*, int, H, H, H, H*);
  int (*iallgather)(const void*, int, H, void*, int, H, H, H*);
  int (*ireduce_scatter_block)(const void*, void*, int, H, H, H, H*);
  int (*ialltoall)(const void*, int, H, void*, int, H, H, H*);
  int (*ibcast)(void*, int, H, int, H, H*);
  int (*isend)(const void*, int, H, int, int, H, H*);
  int (*irecv)(void*, int, H, int, int, H, H*);
  int (*iprobe)(int, int, H, int*, void*);
  int (*test)(H*, int*, void*);
  int (*op_create)(void (*)(void*, void*, int*, H*), int, H*);
  int (*error_string)(int, char*, int*);

  /// The name of a function that the library lacks; null if it has all.
  const char* load(void* library) {
    const char* lacks = nullptr;
    const auto get = [&]<class F>(F*& f, const char* name) {
      f = reinterpret_cast<F*>(::dlsym(library, name));
      if (!f && !lacks) lacks = name;
    };
    get(init_thread, "MPI_Init_thread");
    get(initialized, "MPI_Initialized");
    get(finalized, "MPI_Finalized");
    get(query_thread, "MPI_Query_thread");
    get(finalize, "MPI_Finalize");
    get(comm_rank, "MPI_Comm_rank");
    get(comm_size, "MPI_Comm_size");
    get(comm_group, "MPI_Comm_group");
    get(group_incl, "MPI_Group_incl");
    get(comm_create_group, "MPI_Comm_create_group");
    get(comm_dup, "MPI_Comm_dup");
    get(comm_set_errhandler, "MPI_Comm_set_errhandler");
    get(bcast, "MPI_Bcast");
    get(allgather, "MPI_Allgather");
    get(iallreduce, "MPI_Iallreduce");
    get(iallgather, "MPI_Iallgather");
    get(ireduce_scatter_block, "MPI_Ireduce_scatter_block");
    get(ialltoall, "MPI_Ialltoall");
    get(ibcast, "MPI_Ibcast");
    get(isend, "MPI_Isend");
    get(irecv, "MPI_Irecv");
    get(iprobe, "MPI_Iprobe");
    get(test, "MPI_Test");
    get(op_create, "MPI_Op_create");
    get(error_string, "MPI_Error_string");
    return lacks;
  }
};

/// MPI's reduction of T as combine_ranks does it: 16 and 8 bits in f32, NaN wins.
template <class T, reduction How, class Handle>
void combine_for_mpi(void* in, void* inout, int* count, Handle*) {
  const T* const a = static_cast<const T*>(in);
  T* const b = static_cast<T*>(inout);
  combine_ranks(How, static_cast<std::size_t>(*count), 2, b, [&](std::size_t r) { return r == 0 ? a : b; });
}

}  // namespace detail

/// An opened library of MPI.
struct mpi_library {
  void* handle = nullptr;
  bool is_open_mpi = false;
  std::string name;

  /// The first of these names that can be opened. system_error that lists them.
  static mpi_library open(const std::string& names) {
    std::string why;
    for (std::size_t at = 0; at < names.size();) {
      const std::size_t end = std::min(names.find(' ', at), names.size());
      const std::string name = names.substr(at, end - at);
      at = end + 1;
      if (name.empty()) continue;
      // Its plugins look for its symbols.
      if (void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL))
        return {handle, ::dlsym(handle, detail::mpi_world.symbol) != nullptr, name};
      const char* const problem = ::dlerror();
      why += std::string("\n  ") + (problem ? problem : name.c_str());
    }
    throw system_error(
        "[make_mesh] this program was started by MPI, whose library cannot be opened; install it, or set "
        "SINTER_LIBMPI to its path:" +
        why);
  }
};

}  // namespace sinter::engine::run
