// Movement, reductions, products and indexing: eager, reference, compiled and derived, on views, size 1 and nothing.
#include <limits>
#include <vector>

#include "walk.hpp"

using namespace sinter;
using ops::array;
using ops::coord;

namespace {

using f64 = double;
using i64 = std::int64_t;

/// What f gives eagerly on contiguous copies: tests/front compares that with coordinate arithmetic.
template <class F, class... X>
array eager(F f, const X&... x) {
  return ops::values(f(detail::materialize(x, {})...));
}

struct rows {
  ops::walk w;
  bool derives = true;
  template <class F, class... X>
  void smooth(const char* name, F f, const X&... x) {
    if (derives) w.smooth(name, eager(f, x...), 1e-13, f, x...);
    else w.row(name, eager(f, x...), 1e-13, f, x...);
  }
  template <class F, class... X>
  void exact(const char* name, F f, const X&... x) {
    w.row(name, eager(f, x...), 0, f, x...);
  }
};

/// A (4, 3, 5) view with steps, reversed and permuted.
const auto base = ops::between<f64, 3>({5, 8, 3}, -2, 2, 1);
const auto view = permute<1, 2, 0>(slice<1>(flip<0>(base), 7, to_end, -2));

void movement(rows& r, const tensor<f64, 3>& x) {
  r.smooth(
      "reshape", [](const auto& t) { return reshape(t, -1, 2); }, slice<0>(x, 0, 2));
  r.smooth(
      "permute", [](const auto& t) { return permute<2, 0, 1>(t); }, x);
  r.smooth(
      "transpose, reshape", [](const auto& t) { return flatten(transpose(t)); }, x);
  r.smooth(
      "broadcast_to", [](const auto& t) { return broadcast_to(slice<1>(t, 1, 2), 2, -1, 4, -1); }, x);
  r.smooth(
      "expand_dims, squeeze", [](const auto& t) { return squeeze<0>(slice<0>(expand_dims<1>(t), 1, 2)); }, x);
  r.smooth(
      "slice", [](const auto& t) { return slice<2>(slice<0>(t, 1, 4, 2), -1, to_end, -2); }, x);
  r.smooth(
      "flip", [](const auto& t) { return flip<0, 2>(t); }, x);
  r.smooth(
      "concat", [](const auto& t, const auto& u) { return concat<1>(t, u, t * 2.0); }, x, slice<1>(x, 0, 1));
  r.smooth(
      "stack", [](const auto& t) { return stack<1>(t, exp(t)); }, x);
  r.smooth(
      "split",
      [](const auto& t) {
        auto p = split<0>(t, 2);
        return p[0] * p[1];
      },
      x);
  r.smooth(
      "pad",
      [](const auto& t) {
        return pad(t, {{1, 0}, {0, 2}, {0, 0}}, 3);
      },
      x);
  r.smooth(
      "tile",
      [](const auto& t) {
        return tile(t, {2, 1, 3});
      },
      x);
  r.smooth(
      "tril", [](const auto& t) { return tril(t, 1); }, x);
  r.smooth(
      "triu", [](const auto& t) { return triu(t, -1) * t; }, x);
}

void reductions(rows& r, const tensor<f64, 3>& x) {
  r.smooth(
      "sum", [](const auto& t) { return sum(t * t, axis<0, 2>); }, x);
  r.smooth(
      "sum of all", [](const auto& t) { return sum(sin(t)); }, x);
  r.smooth(
      "prod", [](const auto& t) { return prod(t, axis<1>); }, x);
  r.smooth(
      "max", [](const auto& t) { return max(t, axis<1>, keepdims); }, x);
  r.smooth(
      "min", [](const auto& t) { return min(t, axis<0, 1>); }, x);
  r.smooth(
      "mean", [](const auto& t) { return mean(t, axis<-1>) * 2.0; }, x);
  r.smooth(
      "var", [](const auto& t) { return var(t, axis<1>, keepdims, 1); }, x);
  r.smooth(
      "std", [](const auto& t) { return sinter::std(t, axis<2>); }, x);
  r.smooth(
      "logsumexp", [](const auto& t) { return logsumexp(t, axis<1>); }, x);
  r.smooth(
      "norm", [](const auto& t) { return norm(t, axis<0>, keepdims) * t; }, x);
  r.smooth(
      "norm 1", [](const auto& t) { return norm<1>(t); }, x);
  r.smooth(
      "norm of the largest", [](const auto& t) { return norm<norm_max>(t, axis<2>); }, x);
  r.exact(
      "any, all", [](const auto& t) { return any(t > 1.5, axis<1>) ^ all(t > -1.0, axis<1>); }, x);
  r.exact(
      "argmax", [](const auto& t) { return argmax(t, axis<1>); }, x);
  r.exact(
      "argmax of all", [](const auto& t) { return argmax(t * t); }, x);
  r.exact(
      "argmin", [](const auto& t) { return argmin(t, axis<2>, keepdims); }, x);
}

void at_indices(rows& r, const tensor<f64, 3>& x) {
  const tensor<i64, 2> index{{0, 2, 1}, {2, 2, 0}};
  const tensor<std::int32_t, 3> each{{{2}, {0}, {1}}};
  r.smooth(
      "take", [](const auto& t, const auto& i) { return take(t, i, axis<1>); }, x, index);
  r.smooth(
      "take rows", [](const auto& t, const auto& i) { return take(t, i); }, x, index);
  r.smooth(
      "take of one axis", [](const auto& t, const auto& i) { return take(t, i); },
      squeeze<1, 2>(slice<2>(slice<1>(x, 0, 1), 0, 1)), index);
  r.smooth(
      "take_along_axis", [](const auto& t, const auto& i) { return take_along_axis(t, i); }, x, each);
  r.exact(
      "one_hot", [](const auto& i) { return one_hot<f64>(i, 3); }, index);
  r.smooth(
      "scatter_add", [](const auto& t, const auto& i, const auto& u) { return scatter_add(t, i, u * u); }, x,
      slice<0>(flatten(index), 0, 4), x);
  r.smooth(
      "scatter_add elements", [](const auto& t, const auto& i, const auto& u) { return scatter_add(t, i, u, axis<1>); },
      slice<2>(slice<0>(x, 0, 1), 0, 1), slice<1>(each, 0, 2), slice<2>(slice<1>(slice<0>(x, 1, 2), 0, 2), 2, 3));
  // Equal indices, and such as count from the end.
  const tensor<i64, 1> meet{1, -1, 1, 0};
  r.smooth(
      "scatter_set", [](const auto& t, const auto& i, const auto& u) { return scatter_set(t, i, u * u); }, x, meet, x);
  r.smooth(
      "scatter_mul", [](const auto& t, const auto& i, const auto& u) { return scatter_mul(t, i, u, axis<0>); }, x, meet,
      flip<1>(x));
  r.smooth(
      "scatter_max", [](const auto& t, const auto& i, const auto& u) { return scatter_max(t, i, u); }, x, meet,
      flip<1>(x));
  r.smooth(
      "scatter_min elements", [](const auto& t, const auto& i, const auto& u) { return scatter_min(t, i, u, axis<1>); },
      slice<2>(slice<0>(x, 0, 1), 0, 1), tensor<std::int32_t, 3>(slice<1>(each, 0, 2) - 1),
      slice<2>(slice<1>(slice<0>(x, 1, 2), 0, 2), 2, 3));
}

void parts(rows& r, const tensor<f64, 3>& x) {
  // So many that a GPU does not write them one after another.
  const tensor<i64, 1> many = arange<i64>(40) * 7 % 5 - 3;
  r.smooth(
      "scatter_set of many", [](const auto& t, const auto& k, const auto& u) { return scatter_set(t, k, u, axis<1>); },
      slice<0>(permute<0, 2, 1>(x), 0, 2), many, ops::between<f64, 3>({2, 40, 3}, -1, 1, 12));
  const tensor<i64, 2> i{{0, -1, 1}, {-4, 2, 0}};
  const tensor<std::int32_t, 1> j{1, -1, 0};
  r.smooth(
      "take at two", [](const auto& t, const auto& a, const auto& b) { return take(t, a, b); }, x, i, j);
  r.smooth(
      "gather_nd", [](const auto& t, const auto& a) { return gather_nd<3>(t, a); }, x, i);
  r.smooth(
      "at indices, set", [](const auto& t, const auto& a, const auto& u) { return t.at(a).set(u * 2.0); }, x,
      flatten(i), flatten(slice<0>(slice<1>(x, 0, 1), 0, 1)));
  r.smooth(
      "at two, add", [](const auto& t, const auto& a, const auto& b) { return t.at(a, b).add(t[1][2]); }, x, i, j);
  r.smooth(
      "at a range, multiply", [](const auto& t) { return t.at(axis<1>, -2, 3).multiply(t[-1][0]); }, x);
  r.smooth(
      "dynamic_slice",
      [](const auto& t, const auto& s) {
        return dynamic_slice(t, s, {2, 3, 4});
      },
      x, j);
  r.smooth(
      "dynamic_update_slice", [](const auto& t, const auto& u, const auto& s) { return dynamic_update_slice(t, u, s); },
      x, slice<1>(slice<0>(x, 0, 2), 0, 2), j);
  r.smooth(
      "compress", [](const auto& t, const auto& m) { return compress(t, m, axis<1>, {.size = 4, .fill = -1.5}); }, x,
      tensor<bool, 1>{true, false, true});
}

void products(rows& r, const tensor<f64, 3>& x) {
  const auto m = ops::between<f64, 2>({5, 6}, -1, 1, 3), n = ops::between<f64, 2>({3, 3}, -1, 1, 4);
  const auto v = ops::between<f64, 1>({5}, -1, 1, 5), u = ops::between<f64, 1>({3}, -1, 1, 6);
  const auto mul = [](const auto& a, const auto& b) { return matmul(a, b); };
  r.smooth("matmul", mul, squeeze<0>(slice<0>(x, 1, 2)), m);
  r.smooth("matmul with a batch on the left", mul, x, m);
  r.smooth("matmul with a batch on the right", mul, n, x);
  r.smooth(
      "matmul of batches", [](const auto& a) { return matmul(a, transpose(a * 2.0)); }, x);
  r.smooth("matmul of a batch that broadcasts", mul, expand_dims<1>(x), broadcast_to(m, 2, 5, 6));
  r.smooth("matmul of vectors", mul, v, flip(v));
  r.smooth("matmul, vector first", mul, u, x);
  r.smooth("matmul, vector last", mul, x, v);
  r.smooth(
      "matmul and an epilogue",
      [](const auto& a, const auto& b, const auto& c) { return relu(matmul(a, b) + c) * 2.0; }, x, m,
      slice<0>(m, 0, 1));
  r.smooth(
      "einsum attention", [](const auto& a) { return einsum<"bqd,bkd->bqk">(a, a + 1.0); }, x);
  r.smooth(
      "einsum outer", [](const auto& a, const auto& b) { return einsum<"i,j->ji">(a, b); }, u, v);
  r.smooth(
      "einsum of three", [](const auto& a, const auto& b, const auto& c) { return einsum<"bqd,de,q->be">(a, b, c); }, x,
      m, u);
  r.smooth(
      "einsum of a diagonal", [](const auto& a, const auto& b) { return einsum<"qii,i->iq">(a, b); },
      ops::sample<f64, 3>({3, 5, 5}, 9), v);
  r.smooth(
      "einsum of axes that broadcast", [](const auto& a, const auto& b) { return einsum<"...i,...i->...">(a, b); }, x,
      transpose(slice<1>(m, 0, 1)));
  r.smooth(
      "einsum that sums alone", [](const auto& a, const auto& b) { return einsum<"bqd,e->b">(a, b); }, x, v);
}

void networks(rows& r, const tensor<f64, 3>& x) {
  const tensor<i64, 2> labels = argmax(ops::between<f64, 3>({4, 3, 5}, 0, 1, 8), axis<2>);
  const auto gamma = ops::between<f64, 1>({5}, 0.5, 2, 9), beta = ops::between<f64, 1>({5}, -1, 1, 10);
  r.smooth(
      "softmax", [](const auto& t) { return softmax(t); }, x);
  r.smooth(
      "softmax of the first axis", [](const auto& t) { return softmax<0>(t); }, x);
  r.smooth(
      "log_softmax", [](const auto& t) { return log_softmax<1>(t); }, x);
  r.smooth(
      "layer_norm", [](const auto& t, const auto& g, const auto& b) { return layer_norm(t, g, b); }, x, gamma, beta);
  r.smooth(
      "layer_norm, plain", [](const auto& t) { return layer_norm(t); }, x);
  r.smooth(
      "rms_norm", [](const auto& t, const auto& g) { return rms_norm(t, g); }, x, gamma);
  r.smooth(
      "cross_entropy", [](const auto& t, const auto& y) { return cross_entropy(t * 3.0, y); }, x, labels);
  r.smooth(
      "mse_loss", [](const auto& t, const auto& g) { return mse_loss(t, g); }, x, gamma);
}

template <class F>
void on_layouts(F f) {
  SUBCASE("contiguous") {
    rows r;
    f(r, view.contiguous());
    r.w.run();
  }
  SUBCASE("a view with steps, reversed and permuted") {
    rows r;
    f(r, view);
    r.w.run();
  }
  SUBCASE("special values") {
    const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    for (const std::vector<double>& some : {std::vector{nan}, {inf}, {-inf}, {-0.0, 0.0}, {inf, nan, -inf, -0.0}}) {
      const tensor<f64, 3> x = view.contiguous();
      for (std::int64_t i = 0; i < x.numel(); i += 7) x.data()[i] = some[static_cast<std::size_t>(i / 7) % some.size()];
      rows r;
      r.derives = false;
      f(r, x);
      r.w.run();
    }
  }
}

}  // namespace

