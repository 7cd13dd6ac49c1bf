// Models from files: reader, names, open axes, derivatives, refusals.
#include <doctest/doctest.h>
#include <sinter/io.hpp>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <sstream>
#include <string>
#include <thread>

#include "../paths.hpp"
#include "../scratch_folder.hpp"
#include "calls.hpp"
#include "model_writer.hpp"

using namespace sinter;
using onnx_test::attribute;
using onnx_test::bytes_of;
using onnx_test::contains;
using onnx_test::message_of;
using onnx_test::node;
using onnx_test::value;

namespace {

const std::vector<float> w_of_mlp{0.5f, -1.f, 0.25f, 1.5f, -0.75f, 2.f}, b_of_mlp{0.1f, -0.2f, 0.3f};

/// tanh(x·w + b), x (N, 2), whose result goes through a reshape that copies N by Shape, Gather and Concat.
std::string mlp() {
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("w", {2, 3}, w_of_mlp), onnx_test::tensor("b", {3}, b_of_mlp),
                    onnx_test::tensor("zero", {}, std::vector<std::int64_t>{0}),
                    onnx_test::tensor("rest", {2}, std::vector<std::int64_t>{3, 1}),
                    onnx_test::tensor("axes", {1}, std::vector<std::int64_t>{0})};
  g.inputs = {value("x", onnx_test::f32, {"N", "2"})};
  g.outputs = {value("y", onnx_test::f32, {"N", "3", "1"})};
  g.nodes = {node("Gemm", {"x", "w", "b"}, {"h"}),
             node("Tanh", {"h"}, {"t"}),
             node("Shape", {"x"}, {"extents"}),
             node("Gather", {"extents", "zero"}, {"rows"}, {attribute("axis", 0)}),
             node("Unsqueeze", {"rows", "axes"}, {"row_list"}),
             node("Concat", {"row_list", "rest"}, {"to"}, {attribute("axis", 0)}),
             node("Reshape", {"t", "to"}, {"y"})};
  return g.model();
}

tensor<float, 2> rows_of_x(std::int64_t n) {
  tensor<float, 2> x = zeros<float>(n, 2);
  for (std::int64_t i = 0; i < n; ++i)
    x(i, 0) = 0.3f * static_cast<float>(i) - 0.5f, x(i, 1) = 0.7f - 0.2f * static_cast<float>(i);
  return x;
}
float expected(float a, float b, int k) {
  const auto j = static_cast<std::size_t>(k);
  return std::tanh(a * w_of_mlp[j] + b * w_of_mlp[3 + j] + b_of_mlp[j]);
}

options reference() {
  options how;
  how.backend = "reference";
  return how;
}

}  // namespace

TEST_CASE("a model runs at batches that its file leaves open, two compilations for all") {
  for (const bool interpreted : {false, true}) {
    const std::string file = mlp();
    const onnx::model m = onnx::load(bytes_of(file), interpreted ? reference() : options());
    CHECK(m.inputs()[0].text() == "x: f32 (N, 2)");
    CHECK(m.outputs()[0].text() == "y: f32 (N, 3, 1)");
    CHECK(m.weights().size() == 2);
    for (const std::int64_t n : {1, 2, 5, 7}) {
      const tensor<float, 2> x = rows_of_x(n);
      const auto y = m({x})[0].as<tensor<float, 3>>();
      REQUIRE(y.size(0) == n);
      for (std::int64_t i = 0; i < n; ++i)
        for (int k = 0; k < 3; ++k) CHECK(y(i, k, 0) == doctest::Approx(expected(x(i, 0), x(i, 1), k)).epsilon(1e-5));
    }
    CHECK(m.specialisations() <= 2);
    const auto named = m(onnx::tensor_map{{"x", rows_of_x(2)}});
    CHECK(named.at("y").text() == "f32 (2, 3, 1)");
  }
}

