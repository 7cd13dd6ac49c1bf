// examples/support/curve.hpp: a curve on a logarithmic scale, as an SVG picture.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace curve_detail {

inline std::string number(const char* format, double x) {
  char text[32];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

/// Every value replaced by the mean of its neighbourhood, in logarithms.
inline std::vector<double> smoothed(const std::vector<double>& y, std::size_t radius) {
  std::vector<double> out(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t from = i < radius ? 0 : i - radius, to = std::min(y.size(), i + radius + 1);
    double sum = 0;
    for (std::size_t j = from; j < to; ++j) sum += std::log10(y[j]);
    out[i] = std::pow(10, sum / static_cast<double>(to - from));
  }
  return out;
}

}  // namespace curve_detail

/// Draws positive values against their index: faint as they are, and smoothed. Throws when the file cannot be written.
inline void write_curve(const std::string& path, const std::string& title, const std::string& x_name,
                        std::vector<double> values) {
  using curve_detail::number;
  if (values.empty()) return;
  for (auto& v : values) v = std::isfinite(v) ? std::max(v, 1e-9) : 1e9;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const int low = static_cast<int>(std::floor(std::log10(*least)));
  const int high = static_cast<int>(std::floor(std::log10(*most))) + 1;

  constexpr double left = 64, right = 696, top = 52, bottom = 352;
  const double last = std::max<double>(1, static_cast<double>(values.size() - 1));
  const auto x_of = [&](double i) { return left + (right - left) * i / last; };
  const auto y_of = [&](double v) { return bottom - (bottom - top) * (std::log10(v) - low) / (high - low); };
  const auto line = [&](const std::vector<double>& y, const char* style) {
    std::string points;
    for (std::size_t i = 0; i < y.size(); ++i)
      points += number("%.1f,", x_of(static_cast<double>(i))) + number("%.1f ", y_of(y[i]));
    return "<polyline fill=\"none\" " + std::string(style) + " points=\"" + points + "\"/>\n";
  };

  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 400\" font-family=\"sans-serif\" "
      "font-size=\"12\" fill=\"#444\">\n<rect width=\"720\" height=\"400\" fill=\"#fff\"/>\n";
  svg += "<text x=\"64\" y=\"30\" font-size=\"16\" fill=\"#222\">" + title + "</text>\n";
  for (int power = low; power <= high; ++power) {
    const std::string y = number("%.1f", y_of(std::pow(10, power)));
    svg += "<line x1=\"64\" x2=\"696\" y1=\"" + y + "\" y2=\"" + y + "\" stroke=\"#ddd\"/>\n";
    svg += "<text x=\"56\" y=\"" + y + "\" dy=\"4\" text-anchor=\"end\">";
    svg += number("%g", std::pow(10, power)) + "</text>\n";
  }
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const double i = last * quarter / 4;
    svg += "<text x=\"" + number("%.1f", x_of(i)) + "\" y=\"370\" text-anchor=\"middle\">";
    svg += number("%.0f", i) + "</text>\n";
  }
  svg += "<text x=\"380\" y=\"390\" text-anchor=\"middle\">" + x_name + "</text>\n";
  svg += line(values, "stroke=\"#9ec5e8\" stroke-width=\"1\"");
  svg += line(curve_detail::smoothed(values, values.size() / 50 + 1), "stroke=\"#1f5fa8\" stroke-width=\"2.5\"");
  std::ofstream file(path);
  if (!(file << svg << "</svg>\n")) throw std::runtime_error("cannot write " + path);
}
