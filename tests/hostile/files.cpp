// Mutated models and arrays: each is refused with a words, or loaded, traced and, where it is small, run. Never a crash, nor a hang, nor
// memory beyond a multiple of the file.
//
//   hostile_files [--graphs] --seeds A..B [--corpus DIR] [--keep DIR]   mutations of these seeds, or of saved graphs alone
//   hostile_files FILE...                                     files as they are
//
// Built with -fsanitize=fuzzer it is a target of libFuzzer instead, whose inputs begin with a byte that says the format.
#include <malloc.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <sinter/engine/saved_graph.hpp>
#include <sinter/io.hpp>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>

#include "../onnx/operator_models.hpp"
#include "mutate.hpp"

using namespace sinter;

namespace {
constinit thread_local std::size_t live = 0, most = 0;
}  // namespace

__attribute__((noinline)) void* operator new(std::size_t bytes) {
  void* const p = std::malloc(bytes ? bytes : 1);
  if (!p) throw std::bad_alloc();
  live += ::malloc_usable_size(p);
  if (live > most) most = live;
  return p;
}
__attribute__((noinline)) void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes ? bytes : 1);
}
__attribute__((noinline)) void operator delete(void* p) noexcept {
  if (p) live -= std::min(live, ::malloc_usable_size(p));
  std::free(p);
}
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { operator delete(p); }

namespace {

enum format : unsigned char { model_file, safetensors_file, npy_file, graph_file, formats };

std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s)); }

/// Elements that all nodes of a graph have, and the terms of its products: whether it is small enough to be run.
bool is_small(const ir::graph& g) {
  double work = 0;
  for (ir::node_id id = 0; id < g.size(); ++id) {
    double n = 1;
    for (const auto& e : g[id].extents)
      n *= e.is_number() ? static_cast<double>(std::max<std::int64_t>(*e.number(), 1)) : 3;
    if (g[id].code == ir::op::dot)
      for (const auto& e : g[g[id].in[0]].extents) n *= e.is_number() ? static_cast<double>(*e.number()) : 3;
    work += n;
  }
  return work < 20000;
}

onnx::tensor_list inputs_of(const onnx::model& m, std::int64_t open) {
  onnx::tensor_list out;
  for (const auto& d : m.inputs()) {
    std::vector<std::int64_t> e;
    for (const auto n : d.extents) e.push_back(n < 0 ? open : n);
    std::int64_t count = 1;
    for (const auto n : e)
      if (__builtin_mul_overflow(count, std::max<std::int64_t>(n, 1), &count) || count > 4096)
        throw user_error("an input is large");
    if (e.size() > 12) throw user_error("an input has many axes");
    const io::array a = io::detail::make_array(d.type, e);
    std::memset(a.data, 0, a.bytes().size());
    for (std::int64_t k = 0; k < a.numel(); ++k)
      if (d.type == dtype::f64) {
        const double v = 0.3 + 0.17 * static_cast<double>(k);
        std::memcpy(a.data + 8 * k, &v, 8);
      } else if (d.type == dtype::f32) {
        const float v = 0.3f + 0.17f * static_cast<float>(k);
        std::memcpy(a.data + 4 * k, &v, 4);
      } else if (is_bool(d.type)) std::memset(a.data + k, static_cast<int>(k % 2), 1);
    out.emplace_back(a);
  }
  return out;
}

/// The graph of a call, without running it.
ir::graph traced(const onnx::model& m, const onnx::tensor_list& x) {
  const auto t = engine::make_tracer();
  const engine::tracing_scope scope(t);
  onnx::tensor_list in;
  for (const auto& v : x) in.push_back(v.input(*t, {}));
  for (const auto& y : m(in)) t->graph.outputs.push_back(y.node({}));
  return t->graph;
}

struct counts {
  std::size_t files = 0, loaded = 0, traced = 0, run = 0;
} count;

void try_model(const std::string& file, std::uint64_t choice) {
  options how;
  how.backend = "reference";
  how.progress = false;
  if (choice % 2) how.dynamic = dynamic::yes;
  const onnx::model m = onnx::load(bytes_of(file), how);
  ++count.loaded;
  static_cast<void>(m.weights());
  static_cast<void>(m.parameters());
  const auto x = inputs_of(m, 2);
  const ir::graph g = traced(m, x);
  ++count.traced;
  if (choice % 8 > 1 || !is_small(g)) return;
  ++count.run;
  for (const auto& y : m(x)) static_cast<void>(y.to_array());
}

