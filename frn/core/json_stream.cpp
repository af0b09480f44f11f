// By nlohmann's parser, which takes a file as a pair of iterators.
#include "frn/core/json_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

// What ends a skipped value or changes how deep in it we are.
constexpr std::array<bool, 256> kSpecial = [] {
  std::array<bool, 256> out{};
  for (const char c : {'[', ']', '{', '}', '"'}) out[static_cast<unsigned char>(c)] = true;
  return out;
}();

// A file's bytes, a piece at a time.
class Pieces {
 public:
  Pieces(int descriptor, std::string_view operation, const std::string& name)
      : descriptor_(descriptor), operation_(operation), name_(name), bytes_(kInserted.size() + kPiece) {
    next();
  }

  bool at_end() const { return position_ == end_; }
  char byte() const { return *position_; }
  void advance() {
    if (++position_ == end_) next();
  }
  size_t offset() const { return before_ + static_cast<size_t>(position_ - begin()); }

  // Passes over what follows a key, as if ":null" stood there.
  void skip_value() {
    skip_spaces();
    if (at_end() || byte() != ':') return;  // the parser says so
    advance();
    skip_spaces();
    if (at_end()) return;
    skip_one();
    // What lies before the position was read already: there is always room.
    position_ -= kInserted.size();
    std::copy(kInserted.begin(), kInserted.end(), position_);
  }

 private:
  static constexpr std::string_view kInserted = ":null";

  const char* begin() const { return bytes_.data() + kInserted.size(); }

  void next() {
    before_ += position_ == nullptr ? 0 : static_cast<size_t>(end_ - begin());
    position_ = bytes_.data() + kInserted.size();
    ssize_t count = 0;
    do {
      count = read(descriptor_, position_, kPiece);
    } while (count < 0 && errno == EINTR);
    if (count < 0) throw Error(operation_, name_ + ": cannot read: " + std::strerror(errno));
    end_ = position_ + count;
  }

  void skip_spaces() {
    while (!at_end() && (byte() == ' ' || byte() == '\t' || byte() == '\n' || byte() == '\r')) advance();
  }

  // One value, which begins here.
  void skip_one() {
    if (byte() == '"') return skip_text();
    if (byte() != '[' && byte() != '{') return skip_word();
    size_t depth = 0;
    do {
      const char c = byte();
      if (c == '"') {
        skip_text();
      } else {
        depth += c == '[' || c == '{' ? 1 : -1;
        advance();
      }
      if (depth > 0) skip_plain();
    } while (depth > 0 && !at_end());
  }

  void skip_text() {
    advance();
    while (!at_end() && byte() != '"') {
      if (byte() == '\\') advance();
      if (!at_end()) advance();
    }
    if (!at_end()) advance();
  }

  // A number, true, false or null.
  void skip_word() {
    constexpr std::string_view kEnds = ",]} \t\n\r";
    while (!at_end() && kEnds.find(byte()) == std::string_view::npos) advance();
  }

  void skip_plain() {
    while (!at_end()) {
      while (position_ != end_ && !kSpecial[static_cast<unsigned char>(*position_)]) ++position_;
      if (position_ != end_) return;
      next();
    }
  }

  int descriptor_;
  std::string_view operation_;
  const std::string& name_;
  std::vector<char> bytes_;
  char* position_ = nullptr;
  const char* end_ = nullptr;
  size_t before_ = 0;  // bytes of earlier pieces
};

// What the parser wants to have; one without pieces is the end.
class ByteIterator {
 public:
  // NOLINTBEGIN(readability-identifier-naming): std::iterator_traits looks for these names.
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  // NOLINTEND(readability-identifier-naming)

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
  Events(JsonHandler& handler, Pieces& pieces) : handler_(handler), pieces_(pieces) {}

  bool null() override {
    if (!skipped_) handler_.null();
    skipped_ = false;
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
    skipped_ = !handler_.key(name);
    if (skipped_) pieces_.skip_value();
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
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*e*/) override {
    throw ValueError("not JSON at byte " + std::to_string(pieces_.offset()));
  }

 private:
  void go_deeper() {
    if (++depth_ > kDeepest) throw ValueError("lists or tables in each other deeper than 100");
  }

  JsonHandler& handler_;
  Pieces& pieces_;
  bool skipped_ = false;  // the next null stands for a value that is not wanted
  size_t depth_ = 0;
};

}  // namespace

void read_json_file(const std::filesystem::path& path, std::string_view operation, JsonHandler& handler) {
  const auto name = path.string();
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) throw Error(operation, name + ": cannot open: " + std::strerror(errno));
  Pieces pieces(file.number(), operation, name);
  Events events(handler, pieces);
  try {
    Json::sax_parse(ByteIterator(&pieces), ByteIterator(), &events);
  } catch (const ValueError& error) {
    throw Error(operation, name + ": " + error.what());
  }
}

}  // namespace frn
