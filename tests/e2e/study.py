"""Runs studies as a person would: kills one half-way and starts it again, lets cells fail and diverge, tries every built-in
study. Usage: study.py path/to/frn [--all]

--all: every cell of every built-in study at scale smoke for twenty steps, and one step of every cell at scale paper (ten minutes
on two cores). `make run` trains one of them whole."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FRN = str(Path(sys.argv[1]).resolve())
ALL = "--all" in sys.argv
TINY = """
title = "Tiny"
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
name = "2"
batch_per_device = 2
[scale.smoke]
data = "fashion-mini"
model = "resnetv2-8"
image_size = 8
steps = 40
checkpoint_every = 10
validate_every = 40
log_every = 5
threads = 1
workers = 0
[[claim]]
text = "FRN is better."
higher = ["frn"]
lower = ["bn"]
"""

# Figure 1 is Table 2's cells, the curves are Table 1's first column, and our own studies have more cells of the same networks.
SOME_OF_PAPER = {
    "figure1": "bn-32,frn-1",
    "figure-curves": "gn",
    "choosing": "bn-32,gn-both-32,frn-eps-32",
    "practice": "frn-vgg,bn-step-resnet",
}

# Both columns take 8 images a step.
SAME = TINY.replace("steps = 40", "steps = 12").replace("batch_per_device = 2", "batch_per_device = 2\ndevices = 4") + """
[[claim]]
text = "FRN stays."
close = ["frn"]
within = 0.5
"""


def run(*arguments, expect=0, folder=None):
    done = subprocess.run([FRN, "study", *map(str, arguments)], capture_output=True, text=True, cwd=folder)
    assert done.returncode == expect, f"study {arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def table(folder):
    with open(folder / "table.csv") as file:
        return {row["cell"]: row for row in csv.DictReader(file)}


def without_times(folder):
    rows = table(folder)
    for row in rows.values():
        row.pop("seconds")
    return rows


def starts(folder, cell):
    """How often training of the cell was begun or taken up again."""
    lines = (folder / "cells" / cell / "log.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines if json.loads(line)["event"] in ("start", "resume")]


def stop_half_way(study, out, number):
    """Sends the signal while the second of four cells is under way. Should the machine stand still just then and the study
    end first, it is started once more."""
    checkpoints = out / "cells" / "bn-2" / "checkpoints"
    for _ in range(5):
        process = subprocess.Popen([FRN, "study", str(study), "--out", str(out), "--jobs", "1"], stdout=subprocess.PIPE, text=True)
        while process.poll() is None and not any(checkpoints.glob("step-*")):
            time.sleep(0.02)
        in_time = process.poll() is None and not (out / "cells" / "frn-2" / "metrics.json").exists()
        process.send_signal(number)
        output = process.communicate()[0]
        if in_time or process.returncode != 0:
            assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), output
            return output
        shutil.rmtree(out)
    raise AssertionError("the study ended before it could be stopped, five times")


def check_kill_and_resume(work):
    study = work / "tiny.toml"
    study.write_text(TINY)
    whole, stopped, killed = work / "whole", work / "stopped", work / "killed"
    text = run(study, "--out", whole)
    assert "frn-2" in text and "wrote" in text, text
    assert {row["state"] for row in table(whole).values()} == {"finished"}
    output = stop_half_way(study, stopped, signal.SIGTERM)
    assert "the same command goes on" in output, output
    assert json.loads((stopped / "cells/bn-2/metrics.json").read_text())["status"] in ("interrupted", "finished")
    stop_half_way(study, killed, signal.SIGKILL)
    for out in (stopped, killed):
        first = starts(out, "bn-8")
        text = run(study, "--out", out)
        assert "cells are there already" in text, text
        assert starts(out, "bn-8") == first == ["start"], "a finished cell was repeated"
        assert without_times(out) == without_times(whole), "another result than without the stop"
    before = (whole / "table.csv").read_text()
    run(study, "--out", whole)
    assert (whole / "table.csv").read_text() == before


def check_bad_cells(work):
    study = work / "bad.toml"
    text = TINY.replace('norm = "bn+relu"', 'norm = "none+relu"\nlr_base = 1e12')
    study.write_text(text)
    out = work / "bad"
    run(study, "--out", out)
    rows = table(out)
    assert rows["bn-8"]["state"] == "diverged" and rows["frn-8"]["state"] == "finished", rows
    assert "diverged" in (out / "report.html").read_text()
    (out / "cells/frn-8/metrics.json").unlink()
    for checkpoint in (out / "cells/frn-8/checkpoints").iterdir():
        (checkpoint / "model.safetensors").write_bytes(b"broken")
    words = run(study, "--out", out, expect=1)
    assert "frn-8" in words and "failed" in words, words
    assert table(out)["frn-8"]["message"], "a failed cell without its reason"
    study.write_text(text.replace("steps = 40", "steps = 30"))
    assert "begun with another steps" in run(study, "--out", out, expect=1)
    assert "--only x matches no cell" in run(study, "--out", out, "--only", "x", expect=1)


def check_trial(work):
    """A trial of few steps goes on to the whole."""
    study = work / "trial.toml"
    study.write_text(TINY)
    out = work / "trial"
    run(study, "--out", out, "--max-steps", 5, "--only", "frn-8")
    assert table(out)["frn-8"]["state"] == "stopped at step 5"
    run(study, "--out", out, "--only", "frn-8,bn-8", "--seeds", 2)
    assert all(table(out)[cell]["state"] == "finished" for cell in ("frn-8", "frn-8-seed1", "bn-8", "bn-8-seed1"))
    # Other cells are shown as not run, but not the seeds of theirs that nobody asked for; a later call forgets nothing.
    run(study, "--out", out, "--only", "frn-2")
    assert table(out)["bn-2"]["state"] == "not run" and "bn-2-seed1" not in table(out), table(out)
    assert "1 to 2 seeds" in (out / "table.md").read_text()


def check_without_gnuplot(work):
    """The figures are what is missing then, not the numbers; and it is said while there is time to install it."""
    study, out = work / "drawn.toml", work / "undrawn"
    study.write_text(TINY.replace("[[claim]]", '[[figure]]\nfile = "columns"\nkind = "columns"\n[[claim]]'))
    words = [FRN, "study", study, "--out", out, "--only", "frn-8"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PATH": "/nonexistent"})
    assert done.returncode == 1 and "FRN is better" in done.stdout, done
    before, after = done.stderr.splitlines()
    assert "gnuplot is not installed" in before and "written without 1 of 1 figures" in after, done.stderr
    assert table(out)["frn-8"]["state"] == "finished" and (out / "report.html").exists()
    run(study, "--out", out, "--report-only")
    assert (out / "columns.svg").exists()


def check_foreign_folder(work):
    """A study writes in no folder of somebody's, where study.toml, table.csv or report.html may be theirs."""
    out = work / "theirs"
    out.mkdir()
    (out / "study.toml").write_text(TINY)
    (out / "table.csv").write_text("theirs")
    words = run(out / "study.toml", "--out", out, "--only", "frn-8", expect=1)
    assert "must be empty or a new folder but holds" in words and words.count("\n") == 1, words
    assert {path.name for path in out.iterdir()} == {"study.toml", "table.csv"}, list(out.iterdir())


