// bench/models/row.hpp: what a row of bench/models.cpp is: a program as users write it, with its arguments, made for some settings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinter/sinter.hpp>

namespace models {

using namespace sinter;

/// What is asked of a row; 0 leaves a number to the row.
struct settings {
  bool small = false;     ///< a configuration that runs in seconds
  bool recorded = false;  ///< calls on a GPU replay a recorded graph
  std::string backend = "auto";
  int layers = 0, batch = 0, length = 0;

  int layers_or(int full, int few) const { return layers > 0 ? layers : small ? few : full; }
  int batch_or(int full, int few) const { return batch > 0 ? batch : small ? few : full; }
  int length_or(int full, int few) const { return length > 0 ? length : small ? few : full; }
  options how(const char* name) const {
    options o;
    o.backend = backend;
    if (recorded) o.mode = mode::reduce_overhead;
    o.name = name;
    return o;
  }
};

/// A compiled program and its arguments.
struct workload {
  std::function<void()> call;                  ///< once more
  std::function<std::vector<float>()> values;  ///< of training the losses so far, else the elements of the last result
  std::function<report()> told;
  /// The bytes that the pullback of a loss holds, and would hold if it computed nothing again; empty for other programs.
  std::function<std::pair<std::size_t, std::size_t>()> saved = {};
};

struct row {
  const char* name;
  bool trains;      ///< values() are losses, which fall
  float tolerance;  ///< beside the reference, relative to the largest value
  std::function<workload(const settings&)> make;
};

std::vector<row> gpt2_rows();
std::vector<row> llama_rows();
std::vector<row> vit_rows();
std::vector<row> lstm_rows();
std::vector<row> residual_rows();
std::vector<row> mixer_rows();
std::vector<row> unet_rows();
std::vector<row> resnet_rows();
std::vector<row> parameter_rows();
std::vector<row> gas_rows();
std::vector<row> heat_rows();

/// A function called with the same arguments again and again; it returns a tensor.
template <class F, class... Args>
workload called(const settings& s, const char* name, F fn, Args... args) {
  const auto f = compile(std::move(fn), s.how(name));
  const auto last = std::make_shared<std::optional<decltype(f(args...))>>();
  return {[=] { *last = f(args...); }, [=] { return cast<float>(**last).eval().to_vector(); },
          [=] { return f.report(); }};
}

/// A step (state, batch...) -> (loss, state), called with the state that it returned.
template <class F, class State, class... Batch>
workload trained(const settings& s, const char* name, F fn, State first, Batch... batch) {
  options how = s.how(name);
  how.donate = {0};
  const auto f = compile(std::move(fn), how);
  const auto state = std::make_shared<State>(std::move(first));
  const auto losses = std::make_shared<std::vector<tensor<float, 0>>>();
  return {[=] {
            auto [loss, next] = f(std::move(*state), batch...);
            losses->push_back(loss);
            *state = std::move(next);
          },
          [=] {
            std::vector<float> all;
            for (const auto& l : *losses) all.push_back(l.item());
            return all;
          },
          [=] { return f.report(); }};
}

/// Keys, one after the other.
class key_stream {
 public:
  explicit key_stream(std::uint64_t seed) : next_(make_key(seed)) {}
  key operator()() {
    const auto two = split(next_);
    next_ = two.second;
    return two.first;
  }

 private:
  key next_;
};

}  // namespace models
