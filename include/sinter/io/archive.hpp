// io/archive.hpp: files of arrays by name: what is common to .safetensors and .npz.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "zip.hpp"

namespace sinter::io {

/// A file of arrays by name, mapped. Arrays that it hands out keep the mapping.
struct archive {
  std::string path;
  storage whole;
  detail::record_map records;
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

}  // namespace sinter::io
