// io/npy.hpp: NumPy's .npy files.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "file.hpp"

namespace sinter::io {

using npy_array = array;

namespace detail {

static_assert(std::endian::native == std::endian::little, "sinter: files are read on machines of little endian only");

struct npy_header {
  dtype type = dtype::f32;
  bool opaque = false;  ///< bytes without a dtype, as NumPy stores bf16 and 8-bit floats; `type` has their size
  bool swapped = false, by_columns = false;
  std::vector<std::int64_t> extents;
  std::size_t begin = 0, bytes = 0;  ///< of the elements
};

/// The array of a whole file. `opaque` is the dtype of bytes that have none, if known.
SINTER_API array parse_npy(const char* op, const std::string& path, std::span<const std::byte> file,
                           const storage& whole, const dtype* opaque, location at);

/// The elements after a header: in `whole`, whose bytes are `file`, if they can stay there, else copied.
SINTER_API array elements_of(const npy_header& h, std::span<const std::byte> file, const storage& whole);

/// Normalises flags whose bytes are neither 0 nor 1 to 1, because a compiled kernel may read such a byte.
SINTER_API void settle_flags(array& a);

}  // namespace detail

/// The array of a .npy file, mapped if its elements lie as a tensor's do. NumPy's V2 is bf16. system_error for damaged files,
/// and for contents that no tensor can have.
SINTER_API array read_npy(const std::string& path, location at = location::current());
/// The array of the bytes of a file, which are copied.
SINTER_API array read_npy(std::span<const std::byte> file, location at = location::current());
/// A tensor on the host: `read_npy<float, 2>("x.npy")`. user_error, too, for another dtype or shape.
template <element T, dims Shape>
tensor<T, Shape> read_npy(const std::string& path, location at = location::current()) {
  const storage whole = detail::map_file("io::read_npy", path, at);
  const dtype type = dtype_of<T>;
  const array a = detail::parse_npy("io::read_npy", path, detail::bytes_of(whole), whole, &type, at);
  if (const std::string wrong = detail::misfit(a, type, Shape); !wrong.empty())
    fail("io::read_npy", path + ": " + wrong + "; ask for what it holds, and cast<T>(x) that", at);
  return sinter::detail::typed<T, Shape>(detail::handle_of(a), at);
}

/// Writes an array as a .npy file, version 1.0, and replaces an existing file. On failure, a system_error, the existing file
/// stays.
SINTER_API void write_npy(const std::string& path, const array& a, location at = location::current());
/// Writes a tensor or an expression from any device.
template <tensor_like X>
void write_npy(const std::string& path, const X& x, location at = location::current()) {
  write_npy(path, to_array(x, at.in("io::write_npy")), at);
}

}  // namespace sinter::io

#if !defined(SINTER_COMPILED)
#include "npy_rules.hpp"
#endif
