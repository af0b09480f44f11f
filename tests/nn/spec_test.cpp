// NormActSpec: what parses, to what, and what an error tells.
#include "frn/nn/norm_act_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frn/core/error.h"
#include "frn/nn/norm_act.h"
#include "frn/ops/ops.h"

namespace frn {
namespace {

std::string error_of(std::string_view text) {
  try {
    NormActSpec::parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_error(std::string_view text, const std::vector<std::string>& pieces) {
  const auto message = error_of(text);
  EXPECT_EQ(message.rfind("[norm_act_spec] ", 0), 0u) << text << " gave: " << message;
  for (const auto& piece : pieces) {
    EXPECT_NE(message.find(piece), std::string::npos) << text << " gave: " << message << "\nwithout: " << piece;
  }
}

// The smallest, the largest and every word that an option takes.
std::vector<std::string> values_of(const OptionRow& option) {
  std::vector<std::string> values;
  if (option.kind != NumberKind::kNone) {
    for (const double bound : {option.min, option.max}) {
      values.push_back(bound == static_cast<double>(static_cast<int64_t>(bound))
                           ? std::to_string(static_cast<int64_t>(bound))
                           : "1e-30");
    }
  }
  for (const auto word : option.words) values.emplace_back(word);
  return values;
}

TEST(NormActSpec, EveryNormWithEveryActivationRoundTrips) {
  for (const auto& norm : norm_table()) {
    for (const auto& activation : activation_table()) {
      const auto text = std::string(norm.name) + "+" + std::string(activation.name);
      const auto spec = NormActSpec::parse(text);
      EXPECT_EQ(spec.to_string(), text);
      EXPECT_EQ(spec.norm().name, norm.name);
      EXPECT_EQ(spec.activation().name, activation.name);
      EXPECT_EQ(NormActSpec::parse(spec.to_string()), spec);
    }
  }
}

TEST(NormActSpec, EveryOptionOfEveryNormRoundTrips) {
  int tried = 0;
  for (const auto& norm : norm_table()) {
    for (const auto& option : norm.options) {
      for (const auto& value : values_of(option)) {
        std::string options = std::string(option.key) + "=" + value;
        if (option.key == "eps_shape" || option.key == "eps_start") options += ",eps=learned";
        if (norm.name == "brn" && option.key != "warmup") options += ",warmup=0";
        if (norm.name == "brn" && option.key == "warmup") options += ",r_end=1e12,d_end=1e12";
        const auto spec = NormActSpec::parse(std::string(norm.name) + "(" + options + ")+tlu");
        EXPECT_TRUE(spec.has(option.key));
        EXPECT_EQ(NormActSpec::parse(spec.to_string()), spec) << spec.to_string();
        ++tried;
      }
    }
  }
  EXPECT_GE(tried, 40);
}

TEST(NormActSpec, TheCanonicalFormOrdersOptionsAndShortensNumbers) {
  const auto canonical = [](std::string_view text) { return NormActSpec::parse(text).to_string(); };
  EXPECT_EQ(canonical("  frn ( eps_shape = channel , eps = learned ) + tlu "),
            "frn(eps=learned,eps_shape=channel)+tlu");
  EXPECT_EQ(canonical("frn(eps=0.00001)+tlu"), "frn(eps=1e-05)+tlu");
  EXPECT_EQ(canonical("frn(eps=1e+0)+tlu"), "frn(eps=1)+tlu");
  EXPECT_EQ(canonical("gn(groups=3.2e1)+relu"), "gn(groups=32)+relu");
  EXPECT_EQ(canonical("brn(d_max=5,r_max=3,r_end=100000)+relu"), "brn(r_max=3,d_max=5,r_end=100000)+relu");
  EXPECT_EQ(canonical("bn(eps=1e-3,momentum=0.01)+none"), "bn(eps=0.001,momentum=0.01)+none");
}

TEST(NormActSpec, ComparesByWhatIsWritten) {
  EXPECT_EQ(NormActSpec::parse("frn(eps=1e-5)+tlu"), NormActSpec::parse("frn(eps=0.00001)+tlu"));
  EXPECT_FALSE(NormActSpec::parse("frn+tlu") == NormActSpec::parse("frn+relu"));
  EXPECT_FALSE(NormActSpec::parse("frn+tlu") == NormActSpec::parse("in+tlu"));
  EXPECT_FALSE(NormActSpec::parse("frn+tlu") == NormActSpec::parse("frn(eps=learned)+tlu"));
}

TEST(NormActSpec, DefaultEpsIsThePapersOrPyTorchs) {
  for (const auto* name : {"frn", "gfrn", "lfrn"})
    EXPECT_EQ(NormActSpec::parse(name + std::string("+tlu")).eps(), 1e-6);
  for (const auto* name : {"in", "gn", "ln", "bn", "brn"}) {
    EXPECT_EQ(NormActSpec::parse(name + std::string("+relu")).eps(), 1e-5);
  }
  EXPECT_EQ(NormActSpec::parse("gn(eps=0.25)+relu").eps(), 0.25);
  EXPECT_EQ(NormActSpec::parse("bn+relu").number("momentum"), 0.1);
}

TEST(NormActSpec, EpsFormsAreRead) {
  const auto spec = NormActSpec::parse("frn(eps=learned)+tlu");
  EXPECT_EQ(spec.eps_form(), EpsForm::kLearned);
  EXPECT_FALSE(spec.eps_per_channel());
  EXPECT_DOUBLE_EQ(spec.eps(), 1.01e-4);
  EXPECT_EQ(NormActSpec::parse("gn(eps=learned_exp)+tlu").eps_form(), EpsForm::kLearnedExponential);
  EXPECT_TRUE(NormActSpec::parse("frn(eps=learned,eps_shape=channel)+tlu").eps_per_channel());
  EXPECT_FALSE(NormActSpec::parse("frn(eps=learned,eps_shape=scalar)+tlu").eps_per_channel());
}

TEST(NormActSpec, GroupsFollowTheRuleOfTheNorm) {
  const auto groups = [](std::string_view text, int64_t channels) { return NormActSpec::parse(text).groups(channels); };
  EXPECT_EQ(groups("frn+tlu", 48), 48);
  EXPECT_EQ(groups("in+relu", 7), 7);
  EXPECT_EQ(groups("ln+relu", 48), 1);
  EXPECT_EQ(groups("lfrn+relu", 48), 1);
  EXPECT_EQ(groups("gn+relu", 256), 8);
  EXPECT_EQ(groups("gfrn+tlu", 64), 2);
  EXPECT_EQ(groups("gn(groups=32)+relu", 256), 32);
  EXPECT_EQ(groups("gn(group_size=16)+relu", 256), 16);
  EXPECT_EQ(NormActSpec::parse("gn+relu").channel_multiple(), 32);
  EXPECT_EQ(NormActSpec::parse("gn(groups=8)+relu").channel_multiple(), 8);
  EXPECT_EQ(NormActSpec::parse("frn+tlu").channel_multiple(), 1);
}

TEST(NormActSpec, ChannelsThatDoNotDivideAreAnErrorWithTheNumbersAndTheRemedy) {
  try {
    NormActSpec::parse("gn+relu").groups(48);
    FAIL() << "48 channels went through";
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const auto* piece : {"32 channels per group", "48", "gn(group_size=16)+relu", "gn(groups=", "64 channels"}) {
      EXPECT_NE(message.find(piece), std::string::npos) << message;
    }
  }
  EXPECT_THROW(NormActSpec::parse("gn(groups=32)+relu").groups(48), Error);
}

TEST(NormActSpec, UnknownNamesListTheKnownAndSuggestTheNearest) {
  expect_error("fnr+tlu", {"norm", "'fnr'", "none, frn, gfrn, lfrn, in, gn, ln, bn, brn"});
  expect_error("FRN+tlu", {"did you mean 'frn'?"});
  expect_error("gfr+tlu", {"did you mean 'gfrn'?"});
  expect_error("frn+affine-tlu", {"activation", "none, relu, tlu, prelu, affine_tlu", "did you mean 'affine_tlu'?"});
  expect_error("frn(epsilon=1)+tlu", {"'frn'", "eps, eps_shape", "'epsilon'"});
  expect_error("brn(dmax=1)+tlu", {"did you mean 'd_max'?"});
  expect_error("frn(groups=4)+tlu", {"eps, eps_shape", "'groups'"});
  expect_error("frn(eps=learnd)+tlu", {"'learned' or 'learned_exp'", "did you mean 'learned'?"});
  expect_error("none(eps=1)+relu", {"takes no options"});
}

TEST(NormActSpec, BadValuesSayWhatIsExpected) {
  expect_error("frn(eps=)+tlu", {"eps", "a number from 1e-30 to 1000000", "''"});
  expect_error("frn(eps=-1e-6)+tlu", {"'-1e-6'"});
  expect_error("gn(groups=0)+relu", {"groups", "a whole number from 1 to 1048576", "'0'"});
  expect_error("gn(groups=2.5)+relu", {"a whole number"});
  expect_error("bn(momentum=2)+relu", {"a number from 0 to 1"});
  expect_error("bn(eps=learned)+relu", {"a number from"});
  expect_error("frn(eps=learned,eps_shape=row)+tlu", {"'scalar' or 'channel'"});
  expect_error("frn(eps_shape=channel)+tlu", {"learned eps"});
  expect_error("gn(groups=2,group_size=4)+relu", {"exclude each other"});
  expect_error("frn(eps=1,eps=1)+tlu", {"stands twice"});
  expect_error("brn(r_end=1000)+relu", {"r_end", "5000", "1000"});
  expect_error("brn(warmup=30000)+relu", {"d_end", "30000", "25000"});
}

TEST(NormActSpec, AMissingPartSaysWhatToWrite) {
  expect_error("", {"norm+activation", "frn+tlu"});
  expect_error("frn", {"frn+activation", "none, relu, tlu, prelu, affine_tlu"});
  expect_error("frn(eps=1e+0)", {"frn(eps=1e+0)+activation"});
  expect_error("frn(eps=learned", {"close its bracket"});
  expect_error("frn(eps=learned)tlu", {"after ')' must come +activation"});
  expect_error("frn(learned)+tlu", {"key=value", "'learned'"});
}

TEST(NormActSpec, GarbageIsAnErrorNeverACrash) {
  const std::vector<std::string> garbage{
      " ",
      "+",
      "++",
      "(",
      ")",
      "(((",
      ")))",
      "()",
      "()+",
      "+tlu",
      "frn+",
      "frn++tlu",
      "frn+tlu+tlu",
      "frn+tlu(x=1)",
      "frn()+tlu",
      "frn(,)+tlu",
      "frn(=)+tlu",
      "frn(eps)+tlu",
      "frn(eps=1e-5,)+tlu",
      "frn(,eps=1e-5)+tlu",
      "frn(eps==1)+tlu",
      "frn((eps=1))+tlu",
      "frn(eps=1)(eps=1)+tlu",
      "frn)eps=1(+tlu",
      "frn+(tlu)",
      "frn tlu",
      "frn(eps=nan)+tlu",
      "frn(eps=NaN)+tlu",
      "frn(eps=inf)+tlu",
      "frn(eps=-inf)+tlu",
      "frn(eps=1e999)+tlu",
      "frn(eps=1e-999)+tlu",
      "frn(eps=0)+tlu",
      "frn(eps=-0)+tlu",
      "frn(eps=1e7)+tlu",
      "frn(eps=0x1p-3)+tlu",
      "frn(eps=1,5)+tlu",
      "frn(eps=1e-5x)+tlu",
      "frn(eps=1 2)+tlu",
      "gn(groups=-1)+relu",
      "gn(group_size=0)+relu",
      "gn(groups=99999999999999999999)+relu",
      "gn(groups=1e300)+relu",
      "gn(groups=nan)+relu",
      "bn(momentum=-0.1)+relu",
      "bn(momentum=inf)+relu",
      "brn(r_max=0.5)+relu",
      "brn(r_max=nan)+relu",
      "brn(d_max=-1)+relu",
      "brn(warmup=-5)+relu",
      "brn(warmup=1e400)+relu",
      std::string("frn\0+tlu", 8),
      std::string(1, '\0'),
      "\xff\xfe+\x80",
      "frn\n+t\nlu",
      std::string(100000, 'a'),
      std::string(100000, '('),
      "frn(" + std::string(100000, ',') + ")+tlu",
      "frn(eps=" + std::string(200, '1') + ")+tlu",
      std::string(250, '+'),
  };
  for (const auto& text : garbage) EXPECT_THROW(NormActSpec::parse(text), Error) << text.substr(0, 80);
}

TEST(NormActSpec, EveryPrefixAndEveryChangedByteParsesOrIsAnError) {
  for (const std::string text : {"frn(eps=learned,eps_shape=channel)+affine_tlu", "gn(eps=1e-05,group_size=16)+relu",
                                 "brn(r_max=3,d_max=5,warmup=10,r_end=40,d_end=25)+prelu"}) {
    std::vector<std::string> variants;
    for (size_t i = 0; i < text.size(); ++i) {
      variants.push_back(text.substr(0, i));
      variants.push_back(text.substr(i + 1));
      variants.push_back(text.substr(0, i) + text.substr(i + 1));
      for (const char c : {'(', ')', '+', ',', '=', '-', '9', 'e', ' ', '\0'}) {
        variants.push_back(text.substr(0, i) + c + text.substr(i + 1));
        variants.push_back(text.substr(0, i) + c + text.substr(i));
      }
    }
    for (const auto& variant : variants) {
      try {
        const auto spec = NormActSpec::parse(variant);
        EXPECT_EQ(NormActSpec::parse(spec.to_string()), spec) << variant;
      } catch (const Error&) {
      }
    }
  }
}

TEST(NormTable, DescribesItsRows) {
  for (const auto& norm : norm_table()) {
    EXPECT_FALSE(norm.description.empty()) << norm.name;
    EXPECT_TRUE(NormActSpec::of(norm.name, Activation::kNone).make(32)) << norm.name;
    EXPECT_FALSE(norm.batch_method && norm.group_rule != GroupRule::kNone) << norm.name;
    for (const auto& option : norm.options) EXPECT_FALSE(option.description.empty()) << norm.name << " " << option.key;
  }
}

TEST(ActivationTable, NamesAreTheOperators) {
  const auto& names = activation_names();
  ASSERT_EQ(activation_table().size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(activation_table()[i].name, names[i]);
}

}  // namespace
}  // namespace frn
