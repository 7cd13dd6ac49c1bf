// Exported libraries for GPUs: results beside the reference, sizes, loops, weights, codes, streams.
#include <doctest/doctest.h>

#include <dlfcn.h>

#include <string>
#include <vector>

#include "../emulator/select.hpp"
#include "../environment_value.hpp"
#include "../scratch_folder.hpp"
#include "library.hpp"

using namespace sinter;

namespace {

using matrix = tensor<float, 2>;
using vec = tensor<float, 1>;
using number_0 = tensor<float, 0>;
using address = unsigned long long;

/// The driver's function of this name, where the first GPU's context is the thread's.
template <class F>
F driver(const char* name) {
  static void* const library = [] {
    full<float>(1.f, 2).to(device::cuda(0)).to_vector();  // starts the GPU
    void* const opened = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(opened != nullptr);
    void* context = nullptr;
    REQUIRE(reinterpret_cast<int (*)(void**, int)>(dlsym(opened, "cuDevicePrimaryCtxRetain"))(&context, 0) == 0);
    REQUIRE(reinterpret_cast<int (*)(void*)>(dlsym(opened, "cuCtxSetCurrent"))(context) == 0);
    return opened;
  }();
  REQUIRE(library != nullptr);
  return reinterpret_cast<F>(dlsym(library, name));
}

/// The stream of all calls here.
void* test_stream() {
  static void* const one = [] {
    void* made = nullptr;
    REQUIRE(driver<int (*)(void**, unsigned)>("cuStreamCreate")(&made, 1) == 0);
    return made;
  }();
  return one;
}

/// Memory of the GPU, full of a pattern that no result has; it ends with 64 bytes that nothing writes.
class gpu_block {
 public:
  explicit gpu_block(const std::string& bytes) : bytes_(bytes.size()) {
    REQUIRE(driver<int (*)(address*, std::size_t)>("cuMemAlloc_v2")(&at_, bytes_ + 128) == 0);
    write(bytes + std::string(64, '\xa5'));
  }
  explicit gpu_block(std::size_t bytes) : gpu_block(std::string(bytes, '\xa5')) {}
  gpu_block(gpu_block&& x) noexcept : bytes_(x.bytes_), at_(std::exchange(x.at_, 0)) {}
  gpu_block(const gpu_block&) = delete;
  ~gpu_block() {
    if (at_) driver<int (*)(address)>("cuMemFree_v2")(at_);
  }
  void* data() const { return reinterpret_cast<void*>(at_); }
  void write(const std::string& bytes) const {
    REQUIRE(driver<int (*)(address, const void*, std::size_t, void*)>("cuMemcpyHtoDAsync_v2")(
                at_, bytes.data(), bytes.size(), test_stream()) == 0);
    REQUIRE(driver<int (*)()>("cuCtxSynchronize")() == 0);
  }
  /// The bytes, once the GPU's work is done.
  std::string bytes() const {
    std::string out(bytes_ + 64, '\0');
    REQUIRE(driver<int (*)()>("cuCtxSynchronize")() == 0);
    REQUIRE(driver<int (*)(void*, address, std::size_t, void*)>("cuMemcpyDtoHAsync_v2")(out.data(), at_, out.size(),
                                                                                        test_stream()) == 0);
    REQUIRE(driver<int (*)()>("cuCtxSynchronize")() == 0);
    CHECK(out.substr(bytes_) == std::string(64, '\xa5'));
    out.resize(bytes_);
    return out;
  }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  address at_ = 0;
};

/// The results of a call, as bytes; `out` has their sizes in bytes.
std::vector<std::string> run_on_gpu(const loaded_library& l, const void* model, const std::vector<given_array>& in,
                                    const std::vector<std::size_t>& out, const std::vector<std::int64_t>& sizes = {}) {
  std::vector<gpu_block> memory, made;
  std::vector<c_array> arrays, results;
  for (const auto& x : in) {
    memory.emplace_back(x.bytes);
    arrays.push_back({memory.back().data(), x.extents.data()});
  }
  for (const std::size_t n : out) {
    made.emplace_back(n);
    results.push_back({made.back().data(), nullptr});
  }
  std::size_t need = 0;
  int code = l.room(model, sizes.data(), &need);
  const gpu_block room(need);
  if (code == 0) code = l.queue(model, arrays.data(), results.data(), room.data(), need, test_stream());
  if (code != 0) throw std::runtime_error(l.error(code));
  std::vector<std::string> bytes;
  for (const auto& m : made) bytes.push_back(m.bytes());
  room.bytes();
  return bytes;
}

template <any_tensor X>
void check_close(const std::string& got, const X& want, double within) {
  using T = typename X::value_type;
  const auto all = want.to_vector();
  REQUIRE(got.size() == all.size() * sizeof(T));
  double worst = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    T value;
    std::memcpy(&value, got.data() + i * sizeof(T), sizeof(T));
    const double g = static_cast<double>(value), w = static_cast<double>(all[i]);
    if (!(g == w) && !(g != g && w != w)) worst = std::max(worst, std::abs(g - w) / (1 + std::abs(w)));
    if ((g != g) != (w != w)) worst = 1e9;
  }
  CHECK(worst <= within);
}

