// Leaves with their paths: fields of every kind of struct, keys, places; numbers beside tensors; names in messages.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <boost/hana/adapt_struct.hpp>

#include <sinter/sinter.hpp>

#include "../../texts.hpp"

using namespace sinter;
using texts::error_of;
using vec = tensor<float, 1>;
using strings = std::vector<std::string>;

namespace paths {

struct linear {
  tensor<float, 2> w;
  vec b;
};
struct block {
  linear qkv, out;
};
template <class T, int N>
struct pair_of {
  std::array<tensor<T, 1>, N> both;
  std::map<std::string, tensor<T, 1>> by_name;
};
enum class phase { warm, hot };
struct state {
  std::vector<block> blocks;
  int epoch = 0;
  bool done = false;
  phase now = phase::warm;
  std::string note;
  double rate = 0;
};
struct described {
  described(int x) : hidden(x) {}
  vec gain;
  int hidden;
};
class hooked {
 public:
  hooked() = default;
  explicit hooked(vec scale) : scale_(std::move(scale)) {}
  static constexpr auto sinter_fields(auto& self) { return std::tie(self.scale_, self.steps_); }

 private:
  vec scale_;
  int steps_ = 4;
};

}  // namespace paths

BOOST_HANA_ADAPT_STRUCT(paths::described, gain);

using namespace paths;

namespace {

struct unnamed {
  vec x_, y2;
};

vec some(int key) { return normal<float>(make_key(static_cast<std::uint64_t>(key)), 3); }
linear some_linear(int key) { return {normal<float>(make_key(static_cast<std::uint64_t>(key)), 2, 3), some(key + 1)}; }
state some_state() {
  state s;
  s.blocks = {{some_linear(1), some_linear(3)}, {some_linear(5), some_linear(7)}};
  s.epoch = 12;
  s.done = true;
  s.now = phase::hot;
  s.note = "second run";
  s.rate = 0.25;
  return s;
}

}  // namespace

TEST_CASE("paths are the names of fields and keys, and places") {
  const strings want{"blocks.0.qkv.w", "blocks.0.qkv.b", "blocks.0.out.w", "blocks.0.out.b",
                     "blocks.1.qkv.w", "blocks.1.qkv.b", "blocks.1.out.w", "blocks.1.out.b"};
  CHECK(tree_paths(some_state()) == want);
  pair_of<float, 2> p{{some(1), some(2)}, {{"k", some(3)}, {"a.b", some(4)}}};
  CHECK(tree_paths(p) == strings{"both.0", "both.1", "by_name.a.b", "by_name.k"});
  CHECK(tree_paths(std::tuple{p, std::pair{some(1), some(2)}}).at(5) == "1.1");
  CHECK(tree_paths(some(1)) == strings{""});
  CHECK(tree_paths(std::tuple{}).empty());
}

TEST_CASE("fields of local, nested, unnamed and template structs are named") {
  struct local {
    unnamed inner;
    struct deeper {
      vec v;
    } last;
  };
  CHECK(tree_paths(local{{some(1), some(2)}, {some(3)}}) == strings{"inner.x_", "inner.y2", "last.v"});
  CHECK(tree_paths(pair_of<double, 1>{}) == strings{"both.0"});
  const auto of_lambda = [](auto x) {
    struct held {
      decltype(x) first, second;
    };
    return tree_paths(held{x, x});
  };
  CHECK(of_lambda(some(1)) == strings{"first", "second"});
  CHECK(of_lambda(unnamed{some(1), some(2)}).at(3) == "second.y2");
}

TEST_CASE("described classes name their fields, too; an optional adds nothing to a path, a variant its alternative") {
  described d(3);
  d.gain = some(1);
  CHECK(tree_paths(d) == strings{"gain"});
  CHECK(tree_paths(hooked(some(1))) == strings{"scale_"});
  CHECK(tree_paths(all_leaves, hooked(some(1))) == strings{"scale_", "steps_"});
  CHECK(tree_paths(std::optional<unnamed>{{some(1), some(2)}}) == strings{"x_", "y2"});
  CHECK(tree_paths(std::optional<unnamed>{}).empty());
  std::variant<vec, unnamed> v = unnamed{some(1), some(2)};
  CHECK(tree_paths(v) == strings{"1.x_", "1.y2"});
  v = some(1);
  CHECK(tree_paths(v) == strings{"0"});
}

