#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <thread>

#include "../support.hpp"

using namespace sinter;
using namespace support;
using cuda::epilogue;

namespace {

/// Products by cuBLASLt against sums in f64. `slack` is relative to the sum of the terms' sizes.
template <class T, class R = T>
void check_product(cuda::matmul w, double slack) {
  std::string why;
  w.type = dtype_of<T>;
  w.result = dtype_of<R>;
  REQUIRE_MESSAGE(cuda::can_multiply(w, 0, why), why);
  const auto count = [&](std::int64_t rows, std::int64_t row, std::int64_t batch) {
    return static_cast<std::size_t>(rows * row + (w.batch - 1) * batch);
  };
  std::mt19937 random(17);
  const auto filled = [&](std::size_t n) {
    std::vector<float> out(n);
    for (auto& x : out) x = static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;
    return out;
  };
  const auto a = filled(count(w.transpose_a ? w.k : w.m, w.row_a, w.batch_a));
  const auto b = filled(count(w.transpose_b ? w.n : w.k, w.row_b, w.batch_b));
  const auto bias = filled(static_cast<std::size_t>(w.n));
  const auto as = [](const std::vector<float>& x, auto zero) {
    return std::vector<decltype(zero)>(x.begin(), x.end());
  };
  const storage ga = on_gpu(as(a, T{})), gb = on_gpu(as(b, T{})), gbias = on_gpu(as(bias, R{}));
  const std::size_t n = count(w.m, w.row_out, w.batch_out);
  const storage out = on_gpu(as(std::vector<float>(n, -77.0f), R{}));
  const bool biased = w.after == epilogue::bias || w.after == epilogue::bias_relu || w.after == epilogue::bias_gelu;
  cuda::queue& q = cuda::current_queue(0);
  {
    const cuda::context_scope here(*q.where);
    cuda::multiply(w, ga.data(), gb.data(), out.data(), biased ? gbias.data() : nullptr, q);
  }
  const auto result = on_host<R>(out, n);
  for (std::int64_t i = 0; i < w.batch; ++i)
    for (std::int64_t r = 0; r < w.m; ++r)
      for (std::int64_t c = 0; c < w.n; ++c) {
        double sum = 0, size = 1;
        for (std::int64_t k = 0; k < w.k; ++k) {
          const double x =
              a[static_cast<std::size_t>(i * w.batch_a + (w.transpose_a ? k * w.row_a + r : r * w.row_a + k))];
          const double y =
              b[static_cast<std::size_t>(i * w.batch_b + (w.transpose_b ? c * w.row_b + k : k * w.row_b + c))];
          sum += x * y;
          size += std::abs(x * y);
        }
        if (biased) sum += bias[static_cast<std::size_t>(c)];
        if (w.after == epilogue::relu || w.after == epilogue::bias_relu) sum = std::max(sum, 0.0);
        if (w.after == epilogue::gelu || w.after == epilogue::bias_gelu)
          sum = 0.5 * sum * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
        const auto got = static_cast<double>(
            static_cast<float>(result[static_cast<std::size_t>(i * w.batch_out + r * w.row_out + c)]));
        REQUIRE(std::abs(got - sum) <= slack * size);
      }
  // What lies between the rows stays.
  if (w.row_out > w.n) CHECK(static_cast<float>(result[static_cast<std::size_t>(w.n)]) == -77.0f);
}

cuda::matmul plain(std::int64_t m, std::int64_t n, std::int64_t k, bool ta = false, bool tb = false) {
  cuda::matmul w{.m = m, .n = n, .k = k, .transpose_a = ta, .transpose_b = tb};
  w.row_a = ta ? m : k;
  w.row_b = tb ? k : n;
  w.row_out = n;
  w.batch_a = m * k;
  w.batch_b = k * n;
  w.batch_out = m * n;
  return w;
}

bool available() {
  if (cuda::blas().problem.empty()) return true;
  MESSAGE("SKIPPED: " << cuda::blas().problem);
  return false;
}

}  // namespace

TEST_CASE("products: row-major, transposed either way, of every type") {
  if (!available()) return;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      check_product<float>(plain(8, 12, 16, ta, tb), 1e-6);
      check_product<double>(plain(8, 12, 16, ta, tb), 1e-14);
      check_product<f16>(plain(8, 16, 24, ta, tb), 2e-3);
      check_product<bf16>(plain(8, 16, 24, ta, tb), 1e-2);
      check_product<bf16, float>(plain(8, 16, 24, ta, tb), 1e-6);
    }
  check_product<float>(plain(1, 1, 1), 1e-6);
  check_product<float>(plain(3, 5, 7), 1e-6);
  check_product<float>(plain(65, 33, 129), 1e-6);
}

