#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sinter/run/build/save_bundle.hpp>

#include <signal.h>
#include <fstream>
#include <thread>

#include "../support.hpp"

using namespace sinter;
using support::contains, support::folder, support::kernel, support::variable;

namespace {

const location here{"user.cpp", 7};

std::string key_of(const std::string& target, const std::string& source) {
  return "sinter " SINTER_VERSION "\n" + target + "\nflags\nsource\n" + source;
}

/// Loads a bundle; "" or the words of the error.
std::string refusal(const std::string& path, const std::vector<std::string>& targets) {
  try {
    engine::run::read_bundle(path, targets, "load_cache", here);
  } catch (const user_error& e) {
    CHECK(contains(e.what(), "[load_cache] " + path + " "));
    CHECK(contains(e.what(), "user.cpp:7"));
    return e.what();
  }
  return "";
}

std::string known(const std::string& key) { return std::string(engine::run::detail::bundle_table::get().find(key)); }

}  // namespace

TEST_CASE("a bundle round trips; equal kernels of a later one take the place of earlier ones") {
  const folder root;
  const std::string path = root.at("a.bundle");
  const std::vector<engine::run::portable_kernel> kernels = {{key_of("cpu a", "first"), "image 1"},
                                                             {key_of("cpu a", "second"), std::string(1000, '\0')},
                                                             {key_of("cuda sm_80", "third"), "image 3"}};
  engine::run::write_bundle(path, kernels, "save_cache");
  CHECK(support::files(root.path).size() == 1);
  CHECK(engine::run::read_bundle(path, std::vector<std::string>{"cpu a"}, "load_cache", here) == 2);
  CHECK(known(kernels[0].key) == "image 1");
  CHECK(known(kernels[1].key) == std::string(1000, '\0'));
  CHECK(known(kernels[2].key).empty());
  CHECK(engine::run::read_bundle(path, std::vector<std::string>{"cuda sm_80", "cpu a"}, "load_cache", here) == 3);
  CHECK(known(kernels[2].key) == "image 3");
  // Nothing in place of an image is the one before.
  engine::run::write_bundle(
      path, std::vector<engine::run::portable_kernel>{{kernels[1].key, "shared"}, {kernels[2].key, ""}}, "save_cache");
  CHECK(engine::run::read_bundle(path, std::vector<std::string>{"cuda sm_80", "cpu a"}, "load_cache", here) == 2);
  CHECK(known(kernels[2].key) == "shared");
  engine::run::write_bundle(path, std::vector<engine::run::portable_kernel>{{kernels[0].key, "another"}}, "save_cache");
  CHECK(engine::run::read_bundle(path, std::vector<std::string>{"cpu a"}, "load_cache", here) == 1);
  CHECK(known(kernels[0].key) == "another");
}

TEST_CASE("no changed byte of a bundle is loaded, nor a part of one, nor one with something after it") {
  const folder root;
  const std::string path = root.at("a.bundle"), key = key_of("cpu a", "bytes"), image = "the image";
  engine::run::write_bundle(path, std::vector<engine::run::portable_kernel>{{key, image}}, "save_cache");
  const std::string good = support::contents(path);
  const std::vector<std::string> targets = {"cpu a"};
  std::string why;
  REQUIRE(engine::run::detail::unpack_bundle(good, why).size() == 1);
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
      why.clear();
      CHECK(engine::run::detail::unpack_bundle(bad, why).empty());
      CHECK_FALSE(why.empty());
    }
  for (std::size_t length = 0; length < good.size(); ++length) {
    why.clear();
    CHECK(engine::run::detail::unpack_bundle(std::string_view(good).substr(0, length), why).empty());
    CHECK_FALSE(why.empty());
  }
  support::write(path, good + "x");
  CHECK(contains(refusal(path, targets), "is damaged; copy or save it again"));
  support::write(path, good.substr(0, good.size() - 1));
  CHECK(contains(refusal(path, targets), "is truncated; copy or save it again"));
  support::write(path, "something else, which is longer than a header is");
  CHECK(contains(refusal(path, targets), "is not a bundle of kernels"));
  support::write(path, "");
  CHECK(contains(refusal(path, targets), "is not a bundle of kernels"));
  CHECK(known(key).empty());
  support::write(path, good);
  CHECK(refusal(path, targets).empty());
  CHECK(known(key) == image);
}

