// Files from the web: fetched over HTTP, resumed where a transfer stopped, and in place only once their checksum is
// right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace frn::fetch {

// What a file must be. Checksums in hexadecimal; an empty one is not checked.
struct Expected {
  uint64_t bytes = 0;
  std::string md5;
  std::string sha256;
};

using Progress = std::function<void(uint64_t done, uint64_t total)>;

// Fetches url (http or https) to path. What has come is kept as path + ".part", and a later call goes on from there
// when the server can. A file that is there with the right checksum is left as it is. Every failure is one frn::Error
// "[data] url: ..." that says what to do. What `progress` throws ends the transfer and comes out of here.
void download(const std::string& url, const std::filesystem::path& path, const Expected& expected,
              const Progress& progress = {});

// Throws frn::Error "[data] path: ..." when the file is another one than expected.
void check_file(const std::filesystem::path& path, const Expected& expected);

// Of a file; `algorithm` as OpenSSL names it: "MD5", "SHA256".
std::string digest_of(const std::filesystem::path& path, const char* algorithm);

}  // namespace frn::fetch
