#include "frn/study/folder.h"

#include <algorithm>

#include "frn/core/error.h"
#include "frn/core/value.h"
#include "frn/core/whole_file.h"
#include "frn/study/plain_texts.h"

namespace frn::study {
namespace {

// Of a start that was killed before it wrote study.json.
bool is_left_over(const std::filesystem::directory_entry& entry, const std::string& definition) {
  const auto name = entry.path().filename().string();
  std::error_code error;
  if (name == "cells") return entry.is_directory(error) && std::filesystem::is_empty(entry.path(), error) && !error;
  if (name == "study.toml") return contents_of(entry.path()) == definition;
  return name == kStudyLock || is_partial_file(name);
}

}  // namespace

void Folder::check_free(const std::string& definition) const {
  if (holds_study()) return;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_directory(status)) {
    throw Error("study", path.string() + " must be a folder but is a file; give another --out");
  }
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (is_left_over(entry, definition)) continue;
    throw Error("study", path.string() + " must be empty or a new folder but holds " +
                             entry.path().filename().string() + " and no study (no study.json); give another --out");
  }
}

void Folder::make() const {
  std::error_code error;
  std::filesystem::create_directories(path / "cells", error);
  if (error) throw Error("study", "cannot make the folder " + path.string() + ": " + error.message());
}

void Folder::write(const std::string& text, const Record& now) const {
  auto study = now;
  if (holds_study()) {
    auto before = read_record();
    study.seeds = std::max(study.seeds, before.seeds);
    study.asked.merge(before.asked);
    study.same_as.merge(before.same_as);
  }
  make();
  Value out{{"study", study.study}, {"scale", study.scale}, {"seeds", study.seeds}};
  out["asked"] = Value::list_of(study.asked);
  out["given"] = Value::empty_table();
  for (const auto& [key, value] : study.given) out["given"][key] = value;
  out["provenance"] = Value::empty_table();
  for (const auto& [key, value] : study.provenance) out["provenance"][key] = value;
  for (const auto& [cell, trained] : study.same_as) out["same_as"][cell] = trained;
  write_whole_file(definition(), text, "study");
  write_whole_file(record(), to_json(out, 2) + "\n", "study");
}

void Folder::check_same_settings(const Cell& cell, const std::function<bool(const std::string&)>& may_change) const {
  const auto path = this->cell(cell.name) / "cell.toml";
  if (!std::filesystem::exists(path)) return;
  const auto before = read_settings(contents_of(path));
  for (const auto* one : {&before, &cell.settings}) {
    const auto& other = one == &before ? cell.settings : before;
    for (const auto& [key, value] : *one) {
      const auto found = other.find(key);
      if ((found != other.end() && found->second == value) || may_change(key)) continue;
      throw Error("study", this->cell(cell.name).string() + " was begun with another " + key +
                               "; give another --out, or delete that folder");
    }
  }
}

Record Folder::read_record() const {
  if (!holds_study()) {
    throw Error("study", path.string() + " holds no study: there is no study.json; frn study --out makes one");
  }
  try {
    const auto in = parse_json(contents_of(record()));
    check_plain_texts(in, record().string());
    Record out;
    out.study = in.at("study").as_text();
    out.scale = in.at("scale").as_text();
    out.seeds = in.at("seeds").as_whole();
    if (out.seeds < 1 || out.seeds > kMostSeeds)
      throw ValueError("seeds must be from 1 to " + std::to_string(kMostSeeds));
    if (const auto* asked = in.find("asked")) {
      for (const auto& cell : asked->as_list()) out.asked.insert(cell.as_text());
    }
    if (const auto* same = in.find("same_as")) {
      for (const auto& [cell, trained] : same->as_table()) out.same_as[cell] = trained.as_text();
    }
    for (const auto& [key, value] : in.at("given").as_table()) out.given[key] = value.as_text();
    for (const auto& [key, value] : in.at("provenance").as_table()) {
      out.provenance.emplace_back(key, value.as_text());
    }
    return out;
  } catch (const ValueError& error) {
    throw Error("study", record().string() + " is damaged (" + error.what() + "); start the study again to write it");
  }
}

Definition Folder::read_definition() const {
  return parse_study(contents_of(definition()), read_record().study, definition().string());
}

}  // namespace frn::study
