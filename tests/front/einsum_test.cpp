// einsum against plain f64 loops over all labels; the notation's errors.
#include <array>
#include <map>
#include <string>

#include <sinter/front/einsum.hpp>

#include "ops_support.hpp"

using namespace sinter;
using ops::array;
using ops::check_both;
using ops::coord;

namespace {

/// Every label looped over, the definition of the notation; `text` has an arrow and no spaces.
array loops(const std::string& text, const std::vector<array>& x) {
  const auto arrow = text.find("->");
  std::vector<std::string> labels{""};
  for (char c : text.substr(0, arrow))
    if (c == ',') labels.emplace_back();
    else labels.back() += c;
  const std::string result = text.substr(arrow + 2);
  std::map<char, std::int64_t> extent;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t k = 0; k < labels[i].size(); ++k) extent[labels[i][k]] = x[i].extents[k];
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
        for (char l : labels[i]) c.push_back(at[l]);
        term *= ops::get(x[i], c);
      }
      total += term;
      return 0.0;
    });
    return total;
  });
}

template <fixed_string Text, class... X>
void check(const X&... x) {
  check_both(
      loops(Text.text, {ops::values(x)...}), 1e-13, [](const auto&... t) { return einsum<Text>(t...); }, x...);
}

const auto ij = ops::sample<double, 2>({3, 4}, 1), jk = ops::sample<double, 2>({4, 5}, 2),
           kj = ops::sample<double, 2>({5, 4}, 3);
const auto v3 = ops::sample<double, 1>({3}, 4), v4 = ops::sample<double, 1>({4}, 5);
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

TEST_CASE("static extents, and errors of the notation and of extents") {
  static_assert(decltype(einsum<"ij,jk->ik">(tensor<float, dims{3, dyn}>(),
                                             tensor<float, dims{4, 5}>()))::static_shape == dims{3, 5});
  static_assert(decltype(einsum<"ij,jk->j">(tensor<float, 2>(), tensor<float, dims{4, 5}>()))::static_shape == dims{4});
  using namespace einsum_rules;
  static_assert(parse("ii->i").error == fault::repeated);
  static_assert(parse("...i->i").error == fault::ellipsis);
  static_assert(parse("ij->k").error == fault::result_unknown);
  static_assert(parse("ij->ii").error == fault::result_repeated);
  static_assert(parse("i1->i").error == fault::character);
  static_assert(parse("ij->i->j").error == fault::arrow);
  static_assert(parse("i-j").error == fault::arrow);
  static_assert(parse("abcdefghi->a").error == fault::rank);
  static_assert(parse("a,a,a,a,a,a,a,a,a->a").error == fault::operands);
  constexpr dims conflicting[] = {dims{3, 4}, dims{5, 6}};
  static_assert(shape(parse("ij,jk->ik"), conflicting).error != nullptr);
  const auto message = ops::error_of([] { (void)einsum<"ij,jk->ik">(ij, kj); });
  CHECK(ops::contains(message, "[einsum] a label has two extents in \"ij,jk->ik\": the operands are (3, 4), (5, 4)"));
  CHECK(ops::contains(message, "einsum_test.cpp:"));
}
