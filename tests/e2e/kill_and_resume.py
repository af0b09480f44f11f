"""Kills a training run again and again and resumes it each time: the weights end as those of a run that nobody touched,
to the last bit. Usage: kill_and_resume.py path/to/frn

Ten kills; a hundred with FRN_ALL_CASES set. Also: what SIGTERM leaves, and what a person reads when a run cannot go on."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runs import curves, final_files, logged_step, newest_step, wait_until

FRN = sys.argv[1]
KILLS = 100 if os.environ.get("FRN_ALL_CASES") else 10
STEPS = 12 * KILLS
# Checkpoints at every seventh step, so that kills fall before, into and after them.
SETTINGS = f"""
model = "resnetv2-8"
image_size = 12
batch_per_device = 16
devices = 4
norm = "bn+tlu"
steps = {STEPS}
checkpoint_every = 7
validate_every = 60
log_every = 1
ema_decay = 0.99
threads = 1
"""


def command(folder, *extra):
    return [FRN, "train", "--out", str(folder), *extra]


def start(folder, config):
    return command(folder, "--config", str(config))


def run(arguments):
    return subprocess.run(arguments, capture_output=True, text=True)


def killed_run(folder, config, seconds_of_a_run, rng):
    """Starts, kills and resumes until all kills are done, then lets the run end. Every second kill comes at a random
    moment, from right at the start to somewhat beyond what one sitting needs to move on; the others a random number of
    steps after a checkpoint, so that steps are lost and made again."""
    arguments = start(folder, config)
    lost = partial = 0
    for kill in range(KILLS):
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if kill % 2 == 0:
            time.sleep(rng.uniform(0.1, 0.8 + 1.2 * seconds_of_a_run / KILLS))
        else:
            begin, more = newest_step(folder), rng.randrange(1, 7)
            wait_until(lambda: process.poll() is not None or logged_step(folder) > begin + more, "a step")
        process.send_signal(signal.SIGKILL)
        errors = process.communicate()[1]
        assert process.returncode in (-signal.SIGKILL, 0), f"kill {kill}: exit {process.returncode}: {errors}"
        logged, saved = logged_step(folder), newest_step(folder)
        lost += process.returncode != 0 and logged > saved
        partial += any((folder / "checkpoints").glob(".partial-*"))
        print(f"kill {kill}: step {logged}, newest checkpoint {saved}", flush=True)
        arguments = command(folder, "--resume") if (folder / "config.toml").exists() else start(folder, config)
    print(f"{lost} of {KILLS} kills lost steps, {partial} left a checkpoint half-written")
    assert lost >= KILLS // 4, "hardly a kill fell between two checkpoints: this shows nothing"
    end = run(arguments)
    assert end.returncode == 0, end.stderr


def main():
    rng = random.Random(20260)
    with tempfile.TemporaryDirectory(prefix="frn's kills ") as work:
        work = Path(work)
        config = work / "config.toml"
        config.write_text(SETTINGS)

        begin = time.time()
        whole = run(start(work / "whole", config))
        assert whole.returncode == 0, whole.stderr
        killed_run(work / "killed", config, time.time() - begin, rng)
        assert final_files(work / "killed", STEPS) == final_files(work / "whole", STEPS), "weights differ after kills"
        assert curves(work / "killed") == curves(work / "whole"), "the log differs after kills"

        # A second start of the same run, and a resume with another rate, are refused and change nothing.
        again = run(start(work / "whole", config))
        assert again.returncode != 0 and "--resume" in again.stderr, again.stderr
        other = run(command(work / "whole", "--resume", "--lr-base", "3"))
        assert other.returncode != 0 and "keeps its lr_base" in other.stderr, other.stderr
        nothing = run(command(work / "empty", "--resume"))
        assert nothing.returncode != 0 and "no run to resume" in nothing.stderr, nothing.stderr
        assert not (work / "empty").exists()

        # SIGTERM writes a checkpoint of the step at hand and says how to go on.
        process = subprocess.Popen(start(work / "asked", config), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: newest_step(work / "asked") >= 7 or process.poll() is not None, "a checkpoint")
        process.terminate()
        output, errors = process.communicate()
        assert process.returncode == 128 + signal.SIGTERM, (process.returncode, errors)
        assert "--resume" in output, output
        stopped = newest_step(work / "asked")
        assert json.loads((work / "asked" / "metrics.json").read_text())["step"] == stopped
        assert f"after step {stopped}" in output, output
        assert run(command(work / "asked", "--resume")).returncode == 0
        assert final_files(work / "asked", STEPS) == final_files(work / "whole", STEPS), "weights differ after SIGTERM"
    print("all runs ended with the same weights")


if __name__ == "__main__":
    main()
