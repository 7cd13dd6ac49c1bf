// report/text.hpp: explanations and reports for people, as plain text.
#pragma once

#include <algorithm>
#include <charconv>

#include "../base/error.hpp"
#include "../base/sorted.hpp"
#include "../base/text.hpp"
#include "../engine/explain.hpp"

namespace sinter::engine::reporting {

/// A number with at most `digits` digits after the point.
inline std::string fixed(double x, int digits) {
  char buffer[400];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::fixed, digits).ptr);
}

/// "512 B", "1.5 KiB".
inline std::string bytes(std::int64_t n) {
  if (n < 1024) return std::to_string(n) + " B";
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double x = static_cast<double>(n) / 1024;
  std::size_t u = 0;
  for (; x >= 1024 && u < 3; ++u) x /= 1024;
  return fixed(x, 1) + " " + units[u];
}

/// "net.cpp:12"; empty if unknown.
inline std::string place(location at) {
  return at.line == 0 ? "" : std::string(at.file) + ":" + std::to_string(at.line);
}

inline std::string line_of(const kernel_report& k) {
  std::string out = k.name + " over " + k.space + ", reads " + bytes(k.read) + ", writes " + bytes(k.written) + ", " +
                    std::to_string(k.flops) + " FLOPs";
  if (k.tier == "library") return out + ", a call of " + k.library;
  if (k.tier == "compiled") return out + ", compiled in " + fixed(k.milliseconds, 1) + " ms";
  return out + (k.tier.empty() ? "" : ", from " + k.tier);
}

/// The reasons for separate pairs that report::apart omits, one line for each reason.
inline std::string other_reasons(const report& r) {
  sorted_set<std::pair<std::size_t, std::size_t>> told;
  for (const auto& a : r.apart) told.emplace(std::min(a.first, a.second), std::max(a.first, a.second));
  bool strangers = false;
  std::string graphs;  // the kernels of each graph
  for (std::size_t k = 0, end; k < r.steps.size(); k = end) {
    for (end = k + 1; end < r.steps.size() && r.steps[end].first == r.steps[k].first;) ++end;
    for (std::size_t b = k + 1; b < end && !strangers; ++b)
      for (std::size_t a = k; a < b; ++a) strangers = strangers || !told.contains({a, b});
    graphs += (k ? " | " : "") + std::to_string(k) + (end > k + 1 ? "-" + std::to_string(end - 1) : "");
  }
  std::string out;
  if (strangers)
    out += std::string("  ") + (r.apart.empty() ? "" : "all other ") + "pairs of kernels" +
           (r.steps.back().first == 0 ? "" : " of one graph") +
           " are not one: they touch no array in common, and would move no byte less\n";
  if (!r.steps.empty() && r.steps.back().first != 0)
    out += "  kernels of different graphs (" + graphs +
           ") are not one: segments between graph breaks, branches and bodies of loops run each by itself\n";
  return out;
}

/// Kernels [first, first + period * times) that repeat `times` times.
struct repetition {
  std::size_t first = 0, period = 1, times = 1;
};

/// The kernels of a program in order, as repetitions, mostly single kernels. Equal numbers are equal kernels.
SINTER_API series<repetition> repetitions_of(const series<std::size_t>& kernels) {
  constexpr std::size_t longest = 512, min_saved = 3;  // kernels of a layer; the least number of omitted kernels
  const std::size_t n = kernels.size();
  series<repetition> out;
  for (std::size_t at = 0; at < n; at += out.back().period * out.back().times) {
    repetition best{at};
    for (std::size_t period = 1; period <= std::min(longest, (n - at) / 2); ++period) {
      std::size_t same = 0;
      while (at + period + same < n && kernels[at + period + same] == kernels[at + same]) ++same;
      const std::size_t times = 1 + same / period;
      if (period * (times - 1) > std::max(best.period * (best.times - 1), min_saved - 1)) best = {at, period, times};
    }
    out.push_back(best);
  }
  return out;
}