def check_dry_run(work):
    """It says what would be trained, by the settings of each cell, and writes nothing."""
    study = work / "planned.toml"
    study.write_text(TINY.replace("[[claim]]", "[scale.smoke.column.2]\nsteps = 160\n[[claim]]"))
    empty = work / "empty"
    empty.mkdir()

    def steps(*arguments):
        plan = run(study, "--dry-run", *arguments, folder=empty)
        assert "about" in plan, plan
        return {line.split()[0]: int(re.search(r" x \d+ +(\d+) ", line)[1]) for line in plan.splitlines() if " x " in line}

    assert steps() == {"bn-8": 40, "bn-2": 160, "frn-8": 40, "frn-2": 160}
    assert set(steps("--set", "steps=30").values()) == {30}, "the command line must win over a column's own steps"
    assert steps("--max-steps", 50)["frn-2"] == 50
    assert steps("--set", "max_steps=20")["frn-2"] == 20
    assert steps("--set", "max_steps=20", "--max-steps", 50)["frn-2"] == 50
    words = run(study, "--dry-run", "--set", "seed=7", folder=empty, expect=1)
    assert "--set cannot give the seed" in words and "--seeds" in words and words.count("\n") == 1, words
    # More cells at a time than there are take no less time than the longest, and no more memory than all.
    plan = run(study, "--dry-run", "--jobs", 1024, folder=empty)
    minutes, seconds, memory = re.search(r"about (\d+):(\d+) with 4 at a time, and up to ([\d.]+) GB", plan).groups()
    cells = [re.search(r"(\d+) MB +(\d+):(\d+)$", line) for line in plan.splitlines() if " x " in line]
    assert 60 * int(minutes) + int(seconds) >= max(60 * int(cell[2]) + int(cell[3]) for cell in cells), plan
    assert float(memory) <= sum(int(cell[1]) for cell in cells) / 1000 + 0.1, plan
    words = run("figure-epsilon", "--dry-run", folder=empty)
    assert "would write" in words and "figure-epsilon.svg" in words, words
    run("figure-epsilon", "--dry-run", "--out", empty / "there", folder=empty)
    assert list(empty.iterdir()) == [], "a dry run wrote something"


