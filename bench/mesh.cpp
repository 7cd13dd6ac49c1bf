// Ranks of a mesh; bench/mesh.py starts them and prints the tables. Rank 0 prints lines of a name and a value.
//
//   mesh reduce BYTES [--steps N]       an all_reduce of f32 in one array
//   mesh train [--batch N] [--length N] [--layers N] [--small] [--sharded] [--recorded] [--parts] [--steps N]
//                                       GPT-2 in bf16, N rows a rank; --parts: also the loss and its gradient alone
//   mesh first [--layers N] [--own]     the first call of a training step of a small GPT-2; --own: with a cache for each rank
//   mesh hit                            what a call of a compiled function with collectives takes beside them
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include <sinter/mesh.hpp>
#include <sinter/optim.hpp>

#include "models/gpt2.hpp"

using namespace sinter;
namespace gpt2 = models::gpt2;
using models::ids;
using bench_clock = std::chrono::steady_clock;

namespace {

struct dp : mesh_axis {};
struct one : mesh_axis {};  // has a single rank

struct command_line {
  std::string part;
  std::int64_t bytes = 0;
  int batch = 8, length = 1024, layers = 0, steps = 100;
  bool small = false, sharded = false, recorded = false, parts = false, own = false;
};

void tell(const char* name, double value) {
  if (mesh_rank() == 0) std::printf("%s %.17g\n", name, value);
  std::fflush(stdout);
}

double milliseconds_since(bench_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(bench_clock::now() - start).count();
}
double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}
/// Median milliseconds of a call, of batches of ten calls. All ranks make the same number of calls.
double milliseconds_of(int steps, const std::function<void()>& f) {
  const int inner = std::min(steps, 10);
  std::vector<double> times;
  for (int done = 0; done < steps; done += inner) {
    const auto start = bench_clock::now();
    for (int i = 0; i < inner; ++i) f();
    synchronize();
    times.push_back(milliseconds_since(start) / inner);
  }
  return median(times);
}

template <class Tree>
double bytes_of(const Tree& tree) {
  double bytes = 0;
  tree_map(
      [&]<class X>(const X& x) {
        bytes += static_cast<double>(x.numel()) * sizeof(typename X::value_type);
        return x;
      },
      tree);
  return bytes;
}

// ---- An exchange alone.

void reduce(const command_line& given) {
  const auto m = make_mesh<dp>({mesh_ranks()});
  using part = placed<tensor<float, 1>, varying<dp>>;
  const std::int64_t elements = given.bytes / std::int64_t{sizeof(float)};
  const float own = static_cast<float>(mesh_rank() + 1);
  const part x(full<float>(own, elements));
  const auto sum = compile(shard_map(m, [](part a) { return all_reduce<replicated<dp>>(as<partial<dp>>(local(a))); }));
  const auto ranks = static_cast<float>(mesh_ranks());
  const auto y = local(sum(x));
  const tensor<float, 0> apart = max(abs(y - ranks * (ranks + 1) / 2));
  const bool right = apart.item() == 0;
  for (int i = 0; i < std::min(given.steps, 3); ++i) sum(x);
  synchronize();
  tell("right", right);
  tell("ms", milliseconds_of(given.steps, [&] { sum(x); }));
}

// ---- Training.

gpt2::configuration configuration_of(bool small) {
  return small ? gpt2::configuration{.vocabulary = 97, .positions = 32, .width = 32, .heads = 4}
               : gpt2::configuration{};
}
ids text_of(const gpt2::configuration& c, std::uint64_t seed, std::int64_t batch, std::int64_t length) {
  return randint<std::int64_t>(fold_in(make_key(seed), mesh_rank()), 0, c.vocabulary, batch, length);
}
options how(const command_line& given) {
  options o;
  o.donate = {0, 1};
  o.name = "step";
  if (given.recorded) o.mode = mode::reduce_overhead;
  return o;
}

using network = gpt2::network;
using rows = placed<ids, shard<dp, 0>>;
const auto& optimizer() {
  static const auto opt = optim::adamw({.rate = 1e-3});
  return opt;
}

/// All ranks have all parameters.
struct whole {
  using state = decltype(optimizer().init(std::declval<network>()));
  using parameters = placed<network, invariant<dp>>;
  using memory = placed<state, invariant<dp>>;
  template <class M>
  static std::pair<parameters, memory> start(const M&, const network& net) {
    return {parameters(net), memory(optimizer().init(net))};
  }
  static auto step(parameters p, memory s, rows text, rows next) {
    auto [l, g] = autocast<bf16>([&] { return data_parallel<dp>(&gpt2::loss)(p, text, next); })();
    auto [q, after] = optimizer().update(local(p), local(g), local(s));
    return std::tuple{l, parameters(q), memory(after)};
  }
  static double bytes(const parameters& p) { return bytes_of(local(p)); }
};

