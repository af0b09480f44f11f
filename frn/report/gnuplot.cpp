#include "frn/report/gnuplot.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "frn/core/error.h"

namespace frn::report {
namespace {

// gnuplot's single-quoted strings: only the quote itself is special.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string script_of(const LineChart& chart, const std::filesystem::path& svg) {
  // Colours that stay apart for colour-blind readers (Okabe and Ito).
  static const char* const kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
  std::ostringstream s;
  s.precision(9);
  s << "set terminal svg size 720,480 font 'Helvetica,14' background '#ffffff'\n"
    << "set output " << quoted(svg.string()) << "\n"
    << "set title " << quoted(chart.title) << " noenhanced\n"
    << "set xlabel " << quoted(chart.x_label) << " noenhanced\n"
    << "set ylabel " << quoted(chart.y_label) << " noenhanced\n"
    << "set grid linecolor rgb '#dddddd'\nset key outside right center noenhanced\nset border 3\nset tics nomirror\n";
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    s << "$curve" << i << " << EOD\n";
    for (size_t j = 0; j < chart.curves[i].x.size(); ++j)
      s << chart.curves[i].x[j] << " " << chart.curves[i].y[j] << "\n";
    s << "EOD\n";
  }
  s << "plot ";
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    s << (i == 0 ? "" : ", ") << "$curve" << i << " with lines linewidth 2 linecolor rgb '"
      << kColours[i % std::size(kColours)] << "' title " << quoted(chart.curves[i].title);
  }
  s << "\n";
  return s.str();
}

std::filesystem::path beside(const std::filesystem::path& path) {
  auto temporary = path;
  temporary += ".part-" + std::to_string(getpid());
  return temporary;
}

void put_in_place(const std::filesystem::path& temporary, const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (!error) return;
  std::filesystem::remove(temporary);
  throw Error("report", "cannot write " + path.string() + ": " + error.message());
}

}  // namespace

void write_file(const std::filesystem::path& path, const std::string& text) {
  const auto temporary = beside(path);
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    const std::string reason = std::strerror(errno);
    std::filesystem::remove(temporary);
    throw Error("report", "cannot write " + path.string() + ": " + reason);
  }
  put_in_place(temporary, path);
}

void draw_svg(const LineChart& chart, const std::filesystem::path& svg) {
  const auto temporary = beside(svg);
  // gnuplot may end before it has read everything; that shows in its exit code, not in a signal.
  const auto previous = std::signal(SIGPIPE, SIG_IGN);
  FILE* const pipe = popen("gnuplot", "w");
  if (pipe == nullptr) throw Error("report", std::string("cannot start gnuplot: ") + std::strerror(errno));
  const std::string script = script_of(chart, temporary);
  std::fwrite(script.data(), 1, script.size(), pipe);
  const int status = pclose(pipe);
  std::signal(SIGPIPE, previous);
  if (status != 0 || !std::filesystem::exists(temporary)) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    const bool missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    throw Error("report", missing ? "gnuplot is needed to draw " + svg.string() + "; install Debian's gnuplot-nox"
                                  : "gnuplot could not draw " + svg.string() + "; its own words are above");
  }
  put_in_place(temporary, svg);
}

}  // namespace frn::report
