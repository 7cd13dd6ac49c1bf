// run/cuda/program/tune.hpp: the fastest of a library's algorithms for a product or a convolution, by measurement.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include "../../../base/series.hpp"
#include "../device/capture.hpp"
#include "blas.hpp"
#include "convolve.hpp"

namespace sinter::engine::run::cuda {

namespace detail {

/// Bytes from a matrix's first element to its last, over all batches.
inline std::int64_t reach_of(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t batch,
                             std::int64_t batches, dtype type) {
  return ((batches - 1) * batch + (rows - 1) * row + columns) * static_cast<std::int64_t>(size_of(type));
}

/// Operands for measuring a product, if there is room for them; none is zero or special.
class trial_operands {
 public:
  trial_operands(const matmul& w, std::size_t workspace, int device) {
    const auto a = reach_of(w.transpose_a ? w.k : w.m, w.transpose_a ? w.m : w.k, w.row_a, w.batch_a, w.batch, w.type),
               b = reach_of(w.transpose_b ? w.n : w.k, w.transpose_b ? w.k : w.n, w.row_b, w.batch_b, w.batch, w.type),
               out = reach_of(w.m, w.n, w.row_out, w.batch_out, w.batch, w.result),
               bias = w.n * static_cast<std::int64_t>(size_of(w.result));
    const auto whole = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
    memory_ =
        allocate_if_room(static_cast<std::size_t>(whole(a) + whole(b) + whole(out) + whole(bias)) + workspace, device);
    if (!memory_) return;
    auto* const base = static_cast<char*>(memory_.data());
    check(driver().fill(reinterpret_cast<api::address>(base), 0x3c, static_cast<std::size_t>(whole(a) + whole(b)),
                        current_queue(device).handle),
          "filling memory");
    at = {base, base + whole(a), base + whole(a) + whole(b),
          w.after == epilogue::none || w.after == epilogue::relu || w.after == epilogue::gelu
              ? nullptr
              : base + whole(a) + whole(b) + whole(out)};
    this->workspace = base + whole(a) + whole(b) + whole(out) + whole(bias);
  }

  explicit operator bool() const noexcept { return static_cast<bool>(memory_); }

  product_addresses at{};
  void* workspace = nullptr;

