// By nlohmann's parser, which takes a file as a pair of iterators.
#include "frn/core/json_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "frn/core/any_bytes.h"
#include "frn/core/descriptor.h"
#include "frn/core/error.h"
#include "frn/core/value.h"

namespace frn {
namespace {

using Json = nlohmann::json;

constexpr size_t kPiece = 1 << 18;  // bytes that are read at a time
constexpr size_t kDeepest = 100;    // as parse_json has it

// A file's bytes, a piece at a time.
class Pieces {
 public:
  Pieces(int descriptor, std::string_view operation, const std::string& name)
      : descriptor_(descriptor), operation_(operation), name_(name), bytes_(kPiece) {
    next();
  }

  bool at_end() const { return position_ == end_; }
  char byte() const { return *position_; }
  void advance() {
    if (++position_ == end_) next();
  }

 private:
  void next() {
    ssize_t count = 0;
    do {
      count = read(descriptor_, bytes_.data(), bytes_.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) throw Error(operation_, name_ + ": cannot read: " + std::strerror(errno));
    position_ = bytes_.data();
    end_ = position_ + count;
  }

  int descriptor_;
  std::string_view operation_;
  const std::string& name_;
  std::vector<char> bytes_;
  const char* position_ = nullptr;
  const char* end_ = nullptr;
};

// What the parser wants to have; one without pieces is the end.
class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit ByteIterator(Pieces* pieces = nullptr) : pieces_(pieces) {}
  char operator*() const { return pieces_->byte(); }
  ByteIterator& operator++() {
    pieces_->advance();
    return *this;
  }
  // Only ever compared with the end.
  bool operator==(const ByteIterator& /*end*/) const { return pieces_->at_end(); }
  bool operator!=(const ByteIterator& end) const { return !(*this == end); }

 private:
  Pieces* pieces_;
};

// Passes the parser's events on.
class Events final : public Json::json_sax_t {
 public:
  explicit Events(JsonHandler& handler) : handler_(handler) {}

  bool null() override {
    handler_.null();
    return true;
  }
  bool boolean(bool flag) override {
    handler_.flag(flag);
    return true;
  }
  bool number_integer(int64_t number) override {
    handler_.whole(number);
    return true;
  }
  bool number_unsigned(uint64_t number) override {
    constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (number <= kLargest)
      handler_.whole(static_cast<int64_t>(number));
    else
      handler_.number(static_cast<double>(number));
    return true;
  }
  bool number_float(double number, const std::string& /*text*/) override {
    handler_.number(number);
    return true;
  }
  bool string(std::string& text) override {
    handler_.text(from_unicode(text));
    return true;
  }
  bool binary(Json::binary_t& /*bytes*/) override { return false; }
  bool start_object(size_t /*size*/) override {
    go_deeper();
    handler_.begin_table();
    return true;
  }
  bool key(std::string& name) override {
    handler_.key(name);
    return true;
  }
  bool end_object() override {
    --depth_;
    handler_.end_table();
    return true;
  }
  bool start_array(size_t /*size*/) override {
    go_deeper();
    handler_.begin_list();
    return true;
  }
  bool end_array() override {
    --depth_;
    handler_.end_list();
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& /*e*/) override {
    throw ValueError("not JSON at byte " + std::to_string(position));
  }

 private:
  void go_deeper() {
    if (++depth_ > kDeepest) throw ValueError("lists or tables in each other deeper than 100");
  }

  JsonHandler& handler_;
  size_t depth_ = 0;
};

}  // namespace

void read_json_file(const std::filesystem::path& path, std::string_view operation, JsonHandler& handler) {
  const auto name = path.string();
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) throw Error(operation, name + ": cannot open: " + std::strerror(errno));
  Pieces pieces(file.number(), operation, name);
  Events events(handler);
  try {
    Json::sax_parse(ByteIterator(&pieces), ByteIterator(), &events);
  } catch (const ValueError& error) {
    throw Error(operation, name + ": " + error.what());
  }
}

}  // namespace frn
