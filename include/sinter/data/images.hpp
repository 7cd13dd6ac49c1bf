// data/images.hpp: images, read by stb_image if the program has it.
#pragma once

// The program declares stbi_load: `#include <stb/stb_image.h>` before this header, with STB_IMAGE_IMPLEMENTATION in one of
// its files, or -lstb.
#if !defined(STBI_INCLUDE_STB_IMAGE_H) && __has_include(<stb/stb_image.h>)
#include <stb/stb_image.h>
#endif

#if defined(STBI_INCLUDE_STB_IMAGE_H)

#include <cstddef>
#include <cstdint>
#include <string>

#include "../io/file.hpp"

namespace sinter::data {

/// An image's bytes: (rows, columns, channels). `channels` is 1 for grey, 3 for colours, 4 with opacity, 0 for the file's
/// own. system_error if it cannot be read, and for more than 1 GiB.
template <class = void>
tensor<std::uint8_t, 3> read_image(const std::string& path, int channels = 3, location at = location::current()) {
  int width = 0, height = 0, has = 0;
  const storage whole = io::detail::map_file("data::read_image", path, at);
  const auto* const bytes = static_cast<const ::stbi_uc*>(whole.data());
  const int size = whole.bytes() < std::size_t{1} << 31 ? static_cast<int>(whole.bytes()) : 0;
  if (!::stbi_info_from_memory(bytes, size, &width, &height, &has))
    io::detail::fail_file("data::read_image", path, "cannot be read as a picture", at);
  if (std::int64_t{width} * height * (channels > 0 ? channels : has) > std::int64_t{1} << 30)
    io::detail::fail_file("data::read_image", path, "has more than 1 GiB of pixels", at);
  ::stbi_uc* const pixels = ::stbi_load_from_memory(bytes, size, &width, &height, &has, channels);
  if (!pixels) io::detail::fail_file("data::read_image", path, "cannot be read as a picture", at);
  return from_external<std::uint8_t>(pixels, {height, width, channels > 0 ? channels : has},
                                     [](std::uint8_t* p) { ::stbi_image_free(p); });
}

}  // namespace sinter::data

#endif
