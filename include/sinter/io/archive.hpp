// io/archive.hpp: files of arrays by name: what is common to .safetensors and .npz.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "records.hpp"

namespace sinter::io {

/// A file of arrays by name, mapped. Arrays that it hands out keep the mapping.
struct archive {
  std::string path;
  storage whole;
  detail::record_map records;
  std::map<std::string, std::string> metadata;

  SINTER_API std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return records.find(name) != records.end(); }

  /// The array of a name, where it lies in the file if it can stay there. user_error when there is none, system_error when it
  /// is damaged or of a dtype that no tensor has. `opaque`: what bytes of .npz without a dtype are.
  SINTER_API array at(const std::string& name, const dtype* opaque = nullptr,
                      location where = location::current()) const;
  /// As a tensor, on the host: `a.read<float, 2>("w")`. user_error, too, when its dtype or shape is another one.
  template <element T, dims Shape>
  tensor<T, Shape> read(const std::string& name, location where = location::current()) const {
    const dtype type = dtype_of<T>;
    const array a = at(name, &type, where);
    if (const std::string wrong = detail::misfit(a, type, Shape); !wrong.empty())
      fail("io::archive",
           path + ", " + detail::shown(name) + ": " + wrong + "; ask for what it holds, and cast<T>(x) that", where);
    return sinter::detail::typed<T, Shape>(detail::handle_of(a), where);
  }
};

/// Opens a .safetensors or a .npz file, whichever it is. system_error for a file that is neither, or damaged.
SINTER_API archive open_archive(const std::string& path, location at = location::current());
namespace detail {
/// The same of a file that another file, or its place in a folder, names: a regular one.
SINTER_API archive open_regular_archive(const std::string& path, location at);
}  // namespace detail
/// The same of the bytes of a file, which are copied.
SINTER_API archive open_archive(std::span<const std::byte> file, location at = location::current());

}  // namespace sinter::io

#if !defined(SINTER_COMPILED)
#include "archive_rules.hpp"
#endif
