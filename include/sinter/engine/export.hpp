// engine/export.hpp: programs as libraries: the user's options of export_library(), and the exporter behind the seam.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "../base/callback.hpp"
#include "../base/config.hpp"
#include "../base/location.hpp"
#include "../base/series.hpp"

namespace sinter {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // g++ warns about scoped enumerators
/// The instruction set of an exported library's kernels.
enum class isa : std::uint8_t {
  baseline,  ///< x86-64, with SSE2
  avx2,      ///< x86-64-v3: AVX2, FMA, F16C, BMI2
  avx512,    ///< x86-64-v4: AVX-512 F, BW, CD, DQ, VL
  aarch64,   ///< ARMv8-A; another machine compiles it by aarch64-linux-gnu-g++
};

/// The place of the tensors that an exported function reads and that its caller does not give.
enum class library_weights : std::uint8_t {
  beside,  ///< NAME.weights, a safetensors file that open() maps
  inside,  ///< the library, up to 1 GiB
  given,   ///< each call gives them, as further inputs
};

/// The threads of an exported library.
enum class library_threads : std::uint8_t {
  none,    ///< the caller's; a call takes no lock and allocates nothing
  openmp,  ///< OpenMP's, by libgomp
};

/// The form of an exported library.
enum class library_form : std::uint8_t {
  library,  ///< libNAME.so, NAME.h, NAME.hpp, NAME.py
  source,   ///< NAME.c, NAME.cpp, NAME.h, NAME.hpp, NAME.py
};

#pragma GCC diagnostic pop

/// How export_library() writes a function.
struct library_options {
  /// A C identifier: the prefix of the library's functions, and the files' name.
  std::string name = "model";
  /// The instruction sets that the library has; open() chooses the last that the processor has. Empty: avx2, and on ARM aarch64.
  series<isa> isas = {};
  /// The compute capabilities of the GPUs that the library is for, such as {80, 90}; later GPUs compile the code of the first. Arrays
  /// and rooms then lie in a GPU's memory, and calls take a stream. Empty: the library is for the host.
  series<int> gpus = {};
  library_weights weights = library_weights::beside;
  library_threads threads = library_threads::none;
  library_form form = library_form::library;
  /// The folder of the files; it is made if it is missing.
  std::string folder = ".";
  /// The names of arguments and of results, in order; the others are "in0", "out0" and so on. The tensors of an argument that is a tree
  /// have its name, and their path behind it.
  series<std::string> inputs = {}, outputs = {};
  /// Checks the function and counts memory, and writes nothing.
  bool only_check = false;
  location where = location::current();  ///< named by errors
};

/// What export_library() wrote.
struct exported_library {
  series<std::string> files;        ///< paths
  std::size_t kernels = 0;          ///< distinct kernels, of one instruction set
  std::size_t programs = 1;         ///< sets of sizes that have a program of their own
  std::size_t weight_bytes = 0;     ///< of all weights
  std::size_t room_bytes = 0;       ///< memory of a call with the largest sizes
  double milliseconds = 0;          ///< of the whole export
  std::string provenance;           ///< as NAME_provenance() gives it
  series<std::string> replaceable;  ///< "out0 may be in0", for results that may have an input's memory
};

namespace engine {

struct call;
struct tracing;

/// A size of an exported function that calls choose.
struct library_size {
  std::string name;
  std::int64_t least = 0, most = 0;
};

/// A tensor among the arguments of an exported function.
struct library_input {
  std::string name;
  bool weight = false;           ///< the library has its elements
  series<int> size_of;           ///< for each axis the index of its size, or -1 for a number
  series<std::int64_t> extents;  ///< the numbers; 0 for a size
};

/// What to export: all but the function.
struct library_request {
  library_options how;
  series<library_input> inputs;  ///< tensors of the arguments, in order
  series<library_size> sizes;
  location where = {};

  bool is_for_gpus() const { return !how.gpus.empty(); }
};

/// Exports one function: sizes() is a set of sizes for which it must be traced next; take() gets that call.
class library_exporter {
 public:
  virtual ~library_exporter() = default;
  /// The sizes of the next trace, one for each of the request's; null after the last.
  virtual const series<std::int64_t>* sizes() = 0;
  /// Traces the call, whose arguments have these sizes. user_error for a function that reads values.
  virtual void take(const call& c, const tracing& t) = 0;
  /// Writes the library. user_error with all reasons why the function cannot leave; system_error for files, compile_error.
  virtual exported_library finish() = 0;
};

/// (jit/library/export.hpp) user_error for a name that C does not take, and for sizes without a value.
SINTER_API std::unique_ptr<library_exporter> make_library_exporter(library_request what);

}  // namespace engine
}  // namespace sinter
