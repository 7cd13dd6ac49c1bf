// jit/library/export.hpp: export_library() behind the seam: traces for all sizes, plans, prints, compiles and writes.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "text.hpp"

namespace sinter::engine {

namespace detail {

/// The greatest number of programs of a library, and of bytes of weights inside it.
inline constexpr std::size_t max_library_programs = 16;
inline constexpr std::int64_t max_bytes_inside = std::int64_t{1} << 30;

inline bool is_identifier(std::string_view name) {
  const auto is_word = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), is_word);
}

/// user_error for GPUs that a library cannot be for.
inline void check_gpus(library_options& how, location where) {
  const char* op = "export_library";
  sort_stably(how.gpus, std::less());
  for (std::size_t i = 0; i < how.gpus.size(); ++i) {
    if (how.gpus[i] < 80)
      fail(op,
           "the compute capability " + std::to_string(how.gpus[i]) +
               " in .gpus is below 80, the first one that kernels of products have",
           where);
    if (i > 0 && how.gpus[i] == how.gpus[i - 1])
      fail(op, "the compute capability " + std::to_string(how.gpus[i]) + " is given twice", where);
  }
  if (!how.gpus.empty() && how.threads != library_threads::none)
    fail(op, ".threads are those of a library for the host; leave them out with .gpus", where);
}

/// The request, complete. user_error for what cannot be.
inline library_request checked_request(library_request what) {
  library_options& how = what.how;
  const char* op = "export_library";
  if (!is_identifier(how.name))
    fail(op, "'" + how.name + "' is no name in C; give .name letters, digits and underscores", what.where);
#if defined(__aarch64__)
  constexpr isa usual = isa::aarch64;
#else
  constexpr isa usual = isa::avx2;
#endif
  if (how.isas.empty()) how.isas.push_back(usual);
  sort_stably(how.isas, std::less());
  for (std::size_t i = 1; i < how.isas.size(); ++i) {
    if (how.isas[i] == how.isas[i - 1])
      fail(op, std::string("the instruction set ") + name_of(how.isas[i]) + " is given twice", what.where);
    if (how.isas[i] == isa::aarch64)
      fail(op, "a library is for x86-64 or for AArch64; export one for each", what.where);
  }
  check_gpus(how, what.where);
  for (const library_size& s : what.sizes) {
    if (!is_identifier(s.name))
      fail(op, "'" + s.name + "' is no name of a size; give letters, digits and underscores", what.where);
    if (s.least > s.most)
      fail(op, "the axes named '" + s.name + "' have no extent in common; give axes of different sizes different names",
           what.where);
  }
  return what;
}

class exporter final : public library_exporter {
 public:
  explicit exporter(library_request what) : what_(checked_request(std::move(what))), began_(run::clock::now()) {
    series<std::int64_t> usual;
    for (const library_size& s : what_.sizes) usual.push_back(usual_size(s, usual));
    wanted_.push_back(std::move(usual));
  }

  const series<std::int64_t>* sizes() override {
    while (next_ < wanted_.size()) {
      const auto& one = wanted_[next_];
      const std::span<const std::int64_t> of(one.data(), one.size());
      if (std::none_of(programs_.begin(), programs_.end(), [&](const auto& p) { return fits(what_, *p, of); })) {
        now_ = one;
        return &now_;
      }
      ++next_;
    }
    return nullptr;
  }

  void take(const call& c, const tracing& t) override {
    if (programs_.size() == max_library_programs)
      fail("export_library",
           "the sizes need more than " + std::to_string(max_library_programs) +
               " programs, because the function asks how large they are; give bounds from 2 on, or export a library "
               "for each range",
           what_.where);
    if (c.where.is_cuda() && !what_.is_for_gpus())
      fail("export_library",
           "the arguments are on " + c.where.text() +
               ", and the library is for the host; give .gpus, such as {80, 90}, or arguments on device::cpu()",
           what_.where);
    ensure(c.tensors.size() == what_.inputs.size(), "the call of the request");
    const std::span<const std::int64_t> sizes(now_.data(), now_.size());
    const size_layout layout = open_layout(what_, c, sizes);
    const bool open = layout.any_open();
    auto p = std::make_unique<library_program>();
    traced made = traced_call(c, t, open ? layout : size_layout{});
    p->sizes = now_;
    p->traced = made.graph;
    if (open) {
      p->made.layout = made.graph->assumed.layout;
      refuse_fixed(made.graph->assumed.narrowed);
    }
    hold(*p, c);
    set_strides(*p);
    programs_.push_back(std::move(p));
    ++next_;
    want_more(*programs_.back());
  }

