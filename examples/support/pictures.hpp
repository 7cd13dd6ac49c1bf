// examples/support/pictures.hpp: small grey pictures side by side, as an SVG.
#pragma once

#include <cmath>
#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

/// Pictures of side × side values from 0, white, to 1, black, one behind the other, in rows of `across`.
inline void write_pictures(const std::string& path, const std::vector<float>& values, int side, int across) {
  const int count = static_cast<int>(values.size()) / (side * side), step = side + 1;
  const std::string width = std::to_string(across * step),
                    height = std::to_string((count + across - 1) / across * step);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + width + " " + height +
                    "\">\n<rect width=\"" + width + "\" height=\"" + height + "\" fill=\"#fff\"/>\n";
  for (int i = 0; i < count * side * side; ++i) {
    const int picture = i / (side * side), row = i / side % side, column = i % side;
    const int grey = static_cast<int>(std::lround(255 * (1 - values[static_cast<std::size_t>(i)])));
    if (grey > 245) continue;
    const std::string level = std::to_string(grey);
    svg += "<rect x=\"" + std::to_string(picture % across * step + column) + "\" y=\"" +
           std::to_string(picture / across * step + row) + "\" width=\"1\" height=\"1\" fill=\"rgb(" + level + "," +
           level + "," + level + ")\"/>\n";
  }
  std::ofstream file(path);
  if (!(file << svg << "</svg>\n")) throw std::runtime_error("cannot write " + path);
}
