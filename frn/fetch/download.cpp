#include "frn/fetch/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "frn/core/descriptor.h"
#include "frn/core/error.h"
#include "frn/core/whole_file.h"

namespace frn::fetch {
namespace {

constexpr const char* kOperation = "data";
// Retries of a broken transfer without progress before giving up.
constexpr int kTriesWithoutProgress = 3;
constexpr std::chrono::milliseconds kPause{500};
constexpr long kConnectSeconds = 30;
constexpr long kSilentSeconds = 60;  // without a byte: the connection is dead
constexpr long kMostRedirects = 5;
constexpr long kPartialContent = 206;
constexpr long kRangeNotSatisfiable = 416;

[[noreturn]] void fail(const std::string& what, const std::string& sentence) {
  throw Error(kOperation, what + ": " + sentence);
}

uint64_t size_or_zero(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

void remove_quietly(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

// The file that a transfer grows.
class Part {
 public:
  explicit Part(std::filesystem::path path)
      : path_(std::move(path)), file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) {
    if (file_.number() < 0) fail(path_.string(), std::string("cannot write: ") + std::strerror(errno));
    if (flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
      fail(path_.string(), "another frn data get fetches this file; wait for it");
    }
    size_ = size_or_zero(path_);
  }

  uint64_t size() const { return size_; }

  // Gives false, with errno set, when the disk does not take it.
  bool append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = pwrite(file_.number(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
      size_ += static_cast<uint64_t>(count);
    }
    return true;
  }

  bool clear() {
    size_ = 0;
    return ftruncate(file_.number(), 0) == 0;
  }

  void sync() const {
    if (fsync(file_.number()) != 0) fail(path_.string(), std::string("cannot write: ") + std::strerror(errno));
  }

 private:
  std::filesystem::path path_;
  Descriptor file_;
  uint64_t size_ = 0;
};

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Handle = std::unique_ptr<CURL, CurlDeleter>;

// One request, and what its callbacks need.
class Transfer {
 public:
  Transfer(const std::string& url, Part& part, const Expected& expected, const Progress& progress)
      : url_(url), part_(part), expected_(expected), progress_(progress), start_(part.size()) {
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    handle_.reset(started == CURLE_OK ? curl_easy_init() : nullptr);
    if (!handle_) fail(url_, "libcurl does not start");
  }

  // Gives true when the transfer came to its end, false when it broke off and may be taken up again.
  bool run() {
    set_options();
    const CURLcode code = curl_easy_perform(handle_.get());
    if (thrown_) std::rethrow_exception(thrown_);
    curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status_);
    if (code == CURLE_OK) return true;
    reason_ = error_[0] != '\0' ? error_.data() : curl_easy_strerror(code);
    if (code == CURLE_WRITE_ERROR) fail_write();
    if (code == CURLE_HTTP_RETURNED_ERROR)
      check_refusal();
    else if (!may_try_again(code))
      fail(url_, reason_ + "; another server can be given with --url");
    return false;
  }

  const std::string& reason() const { return reason_; }

 private:
  void set_options() {
    CURL* const h = handle_.get();
    curl_easy_setopt(h, CURLOPT_URL, url_.c_str());
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, error_.data());
    curl_easy_setopt(h, CURLOPT_USERAGENT, "frn");
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(h, CURLOPT_MAXREDIRS, kMostRedirects);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(h, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
    curl_easy_setopt(h, CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
    // Not CURLOPT_RESUME_FROM: that makes an error of a server which ignores it, and here that server starts anew.
    range_ = std::to_string(start_) + "-";
    if (start_ > 0) curl_easy_setopt(h, CURLOPT_RANGE, range_.c_str());
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, &Transfer::on_bytes);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, this);
  }

  // libcurl is C: what is thrown here must not go through it. It waits until the transfer has ended.
  static size_t on_bytes(const char* bytes, size_t size, size_t count, void* transfer) noexcept {
    auto* const self = static_cast<Transfer*>(transfer);
    try {
      return self->take({bytes, size * count});
    } catch (...) {
      self->thrown_ = std::current_exception();
      return 0;
    }
  }

  // The number of bytes taken; any other than all ends the transfer.
  size_t take(std::string_view bytes) {
    if (first_ && !begin()) return 0;
    first_ = false;
    too_long_ = part_.size() + bytes.size() > expected_.bytes;
    if (too_long_) return 0;
    if (!part_.append(bytes)) {
      write_error_ = errno;
      return 0;
    }
    if (progress_) progress_(part_.size(), expected_.bytes);
    return bytes.size();
  }

  // A server that was asked for the rest may send the whole.
  bool begin() {
    curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status_);
    if (start_ == 0 || status_ == kPartialContent || part_.clear()) return true;
    write_error_ = errno;
    return false;
  }

