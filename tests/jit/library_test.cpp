// Exported libraries: their calls give the bits of the compiled function, their codes, weights, sizes, loops, and what they need.
#include <atomic>
#include <limits>
#include <thread>

#include <doctest/doctest.h>

#include "../environment_value.hpp"
#include "../paths.hpp"
#include "../scratch_folder.hpp"
#include "library.hpp"

using namespace sinter;

namespace {

using matrix = tensor<float, 2>;
using vec = tensor<float, 1>;

struct layer {
  matrix w;
  vec b;
};
struct net {
  layer first, second;
};

net net_of(std::uint64_t seed, std::int64_t in = 48, std::int64_t hidden = 33, std::int64_t out = 10) {
  const auto key = [&](std::uint64_t k) { return make_key(seed * 16 + k); };
  return {{matrix(0.3f * normal<float>(key(1), in, hidden)), vec(0.1f * normal<float>(key(2), hidden))},
          {matrix(0.3f * normal<float>(key(3), hidden, out)), vec(0.1f * normal<float>(key(4), out))}};
}

matrix answer(const matrix& x, const net& p) {
  const matrix h = tanh(matmul(x, p.first.w) + p.first.b);
  return softmax(matmul(h, p.second.w) + p.second.b);
}

const auto mlp = [](const matrix& x, const net& p) { return answer(x, p); };

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

/// A model that closes itself.
struct model_of {
  model_of(const loaded_library& l, const char* weights) : library(l) {
    if (const int code = l.open(weights, &at)) throw std::runtime_error(l.error(code));
  }
  ~model_of() { library.close(at); }
  model_of(const model_of&) = delete;
  const loaded_library& library;
  void* at = nullptr;
};

/// The libraries that a shared object needs.
std::vector<std::string> needed(const std::string& path) {
  std::vector<std::string> out;
  const std::string text = output_of("readelf -d '" + path + "'");
  for (std::size_t at = 0; (at = text.find("Shared library: [", at)) != std::string::npos;) {
    at += 17;
    out.push_back(text.substr(at, text.find(']', at) - at));
  }
  return out;
}

}  // namespace

TEST_CASE("a library of fixed sizes gives the bits of the compiled function, and needs the C library alone") {
  const scratch_folder folder;
  const isa best = best_isa();
  const environment_value flags("SINTER_CXXFLAGS", flags_for(best));
  const net p = net_of(1);
  const exported_library made = export_library(
      mlp, {.name = "mlp", .isas = {best}, .folder = folder.path, .inputs = {"x", "net"}}, spec<matrix>{{5, 48}}, p);
  CHECK(made.files.size() == 5);
  CHECK(made.programs == 1);
  CHECK(made.weight_bytes >= 4 * (48 * 33 + 33 + 330 + 10));
  const std::string path = folder.path + "/libmlp.so";
  CHECK(std::filesystem::file_size(path) <= 100'000);
  for (const std::string& n : needed(path))
    CHECK_MESSAGE((n == "libc.so.6" || n == "libm.so.6" || n == "libmvec.so.1"), n);

  const loaded_library l(folder.path, "mlp");
  const c_spec *in = nullptr, *out = nullptr;
  REQUIRE(l.inputs(&in) == 1);
  REQUIRE(l.outputs(&out) == 1);
  CHECK(std::string(in[0].name) == "x");
  CHECK(in[0].dtype == static_cast<int>(dtype::f32));
  CHECK(in[0].rank == 2);
  CHECK(std::string(in[0].axes[0]) == "5");
  CHECK(std::string(out[0].axes[1]) == "10");
  CHECK(contains(l.provenance(), "graph "));
  CHECK(l.provenance() == made.provenance);

  const model_of m(l, (folder.path + "/mlp.weights").c_str());
  const auto compiled = compile(mlp);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const matrix x = normal<float>(make_key(100 + seed), 5, 48);
    CHECK(run_library(l, m.at, {x}, {200})[0] == bytes_of(matrix(compiled(x, p))));
  }
  // NaN and infinities pass.
  matrix odd = normal<float>(make_key(7), 5, 48);
  odd = odd.at(1, 2).set(std::numeric_limits<float>::quiet_NaN());
  odd = odd.at(3, 4).set(std::numeric_limits<float>::infinity());
  CHECK(run_library(l, m.at, {odd}, {200})[0] == bytes_of(matrix(compiled(odd, p))));
}

