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
  bool opaque = false;  ///< bytes without a dtype, as many as `type` has: what NumPy makes of bf16 and 8-bit floats
  bool swapped = false, by_columns = false;
  std::vector<std::int64_t> extents;
  std::size_t begin = 0, bytes = 0;  ///< of the elements
};

/// The array of a whole file. `opaque`: what bytes without a dtype are, where that is known.
SINTER_API array parse_npy(const char* op, const std::string& path, std::span<const std::byte> file,
                           const storage& whole, const dtype* opaque, location at);

/// The elements behind a header: in `whole`, whose bytes `file` are, where they may stay there, else in memory of their own.
SINTER_API array elements_of(const npy_header& h, std::span<const std::byte> file, const storage& whole);

/// Flags of other bytes than 0 and 1 are set ones: a compiled kernel may read such a byte.
SINTER_API void settle_flags(array& a);

}  // namespace detail

/// The array of a .npy file, mapped where its elements lie as a tensor's do. bf16 is what NumPy calls V2. system_error for a
/// file that is damaged, or holds what no tensor does.
SINTER_API array read_npy(const std::string& path, location at = location::current());
/// The same of the bytes of a file, which are copied.
SINTER_API array read_npy(std::span<const std::byte> file, location at = location::current());
/// As a tensor, on the host: `read_npy<float, 2>("x.npy")`. user_error, too, when its dtype or shape is another one.
template <element T, dims Shape>
tensor<T, Shape> read_npy(const std::string& path, location at = location::current()) {
  const storage whole = detail::map_file("io::read_npy", path, at);
  const dtype type = dtype_of<T>;
  const array a = detail::parse_npy("io::read_npy", path, detail::bytes_of(whole), whole, &type, at);
  if (const std::string wrong = detail::misfit(a, type, Shape); !wrong.empty())
    fail("io::read_npy", path + ": " + wrong + "; ask for what it holds, and cast<T>(x) that", at);
  return sinter::detail::typed<T, Shape>(detail::handle_of(a), at);
}

/// Writes an array as a .npy file, of version 1.0, in place of what is there. system_error when that fails; what is there is kept then.
SINTER_API void write_npy(const std::string& path, const array& a, location at = location::current());
/// The same of a tensor or an expression, of any device.
template <tensor_like X>
void write_npy(const std::string& path, const X& x, location at = location::current()) {
  write_npy(path, to_array(x, at.in("io::write_npy")), at);
}

}  // namespace sinter::io

#if !defined(SINTER_COMPILED)
#include "npy_rules.hpp"
#endif
