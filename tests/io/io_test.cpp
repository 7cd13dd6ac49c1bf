#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <sinter/io.hpp>
#include <string>
#include <variant>

#include "../scratch_folder.hpp"
#include "../unnamed_files.hpp"
#include "samples.hpp"
#if __has_include(<eigen3/Eigen/Core>)
#include <eigen3/Eigen/Core>
#elif __has_include(<Eigen/Core>)
#include <Eigen/Core>
#endif

using namespace sinter;

namespace {
/// Where a forked process ends: before so many calls of write, fsync, linkat and renameat; never while negative.
int calls_to_live = -1;
int calls_made = 0;
void count_call() {
  ++calls_made;
  if (calls_to_live >= 0 && calls_to_live-- == 0) ::_exit(9);
}
}  // namespace

// Those that the library calls.
extern "C" ssize_t write(int fd, const void* data, std::size_t bytes) {
  count_call();
  return ::syscall(SYS_write, fd, data, bytes);
}
extern "C" int fsync(int fd) {
  count_call();
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" int linkat(int from, const char* name, int to, const char* other, int how) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_linkat, from, name, to, other, how));
}
extern "C" int renameat(int from, const char* name, int to, const char* other) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_renameat2, from, name, to, other, 0));
}

namespace {

template <class Error, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

enum class kind : std::uint8_t { narrow, wide };
struct layer {
  tensor<float, 2> w;
  std::optional<tensor<bf16, 1>> b;
  int heads = 4;
};
struct network {
  std::vector<layer> layers;
  key k = make_key(0);
  std::map<std::string, tensor<f8_e4m3, 1>> scales;
  std::string name;
  double rate = 0;
  std::vector<bool> flags;
  std::variant<int, tensor<f16, 1>> choice;
  kind how = kind::narrow;
};

network made() {
  return {{{{{1, 2}, {3, 4}}, std::nullopt, 3},
           {transpose(tensor<float, 2>{{5, 6}, {7, 8}}), cast<bf16>(tensor<float, 1>{9}), 5}},
          make_key(42),
          {{"a", cast<f8_e4m3>(tensor<float, 1>{1.5f, -2})}, {"b", cast<f8_e4m3>(tensor<float, 1>{3})}},
          "a name\n",
          0.25,
          {true, false, true},
          cast<f16>(tensor<float, 1>{0.5f}),
          kind::wide};
}
void check_same(const network& n) {
  REQUIRE(n.layers.size() == 2);
  CHECK(n.layers[0].w.to_vector() == std::vector<float>{1, 2, 3, 4});
  CHECK(n.layers[1].w.to_vector() == std::vector<float>{5, 7, 6, 8});
  CHECK(!n.layers[0].b);
  REQUIRE(n.layers[1].b);
  CHECK(static_cast<float>((*n.layers[1].b)(0)) == 9);
  CHECK(n.layers[0].heads == 3);
  CHECK(n.layers[1].heads == 5);
  CHECK(n.k.state.item() == make_key(42).state.item());
  REQUIRE(n.scales.size() == 2);
  CHECK(static_cast<float>(n.scales.at("a")(1)) == -2);
  CHECK(n.name == "a name\n");
  CHECK(n.rate == 0.25);
  CHECK(n.flags == std::vector<bool>{true, false, true});
  REQUIRE(n.choice.index() == 1);
  CHECK(static_cast<float>(std::get<1>(n.choice)(0)) == 0.5f);
  CHECK(n.how == kind::wide);
}

}  // namespace

