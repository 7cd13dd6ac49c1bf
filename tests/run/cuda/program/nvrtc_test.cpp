#include <doctest/doctest.h>
#include <sys/stat.h>

#include <thread>

#include "../support.hpp"

using namespace sinter;
using namespace support;

namespace {

struct sandbox {
  folder root;
  variable cache{"SINTER_CACHE_DIR", root.at("cache")};
  variable temporary{"TMPDIR", root.path};
  // Of kernels: what is remembered of NVRTC is not counted.
  std::vector<std::string> entries() const {
    auto all = files(root.at("cache"));
    const std::string other =
        sinter::engine::run::disk_cache::entry_name(sinter::engine::run::cuda::detail::search_text());
    std::erase_if(all, [&](const std::string& path) { return path.ends_with(other); });
    return all;
  }
};

std::string answer_source(int value, const std::string& marker) {
  return "// " + marker +
         "\nextern \"C\" __global__ void answer(int* out, char* scratch) { *out = " + std::to_string(value) + "; }\n";
}

int answer_of(const std::shared_ptr<const cuda::module>& code) {
  const storage out = cuda::allocate(4, 0);
  void* const given[] = {out.data()};
  cuda::execute(one_launch(code, "answer", {{0, 0}}, 1, 1), given, nullptr);
  return on_host<int>(out, 1)[0];
}

}  // namespace

TEST_CASE("a kernel is compiled once; then it comes from memory, then from disk") {
  const sandbox box;
  const std::vector<std::string> source = {answer_source(7, "once")};
  {
    const auto first = cuda::build(source, 0), second = cuda::build(source, 0);
    CHECK_FALSE(first[0].from_cache);
    CHECK(first[0].milliseconds > 0);
    CHECK(second[0].from_cache);
    CHECK(second[0].code == first[0].code);
    CHECK(answer_of(first[0].code) == 7);
  }
  const auto third = cuda::build(source, 0);
  CHECK(third[0].from_cache);
  CHECK(answer_of(third[0].code) == 7);
  CHECK(box.entries().size() == 1);
}

TEST_CASE("a later process learns from the cache what NVRTC is, and does not open it unless it compiles") {
  const sandbox box;
  const sinter::engine::run::disk_cache cache;
  namespace detail = sinter::engine::run::cuda::detail;
  CHECK(detail::remembered_nvrtc(cache) == nullptr);
  const auto opened = cuda::load_nvrtc();
  REQUIRE(opened->problem.empty());
  detail::remember(cache, *opened);
  const auto known = detail::remembered_nvrtc(cache);
  REQUIRE(known);
  CHECK((known->create == nullptr));
  CHECK(known->path == opened->path);
  CHECK(known->identity == opened->identity);
  CHECK(known->major == opened->major);
  CHECK(known->capabilities == opened->capabilities);
  // It compiles all the same.
  CHECK_FALSE(cuda::compile(*known, answer_source(3, "known"), 80).empty());
  // Another place to look, or another file there: it is opened again.
  {
    const variable elsewhere("CUDA_HOME", box.root.at("toolkit"));
    CHECK(detail::remembered_nvrtc(cache) == nullptr);
  }
  cuda::nvrtc changed = *opened;
  changed.identity += "1";
  detail::remember(cache, changed);
  CHECK(detail::remembered_nvrtc(cache) == nullptr);
  CHECK(contains(message_of([&] {
                   changed.create = nullptr;
                   cuda::compile(changed, answer_source(3, "changed"), 80);
                 }),
                 "while this program ran; start it again"));
}

TEST_CASE("what decides a kernel's bytes is in its key: source, architecture, NVRTC and its options") {
  const auto with = cuda::find_nvrtc();
  REQUIRE(with->problem.empty());
  const std::string key = cuda::key_text(*with, "source\n", 90);
  CHECK(
      contains(key, "\nnvrtc " + with->path + " | " + std::to_string(with->major) + "." + std::to_string(with->minor)));
  CHECK(contains(key, "--gpu-architecture=sm_90"));
  CHECK(key != cuda::key_text(*with, "source\n", 80));
  CHECK(key != cuda::key_text(*with, "another\n", 90));
  CHECK(key == cuda::key_text(*with, "#line 3 \"a.cpp\"\nsource\n", 90));
  cuda::nvrtc newer = *with;
  newer.identity += " newer";
  CHECK(key != cuda::key_text(newer, "source\n", 90));
  const variable flags("SINTER_NVRTCFLAGS", "--use_fast_math");
  CHECK(key != cuda::key_text(*with, "source\n", 90));
}

TEST_CASE("a damaged entry, and one that the driver refuses, are compiled again") {
  const sandbox box;
  const std::string source = answer_source(9, "damage");
  module_of(source);
  const std::string path = box.entries().at(0);
  std::string bytes = contents(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 8);
  write(path, bytes);
  CHECK(answer_of(module_of(source)) == 9);
  const auto with = cuda::find_nvrtc();
  const std::string key =
      cuda::key_text(*with, source, sinter::engine::run::cuda::detail::target_of(*with, cuda::device_at(0).capability));
  write(path, sinter::engine::run::detail::pack_entry({&key, 1}, std::string(4096, 'x')));
  const auto r = cuda::build(std::vector<std::string>{source}, 0);
  CHECK_FALSE(r[0].from_cache);
  CHECK(answer_of(r[0].code) == 9);
}

