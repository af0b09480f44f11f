"""Requests to stop, from a real terminal and from elsewhere, and who may train in a folder.
Usage: signals.py path/to/frn path/to/libno_flock.so

Three interrupts at the terminal; twenty with FRN_ALL_CASES set."""

import fcntl
import json
import os
import pty
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from runs import INTERRUPTED, children, curves, exit_code, final_files, is_alive, logged_step, newest_step, state_of, wait_until

FRN, NO_FLOCK = (os.path.abspath(path) for path in sys.argv[1:3])
INTERRUPTS = 20 if os.environ.get("FRN_ALL_CASES") else 3
STEPS = 40 * INTERRUPTS
COMMON = ["--model", "resnetv2-8", "--image-size", "12", "--batch-per-device", "4", "--devices", "2", "--threads", "1"]
COMMON += ["--workers", "0", "--log-every", "1"]


def command(folder, *extra):
    return [FRN, "train", "--out", str(folder), *COMMON, *extra]


def resume(folder, *extra):
    return [FRN, "train", "--out", str(folder), "--resume", *extra]


def run(arguments, **more):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300, **more)


class Terminal:
    """A program in the foreground of a terminal of its own, as a shell would start it."""

    def __init__(self, arguments):
        self.pid, self.keys = pty.fork()
        if self.pid == 0:
            os.execv(arguments[0], arguments)
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
        self.output = b""
        self.status = None

    def read(self):
        while select.select([self.keys], [], [], 0)[0]:
            try:
                got = os.read(self.keys, 65536)
            except OSError:  # nobody is at the other end
                return
            if not got:
                return
            self.output += got

    def ended(self):
        self.read()
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def press(self, key):
        os.write(self.keys, key)

    def wait_for(self, condition, what):
        wait_until(lambda: self.ended() or condition(), what)
        assert not self.ended(), (what, self.output.decode(errors="replace"))

    def wait_end(self):
        wait_until(self.ended, "the program's end")
        self.read()
        os.close(self.keys)
        return exit_code(self.status)


def ranks_are_gone(ranks):
    wait_until(lambda: not any(is_alive(rank) for rank in ranks), "ranks to end", seconds=60)


def ctrl_c_with_two_processes_resumes_to_the_byte(work):
    whole, folder = work / "whole", work / "interrupted"
    assert run(command(whole, "--steps", str(STEPS), "--processes", "2")).returncode == 0
    arguments = command(folder, "--steps", str(STEPS), "--processes", "2", "--checkpoint-every", "1000000")
    for number in range(INTERRUPTS):
        before = newest_step(folder)
        terminal = Terminal(arguments)
        terminal.wait_for(lambda: logged_step(folder) > before + 2, "some steps")
        ranks = children(terminal.pid)
        assert len(ranks) == 2, ranks
        terminal.press(b"\x03")
        code = terminal.wait_end()
        text = terminal.output.decode(errors="replace")
        assert code == INTERRUPTED, (code, text)
        ranks_are_gone(ranks)
        step = newest_step(folder)
        assert step > before and step == logged_step(folder), (before, step, logged_step(folder), text)
        assert "goes on after step" in text and "stopping after this step" in text, text
        assert json.loads((folder / "metrics.json").read_text())["step"] == step
        arguments = resume(folder, "--processes", "2")
    ended = run(arguments)
    assert ended.returncode == 0, ended.stderr
    assert final_files(folder, STEPS) == final_files(whole, STEPS), "weights differ after Ctrl-C"
    assert curves(folder) == curves(whole), "the log differs after Ctrl-C"
    print(f"{INTERRUPTS} times Ctrl-C with two processes: the same bytes", flush=True)


