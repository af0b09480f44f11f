#include "frn/metrics/coco_records.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "frn/core/json_stream.h"
#include "frn/core/value.h"

namespace frn::coco {
namespace {

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

// Is told of sections, and in them of fields, that somebody asked for, and of no others.
class Reader final : public JsonHandler {
 public:
  Reader(std::span<const Section> sections, Root root, std::string_view expected)
      : sections_(sections), root_(root), expected_(expected), seen_(sections.size()) {}

  void begin_table() override {
    if (inside_ == Inside::kNothing && root_ == Root::kTableOfSections) {
      inside_ = Inside::kRoot;
    } else if (inside_ == Inside::kSection) {
      begin_record();
    } else {
      refuse("a table");
    }
  }

  bool key(std::string_view name) override {
    if (inside_ == Inside::kRoot) {
      section_ = std::find_if(sections_.begin(), sections_.end(), [=](const Section& s) { return s.name == name; });
      return section_ != sections_.end();
    }
    const auto fields = section_->fields;
    field_ = std::find_if(fields.begin(), fields.end(), [=](const FieldName& f) { return f.key == name; });
    return field_ != fields.end();
  }

  void end_table() override {
    if (inside_ == Inside::kRecord) return end_record();
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (!seen_[i]) throw ValueError(std::string(expected_) + " but has no " + std::string(sections_[i].name));
    }
  }

  void begin_list() override {
    if (inside_ == Inside::kNothing && root_ == Root::kSection) {
      section_ = sections_.begin();
      begin_section();
    } else if (inside_ == Inside::kRoot) {
      begin_section();
    } else if (inside_ == Inside::kRecord && field_->field == Field::kBox) {
      inside_ = Inside::kBox;
      box_count_ = 0;
    } else {
      refuse("a list");
    }
  }

  void end_list() override {
    if (inside_ == Inside::kBox) return end_box();
    inside_ = Inside::kRoot;
  }

  // As if the key were not there.
  void null() override {
    if (inside_ != Inside::kRecord) refuse("null");
  }

  void flag(bool flag) override {
    if (inside_ != Inside::kRecord || field_->field != Field::kCrowd) refuse("true or false");
    record_.crowd = flag;
    note_found();
  }

  void text(std::string_view text) override {
    if (inside_ != Inside::kRecord || field_->field != Field::kName) refuse("a text");
    record_.name = text;
    note_found();
  }

  void whole(int64_t number) override {
    if (inside_ != Inside::kRecord || !set_whole(number)) return this->number(static_cast<double>(number));
    note_found();
  }

  void number(double number) override {
    if (inside_ == Inside::kBox) return add_to_box(number);
    if (inside_ != Inside::kRecord) refuse(kNumber);
    // Some programs write whole numbers with a point. Beyond 2^53 a double does not tell one id from the next.
    constexpr double kExact = 0x1p53;
    const bool exact = std::trunc(number) == number && std::abs(number) <= kExact;
    if (!set_number(number) && !(exact && set_whole(static_cast<int64_t>(number)))) refuse(kNumber);
    note_found();
  }

 private:
  enum class Inside { kNothing, kRoot, kSection, kRecord, kBox };

  void begin_section() {
    inside_ = Inside::kSection;
    seen_[static_cast<size_t>(section_ - sections_.begin())] = true;
    index_ = 0;
    section_->begin();
  }

  void begin_record() {
    inside_ = Inside::kRecord;
    record_ = {};
    found_ = 0;
  }

  void end_record() {
    for (size_t i = 0; i < section_->fields.size(); ++i) {
      const auto& field = section_->fields[i];
      if (field.required && (found_ & (1U << i)) == 0) {
        throw ValueError(record_name() + " must have " + std::string(field.key) + " but has none");
      }
    }
    inside_ = Inside::kSection;
    section_->add(record_);
    ++index_;
  }

  void add_to_box(double number) {
    if (box_count_ < box_.size()) box_[box_count_] = number;
    ++box_count_;
  }

  void end_box() {
    if (box_count_ != box_.size()) refuse(std::to_string(box_count_));
    inside_ = Inside::kRecord;
    record_.box = {box_[0], box_[1], box_[2], box_[3]};
    note_found();
  }

  void note_found() { found_ |= 1U << static_cast<size_t>(field_ - section_->fields.begin()); }

  bool set_whole(int64_t number) {
    int64_t* const to = whole_field();
    if (to != nullptr) *to = number;
    return to != nullptr;
  }

  int64_t* whole_field() {
    switch (field_->field) {
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
    switch (field_->field) {
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

  std::string record_name() const { return std::string(section_->name) + "[" + std::to_string(index_) + "]"; }

  [[noreturn]] void refuse(std::string_view type) const {
    const auto but_is = (inside_ == Inside::kBox ? " but holds " : " but is ") + std::string(type);
    if (inside_ == Inside::kNothing) throw ValueError(std::string(expected_) + but_is);
    if (inside_ == Inside::kRoot) throw ValueError(std::string(section_->name) + " must be a list" + but_is);
    if (inside_ == Inside::kSection) throw ValueError(record_name() + " must be a table" + but_is);
    throw ValueError(record_name() + ": " + std::string(field_->key) + " must be " +
                     std::string(type_of(field_->field)) + but_is);
  }

  std::span<const Section> sections_;
  Root root_;
  std::string_view expected_;
  std::vector<bool> seen_;
  Inside inside_ = Inside::kNothing;
  std::span<const Section>::iterator section_;
  std::span<const FieldName>::iterator field_;
  size_t index_ = 0;  // of the record in its section
  Record record_;
  uint32_t found_ = 0;  // a bit for each field of the section
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
