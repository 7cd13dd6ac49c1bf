// run/trace_file.hpp: SINTER_TRACE: pages about compilations, and trace.json with the calls, for chrome://tracing.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "../base/config.hpp"
#include "../base/log.hpp"
#include "../base/series.hpp"
#include "file.hpp"
#include "new_file.hpp"

namespace sinter::engine::run {

namespace detail {

/// 0: unknown, 1: off, 2: on.
inline std::atomic<signed char> trace_state{0};

/// Reads SINTER_TRACE, once per process.
SINTER_API bool trace_wanted();

}  // namespace detail

/// True if SINTER_TRACE names a folder. Costs one relaxed load if not.
inline bool is_traced() {
  const auto state = detail::trace_state.load(std::memory_order_relaxed);
  return state != 1 && (state == 2 || detail::trace_wanted());
}

/// The folder; made on first use.
SINTER_API const std::string& trace_folder();

/// Notes that `what` ran on this thread; `ops` has a line for each op of it. The first 200,000 notes of a process are kept, and
/// written at its end.
SINTER_API void note_span(const char* category, const std::string& what, std::chrono::steady_clock::time_point from,
                          std::chrono::steady_clock::time_point to, std::string_view ops = {});

/// Notes its own lifetime.
class noted_span {
 public:
  noted_span(const char* category, const std::string& what, bool noted = is_traced(), std::string_view ops = {})
      : category_(category), what_(what), ops_(ops), noted_(noted) {
    if (noted_) [[unlikely]]
      from_ = std::chrono::steady_clock::now();
  }
  noted_span(const noted_span&) = delete;
  noted_span& operator=(const noted_span&) = delete;
  ~noted_span() {
    if (noted_) [[unlikely]]
      note_span(category_, what_, from_, std::chrono::steady_clock::now(), ops_);
  }

 private:
  const char* category_;
  const std::string& what_;
  std::string_view ops_;
  bool noted_;
  std::chrono::steady_clock::time_point from_;
};

}  // namespace sinter::engine::run

#include "../base/engine_begin.hpp"

namespace sinter::engine::run {

namespace detail {

/// Writes `text` in place of a regular file at `path`, or as a new file. False, with errno, on failure.
SINTER_API bool replace_trace(const std::string& path, const std::string& text) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) return errno = EEXIST, false;
  return replace_file(path, text);
}

/// Writes `text` as a file with the first unused path of next(): a process of equal number, in another container, may write
/// there.
template <class F>
bool add_file(const std::string& text, F&& next) {
  std::string path = next();
  new_file file(folder_of_path(path), 0666);
  if (!file || !write_all(file.get(), text)) return false;
  for (;; path = next()) {
    const std::string name = name_in_folder(path);
    if (file.claim(name)) return true;
    // If files can have only one name, it replaces the file with that name.
    if (errno != EEXIST) return file.finish(name);
  }
}

/// The calls of this process. Never destroyed: threads may still run when it is written.
class trace_log {
 public:
  static trace_log& instance() {
    static trace_log* const log = [] {
      auto* made = new trace_log;
      std::atexit([] { instance().write(); });
      return made;
    }();
    return *log;
  }

  const std::string& folder() const { return folder_; }

  void add(const char* category, const std::string& what, std::chrono::steady_clock::time_point from,
           std::chrono::steady_clock::time_point to, std::string_view ops) {
    static thread_local const int thread = threads_.fetch_add(1);
    const std::lock_guard lock(mutex_);
    if (spans_.size() >= max_spans) {
      ++dropped_;
      return;
    }
    const auto micros = [](auto t) { return std::chrono::duration<double, std::micro>(t).count(); };
    const std::string* const lines = ops.empty() ? nullptr : &*names_.emplace(ops).first;
    spans_.push_back({category, &*names_.insert(what).first, lines, micros(from - began_), micros(to - from), thread});
  }

 private:
  static constexpr std::size_t max_spans = 200'000, max_lines = 16;  ///< a kernel's lines are written with each call
  struct span {
    const char* category;
    const std::string *what, *ops;
    double start, length;
    int thread;
  };