  [[noreturn]] void fail_write() const {
    if (too_long_) {
      fail(url_, "the server sends more than the " + std::to_string(expected_.bytes) +
                     " bytes that the file has; give another server with --url");
    }
    fail(url_, std::string("cannot write: ") + std::strerror(write_error_) +
                   "; once that is solved, the same command goes on from here");
  }

  // Returns when it is worth trying again.
  void check_refusal() {
    if (status_ == kRangeNotSatisfiable && start_ > 0) {  // the part is longer than the file there
      part_.clear();
      return;
    }
    if (status_ >= 500) return;
    fail(url_, "the server answers " + std::to_string(status_) + "; give another server with --url");
  }

  static bool may_try_again(CURLcode code) {
    switch (code) {
      case CURLE_COULDNT_CONNECT:
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_GOT_NOTHING:
      case CURLE_HTTP2:
      case CURLE_HTTP2_STREAM:
      case CURLE_OPERATION_TIMEDOUT:
      case CURLE_PARTIAL_FILE:
      case CURLE_RECV_ERROR:
      case CURLE_SEND_ERROR:
      case CURLE_SSL_CONNECT_ERROR:
        return true;
      default:
        return false;
    }
  }

  const std::string& url_;
  Part& part_;
  const Expected& expected_;
  const Progress& progress_;
  uint64_t start_;
  Handle handle_;
  std::string range_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  std::string reason_;
  long status_ = 0;
  int write_error_ = 0;
  std::exception_ptr thrown_;
  bool first_ = true;
  bool too_long_ = false;
};

// Grows the part to its whole length.
void fetch_rest(const std::string& url, Part& part, const Expected& expected, const Progress& progress) {
  uint64_t most = part.size();  // a server that starts anew each time makes no progress
  for (int tries = 0; part.size() < expected.bytes;) {
    Transfer transfer(url, part, expected, progress);
    const bool ended = transfer.run();
    tries = part.size() > most ? 0 : tries + 1;
    most = std::max(most, part.size());
    if (part.size() == expected.bytes) break;
    if (tries >= kTriesWithoutProgress) {
      const std::string reason = ended ? "the server ends it there" : transfer.reason();
      fail(url, "the transfer stopped at " + std::to_string(most) + " of " + std::to_string(expected.bytes) +
                    " bytes (" + reason + "); the same command goes on from there");
    }
    if (tries > 0) std::this_thread::sleep_for(kPause);
  }
  part.sync();
}

}  // namespace

std::string digest_of(const std::filesystem::path& path, const char* algorithm) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  const EVP_MD* const method = EVP_get_digestbyname(algorithm);
  if (!context || method == nullptr || EVP_DigestInit_ex(context.get(), method, nullptr) != 1) {
    fail(path.string(), std::string("OpenSSL here has no ") + algorithm);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path.string(), std::string("cannot open: ") + std::strerror(errno));
  std::vector<char> buffer(size_t{1} << 20);
  do {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(file.gcount()));
  } while (file);
  if (!file.eof()) fail(path.string(), std::string("cannot read: ") + std::strerror(errno));
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int count = 0;
  EVP_DigestFinal_ex(context.get(), bytes.data(), &count);
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < count; ++i) {
    hex += kDigits[bytes[i] >> 4U];
    hex += kDigits[bytes[i] & 15U];
  }
  return hex;
}

void check_file(const std::filesystem::path& path, const Expected& expected) {
  if (const auto size = size_or_zero(path); size != expected.bytes) {
    fail(path.string(), "it must have " + std::to_string(expected.bytes) + " bytes but has " + std::to_string(size));
  }
  const auto check = [&](const char* algorithm, const std::string& wanted) {
    if (wanted.empty()) return;
    const auto found = digest_of(path, algorithm);
    if (found != wanted) fail(path.string(), std::string(algorithm) + " must be " + wanted + " but is " + found);
  };
  check("SHA256", expected.sha256);
  check("MD5", expected.md5);
}

void download(const std::string& url, const std::filesystem::path& path, const Expected& expected,
              const Progress& progress) {
  if (std::filesystem::exists(path)) {
    try {
      return check_file(path, expected);
    } catch (const Error&) {
      throw Error(kOperation, path.string() + " is there already with other contents; remove it and try again");
    }
  }
  auto part_path = path;
  part_path += ".part";
  for (bool first = true;; first = false) {
    Part part(part_path);
    if (part.size() > expected.bytes) part.clear();
    const bool resumed = part.size() > 0;
    fetch_rest(url, part, expected, progress);
    try {
      check_file(part_path, expected);
    } catch (const Error& error) {
      part.clear();
      if (first && resumed) continue;  // what was there before may have been of another file
      remove_quietly(part_path);
      fail(url, std::string("the server sent another file than the owner published (") + error.what() +
                    "); try again, or give another server with --url");
    }
    std::error_code error;
    std::filesystem::rename(part_path, path, error);
    if (error) fail(path.string(), "cannot write: " + error.message());
    sync_folder(path.parent_path());
    return;
  }
}

}  // namespace frn::fetch
