"""Kills a training run at ten random moments and resumes it each time: the weights end as those of a run that nobody
touched, to the last bit. Usage: kill_and_resume.py path/to/frn

Also: what SIGTERM leaves, and what a person reads when a run cannot go on."""

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FRN = sys.argv[1]
KILLS = 10
STEPS = 120
# Checkpoints at every seventh step, so that kills fall before, into and after them; epochs end at step 78 and 156.
SETTINGS = f"""
model = "resnetv2-8"
image_size = 12
batch_per_device = 16
devices = 4
norm = "bn+tlu"
steps = {STEPS}
checkpoint_every = 7
validate_every = 60
log_every = 5
ema_decay = 0.99
threads = 1
"""


def command(folder, *extra):
    return [FRN, "train", "--out", str(folder), *extra]


def start(folder, config):
    return command(folder, "--config", str(config))


def run(arguments):
    return subprocess.run(arguments, capture_output=True, text=True)


def newest_step(folder):
    steps = [int(p.name.split("-")[1]) for p in (folder / "checkpoints").glob("step-*")]
    return max(steps, default=0)


def final_files(folder):
    last = folder / "checkpoints" / f"step-{STEPS}"
    return {name: (last / name).read_bytes() for name in ("model.safetensors", "trainer.safetensors")}


def curves(folder):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    keep = [line for line in lines if line["event"] in ("train", "validation")]
    for line in keep:
        line.pop("images_per_second", None)
    return keep


def killed_run(folder, config, seconds_of_a_run, rng):
    """Starts, kills and resumes until ten kills are done, then lets the run end."""
    arguments = start(folder, config)
    for kill in range(KILLS):
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        # From right at the start to somewhat beyond what one sitting needs to move on.
        wait = rng.uniform(0.1, 0.8 + 0.12 * seconds_of_a_run)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        errors = process.communicate()[1]
        assert process.returncode in (-signal.SIGKILL, 0), f"kill {kill}: exit {process.returncode}: {errors}"
        print(f"kill {kill} after {wait:.2f} s: newest checkpoint {newest_step(folder)}", flush=True)
        arguments = command(folder, "--resume") if (folder / "config.toml").exists() else start(folder, config)
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
        assert final_files(work / "killed") == final_files(work / "whole"), "weights differ after kills"
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
        while newest_step(work / "asked") < 7 and process.poll() is None:
            time.sleep(0.02)
        process.terminate()
        output, errors = process.communicate()
        assert process.returncode == 128 + signal.SIGTERM, (process.returncode, errors)
        assert "--resume" in output, output
        stopped = newest_step(work / "asked")
        assert json.loads((work / "asked" / "metrics.json").read_text())["step"] == stopped
        assert f"after step {stopped}" in output, output
        assert run(command(work / "asked", "--resume")).returncode == 0
        assert final_files(work / "asked") == final_files(work / "whole"), "weights differ after SIGTERM"
    print("all runs ended with the same weights")


if __name__ == "__main__":
    main()
