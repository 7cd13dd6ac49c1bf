// Devices: where tensors are, how they move, and that eager work on a GPU gives what the host gives.
#include "../front/ops_support.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <sstream>
#include <thread>

#include <sinter/sinter.hpp>

namespace {

using namespace sinter;
using ops::check_equal;
using ops::contains;
using ops::error_of;
using ops::sample;
using ops::values;

/// The GPU of these tests; without one they run on the host and check less.
device gpu() { return device_count() > 0 ? device::cuda(0) : device::cpu(); }
bool have_gpu() { return device_count() > 0; }

/// f gives the same on the GPU as on the host, and gives it there.
template <class F, class... X>
void same(const char* name, double tolerance, F f, const X&... x) {
  INFO("function ", name);
  const auto host = detail::stage(f(x...), location{});
  const auto there = detail::stage(f(x.to(gpu())...), location{});
  CHECK(there.device() == gpu());
  check_equal(values(there), values(host), tolerance);
}

/// What a skipped case of this file prints in a process of its own, on the emulator.
std::string output_of(const std::string& environment, const char* test_case) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      "env -u SINTER_TEST_GPU " + environment + " '" + self + "' --no-skip -tc='" + test_case + "' 2>&1";
  std::string out;
  FILE* const pipe = popen(command.c_str(), "r");
  for (char line[512]; pipe && std::fgets(line, sizeof line, pipe);) out += line;
  if (pipe) pclose(pipe);
  return out;
}

struct layer {
  tensor<float, 2> w;
  tensor<float, 1> b;
};

}  // namespace

TEST_CASE("a tensor knows its device, and stays itself when it is there already") {
  const auto x = sample<float, 2>({3, 4});
  CHECK(x.device() == device::cpu());
  CHECK(x.to(device::cpu()).data() == x.data());
  CHECK(transpose(x).to(device::cpu()).data() == x.data());
  CHECK(error_of([] { tensor<float, 1>().device(); }) != "");
  CHECK(error_of([] { tensor<float, 1>().to(device::cpu()); }) != "");
}

TEST_CASE("to copies there and back, views included") {
  const auto x = sample<float, 2>({3, 4});
  const auto there = x.to(gpu());
  CHECK(there.device() == gpu());
  check_equal(values(there.to(device::cpu())), values(x));
  check_equal(values(transpose(there).to(device::cpu())), values(transpose(x)));
  check_equal(values(slice<1>(there, 1, 4, 2)), values(slice<1>(x, 1, 4, 2)));
  check_equal(values(flip<0>(there)), values(flip<0>(x)));
  const auto packed = transpose(x).to(gpu());
  if (have_gpu()) CHECK(packed.is_contiguous());
  check_equal(values(transpose(there).contiguous()), values(transpose(x)));
  const auto none = zeros<float>(0, 4).to(gpu());
  CHECK(none.to(device::cpu()).numel() == 0);
  check_equal(values(sample<bool, 1>({9}).to(gpu())), values(sample<bool, 1>({9})));
}

TEST_CASE("a tree moves as a whole") {
  const layer p{sample<float, 2>({3, 4}), sample<float, 1>({4})};
  const layer q = to(p, gpu());
  CHECK(q.w.device() == gpu());
  CHECK(q.b.device() == gpu());
  check_equal(values(to(q, device::cpu()).w), values(p.w));
}

TEST_CASE("views of a GPU's tensor share its memory") {
  const auto x = sample<float, 2>({4, 6}).to(gpu());
  CHECK(transpose(x).data() == x.data());
  CHECK(reshape(x, 2, 12).data() == x.data());
  CHECK(slice<0>(x, 1).data() == x.data() + 6);
  CHECK(broadcast_to(expand_dims<0>(x), 3, 4, 6).data() == x.data());
  CHECK(squeeze<0>(expand_dims<0>(x)).data() == x.data());
  check_equal(values(reshape(transpose(x), 24)), values(reshape(transpose(x.to(device::cpu())), 24)));
}

TEST_CASE("reading a tensor of a GPU copies it; element access is refused") {
  const auto x = sample<float, 2>({3, 4});
  const auto there = x.to(gpu());
  CHECK(there.to_vector() == x.to_vector());
  CHECK(slice<1>(slice<0>(there, 1, 2), 2, 3).item() == x(1, 2));
  CHECK(to_string(there) == to_string(x));
  std::ostringstream out;
  out << there;
  CHECK(out.str() == to_string(x));
  check_equal(values(there.fill(3)), values(full<float>(3, 3, 4)));
  if (!have_gpu()) return;
  const auto message = error_of([&] { there(0, 0) = 1; });
  CHECK(contains(message, "(3, 4)"));
  CHECK(contains(message, "cuda(0)"));
  CHECK(contains(message, ".to(device::cpu())"));
  CHECK(contains(error_of([&] { slice<1>(there, 0, 2).fill(1); }), "view with gaps"));
}

