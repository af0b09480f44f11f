#include "frn/study/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/core/value.h"
#include "frn/core/whole_file.h"
#include "frn/study/plain_texts.h"
#include "study_texts.h"

namespace frn::study {
namespace {

Value parse(const Text& study) { return parse_toml_of(study.source, study.text, "study"); }

std::string text_in(const Value& table, const char* key) {
  const auto* const found = table.find(key);
  return found == nullptr || found->text() == nullptr ? "" : *found->text();
}

const Text* built_in(const std::vector<Text>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Text& study) { return study.name == name; });
  return found == all.end() ? nullptr : &*found;
}

[[noreturn]] void unknown(const std::string& name, const std::vector<Text>& all) {
  std::vector<std::string_view> known;
  for (const auto& study : all) known.push_back(study.name);
  throw Error("study", fmt::format("no study is named '{}'{}; known: {}; or give the path of a TOML file", name,
                                   suggestion(name, known), join(known)));
}

Text with_base(Text study, const std::vector<Text>& all) {
  const auto own = parse(study);
  const auto base_name = text_in(own, "base");
  if (base_name.empty()) return study;
  const auto* const base = built_in(all, base_name);
  if (base == nullptr) unknown(base_name, all);
  auto merged = parse(*base);
  for (const auto& [key, value] : own.as_table()) merged[key] = value;
  merged.erase("base");
  study.text = to_toml_file(merged);
  return study;
}

Text from_file(const std::filesystem::path& path) {
  if (!std::ifstream(path)) throw Error("study", path.string() + ": cannot open the file");
  return {path.stem().string(), path.string(), contents_of(path)};
}

}  // namespace

std::vector<Text> built_in_studies() {
  std::vector<Text> out;
  for (const auto& [name, text] : kStudyTexts) {
    out.push_back({std::string(name), "studies/" + std::string(name) + ".toml", std::string(text)});
  }
  std::stable_partition(out.begin(), out.end(), [](const auto& study) { return study.name.starts_with("table"); });
  return out;
}

Text find_study(const std::string& name_or_path) {
  const auto all = built_in_studies();
  if (const auto* const study = built_in(all, name_or_path)) return with_base(*study, all);
  if (std::filesystem::is_regular_file(name_or_path)) return with_base(from_file(name_or_path), all);
  if (name_or_path.ends_with(".toml")) throw Error("study", name_or_path + ": there is no such file");
  unknown(name_or_path, all);
}

Heading heading_of(const Text& study) {
  const auto table = parse(study);
  return {text_in(table, "title"), text_in(table, "place")};
}

bool is_epsilon(const Text& study) { return parse(study).find("epsilons") != nullptr; }

}  // namespace frn::study
