// nn/summary.hpp: a table of a tree's parameters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "values.hpp"

namespace sinter::nn {

namespace detail {

struct summary_row {
  std::string path, what;
  std::int64_t count = 0, bytes = 0;
};

inline std::string grouped_digits(std::int64_t n) {
  std::string s = std::to_string(n);
  for (std::size_t i = s.size(); i > 3;) s.insert(i -= 3, ",");
  return s;
}

inline std::string summary_table(const std::vector<summary_row>& rows) {
  summary_row all{"total", "", 0, 0};
  std::size_t path = 5, what = 0, count = 0;
  for (const auto& r : rows) {
    all.count += r.count;
    all.bytes += r.bytes;
  }
  for (const auto& r : rows) {
    path = std::max(path, r.path.size());
    what = std::max(what, r.what.size());
  }
  count = grouped_digits(all.count).size();
  std::string out;
  const auto line = [&](const summary_row& r, const std::string& more) {
    const std::string n = grouped_digits(r.count);
    out += r.path + std::string(path - r.path.size() + 2, ' ') + r.what + std::string(what - r.what.size() + 2, ' ') +
           std::string(count - n.size(), ' ') + n + more + "\n";
  };
  for (const auto& r : rows) line(r, "");
  line(all, "  " + grouped_digits(all.bytes) + " bytes");
  return out;
}

}  // namespace detail

/// One line for each tensor of a tree: path, dtype, shape and number of elements. The last line has their sums.
template <class Tree>
std::string summary(const Tree& tree) {
  std::vector<detail::summary_row> rows;
  tree_for_each_with_path(
      [&]<class X>(const std::string& path, const X& x) {
        if constexpr (tensor_like<X>) {
          const dims shape = sinter::detail::to_dims(x.shape());
          const std::int64_t n = shape.numel();
          rows.push_back({path, std::string(dtype_name(dtype_of<typename X::value_type>)) + " " + text::shape(shape), n,
                          n * static_cast<std::int64_t>(sizeof(typename X::value_type))});
        }
      },
      tree);
  return detail::summary_table(rows);
}

}  // namespace sinter::nn