TEST_CASE("factories take a device") {
  const device g = gpu();
  CHECK(zeros<float>(2, 3, g).device() == g);
  check_equal(values(zeros<float>(2, 3, g)), values(zeros<float>(2, 3)));
  check_equal(values(ones<std::int32_t>(g)), values(ones<std::int32_t>()));
  check_equal(values(ones<bf16, dims{2, 2}>(g)), values(ones<bf16, dims{2, 2}>()));
  check_equal(values(zeros<float, dims{dyn, 2}>(5, 2, g)), values(zeros<float, dims{dyn, 2}>(5, 2)));
  check_equal(values(full<double>(2.5, 4, g)), values(full<double>(2.5, 4)));
  check_equal(values(full<double>(3.5, 4, g)), values(full<double>(3.5, 4)));
  check_equal(values(full<float>(1, std::array<std::int64_t, 2>{2, 2}, g)), values(ones<float>(2, 2)));
  check_equal(values(full<bool, dims{3}>(true, g)), values(ones<bool>(3)));
  check_equal(values(arange<float>(5, g)), values(arange<float>(5)));
  check_equal(values(arange<std::int64_t>(10, 0, -3, g)), values(arange<std::int64_t>(10, 0, -3)));
  check_equal(values(linspace<double>(0, 1, 7, g)), values(linspace<double>(0, 1, 7)), 1e-15);
  check_equal(values(eye<float>(3, g)), values(eye<float>(3)));
  check_equal(values(eye<float>(2, 4, g)), values(eye<float>(2, 4)));
  const std::vector<float> v{1, 2, 3, 4, 5, 6};
  CHECK(from_span(v, 2, 3, g).device() == g);
  CHECK(from_span(v, g).to_vector() == v);
  CHECK(from_span(v, std::array<std::int64_t, 2>{3, 2}, g).to_vector() == v);
  const tensor<float, 2> braces({{1, 2}, {3, 4}}, g);
  CHECK(braces.device() == g);
  CHECK(braces.to_vector() == std::vector<float>{1, 2, 3, 4});
  const auto x = sample<float, 2>({2, 3}).to(g);
  CHECK(zeros_like(x).device() == g);
  CHECK(ones_like(x + 1).device() == g);
  CHECK(full_like(x, 2).device() == g);
  CHECK(zeros<float>(0, 3, g).numel() == 0);
}

TEST_CASE("memory of a GPU that others own becomes a tensor") {
  auto x = arange<float>(6, gpu());
  bool released = false;
  {
    const auto y = from_external(
        x.data(), {2, 3}, [&released, keep = x](float*) { released = true; }, gpu());
    CHECK(y.device() == gpu());
    CHECK(sum(y).item() == 15);
  }
  CHECK(released);
}

TEST_CASE("random numbers are the same everywhere, from keys of the host and of the GPU") {
  const auto k = make_key(7);
  const device g = gpu();
  CHECK(k.state.device() == device::cpu());
  CHECK(uniform<float>(k, 3, 4, g).device() == g);
  check_equal(values(uniform<float>(k, 3, 4, g)), values(uniform<float>(k, 3, 4)));
  check_equal(values(uniform<double>(k, g)), values(uniform<double>(k)));
  CHECK(values(normal<float>(k, 100, g)).at == values(normal<float>(k, 100)).at);
  check_equal(values(bernoulli(k, 0.3, 50, g)), values(bernoulli(k, 0.3, 50)));
  check_equal(values(randint<std::int32_t>(k, -5, 5, 50, g)), values(randint<std::int32_t>(k, -5, 5, 50)));
  const key there{k.state.to(g)};
  CHECK(uniform<float>(there, 5).device() == g);
  check_equal(values(uniform<float>(there, 5)), values(uniform<float>(k, 5)));
  CHECK(uniform<float>(there, 5, device::cpu()).device() == device::cpu());
  const auto [a, b] = split(k);
  const auto [c, d] = split(there);
  CHECK(a.state.item() == c.state.item());
  CHECK(b.state.item() == d.state.item());
}

TEST_CASE("pointwise expressions run on the GPU as one kernel each") {
  const auto x = sample<float, 2>({5, 7}, 1), y = sample<float, 2>({5, 7}, 2);
  const auto row = sample<float, 1>({7}, 3);
  same(
      "add", 0, [](const auto& a, const auto& b) { return a + b; }, x, y);
  same(
      "scalars", 1e-6, [](const auto& a) { return (a * 2.5f + 1) / 3; }, x);
  same(
      "broadcast", 0, [](const auto& a, const auto& b) { return a * b + 1; }, x, row);
  same(
      "gelu", 1e-6, [](const auto& a) { return gelu(a); }, x);
  same(
      "one operand twice", 1e-6, [](const auto& a) { return a * a + a; }, x);
  same(
      "compare", 0, [](const auto& a, const auto& b) { return where(a < b, a, b); }, x, y);
  same(
      "views", 0, [](const auto& a, const auto& b) { return transpose(a) - transpose(b); }, x, y);
  same(
      "cast", 0, [](const auto& a) { return cast<std::int32_t>(a); }, x);
  same(
      "halves", 1e-2, [](const auto& a) { return a * a + 1; }, sample<bf16, 1>({33}));
  same(
      "integers", 0, [](const auto& a, const auto& b) { return (a ^ b) % 3; }, sample<std::int64_t, 1>({9}, 1),
      sample<std::int64_t, 1>({9}, 2));
  same(
      "tril", 0, [](const auto& a) { return tril(a); }, x);
  same(
      "one_hot", 0, [](const auto& i) { return one_hot(i, 4); }, tensor<std::int64_t, 1>{0, 3, 1});
  same(
      "empty", 0, [](const auto& a) { return a + 1; }, zeros<float>(0, 3));
}