struct net {
  matrix w1;
  vec b1;
  matrix w2;
};
net net_of(std::uint64_t seed) {
  return {matrix(0.3f * normal<float>(make_key(seed), 48, 33)), vec(0.1f * normal<float>(make_key(seed + 1), 33)),
          matrix(0.3f * normal<float>(make_key(seed + 2), 33, 10))};
}
const auto mlp = [](const matrix& x, const net& p) { return softmax(matmul(tanh(matmul(x, p.w1) + p.b1), p.w2)); };

}  // namespace

TEST_CASE("a library for GPUs computes what the function does, for each of its sizes") {
  test_stream();  // makes a context current
  const scratch_folder folder;
  const net p = net_of(1);
  const exported_library made = export_library(mlp, {.name = "mlp", .gpus = {90, 80}, .folder = folder.path},
                                               spec<matrix>{{extent("n", 0, 150), 48}}, p);
  CHECK(made.files.size() == 5);
  CHECK(made.programs >= 2);
  CHECK(made.provenance.find("sm_80 sm_90; NVRTC") != std::string::npos);
  const loaded_library l(folder.path, "mlp");
  void* model = nullptr;
  const std::string weights = folder.path + "/mlp.weights";
  REQUIRE(l.open(weights.c_str(), &model) == 0);
  std::size_t before = 0;
  for (const std::int64_t n : {0, 1, 2, 3, 17, 64, 149, 150}) {
    CAPTURE(n);
    const matrix x = normal<float>(make_key(static_cast<std::uint64_t>(n)), n, std::int64_t{48});
    const auto size = static_cast<std::size_t>(n);
    check_close(run_on_gpu(l, model, {x}, {40 * size}, {n})[0], matrix(mlp(x, p)), 1e-5);
    std::size_t need = 0;
    REQUIRE(l.room(model, &n, &need) == 0);
    if (n > 2) CHECK(need >= before);
    before = need;
  }
  // Other weights.
  const net other = net_of(7);
  const scratch_folder elsewhere;
  export_library(mlp, {.name = "mlp", .gpus = {90, 80}, .folder = elsewhere.path},
                 spec<matrix>{{extent("n", 0, 150), 48}}, other);
  REQUIRE(l.swap(model, (elsewhere.path + "/mlp.weights").c_str()) == 0);
  const matrix x = normal<float>(make_key(5), 21, 48);
  check_close(run_on_gpu(l, model, {x}, {840}, {21})[0], matrix(mlp(x, other)), 1e-5);
  l.close(model);
}