TEST_CASE("npy: every dtype there and back, as NumPy spells it") {
  const scratch_folder here;
  const std::string path = here.path + "/x.npy";
  const tensor<float, 2> x{{1, 2, 3}, {4, 5, 7}};
  for (int i = 0; i <= static_cast<int>(dtype::f8_e5m2); ++i) {
    const auto type = static_cast<dtype>(i);
    const io::array a = io::detail::converted(io::to_array(transpose(x)), type);
    io::write_npy(path, a);
    if (size_of(type) == 1 && is_float(type)) {
      CHECK(has(message_of<system_error>([&] { io::read_npy(path); }), "bytes without a dtype"));
      continue;
    }
    const io::array b = io::read_npy(path);
    CHECK(b.type == type);
    CHECK(b.extents == std::vector<std::int64_t>{3, 2});
    CHECK(std::ranges::equal(a.bytes(), b.bytes()));
  }
  io::write_npy(path, cast<f8_e5m2>(x));
  CHECK(static_cast<float>(io::read_npy<f8_e5m2, 2>(path)(1, 2)) == 7);
  io::write_npy(path, x * 2.f);
  CHECK(content(path).size() == 128 + 24);
  CHECK(has(content(path), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
  const auto y = io::read_npy<float, 2>(path);
  // What is mapped is this process's to write, and stays when the file is written anew.
  y(0, 0) = 50;
  io::write_npy(path, tensor<float, 1>{1});
  CHECK(y.to_vector() == std::vector<float>{50, 4, 6, 8, 10, 14});
  CHECK(io::read_npy<float, 1>(path)(0) == 1);
  io::write_npy(path, zeros<std::int64_t>(0, 3));
  CHECK(io::read_npy<std::int64_t, dims{dyn, 3}>(path).size(0) == 0);
  CHECK(has(message_of<user_error>([&] { io::read_npy<float, 1>(path); }),
            "x.npy: it holds i64 (0, 3), asked for is f32 of rank 1; ask for what it holds"));
  CHECK(has(message_of<system_error>([&] { io::read_npy<float, 1>(here.path + "/none.npy"); }),
            "cannot be opened: No such file"));
  CHECK(has(message_of<system_error>([&] { io::read_npy(here.path); }), "is a folder"));
}

TEST_CASE("npy: orders, big endian, and what is refused") {
  const auto big = [](const std::string& order, const std::string& descr) {
    return npy_file("{'shape': (2, 3L), 'fortran_order': " + order + ", 'descr': '" + descr + "'}\n",
                    std::string("\0\1\0\2\0\3\0\4\0\5\0\6", 12));
  };
  const io::array rows = io::read_npy(as_bytes(big("False", ">i2"))),
                  columns = io::read_npy(as_bytes(big("True", ">i2")));
  CHECK(io::to_tensor<std::int16_t, 2>(rows).to_vector() == std::vector<std::int16_t>{1, 2, 3, 4, 5, 6});
  CHECK(io::to_tensor<std::int16_t, 2>(columns).to_vector() == std::vector<std::int16_t>{1, 3, 5, 2, 4, 6});
  const auto said = [](const std::string& file) {
    return message_of<system_error>([&] { io::read_npy(as_bytes(file)); });
  };
  const auto with = [](const std::string& header) { return npy_file(header, std::string(64, 'x')); };
  CHECK(has(said("text"), "is no .npy file"));
  CHECK(has(said(big("False", "<c8")), "'<c8', which no tensor has"));
  CHECK(has(said(big("False", "|O4")), "pickled Python objects"));
  CHECK(has(said(with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}")), "elements have fields"));
  CHECK(has(said(with("{'descr': '<f8', 'fortran_order': False, 'shape': (9,)}")), "is cut short: it has 64 bytes"));
  CHECK(has(said(with("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 8)}")), "cut short"));
  CHECK(has(said(with("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4611686018427387904, 8)}")), "cut short"));
  CHECK(has(said(with("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}")),
            "shape of integers"));
  CHECK(has(said(with("{'descr': '<f8', 'fortran_order': False}")), "lacks 'descr'"));
  CHECK(has(said(with("{'descr': '<f8', 'descr': '<f8'}")), "has it twice"));
  CHECK(has(said(std::string("\x93NUMPY\1\0\xff\xff{", 11)), "cut short within its header"));
  // Flags of other bytes than 0 and 1 are set.
  const io::array flags = io::read_npy(
      as_bytes(npy_file("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", std::string("\0\1\7", 3))));
  CHECK(flags.bytes()[2] == std::byte{1});
}

TEST_CASE("trees: both formats, there and back, with the names of leaves") {
  const scratch_folder here;
  for (const char* const name : {"/n.safetensors", "/n.npz"}) {
    const std::string path = here.path + name;
    io::save(path, made());
    check_same(io::load<network>(path));
    network other = made();
    other.layers[0].w.fill(7);
    other.scales.at("b").fill(f8_e4m3(0));
    other.name.clear();
    other.how = kind::narrow;
    io::load(path, other);
    check_same(other);
    const io::archive a = io::open_archive(path);
    CHECK(a.contains("layers.1.b"));
    CHECK(a.read<float, dims{2, dyn}>("layers.1.w")(0, 1) == 7);
    // Elements lie in the mapping, and so they do when they are moved to where the leaf is.
    const io::array w = a.at("layers.0.w");
    CHECK(w.data >= static_cast<const std::byte*>(a.whole.data()));
    CHECK(w.data < static_cast<const std::byte*>(a.whole.data()) + a.whole.bytes());
    CHECK(has(message_of<user_error>([&] { a.at("layers.9.w"); }), "has no array \"layers.9.w\""));
  }
  io::save(here.path + "/m.safetensors", std::tuple{tensor<float, 1>{1}}, {.metadata = {{"by \"me\"", "a\\b\n"}}});
  CHECK(io::open_archive(here.path + "/m.safetensors").metadata.at("by \"me\"") == "a\\b\n");
}

TEST_CASE("trees: what is mapped may be donated, and the file stays as it was") {
  const scratch_folder here;
  const std::string path = here.path + "/p.safetensors";
  using parts = std::tuple<bool, tensor<float, 1>, tensor<double, 1>>;
  io::save(path, parts{true, from_span(std::vector<float>(1000, 3.f)), tensor<double, 1>{1}});
  const std::string before = content(path);
  auto [flag, x, y] = io::load<parts>(path);
  const auto step = compile([](const tensor<float, 1>& v) { return v * 2.f + 1.f; }, {.donate = {0}});
  for (int i = 0; i < 3; ++i) x = step(std::move(x));
  CHECK(x.to_vector() == std::vector<float>(1000, 31.f));
  CHECK(content(path) == before);
  CHECK(std::get<1>(io::load<parts>(path))(999) == 3);
}

TEST_CASE("trees: all that does not fit is told at once, and nothing is changed") {
  const scratch_folder here;
  const std::string path = here.path + "/n.safetensors";
  io::save(path, made());
  network other = made();
  other.layers.pop_back();
  other.layers[0].w = tensor<float, 2>{{1}, {2}};
  other.scales["c"] = other.scales["a"];
  other.rate = 0.5;
  const std::string said = message_of<user_error>([&] { io::load(path, other); });
  CHECK(has(said,
            "n.safetensors does not fit the tree:\n  layers.0.w: it holds f32 (2, 2), asked for is f32 (2, 1)\n  "
            "scales.c: the file does not have it\n  layers.1.b: the tree does not have it\n  layers.1.heads: "));
  CHECK(has(said, "io_test.cpp:"));
  CHECK(other.rate == 0.5);
  other.layers[0].w = tensor<float, 2>{{0, 0}, {0, 0}};
  const std::string lacks = message_of<user_error>([&] { io::load(path, other, {.surplus = true}); });
  CHECK(has(lacks, "scales.c: the file does not have it"));
  CHECK_FALSE(has(lacks, "the tree does not have it"));
  io::load(path, other, {.strict = false});
  CHECK(other.layers[0].w(1, 1) == 4);
  CHECK(other.rate == 0.25);

  struct narrow {
    tensor<bf16, 2> weight;
    int steps = 3;
  };
  io::save(path, std::map<std::string, tensor<double, 2>>{{"model.weight", tensor<double, 2>{{1.5, 2}}}});
  const auto renamed = [](const std::string& name) { return "model." + name; };
  CHECK(has(message_of<user_error>([&] { io::load<narrow>(path, {.rename = renamed, .numbers = false}); }),
            "model.weight: it holds f64 (1, 2), asked for is bf16 of rank 2"));
  const auto n = io::load<narrow>(path, {.rename = renamed, .numbers = false, .cast = true});
  CHECK(static_cast<float>(n.weight(0, 0)) == 1.5f);
  CHECK(n.steps == 3);
  CHECK(has(message_of<user_error>([&] { io::save(path, narrow{}); }), "weight is default-constructed"));
  CHECK(has(message_of<user_error>([&] {
              io::save(path, std::tuple{tensor<float, 1>{1}, 2}, {.rename = [](const std::string&) { return "one"; }});
            }),
            "two leaves have the name one"));
  CHECK(has(message_of<user_error>([&] {
              io::save(path, std::map<std::string, tensor<float, 1>>{{"\xff", tensor<float, 1>{1}}});
            }),
            "cannot have the name"));
  CHECK(has(message_of<user_error>([&] {
              trace([&](const tensor<float, 1>& x) {
                io::save(path, x);
                return x;
              })(tensor<float, 1>{1});
            }),
            "is being traced"));
  CHECK(io::open_archive(path).contains("model.weight"));
}

TEST_CASE("npz of Python: deflated and stored") {
  const io::archive a = io::open_archive(as_bytes(zip_of_python));
  CHECK(a.names() == std::vector<std::string>{"deep/n", "w"});
  CHECK(a.read<float, 2>("w").to_vector() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(a.read<std::int16_t, 1>("deep/n").to_vector() == std::vector<std::int16_t>{-2, 300});
  std::string bad = zip_of_python;
  bad[60] ^= 4;  // within what is deflated
  CHECK(has(message_of<system_error>([&] { io::open_archive(as_bytes(bad)).at("w"); }), "is damaged"));
  bad = zip_of_python;
  bad[bad.rfind("\xff\xfe", 300)] ^= 1;  // within what is stored
  CHECK(has(message_of<system_error>([&] { io::open_archive(as_bytes(bad)).at("deep/n"); }), "its sum is another one"));
}

TEST_CASE("safetensors: hostile headers are told apart") {
  const auto said = [](const std::string& header, std::size_t bytes = 8) {
    return message_of<system_error>(
        [&] { io::open_archive(as_bytes(safetensors_file(header, std::string(bytes, 'x')))); });
  };
  const auto one = [](const std::string& shape, const std::string& offsets) {
    return R"("a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  CHECK(said("{" + one("[2]", "[0,8]") + "}  ") == "");
  CHECK(said("{}", 0) == "");
  CHECK(has(said("{" + one("[1]", "[0,8]") + "}"), "has 8 bytes, which f32 (1,) has not"));
  CHECK(has(said("{" + one("[2]", "[0,8]") + "}", 4), "cut short"));
  CHECK(has(said("{" + one("[2]", "[0,8]") + "}", 12), "4 bytes that no array has"));
  CHECK(has(said("{" + one("[1]", "[4,8]") + "}"), "begins at byte 4, where the one before ends at 0"));
  CHECK(has(said("{" + one("[2]", "[8,0]") + "}"), "begins at byte 8"));
  CHECK(has(said("{" + one("[2]", "[0,8]") + R"(,"b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})"),
            "begins at byte 0, where"));
  CHECK(has(said("{" + one("[4611686018427387904,4]", "[0,0]") + "}", 0), "has not"));
  CHECK(has(said("{" + one("[9223372036854775808]", "[0,8]") + "}"), "a number too large"));
  CHECK(has(said("{" + one("[-2]", "[0,8]") + "}"), "a negative number"));
  CHECK(has(said("{" + one("[2.0]", "[0,8]") + "}"), "a fraction"));
  CHECK(has(said("{" + one("[2]", "[0,8,8]") + "}"), "more than two offsets"));
  CHECK(has(said("{" + one("[2]", "[0,8]") + "," + one("[2]", "[0,8]") + "}"), "the name \"a\" twice"));
  CHECK(has(said("{\"a\":" + std::string(100000, '[') + "}"), "an array"));
  CHECK(has(said("{" + std::string("\"\xff\"") + ":1}"), "JSON is damaged at byte"));
  CHECK(has(said(R"({"a":{"dtype":"F32","shape":[2]}})"), "no dtype, shape or two data_offsets"));
  CHECK(has(said(R"({"__metadata__":{"a":1}})"), "a number"));
  CHECK(has(message_of<system_error>(
                [&] { io::open_archive(as_bytes(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10))); }),
            "cut short within its header"));
  // A dtype of no tensor is no error before it is read.
  const io::archive a =
      io::open_archive(as_bytes(safetensors_file(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "x")));
  CHECK(has(message_of<system_error>([&] { a.at("a"); }), "a has elements of dtype F4"));
  // Elements that are not aligned are copied.
  const io::archive odd = io::open_archive(as_bytes(safetensors_file(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
      std::string("\1\0\0\x80\x3f", 5))));
  CHECK(odd.read<float, 1>("b")(0) == 1);
}

namespace {

struct state {
  tensor<float, 2> w, momentum;
  key k = make_key(5);
  std::int64_t step = 0;
};
state begun() { return {ones<float>(4, 3), zeros<float>(4, 3)}; }
auto stepper() {
  return compile(
      [](state s) {
        const auto [now, next] = split<2>(s.k);
        const tensor<float, 2> g = normal<float>(now, 4, 3) + s.w * 0.1f;
        s.momentum = s.momentum * 0.9f + g;
        s.w = s.w - s.momentum * 0.01f;
        s.k = next;
        return s;
      },
      {.backend = "reference"});
}
state run(state s, std::int64_t until) {
  static auto step = stepper();
  while (s.step < until) {
    const std::int64_t n = s.step;
    s.step = 0;
    s = step(s);
    s.step = n + 1;
  }
  return s;
}

/// What a child process ends with, that runs f.
int child_of(const std::function<void()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 0;
    try {
      f();
    } catch (const system_error&) {
      status = 3;
    }
    ::_exit(status);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("checkpoints: a resumed run gives the bits of an unbroken one, and the last n stay") {
  const scratch_folder here;
  const io::checkpoints folder(here.path + "/deep/run", {.keep = 2});
  const state whole = run(begun(), 9);
  state s = begun();
  CHECK(!folder.resume(s));
  for (const std::int64_t n : {2, 4, 5}) {
    s = run(s, n);
    folder.save(s.step, s);
  }
  CHECK(folder.steps() == std::vector<std::int64_t>{4, 5});
  state again = begun();
  CHECK(folder.resume(again) == 5);
  again = run(again, 9);
  CHECK(again.w.to_vector() == whole.w.to_vector());
  CHECK(again.momentum.to_vector() == whole.momentum.to_vector());
  CHECK(again.k.state.item() == whole.k.state.item());
  // One that begins anew in the folder keeps what it writes.
  folder.save(1, begun());
  CHECK(folder.steps() == std::vector<std::int64_t>{1, 4, 5});
}

namespace {

/// On a file system whose files have names while they are written, or not.
void kill_at_any_moment(bool without) {
  no_unnamed_files = without;
  const scratch_folder here;
  const io::checkpoints folder(here.path, {.keep = 1});
  const state first = run(begun(), 1), second = run(begun(), 2);
  folder.save(1, first);
  calls_made = 0;
  folder.save(2, second);
  const int calls = calls_made;
  CHECK(calls >= 8);  // the header, four leaves, fsync, linkat or renameat, fsync
  for (int n = 0; n < calls; ++n) {
    folder.save(1, first);
    for (const std::int64_t old : {2})
      if (::access(folder.path(old).c_str(), F_OK) == 0) ::unlink(folder.path(old).c_str());
    CHECK(child_of([&] {
            calls_to_live = n;
            folder.save(2, second);
          }) == 9);
    state s = begun();
    const auto step = folder.resume(s);
    REQUIRE(step);
    // The new state is whole from the moment that it has its name.
    CHECK(*step == (n == calls - 1 ? 2 : 1));
    CHECK(s.w.to_vector() == (*step == 2 ? second : first).w.to_vector());
    CHECK(s.step == *step);
  }
  const auto files = [&] {
    std::size_t n = 0;
    for (const std::string& name : io::detail::files_of(here.path)) n += name != "." && name != "..";
    return n;
  };
  // Those killed before the file had its name leave one, where files have others.
  CHECK(files() == 2 + (without ? static_cast<std::size_t>(calls) - 1 : 0));
  for (const std::string& name : unnamed_files::names_in(here.path))
    if (name.starts_with(".sinter.tmp.")) CHECK(unnamed_files::date(here.path + "/" + name, -61));
  folder.save(3, second);  // what killed ones have left goes
  CHECK(files() == 1);
  const rlim_t whole = content(folder.path(3)).size();
  for (const rlim_t room : {rlim_t{0}, rlim_t{100}, whole - 1})
    CHECK(child_of([&] {
            const rlimit limit{room, room};
            ::setrlimit(RLIMIT_FSIZE, &limit);
            folder.save(4, second);
          }) == 3);
  CHECK(files() == 1);
  state s = begun();
  CHECK(folder.resume(s) == 3);
  CHECK(s.w.to_vector() == second.w.to_vector());
  no_unnamed_files = false;
}

}  // namespace

TEST_CASE("checkpoints: a kill at any moment and a full disk lose nothing") {
  kill_at_any_moment(false);
  kill_at_any_moment(true);
  CHECK(has(message_of<system_error>([] { io::write_npy("/dev/full", ones<float>(3)); }),
            "/dev/full: cannot be written: No space"));
  CHECK(has(message_of<system_error>([] { io::save("/nowhere/x.safetensors", ones<float>(3)); }),
            "cannot be written: No such"));
}

namespace {

// As <dlpack/dlpack.h> has them.
struct DLDevice {
  int type;
  std::int32_t id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

/// Three axes or less, with strides, over memory.
template <class T, std::size_t Rank>
struct strided {
  using value_type = std::remove_const_t<T>;
  T* p;
  std::array<int, Rank> extents, strides;
  static constexpr std::size_t rank() { return Rank; }
  T* data_handle() const { return p; }
  int extent(std::size_t i) const { return extents[i]; }
  int stride(std::size_t i) const { return strides[i]; }
};

}  // namespace

TEST_CASE("DLPack: both ways, without a copy, and the deleter ends it") {
  tensor<float, 2> x{{1, 2, 3}, {4, 5, 6}};
  DLManagedTensor* const out = io::to_dlpack<DLManagedTensor>(transpose(x));
  CHECK(out->dl_tensor.data == x.data());
  CHECK(out->dl_tensor.ndim == 2);
  CHECK(out->dl_tensor.strides[0] == 1);
  CHECK(out->dl_tensor.shape[0] == 3);
  CHECK(out->dl_tensor.dtype.code == 2);
  CHECK(out->dl_tensor.device.type == 1);
  x = tensor<float, 2>{{0}};
  const auto back = io::from_dlpack<float, 2>(out);
  CHECK(back.to_vector() == std::vector<float>{1, 4, 2, 5, 3, 6});

  static int ended = 0;
  double memory[6] = {1, 2, 3, 4, 5, 6};
  std::int64_t shape[] = {2, 2};
  io::dlpack::managed_versioned in{1,       0,
                                   nullptr, [](io::dlpack::managed_versioned*) { ++ended; },
                                   0,       {memory, {1, 0}, 2, {2, 64, 1}, shape, nullptr, 16}};
  {
    const auto y = io::from_dlpack<double, 2>(&in);
    const auto z = transpose(y);
    CHECK(y(0, 0) == 3);
    y(0, 1) = 40;
    CHECK(memory[3] == 40);
    CHECK(ended == 0);
  }
  CHECK(ended == 1);
  in.flags = 1;  // read-only
  const auto copy = io::from_dlpack<double, 2>(&in);
  CHECK(ended == 2);
  copy.fill(0);
  CHECK(memory[2] == 3);
  CHECK(has(message_of<user_error>([&] { io::from_dlpack<float, 2>(&in); }), "it holds f64 (2, 2), asked for is f32"));
  in.dl_tensor.type.lanes = 4;
  CHECK(has(message_of<user_error>([&] { io::from_dlpack<double, 2>(&in); }), "4 lanes"));
  in.dl_tensor.type.lanes = 1;
  in.dl_tensor.where.type = 7;
  CHECK(has(message_of<user_error>([&] { io::from_dlpack<double, 2>(&in); }), "device of DLPack's type 7"));
  CHECK(ended == 2);
  for (int i = 0; i <= static_cast<int>(dtype::f8_e5m2); ++i)
    CHECK(io::detail::type_of_dl(io::detail::dl_type(static_cast<dtype>(i)), {}) == static_cast<dtype>(i));
}

TEST_CASE("views and copies of what others have") {
  std::array<float, 12> memory{};
  for (std::size_t i = 0; i < 12; ++i) memory[i] = static_cast<float>(i);
  const strided<float, 2> m{memory.data(), {3, 2}, {1, 6}};
  const auto x = io::view(m);
  CHECK(x.to_vector() == std::vector<float>{0, 6, 1, 7, 2, 8});
  x(2, 1) = 80;
  CHECK(memory[8] == 80);
  CHECK(io::copy(strided<const float, 2>{memory.data(), {2, 2}, {6, 1}}).to_vector() == std::vector<float>{0, 1, 6, 7});
  io::copy_into(m, tensor<float, 2>{{1, 2}, {3, 4}, {5, 6}} * 2.f);
  CHECK(memory[6] == 4);
  CHECK(memory[2] == 10);
  CHECK(memory[3] == 3);
  CHECK(has(message_of<user_error>([&] { io::copy_into(m, tensor<float, 2>{{1}}); }),
            "f32 (1, 1) does not fit f32 (3, 2)"));
  std::vector<std::int32_t> v{1, 2, 3};
  io::view(v).fill(5);
  CHECK(v == std::vector<std::int32_t>{5, 5, 5});
  CHECK(io::copy(std::vector<double>{1, 2})(1) == 2);
  CHECK(io::view(std::span(v)).data() == v.data());
#if defined(EIGEN_CORE_H)
  Eigen::MatrixXd c(2, 3);
  c << 1, 2, 3, 4, 5, 6;
  io::view(c)(0, 2) = 30;
  CHECK(c(0, 2) == 30);
  CHECK(io::view(c).to_vector() == std::vector<double>{1, 2, 30, 4, 5, 6});
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> r(2, 2);
  r << 1, 2, 3, 4;
  CHECK(io::view(r).is_contiguous());
  CHECK(io::view(r).to_vector() == std::vector<float>{1, 2, 3, 4});
  const Eigen::VectorXd row = c.row(1);
  CHECK(io::copy(row).to_vector() == std::vector<double>{4, 5, 6});
  CHECK(io::view(Eigen::Map<Eigen::MatrixXd, 0, Eigen::OuterStride<>>(c.data(), 1, 3, Eigen::OuterStride<>(2)))
            .to_vector() == std::vector<double>{1, 2, 30});
  io::copy_into(c, tensor<double, 2>{{6, 5, 4}, {3, 2, 1}});
  CHECK(c(1, 0) == 3);
#endif
}
