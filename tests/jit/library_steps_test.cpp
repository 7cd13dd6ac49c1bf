// Exported libraries: loops and branches, a training step in place, what is refused, C, C++ and Python programs that use them.
#include <doctest/doctest.h>

#include "../environment_value.hpp"
#include "../paths.hpp"
#include "../scratch_folder.hpp"
#include "library.hpp"

using namespace sinter;

namespace {

using matrix = tensor<float, 2>;
using vec = tensor<float, 1>;
using number_0 = tensor<float, 0>;

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const user_error& e) {
    return e.what();
  }
  return "";
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct state {
  matrix w1, w2, m1, m2;
  number_0 steps;
};

state first_state() {
  return {matrix(0.3f * normal<float>(make_key(1), 20, 16)), matrix(0.3f * normal<float>(make_key(2), 16, 5)),
          matrix(0.01f * normal<float>(make_key(3), 20, 16)), matrix(0.01f * normal<float>(make_key(4), 16, 5)),
          number_0(3.f)};
}

/// A step with momentum, and the loss.
const auto train = [](const state& s, const matrix& x, const tensor<std::int64_t, 1>& y) {
  using pair = std::pair<matrix, matrix>;
  const auto loss = [&](const pair& w) { return cross_entropy(matmul(tanh(matmul(x, w.first)), w.second), y); };
  const auto [l, g] = value_and_grad(loss)(pair{s.w1, s.w2});
  const auto& [g1, g2] = g;
  const matrix m1 = 0.9f * s.m1 + g1, m2 = 0.9f * s.m2 + g2;
  return std::pair{state{matrix(s.w1 - 0.1f * m1), matrix(s.w2 - 0.1f * m2), m1, m2, number_0(s.steps + 1.f)},
                   number_0(l)};
};

/// Compiles and runs a C program against a library; with flags of a sanitizer, against its sources.
std::string run_program(const std::string& folder, const std::string& text, const std::string& command) {
  write_text(folder + "/main.c", text);
  output_of("cd '" + folder + "' && " + command);
  return output_of("cd '" + folder + "' && env -i ./main");
}

}  // namespace

