// The instructions of PTX that the kernels' code is made of, as NVIDIA's "PTX ISA" defines them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "frn/kernels/types.h"
#include "tests/kernels/cuda/ptx/machine.h"

namespace frn::ptx {
namespace {

using Parts = std::vector<std::string>;

template <typename V>
V from_bits(uint64_t bits) {
  V out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}
template <typename V>
uint64_t to_bits(V value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

bool has(const Instruction& i, const char* part) {
  return std::find(i.parts.begin(), i.parts.end(), part) != i.parts.end();
}

template <typename V>
V get(const Machine& m, const Thread& t, const Operand& operand) {
  return from_bits<V>(m.value(t, operand));
}
void set_register(Thread& t, const Operand& operand, uint64_t bits) {
  t.registers[static_cast<size_t>(operand.index)] = bits;
}
template <typename V>
void set(Thread& t, const Operand& operand, V value) {
  set_register(t, operand, to_bits(value));
}
bool predicate(const Machine& m, const Thread& t, const Operand& operand) {
  return (m.value(t, operand) != 0) != operand.negated;
}

// f(V()) with the host's type for a type of PTX; b is for bits.
template <typename F>
void with_integer(const std::string& type, F f) {
  if (type == "u16" || type == "b16") return f(uint16_t());
  if (type == "s16") return f(int16_t());
  if (type == "u32" || type == "b32") return f(uint32_t());
  if (type == "s32") return f(int32_t());
  if (type == "u64" || type == "b64") return f(uint64_t());
  if (type == "s64") return f(int64_t());
  throw Error("unknown type ." + type);
}
template <typename F>
void with_number(const std::string& type, F f) {
  if (type == "f32") return f(float());
  if (type == "f64") return f(double());
  with_integer(type, f);
}
template <typename F>
void with_any(const std::string& type, F f) {
  if (type == "u8" || type == "b8") return f(uint8_t());
  if (type == "s8") return f(int8_t());
  with_number(type, f);
}

void move(Machine& m, Thread& t, const Instruction& i) {
  const Operand& to = i.operands[0];
  const Operand& from = i.operands[1];
  if (to.kind == OperandKind::kVector || from.kind == OperandKind::kVector) {
    const auto& elements = (to.kind == OperandKind::kVector ? to : from).elements;
    const auto bits = std::stoul(i.parts.back().substr(1)) / elements.size();
    const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    if (to.kind == OperandKind::kVector) {
      const uint64_t value = m.value(t, from);
      for (size_t k = 0; k < elements.size(); ++k) set_register(t, elements[k], value >> (bits * k) & mask);
      return;
    }
    uint64_t value = 0;
    for (size_t k = 0; k < elements.size(); ++k) value |= (m.value(t, elements[k]) & mask) << (bits * k);
    set_register(t, to, value);
    return;
  }
  if (i.parts.back() == "pred") return set_register(t, to, m.value(t, from));
  with_number(i.parts.back(), [&](auto v) { set(t, to, get<decltype(v)>(m, t, from)); });
}

// cvta: addresses here are of one space already.
void same_address(Machine& m, Thread& t, const Instruction& i) {
  set_register(t, i.operands[0], m.value(t, i.operands[1]));
}

std::string space_of(const Instruction& i) {
  for (const char* space : {"global", "shared", "param"}) {
    if (has(i, space)) return space;
  }
  return "";
}

void load_or_store(Machine& m, Thread& t, const Instruction& i) {
  const bool load = i.parts[0] == "ld";
  const Operand& address = i.operands[load ? 1 : 0];
  const Operand& data = i.operands[load ? 0 : 1];
  const std::vector<Operand> one{data};
  const auto& elements = data.kind == OperandKind::kVector ? data.elements : one;
  with_any(i.parts.back(), [&](auto v) {
    using V = decltype(v);
    unsigned char* at = m.memory(t, address, sizeof(V) * elements.size(), space_of(i), !load);
    for (const auto& element : elements) {
      if (load) {
        std::memcpy(&v, at, sizeof v);
        // Sign or zero extended to the register, as the type says.
        if constexpr (std::is_integral_v<V> && std::is_signed_v<V>) {
          set_register(t, element, static_cast<uint64_t>(static_cast<int64_t>(v)));
        } else {
          set(t, element, v);
        }
      } else {
        v = get<V>(m, t, element);
        std::memcpy(at, &v, sizeof v);
      }
      at += sizeof v;
    }
  });
}

template <typename V>
V arithmetic(const std::string& op, V a, V b, const Instruction& i) {
  if constexpr (std::is_floating_point_v<V>) {
    if (op == "add") return a + b;
    if (op == "sub") return a - b;
    if (op == "mul") return a * b;
    if (op == "div") return a / b;
    if (op == "min") return std::isnan(a) ? b : std::isnan(b) ? a : std::min(a, b);
    if (op == "max") return std::isnan(a) ? b : std::isnan(b) ? a : std::max(a, b);
  } else {
    using U = std::make_unsigned_t<V>;
    if (op == "add") return static_cast<V>(static_cast<U>(a) + static_cast<U>(b));
    if (op == "sub") return static_cast<V>(static_cast<U>(a) - static_cast<U>(b));
    if (op == "div" && b != 0) return static_cast<V>(a / b);
    if (op == "rem" && b != 0) return static_cast<V>(a % b);
    if (op == "min") return std::min(a, b);
    if (op == "max") return std::max(a, b);
    if (op == "and") return static_cast<V>(a & b);
    if (op == "or") return static_cast<V>(a | b);
    if (op == "xor") return static_cast<V>(a ^ b);
  }
  throw Error("cannot compute `" + i.text + "`");
}
void binary(Machine& m, Thread& t, const Instruction& i) {
  if (i.parts.back() == "pred") {
    const bool a = predicate(m, t, i.operands[1]);
    const bool b = predicate(m, t, i.operands[2]);
    const std::string& op = i.parts[0];
    return set_register(t, i.operands[0], op == "and" ? a && b : op == "or" ? a || b : a != b);
  }
  with_number(i.parts.back(), [&](auto v) {
    using V = decltype(v);
    set(t, i.operands[0], arithmetic<V>(i.parts[0], get<V>(m, t, i.operands[1]), get<V>(m, t, i.operands[2]), i));
  });
}

template <typename V>
struct Twice;
template <>
struct Twice<uint16_t> {
  using type = uint32_t;
};
template <>
struct Twice<int16_t> {
  using type = int32_t;
};
template <>
struct Twice<uint32_t> {
  using type = uint64_t;
};
template <>
struct Twice<int32_t> {
  using type = int64_t;
};
template <>
struct Twice<uint64_t> {
  using type = unsigned __int128;
};
template <>
struct Twice<int64_t> {
  using type = __int128;
};

// mul and mad of integers: .lo, .hi or .wide of the whole product.
void multiply(Machine& m, Thread& t, const Instruction& i) {
  with_integer(i.parts.back(), [&](auto v) {
    using V = decltype(v);
    using W = typename Twice<V>::type;
    const W product = static_cast<W>(get<V>(m, t, i.operands[1])) * static_cast<W>(get<V>(m, t, i.operands[2]));
    const bool add = i.parts[0] == "mad";
    if (has(i, "wide")) {
      if constexpr (sizeof(W) <= sizeof(uint64_t)) {
        using U = std::make_unsigned_t<W>;
        const W more = add ? get<W>(m, t, i.operands[3]) : W(0);
        return set(t, i.operands[0], static_cast<W>(static_cast<U>(product) + static_cast<U>(more)));
      }
      throw Error("no type for `" + i.text + "`");
    }
    using U = std::make_unsigned_t<V>;
    const auto part = has(i, "hi") ? static_cast<U>(product >> (8 * sizeof(V))) : static_cast<U>(product);
    const V more = add ? get<V>(m, t, i.operands[3]) : V(0);
    set(t, i.operands[0], static_cast<V>(static_cast<U>(part + static_cast<U>(more))));
  });
}

void multiply_add(Machine& m, Thread& t, const Instruction& i) {
  with_number(i.parts.back(), [&](auto v) {
    using V = decltype(v);
    if constexpr (std::is_floating_point_v<V>) {
      set(t, i.operands[0],
          std::fma(get<V>(m, t, i.operands[1]), get<V>(m, t, i.operands[2]), get<V>(m, t, i.operands[3])));
    }
  });
}

void unary(Machine& m, Thread& t, const Instruction& i) {
  const std::string& op = i.parts[0];
  if (i.parts.back() == "pred") return set_register(t, i.operands[0], predicate(m, t, i.operands[1]) ? 0 : 1);
  with_number(i.parts.back(), [&](auto v) {
    using V = decltype(v);
    const V a = get<V>(m, t, i.operands[1]);
    if constexpr (std::is_floating_point_v<V>) {
      if (op == "neg") return set(t, i.operands[0], -a);
      if (op == "abs") return set(t, i.operands[0], std::abs(a));
      if (op == "sqrt") return set(t, i.operands[0], std::sqrt(a));
      if (op == "rcp") return set(t, i.operands[0], V(1) / a);
    } else {
      using U = std::make_unsigned_t<V>;
      if (op == "not") return set(t, i.operands[0], static_cast<V>(~a));
      if (op == "neg") return set(t, i.operands[0], static_cast<V>(U(0) - static_cast<U>(a)));
      if (op == "abs")
        return set(t, i.operands[0], static_cast<V>(a < 0 ? U(0) - static_cast<U>(a) : static_cast<U>(a)));
    }
    throw Error("cannot compute `" + i.text + "`");
  });
}

// Shifts by more than the width give 0, or the sign.
void shift(Machine& m, Thread& t, const Instruction& i) {
  with_integer(i.parts.back(), [&](auto v) {
    using V = decltype(v);
    constexpr uint32_t kBits = 8 * sizeof(V);
    const V a = get<V>(m, t, i.operands[1]);
    const auto by = get<uint32_t>(m, t, i.operands[2]);
    if (i.parts[0] == "shl") {
      return set(t, i.operands[0], static_cast<V>(by >= kBits ? 0 : static_cast<std::make_unsigned_t<V>>(a) << by));
    }
    if (by >= kBits) return set(t, i.operands[0], static_cast<V>(a < 0 ? -1 : 0));
    set(t, i.operands[0], static_cast<V>(a >> by));
  });
}

template <typename V>
bool compare(const std::string& op, V a, V b, const Instruction& i) {
  const std::string plain = op.size() == 3 && op.back() == 'u' && std::is_floating_point_v<V> ? op.substr(0, 2) : op;
  bool unordered = false;
  if constexpr (std::is_floating_point_v<V>) unordered = std::isnan(a) || std::isnan(b);
  if (op == "num") return !unordered;
  if (op == "nan") return unordered;
  if (unordered) return plain != op || op == "neu";
  if (plain == "eq") return a == b;
  if (plain == "ne") return a != b;
  if (plain == "lt" || plain == "lo") return a < b;
  if (plain == "le" || plain == "ls") return a <= b;
  if (plain == "gt" || plain == "hi") return a > b;
  if (plain == "ge" || plain == "hs") return a >= b;
  throw Error("unknown comparison `" + i.text + "`");
}
void set_predicate(Machine& m, Thread& t, const Instruction& i) {
  with_number(i.parts.back(), [&](auto v) {
    using V = decltype(v);
    bool result = compare<V>(i.parts[1], get<V>(m, t, i.operands[1]), get<V>(m, t, i.operands[2]), i);
    if (i.parts.size() == 4) {  // combined with another predicate
      const bool other = predicate(m, t, i.operands[3]);
      const std::string& op = i.parts[2];
      result = op == "and" ? result && other : op == "or" ? result || other : result != other;
    }
    set_register(t, i.operands[0], result ? 1 : 0);
  });
}

void select(Machine& m, Thread& t, const Instruction& i) {
  const Operand& chosen = i.operands[predicate(m, t, i.operands[3]) ? 1 : 2];
  with_number(i.parts.back(), [&](auto v) { set(t, i.operands[0], get<decltype(v)>(m, t, chosen)); });
}

void convert(Machine& m, Thread& t, const Instruction& i) {
  const std::string& to = i.parts[i.parts.size() - 2];
  const std::string& from = i.parts.back();
  const bool halves = to == "f16" || to == "bf16" || from == "f16" || from == "bf16";
  if (halves) {
    if (to == "f32") {
      const auto bits = get<uint16_t>(m, t, i.operands[1]);
      return set(t, i.operands[0],
                 from == "f16" ? to_float(kernels::Float16{bits}) : to_float(kernels::BFloat16{bits}));
    }
    if (from != "f32" || !has(i, "rn")) throw Error("cannot convert `" + i.text + "`");
    kernels::Float16 half{};
    kernels::BFloat16 brain{};
    const auto value = get<float>(m, t, i.operands[1]);
    kernels::from_float(value, half);
    kernels::from_float(value, brain);
    return set(t, i.operands[0], to == "f16" ? half.bits : brain.bits);
  }
  with_any(to, [&](auto d) {
    with_any(from, [&](auto a) {
      using D = decltype(d);
      using S = decltype(a);
      if (std::is_floating_point_v<S> && std::is_integral_v<D>) throw Error("cannot convert `" + i.text + "`");
      // s8 keeps its sign, as cvt does. NOLINTNEXTLINE(bugprone-signed-char-misuse)
      const auto converted = static_cast<D>(get<S>(m, t, i.operands[1]));
      if constexpr (std::is_integral_v<D> && std::is_signed_v<D>) {
        set_register(t, i.operands[0], static_cast<uint64_t>(static_cast<int64_t>(converted)));
      } else {
        set(t, i.operands[0], converted);
      }
    });
  });
}

void branch(Machine&, Thread& t, const Instruction& i) { t.next = i.operands[0].number; }
void finish(Machine&, Thread& t, const Instruction&) { t.wait = Wait::kDone; }
void barrier(Machine&, Thread& t, const Instruction&) { t.wait = Wait::kBarrier; }

void shuffle(Machine& m, Thread& t, const Instruction& i) {
  if (!has(i, "bfly") || get<uint32_t>(m, t, i.operands[3]) != 31) throw Error("cannot shuffle `" + i.text + "`");
  t.wait = Wait::kShuffle;
  t.value = get<uint32_t>(m, t, i.operands[1]);
  t.step = get<uint32_t>(m, t, i.operands[2]);
  t.mask = get<uint32_t>(m, t, i.operands[4]);
  t.result = i.operands[0].index;
  t.result_valid = i.operands[0].second;
  if ((t.mask >> (t.index % 32) & 1) == 0) m.fail(i, "a lane is not in the mask of its shuffle");
}

const std::map<std::string, Execute>& table() {
  static const std::map<std::string, Execute> all{
      {"mov", move},    {"cvta", same_address}, {"ld", load_or_store},   {"st", load_or_store}, {"add", binary},
      {"sub", binary},  {"div", binary},        {"rem", binary},         {"min", binary},       {"max", binary},
      {"and", binary},  {"or", binary},         {"xor", binary},         {"mad", multiply},     {"fma", multiply_add},
      {"neg", unary},   {"abs", unary},         {"not", unary},          {"sqrt", unary},       {"rcp", unary},
      {"shl", shift},   {"shr", shift},         {"setp", set_predicate}, {"selp", select},      {"cvt", convert},
      {"bra", branch},  {"ret", finish},        {"exit", finish},        {"bar", barrier},      {"barrier", barrier},
      {"shfl", shuffle}};
  return all;
}

// Every part of an opcode that is understood; .ftz and .approx, say, are not, and would change results.
const std::set<std::string>& known_parts() {
  static const std::set<std::string> all{
      "global", "shared", "param", "nc",  "v2",  "v4",  "lo",  "hi",   "wide", "rn",  "to",  "uni", "sync",
      "bfly",   "eq",     "ne",    "lt",  "le",  "gt",  "ge",  "equ",  "neu",  "ltu", "leu", "gtu", "geu",
      "num",    "nan",    "ls",    "hs",  "and", "or",  "xor", "pred", "b8",   "u8",  "s8",  "b16", "u16",
      "s16",    "b32",    "u32",   "s32", "b64", "u64", "s64", "f16",  "bf16", "f32", "f64", "cta", "aligned"};
  return all;
}

}  // namespace

Execute find_instruction(const Parts& parts, const std::string& text) {
  const bool float_multiply = parts[0] == "mul" && parts.back()[0] == 'f';
  const auto found = parts[0] == "mul" ? table().find(float_multiply ? "add" : "mad") : table().find(parts[0]);
  if (found == table().end()) throw Error("unknown instruction `" + text + "`");
  for (size_t i = 1; i < parts.size(); ++i) {
    if (known_parts().count(parts[i]) == 0) throw Error("unknown part ." + parts[i] + " of `" + text + "`");
  }
  return found->second;
}

}  // namespace frn::ptx
