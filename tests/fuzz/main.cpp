// test_fuzz: random graphs, each against the reference with a bound on every element.
//
//   test_fuzz --seeds 1..10000 [--graphs plain|control|lanes|transforms] [--backend cpu|cuda|reference]
//             [--replay FILE] [--seconds S] [--threads N]
//
// A seed stands for a graph, layouts of its inputs, their values, and sizes of its symbols (draw.hpp). For each, the graph
// is interpreted with bounds (bounds.hpp) and compared with: itself after every rewrite; forward with reverse derivatives;
// and what the backend computes. `cpu` compiles the kernels of two hundred seeds as one text, by the quickest compiler that
// there is, every twentieth time by what users get (batch.hpp); `cuda` builds each graph by itself; `reference` compiles
// nothing. N threads do so at once. `--graphs control` draws branches and loops (control_graph.hpp): they are compared with
// the graph in which they are unrolled, run as the host runs them with interpreted parts (steps.hpp), and built each by itself.
// `--graphs lanes` makes graphs of both kinds graphs of many lanes (lanes.hpp): they are compared with a loop over the lanes too.
// `--graphs transforms` puts stacks of tangents, cotangents and lanes on graphs of both kinds (transforms.hpp).
// Exits with 1 after the last seed when any failed; prints what reruns just that one.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <sstream>
#include <thread>

#include "../emulator/select.hpp"
#include "programs.hpp"
#include "steps.hpp"
#include "transforms.hpp"
#include "watch.hpp"

namespace {

using fuzz::bounded;
using fuzz::drawn;
using fuzz::expected;
using fuzz::inputs;
using fuzz::now;
using fuzz::now_at;
using fuzz::op;
using fuzz::tally;

struct settings {
  bool has_control() const { return graphs != "plain"; }
  /// Each graph is built by itself.
  bool by_program() const { return backend == "cuda" || (has_control() && backend == "cpu"); }

