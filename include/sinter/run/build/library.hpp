// run/build/library.hpp: texts -> objects for a chosen instruction set -> a shared library that stands alone.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <thread>

#include "../../base/error.hpp"
#include "../../base/series.hpp"
#include "../file.hpp"
#include "../host/compiler.hpp"
#include "../new_file.hpp"
#include "build.hpp"
#include "cache.hpp"

namespace sinter::engine::run {

/// A text to compile for a library.
struct library_unit {
  std::string text;
  bool c = false;             ///< C, not C++
  series<std::string> flags;  ///< the instruction set, definitions
};

/// The compiler of a library's target.
struct library_compiler {
  host_compiler with;
  bool foreign = false;  ///< its code does not run here
};

/// The host compiler, or for AArch64 on another machine the cross compiler. Throws compile_error with a remedy.
SINTER_API library_compiler find_library_compiler(bool aarch64) {
#if defined(__aarch64__)
  const bool here = aarch64;
#else
  const bool here = !aarch64;
#endif
  if (here) {
    const auto found = find_compiler();
    if (found->path.empty()) detail::fail_compile(*found, "", {outcome::missing, 0, found->problem});
    return {*found, false};
  }
  const std::string name = aarch64 ? "aarch64-linux-gnu-g++" : "x86_64-linux-gnu-g++";
  const std::string path = detail::find_program(name);
  host_compiler found;
  if (path.empty())
    found.problem = name + " was not found; install it (Debian: g++-" + name.substr(0, name.size() - 4) + ")";
  else found = detail::probe(path, detail::file_stamp(path));
  if (found.path.empty()) detail::fail_compile(found, "", {outcome::missing, 0, found.problem});
  return {found, true};
}

namespace detail {

/// The flags of all of a library's C++ units; the unit's own follow.
inline series<std::string> library_flags(const library_compiler& with, bool openmp) {
  series<std::string> out;
  for (const std::string& flag : compile_flags(with.with)) {
    const bool native = flag == "-march=native" || flag == "-mcpu=native" || flag == "-shared";
    const bool links = flag == "-nodefaultlibs" || flag == "-nostdlib++" || flag == "-pipe";
    if (native || links || (flag == "-fopenmp" && !openmp) || (with.foreign && flag == "-DSINTER_LIBMVEC=1")) continue;
    out.push_back(flag);
  }
  out.insert(out.end(), {"-fvisibility=hidden", "-fno-semantic-interposition", "-fno-asynchronous-unwind-tables"});
  return out;
}

inline series<std::string> unit_flags(const library_unit& unit, const library_compiler& with, bool openmp) {
  series<std::string> out;
  if (unit.c) {
    out = {"-x", "c", "-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables", "-w"};
    if (openmp) out.push_back("-fopenmp");
  } else {
    out = library_flags(with, openmp);
  }
  out.insert(out.end(), unit.flags.begin(), unit.flags.end());
  return out;
}

/// The object of a unit, from the cache of kernels where it has it. `include` is a folder of files that the text includes; units
/// that include some are not kept.
SINTER_API std::string compile_object(const library_unit& unit, const library_compiler& with, bool openmp,
                                      const std::string& include) {
  const series<std::string> flags = unit_flags(unit, with, openmp);
  std::string key = std::string(plan_key) + "object of a library\n" + with.with.identity + "\nflags";
  for (const auto& flag : flags) key += " " + flag;
  key += "\nsource\n" + unit.text;
  const disk_cache cache;
  if (include.empty())
    if (std::string known = cache.find(key); !known.empty()) return known;
  const scratch_folder scratch;
  const std::string text = scratch.path() + (unit.c ? "/unit.c" : "/unit.cpp"), object = scratch.path() + "/unit.o";
  if (!write_file(text, unit.text))
    throw system_error("a library's source cannot be written below " + temporary_folder() + ": " +
                       why_unwritten(errno, "set TMPDIR to a folder with free space"));
  series<std::string> argv = {with.with.path};
  argv.insert(argv.end(), flags.begin(), flags.end());
  if (!include.empty()) argv.insert(argv.end(), {"-I" + include, "-Wa,-I" + include});
  argv.insert(argv.end(), {"-c", text, "-o", object});
  process_result r = run_process(argv, scratch.path(), 10 * compile_limit());
  std::string made = r.how == outcome::ok ? read_file(object) : "";
  if (r.how == outcome::ok && made.empty()) r.how = outcome::produced_nothing;
  if (r.how != outcome::ok) fail_compile(with.with, unit.text, r);
  if (include.empty()) cache.store(key, made);
  return made;
}

}  // namespace detail

/// work(i) for each i below n, on as many threads as there are cores; after an error no further one begins.
template <class Work>
void side_by_side(std::size_t n, const Work& work) {
  series<std::exception_ptr> errors(n);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stop{false};
  const auto run = [&] {
    for (std::size_t i; !stop && (i = next.fetch_add(1)) < n;) try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
        stop = true;
      }
  };
  series<std::thread> threads;
  try {
    for (std::size_t i = 1; i < std::min<std::size_t>(n, std::max(1u, std::thread::hardware_concurrency())); ++i)
      threads.emplace_back(run);
  } catch (const std::system_error&) {
    // Fewer threads do the same work.
  }
  run();
  for (auto& t : threads) t.join();
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
}

