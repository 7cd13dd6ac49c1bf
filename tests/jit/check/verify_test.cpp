// verify and minimize, on faults planted by a compiler that edits what it is given, and on functions without one.
#include <sys/stat.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../environment_value.hpp"
#include "../../paths.hpp"
#include "../../texts.hpp"

using namespace sinter;
using texts::contains;

namespace {

using outcome = verification::outcome;

int shell(const std::string& command) { return std::system(command.c_str()); }

std::string temporary_folder() {
  std::string path = "/tmp/sinter-verify-XXXXXX";
  REQUIRE(::mkdtemp(path.data()) != nullptr);
  return path;
}

/// A compiler that treats each kernel with a shell command, whose file is $kernel, in place of the usual one.
class faulty_compiler {
 public:
  explicit faulty_compiler(const std::string& treat) : folder_(temporary_folder()) {
    const std::string path = folder_ + "/c++";
    std::ofstream(path) << "#!/bin/sh\n[ \"$1\" = --version ] && exec " << test_paths::cxx
                        << " --version\nfor kernel; do\n  case \"$kernel\" in\n"
                           "    */kernel.cpp) "
                        << treat << " ;;\n  esac\ndone\nexec " << test_paths::cxx << " \"$@\"\n";
    ::chmod(path.c_str(), 0755);
    chosen_.emplace("SINTER_CXX", path);
  }
  faulty_compiler(const faulty_compiler&) = delete;
  faulty_compiler& operator=(const faulty_compiler&) = delete;
  ~faulty_compiler() { std::filesystem::remove_all(folder_); }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  std::optional<environment_value> chosen_;
};

constexpr const char* wrong_tanh = "sed -i 's/= tanh(\\(v[0-9]*\\));/= tanh(\\1) * 1.01f;/' \"$kernel\"";
constexpr const char* no_tanh = "grep -q '= tanh(v' \"$kernel\" && { echo 'no tanh today' >&2; exit 1; }";

/// Builds the program that minimize() wrote, and returns its exit status; what it printed is in folder/out.
int run_program(const std::string& source, const std::string& folder) {
  std::ofstream(folder + "/found.cpp") << source;
  const std::string root = test_paths::data + "/..";
  REQUIRE(shell(test_paths::cxx + " " + test_paths::cxx_flags +
                " -std=c++20 -Wall -Wextra -Werror -DSINTER_COMPILED -I" + root + "/include " + folder + "/found.cpp " +
                test_paths::library + " -fopenmp -lpthread -ldl -o " + folder + "/found") == 0);
  return shell(folder + "/found > " + folder + "/out 2>&1") >> 8;
}

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

tensor<float, 2> matrix(std::int64_t rows, std::int64_t columns) {
  return reshape(cos(arange<float>(rows * columns) * 0.37f), rows, columns);
}

/// A step with products, reductions of rows and columns, and a tanh in the middle.
auto network(int& line) {
  line = __LINE__ + 2;
  return [](tensor<float, 2> x, tensor<float, 2> w, tensor<float, 1> b) {
    const tensor<float, 2> h = tanh(matmul(x, w) + b);
    const tensor<float, 2> p = softmax(matmul(h, w), axis<1>);
    return std::tuple(sum(p * h, axis<0>), exp(h) - mean(x));
  };
}

}  // namespace

TEST_CASE("what is right is verified, kernel by kernel") {
  int line = 0;
  const auto x = matrix(32, 24), w = matrix(24, 24);
  const verification v = verify(network(line))(x, w, ones<float>(24));
  INFO(v.text());
  CHECK(v);
  CHECK(v.found == outcome::agrees);
  CHECK(v.kernels >= 3);
  CHECK(v.compared >= 32 * 24 * 2);
  CHECK(v.undecided == 0);
  CHECK(contains(v.text(), "kernels agree with the reference"));
}

