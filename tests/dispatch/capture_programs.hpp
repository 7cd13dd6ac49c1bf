// tests/dispatch/capture_programs.hpp: tensors that functions capture and that are assigned anew, on the host and on a GPU.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.hpp>

#include "../stderr_text.hpp"
#include "../texts.hpp"

namespace capture_programs {

using namespace sinter;
using texts::contains;
using vec = tensor<float, 1>;
using floats = std::vector<float>;

inline floats read(const vec& x) { return x.to(device::cpu()).to_vector(); }

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// A variable that is captured by reference: its new tensor is read, and after a few of them one warning has the line.
inline void assigned_anew(options how, device on) {
  how.name = "anew";
  vec w = vec{1, 2, 3}.to(on);
  const vec x = vec{10, 20, 30}.to(on);
  int traces = 0, line = 0;
  const auto f = compile(
      [&](vec x) {
        ++traces;
        line = __LINE__ + 1;
        return x * w;
      },
      how);
  CHECK(read(f(x)) == floats{10, 40, 90});
  const int each = traces;  // sizes that are open take several
  CHECK(read(f(x)) == floats{10, 40, 90});
  CHECK(traces == each);
  std::string said = stderr_text([&] {
    for (int k = 2; k < 4; ++k) {
      w = vec{1, 2, 3}.to(on) * float(k);
      for (int call = 0; call < 3; ++call) CHECK(read(f(x))[1] == 40 * float(k));
      CHECK(traces == k * each);
    }
  });
  CHECK(!contains(said, "[sinter:warning]"));
  said = stderr_text([&] {
    for (int k = 4; k < 9; ++k) {
      w = w + 1.f;
      const floats want = read(x * w);
      CHECK(read(f(x)) == want);
    }
  });
  CHECK(count(said, "[sinter:warning]") == 1);
  CHECK(contains(said, "anew: a tensor that it captures by reference is assigned anew between calls"));
  CHECK(contains(said, "pass the tensor as an argument"));
  CHECK(contains(said, "capture_programs.hpp:" + std::to_string(line)));
  CHECK(f.specialisations() == 1);
}

/// A class whose member is a compiled function of its other members, at open extents and beside C++ numbers.
class model {
 public:
  model(const options& how, device on)
      : w_(vec{2}.to(on)),
        b_(vec{-1}.to(on)),
        step([f = compile([this](vec x, float rate) { return eager(x, rate); }, how)](const vec& x, float rate) {
          return f(x, rate);
        }) {}
  model(const model&) = delete;

  void update() {
    w_ = w_ * 2.f;
    b_ = b_ - 1.f;
  }
  vec eager(vec x, float rate) const { return x * w_ * rate + b_; }

 private:
  vec w_, b_;

 public:
  const std::function<vec(const vec&, float)> step;
};

inline void members(const options& how, device on) {
  model m(how, on);
  for (int round = 0; round < 6; ++round) {
    for (const std::int64_t n : {3, 4, 5, 9})
      for (const float rate : {0.5f, 0.25f}) {
        const vec x = full<float>(1.5f, n).to(on);
        CHECK(read(m.step(x, rate)) == read(m.eager(x, rate)));
      }
    m.update();
  }
}

/// What is still held, was made inside, or is written in place is not traced again.
inline void quiet(const options& how, device on) {
  int traces = 0;
  const vec x = vec{1, 2}.to(on), held = vec{3, 4}.to(on);
  vec w = held;
  const auto f = compile(
      [&, v = vec{5, 6}.to(on)](vec x) {
        ++traces;
        const vec inside = from_span(floats{0.5f, 1.5f}, 2, x.device());
        return x * w + v + inside;
      },
      how);
  for (int k = 0; k < 4; ++k) CHECK(read(f(x)) == floats{8.5f, 15.5f});
  CHECK(traces == 1);
  held.fill(1);
  CHECK(read(f(x)) == floats{6.5f, 9.5f});
  CHECK(traces == 1);
}

/// A function of functions that share what they capture, and one that another has captured too.
inline void shared(const options& how, device on) {
  vec w = vec{1, 2}.to(on);
  const vec x = vec{10, 20}.to(on);
  const auto f = compile([&](vec x) { return x * w; }, how);
  const auto g = compile([&](vec x) { return x + w; }, how);
  for (int k = 0; k < 3; ++k) {
    CHECK(read(f(x)) == read(x * w));
    CHECK(read(g(x)) == read(x + w));
    w = w * 3.f;
  }
}

}  // namespace capture_programs
