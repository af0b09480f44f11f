// Executes a kernel in PTX, one thread at a time up to where it must wait.
#pragma once

#include "frn/kernels/emulation/emulator.h"
#include "tests/kernels/cuda/ptx/program.h"

namespace frn::ptx {

enum class Wait : uint8_t { kNone, kBarrier, kShuffle, kDone };

struct Thread {
  int index = 0;
  size_t next = 0;  // instruction
  Wait wait = Wait::kNone;
  std::vector<uint64_t> registers;
  // Of the shuffle that it waits in.
  uint32_t mask = 0;
  uint32_t step = 0;
  uint32_t value = 0;
  int result = -1;
  int result_valid = -1;
};

class Machine {
 public:
  Machine(const Program& program, const std::vector<unsigned char>& parameter, kernels::emulation::Memory& memory)
      : program_(program), parameter_(parameter), memory_(memory) {
    if (parameter.size() != program.parameter_bytes) throw Error("the struct of " + program.name + " has another size");
  }
  void launch(int64_t blocks, int threads, size_t shared_bytes);

  // For the instructions. Addresses are checked for their space, range and alignment.
  uint64_t value(const Thread& thread, const Operand& operand) const;
  unsigned char* memory(const Thread& thread, const Operand& address, size_t bytes, const std::string& space,
                        bool write);
  void fail(const Instruction& instruction, const std::string& what) const;

 private:
  void run_block(int64_t block, int threads, size_t shared_bytes);
  void run_thread(Thread& thread);
  void finish_shuffles(std::vector<Thread>& threads);

  const Program& program_;
  const std::vector<unsigned char>& parameter_;
  kernels::emulation::Memory& memory_;
  std::vector<unsigned char> shared_;
};

}  // namespace frn::ptx