TEST_CASE("other dtypes, views, indices, scans, results that are arguments") {
  const auto x = matrix(20, 30);
  const auto agree = [](const verification& v) {
    INFO(v.text());
    CHECK(v);
    CHECK(v.kernels > 0);
    CHECK(v.compared > 0);
  };
  agree(verify([](tensor<float, 2> a) {
    const auto h = cast<bf16>(a);
    return std::pair(h * h + h, cast<float>(exp(h)));
  })(x));
  agree(verify([](tensor<float, 2> a) { return std::pair(argmax(a, axis<1>), cumsum(a, axis<1>)); })(x));
  agree(verify([](tensor<float, 2> a) { return std::tuple(a, transpose(a), cast<int>(a * 100) % 7); })(x));
  agree(verify([](tensor<float, 2> a) { return sum(a * 1e-3f) + sum(a, axis<0>); })(transpose(x)));
  // A number is an input; a captured tensor as well.
  const auto shift = ones<float>(30);
  agree(verify([shift](tensor<float, 2> a, auto rate) { return a * rate + shift; })(x, 0.5f));
  const auto f = compile([](tensor<double, 2> a) { return layer_norm(a); }, {.name = "norm"});
  agree(verify(f)(cast<double>(x)));
}

TEST_CASE("loops, branches and their gradients") {
  const auto network = [](tensor<float, 2> w, tensor<float, 1> h, tensor<float, 2> xs) {
    const auto [last, all] = scan(
        [&](const tensor<float, 1>& h, const tensor<float, 1>& x) {
          const tensor<float, 1> next = tanh(matmul(h, w) + x);
          return std::pair{next, next * x};
        },
        h, xs);
    return sum(last * last) + sum(exp(all));
  };
  const auto w = matrix(8, 8), xs = matrix(50, 8);
  const verification v = verify(value_and_grad(network))(w, ones<float>(8), xs);
  INFO(v.text());
  CHECK(v);
  CHECK(v.kernels >= 3);
  CHECK(v.compared > 64);
  CHECK(verify([](tensor<float, 2> a) {
    const auto twice = [](const tensor<float, 2>& x) { return tensor<float, 2>(x * 2.0f); };
    const auto squared = [](const tensor<float, 2>& x) { return tensor<float, 2>(x * x); };
    return cond(sum(a) > 0.0f, twice, squared, a) + 1.0f;
  })(w));
  const faulty_compiler faulty(wrong_tanh);
  const verification wrong = verify(network)(w, ones<float>(8), xs);
  CHECK(wrong.found == outcome::differs);
  CHECK(wrong.op == "loop");
  const reproduction r = minimize(network)(w, ones<float>(8), xs);
  CHECK(r.what.found == outcome::differs);
  CHECK(r.source == "");
  CHECK(contains(r.what.problem, "no program is written"));
}

TEST_CASE("an op whose code is wrong is named with its line, the index and both values") {
  const faulty_compiler faulty(wrong_tanh);
  int line = 0;
  const auto x = matrix(32, 24), w = matrix(24, 24);
  const verification v = verify(network(line))(x, w, ones<float>(24));
  INFO(v.text());
  CHECK(v.found == outcome::differs);
  CHECK(v.op == "tanh");
  CHECK(v.where.line == line);
  CHECK(contains(v.where.file, "verify_test.cpp"));
  CHECK(contains(v.kernel, "tanh"));
  REQUIRE(v.index.size() == 2);
  CHECK(std::stod(v.got) / std::stod(v.want) == doctest::Approx(1.01));
  CHECK(v.problem == "");
  CHECK(contains(v.text(), "[tanh] element (0, 0) is "));
}

TEST_CASE("a fault that needs two ops is blamed on their kernel") {
  // A difference that shows in kernels with both an exp and a tanh only.
  const faulty_compiler faulty(
      "grep -q '= tanh(v' \"$kernel\" && sed -i 's/= exp(\\(v[0-9]*\\));/= exp(\\1) * 1.01f;/' \"$kernel\"");
  const auto f = [](tensor<float, 2> a) { return exp(tanh(a)); };
  const verification v = verify(f)(matrix(8, 8));
  INFO(v.text());
  CHECK(v.found == outcome::differs);
  CHECK(v.op == "exp");
  CHECK(contains(v.problem, "their fusion"));
  const reproduction r = minimize(f)(matrix(8, 8));
  CHECK(r.what.found == outcome::differs);
  CHECK(r.nodes == 3);
}

