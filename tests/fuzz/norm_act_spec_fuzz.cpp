// Whatever the text, NormActSpec::parse gives a spec, or a frn::Error; a spec prints to a text that parses to itself.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "frn/core/error.h"
#include "frn/core/value.h"
#include "frn/spec/norm_act_spec.h"
#include "frn/spec/spec_json.h"

namespace frn {
namespace {

constexpr size_t kLongestMessage = 4096;

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
  require(parse_json(spec_json(spec))["text"].as_text() == spec.to_string());
  require(spec.with_activation("relu").activation().name == "relu");
}

}  // namespace
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
