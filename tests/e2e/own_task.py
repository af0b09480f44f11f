"""A program's own task, model, data and optimiser (examples/own_task.cpp): it learns, survives kills to the byte, trains the
same with two processes, and its run can be drawn.

usage: own_task.py OWN_TASK FRN
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OWN_TASK, FRN = sys.argv[1:3]
LAST = "checkpoints/step-300"


def run(folder, **environment):
    return subprocess.run([OWN_TASK, folder], capture_output=True, text=True, env={**os.environ, **environment}, timeout=300)


def weights(folder):
    return b"".join((folder / LAST / name).read_bytes() for name in ("model.safetensors", "trainer.safetensors"))


def log(folder):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("images_per_second", "wait_share")} for line in lines if line["event"] in ("train", "validation")]


def learns(folder):
    ended = run(folder)
    assert ended.returncode == 0 and ended.stdout.endswith("finished\n"), ended
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["metrics"] == [{"key": "distance", "title": "mean distance", "kind": "share", "better": "lower"}], metrics
    first, last = (line["distance"] for line in (log(folder)[0], metrics["validation"]))
    assert last < 0.05 < first, "guessing the middle is 0.16 off"
    assert metrics["best"]["distance"] == min(line["distance"] for line in log(folder) if line["event"] == "validation")


def logged_steps(folder):
    try:
        return (folder / "log.jsonl").read_text().count('"event":"train"')
    except FileNotFoundError:
        return 0


def kills_cost_nothing(folder, whole):
    """Each kill falls a random moment after a line was logged, so that a fast machine does not end the run before."""
    generator = random.Random(1)
    kills = 0
    for _ in range(8):
        before = logged_steps(folder)
        process = subprocess.Popen([OWN_TASK, folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        end = time.monotonic() + 120
        while process.poll() is None and logged_steps(folder) <= before and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(generator.uniform(0, 0.1))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
    assert kills >= 2, f"only {kills} kills fell into the run"
    assert run(folder).returncode == 0
    assert weights(folder) == weights(whole)
    assert log(folder) == log(whole)


def two_processes_train_alike(folder, whole):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen([OWN_TASK, folder], env={**os.environ, **place, "RANK": str(r), "LOCAL_RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for r in range(2)
    ]
    for rank in ranks:
        _, errors = rank.communicate(timeout=300)
        assert rank.returncode == 0, errors.decode()
    ours, theirs = log(folder), log(whole)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    # The sign of a gradient near 0 may differ by rounding, so that weights part; the first line is of one step.
    assert abs(ours[0]["loss"] - theirs[0]["loss"]) <= 1e-6 * theirs[0]["loss"]
    assert ours[-1]["samples"] == theirs[-1]["samples"] == 200
    assert ours[-1]["distance"] < 0.05


def is_drawn(folder):
    subprocess.run([FRN, "report", folder], check=True, capture_output=True, timeout=120)
    page = (folder / "report.html").read_text()
    assert "mean distance" in page and "P@1" not in page
    assert (folder / "curves-loss.svg").exists()
    header = (folder / "curves.csv").read_text().splitlines()[0]
    assert "train_distance" in header and "precision" not in header, header


def refuses_what_does_not_fit(folder):
    """A folder with something else in it, and one that cannot be made."""
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    for out, sentence in ((folder, "must be empty or a new folder"), (Path("/proc/none/run"), "cannot make the folder")):
        ended = run(out)
        assert ended.returncode == 1 and sentence in ended.stderr and len(ended.stderr.splitlines()) == 1, ended
    assert (folder / "mine.txt").read_text() == "mine" and len(list(folder.iterdir())) == 1


with tempfile.TemporaryDirectory() as temporary:
    root = Path(temporary)
    learns(root / "whole")
    kills_cost_nothing(root / "killed", root / "whole")
    two_processes_train_alike(root / "two", root / "whole")
    is_drawn(root / "whole")
    refuses_what_does_not_fit(root / "other")
print("own_task.py: all hold")
