// report/picture.hpp: graphs, timelines and memory plans as SVG; equal data give equal pictures.
#pragma once

#include <algorithm>

#include "../base/sorted.hpp"
#include "../engine/report.hpp"
#include "../ir/graph.hpp"
#include "escape.hpp"
#include "text.hpp"

namespace sinter::engine::reporting {

/// A block of scratch memory that kernels [first, last] use.
struct block {
  std::string label;
  std::size_t first = 0, last = 0;
  std::int64_t offset = 0, bytes = 0;
};

/// Graphs with more nodes are shown as text.
inline constexpr std::size_t max_drawn = 1200;

namespace detail {

inline std::string colour(int kernel, const char* lightness = "86%") {
  return kernel < 0 ? "#f4f4f2" : "hsl(" + std::to_string(kernel * 137 % 360) + ",60%," + lightness + ")";
}

inline std::string svg(double width, double height, const std::string& what, const std::string& inside) {
  const std::string w = std::to_string(static_cast<long>(width)), h = std::to_string(static_cast<long>(height));
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"" + escaped(what) + "\" width=\"" + w +
         "\" height=\"" + h + "\" viewBox=\"0 0 " + w + " " + h + "\">\n" + inside + "</svg>\n";
}

inline std::string box(double x, double y, double w, double h, const std::string& fill, const std::string& title,
                       const std::string& label) {
  std::string out = "<g><title>" + escaped(title) + "</title><rect x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) +
                    "\" width=\"" + fixed(w, 1) + "\" height=\"" + fixed(h, 1) + "\" fill=\"" + fill + "\"/>";
  if (!label.empty())
    out += "<text x=\"" + fixed(x + 5, 1) + "\" y=\"" + fixed(y + h / 2 + 4, 1) + "\">" + escaped(label) + "</text>";
  return out + "</g>\n";
}

inline double text_width(const std::string& s) { return 7.3 * static_cast<double>(s.size()) + 10; }

/// Nodes in layers, each below its operands; inputs and constants just above their first user.
class layout {
 public:
  explicit layout(const ir::graph& g) : g_(g), live_(g.live()), layer_(g.size()), x_(g.size()), users_(g.size()) {
    for (auto id : live_)
      for (auto in : g_[id].in) {
        users_[in].push_back(id);
        layer_[id] = std::max(layer_[id], layer_[in] + 1);
      }
    for (auto id : live_)
      if (g_[id].in.empty() && !users_[id].empty()) {
        layer_[id] = layer_[users_[id][0]] - 1;
        for (auto u : users_[id]) layer_[id] = std::min(layer_[id], layer_[u] - 1);
      }
    for (auto id : live_) {
      if (layers_.size() <= layer_[id]) layers_.resize(layer_[id] + 1);
      layers_[layer_[id]].push_back(id);
    }
    for (auto& l : layers_) place(l);
    // Moves nodes towards the middle of their neighbours, alternately from above and from below.
    for (int sweep = 0; sweep < 6; ++sweep) {
      const std::size_t n = layers_.size();
      for (std::size_t i = 0; i < n; ++i) arrange(layers_[sweep % 2 ? n - 1 - i : i], sweep % 2 != 0);
    }
  }

  std::string draw(const series<int>& kernel, const std::string& what) const {
    std::string lines, boxes;
    double width = 40;
    for (auto id : live_) {
      const ir::node& n = g_[id];
      width = std::max(width, x_[id] + node_width(id) + 10);
      for (auto in : n.in) {
        const double x0 = x_[in] + node_width(in) / 2, y0 = top(in) + height, x1 = x_[id] + node_width(id) / 2,
                     y1 = top(id);
        const std::string middle = fixed((y0 + y1) / 2, 1);
        lines += "<path d=\"M" + fixed(x0, 1) + " " + fixed(y0, 1) + "C" + fixed(x0, 1) + " " + middle + " " +
                 fixed(x1, 1) + " " + middle + " " + fixed(x1, 1) + " " + fixed(y1, 1) + "\"/>\n";
      }
      const bool out = std::count(g_.outputs.begin(), g_.outputs.end(), id) > 0;
      const int k = id < kernel.size() ? kernel[id] : -1;
      const std::string at = place_of(n);
      boxes += box(x_[id], top(id), node_width(id), height, k < 0 && n.code == ir::op::input ? "#dde6f0" : colour(k),
                   ir::print(g_, id) + (at.empty() ? "" : "\n" + at) + (k < 0 ? "" : "\nkernel " + std::to_string(k)) +
                       (out ? "\na result" : ""),
                   label(id));
    }
    return svg(width, static_cast<double>(layers_.size()) * step + 10, what,
               "<g class=\"edge\">\n" + lines + "</g>\n<g class=\"node\">\n" + boxes + "</g>\n");
  }