TEST_CASE("expressions of one type that read otherwise are kernels of their own") {
  const auto all = sample<float, 1>({65}).to(gpu());
  const auto host = all.to(device::cpu());
  for (const std::int64_t first : {0, 1})  // addresses that are multiples of 16, and not
    check_equal(values(slice<0>(all, first, first + 64) * 2), values(slice<0>(host, first, first + 64) * 2));
  const auto x = sample<float, 2>({6, 6}, 1), y = sample<float, 2>({6, 6}, 2);
  const auto a = x.to(gpu()), b = y.to(gpu());
  check_equal(values(a * 2), values(x * 2));
  check_equal(values(transpose(a) * 2), values(transpose(x) * 2));
  check_equal(values(a - b * a), values(x - y * x));
  check_equal(values(a - b * b), values(x - y * y));
  const auto of = [](const auto& x, auto along) { return evaluate(x + along); };
  const auto v = sample<float, 1>({6}), w = v.to(gpu());
  check_equal(values(of(a, reshape(w, 6, 1))), values(of(x, reshape(v, 6, 1))));
  check_equal(values(of(a, reshape(w, 1, 6))), values(of(x, reshape(v, 1, 6))));
}

TEST_CASE("numbers of C++ do not compile new kernels") {
  const auto x = sample<float, 1>({64}).to(gpu());
  const auto host = x.to(device::cpu());
  for (int i = 0; i < 8; ++i) {
    const float factor = 1.5f + static_cast<float>(i);
    check_equal(values(x * factor - factor), values(host * factor - factor), 1e-6);
    check_equal(values(pow(x * x, factor)), values(pow(host * host, factor)), 1e-4);
  }
}

TEST_CASE("16 bits are rounded where the user casts, eagerly and compiled, on the host and on the GPU") {
  const auto x = cast<f16>(sample<float, 1>({200}, 5) * 5.f + 85.f).eval();
  const auto f = [](const auto& v) {
    const auto rounded = cast<float>(cast<f16>(v * v)) - 8000.f;
    return stack(rounded, cast<float>(cast<f16>(v * v) - v * v), cast<float>(cast<f16>(cast<float>(v * v)) - v * v));
  };
  const auto want = values(f(x));
  check_equal(values(compile(f)(x)), want, 1e-4);
  check_equal(values(compile(f)(x.to(gpu()))), want, 1e-4);
  check_equal(values(f(x.to(gpu()))), want, 1e-4);
}

TEST_CASE("what is filled or copied on one stream is waited for by the others") {
  if (!have_gpu()) return;
  constexpr std::int64_t n = 1 << 16;
  stream s(gpu());
  auto x = full<float>(1.f, n, gpu());
  synchronize(gpu());
  {
    stream_scope on(s);
    x.fill(3.f);
  }
  const tensor<float, 1> y = x * 1.f;
  CHECK(y.to_vector()[n / 2] == 3);
  tensor<float, 1> old;
  {
    stream_scope on(s);
    old = x.to(device::cpu(), non_blocking);
  }
  x.fill(4.f);
  CHECK(old.to_vector()[n / 2] == 3);
  CHECK(x.to_vector()[n / 2] == 4);
  // Memory that is given back is not written by what was asked for before.
  {
    stream_scope on(s);
    x.fill(7.f);
  }
  x = tensor<float, 1>();
  const auto next = full<float>(2.f, n, gpu());
  synchronize(gpu());
  CHECK(next.to_vector()[n / 2] == 2);
}

TEST_CASE("what the interpreter reads and writes on one stream is ordered with the others") {
  if (!have_gpu()) return;
  const auto f = compile([](const tensor<float, 1>& x) { return tensor<float, 1>(x + 1.f); }, {.backend = "reference"});
  stream s(gpu()), t(gpu());
  auto x = full<float>(1.f, 4, gpu());
  synchronize(gpu());
  {
    stream_scope on(s);
    x.fill(5.f);
  }
  tensor<float, 1> y, z;
  {
    stream_scope on(t);
    y = f(x);
  }
  {
    stream_scope on(s);
    z = y * 3.f;
  }
  CHECK(y.to_vector()[3] == 6);
  CHECK(z.to_vector()[3] == 18);
}

TEST_CASE("positions are compared with any number of 64 bits") {
  constexpr std::int64_t high = std::int64_t{1} << 32, end = std::numeric_limits<std::int64_t>::max();
  const tensor<std::int64_t, 1> numbers{-end - 1, -high + 2, -1, 0, 2, 8, 9, 0x7fffffff, 0x80000000, high + 2, end};
  const auto compare = compile([](const tensor<std::int64_t, 1>& n) {
    const auto at = arange<std::int64_t>(9);
    const auto each = [&](auto compared) { return cast<std::int64_t>(compared(at, expand_dims<1>(n))).eval(); };
    return concat<1>(each([](auto a, auto b) { return a == b; }), each([](auto a, auto b) { return b != a; }),
                     each([](auto a, auto b) { return a < b; }), each([](auto a, auto b) { return b <= a; }),
                     each([](auto a, auto b) { return a > b; }), each([](auto a, auto b) { return b >= a; }));
  });
  const auto got = values(compare(numbers.to(gpu())));
  check_equal(got, values(compare(numbers)));
  for (std::int64_t i = 0; i < numbers.size(0); ++i)
    for (std::int64_t at = 0; at < 9; ++at) {
      const std::int64_t n = numbers(i);
      const bool want[] = {at == n, n != at, n > at, n <= at, n < at, n >= at};
      for (std::int64_t k = 0; k < 6; ++k) CHECK(ops::get(got, {i, 9 * k + at}) == want[k]);
    }
}

