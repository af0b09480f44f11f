// JSON files that are too large to hold in memory as a tree: whoever reads one is told of its parts as they come.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace frn {

// A handler stops the reading by throwing ValueError with what is wrong; read_json_file makes it an Error with the
// file's name.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual void begin_table() = 0;
  // Whether the entry is wanted. If not, nothing is told of it, and of what is in it brackets and quotes alone are
  // looked at: that is ten times as fast.
  virtual bool key(std::string_view name) = 0;
  virtual void end_table() = 0;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  virtual void null() = 0;
  virtual void flag(bool flag) = 0;
  virtual void whole(int64_t number) = 0;
  virtual void number(double number) = 0;  // also a whole one that is beyond int64_t
  virtual void text(std::string_view text) = 0;
};

// Reads the file in pieces: memory does not grow with it. Throws frn::Error "[operation] path: what is wrong".
void read_json_file(const std::filesystem::path& path, std::string_view operation, JsonHandler& handler);

}  // namespace frn
