// The program has the engine; a library that computes with it is called and unloaded. What is left refers to none of the
// library's code and text.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <sinter/sinter.hpp>

using namespace sinter;
using vector = tensor<float, 1>;

namespace {

const char* plugin = nullptr;

[[noreturn]] void fail(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::exit(1);
}

void expect(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

class library {
 public:
  library() : handle_(::dlopen(plugin, RTLD_NOW | RTLD_LOCAL)) {
    expect(handle_ != nullptr, "the library does not load");
  }
  ~library() { ::dlclose(handle_); }
  library(const library&) = delete;
  library& operator=(const library&) = delete;
  template <class F>
  F* get(const char* name) const {
    void* const f = ::dlsym(handle_, name);
    expect(f != nullptr, std::string(name) + " is not in the library");
    return reinterpret_cast<F*>(f);
  }

 private:
  void* handle_;
};

bool is_loaded() {
  void* const handle = ::dlopen(plugin, RTLD_NOW | RTLD_NOLOAD);
  if (handle) ::dlclose(handle);
  return handle != nullptr;
}

/// Long enough for a job that goes on to meet what is gone.
void let_jobs_run() { ::usleep(300'000); }

void end_of_background_jobs() {
  for (const char* name : {"in_background", "of_frequent_extents"}) {
    const float got = library().get<float(float)>(name)(0.0f);
    expect(got == 4.25f, std::string(name) + " is wrong");
    expect(!is_loaded(), std::string(name) + " keeps its library");
    let_jobs_run();
  }
}

/// A function with the library's part in it, whose report is read when the library is gone.
std::string explained(const char* part) {
  const auto made = [&] {
    const library l;
    const auto f = compile(
        [g = l.get<void(vector&)>(part)](vector x) {
          g(x);
          return x;
        },
        {.dynamic = dynamic::yes});
    f(vector{1, 2});
    f(vector{1, 2, 3});
    return f;
  }();
  expect(!is_loaded(), std::string(part) + " keeps its library");
  // The same graph, from this file: it shares the program, and its names.
  return made.explain().text();
}

void names_in_reports() {
  const auto names_plugin = [](const char* part) {
    const std::string text = explained(part);
    expect(text.find("plugin.cpp:") != std::string::npos, std::string(part) + " is not named:\n" + text);
  };
  names_plugin("plus_three");
  names_plugin("read_and_add");
  names_plugin("add_extent");
}

void names_in_donated_handles() {
  vector x{1, 2};
  library().get<void(vector&)>("donate")(x);
  expect(!is_loaded(), "donate keeps its library");
  try {
    x.to_vector();
  } catch (const user_error& e) {
    const std::string text = e.what();
    return expect(text.find("plugin.cpp:") != std::string::npos, "the call is not named:\n" + text);
  }
  fail("a donated handle is read");
}

void programs_that_are_shared() {
  {
    const library l;
    l.get<float(float)>("in_background")(1.0f);
    // Its graph was made of the library's lines.
    const float got = l.get<float(float)>("at_once")(0.0f);
    expect(got == 4.25f, "at_once is wrong");
  }
  expect(!is_loaded(), "at_once keeps its library");
  const auto f = compile([](vector x) { return exp(x) * 3.0f + 1.25f; });
  f(vector{1, 2});
  const std::string text = f.explain().text();
  expect(text.find("plugin.cpp:") != std::string::npos, "the program is not shared:\n" + text);
}

/// Functions and values of the library that the engine keeps: it stays.
void code_that_is_kept() {
  const auto f = [] {
    const library l;
    const auto made = compile([g = l.get<void(vector&)>("own_op")](vector x) {
      g(x);
      return x + 1.0f;
    });
    made(vector{1, 2});
    return made;
  }();
  expect(f(vector{3, 4}).to_vector() == std::vector<float>{7, 9}, "an op of the library is wrong when it is closed");
  library().get<float(float)>("of_a_class")(2.0f);
  for (int i = 0; i < 5000; ++i) {  // the values of the library are forgotten meanwhile
    static const auto g = compile([](vector x, std::string) { return x; }, {.recompile_limit = 1});
    g(vector{1}, std::to_string(i));
  }
}

}  // namespace

int main(int, char** arguments) {
  plugin = arguments[1];
  end_of_background_jobs();
  names_in_reports();
  names_in_donated_handles();
  programs_that_are_shared();
  code_that_is_kept();
}
