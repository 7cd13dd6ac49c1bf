// examples/support/plot.hpp: lines and points in an SVG picture, and an array as a PNG picture.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

/// Lines and points over linear axes, or a logarithmic one upwards.
class plot {
 public:
  plot(std::string title, std::string x_name, bool logarithmic = false)
      : title_(std::move(title)), x_name_(std::move(x_name)), logarithmic_(logarithmic) {}

  /// y over x: any ranges of numbers, such as x.to_vector().
  template <class X, class Y>
  plot& line(const std::string& name, const X& x, const Y& y) {
    return add(name, x, y, false);
  }
  template <class X, class Y>
  plot& points(const std::string& name, const X& x, const Y& y) {
    return add(name, x, y, true);
  }

  /// Throws std::runtime_error when the file cannot be written.
  void write(const std::string& path) const {
    std::ofstream file(path);
    if (!(file << svg())) throw std::runtime_error("cannot write " + path);
  }

 private:
  struct series {
    std::string name;
    std::vector<double> x, y;
    bool points;
  };
  struct range {
    double low = INFINITY, high = -INFINITY;
    void add(double v) {
      if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
    }
    double part(double v) const { return high > low ? (v - low) / (high - low) : 0.5; }
  };

  template <class X, class Y>
  plot& add(const std::string& name, const X& x, const Y& y, bool points) {
    series s{name, {x.begin(), x.end()}, {y.begin(), y.end()}, points};
    if (logarithmic_)
      for (double& v : s.y) v = std::log10(std::max(v, 1e-16));
    for (const double v : s.x) across_.add(v);
    for (const double v : s.y) up_.add(v);
    all_.push_back(std::move(s));
    return *this;
  }

  static std::string text(const char* format, double v) {
    char out[32];
    std::snprintf(out, sizeof out, format, v);
    return out;
  }
  double left(double x) const { return 70 + 620 * across_.part(x); }
  double top(double y) const { return 350 - 300 * up_.part(y); }

  std::string drawn(const series& s, const std::string& colour) const {
    std::string out;
    for (std::size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i) {
      if (!std::isfinite(s.x[i]) || !std::isfinite(s.y[i])) continue;
      const std::string x = text("%.1f", left(s.x[i])), y = text("%.1f", top(s.y[i]));
      out += s.points ? "<circle r=\"2\" fill-opacity=\"0.5\" cx=\"" + x + "\" cy=\"" + y + "\"/>" : x + "," + y + " ";
    }
    if (s.points) return "<g fill=\"" + colour + "\">" + out + "</g>\n";
    return "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" + colour + "\" points=\"" + out + "\"/>\n";
  }

  std::string svg() const {
    constexpr const char* colours[] = {"#1f5fa8", "#c0392b", "#2c8c4a", "#b7791f", "#6b46a8"};
    std::string out =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 400\" font-family=\"sans-serif\" font-size=\"12\" "
        "fill=\"#444\">\n<rect width=\"720\" height=\"400\" fill=\"#fff\"/>\n";
    out += "<text x=\"70\" y=\"28\" font-size=\"16\" fill=\"#222\">" + title_ + "</text>\n";
    for (int i = 0; i <= 4; ++i) {
      const double x = across_.low + (across_.high - across_.low) * i / 4, y = up_.low + (up_.high - up_.low) * i / 4;
      const std::string at = text("%.1f", top(y));
      out += "<line x1=\"70\" x2=\"690\" y1=\"" + at + "\" y2=\"" + at +
             "\" stroke=\"#ddd\"/>\n<text x=\"62\" dy=\"4\" y=\"" + at + "\" text-anchor=\"end\">" +
             text("%.3g", logarithmic_ ? std::pow(10, y) : y) + "</text>\n";
      out +=
          "<text y=\"370\" text-anchor=\"middle\" x=\"" + text("%.1f", left(x)) + "\">" + text("%.3g", x) + "</text>\n";
    }
    out += "<text x=\"380\" y=\"390\" text-anchor=\"middle\">" + x_name_ + "</text>\n";
    for (std::size_t i = 0; i < all_.size(); ++i) {
      out += drawn(all_[i], colours[i % 5]);
      out += "<text text-anchor=\"end\" x=\"690\" y=\"" + text("%.0f", 28 + 15 * static_cast<double>(i)) +
             "\" fill=\"" + colours[i % 5] + "\">" + all_[i].name + "</text>\n";
    }
    return out + "</svg>\n";
  }

  std::string title_, x_name_;
  bool logarithmic_;
  range across_, up_;
  std::vector<series> all_;
};

/// Rows of numbers, from their smallest in dark blue to their largest in yellow, as a PNG picture whose data are stored as they are.
inline void write_png(const std::string& path, const std::vector<float>& values, std::uint32_t width) {
  constexpr std::array<std::array<double, 3>, 5> map{
      {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const auto height = static_cast<std::uint32_t>(values.size() / width);
  const auto big = [](std::uint32_t v) {
    return std::string{char(v >> 24), char(v >> 16 & 255), char(v >> 8 & 255), char(v & 255)};
  };
  std::string rows;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % width == 0) rows += '\0';
    const double at = *high > *low ? 3.999 * (values[i] - *low) / (*high - *low) : 0;
    const auto k = static_cast<std::size_t>(at);
    for (std::size_t c = 0; c < 3; ++c)
      rows += static_cast<char>(map[k][c] + (map[k + 1][c] - map[k][c]) * (at - double(k)));
  }
  std::string packed = "\x78\x01";
  std::uint32_t a = 1, b = 0;
  for (std::size_t i = 0; i < rows.size(); i += 65535) {
    const std::size_t n = std::min<std::size_t>(65535, rows.size() - i);
    packed += i + n == rows.size() ? '\1' : '\0';
    for (const std::size_t half : {n, ~n})
      packed += {static_cast<char>(half & 255), static_cast<char>(half >> 8 & 255)};
    packed += rows.substr(i, n);
  }
  for (const char c : rows) a = (a + static_cast<unsigned char>(c)) % 65521, b = (b + a) % 65521;
  packed += big(b << 16 | a);
  std::ofstream file(path, std::ios::binary);
  const auto chunk = [&](const std::string& body) {
    std::uint32_t crc = ~0u;
    for (const char c : body) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
    }
    file << big(static_cast<std::uint32_t>(body.size() - 4)) << body << big(~crc);
  };
  file << "\x89PNG\r\n\x1a\n";
  chunk("IHDR" + big(width) + big(height) + std::string("\x8\x2\0\0\0", 5));
  chunk("IDAT" + packed);
  chunk("IEND");
  if (!file) throw std::runtime_error("cannot write " + path);
}
