#include <sinter/ir/define.hpp>
#include <sinter/ir/vocabulary.hpp>

#include <functional>

#include "arrays.hpp"

using namespace sinter::ir;
using arrays::extents_t;
using arrays::of;
using arrays::random;
using sinter::dtype;
using sinter::dtype_of;
using sinter::visit_dtype;

namespace {

constexpr dtype all[] = {dtype::b8,  dtype::i8,  dtype::u8,  dtype::i16,  dtype::u16, dtype::i32, dtype::u32,
                         dtype::i64, dtype::u64, dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

/// Random, special and extreme values of a dtype.
literal_array mixed(dtype t, std::size_t n, unsigned seed) {
  literal_array a = random(t, {static_cast<std::int64_t>(n)}, seed, is_unsigned(t) ? 0 : -9, 9);
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> special{0.0, -0.0, 1, -1, inf, -inf, std::nan(""), 0.5, -2.5, 300, 65504, -1e30, 0x1p-140};
  for (std::size_t i = 0; i < a.f.size(); i += 2) a.f[i] = special[(i / 2 + seed) % special.size()];
  const std::vector<std::int64_t> extreme{0, 1, -1, INT64_MIN, INT64_MAX, 127, -128, 255, 31, 64};
  for (std::size_t i = 0; i < a.i.size(); i += 2) a.i[i] = extreme[(i / 2 + seed) % extreme.size()];
  visit_dtype(t, [&](auto e) {
    using T = typename decltype(e)::type;
    for (auto& v : a.f) v = static_cast<double>(sinter::vocabulary::convert<T>(v));
    for (auto& v : a.i) v = static_cast<std::int64_t>(sinter::vocabulary::convert<T>(v));
  });
  return a;
}

/// Element i as T.
template <class T>
T at(const literal_array& a, std::size_t i) {
  if constexpr (is_float(dtype_of<T>)) return sinter::vocabulary::convert<T>(a.f[i]);
  else return sinter::vocabulary::convert<T>(a.i[i]);
}

template <class T>
void put(literal_array& a, T v) {
  if constexpr (is_float(dtype_of<T>)) a.f.push_back(sinter::vocabulary::convert<double>(v));
  else a.i.push_back(sinter::vocabulary::convert<std::int64_t>(v));
}

/// The row on elements of its own type: integers as they are, floats in double and rounded once.
template <op O, class T>
literal_array row_by_loop(const std::vector<literal_array>& in) {
  using W = std::conditional_t<is_float(dtype_of<T>), double, T>;
  constexpr auto rule = row(O).rule;
  constexpr bool to_bool = rule == dtype_rule::comparison || rule == dtype_rule::test;
  literal_array out{to_bool ? dtype::b8 : dtype_of<T>, in[0].extents, {}, {}};
  const std::size_t n = in[0].f.size() + in[0].i.size();
  for (std::size_t i = 0; i < n; ++i) {
    const auto get = [&](std::size_t k) { return sinter::vocabulary::convert<W>(at<T>(in[k < in.size() ? k : 0], i)); };
    if constexpr (O == op::kinked) put<T>(out, at<T>(in[1], i));
    else if constexpr (rule == dtype_rule::selection)
      put<T>(out, at<bool>(in[0], i) ? at<T>(in[1], i) : at<T>(in[2], i));
    else if constexpr (to_bool) put<bool>(out, sinter::vocabulary::apply_row<O, bool>(get(0), get(1)));
    else put<T>(out, sinter::vocabulary::convert<T>(sinter::vocabulary::apply_row<O, W>(get(0), get(1), get(2))));
  }
  return out;
}

template <op O>
void check_row() {
  const auto& r = row(O);
  if constexpr (!sinter::ir::names_type(row(O).rule)) {
    for (dtype t : all) {
      visit_dtype(t, [&](auto e) {
        using T = typename decltype(e)::type;
        std::vector<dtype> types(static_cast<std::size_t>(r.arity), t);
        if (r.rule == dtype_rule::selection) types[0] = dtype::b8;
        dtype result{};
        if (apply(r.rule, types.data(), r.arity, t, result)) return;
        constexpr bool floating = is_float(dtype_of<T>), boolean = std::is_same_v<T, bool>;
        constexpr auto rule = row(O).rule;
        constexpr bool fits = rule == dtype_rule::floating || rule == dtype_rule::test ? floating
                              : rule == dtype_rule::integer                            ? !floating && !boolean
                              : rule == dtype_rule::bits                               ? !floating
                              : rule == dtype_rule::random     ? std::is_same_v<T, std::uint64_t>
                              : rule == dtype_rule::arithmetic ? !boolean
                                                               : true;
        if constexpr (fits) {
          graph g;
          std::vector<literal_array> in;
          std::vector<node_id> ids;
          for (std::size_t k = 0; k < types.size(); ++k) {
            in.push_back(mixed(types[k], 91, static_cast<unsigned>(11 * k + 3)));
            ids.push_back(g.add_input(types[k], {91}));
          }
          g.outputs = {g.push(O, ids)};
          CAPTURE(std::string(r.name));
          CAPTURE(std::string(dtype_name(t)));
          CHECK(arrays::difference(arrays::run(g, in)[0], row_by_loop<O, T>(in)) == "");
        }
      });
    }
  }
}

using index_t = extents_t;

/// Every coordinate of `extents`, in row-major order.
void each(const extents_t& extents, const std::function<void(const index_t&)>& f) {
  index_t c(extents.size(), 0);
  for (std::int64_t n = arrays::count(extents); n > 0; --n) {
    f(c);
    for (std::size_t i = extents.size(); i-- > 0;) {
      if (++c[i] < extents[i]) break;
      c[i] = 0;
    }
  }
}

double element(const literal_array& a, const index_t& c) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < c.size(); ++i) offset = offset * a.extents[i] + c[i];
  return is_float(a.type) ? a.f[static_cast<std::size_t>(offset)]
                          : static_cast<double>(a.i[static_cast<std::size_t>(offset)]);
}

