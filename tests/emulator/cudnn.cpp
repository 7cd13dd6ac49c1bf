// tests/emulator/cudnn.cpp: a stand-in for libcudnn.so: operation graphs of a convolution, a bias and a relu, in the stream's order.
//
// SINTER_EMULATOR_DNN=refuse  has no engine for any graph; fail: has engines that fail; single: has none for several operations
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "elements.hpp"
#include "enqueue.hpp"
#include "memory.hpp"

namespace {

using emulator::read;
using emulator::write;

constexpr int bad_parameter = 2000, not_finished = 2004, not_supported = 3000, execution_failed = 5000;
constexpr int pointwise = 0, windows = 1, engine = 2, choice = 3, heuristic = 4, execution_plan = 5, forward = 10,
              weights_gradient = 11, image_gradient = 12, pointwise_step = 13, operation_graph = 15, arguments = 16,
              tensor = 17;

struct attribute {
  int type = 0;
  std::int64_t count = 0;
  std::vector<char> bytes;
};

std::size_t bytes_of(int type) {
  switch (type) {
    case 2:
      return 1;
    case 0:
    case 3:
    case 5:
    case 6:
    case 15:
      return 8;
    default:
      return 4;
  }
}

struct descriptor {
  int kind = 0;
  bool finished = false;
  std::map<int, attribute> all;
  int number = 0;  ///< of an engine

