// trace(): the graph of a call as text and numbers.
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

using namespace sinter;

TEST_CASE("a traced graph prints one line a node") {
  const auto f = [](tensor<float, 1> x, tensor<float, 2> y) { return exp(x) * y + 1.f; };
  const auto graph = trace(f)(tensor<float, 1>{1, 2}, tensor<float, 2>{{1, 2}, {3, 4}});
  CHECK(graph.text() ==
        "%0 = f32(2,) input 0\n"
        "%1 = f32(2, 2) input 1\n"
        "%2 = f32(2,) exp %0\n"
        "%3 = f32(1, 2) reshape %2\n"
        "%4 = f32(2, 2) broadcast %3\n"
        "%5 = f32(2, 2) mul %4 %1\n"
        "%6 = f32(2, 2) constant 1\n"
        "%7 = f32(2, 2) add %5 %6\n"
        "return %7\n");
  CHECK(graph.nodes() == 8);
  std::ostringstream out;
  out << graph;
  CHECK(out.str() == graph.text());
}

TEST_CASE("equal work appears once, unused work not at all") {
  const auto graph = trace([](tensor<float, 1> x) {
    tensor<float, 1> unused = x - 5.f;
    return std::pair{sin(x) + sin(x), sin(x)};
  })(tensor<float, 1>{1});
  CHECK(graph.nodes() == 3);
  CHECK(graph.text().find("sub") == std::string::npos);
}

TEST_CASE("derivatives and compiled functions are part of the graph; nothing is computed") {
  const auto inner = compile([](auto x) { return x * x; });
  tensor<double, 0> x = 3.0;
  const auto graph = trace(grad(inner))(x);
  CHECK(graph.text().find("mul") != std::string::npos);
  CHECK(inner.specialisations() == 0);
  CHECK(!engine::current());
}
