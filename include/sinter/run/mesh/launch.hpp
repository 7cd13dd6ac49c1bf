// run/mesh/launch.hpp: this process among the processes that a launcher started, from environment variables.
#pragma once

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../../base/location.hpp"

namespace sinter::engine::run {

/// Variables of a launcher, or null. `sign` exists in its processes only.
struct launcher {
  const char *name, *sign, *rank, *size, *local, *address, *port;
  bool has_mpi;           ///< MPI's processes, which need no address
  const char* libraries;  ///< of MPI, to be tried in this order
};

/// The first whose sign is set counts. torchrun's own store has its port, so the next one is taken.
inline constexpr launcher launchers[] = {
    {"sinter", "SINTER_RANK", "SINTER_RANK", "SINTER_SIZE", "SINTER_LOCAL", "SINTER_ADDR", nullptr, false, ""},
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", false, ""},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     nullptr, nullptr, true, "libmpi.so.40"},
    {"PMI", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", nullptr, nullptr, true,
     "libmpich.so.12 libmpi.so.12 libmpi_cray.so.12"},
    {"SLURM", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, nullptr, true,
     "libmpi.so.40 libmpich.so.12 libmpi.so.12"},
};

/// This process among those of a launch.
struct launch {
  std::string by;  ///< the launcher; empty for a process alone
  int rank = 0, size = 1, local = 0;
  std::string host;  ///< of rank 0; empty if MPI tells it
  int port = 0;
  std::string libraries;  ///< of MPI; empty without MPI
};

namespace detail {

[[noreturn]] inline void fail_launch(const std::string& message) { fail("make_mesh", message, location{}); }

inline const char* variable(const char* name) {
  const char* const text = name ? std::getenv(name) : nullptr;
  return text && *text ? text : nullptr;
}

/// A variable's number. user_error if it is missing or no number from `least` to `most`.
inline int number_of_variable(const launcher& by, const char* name, int least, int most) {
  const char* const text = variable(name);
  if (!text)
    fail_launch(std::string(name) + " is missing, though " + by.sign + " is set; set it on every rank, or unset " +
                by.sign + " to run alone");
  const std::string_view all = text;
  int out = 0;
  const auto read = std::from_chars(all.data(), all.data() + all.size(), out);
  if (read.ec != std::errc{} || read.ptr != all.data() + all.size() || out < least || out > most)
    fail_launch(std::string(name) + " is \"" + text + "\"; give a number from " + std::to_string(least) + " to " +
                std::to_string(most));
  return out;
}

/// host:port, or [host]:port.
inline void split_address(launch& l, const launcher& by, std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, colon == text.npos ? 0 : colon);
  const std::string port(colon == text.npos ? "" : text.substr(colon + 1));
  const auto read = std::from_chars(port.data(), port.data() + port.size(), l.port);
  if (host.empty() || read.ec != std::errc{} || read.ptr != port.data() + port.size() || l.port < 1 || l.port > 65535)
    fail_launch(std::string(by.address) + " is \"" + std::string(text) +
                "\"; give rank 0's host and port, as in 10.0.0.1:29500");
  l.host = host.front() == '[' && host.back() == ']' ? host.substr(1, host.size() - 2) : host;
}

inline launch launched_by(const launcher& by) {
  constexpr int most = 1 << 20;
  launch l;
  l.by = by.name;
  l.size = number_of_variable(by, by.size, 1, most);
  l.rank = number_of_variable(by, by.rank, 0, most);
  if (l.rank >= l.size)
    fail_launch(std::string(by.rank) + " is " + std::to_string(l.rank) + " of " + by.size + " " +
                std::to_string(l.size) + "; ranks are numbered from 0");
  if (variable(by.local)) l.local = number_of_variable(by, by.local, 0, most);
  if (l.local > l.rank)
    fail_launch(std::string(by.local) + " is " + std::to_string(l.local) + " and " + by.rank + " " +
                std::to_string(l.rank) + "; a rank's number on its host is at most its rank");
  if (by.has_mpi) l.libraries = variable("SINTER_LIBMPI") ? variable("SINTER_LIBMPI") : by.libraries;
  if (by.port) {
    if (!variable(by.address))
      fail_launch(std::string(by.address) + " is missing, though " + by.sign + " is set; set it to rank 0's host");
    l.host = variable(by.address);
    l.port = number_of_variable(by, by.port, 1, 65534) + 1;
  } else if (variable(by.address)) {
    split_address(l, by, variable(by.address));
  }
  return l;
}

}  // namespace detail

/// This process's place, by its variables. user_error for missing, senseless and contradicting ones.
inline launch find_launch() {
  std::optional<launch> found;
  for (const launcher& by : launchers) {
    if (!detail::variable(by.sign)) {
      // The other half of a pair that a user sets by hand.
      if (&by == launchers && detail::variable(by.size))
        detail::fail_launch("SINTER_SIZE is set and SINTER_RANK is not; set both on every rank, or neither");
      continue;
    }
    if (!found) {
      found = detail::launched_by(by);
      if (found->by != "sinter") break;
      continue;
    }
    // Ranks given by hand are those of MPI, which cannot change them.
    if (!by.has_mpi) continue;
    const launch other = detail::launched_by(by);
    if (other.rank != found->rank || other.size != found->size)
      detail::fail_launch("SINTER_RANK and SINTER_SIZE say rank " + std::to_string(found->rank) + " of " +
                          std::to_string(found->size) + ", " + by.rank + " and " + by.size + " say rank " +
                          std::to_string(other.rank) + " of " + std::to_string(other.size) +
                          "; unset SINTER_RANK and SINTER_SIZE where a launcher numbers the ranks");
    found->libraries = other.libraries;
    break;
  }
  if (!found) return {};
  if (found->size > 1 && found->libraries.empty() && found->host.empty())
    detail::fail_launch(
        "the ranks do not know where rank 0 is; set SINTER_ADDR to its host and port, as in "
        "10.0.0.1:29500");
  return *found;
}

}  // namespace sinter::engine::run
