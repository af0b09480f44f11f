#include "frn/metrics/coco_records.h"

#include <array>
#include <cmath>
#include <vector>

#include "frn/core/json_stream.h"
#include "frn/core/value.h"

namespace frn::coco {
namespace {

constexpr std::string_view kTable = "a table";
constexpr std::string_view kList = "a list";
constexpr std::string_view kNumber = "a number";

std::string_view type_of(Field field) {
  switch (field) {
    case Field::kBox:
      return "a list of 4 numbers";
    case Field::kName:
      return "a text";
    case Field::kArea:
    case Field::kScore:
    case Field::kCrowd:
      return kNumber;
    default:
      return "a whole number";
  }
}

class Reader final : public JsonHandler {
 public:
  Reader(std::span<const Section> sections, Root root, std::string_view expected)
      : sections_(sections), root_(root), expected_(expected), seen_(sections.size()) {}

  void begin_table() override {
    if (skips()) return;
    if (inside_ == Inside::kNothing && root_ == Root::kTableOfSections) {
      inside_ = Inside::kRoot;
    } else if (inside_ == Inside::kSection) {
      begin_record();
    } else {
      refuse(kTable);
    }
  }

  void begin_list() override {
    if (skips()) return;
    if (inside_ == Inside::kNothing && root_ == Root::kSection) {
      begin_section(0);
    } else if (inside_ == Inside::kRoot) {
      begin_section(section_);
    } else if (inside_ == Inside::kRecord && field_ == Field::kBox) {
      inside_ = Inside::kBox;
      box_count_ = 0;
    } else {
      refuse(kList);
    }
  }

  void key(std::string_view name) override {
    if (skipped_ > 0) return;
    if (inside_ == Inside::kRoot) section_ = find_section(name);
    if (inside_ == Inside::kRecord) find_field(name);
  }

  void end_table() override {
    if (ends_skipped()) return;
    if (inside_ == Inside::kRecord) return end_record();
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (!seen_[i]) throw ValueError(std::string(expected_) + " but has no " + std::string(sections_[i].name));
    }
  }

  void end_list() override {
    if (ends_skipped()) return;
    if (inside_ == Inside::kBox) return end_box();
    inside_ = Inside::kRoot;
  }

  void null() override {
    // As if the key were not there.
    if (inside_ == Inside::kRecord && skipped_ == 0) return;
    if (takes_value("null")) refuse("null");
  }

  void flag(bool flag) override {
    if (!takes_value("true or false")) return;
    if (field_ != Field::kCrowd) refuse("true or false");
    record_.crowd = flag;
    found();
  }

  void whole(int64_t number) override {
    if (!takes_value(kNumber)) return;
    if (inside_ == Inside::kRecord && set_whole(number)) return found();
    take_number(static_cast<double>(number));
  }

  void number(double number) override {
    if (takes_value(kNumber)) take_number(number);
  }

  void text(std::string_view text) override {
    if (!takes_value("a text")) return;
    if (field_ != Field::kName) refuse("a text");
    record_.name = text;
    found();
  }

 private:
  enum class Inside { kNothing, kRoot, kSection, kRecord, kBox };

  // Whether a list or table that begins is one that nobody asked for, or in one.
  bool skips() {
    const bool unknown = (inside_ == Inside::kRoot && section_ == sections_.size()) ||
                         (inside_ == Inside::kRecord && field_ == Field::kNone);
    if (skipped_ == 0 && !unknown) return false;
    ++skipped_;
    return true;
  }

  bool ends_skipped() {
    if (skipped_ == 0) return false;
    --skipped_;
    return true;
  }

  // Whether a single value is one that somebody asked for.
  bool takes_value(std::string_view type) {
    if (skipped_ > 0) return false;
    if (inside_ == Inside::kRoot && section_ == sections_.size()) return false;
    if (inside_ == Inside::kRecord && field_ == Field::kNone) return false;
    if (inside_ != Inside::kRecord && inside_ != Inside::kBox) refuse(type);
    if (inside_ == Inside::kBox && type != kNumber) refuse(type);
    return true;
  }

  size_t find_section(std::string_view name) const {
    size_t i = 0;
    while (i < sections_.size() && sections_[i].name != name) ++i;
    return i;
  }

