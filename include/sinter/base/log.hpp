// base/log.hpp: SINTER_LOGS; a comma-separated list of channels that print to stderr.
// The namespace is `logs` because `sinter::log` is the logarithm.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "size_signal.hpp"

namespace sinter::logs {

/// Text with control characters escaped as in C++, except the characters in `kept`.
inline std::string printable(std::string_view s, std::string_view kept = {}) {
  constexpr const char* digits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const auto byte = static_cast<unsigned char>(s[i]),
               next = static_cast<unsigned char>(i + 1 < s.size() ? s[i + 1] : 0);
    const bool wide = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F in UTF-8
    if (s[i] == '\n' && kept.find('\n') == kept.npos) out += "\\n";
    else if ((byte >= 0x20 && byte != 0x7f && !wide) || kept.find(s[i]) != kept.npos) out += s[i];
    else ((out += "\\x") += digits[(wide ? next : byte) >> 4]) += digits[(wide ? next : byte) & 15];
    i += wide;
  }
  return out;
}

namespace detail {
/// Whether a status is shown on the terminal; changed while stderr is locked.
inline std::atomic<bool> status_shown{false};
inline constexpr const char* erase_status = "\033[K";

/// Writes to stderr without interleaving with other threads.
template <class F>
void write_locked(F&& make_line) {
  const sinter::detail::no_size_signal quiet;
  ::flockfile(stderr);
  const std::string_view line = make_line();
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  ::funlockfile(stderr);
}
}  // namespace detail

/// Shows a status on the current line of the terminal that stderr is, as far as it fits. The next print replaces it. An empty
/// status removes it.
inline void show_status(const std::string& text) {
  // The cursor returns to its place, and the line does not wrap.
  const std::string line = detail::erase_status + (text.empty() ? text : "\0337\033[?7l" + text + "\033[?7h\0338");
  detail::write_locked([&]() -> std::string_view {
    if (!detail::status_shown.exchange(!text.empty()) && text.empty()) return {};
    return line;
  });
}

/// Prints "[sinter:channel] text" to stderr in one write.
inline void write(std::string_view channel, std::string_view text) {
  const std::string erase = detail::erase_status;
  std::string line = erase + "[sinter:";
  line.append(channel).append("] ").append(printable(text, "\n\t"));
  if (line.back() != '\n') line += '\n';
  detail::write_locked(
      [&] { return std::string_view(line).substr(detail::status_shown.exchange(false) ? 0 : erase.size()); });
}

/// Prints a warning once per process and `cause`; SINTER_LOGS does not silence it.
inline void warn_once(const std::string& text, const std::string& cause) {
  static std::mutex mutex;
  static auto& seen = *new std::set<std::string>;  // threads may outlive statics
  const std::lock_guard lock(mutex);
  if (seen.insert(cause).second) write("warning", text);
}
inline void warn_once(const std::string& text) { warn_once(text, text); }

/// The channels that SINTER_LOGS may list, besides "all".
inline constexpr std::string_view channels[] = {"guards",   "recompiles", "graph_breaks", "graph", "rewrite", "fusion",
                                                "schedule", "loops",      "output_code",  "cache", "perf"};

namespace detail {
/// Warns about an unknown channel.
inline void check_word(std::string_view word) {
  std::string known;
  for (const auto channel : channels) {
    if (word == channel) return;
    known.append(channel).append(", ");
  }
  if (!word.empty() && word != "all")
    warn_once("SINTER_LOGS names '" + std::string(word) + "', which is no channel; there are " + known + "and all");
}
}  // namespace detail

/// True when SINTER_LOGS lists `channel` or "all". It is read at each call, because no fast path logs.
inline bool enabled(std::string_view channel) {
  const char* set = std::getenv("SINTER_LOGS");
  if (!set) return false;
  bool found = false;
  for (std::string_view rest = set; !rest.empty();) {
    const auto comma = rest.find(',');
    const auto word = rest.substr(0, comma);
    detail::check_word(word);
    found = found || word == channel || word == "all";
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return found;
}

/// Prints make_text() when the channel is enabled; otherwise it is not called.
template <class F>
void to(std::string_view channel, F&& make_text) {
  if (enabled(channel)) write(channel, make_text());
}

}  // namespace sinter::logs
