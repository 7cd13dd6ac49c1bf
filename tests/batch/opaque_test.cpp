// Branches, loops and custom ops for lanes, against a loop over the lanes.
#include <memory>

#include "lanes.hpp"

using namespace lanes;
using sinter::ir::foreign_arrays;

namespace {

constexpr auto f64 = dtype::f64;

value number(const value& near, double x) { return {near.owner(), near.owner().constant(near.type(), x, {})}; }

/// Twice the operand, plus its place.
std::shared_ptr<sinter::ir::foreign> doubling(bool with_derivative) {
  auto f = std::make_shared<sinter::ir::foreign>();
  f->name = "doubling";
  f->identity = sinter::ir::new_identity();
  f->host = [](foreign_arrays in, foreign_arrays out) {
    const auto* x = static_cast<const double*>(in[0].data);
    auto* y = static_cast<double*>(out[0].data);
    std::int64_t n = 1;
    for (int d = 0; d < in[0].rank; ++d) n *= in[0].extents[d];
    for (std::int64_t i = 0; i < n; ++i) y[i] = 2 * x[i] + static_cast<double>(i);
    *static_cast<double*>(out[1].data) = n > 0 ? x[0] * static_cast<const double*>(in[1].data)[0] : 0;
  };
  if (with_derivative)
    f->pull = [] {
      graph g;
      const value x(g, g.add_input(f64, {3})), k(g, g.add_input(f64, {}));
      g.add_input(f64, {3}), g.add_input(f64, {});
      const value ct(g, g.add_input(f64, {3})), of_first(g, g.add_input(f64, {}));
      const value first = reshape(slice(x, {1}, {0}, {1}), {});
      g.outputs = {(ct * 2.0 + pad(reshape(of_first * k, {1}), {0}, {2}, 0.0)).id(), (of_first * first).id()};
      return g;
    };
  return f;
}

values call(const values& in, std::shared_ptr<const sinter::ir::foreign> f, bool effect = false) {
  sinter::ir::opaque s;
  s.kind = effect ? sinter::ir::opaque_kind::host_call : sinter::ir::opaque_kind::custom;
  s.function = std::move(f);
  s.results = {{f64, in[0].extents()}, {f64, {}}};
  return steps::push(in, std::move(s), {"user.cpp", 7});
}

}  // namespace

TEST_CASE("cond of lanes: one branch for all, or each lane its own") {
  const std::vector<input> in{{dtype::b8, {}}, {f64, {3}}, {f64, {3}}};
  agree(
      [](const values& v) {
        return steps::cond(
            {v[0], v[1], v[2]},
            [](const values& x) {
              return values{x[0] * x[1], x[0], cast(gt(x[1], 0.0), dtype::i32), x[1]};
            },
            [](const values& x) {
              return values{sin(x[0]), x[0].like(3.0), cast(x[0], dtype::i32), x[1] * 2.0};
            });
      },
      in);
  agree(
      [](const values& v) {
        const auto out = steps::cond(
            {v[0], v[1]}, [](const values&) { return values{}; }, [](const values&) { return values{}; });
        return values{v[1] * 2.0};
      },
      {in[0], in[1]});
}

TEST_CASE("loops of lanes: what varies is carried, sliced and stacked with the lanes") {
  for (bool reverse : {false, true})
    for (std::int64_t length : {3, 1, 0})
      agree(
          [=](const values& v) {
            const auto out = steps::loop(
                length, {v[0], v[1], number(v[1], 2.0)}, {v[2]}, {v[3]},
                [](value i, values c, values x, values k) {
                  const value turn = cast(i, f64);
                  // The second varies from the second step on where the first does; the third never does.
                  return values{sin(dot(c[0], k[0], 0, 1) + x[0]),
                                c[1] + reduce(c[0], op::add, {0}) * turn,
                                c[2] * 2.0 + turn,
                                x[0] * 2.0,
                                turn,
                                c[0] * c[0]};
                },
                reverse);
            return values(out.begin(), out.end());
          },
          {{f64, {3}}, {f64, {}}, {f64, {length, 3}}, {f64, {3, 3}}});
}