  void find_field(std::string_view name) {
    const auto fields = sections_[section_].fields;
    for (field_index_ = 0; field_index_ < fields.size(); ++field_index_) {
      if (fields[field_index_].key == name) break;
    }
    field_ = field_index_ < fields.size() ? fields[field_index_].field : Field::kNone;
  }

  void begin_section(size_t section) {
    section_ = section;
    seen_[section] = true;
    index_ = 0;
    inside_ = Inside::kSection;
    sections_[section].begin();
  }

  void begin_record() {
    record_ = {};
    found_ = 0;
    field_ = Field::kNone;
    inside_ = Inside::kRecord;
  }

  void end_record() {
    const auto fields = sections_[section_].fields;
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].required && (found_ & (1U << i)) == 0) {
        throw ValueError(record_name() + " must have " + std::string(fields[i].key) + " but has none");
      }
    }
    sections_[section_].add(record_);
    ++index_;
    inside_ = Inside::kSection;
  }

  void end_box() {
    if (box_count_ != box_.size()) refuse(std::to_string(box_count_));
    record_.box = {box_[0], box_[1], box_[2], box_[3]};
    inside_ = Inside::kRecord;
    found();
  }

  void found() { found_ |= 1U << field_index_; }

  void take_number(double number) {
    if (inside_ == Inside::kBox) {
      if (box_count_ < box_.size()) box_[box_count_] = number;
      ++box_count_;
      return;
    }
    // Some programs write all numbers with a point. Beyond 2^53 a double does not tell one id from the next.
    constexpr double kExact = 9007199254740992;
    const bool exact = std::trunc(number) == number && std::abs(number) <= kExact;
    if (!set_number(number) && !(exact && set_whole(static_cast<int64_t>(number)))) refuse(kNumber);
    found();
  }

  bool set_whole(int64_t number) {
    int64_t* const to = whole_field();
    if (to != nullptr) *to = number;
    return to != nullptr;
  }

  int64_t* whole_field() {
    switch (field_) {
      case Field::kId:
        return &record_.id;
      case Field::kImageId:
        return &record_.image_id;
      case Field::kCategoryId:
        return &record_.category_id;
      case Field::kWidth:
        return &record_.width;
      case Field::kHeight:
        return &record_.height;
      default:
        return nullptr;
    }
  }

  bool set_number(double number) {
    switch (field_) {
      case Field::kArea:
        record_.area = number;
        return true;
      case Field::kScore:
        record_.score = number;
        return true;
      case Field::kCrowd:
        record_.crowd = number != 0;
        return true;
      default:
        return false;
    }
  }

  std::string record_name() const { return std::string(sections_[section_].name) + "[" + std::to_string(index_) + "]"; }

  [[noreturn]] void refuse(std::string_view type) const {
    const auto but_is = (inside_ == Inside::kBox ? " but holds " : " but is ") + std::string(type);
    if (inside_ == Inside::kNothing) throw ValueError(std::string(expected_) + but_is);
    const auto& section = sections_[section_];
    if (inside_ == Inside::kRoot) throw ValueError(std::string(section.name) + " must be a list" + but_is);
    if (inside_ == Inside::kSection) throw ValueError(record_name() + " must be a table" + but_is);
    throw ValueError(record_name() + ": " + std::string(section.fields[field_index_].key) + " must be " +
                     std::string(type_of(field_)) + but_is);
  }

  std::span<const Section> sections_;
  Root root_;
  std::string_view expected_;
  std::vector<bool> seen_;
  Inside inside_ = Inside::kNothing;
  size_t skipped_ = 0;  // lists and tables that nobody asked for and that are open
  size_t section_ = 0;  // sections_.size(): of another key
  size_t index_ = 0;    // of the record
  Field field_ = Field::kNone;
  size_t field_index_ = 0;
  uint32_t found_ = 0;  // a bit for each field of the section
  Record record_;
  std::array<double, 4> box_{};
  size_t box_count_ = 0;
};

}  // namespace

void read_records(const std::filesystem::path& path, std::span<const Section> sections, Root root,
                  std::string_view expected) {
  Reader reader(sections, root, expected);
  read_json_file(path, "coco", reader);
}

}  // namespace frn::coco
