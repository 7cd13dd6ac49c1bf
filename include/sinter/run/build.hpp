// run/build.hpp: kernel texts -> loaded modules; from memory, from disk, or by a compiler, in parallel.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>

#include "../base/config.hpp"
#include "../base/error.hpp"
#include "../base/log.hpp"
#include "../base/series.hpp"
#include "../base/text.hpp"
#include "bundle.hpp"
#include "cache.hpp"
#include "host_compiler.hpp"
#include "module.hpp"

namespace sinter::engine::run {

using clock = std::chrono::steady_clock;

/// What it took to get a kernel's code.
struct origin {
  const char* tier = "memory";  ///< "memory", "disk", "bundle" or "compiled"
  double milliseconds = 0;
  clock::time_point began;
};

struct built {
  std::shared_ptr<const module> code;
  bool from_cache = false;  ///< no compiler ran for it in this call
  double milliseconds = 0;
  origin from;
};

/// The host compiler is missing, failed, was killed, hung or produced nothing.
class compile_error : public system_error {
 public:
  compile_error(const std::string& message, outcome how, std::string source_path, std::string cause)
      : system_error(message), how_(how), source_path_(std::move(source_path)), cause_(std::move(cause)) {}
  outcome how() const noexcept { return how_; }
  /// Where the kernel's text was saved; empty when no compiler was run.
  const std::string& source_path() const noexcept { return source_path_; }
  /// What is wrong with the compiler, whichever kernel it was given.
  const std::string& cause() const noexcept { return cause_; }

 private:
  outcome how_;
  std::string source_path_, cause_;
};

/// False, and why with a remedy, when there is no C++ compiler that answers. It compiles nothing.
SINTER_API bool compiler_usable(std::string& why) {
  const auto compiler = find_compiler();
  why = compiler->problem;
  return !compiler->path.empty();
}

/// What makes an image of a kernel's text and loads it. Images are kept on disk and loaded modules in memory for all.
class toolchain {
 public:
  virtual ~toolchain() = default;
  /// Everything that decides the image's bytes, as text.
  virtual std::string key(std::string_view source) const = 0;
  /// The lines of a portable key (bundle.hpp) between its first and the text: the target, then flags.
  virtual std::string portable() const = 0;
  /// Loaded modules are shared among equal keys of one domain only.
  virtual std::string domain() const = 0;
  /// Throws compile_error when `compile` would be waited for in vain.
  virtual void check() const {}
  /// Throws compile_error.
  virtual std::string compile(const std::string& source) const = 0;
  /// Throws system_error when the image is not one.
  virtual std::shared_ptr<const void> load(const std::string& image) const = 0;
};

namespace detail {

/// The modules in use in this process, by key. `building` is held by the thread that builds the kernel.
struct live_entry {
  std::mutex building;
  std::mutex mutex;
  std::weak_ptr<const void> code;
  std::string key, portable;  ///< on disk and in bundles, once it is loaded
  std::string folder, image;  ///< the cache folder that has its image, or else the image

  std::shared_ptr<const void> get() {
    const std::lock_guard guard(mutex);
    return code.lock();
  }
  /// Keeps the first module published; returns the one that everybody uses.
  std::shared_ptr<const void> publish(std::shared_ptr<const void> loaded) {
    const std::lock_guard guard(mutex);
    if (auto earlier = code.lock()) return earlier;
    code = loaded;
    return loaded;
  }
  /// Where its image is to be had, for bundles.
  void note(const std::string& disk_key, const std::string& portable_key, const std::string& in_folder,
            std::string_view kept) {
    const std::lock_guard guard(mutex);
    key = disk_key;
    portable = portable_key;
    folder = in_folder;
    image = kept;
  }
};

class live_table {
 public:
  std::shared_ptr<live_entry> at(const std::string& key) {
    const std::lock_guard guard(mutex_);
    auto& entry = entries_[key];
    if (!entry) {
      if (entries_.size() > prune_at_) prune();
      auto& fresh = entries_[key];
      fresh = std::make_shared<live_entry>();
      return fresh;
    }
    return entry;
  }

  /// Those of the modules in use.
  series<std::shared_ptr<live_entry>> all() {
    series<std::shared_ptr<live_entry>> out;
    const std::lock_guard guard(mutex_);
    for (const auto& [key, entry] : entries_)
      if (entry && entry->get()) out.push_back(entry);
    return out;
  }