TEST_CASE("loops of lanes: carried integers, no carry, nothing that varies") {
  agree(
      [](const values& v) {
        return steps::loop(3, {v[0], v[1]}, {}, {}, [](value i, values c, values, values) {
          return values{c[0] + i, c[1] * cast(c[0], f64)};
        });
      },
      {{dtype::i64, {}, -3, 3}, {f64, {}}});
  agree(
      [](const values& v) {
        return steps::loop(4, {}, {v[0]}, {v[1]}, [](value, values, values x, values k) {
          return values{x[0] * k[0], k[0]};
        });
      },
      {{f64, {4, 2}}, {f64, {2}}});
}

TEST_CASE("a while_loop of lanes: those that have ended stay as they are") {
  const how forward{1e-12, true, false};
  // Lanes take different numbers of steps, some none.
  agree(
      [](const values& v) {
        return steps::while_loop(
            {v[0], v[1], v[2]}, [](const values& x) { return values{lt(reduce(x[0], op::add, {0}), 9.0)}; },
            [](const values& x) {
              return values{x[0] * 1.5 + 0.25, x[1] + 1.0, x[2]};
            });
      },
      {{f64, {2}, 0, 7}, {dtype::i64, {}, 0, 4}, {f64, {2}}}, forward);
  // A test that is the same for all.
  agree(
      [](const values& v) {
        const value zero(v[0].owner(), v[0].owner().constant(dtype::i64, 0.0, {}));
        return steps::while_loop(
            {zero, v[0]}, [](const values& x) { return values{lt(x[0], 4.0)}; },
            [](const values& x) {
              return values{x[0] + 1.0, x[1] * x[1] * 0.5};
            });
      },
      {{f64, {2}}}, forward);
  // The test varies from the second step on.
  agree(
      [](const values& v) {
        return steps::while_loop(
            {v[0], number(v[1], 0.0), v[1]}, [](const values& x) { return values{lt(x[1], 5.0)}; },
            [](const values& x) {
              return values{x[0], x[1] + x[2] * x[2] + 1.0, x[2]};
            });
      },
      {{f64, {}}, {f64, {}}}, forward);
}

TEST_CASE("loops that would not end for lanes that do not run them") {
  const how forward{1e-12, true, false};
  // v = v * 2 until 100: does not end below 0, nor within a loop that a lane has left.
  const auto doubled = [](const value& x) {
    return steps::while_loop(
        {x}, [](const values& v) { return values{lt(v[0], 100.0)}; },
        [](const values& v) { return values{v[0] * 2.0}; })[0];
  };
  agree(
      [&](const values& v) {
        return steps::cond(
            {gt(v[0], 0.0), v[0], v[1]}, [&](const values& x) { return values{doubled(x[0]) + x[1]}; },
            [&](const values& x) { return values{x[0] * x[1]}; });
      },
      {{f64, {}}, {f64, {}}}, forward);
  agree(
      [&](const values& v) {
        return steps::cond(
            {gt(v[0], 0.0), v[0], v[1]},
            [&](const values& x) {
              return values{steps::loop(2, {x[1]}, {}, {x[0]}, [&](value, values c, values, values k) {
                return values{c[0] + steps::cond(
                                         {lt(k[0], 1.0), k[0]}, [&](const values& y) { return values{doubled(y[0])}; },
                                         [&](const values& y) { return values{doubled(y[0] * 3.0)}; })[0]};
              })[0]};
            },
            [&](const values& x) { return values{x[0] * x[1]}; });
      },
      {{f64, {}}, {f64, {}}}, forward);
  // The inner loop counts to the outer's rest, which is negative once the outer has ended.
  agree(
      [&](const values& v) {
        return steps::while_loop(
            {v[0], v[0].like(0.0)}, [](const values& x) { return values{gt(x[0], 0.0)}; },
            [](const values& x) {
              const auto inner = steps::while_loop(
                  {x[0], x[0].like(0.0)}, [](const values& y) { return values{ne(y[0], y[1])}; },
                  [](const values& y) {
                    return values{y[0], y[1] + 1.0};
                  });
              return values{x[0] - 2.0, x[1] + inner[1]};
            });
      },
      {{f64, {}, 0, 0}}, forward);
  agree(
      [&](const values& v) {
        const value n = cast(v[0], f64);
        return steps::while_loop(
            {n, n.like(0.0)}, [](const values& x) { return values{gt(x[0], 0.0)}; },
            [](const values& x) {
              const auto inner = steps::while_loop(
                  {x[0], x[0].like(0.0)}, [](const values& y) { return values{ne(y[0], y[1])}; },
                  [](const values& y) {
                    return values{y[0], y[1] + 1.0};
                  });
              return values{x[0] - 2.0, x[1] + inner[1]};
            });
      },
      {{dtype::i64, {}, -2, 9}}, {1e-12, false, false});
}

