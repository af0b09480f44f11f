#include "frn/cli/launch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "frn/cli/child.h"
#include "frn/cli/exit.h"
#include "frn/cli/stop_signals.h"
#include "frn/core/error.h"

namespace frn::cli {
namespace {

// After the first has died: long enough for the others to notice by themselves, short for a person.
constexpr auto kGrace = std::chrono::seconds(5);

std::atomic<bool> paused{false};
void remember_pause(int /*number*/) { paused = true; }

// Of this process and thus of its ranks: Ctrl-Z stops them all, until the shell lets this one go on.
void catch_pauses() {
  struct sigaction action {};
  action.sa_handler = remember_pause;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTSTP, &action, nullptr);
}

std::vector<std::string> arguments_of_ranks(const LaunchOptions& options) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> all;
  for (std::string word; std::getline(file, word, '\0');) all.push_back(word);
  std::vector<std::string> kept;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto left_out = [&](const std::string& name) { return all[i] == name || all[i].starts_with(name + "="); };
    const auto found = std::find_if(options.without.begin(), options.without.end(), left_out);
    if (found == options.without.end()) {
      kept.push_back(all[i]);
    } else if (all[i] == *found) {
      ++i;  // its value
    }
  }
  kept.insert(kept.end(), options.more.begin(), options.more.end());
  return kept;
}

// A file in memory that a rank prints into.
class Capture {
 public:
  Capture() : descriptor_(::memfd_create("frn-output", MFD_CLOEXEC)) {
    if (descriptor_ < 0)
      throw Error("processes", std::string("cannot keep a process's output: ") + std::strerror(errno));
  }
  ~Capture() { ::close(descriptor_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  int descriptor() const { return descriptor_; }
  std::string text() const {
    std::string out(static_cast<size_t>(::lseek(descriptor_, 0, SEEK_END)), '\0');
    const auto length = ::pread(descriptor_, out.data(), out.size(), 0);
    out.resize(static_cast<size_t>(std::max<ssize_t>(0, length)));
    return out;
  }

 private:
  int descriptor_;
};

// The kernel picks one; between this and its use another program could take it, and rank 0 would say so.
int free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = descriptor >= 0 && ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int port = ntohs(address.sin_port);
  if (descriptor >= 0) ::close(descriptor);
  if (!bound) throw Error("processes", std::string("no free port on this machine: ") + std::strerror(errno));
  return port;
}

// `output`: where rank 0 prints, -1 for where this program does.
pid_t start_rank(int64_t rank, int64_t count, int port, const std::vector<std::string>& arguments, int output) {
  ChildOptions options{.environment = {{"RANK", std::to_string(rank)},
                                       {"LOCAL_RANK", std::to_string(rank)},
                                       {"WORLD_SIZE", std::to_string(count)},
                                       {"LOCAL_WORLD_SIZE", std::to_string(count)},
                                       {kProcessesVariable, std::to_string(count)},
                                       {"MASTER_ADDR", "127.0.0.1"},
                                       {"MASTER_PORT", std::to_string(port)}},
                       .output = rank == 0 ? output : -1};
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    const auto threads = std::max<int64_t>(1, static_cast<int64_t>(std::thread::hardware_concurrency()) / count);
    options.environment.emplace_back("OMP_NUM_THREADS", std::to_string(threads));
  }
  return start_child("processes", arguments, options);
}

struct Ended {
  int64_t rank;
  int status;
};

int exit_code(int status) { return WIFSIGNALED(status) ? kExitSignal + WTERMSIG(status) : WEXITSTATUS(status); }

class Ranks {
 public:
  Ranks(int64_t count, const std::vector<std::string>& arguments, int output) {
    const int port = free_port();
    try {
      for (int64_t rank = 0; rank < count; ++rank) {
        children_.push_back(start_rank(rank, count, port, arguments, output));
      }
    } catch (...) {
      send(SIGKILL);
      for (const pid_t child : children_) waitpid(child, nullptr, 0);
      throw;
    }
  }

  // Waits for all; ends the others when one fails.
  int wait(const std::string& advice) {
    std::optional<Ended> first;
    int requests_seen = 0;
    std::chrono::steady_clock::time_point deadline;
    while (std::any_of(children_.begin(), children_.end(), [](pid_t child) { return child != 0; })) {
      if (stop_requests() != requests_seen) {
        requests_seen = stop_requests();
        send(requests_seen > 1 ? SIGKILL : stop_signal());
      }
      if (paused.exchange(false)) pause();
      int status = 0;
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended > 0) {
        const auto rank = take(ended);
        if (rank && status != 0 && !first) {
          first = Ended{*rank, status};
          deadline = std::chrono::steady_clock::now() + kGrace;
        }
        continue;
      }
      if (first && std::chrono::steady_clock::now() > deadline) send(SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!first) return 0;
    if (requests_seen > 1) return kExitSignal + stop_signal();
    const int code = exit_code(first->status);
    if (requests_seen == 0 || code <= kExitSignal) {
      fmt::print(stderr, "frn: [processes] rank {} {}; the other ranks were ended{}\n", first->rank,
                 ending_text(first->status), advice.empty() ? "" : "; " + advice);
    }
    return code;
  }

 private:
  std::optional<int64_t> take(pid_t child) {
    const auto found = std::find(children_.begin(), children_.end(), child);
    if (found == children_.end()) return std::nullopt;
    *found = 0;
    return found - children_.begin();
  }
  void pause() {
    send(SIGSTOP);
    raise(SIGSTOP);
    send(SIGCONT);
  }
  void send(int number) {
    for (const pid_t child : children_) {
      if (child != 0) ::kill(child, number);
    }
  }

  std::vector<pid_t> children_;
};

}  // namespace

int launch_processes(int64_t count, const LaunchOptions& options) {
  catch_stop_signals(SecondRequest::kIsCounted, options.notice);
  catch_pauses();
  if (options.output_of_first == nullptr) return Ranks(count, arguments_of_ranks(options), -1).wait(options.advice);
  const Capture capture;
  const int code = Ranks(count, arguments_of_ranks(options), capture.descriptor()).wait(options.advice);
  *options.output_of_first = capture.text();
  return code;
}

}  // namespace frn::cli