/// What an index function says the result is.
literal_array tabulate(dtype t, const extents_t& extents, const std::function<double(const index_t&)>& f) {
  std::vector<double> elements;
  each(extents, [&](const index_t& c) { elements.push_back(f(c)); });
  return of(t, extents, elements);
}

literal_array run1(const std::function<value(const std::vector<value>&)>& f, const std::vector<literal_array>& in) {
  graph g;
  std::vector<value> values;
  for (const auto& x : in) values.push_back({g, g.add_input(x.type, arrays::shape(x.extents))});
  g.outputs = {f(values).id()};
  return arrays::run(g, in)[0];
}

value make(op code, const std::vector<value>& in, std::vector<std::int64_t> ints, op combiner = op::add) {
  attributes a;
  a.ints = std::move(ints);
  a.combiner = combiner;
  std::vector<node_id> ids;
  for (const auto& v : in) ids.push_back(v.id());
  return {in[0].owner(), in[0].owner().push(code, ids, a)};
}

}  // namespace

TEST_CASE("every pointwise row on every dtype equals a plain loop, special values included") {
#define SINTER_POINTWISE(name, arity, rule, value, da, db, dc) check_row<op::name>();
#include <sinter/ir/ops.def>
}

TEST_CASE("casts between every two dtypes convert once") {
  for (dtype from : all)
    for (dtype to : all) {
      const auto x = mixed(from, 91, 5);
      literal_array expected{to, {91}, {}, {}};
      visit_dtype(from, [&](auto a) {
        visit_dtype(to, [&](auto b) {
          for (std::size_t i = 0; i < 91; ++i)
            put(expected,
                sinter::vocabulary::convert<typename decltype(b)::type>(at<typename decltype(a)::type>(x, i)));
        });
      });
      attributes a;
      a.type = to;
      CAPTURE(std::string(dtype_name(from)));
      CAPTURE(std::string(dtype_name(to)));
      CHECK(arrays::difference(run1([&](const auto& in) { return push(op::cast, {in[0]}, a); }, {x}), expected) == "");
    }
}

