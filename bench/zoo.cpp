// One model of a folder with model.onnx, input_K.npy and output_K.npy: what bench/zoo.py asks of it, as a line.
//
//   zoo FOLDER             loads it and calls it: times, kernels, memory, as JSON
//   zoo FOLDER --cuda      the same on the first GPU; a call ends when the GPU has done it
//   zoo FOLDER --kernels   calls it on the first GPU, and prints its steps for bench/kernels.py
//   zoo FOLDER --batches   calls it at batches 1, 2 and 5 where the file has the first axis open
//   zoo FOLDER --train N   N steps of gradient descent towards other results; gradients beside those of the reference backend

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <sinter/io.hpp>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>
#include <string>
#include <vector>

#include "steps.hpp"

using namespace sinter;

namespace {

using clock_type = std::chrono::steady_clock;

double since(clock_type::time_point start) {
  return std::chrono::duration<double, std::milli>(clock_type::now() - start).count();
}
std::string words(const char* format, auto... x) {
  char text[512];
  std::snprintf(text, sizeof text, format, x...);
  return text;
}
/// Processor time of this process, or of the compilers that it called.
double processor_ms(int whose) {
  rusage used{};
  ::getrusage(whose, &used);
  const auto ms = [](const timeval& t) {
    return 1000.0 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1000;
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}
double peak_megabytes() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) / 1024;
}

std::vector<io::array> arrays_of(const std::string& folder, const std::string& what) {
  std::vector<io::array> out;
  for (;;) {
    const std::string path = folder + "/" + what + "_" + std::to_string(out.size()) + ".npy";
    if (!std::filesystem::exists(path)) return out;
    out.push_back(io::read_npy(path));
  }
}
onnx::tensor_list tensors_of(const std::vector<io::array>& all) { return {all.begin(), all.end()}; }

std::vector<double> numbers_of(const io::array& a) {
  const io::array wide = io::detail::converted(a, dtype::f64);
  const auto* p = reinterpret_cast<const double*>(wide.data);
  return {p, p + wide.numel()};
}
/// The largest difference over the largest value; infinite where extents differ.
double differs(const io::array& y, const io::array& want) {
  if (y.extents != want.extents) return INFINITY;
  const auto a = numbers_of(y), b = numbers_of(want);
  double off = 0, most = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    if (std::isfinite(b[i])) most = std::max(most, std::fabs(b[i]));
    if (a[i] != b[i] && !std::isnan(a[i])) off = std::max(off, std::fabs(a[i] - b[i]));
  }
  return off / most;
}

options how_of(const char* backend = nullptr) {
  options how;
  how.name = "zoo";
  how.recompile_limit = 64;
  if (backend) how.backend = backend;
  return how;
}

/// The folder's model, for a device that becomes the default one.
onnx::model loaded(const std::string& folder, device where) {
  options how = how_of();
  how.device = where;
  set_default_device(where);
  return onnx::load(folder + "/model.onnx", how);
}

/// The folder's inputs on the device.
onnx::tensor_list inputs_of(const std::string& folder, device where) {
  auto x = tensors_of(arrays_of(folder, "input"));
  for (auto& one : x) one = one.to(where);
  return x;
}

// ---- Numbers