TEST_CASE("wrong calls of a library for GPUs are codes") {
  const scratch_folder folder;
  const net p = net_of(2);
  export_library(mlp, {.name = "mlp", .gpus = {80}, .weights = library_weights::inside, .folder = folder.path},
                 spec<matrix>{{4, 48}}, p);
  const loaded_library l(folder.path, "mlp");
  const gpu_block x(std::size_t{4 * 48 * 4}), y(std::size_t{160});  // starts the GPU
  void* model = nullptr;
  CHECK(l.open("none", &model) == 3);
  REQUIRE(l.open(nullptr, &model) == 0);
  std::size_t need = 0;
  REQUIRE(l.room(model, nullptr, &need) == 0);
  const gpu_block room(need);
  const std::int64_t shape[] = {4, 48}, wide[] = {4, 49};
  const auto run = [&](c_array in, c_array out, void* at, std::size_t size) {
    return l.queue(model, &in, &out, at, size, test_stream());
  };
  CHECK(run({x.data(), shape}, {y.data(), nullptr}, room.data(), need) == 0);
  CHECK(run({x.data(), wide}, {y.data(), nullptr}, room.data(), need) == 5);
  CHECK(run({nullptr, shape}, {y.data(), nullptr}, room.data(), need) == 1);
  CHECK(run({static_cast<char*>(x.data()) + 4, shape}, {y.data(), nullptr}, room.data(), need) == 6);
  CHECK(run({x.data(), shape}, {x.data(), nullptr}, room.data(), need) == 7);
  if (need > 0) CHECK(run({x.data(), shape}, {y.data(), nullptr}, room.data(), need - 1) == 8);
  l.close(model);
  // Without a context of the thread the model brings the first GPU's, and takes it away.
  const auto set = driver<int (*)(void*)>("cuCtxSetCurrent");
  void *own = nullptr, *now = nullptr;
  REQUIRE(driver<int (*)(void**)>("cuCtxGetCurrent")(&own) == 0);
  REQUIRE(set(nullptr) == 0);
  REQUIRE(l.open(nullptr, &model) == 0);
  REQUIRE(driver<int (*)(void**)>("cuCtxGetCurrent")(&now) == 0);
  CHECK(now == own);
  CHECK(run({x.data(), shape}, {y.data(), nullptr}, room.data(), need) == 0);
  l.close(model);
  REQUIRE(driver<int (*)(void**)>("cuCtxGetCurrent")(&now) == 0);
  CHECK(now == nullptr);
  REQUIRE(set(own) == 0);
  for (int code = -1; code < 14; ++code) CHECK(std::string(l.error(code)) != "");
  if (emulator::real()) return;
  {
    const environment_value old("SINTER_EMULATOR_CAPABILITY", "75");
    CHECK(l.open(nullptr, &model) == 2);
  }
  // Another generation: its driver compiles the PTX.
  const environment_value later("SINTER_EMULATOR_CAPABILITY", "120");
  REQUIRE(l.open(nullptr, &model) == 0);
  const matrix in = normal<float>(make_key(5), 4, 48);
  check_close(run_on_gpu(l, model, {in}, {160})[0], matrix(mlp(in, p)), 1e-5);
  l.close(model);
}