 private:
  storage memory_;
};

/// Milliseconds for a few requests of one call, the best of some tries. Infinite if the driver has no room.
template <class Request>
float measured(int device, Request&& request) {
  constexpr int together = 8, tries = 4;
  const driver_table& call = driver();
  queue& q = current_queue(device);
  request(q);  // everything is loaded then
  const graph_handle graph = captured(device, [&](queue& c) {
    for (int i = 0; i < together; ++i) request(c);
  });
  struct timing {
    api::executable code = nullptr;
    api::event begin = nullptr, end = nullptr;
    ~timing() {
      const driver_table& call = driver();
      if (code != nullptr) call.graph_destroy_executable(code);
      if (begin != nullptr) call.event_destroy(begin);
      if (end != nullptr) call.event_destroy(end);
    }
  } t;
  const char* const doing = "measuring a call of a library";
  float best = std::numeric_limits<float>::infinity();
  const api::result made = with_room(device, [&] { return call.graph_instantiate(&t.code, graph.get(), 0); });
  if (made == api::out_of_memory) return best;
  check(made, doing);
  check(call.event_create(&t.begin, api::event_default), doing);
  check(call.event_create(&t.end, api::event_default), doing);
  for (int i = 0; i < tries; ++i) {
    float took = 0;
    check(call.event_record(t.begin, q.handle), doing);
    const api::result asked = with_room(device, [&] { return call.graph_launch(t.code, q.handle); });
    if (asked == api::out_of_memory) return best;
    check(asked, doing);
    check(call.event_record(t.end, q.handle), doing);
    check(call.event_synchronize(t.end), doing);
    check(call.event_elapsed(&took, t.begin, t.end), doing);
    best = std::min(best, took);
  }
  return best;
}

/// Makes the fastest of the library's offers the plan's choice. It is the library's first one unless another is clearly faster. An
/// offer that fails is not chosen.
template <class Plan, class Offers, class Request>
void choose_fastest(Plan& p, const Offers& offers, int device, Request&& request) {
  const auto took_by = [&](std::size_t i) {
    p.choice = offers[i];
    try {
      return measured(device, request);
    } catch (const system_error&) {
      return std::numeric_limits<float>::infinity();
    }
  };
  float best = 0.95f * took_by(0);
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < offers.size(); ++i) {
    const float took = took_by(i);
    if (took >= best) continue;
    best = took;
    chosen = i;
  }
  p.choice = offers[chosen];
}

template <class Offers>
std::size_t max_workspace(const Offers& offers) {
  std::size_t most = 0;
  for (const auto& o : offers) most = std::max(most, o.workspace);
  return most;
}

inline void tune(product_plan& p, int device, const char* label) {
  const series<blas_table::heuristic> offers = offers_of(p, 8);
  if (offers.size() < 2) return;
  p.choice = offers[0];
  const trial_operands on(p.what, max_workspace(offers), device);
  if (!on) return;
  choose_fastest(p, offers, device, [&](queue& q) { multiply(p, p.what, on.at, on.workspace, q, label); });
}

/// The arrays of a convolution in one block of memory, then its scratch memory.
inline void tune(convolution_plan& p, int device, const char* label) {
  const series<convolution_offer> offers = offers_of(p, 8);
  if (!offers.empty()) p.choice = offers[0];
  if (offers.size() < 2) return;
  const convolution& w = p.what;
  const auto bytes_of = [&](const convolution_array& x, convolution_kind k) {
    const auto bytes =
        static_cast<std::size_t>(sinter::engine::reach_of(x, w.spatial)) * size_of(k == w.kind ? w.written : w.type);
    return (bytes + 255) / 256 * 256;
  };
  const std::size_t image = bytes_of(w.image, convolution_kind::image),
                    weights = bytes_of(w.weights, convolution_kind::weights),
                    result = bytes_of(w.result, convolution_kind::result),
                    bias = (static_cast<std::size_t>(w.result.extents[1]) * size_of(w.written) + 255) / 256 * 256,
                    all = image + weights + result + bias;
  const storage memory = allocate_if_room(all + max_workspace(offers), device);
  if (!memory) return;
  auto* const base = static_cast<char*>(memory.data());
  check(driver().fill(reinterpret_cast<api::address>(base), 0x3c, all, current_queue(device).handle), "filling memory");
  const convolution_addresses at{base, base + image, base + image + weights, base + image + weights + result};
  choose_fastest(p, offers, device, [&](queue& q) { convolve(p, at, base + all, q, label); });
}

}  // namespace detail

/// The plan for a product on 16-byte aligned addresses, with the fastest of cuBLASLt's algorithms on this GPU. The first call
/// measures them, and waits for the GPU. Throws system_error without cuBLASLt, or, naming `label`, if it fails.
SINTER_API product_plan& tuned_product(const matmul& product, int device, const char* label = nullptr) {
  const matmul what = detail::plan_key(product);
  product_plan& usual = plan_product(product, 16, device);
  if (!usual.problem.empty() || detail::is_empty(what)) return usual;
  detail::blas_device& here = detail::blas_of(device);
  const std::lock_guard lock(here.tuning);
  for (const auto& p : here.tuned)
    if (p->what == what) return *p;
  const context_scope scope(*usual.where);
  auto p = std::make_unique<product_plan>();
  p->what = what;
  p->where = usual.where;
  p->handle = usual.handle;
  detail::make_plan(*p, blas());
  if (p->problem.empty()) detail::tune(*p, device, label);
  here.tuned.push_back(std::move(p));
  return *here.tuned.back();
}

/// The plan for a convolution on 16-byte aligned addresses, with the fastest of cuDNN's engines on this GPU. The first call
/// measures them, and waits for the GPU. Throws system_error without cuDNN, or, naming `label`, if it fails.
SINTER_API convolution_plan& tuned_convolution(const convolution& what, int device, const char* label = nullptr) {
  convolution_plan& usual = plan_convolution(what, 16, device);
  if (!usual.problem.empty() || what.deterministic) return usual;
  detail::dnn_device& here = detail::dnn_of(device);
  const std::lock_guard lock(here.tuning);
  for (const auto& p : here.tuned)
    if (p->what == what) return *p;
  const context_scope scope(*usual.where);
  auto p = std::make_unique<convolution_plan>();
  p->what = what;
  p->where = usual.where;
  p->handle = usual.handle;
  detail::tune(*p, device, label);
  if (!p->problem.empty()) return usual;
  here.tuned.push_back(std::move(p));
  return *here.tuned.back();
}

}  // namespace sinter::engine::run::cuda