TEST_CASE("a wrong call is a code") {
  const scratch_folder folder;
  const net p = net_of(2);
  export_library(mlp, {.name = "mlp", .isas = {best_isa()}, .folder = folder.path},
                 spec<matrix>{{extent("n", 1, 9), 48}}, p);
  const loaded_library l(folder.path, "mlp");
  const std::string weights = folder.path + "/mlp.weights";
  void* model = nullptr;
  CHECK(l.open(nullptr, &model) == 1);
  CHECK(l.open(weights.c_str(), nullptr) == 1);
  CHECK(l.open((folder.path + "/none").c_str(), &model) == 3);
  CHECK(l.open(folder.path.c_str(), &model) == 4);
  const std::string bytes = text_of_file(weights);
  for (const std::string& damaged :
       {bytes.substr(0, bytes.size() - 1), std::string(bytes).replace(20, 1, "?"), std::string()}) {
    write_text(folder.path + "/damaged", damaged);
    CHECK(l.open((folder.path + "/damaged").c_str(), &model) == 4);
  }
  CHECK(model == nullptr);
  const model_of m(l, weights.c_str());
  const std::int64_t zero[] = {0}, four[] = {4}, ten[] = {10}, shape[] = {4, 48}, wide[] = {4, 49},
                     long_one[] = {10, 48}, negative[] = {-4, 48}, result[] = {4, 10}, other[] = {4, 11};
  std::size_t need = 0;
  CHECK(l.room(m.at, zero, &need) == 5);
  CHECK(l.room(m.at, ten, &need) == 5);
  CHECK(l.room(m.at, nullptr, &need) == 1);
  REQUIRE(l.room(m.at, four, &need) == 0);
  const block x(4 * 48 * 4), y(4 * 10 * 4), room(need);
  std::memset(x.data(), 0, x.size());
  const auto run = [&](c_array in, c_array out, void* at, std::size_t size) {
    return l.run(m.at, &in, &out, at, size);
  };
  const c_array good_in{x.data(), shape}, good_out{y.data(), result};
  CHECK(run(good_in, good_out, room.data(), need) == 0);
  CHECK(run({x.data(), wide}, good_out, room.data(), need) == 5);
  CHECK(run({x.data(), long_one}, good_out, room.data(), need) == 5);
  CHECK(run({x.data(), negative}, good_out, room.data(), need) == 5);
  CHECK(run({x.data(), nullptr}, good_out, room.data(), need) == 5);
  CHECK(run(good_in, {y.data(), other}, room.data(), need) == 5);
  CHECK(run({nullptr, shape}, good_out, room.data(), need) == 1);
  CHECK(run({static_cast<char*>(x.data()) + 4, shape}, good_out, room.data(), need) == 6);
  CHECK(run(good_in, good_out, static_cast<char*>(room.data()) + 8, need) == 6);
  CHECK(run(good_in, {x.data(), result}, room.data(), need) == 7);
  CHECK(run(good_in, good_out, x.data(), need) == (need > 0 ? 7 : 0));
  CHECK(run(good_in, good_out, room.data(), need - 1) == 8);
  CHECK(run(good_in, good_out, nullptr, need) == 8);
  CHECK(l.run(nullptr, &good_in, nullptr, nullptr, 0) == 1);
  for (int code = -1; code < 12; ++code) CHECK(std::string(l.error(code)) != "");
}

TEST_CASE("open sizes: each in its bounds gives the bits of the compiled function for that size") {
  const scratch_folder folder;
  const isa best = best_isa();
  const environment_value flags("SINTER_CXXFLAGS", flags_for(best));
  const net p = net_of(3);
  const exported_library made = export_library(mlp, {.name = "mlp", .isas = {best}, .folder = folder.path},
                                               spec<matrix>{{extent("n", 0, 40), 48}}, p);
  CHECK(made.programs >= 2);
  CHECK(made.programs <= 4);
  const loaded_library l(folder.path, "mlp");
  const model_of m(l, (folder.path + "/mlp.weights").c_str());
  const c_spec* out = nullptr;
  l.outputs(&out);
  CHECK(std::string(out[0].axes[0]) == "n");
  const auto compiled = compile(mlp);
  compiled.precompile(spec<matrix>{{extent("n", 2, 40), 48}}, p);
  std::size_t before = 0;
  for (const std::int64_t n : {0, 1, 2, 3, 17, 39, 40}) {
    matrix x = normal<float>(make_key(static_cast<std::uint64_t>(n)), n, 48);
    if (n > 1) mark_dynamic(x, 0, {2, 40});
    const auto size = static_cast<std::size_t>(n);
    CHECK_MESSAGE(run_library(l, m.at, {x}, {40 * size}, {n})[0] == bytes_of(matrix(compiled(x, p))), n);
    std::size_t need = 0;
    REQUIRE(l.room(m.at, &n, &need) == 0);
    if (n > 2) CHECK(need >= before);
    before = need;
  }
}