  exported_library finish() override;

 private:
  /// A size that stands for many, unlike other extents of the call, so that none is mistaken for it.
  std::int64_t usual_size(const library_size& s, const series<std::int64_t>& taken) const {
    const std::int64_t low = std::max<std::int64_t>(s.least, 2),
                       first = std::clamp<std::int64_t>(64, std::min(low, s.most), s.most);
    const auto is_taken = [&](std::int64_t n) {
      return std::find(taken.begin(), taken.end(), n) != taken.end() ||
             std::any_of(what_.inputs.begin(), what_.inputs.end(), [&](const library_input& in) {
               return std::find(in.extents.begin(), in.extents.end(), n) != in.extents.end();
             });
    };
    for (std::int64_t by = 0; by <= 64; ++by)
      for (const std::int64_t n : {first + by, first - by})
        if (n >= low && n <= s.most && !is_taken(n)) return n;
    return first;
  }

  /// user_error if the trace has fixed a size that shall stay open.
  void refuse_fixed(const series<narrowed_size>& narrowed) const {
    for (const narrowed_size& n : narrowed) {
      if (!n.how.starts_with("fixed at")) continue;
      const library_input& in = what_.inputs[static_cast<std::size_t>(n.what.tensor)];
      const int k = in.size_of[static_cast<std::size_t>(n.what.axis)];
      fail("export_library",
           "the size '" + what_.sizes[static_cast<std::size_t>(k)].name + "' cannot stay open: " + n.why +
               (n.where.line > 0 ? sinter::detail::located("", n.where) : "") + "; give a number for it",
           what_.where);
    }
  }

  /// The trace; an error names the sizes.
  traced traced_call(const call& c, const tracing& t, const size_layout& layout) const {
    try {
      return trace_sizes(c, t, layout, "", false);
    } catch (const user_error& e) {
      if (what_.sizes.empty()) throw;
      std::string sizes;
      for (std::size_t k = 0; k < now_.size(); ++k)
        sizes += (k ? ", " : "") + what_.sizes[k].name + " = " + std::to_string(now_[k]);
      throw user_error(std::string(e.what()) + "; in export_library, for " + sizes);
    }
  }

  /// Keeps the facts and the memory of the arguments, as rows: elements of weights are copied so.
  void hold(library_program& p, const call& c) {
    const series<argument> all = all_arguments(c.tensors, p.traced->captures);
    for (argument a : all) {
      p.held.push_back(on_host(a));
      series<std::int64_t> extents(a.extents, a.extents + a.rank);
      series<std::int64_t> strides(extents.size(), 1);
      for (std::size_t d = extents.size(); d-- > 1;)
        strides[d - 1] = strides[d] * std::max<std::int64_t>(extents[d], 1);
      series<std::int64_t> given(a.strides, a.strides + a.rank);
      p.given.push_back(std::move(given));
      p.extents.push_back(std::move(extents));
      p.strides.push_back(std::move(strides));
      a.owner = nullptr;
      a.by_value = false;  // a call gives its address
      p.arguments.push_back(a);
    }
  }

  /// The memory of an argument, to which its address is set. Of a tensor on a GPU that is a copy, as weights are read on the host.
  storage on_host(argument& a) const {
    if (!a.owner) return {};
    const storage own = *a.owner;
    if (!own.where().is_cuda()) return own;
    if (!what_.is_for_gpus())
      fail("export_library", "a captured tensor is on a GPU; move it with .to(device::cpu())", what_.where);
    const storage copy = run::allocate(own.bytes());
    run::cuda::copy(copy.data(), {}, own.data(), own.where(), own.bytes());
    a.data =
        static_cast<char*>(copy.data()) + (static_cast<const char*>(a.data) - static_cast<const char*>(own.data()));
    return copy;
  }

  /// Tensors of fixed extents lie as arguments of libraries do, row-major, whatever the strides of the traced call.
  static void set_strides(library_program& p) {
    size_layout& l = p.made.layout;
    for (std::size_t i = 0; i < l.tensors.size(); ++i)
      for (std::size_t d = 0; !l.tensors[i].open && d < p.strides[i].size(); ++d)
        l.strides[static_cast<std::size_t>(l.tensors[i].first) + d] = p.strides[i][d];
  }

