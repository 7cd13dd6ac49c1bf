// A library that computes with sinter, for plugins.cpp and load.cpp, which unload it. With SINTER_COMPILED it is the program
// that has the engine.
#include <sinter/sinter.hpp>

#include <functional>
#include <string>

namespace {

using namespace sinter;

using vector = tensor<float, 1>;

/// A result of this library's own: specialisations hold one, which its code destroys.
struct answer {
  vector values;
  std::string text;
};

answer triple(vector x) { return {exp(x) * 3.0f + 1.25f, "text that is too long for a string's own memory"}; }

/// Hashable: guards compare its values by number.
struct label {
  std::string text;
  bool operator==(const label&) const = default;
};

vector of_key(vector x, label k) { return x * static_cast<float>(k.text.size()); }

auto& twice() {
  static auto op = custom_op<"twice">(
      [](elements<const float, 1> x, elements<float, 1> y) {
        for (std::int64_t i = 0; i < y.size(); ++i) y[i] = 2 * x[i];
      },
      none, [](index_array<1> x) { return result_of<float, 1>{x}; });
  return op;
}

}  // namespace

template <>
struct std::hash<label> {
  std::size_t operator()(const label& k) const { return std::hash<std::string>()(k.text); }
};

#define ENTRY extern "C" [[gnu::visibility("default")]]

/// Kernels are made in the background: nobody has waited for them when this returns.
ENTRY float in_background(float x) {
  static auto f = compile(triple, {.tier = tier::background, .name = "in_background"});
  return f(vector{x, x}).values.to_vector()[1];
}

/// The same under the usual options: extents that are frequent get kernels of their own.
ENTRY float of_frequent_extents(float x) {
  static auto f = compile(triple, {.dynamic = dynamic::yes, .hot_calls = 4, .name = "of_frequent_extents"});
  float last = 0;
  for (int i = 0; i < 40; ++i) last = f(vector{x, x, x}).values.to_vector()[2];
  return last;
}

ENTRY float at_once(float x) {
  static auto f = compile([](vector v) { return exp(v) * 3.0f + 1.25f; });
  return f(vector{x, x}).to_vector()[1];
}

ENTRY float of_a_class(float x) {
  static auto f = compile(of_key);
  return f(vector{x, x}, label{"abc"}).to_vector()[0];
}

/// Parts of the caller's trace.
ENTRY void plus_three(vector& x) { x = x + 3.0f; }
ENTRY void read_and_add(vector& x) { x = x + sum(x).item(); }
ENTRY void add_extent(vector& x) { x = x * 2.0f + static_cast<float>(static_cast<std::int64_t>(x.shape()[0])); }
ENTRY void own_op(vector& x) { x = twice()(x); }
/// The caller's handle is empty behind it, and names this line.
ENTRY void donate(vector& x) {
  const auto f = compile([](vector v) { return v * 3.0f; }, {.donate = {0}});
  f(vector{1});
  f(std::move(x));
}
