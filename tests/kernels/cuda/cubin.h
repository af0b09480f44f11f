// The machine code of kernels, as ptxas writes it: an ELF file with a section of code per kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace frn::cubin {

struct Kernel {
  std::string name;  // nvcc's
  int registers = 0;
  int stack_bytes = 0;
  // Accesses to global and local memory by their width in bits.
  int global_loads_128 = 0;
  int global_stores_128 = 0;
  int local_accesses = 0;
};

// Throws std::runtime_error for a file that is not a cubin.
std::vector<Kernel> read(const std::string& path);

}  // namespace frn::cubin
