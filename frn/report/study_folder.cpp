#include "frn/report/study_folder.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "frn/core/error.h"
#include "frn/core/whole_file.h"

namespace frn::report {
namespace {

// Keeps the order in which things were written.
using Json = nlohmann::ordered_json;

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

void StudyFolder::write(const std::string& text, const StudyRecord& now) const {
  auto study = now;
  if (holds_study()) {
    auto before = read_record();
    study.seeds = std::max(study.seeds, before.seeds);
    study.asked.merge(before.asked);
    study.same_as.merge(before.same_as);
  }
  std::error_code error;
  std::filesystem::create_directories(path / "cells", error);
  if (error) throw Error("study", "cannot make the folder " + path.string() + ": " + error.message());
  Json out{{"study", study.study}, {"scale", study.scale}, {"seeds", study.seeds}};
  out["asked"] = study.asked;
  out["given"] = Json::object();
  for (const auto& [key, value] : study.given) out["given"][key] = value;
  out["provenance"] = Json::object();
  for (const auto& [key, value] : study.provenance) out["provenance"][key] = value;
  if (!study.same_as.empty()) out["same_as"] = study.same_as;
  write_whole_file(definition(), text, "study");
  write_whole_file(record(), out.dump(2) + "\n", "study");
}

StudyRecord StudyFolder::read_record() const {
  if (!holds_study()) {
    throw Error("study", path.string() + " holds no study: there is no study.json; frn study --out makes one");
  }
  try {
    const auto in = Json::parse(contents(record()));
    StudyRecord out;
    out.study = in.at("study").get<std::string>();
    out.scale = in.at("scale").get<std::string>();
    out.seeds = in.at("seeds").get<int64_t>();
    if (in.contains("asked")) out.asked = in.at("asked").get<std::set<std::string>>();
    if (in.contains("same_as")) out.same_as = in.at("same_as").get<std::map<std::string, std::string>>();
    for (const auto& [key, value] : in.at("given").items()) out.given[key] = value.get<std::string>();
    for (const auto& [key, value] : in.at("provenance").items()) {
      out.provenance.emplace_back(key, value.get<std::string>());
    }
    return out;
  } catch (const Json::exception& error) {
    throw Error("study", record().string() + " is damaged (" + error.what() + "); start the study again to write it");
  }
}

StudyDefinition StudyFolder::read_definition() const {
  return parse_study(contents(definition()), read_record().study, definition().string());
}

}  // namespace frn::report
