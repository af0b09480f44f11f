"""Options of `frn train`, typed, and what each of them changes. Usage: settings.py path/to/frn"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from runs import curves, newest_step
from safetensors.numpy import load_file

FRN = os.path.abspath(sys.argv[1])
COMMON = ["--model", "resnetv2-8", "--image-size", "8", "--threads", "1", "--workers", "0", "--warmup-steps", "0"]


def train(folder, *options, data=()):
    command = [FRN, "train", "--out", str(folder), *COMMON, *data, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def trained(folder, *options, **more):
    ended = train(folder, *options, **more)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def weights(folder):
    return load_file(folder / "checkpoints" / f"step-{newest_step(folder)}" / "model.safetensors")


def metrics(folder):
    return json.loads((folder / "metrics.json").read_text())


def last_batch_keep_makes_a_step_of_it(work):
    # The built-in set has 5,000 training images.
    for choice, steps in (("drop", 4), ("keep", 5)):
        folder = work / f"last {choice}"
        trained(folder, "--epochs", 1, "--batch-per-device", 512, "--devices", 2, "--last-batch", choice, "--log-every", 1)
        assert metrics(folder)["step"] == steps
        assert curves(folder)[-2]["samples"] == (5000 - 4 * 1024 if choice == "keep" else 1024)
    # Cut to a multiple of the devices: 904 images are 18 for each of 50.
    folder = work / "last cut"
    trained(folder, "--epochs", 1, "--batch-per-device", 82, "--devices", 50, "--last-batch", "keep", "--log-every", 1)
    assert curves(folder)[-2]["samples"] == 900


def checkpoints_kept_are_the_newest(work):
    folder = work / "kept"
    trained(folder, "--steps", 5, "--checkpoint-every", 1, "--checkpoints-kept", 2, "--batch-per-device", 4)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-4", "step-5"]
    # A damaged newest one: the run goes on from the one before and never has less than one whole.
    (folder / "checkpoints" / "step-5" / "model.safetensors").write_bytes(b"damaged")
    command = [FRN, "train", "--resume", "--out", str(folder), "--checkpoints-kept", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0 and "damaged" in ended.stderr, ended.stderr
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["step-5"]
    assert weights(folder), "step 5 is whole again"


def memory_changes_no_byte(work):
    def file(folder):
        return (folder / "checkpoints" / "step-10" / "model.safetensors").read_bytes()

    for norm in ("frn+tlu", "bn+tlu"):
        for autocast in ("none", "bfloat16"):
            common = ["--steps", 10, "--batch-per-device", 4, "--norm", norm, "--autocast", autocast]
            seen = []
            for memory in ("least", "fast"):
                folder = work / f"{norm} {autocast} {memory}"
                trained(folder, *common, "--memory", memory)
                seen.append(file(folder))
            assert seen[0] == seen[1], (norm, autocast)
    folder = work / "memory changed"
    trained(folder, "--steps", 10, "--batch-per-device", 4, "--norm", "bn+tlu", "--autocast", "bfloat16", "--max-steps", 4)
    command = [FRN, "train", "--resume", "--out", str(folder), "--memory", "fast"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0 and file(folder) == seen[1], ended.stderr


def what_cannot_fit_is_said_before_the_start(work):
    for model, size, data in [("resnetv2-18", 64, "random:64x3x10"), ("resnetv1-18", 64, "random:64x3x10"),
                              ("vgg-a-small", 32, "random:32x3x10"), ("retinanet-r8", 128, "shapes:128x3x8")]:
        images = 1_000_000
        out = work / f"too-large-{model}"
        command = [FRN, "train", "--out", str(out), "--model", model, "--data", data, "--image-size", str(size)]
        ended = subprocess.run([*command, "--batch-per-device", str(images)], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1 and not out.exists(), ended.stdout + ended.stderr
        found = re.search(r"takes at least ([0-9.]+) GB with 1000000 images of \d+ px at once; give a --batch-per-device of at most (\d+)", ended.stderr)
        assert found, ended.stderr
        # It never says so of what would fit: the least is below what is measured, and near enough to it to be of use.
        measured = subprocess.run([FRN, "info", "model", model, "--memory", "--batch-per-device", "4", "--image-size", str(size),
                                   "--norm", "frn+tlu", "--classes", "10", "--json"], capture_output=True, text=True, check=True)
        kept = {row["memory"]: row["kept_megabytes"] for row in json.loads(measured.stdout)["memory"]["rows"]}["least"]
        share = float(found[1]) * 1e3 / images / (kept / 4)
        assert 0.25 < share < 1, f"{model}: {share} of what a step keeps"
        # What it offers instead starts.
        small = min(int(found[2]), 2)
        ended = subprocess.run([*command, "--batch-per-device", str(small), "--max-steps", "1"], capture_output=True, text=True, timeout=120)
        assert "takes at least" not in ended.stderr, ended.stderr


def optimizers_differ_and_go_on_to_the_byte(work):
    def file(folder):
        return (folder / "checkpoints" / "step-6" / "trainer.safetensors").read_bytes()

    seen = {}
    for name, options in {"sgd": [], "nesterov": ["--nesterov"], "adamw": ["--optimizer", "adamw", "--adam-beta2", "0.99"]}.items():
        whole, cut = work / f"{name} whole", work / f"{name} cut"
        trained(whole, "--steps", 6, "--batch-per-device", 4, *options)
        trained(cut, "--steps", 6, "--max-steps", 3, "--batch-per-device", 4, *options)
        ended = subprocess.run([FRN, "train", "--resume", "--out", str(cut)], capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        assert file(cut) == file(whole), name
        seen[name] = b"".join(tensor.tobytes() for _, tensor in sorted(weights(whole).items()))
    assert len(set(seen.values())) == 3, "two optimisers gave the same weights"
    assert "exp_avg_sq." in str(sorted(load_file(work / "adamw whole" / "checkpoints" / "step-6" / "trainer.safetensors")))
    refused = train(work / "idle", "--optimizer", "adamw", "--momentum", "0.5")
    assert refused.returncode == 2 and "--momentum has no effect with --optimizer adamw" in refused.stderr, refused.stderr
    ended = subprocess.run([FRN, "train", "--resume", "--out", str(work / "sgd cut"), "--optimizer", "adamw"], capture_output=True, text=True)
    assert ended.returncode == 1 and "keeps its optimizer" in ended.stderr, ended.stderr


def lr_drop_factor_is_by_how_much_the_rate_drops(work):
    folder = work / "drops"
    options = ["--schedule", "step", "--lr-drops", "0.25,0.5", "--lr-drop-factor", "0.5", "--lr-base", "0.64"]
    trained(folder, "--steps", 8, "--log-every", 1, "--batch-per-device", 4, *options)
    rates = [line["lr"] for line in curves(folder) if line["event"] == "train"]
    peak = 0.64 * 4 / 256
    np.testing.assert_allclose(rates, [peak] * 2 + [peak / 2] * 2 + [peak / 4] * 4, rtol=1e-12)
    refused = train(work / "no drops", "--lr-drop-factor", "0.5")
    assert refused.returncode == 2 and "--lr-drop-factor has no effect" in refused.stderr, refused.stderr


def decay_reaches_norms_and_biases_only_when_asked(work):
    """Two steps of plain SGD, w' = w - lr*(g + decay*w): the first gradient is the same with and without decay, so the
    first step differs by lr*decay*w alone. Norms' weights start at 1; biases at 0, so theirs differ from the second on."""
    rate, decay = 0.25 * 4 / 256, 0.125
    options = ["--batch-per-device", 4, "--momentum", 0, "--lr-base", 0.25, "--schedule", "constant", "--weight-decay", decay]
    runs = {}
    for name, extra in (("plain", []), ("norms", ["--decay-norms"]), ("biases", ["--decay-biases"])):
        for steps in (1, 2):
            folder = work / f"decay {name} {steps}"
            trained(folder, "--steps", 2, "--max-steps", steps, *options, *extra)
            runs[name, steps] = weights(folder)
    scales = [key for key in runs["plain", 1] if "norm" in key and key.endswith(".weight")]
    assert len(scales) > 4, scales
    for key in scales:
        np.testing.assert_allclose(runs["plain", 1][key] - runs["norms", 1][key], rate * decay, rtol=1e-3)
        np.testing.assert_array_equal(runs["plain", 1][key], runs["biases", 1][key])
    bias = "head.fc.bias" if "head.fc.bias" in runs["plain", 1] else next(k for k in runs["plain", 1] if k.endswith("fc.bias"))
    np.testing.assert_array_equal(runs["plain", 1][bias], runs["biases", 1][bias])
    np.testing.assert_allclose(
        runs["plain", 2][bias] - runs["biases", 2][bias], rate * decay * runs["plain", 1][bias], rtol=1e-3, atol=1e-9
    )
    assert np.abs(runs["plain", 1][bias]).max() > 1e-5


