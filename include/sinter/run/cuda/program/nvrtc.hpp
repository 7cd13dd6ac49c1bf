// run/cuda/program/nvrtc.hpp: CUDA C++ text -> CUBIN by NVRTC -> loaded module, through the caches of all kernels.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "../../../base/callback.hpp"
#include "../../../base/series.hpp"
#include "../../build/build.hpp"
#include "../device/module.hpp"

namespace sinter::engine::run::cuda {

/// NVRTC by "NVRTC (Runtime Compilation) 13.0".
struct nvrtc {
  using program = struct program_tag*;
  int (*version)(int* major, int* minor) = nullptr;
  int (*supported_count)(int* count) = nullptr;
  int (*supported)(int* architectures) = nullptr;
  int (*create)(program* out, const char* source, const char* name, int headers, const char* const* texts,
                const char* const* names) = nullptr;
  int (*destroy)(program* which) = nullptr;
  int (*compile)(program which, int options, const char* const* option) = nullptr;
  int (*image_bytes)(program which, std::size_t* bytes) = nullptr;
  int (*image)(program which, char* out) = nullptr;
  int (*ptx_bytes)(program which, std::size_t* bytes) = nullptr;
  int (*ptx)(program which, char* out) = nullptr;
  int (*log_bytes)(program which, std::size_t* bytes) = nullptr;
  int (*log)(program which, char* out) = nullptr;
  const char* (*words)(int result) = nullptr;

