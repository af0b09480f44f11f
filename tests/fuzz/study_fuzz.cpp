// Whatever the text, parse_study gives a study or one frn::Error of one line. Every text of a study is one line, and
// each of its scales has cells whose settings read back as they are.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/study/cells.h"

namespace {

using frn::study::Definition;

constexpr size_t kLongestMessage = 1 << 16;  // names of a long file stand in it

// Not assert: the release flags would remove it.
void require(bool condition) {
  if (!condition) std::abort();
}

void check_texts(const Definition& study) {
  const auto check = [](const std::string& text) { require(!frn::has_control_characters(text)); };
  for (const auto* lines : {&study.rows, &study.columns}) {
    for (const auto& line : *lines) {
      for (const auto* text : {&line.name, &line.title, &line.words}) check(*text);
    }
  }
  for (const auto* text : {&study.title, &study.place, &study.column_title, &study.reference}) check(*text);
  for (const auto& metric : study.metrics) check(metric.key + metric.title);
  for (const auto& claim : study.claims) check(claim.text + claim.place);
  for (const auto& figure : study.figures) check(figure.file + figure.caption + figure.x_label);
}

void use(const Definition& whole) {
  check_texts(whole);
  for (const auto& scale : whole.scales) {
    const auto study = at_scale(whole, scale.name);
    check_texts(study);
    const auto cells = cells_of(study, scale, 2, {{"data", "'random'"}});
    require(cells.size() == 2 * study.rows.size() * study.columns.size());
    for (const auto& cell : cells) {
      require(!cell.name.empty() && cell.name.find('/') == std::string::npos);
      require(frn::study::read_settings(frn::study::to_toml(cell.settings)).size() == cell.settings.size());
    }
  }
}

}  // namespace

// libFuzzer's name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  try {
    use(frn::study::parse_study(text, "fuzz", "fuzz.toml"));
  } catch (const frn::Error& error) {
    require(std::strlen(error.what()) < kLongestMessage && std::strchr(error.what(), '\n') == nullptr);
  }
  return 0;
}
