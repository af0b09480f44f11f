#include "frn/report/gnuplot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>

#include "frn/core/descriptor.h"
#include "frn/core/error.h"
#include "frn/core/whole_file.h"
#include "frn/report/gnuplot_script.h"

extern char** environ;

namespace frn::report {
namespace {

using Clock = std::chrono::steady_clock;

// What open() and the like gave. Throws frn::Error when that is none.
int opened(int number) {
  if (number < 0) throw Error("report", std::string("cannot start gnuplot: ") + std::strerror(errno));
  return number;
}

// The script as a file without a name: unlike a pipe, it never has to wait for its reader.
int file_of(const std::string& script) {
  const int file = memfd_create("gnuplot script", MFD_CLOEXEC);
  for (size_t done = 0; file >= 0 && done < script.size();) {
    const ssize_t count = pwrite(file, script.data() + done, script.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      close(file);
      return -1;
    }
    done += static_cast<size_t>(count);
  }
  return file;
}

// A process group of its own, that ends with all it started when it takes too long.
class Process {
 public:
  // Without the user's settings (-d): a script must draw the same on every machine.
  Process(const Descriptor& input, const Descriptor& output) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, input.number(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output.number(), STDOUT_FILENO);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    std::string name = "gnuplot";
    std::string no_settings = "-d";
    char* const arguments[]{name.data(), no_settings.data(), nullptr};
    start_error_ = posix_spawnp(&pid_, "gnuplot", &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Process() { stop(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int start_error() const { return start_error_; }

  // Gives the exit status, or none when it runs on beyond `end`.
  std::optional<int> wait_until(Clock::time_point end) {
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (Clock::now() >= end) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    running_ = false;
    return status;
  }

 private:
  void stop() {
    if (start_error_ != 0 || !running_) return;
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid_ = -1;
  int start_error_ = 0;
  bool running_ = true;
};

// All that comes until the other side closes, or nothing when that takes longer than until `end`.
std::optional<std::string> read_until(const Descriptor& from, Clock::time_point end) {
  std::string out;
  char buffer[1 << 16];
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waiting{from.number(), POLLIN, 0};
    const int ready = left <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return std::nullopt;
    const ssize_t count = read(from.number(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return out;
    out.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace

void write_file(const std::filesystem::path& path, const std::string& text) {
  refuse_link(path, "report");
  write_whole_file(path, text, "report");
}

bool has_gnuplot() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access(((folder.empty() ? "." : folder) + "/gnuplot").c_str(), X_OK) == 0) return true;
  }
  return false;
}

void draw_svg(const LineChart& chart, const std::filesystem::path& svg, std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  const Descriptor script(opened(file_of(gnuplot_script(chart))));
  int ends[2]{-1, -1};
  [[maybe_unused]] const int made = pipe2(ends, O_CLOEXEC);  // the descriptors tell
  const Descriptor drawn(opened(ends[0]));
  std::optional<Descriptor> drawing(std::in_place, ends[1]);
  Process gnuplot(script, *drawing);
  drawing.reset();
  if (gnuplot.start_error() == ENOENT) {
    throw Error("report", "gnuplot is needed to draw " + svg.string() + "; install Debian's gnuplot-nox");
  }
  if (gnuplot.start_error() != 0) {
    throw Error("report", std::string("cannot start gnuplot: ") + std::strerror(gnuplot.start_error()));
  }
  const auto picture = read_until(drawn, end);
  const auto status = picture ? gnuplot.wait_until(end) : std::nullopt;
  if (!status) {
    throw Error("report", fmt::format("gnuplot must draw {} within {} seconds but was still at work and was ended; try "
                                      "again when the machine is less busy",
                                      svg.string(), static_cast<double>(limit.count()) / 1000));
  }
  if (*status != 0 || picture->empty()) {
    throw Error("report", "gnuplot could not draw " + svg.string() + "; its message is above");
  }
  write_file(svg, *picture);
}

}  // namespace frn::report
