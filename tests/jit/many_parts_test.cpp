// Very many parts on the host: their kernels share texts and steps, and what planning does grows as they do.
#include "many_parts.hpp"

#include <cstdlib>
#include <filesystem>

#include "../in_process.hpp"

using namespace many_parts;

TEST_CASE("parts share texts and kernels, however many they are") {
  for (const int n : {40, 97}) run(device::cpu(), n);
}

TEST_CASE("few parts have kernels as before") {
  for (const int n : {1, 2, 3, 5, 17}) {
    const flat x = normal<float>(make_key(6), length * n);
    for (const auto& p : programs()) {
      INFO(p.name, " of ", n);
      check_close(compile([&](const flat& y) { return p.f(y, n); })(x).to_vector(), p.f(x, n).to_vector());
    }
  }
}

TEST_CASE("what planning does grows with the number of parts") {
  const auto planned = [](const program& p, int n) {
    const auto f = compile([&](const flat& y) { return p.f(y, n); });
    f(normal<float>(make_key(5), length * n));
    return f.report();
  };
  for (const auto& p : programs()) {
    INFO(p.name);
    const report few = planned(p, 100), many = planned(p, 400);
    CHECK(many.nodes_traced >= 3 * few.nodes_traced);
    CHECK(many.lowered <= 5 * few.lowered);
    CHECK(many.tried <= 5 * few.tried + 50);
    CHECK(many.sources.size() <= few.sources.size() + 1);
    CHECK(many.kernels <= few.kernels + 8);
  }
}

TEST_CASE("many matrix products, keys, and updates of many parameters") {
  constexpr int n = 70;
  std::vector<tensor<float, 2>> a;
  vector_of p, g;
  for (int i = 0; i < n; ++i) {
    a.push_back(normal<float>(make_key(i), 5, 5));
    p.push_back(normal<float>(make_key(i), 7));
    g.push_back(normal<float>(make_key(n + i), 7));
  }
  const auto squares = [](const std::vector<tensor<float, 2>>& x) {
    std::vector<tensor<float, 2>> out;
    for (const auto& m : x) out.push_back(matmul(m, m));
    return tensor<float, 1>(reshape(stack(out), {-1}));
  };
  const auto of_products = compile(squares);
  check_close(of_products(a).to_vector(), squares(a).to_vector());
  CHECK(of_products.report().sources.size() == 1);
  CHECK(of_products.report().kernels == 1);

  const auto draw = [](const key& k) {
    return tensor<float, 2>(vmap([](const key& one) { return normal<float>(one, 4); })(stack_tree(split(k, n))));
  };
  const auto drawn = compile(draw);
  const auto got = drawn(make_key(3)), want = draw(make_key(3));
  CHECK(got.to_vector() == want.to_vector());
  CHECK(drawn.report().sources.size() <= 2);

  const auto step = [](const vector_of& x, const vector_of& dx, const tensor<float, 0>& rate) {
    vector_of out;
    for (std::size_t i = 0; i < x.size(); ++i) out.push_back(x[i] - rate * dx[i]);
    return out;
  };
  const auto updated = compile(step);
  const tensor<float, 0> rate = 0.25f;
  const auto now = updated(p, g, rate), then = step(p, g, rate);
  for (std::size_t i = 0; i < now.size(); ++i) CHECK(now[i].to_vector() == then[i].to_vector());
  CHECK(updated.report().sources.size() == 1);
}

TEST_CASE("a recurrent network that is unrolled, and its gradients") {
  const auto network = [](int n) {
    return [n](const tensor<float, 2>& w, const tensor<float, 2>& x) {
      tensor<float, 1> h = x[0] * 0.f;
      vector_of all;
      for (int i = 0; i < n; ++i) {
        h = tanh(matmul(h, w) + x[i]);
        all.push_back(h);
      }
      return tensor<float, 0>(sum(stack(all)));
    };
  };
  const tensor<float, 2> w = normal<float>(make_key(1), 8, 8) * 0.2f;
  const auto made = [&](int n) {
    const tensor<float, 2> x = normal<float>(make_key(2), n, 8);
    const auto f = compile(grad<0, 1>(network(n)));
    const auto [dw, dx] = f(w, x);
    const auto [want_dw, want_dx] = compile(grad<0, 1>(network(n)), {.backend = "reference"})(w, x);
    check_close(dw.to_vector(), want_dw.to_vector());
    check_close(dx.to_vector(), want_dx.to_vector());
    return f.report();
  };
  const report few = made(40), many = made(120);
  CHECK(many.sources.size() <= few.sources.size() + 2);
  CHECK(many.lowered <= 4 * few.lowered);
  CHECK(many.tried <= 4 * few.tried);
}

TEST_CASE("numbers that differ from part to part, of every dtype, keep their values") {
  constexpr int n = 40;
  const auto check = [&]<class T>(T from, T by) {
    const auto f = [&](const tensor<T, 1>& x) {
      std::vector<tensor<T, 1>> out;
      for (int i = 0; i < n; ++i)
        out.push_back(slice<0>(x, i, i + 3) * static_cast<T>(from + static_cast<T>(i) * by) + static_cast<T>(i % 3));
      return tensor<T, 1>(concat(out));
    };
    std::vector<T> values;
    for (int i = 0; i < n + 3; ++i) values.push_back(static_cast<T>(i - 2));
    const tensor<T, 1> x = from_span(values);
    const auto c = compile(f);
    CHECK(c(x).to_vector() == f(x).to_vector());
    CHECK(c.report().sources.size() <= 3);  // of integers, x + 0 and x * 1 are x
  };
  check(-1.5, 0.37);
  check(2.5f, -0.37f);
  check(std::int64_t{1} << 60, std::int64_t{-7});
  check(std::uint64_t{1} << 63, std::uint64_t{9});
  check(std::int32_t{-5}, std::int32_t{3});
  check(std::uint8_t{250}, std::uint8_t{3});
}

TEST_CASE("a long chain of costly operations has the bits of the same in parts") {
  const auto step = [](const flat& x) { return flat(pow(abs(sin(tanh(x))) + 0.5f, 1.25f)); };
  const auto one = compile(step);
  flat want = normal<float>(make_key(8), 1001);
  const auto f = compile([&](const flat& x) {
    flat y = x;
    for (int i = 0; i < 20; ++i) y = step(y);
    return y;
  });
  const flat got = f(want);
  for (int i = 0; i < 20; ++i) want = one(want);
  CHECK(got.to_vector() == want.to_vector());
  REQUIRE(f.report().sources.size() == 1);
  CHECK(f.report().sources[0].find("called_tanh_f32(v_f32 a)") != std::string::npos);
}

TEST_CASE("parts in the cache" * doctest::skip()) {
  run(device::cpu(), 90);
  const flat x = normal<float>(make_key(5), length * 90);
  const auto p = programs()[1];
  const auto f = compile([&](const flat& y) { return p.f(y, 90); });
  f(x);
  bool read = false;
  for (const auto& s : f.report().stages) read = read || s.name == "read";
  const bool wanted = variable("SINTER_TEST_WANTS") == "read";
  CHECK(read == wanted);
}

TEST_CASE("another process finds a program of many parts") {
  std::string folder = "/tmp/sinter-test-XXXXXX";
  REQUIRE(mkdtemp(folder.data()));
  const std::string settings = "SINTER_CACHE_DIR=" + folder;
  CHECK(in_process("parts in the cache", settings) == 0);
  CHECK(in_process("parts in the cache", settings + " SINTER_TEST_WANTS=read") == 0);
  std::filesystem::remove_all(folder);
}
