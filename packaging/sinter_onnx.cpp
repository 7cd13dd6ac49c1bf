// sinter_onnx.cpp: the program sinter-onnx: runs, checks, times and exports models of ONNX files.
//
// sinter-onnx --help lists its forms and options.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <sinter/data.hpp>
#include <sinter/onnx.hpp>
#include <sinter/sinter.hpp>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;
namespace fs = std::filesystem;

namespace {

struct arguments {
  std::string model, suite, output, only, one_case;
  std::vector<std::string> inputs, verify;
  options how;
  bool bench = false, grad = false, check = false, run = false, describe = false;
  library_options library;  ///< with a folder, the model is exported
  std::vector<extent> sizes;
  int jobs = 1, seconds = 60;
};

constexpr const char* forms =
    "sinter-onnx MODEL.onnx [--input x.npy ...] [--output DIR] [--verify y.npy ...] [--device cpu|cuda]\n"
    "            [--backend NAME] [--bench] [--dynamic] [--grad]\n"
    "sinter-onnx MODEL.onnx --library DIR [--name N] [--sizes n=1..512 ...] [--isa avx2 ...] [--weights "
    "beside|inside|given]\n"
    "            [--threads none|openmp] [--gpu 80 ...] [--source]\n"
    "sinter-onnx MODEL.onnx --describe\n"
    "sinter-onnx MODEL.onnx --check [--sizes n=1..512 ...]\n"
    "sinter-onnx --suite DIR [--device cpu|cuda] [--backend NAME] [--jobs N] [--seconds S] [--only TEXT]\n"
    "sinter-onnx --help\n";

[[noreturn]] void usage(const std::string& wrong = "") {
  if (!wrong.empty()) std::fprintf(stderr, "sinter-onnx: %s\n", wrong.c_str());
  std::fputs(forms, stderr);
  std::exit(2);
}
[[noreturn]] void help() {
  std::printf("%s", forms);
  std::printf(
      "\nRuns a model and prints its inputs, its results, kernels, planned bytes and milliseconds.\n\n"
      "  --input x.npy ...   inputs in order; those that are not given are random, and open axes are 2 then\n"
      "  --output DIR        writes results as DIR/output_K.npy\n"
      "  --verify y.npy ...  compares results in order\n"
      "  --device cpu|cuda   where it runs; SINTER_DEVICE, else cpu\n"
      "  --backend NAME      auto, cpu, cuda, or reference, which interprets\n"
      "  --run               runs the model, also beside --library and --check\n"
      "  --bench             times calls, and those of ONNX Runtime where Python has it\n"
      "  --dynamic           keeps every extent open\n"
      "  --grad              adds the gradient of the results' mean square by all weights\n\n"
      "  --library DIR       writes libN.so, N.h, N.hpp, N.py and N.weights, which need no sinter\n"
      "  --name N            the library's name; the file's\n"
      "  --sizes n=A..B ...  bounds of open axes by name, or n=A\n"
      "  --isa NAME ...      baseline, avx2, avx512 or aarch64; several are chosen from as the library is opened; "
      "avx2\n"
      "  --gpu N ...         compute capabilities, 80 or later: the library is for GPUs, and needs the CUDA driver\n"
      "  --weights W         beside (N.weights), inside the library, or given by each call\n"
      "  --threads T         none, or openmp, which needs libgomp\n"
      "  --source            writes N.c and N.cpp in place of libN.so\n"
      "  --describe          lists inputs and outputs\n"
      "  --check             lists operators, kernels and memory of the library, or all reasons why there is none\n\n"
      "  --suite DIR         runs every folder below DIR that holds model.onnx and its data, a line each\n"
      "  --jobs N            cases at once; 1\n"
      "  --seconds S         time of a case; 60\n"
      "  --only TEXT         cases whose names hold TEXT\n\n"
      "It exits with 0 when all is well, 1 when a result differs or a model fails, 2 when it is called in another "
      "way.\n");
  std::exit(0);
}

int number_of(const std::string& option, const std::string& word) {
  int n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error != std::errc() || end != word.data() + word.size() || n < 1)
    usage(option + " takes a number from 1 on, not '" + word + "'");
  return n;
}

