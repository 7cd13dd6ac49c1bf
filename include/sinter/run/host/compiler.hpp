// run/host/compiler.hpp: finds the C++ compiler of this machine, and compiles kernel text to a shared object.
#pragma once

#include <sys/stat.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "../../base/callback.hpp"
#include "../../base/log.hpp"
#include "../../base/series.hpp"
#include "process.hpp"

namespace sinter::engine::run {

/// A usable compiler; if `path` is empty, `problem` has the reason and a remedy.
struct host_compiler {
  std::string path;
  std::string identity;  ///< path, first line of --version, size and time of change
  bool is_clang = false;
  std::string problem;
};

struct compiled {
  process_result result;
  std::string image;  ///< the shared object's bytes, when result.how is ok
};

/// The greatest time in seconds of one run of the compiler: $SINTER_COMPILE_TIMEOUT, or 60.
SINTER_API std::chrono::duration<double> compile_limit() {
  const std::string text = detail::environment("SINTER_COMPILE_TIMEOUT");
  if (text.empty()) return std::chrono::seconds(60);
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size() && seconds > 0 && seconds <= 86'400)
    return std::chrono::duration<double>(seconds);
  logs::warn_once("SINTER_COMPILE_TIMEOUT=" + text + " is not a number of seconds above 0 and up to 86400; using 60");
  return std::chrono::seconds(60);
}

/// True if glibc's vector math library is complete (since 2.35, x86-64); kernels then see SINTER_LIBMVEC.
SINTER_API bool has_libmvec() {
#if defined(__GLIBC__) && defined(__x86_64__)
  static const bool found = [] {
    const std::string_view version = ::gnu_get_libc_version();
    int major = 0, minor = 0;
    const auto [dot, error] = std::from_chars(version.begin(), version.end(), major);
    if (error == std::errc() && dot != version.end()) std::from_chars(dot + 1, version.end(), minor);
    return major > 2 || (major == 2 && minor >= 35);
  }();
  return found;
#else
  return false;
#endif
}

namespace detail {

inline bool is_program(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

/// The path of a program: unchanged if it has a slash, else found in PATH; empty if there is none.
SINTER_API std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
  const std::string folders = environment("PATH");
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::string folder = folders.substr(at, end - at);
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(path)) return path;
    at = end + 1;
  }
  return "";
}

/// Queries the version of the program at `path`.
SINTER_API host_compiler probe(const std::string& path, const std::string& stamp) {
  const scratch_folder scratch;
  const auto limit = std::min(compile_limit(), std::chrono::duration<double>(10));
  const process_result r = run_process({path, "--version"}, scratch.path(), limit);
  const std::string line = r.log.substr(0, r.log.find('\n'));
  // Its output is in a file.
  if (const std::string why = r.how == outcome::ok && line.empty() ? why_no_files(scratch.path(), "", 0) : "";
      !why.empty())
    throw system_error(why);
  host_compiler found;
  if (r.how == outcome::timed_out) found.problem = path + " --version did not answer in time";
  else if (r.how != outcome::ok || line.empty())
    found.problem = path + " --version failed" + (r.log.empty() ? "" : ": " + line);
  else found = {path, path + " | " + line + " | " + stamp, line.find("clang") != std::string::npos, ""};
  return found;
}

/// The compilers to try, in order; a set $SINTER_CXX is the only one.
inline series<std::string> candidates(const std::string& chosen) {
  if (chosen == "none") return {};
  if (!chosen.empty()) return {chosen};
#if defined(SINTER_BUILD_CXX)
  return {SINTER_BUILD_CXX, "c++", "g++", "clang++"};
#else
  return {"c++", "g++", "clang++"};
#endif
}

}  // namespace detail

/// Whether this process runs no compiler: $SINTER_CXX is "none". Kernels that are
/// missing are then an error.
inline bool compiles_nothing() { return detail::environment("SINTER_CXX") == "none"; }