TEST_CASE("loops and branches leave as they are") {
  const scratch_folder folder;
  const isa best = best_isa();
  const environment_value flags("SINTER_CXXFLAGS", flags_for(best));
  const auto f = [](const matrix& xs, const vec& h0, const matrix& w, const number_0& limit) {
    const auto [h, stack] = scan(
        [&](const vec& h, const vec& x) {
          const vec next = tanh(matmul(w, h) + x);
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
    return std::tuple{h, stack, last.first, z};
  };
  const exported_library made =
      export_library(f, {.name = "loops", .isas = {best}, .folder = folder.path}, spec<matrix>{{extent("n", 2, 9), 7}},
                     spec<vec>{{7}}, spec<matrix>{{7, 7}}, spec<number_0>{});
  CHECK(made.programs >= 1);
  const loaded_library l(folder.path, "loops");
  void* model = nullptr;
  REQUIRE(l.open(nullptr, &model) == 0);
  const auto compiled = compile(f);
  const matrix w = 0.4f * normal<float>(make_key(1), 7, 7);
  int up = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed)
    for (const std::int64_t n : {2, 3, 9}) {
      matrix xs = normal<float>(make_key(10 + seed), n, std::int64_t{7});
      mark_dynamic(xs, 0, {2, 9});
      const vec h0 = normal<float>(make_key(20 + seed), 7);
      const number_0 limit(static_cast<float>(seed) * 40.f);
      const auto [h, all, turns, z] = compiled(xs, h0, w, limit);
      const auto got = run_library(l, model, {xs, h0, w, limit}, {28, static_cast<std::size_t>(28 * n), 8, 28}, {n});
      CHECK(got[0] == bytes_of(h));
      CHECK(got[1] == bytes_of(all));
      CHECK(got[2] == bytes_of(turns));
      CHECK(got[3] == bytes_of(z));
      up += sum(h).item() > 0;
    }
  CHECK(up > 0);
  CHECK(up < 18);
  l.close(model);
}

TEST_CASE("a training step leaves whole, and its state may stay where it is") {
  const scratch_folder folder;
  const isa best = best_isa();
  const environment_value flags("SINTER_CXXFLAGS", flags_for(best));
  const exported_library made =
      export_library(train, {.name = "step", .isas = {best}, .folder = folder.path, .inputs = {"state", "x", "y"}},
                     spec_of(first_state()), spec<matrix>{{12, 20}}, spec<tensor<std::int64_t, 1>>{{12}});
  CHECK(std::filesystem::file_size(folder.path + "/libstep.so") <= 100'000);
  for (const char* pair : {"out0 may lie where state.w1 does", "out3 may lie where state.m2 does"})
    CHECK(std::count(made.replaceable.begin(), made.replaceable.end(), pair) == 1);
  const loaded_library l(folder.path, "step");
  void* model = nullptr;
  REQUIRE(l.open(nullptr, &model) == 0);
  const auto compiled = compile(train);
  state s = first_state();
  const matrix x = normal<float>(make_key(8), 12, 20);
  const tensor<std::int64_t, 1> y{0, 3, 1, 2, 2, 4, 0, 1, 3, 4, 2, 0};
  // In place: the state's arrays are results, too.
  std::vector<given_array> in = {s.w1, s.w2, s.m1, s.m2, s.steps, x, y};
  std::vector<block> memory;
  std::vector<c_array> arrays, results;
  for (const auto& a : in) {
    memory.emplace_back(a.bytes.size());
    std::memcpy(memory.back().data(), a.bytes.data(), a.bytes.size());
    arrays.push_back({memory.back().data(), a.extents.data()});
  }
  const block loss(4);
  // Where the library allows it; the others are copied.
  std::vector<block> apart;
  int in_place = 0;
  for (std::size_t k = 0; k < 5; ++k) {
    const char* const names[] = {"w1", "w2", "m1", "m2", "steps"};
    const std::string pair = "out" + std::to_string(k) + " may lie where state." + names[k] + " does";
    const bool shares = std::count(made.replaceable.begin(), made.replaceable.end(), pair) == 1;
    in_place += shares;
    apart.emplace_back(in[k].bytes.size());
    results.push_back({shares ? memory[k].data() : apart[k].data(), nullptr});
  }
  CHECK(in_place >= 3);
  results.push_back({loss.data(), nullptr});
  std::size_t need = 0;
  REQUIRE(l.room(model, nullptr, &need) == 0);
  const block room(need);
  for (int turn = 0; turn < 5; ++turn) {
    auto [next, want] = compiled(s, x, y);
    REQUIRE(l.run(model, arrays.data(), results.data(), room.data(), need) == 0);
    CHECK(loss.bytes() == bytes_of(want));
    s = std::move(next);
    for (std::size_t k = 0; k < 5; ++k)
      if (results[k].data != memory[k].data()) std::memcpy(memory[k].data(), apart[k].data(), memory[k].size());
    CHECK(memory[0].bytes() == bytes_of(s.w1));
    CHECK(memory[1].bytes() == bytes_of(s.w2));
    CHECK(memory[2].bytes() == bytes_of(s.m1));
    CHECK(memory[3].bytes() == bytes_of(s.m2));
    CHECK(memory[4].bytes() == bytes_of(s.steps));
  }
  // A result may not lie on another one, nor across an input.
  void* const own = results[1].data;
  results[1].data = results[0].data;
  CHECK(l.run(model, arrays.data(), results.data(), room.data(), need) == 7);
  results[1].data = own;
  results[0].data = static_cast<char*>(memory[0].data()) + 64;
  CHECK(l.run(model, arrays.data(), results.data(), room.data(), need) == 7);
  l.close(model);
}

TEST_CASE("results may lie on inputs, and never on captured tensors") {
  const vec kept{1, 2, 3};
  const auto f = [&](const vec& x) { return std::pair{vec(x * 2.f + kept), vec(kept * 3.f)}; };
  const exported_library made = export_library(f, {.name = "kept", .only_check = true}, spec<vec>{{3}});
  CHECK(made.files.empty());
  for (const std::string& pair : made.replaceable) CHECK(pair.ends_with(" may lie where in0 does"));
  CHECK(made.weight_bytes == 12);
}

TEST_CASE("what cannot leave is refused, with all reasons at once") {
  const scratch_folder folder;
  const auto twice = custom_op<"twice">(
      [](elements<const float, 1> x, elements<float, 1> y) {
        for (std::int64_t i = 0; i < y.size(); ++i) y[i] = 2 * x[i];
      },
      none, [](const auto& x) { return result_of<float, 1>{x}; });
  const auto f = [&](const vec& x) {
    const vec y = twice(x);
    host_call([](vec) {}, y);
    return vec(y + 1.f);
  };
  const std::string said = error_of([&] { export_library(f, {.name = "own", .folder = folder.path}, spec<vec>{{4}}); });
  CHECK(contains(said, "'twice' is a function of this program"));
  CHECK(contains(said, "host_call"));
  CHECK(contains(said, "library_steps_test.cpp"));
  CHECK(std::filesystem::is_empty(folder.path));
  const auto plain = [](const vec& x) { return vec(x * 2.f); };
  CHECK(contains(error_of([&] { export_library(plain, {.name = "9x", .folder = folder.path}, spec<vec>{{4}}); }),
                 "'9x' is no name in C"));
  CHECK(contains(
      error_of([&] {
        export_library(plain, {.name = "x", .isas = {isa::avx2, isa::avx2}, .folder = folder.path}, spec<vec>{{4}});
      }),
      "avx2 is given twice"));
  CHECK(contains(
      error_of([&] {
        export_library(plain, {.name = "x", .isas = {isa::avx2, isa::aarch64}, .folder = folder.path}, spec<vec>{{4}});
      }),
      "export one for each"));
  CHECK(contains(error_of([] { extent("", 1, 2); }), "is no size"));
  CHECK(contains(error_of([] { extent("n", 3, 2); }), "is no size"));
  const auto reads = [](const vec& x) { return sum(x).item() > 0 ? vec(x + 1.f) : vec(x - 1.f); };
  CHECK(
      contains(error_of([&] { export_library(reads, {.name = "x", .folder = folder.path}, spec<vec>{{4}}); }), "item"));
  const auto fixed = [](const vec& x) {
    const std::int64_t n = x.shape()[0];
    return vec(x * static_cast<float>(n));
  };
  CHECK(contains(
      error_of([&] { export_library(fixed, {.name = "x", .folder = folder.path}, spec<vec>{{extent("n", 2, 90)}}); }),
      "the size 'n' cannot stay open"));
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("a program in C calls a library without a variable of the environment, and a call allocates nothing") {
  const scratch_folder folder;
  const isa best = best_isa();
  const environment_value flags("SINTER_CXXFLAGS", flags_for(best));
  const matrix w = normal<float>(make_key(1), 6, 4);
  const auto g = [&](const matrix& x) { return matrix(exp(matmul(sort(x), w))); };
  export_library(g, {.name = "small", .isas = {best}, .weights = library_weights::inside, .folder = folder.path},
                 spec<matrix>{{extent("n", 1, 8), 6}});
  const std::string text = R"(
#include "small.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
static long made;
void* malloc(size_t n) { return ++made, __libc_malloc(n); }
void* calloc(size_t n, size_t m) { return ++made, __libc_calloc(n, m); }
int main(void) {
  small_model* m;
  int code = small_open(0, &m);
  if (code) return printf("%s\n", small_error(code)), 1;
  const int64_t n = 3, in_extents[] = {3, 6}, out_extents[] = {3, 4};
  size_t bytes;
  if (small_room(m, &n, &bytes)) return 2;
  void* room = aligned_alloc(64, bytes + 64);
  float *x = aligned_alloc(64, 128), *y = aligned_alloc(64, 64);
  for (int i = 0; i < 18; ++i) x[i] = (float)((i * 7) % 5) / 4;
  small_array in = {x, in_extents}, out = {y, out_extents};
  const long before = made;
  for (int k = 0; k < 100; ++k)
    if ((code = small_run(m, &in, &out, room, bytes))) return printf("%s\n", small_error(code)), 3;
  if (made != before) return printf("%ld allocations\n", made - before), 4;
  for (int i = 0; i < 12; ++i) {
    unsigned bits;
    memcpy(&bits, &y[i], 4);
    printf("%08x", bits);
  }
  small_close(m);
  return 0;
}
)";
  const std::string said =
      run_program(folder.path, text, test_paths::cxx + " -x c main.c -o main -L. -lsmall -Wl,-rpath,'$ORIGIN'");
  matrix x = zeros<float>({3, 6});
  std::vector<float> values;
  for (int i = 0; i < 18; ++i) values.push_back(static_cast<float>((i * 7) % 5) / 4);
  x = from_span(std::span<const float>(values), 3, 6);
  const std::string want = bytes_of(matrix(compile(g)(x)));
  std::string hex;
  for (std::size_t i = 0; i < want.size(); i += 4) {
    unsigned bits = 0;
    std::memcpy(&bits, want.data() + i, 4);
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", bits);
    hex += digits;
  }
  CHECK(said == hex);
}

namespace {

/// A program in C whose threads call one model while another thread replaces its weights.
constexpr const char* threads_program = R"(
#include "shared.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static shared_model* m;
static float first[24];
static void* work(void* seed) {
  const int64_t n = 4, in_extents[] = {4, 6};
  size_t bytes;
  if (shared_room(m, &n, &bytes)) exit(2);
  char* const room = aligned_alloc(64, (bytes + 127) / 64 * 64);
  float *x = aligned_alloc(64, 128), *y = aligned_alloc(64, 128);
  for (int i = 0; i < 24; ++i) x[i] = (float)(i % 7) - 3;
  shared_array in = {x, in_extents}, out = {y, 0};
  for (int k = 0; k < 40; ++k) {
    if (shared_run(m, &in, &out, room, bytes)) exit(3);
    if (memcmp(y, first, 4 * 4 * 5)) exit(4);
    if (seed && k % 8 == 0 && shared_swap(m, "shared.weights")) exit(5);
  }
  free(room), free(x), free(y);
  return 0;
}
int main(void) {
  if (shared_open("shared.weights", &m)) return 1;
  const int64_t n = 4, in_extents[] = {4, 6};
  size_t bytes;
  if (shared_room(m, &n, &bytes)) return 2;
  char* const room = aligned_alloc(64, (bytes + 127) / 64 * 64);
  float *x = aligned_alloc(64, 128), *y = aligned_alloc(64, 128);
  for (int i = 0; i < 24; ++i) x[i] = (float)(i % 7) - 3;
  shared_array in = {x, in_extents}, out = {y, 0};
  if (shared_run(m, &in, &out, room, bytes)) return 3;
  memcpy(first, y, 4 * 4 * 5);
  pthread_t all[16];
  for (long t = 0; t < 16; ++t) pthread_create(&all[t], 0, work, (void*)(long)(t % 4 == 0));
  for (int t = 0; t < 16; ++t) pthread_join(all[t], 0);
  shared_close(m);
  free(room), free(x), free(y);
  printf("done");
  return 0;
}
)";

}  // namespace

namespace {
struct net_of_threads {
  matrix a = 0.3f * normal<float>(make_key(1), 6, 9), b = 0.3f * normal<float>(make_key(2), 9, 5);
  decltype([](const matrix& x, const matrix& a, const matrix& b) {
    return matrix(softmax(matmul(tanh(matmul(x, a)), b)));
  }) f;
};
}  // namespace

TEST_CASE("sources are compiled by hand; 16 threads and swaps of weights are clean under ThreadSanitizer") {
  const scratch_folder folder;
  const net_of_threads p;
  const exported_library made = export_library(
      p.f, {.name = "shared", .isas = {isa::baseline, isa::avx2}, .form = library_form::source, .folder = folder.path},
      spec<matrix>{{extent("n", 2, 8), 6}}, p.a, p.b);
  CHECK(made.files.size() == 6);
  write_text(folder.path + "/main.c", threads_program);
  const std::string flags =
      " -O1 -g -fno-exceptions -fno-math-errno -fno-trapping-math -ffp-contract=off -fwrapv -fno-strict-aliasing -w "
      "-Wno-psabi -c ";
  const auto build = [&](const std::string& sanitizer) {
    output_of("cd '" + folder.path + "' && g++ -std=c++20 -DSINTER_ISA=baseline -march=x86-64" + flags + sanitizer +
              " shared.cpp -o k0.o && g++ -std=c++20 -DSINTER_ISA=avx2 -march=x86-64-v3" + flags + sanitizer +
              " shared.cpp -o k1.o && gcc -O1 -g " + sanitizer +
              " main.c shared.c k0.o k1.o -o main -lm -lpthread && env -i ./main >said");
    return text_of_file(folder.path + "/said");
  };
  CHECK(build("-fsanitize=address,undefined -fno-sanitize-recover=undefined") == "done");
  CHECK(build("-fsanitize=thread") == "done");
}

TEST_CASE("the processor chooses among instruction sets, and OpenMP's library is needed only where it is asked for") {
  const scratch_folder folder;
  const matrix w = normal<float>(make_key(1), 96, 80);
  const auto f = [&](const matrix& x) { return matrix(tanh(matmul(x, w))); };
  const auto compiled = compile(f);
  const matrix x = normal<float>(make_key(2), 70, 96);
  for (const bool openmp : {false, true}) {
    export_library(f,
                   {.name = "many",
                    .isas = {isa::baseline, isa::avx2, isa::avx512},
                    .threads = openmp ? library_threads::openmp : library_threads::none,
                    .folder = folder.path + (openmp ? "/b" : "/a")},
                   spec<matrix>{{70, 96}});
    const std::string at = folder.path + (openmp ? "/b" : "/a");
    CHECK(contains(output_of("readelf -d '" + at + "/libmany.so'"), "libgomp") == openmp);
    CHECK(!contains(output_of("readelf -d '" + at + "/libmany.so'"), "libstdc++"));
    const loaded_library l(at, "many");
    void* model = nullptr;
    REQUIRE(l.open((at + "/many.weights").c_str(), &model) == 0);
    const environment_value flags("SINTER_CXXFLAGS", flags_for(best_isa()));
    CHECK(run_library(l, model, {x}, {70 * 80 * 4})[0] == bytes_of(matrix(compile(f)(x))));
    l.close(model);
  }
}

TEST_CASE("Python and C++ call a library") {
  const scratch_folder folder;
  const matrix w = normal<float>(make_key(1), 6, 4);
  const auto f = [&](const matrix& x) {
    return std::pair{matrix(matmul(x, w)), tensor<std::int64_t, 1>(argmax(matmul(x, w), axis<1>))};
  };
  export_library(
      f, {.name = "py", .isas = {best_isa()}, .folder = folder.path, .inputs = {"x"}, .outputs = {"scores", "best"}},
      spec<matrix>{{extent("n", 1, 8), 6}});
  write_text(folder.path + "/use.py", R"(
import array
import py
data = array.array("f", [(i * 5 % 7) / 8 - 0.3 for i in range(18)])
scores, best = py.Model().run(((3, 6), data))
assert [s.axes for s in py.inputs] == [["n", 6]] and [s.axes for s in py.outputs] == [["n", 4], ["n"]]
assert py.outputs[0].name == "scores" and "sinter" in py.provenance
rows = scores.tolist() if not hasattr(scores, "dtype") or isinstance(scores.dtype, str) else scores.reshape(-1).tolist()
assert len(rows) == 12
for i, b in enumerate(best.tolist()):
    row = rows[4 * i:4 * i + 4]
    assert row.index(max(row)) == b, (row, b)
try:
    py.Model().run(((9, 6), array.array("f", [0.0] * 54)))
except py.Error as e:
    assert e.code == 5
else:
    assert False
print("done")
)");
  CHECK(contains(output_of("cd '" + folder.path + "' && python3 use.py"), "done"));
  write_text(folder.path + "/use.cpp", R"(
#include <cstdio>
#include "py.hpp"
int main() {
  py::model m("py.weights");
  const std::int64_t n = 2, extents[] = {2, 6};
  const py::buffer x(48), y(32), z(16), room(m.room(&n));
  for (int i = 0; i < 12; ++i) x.as<float>()[i] = 1;
  const py_array in{x.data(), extents};
  py_array out[] = {{y.data(), nullptr}, {z.data(), nullptr}};
  m.run(&in, out, room);
  if (py::model::inputs()[0].rank != 2 || z.as<std::int64_t>()[0] != z.as<std::int64_t>()[1]) return 1;
  try {
    py::model none("nowhere");
  } catch (const py::error& e) {
    std::printf("%d", e.code());
  }
}
)");
  CHECK(output_of("cd '" + folder.path + "' && " + test_paths::cxx +
                  " -std=c++20 -Wall -Wextra -Werror use.cpp -o use -L. -lpy -Wl,-rpath,. && ./use") == "3");
}

TEST_CASE("AArch64's library is compiled by the cross compiler, and runs under qemu") {
  const auto found = [](const std::string& program) {
    return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
  };
  const scratch_folder folder;
  const matrix w = normal<float>(make_key(1), 6, 5);
  const auto f = [&](const matrix& x) { return matrix(softmax(tanh(matmul(x, w)))); };
  const auto write = [&] {
    export_library(f,
                   {.name = "arm", .isas = {isa::aarch64}, .weights = library_weights::inside, .folder = folder.path},
                   spec<matrix>{{3, 6}});
  };
  if (!found("aarch64-linux-gnu-g++")) {
#if !defined(__aarch64__)
    std::string said;
    try {
      write();
    } catch (const system_error& e) {
      said = e.what();
    }
    CHECK(contains(said, "g++-aarch64-linux-gnu"));
#endif
    return;
  }
  write();
  if (!found("qemu-aarch64")) return;
  write_text(folder.path + "/main.c", R"(
#include "arm.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  arm_model* m;
  const int64_t in_extents[] = {3, 6};
  size_t bytes;
  if (arm_open(0, &m) || arm_room(m, 0, &bytes)) return 1;
  float *x = aligned_alloc(64, 128), *y = aligned_alloc(64, 64);
  for (int i = 0; i < 18; ++i) x[i] = (float)(i % 7) / 4 - 1;
  arm_array in = {x, in_extents}, out = {y, 0};
  const int code = arm_run(m, &in, &out, aligned_alloc(64, bytes + 64), bytes);
  if (code) return code;
  for (int i = 0; i < 15; ++i) printf("%.9g ", y[i]);
  arm_close(m);
  return 0;
}
)");
  output_of("cd '" + folder.path + "' && aarch64-linux-gnu-gcc main.c -o main -L. -larm -Wl,-rpath,.");
  std::istringstream said(output_of("cd '" + folder.path + "' && qemu-aarch64 -L /usr/aarch64-linux-gnu ./main"));
  std::vector<float> values;
  for (int i = 0; i < 18; ++i) values.push_back(static_cast<float>(i % 7) / 4 - 1);
  for (const float want : matrix(f(from_span(std::span<const float>(values), 3, 6))).to_vector()) {
    float got = -1;
    said >> got;
    CHECK(got == doctest::Approx(want).epsilon(1e-5));
  }
}