TEST_CASE("reductions, products, joins and indexing run on the GPU") {
  const auto x = sample<float, 2>({6, 8}, 1), y = sample<float, 2>({8, 5}, 2);
  same(
      "sum", 1e-6, [](const auto& a) { return sum(a); }, x);
  same(
      "sum of an expression", 1e-5, [](const auto& a) { return sum(a * a + 1, axis<0>); }, x);
  same(
      "keepdims", 1e-6, [](const auto& a) { return mean(a, axis<-1>, keepdims); }, x);
  same(
      "max", 0, [](const auto& a) { return max(a, axis<1>); }, x);
  same(
      "any", 0, [](const auto& a) { return any(a > 1, axis<1>); }, x);
  same(
      "argmax", 0, [](const auto& a) { return argmax(a, axis<1>); }, x);
  same(
      "argmin of all", 0, [](const auto& a) { return argmin(a); }, x);
  same(
      "var", 1e-5, [](const auto& a) { return var(a, axis<1>); }, x);
  same(
      "logsumexp", 1e-5, [](const auto& a) { return logsumexp(a, axis<1>); }, x);
  same(
      "norm", 1e-5, [](const auto& a) { return norm(a, axis<0>); }, x);
  same(
      "matmul", 1e-5, [](const auto& a, const auto& b) { return matmul(a, b); }, x, y);
  same(
      "matmul, transposed", 1e-5, [](const auto& a, const auto& b) { return matmul(transpose(b), transpose(a)); }, x,
      y);
  same(
      "matmul, batched", 1e-5, [](const auto& a, const auto& b) { return matmul(a, b); }, sample<float, 3>({2, 3, 4}),
      sample<float, 3>({2, 4, 5}));
  same(
      "einsum", 1e-5, [](const auto& a, const auto& b) { return einsum<"ij,jk->ki">(a, b); }, x, y);
  same(
      "einsum, outer", 1e-5, [](const auto& a, const auto& b) { return einsum<"ij,kl->ik">(a, b); }, x, y);
  same(
      "concat", 0, [](const auto& a) { return concat<1>(a, a * 2, transpose(transpose(a))); }, x);
  same(
      "stack", 0, [](const auto& a) { return stack(a, a); }, x);
  same(
      "pad", 0,
      [](const auto& a) {
        return pad(a, {{1, 2}, {0, 3}}, 7.0f);
      },
      x);
  same(
      "tile", 0,
      [](const auto& a) {
        return tile(a, {2, 3});
      },
      x);
  const tensor<std::int64_t, 1> rows{5, 0, 5};
  same(
      "take", 0, [](const auto& a, const auto& i) { return take(a, i); }, x, rows);
  same(
      "take of an axis", 0, [](const auto& a, const auto& i) { return take(a, i, axis<1>); }, x, rows);
  same(
      "take_along_axis", 0, [](const auto& a, const auto& i) { return take_along_axis(a, expand_dims<0>(i)); }, x,
      rows);
  same(
      "scatter_add", 1e-6, [](const auto& a, const auto& i) { return scatter_add(a, i, take(a, i) + 1); }, x, rows);
  same(
      "scatter_add along", 1e-6,
      [](const auto& a, const auto& i) {
        const auto where = broadcast_to(expand_dims<1>(i), 3, 8);
        return scatter_add(a, where, slice<0>(a, 0, 3));
      },
      x, rows);
  same(
      "softmax", 1e-6, [](const auto& a) { return softmax(a); }, x);
  same(
      "log_softmax", 1e-5, [](const auto& a) { return log_softmax(a, axis<0>); }, x);
  same(
      "layer_norm", 1e-5, [](const auto& a) { return layer_norm(a); }, x);
  same(
      "rms_norm", 1e-5, [](const auto& a) { return rms_norm(a, ones_like(a)); }, x);
  same(
      "cross_entropy", 1e-5, [](const auto& a, const auto& l) { return cross_entropy(a, l); }, x,
      tensor<std::int64_t, 1>{0, 1, 2, 3, 4, 7});
  same(
      "mse_loss", 1e-5, [](const auto& a) { return mse_loss(a, a * 2); }, x);
}

TEST_CASE("a GPU's indices are not checked: reads are clamped, additions dropped, negative ones count from the end") {
  if (!have_gpu()) return;
  const auto x = arange<float>(4, gpu());
  const auto i = tensor<std::int64_t, 1>({-1, 2, 9}, gpu());
  CHECK(take(x, i).to_vector() == std::vector<float>{3, 2, 3});
  CHECK(scatter_add(x, i, ones<float>(3, gpu())).to_vector() == std::vector<float>{0, 1, 3, 4});
  CHECK(value_and_grad([&](const auto& a) { return sum(take(a, i)); })(x).first.item() == 8);
}

TEST_CASE("a rank-0 tensor of the host goes with tensors of any device") {
  const auto x = sample<float, 1>({5});
  const tensor<float, 0> rate = 0.5f;
  const auto y = evaluate(x.to(gpu()) * rate);
  CHECK(y.device() == gpu());
  check_equal(values(y), values(x * rate));
  rate.fill(2);
  check_equal(values(x.to(gpu()) * rate), values(x * rate));
  const auto f = compile([](auto a, auto r) { return a * r; });
  check_equal(values(f(x.to(gpu()), rate)), values(x * rate));
  rate.fill(3);
  check_equal(values(f(x.to(gpu()), rate)), values(x * rate));
  const auto g = compile([&](auto a) { return a * rate; });
  check_equal(values(g(x.to(gpu()))), values(x * rate));
  rate.fill(4);
  check_equal(values(g(x.to(gpu()))), values(x * rate));
}

