// io/archive.hpp: files of named arrays: the common part of .safetensors and .npz.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "records.hpp"

namespace sinter::io {

/// A mapped file of named arrays. Arrays read from it keep the mapping alive.
struct archive {
  std::string path;
  storage whole;
  detail::record_map records;
  std::map<std::string, std::string> metadata;

  SINTER_API std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return records.find(name) != records.end(); }

  /// The array of a name, in the mapping if its elements can stay there. user_error for a missing name, system_error for a
  /// damaged array or a dtype that no tensor has. `opaque` is the dtype of .npz bytes that have none.
  SINTER_API array at(const std::string& name, const dtype* opaque = nullptr,
                      location where = location::current()) const;
  /// A tensor on the host: `a.read<float, 2>("w")`. user_error, too, for another dtype or shape.
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

/// Opens a .safetensors or a .npz file, recognised by its content. system_error for other or damaged files.
SINTER_API archive open_archive(const std::string& path, location at = location::current());
namespace detail {
/// Opens an archive that another file names, or that is found in a folder. It must be a regular file.
SINTER_API archive open_regular_archive(const std::string& path, location at);
}  // namespace detail
/// Opens the bytes of a file, which are copied.
SINTER_API archive open_archive(std::span<const std::byte> file, location at = location::current());

}  // namespace sinter::io

#if !defined(SINTER_COMPILED)
#include "archive_rules.hpp"
#endif
