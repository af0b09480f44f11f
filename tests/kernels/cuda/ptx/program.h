// A kernel in PTX, the text that nvcc makes of a kernel before ptxas makes machine code of it, in a form that can be
// executed. An instruction that is not known is an error, not a guess.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace frn::ptx {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class OperandKind : uint8_t { kNone, kRegister, kNumber, kAddress, kVector, kLabel };

// A register, a number (of what a name stands for too), [register + number], or {a, b, ...}.
struct Operand {
  OperandKind kind = OperandKind::kNone;
  int index = -1;        // of a register; of the register of an address, -1 without one
  int second = -1;       // of d|p: the register p
  bool negated = false;  // of a predicate: !p
  uint64_t number = 0;   // or the offset of an address; of a label, where it points
  std::vector<Operand> elements;
};

class Machine;
struct Thread;
struct Instruction;
using Execute = void (*)(Machine&, Thread&, const Instruction&);

struct Instruction {
  Execute execute = nullptr;
  std::vector<std::string> parts;  // of the opcode, which its points separate
  std::vector<Operand> operands;
  int predicate = -1;   // register of @p
  bool unless = false;  // @!p
  std::string text;
};

struct Program {
  std::string name;
  std::vector<Instruction> code;
  int registers = 0;
  size_t parameter_bytes = 0;
};

// Where spaces of memory lie in the one space of addresses. A host's own addresses are global memory.
inline constexpr uint64_t kSharedBase = uint64_t{0x7a} << 56;
inline constexpr uint64_t kParameterBase = uint64_t{0x7b} << 56;

// Special registers, numbered before the others.
enum SpecialRegister : int { kThreadX, kBlockX, kBlockThreadsX, kSpecialRegisters };

// Every kernel of a file that nvcc wrote.
std::vector<Program> parse(const std::string& text);

// What executes an opcode; throws Error for one that is not known.
Execute find_instruction(const std::vector<std::string>& parts, const std::string& text);

}  // namespace frn::ptx