/// "n=1..512" or "n=4".
extent size_of(const std::string& word) {
  const std::size_t is = word.find('='), dots = word.find("..");
  const auto number = [&](std::size_t from, std::size_t end) {
    std::int64_t n = -1;
    const auto [stop, error] = std::from_chars(word.data() + from, word.data() + end, n);
    if (error != std::errc() || stop != word.data() + end || n < 0) usage("--sizes takes n=1..512, not '" + word + "'");
    return n;
  };
  if (is == std::string::npos || is == 0) usage("--sizes takes n=1..512, not '" + word + "'");
  const std::int64_t least = number(is + 1, std::min(dots, word.size()));
  const std::int64_t most = dots == std::string::npos ? least : number(dots + 2, word.size());
  if (most < least) usage("'" + word + "' is empty");
  return extent(word.substr(0, is), least, most);
}

template <class Value>
Value choice_of(const std::string& option, const std::string& word,
                std::initializer_list<std::pair<const char*, Value>> all) {
  std::string names;
  for (const auto& [name, value] : all) {
    if (word == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  usage(option + " takes one of " + names + ", not '" + word + "'");
}

/// A word behind an option that takes several.
void take_word(arguments& a, const std::string& option, const std::string& word) {
  if (option == "--sizes") a.sizes.push_back(size_of(word));
  else if (option == "--gpu") a.library.gpus.push_back(static_cast<int>(number_of(option, word)));
  else
    a.library.isas.push_back(choice_of<isa>(
        option, word,
        {{"baseline", isa::baseline}, {"avx2", isa::avx2}, {"avx512", isa::avx512}, {"aarch64", isa::aarch64}}));
}

/// Options of --library and --check; false for another option.
template <class Next>
bool read_library_option(arguments& a, const std::string& word, Next&& next) {
  if (word == "--library") a.library.folder = next();
  else if (word == "--name") a.library.name = next();
  else if (word == "--source") a.library.form = library_form::source;
  else if (word == "--check") a.check = true;
  else if (word == "--run") a.run = true;
  else if (word == "--describe") a.describe = true;
  else if (word == "--weights")
    a.library.weights = choice_of<library_weights>(
        word, next(),
        {{"beside", library_weights::beside}, {"inside", library_weights::inside}, {"given", library_weights::given}});
  else if (word == "--threads")
    a.library.threads = choice_of<library_threads>(
        word, next(), {{"none", library_threads::none}, {"openmp", library_threads::openmp}});
  else return false;
  return true;
}

arguments read_arguments(int argc, char** argv) {
  arguments a;
  a.library.folder = a.library.name = "";
  std::vector<std::string>* list = nullptr;
  std::string several;  // the option that the following words belong to
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto next = [&] {
      if (i + 1 == argc) usage(word + " takes a value");
      return std::string(argv[++i]);
    };
    if (word.rfind("--", 0) != 0 && word != "-h") {
      if (list) list->push_back(word);
      else if (!several.empty()) take_word(a, several, word);
      else if (a.model.empty()) a.model = word;
      else usage("'" + word + "' is a second model");
      continue;
    }
    list = nullptr;
    several = "";
    if (word == "--help" || word == "-h") help();
    if (read_library_option(a, word, next)) continue;
    if (word == "--sizes" || word == "--isa" || word == "--gpu") several = word;
    else if (word == "--input") list = &a.inputs;
    else if (word == "--verify") list = &a.verify;
    else if (word == "--output") a.output = next();
    else if (word == "--backend") a.how.backend = next();
    else if (word == "--bench") a.bench = true;
    else if (word == "--grad") a.grad = true;
    else if (word == "--dynamic") a.how.dynamic = dynamic::yes;
    else if (word == "--suite") a.suite = next();
    else if (word == "--case") a.one_case = next();
    else if (word == "--only") a.only = next();
    else if (word == "--jobs") a.jobs = number_of(word, next());
    else if (word == "--seconds") a.seconds = number_of(word, next());
    else if (word == "--device") {
      const std::string name = next();
      if (name != "cpu" && name != "cuda") usage("there is no device '" + name + "'");
      const device where = name == "cuda" ? device::cuda(0) : device::cpu();
      set_default_device(where);
      a.how.device = where;
    } else usage("there is no option " + word);
  }
  if (!a.model.empty() && !a.suite.empty()) usage("a model and a suite are not run at once");
  if (a.library.folder.empty() && !a.check && (!a.library.isas.empty() || !a.library.gpus.empty() || !a.sizes.empty()))
    usage("--isa, --gpu and --sizes belong to --library or --check");
  a.how.name = "onnx";
  a.how.recompile_limit = 64;
  return a;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Random elements, never all 0; small integers, which are indices more often than not.
io::array random_array(dtype type, const std::vector<std::int64_t>& extents, std::uint64_t seed) {
  io::array a = io::detail::make_array(type, extents);
  std::mt19937_64 next(seed);
  const auto uniform = [&] { return static_cast<double>(next() >> 11) * 0x1p-53; };
  visit_dtype(type, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      T v{};
      if constexpr (is_narrow_float<T>) v = T(static_cast<float>(2 * uniform() - 1));
      else if constexpr (std::is_floating_point_v<T>) v = static_cast<T>(2 * uniform() - 1);
      else v = static_cast<T>(next() % 2);
      std::memcpy(static_cast<void*>(a.data + static_cast<std::size_t>(i) * sizeof(T)), &v, sizeof(T));
    }
  });
  return a;
}

