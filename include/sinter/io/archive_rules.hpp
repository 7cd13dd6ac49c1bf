// io/archive_rules.hpp: the definitions for archive.hpp; compiled once.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "archive.hpp"
#include "safetensors.hpp"
#include "zip.hpp"

namespace sinter::io {

SINTER_API std::vector<std::string> archive::names() const {
  std::vector<std::string> out;
  for (const auto& [name, r] : records) out.push_back(name);
  return out;
}

SINTER_API array archive::at(const std::string& name, const dtype* opaque, location where) const {
  const auto found = records.find(name);
  if (found == records.end())
    fail("io::archive", path + " has no array \"" + detail::shown(name) + "\"; names() lists what it has", where);
  const detail::record& r = found->second;
  if (r.zipped) return detail::read_zipped("io::archive", path, whole, r, name, opaque, where);
  if (!r.type_name.empty())
    detail::fail_file(
        "io::archive", path,
        detail::shown(name) + " has elements of dtype " + detail::shown(r.type_name) + ", which no tensor has", where);
  detail::npy_header h;
  h.type = r.type;
  h.extents = r.extents;
  h.begin = r.begin;
  h.bytes = r.bytes;
  array out = detail::elements_of(h, detail::bytes_of(whole), whole);
  detail::settle_flags(out);
  return out;
}

namespace detail {

inline archive parse_archive(const std::string& path, storage whole, location at) {
  archive a;
  a.path = path;
  a.whole = std::move(whole);
  const auto file = detail::bytes_of(a.whole);
  const bool zip = file.size() >= 4 &&
                   (std::memcmp(file.data(), "PK\x03\x04", 4) == 0 || std::memcmp(file.data(), "PK\x05\x06", 4) == 0);
  const std::string wrong =
      zip ? detail::read_zip(a.whole, a.records) : detail::read_safetensors(a.whole, a.records, a.metadata);
  if (!wrong.empty()) detail::fail_file("io::open_archive", path, wrong, at);
  return a;
}

SINTER_API archive open_regular_archive(const std::string& path, location at) {
  return parse_archive(path, map_regular_file("io::open_archive", path, at), at);
}

}  // namespace detail

SINTER_API archive open_archive(const std::string& path, location at) {
  return detail::parse_archive(path, detail::map_file("io::open_archive", path, at), at);
}
SINTER_API archive open_archive(std::span<const std::byte> file, location at) {
  return detail::parse_archive("bytes", detail::kept_bytes({file.begin(), file.end()}), at);
}

}  // namespace sinter::io
