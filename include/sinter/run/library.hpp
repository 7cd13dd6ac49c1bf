// run/library.hpp: the shared libraries of the process, by an address inside them.
#pragma once

#include <dlfcn.h>

#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "../base/config.hpp"
#include "file.hpp"

namespace sinter::engine::run {

/// The start of the library, or the program, that contains an address; null if none does.
inline const void* library_of(const void* address) {
  Dl_info in{};
  return ::dladdr(address, &in) != 0 ? in.dli_fbase : nullptr;
}

/// Prevents the library of an address from being unloaded when it is closed. No effect on the program itself.
SINTER_API void keep_loaded(const void* address) {
  Dl_info in{};
  if (!address || ::dladdr(address, &in) == 0 || !in.dli_fname || !*in.dli_fname) return;
  // One more handle, which is never closed.
  if (!::dlopen(in.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) ::dlerror();
}

/// The file from which the code at an address was loaded; empty if unknown.
SINTER_API std::string file_of(const void* address) {
  Dl_info in{};
  void* map = nullptr;
  if (::dladdr1(address, &in, &map, RTLD_DL_LINKMAP) == 0) return "";
  const char* const name = map ? static_cast<const link_map*>(map)->l_name : "";
  return name && *name ? name : "/proc/self/exe";
}

namespace detail {

/// The GNU build-id among a segment's notes, in hexadecimal digits, or "".
inline std::string build_id_among(const char* at, std::size_t bytes, std::size_t alignment) {
  constexpr ElfW(Word) build_id = 3;
  constexpr std::string_view gnu("GNU\0", 4);
  const auto padded = [&](std::size_t n) { return (n + alignment - 1) / alignment * alignment; };
  ElfW(Nhdr) note;
  while (bytes >= sizeof note) {
    std::memcpy(&note, at, sizeof note);
    const std::size_t name = sizeof note, text = padded(name + note.n_namesz), next = padded(text + note.n_descsz);
    if (text + note.n_descsz > bytes) break;
    if (note.n_type == build_id && std::string_view(at + name, note.n_namesz) == gnu) {
      std::string out;
      for (std::size_t k = 0; k < note.n_descsz; ++k) {
        const auto byte = static_cast<unsigned char>(at[text + k]);
        out += "0123456789abcdef"[byte >> 4];
        out += "0123456789abcdef"[byte & 15];
      }
      return out;
    }
    if (next >= bytes) break;
    at += next;
    bytes -= next;
  }
  return "";
}

}  // namespace detail

/// The GNU build-id, from memory, of the library or program that contains the code at an address. Empty if the linker wrote
/// none.
SINTER_API std::string build_id_of(const void* address) {
  struct search {
    ElfW(Addr) address;
    std::string found;
  } all{reinterpret_cast<ElfW(Addr)>(address), ""};
  const auto look = [](dl_phdr_info* in, std::size_t, void* to) {
    auto& s = *static_cast<search*>(to);
    const auto is_in = [&](const ElfW(Phdr) & p) {
      return p.p_type == PT_LOAD && s.address - in->dlpi_addr - p.p_vaddr < p.p_memsz;
    };
    const ElfW(Phdr)* const first = in->dlpi_phdr;
    const ElfW(Phdr)* const last = first + in->dlpi_phnum;
    if (std::none_of(first, last, is_in)) return 0;
    for (const ElfW(Phdr)* p = first; p != last && s.found.empty(); ++p)
      if (p->p_type == PT_NOTE)
        s.found = detail::build_id_among(reinterpret_cast<const char*>(in->dlpi_addr + p->p_vaddr), p->p_memsz,
                                         p->p_align == 8 ? 8 : 4);
    return 1;
  };
  ::dl_iterate_phdr(look, &all);
  return all.found;
}

}  // namespace sinter::engine::run