std::vector<double> numbers_of(const io::array& a) {
  std::vector<double> out;
  visit_dtype(a.type, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      T v{};
      std::memcpy(static_cast<void*>(&v), a.data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      if constexpr (is_narrow_float<T>) out.push_back(static_cast<double>(static_cast<float>(v)));
      else out.push_back(static_cast<double>(v));
    }
  });
  return out;
}

struct difference {
  double absolute = 0, relative = 0;
  std::string wrong;  ///< "", or where and by how much
};

std::string place_text(std::int64_t k, const std::vector<std::int64_t>& extents) {
  std::string out;
  for (std::size_t i = extents.size(); i-- > 0; k /= extents[i])
    out = std::to_string(k % extents[i]) + (out.empty() ? "" : ", ") + out;
  return "[" + out + "]";
}

/// Of elements, or with `whole` of the largest value.
difference compare(const io::array& y, const io::array& want, double relative, double absolute, bool whole) {
  difference d;
  if (y.type != want.type || y.extents != want.extents) {
    d.wrong = "differs: " + io::detail::kind_text(y.type, y.extents) + " in place of " +
              io::detail::kind_text(want.type, want.extents);
    return d;
  }
  const auto a = numbers_of(y), b = numbers_of(want);
  double largest = 0;
  for (double x : b)
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  double worst = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if ((std::isnan(a[k]) && std::isnan(b[k])) || a[k] == b[k]) continue;
    const double off = std::fabs(a[k] - b[k]);
    const double allowed = absolute + relative * (whole ? largest : std::fabs(b[k]));
    d.absolute = std::max(d.absolute, off);
    d.relative = std::max(d.relative, off / std::max(whole ? largest : std::fabs(b[k]), 1e-30));
    if (!(off <= allowed) && (d.wrong.empty() || off > worst)) {
      worst = off;
      char text[64];
      std::snprintf(text, sizeof text, "differs %.3g at ", off);
      d.wrong = text + place_text(static_cast<std::int64_t>(k), want.extents);
    }
  }
  return d;
}

/// A value on the device that is asked for.
onnx::value placed(const onnx::value& x, const arguments& a) {
  return x.mapped([&](const dynamic_tensor& t) { return a.how.device ? t.to(*a.how.device) : t; });
}

/// What a file holds: .npy, or a message of the kind that the model declares for its k-th input or output.
onnx::value read_file(const fs::path& path, const std::vector<onnx::value_description>& all, std::size_t k) {
  if (path.extension() != ".pb") return dynamic_tensor(io::read_npy(path.string()));
  if (k >= all.size()) throw user_error("the model has no input or output of number " + std::to_string(k));
  return onnx::read_value(path.string(), all[k]);
}

