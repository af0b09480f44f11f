#include "frn/cli/study_library.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "study_texts.h"

namespace frn::cli {
namespace {

toml::table parse(const StudyText& study) {
  try {
    return toml::parse(study.text);
  } catch (const toml::parse_error& error) {
    throw Error("study", fmt::format("{}: line {} is not TOML: {}", study.source, error.source().begin.line,
                                     error.description()));
  }
}

const StudyText* built_in(const std::vector<StudyText>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const StudyText& study) { return study.name == name; });
  return found == all.end() ? nullptr : &*found;
}

[[noreturn]] void unknown(const std::string& name, const std::vector<StudyText>& all) {
  std::vector<std::string_view> known;
  for (const auto& study : all) known.push_back(study.name);
  throw Error("study", fmt::format("no study is named '{}'{}; known: {}; or give the path of a TOML file", name,
                                   suggestion(name, known), join(known)));
}

StudyText with_base(StudyText study, const std::vector<StudyText>& all) {
  auto own = parse(study);
  const auto base_name = own["base"].value<std::string>();
  if (!base_name) return study;
  const auto* const base = built_in(all, *base_name);
  if (base == nullptr) unknown(*base_name, all);
  auto merged = parse(*base);
  own.erase("base");
  for (const auto& [key, node] : own) merged.insert_or_assign(key, node);
  std::ostringstream out;
  out << toml::toml_formatter{merged} << "\n";
  study.text = out.str();
  return study;
}

StudyText from_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("study", path.string() + ": cannot open the file");
  return {path.stem().string(), path.string(), {std::istreambuf_iterator<char>(file), {}}};
}

}  // namespace

std::vector<StudyText> built_in_studies() {
  std::vector<StudyText> out;
  for (const auto& [name, text] : kStudyTexts) {
    out.push_back({std::string(name), "studies/" + std::string(name) + ".toml", std::string(text)});
  }
  std::stable_partition(out.begin(), out.end(), [](const auto& study) { return study.name.starts_with("table"); });
  return out;
}

StudyText find_study(const std::string& name_or_path) {
  const auto all = built_in_studies();
  if (const auto* const study = built_in(all, name_or_path)) return with_base(*study, all);
  if (std::filesystem::is_regular_file(name_or_path)) return with_base(from_file(name_or_path), all);
  if (name_or_path.ends_with(".toml")) throw Error("study", name_or_path + ": there is no such file");
  unknown(name_or_path, all);
}

StudyHeading study_heading(const StudyText& study) {
  const auto table = parse(study);
  return {table["title"].value_or(std::string()), table["place"].value_or(std::string())};
}

bool is_epsilon(const StudyText& study) { return parse(study).contains("epsilons"); }

}  // namespace frn::cli