TEST_CASE("lengths within a bundle are not believed, its checksum being right") {
  for (const std::uint64_t forged : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40, ~std::uint64_t{0}})
    for (const std::size_t field : {0u, 1u, 2u}) {
      std::string file =
          engine::run::detail::pack_bundle(std::vector<engine::run::portable_kernel>{{"sinter\ncpu a\n", "image"}});
      const std::size_t body = sizeof(engine::run::detail::bundle_header);
      const std::size_t version = body + 8 + std::string(SINTER_VERSION).size();
      const std::size_t at[] = {body, version, version + 8 + std::string("sinter\ncpu a\n").size()};
      std::memcpy(file.data() + at[field], &forged, sizeof forged);
      engine::run::detail::bundle_header header;
      header.bytes = file.size() - body;
      header.check = engine::run::digest_of(std::string_view(file).substr(body));
      std::memcpy(file.data(), &header, sizeof header);
      std::string why;
      CHECK(engine::run::detail::unpack_bundle(file, why).empty());
      CHECK_FALSE(why.empty());
    }
}

TEST_CASE("bundles of other formats, versions, processors and GPUs are refused, with what to do") {
  const folder root;
  const std::string path = root.at("a.bundle");
  engine::run::write_bundle(path, std::vector<engine::run::portable_kernel>{{key_of("cpu a", "foreign"), "image"}},
                            "save_cache");
  CHECK(
      contains(refusal(path, {"cpu b"}), "was saved on a machine with another instruction set; save it on a machine"));
  CHECK(contains(refusal(path, {"cuda sm_80"}), "another instruction set"));
  std::string bytes = support::contents(path);
  bytes[8] = 2;
  support::write(path, bytes);
  CHECK(contains(refusal(path, {"cpu a"}), "has format 2 and this version of sinter knows format 3; save it again"));
  bytes[8] = 3;
  const std::size_t version = sizeof(engine::run::detail::bundle_header) + 8;
  bytes.replace(version, std::string(SINTER_VERSION).size(), "9.9.9");
  engine::run::detail::bundle_header header;
  header.bytes = bytes.size() - sizeof header;
  header.check = engine::run::digest_of(std::string_view(bytes).substr(sizeof header));
  std::memcpy(bytes.data(), &header, sizeof header);
  support::write(path, bytes);
  CHECK(
      contains(refusal(path, {"cpu a"}), "was written by sinter 9.9.9 and this is " SINTER_VERSION "; save it again"));

  // A machine without the GPU uses the rest.
  engine::run::write_bundle(
      path,
      std::vector<engine::run::portable_kernel>{{key_of("cpu a", "mixed"), "i"}, {key_of("cuda sm_90", "m"), "i"}},
      "save_cache");
  CHECK(engine::run::read_bundle(path, std::vector<std::string>{"cpu a"}, "load_cache", here) == 1);
  CHECK(contains(refusal(path, {"cuda sm_90", "cpu b"}), "another instruction set"));
  engine::run::write_bundle(path, std::vector<engine::run::portable_kernel>{{key_of("cuda sm_90", "gpu"), "i"}},
                            "save_cache");
  CHECK(contains(refusal(path, {"cpu a"}), "a GPU that this one lacks (cuda sm_90)"));
  CHECK(known(key_of("cuda sm_90", "gpu")).empty());
}

