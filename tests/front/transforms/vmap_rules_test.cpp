// vmap of functions with derivative rules, of remat, of pullbacks, and the derivatives of all these: against one lane after the other.
#include "derivatives.hpp"

using namespace derivatives;

namespace {

template <class F>
matrix rows(const F& f, const matrix& x) {
  std::vector<vec> out;
  for (std::int64_t i = 0; i < x.size(0); ++i) out.push_back(f(vec(reshape(slice<0>(x, i, i + 1), x.size(1)))));
  return stack(out);
}

template <class F>
void check_lanes(const F& f, const matrix& x) {
  const auto loss = [f](const vec& x) { return sum(f(x) * f(x)); };
  const auto slope = [=](const vec& x) { return grad(loss)(x); };
  const auto along = [f](const vec& x) { return jvp(f)(x, vec(sin(x))).second; };
  const auto bend = [=](const vec& x) { return hvp(loss)(x, vec(cos(x))); };
  const auto check = [](const auto& all, const matrix& x, const matrix& want) {
    for (const auto& got : everywhere(all, x)) check_close(got.to_vector(), want.to_vector(), 1e-9);
  };
  check(vmap(f), x, rows(f, x));
  check(vmap(slope), x, rows(slope, x));
  check(vmap(along), x, rows(along, x));
  check(vmap(bend), x, rows(bend, x));
  const auto of_lanes = [f](const matrix& x) {
    return grad([&](const matrix& x) {
      const matrix y = vmap(f)(x);
      return sum(y * y);
    })(x);
  };
  check(of_lanes, x, rows(slope, x));
  check(
      [f](const matrix& x) {
        return jvp([&](const matrix& x) { return matrix(vmap(f)(x)); })(x, matrix(sin(x))).second;
      },
      x, rows(along, x));
}

}  // namespace

TEST_CASE("vmap of functions with rules, and of what is computed anew") {
  const matrix x = normal<double>(make_key(1), 4, 3);
  const auto ruled = custom_vjp([](const vec& x) { return vec(x * x * 2.0); },
                                [](const vec& x) {
                                  return std::pair{vec(x * x * 2.0), x};
                                },
                                [](const vec& x, const vec& ct) { return vec(4.0 * x * ct); });
  const auto pushed = custom_jvp([](const vec& x) { return vec(sin(x) * sum(x)); },
                                 [](const vec& x, const vec& v) {
                                   return std::pair{vec(sin(x) * sum(x)), vec(cos(x) * v * sum(x) + sin(x) * sum(v))};
                                 });
  check_lanes([=](const vec& x) { return vec(ruled(x) * x); }, x);
  check_lanes([=](const vec& x) { return vec(pushed(x) * x); }, x);
  check_lanes(remat([](const vec& x) { return vec(sin(x) * sum(exp(x))); }), x);
  const auto back = vjp(pushed)(vec{1, 2, 3}).second;
  check_close(vmap(back)(eye<double>(3)).to_vector(), jacobian(pushed)(vec{1, 2, 3}).to_vector(), 1e-9);
}

TEST_CASE("what lanes share receives the sum of what a rule gives it, once for a result that is shared too") {
  const matrix x = normal<double>(make_key(1), 4, 3);
  const vec w{0.5, -1, 2};
  const auto plain = [](const vec& w, const vec& x) { return std::pair{vec(w * w), vec(w * x)}; };
  const auto ruled = custom_vjp(
      plain,
      [=](const vec& w, const vec& x) {
        return std::pair{plain(w, x), std::tuple{w, x}};
      },
      [](const auto& kept, const auto& ct) {
        const auto& [w, x] = kept;
        return std::tuple{vec(2.0 * w * ct.first + x * ct.second), vec(w * ct.second)};
      });
  const auto loss = [&](const auto& f) {
    return [f, x](const vec& w) {
      const auto [a, b] = vmap(f, in_axes<none, 0>)(w, x);
      return sum(a * a) + sum(b * b * b);
    };
  };
  for (const auto& g : everywhere(grad(loss(ruled)), w))
    check_close(g.to_vector(), grad(loss(plain))(w).to_vector(), 1e-9);
  for (const auto& h : everywhere(hvp(loss(ruled)), w, w))
    check_close(h.to_vector(), hvp(loss(plain))(w, w).to_vector(), 1e-9);
}

TEST_CASE(
    "rules in branches that some lanes take: what lanes share, loops that do not end for others, rules without ct") {
  using sc = tensor<double, 0>;
  const vec x{1, -1, 2};
  const auto squared = custom_vjp([](const sc& x) { return sc(x * x); },
                                  [](const sc& x) {
                                    return std::pair{sc(x * x), x};
                                  },
                                  [](const sc& x, const sc& ct) { return sc(2.0 * x * ct); });
  const auto shared = [&](const sc& w, const vec& x) {
    return sum(vmap(
        [&](const sc& w, const sc& x) {
          return cond(
              x > 0.0, [&](const sc& w, const sc&) { return sc(squared(w)); },
              [](const sc& w, const sc& x) { return sc(x * w * 0.0); }, w, x);
        },
        in_axes<none, 0>)(w, x));
  };
  CHECK(grad(shared)(sc(3), x).item() == 12);
  CHECK(compile(grad(shared))(sc(3), x).item() == 12);

  const auto grown = [](const sc& x) {  // does not end for x <= 0
    return while_loop([](const sc& y) { return y < 10.0; }, [](const sc& y) { return sc(y * 2.0); }, x);
  };
  const auto fixed = custom_vjp([=](const sc& x) { return grown(x); },
                                [=](const sc& x) {
                                  const sc y = grown(x);
                                  return std::pair{y, std::pair{x, y}};
                                },
                                [](const std::pair<sc, sc>& k, const sc& ct) { return sc(ct * k.second / k.first); });
  const auto some = [&](const vec& x) {
    return sum(vmap([&](const sc& x) {
      return cond(
          x > 0.0, [&](const sc& x) { return sc(fixed(x)); }, [](const sc& x) { return x; }, x);
    })(x));
  };
  CHECK(grad(some)(x).to_vector() == doubles{16, 1, 8});

  const auto two = custom_vjp([](const sc& w, const sc& x) { return sc(w * x); },
                              [](const sc& w, const sc& x) {
                                return std::pair{sc(w * x), std::pair{w, x}};
                              },
                              [](const std::pair<sc, sc>& k, const sc& ct) {
                                return std::tuple{sc(k.first * 0.0 + 1.0), sc(ct)};
                              });
  CHECK(grad([&](const sc& w, const vec& x) { return sum(vmap(two, in_axes<none, 0>)(w, x)); })(sc(3), x).item() == 3);

  const auto same = custom_vjp([](const vec& x) { return sum(x * 0.0); },
                               [](const vec& x) {
                                 return std::pair{sum(x * 0.0), x};
                               },
                               [](const vec& x, const sc&) { return vec(x * 0.0 + 1.0); });
  CHECK(jacrev(same)(x).to_vector() == doubles{1, 1, 1});
}
