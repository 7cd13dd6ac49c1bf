// tests/jit/library.hpp: an exported library, loaded and called with tensors.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <sinter/sinter.hpp>

namespace {

struct c_array {
  void* data;
  const std::int64_t* extents;
};
struct c_spec {
  const char* name;
  int dtype, rank;
  const char* const* axes;
};

/// A library's functions.
class loaded_library {
 public:
  loaded_library(const std::string& folder, const std::string& name)
      : handle_(dlopen((folder + "/lib" + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL)), name_(name) {
    if (!handle_) throw std::runtime_error(dlerror());
    find(inputs, "inputs"), find(outputs, "outputs"), find(open, "open"), find(room, "room"), find(run, "run"),
        find(queue, "run");
    find(swap, "swap"), find(error, "error"), find(provenance, "provenance"), find(close, "close");
  }
  loaded_library(const loaded_library&) = delete;
  loaded_library& operator=(const loaded_library&) = delete;
  ~loaded_library() { dlclose(handle_); }

  int (*inputs)(const c_spec**);
  int (*outputs)(const c_spec**);
  int (*open)(const char*, void**);
  int (*room)(const void*, const std::int64_t*, std::size_t*);
  int (*run)(const void*, const c_array*, c_array*, void*, std::size_t);
  int (*queue)(const void*, const c_array*, c_array*, void*, std::size_t, void*);  ///< `run` of a library for GPUs
  int (*swap)(void*, const char*);
  const char* (*error)(int);
  const char* (*provenance)();
  void (*close)(void*);

 private:
  template <class F>
  void find(F& f, const char* what) {
    f = reinterpret_cast<F>(dlsym(handle_, (name_ + "_" + what).c_str()));
    if (!f) throw std::runtime_error(name_ + " lacks " + what);
  }
  void* handle_;
  std::string name_;
};

/// Memory at a multiple of 64, full of a pattern that no result has.
class block {
 public:
  explicit block(std::size_t bytes) : bytes_(bytes), data_(std::aligned_alloc(64, (bytes + 127) / 64 * 64)) {
    std::memset(data_, 0xa5, (bytes + 127) / 64 * 64);
  }
  block(block&& x) noexcept : bytes_(x.bytes_), data_(std::exchange(x.data_, nullptr)) {}
  block(const block&) = delete;
  block& operator=(const block&) = delete;
  ~block() { std::free(data_); }
  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  std::string bytes() const { return std::string(static_cast<const char*>(data_), bytes_); }

 private:
  std::size_t bytes_;
  void* data_;
};

/// A tensor's elements in row-major order.
template <sinter::any_tensor X>
std::string bytes_of(const X& x) {
  const auto all = x.to_vector();
  std::string out;
  for (const auto v : all) {
    const typename X::value_type e = v;
    out.append(reinterpret_cast<const char*>(&e), sizeof e);
  }
  return out;
}

struct given_array {
  std::string bytes;
  std::vector<std::int64_t> extents;

  template <sinter::any_tensor X>
  given_array(const X& x) : bytes(bytes_of(x)) {
    for (const auto e : x.shape()) extents.push_back(static_cast<std::int64_t>(e));
  }
};

/// The results of a call, as bytes; `out` has their sizes in bytes. Throws the library's words for a code.
inline std::vector<std::string> run_library(const loaded_library& l, const void* model,
                                            const std::vector<given_array>& in, const std::vector<std::size_t>& out,
                                            const std::vector<std::int64_t>& sizes = {}) {
  std::vector<block> memory, made;
  std::vector<c_array> arrays, results;
  for (const auto& x : in) {
    memory.emplace_back(x.bytes.size());
    std::memcpy(memory.back().data(), x.bytes.data(), x.bytes.size());
    arrays.push_back({memory.back().data(), x.extents.data()});
  }
  for (const std::size_t n : out) {
    made.emplace_back(n);
    results.push_back({made.back().data(), nullptr});
  }
  std::size_t need = 0;
  int code = l.room(model, sizes.data(), &need);
  const block room(need);
  if (code == 0) code = l.run(model, arrays.data(), results.data(), room.data(), need);
  if (code != 0) throw std::runtime_error(l.error(code));
  // Nothing is written behind the room or a result.
  for (const block* b : {&room})
    for (std::size_t i = 0; i < 64; ++i)
      if (static_cast<unsigned char*>(b->data())[b->size() + i] != 0xa5)
        throw std::runtime_error("written behind the room");
  std::vector<std::string> bytes;
  for (const auto& m : made) bytes.push_back(m.bytes());
  return bytes;
}

/// What a command prints; throws unless it exits with 0.
inline std::string output_of(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::string out;
  std::array<char, 4096> piece;
  while (const std::size_t n = fread(piece.data(), 1, piece.size(), pipe)) out.append(piece.data(), n);
  if (const int status = pclose(pipe); status != 0)
    throw std::runtime_error(command + " exits with " + std::to_string(status) + ":\n" + out);
  return out;
}

inline std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Whether this processor runs the kernels of an instruction set.
inline bool has(sinter::isa i) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (i == sinter::isa::avx2) return wide;
  if (i == sinter::isa::avx512)
    return wide && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  return i == sinter::isa::baseline;
#else
  return i == sinter::isa::aarch64;
#endif
}
/// The best of them.
inline sinter::isa best_isa() {
  for (const sinter::isa i : {sinter::isa::avx512, sinter::isa::avx2, sinter::isa::baseline})
    if (has(i)) return i;
  return sinter::isa::aarch64;
}
/// The flags with which compile() makes the same kernels.
inline std::string flags_for(sinter::isa i) {
  switch (i) {
    case sinter::isa::baseline:
      return "-march=x86-64";
    case sinter::isa::avx2:
      return "-march=x86-64-v3";
    case sinter::isa::avx512:
      return "-march=x86-64-v4 -mprefer-vector-width=512";
    default:
      return "-march=armv8-a";
  }
}

}  // namespace