/// A line for each op of a kernel: "f32 exp at net.cpp:12".
inline std::string text_of_ops(const kernel_report& k) {
  std::string out;
  for (const op_report& o : k.ops) {
    const std::string at = place(o.where);
    out += o.type + " " + o.name + (at.empty() ? "" : " at " + at) + "\n";
  }
  return out;
}

namespace detail {
/// Whole lines, each behind `indent`.
inline std::string indented(const std::string& lines, const std::string& indent) {
  std::string out;
  for (std::size_t at = 0, end; at < lines.size(); at = end) {
    end = lines.find('\n', at) + 1;
    out += indent + lines.substr(at, end - at);
  }
  return out;
}
}  // namespace detail

/// A line for each kernel, its schedule and each op in it. Consecutive repetitions, such as layers, are printed once.
SINTER_API std::string text_of_kernels(const report& r) {
  sorted_map<std::string, std::size_t> known;
  series<std::string> ops;
  series<std::size_t> alike;
  for (const kernel_report& k : r.steps) {
    ops.push_back(detail::indented(text_of_ops(k), "  "));
    std::string all = k.name + k.space + " " + std::to_string(k.read) + " " + std::to_string(k.written) + " " +
                      std::to_string(k.source) + k.schedule + "\n" + k.chosen + "\n" + k.loops + ops.back();
    alike.push_back(known.emplace(std::move(all), known.size()).first->second);
  }
  std::string out;
  for (const repetition& one : repetitions_of(alike)) {
    const bool once = one.times == 1;
    if (!once)
      out += "  " + std::to_string(one.times) + " x: kernels " + std::to_string(one.first) + " to " +
             std::to_string(one.first + one.period * one.times - 1) + "\n";
    for (std::size_t k = one.first; k < one.first + one.period; ++k) {
      const std::string indent = once ? "  " : "    ";
      out += indent + "kernel " + std::to_string(k) + ": " + line_of(r.steps[k]) + "\n";
      if (!r.steps[k].schedule.empty()) out += indent + "  schedule: " + r.steps[k].schedule + "\n";
      if (!r.steps[k].chosen.empty()) out += indent + "  chosen: " + r.steps[k].chosen + ", by measurement\n";
      out += detail::indented(ops[k], indent) + detail::indented(r.steps[k].loops, indent + "    ");
    }
  }
  return out;
}

/// "1.0 MiB of arguments, 2.0 MiB of results, 1.0 MiB of them in place of arguments that are donated, 0 B of scratch".
inline std::string memory_of(const report& r) {
  const auto told = [](std::size_t n) { return bytes(static_cast<std::int64_t>(n)); };
  return told(r.argument_bytes) + " of arguments, " + told(r.result_bytes) + " of results, " +
         (r.replaced_bytes ? told(r.replaced_bytes) + " of them in place of arguments that are donated, " : "") +
         told(r.scratch_bytes) + " of scratch";
}

/// The lines of the buffers in memory when a call needs most: those of a hundredth of all bytes or more, at most 24.
SINTER_API std::string text_of_peak(const report& r) {
  std::int64_t total = 0, told = 0;
  for (const buffer_report& b : r.peak.buffers) total += b.bytes;
  if (total == 0) return "";
  std::string out = "  in memory at most, " + bytes(total);
  if (r.peak.step < r.steps.size())
    out += ", during kernel " + std::to_string(r.peak.step) + " (" + r.steps[r.peak.step].name + ")";
  out += ":\n";
  std::size_t lines = 0;
  for (const buffer_report& b : r.peak.buffers) {
    if (lines == 24 || 100 * b.bytes < total) break;
    ++lines;
    told += b.bytes;
    const std::string at = place(b.where);
    out += "    " + bytes(b.bytes) + ": " + (b.count > 1 ? std::to_string(b.count) + " x " : "") + b.what + " " +
           b.name + " " + b.type + b.shape + (b.what == "argument" ? "" : " " + b.op) +
           (at.empty() ? "" : " at " + at) + "\n";
  }
  if (lines < r.peak.buffers.size())
    out += "    " + bytes(total - told) + ": " + std::to_string(r.peak.buffers.size() - lines) + " smaller kinds\n";
  return out;
}

