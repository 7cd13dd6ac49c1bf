// Very many parts on a GPU: texts do not grow with them, nor do launches.
#include "many_parts.hpp"

#include <array>

#include "../emulator/select.hpp"

using namespace many_parts;

namespace {

using matrix = tensor<float, 2>;

/// What a part of so many rows and columns becomes, as a vector; and how many launches all parts take at most: one of a shape,
/// of which alignments make three, but for long sorts and products of the matrix library.
struct part_kind {
  const char* name;
  std::int64_t rows, columns;
  flat (*f)(const matrix& part);
  std::size_t kernels;
};

std::vector<part_kind> part_kinds() {
  return {
      {"row sums", 5, 33, [](const matrix& x) { return flat(sum(x * x, axis<1>)); }, 4},
      {"a long row", 1, 17001, [](const matrix& x) { return flat(sum(abs(x), axis<1>)); }, 4},
      {"column sums", 19, 12, [](const matrix& x) { return flat(sum(x, axis<0>)); }, 4},
      {"long columns", 2101, 3, [](const matrix& x) { return flat(sum(x, axis<0>)); }, 4},
      {"rows and columns", 300, 40,
       [](const matrix& x) { return flat(concat(flat(sum(matrix(softmax(x)), axis<0>)), flat(max(x, axis<1>)))); }, 6},
      {"softmax", 3, 257, [](const matrix& x) { return flat(reshape(matrix(softmax(x)), {-1})); }, 4},
      {"argmax", 4, 50, [](const matrix& x) { return flat(cast<float>(argmax(x, axis<1>))); }, 4},
      {"cumsum", 4, 50, [](const matrix& x) { return flat(reshape(matrix(cumsum(x, axis<1>)), {-1})); }, 4},
      {"sort", 4, 50, [](const matrix& x) { return flat(reshape(matrix(sort(x, axis<1>)), {-1})); }, 4},
      {"a long sort", 1, 2500, [](const matrix& x) { return flat(reshape(matrix(sort(x, axis<1>)), {-1})); }, 41},
      {"search", 2, 40,
       [](const matrix& x) { return flat(cast<float>(searchsorted(flat(cumsum(abs(flat(x[0])))), flat(x[1])))); }, 4},
      {"product", 7, 9, [](const matrix& x) { return flat(reshape(matrix(matmul(x, transpose(x))), {-1})); }, 4},
      {"product and more", 16, 32,
       [](const matrix& x) { return flat(reshape(matrix(tanh(matmul(x, transpose(x)) * 0.1f)), {-1})); }, 4},
      {"a large product", 80, 300, [](const matrix& x) { return flat(reshape(matrix(matmul(x, transpose(x))), {-1})); },
       41},
  };
}

/// All parts of an array, or all arrays.
template <class Parts>
flat all_of(const part_kind& k, int n, Parts&& part) {
  vector_of out;
  for (int i = 0; i < n; ++i) out.push_back(k.f(part(i)));
  return concat(out);
}

void check_near(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO(i);
    REQUIRE(std::abs(got[i] - want[i]) <= 1e-4f * (1 + std::abs(want[i])));
  }
}

}  // namespace

TEST_CASE("parts share texts on a GPU, however many they are") {
  constexpr int n = 70;
  const flat x = normal<float>(make_key(5), length * n), there = x.to(device::cuda(0));
  for (const auto& p : programs()) {
    INFO(p.name);
    const auto f = compile([&](const flat& y) { return p.f(y, n); });
    check_close(f(there).to(device::cpu()).to_vector(), p.f(x, n).to_vector());
    const report r = f.report();
    CHECK(r.backend == "cuda");
    CHECK(r.sources.size() <= p.texts);
    CHECK(r.kernels <= p.kernels);
  }
}

TEST_CASE("reductions, products, sorts, searches and scans of equal shape share a launch") {
  constexpr int n = 33;
  const auto gpu = device::cuda(0);
  for (const auto& k : part_kinds()) {
    INFO(std::string(k.name));
    const matrix x = normal<float>(make_key(11), k.rows * n, k.columns);
    const auto of_one = [&](const matrix& y) {
      return all_of(k, n, [&](int i) { return matrix(slice<0>(y, i * k.rows, (i + 1) * k.rows)); });
    };
    const auto f = compile(of_one);
    const auto want = of_one(x).to_vector();
    check_near(f(x.to(gpu)).to(device::cpu()).to_vector(), want);
    CHECK(f.report().backend == "cuda");
    CHECK(f.report().kernels <= k.kernels);

    std::vector<matrix> there;
    for (int i = 0; i < n; ++i) there.push_back(matrix(slice<0>(x, i * k.rows, (i + 1) * k.rows)).to(gpu));
    const auto g = compile([&](const std::vector<matrix>& y) {
      return all_of(k, n, [&](int i) { return y[static_cast<std::size_t>(i)]; });
    });
    check_near(g(there).to(device::cpu()).to_vector(), want);
    CHECK(g.report().kernels <= k.kernels);
  }
}