TEST_CASE("each result rounds to its dtype") {
  CHECK(run1([](const auto& in) { return in[0] + in[0]; }, {of(dtype::f16, {1}, {40000})}).f[0] ==
        std::numeric_limits<double>::infinity());
  CHECK(run1([](const auto& in) { return in[0] * 3.0; }, {of(dtype::f32, {1}, {double(0.1f)})}).f[0] ==
        double(0.1f * 3.0f));
  CHECK(run1([](const auto& in) { return in[0] + 1.0; }, {of(dtype::bf16, {1}, {256})}).f[0] == 256);
  CHECK(run1([](const auto& in) { return in[0] * 2.0; }, {of(dtype::i8, {1}, {100})}).i[0] == -56);
}

TEST_CASE("movement equals index functions") {
  for (dtype t : {dtype::f32, dtype::i16, dtype::b8}) {
    const auto x = random(t, {3, 5, 4}, 1, -9, 9);
    const auto same = [&](const extents_t& e, const std::function<double(const index_t&)>& f,
                          const std::function<value(const std::vector<value>&)>& build) {
      CHECK(arrays::difference(run1(build, {x}), tabulate(t, e, f)) == "");
    };
    same(
        {4, 3, 5},
        [&](const auto& c) {
          return element(x, {c[1], c[2], c[0]});
        },
        [](const auto& in) {
          return permute(in[0], {2, 0, 1});
        });
    same(
        {6, 10},
        [&](const auto& c) {
          const auto n = c[0] * 10 + c[1];
          return element(x, {n / 20, n / 4 % 5, n % 4});
        },
        [](const auto& in) {
          return reshape(in[0], {6, 10});
        });
    same(
        {2, 2, 4},
        [&](const auto& c) {
          return element(x, {c[0] * 2, 4 - 3 * c[1], 3 - c[2]});
        },
        [](const auto& in) {
          return slice(in[0], {2, 2, 4}, {0, 4, 3}, {2, -3, -1});
        });
    same(
        {0, 5, 4}, [](const auto&) { return 0.0; },
        [](const auto& in) {
          return slice(in[0], {0, 5, 4}, {3, 0, 0}, {1, 1, 1});
        });
    same(
        {4, 5, 7},
        [&](const auto& c) {
          const bool inside = c[0] >= 1 && c[2] >= 2 && c[2] < 6;
          return inside ? element(x, {c[0] - 1, c[1], c[2] - 2}) : 1.0;
        },
        [](const auto& in) {
          return pad(in[0], {1, 0, 2}, {0, 0, 1}, 1.0);
        });
    same(
        {3, 10, 4},
        [&](const auto& c) {
          return element(x, {c[0], c[1] % 5, c[2]});
        },
        [](const auto& in) {
          return make(op::concat, {in[0], in[0]}, {1});
        });
    const auto row = random(t, {3, 1, 4}, 2);
    CHECK(arrays::difference(run1(
                                 [](const auto& in) {
                                   return broadcast(in[0], {3, 6, 4});
                                 },
                                 {row}),
                             tabulate(t, {3, 6, 4}, [&](const auto& c) {
                               return element(row, {c[0], 0, c[2]});
                             })) == "");
    CHECK(run1([](const auto& in) { return broadcast(in[0], {3, 0, 4}); }, {row}).extents == extents_t{3, 0, 4});
  }
  CHECK(run1(
            [](const auto& in) {
              return iota(in[0], dtype::u8, {2, 3}, 1);
            },
            {of(dtype::f32, {}, {0})})
            .i == std::vector<std::int64_t>{0, 1, 2, 0, 1, 2});
  CHECK(run1([](const auto& in) { return iota(in[0], dtype::i8, {200}, 0); }, {of(dtype::f32, {}, {0})}).i[199] == -57);
}