void numbers(const std::string& folder, device where) {
  const auto begin = clock_type::now();
  const double before = peak_megabytes();
  const onnx::model m = loaded(folder, where);
  const onnx::tensor_list x = inputs_of(folder, where);
  const auto done = [where] {
    if (where.is_cuda()) synchronize(where);
  };
  auto y = m(x);
  done();
  const double first = since(begin), own = processor_ms(RUSAGE_SELF), compilers = processor_ms(RUSAGE_CHILDREN);
  const report r = m.last();
  std::set<std::string> stages;
  std::string parts;
  for (const auto& s : r.stages)
    parts += words("%s\"%s\": %.1f", parts.empty() ? "" : ", ", s.name.c_str(), s.milliseconds);
  std::vector<double> times;
  const auto start = clock_type::now();
  while (times.size() < 5 || (times.size() < 200 && since(start) < 1500)) {
    const auto at = clock_type::now();
    y = m(x);
    done();
    times.push_back(since(at));
    if (times.size() >= 2 && since(start) > 20000) break;
  }
  std::sort(times.begin(), times.end());
  const double peak = peak_megabytes();
  double off = 0, weights = 0;
  const auto want = arrays_of(folder, "output");
  for (std::size_t k = 0; k < want.size(); ++k) off = std::max(off, differs(y.at(k).to_array(), want[k]));
  for (const auto& [name, w] : m.weights()) weights += static_cast<double>(w.to_array().bytes().size()) / 1048576.0;
  std::printf(
      "{\"nodes\": %zu, \"ops\": %zu, \"kernels\": %zu, \"distinct\": %zu, \"compiled\": %zu, \"first_ms\": %.1f, "
      "\"steady_ms\": %.4f, "
      "\"min_ms\": %.4f, \"before_mb\": %.1f, \"peak_mb\": %.1f, \"weights_mb\": %.1f, \"planned_mb\": %.1f, "
      "\"differs\": %.3g, "
      "\"own_ms\": %.0f, \"compilers_ms\": %.0f, \"backend\": \"%s\", \"stages\": {%s}}\n",
      m.nodes(), r.kernels_unfused, r.kernels, static_cast<std::size_t>(r.sources.size()), r.compiled, first,
      times[times.size() / 2], times[0], before, peak, weights,
      static_cast<double>(r.scratch_bytes + r.result_bytes) / 1048576.0, off, own, compilers, r.backend.c_str(),
      parts.c_str());
}

void kernels(const std::string& folder, device where) {
  const onnx::model m = loaded(folder, where);
  const onnx::tensor_list x = inputs_of(folder, where);
  constexpr int calls = 5;
  for (int i = 0; i < calls; ++i) m(x);
  bench::print_steps(m.last(), calls);
}

// ---- Batches

/// Items of a batch: what the file has for input k, other floating numbers for each item; an axis of this name has n.
io::array batch_of(const onnx::value_description& d, const io::array* from, const std::string& name, std::int64_t n,
                   std::int64_t only, std::uint64_t seed) {
  std::vector<std::int64_t> extents = from ? from->extents : d.extents;
  for (std::size_t i = 0; i < extents.size(); ++i)
    if (d.extents[i] < 0) extents[i] = d.axes[i] == name ? n : from ? extents[i] : 2;
  io::array a = io::detail::make_array(d.type, extents);
  const bool first = !extents.empty() && d.extents[0] < 0 && d.axes[0] == name;
  const std::int64_t items = first ? n : 1, each = items == 0 ? 0 : a.numel() / items;
  visit_dtype(d.type, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t b = 0; b < items; ++b) {
      std::mt19937_64 next(seed + static_cast<std::uint64_t>(first && only >= 0 ? only : b));
      for (std::int64_t i = 0; i < each; ++i) {
        const double u = static_cast<double>(next() >> 11) * 0x1p-53;
        T v{};
        if (from && !is_float(d.type))
          std::memcpy(static_cast<void*>(&v), from->data + static_cast<std::size_t>(i % from->numel()) * sizeof(T),
                      sizeof(T));
        else if constexpr (is_narrow_float<T>) v = T(static_cast<float>(2 * u - 1));
        else if constexpr (std::is_floating_point_v<T>) v = static_cast<T>(2 * u - 1);
        else v = static_cast<T>(u < 0.5);
        std::memcpy(static_cast<void*>(a.data + static_cast<std::size_t>(b * each + i) * sizeof(T)), &v, sizeof(T));
      }
    }
  });
  return a;
}

/// The elements of item b of a result.
io::array item_of(const io::array& y, std::int64_t b) {
  io::array one = y;
  one.extents[0] = 1;
  one.data = y.data + static_cast<std::size_t>(b) * one.bytes().size();
  return one;
}