TEST_CASE("a costly op of halves is held to one rounding, and a loop is not said to have been taken apart") {
  const faulty_compiler faulty("sed -i 's/= exp(\\([a-z0-9]*\\));/= exp(\\1) * 1.10f;/' \"$kernel\"");
  const auto x = matrix(8, 8);
  const verification half = verify([](tensor<bf16, 2> a) { return exp(a); })(cast<bf16>(x).eval());
  INFO(half.text());
  CHECK(half.found == outcome::differs);
  CHECK(half.op == "exp");
  const verification loop = verify([](tensor<float, 2> a) {
    return scan(
        [](tensor<float, 1> c, tensor<float, 1> row) {
          return std::pair{tensor<float, 1>(exp(row)), sum(c)};
        },
        zeros<float>(8), a);
  })(x);
  INFO(loop.text());
  CHECK(loop.found == outcome::differs);
  CHECK(loop.problem == "the ops within it were not compiled alone");
}

TEST_CASE("kernels with open extents are verified for the call's sizes") {
  const auto fn = [](tensor<float, 2> a, tensor<float, 2> w) {
    const tensor<float, 2> h = softmax(tanh(matmul(a, w)));
    const auto last = scan(
                          [](tensor<float, 1> c, tensor<float, 1> row) {
                            const tensor<float, 1> next = c * 0.5f + exp(row);
                            return std::pair{next, std::tuple<>{}};
                          },
                          zeros<float>(a.size(1)), h)
                          .first;
    return std::tuple(last, mean(h, axis<0>), exp(h) - a);
  };
  // A fault of kernels that are told sizes.
  const faulty_compiler faulty(
      "grep -q 'sizes.0.' \"$kernel\" && sed -i 's/= tanh(\\(v[0-9]*\\));/= tanh(\\1) * 1.01f;/' \"$kernel\"");
  const auto w = matrix(8, 8);
  const auto f = compile(fn), right = compile(fn, {.dynamic = dynamic::no});
  f(matrix(9, 8), w);
  CHECK(verify(f)(matrix(9, 8), w).found == outcome::agrees);
  f(matrix(12, 8), w);
  const verification v = verify(f)(matrix(20, 8), w);
  INFO(v.text());
  CHECK(v.found == outcome::differs);
  CHECK(contains(v.kernel, "tanh"));
  CHECK(contains(v.problem, "agree when each is compiled alone"));
  REQUIRE(v.index.size() == 2);
  CHECK(verify(right)(matrix(20, 8), w).found == outcome::agrees);
}

TEST_CASE("what is right with open extents is verified") {
  const auto f = compile(
      [](tensor<float, 2> a, tensor<float, 2> w) {
        const tensor<float, 2> h = softmax(matmul(a, w));
        return grad([&](tensor<float, 2> x) {
          const auto [last, all] = scan(
              [](tensor<float, 1> c, tensor<float, 1> row) {
                const tensor<float, 1> next = tanh(c * 0.5f + row);
                return std::pair{next, sum(next)};
              },
              zeros<float>(x.size(1)), x);
          return sum(last) + sum(all * all);
        })(h);
      },
      {.dynamic = dynamic::yes});
  for (const device on : {device::cpu(), device_count() > 0 ? device::cuda(0) : device::cpu()}) {
    const auto w = matrix(6, 14).to(on);
    f(matrix(10, 6).to(on), w);
    const std::size_t made = f.specialisations();
    for (const int n : {10, 22, 34}) {
      const auto x = matrix(n, 6).to(on);
      const verification v = verify(f)(x, w);
      INFO(v.text());
      CHECK(v.found == outcome::agrees);
      CHECK(v.kernels >= 3);
      CHECK(v.compared > static_cast<std::size_t>(n * 14));
      f(x, w);
      CHECK(f.specialisations() == made);  // it was the one with open extents
    }
  }
}

