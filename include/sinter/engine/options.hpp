// engine/options.hpp: what a user asks of compile().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "../base/device.hpp"
#include "../base/series.hpp"
#include "report.hpp"

namespace sinter {

/// What a compiled function is tuned for.
enum class mode : std::uint8_t {
  standard,
  reduce_overhead,  ///< the least work per call: on a GPU each specialisation is replayed as one CUDA graph, loops and branches included
};

/// How exact products of f32 matrices are on a GPU.
enum class precision : std::uint8_t {
  highest,  ///< f32 throughout
  high,     ///< operands rounded to tf32 (10 bits of mantissa), sums in f32
};

/// Whether one specialisation serves many extents.
enum class dynamic : std::uint8_t {
  automatic,  ///< the first call specialises; an extent that is seen with a second value becomes a symbol
  yes,        ///< every extent is a symbol from the first call on
  no,         ///< every extent is a constant of its specialisation
};

/// What answers a call that would need one specialisation too many, when no dynamic one can serve it.
enum class on_limit : std::uint8_t {
  reference,  ///< the interpreter: right and slow
  error,      ///< user_error that names the guard that kept failing
  evict,      ///< a new specialisation in place of the least recently used one
};

/// Who waits for the compiler.
enum class tier : std::uint8_t {
  immediate,   ///< the call that needs the kernels
  background,  ///< nobody: until they are there, calls are answered by the interpreter or by a dynamic specialisation
};

/// What calls of compiled functions do on a thread. (front/compile/stance.hpp)
enum class stance : std::uint8_t {
  normal,
  eager,               ///< run the function as it is written
  fail_on_recompile,   ///< user_error that names the guard, when no specialisation accepts the call
  eager_on_recompile,  ///< run the function as it is written, when no specialisation accepts the call
};

/// How compile() treats a function.
struct options {
  sinter::mode mode = sinter::mode::standard;
  sinter::dynamic dynamic = sinter::dynamic::automatic;
  /// A graph break is an error with its file:line.
  bool fullgraph = false;
  /// "auto": kernels for the device of the arguments; "reference": interprets the traced graph; "aot_reference":
  /// interprets it after every rewrite. "cpu" and "cuda" are "auto" that refuses arguments of another device.
  std::string backend = "auto";
  /// Indexes of arguments whose storage the call may overwrite with results of equal dtype and extents. A donated
  /// tensor that another handle or argument shares is left alone. Of arguments passed as rvalues that are not const, the
  /// tensors are empty handles after a call that succeeded, and as before after one that threw.
  series<int> donate = {};
  /// Specialisations of a function for arguments of the same types. All functions that one line of the program makes share
  /// 64 beyond the first of each. Of a function that reads values, a set of extents counts, and each segment that is made
  /// by another call than the first with these.
  int recompile_limit = 8;
  /// Text of graphs and kernels that specialisations and segments may hold; beyond it the least recently used ones are dropped.
  std::size_t recompile_bytes = std::size_t{64} << 20;
  /// What happens beyond the limit.
  sinter::on_limit on_limit = sinter::on_limit::reference;
  sinter::tier tier = sinter::tier::immediate;
  /// About how many calls with the same extents a specialisation with symbols answers before these extents get kernels of
  /// their own, made in the background; 0: never. With dynamic::automatic or tier::background only, and not with
  /// `deterministic`.
  int hot_calls = 1000;
  /// Of f32 matrix products on a GPU.
  sinter::precision precision = sinter::precision::highest;
  /// How much of what the backward passes of `grad` within would keep they may, from 0 to 1: they compute the rest anew, first
  /// what frees most memory for its work. Below 1 functions take longer and gradients may differ in rounding. remat(f) says it of one
  /// function.
  double memory_budget = 1;
  /// Rules out what changes bits from call to call. On a GPU scatter_add sums in a fixed order, which is slower than atomic
  /// additions, and recorded products keep the library's first algorithm; frequent extents get no kernels of their own.
  bool deterministic = false;
  /// A result with a NaN or an infinity is a user_error that names the first op which made one, and its line: each call looks at
  /// its results, and one that has found some interprets the graph, which does its host_calls again. Nothing is donated.
  bool check_finite = false;
  /// Where a function without tensors among its arguments runs; by default on default_device().
  std::optional<sinter::device> device = {};
  /// The folder of its compiled kernels; empty: $SINTER_CACHE_DIR, $XDG_CACHE_HOME/sinter, ~/.cache/sinter.
  std::string cache_dir = "";
  /// A call that waits for kernels for more than a second tells a terminal how far they are. $SINTER_PROGRESS=0: no function does.
  bool progress = true;
  /// Shown in logs and errors.
  std::string name = "fn";
};

}  // namespace sinter