std::string batches(const std::string& folder) {
  const onnx::model m = onnx::load(folder + "/model.onnx", how_of());
  std::string name;
  bool open = false;
  for (const auto& d : m.inputs())
    if (!open && !d.extents.empty() && d.extents[0] < 0) open = true, name = d.axes[0];
  if (!open) return "no open batch axis";
  const auto from = arrays_of(folder, "input");
  const auto call = [&](std::int64_t n, std::int64_t only) {
    onnx::tensor_list x;
    for (std::size_t k = 0; k < m.inputs().size(); ++k)
      x.push_back(batch_of(m.inputs()[k], k < from.size() ? &from[k] : nullptr, name, n, only, 100 + k));
    std::vector<io::array> out;
    for (const auto& y : m(x)) out.push_back(y.to_array());
    return out;
  };
  call(1, 0);
  call(2, -1);
  const std::size_t had = m.specialisations();
  const auto all = call(5, -1);
  if (m.specialisations() != had) return words("compiled anew at 5: %zu, then %zu", had, m.specialisations());
  double off = 0;
  bool compared = false;
  for (std::int64_t b = 0; b < 5; ++b) {
    const auto one = call(1, b);
    for (std::size_t k = 0; k < one.size(); ++k) {
      if (one[k].extents.empty() || one[k].extents[0] != 1 || all[k].extents[0] != 5) continue;
      off = std::max(off, differs(item_of(all[k], b), one[k]));
      compared = true;
    }
  }
  if (off > 1e-3) return words("differs by %.3g of the largest value from one item at a time", off);
  return words("ok, %zu specialisations%s", had, compared ? "" : ", whose results have no batch axis");
}

// ---- Training

template <int Rank>
tensor<float, 0> square_of(const dynamic_tensor& y, const dynamic_tensor& t) {
  const auto d = y.as<tensor<float, Rank>>() - t.as<tensor<float, Rank>>();
  return mean(d * d);
}
tensor<float, 0> square_of(const dynamic_tensor& y, const dynamic_tensor& t) {
  switch (y.rank()) {
    case 0:
      return square_of<0>(y, t);
    case 1:
      return square_of<1>(y, t);
    case 2:
      return square_of<2>(y, t);
    case 3:
      return square_of<3>(y, t);
    case 4:
      return square_of<4>(y, t);
    case 5:
      return square_of<5>(y, t);
  }
  throw user_error("results of more than five axes are not trained here");
}

struct trained {
  double loss = 0;
  onnx::tensor_map gradients;
};
/// The mean square of the differences from targets, and its gradients by weights, compiled by a backend.
auto gradients_of(const onnx::model& m, const char* backend) {
  const auto loss = [m](const onnx::tensor_map& w, const onnx::tensor_list& x, const onnx::tensor_list& t) {
    tensor<float, 0> all = full<float>(0.f);
    const auto y = m(w, x);
    for (std::size_t k = 0; k < y.size(); ++k)
      if (y[k].type() == dtype::f32) all = all + square_of(y[k], t[k]);
    return all;
  };
  return [step = compile(
              [loss](const onnx::tensor_map& w, const onnx::tensor_list& x, const onnx::tensor_list& t) {
                return value_and_grad([&](const onnx::tensor_map& w) { return loss(w, x, t); })(w);
              },
              how_of(backend))](const onnx::tensor_map& w, const onnx::tensor_list& x, const onnx::tensor_list& t) {
    auto [l, g] = step(w, x, t);
    return trained{static_cast<double>(l.item()), g};
  };
}

double square_sum(const onnx::tensor_map& g) {
  double sum = 0;
  for (const auto& [name, x] : g)
    for (double v : numbers_of(x.to_array())) sum += v * v;
  return sum;
}
/// Weights less the gradients times a rate.
onnx::tensor_map stepped(const onnx::tensor_map& w, const onnx::tensor_map& gradients, double rate) {
  onnx::tensor_map out;
  for (const auto& [name, x] : w) {
    const io::array a = x.to_array(), next = io::detail::copied_array(a.type, a.extents, a.data);
    const auto g = numbers_of(gradients.at(name).to_array());
    auto* p = reinterpret_cast<float*>(next.data);
    for (std::size_t i = 0; i < g.size(); ++i) p[i] -= static_cast<float>(rate * g[i]);
    out[name] = next;
  }
  return out;
}