TEST_CASE("a model is traced within a compiled function, and differentiated by its weights") {
  const std::string file = mlp();
  const onnx::model m = onnx::load(bytes_of(file));
  const auto loss = [&](const onnx::tensor_map& w, const tensor<float, 2>& x) {
    const auto y = m(w, {x})[0].as<tensor<float, 3>>();
    return mean(square(y - 0.25f));
  };
  auto step = compile([&](const onnx::tensor_map& w, const tensor<float, 2>& x) {
    auto [l, g] = value_and_grad(loss)(w, x);
    return std::tuple{l, g,
                      tree_map([](const dynamic_tensor& p, const dynamic_tensor& d) { return p - 0.5 * d; }, w, g)};
  });
  const tensor<float, 2> x = rows_of_x(4);
  onnx::tensor_map w = m.weights();
  auto [l, g, next] = step(w, x);
  const auto of_w = g.at("w").as<tensor<float, 2>>();
  const float eps = 1e-2f;
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 3; ++k) {
      const auto moved = [&](float by) {
        tensor<float, 2> v = from_span(w_of_mlp, 2, 3);
        v(i, k) += by;
        onnx::tensor_map other = w;
        other["w"] = v;
        return std::get<0>(step(other, x)).item();
      };
      CHECK(of_w(i, k) == doctest::Approx((moved(eps) - moved(-eps)) / (2 * eps)).epsilon(0.02));
    }
  const float before = l.item();
  float after = before;
  for (int k = 0; k < 10; ++k) {
    auto [now, unused, more] = step(next, x);
    CHECK(now.item() < after);
    after = now.item();
    next = more;
  }
  const auto squares = m.square_gradients({x});
  CHECK(squares.weights.at("w").text() == "f32 (2, 3)");
  CHECK(squares.inputs[0].text() == "f32 (4, 2)");
}

TEST_CASE("a tensor of run-time dtype converts both ways, and a typed function checks what it is made for") {
  const dynamic_tensor d = tensor<float, 2>{{1, 2}, {3, 4}};
  CHECK(d.text() == "f32 (2, 2)");
  CHECK(d.as<tensor<float, 2>>()(1, 0) == 3);
  CHECK(contains(message_of([&] { d.as<tensor<double, 2>>(); }), "it holds f32 (2, 2), asked for is f64 of rank 2"));
  CHECK(contains(message_of([&] { d.as<tensor<float, 1>>(); }), "asked for is f32 of rank 1"));
  CHECK(contains(message_of([&] { dynamic_tensor().as<tensor<float, 1>>(); }), "default-constructed"));
  const std::string file = mlp();
  const onnx::model m = onnx::load(bytes_of(file), reference());
  const onnx::function<tensor<float, 3>(tensor<float, 2>)> f(m, {.inputs = {"x"}, .outputs = {"y"}});
  CHECK(f(rows_of_x(2)).size(0) == 2);
  using wrong_rank = onnx::function<tensor<float, 2>(tensor<float, 2>)>;
  CHECK(contains(message_of([&] { wrong_rank g(m); }), "is f32 of rank 2, the model's is y: f32 (N, 3, 1)"));
  using wrong_count = onnx::function<tensor<float, 3>(tensor<float, 2>, tensor<float, 2>)>;
  CHECK(contains(message_of([&] { wrong_count g(m); }), "2 arguments and the model has 1"));
  CHECK(contains(message_of([&] { onnx::function<tensor<float, 3>(tensor<float, 2>)> g(m, {.inputs = {"z"}}); }),
                 "the model has no arguments 'z'"));
  CHECK(contains(message_of([&] { m({tensor<double, 2>{{1, 2}}}); }), "the input x: f32 (N, 2) is given f64 (1, 2)"));
  CHECK(contains(message_of([&] { m({tensor<float, 2>{{1, 2, 3}}}); }), "is given f32 (1, 3)"));
}

TEST_CASE("a grid that is where the elements are gives them; a state adds up what came before") {
  onnx_test::graph g;
  g.initializers = {onnx_test::tensor("theta", {1, 2, 3}, std::vector<float>{1, 0, 0, 0, 1, 0}),
                    onnx_test::tensor("size", {4}, std::vector<std::int64_t>{1, 1, 3, 4})};
  g.inputs = {value("x", onnx_test::f32, {"1", "1", "3", "4"}), value("q", onnx_test::f32, {"1", "3", "2"}),
              value("k", onnx_test::f32, {"1", "3", "2"}), value("v", onnx_test::f32, {"1", "3", "1"})};
  g.outputs = {value("y", onnx_test::f32, {"1", "1", "3", "4"}), value("o", onnx_test::f32, {"1", "3", "1"})};
  g.nodes = {node("AffineGrid", {"theta", "size"}, {"grid"}), node("GridSample", {"x", "grid"}, {"y"}),
             node("LinearAttention", {"q", "k", "v"}, {"o", "state"},
                  {attribute("q_num_heads", 1), attribute("kv_num_heads", 1),
                   onnx_test::attribute_text("update_rule", "linear")})};
  const std::string file = g.model();
  const tensor<float, 4> x = normal<float>(make_key(1), 1, 1, 3, 4);
  const tensor<float, 3> q = normal<float>(make_key(2), 1, 3, 2), k = normal<float>(make_key(3), 1, 3, 2),
                         v = normal<float>(make_key(4), 1, 3, 1);
  for (const bool interpreted : {false, true}) {
    const onnx::model m = onnx::load(bytes_of(file), interpreted ? reference() : options());
    const auto all = m({x, q, k, v});
    CHECK(allclose(all[0].as<tensor<float, 4>>(), x, 1e-5, 1e-6).item());
    const auto o = all[1].as<tensor<float, 3>>();
    for (int t = 0; t < 3; ++t) {
      float sum = 0;
      for (int s = 0; s <= t; ++s) sum += (q(0, t, 0) * k(0, s, 0) + q(0, t, 1) * k(0, s, 1)) * v(0, s, 0);
      CHECK(o(0, t, 0) == doctest::Approx(sum / std::sqrt(2.f)).epsilon(1e-4));
    }
  }
}