def weights(folder, cell):
    return next((folder / "cells" / cell / "checkpoints").glob("step-*/model.safetensors")).read_bytes()


def check_same_trainings(work):
    """A norm of single images does not see how a step is split over devices: its columns are one training. Not only said: the
    weights of cells that were each trained have the same bytes."""
    study = work / "same.toml"
    study.write_text(SAME)
    each, once, one = work / "each", work / "once", work / "one"
    run(study, "--out", each, "--all-cells")
    assert {path.name for path in (each / "cells").iterdir()} == {"bn-8", "bn-2", "frn-8", "frn-2"}
    assert weights(each, "frn-8") == weights(each, "frn-2"), "by construction, but not the same"
    assert weights(each, "bn-8") != weights(each, "bn-2"), "a batch method must see the split"
    plan = run(study, "--out", once, "--dry-run")
    assert "3 trainings for 4 cells" in plan and "is the same training as frn-8" in plan, plan
    text = run(study, "--out", once, "--only", "frn-*")
    assert "1 training for 2 cells" in text and not (once / "cells/frn-2").exists(), text
    assert weights(once, "frn-8") == weights(each, "frn-8")
    assert table(once)["frn-2"]["same_as"] == "frn-8" and table(once)["frn-2"]["state"] == "finished", table(once)
    for cell in ("frn-8", "frn-2"):
        assert table(once)[cell]["precision_at_1"] == table(each)[cell]["precision_at_1"], cell
    assert "identical by construction" in (once / "table.md").read_text()
    assert text.rstrip().splitlines()[-1] == f"report: {once}/report.html", text
    # One that is asked for by name trains the cell that stands for it.
    run(study, "--out", one, "--only", "frn-2")
    assert [path.name for path in (one / "cells").iterdir()] == ["frn-8"]
    assert table(one)["frn-2"]["precision_at_1"] == table(each)["frn-2"]["precision_at_1"]
    # A folder in which all cells were trained is used as it is.
    before = {cell: starts(each, cell) for cell in ("bn-8", "bn-2", "frn-8", "frn-2")}
    run(study, "--out", each)
    assert before == {cell: starts(each, cell) for cell in before} and not table(each)["frn-2"]["same_as"]
    # Masks of dropout belong to samples; but a last batch is cut to a multiple of the devices.
    assert ": 3 trainings for 4 cells" in run(study, "--dry-run", "--set", "dropout=0.1")
    assert ": 4 cells" in run(study, "--dry-run", "--set", "last_batch=keep")


def check_built_in(work):
    names = [line.split()[0] for line in run("--list").splitlines()]
    assert {f"table{i}" for i in range(1, 6)} | {"table2-rates", "figure1", "figure-curves", "figure-epsilon"} <= set(names)
    for name in names if ALL else ("table2", "figure-epsilon"):
        out = work / name
        if name == "figure-epsilon":
            run(name, "--out", out)
            assert (out / "figure-epsilon.svg").exists()
            continue
        run(name, "--out", out, "--seeds", 1, "--set", "steps=20", *([] if ALL else ["--only", "brn-4,frn-4"]))
        rows = table(out)
        chosen = [row for cell, row in rows.items() if ALL or cell in ("brn-4", "frn-4")]
        assert chosen and all(row["state"] in ("finished", "diverged") for row in chosen), rows
        assert (out / "report.html").stat().st_size > 5000
        if ALL and name != "table2-rates":
            # Every cell of the paper's scale really starts: its network, image size and images per device; one device.
            # Eight images of 1024 px do not fit into the memory of a desk: detectors take two.
            paper = work / f"{name}-paper"
            fewer = ["batch_per_device=2"] if name == "table6" else []
            # Cells of networks and batches that another study starts too: one or two of each kind are enough.
            some = SOME_OF_PAPER.get(name)
            only = ["--only", some] if some else []
            run(name, "--scale", "paper", "--data", "random", "--max-steps", 1, "--set", "devices=1", *fewer, *only, "--out", paper)
            started = {cell: row for cell, row in table(paper).items() if not some or cell in some.split(",")}
            assert all(row["state"] in ("stopped at step 1", "diverged") for row in started.values()), started


def main():
    os.environ.pop("OMP_NUM_THREADS", None)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if not ALL:
            check_kill_and_resume(work)
            check_bad_cells(work)
            check_trial(work)
            check_foreign_folder(work)
            check_without_gnuplot(work)
            check_dry_run(work)
            check_same_trainings(work)
        check_built_in(work)
    print("all studies behaved")


if __name__ == "__main__":
    main()
