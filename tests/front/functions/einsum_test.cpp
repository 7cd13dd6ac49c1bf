// einsum against plain f64 loops over all labels; the notation's errors.
#include <array>
#include <limits>
#include <map>
#include <string>

#include <sinter/front/functions/einsum.hpp>
#include <sinter/sinter.hpp>

#include "../ops_support.hpp"

using namespace sinter;
using ops::array;
using ops::check_both;
using ops::coord;

namespace {

/// Every label looped over, the definition of the notation; `text` has an arrow, no spaces and no '...'. Axes of extent 1 broadcast.
array loops(const std::string& text, const std::vector<array>& x) {
  const auto arrow = text.find("->");
  std::vector<std::string> labels{""};
  for (char c : text.substr(0, arrow))
    if (c == ',') labels.emplace_back();
    else labels.back() += c;
  const std::string result = text.substr(arrow + 2);
  std::map<char, std::int64_t> extent;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t k = 0; k < labels[i].size(); ++k) {
      auto& e = extent.emplace(labels[i][k], 1).first->second;
      if (e == 1) e = x[i].extents[k];
    }
  std::string summed;
  coord kept_extents, summed_extents;
  for (char c : result) kept_extents.push_back(extent[c]);
  for (const auto& [c, n] : extent)
    if (result.find(c) == std::string::npos) {
      summed += c;
      summed_extents.push_back(n);
    }
  return ops::make(kept_extents, [&](const coord& kept) {
    std::map<char, std::int64_t> at;
    for (std::size_t i = 0; i < result.size(); ++i) at[result[i]] = kept[i];
    double total = 0;
    ops::make(summed_extents, [&](const coord& inner) {
      for (std::size_t i = 0; i < summed.size(); ++i) at[summed[i]] = inner[i];
      double term = 1;
      for (std::size_t i = 0; i < x.size(); ++i) {
        coord c;
        for (char l : labels[i]) c.push_back(x[i].extents[c.size()] == 1 ? 0 : at[l]);
        term *= ops::get(x[i], c);
      }
      total += term;
      return 0.0;
    });
    return total;
  });
}

/// Labels are the same as Text's, one for each axis.
template <fixed_string Text, class... X>
void check_as(const std::string& labels, const X&... x) {
  check_both(
      loops(labels, {ops::values(x)...}), 1e-13, [](const auto&... t) { return einsum<Text>(t...); }, x...);
}
template <fixed_string Text, class... X>
void check(const X&... x) {
  check_as<Text>(Text.text, x...);
}

const auto ij = ops::sample<double, 2>({3, 4}, 1), jk = ops::sample<double, 2>({4, 5}, 2),
           kj = ops::sample<double, 2>({5, 4}, 3);
const auto v3 = ops::sample<double, 1>({3}, 4), v4 = ops::sample<double, 1>({4}, 5),
           v5 = ops::sample<double, 1>({5}, 5);
const auto q = ops::sample<double, 4>({2, 3, 4, 5}, 6), k = ops::sample<double, 4>({2, 3, 6, 5}, 7);

}  // namespace

TEST_CASE("one operand: transposes and sums") {
  check<"ij->ji">(ij);
  check<"ij->i">(ij);
  check<"ij->">(ij);
  check<"bhqd->dqb">(q);
}

TEST_CASE("two operands: every role a label can have") {
  check<"ij,jk->ik">(ij, jk);
  check<"ij,kj->ki">(ij, kj);
  check<"ij,jk->ijk">(ij, jk);
  check<"ij,j->i">(ij, v4);
  check<"ij,ij->i">(ij, ij);
  check<"ij,ij->">(ij, ij);
  check<"i,j->ij">(v3, v4);
  check<"i,j->ji">(v3, v4);
  check<"i,j->">(v3, v4);
  check<"ij,jk->k">(ij, jk);
  check<"ij,kl->jk">(ij, kj);
  check<"bhqd,bhkd->bhqk">(q, k);
  check<"bhqd,bhkd->bqhk">(q, k);
  check<"bhqd,bhkd->kb">(q, k);
  check<"bhqd,hkb->qkd">(q, ops::sample<double, 3>({3, 6, 2}));
}

TEST_CASE("three and four operands, from left to right") {
  check<"ij,jk,kl->il">(ij, jk, kj);
  check<"i,ij,j->">(v3, ij, v4);
  check<"ij,jk,j,i->k">(ij, jk, v4, v3);
}

