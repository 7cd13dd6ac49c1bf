// The words of emit/prelude/mma.hpp, on the emulated GPU, whose stand-ins are written from the figures of the "PTX ISA", and on a GPU:
// operands are laid out by plan/schedule/intrinsics.hpp, so that a wrong row of that table, or a wrong stand-in, gives wrong products.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <sinter/emit/prelude/cuda_block.hpp>
#include <sinter/emit/prelude/hopper.hpp>
#include <sinter/emit/prelude/mma.hpp>
#include <sinter/engine/engine.hpp>
#include <sinter/plan/schedule/intrinsics.hpp>

#include "../../run/cuda/support.hpp"

using namespace sinter;
using namespace support;
namespace emit = engine::emit;
namespace schedules = engine::plan::schedules;

namespace {

/// What a kernel of one warp leaves in `out` of `count` elements; a and b are its other operands.
template <class Out, class A, class B>
std::vector<Out> run_words(const std::string& body, std::size_t count, const std::vector<A>& a,
                           const std::vector<B>& b) {
  const std::string out_type = std::is_same_v<Out, float> ? "float" : std::is_same_v<Out, int> ? "int" : "unsigned";
  const std::string source = std::string(emit::prelude_cuda_core) + std::string(emit::prelude_cuda_copy) +
                             std::string(emit::prelude_cuda_tensor) + std::string(emit::prelude_cuda_mma) +
                             std::string(emit::prelude_cuda_matrices) + std::string(emit::prelude_cuda_copy_part) +
                             std::string(emit::prelude_cuda_powers) + "namespace sx { extern \"C\" __global__ void k(" +
                             out_type +
                             "* out, const unsigned* a, const unsigned* b, char* scratch) {"
                             "const int lane = threadIdx.x;" +
                             body + "} }";
  const storage to = on_gpu(std::vector<Out>(count, static_cast<Out>(77))), from_a = on_gpu(a), from_b = on_gpu(b);
  void* const given[] = {to.data(), from_a.data(), from_b.data()};
  cuda::execute(one_launch(module_of(source), "k", {{0, 0}, {1, 0}, {2, 0}}, 1, 32), given, nullptr);
  return on_host<Out>(to, count);
}

std::uint32_t bits_of(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
/// The bits of a number in a dtype, and the number that they are.
std::uint32_t encoded(dtype t, double& x) {
  if (t == dtype::i8) return static_cast<std::uint8_t>(static_cast<std::int8_t>(x));
  if (t == dtype::f32) {
    const std::uint32_t u = (bits_of(static_cast<float>(x)) + 0x1000u) & ~0x1fffu;
    float back;
    std::memcpy(&back, &u, 4);
    x = static_cast<double>(back);
    return u;
  }
  std::uint16_t u = 0;
  if (t == dtype::bf16) {
    const bf16 n(static_cast<float>(x));
    std::memcpy(&u, &n, 2);
    x = static_cast<double>(static_cast<float>(n));
  } else {
    const f16 n(static_cast<float>(x));
    std::memcpy(&u, &n, 2);
    x = static_cast<double>(static_cast<float>(n));
  }
  return u;
}

/// The registers of a matrix of `wide` columns as a fragment: 32 bits hold 4 / size elements.
std::vector<std::uint32_t> registers_of(const schedules::fragment& f, dtype t, std::vector<double>& matrix, int wide) {
  const int each = static_cast<int>(4 / size_of(t)), words = f.count() / each;
  std::vector<std::uint32_t> out(static_cast<std::size_t>(32 * words));
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < f.count(); ++r) {
      const int e = f.element(lane, r);
      const std::uint32_t u = encoded(t, matrix[static_cast<std::size_t>((e >> 8) * wide + (e & 255))]);
      out[static_cast<std::size_t>(lane * words + r / each)] |= u << (32 / each * (r % each));
    }
  return out;
}

template <class Sum>
void multiplies(const schedules::intrinsic& i, const std::vector<double>& x, const std::vector<double>& y,
                double bound) {
  std::vector<double> a = x, b = y;
  const auto left = registers_of(i.fx, i.x, a, i.k), right = registers_of(i.fy, i.y, b, i.n);
  const std::string type = std::is_same_v<Sum, float> ? "float" : "int";
  const auto got =
      run_words<Sum>("unsigned x[4], y[2]; " + type +
                         " c[4];"
                         "for (int i = 0; i < 4; ++i) x[i] = a[lane*4 + i], c[i] = (" +
                         type +
                         ")(lane - i);"
                         "for (int i = 0; i < 2; ++i) y[i] = b[lane*2 + i];" +
                         std::string(i.word) + "(c, x, y); for (int i = 0; i < 4; ++i) out[lane*4 + i] = c[i];",
                     128, left, right);
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < 4; ++r) {
      const int e = i.fs.element(lane, r), row = e >> 8, column = e & 255;
      double want = lane - r, size = std::fabs(want);
      for (int k = 0; k < i.k; ++k) {
        const double term = a[static_cast<std::size_t>(row * i.k + k)] * b[static_cast<std::size_t>(k * i.n + column)];
        want += term;
        size += std::fabs(term);
      }
      const double found = static_cast<double>(got[static_cast<std::size_t>(lane * 4 + r)]);
      CHECK_MESSAGE(std::fabs(found - want) <= bound * size,
                    i.word << " at " << row << ", " << column << ": " << found << ", not " << want);
    }
}