TEST_CASE("files that cannot be written or read are told; nothing is left behind") {
  const folder root;
  const std::vector<engine::run::portable_kernel> kernels = {{key_of("cpu a", "io"), "image"}};
  CHECK_THROWS_WITH_AS(engine::run::write_bundle(root.at("none/a.bundle"), kernels, "save_cache"),
                       doctest::Contains("cannot be written: No such file or directory; give a path"), system_error);
  support::fs::create_directory(root.at("folder"));
  CHECK_THROWS_WITH_AS(engine::run::write_bundle(root.at("folder"), kernels, "save_cache"),
                       doctest::Contains("cannot be written"), system_error);
  CHECK(support::files(root.path).size() == 1);
  // What is no file is not replaced by one, and a link not in silence.
  support::write(root.at("linked"), "old");
  support::fs::create_symlink(root.at("linked"), root.at("link"));
  REQUIRE(::mkfifo(root.at("pipe").c_str(), 0600) == 0);
  const bool has_device = ::mknod(root.at("null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;
  for (const auto& [name, what] :
       {std::pair("link", "it is a symbolic link"), {"pipe", "it is a pipe"}, {"null", "it is a device"}}) {
    if (name == std::string("null") && !has_device) continue;
    CHECK_THROWS_WITH_AS(engine::run::write_bundle(root.at(name), kernels, "save_cache"), doctest::Contains(what),
                         system_error);
    CHECK_FALSE(support::fs::is_regular_file(support::fs::symlink_status(root.at(name))));
    support::fs::remove(root.at(name));
  }
  CHECK(support::contents(root.at("linked")) == "old");
  support::fs::remove(root.at("linked"));
  const std::vector<std::string> targets = {"cpu a"};
  CHECK_THROWS_WITH_AS(engine::run::read_bundle(root.at("none"), targets, "load_cache", here),
                       doctest::Contains("cannot be read: No such file or directory"), system_error);
  CHECK_THROWS_WITH_AS(engine::run::read_bundle(root.at("folder"), targets, "load_cache", here),
                       doctest::Contains("cannot be read: Is a directory"), system_error);
  // An existing file stays as it is until the new one is whole.
  const std::string path = root.at("a.bundle");
  support::write(path, "old");
  engine::run::write_bundle(path, kernels, "save_cache");
  CHECK(support::contents(path) == engine::run::detail::pack_bundle(kernels));
  ::chmod(path.c_str(), 0640);
  engine::run::write_bundle(path, kernels, "save_cache");
  struct stat info {};
  CHECK((::stat(path.c_str(), &info) == 0 && (info.st_mode & 0777) == 0640));
}

TEST_CASE("a bundle may come through a pipe; one without an end, or of nobody, is refused") {
  const folder root;
  const std::string text = engine::run::detail::pack_bundle(
      std::vector<engine::run::portable_kernel>{{key_of("cpu a", "pipe"), std::string(300'000, 'x')}});
  const std::string pipe = root.at("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto piped = [&](const std::string& text) {
    std::thread writer([&] { std::ofstream(pipe, std::ios::binary) << text; });
    std::string said;
    try {
      const std::vector<std::string> targets = {"cpu a"};
      if (engine::run::read_bundle(pipe, targets, "load_cache", here) == 1) said = "one kernel";
    } catch (const std::exception& e) {
      said = e.what();
    }
    writer.join();
    return said;
  };
  CHECK(piped(text) == "one kernel");
  CHECK(contains(piped("short"), "is not a bundle of kernels"));
  ::signal(SIGPIPE, SIG_IGN);
  const variable limit("SINTER_PIPE_LIMIT", "200K");
  CHECK(contains(piped(text), "gives more than 204800 bytes, the limit of what is read from a pipe"));
  const std::vector<std::string> targets = {"cpu a"};
  for (const char* endless : {"/dev/zero", "/dev/urandom"})
    CHECK_THROWS_WITH_AS(engine::run::read_bundle(endless, targets, "load_cache", here),
                         doctest::Contains("is a device, whose data may have no end"), system_error);
  CHECK_THROWS_WITH_AS(engine::run::read_bundle("/dev/null", targets, "load_cache", here),
                       doctest::Contains("is not a bundle of kernels"), user_error);
}

TEST_CASE("kernels in use are saved from the disk, or from memory where the disk has none") {
  for (const bool disk : {true, false}) {
    const folder root;
    const variable cache("SINTER_CACHE_DIR", root.at("cache"));
    support::fs::create_directory(root.at("cache"));
    REQUIRE(::chmod(root.at("cache").c_str(), disk ? 0700 : 0770) == 0);
    const std::string path = root.at("a.bundle"), marker = disk ? "saved from disk" : "saved from memory";
    const auto r = support::in_child([&] {
      try {
        engine::run::save_bundle(path, "save_cache", here);
        return 4;
      } catch (const user_error& e) {
        if (!contains(e.what(), "no kernel is in use yet; call the compiled functions first")) return 5;
      }
      const auto built = engine::run::build(std::vector<std::string>{kernel(1, marker), kernel(2, marker)});
      { const auto dropped = engine::run::build(std::vector<std::string>{kernel(3, marker)}); }
      if (engine::run::save_bundle(path, "save_cache", here) != 2) return 1;
      if (!disk) return 0;
      engine::run::disk_cache().clear();
      try {
        engine::run::save_bundle(path + "2", "save_cache", here);
        return 2;
      } catch (const system_error& e) {
        return contains(e.what(), "2 of 2 kernels have left the cache folder") ? 0 : 3;
      }
    });
    CHECK_MESSAGE(r.status == 0, r.error_text);
    const auto user = support::in_child([&] {
      const variable other("SINTER_CACHE_DIR", root.at("empty"));
      const variable none("SINTER_CXX", "/nonexistent");
      if (engine::run::read_bundle(path, std::vector<std::string>{engine::run::host_target()}, "load_cache", here) != 2)
        return 1;
      const auto built = engine::run::build(std::vector<std::string>{kernel(2, marker), kernel(1, marker)});
      for (const auto& b : built)
        if (!b.from_cache || std::string_view(b.from.tier) != "bundle") return 2;
      if (support::answer(built[0]) != 2 || support::answer(built[1]) != 1) return 3;
      // What came from a bundle can be saved again.
      if (engine::run::save_bundle(root.at("b.bundle"), "save_cache", here) != 2) return 4;
      try {
        engine::run::build(std::vector<std::string>{kernel(3, marker)});
        return 5;
      } catch (const engine::run::compile_error&) {
        return 0;
      }
    });
    CHECK_MESSAGE(user.status == 0, user.error_text);
    CHECK(support::contents(root.at("b.bundle")) == support::contents(path));
  }
}

TEST_CASE("a bundled kernel that cannot be loaded is compiled, after a warning") {
  const folder root;
  const variable cache("SINTER_CACHE_DIR", root.at("cache"));
  const std::string path = root.at("a.bundle");
  const auto r = support::in_child([&] {
    const std::string source = kernel(5, "nonsense in a bundle");
    const std::string key = engine::run::key_text(*engine::run::find_compiler(), source);
    const std::string portable = "sinter " SINTER_VERSION "\n" + engine::run::detail::host_toolchain().portable() +
                                 key.substr(key.find("\nsource\n"));
    engine::run::write_bundle(path, std::vector<engine::run::portable_kernel>{{portable, "\177ELF nonsense"}},
                              "save_cache");
    engine::run::read_bundle(path, std::vector<std::string>{engine::run::host_target()}, "load_cache", here);
    const auto built = engine::run::build(std::vector<std::string>{source});
    return support::answer(built[0]) == 5 && !built[0].from_cache ? 0 : 1;
  });
  CHECK_MESSAGE(r.status == 0, r.error_text);
  CHECK(contains(r.error_text, "could not be loaded"));
  CHECK(contains(r.error_text, "it is compiled again"));
}

TEST_CASE("what names this machine's instructions says nothing of its model") {
  CHECK(engine::run::host_target().starts_with("cpu "));
  CHECK(engine::run::instructions() != engine::run::instruction_set());
  CHECK(engine::run::instructions().size() > 8);
}
