// io/checkpoints.hpp: a folder with the last states of a run, to resume from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trees.hpp"

namespace sinter::io {

struct checkpoint_options {
  int keep = 3;               ///< number of states to keep; 0 keeps all
  std::string name = "step";  ///< files are NAME_000000001000.safetensors
};

namespace detail {

/// Makes a folder, and its parent folders.
SINTER_API void make_folder(const char* op, const std::string& path, location at);
/// The names in a folder; empty if the folder does not exist.
SINTER_API std::vector<std::string> files_of(const std::string& folder);

}  // namespace detail

/// The last states of a run, one file each. A state is written beside its file, made durable, then renamed. So a kill or a
/// full disk never damages earlier states. Only one process may write to a folder.
class checkpoints {
 public:
  explicit checkpoints(std::string folder, checkpoint_options how = {})
      : folder_(std::move(folder)), how_(std::move(how)) {}

  /// Writes the state after a step, and removes states beyond the number to keep. system_error when that fails.
  template <class T>
  void save(std::int64_t step, const T& tree, location at = location::current()) const {
    begin(step, at);
    io::save(path(step), tree, {.durable = true}, at.in("io::checkpoints"));
    remove_older(step);
  }

  /// Loads the last state into `tree`, and returns its step; nothing without a state: `auto start = c.resume(state);`. Errors
  /// as in load.
  template <class T>
  std::optional<std::int64_t> resume(T& tree, const load_options& how = {}, location at = location::current()) const {
    const std::vector<std::int64_t> all = steps();
    if (all.empty()) return std::nullopt;
    load(detail::open_regular_archive(path(all.back()), at.in("io::checkpoints")), tree, how, at.in("io::checkpoints"));
    return all.back();
  }

  /// The steps of the states in the folder, in order.
  SINTER_API std::vector<std::int64_t> steps() const;
  /// The file of a step.
  SINTER_API std::string path(std::int64_t step) const;

 private:
  static constexpr const char* ending = ".safetensors";

  SINTER_API void begin(std::int64_t step, location at) const;
  SINTER_API std::int64_t step_of(const std::string& file) const;
  SINTER_API void remove_older(std::int64_t step) const;

  std::string folder_;
  checkpoint_options how_;
};

}  // namespace sinter::io

#if !defined(SINTER_COMPILED)
#include "checkpoint_rules.hpp"
#endif
