// fuzz_seeds FUZZER FOLDER: writes the inputs that a fuzzer starts from.
#include <zlib.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frn/core/safetensors.h"
#include "tests/data/made_images.h"

namespace {

using frn::safetensors::Dtype;

std::string small_file() {
  static constexpr std::array<float, 2> kValues{1, 2};
  const auto bytes = std::as_bytes(std::span(kValues));
  return frn::safetensors::to_bytes({{"a.weight", {Dtype::kF32, {2, 1}, bytes}},
                                     {"a.num_batches_tracked", {Dtype::kI64, {}, bytes}},
                                     {"a.half", {Dtype::kBF16, {4}, bytes}},
                                     {"empty", {Dtype::kU8, {0, 3}, {}}}},
                                    {{"format", "pt"}});
}

// The two forms of file_of in safetensors_fuzz.cpp.
std::string whole(const std::string& file) { return std::string(1, '\0') + file; }
std::string header_of(char data_size, const std::string& header) { return std::string{'\1', data_size} + header; }

std::vector<std::string> safetensors_seeds() {
  const std::string file = small_file();
  return {whole(file), whole(frn::safetensors::to_bytes({})), header_of(24, file.substr(8, file.size() - 8 - 24)),
          header_of(2, R"({"\u00e9":{"data_offsets":[0,2],"shape":[1,1],"dtype":"F16"}})"),
          // A number of bytes that wraps around to 0, which no mutation finds in a minute.
          header_of(0, R"({"x":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")};
}

std::vector<std::string> spec_seeds() {
  return {"frn+tlu", "gn(groups=32)+relu", "frn(eps=learned, eps_shape=channel)+tlu",
          "bn(momentum=1e-2,warmup=7)+prelu", "none+none"};
}

// Small, since most mutations fall into what is longest.
std::vector<std::string> image_seeds() {
  const auto colours = frn::data::made_image({20, 35}, 3);
  const auto grey = frn::data::made_image({9, 17}, 1);
  return {to_jpeg(colours, {2, 2, false, 50}),
          to_jpeg(colours, {2, 1, true, 30}),
          to_jpeg(colours, {1, 1, false, 20}),
          to_jpeg(colours, {4, 1, false, 20}),
          to_jpeg(grey, {}),
          to_png(colours, false),
          to_png(colours, true),
          to_png(grey, false)};
}

std::string gzipped(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(text.size() + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// The first byte is one less than the number of dimensions (idx_fuzz.cpp).
std::vector<std::string> idx_seeds() {
  const auto images = std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x01", 16) + "abcd";
  const auto labels = std::string("\0\0\x08\x01\0\0\0\x03", 8) + "abc";
  return {"\x02" + images, "\x02" + gzipped(images), std::string(1, '\0') + labels,
          std::string(1, '\0') + gzipped(labels)};
}

std::vector<std::string> voc_seeds() {
  return {
      "<?xml version=\"1.0\"?><annotation><size><width>60</width><height>40</height></size><object><name>dog</name>"
      "<difficult>1</difficult><bndbox><xmin>1</xmin><ymin>2.5</ymin><xmax>3e1</xmax><ymax>40</ymax></bndbox>"
      "</object></annotation>",
      "<!DOCTYPE annotation [<!ENTITY a \"&b;&b;\">]><annotation><object><name>&a;</name></object></annotation>",
      "<annotation><!-- --><![CDATA[x]]></annotation>"};
}

// A member of a tar archive; the fuzzer mends its checksum.
std::string tar_member(const std::string& name, char type, const std::string& contents) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  std::array<char, 12> size{};
  std::snprintf(size.data(), size.size(), "%011o", static_cast<unsigned>(contents.size()));
  header.replace(124, size.size(), size.data(), size.size());
  header[156] = type;
  header.replace(257, 8,
                 std::string("ustar\0"
                             "00",
                             8));
  const size_t padding = (512 - contents.size() % 512) % 512;
  return header + contents + std::string(padding, '\0');
}

std::vector<std::string> archive_seeds() {
  const std::string end(1024, '\0');
  const auto plain = tar_member("folder/", '5', "") + tar_member("folder/file", '0', "abc") + end;
  return {plain,
          gzipped(plain),
          tar_member("../out", '0', "x") + end,
          tar_member("link", '2', "") + end,
          tar_member("pax", 'x', "20 path=folder/long\n") + tar_member("short", '0', "y") + end,
          tar_member("././@LongLink", 'L', "folder/another") + tar_member("short", '0', "z") + end};
}

// The project's own studies are longer than what mutations get through.
constexpr const char* kStudy = R"(title = "t"
place = "Table 0"
reference = "a"
[[metric]]
key = "precision_at_1"
title = "P@1"
[[row]]
name = "a"
short = "A"
norm = "bn+relu"
[[row]]
name = "b"
[[column]]
name = "1"
phrase = "at 1"
batch_per_device = 1
[[column]]
name = "2"
[published.precision_at_1]
a = [76.21, "diverged"]
[scale.smoke]
about = """
two
lines"""
chance = 10
seeds = 3
first_seed = 100
columns = ["1"]
data = "fashion-mini"
[scale.smoke.row.b]
lr_base = 0.5
[scale.smoke.column.1]
title = "one"
lr_drops = [0.3, 0.6]
[scale.smoke.cell."a@1"]
steps = 4
[[claim]]
text = "B is better."
higher = ["b"]
lower = ["a@1"]
by = 1.5
[[claim]]
text = "A stays."
close = ["a"]
within = 1
[[figure]]
file = "f"
kind = "columns"
x_label = "x"
inset = ["1", "2"]
)";

std::vector<std::string> toml_seeds() {
  return {kStudy, "a = 1\nb = [1.5, -inf, nan]\n[c.d]\ne = { f = true }\n", "\"a b\" = '''x\ny'''\n'' = 0x7f\n",
          "[[t]]\na = 1\n[[t]]\nb = \"\\u00e9\\n\"\n"};
}

std::vector<std::string> run_log_seeds() {
  return {R"({"event":"start","step":0})"
          "\n"
          R"({"event":"train","step":5,"loss":1.5e-3})"
          "\n"
          R"({"event":"validation","step":20,"loss":null})"
          "\n",
          R"({"event":"layers","layers":[{"name":"a","scale":1}]})"
          "\n"
          R"({"event":"en)",
          R"({"step":18446744073709551615,"x":[[true]]})"
          "\n"};
}