/// The host compiler. It is searched again when $SINTER_CXX, $PATH or the compiler's file changes. Never throws for a missing
/// one: `problem` has the reason.
SINTER_API std::shared_ptr<const host_compiler> find_compiler() {
  static std::mutex mutex;
  static auto& known = *new std::shared_ptr<const host_compiler>;  // threads may outlive statics
  static auto& known_for = *new std::string;
  const std::lock_guard lock(mutex);
  const std::string chosen = detail::environment("SINTER_CXX");
  series<std::string> paths;
  std::string state = chosen;
  for (const auto& name : detail::candidates(chosen)) {
    const std::string path = detail::find_program(name);
    if (path.empty()) continue;
    paths.push_back(path);
    state += "\n" + path + " " + detail::file_stamp(path);
  }
  if (known && state == known_for) return known;
  host_compiler found;
  std::string problems;
  for (const auto& path : paths) {
    found = detail::probe(path, detail::file_stamp(path));
    if (found.problem.empty()) break;
    problems += "; " + found.problem;
  }
  if (found.path.empty() && chosen == "none")
    found.problem =
        "SINTER_CXX=none, so nothing is compiled; make the kernels ahead by precompile(fn, args...), write them by "
        "save_cache(path), and read them by load_cache(path)";
  else if (found.path.empty())
    found.problem =
        (chosen.empty() ? "no C++ compiler was found" : "SINTER_CXX=" + chosen + " is not a usable C++ compiler") +
        problems + "; install g++ or clang++, or set SINTER_CXX to the path of one";
  known = make_on_heap<const host_compiler>(std::move(found));
  known_for = state;
  return known;
}

/// The time that this process has waited in vain for a compiler, of one path and version, that has not yet compiled anything.
class compiler_patience {
 public:
  static compiler_patience& get() {
    static auto& all = *new compiler_patience;  // threads may outlive statics
    return all;
  }
  /// Zero if the compiler works, or was never waited for in vain.
  std::chrono::duration<double> spent(const host_compiler& on) {
    const std::lock_guard guard(mutex_);
    const auto at = spent_.find(on.identity);
    return at == spent_.end() ? works : at->second;
  }
  void note(const host_compiler& on, outcome how, std::chrono::duration<double> limit) {
    const std::lock_guard guard(mutex_);
    if (how == outcome::ok) spent_[on.identity] = works;
    if (how != outcome::timed_out) return;
    auto& spent = spent_.try_emplace(on.identity, limit).first->second;
    if (spent > works) spent = std::max(spent, limit);
  }

 private:
  static constexpr std::chrono::duration<double> works{0};
  std::mutex mutex_;
  std::unordered_map<std::string, std::chrono::duration<double>> spent_;
};

namespace detail {
/// Flags of g++ and clang++ that change arithmetic from docs/semantics.md. Linking with some of them flushes subnormal
/// numbers in the whole process.
inline bool changes_values(std::string_view flag) {
  for (const std::string_view whole :
       {"-Ofast", "-ffast-math", "-funsafe-math-optimizations", "-fassociative-math", "-freciprocal-math",
        "-ffinite-math-only", "-fno-signed-zeros", "-fno-honor-nans", "-fno-honor-infinities", "-fapprox-func",
        "-fsingle-precision-constant", "-mdaz-ftz", "-mfpmath=387", "-fno-wrapv", "-ftrapv", "-fstrict-aliasing"})
    if (flag == whole) return true;
  return flag.starts_with("-ffp-contract=") || flag.starts_with("-ffp-model=");
}
}  // namespace detail