  /// user_error unless the results of a program have the dtypes and extents that the first program's specs promise.
  void check_results(const library_program& p) const;

  /// Sizes at which programs may differ: the ends of bounds, 0 and 1, and those next to what the function asked about.
  void want_more(const library_program& p) {
    const auto want = [&](const series<std::int64_t>& sizes) {
      for (std::size_t k = 0; k < sizes.size(); ++k)
        if (sizes[k] < what_.sizes[k].least || sizes[k] > what_.sizes[k].most) return;
      if (std::find(wanted_.begin(), wanted_.end(), sizes) == wanted_.end()) wanted_.push_back(sizes);
    };
    const auto with = [&](std::size_t k, std::int64_t n) {
      series<std::int64_t> sizes = p.sizes;
      sizes[k] = n;
      want(sizes);
    };
    for (std::size_t k = 0; k < what_.sizes.size(); ++k)
      for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{3},
                                   what_.sizes[k].least, what_.sizes[k].most})
        with(k, n);
    for (const size_guard& g : p.made.layout.guards)
      for (std::size_t j = 0; j < p.made.layout.sizes.size(); ++j) {
        const auto form = linear_in(g.value, static_cast<int>(j));
        const open_size& s = p.made.layout.sizes[j];
        if (!form || !form->rest.is_number() || form->coefficient == 0) continue;
        const std::int64_t root = -*form->rest.number() / form->coefficient;
        for (const std::int64_t z : {root - 1, root, root + 1}) with(size_behind(what_, s), z * s.factor + s.offset);
      }
  }

  void refuse() const;
  void find_weights();
  void prepare_code();
  std::string kernel_source(const run::library_compiler& with, bool openmp) const;
  series<run::library_unit> kernel_units() const;
  series<library_array> results(const library_program& p) const;
  series<std::string> write(const series<std::string>& shares, const run::library_compiler& with, bool openmp);

  library_request what_;
  run::clock::time_point began_;
  series<series<std::int64_t>> wanted_;
  std::size_t next_ = 0;
  series<std::int64_t> now_;
  series<std::unique_ptr<library_program>> programs_;
  library_kernels kernels_;
  library_tables tables_;
  std::string images_;    ///< of a library for GPUs: the code of its kernels
  series<int> input_of_;  ///< for each operand of a program's graph, its number among the inputs; -1 for a weight
  series<storage> weight_memory_;
};

/// Throws all reasons why the programs cannot leave.
inline void exporter::refuse() const {
  series<std::string> reasons;
  for (const auto& p : programs_) refuse_calls(p->traced->graph, reasons);
  if (reasons.empty()) return;
  std::string all;
  for (const std::string& r : reasons) all += "\n  " + r;
  fail("export_library",
       "the function calls code that stays in this program, so that a library cannot have it:" + all +
           "\n  leave these calls to the caller, and export what is between them",
       what_.where);
}

/// Numbers the arguments: inputs of the library, and weights, whose copies it has. Programs may capture different tensors.
inline void exporter::find_weights() {
  const std::size_t arguments = what_.inputs.size();
  const bool given = what_.how.weights == library_weights::given;
  series<captured> captures;
  for (auto& p : programs_) {
    p->place.clear();
    for (std::size_t i = 0; i < arguments; ++i) p->place.push_back(i);
    for (std::size_t i = arguments; i < p->arguments.size(); ++i) {
      const argument& a = p->arguments[i];
      const auto same = [&](const captured& c) {
        return c.data == a.data && c.type == a.type && c.extents == p->extents[i] && c.strides == p->given[i];
      };
      const auto known = std::find_if(captures.begin(), captures.end(), same);
      p->place.push_back(arguments + static_cast<std::size_t>(known - captures.begin()));
      if (known == captures.end())
        captures.push_back({p->held[i], a.data, a.type, p->extents[i], p->given[i], false, {}});
    }
    for (std::size_t r = 0; r < p->traced->graph.outputs.size(); ++r) p->place.push_back(0);
  }
  const library_program& first = *programs_[0];
  const auto add = [&](const std::string& name, bool weight, std::size_t at, const library_weight& w,
                       const library_input* in) {
    if (weight) {
      tables_.weights.push_back(w);
      tables_.weights.back().name = name;
      tables_.weights.back().place = at;
      return;
    }
    library_array a{name, w.type, {}, {}};
    for (std::size_t d = 0; d < w.extents.size(); ++d) {
      const int k = in && d < in->size_of.size() ? in->size_of[d] : -1;
      a.axes.push_back(k < 0 ? w.extents[d] : -1 - k);
      a.texts.push_back(k < 0 ? std::to_string(w.extents[d]) : what_.sizes[static_cast<std::size_t>(k)].name);
    }
    tables_.inputs.push_back(std::move(a));
    tables_.input_place.push_back(at);
  };
  for (std::size_t i = 0; i < arguments; ++i) {
    const argument& a = first.arguments[i];
    const bool weight = what_.inputs[i].weight && !given;
    input_of_.push_back(weight ? -1 : static_cast<int>(tables_.inputs.size()));
    add(what_.inputs[i].name, weight, i,
        {"", a.type, first.extents[i], first.given[i], static_cast<const char*>(a.data), 0, 0}, &what_.inputs[i]);
    weight_memory_.push_back(first.held[i]);
  }
  for (std::size_t k = 0; k < captures.size(); ++k) {
    const captured& c = captures[k];
    input_of_.push_back(given ? static_cast<int>(tables_.inputs.size()) : -1);
    add("captured." + std::to_string(k), !given, arguments + k,
        {"", c.type, c.extents, c.strides, static_cast<const char*>(c.data), 0, 0}, nullptr);
    weight_memory_.push_back(c.memory);
  }
  for (auto& p : programs_)
    for (std::size_t r = 0, n = p->traced->graph.outputs.size(); r < n; ++r)
      p->place[p->place.size() - n + r] = arguments + captures.size() + r;
  tables_.weight_header = tables_.weights.empty() ? "" : place_weights(tables_.weights, tables_.weight_bytes);
}

