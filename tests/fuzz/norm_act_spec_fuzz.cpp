// Whatever the text, NormActSpec::parse gives a spec, or a frn::Error; a spec prints to a text that parses to itself.
//
// The true table is linked with torch. This one has a row of every kind that the parser tells apart: no options,
// numbers, whole numbers, words, both, and options that ask something of each other.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "frn/core/error.h"
#include "frn/nn/norm_act_spec.h"

namespace frn {
namespace {

constexpr size_t kLongestMessage = 4096;
constexpr std::array<std::string_view, 2> kLearned{"learned", "learned_exp"};
constexpr std::array<std::string_view, 2> kShapes{"scalar", "channel"};

constexpr OptionRow kEps{"eps", "", NumberKind::kReal, 1e-30, 1e6, std::nullopt, kLearned};
constexpr OptionRow kEpsShape{"eps_shape", "", NumberKind::kNone, 0, 0, std::nullopt, kShapes};
constexpr OptionRow kGroups{"groups", "", NumberKind::kInteger, 1, 1 << 20, std::nullopt, {}};
constexpr OptionRow kGroupSize{"group_size", "", NumberKind::kInteger, 1, 1 << 20, 32, {}};
constexpr OptionRow kMomentum{"momentum", "", NumberKind::kReal, 0, 1, 0.1, {}};
constexpr OptionRow kWarmup{"warmup", "", NumberKind::kInteger, 0, 1e12, 5000, {}};

constexpr std::array kChannelOptions{kEps, kEpsShape};
constexpr std::array kSizedOptions{kEps, kGroups, kGroupSize};
constexpr std::array kBatchOptions{kEps, kMomentum, kWarmup};

void check_groups(const NormActSpec& spec) {
  if (spec.has("groups") && spec.has("group_size")) throw Error("norm_act_spec", "one of groups and group_size");
}

constexpr std::array<NormRow, 4> kNorms{{
    {"frn", "", false, GroupRule::kChannel, false, 1e-6, kChannelOptions, nullptr, nullptr},
    {"gn", "", true, GroupRule::kSized, false, 1e-5, kSizedOptions, check_groups, nullptr},
    {"bn", "", true, GroupRule::kNone, true, 1e-5, kBatchOptions, nullptr, nullptr},
    {"none", "", false, GroupRule::kNone, false, 0, {}, nullptr, nullptr},
}};

// Not assert: the release flags would remove it.
void require(bool condition) {
  if (!condition) std::abort();
}

void use(const NormActSpec& spec) {
  require(NormActSpec::parse(spec.to_string()) == spec);
  require(std::isfinite(spec.eps()));
  try {
    const int64_t groups = spec.groups(96);
    require(groups >= 1 && 96 % groups == 0);
  } catch (const Error&) {
    require(96 % spec.channel_multiple() != 0);
  }
  require(spec.with_activation("relu").activation().name == "relu");
}

}  // namespace

std::span<const NormRow> norm_table() { return kNorms; }

}  // namespace frn

// libFuzzer's name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    frn::use(frn::NormActSpec::parse(text));
  } catch (const frn::Error& error) {
    frn::require(std::strlen(error.what()) < frn::kLongestMessage);
  }
  return 0;
}
