// Gets a data set that the caller describes: fetch_set SERVER PARENT FILE BYTES SHA256 FOLDER READY READY_BYTES
// [THROW_AFTER]. FILE is an archive when it is called .tar.gz. After so many bytes who watches the progress has had
// enough and throws. Driven by tests/e2e/download.py.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "frn/core/error.h"
#include "frn/fetch/published.h"

namespace {

void run(int argc, char** argv) {
  const std::string file = argv[3];
  const frn::fetch::Published set{"test",
                                  "test",
                                  "",
                                  "",
                                  {{file, {std::strtoull(argv[4], nullptr, 10), "", argv[5]}}},
                                  file.ends_with(".tar.gz"),
                                  argv[6],
                                  {{argv[7], std::strtoull(argv[8], nullptr, 10)}}};
  const uint64_t enough = argc == 10 ? std::strtoull(argv[9], nullptr, 10) : UINT64_MAX;
  const auto progress = [&](uint64_t done, uint64_t) {
    if (done > enough) throw frn::Error("fetch_set", "had enough after " + std::to_string(done) + " bytes");
  };
  std::cout << frn::fetch::get_published(set, argv[2], argv[1], progress).string() << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9 && argc != 10) return 2;
  try {
    run(argc, argv);
  } catch (const frn::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
