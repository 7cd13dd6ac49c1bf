// run/host/lapack.hpp: LAPACK, opened on first use where there is one.
#pragma once

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "../../base/config.hpp"
#include "../file.hpp"

namespace sinter::engine::run {

/// LAPACK as its reference documents it, of one element type; matrices are in column-major order. Null where there is none.
template <class T>
struct lapack_table {
  void (*potrf)(const char* half, const int* n, T* a, const int* ld, int* info) = nullptr;
  void (*getrf)(const int* m, const int* n, T* a, const int* ld, int* pivots, int* info) = nullptr;
  void (*geqrf)(const int* m, const int* n, T* a, const int* ld, T* tau, T* work, const int* room, int* info) = nullptr;
  void (*orgqr)(const int* m, const int* n, const int* k, T* a, const int* ld, const T* tau, T* work, const int* room,
                int* info) = nullptr;
  void (*syevd)(const char* job, const char* half, const int* n, T* a, const int* ld, T* w, T* work, const int* room,
                int* integers, const int* integer_room, int* info) = nullptr;
  void (*gesdd)(const char* job, const int* m, const int* n, T* a, const int* ld, T* s, T* u, const int* ldu, T* vt,
                const int* ldvt, T* work, const int* room, int* integers, int* info) = nullptr;
};

/// Both types, and whether the library is a tuned one: the reference's own is slower than blocks of ours.
struct lapack {
  lapack_table<float> single;
  lapack_table<double> twofold;
  bool found = false, tuned = false;

  template <class T>
  const lapack_table<T>& of() const {
    if constexpr (std::is_same_v<T, float>) return single;
    else return twofold;
  }
};

namespace detail {

template <class T>
bool take_lapack(void* from, const char* letter, lapack_table<T>& out) {
  bool whole = true;
  const auto take = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::decay_t<decltype(pointer)>>(::dlsym(from, (letter + std::string(name)).c_str()));
    whole &= pointer != nullptr;
  };
  take(out.potrf, "potrf_");
  take(out.getrf, "getrf_");
  take(out.geqrf, "geqrf_");
  take(out.orgqr, "orgqr_");
  take(out.syevd, "syevd_");
  take(out.gesdd, "gesdd_");
  return whole;
}

SINTER_API lapack open_lapack() {
  lapack out;
  const std::string chosen = environment("SINTER_LIBLAPACK");
  if (chosen == "none") return out;
  for (const char* name : {chosen.c_str(), "libopenblas.so.0", "libopenblas.so", "liblapack.so.3", "liblapack.so"}) {
    if (*name == 0) continue;
    void* const handle = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) continue;
    out.found = take_lapack(handle, "s", out.single) && take_lapack(handle, "d", out.twofold);
    out.tuned = ::dlsym(handle, "openblas_get_config") != nullptr || ::dlsym(handle, "MKL_Get_Version") != nullptr;
    if (out.found) return out;
    out = {};
    ::dlclose(handle);
  }
  return out;
}

}  // namespace detail

/// LAPACK: $SINTER_LIBLAPACK, OpenBLAS, or the system's; "none" keeps it from being looked for.
SINTER_API const lapack& lapack_library() {
  static const lapack found = detail::open_lapack();
  return found;
}

}  // namespace sinter::engine::run
