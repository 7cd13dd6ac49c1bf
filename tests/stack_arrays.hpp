// tests/stack_arrays.hpp: the bytes of all arrays that an emitted CPU kernel has on the stack.
#pragma once

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <string_view>

/// Of the text behind the prelude, with the longest vectors; a length that is no number counts as endless.
inline std::int64_t stack_arrays(std::string_view source) {
  constexpr std::int64_t lanes = 16;
  std::string_view text = source.substr(source.find("extern \"C\" void sinter_kernel"));
  std::int64_t total = 0;
  for (std::size_t end = text.find('\n'); end != text.npos; text.remove_prefix(end + 1), end = text.find('\n')) {
    std::string_view line = text.substr(0, end);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.starts_with("alignas(64) ")) line.remove_prefix(12);
    const auto open = line.find('['), close = line.find(']');
    const bool declares = line.size() > 3 && line[1] == '_' && open < line.find('=') && close < line.size() - 1;
    if (!declares || (line[0] != 't' && line[0] != 's' && line[0] != 'v')) continue;
    const auto space = line.find(' ');
    if (space > open || line.find(' ', space + 1) < open) continue;  // type name[length]
    std::string_view length = line.substr(open + 1, close - open - 1);
    std::int64_t n = 1;
    if (length.find("SINTER_W") != length.npos) n = length.starts_with("SINTER_W") ? lanes : -lanes;  // or n/SINTER_W
    length.remove_prefix(std::min(length.find_first_not_of('('), length.size()));
    if (n != lanes) {
      char* behind = nullptr;
      const std::int64_t digits = std::strtoll(length.data(), &behind, 10);
      if (behind == length.data()) return INT64_MAX;
      n = n < 0 ? digits / lanes : digits;
    }
    const std::int64_t bits = line[2] == 'b' && line[3] == '8'
                                  ? 32
                                  : std::strtoll(line.substr(line.find_first_of("123468")).data(), nullptr, 10);
    total += n * bits / 8 * (line[0] == 'v' ? lanes : 1);
  }
  return total;
}