std::vector<double> numbers(std::size_t n, unsigned seed, bool whole) {
  std::mt19937 random(seed);
  std::vector<double> out(n);
  for (auto& x : out)
    x = whole ? static_cast<double>(static_cast<int>(random() % 15)) - 7 : std::normal_distribution<double>()(random);
  return out;
}

}  // namespace

TEST_CASE("matrix words multiply what lies as the table says") {
  for (const auto& i : schedules::intrinsics()) {
    if (i.who != schedules::scope::warp) continue;
    const auto x = static_cast<std::size_t>(i.m * i.k), y = static_cast<std::size_t>(i.k * i.n);
    if (i.sum == dtype::i32) {
      multiplies<int>(i, numbers(x, 1, true), numbers(y, 2, true), 0);
      continue;
    }
    multiplies<float>(i, numbers(x, 3, true), numbers(y, 4, true), 0);
    // A sum of tensor cores may be cut off, not rounded.
    multiplies<float>(i, numbers(x, 5, false), numbers(y, 6, false), 0x1p-20);
  }
}

namespace {

/// A matrix of 16 terms in shared memory, as the manual draws it: blocks of `wide` bytes a line, along the terms or (`turned`) along
/// the other axis. Sixteen-byte chunks are swizzled.
struct group_operand {
  int lines = 64, wide = 128;
  bool turned = false;
  std::vector<double> of = {};
  int first = 0;  ///< the byte at which it begins

