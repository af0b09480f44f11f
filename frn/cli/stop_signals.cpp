#include "frn/cli/stop_signals.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace frn::cli {
namespace {

constexpr int64_t kOneRequest = 2'000'000'000;  // nanoseconds
constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

std::atomic<bool> requested{false};
std::atomic<int> requests{0};
std::atomic<int> last_signal{0};
std::atomic<int64_t> request_began{0};
std::atomic<const char*> shown_at_first{nullptr};
std::atomic<bool> second_ends{false};
std::array<struct sigaction, kSignals.size()> before{};
struct sigaction pipe_before {};

// Only what is safe in a handler.
void on_signal(int number) {
  const int saved = errno;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t time = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  last_signal = number;
  if (requests == 0 || time - request_began >= kOneRequest) {
    request_began = time;
    ++requests;
    if (requests > 1 && second_ends) {
      signal(number, SIG_DFL);
      raise(number);  // it comes when this handler has ended
    }
    const char* const notice = shown_at_first;
    if (requests == 1 && notice != nullptr && isatty(STDERR_FILENO) != 0) {
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, notice, std::strlen(notice));
    }
  }
  requested = true;
  errno = saved;
}

// A reader that ends, as `tee` does on the same Ctrl-C, must not end the run before its checkpoint: writing to it fails
// instead. Not ignored but handled, so that programs started from here begin with the usual way.
void on_closed_pipe(int) {}

}  // namespace

void catch_stop_signals(SecondRequest second, const char* notice) {
  second_ends = second == SecondRequest::kEndsAtOnce;
  shown_at_first = notice;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // a write to a log must not end half-way
  struct sigaction closed {};
  closed.sa_handler = on_closed_pipe;
  closed.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &closed, &pipe_before);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    // Ignored from the start: by nohup, or by a shell that put the program into the background.
    if (before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

void release_stop_signals() {
  sigaction(SIGPIPE, &pipe_before, nullptr);
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
}

const std::atomic<bool>& stop_requested() { return requested; }
int stop_requests() { return requests; }
int stop_signal() { return last_signal; }

}  // namespace frn::cli