  bool has(int a) const { return all.count(a) != 0; }
  template <class T>
  std::vector<T> list(int a) const {
    const auto found = all.find(a);
    if (found == all.end()) return {};
    std::vector<T> out(found->second.bytes.size() / sizeof(T));
    std::memcpy(out.data(), found->second.bytes.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T>
  T one(int a, T otherwise = {}) const {
    const auto all_of = list<T>(a);
    return all_of.empty() ? otherwise : all_of[0];
  }
  const descriptor& at(int a) const { return *one<descriptor*>(a); }
};

struct handle {
  void* stream = nullptr;
};

/// An array of a graph.
struct array {
  int type = 0;
  std::int64_t id = 0;
  std::vector<std::int64_t> extents, strides;
};

array array_of(const descriptor& t) {
  return {t.one<int>(901), t.one<std::int64_t>(906), t.list<std::int64_t>(902), t.list<std::int64_t>(903)};
}

/// Without gaps, in either order of axes: of weights in another order the library makes nonsense.
bool is_packed(const array& x) {
  const std::size_t rank = x.extents.size();
  for (const bool last : {false, true}) {
    std::int64_t step = 1;
    bool same = true;
    const auto next = [&](std::size_t d) {
      same = same && x.strides[d] == step;
      step *= x.extents[d];
    };
    if (last) next(1);
    for (std::size_t d = rank; d-- > 2;) next(d);
    if (!last) next(1);
    next(0);
    if (same) return true;
  }
  return false;
}

/// What a graph computes.
struct work {
  int kind = forward;
  array image, weights, result;
  std::vector<std::int64_t> low, high, step, dilation;
  std::int64_t bias = 0;  ///< its id; 0: none
  int bias_type = 0;
  bool clips = false, propagates = false;
  int engine = 0;
  std::size_t workspace = 0;

  const array& written() const { return kind == forward ? result : kind == weights_gradient ? weights : image; }
};

/// The steps of a finished graph; false if they are not a convolution, then a bias, then a relu.
bool read_graph(const descriptor& g, work& w) {
  const auto steps = g.list<descriptor*>(801);
  const descriptor& first = *steps[0];
  const int base = first.kind == forward ? 700 : first.kind == image_gradient ? 706 : 712;
  if (first.kind != forward && first.kind != image_gradient && first.kind != weights_gradient) return false;
  w.kind = first.kind;
  const descriptor& how = first.at(base + 2);
  w.weights = array_of(first.at(base + 3));
  w.image = array_of(first.at(base + 4));
  w.result = array_of(first.at(base + 5));
  w.dilation = how.list<std::int64_t>(102);
  w.step = how.list<std::int64_t>(103);
  w.high = how.list<std::int64_t>(104);
  w.low = how.list<std::int64_t>(105);
  std::int64_t made = w.result.id;
  for (std::size_t n = 1; n < steps.size(); ++n) {
    const descriptor& s = *steps[n];
    if (s.kind != pointwise_step || w.kind != forward || s.at(751).one<std::int64_t>(906) != made) return false;
    const int mode = s.at(750).one<int>(0);
    if (mode == 0 && n == 1) {
      w.bias = s.at(752).one<std::int64_t>(906);
      w.bias_type = s.at(752).one<int>(901);
    } else if (mode == 100 && n + 1 == steps.size()) {
      w.clips = true;
      w.propagates = s.at(750).one<int>(2) == 1;
    } else {
      return false;
    }
    w.result = array_of(s.at(753));
    made = w.result.id;
  }
  return true;
}

/// Whether the extents of a convolution are those of its windows.
bool fits(const work& w) {
  const std::size_t rank = w.image.extents.size();
  if (w.weights.extents.size() != rank || w.result.extents.size() != rank || w.low.size() + 2 != rank) return false;
  const auto &x = w.image.extents, &k = w.weights.extents, &y = w.result.extents;
  if (x[0] != y[0] || k[0] != y[1] || k[1] < 1 || x[1] % k[1] != 0 || k[0] % (x[1] / k[1]) != 0) return false;
  for (std::size_t d = 2; d < rank; ++d) {
    const std::int64_t room = x[d] + w.low[d - 2] + w.high[d - 2] - ((k[d] - 1) * w.dilation[d - 2] + 1);
    if (w.low[d - 2] < 0 || w.high[d - 2] < 0 || room < 0 || room / w.step[d - 2] + 1 != y[d]) return false;
  }
  return true;
}

/// The next index of a list of extents; false after the last.
bool advance(std::vector<std::int64_t>& at, const std::vector<std::int64_t>& extents) {
  for (std::size_t d = extents.size(); d-- > 0;) {
    if (++at[d] < extents[d]) return true;
    at[d] = 0;
  }
  return false;
}
std::int64_t place(const array& x, const std::vector<std::int64_t>& at) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < at.size(); ++d) sum += at[d] * x.strides[d];
  return sum;
}

/// Each product of one element each of the two read arrays goes to the sum of its element of the third.
void compute(const work& w, const std::map<std::int64_t, void*>& memory) {
  const array& to = w.written();
  std::int64_t count = 1;
  for (auto e : to.extents) count *= e;
  std::vector<double> sums(static_cast<std::size_t>(count), 0);
  const bool rounds = w.engine == 0;
  const auto operand = [&](const array& x, const std::vector<std::int64_t>& at) {
    const double v = read(memory.at(x.id), x.type, place(x, at));
    if (!rounds || x.type != 0 || !std::isfinite(v)) return v;
    return static_cast<double>(
        std::bit_cast<float>((std::bit_cast<std::uint32_t>(static_cast<float>(v)) + 0x1000u) & ~0x1fffu));
  };
  const std::size_t rank = w.image.extents.size();
  const std::int64_t inputs = w.weights.extents[1], outputs = w.weights.extents[0] / (w.image.extents[1] / inputs);
  std::vector<std::int64_t> y(rank, 0), x(rank, 0), k(rank, 0);
  do {
    std::vector<std::int64_t> taps(w.weights.extents.begin() + 1, w.weights.extents.end()), at(rank - 1, 0);
    do {
      x[0] = y[0];
      k[0] = y[1];
      k[1] = at[0];
      x[1] = y[1] / outputs * inputs + at[0];
      bool inside = true;
      for (std::size_t d = 2; d < rank; ++d) {
        k[d] = at[d - 1];
        x[d] = y[d] * w.step[d - 2] + k[d] * w.dilation[d - 2] - w.low[d - 2];
        inside = inside && x[d] >= 0 && x[d] < w.image.extents[d];
      }
      if (!inside) continue;
      const auto& index = w.kind == forward ? y : w.kind == weights_gradient ? k : x;
      const double a = w.kind == image_gradient ? operand(w.result, y) : operand(w.image, x),
                   b = w.kind == weights_gradient ? operand(w.result, y) : operand(w.weights, k);
      std::int64_t n = 0;
      for (std::size_t d = 0; d < rank; ++d) n = n * to.extents[d] + index[d];
      sums[static_cast<std::size_t>(n)] += a * b;
    } while (advance(at, taps));
  } while (advance(y, w.result.extents));
  std::vector<std::int64_t> at(rank, 0);
  std::size_t n = 0;
  do {
    double v = sums[n++];
    if (w.bias != 0) v += read(memory.at(w.bias), w.bias_type, at[1]);
    if (w.clips && !(v > 0) && !(w.propagates && v != v)) v = 0;
    write(memory.at(to.id), to.type, place(to, at), v);
  } while (advance(at, to.extents));
}

bool told_to(const char* what) {
  const char* const value = std::getenv("SINTER_EMULATOR_DNN");
  return value != nullptr && std::string(value) == what;
}

constexpr int engines = 3;
/// One on tensor cores, an exact one, and one whose sums are in no order.
const std::array<std::vector<int>, engines> notes{{{0}, {}, {4}}};
constexpr std::array<std::int64_t, engines> workspaces{{4096, 0, 512}};

/// The engines that compute a graph.
int engines_for(const descriptor& g) {
  work w;
  if (told_to("refuse") || !read_graph(g, w) || !fits(w)) return 0;
  // Of a relu without a bias the library has no engine, nor of numbers of 64 bits.
  if ((w.clips && w.bias == 0) || w.image.type == 1) return 0;
  if (told_to("single") && (w.clips || w.bias != 0)) return 0;
  return is_packed(w.image) && is_packed(w.weights) && is_packed(w.result) ? engines : 0;
}

bool has_all(const descriptor& d, std::initializer_list<int> needed) {
  for (int a : needed)
    if (!d.has(a)) return false;
  return true;
}

int finish(descriptor& d) {
  switch (d.kind) {
    case tensor: {
      const array x = array_of(d);
      if (!has_all(d, {900, 901, 902, 903, 906}) || x.extents.size() < 4 || x.extents.size() != x.strides.size())
        return bad_parameter;
      for (auto e : x.extents)
        if (e < 1) return bad_parameter;
      break;
    }
    case windows:
      if (!has_all(d, {100, 101, 102, 103, 104, 105, 106}) || d.one<int>(101) != 1) return bad_parameter;
      break;
    case pointwise:
      if (!has_all(d, {0, 1})) return bad_parameter;
      break;
    case forward:
      if (!has_all(d, {700, 701, 702, 703, 704, 705})) return bad_parameter;
      break;
    case image_gradient:
      if (!has_all(d, {706, 707, 708, 709, 710, 711})) return bad_parameter;
      break;
    case weights_gradient:
      if (!has_all(d, {712, 713, 714, 715, 716, 717})) return bad_parameter;
      break;
    case pointwise_step:
      if (!has_all(d, {750, 751, 753})) return bad_parameter;
      break;
    case operation_graph:
      if (!has_all(d, {800, 801})) return bad_parameter;
      for (const auto* step : d.list<descriptor*>(801))
        if (!step->finished) return not_finished;
      break;
    case heuristic:
      if (!has_all(d, {200, 201}) || !d.at(201).finished) return bad_parameter;
      break;
    case execution_plan:
      if (!has_all(d, {400, 401})) return bad_parameter;
      break;
    case arguments:
      if (!has_all(d, {1000, 1001, 1003})) return bad_parameter;
      break;
    default:
      break;
  }
  d.finished = true;
  return 0;
}

}  // namespace