/// Random elements of what the model declares; open axes are 2, a sequence has two.
onnx::value random_value(const onnx::value_description& d, std::uint64_t seed) {
  using kind_t = onnx::value_description::kind_t;
  if (d.kind == kind_t::other) throw user_error("the input '" + d.name + "' is of a kind that is not made up");
  if (d.kind == kind_t::optional) return d.inner.empty() ? onnx::value() : random_value(d.inner[0], seed);
  if (d.kind == kind_t::sequence) {
    onnx::value_list list;
    for (std::uint64_t k = 0; k < 2 && !d.inner.empty(); ++k) list.push_back(random_value(d.inner[0], seed + 100 * k));
    return onnx::value(std::move(list));
  }
  std::vector<std::int64_t> extents;
  for (auto e : d.extents) extents.push_back(e < 0 ? 2 : e);
  std::size_t bytes = 0;
  if (extents.size() > 12 || !io::detail::count_bytes(extents, size_of(d.type), bytes) || bytes > std::size_t{1} << 36)
    throw user_error("sinter-onnx: the input " + d.text() + " is too large to be made up; give it by --input");
  return dynamic_tensor(random_array(d.type, extents, seed));
}

/// Those of files, and random ones for the others.
onnx::value_list inputs_of(const onnx::model& m, const arguments& a, const std::vector<std::string>& files) {
  if (files.size() > m.inputs().size())
    throw user_error("sinter-onnx: " + std::to_string(files.size()) + " inputs are given and the model has " +
                     std::to_string(m.inputs().size()));
  onnx::value_list out;
  for (std::size_t k = 0; k < m.inputs().size(); ++k)
    out.push_back(
        placed(k < files.size() ? read_file(files[k], m.inputs(), k) : random_value(m.inputs()[k], 1000 + k), a));
  return out;
}

/// "" or where a result differs.
std::string difference_of(const onnx::value& y, const onnx::value& want, bool whole) {
  if (y.is_tensor() != want.is_tensor() || y.is_sequence() != want.is_sequence())
    return "differs: " + y.text() + " in place of " + want.text();
  if (want.is_tensor()) return compare(y.tensor().to_array(), want.tensor().to_array(), 1e-3, 1e-7, whole).wrong;
  if (!want.is_sequence()) return "";
  const auto &a = y.elements(), &b = want.elements();
  if (a.size() != b.size()) return "differs: " + y.text() + " in place of " + want.text();
  for (std::size_t k = 0; k < a.size(); ++k)
    if (const std::string wrong = difference_of(a[k], b[k], whole); !wrong.empty())
      return wrong + " of element " + std::to_string(k);
  return "";
}

/// Shows how far the compilation is until the end of the scope.
class shown_progress {
 public:
  shown_progress() : thread_([this] { show(); }) {}
  ~shown_progress() {
    over_ = true;
    thread_.join();
  }
  shown_progress(const shown_progress&) = delete;
  shown_progress& operator=(const shown_progress&) = delete;