TEST_CASE("loops and branches of a library for GPUs") {
  const scratch_folder folder;
  const auto f = [](const matrix& xs, const vec& h0, const matrix& w, const number_0& limit) {
    const auto [h, stack] = scan(
        [&](const vec& h, const vec& x) {
          const vec next = tanh(sum(w * h, axis<1>) + x);
          return std::pair{next, vec(h * x)};
        },
        h0, xs);
    using pair = std::pair<tensor<std::int64_t, 0>, vec>;
    const pair last = while_loop([&](const pair& c) { return sum(c.second * c.second) < limit && c.first < 50; },
                                 [](const pair& c) {
                                   return pair{c.first + 1, vec(c.second * 1.25f)};
                                 },
                                 pair{tensor<std::int64_t, 0>(0), h});
    const number_0 total = sum(stack);
    const vec z = cond(
        sum(h) > 0.f, [](const vec& y, const number_0&) { return vec(y + 1.f); },
        [](const vec& y, const number_0& t) { return vec(y * 2.f - t); }, last.second, total);
    const vec powers = fori_loop(
        0, 5, [](const auto& i, const vec& y) { return vec(y + cast<float>(i)); }, z);
    return std::tuple{h, stack, last.first, z, powers};
  };
  export_library(f, {.name = "loops", .gpus = {80}, .folder = folder.path}, spec<matrix>{{extent("n", 2, 9), 7}},
                 spec<vec>{{7}}, spec<matrix>{{7, 7}}, spec<number_0>{});
  const loaded_library l(folder.path, "loops");
  void* model = nullptr;
  REQUIRE(l.open(nullptr, &model) == 0);
  const matrix w = 0.4f * normal<float>(make_key(1), 7, 7);
  int up = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (const std::int64_t n : {2, 9}) {
      const matrix xs = normal<float>(make_key(10 + seed), n, std::int64_t{7});
      const vec h0 = normal<float>(make_key(20 + seed), 7);
      const number_0 limit(static_cast<float>(seed) * 40.f);
      const auto [h, all, turns, z, powers] = f(xs, h0, w, limit);
      const auto got = run_on_gpu(l, model, {xs, h0, w, limit}, {28, static_cast<std::size_t>(28 * n), 8, 28, 28}, {n});
      check_close(got[0], h, 1e-5);
      check_close(got[1], all, 1e-5);
      CHECK(got[2] == bytes_of(turns));
      check_close(got[3], z, 1e-4);
      check_close(got[4], powers, 1e-4);
      up += sum(h).item() > 0;
    }
  CHECK(up > 0);
  CHECK(up < 8);
  l.close(model);
}

TEST_CASE("many kernels of one launch, and a training step whose state stays in place") {
  const scratch_folder folder, source;
  struct state {
    std::vector<matrix> w, m;
  };
  const auto step = [](const state& s, const matrix& x) {
    state next;
    number_0 total(0.f);
    for (std::size_t k = 0; k < s.w.size(); ++k) {
      const matrix g = s.w[k] * 0.5f + static_cast<float>(k);
      next.m.push_back(matrix(s.m[k] * 0.9f + g));
      next.w.push_back(matrix(s.w[k] - 0.01f * next.m.back()));
    }
    total = total + sum(matmul(x, s.w[0]));
    return std::pair{next, total};
  };
  state s;
  for (std::uint64_t k = 0; k < 180; ++k) {
    const auto rows = static_cast<std::int64_t>(5 + k % 20), columns = static_cast<std::int64_t>(k % 3 + 4);
    s.w.push_back(matrix(normal<float>(make_key(k), rows, columns)));
    s.m.push_back(matrix(normal<float>(make_key(k + 100), rows, columns)));
  }
  const exported_library made =
      export_library(step, {.name = "step", .gpus = {80}, .folder = folder.path}, spec_of(s), spec<matrix>{{6, 5}});
  CHECK(made.replaceable.size() >= 40);
  // Tables of few kernels are parameters, and those of many are sent.
  export_library(step, {.name = "step", .gpus = {80}, .form = library_form::source, .folder = source.path}, spec_of(s),
                 spec<matrix>{{6, 5}});
  const std::string text = text_of_file(source.path + "/step.c");
  CHECK(text.find("(void*)&sent") != std::string::npos);
  const loaded_library l(folder.path, "step");
  void* model = nullptr;
  REQUIRE(l.open(nullptr, &model) == 0);
  const matrix x = normal<float>(make_key(8), 6, 5);
  std::vector<given_array> in;
  for (const auto& w : s.w) in.push_back(w);
  for (const auto& m : s.m) in.push_back(m);
  in.push_back(x);
  // Results lie on inputs where the library allows it; the others are copied.
  const c_spec* specs = nullptr;
  l.inputs(&specs);
  std::vector<gpu_block> memory, apart;
  std::vector<c_array> arrays, results;
  for (std::size_t k = 0; k < in.size(); ++k) {
    memory.emplace_back(in[k].bytes);
    arrays.push_back({memory.back().data(), in[k].extents.data()});
    if (k + 1 == in.size()) break;
    const std::string pair = "out" + std::to_string(k) + " may lie where " + specs[k].name + " does";
    const bool shares = std::count(made.replaceable.begin(), made.replaceable.end(), pair) == 1;
    apart.emplace_back(in[k].bytes.size());
    results.push_back({shares ? memory[k].data() : apart[k].data(), nullptr});
  }
  const gpu_block total(std::size_t{4});
  results.push_back({total.data(), nullptr});
  std::size_t need = 0;
  REQUIRE(l.room(model, nullptr, &need) == 0);
  const gpu_block room(need);
  for (int turn = 0; turn < 3; ++turn) {
    auto [next, want] = step(s, x);
    REQUIRE(l.queue(model, arrays.data(), results.data(), room.data(), need, test_stream()) == 0);
    for (std::size_t k = 0; k < apart.size(); ++k)
      if (results[k].data != memory[k].data()) memory[k].write(apart[k].bytes());
    check_close(total.bytes(), want, 1e-4);
    s = std::move(next);
    for (std::size_t k = 0; k < s.w.size(); ++k) check_close(memory[k].bytes(), s.w[k], 1e-5);
    for (std::size_t k = 0; k < s.m.size(); ++k) check_close(memory[s.w.size() + k].bytes(), s.m[k], 1e-5);
  }
  // A graph would send the table later, from memory that is gone.
  REQUIRE(driver<int (*)(void*, int)>("cuStreamBeginCapture_v2")(test_stream(), 2) == 0);
  CHECK(l.queue(model, arrays.data(), results.data(), room.data(), need, test_stream()) == 11);
  void* graph = nullptr;
  REQUIRE(driver<int (*)(void*, void**)>("cuStreamEndCapture")(test_stream(), &graph) == 0);
  driver<int (*)(void*)>("cuGraphDestroy")(graph);
  l.close(model);
}