def a_signal_to_every_process_still_ends_in_a_checkpoint(work):
    """As Slurm and systemd send it: to the launcher and to each rank, some milliseconds apart, in any order."""
    for number, order in enumerate((1, -1)):
        folder = work / f"everybody {number}"
        process = subprocess.Popen(command(folder, "--steps", "100000", "--processes", "2"), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        wait_until(lambda: logged_step(folder) > 2 or process.poll() is not None, "some steps")
        for pid in [process.pid, *children(process.pid)][::order]:
            os.kill(pid, signal.SIGTERM)
            time.sleep(0.05)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM, (process.returncode, output, errors)
        assert newest_step(folder) == logged_step(folder) > 2, (newest_step(folder), logged_step(folder))
    # One process: `timeout` signals its child, and then its whole group.
    folder = work / "twice"
    process = subprocess.Popen(command(folder, "--steps", "100000"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: logged_step(folder) > 2 or process.poll() is not None, "some steps")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode in (128 + signal.SIGTERM, INTERRUPTED), (process.returncode, output, errors)
    assert newest_step(folder) == logged_step(folder) > 2
    print("a signal to every process ends in a checkpoint", flush=True)


def a_killed_launcher_leaves_no_rank_and_a_checkpoint(work):
    folder = work / "orphans"
    process = subprocess.Popen(command(folder, "--steps", "100000", "--processes", "2"), stdout=subprocess.DEVNULL)
    wait_until(lambda: logged_step(folder) > 2 or process.poll() is not None, "some steps")
    ranks = children(process.pid)
    process.kill()
    process.wait()
    ranks_are_gone(ranks)
    assert newest_step(folder) == logged_step(folder) > 2
    assert run(resume(folder, "--max-steps", str(newest_step(folder) + 2))).returncode == 0
    print("a killed launcher leaves no rank at work", flush=True)


def a_terminal_that_closes_ends_in_a_checkpoint(work):
    for number, extra in enumerate(([], ["--processes", "2"])):
        folder = work / f"closed {number}"
        terminal = Terminal(command(folder, "--steps", "100000", *extra))
        terminal.wait_for(lambda: logged_step(folder) > 2, "some steps")
        everybody = [terminal.pid, *children(terminal.pid)]
        os.close(terminal.keys)
        _, status = os.waitpid(terminal.pid, 0)
        ranks_are_gone(everybody)
        assert exit_code(status) == 128 + signal.SIGHUP, exit_code(status)
        assert newest_step(folder) == logged_step(folder) > 2
    print("a terminal that closes ends in a checkpoint", flush=True)


def a_reader_that_ends_first_costs_no_checkpoint(work):
    """`frn train ... | tee log`: the same Ctrl-C ends tee, and what is printed then has nowhere to go."""
    folder = work / "piped"
    reader, writer = os.pipe()
    # Every step is validated, and a line is printed for it before the checkpoint.
    process = subprocess.Popen(command(folder, "--steps", "100000", "--validate-every", "1"), stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    wait_until(lambda: logged_step(folder) > 2 or process.poll() is not None, "some steps")
    os.close(reader)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED, (process.returncode, errors)
    assert newest_step(folder) == logged_step(folder) > 2
    print("a reader that ends first costs no checkpoint", flush=True)


def a_second_ctrl_c_ends_at_once(work):
    # Steps of many seconds: the run must not come to the end of one.
    slow = [FRN, "train", "--model", "resnetv2-20", "--image-size", "64", "--batch-per-device", "8", "--devices", "512"]
    slow += ["--images-at-once", "8", "--threads", "1", "--steps", "1000", "--workers", "0"]
    for name, extra in (("one", []), ("two", ["--processes", "2"])):
        folder = work / f"at once {name}"
        terminal = Terminal([*slow, "--out", str(folder), *extra])
        terminal.wait_for(lambda: b"per step;" in terminal.output, "the start")
        everybody = [terminal.pid, *children(terminal.pid)]
        terminal.press(b"\x03")
        terminal.wait_for(lambda: b"stopping after this step" in terminal.output, "the notice")
        time.sleep(2.1)
        assert not terminal.ended(), "a step took less than two seconds: this shows nothing"
        terminal.press(b"\x03")
        assert terminal.wait_end() == INTERRUPTED
        ranks_are_gone(everybody)
        assert newest_step(folder) == 0
    print("a second Ctrl-C ends at once", flush=True)


def ctrl_z_stops_all_ranks_until_they_go_on(work):
    folder = work / "paused"
    process = subprocess.Popen(command(folder, "--steps", "100000", "--processes", "2"), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=False)
    wait_until(lambda: logged_step(folder) > 2 or process.poll() is not None, "some steps")
    everybody = [process.pid, *children(process.pid)]
    process.send_signal(signal.SIGTSTP)
    wait_until(lambda: all(state_of(pid) == "T" for pid in everybody), "all to stop")
    before = logged_step(folder)
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: logged_step(folder) > before + 1, "all to go on")
    process.terminate()
    process.communicate(timeout=60)
    assert newest_step(folder) == logged_step(folder)
    print("Ctrl-Z stops all ranks until they go on", flush=True)


def a_failed_fork_leaves_no_rank(work):
    if os.getuid() != 0:
        print("SKIPPED a failed fork: only root can become a user without other processes", flush=True)
        return
    user = 64999  # has no other process
    folder = work / "fork"
    folder.mkdir()
    work.chmod(0o755)
    os.chown(folder, user, user)

    def few_processes():
        resource.setrlimit(resource.RLIMIT_NPROC, (3, 3))
        os.setgid(user)
        os.setuid(user)

    try:
        reached = run([FRN, "--version"], preexec_fn=lambda: os.setuid(user)).returncode == 0
    except PermissionError:
        reached = False
    if not reached:
        print("SKIPPED a failed fork: the program lies where other users may not go", flush=True)
        return
    arguments = command(folder / "run", "--steps", "10", "--processes", "8")
    arguments[arguments.index("--devices") + 1] = "8"
    ended = run(arguments, preexec_fn=few_processes)
    assert ended.returncode != 0 and "cannot start a process" in ended.stderr, (ended.returncode, ended.stderr)
    owned = [path for path in Path("/proc").glob("[0-9]*") if path.stat().st_uid == user and is_alive(path.name)]
    assert not owned, owned
    print("a failed fork leaves no rank", flush=True)


def one_trainer_per_folder(work):
    for name, environment in (("with locks", {}), ("without flock", {"LD_PRELOAD": NO_FLOCK})):
        folder = work / name
        environment = {**os.environ, **environment}
        first = subprocess.Popen(command(folder, "--steps", "100000", "--checkpoint-every", "3"), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=environment)
        wait_until(lambda: newest_step(folder) > 3 or first.poll() is not None, "a checkpoint")
        for second in (resume(folder), resume(folder, "--processes", "2")):
            refused = run(second, env=environment)
            assert refused.returncode not in (0, 2), refused.stderr
            assert f"{folder} is in use" in refused.stderr and "--out" in refused.stderr, refused.stderr
        first.terminate()
        _, errors = first.communicate(timeout=60)
        assert first.returncode == 128 + signal.SIGTERM, errors
        assert ("refuses locks" in errors) == ("flock" in name), errors
        assert newest_step(folder) == logged_step(folder)
        again = run(resume(folder, "--max-steps", str(newest_step(folder) + 1)), env=environment)
        assert again.returncode == 0, again.stderr
        assert not (folder / "run.lock").exists()
    # Where nothing can be held, a run goes on and says so; nobody is accused of being there.
    environment = {**os.environ, "LD_PRELOAD": NO_FLOCK, "FRN_TEST_NO_NAMES": "1"}
    alone = run(command(work / "nothing to hold", "--steps", "3"), env=environment)
    assert alone.returncode == 0 and "is not noticed" in alone.stderr and "in use" not in alone.stderr, alone.stderr
    print("one trainer per folder", flush=True)


def has_terminals():
    try:
        ends = pty.openpty()
    except OSError as error:
        print(f"SKIPPED everything at a terminal: there is none to be had ({error})", flush=True)
        return False
    for end in ends:
        os.close(end)
    return True


def main():
    with tempfile.TemporaryDirectory(prefix="frn's signals ") as work:
        work = Path(work)
        if has_terminals():
            ctrl_c_with_two_processes_resumes_to_the_byte(work)
            a_terminal_that_closes_ends_in_a_checkpoint(work)
            a_second_ctrl_c_ends_at_once(work)
        a_signal_to_every_process_still_ends_in_a_checkpoint(work)
        a_reader_that_ends_first_costs_no_checkpoint(work)
        a_killed_launcher_leaves_no_rank_and_a_checkpoint(work)
        ctrl_z_stops_all_ranks_until_they_go_on(work)
        a_failed_fork_leaves_no_rank(work)
        one_trainer_per_folder(work)


if __name__ == "__main__":
    main()
