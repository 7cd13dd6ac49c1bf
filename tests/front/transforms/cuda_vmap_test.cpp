// vmap, scans over stacks, associative_scan and switch_case on a GPU: against the host.
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../../close.hpp"

using namespace sinter;

namespace on_gpu {

using vec = tensor<float, 1>;
using matrix = tensor<float, 2>;
using cube = tensor<float, 3>;

struct layer {
  matrix w;
  vec b;
};

}  // namespace on_gpu

using namespace on_gpu;

namespace {

/// Without a GPU these run on the host and check less.
device gpu() { return device_count() > 0 ? device::cuda(0) : device::cpu(); }
const char* backend() { return device_count() > 0 ? "cuda" : "cpu"; }

template <class... I>
auto numbers(int seed, I... extents) {
  return normal<float>(make_key(seed), extents...);
}

template <class T>
T moved(const T& tree, device where) {
  return tree_map([&](const auto& x) { return x.to(where); }, tree);
}

/// The function of tensors of a GPU, compiled and alone, is that of the host.
template <class F, class... Args>
void check_gpu(const char* name, const F& f, const Args&... args) {
  CAPTURE(std::string(name));
  const auto want = f(args...);
  const auto compiled = compile(f);
  const auto same = [&](const auto& got) {
    tree_map(
        [](const auto& a, const auto& b) {
          REQUIRE(a.shape() == b.shape());
          check_close(a.to(device::cpu()).to_vector(), b.to_vector(), 1e-4);
          return a;
        },
        got, want);
  };
  same(compiled(moved(args, gpu())...));
  CHECK(compiled.report().backend == backend());
  same(f(moved(args, gpu())...));
}

stacked<layer> layers() {
  std::vector<layer> all;
  for (int i = 0; i < 3; ++i) all.push_back({matrix(numbers(i, 4, 4) * 0.5f), numbers(i + 9, 4)});
  return stack_tree(all);
}

vec apply(const layer& l, const vec& h) { return tanh(matmul(h, l.w) + l.b); }

}  // namespace

TEST_CASE("vmap on a GPU: rows, products, gradients of each item, lookups, branches of each lane") {
  const matrix x = numbers(1, 5, 4);
  check_gpu(
      "softmax and products",
      [](const matrix& x, const matrix& w) {
        return vmap([](const vec& row, const matrix& w) { return softmax(matmul(row, w)) * sum(row); },
                    in_axes<0, none>, out_axes<1>)(x, w);
      },
      x, matrix(numbers(2, 4, 3)));
  check_gpu(
      "gradients",
      [](const stacked<layer>& p, const matrix& x) {
        return vmap(grad([](const layer& p, const vec& x) { return sum(apply(p, x) * x); }))(p, slice<0>(x, 0, 3));
      },
      layers(), x);
  check_gpu(
      "lookups",
      [](const cube& tables, const tensor<std::int64_t, 2>& at) {
        return vmap([](const matrix& t, const tensor<std::int64_t, 1>& i) { return take(t, i); })(tables, at);
      },
      cube(numbers(3, 2, 6, 3)), tensor<std::int64_t, 2>{{0, 5, 2}, {1, 1, 4}});
  check_gpu(
      "cond and while_loop",
      [](const matrix& x) {
        return vmap([](const vec& v) {
          const vec y = cond(
              sum(v) > 0.f, [&] { return vec(exp(v)); }, [&] { return vec(v * v); });
          return while_loop([](const vec& v) { return sum(v * v) > 1.f; }, [](const vec& v) { return vec(v * 0.5f); },
                            y);
        })(x);
      },
      x);
}

TEST_CASE("stacks, scans from the end, associative_scan and switch_case on a GPU") {
  const auto through = [](const stacked<layer>& p, const vec& x) {
    return scan(
        [](const vec& h, const layer& l) {
          const vec next = apply(l, h);
          return std::pair{next, layer{matrix(l.w * sum(next)), next}};
        },
        x, p, reversed);
  };
  check_gpu("scan", through, layers(), vec(numbers(5, 4)));
  check_gpu(
      "its gradient",
      [=](const stacked<layer>& p, const vec& x) {
        return grad([&](const stacked<layer>& p) { return sum(through(p, x).first); })(p);
      },
      layers(), vec(numbers(5, 4)));
  check_gpu(
      "associative_scan",
      [](const stacked<layer>& p) {
        return associative_scan(
            [](const layer& f, const layer& g) {
              return layer{matmul(f.w, g.w), vec(matmul(f.b, g.w) + g.b)};
            },
            p);
      },
      layers());
  check_gpu(
      "switch_case",
      [](const tensor<std::int64_t, 1>& i, const matrix& x) {
        return vmap([](const tensor<std::int64_t, 0>& i, const vec& x) {
          return switch_case(i,
                             std::tuple{[](const vec& x) { return vec(x * 2.f); },
                                        [](const vec& x) { return vec(exp(x)); }, [](const vec& x) { return vec(-x); }},
                             x);
        })(i, x);
      },
      tensor<std::int64_t, 1>{2, 0, 1, -4, 9}, matrix(numbers(6, 5, 4)));
}