  std::vector<std::uint64_t> replayed;
  std::uint64_t first = 1, last = 0;
  std::string backend = "cpu";
  std::string graphs = "plain";
  double seconds = 1e9;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

struct totals {
  tally kernels, rewrites, derivatives;
  std::uint64_t graphs = 0, nodes = 0, compiled = 0, failed = 0;
  double build_seconds = 0;
};

/// Two hundred seeds, and what compiles their kernels.
struct block {
  std::vector<std::uint64_t> seeds;
  const fuzz::toolset* tools = nullptr;
};

std::mutex printing;

void report(const settings& how, const drawn& d, const std::string& what, totals& all) {
  const std::lock_guard lock(printing);
  ++all.failed;
  std::printf("FAILED seed %llu (%s): %s\n%s", static_cast<unsigned long long>(d.seed), d.kind.c_str(), what.c_str(),
              sinter::ir::print(d.graph).c_str());
  std::printf("rerun: test_fuzz --seeds %llu..%llu --backend %s --graphs %s\n\n",
              static_cast<unsigned long long>(d.seed), static_cast<unsigned long long>(d.seed), how.backend.c_str(),
              how.graphs.c_str());
  std::fflush(stdout);
}

sinter::options options_of(const drawn& d) {
  sinter::options o;
  o.deterministic = d.seed % 2 == 0;
  o.mode = d.seed % 3 == 0 ? sinter::mode::reduce_overhead : sinter::mode::standard;
  return o;
}

/// Through the whole engine.
std::string run_program(const drawn& d, const sinter::ir::graph& g, const std::string& backend, tally& count) {
  auto bits = d.values();
  const inputs in(g, d.layouts, bits, {});
  const expected want(g, in.values, {});
  const auto where = backend == "cuda" ? sinter::device::cuda(0) : sinter::device();
  return fuzz::run_program(g, in, d.layouts, want.results, options_of(d), where, count);
}

/// Each node of the graph as the only result of a graph of its own; the first that is wrong.
std::string first_difference(const drawn& d, const std::string& stage, const fuzz::toolset* tools) {
  std::vector<drawn> alone;
  for (auto id : d.graph.live()) {
    const auto code = d.graph[id].code;
    if (code == op::input || code == op::constant || code == op::opaque) continue;
    drawn one = d;
    one.graph.outputs = {id};
    one.rewritten = sinter::engine::rewrite::run_all(one.graph);
    alone.push_back(std::move(one));
  }
  fuzz::batch batch(60);
  std::vector<fuzz::planned> planned;
  if (tools != nullptr) {
    for (const auto& one : alone) planned.push_back(fuzz::plan_graph(one.rewritten, one.layouts, one.how.hints));
    for (auto& p : planned) p.first = batch.add(p.sources);
    batch.build(*tools);
  }
  for (std::size_t i = 0; i < alone.size(); ++i) {
    auto bits = d.values();
    for (const auto& sizes : d.sizes) {
      tally count;
      std::string why;
      if (tools == nullptr && stage != "reference") {
        why = run_program(d, alone[i].graph, stage, count);
      } else {
        const inputs in(alone[i].graph, d.layouts, bits, sizes);
        const expected want(alone[i].graph, in.values, sizes);
        why = tools != nullptr ? fuzz::run(planned[i], batch, in, want.results, sizes, count)
                               : fuzz::run_reference(alone[i].rewritten, in, want.results, sizes, count);
      }
      if (!why.empty()) return "first: " + sinter::ir::print(d.graph, alone[i].graph.outputs[0]) + "\n  " + why;
    }
  }
  return "no node by itself differs: only together";
}

std::string located(const drawn& d, const std::string& stage, const std::string& what,
                    const fuzz::toolset* tools = nullptr) {
  fuzz::now_compiling();
  std::string where;
  try {
    where = first_difference(d, stage, tools);
  } catch (const std::exception& e) {
    where = "(looking for the first node that differs: " + std::string(e.what()) + ")";
  }
  return stage + (tools != nullptr ? " (" + tools->name() + ")" : "") + ": " + what + "\n" + where;
}

drawn draw(const settings& how, std::uint64_t seed, fuzz::lanes_of& lanes) {
  const bool interpreted = how.backend == "reference";
  if (how.graphs == "transforms") return fuzz::draw_transforms(seed, interpreted, lanes);
  if (how.graphs == "lanes") return fuzz::draw_lanes(seed, interpreted, lanes);
  return how.graphs == "control" ? fuzz::draw_control(seed, interpreted) : fuzz::draw(seed, how.backend != "cuda");
}

/// Draws a seed and checks what needs no compiler. False when it failed.
bool prepare(const settings& how, std::uint64_t seed, drawn& d, totals& all) {
  now_at(seed, "drawing");
  d.seed = seed;
  try {
    fuzz::lanes_of lanes;
    d = draw(how, seed, lanes);
    now_at(seed, "rewriting");
    sinter::ir::check(d.graph, "trace");
    d.rewritten = sinter::engine::rewrite::run_all(d.graph);
    sinter::ir::check(d.rewritten, "rewrite");
    now_at(seed, "interpreting");
    auto bits = d.values();
    tally rewrites, derivatives;
    for (const auto& sizes : d.sizes) {
      const inputs in(d.graph, d.layouts, bits, sizes);
      const std::string apart = fuzz::run_lanes(d, lanes, in, sizes, rewrites);
      if (!apart.empty()) return report(how, d, "lanes: " + apart + "\n" + sinter::ir::print(lanes.lane), all), false;
      const expected want(d.graph, in.values, sizes);
      const std::string why = fuzz::run_reference(d.rewritten, in, want.results, sizes, rewrites);
      if (!why.empty()) return report(how, d, located(d, "reference", why), all), false;
      if (!how.has_control()) continue;
      const std::string stepped = fuzz::run_steps(d.rewritten, in, want.results, sizes, rewrites);
      if (!stepped.empty()) return report(how, d, "the host's steps: " + stepped, all), false;
    }
    now_at(seed, "differentiating");
    const std::string why = fuzz::run_derivatives(d, derivatives);
    {
      const std::lock_guard lock(printing);
      ++all.graphs;
      all.nodes += d.graph.live().size();
      all.rewrites += rewrites;
      all.derivatives += derivatives;
    }
    if (!why.empty()) report(how, d, "derivatives: " + why, all);
    return why.empty();
  } catch (const std::exception& e) {
    report(how, d, std::string(fuzz::here->step.load()) + ": " + e.what(), all);
    return false;
  }
}

struct item {
  drawn d;
  fuzz::planned code;
};

/// Halves what does not compile together until the graphs at fault are alone.
void report_uncompilable(const settings& how, std::span<item> items, const fuzz::toolset& tools,
                         const std::string& error, totals& all) {
  if (items.size() == 1) return report(how, items[0].d, "compiling: " + error, all);
  bool found = false;
  for (const auto half : {items.first(items.size() / 2), items.subspan(items.size() / 2)}) {
    fuzz::batch alone(60);
    try {
      for (auto& i : half) alone.add(i.code.sources);
      alone.build(tools);
    } catch (const std::exception& e) {
      report_uncompilable(how, half, tools, e.what(), all);
      found = true;
    }
  }
  if (!found) report(how, items[0].d, "compiling this and the next: " + error, all);
}

void run_on_host(const settings& how, const block& b, totals& all) {
  fuzz::batch batch(1000);
  std::vector<item> items;
  for (auto seed : b.seeds) {
    item i;
    if (!prepare(how, seed, i.d, all)) continue;
    if (how.backend == "reference") continue;
    try {
      now_at(seed, "planning");
      i.code = fuzz::plan_graph(i.d.rewritten, i.d.layouts, i.d.how.hints);
      i.code.first = batch.add(i.code.sources);
      items.push_back(std::move(i));
    } catch (const std::exception& e) {
      report(how, i.d, std::string("planning: ") + e.what(), all);
    }
  }
  if (items.empty()) return;
  fuzz::now_compiling();
  const double start = now();
  try {
    batch.build(*b.tools);
  } catch (const std::exception& e) {
    return report_uncompilable(how, items, *b.tools, e.what(), all);
  }
  const double built = now();
  tally count;
  for (auto& i : items) {
    now_at(i.d.seed, "running");
    auto bits = i.d.values();
    std::string why;
    for (const auto& sizes : i.d.sizes) {
      const inputs in(i.d.graph, i.d.layouts, bits, sizes);
      const expected want(i.d.graph, in.values, sizes);
      why = fuzz::run(i.code, batch, in, want.results, sizes, count);
      if (!why.empty()) break;
    }
    if (!why.empty()) report(how, i.d, located(i.d, "cpu", why, b.tools), all);
  }
  const std::lock_guard lock(printing);
  all.kernels += count;
  all.compiled += items.size();
  all.build_seconds += built - start;
}

void run_each(const settings& how, const block& b, totals& all) {
  for (auto seed : b.seeds) {
    drawn d;
    if (!prepare(how, seed, d, all)) continue;
    tally count;
    std::string why;
    try {
      now_at(seed, "running");
      why = run_program(d, d.graph, how.backend, count);
      if (!why.empty()) why = located(d, how.backend, why);
    } catch (const std::exception& e) {
      why = e.what();
    }
    {
      const std::lock_guard lock(printing);
      all.kernels += count;
      ++all.compiled;
    }
    if (!why.empty()) report(how, d, why, all);
  }
}

/// Cuts the seeds into blocks. A seed is always compiled by the same tools, so that a failure comes back when it is rerun.
class supply {
 public:
  explicit supply(const settings& how) : how_(how), next_(how.first) {
    for (auto seed : how.replayed) (users(seed) ? replayed_[1] : replayed_[0]).push_back(seed);
    if (how.backend != "cpu") return;
    quick_ = fuzz::quick_tools();
    if (!how.has_control()) return;
    ::setenv("SINTER_CXX", quick_.with->path.c_str(), 0);
    ::setenv("SINTER_CXXFLAGS", quick_.flag.c_str(), 0);
  }

