// engine/options.hpp: the user's options of compile().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "../base/callback.hpp"
#include "../base/device.hpp"
#include "../base/series.hpp"
#include "report.hpp"

namespace sinter {

/// The tuning of a compiled function.
enum class mode : std::uint8_t {
  standard,
  reduce_overhead,  ///< the least work per call: a GPU replays a specialisation as one CUDA graph, with loops and branches
  /// The same, and compilation measures the ways to compute each larger product and attention on the device, and takes the fastest.
  max_autotune,
};

/// The precision of f32 matrix products on a GPU.
enum class precision : std::uint8_t {
  highest,  ///< f32 throughout
  high,     ///< operands rounded to tf32 (10 bits of mantissa), sums in f32
};

/// Whether one specialisation serves many extents.
enum class dynamic : std::uint8_t {
  automatic,  ///< the first call specialises; an extent with a second value becomes a symbol
  yes,        ///< every extent is a symbol from the first call on
  no,         ///< every extent is a constant of its specialisation
};

/// The answer to a call beyond the limit of specialisations, if no dynamic one can serve it.
enum class on_limit : std::uint8_t {
  reference,  ///< the interpreter: correct and slow
  error,      ///< user_error that names the guard that failed repeatedly
  evict,      ///< a new specialisation, which replaces the least recently used one
};

/// Whether products beside gathers and scatters of ranks are cut into pieces, which go around a ring while others are multiplied.
enum class chunks : std::uint8_t {
  automatic,  ///< where it takes less time, by a model of the device and the links between ranks
  always,     ///< wherever the graph permits
  never,
};

/// The waiting for the compiler.
enum class tier : std::uint8_t {
  immediate,   ///< a call waits for its kernels
  background,  ///< no call waits: the interpreter or a dynamic specialisation answers until the kernels are ready
};

/// The behaviour of calls of compiled functions on a thread. (front/compile/stance.hpp)
enum class stance : std::uint8_t {
  normal,
  eager,               ///< run the function natively
  fail_on_recompile,   ///< user_error that names the guard, if no specialisation accepts the call
  eager_on_recompile,  ///< run the function natively, if no specialisation accepts the call
};

namespace engine {
/// Whether a GPU replays calls as graphs.
constexpr bool is_recorded(mode m) { return m != mode::standard; }
}  // namespace engine

class graph;

/// A rewrite by the user: a row of options::passes. It gets the traced graph, derivatives included, and returns an equal one:
/// the same inputs, and results of the same dtypes and shapes. (docs/graphs.md)
struct pass {
  std::string name;
  /// Part of the key of every cache: a pass that does something else has another version. Without a version nothing is cached.
  std::string version = "";
  detail::callback<graph(graph)> run = {};
};

/// How compile() treats a function.
struct options {
  sinter::mode mode = sinter::mode::standard;
  sinter::dynamic dynamic = sinter::dynamic::automatic;
  /// A graph break is an error with its file:line.
  bool fullgraph = false;
  /// "auto": kernels for the device of the arguments. "reference": interprets the traced graph. "aot_reference": interprets
  /// the rewritten graph. "cpu" and "cuda" are "auto", but refuse arguments of another device. "cudagraphs": on a GPU, each op
  /// is a library call or a kernel of its own, and repeated calls are recorded. Other names: register_backend.
  std::string backend = "auto";
  /// Indexes of arguments whose storage the call may overwrite with results of equal dtype and extents. A donated tensor that
  /// another handle or argument shares is not overwritten. For arguments passed as rvalues that are not const, the tensors
  /// are empty handles after a successful call. After a call that threw they are unchanged.
  series<int> donate = {};
  /// The greatest number of specialisations of a function for arguments of the same types. All functions made at one line of
  /// the program share 64 beyond the first of each. In a function that reads values, each set of extents counts. So does each
  /// segment made by a later call with the same extents.
  int recompile_limit = 8;
  /// The bytes of graphs' and kernels' texts that specialisations and segments may hold; beyond them the least recently used
  /// are dropped.
  std::size_t recompile_bytes = std::size_t{64} << 20;
  /// The answer beyond the limit.
  sinter::on_limit on_limit = sinter::on_limit::reference;
  sinter::tier tier = sinter::tier::immediate;
  /// The approximate number of calls with the same extents that a symbolic specialisation answers before these extents get
  /// their own kernels, compiled in the background. 0: never. Only with dynamic::automatic or tier::background, and not with
  /// `deterministic`.
  int hot_calls = 1000;
  /// Precision of f32 matrix products on a GPU.
  sinter::precision precision = sinter::precision::highest;
  /// The fraction, from 0 to 1, of intermediates that the backward passes of `grad` may keep. They recompute the rest, first
  /// the values that free the most memory for their work. Below 1, functions take longer, and gradients may differ in
  /// rounding. remat(f) does so for one function.
  double memory_budget = 1;
  /// Makes results equal from call to call, bit by bit. On a GPU scatter_add sums in a fixed order, which is slower than
  /// atomic additions. Recorded products keep the library's first algorithm, and mode::max_autotune measures nothing. Frequent
  /// extents do not get their own kernels.
  bool deterministic = false;
  /// On ranks of a mesh: whether all_gather·matmul and matmul·reduce_scatter are computed in pieces. Sums may differ in rounding. All
  /// ranks need the same choice.
  sinter::chunks chunks = sinter::chunks::automatic;
  /// A result with a NaN or an infinity is a user_error that names the first op which made one, and its line. Each call
  /// checks its results; a call that finds one interprets the graph, and repeats its host_calls. Nothing is donated.
  bool check_finite = false;
  /// The device of a function without tensor arguments; by default default_device().
  std::optional<sinter::device> device = {};
  /// The folder of the compiled kernels; if empty, $SINTER_CACHE_DIR, $XDG_CACHE_HOME/sinter or ~/.cache/sinter.
  std::string cache_dir = "";
  /// Shows progress on a terminal when a call waits for kernels for more than a second. $SINTER_PROGRESS=0 turns it off for
  /// all functions.
  bool progress = true;
  /// The user's rewrites of the graph, in order, before the engine's own. user_error if one changes inputs or results' types.
  series<pass> passes = {};
  /// The name in logs and errors.
  std::string name = "fn";
};

}  // namespace sinter
