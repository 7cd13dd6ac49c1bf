// run/host/lapack.hpp: LAPACK, opened on first use if installed.
#pragma once

#include <dlfcn.h>

#include <string>
#include <string_view>
#include <type_traits>

#include "../../base/config.hpp"
#include "../file.hpp"

namespace sinter::engine::run {

/// LAPACK by its reference documentation, for one element type; matrices are in column-major order. Null if missing.
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

/// Both types, and whether the library is tuned: the reference implementation is slower than sinter's blocks.
struct lapack {
  lapack_table<float> single;
  lapack_table<double> twofold;
  bool found = false, tuned = false;
  std::string problem;  ///< why the requested library is not used

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

/// Whether OpenBLAS describes itself as having 64-bit integers under the names of 32-bit functions.
inline bool has_long_integers(std::string_view config) { return config.find("USE64BITINT") != std::string_view::npos; }

/// Takes LAPACK from a file; otherwise returns the reason.
SINTER_API std::string read_lapack(const char* name, lapack& out) {
  void* const handle = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const words = ::dlerror();
    return "cannot be opened: " + std::string(words ? words : name);
  }
  const auto config = reinterpret_cast<const char* (*)()>(::dlsym(handle, "openblas_get_config"));
  std::string problem;
  if (config != nullptr && has_long_integers(config())) problem = "takes integers of 64 bits";
  else if (!take_lapack(handle, "s", out.single) || !take_lapack(handle, "d", out.twofold))
    problem = "lacks functions of LAPACK";
  out.found = problem.empty();
  out.tuned = config != nullptr || ::dlsym(handle, "MKL_Get_Version") != nullptr;
  if (out.found) return {};
  out = {};
  ::dlclose(handle);
  return problem;
}

/// The chosen library, or the first usable one of the system.
SINTER_API lapack open_lapack(const std::string& chosen) {
  lapack out;
  if (chosen == "none") return out;
  if (!chosen.empty()) {
    if (const auto why = read_lapack(chosen.c_str(), out); !why.empty())
      out.problem = "SINTER_LIBLAPACK=" + chosen + " " + why;
    return out;
  }
  for (const char* name : {"libopenblas.so.0", "libopenblas.so", "liblapack.so.3", "liblapack.so"})
    if (read_lapack(name, out).empty()) break;
  return out;
}

}  // namespace detail

/// LAPACK: $SINTER_LIBLAPACK, OpenBLAS, or the system's; "none" prevents the search. `problem` has the reason if the
/// requested one is not used.
SINTER_API const lapack& lapack_library() {
  static const lapack found = detail::open_lapack(detail::environment("SINTER_LIBLAPACK"));
  return found;
}

}  // namespace sinter::engine::run