/// Each rank has its rows of the parameters.
struct sharded {
  using parameters = row_shards<network, dp>;
  using state = decltype(optimizer().init(std::declval<parameters>()));
  using memory = placed<state, replicated<dp>>;
  template <class M>
  static std::pair<parameters, memory> start(const M& m, const network& net) {
    parameters p = cut_rows<dp>(m, net);
    memory s(optimizer().init(p));
    return {std::move(p), std::move(s)};
  }
  static auto step(parameters p, memory s, rows text, rows next) {
    auto [l, g] = autocast<bf16>([&] { return fully_sharded<dp>(&gpt2::loss)(p, text, next); })();
    auto [q, after] = optimizer().update(p, g, local(s));
    return std::tuple{l, q, memory(after)};
  }
  static double bytes(const parameters& p) { return bytes_of(p.part()); }
};

/// Steps, with the state that the step before returned.
template <class How>
void train_by(const command_line& given) {
  const auto m = make_mesh<dp>({mesh_ranks()});
  const gpt2::configuration c = configuration_of(given.small);
  const int layers = given.layers > 0 ? given.layers : given.small ? 2 : 12;
  const rows text(text_of(c, 2, given.batch, given.length)), next(text_of(c, 3, given.batch, given.length));
  auto state = How::start(m, gpt2::make_network(c, layers));
  auto& p = std::get<0>(state);
  auto& s = std::get<1>(state);
  const auto step = compile(shard_map(m, &How::step), how(given));
  std::vector<tensor<float, 0>> losses;
  const auto once = [&] {
    auto [l, q, after] = step(std::move(p), std::move(s), text, next);
    losses.push_back(local(l));
    p = std::move(q);
    s = std::move(after);
  };
  const auto start = bench_clock::now();
  once();
  synchronize();
  tell("first_ms", milliseconds_since(start));
  for (int i = 0; i < std::min(given.steps, 4); ++i) once();
  synchronize();
  if (default_device().is_cuda()) reset_peak_memory();
  tell("ms", milliseconds_of(given.steps, once));
  if (default_device().is_cuda()) tell("peak_bytes", static_cast<double>(memory_stats().peak));
  const report r = step.report();
  tell("parameter_bytes", How::bytes(p));
  tell("state_bytes", static_cast<double>(r.argument_bytes));
  tell("scratch_bytes", static_cast<double>(r.scratch_bytes));
  tell("collectives", static_cast<double>(r.collectives));
  tell("copies", static_cast<double>(r.copies));
  tell("first_loss", static_cast<double>(losses.front().item()));
  tell("last_loss", static_cast<double>(losses.back().item()));
}

/// The loss alone, and the loss with its gradient, on one rank.
void train_parts(const command_line& given) {
  const gpt2::configuration c = configuration_of(given.small);
  const network net = gpt2::make_network(c, given.layers > 0 ? given.layers : given.small ? 2 : 12);
  const ids text = text_of(c, 2, given.batch, given.length), next = text_of(c, 3, given.batch, given.length);
  const auto forward = compile(autocast<bf16>(&gpt2::loss));
  const auto both = compile(autocast<bf16>(
      [](const network& p, const ids& x, const ids& y) { return value_and_grad(&gpt2::loss)(p, x, y); }));
  for (int i = 0; i < 3; ++i) forward(net, text, next), both(net, text, next);
  synchronize();
  tell("forward_ms", milliseconds_of(given.steps, [&] { forward(net, text, next); }));
  tell("gradient_ms", milliseconds_of(given.steps, [&] { both(net, text, next); }));
}

// ---- On hosts.

/// CPU time of this process and the compilers that it has started.
double cpu_milliseconds() {
  double all = 0;
  for (const int of : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(of, &used);
    for (const timeval& t : {used.ru_utime, used.ru_stime})
      all += static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) * 1e-3;
  }
  return all;
}

