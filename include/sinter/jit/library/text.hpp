// jit/library/text.hpp: the printed parts of an exported library's files: tables, comments, names.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

#include "../../base/config.hpp"
#include "../../emit/prelude/library.hpp"
#include "../../ir/print.hpp"
#include "../../run/build/library.hpp"
#include "gpu.hpp"
#include "programs.hpp"
#include "weights.hpp"

namespace sinter::engine::detail {

/// An input or a result, as the library's tables have it.
struct library_array {
  std::string name;
  dtype type = dtype::f32;
  series<std::int64_t> axes;  ///< of an input: a number, or -1 - k for size k
  series<std::string> texts;  ///< a number, or an expression of sizes
};

/// What the files of a library are printed from.
struct library_tables {
  series<library_array> inputs, outputs;
  series<std::size_t> input_place;  ///< among the operands of the programs
  series<library_weight> weights;
  std::string weight_header;
  std::int64_t weight_bytes = 0;
  series<printed_program> programs;
  std::size_t kernels = 0;
  series<gpu_entry> entries;  ///< of a library for GPUs
  series<gpu_images> images;  ///< for each kernel's text, its code in the file of images
  std::string provenance;
};

inline std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t next = text.find(what, at);
    out += text.substr(at, next - at);
    if (next == std::string_view::npos) return out;
    out += by;
    at = next + what.size();
  }
}

/// The lines of a text of emit/prelude/library.hpp that are for the host or for GPUs.
inline std::string chosen(std::string_view text, bool gpu) {
  std::string out;
  bool takes = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line == "$host") takes = !gpu;
    else if (line == "$gpu") takes = gpu;
    else if (line == "$end") takes = true;
    else if (takes) out.append(line).append("\n");
  }
  return out;
}

/// A text of emit/prelude/library.hpp for this library.
inline std::string named(std::string_view of_all, const library_request& what) {
  const std::string text = chosen(of_all, what.is_for_gpus());
  std::string capitals = what.how.name;
  for (char& c : capitals) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const bool beside = what.how.weights == library_weights::beside;
  return replaced(replaced(replaced(text, "$n", what.how.name), "$N", capitals), "$has_file",
                  beside ? "True" : "False");
}

/// The tables of a library for GPUs: code by kernel and GPU, the kernels' entries, and the file of code itself.
inline std::string print_gpu_tables(const library_request& what, const series<gpu_images>& images,
                                    const series<gpu_entry>& entries, const series<printed_program>& programs) {
  std::size_t ats = 0;
  for (const auto& p : programs) ats = std::max(ats, p.kept);
  std::string sms, rows, names;
  for (const int sm : what.how.gpus) sms += (sms.empty() ? "" : ", ") + std::to_string(sm);
  for (const gpu_images& one : images) {
    std::string row;
    for (const std::size_t at : one.at) row += (row.empty() ? "" : ", ") + std::to_string(at);
    rows += (rows.empty() ? "{" : ", {") + row + "}";
  }
  for (const gpu_entry& e : entries)
    names += std::string(names.empty() ? "" : ", ") + "{" + std::to_string(e.text) + ", " + std::to_string(e.shared) +
             ", " + in_quotes(e.name) + "}";
  return "enum { SMS = " + std::to_string(what.how.gpus.size()) + ", MODULES = " + std::to_string(images.size()) +
         ", ENTRIES = " + std::to_string(entries.size()) + ", ATS = " + std::to_string(ats + 1) +
         " };\nstatic const int sms[] = {" + sms + "};\n" + "static const long images[][SMS + 1] = {" +
         (rows.empty() ? "{0}" : rows) + "};\n" +
         "static const struct { int module, shared; const char* name; } entries[] = {" +
         (names.empty() ? "{0, 0, 0}" : names) + "};\n" +
         named(
             "__asm__(\".section .rodata\\n.balign 64\\n$n_images:\\n.incbin \\\"$n.images\\\"\\n.previous\\n\");\n"
             "extern const char $n_images[] __attribute__((visibility(\"hidden\")));\n",
             what);
}

inline const char* name_of(isa i) {
  constexpr const char* names[] = {"baseline", "avx2", "avx512", "aarch64"};
  return names[static_cast<std::size_t>(i)];
}
inline series<std::string> flags_of(isa i) {
  switch (i) {
    case isa::baseline:
      return {"-march=x86-64", "-mtune=generic"};
    case isa::avx2:
      return {"-march=x86-64-v3", "-mtune=generic"};
    case isa::avx512:
      return {"-march=x86-64-v4", "-mtune=generic", "-mprefer-vector-width=512"};
    default:
      return {"-march=armv8-a"};
  }
}