/// Compiles the units side by side and links them to `path`. The library needs the C library and its mathematics, and with
/// `openmp` libgomp. `include` is a folder of files that the C units include. Throws compile_error, system_error.
SINTER_API void build_library(const std::string& path, const series<library_unit>& units, const library_compiler& with,
                              bool openmp, const std::string& include) {
  const detail::scratch_folder scratch;
  series<std::string> objects(units.size());
  progress* const shown = progress::current();
  if (shown) shown->expect(units.size());
  side_by_side(units.size(), [&](std::size_t i) {
    objects[i] = scratch.path() + "/" + std::to_string(i) + ".o";
    const std::string bytes = detail::compile_object(units[i], with, openmp, units[i].c ? include : "");
    if (!detail::write_file(objects[i], bytes))
      throw system_error("an object cannot be written below " + detail::temporary_folder() + ": " +
                         detail::why_unwritten(errno, "set TMPDIR to a folder with free space"));
    if (shown) shown->made(1);
  });
  const std::string name = path.substr(path.rfind('/') + 1), made = scratch.path() + "/" + name;
  series<std::string> argv = {with.with.path,        "-shared",
                              "-nodefaultlibs",      "-nostartfiles",
                              "-Wl,--as-needed",     "-Wl,--no-undefined",
                              "-Wl,-z,noexecstack",  "-Wl,-z,relro",
                              "-Wl,-soname," + name, "-Wl,--exclude-libs,ALL",
                              "-Wl,--build-id=none", "-s"};
  argv.insert(argv.end(), objects.begin(), objects.end());
  argv.insert(argv.end(), {"-o", made});
  if (openmp) argv.push_back("-lgomp");
  if (has_libmvec() && !with.foreign) argv.push_back("-lmvec");
  argv.insert(argv.end(), {"-lm", "-ldl", "-lc", "-lgcc"});
  process_result r = run_process(argv, scratch.path(), 10 * compile_limit());
  const std::string image = r.how == outcome::ok ? detail::read_file(made) : "";
  if (r.how == outcome::ok && !detail::is_shared_object(image)) r.how = outcome::produced_nothing;
  if (r.how != outcome::ok) detail::fail_compile(with.with, "", r);
  if (!detail::replace_file(path, image))
    throw system_error(path + " cannot be written: " +
                       detail::why_unwritten(errno, "give a folder that may be written to and has room"));
}

/// Makes a folder and those above it. Throws system_error.
SINTER_API void make_folders(const std::string& path) {
  for (std::size_t at = 0; at != std::string::npos;) {
    at = path.find('/', at + 1);
    const std::string part = path.substr(0, at);
    if (!part.empty() && ::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST)
      throw system_error("the folder " + path +
                         " cannot be made: " + detail::why_unwritten(errno, "give one that may be written to"));
  }
}

/// Writes a file completely, or not at all. Throws system_error.
SINTER_API void write_library_file(const std::string& path, std::string_view bytes) {
  if (!detail::replace_file(path, bytes))
    throw system_error(path + " cannot be written: " +
                       detail::why_unwritten(errno, "give a folder that may be written to and has room"));
}

}  // namespace sinter::engine::run