 private:
  void prune() {
    erase_if(entries_, [](const auto& item) {
      return !item.second || (item.second.use_count() == 1 && item.second->code.expired());
    });
    prune_at_ = std::max<std::size_t>(256, 2 * entries_.size());
  }
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<live_entry>> entries_;
  std::size_t prune_at_ = 256;
};

// Never destroyed: kernels may be built while static objects are destroyed.
SINTER_API live_table& live_modules() {
  static live_table* const instance = new live_table;
  return *instance;
}

/// Saves a kernel that did not compile, with `log` beside it when there is one, and returns the path; the same text keeps
/// its path.
SINTER_API std::string save_source(const std::string& source, const std::string& suffix, const std::string& log = "") {
  static std::mutex mutex;
  static auto& saved = *new std::unordered_map<std::string, std::string>;  // threads may outlive statics
  const std::lock_guard guard(mutex);
  auto& path = saved[source];
  if (!path.empty() && read_file(path) == source) return path;
  path = temporary_folder() + "/sinter-kernel-XXXXXX" + suffix;
  const file_handle fd(::mkostemps(path.data(), static_cast<int>(suffix.size()), O_CLOEXEC));
  if (!fd || !write_all(fd.get(), source)) path = "";
  else if (!log.empty()) write_file(path + ".log", log);
  return path;
}

inline std::string first_lines(const std::string& text, int count) {
  std::size_t at = 0;
  for (int i = 0; i < count && at != std::string::npos; ++i) at = text.find('\n', at == 0 ? 0 : at + 1);
  return at == std::string::npos ? text : text.substr(0, at) + "\n...";
}

/// `source` is empty when the compiler was not run.
[[noreturn]] SINTER_API void fail_compile(const host_compiler& with, const std::string& source,
                                          const process_result& r) {
  if (r.how == outcome::missing && with.path.empty())
    throw compile_error("[compile] " + with.problem, r.how, "", with.problem);
  std::string what = with.path, remedy = "; set SINTER_CXX to a working g++ or clang++";
  switch (r.how) {
    case outcome::missing:
      what += " could not be started";
      break;
    case outcome::killed:
      what += " was killed" + (r.code != 0 ? " by signal " + std::to_string(r.code) : "");
      remedy = "; is there enough memory?";
      break;
    case outcome::timed_out: {
      const auto spent = compiler_patience::get().spent(with);
      const bool in_vain = spent.count() > 0;
      const auto limit = in_vain ? spent : compile_limit();
      what += " did not finish within " + text::number(limit.count()) + " s and was stopped";
      remedy = in_vain ? "; this process does not wait for it again unless SINTER_COMPILE_TIMEOUT sets a longer limit "
                         "in seconds or SINTER_CXX another compiler"
                       : "; SINTER_COMPILE_TIMEOUT sets the limit in seconds, SINTER_CXX another compiler";
      break;
    }
    case outcome::produced_nothing:
      what += " ended without an error but produced no shared object";
      break;
    default:
      what += " failed with exit status " + std::to_string(r.code);
      break;
  }
  const std::string path = source.empty() ? "" : save_source(source, ".cpp");
  const std::string cause = "[compile] " + what + remedy;
  std::string message = cause;
  if (!path.empty()) message += "; the kernel is in " + path;
  if (!r.log.empty()) message += "\n" + first_lines(r.log, 30);
  throw compile_error(message, r.how, path, cause);
}

/// One distinct kernel on its way.
struct job {
  const std::string* source = nullptr;
  std::string key;
  std::shared_ptr<live_entry> entry;
  std::shared_ptr<const void> code;
  bool from_cache = false;
  double milliseconds = 0;
  const char* tier = "memory";
  clock::time_point began;
  std::exception_ptr error;

  origin from() const { return {tier, milliseconds, began}; }

  std::string portable(const toolchain& with) const {
    return "sinter " SINTER_VERSION "\n" + with.portable() + key.substr(key.find("\nsource\n"));
  }

  /// Looks in memory, then on disk, then in bundles; true when found.
  bool look_up(const disk_cache& cache, const toolchain& with) {
    from_cache = true;
    tier = "memory";
    code = entry->get();
    if (code) return true;
    tier = "disk";
    std::string image = cache.find(key);
    const std::string elsewhere = portable(with);
    if (!image.empty() && use(image, with)) return entry->note(key, elsewhere, cache.path(), ""), true;
    if (!image.empty()) cache.discard(key);
    tier = "bundle";
    image = bundle_table::get().find(elsewhere);
    if (image.empty() || !use(image, with)) return false;
    entry->note(key, elsewhere, "", image);
    return true;
  }

  /// False, after a warning, when it cannot be loaded.
  bool use(const std::string& image, const toolchain& with) {
    try {
      code = entry->publish(with.load(image));
      return true;
    } catch (const system_error& e) {
      logs::warn_once(std::string(e.what()) + "; it is compiled again");
      return false;
    }
  }