TEST_CASE("what cannot be is refused at load, every node of it") {
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::f32, {"2"})};
  g.outputs = {value("z", onnx_test::f32, {"2"})};
  g.nodes = {node("Frobnicate", {"x"}, {"y"}), node("Relu", {"y"}, {"v"}), node("Tweak", {"v"}, {"z"})};
  const std::string said = message_of([&] { onnx::load(bytes_of(g.model())); });
  CHECK(
      contains(said, "2 nodes have no operator here: Frobnicate (node 'Frobnicate_of_y'), Tweak (node 'Tweak_of_z')"));
  g.nodes = {node("Relu", {"nothing"}, {"z"})};
  const onnx::model m = onnx::load(bytes_of(g.model()), reference());
  CHECK(contains(message_of([&] {
                   m({tensor<float, 1>{1, 2}});
                 }),
                 "node 'Relu_of_z' (Relu): its input 'nothing' is made by no node"));
}

TEST_CASE("external data stays below the model's folder") {
  for (const char* name : {"../secret", "/etc/passwd", "a/../../b"}) {
    onnx_test::message t;
    t.number(1, 2).number(2, onnx_test::f32).text(8, "w").number(14, 1);
    t.part(13, onnx_test::message().text(1, "location").text(2, name));
    onnx_test::graph g;
    g.initializers = {t};
    g.inputs = {value("x", onnx_test::f32, {"2"})};
    g.outputs = {value("y", onnx_test::f32, {"2"})};
    g.nodes = {node("Add", {"x", "w"}, {"y"})};
    const onnx::model m = onnx::load(bytes_of(g.model()), reference());
    CHECK(contains(message_of([&] { m({tensor<float, 1>{1, 2}}); }), "which is not below the model's folder"));
  }
}

namespace {

/// y = x + w, w of two elements in another file; an initialiser, or at place 1 a constant.
std::string with_external(const std::string& location, int place = 0) {
  onnx_test::message t;
  t.number(1, 2).number(2, onnx_test::f32).text(8, "w").number(14, 1);
  t.part(13, onnx_test::message().text(1, "location").text(2, location));
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::f32, {"2"})};
  g.outputs = {value("y", onnx_test::f32, {"2"})};
  if (place == 0) g.initializers = {t};
  else g.nodes = {node("Constant", {}, {"w"}, {onnx_test::message().text(1, "value").part(5, t).number(20, 4)})};
  g.nodes.push_back(node("Add", {"x", "w"}, {"y"}));
  return g.model();
}

/// The result for {1, 2}, or what is said instead.
std::string sum_of(const std::function<onnx::model()>& load) {
  std::string out;
  const std::string said = message_of([&] {
    const auto y = load()({tensor<float, 1>{1, 2}})[0].as<tensor<float, 1>>();
    out = std::to_string(static_cast<int>(y(0))) + " " + std::to_string(static_cast<int>(y(1)));
  });
  return said + out;
}

}  // namespace