using saved = std::tuple<tensor<float, 2>, tensor<std::int64_t, 1>, std::string, bool>;
void try_archive(const std::string& file) {
  const io::archive a = io::open_archive(bytes_of(file));
  unsigned sum = 0;
  for (const std::string& name : a.names()) try {
      const io::array x = a.at(name);
      for (const std::byte b : x.bytes()) sum += static_cast<unsigned>(b);
    } catch (const error&) {}
  static_cast<void>(io::load<saved>(a, {.strict = sum % 2 == 0}));
}

[[noreturn]] void found(const char* what);

/// A saved graph. What is accepted has a text that is read as the same graph.
void try_graph(const std::string& file) {
  const graph g = io::detail::parse_graph(file, "graph");
  ++count.loaded;
  const std::string text = engine::written(g);
  ++count.traced;
  if (engine::written(io::detail::parse_graph(text, "again")) != text)
    found("a graph changes when it is saved and loaded");
}

[[noreturn]] void found(const char* what) {
  std::fprintf(stderr, "hostile file: %s\n", what);
  std::abort();
}

std::string told;  ///< the last refusal

/// Reads a file as what it may be.
void try_file(const std::string& file, format as, std::uint64_t choice) {
  ++count.files;
  const std::size_t before = most = live;
  try {
    if (as == model_file) try_model(file, choice);
    else if (as == safetensors_file) try_archive(file);
    else if (as == graph_file) static_cast<void>(io::detail::parse_graph(file, "graph"));
    else static_cast<void>(io::read_npy(bytes_of(file)));
  } catch (const user_error& e) {
    told = e.what();
  } catch (const system_error& e) {
    told = e.what();
  } catch (const std::exception& e) {
    found(e.what());
  }
  // A graph, and each part of one, has a block of nodes at least.
  const auto parts = static_cast<std::size_t>(std::count(file.begin(), file.end(), '{'));
  const std::size_t max_allowed = as == graph_file ? 16 * file.size() + (parts + 2) * (std::size_t{1} << 15)
                                                   : 1024 * file.size() + (std::size_t{16} << 20);
  if (most - before > max_allowed) found("it takes too much memory");
  if (as == graph_file) try {
      try_graph(file);
    } catch (const user_error&) {}
}

std::vector<std::string> seeds_of(format as) {
  std::vector<std::string> out;
  if (as == model_file) {
    for (const auto& m : onnx_test::operator_models())
      for (const bool loss : {false, true}) out.push_back(onnx_test::model_of(m, loss));
    return out;
  }
  if (as == graph_file) {
    for (const auto& m : onnx_test::operator_models()) try {
        const onnx::model loaded = onnx::load(bytes_of(onnx_test::model_of(m, false)), {});
        out.push_back(engine::written(graph(traced(loaded, inputs_of(loaded, 2)))));
      } catch (const error&) {}
    return out;
  }
  const std::string folder = std::filesystem::temp_directory_path() / ("sinter-hostile-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const saved tree{tensor<float, 2>{{1, 2}, {3, 4}}, tensor<std::int64_t, 1>{7, 8, 9}, "text", true};
  const auto put = [&](const std::string& name, auto&& write) {
    write(folder + "/" + name);
    std::ifstream in(folder + "/" + name, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  };
  if (as == safetensors_file) {
    put("a.safetensors", [&](const std::string& p) { io::save(p, tree, {.metadata = {{"by", "us"}}}); });
    put("a.npz", [&](const std::string& p) { io::save(p, tree); });
  } else {
    put("a.npy", [&](const std::string& p) { io::write_npy(p, tensor<double, 2>{{1, 2, 3}}); });
    put("b.npy", [&](const std::string& p) { io::write_npy(p, tensor<f16, 1>{f16(1.f)}); });
  }
  std::filesystem::remove_all(folder);
  return out;
}
std::vector<std::string>& stock_of(format as) {
  static std::vector<std::string> all[formats];
  if (all[as].empty()) all[as] = seeds_of(as);
  return all[as];
}

int only = -1;  ///< the one format to draw, or all

/// Models, most of them.
format format_of(hostile::draws& draw) {
  if (only >= 0) return static_cast<format>(only);
  return draw.below(8) ? model_file : static_cast<format>(1 + draw.below(formats - 1));
}

/// Texts of numbers and punctuation go into headers; bytes change everywhere.
std::string mutated_text(std::string s, hostile::draws& draw) {
  static const std::string words[] = {"9223372036854775807",
                                      "18446744073709551615",
                                      "-1",
                                      "0",
                                      "4294967296",
                                      "1e308",
                                      "[",
                                      "{",
                                      "\"",
                                      "'",
                                      ",",
                                      "]",
                                      "}",
                                      "(",
                                      "\n",
                                      "nan",
                                      "True",
                                      "F64",
                                      "BF16",
                                      "U4",
                                      "<f8",
                                      "|V1",
                                      "\xff",
                                      "\\u0000",
                                      "PK\x01\x02",
                                      "PK\x05\x06",
                                      "%1",
                                      " axes=[0]",
                                      "((s0)/(2))",
                                      "input 0",
                                      "return %0",
                                      " opaque loop length=3",
                                      "data_offsets",
                                      "__metadata__"};
  for (std::size_t n = 1 + draw.below(4); n > 0; --n) {
    if (draw.below(2)) hostile::damage_bytes(s, draw);
    else {
      const std::string& w = words[draw.below(std::size(words))];
      const std::size_t at = draw.below(s.size() + 1);
      s.replace(at, draw.below(2) ? std::min(w.size(), s.size() - at) : 0, w);
    }
  }
  return s;
}

std::string mutated(const std::string& file, format as, hostile::draws& draw) {
  const auto& all = stock_of(as);
  if (as == model_file) return hostile::mutated_model(file, all[draw.below(all.size())], draw);
  return mutated_text(file, draw);
}

}  // namespace

#if defined(SINTER_LIBFUZZER)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  hostile::draws draw{size};
  for (std::size_t k = 0; k < size; k += 1 + size / 16) draw.state = draw() ^ data[k];
  try_file({reinterpret_cast<const char*>(data) + 1, size - 1}, static_cast<format>(data[0] % formats), draw());
  return 0;
}
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t longest,
                                               unsigned seed) {
  hostile::draws draw{seed};
  const auto as = format_of(draw);
  const auto& all = stock_of(as);
  std::string s(reinterpret_cast<const char*>(data), size);
  if (size < 2 || s[0] % formats != as || draw.below(4) == 0) s = static_cast<char>(as) + all[draw.below(all.size())];
  s = static_cast<char>(as) + mutated(s.substr(1), as, draw);
  s.resize(std::min(s.size(), longest));
  std::memcpy(data, s.data(), s.size());
  return s.size();
}