TEST_CASE("launches that parts share are recorded, with those that follow") {
  constexpr int n = 6;
  for (const auto& k : part_kinds()) {
    INFO(std::string(k.name));
    const auto f = compile(
        [&](const matrix& y) {
          return all_of(k, n, [&](int i) { return matrix(slice<0>(y, i * k.rows, (i + 1) * k.rows)); });
        },
        {.mode = mode::reduce_overhead});
    for (int turn = 0; turn < 2; ++turn) {
      const matrix x = normal<float>(make_key(turn), k.rows * n, k.columns);
      const auto want = all_of(k, n, [&](int i) { return matrix(slice<0>(x, i * k.rows, (i + 1) * k.rows)); });
      check_near(f(x.to(device::cuda(0))).to(device::cpu()).to_vector(), want.to_vector());
    }
  }
}

TEST_CASE("products of equal shape share a launch on tensor cores, too") {
  std::vector<matrix> x, there;
  for (int i = 0; i < 7; ++i) {
    x.push_back(round(normal<float>(make_key(i), 16, 24) * 2.f));  // exact in tf32
    there.push_back(x.back().to(device::cuda(0)));
  }
  const auto each = [](const std::vector<matrix>& all) {
    std::vector<matrix> out;
    for (std::size_t i = 0; i < all.size(); ++i) out.push_back(matmul(all[i], transpose(all[(i + 1) % all.size()])));
    return tensor<float, 3>(stack(out));
  };
  const auto f = compile(each, {.precision = precision::high});
  CHECK(f(there).to(device::cpu()).to_vector() == each(x).to_vector());
  const report r = f.report();
  CHECK(r.kernels <= 3);
  bool on_tensor_cores = false;
  for (const auto& text : r.sources)
    on_tensor_cores = on_tensor_cores || text.find("multiply_tf32(") != std::string::npos;
  CHECK(on_tensor_cores);
}

TEST_CASE("the table of very many parts lies in memory") {
  vector_of x, there;
  for (int i = 0; i < 2800; ++i) {
    x.push_back(normal<float>(make_key(i), 4));
    there.push_back(x.back().to(device::cuda(0)));
  }
  const auto each = [](const vector_of& parts) {
    vector_of out;
    for (const auto& p : parts) out.push_back(softmax(p));
    return flat(concat(out));
  };
  const auto f = compile(each);
  check_close(f(there).to(device::cpu()).to_vector(), each(x).to_vector());
  const report r = f.report();
  CHECK(r.kernels <= 3);
  bool in_memory = false;
  for (const auto& text : r.sources) in_memory = in_memory || text.find("*all_members") != std::string::npos;
  CHECK(in_memory);
}

TEST_CASE("parts of open extents share a launch, too") {
  const auto each = [](const std::vector<matrix>& x) {
    vector_of out;
    for (const auto& m : x) out.push_back(sum(exp(m - max(m, axis<1>, keepdims)), axis<1>));
    return flat(concat(out));
  };
  const auto f = compile(each, {.dynamic = dynamic::yes});
  for (const int columns : {17, 64, 5000, 33}) {
    std::vector<matrix> x, there;
    for (int i = 0; i < 40; ++i) {
      x.push_back(normal<float>(make_key(i), 3, columns));
      there.push_back(x.back().to(device::cuda(0)));
    }
    INFO(columns);
    check_close(f(there).to(device::cpu()).to_vector(), each(x).to_vector());
    CHECK(f.report().kernels <= 3);
  }
}