TEST_CASE("a model in memory has no folder; where its files are is said beside it") {
  const scratch_folder here;
  const float w[] = {10, 20};
  std::ofstream(here.path + "/w.bin", std::ios::binary).write(reinterpret_cast<const char*>(w), sizeof w);
  // The file is there, below the process's working folder, and is not read.
  const std::string before = std::filesystem::current_path().string();
  std::filesystem::current_path(here.path);
  for (const int place : {0, 1}) {
    const std::string file = with_external("w.bin", place);
    const std::string said = message_of([&] { onnx::load(bytes_of(file), reference()); });
    CHECK(contains(said, "the tensor 'w' is in the file 'w.bin', and a model in memory has no folder"));
    CHECK(contains(said, "onnx::load(bytes, \"folder\")"));
    CHECK(message_of([&] { onnx::load(bytes_of(file), {}); }) == message_of([&] { onnx::load(bytes_of(file)); }));
    for (const std::string& folder :
         {here.path, std::string("."), here.path + "/", here.path + "/../" + here.path.substr(5)})
      CHECK(sum_of([&] { return onnx::load(bytes_of(file), folder, reference()); }) == "11 22");
    CHECK(sum_of([&] { return onnx::load(bytes_of(file), ".", {}); }) == "11 22");
    CHECK(sum_of([&] { return onnx::load(bytes_of(file), std::filesystem::path(here.path)); }) == "11 22");
    CHECK(contains(message_of([&] { onnx::load(bytes_of(file), ""); }), "the folder's name is empty"));
    CHECK(contains(sum_of([&] { return onnx::load(bytes_of(file), here.path + "/none"); }), "w.bin: cannot be opened"));
  }
  // Neither leads another folder anywhere else.
  std::filesystem::create_directory(here.path + "/deep");
  std::filesystem::create_symlink(here.path + "/w.bin", here.path + "/deep/link.bin");
  CHECK(contains(
      sum_of([&] { return onnx::load(bytes_of(with_external("link.bin")), here.path + "/deep", reference()); }),
      "which is not below the model's folder"));
  CHECK(contains(
      sum_of([&] { return onnx::load(bytes_of(with_external("../w.bin")), here.path + "/deep", reference()); }),
      "which is not below the model's folder"));
  std::filesystem::current_path(before);
}

TEST_CASE("external data is a regular file, whatever else there is of its name; a model may be a pipe") {
  const scratch_folder here;
  std::ofstream(here.path + "/m.onnx", std::ios::binary) << with_external("w");
  const auto said = [&] { return sum_of([&] { return onnx::load(here.path + "/m.onnx", reference()); }); };
  const std::string w = here.path + "/w";
  REQUIRE(::mkfifo(w.c_str(), 0600) == 0);
  CHECK(contains(said(), "w: is a pipe; what a file or a folder names must be a regular file"));
  std::filesystem::remove(w);
  if (::mknod(w.c_str(), S_IFCHR | 0600, 0x105) == 0) {  // as /dev/zero
    CHECK(contains(said(), "w: is a device; what a file or a folder names must be a regular file"));
    std::filesystem::remove(w);
  }
  std::filesystem::create_directory(w);
  CHECK(contains(said(), "w: is a folder, not a file"));
  std::filesystem::remove(w);
  CHECK(contains(said(), "w: cannot be opened: No such file"));
  std::filesystem::create_symlink("/dev/zero", w);
  CHECK(contains(said(), "which is not below the model's folder"));
  for (const char* device : {"/dev/zero", "/dev/urandom"})
    for (const auto& read : std::initializer_list<std::function<void()>>{
             [&] { onnx::load(device); }, [&] { onnx::read_tensor(device); }, [&] { onnx::read_value(device, {}); }})
      CHECK(contains(message_of(read), "is a device, whose data may have no end"));
  const std::string pipe = here.path + "/pipe", file = mlp();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(pipe, std::ios::binary) << file; });
  const onnx::model m = onnx::load(pipe, reference());
  writer.join();
  CHECK(m.inputs().size() == 1);
}

TEST_CASE("a damaged file is an error that says so") {
  const std::string file = mlp();
  int refused = 0;
  for (std::size_t n = 0; n < file.size(); n += 3)
    refused += !message_of([&] { onnx::load(bytes_of(file.substr(0, n))); }).empty();
  CHECK(refused > 0);
  const tensor<float, 2> x = rows_of_x(2);
  std::uint64_t state = 88172645463325252u;
  for (int k = 0; k < 400; ++k) {
    std::string other = file;
    for (int flips = 0; flips < 3; ++flips) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      other[static_cast<std::size_t>(state % other.size())] ^= static_cast<char>(1u << (state >> 40 & 7));
    }
    static_cast<void>(message_of([&] {
      const onnx::model m = onnx::load(bytes_of(other), reference());
      if (m.inputs().size() == 1) m({x});
    }));
  }
}

