// Programs that several processes run together; launch.py starts them. Each rank prints one line, which begins with its name.
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <sinter/mesh.hpp>

using namespace sinter;

struct dp : mesh_axis {};
struct tp : mesh_axis {};

namespace {

std::string wrong;

void close(const std::vector<double>& a, const std::vector<double>& b, double tolerance, const std::string& what) {
  bool right = a.size() == b.size();
  for (std::size_t i = 0; right && i < a.size(); ++i)
    right = std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])) || (std::isnan(a[i]) && std::isnan(b[i]));
  if (!right) wrong += what + "; ";
}
template <class A, class B>
void close(const A& a, const B& b, double tolerance, const std::string& what) {
  close(cast<double>(a).to_vector(), cast<double>(b).to_vector(), tolerance, what);
}

tensor<double, 2> some(std::int64_t m, std::int64_t n, double seed = 0) {
  const tensor<double, 2> k = reshape(arange<double>(m * n), m, n);
  return sin(k * 1.7 + seed) + 0.1 * cos(k * k * 0.37 + seed);
}

/// Each collective along both axes of a mesh, whose other axis has to stay out of it.
template <class A, class T>
void collectives(const mesh<dp, tp>& m, std::int64_t columns) {
  const std::int64_t p = m.size<A>(), mine = m.index<A>();
  using row = placed<tensor<T, 2>, shard<A, 0>>;
  const auto x = cast<T>(some(2 * p, p * columns) * 6.0);
  const auto f = [p](row a) {
    auto next = as<shard<A, 0>>(permute<A>(a, shift(1)));
    return std::tuple{all_reduce<replicated<A>>(as<partial<A>>(a)),
                      all_reduce<replicated<A>>(a, combine::max),
                      all_reduce<replicated<A>>(a, combine::min),
                      all_gather<replicated<A>, 0>(a),
                      broadcast<A>(a, p - 1),
                      all_to_all<A, 1, 0>(a),
                      reduce_scatter<A, 1>(as<partial<A>>(a)),
                      next};
  };
  const auto got = compile(shard_map(m, f))(x);
  const auto want = simulate(f, m)(x);
  const std::string of = std::string(dtype_name(dtype_of<T>)) + " of " + std::to_string(columns) + " columns";
  const double tolerance = std::is_same_v<T, bf16> || std::is_same_v<T, f16> ? 0.05 : 1e-6;
  const auto same = [&]<std::size_t K>(std::integral_constant<std::size_t, K>, const char* what) {
    close(local(std::get<K>(got)), std::get<K>(want), tolerance, std::string(what) + " of " + of);
  };
  same(std::integral_constant<std::size_t, 0>{}, "sum");
  same(std::integral_constant<std::size_t, 1>{}, "max");
  same(std::integral_constant<std::size_t, 2>{}, "min");
  same(std::integral_constant<std::size_t, 3>{}, "gather");
  same(std::integral_constant<std::size_t, 4>{}, "broadcast");
  const auto part = [&](const tensor<T, 2>& y) {
    return tensor<T, 2>(slice<1>(y, columns * mine, columns * (mine + 1)));
  };
  close(local(std::get<5>(got)), part(std::get<5>(want)), tolerance, "all_to_all of " + of);
  close(local(std::get<6>(got)), part(std::get<6>(want)), tolerance, "reduce_scatter of " + of);
  close(local(std::get<7>(got)), tensor<T, 2>(slice<0>(std::get<7>(want), 2 * mine, 2 * mine + 2)), tolerance,
        "permute of " + of);
}

void run_collectives() {
  const auto m = make_mesh<dp, tp>({2, mesh_ranks() / 2});
  for (const std::int64_t columns : {0, 1, 7, 5000}) {
    collectives<tp, double>(m, columns);
    collectives<dp, bf16>(m, columns);
  }
  collectives<tp, std::int32_t>(m, 3);
  collectives<dp, f16>(m, 3);
  collectives<dp, std::uint8_t>(m, 3);
  using part = placed<tensor<float, 1>, varying<dp>>;
  const auto extreme = [](part a) { return all_reduce<replicated<dp>>(a, combine::max); };
  const float one = m.index<dp>() == 0 ? NAN : 1.0f;
  const auto most = local(compile(shard_map(m, extreme))(part(tensor<float, 1>({one, 2.0f})))).to_vector();
  if (!std::isnan(most[0]) || most[1] != 2.0f) wrong += "a maximum of NaN; ";
  // No rank sends to itself, some send to nobody.
  const auto ends =
      compile(shard_map(m, [](part a) { return permute<dp>(a, shift(0)); }))(part(tensor<float, 1>({one, 3.0f})));
  if (local(ends).to_vector()[1] != 3.0f) wrong += "a permutation onto itself; ";
}