  trace_log() : folder_(environment("SINTER_TRACE")) {
    if (::mkdir(folder_.c_str(), 0777) != 0 && errno != EEXIST)
      logs::warn_once("SINTER_TRACE=" + folder_ + " cannot be made: " + std::strerror(errno));
  }

  static void append_quoted(std::string& out, const std::string& s) {
    out += '"';
    for (const char c : s) {
      if (c == '"' || c == '\\') out += '\\';
      // Names chosen by users may have any encoding; JSON is UTF-8.
      out += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c;
    }
    out += '"';
  }

  /// ,"args":{"ops":["…"]}
  static void append_ops(std::string& out, std::string_view lines) {
    std::size_t told = 0, left = 0;
    for (std::size_t end; !lines.empty(); lines.remove_prefix(end)) {
      end = std::min(lines.find('\n'), lines.size() - 1) + 1;
      if (told == max_lines && ++left) continue;
      out += told++ ? "," : ",\"args\":{\"ops\":[";
      append_quoted(out, std::string(lines.substr(0, end - 1)));
    }
    if (left != 0) out += ",\"and " + std::to_string(left) + " more\"";
    out += "]}";
  }

  void write() {
    const std::lock_guard lock(mutex_);
    const std::string process = std::to_string(::getpid());
    std::string out =
        "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":" + std::to_string(dropped_) + "},\"traceEvents\":[";
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      const span& s = spans_[i];
      char numbers[160];
      // Integers, which do not depend on the locale.
      const auto from = static_cast<long long>(s.start * 1e3), length = static_cast<long long>(s.length * 1e3);
      std::snprintf(numbers, sizeof numbers,
                    "\",\"ph\":\"X\",\"ts\":%lld.%03lld,\"dur\":%lld.%03lld,\"pid\":%s,\"tid\":%d", from / 1000,
                    from % 1000, length / 1000, length % 1000, process.c_str(), s.thread);
      out += i ? ",\n{\"name\":" : "\n{\"name\":";
      append_quoted(out, *s.what);
      out.append(",\"cat\":\"").append(s.category).append(numbers);
      if (s.ops) append_ops(out, *s.ops);
      out += '}';
    }
    out += "\n]}\n";
    if (!replace_trace(folder_ + "/trace.json", out))
      logs::warn_once("SINTER_TRACE: trace.json cannot be written in " + folder_ + ": " + std::strerror(errno));
  }

  std::string folder_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::set<std::string> names_;
  series<span> spans_;
  std::size_t dropped_ = 0;
  std::atomic<int> threads_{1};
};

SINTER_API bool trace_wanted() {
  const bool wanted = !environment("SINTER_TRACE").empty();
  if (wanted) trace_log::instance();
  trace_state.store(wanted ? 2 : 1, std::memory_order_relaxed);
  return wanted;
}

}  // namespace detail

SINTER_API const std::string& trace_folder() { return detail::trace_log::instance().folder(); }

SINTER_API void note_span(const char* category, const std::string& what, std::chrono::steady_clock::time_point from,
                          std::chrono::steady_clock::time_point to, std::string_view ops) {
  detail::trace_log::instance().add(category, what, from, to, ops);
}

/// Writes a page to the folder; `name` is the file's. A failure is only a warning, because pages are not the program's purpose.
SINTER_API void write_page(const std::string& name, const std::string& html) {
  static std::atomic<int> serial{0};
  std::string path;
  const auto next = [&] {
    char number[32];
    std::snprintf(number, sizeof number, "-%d-%04d-", static_cast<int>(::getpid()), serial.fetch_add(1) + 1);
    return path = trace_folder() + "/sinter" + number + name + ".html";
  };
  if (!detail::add_file(html, next))
    logs::warn_once("SINTER_TRACE: " + path + " cannot be written: " + std::strerror(errno));
}

}  // namespace sinter::engine::run

#include "../base/engine_end.hpp"
