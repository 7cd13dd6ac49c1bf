// Models as users write them (bench/models): what their first calls take, stage by stage, and what the calls after it do.
//
//   models [--rows NAME,...] [--small] [--layers N] [--batch N] [--length N] [--device cpu|cuda] [--recorded] [--json] [--check] [--saved]
//
// Each row runs in two processes: with an empty folder of kernels (cold), and with what that one left (warm). --check compiles
// small ones, compares them with the reference backend and wants losses that fall. --kernels NAME prints a row's report. --saved prints
// the memory that pullbacks of losses hold, beside keeping all values.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/row.hpp"
#include "steps.hpp"

using namespace models;
using bench_clock = std::chrono::steady_clock;

namespace {

struct command_line {
  settings of;
  std::vector<std::string> rows;
  std::string device = "cpu", child, kernels;
  bool json = false, check = false, saved = false;
};

std::vector<row> all_rows() {
  std::vector<row> all;
  for (const auto& some : {gpt2_rows(), llama_rows(), vit_rows(), lstm_rows(), residual_rows(), mixer_rows(),
                           unet_rows(), resnet_rows(), parameter_rows(), gas_rows(), heat_rows()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

double milliseconds_of(const std::function<void()>& f) {
  const auto start = bench_clock::now();
  f();
  synchronize();
  return std::chrono::duration<double, std::milli>(bench_clock::now() - start).count();
}

/// Median milliseconds of a call: 3 to 50 calls, about 3 seconds.
double median_of(const std::function<void()>& f) {
  std::vector<double> times;
  for (double all = 0; times.size() < 3 || (all < 3000 && times.size() < 50); all += times.back())
    times.push_back(milliseconds_of(f));
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// The most memory that this process has had, in MB; of a GPU what its allocator has held since its peak was reset.
double peak_megabytes() {
  if (default_device().is_cuda()) return static_cast<double>(memory_stats().peak) * 1e-6;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::atof(line.c_str() + 6) * 1.024e-3;
  return 0;
}

// ---- One row in one process: what it measures, as "name value" lines.

const std::vector<const char*> stages = {"trace", "autodiff", "read", "rewrite", "plan", "emit", "compile", "bind"};

double stage_of(const report& r, const std::string& name) {
  double sum = 0;
  for (const auto& s : r.stages)
    if (s.name == name) sum += s.milliseconds;
  return sum;
}

void measure(const row& what, const settings& s) {
  const workload w = what.make(s);
  const double first = milliseconds_of(w.call);
  w.call();
  if (default_device().is_cuda())
    reset_peak_memory();  // the first call's arguments may share tensors, which it cannot replace
  const report r = w.told();
  const auto tell = [](const std::string& name, double value) { std::printf("%s %.17g\n", name.c_str(), value); };
  tell("traced", static_cast<double>(r.nodes_traced));
  tell("rewritten", static_cast<double>(r.nodes_rewritten));
  tell("kernels", static_cast<double>(r.kernels));
  tell("texts", static_cast<double>(std::set<std::string>(r.sources.begin(), r.sources.end()).size()));
  tell("lowered", static_cast<double>(r.lowered));
  tell("tried", static_cast<double>(r.tried));
  for (const char* stage : stages) tell(stage, stage_of(r, stage));
  tell("first", first);
  tell("steady", median_of(w.call));
  tell("peak", peak_megabytes());
  const std::vector<float> values = w.values();
  tell("value", static_cast<double>(values.back()));
  tell("scratch", static_cast<double>(r.scratch_bytes) * 1e-6);
}

// ---- The processes, and the table of what they say.

struct measured {
  std::vector<std::pair<std::string, double>> all;
  double operator()(const std::string& name) const {
    for (const auto& [n, v] : all)
      if (n == name) return v;
    return std::nan("");
  }
};

/// What this program prints that is run again for one row; nothing where it fails.
measured run_child(const std::string& self, std::vector<std::string> arguments, const std::string& folder) {
  setenv("SINTER_CACHE_DIR", folder.c_str(), 1);
  arguments.insert(arguments.begin(), self);
  std::vector<char*> given;
  for (auto& a : arguments) given.push_back(a.data());
  given.push_back(nullptr);
  const std::string file = folder + "/measured";
  posix_spawn_file_actions_t to;
  posix_spawn_file_actions_init(&to);
  posix_spawn_file_actions_addopen(&to, STDOUT_FILENO, file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  int status = 1;
  if (posix_spawn(&child, self.c_str(), &to, nullptr, given.data(), environ) == 0) waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&to);
  measured m;
  std::ifstream in(file);
  std::string name;
  for (double value = 0; status == 0 && in >> name >> value;) m.all.emplace_back(name, value);
  return m;
}

void print_heading() {
  std::printf("%-16s %7s %7s %6s %6s %7s | %7s %8s %8s %8s %7s %8s %7s | %9s %9s %9s %8s %10s\n", "row", "traced",
              "rewr.", "kern.", "texts", "lowered", "trace", "autodiff", "rewrite", "plan", "emit", "compile", "load",
              "cold ms", "warm ms", "steady ms", "peak MB", "scratch MB");
}

/// What is loaded in the warm process was compiled in the cold one.
void print(const char* name, const measured& cold, const measured& warm) {
  std::printf("%-16s %7.0f %7.0f %6.0f %6.0f %7.0f |", name, cold("traced"), cold("rewritten"), cold("kernels"),
              cold("texts"), cold("lowered"));
  std::printf(" %7.1f %8.1f %8.1f %8.1f %7.1f %8.1f %7.1f |", cold("trace"), cold("autodiff"), cold("rewrite"),
              cold("plan"), cold("emit"), cold("compile"), warm("read") + warm("compile") + warm("bind"));
  std::printf(" %9.1f %9.1f %9.3f %8.0f %10.0f\n", cold("first"), warm("first"), warm("steady"), warm("peak"),
              warm("scratch"));
}

void print_json(const char* name, const measured& cold, const measured& warm) {
  std::printf("{\"row\": \"%s\"", name);
  for (const auto& [process, m] : {std::pair{"cold", cold}, std::pair{"warm", warm}}) {
    std::printf(", \"%s\": {", process);
    for (std::size_t i = 0; i < m.all.size(); ++i)
      std::printf("%s\"%s\": %.6g", i ? ", " : "", m.all[i].first.c_str(), m.all[i].second);
    std::printf("}");
  }
  std::printf("}\n");
}

/// False when the row does not run.
bool measure_in_processes(const std::string& self, const row& what, const command_line& given,
                          std::vector<std::string> arguments) {
  std::string folder = "/tmp/sinter-models-XXXXXX";
  if (!mkdtemp(folder.data())) return false;
  arguments.insert(arguments.end(), {"--child", what.name});
  const measured cold = run_child(self, arguments, folder), warm = run_child(self, arguments, folder);
  std::filesystem::remove_all(folder);
  const bool ran = !cold.all.empty() && !warm.all.empty();
  if (!ran) std::printf("%-16s failed\n", what.name);
  else if (given.json) print_json(what.name, cold, warm);
  else print(what.name, cold, warm);
  std::fflush(stdout);
  return ran;
}

// ---- --check: small ones beside the reference.

/// The largest difference, relative to the largest value; infinite where a value is not finite.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, size = 1e-30;
  if (a.size() != b.size() || a.empty()) return INFINITY;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    most = std::max(most, std::abs(double(a[i]) - double(b[i])));
    size = std::max(size, std::abs(double(b[i])));
  }
  return most / size;
}

std::vector<float> values_after(const row& what, const settings& s, int calls) {
  const workload w = what.make(s);
  for (int i = 0; i < calls; ++i) w.call();
  const report r = w.told();
  if (s.backend == "auto" && (r.kernels == 0 || r.backend == "reference")) return {};  // which is no answer
  return w.values();
}

bool check(const row& what, settings s) {
  s.small = true;
  const int calls = what.trains ? 4 : 1;
  const auto compiled = values_after(what, s, calls);
  s.backend = "reference";
  const double apart = distance(compiled, values_after(what, s, calls));
  const bool falls = !what.trains || (!compiled.empty() && compiled.back() < compiled.front());
  const bool varies = std::any_of(compiled.begin(), compiled.end(), [&](float v) { return v != compiled.front(); });
  const bool right = apart <= double(what.tolerance) && falls && varies;
  std::printf("%-16s %s: %.2g from the reference", what.name, right ? "ok" : "WRONG", apart);
  if (what.trains && !compiled.empty())
    std::printf(", loss %.5f -> %.5f", double(compiled.front()), double(compiled.back()));
  std::printf("\n");
  std::fflush(stdout);
  return right;
}

// ---- --saved: what a pullback keeps where it is called apart from its function.

void print_saved(const row& what, const settings& s) {
  const workload w = what.make(s);
  if (!w.saved) return;
  const auto [held, all] = w.saved();
  std::printf("%-16s %10.3f MB of %10.3f MB, %3.0f %%\n", what.name, static_cast<double>(held) * 1e-6,
              static_cast<double>(all) * 1e-6,
              100 * static_cast<double>(held) / static_cast<double>(std::max<std::size_t>(all, 1)));
  std::fflush(stdout);
}

// ---- The command line.

std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) out.push_back(one);
  return out;
}

[[noreturn]] void fail_usage(const std::string& what) {
  std::fprintf(stderr, "models: %s\n", what.c_str());
  std::exit(2);
}

command_line parse(int argc, char** argv) {
  command_line c;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto next = [&]() -> std::string {
      if (i + 1 >= argc) fail_usage(name + " wants a value");
      return argv[++i];
    };
    if (name == "--rows") c.rows = listed(next());
    else if (name == "--small") c.of.small = true;
    else if (name == "--recorded") c.of.recorded = true;
    else if (name == "--json") c.json = true;
    else if (name == "--check") c.check = true;
    else if (name == "--saved") c.saved = true;
    else if (name == "--device") c.device = next();
    else if (name == "--layers") c.of.layers = std::stoi(next());
    else if (name == "--batch") c.of.batch = std::stoi(next());
    else if (name == "--length") c.of.length = std::stoi(next());
    else if (name == "--child") c.child = next();
    else if (name == "--kernels") c.kernels = next();
    else fail_usage("what is " + name + "?");
  }
  return c;
}