  /// False when there are no more.
  bool take(block& b) {
    const std::lock_guard lock(mutex_);
    b.seeds.clear();
    for (auto& some : replayed_)
      if (b.seeds.empty()) b.seeds.swap(some);
    const bool fresh = b.seeds.empty();
    const std::uint64_t step = how_.by_program() ? 1 : 200;
    while (fresh && next_ <= how_.last && (b.seeds.empty() || next_ % step != 0)) b.seeds.push_back(next_++);
    if (b.seeds.empty()) return false;
    b.tools = users(b.seeds[0]) ? &users_ : &quick_;
    return true;
  }

 private:
  static bool users(std::uint64_t seed) { return seed / 200 % 20 == 5; }

  const settings& how_;
  std::uint64_t next_;
  std::vector<std::uint64_t> replayed_[2];
  fuzz::toolset users_ = fuzz::users_tools(), quick_;
  std::mutex mutex_;
};

void run_all(const settings& how, totals& all) {
  const double start = now();
  supply blocks(how);
  const auto work = [&](unsigned thread) {
    fuzz::here = &fuzz::places[thread];
    for (block b; now() - start < how.seconds && blocks.take(b);)
      how.by_program() ? run_each(how, b, all) : run_on_host(how, b, all);
    fuzz::here->since = 0;
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < how.threads; ++t) threads.emplace_back(work, t);
  work(0);
  for (auto& t : threads) t.join();
}

settings parse(int argc, char** argv) {
  settings s;
  const auto usage = [] {
    std::fputs(
        "test_fuzz --seeds A..B [--graphs plain|control|lanes|transforms] [--backend cpu|cuda|reference]"
        " [--replay FILE] [--seconds S] [--threads N]\n",
        stderr);
    std::exit(2);
  };
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i], text = i + 1 < argc ? argv[i + 1] : (usage(), "");
    if (name == "--seeds") {
      const auto dots = text.find("..");
      s.first = std::strtoull(text.c_str(), nullptr, 10);
      s.last = dots == std::string::npos ? s.first : std::strtoull(text.c_str() + dots + 2, nullptr, 10);
    } else if (name == "--backend" && (text == "cpu" || text == "cuda" || text == "reference")) {
      s.backend = text;
    } else if (name == "--graphs" &&
               (text == "plain" || text == "control" || text == "lanes" || text == "transforms")) {
      s.graphs = text;
    } else if (name == "--replay") {
      std::ifstream file(text);
      if (!file) usage();
      for (std::string line; std::getline(file, line);)
        if (!line.empty() && line[0] != '#') s.replayed.push_back(std::strtoull(line.c_str(), nullptr, 10));
    } else if (name == "--seconds") {
      s.seconds = std::strtod(text.c_str(), nullptr);
    } else if (name == "--threads") {
      s.threads = static_cast<unsigned>(std::clamp<int>(std::atoi(text.c_str()), 1, fuzz::max_threads));
    } else {
      usage();
    }
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  const settings how = parse(argc, argv);
  if (how.backend == "cuda")
    if (const int result = emulator::select(); result != 0) return result;
  fuzz::start_watching(600);
  ::setenv("SINTER_COMPILE_TIMEOUT", "600", 0);
  // Runtimes of several compilers share the cores; their threads are not to wait busily.
  ::setenv("OMP_WAIT_POLICY", "passive", 0);
  // What is compiled here is never asked for again.
  namespace files = std::filesystem;
  const files::path kernels = files::temp_directory_path() / ("sinter_fuzz." + std::to_string(::getpid()));
  ::setenv("SINTER_CACHE_DIR", kernels.c_str(), 1);

