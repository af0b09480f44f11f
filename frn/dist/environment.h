// Which rank this process is, from what torchrun, Slurm or MPI put into the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "frn/dist/group.h"

namespace frn::dist {

using ReadVariable = std::function<std::optional<std::string>(const char* name)>;

// The place that the environment names: torchrun's RANK and WORLD_SIZE, else those of a step that srun
// started (SLURM_PROCID, SLURM_STEP_NUM_TASKS), else Open MPI's OMPI_COMM_WORLD_*, else MPICH's PMI_RANK and PMI_SIZE;
// a run of one process without any. MASTER_ADDR and MASTER_PORT say where ranks meet; on one machine they may be
// missing outside torchrun. Throws frn::Error for values that cannot be.
Place read_place(const ReadVariable& read);
Place read_place();  // from the process's environment

}  // namespace frn::dist
