#include "frn/spec/spec_json.h"

namespace frn {
namespace {

std::string_view name_of(GroupRule rule) {
  switch (rule) {
    case GroupRule::kNone:
      return "none";
    case GroupRule::kChannel:
      return "channel";
    case GroupRule::kSized:
      return "sized";
    case GroupRule::kLayer:
      return "layer";
  }
  return "";
}

std::string_view name_of(NumberKind kind) {
  switch (kind) {
    case NumberKind::kNone:
      return "none";
    case NumberKind::kReal:
      return "real";
    case NumberKind::kInteger:
      return "integer";
  }
  return "";
}

Value value_of(const OptionRow& row) {
  Value value{{"key", row.key}, {"description", row.description},    {"kind", name_of(row.kind)}, {"min", row.min},
              {"max", row.max}, {"words", Value::list_of(row.words)}};
  if (row.default_value) value["default"] = *row.default_value;
  return value;
}

Value value_of(const NormRow& row) {
  auto options = Value::empty_list();
  for (const auto& option : row.options) options.push_back(value_of(option));
  return {{"name", row.name},
          {"description", row.description},
          {"affine", row.affine},
          {"centered", row.centered},
          {"group_rule", name_of(row.group_rule)},
          {"batch_method", row.batch_method},
          {"default_eps", row.default_eps},
          {"options", options}};
}

Value value_of(const ActivationRow& row) {
  return {
      {"name", row.name}, {"description", row.description}, {"uses_tau", row.uses_tau}, {"uses_kappa", row.uses_kappa}};
}

}  // namespace

Value norm_table_value() {
  auto norms = Value::empty_list();
  for (const auto& row : norm_table()) norms.push_back(value_of(row));
  auto activations = Value::empty_list();
  for (const auto& row : activation_table()) activations.push_back(value_of(row));
  return {{"norms", norms}, {"activations", activations}};
}

std::string spec_json(const NormActSpec& spec) {
  auto options = Value::empty_table();
  for (const auto& row : spec.norm().options) {
    if (!spec.has(row.key)) continue;
    const auto word = spec.word(row.key);
    options[row.key] = word.empty() ? Value(spec.number(row.key).value()) : Value(word);
  }
  return to_json({{"text", spec.to_string()},
                  {"norm", spec.norm().name},
                  {"activation", spec.activation().name},
                  {"options", options}});
}

}  // namespace frn
