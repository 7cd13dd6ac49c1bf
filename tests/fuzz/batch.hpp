// tests/fuzz/batch.hpp: many graphs' kernels in one compilation, by the library's compiler or a quicker one.
#pragma once

#include <cstdlib>
#include <memory>
#include <sinter/emit/cpu/kernel.hpp>
#include <sinter/run/build/build.hpp>
#include <sinter/run/host/program.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace fuzz {

/// What makes a loaded module of a text.
struct toolset {
  std::shared_ptr<const sinter::engine::run::host_compiler> with;
  std::string flag;    ///< after the library's own, or ""
  bool calls = false;  ///< functions of the prelude are called instead of inlined

  std::string name() const { return with->path + " " + (flag.empty() ? "with the library's flags" : flag); }

  std::shared_ptr<const sinter::engine::run::module> compile(const std::string& text) const {
    namespace run = sinter::engine::run;
    const run::detail::scratch_folder scratch;
    const std::string source = scratch.path() + "/kernels.cpp", object = scratch.path() + "/kernels.so";
    if (!run::detail::write_file(source, text)) throw std::runtime_error("no room for " + source);
    sinter::series<std::string> command = {with->path};
    for (auto& f : run::compile_flags(*with)) command.push_back(std::move(f));
    if (!flag.empty()) command.push_back(flag);
    command.insert(command.end(), {source, "-o", object});
    for (auto& library : run::detail::libraries(*with)) command.push_back(std::move(library));
    const auto result = run::run_process(command, scratch.path(), run::compile_limit());
    if (result.how != run::outcome::ok)
      throw std::runtime_error(name() + " failed with " + std::to_string(result.code) + "\n" +
                               run::detail::first_lines(result.log, 30));
    return run::load(run::detail::read_file(object));
  }
};

/// The compiler and the flags that users get.
inline toolset users_tools() { return {sinter::engine::run::find_compiler(), "", false}; }

/// What compiles a kernel several times faster: clang without optimisation where it is installed with OpenMP. g++ 12
/// fails on vectors at -O0. A choice of the environment holds for all.
inline toolset quick_tools() {
  namespace run = sinter::engine::run;
  toolset usual = users_tools();
  if (std::getenv("SINTER_CXX") != nullptr || std::getenv("SINTER_CXXFLAGS") != nullptr) return usual;
  usual.flag = "-Og";
  const std::string path = run::detail::find_program("clang++");
  if (path.empty()) return usual;
  const toolset quick{std::make_shared<run::host_compiler>(run::detail::probe(path, "")), "-O0", true};
  if (quick.with->path.empty()) return usual;
  try {
    const auto made = quick.compile(
        "extern \"C\" void kernel(double* x) {\n"
        "#pragma omp parallel for\n"
        "for (int i = 0; i < 64; ++i) x[i] = i; }\n");
    return made->find("kernel") != nullptr ? quick : usual;
  } catch (const std::exception&) {
    return usual;
  }
}

/// Kernels of many graphs, those of one vector width compiled as one text until it has `kernels_a_text`.
class batch {
 public:
  explicit batch(int kernels_a_text = 12) : most_(kernels_a_text) {}

  /// Numbers the kernels and returns the first's number.
  std::size_t add(const std::vector<sinter::engine::emit::source>& sources) {
    const std::size_t first = place_.size();
    for (const auto& s : sources) {
      const std::string head = "extern \"C\" void sinter_kernel(";
      const auto at = s.text.find(head);
      std::string prelude = s.text.substr(s.text.find('\n') + 1, at - s.text.find('\n') - 1);
      const auto width = prelude.find("/ 8)") != std::string::npos ? 1u : 0u;
      auto& mine = texts_[width];
      auto& chunk = mine.empty() || mine.back().kernels >= most_ ? mine.emplace_back() : mine.back();
      place_.push_back({width, mine.size() - 1, "kernel_" + std::to_string(place_.size())});
      // A kernel's own functions stand in a namespace with it: those of others have the same names.
      const std::string end = "}  // namespace sx\n";
      const auto last = prelude.rfind(end);
      const auto own = last == std::string::npos ? prelude.size() : last + end.size();
      chunk.body += "namespace of_" + place_.back().name + " {\n" + prelude.substr(own) + "extern \"C\" void " +
                    place_.back().name + "(" + s.text.substr(at + head.size()) + "\n}\n";
      ++chunk.kernels;
    }
    return first;
  }

  /// As the library builds kernels: in parallel, and kept on disk.
  void build() {
    for (auto& b : sinter::engine::run::build(texts(false))) modules_.push_back(std::move(b.code));
  }
  /// One text after the other, kept nowhere.
  void build(const toolset& tools) {
    for (const auto& text : texts(tools.calls)) modules_.push_back(tools.compile(text));
  }

  sinter::engine::run::kernel_function* entry(std::size_t kernel) const {
    const auto& p = place_[kernel];
    return modules_[texts_[p.width][p.chunk].index]->symbol<sinter::engine::run::kernel_function>(p.name);
  }

 private:
  struct chunk {
    std::string body;
    int kernels = 0;
    std::size_t index = 0;
  };
  struct place {
    unsigned width;
    std::size_t chunk;
    std::string name;
  };

  std::vector<std::string> texts(bool calls) {
    std::string prelude;
    for (const auto& piece : sinter::engine::emit::detail::pieces()) prelude += piece.text;
    if (calls) {
      const std::string inlined = " __attribute__((always_inline))";
      const auto at = prelude.find(inlined);
      if (at == std::string::npos) throw std::logic_error("the prelude no longer says which functions are inlined");
      prelude.erase(at, inlined.size());
    }
    std::vector<std::string> all;
    for (auto& width : texts_)
      for (auto& c : width) {
        c.index = all.size();
        const bool wide = &width == &texts_[1];
        all.push_back(std::string("#if defined(__AVX512F__)\n#define SINTER_W ") + (wide ? "8" : "16") +
                      "\n#elif defined(__AVX2__)\n#define SINTER_W " + (wide ? "4" : "8") +
                      "\n#else\n#define SINTER_W 4\n#endif\n" + prelude + c.body);
      }
    return all;
  }

  int most_;
  std::vector<chunk> texts_[2];
  std::vector<place> place_;
  std::vector<std::shared_ptr<const sinter::engine::run::module>> modules_;
};

}  // namespace fuzz