TEST_CASE("devices do not mix: the error names both, the op and the line") {
  if (!have_gpu()) return;
  const auto x = sample<float, 2>({3, 4});
  const auto y = x.to(gpu());
  const auto message = error_of([&] { evaluate(exp(x) + y * 2); });
  CHECK(contains(message, "[add]"));
  CHECK(contains(message, "(3, 4) on cpu"));
  CHECK(contains(message, "(3, 4) on cuda(0)"));
  CHECK(contains(message, ".to(device::cuda(0))"));
  CHECK(contains(message, "cuda_device_test.cpp:"));
  CHECK(contains(error_of([&] { matmul(x, transpose(y)); }), "[matmul]"));
  CHECK(contains(error_of([&] { concat(y, x); }), "[concat]"));
  CHECK(contains(error_of([&] { sum(x * y); }), "[mul]"));
  CHECK(contains(error_of([&] { take(y, tensor<std::int64_t, 1>{0}); }), "[take]"));
  CHECK(contains(error_of([&] { scatter_add(y, tensor<std::int64_t, 1>{0}, slice<0>(y, 0, 1)); }), "[scatter_add]"));
  const int made = __LINE__ + 1;
  const auto f = compile([](auto a, auto b) { return a + b; }, {.name = "mixer"});
  const auto compiled = error_of([&] { f(y, x); });
  CHECK(contains(compiled, "cuda_device_test.cpp:" + std::to_string(made) + ")"));
  CHECK(contains(compiled, "[mixer]"));
  CHECK(contains(compiled, "cuda(0)"));
  CHECK(contains(compiled, "cpu"));
  CHECK(contains(compiled, ".to("));
  const int captures = __LINE__ + 1;
  const auto captured = error_of([&] { compile([&](auto a) { return a + y; })(x); });
  CHECK(contains(captured, "a captured tensor"));
  CHECK(contains(captured, "cuda_device_test.cpp:" + std::to_string(captures) + ")"));
}

TEST_CASE("two GPUs: each works on its own tensors; they do not mix") {
  if (device_count() < 2) {
    MESSAGE("SKIPPED: there is one GPU");
    return;
  }
  const device second = device::cuda(1);
  const auto x = sample<float, 2>({5, 3}, 1), w = sample<float, 2>({3, 4}, 2);
  const auto here = x.to(gpu()), there = here.to(second);
  CHECK(there.device() == second);
  check_equal(values(there), values(x));
  check_equal(values(there.to(gpu())), values(x));
  const auto loss = [](auto p, auto a) { return sum(tanh(matmul(a, p)) * 2); };
  const auto step = compile(value_and_grad(loss), {.mode = mode::reduce_overhead});
  const auto [value, slope] = value_and_grad(loss)(w, x);
  for (int i = 0; i < 4; ++i)
    for (const device d : {gpu(), second}) {
      const auto [v, g] = step(w.to(d), x.to(d));
      CHECK(g.device() == d);
      check_equal(values(v), values(value), 1e-5);
      check_equal(values(g), values(slope), 1e-5);
    }
  {
    const device_scope scope(second);
    const auto noise = uniform<float>(make_key(3), 7);
    CHECK(noise.device() == second);
    check_equal(values(noise + 1), values(uniform<float>(make_key(3), 7, device::cpu()) + 1));
  }
  for (const device d : {gpu(), second}) CHECK(evaluate(arange<float>(5, d) * 2).device() == d);
  const auto message = error_of([&] { evaluate(here + there); });
  CHECK(contains(message, "(5, 3) on cuda(0)"));
  CHECK(contains(message, "(5, 3) on cuda(1)"));
  const auto compiled = error_of([&] { step(w.to(gpu()), there); });
  CHECK(contains(compiled, "cuda(0)"));
  CHECK(contains(compiled, "cuda(1)"));
}

TEST_CASE("compiled functions and gradients run where their arguments are") {
  const auto x = sample<float, 2>({4, 3}, 1), w = sample<float, 2>({3, 2}, 2);
  const auto loss = [](auto p, auto a) { return sum(matmul(a, p) * matmul(a, p)); };
  same("compiled", 1e-5, compile(loss), w, x);
  same("gradient", 1e-5, grad(loss), w, x);
  const auto made = compile([](auto a) {
    return a + zeros<float>(4, 3) + arange<float>(3) + uniform<float>(make_key(3), 4, 3) + tensor<float, 1>{1, 2, 3};
  });
  same("factories in a trace", 1e-6, made, x);
  CHECK(made.report().backend == (have_gpu() ? "cuda" : "cpu"));
  const auto noise = compile([](auto a, key k) { return a + uniform<float>(k, 3); });
  check_equal(values(noise(ones<float>(3, gpu()), make_key(2))), values(noise(ones<float>(3), make_key(2))));
}

TEST_CASE("a trace has one device and does not move tensors") {
  const auto x = sample<float, 1>({3}).to(gpu());
  const auto moved = error_of([&] { compile([](auto a) { return a.to(device::cpu()); })(x); });
  CHECK(contains(moved, "[to]"));
  CHECK(contains(moved, "before the call"));
  CHECK(contains(moved, "cuda_device_test.cpp:"));
  device seen = device::cuda(9);
  compile([&](auto a) {
    seen = a.device();
    return a + 1;
  })(x);
  CHECK(seen == gpu());
  const auto elsewhere = error_of([&] { compile([](auto a) { return a + zeros<float>(3, device::cuda(3)); })(x); });
  CHECK(contains(elsewhere, "cuda(3)"));
  CHECK(contains(elsewhere, "leave the device out"));
  const auto agree = compile([](auto a) { return a + ones<float>(3, a.device()); });
  check_equal(values(agree(x)), values(x + 1));
}

