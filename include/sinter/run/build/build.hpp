// run/build/build.hpp: kernel texts -> loaded modules; from memory, from disk, or by a compiler, in parallel.
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

#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../../base/log.hpp"
#include "../../base/series.hpp"
#include "../../base/text.hpp"
#include "../host/compiler.hpp"
#include "../host/module.hpp"
#include "../progress.hpp"
#include "cache.hpp"
#include "job.hpp"
#include "rank_kernels.hpp"
#include "toolchain.hpp"
#include "unit.hpp"

namespace sinter::engine::run {

struct built {
  std::shared_ptr<const module> code;
  std::string suffix;       ///< of the names of its entries
  bool from_cache = false;  ///< not compiled in this call
  double milliseconds = 0;
  origin from;

  kernel_function* entry() const { return code->symbol<kernel_function>(kernel_entry + suffix); }
};

/// False, and a reason with a remedy in `why`, if no C++ compiler answers. Compiles nothing.
SINTER_API bool compiler_usable(std::string& why) {
  const auto compiler = find_compiler();
  why = compiler->problem;
  return !compiler->path.empty();
}

namespace detail {

/// `source` is empty if the compiler was not run.
[[noreturn]] SINTER_API void fail_compile(const host_compiler& with, const std::string& source,
                                          const process_result& r) {
  if (r.how == outcome::missing && with.path.empty())
    throw compile_error("[compile] " + with.problem, r.how, "", with.problem);
  std::string what = with.path, remedy = "; set SINTER_CXX to a working g++ or clang++";
  if (!environment("SINTER_CXXFLAGS").empty()) remedy += ", or correct SINTER_CXXFLAGS";
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
      what += " ended without an error but produced no shared object with the kernel";
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

/// Compiles kernels as one unit, or each alone if that fails. `busy` receives kernels that another thread or process is
/// building. No thread waits while it holds a lock that others wait for.
SINTER_API void make_unit(std::span<job* const> jobs, const disk_cache& cache, const toolchain& with,
                          series<job*>& busy) {
  series<std::unique_lock<std::mutex>> in_process;
  series<disk_cache::lock> across_processes;
  series<job*> mine;
  series<std::string> texts;
  loaded_images known;
  for (job* const j : jobs) {
    std::unique_lock lock(j->entry->building, std::try_to_lock);
    auto across = lock ? cache.try_acquire(j->key()) : std::nullopt;
    if (!across) {
      busy.push_back(j);
      continue;
    }
    if (j->look_up(cache, with, known)) continue;
    in_process.push_back(std::move(lock));
    across_processes.push_back(std::move(*across));
    mine.push_back(j);
    texts.push_back(j->source->str());
  }
  series<const std::string*> sources;
  for (const std::string& text : texts) sources.push_back(&text);
  std::string image = mine.size() > 1 ? with.try_compile(unit_text(sources)) : "";
  const auto made = [&](const std::string* source) { return has_entries(image, *source); };
  if (image.empty() || !std::all_of(sources.begin(), sources.end(), made)) {
    for (job* const j : mine) j->make_alone(cache, with);
    return;
  }
  job::take(mine, std::move(image), cache, with);
}

inline double milliseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

/// Builds the jobs of a unit. Each is reported with its share of the time, one after another.
SINTER_API void make_timed(std::span<job* const> jobs, const disk_cache& cache, const toolchain& with) {
  const auto start = clock::now();
  series<job*> busy;
  if (jobs.size() > 1) make_unit(jobs, cache, with, busy);
  else busy.push_back(jobs[0]);
  for (job* const j : busy) j->make(cache, with);
  const auto share = (clock::now() - start) / static_cast<clock::rep>(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i]->began = start + share * static_cast<clock::rep>(i);
    jobs[i]->milliseconds += std::chrono::duration<double, std::milli>(share).count();
  }
}

inline series<series<std::size_t>> units_of_jobs(std::span<job* const> jobs, std::size_t side_by_side) {
  series<std::string> texts;
  series<const std::string*> sources;
  for (job* const j : jobs) texts.push_back(j->source->str());
  for (const std::string& text : texts) sources.push_back(&text);
  return units_of(sources, side_by_side);
}

/// Builds the jobs on as many threads as there are cores; after an error no further job begins.
SINTER_API void make_all(std::span<job* const> jobs, const disk_cache& cache, const toolchain& with) {
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const auto units = units_of_jobs(jobs, cores);
  series<std::exception_ptr> errors(units.size());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stop{false};
  progress* const shown = progress::current();
  if (shown) shown->expect(jobs.size());
  const auto work = [&] {
    for (std::size_t u; !stop && (u = next.fetch_add(1)) < units.size();) {
      series<job*> unit;
      for (const std::size_t i : units[u]) unit.push_back(jobs[i]);
      try {
        make_timed(unit, cache, with);
        if (shown) shown->made(unit.size());
      } catch (...) {
        errors[u] = std::current_exception();
        stop = true;
      }
    }
  };
  series<std::thread> threads;
  try {
    for (std::size_t i = 1; i < std::min(units.size(), cores); ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Fewer threads do the same work.
  }
  work();
  for (auto& t : threads) t.join();
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
}

/// Builds the jobs. Of ranks that lack a kernel, one compiles it.
SINTER_API void make_missing(std::span<job* const> jobs, const disk_cache& cache, const toolchain& with) {
  const auto order = order_of(jobs, with);
  if (!order) return make_all(jobs, cache, with);
  series<job*> mine;
  for (std::size_t k = 0; k < jobs.size(); ++k)
    if (order->is_mine(k)) mine.push_back(jobs[k]);
  if (!mine.empty()) {
    make_all({mine.data(), mine.size()}, cache, with);
    give_kernels(*order, jobs);
  }
  const series<job*> rest = take_kernels(*order, jobs, cache, with);
  if (!rest.empty()) make_all({rest.data(), rest.size()}, cache, with);
}

/// Throws compile_error that names kernels which a process without a compiler lacks: their ops, from their texts' first lines.
[[noreturn]] SINTER_API void fail_missing(std::span<job* const> missing) {
  constexpr std::size_t max_named = 8;
  const std::string problem = find_compiler()->problem;
  std::string names;
  for (std::size_t i = 0; i < missing.size() && i < max_named; ++i) {
    const std::string text = missing[i]->source->str();
    names += (i ? ", " : "") + (text.starts_with("// ") ? text.substr(3, text.find('\n') - 3) : "a kernel");
  }
  if (missing.size() > max_named) names += ", ...";
  throw compile_error("[compile] " + std::to_string(missing.size()) +
                          (missing.size() == 1 ? " kernel is" : " kernels are") +
                          " neither in the cache nor in a bundle that was loaded: " + names + ". " + problem,
                      outcome::missing, "", problem);
}

/// One finished job for each source, in order; equal sources share one.
SINTER_API series<job> make_modules(std::span<const shared_text> sources, const toolchain& with) {
  const disk_cache cache;
  series<job> jobs(sources.size());
  std::unordered_map<const live_entry*, std::size_t> known;
  loaded_images images;
  series<job*> missing;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].source = &sources[i];
    jobs[i].entry = live_modules().at(with.domain(), with.key(sources[i].str()));
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    job& j = jobs[i];
    if (!known.emplace(j.entry.get(), i).second) continue;
    const auto start = clock::now();
    j.began = start;
    const bool found = j.look_up(cache, with, images);
    j.milliseconds = milliseconds_since(start);
    logs::to("cache", [&] {
      const std::string from = j.tier;
      return (found ? "hit " : "miss ") + disk_cache::entry_name(j.key()) + " in " +
             (!found || from == "disk" ? cache.path()
              : from == "bundle"       ? "a bundle"
                                       : from);
    });
    if (!found) missing.push_back(&j);
  }
  if (!missing.empty()) {
    if (with.domain().empty() && compiles_nothing()) fail_missing({missing.data(), missing.size()});
    with.check();
    make_missing({missing.data(), missing.size()}, cache, with);
  }
  for (job& j : jobs) {
    const job& first = jobs[known.at(j.entry.get())];
    j.code = first.code;
    j.from_cache = first.from_cache || &j != &first;
    j.milliseconds = first.milliseconds;
    j.tier = first.tier;
    j.began = first.began;
  }
  return jobs;
}

/// The host compiler for C++, with images loaded as shared objects.
class host_toolchain final : public toolchain {
 public:
  std::string key(std::string_view source) const override { return key_text(*compiler_, source); }
  std::string portable() const override {
    series<std::string> flags = compile_flags(*compiler_);
    flags.pop_back();  // the last flag belongs to the compiler
    std::string out = host_target() + "\nflags";
    for (const auto& flag : flags) out.append(" ").append(flag);
    return out;
  }
  std::string domain() const override { return ""; }
  std::string compiler() const override {
    const std::string& all = compiler_->identity;  // path, version, stamp
    const std::size_t from = compiler_->path.size() + 3, end = all.rfind(" | ");
    return compiler_->path.empty() || end <= from ? "" : all.substr(from, end - from);
  }
  void check() const override {
    if (compiler_patience::get().spent(*compiler_) >= compile_limit())
      fail_compile(*compiler_, "", {outcome::timed_out, 0, ""});
  }
  std::string compile(const std::string& source) const override {
    check();
    compiled made = run_compiler(named_text(source));
    if (made.result.how == outcome::ok && !has_entries(made.image, source)) made.result.how = outcome::produced_nothing;
    if (made.result.how != outcome::ok) fail_compile(*compiler_, source, made.result);
    return std::move(made.image);
  }
  std::string try_compile(const std::string& text) const override { return run_compiler(text).image; }
  std::shared_ptr<const void> load(std::string_view image) const override { return run::load(image); }

 private:
  compiled run_compiler(const std::string& text) const {
    const auto limit = compile_limit();
    compiled made = run::compile(*compiler_, text);
    compiler_patience::get().note(*compiler_, made.result.how, limit);
    return made;
  }

  std::shared_ptr<const host_compiler> compiler_ = find_compiler();
};

}  // namespace detail

/// Loads one module for each source, in order; equal sources share one. Thread-safe; a kernel is compiled at most once for
/// any number of threads and processes. Throws compile_error.
SINTER_API series<built> build(std::span<const shared_text> sources) {
  series<built> out;
  for (auto& j : detail::make_modules(sources, detail::host_toolchain()))
    out.push_back({std::static_pointer_cast<const module>(std::move(j.code)), entry_suffix(j.source->str()),
                   j.from_cache, j.milliseconds, j.from()});
  return out;
}
inline series<built> build(std::span<const std::string> sources) {
  return build(series<shared_text>(sources.begin(), sources.end()));
}

}  // namespace sinter::engine::run