  std::string path;
  std::string identity;  ///< path, version, size and modification time
  int major = 0, minor = 0;
  int driver = 0;            ///< driver_major() at the time of choice
  series<int> capabilities;  ///< supported targets: 90 for sm_90
  std::string problem;       ///< why it is missing, with a remedy
};

namespace detail {

/// The problem of a driver that cannot load this NVRTC's output, or "". A driver loads CUBINs of its own major version,
/// including later minor versions, and of older ones.
SINTER_API std::string mismatch(const nvrtc& with, int driver) {
  if (driver == 0 || driver / 1000 >= with.major) return "";
  return "the driver supports CUDA " + std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10) +
         " and is older than NVRTC " + std::to_string(with.major) + "." + std::to_string(with.minor) + " at " +
         with.path + "; update the driver, or set SINTER_LIBNVRTC to the libnvrtc.so of CUDA " +
         std::to_string(driver / 1000);
}

SINTER_API std::shared_ptr<const nvrtc> open_nvrtc() {
  auto out = make_on_heap<nvrtc>();
  nvrtc& n = *out;
  const library found =
      open_supported({"SINTER_LIBNVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, {"cu13", "cuda_nvrtc"}},
                     [](void* handle) {
                       int major = 0, minor = 0;
                       const auto version = reinterpret_cast<decltype(nvrtc::version)>(::dlsym(handle, "nvrtcVersion"));
                       return version != nullptr && version(&major, &minor) == 0 ? major : 0;
                     });
  const std::string remedy =
      "; install the CUDA toolkit's NVRTC (or Python's nvidia-cuda-nvrtc) and set CUDA_HOME, or set SINTER_LIBNVRTC to "
      "the path of libnvrtc.so";
  if (found.handle == nullptr) {
    n.problem = "no NVRTC: " + found.problem + remedy;
    return out;
  }
  bool whole = true;
  const auto take = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::decay_t<decltype(pointer)>>(::dlsym(found.handle, name));
    whole &= pointer != nullptr;
  };
  take(n.version, "nvrtcVersion");
  take(n.supported_count, "nvrtcGetNumSupportedArchs");
  take(n.supported, "nvrtcGetSupportedArchs");
  take(n.create, "nvrtcCreateProgram");
  take(n.destroy, "nvrtcDestroyProgram");
  take(n.compile, "nvrtcCompileProgram");
  take(n.image_bytes, "nvrtcGetCUBINSize");
  take(n.image, "nvrtcGetCUBIN");
  take(n.ptx_bytes, "nvrtcGetPTXSize");
  take(n.ptx, "nvrtcGetPTX");
  take(n.log_bytes, "nvrtcGetProgramLogSize");
  take(n.log, "nvrtcGetProgramLog");
  take(n.words, "nvrtcGetErrorString");
  int count = 0;
  if (whole && n.version(&n.major, &n.minor) == 0 && n.supported_count(&count) == 0 && count > 0) {
    n.capabilities.resize(static_cast<std::size_t>(count));
    whole = n.supported(n.capabilities.data()) == 0;
  }
  if (!whole || n.major == 0) {
    n.problem = "NVRTC at " + found.path + " is too old or damaged" + remedy;
    return out;
  }
  std::string file = found.path;
  if (Dl_info info{}; ::dladdr(reinterpret_cast<void*>(n.version), &info) != 0 && info.dli_fname != nullptr)
    file = info.dli_fname;
  n.path = file;
  n.driver = driver_major();
  n.problem = mismatch(n, n.driver == 0 ? 0 : driver_version());
  // An unusable NVRTC has no identity, because its output for another driver is not searched.
  if (n.problem.empty())
    n.identity =
        file + " | " + std::to_string(n.major) + "." + std::to_string(n.minor) + " | " + run::detail::file_stamp(file);
  return out;
}

/// The start of the search for NVRTC, as text.
inline std::string search_text() {
  std::string out = "sinter " SINTER_VERSION "\nwhere NVRTC is";
  for (const char* name :
       {"SINTER_LIBNVRTC", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "PYTHONPATH", "VIRTUAL_ENV", "PATH"})
    out.append("\n").append(name).append("=").append(environment(name));
  return out;
}

/// The NVRTC that an earlier process found, unless its file or the driver has changed. Opening the library costs more than
/// loading a kernel from disk. Null if there is none.
SINTER_API std::shared_ptr<const nvrtc> remembered_nvrtc(const disk_cache& cache) {
  const std::string text = cache.find(search_text());
  auto out = make_on_heap<nvrtc>();
  series<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (lines.size() < 6) return nullptr;
  out->path = lines[0];
  out->identity = lines[1];
  if (!out->identity.ends_with(" | " + run::detail::file_stamp(out->path))) return nullptr;
  out->major = std::atoi(lines[2].c_str());
  out->minor = std::atoi(lines[3].c_str());
  out->driver = std::atoi(lines[4].c_str());
  if (out->driver != driver_major()) return nullptr;
  for (std::size_t i = 5; i < lines.size(); ++i) out->capabilities.push_back(std::atoi(lines[i].c_str()));
  return out;
}

inline void remember(const disk_cache& cache, const nvrtc& n) {
  std::string text = n.path + "\n" + n.identity + "\n" + std::to_string(n.major) + "\n" + std::to_string(n.minor) +
                     "\n" + std::to_string(n.driver);
  for (const int c : n.capabilities) text += "\n" + std::to_string(c);
  cache.store(search_text(), text);
}

}  // namespace detail

/// NVRTC, opened at the first call and searched again while it is missing. Never throws for a missing one: `problem` has the
/// reason.
SINTER_API std::shared_ptr<const nvrtc> load_nvrtc() {
  static std::mutex mutex;
  static auto& known = *new std::shared_ptr<const nvrtc>;
  const std::lock_guard lock(mutex);
  if (!known || !known->problem.empty()) known = detail::open_nvrtc();
  return known;
}

/// The same, but if an earlier process found it, it is not opened yet: its functions are null.
SINTER_API std::shared_ptr<const nvrtc> find_nvrtc() {
  static std::mutex mutex;
  static auto& known = *new std::shared_ptr<const nvrtc>;
  const std::lock_guard lock(mutex);
  if (known && known->problem.empty()) return known;
  const disk_cache cache;
  known = detail::remembered_nvrtc(cache);
  if (known) return known;
  known = load_nvrtc();
  if (known->problem.empty()) detail::remember(cache, *known);
  return known;
}