TEST_CASE("two open sizes, a reshape that multiplies them, and guards") {
  const scratch_folder folder;
  const isa best = best_isa();
  const environment_value flags("SINTER_CXXFLAGS", flags_for(best));
  const auto f = [](const tensor<float, 3>& x, const matrix& y) {
    const auto n = x.shape()[0], m = x.shape()[1];
    const matrix flat = reshape(x, n * m, x.shape()[2]);
    return std::pair{matrix(matmul(flat, y) + 1.f), vec(sum(exp(flat), axis<1>) * (n > 5 ? 2.f : 3.f))};
  };
  const exported_library made = export_library(f, {.name = "two", .isas = {best}, .folder = folder.path},
                                               spec<tensor<float, 3>>{{extent("n", 1, 12), extent("m", 2, 9), 6}},
                                               spec<matrix>{{6, extent("k", 2, 70)}});
  CHECK(made.programs >= 3);
  const loaded_library l(folder.path, "two");
  const model_of m(l, nullptr);
  const c_spec* out = nullptr;
  l.outputs(&out);
  CHECK(std::string(out[0].axes[0]) == "n*m");
  CHECK(std::string(out[0].axes[1]) == "k");
  const auto compiled = compile(f);
  for (const std::int64_t least : {2, 6})
    compiled.precompile(spec<tensor<float, 3>>{{extent("n", least, 12), extent("m", 2, 9), 6}},
                        spec<matrix>{{6, extent("k", 2, 70)}});
  for (const std::int64_t n : {1, 2, 5, 6, 12})
    for (const std::int64_t k : {2, 69}) {
      const tensor<float, 3> x = normal<float>(make_key(1), n, std::int64_t{9}, std::int64_t{6});
      const matrix y = normal<float>(make_key(2), std::int64_t{6}, k);
      const auto [a, b] = compiled(x, y);
      const auto got = run_library(l, m.at, {x, y},
                                   {static_cast<std::size_t>(36 * n * k), static_cast<std::size_t>(36 * n)}, {n, 9, k});
      CHECK_MESSAGE(got[0] == bytes_of(a), n);
      CHECK_MESSAGE(got[1] == bytes_of(b), n);
    }
}

TEST_CASE("with open sizes, weights that are views are read as they lie in the library") {
  const auto f = [](const matrix& x, const matrix& w) { return matrix(matmul(x, w) + 1.f); };
  const matrix whole = round(normal<float>(make_key(5), 6, 8) * 4.f);  // sums of whole numbers have equal bits
  const matrix turned = transpose(whole), part = slice<1>(whole, 2, 7);
  const auto compiled = compile(f);
  for (const matrix& w : {turned, part}) {
    const scratch_folder folder;
    const std::int64_t inner = w.shape()[0], outer = w.shape()[1];
    export_library(f, {.name = "view", .isas = {best_isa()}, .folder = folder.path},
                   spec<matrix>{{extent("n", 1, 9), inner}}, w);
    const loaded_library l(folder.path, "view");
    const model_of m(l, (folder.path + "/view.weights").c_str());
    for (const std::int64_t n : {1, 2, 9}) {
      const matrix x = round(normal<float>(make_key(static_cast<std::uint64_t>(n)), n, inner) * 4.f);
      const auto bytes = static_cast<std::size_t>(4 * n * outer);
      CHECK_MESSAGE(run_library(l, m.at, {x}, {bytes}, {n})[0] == bytes_of(matrix(compiled(x, w))), n);
    }
  }
}

