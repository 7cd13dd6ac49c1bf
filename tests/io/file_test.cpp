// What paths may stand for, of every reader and writer: pipes, devices, links, files that others put there.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sinter/data.hpp>
#include <sinter/io.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../scratch_folder.hpp"
#include "../unnamed_files.hpp"
#include "samples.hpp"

/// What this process is told that its number is; 0: what it is.
static pid_t told_number = 0;
extern "C" pid_t getpid() noexcept { return told_number ? told_number : static_cast<pid_t>(::syscall(SYS_getpid)); }

using namespace sinter;
using unnamed_files::names_in;

namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
std::string got(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The exit status of a process that runs f; 3 after an exception, 1000 and more after a signal.
int child_of(const std::function<int()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 3;
    try {
      status = f();
    } catch (const std::exception&) {}
    ::_exit(status);
  }
  int raw = 0;
  REQUIRE(::waitpid(child, &raw, 0) == child);
  return WIFEXITED(raw) ? WEXITSTATUS(raw) : 1000 + WTERMSIG(raw);
}

struct reader {
  const char* name;
  std::function<void(const std::string& path)> read;
};

const std::vector<reader> readers {
  {"io::read_npy", [](const std::string& path) { io::read_npy(path); }},
      {"io::read_npy", [](const std::string& path) { io::read_npy<float, 1>(path); }},
      {"io::open_archive", [](const std::string& path) { io::open_archive(path); }},
      {"io::load", [](const std::string& path) { io::load<std::vector<tensor<float, 1>>>(path); }},
      {"data::read_csv", [](const std::string& path) { data::read_csv(path); }},
      {"data::read_idx", [](const std::string& path) { data::read_idx(path); }},
      {"data::read_text", [](const std::string& path) { data::read_text(path); }},
      {"data::bpe_tokenizer", [](const std::string& path) { data::bpe_tokenizer(path, path); }},
#if defined(STBI_INCLUDE_STB_IMAGE_H)
      {"data::read_image", [](const std::string& path) { data::read_image(path); }},
#endif
};

/// f with a pipe into which a thread writes a text.
void with_pipe(const std::string& text, const std::function<void(const std::string& path)>& f) {
  const scratch_folder here;
  const std::string path = here.path + "/pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  std::thread writer([&] {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
      if (n < 0) break;
      at += static_cast<std::size_t>(n);
    }
    ::close(fd);
  });
  f(path);
  writer.join();
}

}  // namespace

TEST_CASE("readers: no device without an end is read, no folder, and nothing is waited for") {
  const scratch_folder here;
  for (const reader& r : readers) {
    CAPTURE(r.name);
    for (const char* device : {"/dev/zero", "/dev/urandom", "/dev/full"}) {
      const std::string said = message_of([&] { r.read(device); });
      CHECK(has(said, std::string(device) + ": is a device, whose data may have no end; give a file or a pipe"));
      CHECK(has(said, r.name));
    }
    CHECK(has(message_of([&] { r.read(here.path); }), "is a folder, not a file"));
    CHECK(has(message_of([&] { r.read(here.path + "/none"); }), "cannot be opened: No such file"));
    CHECK(has(message_of([&] { r.read("/proc/self/mem"); }), "cannot be read"));
  }
  // A device that is empty is an empty file; a file without a size may hold something.
  CHECK(data::read_text("/dev/null") == "");
  CHECK(has(data::read_text("/proc/self/status"), "Umask:"));
}