#define SINTER_EXPORT extern "C" __attribute__((visibility("default")))

SINTER_EXPORT std::size_t cudnnGetVersion() { return 91900; }
SINTER_EXPORT std::size_t cudnnGetCudartVersion() { return static_cast<std::size_t>(emulator::library_major()) * 1000; }
SINTER_EXPORT const char* cudnnGetErrorString(int status) {
  return status == 0                  ? "CUDNN_STATUS_SUCCESS"
         : status == not_supported    ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == not_finished     ? "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"
         : status == execution_failed ? "CUDNN_STATUS_EXECUTION_FAILED"
                                      : "CUDNN_STATUS_BAD_PARAM";
}
SINTER_EXPORT int cudnnCreate(handle** out) { return *out = new handle, 0; }
SINTER_EXPORT int cudnnSetStream(handle* of, void* stream) { return of->stream = stream, 0; }
SINTER_EXPORT int cudnnBackendCreateDescriptor(int kind, descriptor** out) {
  *out = new descriptor;
  (*out)->kind = kind;
  return 0;
}
SINTER_EXPORT int cudnnBackendDestroyDescriptor(descriptor* d) { return delete d, 0; }
SINTER_EXPORT int cudnnBackendSetAttribute(descriptor* d, int name, int type, std::int64_t count, const void* values) {
  if (d->finished || count < 0 || (count > 0 && values == nullptr)) return bad_parameter;
  attribute a{type, count, {}};
  a.bytes.resize(static_cast<std::size_t>(count) * bytes_of(type));
  std::memcpy(a.bytes.data(), values, a.bytes.size());
  d->all[name] = std::move(a);
  return 0;
}
SINTER_EXPORT int cudnnBackendFinalize(descriptor* d) { return finish(*d); }
SINTER_EXPORT int cudnnBackendGetAttribute(descriptor* d, int name, int, std::int64_t most, std::int64_t* count,
                                           void* values) {
  if (d->kind == heuristic && name == 202) {
    *count = engines_for(d->at(201));
    for (std::int64_t n = 0; n < std::min(most, *count); ++n) {
      descriptor* const to = static_cast<descriptor**>(values)[n];
      if (to == nullptr || to->kind != choice) return bad_parameter;
      to->number = static_cast<int>(n);
      to->all[201] = d->all[201];
      to->finished = true;
    }
    return 0;
  }
  if (d->kind == choice && name == 300) {
    descriptor* const to = *static_cast<descriptor**>(values);
    if (to == nullptr || to->kind != engine || !d->finished) return bad_parameter;
    to->number = d->number;
    to->finished = true;
    return *count = 1, 0;
  }
  if (d->kind == engine && name == 1303) {
    const auto& all = notes.at(static_cast<std::size_t>(d->number));
    *count = static_cast<std::int64_t>(all.size());
    for (std::int64_t n = 0; n < std::min(most, *count); ++n)
      static_cast<int*>(values)[n] = all[static_cast<std::size_t>(n)];
    return 0;
  }
  if (d->kind == execution_plan && name == 402 && d->finished) {
    *static_cast<std::int64_t*>(values) = workspaces.at(static_cast<std::size_t>(d->at(401).number));
    return *count = 1, 0;
  }
  return bad_parameter;
}
SINTER_EXPORT int cudnnBackendExecute(handle* of, descriptor* plan, descriptor* given) {
  if (!plan->finished || !given->finished) return not_finished;
  if (told_to("fail")) return execution_failed;
  work w;
  const descriptor& chosen = plan->at(401);
  if (!read_graph(chosen.at(201), w)) return bad_parameter;
  w.engine = chosen.number;
  w.workspace = static_cast<std::size_t>(workspaces.at(static_cast<std::size_t>(chosen.number)));
  void* const workspace = given->one<void*>(1003);
  if (w.workspace > 0 && workspace == nullptr) return bad_parameter;
  const auto ids = given->list<std::int64_t>(1000);
  const auto pointers = given->list<void*>(1001);
  std::map<std::int64_t, void*> memory;
  for (std::size_t n = 0; n < ids.size(); ++n) memory[ids[n]] = pointers.at(n);
  for (const std::int64_t id : {w.image.id, w.weights.id, w.result.id, w.bias == 0 ? w.image.id : w.bias})
    if (memory.count(id) == 0 || memory[id] == nullptr) return bad_parameter;
  const auto run = [=] {
    if (w.workspace > 0) std::memset(workspace, 0xCD, w.workspace);
    compute(w, memory);
  };
  return emulator::enqueue(of->stream, run) == 0 ? 0 : execution_failed;
}