TEST_CASE("steps of a network whose gates share launches have few texts") {
  const auto network = [](int n) {
    return [n](const std::vector<matrix>& w, const matrix& x) {
      flat h = x[0] * 0.f;
      for (int i = 0; i < n; ++i) {
        std::array<flat, 4> gate;
        for (std::size_t k = 0; k < 4; ++k) gate[k] = tanh(matmul(h, w[k]) + x[i]) * (1.f + static_cast<float>(i % 7));
        h = gate[0] * gate[1] + gate[2] * gate[3];
      }
      return h;
    };
  };
  std::vector<matrix> w, there;
  for (int k = 0; k < 4; ++k) {
    w.push_back(normal<float>(make_key(k), 8, 8) * 0.1f);
    there.push_back(w.back().to(device::cuda(0)));
  }
  const auto made = [&](int n) {
    const matrix x = normal<float>(make_key(9), n, 8);
    const auto f = compile(network(n));
    check_near(f(there, x.to(device::cuda(0))).to(device::cpu()).to_vector(), network(n)(w, x).to_vector());
    return f.report();
  };
  const report few = made(12), many = made(40);
  CHECK(many.sources.size() <= few.sources.size() + 2);
}

TEST_CASE("a long chain of costly operations calls functions on a GPU, too") {
  const auto chain = [](const tensor<float, 1>& x) {
    tensor<float, 1> y = x;
    for (int i = 0; i < 20; ++i) y = pow(abs(sin(tanh(y))) + 0.5f, 1.25f);
    return y;
  };
  const flat x = normal<float>(make_key(8), 1000);
  const auto f = compile(chain);
  check_close(f(x.to(device::cuda(0))).to(device::cpu()).to_vector(), chain(x).to_vector());
  const report r = f.report();
  REQUIRE(r.sources.size() == 1);
  CHECK(r.sources[0].find("__noinline__ s_f32 called_tanh_f32(s_f32 a)") != std::string::npos);
  CHECK(r.sources[0].find("= called_pow_f32(") != std::string::npos);
}

TEST_CASE("numbers of 64 bits that differ from part to part keep them on a GPU") {
  const auto fills = []<class T>(const std::vector<T>& numbers) {
    return compile([numbers](const tensor<T, 1>& x) {
      std::vector<tensor<T, 1>> all;
      for (const T n : numbers) all.push_back(full<T>(n, x.size(0)));
      return all;
    });
  };
  const std::vector<double> reals{0, 1, 2, 3, 0.5, -0.1};
  const auto x = fills(reals)(tensor<double, 1>{1, 2, 3}.to(device::cuda(0)));
  const std::vector<std::int64_t> whole{0, 1, std::int64_t{1} << 40, -1, std::numeric_limits<std::int64_t>::min(), 5};
  const auto y = fills(whole)(tensor<std::int64_t, 1>{1, 2, 3}.to(device::cuda(0)));
  for (std::size_t i = 0; i < reals.size(); ++i) {
    CHECK(x[i].to(device::cpu())(2) == reals[i]);
    CHECK(y[i].to(device::cpu())(2) == whole[i]);
  }
}

TEST_CASE("squares of large arrays share a launch, and the sum of all of them is computed once") {
  constexpr std::size_t n = 5, small = 150;
  std::vector<matrix> x, there;
  double squares = 0;
  for (std::size_t i = 0; i < n + small; ++i) {
    x.push_back(normal<float>(make_key(static_cast<int>(i)), i < n ? 601 : 1, i < n ? 503 : 3) * 0.01f);
    for (const float e : x.back().to_vector()) squares += static_cast<double>(e) * e;
    there.push_back(x.back().to(device::cuda(0)));
  }
  const auto scaled = compile([](const std::vector<matrix>& all) {
    tensor<double, 0> total = sum(square(cast<double>(all[0])));
    for (std::size_t i = 1; i < all.size(); ++i) total = total + sum(square(cast<double>(all[i])));
    const tensor<float, 0> by = cast<float>(rsqrt(total));
    std::vector<matrix> out;
    for (const matrix& a : all) out.push_back(a * by);
    return out;
  });
  const auto got = scaled(there);
  REQUIRE(got.size() == x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto want = x[i].to_vector(), is = got[i].to(device::cpu()).to_vector();
    double worst = 0;
    for (std::size_t e = 0; e < want.size(); ++e) {
      const double by_hand = want[e] / std::sqrt(squares);
      worst = std::max(worst, std::abs(is[e] - by_hand) / (1e-30 + std::abs(by_hand)));
    }
    CHECK(worst <= 1e-6);
  }
  // Sums of large arrays, sums of small ones, their sum, and the results.
  CHECK(scaled.report().kernels <= 6);
}