TEST_CASE("rows of open length, and products of 16 bits") {
  const scratch_folder folder;
  using narrow = tensor<bf16, 2>;
  const auto f = [](const matrix& x, const narrow& a, const narrow& b) {
    const matrix rows = softmax(x);
    const vec rest = slice<0>(full<float>(0.5f, 310), x.shape()[1], 310);  // shorter for larger sizes
    return std::tuple{rows,
                      vec(sum(x * x, axis<1>)),
                      matrix(sort(x)),
                      tensor<std::int64_t, 1>(argmax(x, axis<1>)),
                      narrow(relu(matmul(a, b))),
                      number_0(sum(rest * rest))};
  };
  const exported_library made =
      export_library(f, {.name = "rows", .gpus = {80, 90}, .weights = library_weights::given, .folder = folder.path},
                     spec<matrix>{{extent("n", 1, 6), extent("m", 1, 300)}}, spec<narrow>{{extent("n", 1, 6), 40}},
                     spec<narrow>{{40, 72}});
  CHECK(made.weight_bytes == 0);
  const loaded_library l(folder.path, "rows");
  void* model = nullptr;
  REQUIRE(l.open(nullptr, &model) == 0);
  const narrow b = cast<bf16>(normal<float>(make_key(3), 40, 72));
  for (const std::int64_t n : {1, 2, 6})
    for (const std::int64_t m : {1, 2, 31, 32, 33, 256, 257, 300}) {
      CAPTURE(n);
      CAPTURE(m);
      const matrix x = normal<float>(make_key(static_cast<std::uint64_t>(n * 1000 + m)), n, m);
      const narrow a = cast<bf16>(normal<float>(make_key(static_cast<std::uint64_t>(n)), n, std::int64_t{40}));
      const auto [rows, sums, sorted, best, product, rest] = f(x, a, b);
      const auto size = static_cast<std::size_t>(n), all = static_cast<std::size_t>(4 * n * m);
      const auto got = run_on_gpu(l, model, {x, a, b}, {all, 4 * size, all, 8 * size, 144 * size, 4}, {n, m});
      check_close(got[0], rows, 1e-5);
      check_close(got[1], sums, 1e-5);
      CHECK(got[2] == bytes_of(sorted));
      CHECK(got[3] == bytes_of(best));
      check_close(got[4], product, 1e-2);
      check_close(got[5], rest, 1e-5);
    }
  l.close(model);
}