TEST_CASE("weights lie anywhere in a file, are copied once, and go into files of their own") {
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::f32, {"64"})};
  g.outputs = {value("y", onnx_test::f32, {"64"})};
  std::string last = "x";
  const std::vector<std::string> names{"w", "ww", "www", "wwww", "wwwww", "short"};
  for (std::size_t k = 0; k < names.size(); ++k) {
    const bool shorter = names[k] == "short";
    std::vector<float> w(shorter ? 1 : 64);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(100 * k + i);
    g.initializers.push_back(onnx_test::tensor(names[k], {static_cast<std::int64_t>(w.size())}, w));
    const std::string next = k + 1 == names.size() ? "y" : "h" + std::to_string(k);
    g.nodes.push_back(node("Add", {last, names[k]}, {next}));
    last = next;
  }
  const onnx::model m = onnx::load(bytes_of(g.model()), reference());
  const onnx::tensor_map before = m.weights();
  const auto y = m({zeros<float>(64)})[0].as<tensor<float, 1>>();
  for (std::int64_t i = 0; i < 64; ++i) CHECK(y(i) == static_cast<float>(5 * i + 1500));
  const std::string path = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + "/sinter_weights_" +
                           std::to_string(::getpid()) + ".safetensors";
  io::save(path, m.weights());
  const auto again = io::load<onnx::tensor_map>(path);
  onnx::tensor_map there = before;
  there["w"] = tensor<float, 1>(zeros<float>(64));
  io::load(path, there);
  CHECK(again.size() == names.size());
  for (const onnx::tensor_map* of : {&before, &again, &std::as_const(there)})
    for (std::size_t k = 0; k < names.size(); ++k) {
      const auto w = of->at(names[k]).as<tensor<float, 1>>();
      for (std::int64_t i = 0; i < w.size(0); ++i) CHECK(w(i) == static_cast<float>(100 * k) + static_cast<float>(i));
    }
  there["w"] = tensor<float, 1>(zeros<float>(3));
  CHECK(contains(message_of([&] { io::load(path, there); }), "w: it holds f32 (64,), asked for is f32 (3,)"));
  std::remove(path.c_str());
}

TEST_CASE("of a file whose weights lie unaligned, pages leave memory when they are copied") {
  onnx_test::graph g;
  g.inputs = {value("x", onnx_test::f32, {"n"})};
  g.outputs = {value("y", onnx_test::f32, {"n"})};
  g.nodes = {node("Relu", {"x"}, {"y"})};
  const std::vector<std::string> names{"w", "ww", "www", "wwww"};  // one is aligned at most
  std::vector<float> w(1 << 19);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
  for (const auto& name : names) g.initializers.push_back(onnx_test::tensor(name, {1 << 19}, w));
  const std::string path = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + "/sinter_unaligned_" +
                           std::to_string(::getpid()) + ".onnx";
  std::ofstream(path, std::ios::binary) << g.model();
  const onnx::model m = onnx::load(path, reference());
  const onnx::tensor_map all = m.weights();
  REQUIRE(all.size() == names.size());
  for (const auto& name : names) {
    const auto there = all.at(name).as<tensor<float, 1>>();
    for (const std::int64_t i : {0, 1, 1023, 1024, (1 << 19) - 1}) CHECK(there(i) == static_cast<float>(i));
  }
  // Kilobytes of the mapping in memory: a line of the kernel's after the one that names the file.
  std::ifstream maps("/proc/self/smaps");
  std::size_t resident = 0, found = 0;
  bool mine = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("Size:") == std::string::npos && line.find('-') < line.find(' ')) mine = line.ends_with(path);
    if (mine && line.starts_with("Rss:")) resident += std::stoul(line.substr(4)), ++found;
  }
  CHECK(found > 0);
  CHECK(resident < 3 << 10);  // of 8 MiB
  std::remove(path.c_str());
}

TEST_CASE("docs/onnx.md lists the operators that there are") {
  std::ifstream in(std::string(test_paths::data) + "/../docs/onnx.md");
  std::stringstream text;
  text << in.rdbuf();
  std::string table;
  for (const auto& o : onnx::operators())
    table += "| `" + (o.domain.empty() ? "" : o.domain + ".") + o.name + "` | " + std::to_string(o.since) + " | " +
             o.how + " |\n";
  const bool same = contains(text.str(), table.c_str());
  if (!same) std::fprintf(stderr, "the table of docs/onnx.md should be:\n%s", table.c_str());
  CHECK(same);
}