  totals all;
  const double start = now();
  run_all(how, all);
  std::error_code ignored;
  files::remove_all(kernels, ignored);
  const auto share = [](const tally& t) { return t.seen ? 100.0 * static_cast<double>(t.compared) / t.seen : 0.0; };
  std::printf(
      "%llu graphs, %llu nodes, %llu on %s; %zu ops in %zu kernels; compared: %.1f%% of %zu elements, after rewrites "
      "%.1f%% of %zu, derivatives %.1f%% of %zu; %.0f s, %.0f s of "
      "%u threads in the compiler; %llu failed\n",
      static_cast<unsigned long long>(all.graphs), static_cast<unsigned long long>(all.nodes),
      static_cast<unsigned long long>(all.compiled), how.backend.c_str(), all.kernels.unfused, all.kernels.kernels,
      share(all.kernels), all.kernels.seen, share(all.rewrites), all.rewrites.seen, share(all.derivatives),
      all.derivatives.seen, now() - start, all.build_seconds, how.threads, static_cast<unsigned long long>(all.failed));
  if (all.failed > 0) return 1;
  // A comparison that knows nothing about most elements would find nothing.
  if (2 * all.rewrites.compared < all.rewrites.seen) {
    std::puts("less than half of the elements could be compared");
    return 1;
  }
  if (all.graphs == 0 || (how.backend != "reference" && all.compiled == 0)) {
    std::puts("no graph was tested");
    return 1;
  }
  return 0;
}