TEST_CASE("reductions equal loops over the reduced axes") {
  const std::vector<std::pair<op, std::function<double(double, double)>>> combiners{
      {op::add, [](double a, double b) { return a + b; }},
      {op::mul, [](double a, double b) { return a * b; }},
      {op::maximum, [](double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }},
      {op::minimum, [](double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b); }}};
  auto x = random(dtype::f64, {3, 5, 4}, 3);
  x.f[17] = std::nan("");
  const auto whole = random(dtype::i32, {3, 5, 4}, 3, -4, 4);
  for (const auto& in : {x, whole})
    for (const auto& entry : combiners) {
      const op code = entry.first;
      const auto& f = entry.second;
      literal_array expected{in.type, {3, 4}, {}, {}};
      each({3, 4}, [&](const index_t& c) {
        double total = element(in, {c[0], 0, c[1]});
        for (std::int64_t k = 1; k < 5; ++k) total = f(total, element(in, {c[0], k, c[1]}));
        if (is_float(in.type)) expected.f.push_back(total);
        else expected.i.push_back(static_cast<std::int64_t>(total));
      });
      CAPTURE(std::string(name(code)));
      CHECK(arrays::difference(run1([&](const auto& v) { return reduce(v[0], code, {1}); }, {in}), expected, 1e-14) ==
            "");
    }
}

TEST_CASE("empty and integer reductions") {
  const auto reduced = [](const literal_array& x, op combiner) {
    return run1([&](const auto& in) { return make(op::reduce, {in[0]}, {0}, combiner); }, {x});
  };
  CHECK(reduced(of(dtype::f32, {0, 2}, {}), op::add).f == std::vector<double>{0, 0});
  CHECK(reduced(of(dtype::f32, {0, 2}, {}), op::mul).f == std::vector<double>{1, 1});
  CHECK(reduced(of(dtype::b8, {0}, {}), op::bit_and).i == std::vector<std::int64_t>{1});
  CHECK(reduced(of(dtype::b8, {0}, {}), op::bit_or).i == std::vector<std::int64_t>{0});
  CHECK(reduced(of(dtype::u8, {0}, {}), op::bit_and).i == std::vector<std::int64_t>{255});
  CHECK(reduced(of(dtype::i8, {0}, {}), op::bit_and).i == std::vector<std::int64_t>{-1});
  CHECK(reduced(of(dtype::i8, {2}, {100, 100}), op::add).i == std::vector<std::int64_t>{-56});
  CHECK(reduced(of(dtype::b8, {2}, {1, 0}), op::bit_and).i == std::vector<std::int64_t>{0});
  CHECK(reduced(of(dtype::f64, {2}, {-1e308, -1.5e308}), op::maximum).f == std::vector<double>{-1e308});
  literal_array big{dtype::u64, {2}, {}, {-1, 5}};
  CHECK(reduced(big, op::maximum).i == std::vector<std::int64_t>{-1});
}