/// Fewer of them, on GPUs, where each is a kernel more; and each rank's own GPU.
void run_on_gpus(int gpus) {
  const auto m = make_mesh<dp, tp>({2, mesh_ranks() / 2});
  if (m.device() != device::cuda(mesh_rank() % gpus)) wrong += "the rank's GPU is " + m.device().text() + "; ";
  if (local(compile(shard_map(m, [] { return axis_index<tp>(); }))()).item() != m.index<tp>()) wrong += "an index; ";
  collectives<tp, double>(m, 7);  // the identity where there are two ranks
  if (m.size<tp>() == 1) collectives<dp, double>(m, 7);
  collectives<dp, bf16>(m, 5);
  collectives<dp, std::int16_t>(m, 3);
  using part = placed<tensor<float, 1>, varying<dp>>;
  const auto extreme = [](part a) { return all_reduce<replicated<dp>>(a, combine::max); };
  const float one = m.index<dp>() == 0 ? NAN : 1.0f;
  const auto most = local(compile(shard_map(m, extreme))(part(tensor<float, 1>({one, 2.0f})))).to_vector();
  if (!std::isnan(most[0]) || most[1] != 2.0f) wrong += "a maximum of NaN; ";
}

using W = placed<tensor<double, 2>, shard<tp, 1>, invariant<dp>>;
using X = placed<tensor<double, 2>, shard<dp, 0>, replicated<tp>>;
auto loss(W w, X x) {
  auto h = relu(matmul(x, as<replicated<dp>>(w)));
  return all_reduce<invariant<dp>, invariant<tp>>(as<partial<dp>, partial<tp>>(sum(square(h))));
}

/// Steps of gradient descent, against one device.
void run_training(mode how) {
  const auto m = make_mesh<dp, tp>({2, mesh_ranks() / 2});
  const auto x = some(12, 5, 0.5), w = some(5, 4 * m.size<tp>());
  const auto step = compile(shard_map(m,
                                      [](W a, X b) {
                                        auto [l, g] = value_and_grad(loss)(a, b);
                                        return std::tuple{l, as<shard<tp, 1>>(a - g * 0.001)};
                                      }),
                            {.mode = how});
  const auto whole = compile([](tensor<double, 2> a, tensor<double, 2> b) {
    auto [l, g] =
        value_and_grad([](tensor<double, 2> u, tensor<double, 2> v) { return sum(square(relu(matmul(v, u)))); })(a, b);
    return std::tuple{l, tensor<double, 2>(a - g * 0.001)};
  });
  auto want = whole(w, x);
  auto got = step(w, x);
  for (int turn = 0; turn < 20; ++turn) {
    close(local(std::get<0>(got)), std::get<0>(want), 1e-12, "the loss of step " + std::to_string(turn));
    got = step(std::get<1>(got), x);
    want = whole(std::get<1>(want), x);
  }
}

using part = placed<tensor<double, 1>, varying<dp>>;
auto sum_of_ranks(double factor) {
  return [=](part a) { return all_reduce<replicated<dp>>(as<partial<dp>>(local(a) * factor)); };
}

/// Rank 0 has compiled what the others compile at the same call; with `differ` another program.
void run_guards(bool differ) {
  const auto m = make_mesh<dp>({mesh_ranks()});
  const part x(tensor<double, 1>({1, 2}));
  const auto first = compile(shard_map(m, sum_of_ranks(1)));
  first(x);
  if (mesh_rank() == 0) {
    local(first(x)).to_vector();  // a GPU's error comes with its result
  } else if (differ) {
    compile(shard_map(m, [](part a) { return all_reduce<replicated<dp>>(a, combine::max); }))(x);
  } else {
    const auto y = compile(shard_map(m, sum_of_ranks(1 + mesh_rank())))(x);
    close(local(y), local(y), 0, "a program of equal collectives");
  }
}

