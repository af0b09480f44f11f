// A file that appears whole or not at all: written beside its place, to the disk, and renamed into it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace frn {

// Gone again unless put_in_place() is called: on failure the file that was there remains. A link is followed. Every
// failure is one frn::Error "[operation] path: cannot write: reason".
class WholeFile {
 public:
  WholeFile(const std::filesystem::path& path, std::string_view operation);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void put_in_place();

 private:
  [[noreturn]] void fail(const std::string& reason) const;
  [[noreturn]] void fail_system() const;

  std::string operation_;
  std::string shown_;             // the path as the caller named it
  std::filesystem::path target_;  // where links lead
  std::filesystem::path beside_;
  int descriptor_ = -1;
  bool in_place_ = false;
};

// Whether a file of this name is what a killed process left of one.
bool is_partial_file(std::string_view name);

// Everything in the file; empty when it cannot be read.
std::string contents_of(const std::filesystem::path& path);

// Returns once the disk has the file's bytes. Throws frn::Error "[operation] path: cannot write: reason" when it does
// not take them: some disks are found to be full only then.
void sync_file(const std::filesystem::path& path, std::string_view operation);

// The same for the names in a folder, so that they outlive a power cut. Not every file system can; that is no error.
void sync_folder(const std::filesystem::path& folder);

void write_whole_file(const std::filesystem::path& path, std::string_view text, std::string_view operation);

// Throws frn::Error when the file or folder is a symbolic link: what is written into a folder of somebody else's by
// names of our choice must not end where its links lead.
void refuse_link(const std::filesystem::path& path, std::string_view operation);

}  // namespace frn