TEST_CASE("products with rows apart, and batches, one operand shared") {
  if (!available()) return;
  cuda::matmul w = plain(5, 6, 7);
  w.row_a = 9;
  w.row_b = 8;
  w.row_out = 11;
  w.batch_a = w.batch_b = w.batch_out = 0;
  check_product<float>(w, 1e-6);
  w = plain(4, 8, 12);
  w.batch = 3;
  check_product<float>(w, 1e-6);
  w.batch_b = 0;
  check_product<float>(w, 1e-6);
  w.transpose_b = true;
  w.row_b = 12;
  check_product<float>(w, 1e-6);
}

TEST_CASE("products inside of larger buffers, several calls of them") {
  if (!available()) return;
  // Two calls, each of three matrices; everything begins somewhere inside.
  constexpr std::int64_t m = 3, n = 5, k = 4, calls = 2, batch = 3, lead = 7;
  cuda::matmul w = plain(m, n, k);
  w.batch = batch;
  w.repeat = calls;
  w.offset_a = w.offset_b = w.offset_out = w.offset_bias = lead;
  w.repeat_a = batch * m * k;
  w.repeat_b = 0;
  w.repeat_out = batch * m * n;
  w.after = epilogue::bias;
  std::vector<float> a(lead + calls * batch * m * k), b(lead + batch * k * n), bias(lead + n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 11) - 5;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i);
  const storage ga = on_gpu(a), gb = on_gpu(b), gbias = on_gpu(bias);
  const std::size_t total = lead + calls * batch * m * n;
  const storage out = on_gpu(std::vector<float>(total, -1.0f));
  {
    cuda::queue& q = cuda::current_queue(0);
    const cuda::context_scope here(*q.where);
    cuda::multiply(w, ga.data(), gb.data(), out.data(), gbias.data(), q);
  }
  const auto result = on_host<float>(out, total);
  for (std::size_t i = 0; i < lead; ++i) CHECK(result[i] == -1);
  for (std::int64_t c = 0; c < calls * batch; ++c)
    for (std::int64_t r = 0; r < m; ++r)
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = bias[static_cast<std::size_t>(lead + j)];
        for (std::int64_t i = 0; i < k; ++i)
          sum += a[static_cast<std::size_t>(lead + (c * m + r) * k + i)] *
                 b[static_cast<std::size_t>(lead + (c % batch * k + i) * n + j)];
        CHECK(result[static_cast<std::size_t>(lead + (c * m + r) * n + j)] == sum);
      }
}

TEST_CASE("epilogues: bias, relu, gelu") {
  if (!available()) return;
  for (const epilogue e : {epilogue::bias, epilogue::relu, epilogue::bias_relu, epilogue::gelu, epilogue::bias_gelu}) {
    cuda::matmul w = plain(16, 24, 8);
    w.after = e;
    check_product<float>(w, 1e-4);
    check_product<bf16>(w, 2e-2);
  }
}

TEST_CASE("tf32 only when asked for") {
  if (!available() || !emulator::real()) return;
  cuda::matmul w = plain(64, 64, 64);
  w.tf32 = true;
  check_product<float>(w, 1e-2);
}

TEST_CASE("what cuBLASLt cannot do is told beforehand, and again when asked for") {
  if (!available()) return;
  std::string why;
  cuda::matmul w = plain(4, 4, 4);
  w.type = w.result = dtype::i32;
  CHECK_FALSE(cuda::can_multiply(w, 0, why));
  CHECK(why == "cuBLASLt has no products of i32 to i32");
  const storage x = cuda::allocate(256, 0);
  const std::string words =
      message_of([&] { cuda::multiply(w, x.data(), x.data(), x.data(), nullptr, cuda::current_queue(0)); });
  CHECK(words == "[cuda] the product (4, 4) by (4, 4) of i32: cuBLASLt has no products of i32 to i32");
  if (emulator::real()) return;
  const variable refuse("SINTER_EMULATOR_BLAS", "refuse");
  CHECK_FALSE(cuda::can_multiply(plain(4, 4, 44), 0, why));
  CHECK(why == "cuBLASLt: CUBLAS_STATUS_NOT_SUPPORTED");
}

TEST_CASE("a plan is made once, for all threads; its bias is each caller's") {
  if (!available()) return;
  cuda::matmul w = plain(16, 8, 4);
  w.after = epilogue::bias;
  std::string why;
  CHECK(cuda::can_multiply(w, 0, why));
  const auto* const plan = &cuda::plan_product(w, 16, 0);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      const cuda::stream mine(0);
      const cuda::stream_scope scope(mine.get());
      const cuda::context_scope here(cuda::device_at(0));
      for (int i = 0; i < 20; ++i) {
        const float mark = static_cast<float>(100 * t) + static_cast<float>(i);
        const storage a = on_gpu(std::vector<float>(64, 1)), b = on_gpu(std::vector<float>(32, 1)),
                      bias = on_gpu(std::vector<float>(8, mark)), out = cuda::allocate(16 * 8 * 4, 0);
        cuda::multiply(w, a.data(), b.data(), out.data(), bias.data(), mine.get());
        for (const float x : on_host<float>(out, 128)) wrong[t] += x != 4 + mark;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == std::vector<int>(4));
  CHECK(&cuda::plan_product(w, 16, 0) == plan);
}