/// A line for each choice: "  kernel 3 (dot): option 1, 12.3 us; library took 14.0; measured now".
SINTER_API std::string text_of_choices(const report& r) {
  std::string out;
  for (const choice_report& c : r.choices) {
    out += "  " + (c.step < 0 ? c.what : "kernel " + std::to_string(c.step) + " (" + c.what + ")") + ": ";
    for (std::size_t k = 0; k < c.candidates.size(); ++k)
      out += (k == 0   ? ""
              : k == 1 ? "; "
                       : ", ") +
             c.candidates[k].name + (k == 0 ? ", " : " took ") + fixed(c.candidates[k].microseconds, 1) +
             (k == 0 ? " us" : "");
    out += c.kept ? "; measured earlier\n" : "; measured now\n";
  }
  return out;
}

/// The lines of one specialisation, indented by two more than its heading.
SINTER_API std::string text(const report& r) {
  std::string out =
      "  " + std::to_string(r.nodes_traced) + " nodes traced, " + std::to_string(r.nodes_rewritten) +
      " after the rewrites; " + std::to_string(r.kernels_unfused) + " ops in " + std::to_string(r.kernels) +
      " kernels; " +
      (r.collectives ? std::to_string(r.collectives) + " collectives, " + std::to_string(r.copies) + " copies; " : "") +
      "backend " + r.backend + "; " + memory_of(r) + "; " + fixed(r.milliseconds, 1) + " ms";
  if (!r.stages.empty())
    out += " (" +
           text::join(r.stages, ", ", [](const stage_report& s) { return s.name + " " + fixed(s.milliseconds, 1); }) +
           ")";
  out += "\n";
  if (!r.problem.empty()) out += "  no kernels: " + r.problem + "\n";
  out += text_of_peak(r) + text_of_kernels(r) + text_of_choices(r);
  for (const auto& a : r.apart)
    out +=
        "  kernels " + std::to_string(a.first) + " and " + std::to_string(a.second) + " are not one: " + a.why + "\n";
  out += other_reasons(r);
  for (const auto& a : r.attention) {
    const std::string at = place(a.where);
    out += "  " + a.what + (at.empty() ? "" : " at " + at) + " has no kernel of its own: " + a.why + "\n";
  }
  for (const auto& e : r.exchanges) {
    const std::string at = place(e.where);
    out += "  " + e.what + (at.empty() ? "" : " at " + at) +
           (e.is_cut ? " and its product are cut into pieces: " : " and its product are not cut into pieces: ") +
           e.why + "\n";
  }
  return out;
}

}  // namespace sinter::engine::reporting

namespace sinter {

SINTER_API std::string size_report::text() const {
  return detail::located(
      "size(" + std::to_string(axis) + ") of tensor " + std::to_string(tensor) + " is " + how + ": " + why, where);
}

SINTER_API std::string explanation::text() const {
  std::string out = name + ": " + std::to_string(specialisations.size()) +
                    (specialisations.size() == 1 ? " specialisation" : " specialisations") + ", " +
                    std::to_string(breaks.size()) + (breaks.size() == 1 ? " graph break\n" : " graph breaks\n");
  for (const auto& b : breaks) {
    const std::string at = engine::reporting::place(b.where);
    out += "break: " + b.why + (at.empty() ? "" : " (at " + at + ")") + "\n";
  }
  for (std::size_t s = 0; s < specialisations.size(); ++s) {
    const auto& one = specialisations[s];
    out += "specialisation " + std::to_string(s) + (one.why.empty() ? "" : ": " + one.why) + "\n";
    for (const auto& g : one.guards) out += "  guard: " + g + "\n";
    for (const auto& size : one.sizes) out += "  " + size.text() + "\n";
    out += engine::reporting::text(one.what);
    out += "  graph:\n";
    for (std::size_t at = 0, end; at < one.what.graph.size(); at = end + 1) {
      end = std::min(one.what.graph.find('\n', at), one.what.graph.size());
      out += "    " + one.what.graph.substr(at, end - at) + "\n";
    }
  }
  return out;
}

}  // namespace sinter