void first_call(const command_line& given) {
  const gpt2::configuration c = configuration_of(true);
  const rows text(text_of(c, 2, 2, 12)), next(text_of(c, 3, 2, 12));
  const network net = gpt2::make_network(c, given.layers > 0 ? given.layers : 12);
  auto state = optimizer().init(net);
  const auto m = make_mesh<dp>({mesh_ranks()});  // all ranks begin the call here
  const auto step = compile(shard_map(m, &whole::step), how(given));
  const double cpu = cpu_milliseconds();
  const auto start = bench_clock::now();
  const auto l = local(std::get<0>(step(whole::parameters(net), whole::memory(state), text, next)));
  const double loss = static_cast<double>(l.item()), first = milliseconds_since(start);
  tell("first_ms", first);
  tell("first_loss", loss);
  tell("kernels", static_cast<double>(step.report().kernels));
  double planning = 0;  // all but the compiler's time
  for (const auto& s : step.report().stages)
    if (s.name != "compile") planning += s.milliseconds;
  tell("planning_ms", planning);
  const auto used = static_cast<float>(cpu_milliseconds() - cpu), compiled = static_cast<float>(step.report().compiled);
  using own = placed<tensor<float, 1>, varying<dp>>;
  const auto all = compile(shard_map(m, [](own a) { return all_reduce<replicated<dp>>(as<partial<dp>>(a)); }));
  const auto sums = local(all(own(tensor<float, 1>({used, compiled})))).to_vector();
  tell("cpu_ms", static_cast<double>(sums[0]));
  tell("compiled", static_cast<double>(sums[1]));
}

/// A collective along an axis of one rank exchanges nothing, but the call is one that ranks count.
void hit(const command_line&) {
  const auto m = make_mesh<dp, one>({mesh_ranks(), 1});
  using own = placed<tensor<float, 0>, varying<dp>, varying<one>>;
  const auto counted = compile(
      shard_map(m, [](own a) { return all_reduce<replicated<one>>(as<varying<dp>, partial<one>>(local(a) * 2.f)); }));
  const auto plain = compile(shard_map(m, [](own a) { return own(local(a) * 2.f); }));
  const auto summed = compile(
      shard_map(m, [](own a) { return all_reduce<replicated<dp>>(as<partial<dp>, varying<one>>(local(a) * 2.f)); }));
  const own x(full<float>(3.f));
  const float two = local(counted(x)).item(),
              sum = local(summed(x)).item();  // later no rank waits until another compiles
  plain(x);
  constexpr int inner = 2000, turns = 51, few = 20;
  const auto nanoseconds = [](int count, const auto& f) {
    const auto start = bench_clock::now();
    for (int i = 0; i < count; ++i) f();
    return milliseconds_since(start) * 1e6 / count;
  };
  std::vector<double> with, without, beyond, exchanges;
  for (int turn = 0; turn < turns; ++turn) {
    with.push_back(nanoseconds(inner, [&] { counted(x); }));
    without.push_back(nanoseconds(inner, [&] { plain(x); }));
    beyond.push_back(with.back() - without.back());
  }
  for (int turn = 0; turn < turns; ++turn) exchanges.push_back(nanoseconds(few, [&] { summed(x); }));
  tell("right", two == 6 && sum == 6 * static_cast<float>(mesh_ranks()));
  tell("call_ns", median(without));
  tell("counted_ns", median(with));
  tell("beyond_ns", median(beyond));
  tell("exchange_ns", median(exchanges));
}

// ---- The command line.

[[noreturn]] void fail_usage(const std::string& what) {
  std::fprintf(stderr, "mesh: %s\n", what.c_str());
  std::exit(2);
}

command_line parse(int argc, char** argv) {
  command_line c;
  if (argc < 2) fail_usage("name a part: reduce, train, first, hit");
  c.part = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    const auto next = [&]() -> std::string {
      if (i + 1 >= argc) fail_usage(name + " wants a value");
      return argv[++i];
    };
    if (name == "--small") c.small = true;
    else if (name == "--sharded") c.sharded = true;
    else if (name == "--recorded") c.recorded = true;
    else if (name == "--parts") c.parts = true;
    else if (name == "--own") c.own = true;
    else if (name == "--batch") c.batch = std::stoi(next());
    else if (name == "--length") c.length = std::stoi(next());
    else if (name == "--layers") c.layers = std::stoi(next());
    else if (name == "--steps") c.steps = std::stoi(next());
    else if (c.part == "reduce" && c.bytes == 0) c.bytes = std::stoll(name);
    else fail_usage("what is " + name + "?");
  }
  return c;
}

}  // namespace

int main(int argc, char** argv) {
  const command_line given = parse(argc, argv);
  try {
    if (const char* const folder = std::getenv("SINTER_CACHE_DIR"); folder && given.own)
      ::setenv("SINTER_CACHE_DIR", (std::string(folder) + "/" + std::to_string(mesh_rank())).c_str(), 1);
    if (given.part == "reduce") reduce(given);
    else if (given.part == "train" && given.sharded) train_by<sharded>(given);
    else if (given.part == "train") train_by<whole>(given);
    else if (given.part == "first") first_call(given);
    else if (given.part == "hit") hit(given);
    else fail_usage("there is no part " + given.part);
    if (given.parts) train_parts(given);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "mesh: %s\n", problem.what());
    return 1;
  }
}