TEST_CASE("without an arrow the result has the labels that occur once, in alphabetical order") {
  ops::check_equal(ops::values(einsum<"ij,jk">(ij, jk)), loops("ij,jk->ik", {ops::values(ij), ops::values(jk)}), 1e-13);
  ops::check_equal(ops::values(einsum<"ba">(ij)), loops("ba->ab", {ops::values(ij)}), 1e-13);
  ops::check_equal(ops::values(einsum<" i j , j k -> k i ">(ij, jk)),
                   loops("ij,jk->ki", {ops::values(ij), ops::values(jk)}), 1e-13);
}

TEST_CASE("views, expressions, empty extents and other dtypes") {
  check<"ji,jk->ik">(transpose(ij), jk);
  check<"ij,kj->ki">(flip(ij), slice<0>(kj, 0, 5, 2));
  ops::check_equal(ops::values(einsum<"ij,j->i">(ij * 2.0, v4 + 1.0)),
                   loops("ij,j->i", {ops::values(ij * 2.0), ops::values(v4 + 1.0)}), 1e-13);
  check<"ij,jk->ik">(ops::sample<double, 2>({3, 0}), ops::sample<double, 2>({0, 5}));
  check<"ij,jk->ik">(ops::sample<double, 2>({0, 4}), jk);
  check<"ij,jk->ik">(ops::sample<std::int16_t, 2>({3, 4}), ops::sample<std::int16_t, 2>({4, 2}));
}

TEST_CASE("a label that repeats within an operand takes the diagonal") {
  const auto ii = ops::sample<double, 2>({4, 4}, 8), one = ops::sample<double, 2>({1, 1}, 9);
  const auto cube = ops::sample<double, 3>({4, 4, 4}, 10);
  const auto deep = ops::sample<double, 4>({3, 5, 3, 2}, 11);
  check<"ii->i">(ii);
  check<"ii->">(ii);
  check<"ii->i">(one);
  check<"ii->i">(ops::sample<double, 2>({0, 0}));
  check<"iii->i">(cube);
  check<"iji->ij">(cube);
  check<"iij->ji">(cube);
  check<"jii->j">(cube);
  check<"ijik->kji">(deep);
  check<"ijij->ji">(ops::sample<double, 4>({2, 3, 2, 3}, 12));
  check<"ii,i->i">(ii, v4);
  check<"ii,ij->j">(ii, ii);
  check<"ii,jj->ij">(ii, one);
  check<"ij,jj->i">(ij, ii);
  check<"ii->i">(transpose(ii));
  check<"ii->i">(slice<0>(slice<1>(ii, 1, 4), 0, 3));
  check<"iii->i">(ops::sample<std::int32_t, 3>({3, 3, 3}));
  ops::check_equal(ops::values(einsum<"ii">(ii)), loops("ii->", {ops::values(ii)}), 1e-13);
  ops::check_equal(ops::values(einsum<"ijk,jj">(cube, ii)), loops("ijk,jj->ik", {ops::values(cube), ops::values(ii)}),
                   1e-13);
  // What is beside the diagonal has no part in it.
  const auto bad = full<double>(std::numeric_limits<double>::quiet_NaN(), 3, 3);
  for (int i = 0; i < 3; ++i) bad(i, i) = i + 1.0;
  CHECK(einsum<"ii->">(bad).item() == 6.0);
  CHECK(compile([](const tensor<double, 2>& x) { return einsum<"ii->">(x); })(bad).item() == 6.0);
  CHECK(grad([](const tensor<double, 2>& x) { return einsum<"ii->">(x); })(bad).to_vector() ==
        std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1});
}

TEST_CASE("'...' stands for the axes without labels, which broadcast") {
  const auto x = ops::sample<double, 4>({2, 3, 4, 5}, 13), y = ops::sample<double, 4>({1, 3, 5, 2}, 14);
  check_as<"...ij->...ji">("baij->baji", x);
  check_as<"i...->...i">("iabc->abci", x);
  check_as<"b...d->bd...">("bacd->bdac", x);
  check_as<"...->">("dcba->", x);
  check_as<"...ij,...jk->...ik">("baij,bajk->baik", x, y);
  check_as<"...ij,jk->...ik">("baij,jk->baik", x, ops::sample<double, 2>({5, 2}, 15));
  check_as<"...ij,...jk->ik...">("baij,ajk->ikba", x, ops::sample<double, 3>({1, 5, 2}, 16));
  check_as<"...ij,...ij->...">("baij,baij->ba", x, x);
  check_as<"...i,...i->">("cbai,cbai->", x, ops::sample<double, 4>({2, 1, 4, 5}, 17));
  check_as<"...,...->...">("cba,ba->cba", ops::sample<double, 3>({2, 3, 4}, 18), ij);
  check_as<"i...j,...->j...">("iabj,ab->jab", x, ops::sample<double, 2>({3, 4}, 19));
  check_as<"...ij,jk->...ik">("ij,jk->ik", ij, jk);
  check_as<"...ii->...i">("baii->bai", ops::sample<double, 4>({2, 3, 4, 4}, 20));
  check_as<"...i,...i->...">("ai,ai->a", ops::sample<double, 2>({0, 4}), ops::sample<double, 2>({1, 4}));
  ops::check_equal(ops::values(einsum<"...j, ...j">(x, v5)), loops("cbaj,j->cba", {ops::values(x), ops::values(v5)}),
                   1e-13);
  ops::check_equal(ops::values(einsum<"...ba">(x)), loops("dcba->dcab", {ops::values(x)}), 1e-13);
}

