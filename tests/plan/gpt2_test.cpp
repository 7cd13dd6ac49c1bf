// A step of GPT-2's training in bf16, planned for a GPU: what lives at its peak, by buffer, and what its launches move.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include <sinter/sinter.hpp>

#include <sinter/optim.hpp>
#include <sinter/plan/memory.hpp>

#include "../../bench/models/gpt2.hpp"

using namespace models;
namespace engine = sinter::engine;
namespace jit = sinter::engine::detail;

namespace {

constexpr int layers = 3, batch = 8, length = 1024;

/// Tensors without elements' values: planning reads none.
template <class X, class... I>
X unwritten(I... extents) {
  return sinter::detail::expected<false>(spec<X>{{extents...}, device::cpu()}, location::current());
}
gpt2::network parameters(int depth = layers) {
  constexpr int w = 768, words = 50257;
  const auto norm = [] { return scale_and_shift{unwritten<models::vector>(w), unwritten<models::vector>(w)}; };
  const auto layer = [](int in, int out) { return linear{unwritten<matrix>(in, out), unwritten<models::vector>(out)}; };
  gpt2::network net{unwritten<matrix>(words, w), unwritten<matrix>(1024, w), {}, norm(), 12};
  for (int i = 0; i < depth; ++i)
    net.blocks.push_back({norm(), layer(w, 3 * w), layer(w, w), norm(), layer(w, 4 * w), layer(4 * w, w)});
  return net;
}

/// A step planned for a GPU.
struct planned {
  jit::code code;
  jit::cuda_plan plan;
  std::int64_t scratch = 0;

  template <class F, class... Args>
  explicit planned(F step, std::vector<int> donate, const Args&... args) {
    options how;
    how.donate.assign(donate.begin(), donate.end());
    compile(std::move(step), how)
        .inspect(
            [&](const std::shared_ptr<engine::tracer>& traced, std::span<const engine::argument> all, const options&,
                device) {
              code.where = device::cuda(0);
              code.graph = engine::rewrite::run_all(traced->graph);
              plan = jit::plan_for(code, code.graph, all, engine::plan::gpu_target());
              code.results = plan.results;
              const auto where =
                  jit::bind_operands(plan.results, plan.graph, plan.kernels, plan.strides, plan.when, {});
              jit::find_replaceable(code, plan.graph, plan.kernels, plan.when, all);
              jit::count_memory(code, all);
              jit::report_peak(code, plan.graph, where);
              scratch = where.scratch_bytes;
              return 0;
            },
            args...);
  }

  /// The bytes at the peak of what an op makes with these extents and this dtype; 0: none.
  std::int64_t at_peak(const std::string& shape, const std::string& type, const std::string& op = "") const {
    std::int64_t n = 0;
    for (const auto& b : code.about.peak.buffers)
      if (b.what == "intermediate" && b.shape == shape && b.type == type && (op.empty() || b.op == op)) n += b.bytes;
    return n;
  }
  std::size_t launches() const { return plan.groups.size(); }
  std::int64_t moved() const {
    std::int64_t n = 0;
    for (const auto& k : code.about.steps) n += k.read + k.written;
    return n;
  }
  /// Launches that move fewer bytes than memory does in 5 µs at 4 TB/s, and compute no product.
  std::vector<std::string> short_ones() const {
    std::vector<std::string> out;
    for (const auto& k : code.about.steps)
      if (k.read + k.written < 20'000'000 && k.name.find("dot") == k.name.npos) out.push_back(k.name + " " + k.space);
    return out;
  }
};

training<gpt2::network> state() { return {parameters(), parameters(), parameters(), unwritten<tensor<float, 0>>()}; }
ids tokens() { return unwritten<ids>(batch, length); }

/// The same of 12 layers with the library's AdamW, behind a norm of all gradients or without.
template <class Optimizer>
planned trained_by(const Optimizer& opt) {
  constexpr int depth = 12;
  const gpt2::network net = parameters(depth);
  const auto step = autocast<bf16>(optim::train_step(opt, &gpt2::loss));
  using state = decltype(opt.init(net));
  const auto begun = [&]() -> state {
    if constexpr (requires(state s) { s.first; })
      return {unwritten<tensor<std::int64_t, 0>>(), parameters(depth), parameters(depth)};
    else return {optim::stateless{}, {unwritten<tensor<std::int64_t, 0>>(), parameters(depth), parameters(depth)}};
  };
  return planned(step, {0, 1}, net, begun(), tokens(), tokens());
}

}  // namespace