TEST_CASE("a scan with factors: each element and its factor times the result before, the first factor unread") {
  const double nan = std::nan("");
  const auto run = [](const literal_array& x, const literal_array& a, std::int64_t axis, bool reverse) {
    return run1([&](const auto& in) { return recurrence(in[0], in[1], axis, reverse); }, {x, a});
  };
  const auto x = of(dtype::f64, {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(run(x, of(dtype::f64, {2, 3}, {nan, 2, 3, nan, 0, -1}), 1, false).f == std::vector<double>{1, 4, 15, 4, 5, 1});
  CHECK(run(x, of(dtype::f64, {2, 3}, {2, 3, nan, 10, 0, nan}), 1, true).f == std::vector<double>{23, 11, 3, 54, 5, 6});
  CHECK(run(x, of(dtype::f64, {2, 3}, {nan, nan, nan, 10, 0, 1}), 0, false).f ==
        std::vector<double>{1, 2, 3, 14, 5, 9});
  CHECK(run(of(dtype::i8, {3}, {100, 100, 1}), of(dtype::i8, {3}, {7, 3, 2}), 0, false).i ==
        std::vector<std::int64_t>{100, -112, 33});
  graph g;
  const value in(g, g.add_input(dtype::f32, {3})), longer(g, g.add_input(dtype::f32, {4}));
  CHECK(arrays::message([&] { recurrence(in, longer, 0, false); }) ==
        "[scan] add with factors f32(4,); add takes f32(3,)");
}

TEST_CASE("arg_reduce: the first extreme, NaN counts") {
  const auto arg = [](const literal_array& x, op combiner, std::int64_t axis) {
    return run1([&](const auto& in) { return make(op::arg_reduce, {in[0]}, {axis}, combiner); }, {x}).i;
  };
  const auto x = of(dtype::f32, {2, 4}, {1, 3, 3, 0, 2, std::nan(""), 9, std::nan("")});
  CHECK(arg(x, op::maximum, 1) == std::vector<std::int64_t>{1, 1});
  CHECK(arg(x, op::minimum, 1) == std::vector<std::int64_t>{3, 1});
  CHECK(arg(x, op::maximum, 0) == std::vector<std::int64_t>{1, 1, 1, 1});
  literal_array big{dtype::u64, {3}, {}, {5, -1, 7}};
  CHECK(arg(big, op::maximum, 0) == std::vector<std::int64_t>{1});
}

TEST_CASE("gather clamps, scatter_add drops and accumulates") {
  const auto x = of(dtype::f32, {3, 2}, {0, 1, 10, 11, 20, 21});
  const auto index = of(dtype::i64, {4, 2}, {0, 2, -7, 1, 9, 0, 1, 1});
  CHECK(run1([](const auto& in) { return gather(in[0], in[1], 0); }, {x, index}).f ==
        std::vector<double>{0, 21, 0, 11, 20, 1, 10, 11});
  const auto updates = of(dtype::f32, {4, 2}, {1, 2, 4, 8, 16, 32, 64, 128});
  CHECK(run1([](const auto& in) { return scatter_add(in[0], in[1], in[2], 0); }, {x, index, updates}).f ==
        std::vector<double>{1, 33, 74, 147, 20, 23});
  const auto bytes = of(dtype::i8, {1}, {100}), twice = of(dtype::i64, {2}, {0, 0}),
             more = of(dtype::i8, {2}, {100, 3});
  CHECK(run1([](const auto& in) { return scatter_add(in[0], in[1], in[2], 0); }, {bytes, twice, more}).i ==
        std::vector<std::int64_t>{-53});
}

TEST_CASE("an axis that turns out to be empty: gather reads 0, an extreme is nowhere") {
  graph g;
  const dim s = dim::symbol(0), rest = s - dim(2);
  const value x(g, g.add_input(dtype::f32, {rest, 2})), index(g, g.add_input(dtype::i64, {1, 2}));
  sinter::ir::attributes a;
  a.ints = {0};
  a.combiner = op::maximum;
  g.outputs = {gather(x, index, 0).id(), push(op::arg_reduce, {x}, a).id(), reduce(x, op::minimum, {0}).id()};
  const auto at = of(dtype::i64, {1, 2}, {0, 1});
  const auto none = arrays::run(g, {of(dtype::f32, {0, 2}, {}), at}, {2});
  CHECK(none[0].f == std::vector<double>{0, 0});
  CHECK(none[1].i == std::vector<std::int64_t>{-1, -1});
  CHECK(none[2].f == std::vector<double>(2, std::numeric_limits<double>::infinity()));
  const auto some = arrays::run(g, {of(dtype::f32, {1, 2}, {3, 4}), at}, {3});
  CHECK(some[0].f == std::vector<double>{3, 4});
  CHECK(some[1].i == std::vector<std::int64_t>{0, 0});
}

TEST_CASE("dot equals its definition") {
  for (dtype t : {dtype::f64, dtype::i64}) {
    const auto a = random(t, {2, 3, 5, 4}, 1, -4, 4), b = random(t, {2, 5, 4, 2, 3}, 2, -4, 4);
    const auto expected = tabulate(t, {2, 3, 2, 3}, [&](const index_t& c) {
      double sum = 0;
      each({5, 4}, [&](const index_t& k) {
        sum += element(a, {c[0], c[1], k[0], k[1]}) * element(b, {c[0], k[0], k[1], c[2], c[3]});
      });
      return sum;
    });
    CHECK(arrays::difference(run1([](const auto& in) { return dot(in[0], in[1], 1, 2); }, {a, b}), expected, 1e-13) ==
          "");
  }
  CHECK(run1([](const auto& in) { return dot(in[0], in[1], 0, 1); },
             {of(dtype::f32, {2, 0}, {}), of(dtype::f32, {0, 2}, {})})
            .f == std::vector<double>{0, 0, 0, 0});
  CHECK(run1([](const auto& in) { return dot(in[0], in[1], 0, 1); },
             {of(dtype::u8, {1, 2}, {200, 100}), of(dtype::u8, {2, 1}, {2, 3})})
            .i == std::vector<std::int64_t>{188});
}

TEST_CASE("symbols are bound by sizes; repeated and input outputs are given each") {
  graph g;
  const dim n = dim::symbol(0);
  const value x(g, g.add_input(dtype::f64, {n, 2}));
  const value y = reduce(x * 2.0, op::add, {0});
  g.outputs = {y.id(), x.id(), y.id()};
  const auto in = of(dtype::f64, {3, 2}, {1, 2, 3, 4, 5, 6});
  const auto got = arrays::run(g, {in}, {3});
  CHECK(got[0].f == std::vector<double>{18, 24});
  CHECK(got[1].f == in.f);
  CHECK(got[2].f == got[0].f);
}

TEST_CASE("wrong inputs and impossible sizes are clear errors") {
  graph g;
  const value x(g, g.add_input(dtype::f32, {3}));
  g.outputs = {broadcast(reshape(x, {3, 1}), {3, std::int64_t{1} << 54}).id()};
  CHECK(arrays::message([&] { arrays::run(g, {}); }) == "[evaluate] got 0 inputs; the graph takes 1");
  CHECK(arrays::message([&] {
          arrays::run(g, {of(dtype::f32, {2}, {1, 2})});
        }) == "[evaluate] input 0 is f32 with 2 elements; the graph takes f32(3,)");
  CHECK(arrays::message([&] {
          arrays::run(g, {of(dtype::f64, {3}, {1, 2, 3})});
        }).find("the graph takes f32(3,)") != std::string::npos);
  CHECK_THROWS_AS(arrays::run(g, {of(dtype::f32, {3}, {1, 2, 3})}), sinter::system_error);
}

TEST_CASE("a result takes the place of an operand that nobody reads any more, and of no other") {
  graph g;
  const value x{g, g.add_input(dtype::i32, {4})};
  const value doubled = x * 2.0, negative = push(op::neg, {doubled});            // doubled is read again
  const value sum = doubled + negative, far = sum + doubled, less = lt(far, x);  // far, an i32, is read for a bool
  const value chosen = push(op::select, {less, sum - 1.0, sum});
  g.outputs = {negative.id(), less.id(), chosen.id(), far.id()};
  const auto got = evaluate(g, std::vector{of(dtype::i32, {4}, {-3, 0, 5, -7})});
  using numbers = std::vector<std::int64_t>;
  const auto elements = [&](std::size_t k) { return numbers(got[k].i.begin(), got[k].i.end()); };
  CHECK(elements(0) == numbers{6, 0, -10, 14});
  CHECK(elements(1) == numbers{1, 0, 0, 1});
  CHECK(elements(2) == numbers{-1, 0, 0, -1});
  CHECK(elements(3) == numbers{-6, 0, 10, -14});
  g.outputs = {less.id()};
  const auto alone = evaluate(g, std::vector{of(dtype::i32, {4}, {-3, 0, 5, -7})});
  CHECK(alone[0].type == dtype::b8);
  CHECK(numbers(alone[0].i.begin(), alone[0].i.end()) == numbers{1, 0, 0, 1});
}