 private:
  void show() const {
    const compile_counts before = compile_progress();
    std::optional<data::progress_bar> bar;
    std::size_t wanted = 0, made = 0;
    for (bool last = false; !last;) {
      last = over_;
      const compile_counts now = compile_progress();
      const std::size_t all = now.wanted - before.wanted, done = now.made - before.made;
      if (all > wanted) bar.emplace(static_cast<std::int64_t>(wanted = all), stderr);
      if (bar && (done != made || last))
        bar->show(static_cast<std::int64_t>(made = done),
                  std::to_string(done) + " of " + std::to_string(all) + " kernels compiled");
      if (!last) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  std::atomic<bool> over_{false};
  std::thread thread_;
};

/// Median and least milliseconds of calls.
void print_calls(const onnx::model& m, const onnx::value_list& x, const arguments& a) {
  std::vector<double> times;
  for (int k = 0; k < 20 || (k < 200 && static_cast<double>(times.size()) * times.back() < 1000); ++k) {
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(m.run(x));
    if (a.how.device && a.how.device->is_cuda()) synchronize(*a.how.device);
    times.push_back(milliseconds_since(start));
  }
  std::sort(times.begin(), times.end());
  std::printf("a call takes %.3f ms (median of %zu; the least %.3f)\n", times[times.size() / 2], times.size(),
              times[0]);
}

/// Writes and checks results; 1 where one differs.
int take_results(const onnx::model& m, const onnx::value_list& y, const arguments& a) {
  int status = 0;
  for (std::size_t k = 0; k < y.size(); ++k) {
    std::printf("  %s is %s\n", m.outputs()[k].name.c_str(), y[k].text().c_str());
    if (!y[k].is_tensor()) {
      if (k < a.verify.size())
        throw user_error("sinter-onnx: the result " + m.outputs()[k].text() + " is not verified");
      continue;
    }
    const io::array out = y[k].tensor().to_array();
    if (!a.output.empty()) {
      fs::create_directories(a.output);
      io::write_npy(a.output + "/output_" + std::to_string(k) + ".npy", out);
    }
    if (k < a.verify.size()) {
      const io::array want = read_file(a.verify[k], m.outputs(), k).tensor().to_array();
      const difference d = compare(out, want, 1e-3, 1e-7, true);
      std::printf("  largest difference %.3g, relative to the largest value %.3g%s%s\n", d.absolute, d.relative,
                  d.wrong.empty() ? "" : ": ", d.wrong.c_str());
      if (!d.wrong.empty()) status = 1;
    }
  }
  return status;
}

void print_gradients(const onnx::model& m, const onnx::value_list& x) {
  const auto start = std::chrono::steady_clock::now();
  onnx::tensor_list tensors;
  for (const auto& v : x) tensors.push_back(v.tensor());
  const auto g = m.square_gradients(tensors);
  std::printf("mean square of the results %.6g; gradients in %.0f ms\n", g.loss, milliseconds_since(start));
  double sum = 0;
  for (const auto& [name, w] : g.weights)
    for (double v : numbers_of(w.to_array())) sum += v * v;
  std::printf("  of %zu weights, norm %.6g\n", g.weights.size(), std::sqrt(sum));
}

/// The name of a library: the file's, in letters that C takes.
std::string library_name(const arguments& a) {
  if (!a.library.name.empty()) return a.library.name;
  return onnx::detail_::name_of_size(fs::path(a.model).stem().string());
}

/// Exports a model, or says what an export would be.
int write_library(const onnx::model& m, const arguments& a) {
  library_options how = a.library;
  how.name = library_name(a);
  how.only_check = how.folder.empty();
  if (a.check)
    for (const auto& [name, count] : m.operators_used()) std::printf("  %zu %s\n", count, name.c_str());
  exported_library made;
  {
    const shown_progress until_here;
    made = onnx::export_library(m, how, a.sizes);
  }
  std::printf("%zu kernels in %zu programs, %.3f MB of weights, %.3f MB of memory for a call; %.0f ms\n", made.kernels,
              made.programs, static_cast<double>(made.weight_bytes) / 1e6, static_cast<double>(made.room_bytes) / 1e6,
              made.milliseconds);
  for (const auto& file : made.files) std::printf("  %s\n", file.c_str());
  return 0;
}

/// ONNX Runtime's time for the same inputs, by Python's package.
void print_other_calls(const onnx::value_list& x, const arguments& a) {
  char folder[] = "/tmp/sinter-onnx-XXXXXX";
  if (!::mkdtemp(folder)) return;
  std::string script =
      "import sys, time\ntry:\n  import numpy, onnxruntime as ort\nexcept ImportError:\n  sys.exit(9)\n"
      "s = ort.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])\n"
      "x = {i.name: numpy.load(f) for i, f in zip(s.get_inputs(), sys.argv[2:])}\nt = []\n"
      "for k in range(200):\n  b = time.perf_counter()\n  s.run(None, x)\n  t.append(time.perf_counter() - b)\n"
      "  if k > 20 and sum(t) > 1: break\nt.sort()\n"
      "print('ONNX Runtime %s takes %.3f ms (median of %d; the least %.3f)' % (ort.__version__, t[len(t) // 2] * 1e3, "
      "len(t), t[0] * 1e3))\n";
  std::vector<std::string> words{"python3", "-c", script, a.model};
  for (std::size_t k = 0; k < x.size() && x[k].is_tensor(); ++k) {
    words.push_back(folder + ("/" + std::to_string(k)) + ".npy");
    io::write_npy(words.back(), x[k].tensor().to_array());
  }
  std::fflush(stdout);
  std::vector<char*> list;
  for (auto& w : words) list.push_back(w.data());
  list.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr)) ::execvp("python3", list.data());
    ::_exit(9);
  }
  int status = 1;
  if (child > 0) ::waitpid(child, &status, 0);
  if (status != 0) std::printf("ONNX Runtime is not found, or does not run the model (Python's package onnxruntime)\n");
  fs::remove_all(folder);
}