/// The options that decide the code of a kernel's text. Products and sums do not contract to fused multiply-adds. So results
/// are bitwise those of the host if functions are, and intermediate overflows are the same everywhere. Memory-bound kernels
/// lose nothing.
SINTER_API series<std::string> nvrtc_options(const nvrtc& with, int capability) {
  series<std::string> out = {"--gpu-architecture=sm_" + std::to_string(capability), "--std=c++17", "--fmad=false",
                             "-w"};
  // Kernels use neither textures nor the device runtime; without their declarations a compilation needs half the memory.
  if (with.major >= 13) out.push_back("--minimal");
  const std::string extra = detail::environment("SINTER_NVRTCFLAGS");
  for (std::size_t at = 0; at < extra.size();) {
    const std::size_t end = std::min(extra.find(' ', at), extra.size());
    if (end > at) out.push_back(extra.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// The greatest number of bytes of a kernel's parameters: more from CUDA 12.1 on. Without NVRTC, kernels come from a machine
/// with it.
SINTER_API int parameter_bytes() {
  const auto with = find_nvrtc();
  const bool known = !with->problem.empty() || with->major * 1000 + with->minor * 10 >= 12010;
  return known && driver_version() >= 12010 ? 32764 : 4096;
}

/// Whether NVRTC compiles for sm_90a, as from 12.0 on. Without NVRTC, kernels come from a machine with it.
SINTER_API bool compiles_groups() {
  const auto with = find_nvrtc();
  return !with->problem.empty() || with->major >= 12;
}

namespace detail {

/// The architecture to compile for: the GPU's, or the newest supported one of its generation. Throws system_error.
SINTER_API int target_of(const nvrtc& with, int capability) {
  int best = 0;
  for (const int known : with.capabilities)
    if (known / 10 == capability / 10 && known <= capability) best = std::max(best, known);
  if (best != 0) return best;
  const auto [low, high] = std::minmax_element(with.capabilities.begin(), with.capabilities.end());
  const std::string sm = "sm_" + std::to_string(capability);
  throw system_error("[cuda] NVRTC " + std::to_string(with.major) + "." + std::to_string(with.minor) + " at " +
                     with.path + " cannot compile for " + sm + " (it knows sm_" + std::to_string(*low) + " to sm_" +
                     std::to_string(*high) + "); install " +
                     (capability < *low ? "an older CUDA toolkit" : "a newer CUDA toolkit") +
                     " and set SINTER_LIBNVRTC to its libnvrtc.so");
}

inline std::string log_of(const nvrtc& with, nvrtc::program program) {
  std::size_t bytes = 0;
  std::string log;
  if (with.log_bytes(program, &bytes) == 0 && bytes > 1) {
    log.resize(bytes);
    if (with.log(program, log.data()) != 0) log.clear();
    while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  }
  return log;
}

[[noreturn]] SINTER_API void fail_nvrtc(const nvrtc& with, const std::string& what, const std::string& source,
                                        const std::string& log) {
  const std::string path = run::detail::save_source(source, ".cu", log);
  std::string message = "[cuda] NVRTC " + std::to_string(with.major) + "." + std::to_string(with.minor) + ": " + what;
  if (!path.empty()) message += "; the kernel is in " + path + (log.empty() ? "" : ", the log in " + path + ".log");
  if (!log.empty()) message += "\n" + run::detail::first_lines(log, 30);
  throw compile_error(message, outcome::failed, path, message);
}

}  // namespace detail

/// A CUBIN, or the reason for its absence.
struct attempt {
  std::string image, problem, log;
};

namespace detail {

/// Compiles an unchanged text with these options, to a CUBIN or to PTX. Throws system_error if NVRTC is missing.
SINTER_API attempt try_compile_with(const nvrtc& found, const std::string& text, const series<std::string>& options,
                                    bool ptx) {
  const auto loaded = found.create != nullptr ? nullptr : load_nvrtc();
  const nvrtc& with = loaded ? *loaded : found;
  if (!with.problem.empty()) throw system_error("[cuda] " + with.problem);
  if (with.identity != found.identity)
    throw system_error("[cuda] NVRTC changed from " + found.identity + " to " + with.identity +
                       " while this program ran; start it again");
  nvrtc::program program = nullptr;
  series<const char*> option;
  for (const auto& o : options) option.push_back(o.c_str());
  attempt out;
  int r = with.create(&program, text.c_str(), "kernel.cu", 0, nullptr, nullptr);
  if (r != 0) return out.problem = with.words(r), out;
  struct owner {
    const nvrtc& with;
    nvrtc::program& program;
    ~owner() { with.destroy(&program); }
  } const owned{with, program};
  r = with.compile(program, static_cast<int>(option.size()), option.data());
  std::size_t bytes = 0;
  if (r == 0) r = (ptx ? with.ptx_bytes : with.image_bytes)(program, &bytes);
  if (r == 0 && bytes > 0) {
    out.image.resize(bytes);
    r = (ptx ? with.ptx : with.image)(program, out.image.data());
  }
  if (r == 0 && bytes > 0) return out;
  out.image.clear();
  out.problem = r != 0 ? with.words(r) : ptx ? "it produced no PTX" : "it produced no CUBIN";
  out.log = log_of(with, program);
  return out;
}

}  // namespace detail

/// Compiles an unchanged text. Throws system_error if NVRTC is missing, or does not support the architecture.
SINTER_API attempt try_compile(const nvrtc& with, const std::string& text, int capability) {
  series<std::string> options = nvrtc_options(with, detail::target_of(with, capability));
  // A chip's own instructions want its own architecture. Such a text has no other code, so its key needs no other name.
  if (text.find("wgmma.mma_async") != std::string::npos) options[0] += "a";
  return detail::try_compile_with(with, text, options, false);
}

/// Compiles a kernel's self-contained CUDA C++ to a CUBIN, with entries named as in unit.hpp; needs no GPU. Throws
/// compile_error that names the saved source and log, and system_error as in try_compile.
SINTER_API std::string compile(const nvrtc& with, const std::string& source, int capability) {
  attempt made = try_compile(with, run::detail::named_text(source), capability);
  if (made.image.empty()) detail::fail_nvrtc(with, made.problem, source, made.log);
  return std::move(made.image);
}

/// The same as PTX, which drivers compile for `capability` and later ones.
SINTER_API std::string compile_to_ptx(const nvrtc& with, const std::string& source, int capability) {
  const int target = detail::target_of(with, capability);
  series<std::string> options = nvrtc_options(with, target);
  options[0] = "--gpu-architecture=compute_" + std::to_string(target);
  attempt made = detail::try_compile_with(with, run::detail::named_text(source), options, true);
  if (made.image.empty()) detail::fail_nvrtc(with, made.problem, source, made.log);
  return std::move(made.image);
}

/// Starts a GPU. If no earlier process recorded NVRTC, the disk has no compiled code either, so NVRTC is opened meanwhile.
SINTER_API void start_with_compiler(int device) {
  const auto open = [] {
    try {
      if (detail::remembered_nvrtc(disk_cache())) return;
      const auto with = load_nvrtc();  // opened, even if another process has recorded it by now
      nvrtc::program program = nullptr;
      if (!with->problem.empty() || with->create(&program, "", "nothing.cu", 0, nullptr, nullptr) != 0) return;
      with->compile(program, 0, nullptr);  // its first use initialises more
      with->destroy(&program);
    } catch (const std::exception&) {  // the first kernel meets the error again, and reports it
    }
  };
  std::thread beside;
  try {
    beside = std::thread(open);
  } catch (const std::system_error&) {  // without a thread, the first kernel waits for it
  }
  struct joined {
    std::thread& t;
    ~joined() {
      if (t.joinable()) t.join();
    }
  } const both{beside};
  device_at(device);
}

/// All facts that decide a kernel's CUBIN, as text.
SINTER_API std::string key_text(const nvrtc& with, std::string_view source, int capability) {
  std::string key = "sinter " SINTER_VERSION "\nnvrtc " + with.identity + "\nflags";
  for (const auto& flag : nvrtc_options(with, capability)) key.append(" ").append(flag);
  return key.append("\nsource\n").append(without_places(source));
}

/// A module on a GPU, and the cost of building it.
struct built {
  std::shared_ptr<const module> code;
  std::string suffix;  ///< of the names of its entries
  bool from_cache = false;
  double milliseconds = 0;
  origin from;
};

namespace detail {

/// Without NVRTC, kernels can still come from a bundle.
class nvrtc_toolchain final : public toolchain {
 public:
  nvrtc_toolchain(std::shared_ptr<const nvrtc> with, const gpu& g)
      : with_(std::move(with)),
        device_(g.index),
        capability_(with_->problem.empty() ? target_of(*with_, g.capability) : g.capability) {}
  std::string key(std::string_view source) const override { return key_text(*with_, source, capability_); }
  std::string portable() const override {
    std::string out = target() + "\nflags";
    // Without flags of a particular version of NVRTC.
    for (const auto& flag : nvrtc_options(nvrtc{}, capability_)) out.append(" ").append(flag);
    return out;
  }
  /// The name of the GPU in bundles.
  std::string target() const { return "cuda sm_" + std::to_string(capability_); }
  std::string domain() const override { return "cuda " + std::to_string(device_) + "\n"; }
  std::string compiler() const override {
    if (!with_->problem.empty()) return "";
    return "nvrtc " + std::to_string(with_->major) + "." + std::to_string(with_->minor) + ", driver " +
           std::to_string(driver_version());
  }
  std::string compile(const std::string& source) const override {
    if (!with_->problem.empty()) throw system_error("[cuda] " + with_->problem);
    return cuda::compile(*with_, source, capability_);
  }
  std::string try_compile(const std::string& text) const override {
    if (!with_->problem.empty()) return "";
    try {
      return cuda::try_compile(*with_, text, capability_).image;
    } catch (const system_error&) {
      return "";
    }
  }
  std::shared_ptr<const void> load(std::string_view image) const override {
    return make_on_heap<const module>(std::string(image), device_);  // with a 0 at its end
  }

 private:
  std::shared_ptr<const nvrtc> with_;
  int device_, capability_;
};

}  // namespace detail

/// The names of this machine's GPUs in bundles.
SINTER_API series<std::string> targets() {
  series<std::string> out;
  std::string problem;
  for (int i = 0; i < device_count(problem); ++i)
    out.push_back(detail::nvrtc_toolchain(find_nvrtc(), device_at(i)).target());
  return out;
}

/// Loads one module for each source on a GPU, in order; equal sources share one. Thread-safe; a kernel is compiled at most
/// once for any number of threads and processes. Throws compile_error and system_error.
SINTER_API series<built> build(std::span<const shared_text> sources, int device) {
  const gpu& g = device_at(device);
  series<built> out;
  for (auto& j : run::detail::make_modules(sources, detail::nvrtc_toolchain(find_nvrtc(), g)))
    out.push_back({std::static_pointer_cast<const module>(std::move(j.code)), entry_suffix(j.source->str()),
                   j.from_cache, j.milliseconds, j.from()});
  return out;
}
inline series<built> build(std::span<const std::string> sources, int device) {
  return build(series<shared_text>(sources.begin(), sources.end()), device);
}

}  // namespace sinter::engine::run::cuda
