// The folder of a study: study.toml (its definition), study.json (how it was started), and cells/NAME/, a run directory
// each.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "frn/study/cells.h"

namespace frn::study {

// Names and values, in order.
using Properties = std::vector<std::pair<std::string, std::string>>;

// How a study was started, and by what.
struct Record {
  std::string study;
  std::string scale;
  int64_t seeds = 1;              // the most that a cell was asked for
  std::set<std::string> asked{};  // names of all cells that were asked for, by this call or an earlier one
  Settings given;                 // settings from the command line, for every cell
  Properties provenance;          // commit, version, machine
  // Cells that are the same training as another by construction, with the one that was trained (twins.h). Folders of
  // earlier versions have none.
  std::map<std::string, std::string> same_as{};
};

// While a study is under way.
inline constexpr std::string_view kStudyLock = "study.lock";

struct Folder {
  std::filesystem::path path;

  std::filesystem::path definition() const { return path / "study.toml"; }
  std::filesystem::path record() const { return path / "study.json"; }
  std::filesystem::path cell(const std::string& name) const { return path / "cells" / name; }
  // What a cell's process printed, and why it could not end as a run does.
  std::filesystem::path output(const std::string& name) const { return cell(name) / "output.txt"; }
  std::filesystem::path failure(const std::string& name) const { return cell(name) / "failure.txt"; }

  bool holds_study() const { return std::filesystem::exists(record()); }
  // Whether the cell was begun.
  bool has_cell(const std::string& name) const { return std::filesystem::exists(cell(name)); }
  // Throws frn::Error when there is no study but anything else that is not ours: a study would write among files of
  // somebody's, and over those of its names. `definition`: of the study that is to begin.
  void check_free(const std::string& definition) const;
  // The folder itself, with nothing in it.
  void make() const;
  // Makes the folder; what an earlier call asked for is kept. Both throw frn::Error when that cannot be done.
  void write(const std::string& definition, const Record& record) const;
  // Throws frn::Error when the cell was begun with another value of a setting that `may_change` does not allow.
  void check_same_settings(const Cell& cell, const std::function<bool(const std::string&)>& may_change) const;
  // Throw frn::Error when there is no study, or it cannot be read.
  Record read_record() const;
  Definition read_definition() const;
};

}  // namespace frn::study
