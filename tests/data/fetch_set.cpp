// Gets a data set that the caller describes: fetch_set SERVER PARENT FILE BYTES SHA256 FOLDER READY READY_BYTES. FILE
// is an archive when it is called .tar.gz. Driven by tests/e2e/download.py.
#include <cstdlib>
#include <iostream>
#include <string>

#include "frn/core/error.h"
#include "frn/data/published.h"

int main(int argc, char** argv) {
  if (argc != 9) return 2;
  const std::string file = argv[3];
  const frn::data::Published set{"test",
                                 "test",
                                 "",
                                 "",
                                 {{file, {std::strtoull(argv[4], nullptr, 10), "", argv[5]}}},
                                 file.ends_with(".tar.gz"),
                                 argv[6],
                                 {{argv[7], std::strtoull(argv[8], nullptr, 10)}}};
  try {
    std::cout << frn::data::get_published(set, argv[2], argv[1]).string() << "\n";
  } catch (const frn::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
