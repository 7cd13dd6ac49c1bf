// tests/run/support.hpp: environment variables, folders, child processes and pretended compilers for the tests here.
#pragma once

#include <sinter/run/build/build.hpp>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../texts.hpp"

namespace support {

using texts::contains;

namespace fs = std::filesystem;

/// Sets an environment variable, or removes it when `value` is null, until the end of the scope.
class variable {
 public:
  variable(std::string name, const char* value) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) before_ = old, had_ = true;
    value ? ::setenv(name_.c_str(), value, 1) : ::unsetenv(name_.c_str());
  }
  variable(std::string name, const std::string& value) : variable(std::move(name), value.c_str()) {}
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;
  ~variable() { had_ ? ::setenv(name_.c_str(), before_.c_str(), 1) : ::unsetenv(name_.c_str()); }

 private:
  std::string name_, before_;
  bool had_ = false;
};

/// A fresh folder, removed with all it holds. Its name has a space and quotes.
class folder {
 public:
  folder() {
    std::string base = sinter::engine::run::detail::temporary_folder() + "/sinter test \"it's\" XXXXXX";
    if (::mkdtemp(base.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path = base;
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string at(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  ::chmod(path.c_str(), 0600);
}

/// The files of a folder whose names end in `suffix`.
inline std::vector<std::string> files(const std::string& path, const std::string& suffix = "") {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().native().ends_with(suffix)) out.push_back(entry.path().native());
  return out;
}

inline std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

inline std::string search_path() { return sinter::engine::run::detail::environment("PATH"); }

inline std::string real_compiler() { return sinter::engine::run::find_compiler()->path; }

/// A shell script that answers --version as the real compiler does and otherwise runs `body`.
inline std::string script(const folder& where, const std::string& name, const std::string& body) {
  const std::string path = where.at(name), real = quoted(real_compiler());
  write(path, "#!/bin/sh\nif [ \"$1\" = --version ]; then exec " + real + " --version; fi\n" + body + "\n");
  ::chmod(path.c_str(), 0755);
  return path;
}

/// A compiler that appends a line to `log` each time it compiles.
inline std::string counting_compiler(const folder& where, const std::string& log, const std::string& before = "") {
  return script(where, "counting c++",
                before + "\necho run >> " + quoted(log) + "\nexec " + quoted(real_compiler()) + " \"$@\"");
}

inline int lines(const std::string& path) {
  const std::string text = contents(path);
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

/// A kernel whose answer() is `value`; `marker` makes the text differ from other tests' kernels.
inline std::string kernel(int value, const std::string& marker) {
  return "// " + marker + "\nextern \"C\" int answer() { return " + std::to_string(value) + "; }\n";
}

inline int answer(const sinter::engine::run::built& b) { return b.code->symbol<int()>("answer")(); }

struct child_result {
  int status = 0;  ///< exit status, or 1000 + signal
  std::string error_text;
};

inline int status_of(int raw) { return WIFEXITED(raw) ? WEXITSTATUS(raw) : 1000 + WTERMSIG(raw); }

/// Runs `body` in a child process whose stderr is captured; `body` returns its exit status, an exception is 99.
template <class Body>
child_result in_child(Body&& body) {
  std::FILE* const log = std::tmpfile();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::fileno(log), 2);
    int status = 99;
    try {
      status = body();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "exception: %s\n", e.what());
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  int raw = 0;
  ::waitpid(child, &raw, 0);
  child_result out;
  out.status = status_of(raw);
  std::rewind(log);
  for (int c; (c = std::fgetc(log)) != EOF;) out.error_text += static_cast<char>(c);
  std::fclose(log);
  return out;
}

}  // namespace support
