#include "frn/spec/norm_act_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <system_error>

#include "frn/core/error.h"
#include "frn/core/text.h"

namespace frn {
namespace {

constexpr std::string_view kOperation = "norm_act_spec";
constexpr size_t kLongestText = 256;  // far above any real name; keeps messages and the search for near names short

[[noreturn]] void fail(const std::string& sentence) { throw Error(kOperation, sentence); }

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string shortest(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15) return std::to_string(static_cast<int64_t>(number));
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  return {buffer.data(), end};
}

template <typename Row>
std::vector<std::string_view> names(std::span<const Row> rows) {
  std::vector<std::string_view> out;
  for (const auto& row : rows) {
    if constexpr (requires { row.name; }) {
      out.push_back(row.name);
    } else {
      out.push_back(row.key);
    }
  }
  return out;
}

template <typename Row>
const Row& find_row(const char* what, std::string_view name, std::span<const Row> rows) {
  for (const auto& row : rows) {
    if (row.name == name) return row;
  }
  const auto known = names(rows);
  fail(std::string(what) + " must be one of " + join(known) + " but is " + quoted(name) +
       suggestion(lower(name), known));
}

// "a number from 0 to 1", "a whole number from 1 to 1048576, 'x' or 'y'"
std::string expectation(const OptionRow& row) {
  std::vector<std::string> kinds;
  if (row.kind != NumberKind::kNone) {
    kinds.push_back((row.kind == NumberKind::kInteger ? "a whole number from " : "a number from ") + shortest(row.min) +
                    " to " + shortest(row.max));
  }
  for (const auto word : row.words) kinds.push_back(quoted(word));
  std::string out;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (i > 0) out += i + 1 == kinds.size() ? " or " : ", ";
    out += kinds[i];
  }
  return out;
}

bool takes(const OptionRow& row, double number) {
  if (row.kind == NumberKind::kNone) return false;
  if (!(number >= row.min && number <= row.max)) return false;  // NaN fails here as well
  return row.kind != NumberKind::kInteger || number == std::floor(number);
}

std::optional<double> parse_number(const OptionRow& row, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return takes(row, number) ? std::optional(number) : std::nullopt;
}

// The word as the table holds it, whose memory lasts; none when the option does not take it.
std::optional<std::string_view> find_word(const OptionRow& row, std::string_view text) {
  const auto found = std::find(row.words.begin(), row.words.end(), text);
  return found != row.words.end() ? std::optional(*found) : std::nullopt;
}

[[noreturn]] void refuse(const NormRow& norm, const OptionRow& row, std::string_view value) {
  fail("option " + std::string(row.key) + " of " + quoted(norm.name) + " must be " + expectation(row) + " but is " +
       quoted(value) + suggestion(lower(value), row.words));
}

struct Parts {
  std::string_view norm;
  std::optional<std::string_view> options;  // what stands between the brackets
  std::optional<std::string_view> activation;
};

// Brackets first: a '+' inside them belongs to a number (1e+2).
Parts split(std::string_view text) {
  Parts parts;
  const size_t open = text.find('(');
  const size_t plus = text.find('+');
  size_t rest = plus;
  if (open != std::string_view::npos && open < plus) {
    const size_t close = text.find(')', open);
    if (close == std::string_view::npos)
      fail(quoted(text) + " must close its bracket: write norm(key=value)+activation");
    parts.norm = trimmed(text.substr(0, open));
    parts.options = text.substr(open + 1, close - open - 1);
    rest = close + 1;
    while (rest < text.size() && trimmed(text.substr(rest, 1)).empty()) ++rest;
    if (rest < text.size() && text[rest] != '+') {
      fail("after ')' must come +activation but " + quoted(text) + " goes on with " + quoted(text.substr(rest)));
    }
  } else {
    parts.norm = trimmed(text.substr(0, plus));
  }
  if (rest < text.size()) parts.activation = trimmed(text.substr(rest + 1));
  return parts;
}

}  // namespace

NormActSpec NormActSpec::parse(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) fail("expected norm+activation, such as frn+tlu, but got an empty name");
  if (text.size() > kLongestText) {
    fail("a name must have at most " + std::to_string(kLongestText) + " characters but has " +
         std::to_string(text.size()) + ", starting with " + quoted(text.substr(0, 32)));
  }
  const Parts parts = split(text);
  NormActSpec spec;
  spec.norm_ = &find_row("norm", parts.norm, norm_table());
  if (!parts.activation) {
    fail(quoted(text) + " names no activation: write " + std::string(text) + "+activation with one of " +
         join(names(activation_table())));
  }
  spec.activation_ = &find_row("activation", *parts.activation, activation_table());
  if (parts.options) {
    std::string_view rest = *parts.options;
    for (bool more = true; more;) {
      const size_t comma = rest.find(',');
      spec.add_option(trimmed(rest.substr(0, comma)));
      more = comma != std::string_view::npos;
      if (more) rest.remove_prefix(comma + 1);
    }
  }
  spec.sort_and_check();
  return spec;
}

NormActSpec NormActSpec::of(std::string_view norm, Activation activation, const std::vector<NamedOption>& options) {
  NormActSpec spec;
  spec.norm_ = &find_row("norm", norm, norm_table());
  spec.activation_ = &row_of(activation);
  for (const auto& option : options) spec.add_option(option);
  spec.sort_and_check();
  return spec;
}

void NormActSpec::sort_and_check() {
  std::sort(options_.begin(), options_.end(), [](const Option& a, const Option& b) { return a.row < b.row; });
  if (norm_->check != nullptr) norm_->check(*this);
}