/// Loops along dp end later on some ranks of tp. Between them all ranks compile programs.
void run_loops() {
  const auto m = make_mesh<dp, tp>({2, mesh_ranks() / 2});
  using own = placed<tensor<double, 1>, varying<dp>, varying<tp>>;
  using state = std::tuple<tensor<std::int64_t, 0>, tensor<double, 1>>;
  const auto loop = compile(shard_map(m, [](own a) {
    const tensor<std::int64_t, 0> end = local(axis_index<tp>()) * 3 + 1;
    const auto last = while_loop([&](const state& s) { return std::get<0>(s) < end; },
                                 [](const state& s) {
                                   const auto next = permute<dp>(own(std::get<1>(s)), shift(1));
                                   return state{std::get<0>(s) + 1, local(next) * 0.5};
                                 },
                                 state{zeros<std::int64_t>(), local(a)});
    return own(std::get<1>(last));
  }));
  const double mine = static_cast<double>(m.index<dp>());
  const std::int64_t turns = 3 * m.index<tp>() + 1;
  const double source = turns % 2 ? 1 - mine : mine;
  for (int round = 0; round < 3; ++round) {
    close(local(loop(own(full<double>(mine + 1, 4)))), full<double>((source + 1) * std::pow(0.5, turns), 4), 1e-15,
          "a loop of " + std::to_string(turns) + " turns");
    const auto sum = compile(shard_map(m, sum_of_ranks(round + 2)));
    close(local(sum(part(full<double>(mine + 1, 2)))), full<double>(3.0 * (round + 2), 2), 1e-15, "a sum after it");
  }
}

/// Seeds that differ where the type says that they are equal.
void run_seeds() {
  const auto m = make_mesh<dp>({mesh_ranks()});
  using I = placed<tensor<double, 1>, invariant<dp>>;
  compile(shard_map(m, [](I a) {
    return all_reduce<replicated<dp>>(as<partial<dp>>(as<replicated<dp>>(a) * cast<double>(axis_index<dp>())));
  }))(tensor<double, 1>({1.0, mesh_rank() == 1 ? 2.0 : 1.0}));
}

/// The victim gets the signal `when`. The others are to learn of it.
void run_death(const std::string& when, int victim, int signal) {
  const auto m = make_mesh<dp>({mesh_ranks()});
  const bool hit = mesh_rank() == victim;
  const auto die = [=] {
    if (hit) ::kill(::getpid(), signal);
  };
  const auto later = [=](int ms) {
    if (hit)
      std::thread([=] {
        std::this_thread::sleep_for(std::chrono::milliseconds(ms));
        ::kill(::getpid(), signal);
      }).detach();
  };
  const part x(tensor<double, 1>(arange<double>(1 << 16)));
  const double fresh = std::strtod(std::getenv("SINTER_TEST_NONCE") ? std::getenv("SINTER_TEST_NONCE") : "1", nullptr);
  if (when == "start") die();
  const auto step = compile(shard_map(m, [=](part a) {
    if (when == "trace") die();
    return all_reduce<replicated<dp>>(as<partial<dp>>(sin(local(a)) * fresh));
  }));
  if (when == "compile") later(60);
  step(x);
  if (when == "before") die();
  if (when == "in") later(20);
  for (int turn = 0; turn < 100000; ++turn) {
    step(x);
    if (when == "after") die();
  }
}

/// The victim leaves without a word while the others wait for a result, which they must not see.
void run_read(int victim) {
  const auto m = make_mesh<dp>({mesh_ranks()});
  const part x(tensor<double, 1>(arange<double>(1000)));
  const auto step = compile(shard_map(m, sum_of_ranks(1)));
  const auto first = local(step(x)).to_vector();
  const tensor<double, 1> before = local(x) + 1.0;
  if (mesh_rank() == victim) {
    ::kill(::getpid(), SIGKILL);
  }
  std::string found;
  try {
    found = "a sum of " + std::to_string(local(step(x)).to_vector()[1]);
  } catch (const std::exception& problem) {
    found = problem.what();
  }
  throw std::runtime_error(found);
}