TEST_CASE("a function without tensor arguments runs on options.device, or the default") {
  const auto made = [] { return arange<float>(4) * 2; };
  options there;
  there.device = gpu();
  CHECK(compile(made, there)().device() == gpu());
  const auto here = compile(made);
  CHECK(here().device() == device::cpu());
  {
    const device_scope scope(gpu());
    CHECK(here().device() == gpu());
  }
  CHECK(here().device() == device::cpu());
}

TEST_CASE("the default device") {
  CHECK(default_device() == device::cpu());
  {
    const device_scope scope(gpu());
    CHECK(default_device() == gpu());
    CHECK(zeros<float>(3).device() == gpu());
    CHECK(arange<float>(3).device() == gpu());
    CHECK(uniform<float>(make_key(1), 3).device() == gpu());
    CHECK(tensor<float, 1>{1, 2}.device() == gpu());
    CHECK(tensor<float, 0>(2.0f).device() == gpu());
    CHECK(zeros<float>(3, device::cpu()).device() == device::cpu());
    {
      const device_scope inner(device::cpu());
      CHECK(zeros<float>(3).device() == device::cpu());
    }
    CHECK(default_device() == gpu());
    device other = gpu();
    std::thread([&] { other = default_device(); }).join();
    CHECK(other == device::cpu());
  }
  CHECK(default_device() == device::cpu());
  set_default_device(gpu());
  CHECK(zeros<float>(3).device() == gpu());
  set_default_device(device::cpu());
  const auto missing = error_of([] { set_default_device(device::cuda(77)); });
  CHECK(contains(missing, "[set_default_device]"));
  CHECK(contains(missing, "cuda(77)"));
  CHECK(contains(missing, "cuda_device_test.cpp:"));
  CHECK(contains(error_of([] { const device_scope scope(device::cuda(77)); }), "[device_scope]"));
}

TEST_CASE("the environment names a device" * doctest::skip()) {  // run by the case below, in processes of their own
  try {
    std::printf("%s\n", default_device().text().c_str());
  } catch (const user_error& e) {
    std::printf("%s\n", e.what());
  }
}

TEST_CASE("SINTER_DEVICE chooses the default device, or says what is wrong with it") {
  const auto with = [](const char* value) {
    return output_of("SINTER_DEVICE='" + std::string(value) + "'", "the environment names a device");
  };
  CHECK(contains(with("cpu"), "cpu\n"));
  CHECK(contains(with(""), "cpu\n"));
  for (const char* bad : {"gpu", "cuda:", "cuda:x", "cuda:1x", "CPU", "cuda:-1", "cuda:12345678901"}) {
    const auto said = with(bad);
    INFO(said);
    CHECK(contains(said, "[SINTER_DEVICE]"));
    CHECK(contains(said, bad));
    CHECK(contains(said, "set it to cpu, cuda"));
  }
  CHECK(contains(with("cuda:77"), "[SINTER_DEVICE]"));
  if (have_gpu()) CHECK(contains(with("cuda"), "cuda(0)\n"));
  else CHECK(contains(with("cuda"), "[SINTER_DEVICE]"));
}

TEST_CASE("a function of a GPU" * doctest::skip()) {  // run by the case below, in processes of their own
  const auto f = compile([] { return zeros<float>(3) + 1.f; }, {.device = device::cuda(0)});
  std::printf("%s\n", error_of([&] { f(); }).c_str());
}

TEST_CASE("a GPU that is of no use is an error: nobody says that something else answers") {
  for (const auto& [environment, words] : {std::pair("SINTER_EMULATOR_CAPABILITY=61", "has compute capability 6.1"),
                                           std::pair("SINTER_EMULATOR_MODE=full", "has no memory left to start with"),
                                           std::pair("SINTER_LIBCUDA=/nonexistent/libcuda.so.1", "no CUDA driver")}) {
    const auto said = output_of(environment, "a function of a GPU");
    CHECK_MESSAGE(contains(said, words), said);
    CHECK_MESSAGE(!contains(said, "reference backend"), said);
  }
}

TEST_CASE("a full GPU" * doctest::skip()) {  // run by the case below, in processes of their own
  const auto what_of = [](auto&& f) {
    try {
      f();
    } catch (const error& problem) {
      return std::string(problem.what());
    }
    return std::string();
  };
  const auto x = arange<float>(8, device::cuda(0));
  std::vector<tensor<float, 1>> all;
  for (const std::int64_t n : {1 << 18, 64})
    what_of([&] {
      for (;;) all.push_back(from_span(std::vector<float>(static_cast<std::size_t>(n)), device::cuda(0)));
    });
  const auto f = compile([](const tensor<float, 1>& x) { return tensor<float, 1>(exp(x) + 1.f); }, {.name = "full"});
  std::printf("first: %s\n", what_of([&] { f(x); }).c_str());
  all.clear();
  std::printf("then: %s", what_of([&] { CHECK(f(x).to_vector()[0] == 2); }).c_str());
  std::printf("%s\n", f.report().backend.c_str());
  const auto grown = [&] { compile([](auto x) { return evaluate(broadcast_to(x, 1 << 20, 8) + 1.f); })(x); };
  std::printf("grown: %s\n", what_of(grown).c_str());
}

