// fetch/ brings files from the web onto a disk: transfers (download), archives (archive), and the data sets that their
// owners publish (published). It knows nothing of what the files hold.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frn/fetch/download.h"

namespace frn::fetch {

struct PublishedFile {
  std::string name;
  Expected expected;
};

struct Published {
  std::string_view name;    // "cifar10"
  std::string_view kind;    // of `frn train --data KIND:DIR`
  std::string_view server;  // the owner's
  std::string_view terms;
  std::vector<PublishedFile> files;  // to fetch
  bool archive;                      // files are .tar.gz that hold `folder`; else they are the set, put into `folder`
  std::string_view folder;           // what appears
  std::vector<std::pair<std::string, uint64_t>> ready;  // what is then in it, and how many bytes
};

std::span<const Published> published_sets();
// Throws frn::Error that lists the known ones.
const Published& find_published(std::string_view name);

// Makes `parent`/set.folder and gives it. Fetches what is missing from `server` (empty: the owner's), checks it, and
// puts the folder in place in one step. A set that is there already is left as it is.
std::filesystem::path get_published(const Published& set, const std::filesystem::path& parent,
                                    const std::string& server = "", const Progress& progress = {});

}  // namespace frn::fetch
