"""Types frn eval and frn predict after a small training, and checks what they say against the run's own log and the images.
Usage: eval_predict.py path/to/frn

The images are grey squares of three kinds that a small network tells apart at once. One of each kind that validation sees has
another's label, so that a right network is wrong there."""

import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

FRN = sys.argv[1]
# By the names that a folder sorts: class 0, 1, 2.
BRIGHTNESS = {"dark": 20, "light sky": 235, "middle": 128}
FOR_TRAINING, FOR_VALIDATION = 12, 7
STEPS = 40
TRAIN = (
    f"--model resnetv2-8 --norm frn+tlu --image-size 16 --augmentation none --batch-per-device 12 --steps {STEPS} --lr-base 1 "
    f"--validate-every {STEPS // 2} --checkpoint-every {STEPS} --threads 1 --workers 0"
).split()


def frn(*arguments, expect=0):
    done = subprocess.run([FRN, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == expect, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def refused(words, *arguments):
    """One sentence on the right stream, and nothing else."""
    done = subprocess.run([FRN, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode not in (0, 77) and done.returncode > 0, f"{arguments}: exit {done.returncode}"
    assert done.stdout == "", done.stdout
    assert done.stderr.startswith("frn: [") and done.stderr.count("\n") == 1, done.stderr
    assert words in done.stderr, f"{arguments}: wanted '{words}' in {done.stderr}"


def make_images(folder):
    draw = random.Random(3)
    for split, count in (("train", FOR_TRAINING), ("val", FOR_VALIDATION)):
        for name in BRIGHTNESS:
            (folder / split / name).mkdir(parents=True)
            for i in range(count):
                if split == "val" and i == 1:
                    brightness = BRIGHTNESS[next(other for other in BRIGHTNESS if other != name)]
                else:
                    brightness = BRIGHTNESS[name]
                pixels = bytes(min(255, max(0, brightness + draw.randint(-18, 18))) for _ in range(3 * 20 * 24))
                ending = "jpg" if i % 2 else "png"
                Image.frombytes("RGB", (24, 20), pixels).save(folder / split / name / f"{i}.{ending}")


def last_validation(run):
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == "validation"][-1]


def check_eval(run, images):
    logged = last_validation(run)
    assert logged["step"] == STEPS and logged["samples"] == 3 * FOR_VALIDATION, logged
    assert round(3 * FOR_VALIDATION * logged["precision_at_1"]) == 3 * (FOR_VALIDATION - 1), "the network has not learned"
    result = json.loads(frn("eval", "--run", run, "--json", "--threads", 1).stdout)
    for key in ("loss", "precision_at_1", "recall_at_5", "samples", "step"):
        assert result[key] == logged[key], (key, result[key], logged[key])
    assert (result["split"], result["weights"], result["unreadable"]) == ("validation", "plain", 0), result
    assert json.loads((run / "eval.json").read_text()) == result
    # For people: the same numbers.
    words = frn("eval", "--run", run, "--threads", 1).stdout
    assert f"P@1 {100 * logged['precision_at_1']:.2f} %" in words and f"loss {logged['loss']:.4f}" in words, words
    assert f"{3 * FOR_VALIDATION} validation images" in words and f"step {STEPS}" in words, words
    # Other pieces add up in another order: float32 sums of some 1e3 products, far from 1e-4.
    other = json.loads(frn("eval", "--run", run, "--json", "--images-at-once", 4).stdout)
    assert other["precision_at_1"] == result["precision_at_1"] and abs(other["loss"] - result["loss"]) < 1e-4, other
    training = json.loads(frn("eval", "--run", run, "--json", "--split", "train", "--data", f"imagefolder:{images}").stdout)
    assert training["samples"] == 3 * FOR_TRAINING and training["split"] == "train", training
    frn("eval", "--run", run, "--json", "--threads", 1)  # its eval.json is compared below
    return result


def check_eval_of_broken_images(work, run, images):
    """A broken image is named and does not count."""
    broken = work / "broken"
    shutil.copytree(images, broken)
    (broken / "val" / "dark" / "0.png").write_bytes(b"no image")
    done = frn("eval", "--run", run, "--json", "--data", f"imagefolder:{broken}")
    result = json.loads(done.stdout)
    assert (result["samples"], result["unreadable"]) == (3 * FOR_VALIDATION - 1, 1), result
    assert "0.png" in done.stderr and "does not count" in done.stderr, done.stderr


def check_eval_refuses(work, run, images, before):
    missing = work / "missing"
    refused("missing", "eval", "--run", missing)
    assert not missing.exists()
    refused("--run is required", "eval")
    refused("--split", "eval", "--run", run, "--split", "test")
    refused("--weights must be one of auto, plain, averaged but is 'best'", "eval", "--run", run, "--weights", "best")
    assert "that of the best validation is not kept" in " ".join(frn("eval", "--help").stdout.split())
    refused("keeps no moving average", "eval", "--run", run, "--weights", "averaged")
    refused("nothing", "eval", "--run", run, "--data", f"imagefolder:{work}/nothing")
    refused("the data must have the classes the run was trained on, 3 ('dark', ...)", "eval", "--run", run, "--data", "fashion-mini")
    two = work / "two"
    shutil.copytree(images, two, ignore=shutil.ignore_patterns("middle"))
    refused("has 2 ('dark', ...)", "eval", "--run", run, "--data", f"imagefolder:{two}")
    empty = work / "empty run"
    empty.mkdir()
    refused("empty run", "eval", "--run", empty)
    assert list(empty.iterdir()) == []
    assert json.loads((run / "eval.json").read_text()) == before, "a refused call changed the last one's result"


def check_eval_writes_through_no_link(work, run):
    """A run may come from somebody else, whose links may lead to anything of the user's."""
    victim, result = work / "victim", run / "eval.json"
    victim.write_text("mine")
    kept = result.read_text()
    result.unlink()
    result.symlink_to(victim)
    done = frn("eval", "--run", run, "--threads", 1, expect=1)
    assert "eval.json must be of this folder but is a symbolic link" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert "P@1" in done.stdout and "wrote" not in done.stdout, "an evaluation that took an hour is shown, kept or not"
    assert json.loads(frn("eval", "--run", run, "--json", "--threads", 1, expect=1).stdout)["samples"] == 3 * FOR_VALIDATION
    assert victim.read_text() == "mine"
    result.unlink()
    result.write_text(kept)


def check_predict(run, images, evaluated):
    files = sorted((images / "val").rglob("*.*"))
    found = json.loads(frn("predict", "--run", run, "--json", "--top", 3, *files).stdout)
    assert [entry["image"] for entry in found] == list(map(str, files))
    right = 0
    for path, entry in zip(files, found):
        classes = entry["classes"]
        assert {guess["name"] for guess in classes} == set(BRIGHTNESS), classes
        assert abs(sum(guess["probability"] for guess in classes) - 1) < 1e-5, classes
        assert classes == sorted(classes, key=lambda guess: -guess["probability"]), classes
        right += classes[0]["name"] == path.parent.name
    assert right == round(evaluated["precision_at_1"] * len(files)), "other classes than eval counted"
    # For people, and alone: the same class first.
    for path, entry in list(zip(files, found))[:: FOR_VALIDATION + 1]:
        lines = frn("predict", path, "--run", run, "--top", 1).stdout.splitlines()
        best = entry["classes"][0]
        assert lines == [str(path), f"  {100 * best['probability']:6.2f} %  {best['name']}"], lines
    # As many as there are, when fewer than the default five.
    assert len(frn("predict", "--run", run, files[0]).stdout.splitlines()) == 1 + len(BRIGHTNESS)


def check_predict_refuses(work, run, images):
    good = images / "val" / "dark" / "0.png"
    bad = {"text.png": b"no image", "empty.jpg": b"", "cut.png": good.read_bytes()[:300]}
    for name, content in bad.items():
        (work / name).write_bytes(content)
        refused(name, "predict", "--run", run, work / name)
    refused("gone.png", "predict", "--run", run, work / "gone.png")
    refused("val", "predict", "--run", run, images / "val")
    refused("IMAGE", "predict", "--run", run)
    refused("--top", "predict", "--run", run, good, "--top", 0)
    refused("missing", "predict", "--run", work / "missing", good)
    # One that cannot be read is named; the others have their classes, and the exit code tells.
    done = frn("predict", "--run", run, "--top", 1, work / "text.png", good, expect=1)
    assert done.stdout.splitlines()[0] == str(good) and done.stderr.count("\n") == 1 and "text.png" in done.stderr, done


def check_averaged_weights(work, images):
    """A run that keeps an average is measured with it, as its own validations are; the plain weights are there too."""
    run = work / "averaged"
    frn("train", "--out", run, "--data", f"imagefolder:{images}", *TRAIN, "--ema-decay", "0.9")
    best = json.loads(frn("eval", "--run", run, "--json", "--threads", 1).stdout)
    plain = json.loads(frn("eval", "--run", run, "--json", "--threads", 1, "--weights", "plain").stdout)
    assert (best["weights"], plain["weights"]) == ("averaged", "plain") and best["loss"] != plain["loss"]
    assert best["loss"] == last_validation(run)["loss"]


def main():
    with tempfile.TemporaryDirectory(prefix="frn's eval ") as folder:
        work = Path(folder)
        images, run = work / "some images", work / "run"
        make_images(images)
        frn("train", "--out", run, "--data", f"imagefolder:{images}", *TRAIN)
        evaluated = check_eval(run, images)
        check_eval_refuses(work, run, images, evaluated)
        check_eval_of_broken_images(work, run, images)
        check_eval_writes_through_no_link(work, run)
        check_predict(run, images, evaluated)
        check_predict_refuses(work, run, images)
        check_averaged_weights(work, images)
    print("eval and predict say what the run and the images are")


main()
