#include "frn/dist/environment.h"

#include <array>
#include <charconv>
#include <cstdlib>

#include "frn/core/error.h"

namespace frn::dist {
namespace {

constexpr int64_t kPort = 29500;  // torchrun's own default

struct Launcher {
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;  // how many on this machine, where the launcher says so
  const char* address;      // of the first machine, where the launcher says so
  const char* machines;     // all of them, the first one first, where the launcher says so
};

constexpr std::array kLaunchers{
    Launcher{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", ""},
    // What srun sets for the tasks of a step. SLURM_NTASKS is also set in a batch script, which is one process;
    // SLURM_LAUNCH_NODE_IPADDR is where srun was typed.
    Launcher{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", "", "SLURM_STEP_NODELIST"},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
             "", ""},
    Launcher{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", ""},
};

int64_t whole(const char* name, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw Error("dist", std::string(name) + " must be a whole number but is '" + text + "'");
  }
  return value;
}

// A rank that stands there alone, as Slurm's does in an interactive shell, is no group.
const Launcher* find_launcher(const ReadVariable& read) {
  for (const auto& launcher : kLaunchers) {
    if (read(launcher.rank) && read(launcher.world)) return &launcher;
  }
  return nullptr;
}

// Of Slurm's list of machines: "n[003-005,9],m1" begins with n003.
std::string first_machine(const std::string& list) {
  const auto end = list.find(',');
  const auto open = list.find('[');
  if (open == std::string::npos || open > end) return list.substr(0, end);
  const auto close = list.find(']', open);
  const auto number = list.substr(open + 1, list.find_first_of("-,]", open) - open - 1);
  const auto rest = close == std::string::npos ? "" : list.substr(close + 1, list.find(',', close) - close - 1);
  return list.substr(0, open) + number + rest;
}

std::string address_of(const Launcher& launcher, const Place& place, const ReadVariable& read) {
  if (const auto address = read("MASTER_ADDR")) return *address;
  const auto read_if_named = [&](const char* name) { return *name == '\0' ? std::nullopt : read(name); };
  if (const auto address = read_if_named(launcher.address)) return *address;
  if (const auto machines = read_if_named(launcher.machines)) return first_machine(*machines);
  const auto local = read_if_named(launcher.local_world);
  if (local && whole(launcher.local_world, *local) == place.world) return "127.0.0.1";
  throw Error("dist",
              "MASTER_ADDR must name the machine of rank 0 when there are several, but is not set; set it and "
              "MASTER_PORT for all ranks");
}

}  // namespace

Place read_place(const ReadVariable& read) {
  Place place;
  const auto* const launcher = find_launcher(read);
  if (launcher == nullptr) return place;
  place.rank = whole(launcher->rank, *read(launcher->rank));
  place.world = whole(launcher->world, *read(launcher->world));
  if (place.world < 1 || place.rank >= place.world) {
    throw Error("dist", std::string(launcher->rank) + " must be below " + launcher->world + ", " +
                            std::to_string(place.world) + ", but is " + std::to_string(place.rank));
  }
  if (const auto local = read(launcher->local_rank)) place.local_rank = whole(launcher->local_rank, *local);
  if (const auto restarts = read("TORCHELASTIC_RESTART_COUNT")) {
    place.restarts = whole("TORCHELASTIC_RESTART_COUNT", *restarts);
  }
  if (place.world == 1) return place;
  place.master_address = address_of(*launcher, place, read);
  const auto port = read("MASTER_PORT");
  place.master_port = port ? whole("MASTER_PORT", *port) : kPort;
  place.agent_store = read("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return place;
}

Place read_place() {
  return read_place([](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace frn::dist