/// A request of rank 1 fails while nothing is pending there. Results that were complete before must throw, too, on all ranks.
void run_given_up() {
  const auto m = make_mesh<dp>({mesh_ranks()});
  const part x(tensor<double, 1>(arange<double>(1000)));
  const auto step = compile(shard_map(m, sum_of_ranks(1)));
  const tensor<double, 1> first = local(step(x));
  if (first.to_vector()[1] != mesh_ranks()) wrong += "a sum; ";
  // Until it is not pending any more. Rank 1 fails later, when the request of rank 0 waits for it.
  std::this_thread::sleep_for(std::chrono::milliseconds(mesh_rank() == 1 ? 900 : 300));
  try {
    step(x);
  } catch (const std::exception&) {  // of the rank whose request it is
  }
  for (int turn = 0; turn < 1000; ++turn) {
    first.to_vector();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  wrong += "a result can be read; ";
}

/// More exchanges than may be pending at once, none of which is waited for.
void run_many() {
  const auto m = make_mesh<dp>({mesh_ranks()});
  const auto step = compile(shard_map(m, sum_of_ranks(1.0 / static_cast<double>(mesh_ranks()))));
  tensor<double, 1> x = full<double>(3.0, 100);
  for (int turn = 0; turn < 150; ++turn) x = local(step(part(x)));
  close(x, full<double>(3.0, 100), 1e-12, "150 means");
}

/// Kernels that ranks lack at about the same time. Ranks other than `first` begin a little later, and rank `late` when the others have
/// finished.
void run_kernels(bool exchanges, int first, int late) {
  const auto m = make_mesh<dp>({mesh_ranks()});
  std::this_thread::sleep_for(std::chrono::milliseconds(mesh_rank() == late ? 6000 : mesh_rank() == first ? 0 : 400));
  using own = placed<tensor<double, 2>, varying<dp>>;
  const auto body = [](const tensor<double, 2>& a) {
    const tensor<double, 2> rows = softmax(matmul(a, transpose(a)));
    return tensor<double, 2>(cumsum(sort(rows), axis<0>) + sum(rows, axis<1>, keepdims) * 1.25);
  };
  const auto x = some(33, 17);
  const auto want = compile(body, {.backend = "reference"})(x);
  const auto tell = [&](const auto& step, const tensor<double, 2>& got, double factor) {
    close(got, want * factor, 1e-12, "the result");
    const auto about = step.report();
    std::printf("rank %d compiled %d of %d kernels, and has %.17g\n", mesh_rank(), static_cast<int>(about.compiled),
                static_cast<int>(about.kernels), sum(got).item());
  };
  if (!exchanges) {
    // Nothing is swapped in later: ranks would do so at different calls.
    const auto step = compile(body, {.tier = tier::background});
    return tell(step, step(x), 1);
  }
  const auto step =
      compile(shard_map(m, [=](own a) { return all_reduce<replicated<dp>>(as<partial<dp>>(own(body(local(a))))); }));
  const auto got = local(step(own(x)));
  tell(step, got, static_cast<double>(mesh_ranks()));
}

/// Products in pieces that go around a ring of the ranks. With `differ` one rank computes them whole.
void run_chunks(bool differ) {
  using rows = placed<tensor<double, 2>, shard<dp, 0>>;
  using columns = placed<tensor<double, 2>, shard<dp, 1>>;
  const auto m = make_mesh<dp>({mesh_ranks()});
  const auto f = [](rows x, columns w, rows v) {
    const auto h = sin(matmul(all_gather<replicated<dp>, 0>(cos(x)), w));
    return reduce_scatter<dp, 0>(matmul(h, v));
  };
  const auto x = some(3 * mesh_ranks(), 5), w = some(5, 7 * mesh_ranks()), v = some(7 * mesh_ranks(), 5);
  const bool whole = differ && mesh_rank() == 1;
  const auto step = compile(shard_map(m, f), {.chunks = whole ? chunks::never : chunks::always});
  const auto got = local(step(x, w, v));
  const std::int64_t first = 3 * mesh_rank();
  close(got, tensor<double, 2>(slice<0>(simulate(f, m)(x, w, v), first, first + 3)), 1e-12, "layers in pieces");
  const auto exchanges = static_cast<int>(step.report().collectives);
  if (exchanges != 2 * (mesh_ranks() - 1)) wrong += std::to_string(exchanges) + " exchanges; ";
}

/// A program of many nodes, which one rank plans for all. Ranks begin as in run_kernels.
void run_plans(bool exchanges, int first, int late) {
  const auto m = make_mesh<dp>({mesh_ranks()});
  std::this_thread::sleep_for(std::chrono::milliseconds(mesh_rank() == late ? 6000 : mesh_rank() == first ? 0 : 400));
  using own = placed<tensor<double, 2>, varying<dp>>;
  const auto body = [](const tensor<double, 2>& a, const tensor<double, 2>& w) {
    tensor<double, 2> h = a;
    for (int layer = 0; layer < 80; ++layer) h = tanh(matmul(h, w)) + h * 0.5;
    return h;
  };
  const auto x = some(5, 7), w = some(7, 7, 0.2);
  const auto want = compile(body, {.backend = "reference"})(x, w);
  const auto tell = [&](const auto& step, const tensor<double, 2>& got, double factor) {
    close(got, want * factor, 1e-11, "the result");
    const auto about = step.report();
    const bool planned =
        std::any_of(about.stages.begin(), about.stages.end(), [](const auto& s) { return s.name == "plan"; });
    std::printf("rank %d planned %d programs, compiled %d of %d kernels, and has %.17g\n", mesh_rank(), planned ? 1 : 0,
                static_cast<int>(about.compiled), static_cast<int>(about.kernels), sum(got).item());
  };
  if (!exchanges) {
    const auto step = compile(body);
    return tell(step, step(x, w), 1);
  }
  const auto step = compile(shard_map(m, [=](own a, own b) {
    const own h(body(local(a), local(b)));
    return std::pair{all_reduce<replicated<dp>>(as<partial<dp>>(h)), permute<dp>(h, shift(1))};
  }));
  const auto [sums, next] = step(own(x), own(w));
  close(local(next), want, 1e-11, "the neighbour's result");
  tell(step, local(sums), static_cast<double>(mesh_ranks()));
}

/// A fault tells where it was before it ends the process; addr2line reads the addresses.
void report_faults() {
  void* frames[1];
  ::backtrace(frames, 1);  // loads what it needs
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
    ::signal(fault, [](int number) {
      void* all[64];
      ::backtrace_symbols_fd(all, ::backtrace(all, 64), 2);
      ::signal(number, SIG_DFL);
      ::raise(number);
    });
}

}  // namespace