/// Extent d of a program's result for some sizes.
inline std::int64_t extent_for(const library_request& what, const library_program& p, const ir::dim& d,
                               const series<std::int64_t>& sizes) {
  series<std::int64_t> symbols;
  for (const open_size& s : p.made.layout.sizes) symbols.push_back((sizes[size_behind(what, s)] - s.offset) / s.factor);
  return d.evaluate({symbols.data(), symbols.size()});
}

inline void exporter::check_results(const library_program& p) const {
  const library_program& first = *programs_[0];
  const auto refuse = [&](const char* what) {
    std::string at;
    for (std::size_t k = 0; k < p.sizes.size(); ++k)
      at += (k ? ", " : "") + what_.sizes[k].name + " = " + std::to_string(p.sizes[k]);
    fail("export_library",
         std::string(what) + " of results depend on the sizes in another way for " + at + "; export a library for each",
         what_.where);
  };
  if (p.made.results.size() != first.made.results.size()) refuse("the number");
  // Extents are polynomials of low degree, with quotients: equal for these sizes, they are equal for all.
  series<series<std::int64_t>> points{p.sizes};
  for (const open_size& size : p.made.layout.sizes)
    for (std::int64_t by = 1; !size.is_fixed() && by <= 4; ++by) {
      points.push_back(p.sizes);
      points.back()[size_behind(what_, size)] += by * size.factor;
    }
  for (std::size_t r = 0; r < p.made.results.size(); ++r) {
    const result_spec &a = first.made.results[r], &b = p.made.results[r];
    if (a.type != b.type) refuse("the dtypes");
    if (a.extents.size() != b.extents.size()) refuse("the ranks");
    for (const auto& at : points)
      for (std::size_t d = 0; d < a.extents.size(); ++d)
        if (extent_for(what_, first, a.extents[d], at) != extent_for(what_, p, b.extents[d], at)) refuse("the extents");
  }
}

/// The results, with extents in the sizes' names.
inline series<library_array> exporter::results(const library_program& p) const {
  series<library_array> out;
  const size_layout& l = p.made.layout;
  for (std::size_t r = 0; r < p.made.results.size(); ++r) {
    const result_spec& of = p.made.results[r];
    library_array a{r < what_.how.outputs.size() ? what_.how.outputs[r] : "out" + std::to_string(r), of.type, {}, {}};
    for (ir::dim d : of.extents) {
      // Symbols of sizes stand behind those of the program until all of these are replaced.
      const int behind = static_cast<int>(l.sizes.size());
      for (std::size_t j = 0; j < l.sizes.size(); ++j) {
        const ir::dim size = ir::dim::symbol(behind + static_cast<int>(size_behind(what_, l.sizes[j])));
        d = substituted(d, static_cast<int>(j),
                        floor_div(size - ir::dim(l.sizes[j].offset), ir::dim(l.sizes[j].factor)));
      }
      std::string text = d.text();
      const auto mark = [](std::size_t k) { return "$" + std::to_string(k) + ";"; };
      for (std::size_t k = what_.sizes.size(); k-- > 0;)
        text = replaced(text, "s" + std::to_string(behind + static_cast<int>(k)), mark(k));
      for (std::size_t k = 0; k < what_.sizes.size(); ++k) text = replaced(text, mark(k), what_.sizes[k].name);
      a.texts.push_back(std::move(text));
    }
    out.push_back(std::move(a));
  }
  return out;
}