#else

namespace {

std::uint64_t seed_now = 0;
std::string file_now, keep;

/// Says which seed it was, also where the process ends at once.
void tell() {
  char text[64];
  const int n = std::snprintf(text, sizeof text, "failed at seed %llu\n", static_cast<unsigned long long>(seed_now));
  if (::write(2, text, static_cast<std::size_t>(n)) < 0) return;
  if (keep.empty()) return;
  std::ofstream(keep + "/" + std::to_string(seed_now), std::ios::binary) << file_now;
}
void on_signal(int which) {
  tell();
  if (which == SIGPROF) {
    static const char late[] = "it takes more than 20 s\n";
    static_cast<void>(!::write(2, late, sizeof late - 1));
    ::abort();
  }
  ::signal(which, SIG_DFL);
  ::raise(which);
}
void limit_time() {
  itimerval t{};
  t.it_value.tv_sec = 20;
  ::setitimer(ITIMER_PROF, &t, nullptr);
}

void run_seed(std::uint64_t seed) {
  hostile::draws draw{seed};
  const auto as = format_of(draw);
  const auto& all = stock_of(as);
  seed_now = seed;
  file_now = mutated(all[draw.below(all.size())], as, draw);
  limit_time();
  try_file(file_now, as, draw());
}

void take_corpus(const std::string& folder) {
  for (const auto& f : std::filesystem::recursive_directory_iterator(folder)) {
    if (f.path().extension() != ".onnx" || f.file_size() > 20000) continue;
    std::ifstream in(f.path(), std::ios::binary);
    stock_of(model_file).emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*)(void));
#endif

int main(int argc, char** argv) {
  std::uint64_t from = 1, to = 0;
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF}) ::signal(s, on_signal);
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(tell);
#endif
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    if (word == "--seeds" && k + 1 < argc) {
      const std::string range = argv[++k];
      const auto dots = range.find("..");
      from = std::stoull(range);
      to = std::stoull(range.substr(dots + 2));
    } else if (word == "--graphs") only = graph_file;
    else if (word == "--corpus" && k + 1 < argc) take_corpus(argv[++k]);
    else if (word == "--keep" && k + 1 < argc) keep = argv[++k];
    else if (word == "--seed-files") {
      for (const std::string& f : stock_of(model_file)) {
        const std::size_t traced = count.traced;
        file_now = f;
        try_file(f, model_file, 0);
        if (count.traced == traced) std::printf("not traced: %s\n", told.c_str());
      }
    } else {
      std::ifstream in(word, std::ios::binary);
      file_now.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
      limit_time();
      for (std::uint64_t choice = 0; choice < 2; ++choice) try_file(file_now, model_file, choice);
    }
  }
  for (std::uint64_t seed = from; seed <= to; ++seed) run_seed(seed);
  std::printf("%zu files, %zu loaded, %zu traced, %zu run\n", count.files, count.loaded, count.traced, count.run);
  return 0;
}

#endif