/// The arguments that decide the code of a kernel's text; part of its cache key. Flags of SINTER_CXXFLAGS that would change
/// values are dropped, with a warning.
SINTER_API series<std::string> compile_flags(const host_compiler& with) {
  series<std::string> flags = {
    "-std=c++20",
#if defined(__x86_64__) || defined(__i386__)
    "-march=native",
#else
    "-mcpu=native",
#endif
    "-O3",
    "-fopenmp",
    "-fPIC",
    "-shared",
    "-pipe",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-strict-aliasing",
    // A program may contain the C++ library statically, where kernels cannot find it.
    "-fno-exceptions",
    "-w",
    "-Wno-psabi"
  };
  if (has_libmvec()) flags.push_back("-DSINTER_LIBMVEC=1");
  const std::string extra = detail::environment("SINTER_CXXFLAGS");
  for (std::size_t at = 0; at < extra.size();) {
    const std::size_t end = std::min(extra.find(' ', at), extra.size());
    if (const std::string flag = extra.substr(at, end - at); detail::changes_values(flag))
      logs::warn_once("SINTER_CXXFLAGS: " + flag + " would change what kernels compute, and is left out");
    else if (!flag.empty()) flags.push_back(flag);
    at = end + 1;
  }
  // Kernels use no part of the C++ library, and linking it costs more than compiling a small kernel.
  flags.push_back(with.is_clang ? "-nostdlib++" : "-nodefaultlibs");
  return flags;
}

namespace detail {
inline series<std::string> libraries(const host_compiler& with) {
  series<std::string> out;
  if (has_libmvec()) out.push_back("-lmvec");
  out.push_back("-lm");
  // The C library is in every process; linking it takes longer than everything else.
  if (!with.is_clang) out.insert(out.end(), {"-lgomp", "-lgcc"});
  return out;
}

/// Whether an image is a complete shared object: a loader would read past the end of a truncated one. Offsets are those of
/// ELF-64 headers; other classes are recognised only by their first bytes.
SINTER_API bool is_shared_object(std::string_view image) {
  if (image.size() < 64 || image.substr(0, 4) != "\177ELF") return false;
  if (image[4] != 2) return true;
  const auto at = [&]<class T>(std::uint64_t offset, T x) {
    std::memcpy(&x, image.data() + offset, sizeof x);
    return std::uint64_t{x};
  };
  const auto inside = [&](std::uint64_t from, std::uint64_t size) {
    return from <= image.size() && size <= image.size() - from;
  };
  constexpr std::uint64_t word = 0;
  constexpr std::uint16_t half = 0;
  const std::uint64_t segments = at(32, word), sections = at(40, word), segment_size = at(54, half),
                      segment_count = at(56, half);
  if (segment_size < 56 || !inside(segments, segment_count * segment_size) ||
      !inside(sections, at(58, half) * at(60, half)))
    return false;
  for (std::uint64_t s = segments; s < segments + segment_count * segment_size; s += segment_size)
    if (!inside(at(s + 8, word), at(s + 32, word))) return false;
  return true;
}

}  // namespace detail

/// Compiles self-contained C++ text to a shared object. Throws system_error if there is no room for temporary files; the
/// compiler's outcome is in the result.
SINTER_API compiled compile(const host_compiler& with, const std::string& source) {
  compiled out;
  if (with.path.empty()) {
    out.result = {outcome::missing, 0, with.problem};
    return out;
  }
  const detail::scratch_folder scratch;
  const std::string text = scratch.path() + "/kernel.cpp", object = scratch.path() + "/kernel.so";
  if (!detail::write_file(text, source))
    throw system_error("a kernel's source cannot be written below " + detail::temporary_folder() + ": " +
                       detail::why_unwritten(errno, "set TMPDIR to a folder with free space"));
  series<std::string> argv = {with.path};
  for (auto& flag : compile_flags(with)) argv.push_back(std::move(flag));
  argv.insert(argv.end(), {text, "-o", object});
  for (auto& library : detail::libraries(with)) argv.push_back(std::move(library));
  out.result = run_process(argv, scratch.path(), compile_limit());
  // The driver reports a killed pass as an ordinary failure.
  if (out.result.how == outcome::failed && out.result.log.find("signal terminated program") != std::string::npos) {
    out.result.how = outcome::killed;
    out.result.code = 0;
  }
  if (out.result.how != outcome::ok) return out;
  out.image = detail::read_file(object);
  if (!detail::is_shared_object(out.image)) {
    out.image.clear();
    out.result.how = outcome::produced_nothing;
  }
  return out;
}

}  // namespace sinter::engine::run