TEST_CASE("a scan in a cond in a while_loop; derivatives of a scan in a cond in a scan") {
  const auto inner = [](const value& c, const value& xs) {
    return steps::cond(
        {gt(c, 0.5), c, xs},
        [](const values& v) {
          const auto out = steps::loop(3, {v[0]}, {v[1]}, {}, [](value, values d, values x, values) {
            return values{sin(d[0] + x[0]), d[0] * x[0]};
          });
          return values{out[0] + reduce(out[1], op::add, {0}) * 0.1};
        },
        [](const values& v) { return values{v[0] * 0.5 + reduce(v[1], op::maximum, {0}) * 0.25}; })[0];
  };
  agree(
      [&](const values& v) {
        return steps::while_loop(
            {v[0], number(v[0], 0.0), v[1]},
            [](const values& x) { return values{bit_and(lt(x[0], 2.0), lt(x[1], 4.0))}; },
            [&](const values& x) {
              return values{inner(x[0], x[2]) + 0.3, x[1] + 1.0, x[2]};
            });
      },
      {{f64, {}}, {f64, {3}}}, {1e-12, true, false});
  agree(
      [&](const values& v) {
        return steps::loop(4, {v[0]}, {}, {v[1]}, [&](value, values c, values, values k) {
          return values{inner(c[0], k[0]), c[0] * 2.0};
        });
      },
      {{f64, {}}, {f64, {3}}});
}

TEST_CASE("custom ops of lanes: the rule that they have, else a loop over the lanes") {
  const std::vector<input> in{{f64, {3}}, {f64, {}}};
  const auto f = doubling(true);
  agree([&](const values& v) { return call(v, f); }, in, {0, false, true});
  // No rule: the function sees one lane at a time, and what does not vary once.
  const graph lane = of_one([&](const values& v) { return call(v, f); }, in);
  for (unsigned pattern : {0u, 1u, 2u, 3u}) {
    const batched all(lane, pattern, 4);
    int loops = 0, calls = 0;
    for (auto id : all.g.live())
      if (all.g[id].code == op::opaque) ++(all.g[id].attr.step->kind == sinter::ir::opaque_kind::loop ? loops : calls);
    CHECK(loops == (pattern != 0));
    CHECK(calls == (pattern == 0));
  }
  auto ruled = doubling(false);
  int asked = 0;
  ruled->batch = [&asked](std::span<const char> varies, const sinter::ir::dim& lanes) {
    ++asked;
    graph g;
    value x(g, g.add_input(f64, varies[0] ? sinter::ir::shape{lanes, 3} : sinter::ir::shape{3}));
    value k(g, g.add_input(f64, varies[1] ? sinter::ir::shape{lanes} : sinter::ir::shape{}));
    if (!varies[0]) x = sinter::ir::ops::over_lanes(x, lanes);
    if (!varies[1]) k = sinter::ir::ops::over_lanes(k, lanes);
    const value first = reshape(slice(x, {lanes, 1}, {0, 0}, {1, 1}), {lanes});
    g.outputs = {(x * 2.0 + iota(x, f64, x.extents(), 1)).id(), (first * k).id()};
    return g;
  };
  agree([&](const values& v) { return call(v, ruled); }, in, {0, false, false});
  CHECK(asked == 9);
}

