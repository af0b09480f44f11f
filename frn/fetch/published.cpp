#include "frn/fetch/published.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/core/whole_file.h"
#include "frn/fetch/archive.h"

namespace frn::fetch {
namespace {

constexpr const char* kPublishedOperation = "data";
// Beside its data an archive holds a page of text.
constexpr uint64_t kText = 1 << 20;

// MD5 is what the owners publish; SHA-256 is of the same files.
const std::array<Published, 3>& table() {
  static const std::array<Published, 3> rows{
      Published{"cifar10",
                "cifar10",
                "https://www.cs.toronto.edu/~kriz",
                "no licence is stated by its owner; for research",
                {{"cifar-10-binary.tar.gz",
                  {170052171, "c32a1d4ab5d03f1284b67883e8d87530",
                   "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}}},
                true,
                "cifar-10-batches-bin",
                {{"data_batch_1.bin", 30730000},
                 {"data_batch_2.bin", 30730000},
                 {"data_batch_3.bin", 30730000},
                 {"data_batch_4.bin", 30730000},
                 {"data_batch_5.bin", 30730000},
                 {"test_batch.bin", 30730000}}},
      Published{"cifar100",
                "cifar100",
                "https://www.cs.toronto.edu/~kriz",
                "no licence is stated by its owner; for research",
                {{"cifar-100-binary.tar.gz",
                  {168513733, "03b5dce01913d631647c71ecec9e9cb8",
                   "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"}}},
                true,
                "cifar-100-binary",
                {{"train.bin", 153700000}, {"test.bin", 30740000}}},
      Published{"fashion-mnist",
                "idx",
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
                "MIT",
                {{"train-images-idx3-ubyte.gz",
                  {26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                   "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"}},
                 {"train-labels-idx1-ubyte.gz",
                  {29515, "25c81989df183df01b3e8a0aad5dffbe",
                   "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"}},
                 {"t10k-images-idx3-ubyte.gz",
                  {4422102, "bef4ecab320f06d8554ea6380940ec79",
                   "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"}},
                 {"t10k-labels-idx1-ubyte.gz",
                  {5148, "bb300cfdad3c16e7a12a480ee83cd310",
                   "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}},
                false,
                "fashion-mnist",
                {{"train-images-idx3-ubyte.gz", 26421880},
                 {"train-labels-idx1-ubyte.gz", 29515},
                 {"t10k-images-idx3-ubyte.gz", 4422102},
                 {"t10k-labels-idx1-ubyte.gz", 5148}}}};
  return rows;
}

[[noreturn]] void fail_published(const std::filesystem::path& path, const std::string& sentence) {
  throw Error(kPublishedOperation, path.string() + ": " + sentence);
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_published(path, "cannot make the folder: " + error.message());
}

// The first file of the set that is missing or has another length; empty when there is none.
std::string first_wrong(const Published& set, const std::filesystem::path& folder) {
  for (const auto& [name, bytes] : set.ready) {
    std::error_code error;
    if (std::filesystem::file_size(folder / name, error) != bytes || error) return name;
  }
  return "";
}

// A folder to work in, beside where the result goes, and gone at the end.
class Workshop {
 public:
  explicit Workshop(const std::filesystem::path& parent)
      : path_(parent / (".frn-" + std::to_string(getpid()) + ".partial")) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);  // of a process of the same number that died
    make_folder(path_);
  }
  ~Workshop() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

uint64_t largest_size(const Published& set) {
  uint64_t sum = kText;
  for (const auto& [name, bytes] : set.ready) sum += bytes;
  return sum;
}

// Not std::filesystem::copy_file, which calls a full disk an input/output error.
void copy_to(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::ifstream in(from, std::ios::binary);
  WholeFile out(to, kPublishedOperation);
  std::vector<char> buffer(size_t{1} << 20);
  do {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    out.write(std::string_view(buffer.data(), static_cast<size_t>(in.gcount())));
  } while (in);
  if (!in.eof()) fail_published(from, "cannot read");
  out.put_in_place();
}

// Fetched files stay beside the result until it is whole, so that nothing is fetched twice.
void assemble(const Published& set, const std::filesystem::path& parent, const std::filesystem::path& made) {
  for (const auto& file : set.files) {
    if (set.archive) {
      unpack_tar_gz(parent / file.name, made.parent_path(), largest_size(set));
    } else {
      make_folder(made);
      std::error_code error;
      std::filesystem::create_hard_link(parent / file.name, made / file.name, error);
      if (error) copy_to(parent / file.name, made / file.name);  // a file system that has no links
    }
  }
}

// Archives are removed once the set is there, so it has to be on the disk by then, names included.
void sync_all(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::end(entry); entry.increment(error)) {
    if (entry->is_directory(error))
      sync_folder(entry->path());
    else
      sync_file(entry->path(), kPublishedOperation);
  }
  if (error) fail_published(folder, "cannot read: " + error.message());
  sync_folder(folder);
}

}  // namespace

std::span<const Published> published_sets() { return table(); }

const Published& find_published(std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& set : table()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  throw Error(kPublishedOperation, "a data set to get must be one of " + join(names) + " but is '" + std::string(name) +
                                       "'" + suggestion(name, names));
}

std::filesystem::path get_published(const Published& set, const std::filesystem::path& parent,
                                    const std::string& server, const Progress& progress) {
  auto target = parent / set.folder;
  if (std::filesystem::exists(target)) {
    const auto wrong = first_wrong(set, target);
    if (wrong.empty()) return target;
    fail_published(
        target, "it is there already but " + wrong + " is missing or has another length; move it away, then try again");
  }
  make_folder(parent);
  const std::string from = server.empty() ? std::string(set.server) : server;
  for (const auto& file : set.files) download(from + "/" + file.name, parent / file.name, file.expected, progress);
  const Workshop workshop(parent);
  const auto made = workshop.path() / set.folder;
  assemble(set, parent, made);
  if (const auto wrong = first_wrong(set, made); !wrong.empty()) {
    fail_published(parent,
                   "what was fetched holds no " + wrong + " of the right length; give another server with --url");
  }
  sync_all(made);
  std::error_code error;
  std::filesystem::rename(made, target, error);
  if (error) fail_published(target, "cannot write: " + error.message());
  sync_folder(parent);
  for (const auto& file : set.files) std::filesystem::remove(parent / file.name, error);
  return target;
}

}  // namespace frn::fetch
