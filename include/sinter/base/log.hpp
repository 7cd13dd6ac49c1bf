// base/log.hpp: SINTER_LOGS; a comma-separated list of channels that print to stderr.
// The namespace is `logs` because `sinter::log` is the logarithm.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace sinter::logs {

/// True when SINTER_LOGS lists `channel` or "all". Read at each call: no hit's path logs.
inline bool enabled(std::string_view channel) {
  const char* set = std::getenv("SINTER_LOGS");
  if (!set) return false;
  std::string_view rest = set;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const auto word = rest.substr(0, comma);
    if (word == channel || word == "all") return true;
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return false;
}

/// Prints "[sinter:channel] text" to stderr in one write.
inline void write(std::string_view channel, std::string_view text) {
  std::string line = "[sinter:";
  line.append(channel).append("] ").append(text);
  if (line.back() != '\n') line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

/// Prints make_text() when the channel is enabled; it is called only then.
template <class F>
void to(std::string_view channel, F&& make_text) {
  if (enabled(channel)) write(channel, make_text());
}

/// Prints a warning once per process and distinct text; SINTER_LOGS does not silence it.
inline void warn_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  const std::lock_guard lock(mutex);
  if (seen.insert(text).second) write("warning", text);
}

}  // namespace sinter::logs