/// The kernels of a library for the host as one text, which begins with the compiler's flags.
inline std::string exporter::kernel_source(const run::library_compiler& with, bool openmp) const {
  const library_options& how = what_.how;
  series<std::size_t> all;
  for (std::size_t k = 0; k < kernels_.texts.size(); ++k) all.push_back(k);
  std::string compile = "/* Compile " + how.name + ".cpp";
  for (const isa i : how.isas) {
    compile += (i == how.isas[0] ? " by c++" : "\n   and by c++");
    if (how.isas.size() > 1) compile += std::string(" -DSINTER_ISA=") + name_of(i);
    for (const auto& flag : flags_of(i)) compile += " " + flag;
    for (const auto& flag : run::detail::library_flags(with, openmp)) compile += " " + flag;
    compile += " -c";
  }
  return compile + " */\n" + kernel_unit(what_, kernels_.texts, all);
}

/// The units of a library's kernels; of one for GPUs there are none.
inline series<run::library_unit> exporter::kernel_units() const {
  series<run::library_unit> units;
  if (what_.is_for_gpus()) return units;
  series<const std::string*> texts;
  for (const auto& t : kernels_.texts) texts.push_back(&t);
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  const auto groups = run::detail::units_of({texts.data(), texts.size()}, cores);
  for (const isa i : what_.how.isas)
    for (const auto& group : groups) {
      run::library_unit u{kernel_unit(what_, kernels_.texts, group), false, flags_of(i)};
      if (what_.how.isas.size() > 1) u.flags.push_back(std::string("-DSINTER_ISA=") + name_of(i));
      units.push_back(std::move(u));
    }
  return units;
}

/// Compiles the library and writes its files.
inline series<std::string> exporter::write(const series<std::string>& shares, const run::library_compiler& with,
                                           bool openmp) {
  const library_options& how = what_.how;
  const std::string folder = how.folder.empty() ? "." : how.folder, base = folder + "/" + how.name;
  run::make_folders(folder);
  series<std::string> files;
  const auto put = [&](const std::string& path, std::string_view bytes) {
    run::write_library_file(path, bytes);
    files.push_back(path);
  };
  const std::string comment = comment_of(description(what_, tables_, shares));
  const std::string header = comment + named(emit::library_interface, what_),
                    driver = print_driver(what_, tables_, comment);
  std::string packed = tables_.weights.empty() ? "" : pack_weights(tables_.weight_header, tables_.weights);
  put(base + ".h", header);
  put(base + ".hpp", "// " + how.name + ".hpp: " + how.name + ".h for C++20.\n" + named(emit::library_hpp, what_));
  std::string sizes;
  for (const library_size& s : what_.sizes) sizes += (sizes.empty() ? "" : ", ") + in_quotes(s.name);
  put(base + ".py", "\"\"\"" + how.name + ".py: lib" + how.name + ".so by ctypes.\"\"\"\n" +
                        named(emit::library_py, what_) + "\n\nsize_names = [" + sizes + "]\n");
  const bool source = how.form == library_form::source;
  if (!packed.empty() && (how.weights == library_weights::beside || source)) put(base + ".weights", packed);
  if (source) {
    if (what_.is_for_gpus()) put(base + ".images", images_);
    else put(base + ".cpp", kernel_source(with, openmp));
    put(base + ".c", driver);
    return files;
  }
  const run::detail::scratch_folder scratch;
  const auto include = [&](const char* suffix, std::string_view bytes) {
    run::write_library_file(scratch.path() + "/" + how.name + suffix, bytes);
  };
  include(".h", header);
  if (how.weights == library_weights::inside && !packed.empty()) include(".weights", packed);
  if (what_.is_for_gpus()) include(".images", images_);
  packed.clear();
  series<run::library_unit> units = kernel_units();
  units.push_back({driver, true, {}});
  const std::string path = folder + "/lib" + how.name + ".so";
  run::build_library(path, units, with, openmp, scratch.path());
  files.push_back(path);
  return files;
}