/// "{1, 2}", and "{0}" for nothing.
template <class List, class Text>
std::string braced(const List& all, Text&& text) {
  std::string out;
  for (const auto& x : all) out += (out.empty() ? "{" : ", ") + text(x);
  return out.empty() ? "{0}" : out + "}";
}

inline std::string print_specs(const library_request& what, const series<library_array>& all, const char* prefix) {
  std::string out, rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string axes = std::string(prefix) + "_axes_" + std::to_string(i);
    out += "static const char* const " + axes +
           "[] = " + braced(all[i].texts, [](const auto& t) { return in_quotes(t); }) + ";\n";
    rows += (i ? ", " : "") + ("{" + in_quotes(all[i].name) + ", " + what.how.name + "_" + dtype_name(all[i].type) +
                               ", " + std::to_string(all[i].texts.size()) + ", " + axes + "}");
  }
  return out + "static const " + what.how.name + "_spec " + prefix + "_specs[] = {" +
         (rows.empty() ? "{0, 0, 0, 0}" : rows) + "};\n" + "static const long " + prefix +
         "_bytes[] = " + braced(all, [](const library_array& a) { return std::to_string(size_of(a.type)); }) + ";\n";
}

inline std::string print_tables(const library_request& what, const library_tables& t) {
  const bool openmp = what.how.threads == library_threads::openmp,
             inside = what.how.weights == library_weights::inside && !t.weights.empty();
  std::size_t symbols = 0, out_axes = 0;
  for (const auto& p : t.programs) symbols = std::max(symbols, p.symbols);
  for (const auto& o : t.outputs) out_axes += o.texts.size();
  const auto constant = [](const char* name, std::int64_t n) { return std::string(name) + " = " + std::to_string(n); };
  std::string out = "enum { " + constant("INPUTS", static_cast<std::int64_t>(t.inputs.size())) + ", " +
                    constant("OUTPUTS", static_cast<std::int64_t>(t.outputs.size())) + ", " +
                    constant("WEIGHTS", static_cast<std::int64_t>(t.weights.size())) + ", " +
                    constant("SIZES", static_cast<std::int64_t>(what.sizes.size())) + ", " +
                    constant("SYMBOLS", static_cast<std::int64_t>(symbols)) + ", " +
                    constant("PROGRAMS", static_cast<std::int64_t>(t.programs.size())) + ", " +
                    constant("OUT_AXES", static_cast<std::int64_t>(out_axes)) + ", " +
                    constant("ISAS", static_cast<std::int64_t>(what.how.isas.size())) + ", MOST_THREADS = 1024 };\n";
  if (what.is_for_gpus()) out += print_gpu_tables(what, t.images, t.entries, t.programs);
  const std::int64_t file = static_cast<std::int64_t>(t.weight_header.size()) + t.weight_bytes;
  out += std::string("#define INSIDE ") + (inside ? "1" : "0") + "\n#define WEIGHT_FILE " +
         std::to_string(t.weights.empty() ? 0 : file) + "l\n#define WEIGHT_HEADER " +
         std::to_string(t.weight_header.size()) + "l\n#define WEIGHT_DIGEST " +
         std::to_string(digest_of_header(t.weight_header)) + "u\n#define PROVENANCE " + in_quotes(t.provenance) + "\n";
  if (openmp) out += "#ifdef _OPENMP\nint omp_get_max_threads(void);\n#endif\n";
  if (inside)
    out += named(
        "__asm__(\".section .rodata\\n.balign 64\\n$n_weight_file:\\n.incbin \\\"$n.weights\\\"\\n.previous\\n\");\n"
        "extern const char $n_weight_file[] __attribute__((visibility(\"hidden\")));\n",
        what);
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const auto count = [](std::size_t n) { return std::to_string(n); };
  out += "static const long least[] = " + braced(what.sizes, [&](const library_size& s) { return number(s.least); }) +
         ";\n" +
         "static const long most[] = " + braced(what.sizes, [&](const library_size& s) { return number(s.most); }) +
         ";\n";
  std::string axes;
  for (const auto& i : t.inputs)
    for (const std::int64_t a : i.axes) axes += (axes.empty() ? "" : ", ") + number(a);
  out += "static const long in_axes[] = {" + (axes.empty() ? "0" : axes) + "};\n" +
         "static const int in_place[] = " + braced(t.input_place, count) + ";\n" +
         "static const int weight_place[] = " +
         braced(t.weights, [&](const library_weight& w) { return count(w.place); }) + ";\n" +
         "static const long weight_at[] = " + braced(t.weights, [&](const library_weight& w) { return number(w.at); }) +
         ";\n";
  return out + print_specs(what, t.inputs, "in") + print_specs(what, t.outputs, "out");
}

