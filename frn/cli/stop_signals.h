// Requests to stop: SIGINT, SIGTERM and SIGHUP, unless they are ignored from the start (as nohup does).
#pragma once

#include <atomic>

namespace frn::cli {

enum class SecondRequest {
  kEndsAtOnce,  // as the signal does by itself
  kIsCounted,   // whoever started this process, or it itself, decides
};

// A signal that comes within two seconds of the first of a request belongs to it: a terminal, Slurm, systemd and
// `timeout` send theirs to all processes, so that one may reach a process directly and through its parent. `notice` is
// shown on a terminal at the first request; a text that lives as long as the program.
void catch_stop_signals(SecondRequest second, const char* notice = nullptr);
// Signals act as before the call above.
void release_stop_signals();

const std::atomic<bool>& stop_requested();
int stop_requests();
int stop_signal();  // the last one, or 0

}  // namespace frn::cli
