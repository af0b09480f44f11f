"""A study with two cells at a time comes to the same table as with one at a time, and never has more under way than asked for.
Usage: study_jobs.py path/to/frn"""

import csv
import fcntl
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FRN = str(Path(sys.argv[1]).resolve())
# Cells of unequal length, so that they end in another order than they were begun.
STUDY = """
title = "Jobs"
place = "nowhere"
[[row]]
name = "bn"
norm = "bn+relu"
[[row]]
name = "frn"
norm = "frn+tlu"
[[column]]
name = "8"
batch_per_device = 8
[[column]]
name = "4"
batch_per_device = 4
[scale.smoke]
data = "fashion-mini"
model = "resnetv2-8"
image_size = 8
steps = 30
validate_every = 30
checkpoint_every = 30
threads = 1
workers = 0
[scale.smoke.cell."bn@8"]
steps = 90
validate_every = 90
[scale.smoke.cell."frn@8"]
norm = "none+relu"
lr_base = 1e12
[[claim]]
text = "FRN is better at 4."
higher = ["frn@4"]
lower = ["bn@4"]
"""


def children_of(process):
    try:
        return len(Path(f"/proc/{process}/task/{process}/children").read_text().split())
    except OSError:
        return 0


def study(path, out, *more):
    """Runs it, and counts how many cells were under way at most."""
    process = subprocess.Popen([FRN, "study", str(path), "--out", str(out), *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    most = 0
    while process.poll() is None:
        most = max(most, children_of(process.pid))
        time.sleep(0.005)
    words = process.stdout.read()
    assert process.returncode == 0, words
    return words, most


def without_times(out):
    with open(out / "table.csv") as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def results(out):
    """What tables and pages are made of: for each cell its weights and its last numbers."""
    found = {}
    for cell in sorted((out / "cells").iterdir()):
        metrics = json.loads((cell / "metrics.json").read_text())
        weights = [path.read_bytes() for path in sorted(cell.glob("checkpoints/step-*/model.safetensors"))]
        found[cell.name] = (metrics["status"], metrics.get("validation"), weights)
    return found


def start_in_a_folder_that_is_held(path, folder):
    """It waits half a minute for the folder, while the other studies run."""
    folder.mkdir()
    lock = open(folder / "study.lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock, subprocess.Popen([FRN, "study", path, "--out", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def a_folder_that_is_held_is_left_as_it_was(folder, refused):
    words, errors = refused.communicate(timeout=120)
    assert refused.returncode == 1 and f"{folder} is in use" in errors and words == "", (words, errors)
    assert sorted(file.name for file in folder.rglob("*") if file.is_file()) == ["study.lock"], list(folder.iterdir())


def main():
    with tempfile.TemporaryDirectory(prefix="frn's jobs ") as folder:
        work = Path(folder)
        path = work / "jobs.toml"
        path.write_text(STUDY)
        held = work / "held"
        lock, refused = start_in_a_folder_that_is_held(path, held)
        one, most_of_one = study(path, work / "one", "--jobs", "1")
        two, most_of_two = study(path, work / "two", "--jobs", "2")
        assert "1 at a time" in one and "2 at a time" in two, (one, two)
        assert (most_of_one, most_of_two) == (1, 2), "not as many cells under way as asked for"
        rows = without_times(work / "one")
        assert [row["cell"] for row in rows] == ["bn-8", "bn-4", "frn-8", "frn-4"]
        assert [row["state"] for row in rows] == ["finished", "finished", "diverged", "finished"], rows
        assert without_times(work / "two") == rows
        assert (work / "two" / "table.md").read_text() == (work / "one" / "table.md").read_text()
        assert results(work / "two") == results(work / "one"), "other weights than one at a time"
        # A second call finds all there, and trains nothing.
        again, most = study(path, work / "two", "--jobs", "2")
        assert most <= 1 and without_times(work / "two") == rows, again  # gnuplot is a child too
        bad = subprocess.run([FRN, "study", path, "--jobs", "x", "--out", work / "bad"], capture_output=True, text=True)
        assert bad.returncode == 2 and bad.stderr.startswith("frn: [study] --jobs must be a whole number"), bad.stderr
        assert bad.stderr.count("\n") == 1 and not (work / "bad").exists()
        a_folder_that_is_held_is_left_as_it_was(held, refused)
        lock.close()
    print("a study is the same whatever its jobs")


main()