std::vector<std::string> coco_seeds() {
  return {
      R"({"info":{"a":[1]},"images":[{"file_name":"a.jpg","height":9,"width":9,"id":7}],"annotations":[)"
      R"({"segmentation":[[1,2.5,"]"]],"area":12.25,"iscrowd":0,"image_id":7,"bbox":[1,2,3,4],"category_id":1,"id":1},)"
      R"({"image_id":7.0,"bbox":[0,0,3,4],"category_id":1,"id":2,"iscrowd":true}],)"
      R"("categories":[{"supercategory":"x","id":1,"name":"dog"}]})",
      R"([{"image_id":42,"category_id":18,"bbox":[258.15,41.29,348.26,243.78],"score":0.236,"id":1}])", "[]"};
}

// The chart, then its texts (gnuplot_fuzz.cpp).
std::vector<std::string> gnuplot_seeds() {
  return {"\x0ctitle\xffx\xffy\xff'\nsystem(\"id\")\n\xff`id`\xff@m \\", "\x02\xff\xff\xff\"; !id\n\xff\xc3\xa9",
          std::string("\x05") + std::string(400, '\'')};
}

std::vector<std::string> seeds_of(std::string_view fuzzer) {
  if (fuzzer == "toml_fuzz") return toml_seeds();
  if (fuzzer == "study_fuzz") return {kStudy};
  if (fuzzer == "run_log_fuzz") return run_log_seeds();
  if (fuzzer == "coco_fuzz") return coco_seeds();
  if (fuzzer == "gnuplot_fuzz") return gnuplot_seeds();
  if (fuzzer == "safetensors_fuzz") return safetensors_seeds();
  if (fuzzer == "image_fuzz") return image_seeds();
  if (fuzzer == "idx_fuzz") return idx_seeds();
  if (fuzzer == "voc_fuzz") return voc_seeds();
  if (fuzzer == "archive_fuzz") return archive_seeds();
  return spec_seeds();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const std::filesystem::path folder = arguments[2];
  std::filesystem::create_directories(folder);
  const auto seeds = seeds_of(arguments[1]);
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream file(folder / std::to_string(i), std::ios::binary);
    file << seeds[i];
    if (!file.flush()) {
      std::cerr << "fuzz_seeds: cannot write into " << folder << "\n";
      return 1;
    }
  }
}