TEST_CASE("movement") { on_layouts(movement); }
TEST_CASE("reductions") { on_layouts(reductions); }
TEST_CASE("indexing") { on_layouts(at_indices); }
TEST_CASE("places") {
  for (const tensor<f64, 3>& x : {view.contiguous(), view}) {
    rows r;
    parts(r, x);
    r.w.run();
  }
}
TEST_CASE("products at indices have derivatives where the product itself leaves the range") {
  rows r;
  const auto mul = [](const auto& a, const auto& i, const auto& u) { return sum(scatter_mul(a, i, u)); };
  const auto by_base = [=](const auto& a, const auto& i, const auto& u) {
    return grad([=](const auto& b) { return mul(b, i, u); })(a);
  };
  const auto by_updates = [=](const auto& a, const auto& i, const auto& u) {
    return grad([=](const auto& b) { return mul(a, i, b); })(u);
  };
  const auto check = [&](const auto& a, const tensor<i64, 1>& i, const auto& u, const auto& base, const auto& updates) {
    r.w.row("by the base", ops::values(base), 1e-6, by_base, a, i, u);
    r.w.row("by updates", ops::values(updates), 1e-6, by_updates, a, i, u);
  };
  using f = tensor<float, 1>;
  using d = tensor<f64, 1>;
  const float inf = std::numeric_limits<float>::infinity();
  check(f{10, 1}, {0}, f{3e38f}, f{3e38f, 1}, f{10});
  check(d{1e-300, 1, 7}, {0, 2}, d{1e-300, -1e308}, d{1e-300, 1, -1e308}, d{1e-300, 7});
  check(f{1e-30f, 3e38f, 2}, {0, 0, 2, 1}, f{1e-30f, 1e25f, 5, 10}, f{1e-5f, 10, 5}, f{1e-5f, 0, 2, 3e38f});
  check(f{1e30f, 0}, {0, 0, 1, 1}, f{1e30f, -1e-25f, 1e-30f, 1e25f}, f{-1e5f, 1e-5f}, f{-1e5f, inf, 0, 0});
  r.w.row(
      "by the base, tiny", ops::values(f{1, 1e30f}), 1e-6,
      [=](const auto& a, const auto& i, const auto& u) { return by_base(a, i, u) * 1e30f; }, f{1e-30f, 1},
      tensor<i64, 1>{0}, f{1e-30f});
  r.w.row(
      "of a part, by the base", ops::values(f{1e-30f, 3e38f, 1}), 1e-6,
      [](const auto& a, const auto& u) {
        return grad([=](const auto& b) { return sum(b.at(axis<0>, 0, 2).multiply(u)); })(a);
      },
      f{1e-30f, 10, 3}, f{1e-30f, 3e38f});
  r.w.row(
      "by both, which are 0", ops::values(f{1, 1}), 0,
      [=](const auto& a, const auto& i, const auto& u) {
        return grad([=](const auto& v) { return sum(grad([=](const auto& b) { return mul(b, i, v); })(a)); })(u);
      },
      f{0, 2}, tensor<i64, 1>{0, 1}, f{0, 3});
  r.w.run();
}
TEST_CASE("products") { on_layouts(products); }
TEST_CASE("networks") { on_layouts(networks); }