TEST_CASE("diagonals and '...' at sizes that the trace leaves open") {
  const auto f =
      compile([](const tensor<double, 3>& x, const tensor<double, 2>& y) { return einsum<"...ii,...i->i...">(x, y); },
              {.dynamic = dynamic::yes});
  for (const auto& [b, c, n] :
       {std::array{2, 2, 3}, {5, 1, 4}, {1, 7, 2}, {3, 3, 1}, {0, 1, 3}, {2, 2, 0}, {6, 6, 17}}) {
    const auto x = ops::sample<double, 3>({b, n, n}, 21);
    const auto y = ops::sample<double, 2>({c, n}, 22);
    ops::check_equal(ops::values(f(x, y)), loops("aii,ai->ia", {ops::values(x), ops::values(y)}), 1e-13);
  }
}

TEST_CASE("static extents, and errors of the notation and of extents") {
  static_assert(decltype(einsum<"ij,jk->ik">(tensor<float, dims{3, dyn}>(),
                                             tensor<float, dims{4, 5}>()))::static_shape == dims{3, 5});
  static_assert(decltype(einsum<"ij,jk->j">(tensor<float, 2>(), tensor<float, dims{4, 5}>()))::static_shape == dims{4});
  using namespace einsum_rules;
  static_assert(decltype(einsum<"...ij,...jk->...ik">(tensor<float, dims{2, 1, 3, 4}>(),
                                                      tensor<float, dims{5, 4, dyn}>()))::static_shape ==
                dims{2, 5, 3, dyn});
  static_assert(decltype(einsum<"ii->i">(tensor<float, dims{3, dyn}>()))::static_shape == dims{3});
  for (const char* dots : {"..i->i", "i.->i", "......->", "i->......", "i....->i"})
    CHECK(parse(dots).error == fault::ellipsis);
  static_assert(parse("...i->i").error == fault::none);
  constexpr int twelve[] = {12, 12};
  static_assert(parse("...i->...i", twelve).error == fault::none);
  static_assert(parse("...i,...j->...ij", twelve).error == fault::rank);
  static_assert(parse("...i,...j", twelve).error == fault::rank);
  static_assert(parse("ij->k").error == fault::result_unknown);
  static_assert(parse("ij->ii").error == fault::result_repeated);
  static_assert(parse("i1->i").error == fault::character);
  static_assert(parse("ij->i->j").error == fault::arrow);
  static_assert(parse("i-j").error == fault::arrow);
  static_assert(parse("abcdefghijklm->a").error == fault::rank);
  static_assert(parse("a,a,a,a,a,a,a,a,a->a").error == fault::operands);
  constexpr dims conflicting[] = {dims{3, 4}, dims{5, 6}};
  static_assert(measure(parse("ij,jk->ik"), conflicting).error != nullptr);
  const auto message = ops::error_of([] { (void)einsum<"ij,jk->ik">(ij, kj); });
  CHECK(ops::contains(message, "[einsum] a label has two extents in \"ij,jk->ik\": the operands are (3, 4), (5, 4)"));
  CHECK(ops::contains(message, "einsum_test.cpp:"));
  CHECK(
      ops::contains(ops::error_of([] { (void)einsum<"ii->i">(ij); }), "[einsum] a label has two extents in \"ii->i\""));
  CHECK(ops::contains(
      ops::error_of([] {
        (void)einsum<"...j,...j->...">(ij, ops::sample<double, 2>({2, 4}));
      }),
      "[einsum] the axes of '...' do not broadcast in \"...j,...j->...\": the operands are (3, 4), (2, 4)"));
}
