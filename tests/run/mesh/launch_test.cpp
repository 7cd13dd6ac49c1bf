// Launchers' variables -> this process's rank.
#include <doctest/doctest.h>
#include <sinter/run/mesh/launch.hpp>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

using namespace sinter;
using engine::run::find_launch, engine::run::launch;

namespace {

using variables = std::map<std::string, std::string>;

/// The launch of a process with these variables alone.
launch launched(const variables& v) {
  std::vector<std::string> names{"SINTER_LIBMPI"};
  for (const auto& l : engine::run::launchers)
    for (const char* name : {l.sign, l.rank, l.size, l.local, l.address, l.port})
      if (name) names.push_back(name);
  for (const auto& name : names) ::unsetenv(name.c_str());
  for (const auto& [name, value] : v) ::setenv(name.c_str(), value.c_str(), 1);
  const auto clear = [&] {
    for (const auto& [name, value] : v) ::unsetenv(name.c_str());
  };
  try {
    launch l = find_launch();
    clear();
    return l;
  } catch (...) {
    clear();
    throw;
  }
}

}  // namespace

TEST_CASE("each launcher's variables") {
  const launch alone = launched({});
  CHECK(alone.by == "");
  CHECK(alone.size == 1);
  const launch own =
      launched({{"SINTER_RANK", "2"}, {"SINTER_SIZE", "4"}, {"SINTER_LOCAL", "1"}, {"SINTER_ADDR", "[::1]:29500"}});
  CHECK(own.rank == 2);
  CHECK(own.size == 4);
  CHECK(own.local == 1);
  CHECK(own.host == "::1");
  CHECK(own.port == 29500);
  CHECK(own.libraries == "");
  const launch torch = launched({{"TORCHELASTIC_RUN_ID", "x"},
                                 {"RANK", "1"},
                                 {"WORLD_SIZE", "2"},
                                 {"LOCAL_RANK", "1"},
                                 {"MASTER_ADDR", "node7"},
                                 {"MASTER_PORT", "29500"}});
  CHECK(torch.by == "torchrun");
  CHECK(torch.host == "node7");
  CHECK(torch.port == 29501);  // its own store has the port itself
  const launch open = launched({{"OMPI_COMM_WORLD_RANK", "3"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_PROCID", "0"},
                                {"SLURM_STEP_NUM_TASKS", "2"}});
  CHECK(open.by == "Open MPI");
  CHECK(open.rank == 3);
  CHECK(open.local == 1);
  CHECK(open.libraries == "libmpi.so.40");
  const launch pmi = launched({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"SINTER_LIBMPI", "/opt/libmpi.so"}});
  CHECK(pmi.size == 3);
  CHECK(pmi.libraries == "/opt/libmpi.so");
  const launch slurm =
      launched({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "1"}});
  CHECK(slurm.by == "SLURM");
  CHECK(slurm.rank == 5);
  // A script of sbatch is no step: its variables count tasks that are not started.
  CHECK(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).size == 1);
  // Ranks by hand, which are also MPI's.
  const launch both = launched(
      {{"SINTER_RANK", "1"}, {"SINTER_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  CHECK(both.by == "sinter");
  CHECK(both.libraries == "libmpi.so.40");
}

TEST_CASE("missing and contradicting variables are told") {
  const auto refuses = [](const variables& v, const char* text) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(launched(v), doctest::Contains(text), user_error);
  };
  refuses({{"SINTER_RANK", "0"}}, "SINTER_SIZE is missing, though SINTER_RANK is set");
  refuses({{"SINTER_SIZE", "2"}}, "SINTER_SIZE is set and SINTER_RANK is not");
  refuses({{"SINTER_RANK", "0"}, {"SINTER_SIZE", "2"}}, "set SINTER_ADDR");
  for (const char* bad : {"1x", "-1", "", "1000000000000", "2"})
    refuses({{"SINTER_RANK", bad}, {"SINTER_SIZE", "2"}, {"SINTER_ADDR", "a:1"}}, "SINTER_");
  for (const char* bad : {"host", "host:", ":1", "host:x", "host:0", "host:70000"})
    refuses({{"SINTER_RANK", "0"}, {"SINTER_SIZE", "2"}, {"SINTER_ADDR", bad}}, "give rank 0's host and port");
  refuses({{"SINTER_RANK", "0"}, {"SINTER_SIZE", "2"}, {"SINTER_LOCAL", "1"}, {"SINTER_ADDR", "a:1"}},
          "at most its rank");
  refuses({{"SINTER_RANK", "0"}, {"SINTER_SIZE", "2"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}},
          "PMI_RANK and PMI_SIZE say rank 1 of 2");
  refuses({{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}, "MASTER_ADDR");
  refuses({{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}},
          "MASTER_PORT is missing");
  refuses({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, "numbered from 0");
}