TEST_CASE("a function is told the path of each leaf, of several trees") {
  const state s = some_state(), t = some_state();
  strings seen;
  const state u = tree_map_with_path(
      [&](const std::string& path, const auto& x, const auto& y) {
        seen.push_back(path);
        const bool decays = path.size() > 2 && path.compare(path.size() - 2, 2, ".w") == 0;
        return x * (decays ? 0.5f : 1.f) + y * (decays ? 0.f : 1.f);
      },
      s, t);
  CHECK(seen == tree_paths(s));
  CHECK(u.epoch == 12);
  CHECK(u.blocks[1].out.w(1, 2) == 0.5f * s.blocks[1].out.w(1, 2));
  CHECK(u.blocks[1].out.b(2) == 2 * s.blocks[1].out.b(2));
  const auto sizes =
      tree_map_with_path([](std::string path, const auto& x) { return path + ":" + std::to_string(x.rank); },
                         std::pair{some(1), std::vector{some(2)}});
  static_assert(std::is_same_v<decltype(sizes), const std::pair<std::string, std::vector<std::string>>>);
  CHECK(sizes.second[0] == "1.0:1");
  const std::vector<vec> one{some(1)}, two{some(1), some(2)};
  const auto text = error_of([&] { tree_map_with_path([](auto, auto a, auto b) { return a + b; }, one, two); });
  CHECK_MESSAGE(text.find("[tree_map_with_path] the trees differ") == 0, text);
}

TEST_CASE("the same within compile()") {
  const auto f = compile([](const state& s) {
    return tree_map_with_path(
        [](const std::string& path, const auto& x) { return x * (path.find("qkv") != std::string::npos ? 3.f : 1.f); },
        s);
  });
  const state s = some_state(), t = f(s);
  CHECK(t.blocks[1].qkv.b(1) == s.blocks[1].qkv.b(1) * 3);
  CHECK(t.blocks[1].out.b(1) == s.blocks[1].out.b(1));
  CHECK(t.epoch == 12);
}

TEST_CASE("all leaves are saved and loaded, counters and flags among them") {
  const state s = some_state();
  std::map<std::string, std::string> file;
  tree_for_each_with_path(
      [&]<class T>(const std::string& path, const T& x) {
        if constexpr (tensor_like<T>) file[path] = std::to_string(x.to_vector()[1]);
        else if constexpr (std::is_same_v<T, std::string>) file[path] = x;
        else file[path] = std::to_string(static_cast<double>(x));
      },
      all_leaves, s);
  CHECK(file.size() == 13);
  CHECK(file.at("epoch") == std::to_string(12.0));
  CHECK(file.at("note") == "second run");
  state fresh = some_state();
  fresh.epoch = 0, fresh.done = false, fresh.now = phase::warm, fresh.note = "", fresh.rate = 9;
  const state loaded = tree_map_with_path(
      [&]<class T>(const std::string& path, const T& x) -> T {
        const std::string& text = file.at(path);
        if constexpr (tensor_like<T>) return full_like(x, std::stof(text));
        else if constexpr (std::is_same_v<T, std::string>) return text;
        else return static_cast<T>(std::stod(text));
      },
      all_leaves, fresh);
  CHECK(loaded.epoch == 12);
  CHECK(loaded.done);
  CHECK(loaded.now == phase::hot);
  CHECK(loaded.note == "second run");
  CHECK(loaded.rate == 0.25);
  CHECK(loaded.blocks[1].out.b(0) == doctest::Approx(s.blocks[1].out.b(1)));

  strings tensors;
  tree_for_each_with_path([&](const std::string& path, const auto&) { tensors.push_back(path); }, s);
  CHECK(tensors == tree_paths(s));
  CHECK(tree_paths(all_leaves, s).back() == "rate");
  const auto next = tree_map(
      [](const auto& x) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(x)>, int>) return x + 1;
        else return x;
      },
      all_leaves, s);
  CHECK(next.epoch == 13);
  CHECK(next.note == "second run");
  const std::vector<bool> flags{true, false};
  CHECK(tree_map([](bool x) { return !x; }, all_leaves, flags) == std::vector<bool>{false, true});
}

TEST_CASE("messages name fields, under every compiler") {
  const unnamed defined{some(1), some(2)};
  const std::vector<vec> one{some(1)}, two{some(1), some(2)};
  struct lists {
    int n;
    std::vector<vec> parts;
  };
  const auto add = [](const auto& a, const auto& b) { return a + b; };
  const auto text = error_of([&] { tree_map(add, lists{1, one}, lists{2, two}); });
  CHECK_MESSAGE(text.find("the trees differ at .parts: the first has a std::vector of length 1") != std::string::npos,
                text);
  CHECK(detail::describe_leaf(0, false, lists{1, one}).name == "argument 0.n");
  CHECK(detail::describe_leaf(1, true, std::pair{1, defined}).name == "argument 0[1].y2");
}