TEST_CASE("readers: pipes are read to their end") {
  const scratch_folder here;
  const auto x = normal<float>(make_key(1), 200'000);
  io::write_npy(here.path + "/x.npy", x);
  io::save(here.path + "/x.safetensors", x);
  io::save(here.path + "/x.npz", x);
  with_pipe(got(here.path + "/x.npy"),
            [&](const std::string& path) { CHECK(io::read_npy<float, 1>(path).to_vector() == x.to_vector()); });
  for (const char* name : {"/x.safetensors", "/x.npz"})
    with_pipe(got(here.path + name), [&](const std::string& path) {
      CHECK(io::open_archive(path).read<float, 1>("value").to_vector() == x.to_vector());
    });
  with_pipe("a,b\n1,2\n", [](const std::string& path) { CHECK(data::read_csv(path).matrix<int>()(0, 1) == 2); });
  with_pipe(gzip_of_python, [](const std::string& path) { CHECK(data::read_idx(path).numel() == 4); });
  with_pipe("text", [](const std::string& path) { CHECK(data::read_text(path) == "text"); });
  with_pipe("", [](const std::string& path) { CHECK(data::read_text(path) == ""); });
  // What this library writes goes through a pipe, too.
  REQUIRE(::mkfifo((here.path + "/pipe").c_str(), 0600) == 0);
  std::thread writer([&] { io::write_npy(here.path + "/pipe", x); });
  CHECK(io::read_npy<float, 1>(here.path + "/pipe").to_vector() == x.to_vector());
  writer.join();
  struct stat info {};
  CHECK((::stat((here.path + "/pipe").c_str(), &info) == 0 && S_ISFIFO(info.st_mode)));
}

TEST_CASE("readers: a checkpoint is a regular file") {
  const scratch_folder here;
  const io::checkpoints run(here.path);
  tensor<float, 1> x = ones<float>(3);
  run.save(1, x);
  CHECK(run.resume(x) == 1);
  REQUIRE(::mkfifo(run.path(2).c_str(), 0600) == 0);
  CHECK(has(message_of([&] { run.resume(x); }), "is a pipe; what a file or a folder names must be a regular file"));
}

TEST_CASE("readers: a slow writer is waited for, one that never comes is not") {
  const scratch_folder here;
  const std::string path = here.path + "/pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  std::thread writer([&] {
    ::usleep(50'000);
    std::ofstream to(path);
    for (const char* part : {"slo", "w"}) {
      to << part << std::flush;
      ::usleep(50'000);
    }
  });
  CHECK(data::read_text(path) == "slow");
  writer.join();
  CHECK(has(message_of([&] { data::read_text(path); }), "is a pipe to which no process writes"));
  CHECK(has(message_of([&] { io::write_npy(path, ones<float>(2)); }), "cannot be written: No such device or address"));
}

TEST_CASE("readers: a pipe gives no more than the limit") {
  const auto handler = ::signal(SIGPIPE, SIG_IGN);
  const std::string text(1'000'000, 'x');
  const auto limited = [&] {
    std::string said;
    with_pipe(text, [&](const std::string& path) { said = message_of([&] { data::read_text(path); }); });
    return said;
  };
  CHECK(limited() == "");
  ::setenv("SINTER_PIPE_LIMIT", "100K", 1);
  CHECK(has(limited(), "gives more than 102400 bytes, the limit of what is read from a pipe"));
  for (const char* none : {"0", "many", "1M"}) {
    ::setenv("SINTER_PIPE_LIMIT", none, 1);
    CHECK(limited() == "");
  }
  // What the program says goes before; files are no pipes.
  io::set_pipe_limit(999'999);
  CHECK(has(limited(), "gives more than 999999 bytes"));
  const scratch_folder here;
  put(here.path + "/t", text);
  CHECK(data::read_text(here.path + "/t") == text);
  io::set_pipe_limit(1'000'000);
  CHECK(limited() == "");
  ::setenv("SINTER_PIPE_LIMIT", "10", 1);
  io::set_pipe_limit(0);
  CHECK(limited() == "");
  ::unsetenv("SINTER_PIPE_LIMIT");
  ::signal(SIGPIPE, handler);
}

TEST_CASE("writers: no file is written but the one that is named, whatever links others put beside it") {
  for (const bool without : {false, true}) {
    CAPTURE(without);
    no_unnamed_files = without;
    const scratch_folder here;
    const std::string victim = here.path + "/victim", path = here.path + "/x.npy";
    put(victim, "precious");
    // The names that a process of this number may be thought to write under.
    for (int n = 0; n < 100; ++n) {
      const std::string number = std::to_string(::getpid());
      for (const std::string& name :
           {path + ".tmp" + number + "_" + std::to_string(n), path + "." + number + "." + std::to_string(n)})
        REQUIRE(::symlink(victim.c_str(), name.c_str()) == 0);
    }
    const std::size_t before = names_in(here.path).size();
    for (int n = 0; n < 3; ++n) io::write_npy(path, ones<float>(n));
    CHECK(got(victim) == "precious");
    CHECK(io::read_npy<float, 1>(path).size(0) == 2);
    CHECK(names_in(here.path).size() == before + 1);
    no_unnamed_files = false;
  }
}

TEST_CASE("writers: what a link leads to is replaced, unless the link is another user's") {
  const scratch_folder here;
  const std::string file = here.path + "/file.npy", link = here.path + "/link.npy", far = here.path + "/far.npy";
  put(file, "old");
  REQUIRE(::symlink("file.npy", link.c_str()) == 0);
  REQUIRE(::symlink(link.c_str(), far.c_str()) == 0);
  io::write_npy(far, ones<float>(3));
  CHECK(io::read_npy<float, 1>(file).size(0) == 3);
  for (const std::string& each : {link, far}) {
    struct stat info {};
    CHECK((::lstat(each.c_str(), &info) == 0 && S_ISLNK(info.st_mode)));
  }
  // A link that leads nowhere is replaced itself.
  const std::string nowhere = here.path + "/nowhere.npy";
  REQUIRE(::symlink("none/none", nowhere.c_str()) == 0);
  io::write_npy(nowhere, ones<float>(1));
  CHECK(io::read_npy<float, 1>(nowhere).size(0) == 1);
  if (::geteuid() != 0) return;
  put(file, "precious");
  REQUIRE(::lchown(link.c_str(), 12345, 12345) == 0);
  for (const std::string& each : {link, far})
    CHECK(has(message_of([&] { io::write_npy(each, ones<float>(3)); }), "is a link of another user"));
  CHECK(got(file) == "precious");
}

TEST_CASE("writers: modes are the umask's, or those of the file before") {
  for (const bool without : {false, true}) {
    no_unnamed_files = without;
    const scratch_folder here;
    const std::string path = here.path + "/x.safetensors";
    const auto mode = [&] {
      struct stat info {};
      return ::stat(path.c_str(), &info) == 0 ? static_cast<int>(info.st_mode & 07777) : -1;
    };
    const mode_t before = ::umask(026);
    io::save(path, ones<float>(3));
    CHECK(mode() == 0640);
    ::umask(077);
    REQUIRE(::chmod(path.c_str(), 0664) == 0);
    io::save(path, ones<float>(3));
    CHECK(mode() == 0664);
    ::umask(before);
    no_unnamed_files = false;
  }
}

TEST_CASE("writers: processes of equal number do not meet") {
  for (const bool without : {false, true}) {
    no_unnamed_files = without;
    const scratch_folder here;
    const std::string path = here.path + "/x.npy";
    std::vector<pid_t> children;
    for (int c = 0; c < 2; ++c) {
      const pid_t child = ::fork();
      if (child == 0) {
        told_number = 7;
        int status = 0;
        try {
          for (int n = 0; n < 300; ++n) {
            io::write_npy(path, full<float>(static_cast<float>(c), 1000));
            const auto x = io::read_npy<float, 1>(path).to_vector();
            if (x.size() != 1000 || x.front() != x.back()) status = 1;
          }
        } catch (const std::exception& e) {
          std::fprintf(stderr, "%s\n", e.what());
          status = 2;
        }
        ::_exit(status);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int raw = 0;
      ::waitpid(child, &raw, 0);
      CHECK(raw == 0);
    }
    CHECK(names_in(here.path).size() == 1);
    no_unnamed_files = false;
  }
}

TEST_CASE("writers: a save does not go on beside another one of its folder") {
  const scratch_folder folder;
  const std::string path = folder.path + "/x.graph";
  {
    const io::detail::folder_lock first("save_graph", path, location::current(), 0);
    const std::string why = message_of([&] { io::detail::folder_lock("save_graph", path, location::current(), 0); });
    CHECK(has(why, path));
    CHECK(has(why, "another save has locked its folder for 0 seconds"));
  }
  CHECK(message_of([&] { io::detail::folder_lock("save_graph", path, location::current(), 0); }) == "");
}

TEST_CASE("writers: what a killed save has left goes with a later one to the folder") {
  const scratch_folder here;
  // Each in a process of its own, since one looks once a minute.
  const auto save = [&](const char* name) {
    return child_of([&] {
      io::save(here.path + name, ones<float>(3));
      return 0;
    });
  };
  while (names_in(here.path).empty()) {
    const pid_t child = ::fork();
    if (child == 0) {
      no_unnamed_files = true;
      for (;;) {
        io::write_npy(here.path + "/a.npz", zeros<float>(1'000'000));
        ::unlink((here.path + "/a.npz").c_str());
      }
    }
    ::usleep(100'000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::unlink((here.path + "/a.npz").c_str());
  }
  REQUIRE(names_in(here.path).size() == 1);
  for (const char* name : {"/a.npz", "/b.safetensors"}) CHECK(save(name) == 0);
  CHECK(names_in(here.path).size() == 3);
  for (const auto& name : names_in(here.path))
    if (name.starts_with(".sinter.tmp.")) CHECK(unnamed_files::date(here.path + "/" + name, -61));
  CHECK(save("/c.npz") == 0);
  CHECK(names_in(here.path).size() == 3);
}
