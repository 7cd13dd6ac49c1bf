// io/archive.hpp: files of arrays by name: what is common to .safetensors and .npz.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "npy.hpp"

namespace sinter::io {

namespace detail {

/// Where an array of a file is. Of .npz files dtype and extents are known when its header is read.
struct record {
  dtype type = dtype::f32;
  std::string type_name;  ///< of a dtype that no tensor has
  std::vector<std::int64_t> extents;
  std::size_t begin = 0, bytes = 0;  ///< in the file
  bool zipped = false, deflated = false;
  std::uint64_t full_bytes = 0;  ///< of what is deflated
  std::uint32_t sum = 0;         ///< the CRC-32 of what is zipped
};

// (zip.hpp)
array read_zipped(const char* op, const std::string& path, const storage& whole, const record& r,
                  const std::string& name, const dtype* opaque, location at);

}  // namespace detail

/// A file of arrays by name, mapped. Arrays that it hands out keep the mapping.
struct archive {
  std::string path;
  storage whole;
  std::map<std::string, detail::record, std::less<>> records;
  std::map<std::string, std::string> metadata;

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, r] : records) out.push_back(name);
    return out;
  }
  bool contains(std::string_view name) const { return records.find(name) != records.end(); }

  /// The array of a name, where it lies in the file if it can stay there. user_error when there is none, system_error when it
  /// is damaged or of a dtype that no tensor has. `opaque`: what bytes of .npz without a dtype are.
  array at(const std::string& name, const dtype* opaque = nullptr, location where = location::current()) const {
    const auto found = records.find(name);
    if (found == records.end())
      fail("io::archive", path + " has no array \"" + detail::shown(name) + "\"; names() lists what it has", where);
    const detail::record& r = found->second;
    if (r.zipped) return detail::read_zipped("io::archive", path, whole, r, name, opaque, where);
    if (!r.type_name.empty())
      detail::fail_file(
          "io::archive", path,
          detail::shown(name) + " has elements of dtype " + detail::shown(r.type_name) + ", which no tensor has",
          where);
    detail::npy_header h;
    h.type = r.type;
    h.extents = r.extents;
    h.begin = r.begin;
    h.bytes = r.bytes;
    array out = detail::elements_of(h, detail::bytes_of(whole), whole);
    detail::settle_flags(out);
    return out;
  }
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

namespace detail {

/// What is to be written under a name; elements of a GPU are fetched when their turn comes.
struct named_leaf {
  std::string name;
  sinter::detail::handle value;

  std::vector<std::int64_t> extents() const {
    std::vector<std::int64_t> out;
    for (const dim& e : value.extents) out.push_back(e.bits);
    return out;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(value.extents.numel().bits) * size_of(value.type); }
};

}  // namespace detail
}  // namespace sinter::io