TEST_CASE("a kernel that finds no room is an error with sizes, and is there when there is room") {
  std::string cache = "/tmp/sinter-full-XXXXXX";
  REQUIRE(::mkdtemp(cache.data()) != nullptr);
  const std::string environment =
      "SINTER_EMULATOR_DEFER= SINTER_CUDA_NO_CACHE= SINTER_EMULATOR_MEMORY=16777216 SINTER_CACHE_DIR=" + cache;
  for (int i = 0; i < 2; ++i) {  // new, and from the disk
    const auto said = output_of(environment, "a full GPU");
    INFO(said);
    CHECK(contains(said, "first: [cuda] out of memory: a kernel of "));
    CHECK(contains(said, "then: cuda\n"));
    CHECK(contains(said, "grown: [fn] [cuda] out of memory: a tensor of 33554432 bytes"));
    CHECK(contains(said, "cuda_device_test.cpp:"));
    CHECK(!contains(said, "warning"));
  }
  std::filesystem::remove_all(cache);
}

TEST_CASE("streams and events are a GPU's") {
  CHECK(contains(error_of([] { stream s(device::cpu()); }), "the host has no streams"));
  CHECK(contains(error_of([] { event e(device::cpu()); }), "cuda_device_test.cpp:"));
  CHECK(contains(error_of([] { stream s(device::cuda(77)); }), "[stream]"));
}

TEST_CASE("a device that there is not is named with the line that asks for it") {
  const device none = device::cuda(77);
  const auto x = sample<float, 1>({3});
  const key k = make_key(1);
  float outside[3] = {};
  const auto said = [](const std::string& op, const std::string& message) {
    INFO(message);
    CHECK(contains(message, "[" + op + "] there is no cuda(77): "));
    CHECK(contains(message, "cuda_device_test.cpp:"));
  };
  said("to", error_of([&] { x.to(none); }));
  said("to", error_of([&] { x.to(gpu()).to(none); }));
  said("to", error_of([&] { to(layer{sample<float, 2>({3, 4}), sample<float, 1>({4})}, none); }));
  said("synchronize", error_of([&] { synchronize(none); }));
  said("memory_stats", error_of([&] { memory_stats(none); }));
  said("reset_peak_memory", error_of([&] { reset_peak_memory(none); }));
  said("trim_memory", error_of([&] { trim_memory(none); }));
  said("set_default_device", error_of([&] { set_default_device(none); }));
  said("device_scope", error_of([&] { const device_scope scope(none); }));
  said("stream", error_of([&] { stream s(none); }));
  said("event", error_of([&] { event e(none); }));
  said("event", error_of([&] { event e(none, timed); }));
  said("zeros", error_of([&] { zeros<float>(3, none); }));
  said("zeros", error_of([&] { zeros<float, dims{3}>(none); }));
  said("full", error_of([&] { full<float>(1, 3, none); }));
  said("arange", error_of([&] { arange<float>(3, none); }));
  said("linspace", error_of([&] { linspace<float>(0, 1, 3, none); }));
  said("eye", error_of([&] { eye<float>(3, none); }));
  said("from_span", error_of([&] { from_span(std::vector<float>{1, 2}, none); }));
  said("tensor", error_of([&] { tensor<float, 1>({1, 2}, none); }));
  said("uniform", error_of([&] { uniform<float>(k, 3, none); }));
  said("randint", error_of([&] { randint<std::int32_t>(k, 0, 5, 3, none); }));
  said("from_external", error_of([&] {
         from_external(
             outside, {3}, [](float*) {}, none);
       }));
  said("nowhere", error_of([&] { compile([] { return zeros<float>(3); }, {.device = none, .name = "nowhere"})(); }));
  said("precompile", error_of([&] {
         compile([](auto a) { return a; }).precompile(spec<tensor<float, 1>>{{3}, none});
       }));
}

TEST_CASE("an event that does not fit is named with the line that asks for it") {
  if (device_count() < 2) {
    MESSAGE("SKIPPED: there is one GPU");
    return;
  }
  const stream other(device::cuda(1));
  event here(device::cuda(0), timed), there(device::cuda(1), timed), plain(device::cuda(0));
  here.record();
  there.record();
  for (const auto& message : {error_of([&] { here.record(other); }), error_of([&] { (void)here.since(there); }),
                              error_of([&] { (void)plain.since(here); })})
    CHECK_MESSAGE(contains(message, "cuda_device_test.cpp:"), message);
  CHECK(contains(error_of([&] { (void)here.since(there); }), "of one GPU"));
}

TEST_CASE("work is ordered by streams and events") {
  if (!have_gpu()) return;
  const auto x = arange<float>(1000, gpu());
  const auto f = compile([](auto a) { return exp(a * 0.001f) + 1; });
  const auto want = values(f(x.to(device::cpu())));
  stream s(gpu());
  event ready(gpu(), timed), done(gpu(), timed);
  ready.record();
  s.wait(ready);
  tensor<float, 1> y;
  {
    const stream_scope scope(s);
    y = f(x);
    y = y * 2 - y;
    done.record(s);
  }
  done.wait();
  check_equal(values(y), want, 1e-6);
  s.synchronize();
  CHECK(s.done());
  done.synchronize();
  CHECK(done.done());
  CHECK(done.since(ready) >= 0);
  CHECK(s.device() == gpu());
  event plain(gpu());
  plain.record();
  CHECK(contains(error_of([&] { (void)plain.since(ready); }), "timed"));
  event never(gpu(), timed);
  CHECK(contains(error_of([&] { (void)never.since(ready); }), "recorded"));
}