TEST_CASE("what NVRTC refuses: source and log are saved, and named") {
  const sandbox box;
  const std::string source = "extern \"C\" __global__ void broken(float* a, char* scratch) { *a = undeclared; }\n";
  std::string message, path;
  try {
    module_of(source);
  } catch (const sinter::engine::run::compile_error& e) {
    message = e.what();
    path = e.source_path();
    CHECK(e.how() == sinter::engine::run::outcome::failed);
  }
  CHECK(message.starts_with("[cuda] NVRTC "));
  CHECK(contains(message, "the kernel is in " + path + ", the log in " + path + ".log"));
  CHECK(contains(message, "undeclared"));
  CHECK(path.ends_with(".cu"));
  CHECK(contents(path) == source);
  CHECK(contains(contents(path + ".log"), "undeclared"));
}

TEST_CASE("many kernels at once, from many threads; each compiled once") {
  const sandbox box;
  std::vector<std::string> sources;
  for (int i = 0; i < 6; ++i) sources.push_back(answer_source(i, "many"));
  sources.push_back(sources[2]);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (auto& w : wrong)
    threads.emplace_back([&] {
      const auto built = cuda::build(sources, 0);
      w = built[6].code != built[2].code;
      for (int i = 0; i < 6; ++i) w += answer_of(built[static_cast<std::size_t>(i)].code) != i;
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == std::vector<int>(4));
  CHECK(box.entries().size() == 6);
}

TEST_CASE("a driver and an NVRTC fit when the driver is of the same generation or a newer one") {
  cuda::nvrtc with;
  with.path = "libnvrtc.so.13";
  with.major = 13;
  using sinter::engine::run::cuda::detail::mismatch;
  CHECK(mismatch(with, 13000).empty());
  CHECK(mismatch(with, 14010).empty());
  CHECK(mismatch(with, 12040) ==
        "the driver supports CUDA 12.4 and is older than NVRTC 13.0 at libnvrtc.so.13; update the driver, or set "
        "SINTER_LIBNVRTC to the libnvrtc.so of CUDA 12");
}

TEST_CASE("an architecture that NVRTC does not know is refused; an older one of its generation will do") {
  cuda::nvrtc known;
  known.path = "libnvrtc.so.13";
  known.major = 13;
  known.capabilities = {75, 80, 86, 90};
  using sinter::engine::run::cuda::detail::target_of;
  CHECK(target_of(known, 90) == 90);
  CHECK(target_of(known, 87) == 86);
  CHECK(message_of([&] { target_of(known, 70); }) ==
        "[cuda] NVRTC 13.0 at libnvrtc.so.13 cannot compile for sm_70 (it knows sm_75 to sm_90); install an older CUDA "
        "toolkit and set SINTER_LIBNVRTC to its libnvrtc.so");
  CHECK(contains(message_of([&] { target_of(known, 120); }),
                 "cannot compile for sm_120 (it knows sm_75 to sm_90); install a newer"));
}

TEST_CASE("libraries are looked for in toolkits and beside Python's packages") {
  const folder root;
  const variable home("CUDA_HOME", root.at("toolkit"));
  const variable environment("VIRTUAL_ENV", root.at("env"));
  const variable python("PYTHONPATH", root.at("mine") + ":" + root.at("yours"));
  fs::create_directories(root.at("env/lib/python3.12"));
  const auto folders =
      sinter::engine::run::cuda::detail::library_folders({"SINTER_LIBNONE", {"libnone.so"}, {"cu13", "none"}});
  const auto has = [&](const std::string& path) {
    return std::count(folders.begin(), folders.end(), root.at(path)) == 1;
  };
  CHECK(folders.at(0) == root.at("toolkit/lib64"));
  CHECK(has("mine/nvidia/cu13/lib"));
  CHECK(has("yours/nvidia/none/lib"));
  CHECK(has("env/lib/python3.12/site-packages/nvidia/cu13/lib"));
  CHECK(has("env/lib/python3.12/dist-packages/nvidia/none/lib"));
  // What is there is opened; what is there and no library is told.
  fs::create_directories(root.at("toolkit/lib64"));
  write(root.at("toolkit/lib64/libnone.so"), "not a library");
  const auto found = cuda::open_library({"SINTER_LIBNONE", {"libnone.so"}, {}});
  CHECK(found.handle == nullptr);
  CHECK(contains(found.problem, "toolkit/lib64/libnone.so"));
  fs::remove(root.at("toolkit/lib64/libnone.so"));
  CHECK(cuda::open_library({"SINTER_LIBNONE", {"libnone.so"}, {}}).problem == "libnone.so was not found");
}