const row& row_named(const std::vector<row>& all, const std::string& name) {
  for (const row& r : all)
    if (name == r.name) return r;
  fail_usage("there is no row " + name);
}

/// Calls a row a few times, for SINTER_TRACE and SINTER_LOGS, and prints its report; as JSON, its steps.
void print_kernels(const row& what, const settings& s, bool json) {
  const workload w = what.make(s);
  constexpr int calls = 5;
  for (int i = 0; i < calls; ++i) w.call();
  if (json) return bench::print_steps(w.told(), calls);
  explanation e;
  e.name = what.name;
  e.specialisations.push_back({"", {}, {}, w.told()});
  std::puts(e.text().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const command_line given = parse(argc, argv);
  const std::vector<row> all = all_rows();
  if (given.device == "cuda") {
    if (device_count() == 0) return std::printf("no GPU: nothing to measure\n"), 0;
    set_default_device(device::cuda(0));
  }
  if (!given.child.empty()) return measure(row_named(all, given.child), given.of), 0;
  if (!given.kernels.empty()) return print_kernels(row_named(all, given.kernels), given.of, given.json), 0;
  std::vector<std::string> names = given.rows;
  if (names.empty())
    for (const row& r : all) names.emplace_back(r.name);
  if (!given.check && !given.json && !given.saved) print_heading();
  bool fine = true;
  for (const auto& name : names) {
    const row& one = row_named(all, name);
    if (given.saved) {
      print_saved(one, given.of);
      continue;
    }
    const bool good =
        given.check ? check(one, given.of) : measure_in_processes(argv[0], one, given, {argv + 1, argv + argc});
    fine = fine && good;
  }
  return fine ? 0 : 1;
}
