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

/// Text without control characters, which are written as in C++; of those of `kept` as they are.
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
/// Whether a status stands on the last line of the terminal.
inline std::atomic<bool> status_shown{false};
inline constexpr const char* erase_line = "\r\033[K";
}  // namespace detail

/// Writes over the last line of the terminal that stderr is; what is printed next takes its place.
inline void show_status(const std::string& text) {
  const sinter::detail::no_size_signal quiet;
  const std::string line = detail::erase_line + text;
  detail::status_shown = true;
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

/// Takes the status away.
inline void clear_status() {
  if (detail::status_shown) show_status("");
  detail::status_shown = false;
}

/// Prints "[sinter:channel] text" to stderr in one write.
inline void write(std::string_view channel, std::string_view text) {
  std::string line = detail::status_shown.exchange(false) ? detail::erase_line : "";
  line += "[sinter:";
  line.append(channel).append("] ").append(printable(text, "\n\t"));
  if (line.back() != '\n') line += '\n';
  const sinter::detail::no_size_signal quiet;
  std::fwrite(line.data(), 1, line.size(), stderr);
}

/// Prints a warning once per process and `cause`; SINTER_LOGS does not silence it.
inline void warn_once(const std::string& text, const std::string& cause) {
  static std::mutex mutex;
  static auto& seen = *new std::set<std::string>;  // threads may outlive statics
  const std::lock_guard lock(mutex);
  if (seen.insert(cause).second) write("warning", text);
}
inline void warn_once(const std::string& text) { warn_once(text, text); }

/// What SINTER_LOGS may list, and "all".
inline constexpr std::string_view channels[] = {"guards", "recompiles",  "graph_breaks", "graph", "rewrite",
                                                "fusion", "output_code", "cache",        "perf"};

namespace detail {
/// Warns of a word that is no channel.
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

/// True when SINTER_LOGS lists `channel` or "all". Read at each call: no hit's path logs.
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

/// Prints make_text() when the channel is enabled; it is called only then.
template <class F>
void to(std::string_view channel, F&& make_text) {
  if (enabled(channel)) write(channel, make_text());
}

}  // namespace sinter::logs