/// The declarations of the kernels and the table of instruction sets.
inline std::string print_kernels(const library_request& what, const library_tables& t) {
  std::string out, rows;
  const bool several = what.how.isas.size() > 1;
  for (const isa i : what.how.isas) {
    const std::string suffix = several ? std::string("_") + name_of(i) : "",
                      table = std::string("kernels_") + name_of(i);
    std::string names;
    for (std::size_t k = 0; k < t.kernels; ++k) {
      const std::string name = what.how.name + "_k" + std::to_string(k) + suffix;
      out += "kernel " + name + ";\n";
      names += (k ? ", " : "") + name;
    }
    out += "static kernel* const " + table + "[] = {" + (names.empty() ? "0" : names) + "};\n";
    const int level = i == isa::avx512 ? 2 : i == isa::avx2 ? 1 : 0;
    rows += (rows.empty() ? "{" : ", {") + std::to_string(level) + ", " + table + "}";
  }
  return out + "static const struct { int level; kernel* const* kernels; } isas[] = {" + rows + "};\n";
}

inline std::string print_driver(const library_request& what, const library_tables& t, const std::string& comment) {
  std::string out = comment + named(emit::library_begin, what) + print_tables(what, t) +
                    (what.is_for_gpus() ? std::string(emit::library_requests) : print_kernels(what, t)),
              rows;
  for (const auto& p : t.programs) {
    out += p.text;
    rows += (rows.empty() ? "" : ",\n  ") + p.row;
  }
  return out + "static const program programs[] = {\n  " + rows + "};\n" + named(emit::library_end, what);
}

/// A comment of C with lines; they cannot end it.
inline std::string comment_of(const series<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines)
    out += (out.empty() ? "/* " : "   ") + replaced(replaced(line, "*/", "* /"), "\n", " ") + "\n";
  out.pop_back();
  return out + " */\n";
}

inline std::string array_text(const library_array& a) {
  std::string out = a.name + ": " + dtype_name(a.type) + " (";
  for (std::size_t d = 0; d < a.texts.size(); ++d) out += (d ? ", " : "") + a.texts[d];
  return out + ")";
}

/// What the header says of the library's inputs, results and sizes.
inline series<std::string> description(const library_request& what, const library_tables& t,
                                       const series<std::string>& shares) {
  series<std::string> out = {what.how.name + ": a program exported by sinter " SINTER_VERSION "."};
  for (std::size_t k = 0; k < t.inputs.size(); ++k)
    out.push_back("in[" + std::to_string(k) + "]  " + array_text(t.inputs[k]));
  for (std::size_t k = 0; k < t.outputs.size(); ++k)
    out.push_back("out[" + std::to_string(k) + "] " + array_text(t.outputs[k]));
  for (std::size_t k = 0; k < what.sizes.size(); ++k)
    out.push_back("sizes[" + std::to_string(k) + "] " + what.sizes[k].name + ": " +
                  std::to_string(what.sizes[k].least) + " to " + std::to_string(what.sizes[k].most));
  for (const std::string& s : shares) out.push_back(s);
  return out;
}

/// The text of some kernels as one unit, whose names have the suffix _SINTER_ISA where that is defined.
inline std::string kernel_unit(const library_request& what, const series<std::string>& texts,
                               const series<std::size_t>& which) {
  series<const std::string*> sources;
  std::string head =
      "#ifdef SINTER_ISA\n#define SINTER_JOIN_(a, b) a##_##b\n#define SINTER_JOIN(a, b) SINTER_JOIN_(a, b)\n";
  for (const std::size_t k : which) {
    sources.push_back(&texts[k]);
    const std::string name = what.how.name + "_k" + std::to_string(k);
    head += "#define " + name + " SINTER_JOIN(" + name + ", SINTER_ISA)\n";
  }
  std::string text = run::detail::unit_text({sources.data(), sources.size()});
  for (const std::size_t k : which)
    text = replaced(text, kernel_entry + run::entry_suffix(texts[k]) + "(",
                    what.how.name + "_k" + std::to_string(k) + "(");
  return head + "#endif\n" + text;
}

}  // namespace sinter::engine::detail