/// Compiles the kernels of a library for GPUs, and fills the tables of their code.
inline void exporter::prepare_code() {
  // Kernels of empty grids are not launched, so that they need no code.
  library_kernels used;
  for (gpu_entry e : kernels_.entries.all) {
    const std::string& text = kernels_.texts[e.text];
    e.text = used.add(text);
    e.name = run::name_in_image(e.name, run::entry_suffix(text));
    tables_.entries.push_back(std::move(e));
  }
  tables_.kernels = used.texts.size();
  for (const int sm : what_.how.gpus) tables_.provenance += " sm_" + std::to_string(sm);
  if (what_.how.only_check) return;
  const auto with = run::cuda::find_nvrtc();
  images_ = compile_images(what_, used, tables_.images);
  tables_.provenance += "; NVRTC " + std::to_string(with->major) + "." + std::to_string(with->minor) + ";";
  for (const std::string& flag : run::cuda::nvrtc_options(*with, what_.how.gpus[0])) tables_.provenance += " " + flag;
}

inline exported_library exporter::finish() {
  refuse();
  const run::progress shown(what_.how.name, true);
  const bool openmp = what_.how.threads == library_threads::openmp;
  for (auto& p : programs_)
    if (what_.is_for_gpus()) plan_program_on_gpu(what_, *p, kernels_);
    else plan_program(*p, kernels_);
  find_weights();
  if (what_.how.weights == library_weights::inside && tables_.weight_bytes > max_bytes_inside)
    fail("export_library",
         std::to_string(tables_.weight_bytes) +
             " bytes of weights do not fit into a library, which holds 1 GiB; choose library_weights::beside",
         what_.where);
  tables_.kernels = kernels_.texts.size();
  tables_.outputs = results(*programs_[0]);
  exported_library out;
  run::digest graphs;
  for (std::size_t v = 0; v < programs_.size(); ++v) {
    const library_program& p = *programs_[v];
    check_results(p);
    tables_.programs.push_back(print_program(what_, p, "p" + std::to_string(v), input_of_, kernels_.entries));
    graphs = run::digest_of(ir::print(p.traced->graph), graphs);
    out.room_bytes = std::max(out.room_bytes, static_cast<std::size_t>(tables_.programs.back().room));
  }
  if (static_cast<std::int64_t>(out.room_bytes) >= std::int64_t{1} << 60)
    fail("export_library", "the largest sizes need more memory than there is; give smaller bounds", what_.where);
  const run::library_compiler with =
      what_.how.only_check ? run::library_compiler{} : run::find_library_compiler(what_.how.isas[0] == isa::aarch64);
  std::string compiler = with.with.identity;  // path, version, stamp
  if (const std::size_t bar = compiler.find(" | "); bar != std::string::npos)
    compiler = compiler.substr(bar + 3, compiler.rfind(" | ") - bar - 3);
  tables_.provenance =
      "sinter " SINTER_VERSION "; graph " + text::hex(graphs.first) + text::hex(graphs.second) + "; " + compiler + ";";
  if (what_.is_for_gpus()) {
    prepare_code();
  } else {
    for (const isa i : what_.how.isas) tables_.provenance += std::string(" ") + name_of(i);
    tables_.provenance += openmp ? "; OpenMP;" : "; no threads;";
  }
  if (!what_.how.only_check && !what_.is_for_gpus())
    for (const std::string& flag : run::detail::library_flags(with, openmp)) tables_.provenance += " " + flag;
  for (const auto& [result, input] : shared_pairs(*programs_[0], input_of_))
    if (out.replaceable.size() < 64 || programs_[0]->made.results[result].best == tables_.input_place[input])
      out.replaceable.push_back(tables_.outputs[result].name + " may lie where " + tables_.inputs[input].name +
                                " does");
  out.kernels = tables_.kernels;
  out.programs = programs_.size();
  out.weight_bytes = static_cast<std::size_t>(tables_.weight_bytes);
  out.provenance = tables_.provenance;
  if (!what_.how.only_check) out.files = write(out.replaceable, with, openmp);
  out.milliseconds = std::chrono::duration<double, std::milli>(run::clock::now() - began_).count();
  return out;
}

}  // namespace detail

SINTER_API std::unique_ptr<library_exporter> make_library_exporter(library_request what) {
  return std::make_unique<detail::exporter>(std::move(what));
}

}  // namespace sinter::engine