TEST_CASE("results whose extents follow the sizes in several ways are refused, and so are passes") {
  const scratch_folder folder;
  const auto refused = [&](const auto& f) {
    try {
      export_library(f, {.name = "odd", .isas = {best_isa()}, .folder = folder.path},
                     spec<matrix>{{extent("n", 1, 40), 3}});
    } catch (const user_error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const auto f = [](const matrix& x) {
    if (x.shape()[0] > 30) return matrix(slice<0>(x, 0, 2));
    return matrix(x * 2.f);
  };
  CHECK_MESSAGE(contains(refused(f), "of results depend on the sizes in another way for n = "), refused(f));
  const auto doubled = [](const matrix& x) { return matrix(x * 2.f); };
  const auto passed = compile(doubled, {.passes = {{"same", "1", [](const graph& g) { return g; }}}});
  CHECK_MESSAGE(contains(refused(passed), "passes of its own"), refused(passed));
}

TEST_CASE("weights lie inside, beside or are given; swap replaces them while calls run") {
  const scratch_folder a, b, c;
  const isa best = best_isa();
  const net p = net_of(4), q = net_of(5);
  const matrix x = normal<float>(make_key(9), 5, 48);
  const auto write = [&](const std::string& folder, const net& net, library_weights where) {
    return export_library(mlp, {.name = "mlp", .isas = {best}, .weights = where, .folder = folder},
                          spec<matrix>{{5, 48}}, net);
  };
  write(a.path, p, library_weights::inside);
  write(b.path, q, library_weights::beside);
  CHECK(!std::filesystem::exists(a.path + "/mlp.weights"));
  const loaded_library inside(a.path, "mlp"), beside(b.path, "mlp");
  const model_of m(inside, nullptr), n(beside, (b.path + "/mlp.weights").c_str());
  const std::string old = run_library(inside, m.at, {x}, {200})[0], fresh = run_library(beside, n.at, {x}, {200})[0];
  CHECK(old != fresh);
  CHECK(inside.swap(m.at, nullptr) == 1);
  CHECK(inside.swap(m.at, "/nonexistent") == 3);
  std::atomic<bool> over{false};
  std::atomic<int> of_old{0}, of_fresh{0}, of_none{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      while (!over) {
        const std::string got = run_library(inside, m.at, {x}, {200})[0];
        ++(got == old ? of_old : got == fresh ? of_fresh : of_none);
      }
    });
  for (int k = 0; k < 20; ++k) CHECK(inside.swap(m.at, (b.path + "/mlp.weights").c_str()) == 0);
  while (of_fresh == 0) std::this_thread::yield();
  over = true;
  for (auto& t : threads) t.join();
  CHECK(of_none == 0);
  CHECK(run_library(inside, m.at, {x}, {200})[0] == fresh);

  write(c.path, p, library_weights::given);
  const loaded_library given(c.path, "mlp");
  const c_spec* in = nullptr;
  REQUIRE(given.inputs(&in) == 5);
  CHECK(std::string(in[1].name) == "in1.first.w");
  const model_of g(given, nullptr);
  CHECK(run_library(given, g.at, {x, q.first.w, q.first.b, q.second.w, q.second.b}, {200})[0] == fresh);
  CHECK(given.swap(g.at, (b.path + "/mlp.weights").c_str()) == 1);
}

TEST_CASE("bounds whose memory has no number are refused") {
  const auto f = [](tensor<double, 1> x) { return exp(x) + sum(cumsum(x)); };
  for (const std::int64_t most :
       {(std::int64_t{1} << 61) - 1, std::int64_t{1} << 61, std::numeric_limits<std::int64_t>::max()}) {
    std::string why;
    try {
      export_library(f, {.name = "f", .only_check = true}, spec<tensor<double, 1>>{{extent("n", 1, most)}});
    } catch (const user_error& e) {
      why = e.what();
    }
    CHECK(why.find("give smaller bounds") != std::string::npos);
  }
  // Rows of another size are sorted in another way, and both sizes are large there.
  const std::int64_t most = std::int64_t{1} << 40;
  CHECK_THROWS_WITH_AS(
      export_library([](const tensor<double, 2>& x) { return sort(x, axis<1>); }, {.name = "f", .only_check = true},
                     spec<tensor<double, 2>>{{extent("n", 1, most), extent("m", 1, most)}}),
      doctest::Contains("give smaller bounds"), user_error);
}