 private:
  static constexpr double height = 24, step = 58;

  static std::string place_of(const ir::node& n) { return reporting::place(n.where); }
  double top(ir::node_id id) const { return static_cast<double>(layer_[id]) * step + 8; }
  std::string label(ir::node_id id) const {
    const ir::node& n = g_[id];
    const bool out = std::count(g_.outputs.begin(), g_.outputs.end(), id) > 0;
    return "%" + std::to_string(id) + " " + ir::name(n.code) + " " + sinter::dtype_name(n.type) +
           ir::text_of(n.extents) + (out ? " *" : "");
  }
  double node_width(ir::node_id id) const { return text_width(label(id)); }

  void place(const series<ir::node_id>& l) {
    double x = 10;
    for (auto id : l) {
      x_[id] = std::max(x, x_[id]);
      x = x_[id] + node_width(id) + 14;
    }
  }

  void arrange(series<ir::node_id>& l, bool from_below) {
    series<std::pair<double, ir::node_id>> wanted;
    for (auto id : l) {
      const auto& near = from_below ? users_[id] : g_[id].in;
      double sum = 0;
      for (auto other : near) sum += x_[other] + node_width(other) / 2;
      const double own = x_[id] + node_width(id) / 2;
      wanted.emplace_back(near.empty() ? own : sum / static_cast<double>(near.size()), id);
    }
    sort_stably(wanted, [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < l.size(); ++i) {
      l[i] = wanted[i].second;
      x_[l[i]] = wanted[i].first - node_width(l[i]) / 2;
    }
    place(l);
  }

  const ir::graph& g_;
  series<ir::node_id> live_;
  series<std::size_t> layer_;
  series<double> x_;
  series<series<ir::node_id>> users_;
  series<series<ir::node_id>> layers_;
};

}  // namespace detail

/// A graph from its inputs down; kernel[id] colours a node, -1 leaves it grey.
SINTER_API std::string picture(const ir::graph& g, const series<int>& kernel, const std::string& what) {
  if (g.live().size() > max_drawn) return "<pre>" + escaped(ir::print(g)) + "</pre>\n";
  return detail::layout(g).draw(kernel, what);
}

/// The stages of a compilation, and below them the time of each kernel's code.
SINTER_API std::string timeline(const report& r) {
  const double scale = 900 / std::max(r.milliseconds, 1e-3);
  std::string inside;
  double y = 4;
  const auto bar = [&](const std::string& name, double from, double ms, int kernel) {
    const double x = std::min(from * scale, 900.0), w = std::max(1.0, std::min(ms * scale, 900 - x));
    inside += detail::box(x + 4, y, w, 18, detail::colour(kernel, "70%"), name + ": " + fixed(ms, 2) + " ms", "");
    inside += "<text x=\"" + fixed(x + 8, 1) + "\" y=\"" + fixed(y + 13, 1) + "\">" +
              escaped(name + " " + fixed(ms, 2) + " ms") + "</text>\n";
    y += 21;
  };
  for (const auto& s : r.stages) bar(s.name, s.started, s.milliseconds, -1);
  for (std::size_t k = 0; k < r.steps.size(); ++k)
    bar("kernel " + std::to_string(k) + " (" + r.steps[k].tier + ")", r.steps[k].started, r.steps[k].milliseconds,
        static_cast<int>(k));
  return detail::svg(1160, y + 4, "timeline of the compilation", inside);
}

/// Scratch memory: the kernels in order from left to right, the offset from top to bottom.
SINTER_API std::string memory_plan(const series<block>& blocks, std::size_t kernels) {
  if (blocks.empty()) return "<p>No intermediate is stored.</p>\n";
  std::int64_t end = 1;
  for (const auto& b : blocks) end = std::max(end, b.offset + b.bytes);
  const double column = std::clamp(1100.0 / static_cast<double>(std::max<std::size_t>(kernels, 1)), 12.0, 160.0);
  const double row = 360.0 / static_cast<double>(end);
  std::string inside;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const block& b = blocks[i];
    const double w = static_cast<double>(b.last - b.first + 1) * column;
    const double h = std::max(2.0, static_cast<double>(b.bytes) * row);
    inside += detail::box(4 + static_cast<double>(b.first) * column, 4 + static_cast<double>(b.offset) * row, w, h,
                          detail::colour(static_cast<int>(i), "80%"),
                          b.label + ": " + bytes(b.bytes) + " at " + std::to_string(b.offset) + ", kernels " +
                              std::to_string(b.first) + " to " + std::to_string(b.last),
                          h > 12 && w > 60 ? b.label : "");
  }
  return detail::svg(column * static_cast<double>(kernels) + 10, 372, "scratch memory by kernel and offset", inside);
}

}  // namespace sinter::engine::reporting
