// data/idx.hpp: .idx files, such as MNIST's, also compressed by gzip.
#pragma once

#include <span>
#include <string>

#include "../io/array.hpp"

namespace sinter::data {

/// The array of an .idx file, possibly compressed by gzip. system_error for a damaged file.
SINTER_API io::array read_idx(const std::string& path, location at = location::current());
/// The array of the bytes of a file, which are copied.
SINTER_API io::array read_idx(std::span<const std::byte> file, location at = location::current());
/// A tensor on the host: `read_idx<std::uint8_t, 3>("train-images-idx3-ubyte.gz")`. user_error, too, for another dtype or
/// shape.
template <element T, dims Shape>
tensor<T, Shape> read_idx(const std::string& path, location at = location::current()) {
  const io::array a = read_idx(path, at);
  if (const std::string wrong = io::detail::misfit(a, dtype_of<T>, Shape); !wrong.empty())
    fail("data::read_idx", path + ": " + wrong + "; ask for what it holds, and cast<T>(x) that", at);
  return sinter::detail::typed<T, Shape>(io::detail::handle_of(a), at);
}

}  // namespace sinter::data

#if !defined(SINTER_COMPILED)
#include "idx_rules.hpp"
#endif
