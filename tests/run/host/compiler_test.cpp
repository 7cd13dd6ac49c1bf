#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <sinter/run/build/build.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "../../stderr_text.hpp"
#include "../../unnamed_files.hpp"
#include "../support.hpp"

/// How many locks of this thread come just after another process has swept what is to be locked.
static thread_local int swept_first = 0;

extern "C" int flock(int fd, int how) noexcept {
  if (swept_first == 0) return static_cast<int>(::syscall(SYS_flock, fd, how));
  std::error_code none;
  const auto name = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), none);
  std::filesystem::remove(name, none);
  // Some are gone by then, some are still held by who removes them.
  if (--swept_first % 2 == 0) return static_cast<int>(::syscall(SYS_flock, fd, how));
  errno = EWOULDBLOCK;
  return -1;
}

using namespace sinter;
using support::folder, support::kernel, support::variable;

namespace {

struct failure {
  engine::run::outcome how = engine::run::outcome::ok;
  std::string message, source_path;
};

/// What build() throws for one kernel; outcome::ok when it throws nothing.
failure failure_of(const std::string& source) {
  try {
    engine::run::build(std::vector<std::string>{source});
  } catch (const engine::run::compile_error& e) {
    return {e.how(), e.what(), e.source_path()};
  }
  return {};
}

/// A private cache and a private folder for temporary files.
struct sandbox {
  folder root;
  variable cache{"SINTER_CACHE_DIR", root.at("cache")};
  variable temporary{"TMPDIR", root.path};
};

/// The compiler of its sandbox: it hangs while the file `awake` is missing.
struct drowsy_compiler : sandbox {
  std::string log = root.at("log"), awake = root.at("awake");
  variable chosen{"SINTER_CXX", support::script(root, "drowsy c++",
                                                "echo run >> " + support::quoted(log) + "\n[ -e " +
                                                    support::quoted(awake) + " ] || exec sleep 1000\nexec " +
                                                    support::quoted(support::real_compiler()) + " \"$@\"")};
  int runs() const { return support::lines(log); }
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("a kernel is compiled, loaded and called") {
  const sandbox box;
  const auto b = engine::run::build(std::vector<std::string>{kernel(42, "plain")});
  CHECK_FALSE(b[0].from_cache);
  CHECK(b[0].milliseconds > 0);
  CHECK(support::answer(b[0]) == 42);
  CHECK(b[0].code->find("no_such_symbol") == nullptr);
  CHECK_THROWS_WITH_AS(b[0].code->symbol<void()>("no_such_symbol"),
                       "a compiled kernel lacks its entry point 'no_such_symbol'", system_error);
  // Nothing but the cache is left behind.
  CHECK(support::files(box.root.path) == std::vector<std::string>{box.root.at("cache")});
}

TEST_CASE("kernels may use OpenMP, the math library and its vectors") {
  const sandbox box;
  const std::string source = R"(
extern "C" double exp(double);
extern "C" int omp_get_num_threads();
#if SINTER_LIBMVEC
typedef double v2 __attribute__((vector_size(16)));
extern "C" v2 _ZGVbN2v_exp(v2);
extern "C" double both() { v2 r = _ZGVbN2v_exp(v2{0.0, 1.0}); return r[0] + r[1]; }
#else
extern "C" double both() { return exp(0.0) + exp(1.0); }
#endif
extern "C" long sum(long n) {
  long s = 0;
#pragma omp parallel for reduction(+ : s)
  for (long i = 0; i < n; ++i) s += i;
  return s;
}
)";
  // Unloaded and loaded again: the threads of the OpenMP runtime must survive it.
  for (int i = 0; i < 3; ++i) {
    const auto b = engine::run::build(std::vector<std::string>{source});
    CHECK(b[0].from_cache == (i > 0));
    CHECK(b[0].code->symbol<double()>("both")() == doctest::Approx(1 + 2.718281828459045));
    CHECK(b[0].code->symbol<long(long)>("sum")(100'000) == 4'999'950'000L);
  }
}

TEST_CASE("kernels find what they need where a program holds the C++ library in itself") {
  const sandbox box;
  const auto made = engine::run::compile(*engine::run::find_compiler(), R"(
extern "C" void work(long);
extern "C" void all(long n) {
#pragma omp parallel for
  for (long i = 0; i < n; ++i) work(i);
}
)");
  REQUIRE(made.result.how == engine::run::outcome::ok);
  CHECK(made.image.find("__gxx_personality") == std::string::npos);
}

TEST_CASE("no compiler where SINTER_CXX points") {
  const sandbox box;
  for (const char* name : {"/no/such/compiler", "no-such-compiler", "/tmp", "/etc/hostname"}) {
    const variable chosen("SINTER_CXX", name);
    std::string why;
    CHECK_FALSE(engine::run::compiler_usable(why));
    CHECK(support::contains(why, name));
    CHECK(support::contains(why, "install g++ or clang++"));
    const failure f = failure_of(kernel(1, "missing"));
    CHECK(f.how == engine::run::outcome::missing);
    CHECK(support::contains(f.message, "[compile] SINTER_CXX=" + std::string(name) + " is not a usable C++ compiler"));
  }
  std::string why;
  CHECK(engine::run::compiler_usable(why));
  CHECK(why.empty());
}

TEST_CASE("a name without a slash is looked up in PATH; nothing reaches a shell") {
  const sandbox box;
  support::script(box.root, "my c++", "exec " + support::quoted(support::real_compiler()) + " \"$@\"");
  {
    const variable path("PATH", box.root.path + ":" + support::search_path());
    const variable chosen("SINTER_CXX", "my c++");
    CHECK(engine::run::find_compiler()->path == box.root.at("my c++"));
    CHECK(support::answer(engine::run::build(std::vector<std::string>{kernel(5, "path")})[0]) == 5);
  }
  const std::string trap = box.root.at("trap");
  const variable chosen("SINTER_CXX", "c++; touch " + support::quoted(trap));
  std::string why;
  CHECK_FALSE(engine::run::compiler_usable(why));
  const variable flags("SINTER_CXXFLAGS", "$(touch " + trap + ")");
  failure_of(kernel(5, "shell"));
  CHECK_FALSE(support::fs::exists(trap));
}

TEST_CASE("a compiler and folders with spaces and quotes in their names") {
  const sandbox box;
  const std::string odd = "a \"b\" 'c' $HOME `d` c++";
  const std::string log = box.root.at("log");
  const variable chosen("SINTER_CXX", support::script(box.root, odd,
                                                      "echo run >> " + support::quoted(log) + "\nexec " +
                                                          support::quoted(support::real_compiler()) + " \"$@\""));
  const auto b = engine::run::build(std::vector<std::string>{kernel(6, "odd")});
  CHECK(support::answer(b[0]) == 6);
  CHECK(support::lines(log) == 1);
}

TEST_CASE("an error in a kernel shows the compiler's words and saves the kernel") {
  const sandbox box;
  std::string source = "// broken\nextern \"C\" int answer() { return undeclared_name; }\n";
  const failure f = failure_of(source);
  CHECK(f.how == engine::run::outcome::failed);
  CHECK(support::contains(f.message, "failed with exit status 1"));
  CHECK(support::contains(f.message, "undeclared_name"));
  CHECK(support::contains(f.message, f.source_path));
  CHECK(support::contents(f.source_path) == source);
  CHECK(failure_of(source).source_path == f.source_path);
  for (int i = 0; i < 200; ++i) source += "int broken_" + std::to_string(i) + " = missing;\n";
  const std::string message = failure_of(source).message;
  CHECK(std::count(message.begin(), message.end(), '\n') <= 31);
}

TEST_CASE("one broken kernel among good ones is an error; the good ones build") {
  const sandbox box;
  const std::vector<std::string> sources = {kernel(1, "mixed"), "#error no\n", kernel(2, "mixed")};
  CHECK_THROWS_AS(engine::run::build(sources), engine::run::compile_error);
  const auto b = engine::run::build(std::vector<std::string>{sources[0], sources[2], sources[0]});
  CHECK(support::answer(b[0]) == 1);
  CHECK(support::answer(b[1]) == 2);
  CHECK(b[0].code == b[2].code);
}

TEST_CASE("kernels of one call are compiled side by side, and so are those of two threads") {
  if (std::thread::hardware_concurrency() < 2) return;
  const sandbox box;
  // Each compiler waits for another one.
  const std::string log = box.root.at("log"), body = "echo here >> " + support::quoted(log) +
                                                     "; for i in $(seq 200); do [ $(wc -l < " + support::quoted(log) +
                                                     ") -ge 2 ] && exec " + support::quoted(support::real_compiler()) +
                                                     " \"$@\"; sleep 0.05; done; echo alone >&2; exit 1";
  const variable chosen("SINTER_CXX", support::script(box.root, "waiting c++", body));
  const auto both = engine::run::build(std::vector<std::string>{kernel(1, "apart"), kernel(2, "apart")});
  CHECK(support::answer(both[0]) == 1);
  CHECK(support::answer(both[1]) == 2);
  support::fs::remove(log);
  failure other;
  std::thread beside([&] { other = failure_of(kernel(3, "apart")); });
  const failure mine = failure_of(kernel(4, "apart"));
  beside.join();
  CHECK(mine.message == "");
  CHECK(other.message == "");
}

TEST_CASE("SINTER_CXX is the only compiler tried; else the one that built this, then others") {
  using names = std::vector<std::string>;
  CHECK(names(engine::run::detail::candidates("mine")) == names{"mine"});
  const names others = engine::run::detail::candidates("");
#if defined(SINTER_BUILD_CXX)
  CHECK(others == names{SINTER_BUILD_CXX, "c++", "g++", "clang++"});
#else
  CHECK(others == names{"c++", "g++", "clang++"});
#endif
  const variable none("SINTER_CXX", "");
  CHECK(engine::run::find_compiler()->path == engine::run::detail::find_program(others[0]));
}

TEST_CASE("a compiler that fails, is killed or produces nothing") {
  const sandbox box;
  const auto with = [&](const std::string& body) {
    const variable chosen("SINTER_CXX", support::script(box.root, "bad c++", body));
    return failure_of(kernel(1, body));
  };
  failure f = with("echo out of cheese >&2; exit 3");
  CHECK(f.how == engine::run::outcome::failed);
  CHECK(support::contains(f.message, "failed with exit status 3"));
  CHECK(support::contains(f.message, "out of cheese"));
  CHECK(support::contains(f.message, "set SINTER_CXX to a working g++ or clang++"));
  CHECK_FALSE(support::contains(f.message, "SINTER_CXXFLAGS"));
  CHECK(support::contents(f.source_path) == kernel(1, "echo out of cheese >&2; exit 3"));

  {
    const variable flags("SINTER_CXXFLAGS", "-DUNUSED");
    CHECK(support::contains(with("exit 4").message, "g++ or clang++, or correct SINTER_CXXFLAGS"));
  }

  f = with("kill -9 $$");
  CHECK(f.how == engine::run::outcome::killed);
  CHECK(support::contains(f.message, "was killed by signal 9"));

  f = with("echo 'c++: fatal error: Killed signal terminated program cc1plus'; exit 1");
  CHECK(f.how == engine::run::outcome::killed);
  CHECK(support::contains(f.message, "was killed; is there enough memory?"));

  f = with("exit 0");
  CHECK(f.how == engine::run::outcome::produced_nothing);
  f = with("for a; do o=$a; if [ \"$p\" = -o ]; then echo garbage > \"$a\"; fi; p=$a; done");
  CHECK(f.how == engine::run::outcome::produced_nothing);
  CHECK(support::contains(f.message, "produced no shared object"));
}

TEST_CASE("an object that the loader refuses is an error") {
  const sandbox box;
  const std::string body = "for a; do if [ \"$p\" = -o ]; then printf '\\177ELFgarbage' > \"$a\"; fi; p=$a; done";
  const variable chosen("SINTER_CXX", support::script(box.root, "liar c++", body));
  CHECK_THROWS_AS(engine::run::build(std::vector<std::string>{kernel(1, "liar")}), system_error);
  CHECK(support::files(box.root.at("cache")).empty());
}

TEST_CASE("an object that is cut short is not loaded") {
  const sandbox box;
  const std::string real = support::quoted(support::real_compiler());
  for (const char* bytes : {"0", "40", "100", "1000", "3000", "8000", "-8"}) {
    CAPTURE(bytes);
    const std::string body =
        real + " \"$@\" || exit 1\nfor a; do [ \"$p\" = -o ] && truncate -s " + bytes + " \"$a\"; p=$a; done; exit 0";
    const variable chosen("SINTER_CXX", support::script(box.root, std::string("cut c++") + bytes, body));
    CHECK(failure_of(kernel(1, bytes)).how == engine::run::outcome::produced_nothing);
  }
}

TEST_CASE("a hanging compiler is stopped with its children") {
  const sandbox box;
  const std::string pid_file = box.root.at("pid");
  const std::string body = "sleep 1000 &\necho $! > " + support::quoted(pid_file) + "\nwait";
  const variable chosen("SINTER_CXX", support::script(box.root, "slow c++", body));
  const variable limit("SINTER_COMPILE_TIMEOUT", "0.5");
  const auto start = std::chrono::steady_clock::now();
  const failure f = failure_of(kernel(1, "hang"));
  CHECK(seconds_since(start) >= 0.5);
  CHECK(seconds_since(start) < 20);
  CHECK(f.how == engine::run::outcome::timed_out);
  CHECK(support::contains(f.message, "did not finish within 0.5 s and was stopped"));
  CHECK(support::contains(f.message, "SINTER_COMPILE_TIMEOUT"));
  const pid_t grandchild = std::atoi(support::contents(pid_file).c_str());
  REQUIRE(grandchild > 1);
  bool gone = false;
  for (int i = 0; i < 200 && !gone; ++i) {
    // Where nobody reaps orphans the process stays as a zombie.
    const std::string status = support::contents("/proc/" + std::to_string(grandchild) + "/stat");
    gone = status.empty() || support::contains(status, ") Z ");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(gone);
}

TEST_CASE("a compiler that hangs is waited for once, but for a longer limit or where it has compiled before") {
  const drowsy_compiler chosen;
  {
    const variable limit("SINTER_COMPILE_TIMEOUT", "1");
    const failure first = failure_of(kernel(1, "drowsy")), second = failure_of(kernel(2, "drowsy"));
    CHECK(chosen.runs() == 1);
    CHECK(support::contains(first.message, "this process does not wait for it again unless SINTER_COMPILE_TIMEOUT"));
    CHECK(second.how == engine::run::outcome::timed_out);
    CHECK(second.source_path.empty());
    CHECK(first.message.substr(0, second.message.size()) == second.message);
  }
  {
    const variable limit("SINTER_COMPILE_TIMEOUT", "1.5");
    CHECK(support::contains(failure_of(kernel(2, "drowsy")).message, "did not finish within 1.5 s"));
    CHECK(chosen.runs() == 2);
  }
  support::write(chosen.awake, "");
  CHECK(failure_of(kernel(2, "drowsy")).how == engine::run::outcome::ok);
  CHECK(chosen.runs() == 3);
  std::filesystem::remove(chosen.awake);
  const variable limit("SINTER_COMPILE_TIMEOUT", "1");
  for (const int unique : {3, 4}) {
    const failure f = failure_of(kernel(unique, "drowsy"));
    CHECK(support::contains(f.message, "within 1 s and was stopped; SINTER_COMPILE_TIMEOUT sets the limit"));
    CHECK(!f.source_path.empty());
  }
  CHECK(chosen.runs() == 5);
}

TEST_CASE(
    "kernels that share runs of a compiler that hangs wait for it once, and those that it made say that it works") {
  const drowsy_compiler chosen;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::string> kernels;
  for (int i = 0; i < 2 * cores; ++i)
    kernels.push_back("extern \"C\" void sinter_kernel(int* x) { *x = " + std::to_string(i) + "; }\n");
  const auto outcome_of_all = [&] {
    try {
      engine::run::build(kernels);
    } catch (const engine::run::compile_error& e) {
      return e.how();
    }
    return engine::run::outcome::ok;
  };
  const variable limit("SINTER_COMPILE_TIMEOUT", "1");
  for (int i = 0; i < 2; ++i) {
    CHECK(outcome_of_all() == engine::run::outcome::timed_out);
    CHECK(chosen.runs() == cores);
  }
  support::write(chosen.awake, "");
  const variable longer("SINTER_COMPILE_TIMEOUT", "60");
  CHECK(outcome_of_all() == engine::run::outcome::ok);
  CHECK(chosen.runs() == 2 * cores);
  std::filesystem::remove(chosen.awake);
  const variable again("SINTER_COMPILE_TIMEOUT", "1");
  CHECK(support::contains(failure_of(kernel(-1, "sleepy")).message, "SINTER_COMPILE_TIMEOUT sets the limit"));
}

TEST_CASE("a compiler that hangs on --version is not usable") {
  const sandbox box;
  support::write(box.root.at("mute"), "#!/bin/sh\nexec sleep 1000\n");
  ::chmod(box.root.at("mute").c_str(), 0755);
  const variable chosen("SINTER_CXX", box.root.at("mute"));
  const variable limit("SINTER_COMPILE_TIMEOUT", "0.3");
  std::string why;
  CHECK_FALSE(engine::run::compiler_usable(why));
  CHECK(support::contains(why, "did not answer in time"));
}

TEST_CASE("a nonsensical time limit is a warning") {
  for (const char* text : {"abc", "-1", "0", "nan", "1e9", "5s"}) {
    const variable limit("SINTER_COMPILE_TIMEOUT", text);
    const auto r = support::in_child([] { return engine::run::compile_limit().count() == 60 ? 0 : 1; });
    CHECK(r.status == 0);
    CHECK(support::contains(r.error_text, std::string("SINTER_COMPILE_TIMEOUT=") + text +
                                              " is not a number of seconds above 0 and up to 86400; using 60"));
  }
}

TEST_CASE("a changed compiler or other flags mean another kernel") {
  const sandbox box;
  const std::vector<std::string> sources = {
      "#ifndef ANSWER\n#define ANSWER 1\n#endif\nextern \"C\" int answer() { return ANSWER + 0; }\n"};
  CHECK(support::answer(engine::run::build(sources)[0]) == 1);
  {
    const variable flags("SINTER_CXXFLAGS", "  -DANSWER=7   -DUNUSED ");
    const auto b = engine::run::build(sources);
    CHECK_FALSE(b[0].from_cache);
    CHECK(support::answer(b[0]) == 7);
  }
  const std::string real = support::quoted(support::real_compiler());
  for (int version : {10, 200}) {
    const std::string body = "exec " + real + " -DANSWER=" + std::to_string(version) + " \"$@\"";
    const variable chosen("SINTER_CXX", support::script(box.root, "changing c++", body));
    const auto b = engine::run::build(sources);
    CHECK_FALSE(b[0].from_cache);
    CHECK(support::answer(b[0]) == version);
  }
  CHECK(engine::run::build(sources)[0].from_cache);
}

TEST_CASE("flags that would change values are left out, with a warning") {
  const sandbox box;
  const variable chosen("SINTER_CXXFLAGS", "-Ofast -ffast-math -O1 -ffp-contract=fast -DKEPT");
  std::vector<std::string> flags;
  const std::string said = stderr_text([&] {
    const auto with = engine::run::find_compiler();
    REQUIRE(with);
    for (const auto& flag : engine::run::compile_flags(*with)) flags.push_back(flag);
  });
  const auto has = [&](const char* flag) { return std::find(flags.begin(), flags.end(), flag) != flags.end(); };
  for (const char* flag : {"-Ofast", "-ffast-math", "-ffp-contract=fast"}) {
    CAPTURE(flag);
    CHECK_FALSE(has(flag));
    CHECK(support::contains(said, "SINTER_CXXFLAGS: " + std::string(flag) + " would change"));
  }
  for (const char* flag : {"-O1", "-DKEPT", "-ffp-contract=off"}) CHECK(has(flag));
}

TEST_CASE("a program that ignores or reaps its children still gets its kernels") {
  const auto r = support::in_child([] {
    const sandbox box;
    ::signal(SIGCHLD, SIG_IGN);
    return support::answer(engine::run::build(std::vector<std::string>{kernel(8, "reaped")})[0]) == 8 ? 0 : 1;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
}

TEST_CASE("no room for temporary files is a clear error") {
  const folder root;
  const variable cache("SINTER_CACHE_DIR", root.at("cache"));
  engine::run::find_compiler();
  const variable temporary("TMPDIR", "/no/such/folder");
  std::string what;
  try {
    engine::run::build(std::vector<std::string>{kernel(1, "no temporary")});
  } catch (const system_error& e) {
    what = e.what();
  }
  CHECK(support::contains(what, "/no/such/folder"));
  CHECK(support::contains(what, "set TMPDIR"));
}

TEST_CASE("a full folder for temporary files is not taken for a compiler's fault") {
  const folder root;
  const std::string small = root.at("small");
  support::fs::create_directory(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64k") != 0) {
    MESSAGE("skipped: this user may not mount a small file system");
    return;
  }
  {
    const variable cache("SINTER_CACHE_DIR", root.at("cache")), temporary("TMPDIR", small);
    // With room for the source only, and with none.
    for (const std::size_t bytes : {44 << 10, 1 << 20}) {
      const std::string fill = std::to_string(bytes);
      support::write(small + "/" + fill, std::string(bytes, 'x'));
      std::string what;
      try {
        engine::run::build(std::vector<std::string>{kernel(1, "no room " + fill)});
      } catch (const system_error& e) {
        what = e.what();
      }
      CHECK_MESSAGE(support::contains(what, "set TMPDIR to a folder"), what);
    }
  }
  ::umount(small.c_str());
}

TEST_CASE("a full folder or a limit on files is not told as a missing compiler, nor the end of the process") {
  const folder root;
  const std::string real = support::real_compiler(), path = root.at("small");
  // What a process of its own says, through a pipe: files are what it lacks.
  const auto told = [&](const std::string& lack) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      std::string what = "no error";
      ::setenv("SINTER_CACHE_DIR", root.at("cache").c_str(), 1);
      ::setenv("SINTER_CXX", real.c_str(), 1);  // asked for its version anew
      if (lack == "room") ::setenv("TMPDIR", path.c_str(), 1);
      const auto bytes = lack == "room" ? RLIM_INFINITY : static_cast<rlim_t>(std::stol(lack));
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::signal(SIGXFSZ, SIG_DFL);
      try {
        engine::run::build(std::vector<std::string>{kernel(1, "without " + lack)});
      } catch (const system_error& e) {
        what = e.what();
      }
      static_cast<void>(!::write(ends[1], what.data(), what.size()));
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string what;
    char text[512];
    for (ssize_t n; (n = ::read(ends[0], text, sizeof text)) > 0;) what.append(text, static_cast<std::size_t>(n));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(support::status_of(status) == 0);
    return what;
  };
  for (const char* bytes : {"0", "100", "4096"}) {
    const std::string what = told(bytes);
    CHECK_MESSAGE(support::contains(what, "(ulimit -f)"), what);
    CHECK_MESSAGE(!support::contains(what, "no C++ compiler"), what);
  }
  support::fs::create_directory(path);
  if (::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=64k") != 0) {
    MESSAGE("skipped: this user may not mount a small file system");
    return;
  }
  support::write(path + "/fill", std::string(1 << 20, 'x'));
  const std::string what = told("room");
  CHECK_MESSAGE(support::contains(what, "no room for temporary files below " + path), what);
  ::umount(path.c_str());
}

TEST_CASE("a process that is killed leaves nothing for good: the next one sweeps what none holds") {
  const folder root;
  const variable temporary("TMPDIR", root.path);
  namespace detail = engine::run::detail;
  // One that lives, one that is killed, and what is another's by its name or its kind.
  const detail::scratch_folder held;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const detail::scratch_folder mine;
    detail::write_file(mine.path() + "/kernel.cpp", "text");
    static_cast<void>(!::write(ready[1], mine.path().data(), mine.path().size()));
    ::pause();
  }
  char text[512];
  const ssize_t length = ::read(ready[0], text, sizeof text);
  const std::string killed(text, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  detail::sweep_scratch(root.path);
  CHECK(support::fs::exists(killed + "/kernel.cpp"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  support::fs::create_directory(root.at("sinter-1000"));
  support::write(root.at("sinter.scratch.file"), "a file");
  support::fs::create_directory(root.at("elsewhere"));
  support::write(root.at("elsewhere/file"), "x");
  support::fs::create_symlink(root.at("elsewhere"), root.at("sinter.scratch.link"));
  const std::string shared = root.at("sinter.scratch.shared");
  support::fs::create_directory(shared);
  ::chmod(shared.c_str(), 0777);
  detail::sweep_scratch(root.path);
  CHECK_FALSE(support::fs::exists(killed));
  for (const std::string& stays : {held.path(), root.at("sinter-1000"), root.at("sinter.scratch.file"),
                                   root.at("elsewhere/file"), root.at("sinter.scratch.link"), shared})
    CHECK_MESSAGE(support::fs::exists(stays), stays);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("what others sweep many times before it is held is made anew, and is there in the end") {
  const folder root;
  const variable temporary("TMPDIR", root.path);
  namespace detail = engine::run::detail;
  for (const int times : {1, 2, 8, 9, 10, 40}) {
    CAPTURE(times);
    swept_first = times;
    const detail::scratch_folder mine;
    CHECK(swept_first == 0);
    CHECK(detail::write_file(mine.path() + "/a", "x"));
    const detail::file_handle at = detail::open_folder(AT_FDCWD, root.path.c_str());
    swept_first = times;
    no_unnamed_files = true;
    const detail::new_file file(detail::open_folder(AT_FDCWD, root.path.c_str()), 0600);
    no_unnamed_files = false;
    CHECK(swept_first == 0);
    CHECK(file);
    CHECK(detail::is_named(at.get(), file.temporary(), file.get()));
  }
  swept_first = 1 << 20;
  CHECK_THROWS_AS(detail::scratch_folder(), system_error);
  swept_first = 0;
}

TEST_CASE("folders that are made while others sweep are there as long as they are held") {
  const folder root;
  const variable temporary("TMPDIR", root.path);
  namespace detail = engine::run::detail;
  std::atomic<bool> done = false;
  std::thread sweeper([&] {
    while (!done) detail::sweep_scratch(root.path);
  });
  int lost = 0;
  for (int i = 0; i < 2000; ++i) {
    const detail::scratch_folder mine;
    lost += !detail::write_file(mine.path() + "/a", "x");
  }
  done = true;
  sweeper.join();
  CHECK(lost == 0);
  CHECK(support::files(root.path).empty());
}

TEST_CASE("modules loaded through the same descriptor number stay apart") {
  const sandbox box;
  std::vector<std::string> images;
  const auto compiler = engine::run::find_compiler();
  for (int i = 0; i < 3; ++i) images.push_back(engine::run::compile(*compiler, kernel(i, "apart")).image);
  std::vector<std::shared_ptr<const engine::run::module>> loaded;
  for (int i = 0; i < 12; ++i) loaded.push_back(engine::run::load(images[static_cast<std::size_t>(i % 3)]));
  for (int i = 0; i < 12; ++i) CHECK(loaded[static_cast<std::size_t>(i)]->symbol<int()>("answer")() == i % 3);
  std::string why;
  void* const handle = engine::run::detail::load_temporary_file(images[2], why);
  REQUIRE_MESSAGE(handle != nullptr, why);
  const engine::run::module from_file(handle);
  CHECK(from_file.symbol<int()>("answer")() == 2);
  CHECK_THROWS_AS(engine::run::load("\177ELF nonsense"), system_error);
}