int run_model(const arguments& a) {
  const auto begin = std::chrono::steady_clock::now();
  const onnx::model m = onnx::load(a.model, a.how);
  std::printf("%s: %zu nodes, loaded in %.1f ms\n", a.model.c_str(), m.nodes(), milliseconds_since(begin));
  for (const auto& d : m.inputs()) std::printf("  input  %s\n", d.text().c_str());
  for (const auto& d : m.outputs()) std::printf("  output %s\n", d.text().c_str());
  if (a.verify.size() > m.outputs().size())
    throw user_error("sinter-onnx: " + std::to_string(a.verify.size()) +
                     " results are to be verified and the model has " + std::to_string(m.outputs().size()));
  if (a.describe) return 0;
  if (a.check || !a.library.folder.empty()) {
    const int status = write_library(m, a);
    if (!a.run && !a.bench) return status;
  }
  const auto x = inputs_of(m, a, a.inputs);
  const auto first = std::chrono::steady_clock::now();
  onnx::value_list y;
  {
    const shown_progress until_here;
    y = m.run(x);
  }
  const double cold = milliseconds_since(first);
  const report r = m.last();
  std::printf("%zu kernels of %zu ops, %zu compiled, backend %s; %.1f MB planned; first call %.0f ms\n", r.kernels,
              r.kernels_unfused, r.compiled, r.backend.c_str(), static_cast<double>(r.scratch_bytes) / 1e6, cold);
  for (const auto& b : r.breaks) std::printf("  the graph ends where a value is read: %s\n", b.why.c_str());
  if (a.bench) print_calls(m, x, a);
  if (a.bench && a.how.backend == "auto") print_other_calls(x, a);
  const int status = take_results(m, y, a);
  if (a.grad) print_gradients(m, x);
  return status;
}

std::vector<std::string> files_of(const fs::path& folder, const char* what) {
  std::vector<std::string> out;
  for (int k = 0;; ++k) {
    const std::string base = std::string(what) + "_" + std::to_string(k);
    if (fs::exists(folder / (base + ".npy"))) out.push_back((folder / (base + ".npy")).string());
    else if (fs::exists(folder / (base + ".pb"))) out.push_back((folder / (base + ".pb")).string());
    else return out;
  }
}

/// "" where one set of a case is as it should be, or what is wrong. Without outputs the reference interpreter says what they are.
std::string run_set(const onnx::model& m, const fs::path& set, const arguments& a, const std::string& file) {
  const bool whole = set.filename().string().rfind("test_data_set_", 0) != 0;
  const auto given = files_of(set, "input"), wanted = files_of(set, "output");
  onnx::value_list x, want;
  if (given.empty()) x = inputs_of(m, a, given);
  for (const auto& f : given) x.push_back(placed(read_file(f, m.inputs(), x.size()), a));
  const auto y = m.run(x);
  for (const auto& f : wanted) want.push_back(read_file(f, m.outputs(), want.size()));
  if (wanted.empty() && a.how.backend != "reference") {
    options how = a.how;
    how.backend = "reference";
    want = onnx::load(file, how).run(x);
  }
  if (y.size() < want.size()) return "differs: it gives " + std::to_string(y.size()) + " results";
  for (std::size_t k = 0; k < want.size(); ++k)
    if (const std::string wrong = difference_of(y[k], want[k], whole); !wrong.empty())
      return wrong + " of output " + std::to_string(k);
  return "";
}

/// The line of one case.
std::string run_case(const fs::path& folder, const arguments& a) {
  const std::string file = (folder / "model.onnx").string();
  try {
    const onnx::model m = onnx::load(file, a.how);
    std::vector<fs::path> sets;
    for (int k = 0; fs::exists(folder / ("test_data_set_" + std::to_string(k))); ++k)
      sets.push_back(folder / ("test_data_set_" + std::to_string(k)));
    if (sets.empty()) sets.push_back(folder);
    for (const auto& set : sets)
      if (const std::string wrong = run_set(m, set, a, file); !wrong.empty()) return wrong;
  } catch (const user_error& e) {
    return std::string("refused: ") + e.what();
  } catch (const std::exception& e) {
    return std::string("failed: ") + e.what();
  }
  return "ok";
}