TEST_CASE("as many axes as there may be") {
  rows r;
  const auto x = ops::between<f64, 12>({2, 1, 3, 1, 2, 1, 2, 2, 1, 3, 2, 2}, -2, 2, 3);
  const auto turned = permute<11, 0, 9, 2, 7, 4, 6, 5, 8, 3, 10, 1>(x);
  r.smooth(
      "permute", [](const auto& t) { return permute<3, 1, 2, 0, 11, 10, 4, 5, 6, 7, 8, 9>(t) * 2.0; }, turned);
  r.smooth(
      "reduce", [](const auto& t) { return sum(exp(t), axis<0, 2, 10>); }, turned);
  r.smooth(
      "reshape", [](const auto& t) { return sin(reshape(t, 6, -1)); }, turned);
  r.smooth(
      "slice, broadcast", [](const auto& t) { return slice<2>(t, 1, to_end, 2) * t; }, turned);
  r.w.run();
}

TEST_CASE("one element and nothing") {
  rows r;
  const auto walk = [&](const tensor<f64, 2>& x, const tensor<f64, 2>& m) {
    r.smooth(
        "movement",
        [](const auto& t) { return concat<0>(transpose(flip<1>(t)), reshape(t * 2.0, t.size(1), t.size(0))); }, x);
    r.smooth(
        "sum", [](const auto& t) { return sum(t * t, axis<0>); }, x);
    r.smooth(
        "prod", [](const auto& t) { return prod(t, axis<0>, keepdims); }, x);
    r.smooth(
        "softmax", [](const auto& t) { return softmax(t); }, x);
    r.smooth(
        "layer_norm", [](const auto& t) { return layer_norm(t); }, x);
    r.smooth(
        "matmul", [](const auto& a, const auto& b) { return matmul(a, b); }, x, m);
    r.smooth(
        "inner product", [](const auto& a, const auto& b) { return matmul(transpose(a), transpose(b)); }, m, x);
    r.smooth(
        "pad",
        [](const auto& t) {
          return pad(t, {{1, 0}, {0, 2}}, 3);
        },
        x);
    r.smooth(
        "tril", [](const auto& t) { return tril(t); }, x);
  };
  walk(ops::between<f64, 2>({1, 1}, 0.5, 2), ops::between<f64, 2>({1, 1}, -1, 1, 2));
  walk(ops::between<f64, 2>({0, 3}, 0, 1), ops::between<f64, 2>({3, 4}, -1, 1, 2));
  walk(ops::between<f64, 2>({1, 5}, -2, 2), ops::between<f64, 2>({5, 1}, -1, 1, 2));
  // Of what is computed there is no element, nor memory.
  for (const auto& extents : {sinter::index_array<2>{16, 0}, {0, 1}, {0, 16}}) {
    const auto x = ops::between<f64, 2>(extents, 0, 1);
    r.smooth(
        "sum of what follows from sums", [](const auto& t) { return sum(sin(sum(t, axis<0>, keepdims))); }, x);
    r.smooth(
        "sum of what follows from joined rows", [](const auto& t) { return sum(sin(concat<0>(t, t))); }, x);
    r.smooth(
        "sums of what is gathered",
        [](const auto& t) { return sum(exp(reshape(cumsum<0>(t), -1, t.size(0) * 0 + 4)), axis<0>); }, x);
    r.smooth(
        "a slice past the end", [](const auto& t) { return sum(slice<0>(reshape(t * 2.0, -1), t.numel())) + 1.0; }, x);
  }
  r.w.run();
}