// The row of an option that is not set yet.
const OptionRow& NormActSpec::option_row(std::string_view key) const {
  const auto known = names(norm_->options);
  const std::string norm = quoted(norm_->name);
  const auto row =
      std::find_if(norm_->options.begin(), norm_->options.end(), [&](const auto& r) { return r.key == key; });
  if (row == norm_->options.end()) {
    fail("an option of " + norm + " must be one of " + join(known) + " but is " + quoted(key) +
         suggestion(lower(key), known));
  }
  if (has(key)) fail("option " + std::string(key) + " of " + norm + " must stand once but stands twice");
  return *row;
}

void NormActSpec::add_option(std::string_view text) {
  const auto known = names(norm_->options);
  const std::string norm = quoted(norm_->name);
  if (known.empty()) fail("norm " + norm + " takes no options but got " + quoted(text));
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    fail("an option of " + norm + " must be written key=value but is " + quoted(text) + "; keys: " + join(known));
  }
  const auto& row = option_row(trimmed(text.substr(0, equals)));
  const auto value = trimmed(text.substr(equals + 1));
  if (const auto word = find_word(row, value)) {
    options_.push_back({&row, 0, *word});
    return;
  }
  const auto number = parse_number(row, value);
  if (!number) refuse(*norm_, row, value);
  options_.push_back({&row, *number, {}});
}

void NormActSpec::add_option(const NamedOption& option) {
  if (norm_->options.empty()) {
    fail("norm " + quoted(norm_->name) + " takes no options but got " + quoted(option.key));
  }
  const auto& row = option_row(option.key);
  if (const auto written = option.value.word()) {
    const auto word = find_word(row, *written);
    if (!word) refuse(*norm_, row, *written);
    options_.push_back({&row, 0, *word});
    return;
  }
  const double number = option.value.number();
  if (!takes(row, number)) refuse(*norm_, row, shortest(number));
  options_.push_back({&row, number, {}});
}

std::string NormActSpec::to_string() const {
  std::string out(norm_->name);
  for (const auto& option : options_) {
    out += &option == options_.data() ? '(' : ',';
    out +=
        std::string(option.row->key) + '=' + (option.word.empty() ? shortest(option.number) : std::string(option.word));
  }
  if (!options_.empty()) out += ')';
  return out + '+' + std::string(activation_->name);
}

const NormActSpec::Option* NormActSpec::find(std::string_view key) const {
  for (const auto& option : options_) {
    if (option.row->key == key) return &option;
  }
  return nullptr;
}

bool NormActSpec::has(std::string_view key) const { return find(key) != nullptr; }

std::optional<double> NormActSpec::number(std::string_view key) const {
  if (const Option* option = find(key)) return option->word.empty() ? std::optional(option->number) : std::nullopt;
  for (const auto& row : norm_->options) {
    if (row.key == key) return row.default_value;
  }
  return std::nullopt;
}

std::string_view NormActSpec::word(std::string_view key) const {
  const Option* option = find(key);
  return option != nullptr ? option->word : std::string_view();
}

EpsForm NormActSpec::eps_form() const {
  const auto form = word("eps");
  if (form == "learned") return EpsForm::kLearned;
  return form == "learned_exp" ? EpsForm::kLearnedExponential : EpsForm::kFixed;
}

double NormActSpec::eps() const {
  if (eps_form() != EpsForm::kFixed) return kEpsFloor + eps_start();
  return number("eps").value_or(norm_->default_eps);
}

double NormActSpec::eps_start() const { return number("eps_start").value_or(kLearnedEpsStart); }

bool NormActSpec::proxy() const { return word("proxy") == "true" && activation_->kind != Activation::kNone; }

bool NormActSpec::eps_per_channel() const { return word("eps_shape") == "channel"; }

int64_t NormActSpec::channel_multiple() const {
  if (norm_->group_rule != GroupRule::kSized) return 1;
  return static_cast<int64_t>(number("groups").value_or(number("group_size").value_or(1)));
}

int64_t NormActSpec::groups(int64_t channels) const {
  if (norm_->group_rule == GroupRule::kChannel) return channels;
  if (norm_->group_rule != GroupRule::kSized) return 1;
  const int64_t unit = channel_multiple();
  if (channels % unit == 0) return has("groups") ? unit : channels / unit;
  const std::string name(norm_->name);
  const std::string act = "+" + std::string(activation_->name);
  fail("channels under " + to_string() + " must be a multiple of its " + std::to_string(unit) +
       (has("groups") ? " groups" : " channels per group") + " but are " + std::to_string(channels) + "; write " +
       name + "(group_size=" + std::to_string(std::gcd(channels, unit)) + ")" + act + " or " + name + "(groups=N)" +
       act + " with an N that divides them, or take " + std::to_string((channels / unit + 1) * unit) + " channels");
}

NormActSpec NormActSpec::with_activation(std::string_view name) const {
  return with_activation(find_row("activation", name, activation_table()).kind);
}

NormActSpec NormActSpec::with_activation(Activation activation) const {
  NormActSpec copy = *this;
  copy.activation_ = &row_of(activation);
  return copy;
}

NormActSpec NormActSpec::with(const std::vector<NamedOption>& options) const {
  NormActSpec copy = *this;
  std::erase_if(copy.options_, [&](const Option& old) {
    return std::any_of(options.begin(), options.end(), [&](const auto& option) { return option.key == old.row->key; });
  });
  for (const auto& option : options) copy.add_option(option);
  copy.sort_and_check();
  return copy;
}

NormActSpec NormActSpec::with_learned_eps() const { return with({{"eps", "learned"}}); }

NormActSpec NormActSpec::with_eps(double eps) const { return with({{"eps", eps}}); }

}  // namespace frn