/// A case that is under way, in a process of its own.
struct running {
  std::string name;
  pid_t pid = 0;
  int from = -1;
  std::string said;
  std::chrono::steady_clock::time_point begin;
};

running start_case(const fs::path& folder, const std::string& name, int argc, char** argv) {
  running r;
  r.name = name;
  r.begin = std::chrono::steady_clock::now();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("sinter-onnx: there is no pipe");
  std::vector<std::string> words{argv[0], "--case", folder.string()};
  for (int i = 1; i < argc; ++i) {
    const std::string w = argv[i];
    if ((w == "--device" || w == "--backend") && i + 1 < argc) words.insert(words.end(), {w, argv[i + 1]});
    if (w == "--dynamic") words.push_back(w);
  }
  std::vector<char*> list;
  for (auto& w : words) list.push_back(w.data());
  list.push_back(nullptr);
  r.pid = ::fork();
  if (r.pid < 0) throw std::runtime_error("sinter-onnx: there is no process for a case");
  if (r.pid == 0) {
    ::setpgid(0, 0);  // compilers that it runs end with it
    ::dup2(ends[1], 1);
    ::execv("/proc/self/exe", list.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  r.from = ends[0];
  return r;
}

/// What there is to read now.
void read_more(running& r) {
  char text[4096];
  pollfd ready{r.from, POLLIN, 0};
  while (::poll(&ready, 1, 0) > 0) {
    const ssize_t got = ::read(r.from, text, sizeof text);
    if (got <= 0) return;
    r.said.append(text, static_cast<std::size_t>(got));
  }
}

/// The last line of a case that has ended, or has taken too long; nothing before.
std::optional<std::string> line_of(running& r, int seconds) {
  int status = 0;
  const bool over = ::waitpid(r.pid, &status, WNOHANG) == r.pid;
  const bool late = !over && milliseconds_since(r.begin) > 1000.0 * seconds;
  read_more(r);
  if (!over && !late) return std::nullopt;
  ::kill(-r.pid, SIGKILL);
  if (late) ::waitpid(r.pid, &status, 0);
  ::close(r.from);
  if (late) return "took more than " + std::to_string(seconds) + " s";
  std::string line = r.said;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (const auto at = line.rfind('\n'); at != std::string::npos) line = line.substr(at + 1);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || line.empty()) return "crashed";
  return line;
}

int run_suite(const arguments& a, int argc, char** argv) {
  if (!fs::is_directory(a.suite)) throw user_error("sinter-onnx: there is no folder " + a.suite);
  std::vector<fs::path> cases;
  for (const auto& entry : fs::recursive_directory_iterator(a.suite, fs::directory_options::follow_directory_symlink))
    if (entry.path().filename() == "model.onnx" && entry.path().string().find(a.only) != std::string::npos)
      cases.push_back(entry.path().parent_path());
  std::sort(cases.begin(), cases.end());
  std::size_t next = 0, right = 0;
  std::vector<running> all;
  while (next < cases.size() || !all.empty()) {
    while (next < cases.size() && all.size() < static_cast<std::size_t>(a.jobs)) {
      all.push_back(start_case(cases[next], fs::relative(cases[next], a.suite).string(), argc, argv));
      ++next;
    }
    std::vector<pollfd> wait;
    for (const auto& r : all) wait.push_back({r.from, POLLIN, 0});
    ::poll(wait.data(), wait.size(), 50);
    for (std::size_t k = all.size(); k-- > 0;) {
      const auto line = line_of(all[k], a.seconds);
      if (!line) continue;
      right += *line == "ok";
      std::printf("%s: %s\n", all[k].name.c_str(), line->c_str());
      std::fflush(stdout);
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  std::printf("%zu of %zu\n", right, cases.size());
  return right == cases.size() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const arguments a = read_arguments(argc, argv);
    if (!a.one_case.empty()) {
      std::string line = run_case(a.one_case, a);
      for (char& c : line)
        if (c == '\n') c = ' ';
      std::printf("%s\n", line.c_str());
      return 0;
    }
    if (!a.suite.empty()) return run_suite(a, argc, argv);
    if (a.model.empty()) usage();
    return run_model(a);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
