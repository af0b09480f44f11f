#include "tests/kernels/cuda/ptx/machine.h"

#include <algorithm>

namespace frn::ptx {

void Machine::fail(const Instruction& instruction, const std::string& what) const {
  throw Error(program_.name + ": " + what + " in `" + instruction.text + "`");
}

uint64_t Machine::value(const Thread& thread, const Operand& operand) const {
  if (operand.kind == OperandKind::kNumber) return operand.number;
  return thread.registers[static_cast<size_t>(operand.index)];
}

unsigned char* Machine::memory(const Thread& thread, const Operand& operand, size_t bytes, const std::string& space,
                               bool write) {
  uint64_t address = operand.number;
  if (operand.index >= 0) address += thread.registers[static_cast<size_t>(operand.index)];
  const Instruction& here = program_.code[thread.next - 1];
  const auto inside = [&](uint64_t base, auto& piece) {
    const uint64_t at = address - base;
    if (at + bytes > piece.size()) fail(here, "an access beyond the " + std::to_string(piece.size()) + " bytes");
    if (at % bytes != 0) fail(here, "a misaligned access");
    return const_cast<unsigned char*>(piece.data() + at);
  };
  // Addresses of 32 bits in shared memory have lost the base.
  if (space == "shared" && address >> 32 == 0) address |= kSharedBase;
  if (address >> 56 == kSharedBase >> 56) return inside(kSharedBase, shared_);
  if (address >> 56 == kParameterBase >> 56) {
    if (write) fail(here, "a write to the parameter");
    return inside(kParameterBase, parameter_);
  }
  if (space == "shared" || space == "param") fail(here, "an address of another space");
  const auto* const buffer = memory_.find(address);
  if (buffer == nullptr || address + bytes > buffer->first + buffer->bytes)
    fail(here, "an access outside of every buffer");
  if (write && !buffer->writable) fail(here, "a write to " + buffer->name);
  if (address % bytes != 0) fail(here, "a misaligned access");
  // The interpreted program computes with addresses as numbers. NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<unsigned char*>(address);
}

void Machine::launch(int64_t blocks, int threads, size_t shared_bytes) {
  for (int64_t block = 0; block < blocks; ++block) run_block(block, threads, shared_bytes);
}

void Machine::run_block(int64_t block, int threads, size_t shared_bytes) {
  shared_.assign(shared_bytes, 0xff);
  std::vector<Thread> all(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    Thread& thread = all[static_cast<size_t>(i)];
    thread.index = i;
    thread.registers.assign(static_cast<size_t>(program_.registers), 0);
    thread.registers[kThreadX] = static_cast<uint64_t>(i);
    thread.registers[kBlockX] = static_cast<uint64_t>(block);
    thread.registers[kBlockThreadsX] = static_cast<uint64_t>(threads);
  }
  const auto count = [&](Wait wait) {
    return std::count_if(all.begin(), all.end(), [&](const Thread& t) { return t.wait == wait; });
  };
  while (count(Wait::kDone) < threads) {
    bool moved = false;
    for (Thread& thread : all) {
      if (thread.wait != Wait::kNone) continue;
      run_thread(thread);
      moved = true;
    }
    finish_shuffles(all);
    if (moved || count(Wait::kNone) > 0) continue;
    if (count(Wait::kBarrier) != threads) throw Error(program_.name + ": threads wait for ever");
    for (Thread& thread : all) thread.wait = Wait::kNone;
  }
}

void Machine::run_thread(Thread& thread) {
  while (thread.wait == Wait::kNone) {
    if (thread.next >= program_.code.size()) {
      thread.wait = Wait::kDone;
      return;
    }
    const Instruction& instruction = program_.code[thread.next++];
    if (instruction.predicate >= 0) {
      const bool holds = thread.registers[static_cast<size_t>(instruction.predicate)] != 0;
      if (holds == instruction.unless) continue;
    }
    instruction.execute(*this, thread, instruction);
  }
}

// Lanes at one instruction with one mask exchange their values once all of them are there.
void Machine::finish_shuffles(std::vector<Thread>& threads) {
  constexpr size_t kLanes = 32;
  for (size_t i = 0; i < threads.size(); ++i) {
    Thread& first = threads[i];
    if (first.wait != Wait::kShuffle) continue;
    const size_t warp = i / kLanes * kLanes;
    const auto in_mask = [&](size_t lane) { return (first.mask >> lane & 1) != 0; };
    bool complete = true;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (!in_mask(lane)) continue;
      const Thread& other = threads.at(warp + lane);
      complete = complete && other.wait == Wait::kShuffle && other.next == first.next && other.mask == first.mask;
    }
    if (!complete) continue;
    uint32_t values[kLanes] = {};
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (!in_mask(lane)) continue;
      const size_t source = lane ^ threads[warp + lane].step;
      if (!in_mask(source)) throw Error(program_.name + ": a shuffle reads a lane outside of its mask");
      values[lane] = threads[warp + source].value;
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (!in_mask(lane)) continue;
      Thread& thread = threads[warp + lane];
      thread.registers[static_cast<size_t>(thread.result)] = values[lane];
      if (thread.result_valid >= 0) thread.registers[static_cast<size_t>(thread.result_valid)] = 1;
      thread.wait = Wait::kNone;
    }
  }
}

}  // namespace frn::ptx