TEST_CASE("a wrong result is minimised to a program that shows it") {
  int line = 0;
  const auto x = matrix(32, 24), w = matrix(24, 24);
  reproduction r;
  std::string folder;
  {
    const faulty_compiler faulty(wrong_tanh);
    r = minimize(network(line))(x, w, ones<float>(24));
    INFO(r.source);
    CHECK(r.what.found == outcome::differs);
    CHECK(r.what.op == "tanh");
    CHECK(r.nodes == 2);
    REQUIRE(contains(r.source, "ir::op::tanh"));
    CHECK(contains(r.source, "engine::random_values"));
    CHECK(contains(r.source, "// [tanh] element (0, 0) is "));
    CHECK(run_program(r.source, faulty.folder()) == 1);
    CHECK(contains(read(faulty.folder() + "/out"), "[tanh] element ("));
    CHECK(contains(read(faulty.folder() + "/out"), "found.cpp") == false);
  }
  // With a compiler that is right, so is the program.
  folder = temporary_folder();
  CHECK(run_program(r.source, folder) == 0);
  CHECK(contains(read(folder + "/out"), "agree with the reference"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a fault of kernels with open extents is minimised to a program that keeps them open") {
  const auto fn = [](tensor<float, 2> a, tensor<float, 2> w) {
    const tensor<float, 2> h = softmax(tanh(concat<0>(matmul(a, w), a)));
    return std::tuple(mean(h, axis<0>), reshape(exp(h), h.numel()));
  };
  const auto w = matrix(8, 8);
  reproduction r;
  {
    const faulty_compiler faulty(
        "grep -q 'sizes.0.' \"$kernel\" && sed -i 's/= tanh(\\(v[0-9]*\\));/= tanh(\\1) * 1.01f;/' \"$kernel\"");
    const auto f = compile(fn), right = compile(fn, {.dynamic = dynamic::no});
    f(matrix(9, 8), w);
    f(matrix(12, 8), w);
    r = minimize(f)(matrix(20, 8), w);
    INFO(r.source);
    CHECK(r.what.found == outcome::differs);
    CHECK(r.what.op == "tanh");
    CHECK(r.nodes == 2);
    CHECK(contains(r.source, "ir::dim s0 = ir::dim::symbol(0)"));
    CHECK(contains(r.source, "{s0"));
    CHECK(run_program(r.source, faulty.folder()) == 1);
    CHECK(contains(read(faulty.folder() + "/out"), "[tanh] element ("));
    CHECK(minimize(right)(matrix(20, 8), w).what.found == outcome::agrees);
  }
  const std::string folder = temporary_folder();
  CHECK(run_program(r.source, folder) == 0);
  CHECK(contains(read(folder + "/out"), "agree with the reference"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a failing compile is minimised to a program that shows it") {
  const faulty_compiler faulty(no_tanh);
  int line = 0;
  const auto x = matrix(32, 24), w = matrix(24, 24);
  const verification v = verify(network(line))(x, w, ones<float>(24));
  CHECK(v.found == outcome::no_kernels);
  CHECK(contains(v.problem, "no tanh today"));
  const reproduction r = minimize(network(line))(x, w, ones<float>(24));
  INFO(r.source);
  CHECK(r.what.found == outcome::no_kernels);
  CHECK(r.nodes == 2);
  CHECK(r.tried < 40);
  CHECK(run_program(r.source, faulty.folder()) == 1);
  CHECK(contains(read(faulty.folder() + "/out"), "no tanh today"));
}

TEST_CASE("nothing is minimised where nothing fails; the interpreter has no kernels; mistakes pass through") {
  const reproduction r = minimize([](tensor<float, 1> a) { return a + 1; })(ones<float>(4));
  CHECK(r.what);
  CHECK(r.source == "");
  const auto v = verify([](tensor<float, 1> a) { return a + 1; }, {.backend = "reference"})(ones<float>(4));
  CHECK(v.found == outcome::no_kernels);
  CHECK(v.problem == "the backend is reference");
  CHECK_THROWS_AS(verify([](tensor<float, 1> a) { return a * sum(a).item(); })(ones<float>(4)), user_error);
  CHECK_THROWS_AS(verify([](tensor<float, 1> a, tensor<float, 1> b) { return a + b; })(ones<float>(4), ones<float>(5)),
                  user_error);
}