  int across() const { return turned ? 16 * wide : 16; }
  int bytes() const { return turned ? (2 * lines + wide - 1) / wide * across() : lines * wide; }
  int place(int i, int k) const {
    const int at = turned ? i / (wide / 2) * across() + k * wide + i % (wide / 2) * 2 : i * wide + k * 2;
    return at ^ (at / 128 % (wide / 16)) * 16;
  }
  void write(std::vector<std::uint32_t>& memory, dtype t) {
    for (int i = 0; i < lines; ++i)
      for (int k = 0; k < 16; ++k) {
        const std::uint32_t u = encoded(t, of[static_cast<std::size_t>(i * 16 + k)]);
        const int at = first + place(i, k);
        memory[static_cast<std::size_t>(at / 4)] |= u << (at % 4 * 8);
      }
  }
  std::string text() const {
    const auto n = [](int x) { return std::to_string(x); };
    return "matrix_at<" + n(wide) + ">(ring, " + n(first) + ", " + n(across()) + ", " + n(8 * wide) + ")";
  }
};

/// A group's product of 64 by n by 16; x comes from registers if it has 0 bytes a line.
void group_multiplies(const schedules::intrinsic& i, int n, group_operand x, group_operand y) {
  const auto number = [](std::size_t v) { return std::to_string(v); };
  x.of = numbers(64 * 16, 5, true), y.of = numbers(static_cast<std::size_t>(n) * 16, 6, true), y.lines = n;
  const bool held = x.wide == 0;
  if (!held) y.first = (x.bytes() + 1023) / 1024 * 1024;
  std::vector<std::uint32_t> memory(static_cast<std::size_t>(y.first + y.bytes()) / 4), registers(128 * 4);
  y.write(memory, i.y);
  if (!held) x.write(memory, i.x);
  for (std::size_t w = 0; held && w < 4; ++w) {
    std::vector<double> part(x.of.begin() + static_cast<std::ptrdiff_t>(w * 256),
                             x.of.begin() + static_cast<std::ptrdiff_t>(w * 256 + 256));
    const auto its = registers_of(i.fx, i.x, part, 16);
    std::copy(its.begin(), its.end(), registers.begin() + static_cast<std::ptrdiff_t>(w * 128));
  }
  const auto sums = static_cast<std::size_t>(n) / 2;
  const std::string source =
      std::string(emit::prelude_cuda_core) + std::string(emit::prelude_cuda_hopper) +
      "namespace sx { extern \"C\" __global__ void k(float* out, const unsigned* a, const unsigned* b, char* scratch) {"
      "extern __shared__ __align__(1024) unsigned ring[]; const int me = threadIdx.x;"
      "for (int w = me; w < " +
      number(memory.size()) + "; w += 128) ring[w] = b[w]; share_copies(); __syncthreads(); float c[1][" +
      number(sums) + "]; unsigned x[1][4]; for (int r = 0; r < 4; ++r) x[0][r] = a[me*4 + r];" +
      "for (int r = 0; r < " + number(sums) + "; ++r) c[0][r] = me - r; pin(c); begin_products(); " + i.word + "<" +
      (x.turned ? "1" : "0") + ", " + (y.turned ? "1" : "0") + ">(c[0], " + (held ? "x[0]" : x.text()) + ", " +
      y.text() + "); commit_products(); await_products<0>(); pin(c); pin(x); for (int r = 0; r < " + number(sums) +
      "; ++r) out[me*" + number(sums) + " + r] = c[0][r]; } }";
  const storage to = on_gpu(std::vector<float>(128 * sums, 77.f)), from_a = on_gpu(registers), from_b = on_gpu(memory);
  void* const given[] = {to.data(), from_a.data(), from_b.data()};
  cuda::execute(
      one_launch(module_of(source), "k", {{0, 0}, {1, 0}, {2, 0}}, 1, 128, 0, static_cast<int>(memory.size() * 4)),
      given, nullptr);
  const auto got = on_host<float>(to, 128 * sums);
  const auto& f = schedules::fragment_of_blocks(schedules::row_of(i.word), 2, n / 8);
  int wrong = 0;
  for (int thread = 0; thread < 128; ++thread)
    for (int r = 0; r < static_cast<int>(sums); ++r) {
      const int e = f.element(thread % 32, r), row = thread / 32 * 16 + (e >> 8), column = e & 255;
      double want = thread - r;
      for (int k = 0; k < 16; ++k)
        want += x.of[static_cast<std::size_t>(row * 16 + k)] * y.of[static_cast<std::size_t>(column * 16 + k)];
      wrong += static_cast<double>(got[static_cast<std::size_t>(thread) * sums + static_cast<std::size_t>(r)]) != want;
    }
  CHECK_MESSAGE(wrong == 0, i.word << " of " << n << " columns, x in " << x.wide << (x.turned ? " turned" : "")
                                   << ", y in " << y.wide << (y.turned ? " turned" : "") << ": " << wrong << " wrong");
}

}  // namespace

TEST_CASE("groups of warps multiply what lies in shared memory as the manual says") {
  for (const auto& i : schedules::intrinsics()) {
    if (i.who != schedules::scope::group) continue;
    for (const int n : {32, 64, 128, 256})
      for (const bool turned : {false, true})
        group_multiplies(i, n, {.wide = 128, .turned = turned}, {.wide = 128, .turned = !turned});
    for (const int wide : {32, 64, 128})
      for (const bool turned : {false, true}) {
        group_multiplies(i, 64, {.wide = 0}, {.wide = wide, .turned = turned});
        group_multiplies(i, 64, {.wide = wide, .turned = turned},
                         {.wide = 160 - wide == 32 ? 128 : 64, .turned = turned});
      }
  }
}

