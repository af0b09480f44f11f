// A study's folder as frn study leaves it, made up: cells that finished, diverged, failed, or are not there.
#pragma once

#include <fmt/format.h>

#include "frn/study/folder.h"
#include "tests/core/files.h"

namespace frn::study {

inline constexpr const char* kMadeUpStudy = R"(
title = "A made-up study"
place = "Table 0"
reference = "bn"
[[row]]
name = "bn"
title = "Batchnorm"
short = "BN"
norm = "bn+relu"
[[row]]
name = "frn"
title = "FRN <layer>"
short = "FRN"
norm = "frn+tlu"
[[column]]
name = "32"
phrase = "at 32 images"
batch_per_device = 32
[[column]]
name = "1"
phrase = "at 1 image"
batch_per_device = 1
[published.precision_at_1]
bn = [76.21, "diverged"]
frn = [77.21, 77.36]
[scale.smoke]
about = "Tiny."
chance = 10
data = "fashion-mini"
model = "resnetv2-8"
steps = 100
[scale.smoke.row.bn]
lr_base = 0.5
[scale.paper]
chance = 0.1
needs_data = "imagefolder:DIR"
steps = 300000
[scale.paper.column.1]
steps = 9600000
[[claim]]
text = "FRN is better."
higher = ["frn"]
lower = ["bn"]
[[claim]]
text = "BN diverges at 1."
diverges = ["bn@1"]
[[claim]]
text = "FRN stays."
close = ["frn"]
within = 1
[[figure]]
file = "figure-1"
kind = "columns"
x_label = "images per device"
inset = ["32", "1"]
[[figure]]
file = "curves"
kind = "curves"
)";

struct MadeUpStudy {
  MadeUpStudy(const std::filesystem::path& path, int64_t seeds, const std::string& scale = "smoke",
              const std::map<std::string, std::string>& same_as = {})
      : folder{path} {
    std::set<std::string> asked;
    for (const char* cell : {"bn-32", "bn-1", "frn-32", "frn-1"}) {
      asked.insert(cell);
      for (int64_t seed = 1; seed < seeds; ++seed) asked.insert(fmt::format("{}-seed{}", cell, seed));
    }
    Settings given{{"max_steps", "0"}};
    if (scale == "paper") given["data"] = "'imagefolder:somewhere'";
    folder.write(kMadeUpStudy, {"made-up", scale, seeds, asked, given, {{"commit", "abc"}, {"machine", "m"}}, same_as});
  }

  void put(const std::string& cell, const char* file, const std::string& text) const {
    std::filesystem::create_directories(folder.cell(cell));
    frn::put(folder.cell(cell) / file, text);
  }
  void finish(const std::string& cell, double share, const char* status = "finished") const {
    put(cell, "config.toml", "");
    put(cell, "metrics.json",
        fmt::format(R"({{"status":"{}","step":100,"seconds":60,"validation":{{"precision_at_1":{},"recall_at_5":0.99,)"
                    R"("samples":1000}}}})",
                    status, share));
  }
  void diverge(const std::string& cell) const {
    put(cell, "metrics.json",
        R"({"status":"diverged","step":7,"seconds":1,"message":"the loss is not finite at step 7"})");
  }
  void fail(const std::string& cell) const { put(cell, "failure.txt", "[train] no <such> file\n"); }

  Folder folder;
};

}  // namespace frn::study
