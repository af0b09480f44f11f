// Subcommands and their options as tables. parse.cpp reads command lines with them and help.cpp prints them; this
// header is cheap to include, so that a source which only declares options does not pay for a parser.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace frn::cli {

// Where a value goes; what it points to holds the default. bool: a flag, without a value.
using Destination = std::variant<bool*, int*, int64_t*, double*, std::string*, std::vector<std::string>*,
                                 std::vector<int64_t>*, std::vector<double>*>;

struct Range {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
};

struct Option {
  std::string name;  // "--out"; a name without dashes ("DIR") is an argument that is known by its position
  Destination to;
  std::string help;
  std::string value{};         // stands for the value in the help: "DIR"; empty: chosen by type
  std::string group{};         // heading in the help
  std::string default_text{};  // the default in words; empty: the value of `to`
  std::vector<std::string> choices{};
  std::optional<Range> range{};
  char separator = '\0';  // ',': a list may be given as 1,2
  int count = 0;          // a list has exactly this many values; 0: one or more
  bool required = false;
  bool hidden = false;                  // for processes that the program starts itself: not in the help
  std::vector<std::string> needs{};     // options that must be given with it
  std::vector<std::string> excludes{};  // options that must not be given with it
};

// Names of the options that the command line gave.
using Given = std::set<std::string, std::less<>>;

struct Command {
  std::string name;
  std::string help;  // one line
  std::vector<Option> options{};
  std::vector<Command> commands{};          // if there are any, one of them must be given
  std::function<void(const Given&)> run{};  // what `to` points to must live as long as this
  std::string ending{};                     // printed as it is after the options: examples, lists
};

// A command line that is mistyped or contradicts itself, as a whole sentence: the program ends with kExitUsage.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace frn::cli