TEST_CASE("the C++ and the Python face of a library for GPUs") {
  const scratch_folder folder;
  export_library([](const vec& x) { return vec(x * 2.f + 1.f); }, {.name = "line", .gpus = {80}, .folder = folder.path},
                 spec<vec>{{extent("n", 2, 50)}});
  write_text(
      folder.path + "/face.cpp",
      "#include \"line.hpp\"\n"
      "int use(void* room, void* stream) {\n"
      "  const line::model m;\n  const std::int64_t n = 4;\n  line_array in{}, out{};\n"
      "  m.run(&in, &out, room, m.room(&n), stream);\n  return static_cast<int>(line::model::inputs().size());\n}\n");
  output_of("c++ -std=c++20 -Wall -Wextra -Werror -fsyntax-only '" + folder.path + "/face.cpp'");
  if (!emulator::real())
    std::filesystem::create_symlink(test_paths::emulator + "/libcuda.so", folder.path + "/libcuda.so.1");
  write_text(folder.path + "/face.py", R"(import array
import ctypes

import line

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
model = line.Model()
stream = ctypes.c_void_p()
assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0


def place(data):
    at = ctypes.c_ulonglong()
    assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(len(data))) == 0
    assert cuda.cuMemcpyHtoD_v2(at, data, ctypes.c_size_t(len(data))) == 0
    return at.value


class Values:
    def __init__(self, numbers):
        self.raw = array.array("f", numbers).tobytes()
        self.__cuda_array_interface__ = {"data": (place(self.raw), False), "shape": (len(numbers),), "typestr": "<f4", "strides": None, "version": 3}


x = Values([1, 2, 3])
y = place(bytes(12))
need = model.room(n=3)
model.run([x], [(y, (3,))], (place(bytes(need + 64)), [need]), stream.value)
out = ctypes.create_string_buffer(12)
assert cuda.cuMemcpyDtoHAsync_v2(out, ctypes.c_ulonglong(y), ctypes.c_size_t(12), stream) == 0
assert cuda.cuCtxSynchronize() == 0
print(list(memoryview(out.raw).cast("f")))
for given, wrong in ([x], [(y, (4,))]), ([x], [(y, (3, 1))]), ([], [(y, (3,))]):
    try:
        model.run(given, wrong, (0, [0]), stream.value)
    except (line.Error, ValueError) as e:
        print(type(e).__name__)
)");
  const std::string said = output_of("cd '" + folder.path + "' && LD_LIBRARY_PATH='" + folder.path +
                                     ":'\"$LD_LIBRARY_PATH\" python3 face.py");
  CHECK(said == "[3.0, 5.0, 7.0]\nError\nValueError\nValueError\n");
}

TEST_CASE("what a library for GPUs cannot be is refused") {
  const auto error_of = [](const library_options& how) {
    try {
      export_library([](const vec& x) { return vec(x + 1.f); }, how, spec<vec>{{4}});
    } catch (const user_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(error_of({.gpus = {75}, .only_check = true}).find("below 80") != std::string::npos);
  CHECK(error_of({.gpus = {80, 80}, .only_check = true}).find("given twice") != std::string::npos);
  CHECK(error_of({.gpus = {80}, .threads = library_threads::openmp, .only_check = true}).find(".threads") !=
        std::string::npos);
  CHECK(error_of({.gpus = {80, 90}, .only_check = true}).empty());
}