TEST_CASE("eight lines of 16 bytes are a matrix, as it lies or transposed") {
  std::vector<unsigned> ids(128);  // element e of line l, both 16 bits wide: 8 l + e
  for (unsigned i = 0; i < 128; ++i) ids[i] = 2 * i | (2 * i + 1) << 16;
  const std::string fill =
      "__shared__ __align__(128) unsigned s[128]; for (int i = lane; i < 128; i += 32) s[i] = a[i]; __syncwarp();"
      "unsigned r[4]; ";
  const std::string drain = "for (int i = 0; i < 4; ++i) out[lane*4 + i] = r[i];";
  // The lines of each matrix in reverse order.
  const std::string line = "s + (lane/8*8 + 7 - lane%8)*4";
  const auto plain = run_words<unsigned>(fill + "load_matrices<false>(r, " + line + ");" + drain, 128, ids, ids);
  const auto turned = run_words<unsigned>(fill + "load_matrices<true>(r, " + line + ");" + drain, 128, ids, ids);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned m = 0; m < 4; ++m) {
      const auto id = [&](unsigned l, unsigned e) { return (m * 8 + 7 - l) * 8 + e; };
      const unsigned l = lane / 4, e = lane % 4 * 2;
      CHECK(plain[lane * 4 + m] == (id(l, e) | id(l, e + 1) << 16));
      CHECK(turned[lane * 4 + m] == (id(e, l) | id(e + 1, l) << 16));
    }
}

TEST_CASE("swizzled chunks of eight lines, and of a line, lie in different banks") {
  const auto at = [&](const std::string& wide) {
    return run_words<int>("out[lane] = swizzled<" + wide + ">(lane);", 32, std::vector<int>{0}, std::vector<int>{0});
  };
  for (const int wide : {16, 32, 64, 128, 256}) {
    const auto by = at(std::to_string(wide));
    for (int first = 0; first < 32; first += 8)
      for (int chunk = 0; chunk < wide / 16; ++chunk) {
        unsigned banks = 0;
        for (int l = first; l < first + 8; ++l) {
          const int place = l * (wide / 16) + (chunk ^ by[static_cast<std::size_t>(l)]);
          CHECK(place / (wide / 16) == l);  // the chunk stays in its line
          banks |= 1u << place % 8;
        }
        CHECK(banks == 0xffu);
      }
  }
}

TEST_CASE("a copy of a part fills up with zeros, and arrives at its wait") {
  std::vector<unsigned> from(256);
  for (unsigned i = 0; i < 256; ++i) from[i] = 0x01010101u * (i % 250 + 1);
  for (const int bytes : {4, 8, 16}) {
    const int words = bytes / 4;
    // Lane l copies l % (bytes + 1) bytes.
    const std::string each = std::to_string(words), all = std::to_string(bytes);
    const auto got = run_words<unsigned>(
        "__shared__ __align__(128) unsigned s[128]; for (int i = lane; i < 128; i += 32) s[i] = 0xcccccccc;"
        "__syncwarp(); copy_part<" +
            all + ">(s + lane*" + each + ", 0, a + lane*" + each + ", lane%" + std::to_string(bytes + 1) +
            "); end_copies(); await_copies<0>(); __syncwarp();"
            "for (int i = lane; i < 128; i += 32) out[i] = s[i];",
        128, from, from);
    std::vector<unsigned char> want(512, 0xcc);
    for (int lane = 0; lane < 32; ++lane)
      for (int b = 0; b < bytes; ++b)
        want[static_cast<std::size_t>(lane * bytes + b)] =
            b < lane % (bytes + 1) ? reinterpret_cast<const unsigned char*>(from.data())[lane * bytes + b] : 0;
    CHECK(std::memcmp(got.data(), want.data(), 512) == 0);
  }
}

TEST_CASE("powers of two are near, and a fused sum is rounded once") {
  std::vector<float> x = {0.f, -0.f, INFINITY, -INFINITY, NAN, 128.f, -126.f, -127.f, -150.f, 1e-30f};
  std::mt19937 random(7);
  while (x.size() < 256) x.push_back(std::uniform_real_distribution<float>(-140, 140)(random));
  const auto got =
      run_words<float>("for (int i = lane; i < 256; i += 32) out[i] = exp2_near(__uint_as_float(a[i]));", 256, x, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp2(static_cast<double>(x[i])), found = static_cast<double>(got[i]);
    if (std::isnan(x[i])) CHECK(std::isnan(found));
    else if (want < 0x1p-126) CHECK(found == 0);
    else if (want > 3.4028235e38) CHECK(found >= 3.4e38);
    else CHECK_MESSAGE(std::fabs(found - want) <= 0x1p-22 * want, x[i]);
  }
  const auto sums = run_words<float>(
      "for (int i = lane; i < 255; i += 32) out[i] = fused(__uint_as_float(a[i]), __uint_as_float(b[i]), "
      "-__uint_as_float(a[i])*__uint_as_float(b[i]));",
      255, x, x);
  for (std::size_t i = 10; i < 255; ++i) CHECK(sums[i] == std::fmaf(x[i], x[i], -x[i] * x[i]));
}
