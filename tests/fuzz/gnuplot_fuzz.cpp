// Whatever bytes a chart's texts have, gnuplot's script is the same but for the strings in it, and each string is the
// text: none ends early, none runs on.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "frn/core/text.h"
#include "frn/report/gnuplot_script.h"

namespace {

// Not assert: the release flags would remove it.
void require(bool condition) {
  if (!condition) std::abort();
}

// A script as gnuplot sees it: the strings, and what stands around them.
struct Script {
  std::string around;
  std::vector<std::string> strings;  // in double quotes, with escapes taken out
};

// gnuplot's rules: a line ends every command, whatever is open. In double quotes a backslash goes with up to three
// octal digits, four when the first is 0, and backquotes and macros are replaced before anything else; in single quotes
// nothing means anything but the quote.
Script read(const std::string& script) {
  Script out;
  for (size_t i = 0; i < script.size(); ++i) {
    const char c = script[i];
    require(c != '`' && c != '@' && c != '!' && c != '\\' && c != '\0');
    out.around += c;
    if (c == '\'') {
      while (script.at(++i) != '\'') {
        require(script[i] != '\n' && script[i] != '"');
        out.around += script[i];
      }
    } else if (c == '"') {
      std::string text;
      while (script.at(++i) != '"') {
        require(script[i] != '\n' && script[i] != '\r' && script[i] != '\0' && script[i] != '`' && script[i] != '@');
        if (script[i] != '\\') {
          text += script[i];
          continue;
        }
        int byte = 0;
        size_t digits = 0;
        const size_t most = script.at(i + 1) == '0' ? 4 : 3;
        for (; digits < most && script.at(i + 1) >= '0' && script.at(i + 1) <= '7'; ++digits) {
          byte = 8 * byte + (script[++i] - '0');
        }
        require(digits > 0);
        require(byte > 0 && byte < 256 && byte != '\n');
        text += static_cast<char>(byte);
      }
      out.strings.push_back(text);
    }
  }
  return out;
}

frn::report::LineChart chart_of(const std::array<std::string, 6>& texts, uint8_t kind) {
  using frn::report::Legend;
  frn::report::LineChart chart{texts[0], texts[1], texts[2], {{texts[3], {1, 2}, {3, 4}}, {texts[4], {1, 2}, {1, 2}}}};
  chart.legend = std::array{Legend::kRight, Legend::kAbove, Legend::kAtEnds}[kind % 3];
  if ((kind & 4U) != 0) chart.level = {1.5, texts[5]};
  if ((kind & 8U) != 0) chart.inset = {1, 2, 3, 4};
  return chart;
}

// A cut text is the beginning of what was asked for.
bool is_shown(const std::string& shown, const std::string& text) {
  const auto line = frn::one_line(text);
  return shown == line || (shown.ends_with("...") && line.starts_with(shown.substr(0, shown.size() - 3)));
}

}  // namespace

// libFuzzer's name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  // The first byte chooses the chart; 0xff, which no text has, stands between texts.
  std::array<std::string, 6> texts;
  std::array<std::string, 6> harmless;
  size_t text = 0;
  for (size_t i = 1; i < size; ++i) {
    if (bytes[i] == 0xff && text + 1 < texts.size())
      ++text;
    else
      texts[text] += static_cast<char>(bytes[i]);
  }
  for (size_t i = 0; i < texts.size(); ++i) harmless[i] = std::string(texts[i].size(), 'x');
  const auto hostile = read(gnuplot_script(chart_of(texts, bytes[0])));
  require(hostile.around == read(gnuplot_script(chart_of(harmless, bytes[0]))).around);
  for (const auto& shown : hostile.strings) {
    bool known = false;
    for (const auto& wanted : texts) known = known || is_shown(shown, wanted);
    require(known);
  }
  return 0;
}
