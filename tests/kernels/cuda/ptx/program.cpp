#include "tests/kernels/cuda/ptx/program.h"

#include <map>
#include <regex>
#include <sstream>

namespace frn::ptx {
namespace {

std::string without_comments(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += line.substr(0, line.find("//")) + "\n";
  return out;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  int depth = 0;
  std::string word;
  for (const char c : text) {
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c == at && depth == 0) {
      out.push_back(trimmed(word));
      word.clear();
    } else {
      word += c;
    }
  }
  if (!trimmed(word).empty()) out.push_back(trimmed(word));
  return out;
}

class Parser {
 public:
  explicit Parser(std::string name) { program_.name = std::move(name); }

  void read_parameters(const std::string& head) {
    static const std::regex parameter(R"(\.param\s+\.align\s+\d+\s+\.b8\s+(\w+)\[(\d+)\])");
    std::smatch found;
    if (!std::regex_search(head, found, parameter)) throw Error("a kernel takes one struct, unlike " + program_.name);
    parameter_name_ = found[1];
    program_.parameter_bytes = std::stoul(found[2]);
  }

  Program read_body(const std::string& body) {
    std::vector<std::string> statements;
    for (std::string statement : split_statements(body)) {
      static const std::regex label(R"(^(\$?[\w$]+):\s*)");
      std::smatch match;
      while (std::regex_search(statement, match, label)) {
        labels_[match[1]] = statements.size();
        statement = trimmed(match.suffix());
      }
      if (statement.empty() || statement[0] == '.') {
        if (statement.rfind(".local", 0) == 0)
          throw Error(program_.name + " keeps values in local memory: " + statement);
        continue;
      }
      statements.push_back(statement);
    }
    for (const auto& statement : statements) program_.code.push_back(instruction(statement));
    program_.registers = static_cast<int>(registers_.size()) + kSpecialRegisters;
    return program_;
  }

 private:
  // Inline assembly stands in braces of its own; braces elsewhere are vectors.
  static std::vector<std::string> split_statements(const std::string& body) {
    std::vector<std::string> out;
    std::string word;
    for (const char c : body) {
      const std::string before = c == '{' || c == '}' ? trimmed(word) : "";
      const bool own_brace = (c == '{' || c == '}') && (before.empty() || before.back() == ':');
      if (own_brace) continue;
      if (c == ';') {
        out.push_back(trimmed(word));
        word.clear();
      } else {
        word += c;
      }
    }
    if (!trimmed(word).empty()) out.push_back(trimmed(word));
    return out;
  }

  Instruction instruction(const std::string& text) {
    Instruction out;
    out.text = text;
    std::string rest = text;
    static const std::regex predicate(R"(^@(!?)(%\w+)\s+)");
    std::smatch match;
    if (std::regex_search(rest, match, predicate)) {
      out.unless = match[1] == "!";
      out.predicate = register_index(match[2]);
      rest = match.suffix();
    }
    const auto space = rest.find_first_of(" \t\n");
    out.parts = split(rest.substr(0, space), '.');
    if (space != std::string::npos) {
      for (const auto& word : split(rest.substr(space), ',')) out.operands.push_back(operand(word));
    }
    out.execute = find_instruction(out.parts, text);
    return out;
  }

  int register_index(const std::string& name) {
    if (name == "%tid.x") return kThreadX;
    if (name == "%ctaid.x") return kBlockX;
    if (name == "%ntid.x") return kBlockThreadsX;
    static const std::regex plain(R"(%[a-z]+\d+)");
    if (!std::regex_match(name, plain)) throw Error("unknown register " + name);
    return registers_.try_emplace(name, static_cast<int>(registers_.size()) + kSpecialRegisters).first->second;
  }

  static bool is_number(const std::string& word) {
    static const std::regex number(R"(-?\d+|0x[0-9a-fA-F]+|-?0[fF][0-9a-fA-F]{8}|-?0[dD][0-9a-fA-F]{16})");
    return std::regex_match(word, number);
  }
  static uint64_t number(const std::string& word) {
    if (word.size() > 2 && word[0] == '0' && std::string("fFdD").find(word[1]) != std::string::npos) {
      return std::stoull(word.substr(2), nullptr, 16);
    }
    if (word[0] == '-') return static_cast<uint64_t>(std::stoll(word));
    return std::stoull(word, nullptr, 0);
  }

  Operand operand(const std::string& word) {
    Operand out;
    if (word[0] == '{') {
      out.kind = OperandKind::kVector;
      for (const auto& element : split(word.substr(1, word.size() - 2), ',')) out.elements.push_back(operand(element));
    } else if (word[0] == '[') {
      out = address(trimmed(word.substr(1, word.size() - 2)));
    } else if (is_number(word)) {
      out.kind = OperandKind::kNumber;
      out.number = number(word);
    } else if (word[0] == '%' || word[0] == '!') {
      const auto bar = word.find('|');
      out.kind = OperandKind::kRegister;
      out.negated = word[0] == '!';
      out.index = register_index(trimmed(word.substr(out.negated ? 1 : 0, bar)));
      if (bar != std::string::npos) out.second = register_index(trimmed(word.substr(bar + 1)));
    } else {
      out = named(word);
    }
    return out;
  }

  // A label, the parameter, or shared memory, of which a kernel here has one piece.
  Operand named(const std::string& word) {
    Operand out;
    out.kind = OperandKind::kNumber;
    if (const auto label = labels_.find(word); label != labels_.end()) {
      out.kind = OperandKind::kLabel;
      out.number = label->second;
    } else if (word == parameter_name_) {
      out.number = kParameterBase;
    } else if (word.find("frn_shared_memory") != std::string::npos) {
      out.number = kSharedBase;
    } else {
      throw Error("unknown name " + word + " in " + program_.name);
    }
    return out;
  }

  Operand address(const std::string& word) {
    const auto plus = word.find('+');
    const std::string base = trimmed(word.substr(0, plus));
    Operand out;
    out.kind = OperandKind::kAddress;
    if (base[0] == '%') {
      out.index = register_index(base);
    } else {
      out.number = is_number(base) ? number(base) : named(base).number;
    }
    if (plus != std::string::npos) out.number += number(trimmed(word.substr(plus + 1)));
    return out;
  }

  Program program_;
  std::string parameter_name_;
  std::map<std::string, int> registers_;
  std::map<std::string, size_t> labels_;
};

}  // namespace

std::vector<Program> parse(const std::string& source) {
  const std::string text = without_comments(source);
  std::vector<Program> programs;
  static const std::string entry = ".entry ";
  for (size_t at = text.find(entry); at != std::string::npos; at = text.find(entry, at + 1)) {
    const size_t name = at + entry.size();
    const size_t open = text.find('(', name);
    const size_t close = text.find(')', open);
    size_t begin = text.find('{', close) + 1;
    size_t end = begin;
    for (int depth = 1; depth > 0; ++end) depth += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
    Parser parser(trimmed(text.substr(name, open - name)));
    parser.read_parameters(text.substr(open, close - open));
    programs.push_back(parser.read_body(text.substr(begin, end - 1 - begin)));
  }
  if (programs.empty()) throw Error("no kernel in this PTX");
  return programs;
}

}  // namespace frn::ptx