TEST_CASE("a copy that does not wait is waited for by whatever reads it") {
  const auto x = sample<float, 2>({3, 4}, 7);
  tensor<float, 2> source;
  float shift = 0;
  // reader() is the first to look at each copy. Values differ from one to the next: none is right because it was there before.
  const auto read_by = [&](const std::string& name, double tolerance, auto reader) {
    INFO(name);
    shift += 1;
    source = x.to(gpu()) + shift;
    const auto y = source.to(device::cpu(), non_blocking);
    CHECK(y.device() == device::cpu());
    const auto found = detail::stage(reader(y), location{}), wanted = detail::stage(reader(x + shift), location{});
    check_equal(values(found), values(wanted), tolerance);
  };
  const auto scalar_by = [&](const char* name, auto reader) {
    read_by(name, 0, [&](const auto& e) { return tensor<float, 0>(reader(evaluate(e))); });
  };
  scalar_by("data", [](const auto& y) { return y.data()[5]; });
  scalar_by("an element", [](const auto& y) { return y(1, 2); });
  scalar_by("to_vector", [](const auto& y) { return y.to_vector()[7]; });
  scalar_by("item", [](const auto& y) { return slice<1>(slice<0>(y, 1, 2), 2, 3).item(); });
  scalar_by("printing",
            [](const auto& y) { return static_cast<float>(std::hash<std::string>()(to_string(y)) % 9999); });
  read_by("add", 0, [](const auto& y) { return y + 1; });
  read_by("sum", 1e-6, [](const auto& y) { return sum(y, axis<0>); });
  read_by("transpose", 0, [](const auto& y) { return transpose(y); });
  read_by("concat", 0, [&](const auto& y) { return concat<0>(y, x); });
  read_by("matmul", 1e-5, [&](const auto& y) { return matmul(y, transpose(x)); });
  read_by("fill", 0, [](const auto& y) { return evaluate(y).fill(3); });
  read_by("to", 0, [](const auto& y) { return evaluate(y).to(gpu()); });
  const auto twice = compile([](auto a) { return a * 2; });
  for (int i = 0; i < 2; ++i) read_by("a compiled function", 0, [&](const auto& y) { return twice(evaluate(y)); });
  const auto scaled = compile([](auto a, auto factor) { return a * factor; });
  for (int i = 0; i < 2; ++i) {
    shift += 1;
    const tensor<float, 0> total = sum(x.to(gpu()) + shift);
    CHECK(total.to(device::cpu(), non_blocking).item() == doctest::Approx(sum(x + shift).item()));
    const auto factor = total.to(device::cpu(), non_blocking);
    check_equal(values(scaled(x.to(gpu()), factor)), values(x * sum(x + shift)), 1e-5);
  }
  read_by("a read in a compiled function", 0, [&](const auto& y) {
    const auto kept = evaluate(y);
    return compile([&](auto a) { return a + kept.to_vector()[3]; })(x);
  });
  read_by("a capture", 0, [&](const auto& y) {
    const auto kept = evaluate(y);
    return compile([&](auto a) { return a + kept; })(x);
  });
}

TEST_CASE("a copy that does not wait takes views, trees, nothing, and what is on the host") {
  const auto x = sample<float, 2>({3, 4}, 7);
  const auto there = x.to(gpu());
  check_equal(values(transpose(there).to(device::cpu(), non_blocking)), values(transpose(x)));
  const auto number = sum(there).to(device::cpu(), non_blocking);
  CHECK(number.item() == doctest::Approx(sum(x).item()));
  const auto tree = to(layer{there, sample<float, 1>({4}).to(gpu())}, device::cpu(), non_blocking);
  check_equal(values(tree.w), values(x));
  check_equal(values(tree.b), values(sample<float, 1>({4})));
  CHECK(zeros<float>(0, 4, gpu()).to(device::cpu(), non_blocking).numel() == 0);
  CHECK(x.to(device::cpu(), non_blocking).data() == x.data());
  CHECK(x.to(gpu(), non_blocking).device() == gpu());
  CHECK(contains(error_of([&] { x.to(device::cuda(77), non_blocking); }), "cuda_device_test.cpp:"));
  CHECK(contains(error_of([&] { compile([](auto a) { return a.to(device::cpu(), non_blocking); })(x); }), "[to]"));
}

TEST_CASE("a copy that does not wait leaves the program to go on") {
  if (!have_gpu()) return;
  const auto x = arange<float>(1000, gpu());
  stream s(gpu());
  event ready(gpu());
  ready.record();
  s.wait(ready);
  tensor<float, 1> doubled, y;
  {
    const stream_scope scope(s);
    doubled = x * 2;
    y = doubled.to(device::cpu(), non_blocking);
  }
  // Where the emulator puts work off, nothing has run.
  if (std::getenv("SINTER_EMULATOR_DEFER")) CHECK_FALSE(s.done());
  CHECK(y(999) == 1998);
  CHECK(s.done());
}

TEST_CASE("memory and waiting") {
  synchronize();
  synchronize(gpu());
  if (!have_gpu()) return;
  const auto before = memory_stats(gpu()).allocated;
  {
    const auto x = zeros<float>(1024, gpu());
    CHECK(memory_stats(gpu()).allocated >= before + 4096);
  }
  CHECK(memory_stats(gpu()).allocated == before);
  CHECK(memory_stats(gpu()).peak >= before + 4096);
  reset_peak_memory(gpu());
  CHECK(memory_stats(gpu()).peak == before);
  trim_memory(gpu());
}