/// Exponents, masks and other numbers of formulas are no parameters.
bool is_parameter(const io::array& w) {
  if (w.type != dtype::f32 || w.numel() < 2) return false;
  const auto* p = reinterpret_cast<const float*>(w.data);
  return std::all_of(p, p + w.numel(), [](float x) { return std::fabs(x) < 1e30f; });
}

std::string train(const std::string& folder, int steps) {
  const onnx::model m = onnx::load(folder + "/model.onnx", how_of());
  onnx::tensor_map w;
  for (const auto& [name, x] : m.weights())
    if (is_parameter(x.to_array())) w[name] = x;
  const auto x = tensors_of(arrays_of(folder, "input"));
  // Half of what the model gives, and a little that it does not.
  onnx::tensor_list t;
  std::mt19937_64 next(7);
  for (const auto& want : arrays_of(folder, "output")) {
    const io::array a = io::detail::copied_array(want.type, want.extents, want.data);
    auto* p = reinterpret_cast<float*>(a.data);
    double most = 0;
    for (std::int64_t i = 0; want.type == dtype::f32 && i < a.numel(); ++i)
      most = std::max(most, std::fabs(double(p[i])));
    for (std::int64_t i = 0; want.type == dtype::f32 && i < a.numel(); ++i)
      p[i] = 0.5f * p[i] + static_cast<float>(0.1 * most * (static_cast<double>(next() >> 11) * 0x1p-53 - 0.5));
    t.push_back(a);
  }
  const auto slow = gradients_of(m, "reference")(w, x, t);
  const auto f = gradients_of(m, "cpu");
  trained now = f(w, x, t);
  const double first = now.loss, whole = std::sqrt(square_sum(slow.gradients));
  double off = 0;
  std::string worst;
  for (const auto& [name, g] : slow.gradients) {
    const auto a = numbers_of(g.to_array()), b = numbers_of(now.gradients.at(name).to_array());
    double most = 1e-6 * whole, here = 0;
    for (double v : a) most = std::max(most, std::fabs(v));
    for (std::size_t i = 0; i < a.size(); ++i)
      here = std::max(here, std::isfinite(b[i]) ? std::fabs(a[i] - b[i]) / most : INFINITY);
    if (here > off) off = here, worst = name;
  }
  // A rate that fits a linear model, halved while the loss does not fall.
  int fell = 0;
  double rate = 0.4 * now.loss / std::max(square_sum(now.gradients), 1e-30);
  for (int k = 0; k < steps; ++k)
    for (int halved = 0; halved < 8; ++halved, rate /= 2) {
      const auto moved = stepped(w, now.gradients, rate);
      const trained then = f(moved, x, t);
      if (!(then.loss < now.loss)) continue;
      w = moved;
      now = then;
      ++fell;
      break;
    }
  const std::string said =
      words("loss %.4g to %.4g, lower after %d of %d steps; %zu gradients within %.2g of reference's largest (%s)",
            first, now.loss, fell, steps, slow.gradients.size(), off, worst.c_str());
  if (!(off < 1e-3)) return "differs: " + said;
  if (fell < steps) return "does not fall: " + said;
  return "ok, " + said;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string folder = argv[1], mode = argc > 2 ? argv[2] : "";
  try {
    if (mode == "--batches") std::printf("%s\n", batches(folder).c_str());
    else if (mode == "--train") std::printf("%s\n", train(folder, argc > 3 ? std::atoi(argv[3]) : 10).c_str());
    else if (mode == "--kernels") kernels(folder, device::cuda(0));
    else numbers(folder, mode == "--cuda" ? device::cuda(0) : device::cpu());
    return 0;
  } catch (const std::exception& e) {
    std::string text = e.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::printf("failed: %s\n", text.c_str());
    return 1;
  }
}