def broken_limit_is_how_many_images_may_be_unreadable(work):
    images = work / "images"
    rng = np.random.default_rng(1)
    for split, count in (("train", 12), ("val", 2)):
        for label in ("a", "b"):
            (images / split / label).mkdir(parents=True)
            for i in range(count):
                Image.fromarray(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)).save(images / split / label / f"{i}.png")
    for i in (3, 5, 7):
        (images / "train" / "a" / f"{i}.png").write_bytes(b"no image")
    data = ("--data", f"imagefolder:{images}", "--batch-per-device", "8", "--epochs", "2")
    ended = train(work / "two", "--broken-limit", 2, data=data)
    assert ended.returncode == 1 and "at most 2 samples may be broken but 3 are" in ended.stderr, ended.stderr
    assert all(f"{i}.png" in ended.stderr for i in (3, 5, 7)), ended.stderr
    ended = train(work / "three", "--broken-limit", 3, data=data)
    assert ended.returncode == 0 and ended.stderr.count("cannot read") == 3, ended.stderr


def names_that_are_not_utf8_train_evaluate_and_resume(work):
    """Bytes, as file systems have them; a line break too."""
    images = os.fsencode(work) + b"/caf\xe9\nbar"
    rng = np.random.default_rng(1)
    for split in (b"train", b"val"):
        for label in (b"\xff\xfe", b"b\nb"):
            os.makedirs(images + b"/" + split + b"/" + label)
            for i in range(8):
                with open(images + b"/" + split + b"/" + label + b"/\xe9%d.png" % i, "wb") as file:
                    Image.fromarray(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)).save(file, "png")
    with open(images + b"/train/b\nb/\xe93.png", "wb") as file:
        file.write(b"no image")
    out = os.fsencode(work) + b"/r\xe9n"

    def typed(*words):
        ended = subprocess.run([os.fsencode(FRN), *words], capture_output=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    common = [word.encode() for word in COMMON] + [b"--data", b"imagefolder:" + images, b"--batch-per-device", b"4"]
    typed(b"train", b"--out", out, *common, b"--steps", b"4", b"--max-steps", b"2")
    typed(b"train", b"--out", out, b"--resume")
    typed(b"train", b"--out", out + b"whole", *common, b"--steps", b"4")
    assert json.loads(typed(b"eval", b"--run", out, b"--json"))["samples"] == 16
    shown = typed(b"predict", b"--run", out, images + b"/val/\xff\xfe/\xe91.png", b"--json")
    json.loads(shown)
    typed(b"report", out)
    for name in ("model.safetensors", "trainer.safetensors"):
        with open(out + b"/checkpoints/step-4/" + name.encode(), "rb") as a, open(
            out + b"whole/checkpoints/step-4/" + name.encode(), "rb"
        ) as b:
            assert a.read() == b.read(), "a resumed run differs"


def evaluation_crop_changes_what_validation_sees_and_nothing_else(work):
    for name, extra in (("squashed", []), ("cropped", ["--evaluation-crop", "0.5"])):
        trained(work / name, "--steps", 2, "--batch-per-device", 4, *extra)
    assert {key: value.tobytes() for key, value in weights(work / "squashed").items()} == {
        key: value.tobytes() for key, value in weights(work / "cropped").items()
    }
    assert metrics(work / "squashed")["validation"]["loss"] != metrics(work / "cropped")["validation"]["loss"]
    refused = train(work / "much", "--evaluation-crop", "1.5")
    assert refused.returncode == 1 and "evaluation_crop must be from 0 (off) to 1" in refused.stderr, refused.stderr


def max_steps_is_forgotten_by_the_next_sitting(work):
    """By the command that the program prints, as a shell takes it: the folder's name has a space and a quote."""
    for extra, more in (([], ""), (["--devices", 2, "--processes", 2], " --processes 2")):
        folder = work / f"bounded{more}"
        text = trained(folder, "--steps", 6, "--max-steps", 3, "--batch-per-device", 4, *extra)
        assert f"{more} goes on after step 3" in text, text
        command = text.splitlines()[-1].removesuffix(" goes on after step 3").removeprefix("frn ")
        ended = subprocess.run(f"{shlex.quote(FRN)} {command}", shell=True, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0 and metrics(folder)["step"] == 6, (command, ended.stderr)


def data_of_a_resumed_run_is_what_eval_takes(work):
    images = work / "moved"
    rng = np.random.default_rng(1)
    for split in ("train", "val"):
        for label in ("a", "b"):
            (images / split / label).mkdir(parents=True)
            for i in range(8):
                Image.fromarray(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)).save(images / split / label / f"{i}.png")
    folder = work / "follows"
    trained(folder, "--steps", 4, "--max-steps", 2, data=("--data", f"imagefolder:{images}", "--batch-per-device", "4"))
    images.rename(work / "elsewhere")
    command = [FRN, "train", "--resume", "--out", str(folder), "--data", f"imagefolder:{work / 'elsewhere'}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    ended = subprocess.run([FRN, "eval", "--run", str(folder)], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0 and "elsewhere" in ended.stdout, ended.stderr


def main():
    checks = [value for name, value in globals().items() if callable(value) and getattr(value, "__module__", "") == "__main__"]
    helpers = {train, trained, weights, metrics, main}
    with tempfile.TemporaryDirectory(prefix="frn's settings ") as work:
        for check in checks:
            if check in helpers:
                continue
            check(Path(work))
            print(check.__name__.replace("_", " "), flush=True)


if __name__ == "__main__":
    main()