TEST_CASE("the peak of a step of GPT-2, by buffer") {
  const planned p(autocast<bf16>(step_of(&gpt2::loss)), {0}, state(), tokens(), tokens());
  constexpr std::int64_t rows = batch * length, row = rows * 768, logits = rows * (50257 + 47) * 2;
  const std::string stream = "(8, 1024, 768)";
  // Nearly all results take the states' memory.
  CHECK(p.code.about.result_bytes - p.code.about.replaced_bytes < p.code.about.result_bytes / 50);
  // The gradient of the logits takes their memory, and nothing of that size is in f32.
  CHECK(p.at_peak("(8, 1024, 50257)", "bf16") == logits);
  CHECK(p.at_peak("(8, 1024, 50257)", "f32") == 0);
  // The residual stream in f32, twice a layer and once ahead of the first and behind the last; of norms nothing beside it.
  CHECK(p.at_peak(stream, "f32") <= (2 * layers + 1) * row * 4);
  // In bf16 what products read: norms, heads and one more.
  CHECK(p.at_peak(stream, "bf16") <= (3 * layers + 1) * row * 2);
  // Zeros to which gradients of embeddings are added are written when they are needed.
  CHECK(p.at_peak("(1, 50257, 768)", "f32") == 0);
  CHECK(p.at_peak("(50257, 768)", "f32") == 0);
  // No f32 copy of a weight, and no gradient but the embedding's.
  for (const char* shape : {"(768, 2304)", "(768, 768)", "(768, 3072)", "(3072, 768)"})
    CHECK(p.at_peak(shape, "f32") == 0);
  // What the report names is what the plan holds.
  std::int64_t scratch = 0;
  for (const auto& b : p.code.about.peak.buffers)
    if (b.what == "intermediate") scratch += b.bytes;
  CHECK(scratch <= p.scratch);
  CHECK(scratch > p.scratch / 100 * 99);
  CHECK(engine::reporting::text_of_peak(p.code.about).find("bf16(8, 1024, 50257)") != std::string::npos);
}

TEST_CASE("no launch of a step of GPT-2 takes less than 5 µs, but products") {
  const planned p(autocast<bf16>(step_of(&gpt2::loss)), {0}, state(), tokens(), tokens());
  for (const auto& name : p.short_ones()) MESSAGE(name);
  CHECK(p.short_ones().size() <= 1);
}

TEST_CASE("a norm of all gradients costs few bytes, and no more launches") {
  const planned without = trained_by(optim::adamw({.weight_decay = 0.1})),
                with = trained_by(optim::chain(optim::clip_by_global_norm(1), optim::adamw({.weight_decay = 0.1})));
  MESSAGE(without.launches() << " launches, " << with.launches() << " with the norm; bytes " << without.moved() << ", "
                             << with.moved());
  // Squares of gradients of one shape are a launch, and so are all updates but the embedding's.
  CHECK(with.launches() <= without.launches());
  CHECK(with.moved() < without.moved() / 100 * 101);
  // No kernel of many elements adds up the squares of all gradients.
  for (const auto& k : with.plan.kernels)
    if (!k.axes.empty()) CHECK_MESSAGE(k.buffers.size() < 20, k.label);
}

TEST_CASE("gradients of micro-batches are added to donated sums in place") {
  const optim::accumulate opt(4, optim::adamw());
  const auto add = [&](const gpt2::network& p, const gpt2::network& sum, const ids& x, const ids& y) {
    return opt.add(sum, grad(&gpt2::loss)(p, x, y));
  };
  const auto only = [&](const gpt2::network& p, const ids& x, const ids& y) { return grad(&gpt2::loss)(p, x, y); };
  const planned with(autocast<bf16>(add), {1}, parameters(), parameters(), tokens(), tokens());
  const planned without(autocast<bf16>(only), {}, parameters(), tokens(), tokens());
  const auto& r = with.code.about;
  MESSAGE(with.launches() << " launches, " << without.launches() << " without sums; bytes " << with.moved() << ", "
                          << without.moved());
  CHECK(r.result_bytes - r.replaced_bytes < r.result_bytes / 20);
  for (const auto& k : r.steps) CHECK_MESSAGE((k.name != "copy" || k.read == 0), k.space);
  // Each sum is read beside the gradient that is stored without sums.
  CHECK(with.moved() <= without.moved() + 2 * static_cast<std::int64_t>(r.result_bytes));
}
