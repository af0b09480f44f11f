// A process finds its place in what torchrun, Slurm and MPI put into the environment.
#include "frn/dist/environment.h"

#include <gtest/gtest.h>

#include <map>

#include "frn/core/error.h"

namespace frn::dist {
namespace {

using Variables = std::map<std::string, std::string>;

Place place_of(const Variables& variables) {
  return read_place([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_of(const Variables& variables) {
  try {
    place_of(variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Environment, WithoutALauncherThereIsOneProcess) {
  const auto place = place_of({{"MASTER_ADDR", "elsewhere"}});
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.world, 1);
}

TEST(Environment, TorchrunsVariablesAreUnderstood) {
  const auto place = place_of({{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "node0"},
                               {"MASTER_PORT", "1234"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                               {"SLURM_PROCID", "3"},
                               {"SLURM_NTASKS", "4"}});
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.world, 8);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.master_address, "node0");
  EXPECT_EQ(place.master_port, 1234);
  EXPECT_TRUE(place.agent_store);
  EXPECT_EQ(place.restarts, 2);
}

TEST(Environment, OneProcessOfTorchrunIsStartedAgainToo) {
  const auto place = place_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RESTART_COUNT", "1"}});
  EXPECT_EQ(place.world, 1);
  EXPECT_EQ(place.restarts, 1);
}

TEST(Environment, TasksOfSrunMeetOnTheFirstMachineOfTheirStep) {
  Variables step{{"SLURM_PROCID", "3"},
                 {"SLURM_NTASKS", "8"},
                 {"SLURM_STEP_NUM_TASKS", "4"},
                 {"SLURM_LOCALID", "1"},
                 {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"}};
  const std::map<std::string, std::string> lists{
      {"n1", "n1"},
      {"n1,n2", "n1"},
      {"node[003-005,9],other", "node003"},
      {"node[7,9]", "node7"},
      {"login,node[1-2]", "login"},
      {"rack[1-2]-node,x", "rack1-node"},
  };
  for (const auto& [list, first] : lists) {
    step["SLURM_STEP_NODELIST"] = list;
    const auto place = place_of(step);
    EXPECT_EQ(place.rank, 3);
    EXPECT_EQ(place.world, 4);
    EXPECT_EQ(place.local_rank, 1);
    EXPECT_EQ(place.master_address, first) << list;
    EXPECT_EQ(place.master_port, 29500);
  }
}

// What sbatch sets for its script, where a plain `frn train` must not wait for ranks that nobody starts.
TEST(Environment, ABatchScriptOfSlurmIsOneProcess) {
  EXPECT_EQ(place_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}}).world, 1);
}

TEST(Environment, MpisVariablesAreUnderstoodOnOneMachineWithoutAnAddress) {
  const auto place = place_of({{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.master_address, "127.0.0.1");
}

TEST(Environment, SeveralMachinesNeedAnAddress) {
  EXPECT_NE(
      error_of({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
          .find("MASTER_ADDR must name"),
      std::string::npos);
}

TEST(Environment, ValuesThatCannotBeAreNamed) {
  EXPECT_NE(error_of({{"RANK", "x"}, {"WORLD_SIZE", "2"}}).find("RANK must be a whole number but is 'x'"),
            std::string::npos);
  EXPECT_NE(error_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).find("RANK must be below WORLD_SIZE"), std::string::npos);
}

}  // namespace
}  // namespace frn::dist