int main(int count, char** words) {
  report_faults();
  const std::string what = count > 1 ? words[1] : "";
  const std::map<std::string, std::function<void()>> programs{
      {"collectives", run_collectives},
      {"training", [&] { run_training(count > 2 ? mode::reduce_overhead : mode::standard); }},
      {"equal", [] { run_guards(false); }},
      {"differ", [] { run_guards(true); }},
      {"loops", run_loops},
      {"seeds", run_seeds},
      {"gpus", [&] { run_on_gpus(std::atoi(words[2])); }},
      {"read", [&] { run_read(std::atoi(words[2])); }},
      {"given_up", run_given_up},
      {"many", run_many},
      {"kernels", [&] { run_kernels(words[2] == std::string("exchanged"), std::atoi(words[3]), std::atoi(words[4])); }},
      {"chunks", [&] { run_chunks(count > 2); }},
      {"plans", [&] { run_plans(words[2] == std::string("exchanged"), std::atoi(words[3]), std::atoi(words[4])); }},
      {"join", [] { make_mesh<dp>({mesh_ranks()}); }},
      {"exit",
       [] {
         const auto m = make_mesh<dp>({mesh_ranks()});
         if (mesh_rank() == 1) return;
         compile(shard_map(m, sum_of_ranks(1)))(part(tensor<double, 1>({1, 2})));
       }},
      {"death", [&] { run_death(words[2], std::atoi(words[3]), std::atoi(words[4])); }}};
  const auto program = programs.find(what);
  if (program == programs.end()) return 2;
  std::string line = "rank ?";
  try {
    line = "rank " + std::to_string(mesh_rank());
    // Each rank has a folder of its own in that one.
    if (const char* const folders = std::getenv("SINTER_TEST_CACHES"))
      ::setenv("SINTER_CACHE_DIR", (std::string(folders) + "/" + std::to_string(mesh_rank())).c_str(), 1);
    program->second();
    line += wrong.empty() ? ": right" : ": wrong: " + wrong;
  } catch (const std::exception& problem) {
    line += std::string(": threw: ") + problem.what();
  }
  for (char& c : line)
    if (c == '\n') c = ' ';
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  return line.ends_with(": right") ? 0 : 3;
}