  /// Compiles it unless another thread or process did so meanwhile.
  void make(const disk_cache& cache, const toolchain& with) {
    const std::lock_guard in_process(entry->building);
    const auto across_processes = cache.acquire(key, compile_limit());
    if (look_up(cache, with)) return;
    from_cache = false;
    tier = "compiled";
    const std::string image = with.compile(*source);
    code = entry->publish(with.load(image));
    const bool stored = cache.store(key, image);
    entry->note(key, portable(with), stored ? cache.path() : "", stored ? "" : image);
  }
};

inline double milliseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

/// Runs the jobs on as many threads as there are cores; after an error no further job starts.
SINTER_API void make_all(std::span<job* const> jobs, const disk_cache& cache, const toolchain& with) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stop{false};
  const auto work = [&] {
    for (std::size_t i; !stop && (i = next.fetch_add(1)) < jobs.size();) {
      const auto start = clock::now();
      jobs[i]->began = start;
      try {
        jobs[i]->make(cache, with);
      } catch (...) {
        jobs[i]->error = std::current_exception();
        stop = true;
      }
      jobs[i]->milliseconds += milliseconds_since(start);
    }
  };
  const std::size_t width = std::min<std::size_t>(jobs.size(), std::max(1u, std::thread::hardware_concurrency()));
  series<std::thread> threads;
  try {
    for (std::size_t i = 1; i < width; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Fewer threads do the same work.
  }
  work();
  for (auto& t : threads) t.join();
  for (job* const j : jobs)
    if (j->error) std::rethrow_exception(j->error);
}

/// One job per source, in order, done; equal sources share one.
SINTER_API series<job> make_modules(std::span<const std::string> sources, const toolchain& with) {
  const disk_cache cache;
  series<job> jobs(sources.size());
  std::unordered_map<std::string, std::size_t> known;
  series<job*> missing;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    job& j = jobs[i];
    j.source = &sources[i];
    j.key = with.key(sources[i]);
    if (!known.emplace(j.key, i).second) continue;
    j.entry = live_modules().at(with.domain() + j.key);
    const auto start = clock::now();
    j.began = start;
    const bool found = j.look_up(cache, with);
    j.milliseconds = milliseconds_since(start);
    logs::to("cache", [&] {
      return std::string(found ? "hit " : "miss ") + disk_cache::entry_name(j.key) + " in " + cache.path();
    });
    if (!found) missing.push_back(&j);
  }
  if (!missing.empty()) {
    with.check();
    make_all(missing, cache, with);
  }
  for (job& j : jobs) {
    const job& first = jobs[known.at(j.key)];
    j.code = first.code;
    j.from_cache = first.from_cache;
    j.milliseconds = first.milliseconds;
    j.tier = first.tier;
    j.began = first.began;
  }
  return jobs;
}

/// C++ by the host compiler, loaded as shared objects.
class host_toolchain final : public toolchain {
 public:
  std::string key(std::string_view source) const override { return key_text(*compiler_, source); }
  std::string portable() const override {
    series<std::string> flags = compile_flags(*compiler_);
    flags.pop_back();  // the compiler's own
    std::string out = host_target() + "\nflags";
    for (const auto& flag : flags) out.append(" ").append(flag);
    return out;
  }
  std::string domain() const override { return ""; }
  void check() const override {
    if (compiler_patience::get().spent(*compiler_) >= compile_limit())
      fail_compile(*compiler_, "", {outcome::timed_out, 0, ""});
  }
  std::string compile(const std::string& source) const override {
    check();
    const auto limit = compile_limit();
    compiled made = run::compile(*compiler_, source);
    compiler_patience::get().note(*compiler_, made.result.how, limit);
    if (made.result.how != outcome::ok) fail_compile(*compiler_, source, made.result);
    return std::move(made.image);
  }
  std::shared_ptr<const void> load(const std::string& image) const override { return run::load(image); }

 private:
  std::shared_ptr<const host_compiler> compiler_ = find_compiler();
};

}  // namespace detail

/// Loads one module per source, in order; equal sources share one. Thread-safe; a kernel is compiled at most once
/// however many threads and processes ask for it. Throws compile_error.
SINTER_API series<built> build(std::span<const std::string> sources) {
  series<built> out;
  for (auto& j : detail::make_modules(sources, detail::host_toolchain()))
    out.push_back({std::static_pointer_cast<const module>(std::move(j.code)), j.from_cache, j.milliseconds, j.from()});
  return out;
}

}  // namespace sinter::engine::run
