#include "tests/kernels/cuda/cubin.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

namespace frn::cubin {
namespace {

// Instructions of Volta and later have 128 bits. The lowest nine name the operation, bits 73 to 75 the width of an
// access (4: 32 bits, 5: 64, 6: 128).
constexpr size_t kInstructionBytes = 16;
constexpr uint64_t kLoadGlobal = 0x181;
constexpr uint64_t kStoreGlobal = 0x186;
constexpr uint64_t kLoadLocal = 0x183;
constexpr uint64_t kStoreLocal = 0x187;
constexpr uint64_t kWidth128 = 6;

// Attributes of .nv.info, by symbol.
constexpr uint8_t kFrameSize = 0x11;
constexpr uint8_t kMinStackSize = 0x12;
constexpr uint8_t kRegisterCount = 0x2f;
constexpr uint8_t kWithSize = 0x04;

class File {
 public:
  explicit File(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    header_ = at<Elf64_Ehdr>(0);
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) throw std::runtime_error(path + " is not a cubin");
    for (size_t i = 0; i < header_.e_shnum; ++i) {
      sections_.push_back(at<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr)));
    }
  }

  template <typename V>
  V at(size_t offset) const {
    if (offset + sizeof(V) > bytes_.size()) throw std::runtime_error("a cubin ends too early");
    V out;
    std::memcpy(&out, bytes_.data() + offset, sizeof out);
    return out;
  }
  std::string text(const Elf64_Shdr& strings, size_t offset) const {
    return bytes_.data() + strings.sh_offset + offset;
  }
  std::string name(const Elf64_Shdr& section) const { return text(sections_.at(header_.e_shstrndx), section.sh_name); }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }

 private:
  std::vector<char> bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
};

void count_instructions(const File& file, const Elf64_Shdr& code, Kernel& kernel) {
  for (size_t i = 0; i + kInstructionBytes <= code.sh_size; i += kInstructionBytes) {
    const uint64_t operation = file.at<uint64_t>(code.sh_offset + i) & 0x1ff;
    const uint64_t width = file.at<uint64_t>(code.sh_offset + i + 8) >> 9 & 7;
    if (operation == kLoadGlobal && width == kWidth128) ++kernel.global_loads_128;
    if (operation == kStoreGlobal && width == kWidth128) ++kernel.global_stores_128;
    if (operation == kLoadLocal || operation == kStoreLocal) ++kernel.local_accesses;
  }
}

// Attributes with a symbol and a number.
void read_attributes(const File& file, const Elf64_Shdr& info, const std::vector<std::string>& symbols,
                     std::map<std::string, Kernel>& kernels) {
  for (size_t at = info.sh_offset; at + 4 <= info.sh_offset + info.sh_size;) {
    const auto format = file.at<uint8_t>(at);
    const auto attribute = file.at<uint8_t>(at + 1);
    const auto size = file.at<uint16_t>(at + 2);
    at += 4;
    if (format != kWithSize) continue;
    if (size == 8) {
      const auto found = kernels.find(symbols.at(file.at<uint32_t>(at)));
      const auto number = static_cast<int>(file.at<uint32_t>(at + 4));
      if (found != kernels.end() && attribute == kRegisterCount) found->second.registers = number;
      if (found != kernels.end() && (attribute == kFrameSize || attribute == kMinStackSize)) {
        found->second.stack_bytes += number;
      }
    }
    at += size;
  }
}

}  // namespace

std::vector<Kernel> read(const std::string& path) {
  const File file(path);
  std::map<std::string, Kernel> kernels;
  std::vector<std::string> symbols;
  static const std::string code = ".text.";
  for (const auto& section : file.sections()) {
    const std::string name = file.name(section);
    if (name.rfind(code, 0) == 0) {
      Kernel& kernel = kernels[name.substr(code.size())];
      kernel.name = name.substr(code.size());
      count_instructions(file, section, kernel);
    }
    if (section.sh_type != SHT_SYMTAB) continue;
    for (size_t i = 0; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
      const auto symbol = file.at<Elf64_Sym>(section.sh_offset + i * sizeof(Elf64_Sym));
      symbols.push_back(file.text(file.sections().at(section.sh_link), symbol.st_name));
    }
  }
  for (const auto& section : file.sections()) {
    if (file.name(section) == ".nv.info") read_attributes(file, section, symbols, kernels);
  }
  std::vector<Kernel> out;
  for (const auto& [name, kernel] : kernels) out.push_back(kernel);
  if (out.empty()) throw std::runtime_error("no kernel in " + path);
  return out;
}

}  // namespace frn::cubin
