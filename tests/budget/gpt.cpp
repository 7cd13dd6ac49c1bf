// tests/budget/gpt.cpp: GPT-2 and a step of its training, as users write them: what such a program costs its compiler.
#include <cstdio>
#include <utility>

#include "../../bench/models/gpt2.hpp"

int main() {
  using namespace models;
  auto state = start(gpt2::make_network({}, 12));
  const auto text = randint<std::int64_t>(make_key(2), 0, 50257, 8, 64);
  const auto next = randint<std::int64_t>(make_key(3), 0, 50257, 8, 64);
  const auto step = sinter::compile(step_of(&gpt2::loss), {.donate = {0}});
  for (int i = 0; i < 10; ++i) {
    auto [loss, after] = step(std::move(state), text, next);
    state = std::move(after);
    std::printf("%d: %g\n", i, static_cast<double>(loss.item()));
  }
}