TEST_CASE("calls of the host are refused with what to do instead, wherever they are") {
  const auto f = doubling(false);
  const auto refused = [&](const function& body) {
    graph lane;
    const value x(lane, lane.add_input(f64, {3})), k(lane, lane.add_input(f64, {}));
    lane.outputs = ids(body({x, k}));
    for (unsigned pattern : {0u, 3u}) {
      const std::string why = arrays::message([&] { batched(lane, pattern, 2); });
      CAPTURE(why);
      CHECK(why.find("[vmap]") != std::string::npos);
      CHECK(why.find("calls a function of the host") != std::string::npos);
      CHECK(why.find("call it outside of vmap") != std::string::npos);
    }
  };
  refused([&](const values& v) {
    call(v, f, true);
    return values{v[0] * 2.0};
  });
  refused([&](const values& v) {
    return steps::cond(
        {gt(v[1], 0.0), v[0], v[1]},
        [&](const values& x) {
          call(x, f, true);
          return values{x[0]};
        },
        [](const values& x) { return values{x[0] * 2.0}; });
  });
}

TEST_CASE("stacks of carried values have no room for the lanes of values of rank 11") {
  const graph lane = of_one(
      [](const values& v) {
        return steps::loop(2, {v[0]}, {}, {}, [](value, values c, values, values) { return values{c[0] * 2.0}; });
      },
      {{f64, extents_t(11, 1)}});
  CHECK(arrays::message([&] { batched(lane, 1, 3); }).find("[vmap]") != std::string::npos);
  CHECK_NOTHROW(batched(lane, 0, 3));
}

TEST_CASE("calls of lanes: their rules are those of all lanes, with sums of what lanes share") {
  using sinter::ir::recompute;
  const std::vector<input> in{{f64, {3}}, {f64, {}}};
  const auto body = [](const values& v) {
    const value k = broadcast(reshape(v[1], {1}), {3});
    return values{v[0] * v[0] * 2.0, v[0] * k};
  };
  // Three times the derivative, which tells rules from what the part does.
  const auto pull = [] {
    graph g;
    const value x(g, g.add_input(f64, {3})), k(g, g.add_input(f64, {}));
    g.add_input(f64, {3}), g.add_input(f64, {3});
    const value a(g, g.add_input(f64, {3})), b(g, g.add_input(f64, {3}));
    const value by = broadcast(reshape(k, {1}), {3});
    g.outputs = {((x * a * 4.0 + by * b) * 3.0).id(), (reduce(x * b, op::add, {0}) * 3.0).id()};
    return g;
  };
  const auto push = [] {
    graph g;
    const value x(g, g.add_input(f64, {3})), k(g, g.add_input(f64, {}));
    g.add_input(f64, {3}), g.add_input(f64, {3});
    const value u(g, g.add_input(f64, {3})), w(g, g.add_input(f64, {}));
    const auto wide = [](const value& v) { return broadcast(reshape(v, {1}), {3}); };
    g.outputs = {(x * u * 12.0).id(), ((u * wide(k) + x * wide(w)) * 3.0).id()};
    return g;
  };
  for (const int which : {0, 1, 2}) {
    auto rules = std::make_shared<sinter::ir::foreign>();
    rules->name = "rules";
    rules->identity = sinter::ir::new_identity();
    if (which != 1) rules->pull = pull;
    if (which != 0) rules->push = push;
    agree([&](const values& v) { return steps::call(v, body, {}, rules); }, in);
  }
  for (const recompute again : {recompute::all, recompute::all_but_products})
    for (const bool stays : {false, true})
      agree([&](const values& v) { return steps::call(v, body, again, nullptr, stays); }, in);
}
