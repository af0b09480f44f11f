"""Detectors as a person trains them: they learn, survive kills to the byte, train the same with two processes, and what they
find can be measured, written and looked at.

usage: detection.py FRN
"""

import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from safetensors.numpy import load_file

FRN = sys.argv[1]
CLASSES = ["disc", "square", "bar"]
SMALL = ["--model", "retinanet-r8", "--image-size", "128", "--workers", "0", "--threads", "1"]


def run(*words, code=0, **environment):
    command = [FRN, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=600)
    assert done.returncode == code, f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done


def train(folder, data, *words, **more):
    return run("train", "--out", folder, "--data", f"coco:{data}", *SMALL, *words, **more)


def draw_image(generator, objects, size=160):
    image = Image.new("RGB", (size, size), tuple(generator.randrange(60, 120) for _ in range(3)))
    pen = ImageDraw.Draw(image)
    boxes = []
    for _ in range(objects):
        label = generator.randrange(len(CLASSES))
        width, height = [(44, 44), (36, 36), (70, 28)][label]
        x, y = generator.randrange(size - width), generator.randrange(size - height)
        if any(x < a + c and a < x + width and y < b + d and b < y + height for _, (a, b, c, d) in boxes):
            continue  # overlapping objects hide each other
        colour = [(250, 80, 80), (80, 250, 90), (90, 90, 250)][label]
        (pen.ellipse if label == 0 else pen.rectangle)([x, y, x + width - 1, y + height - 1], fill=colour)
        boxes.append((label, (x, y, width, height)))
    return image, boxes


def write_set(folder, counts, names=CLASSES):
    """A set in COCO's layout with the same images for training and validation; ids with gaps."""
    generator = random.Random(3)
    images, annotations = [], []
    for split in ("train", "val"):
        (folder / split).mkdir(parents=True)
    for i, count in enumerate(counts):
        image, boxes = draw_image(generator, count)
        name = f"{i:03}.png"
        for split in ("train", "val"):
            image.save(folder / split / name)
        images.append({"id": 10 + 3 * i, "file_name": name, "width": image.width, "height": image.height})
        for label, box in boxes:
            area = box[2] * box[3]
            annotation = {"id": len(annotations) + 1, "image_id": 10 + 3 * i, "category_id": 5 + 2 * label}
            annotations.append({**annotation, "bbox": list(box), "area": area, "iscrowd": 0})
    categories = [{"id": 5 + 2 * i, "name": name} for i, name in enumerate(names)]
    (folder / "annotations").mkdir()
    text = json.dumps({"images": images, "annotations": annotations, "categories": categories})
    for split in ("train", "val"):
        (folder / "annotations" / f"instances_{split}.json").write_text(text)
    return folder


def metrics_of(folder):
    return json.loads((folder / "metrics.json").read_text())


def weights(folder):
    newest = max((folder / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    return b"".join((newest / name).read_bytes() for name in ("model.safetensors", "trainer.safetensors"))


def learns_eight_images_by_heart(folder, data):
    # One of them without a box.
    run_folder = folder / "overfit"
    train(run_folder, data, "--augmentation", "none", "--batch-per-device", 4, "--devices", 2, "--steps", 60, "--lr-base", 0.1,
          "--warmup-steps", 20, "--validate-every", 30, "--loss-normaliser", "step")
    metrics = metrics_of(run_folder)
    ap50 = metrics["best"]["AP50"]
    assert ap50 > 0.95, f"AP50 of eight images is {ap50}: {metrics}"
    assert [m["key"] for m in metrics["metrics"]][:3] == ["AP", "AP50", "AP75"]
    lines = [json.loads(line) for line in (run_folder / "log.jsonl").read_text().splitlines()]
    trained = [line for line in lines if line["event"] == "train"]
    assert all(math.isclose(t["loss"], t["class_loss"] + t["box_loss"], rel_tol=1e-6) for t in trained)
    assert trained[0]["positives_per_image"] > 0
    return run_folder


def evaluation_is_what_the_evaluator_says(run_folder, data):
    shown = run("eval", "--run", run_folder).stdout
    for name in ("AP ", "AP50", "AR100", *CLASSES):
        assert name in shown, shown
    found = json.loads((run_folder / "eval.json").read_text())
    assert found["AP"] == metrics_of(run_folder)["validation"]["AP"]
    truth = data / "annotations" / "instances_val.json"
    again = json.loads(run("metrics", "coco", truth, run_folder / "detections.json", "--json").stdout)
    for key in ("AP", "AP50", "AP75", "AR1", "AR10", "AR100"):
        assert abs(again[key] - found[key]) < 1e-12, (key, again[key], found[key])
    # 5 in the files is class 0 of the network.
    assert {d["category_id"] for d in json.loads((run_folder / "detections.json").read_text())} <= {5, 7, 9}


def pictures_show_what_was_found(run_folder, data, folder):
    listed = json.loads(run("predict", "--run", run_folder, data / "val", "--out", folder / "pictures", "--json").stdout)
    assert len(listed) == 8
    truth = json.loads((data / "annotations" / "instances_val.json").read_text())
    files = {image["id"]: image["file_name"] for image in truth["images"]}
    names = {category["id"]: category["name"] for category in truth["categories"]}
    by_file = {Path(entry["image"]).name: entry for entry in listed}
    right = 0
    for annotation in truth["annotations"]:
        x, y, width, height = annotation["bbox"]
        for one in by_file[files[annotation["image_id"]]]["detections"]:
            near = max(abs(a - b) for a, b in zip(one["box"], (x, y, x + width, y + height))) < 12
            right += near and one["name"] == names[annotation["category_id"]]
    assert right >= 0.8 * len(truth["annotations"]), f"{right} of {len(truth['annotations'])}"
    for entry in listed:
        with Image.open(entry["picture"]) as picture, Image.open(entry["image"]) as image:
            assert picture.size == image.size
            changed = picture.convert("RGB").tobytes() != image.convert("RGB").tobytes()
            assert changed == bool(entry["detections"])
    spoken = run("predict", "--run", run_folder, data / "val" / "000.png").stdout
    assert "predictions/000.png" in spoken and "%" in spoken


def examples_are_of_the_last_evaluation(run_folder, folder):
    """Pictures of an evaluation of another set are neither kept nor shown; a user's own file beside them is kept."""
    examples = run_folder / "examples"
    before = {path.name for path in examples.iterdir()}
    assert len(before) > 2, before
    (examples / "mine.png").write_bytes(next(examples.iterdir()).read_bytes())
    other = write_set(folder / "other", [1, 2])
    run("eval", "--run", run_folder, "--data", f"coco:{other}")
    listed = json.loads((run_folder / "eval.json").read_text())["examples"]
    assert listed and {path.name for path in examples.iterdir()} == {*listed, "mine.png"}, (listed, list(examples.iterdir()))
    run("report", run_folder)
    page = (run_folder / "report.html").read_text()
    assert page.count("Image 0000") >= len(listed) and "Image mine" not in page
    run("eval", "--run", run_folder)
    assert {path.name for path in examples.iterdir()} == {*before, "mine.png"}


def photos_are_never_replaced(run_folder, data, folder):
    """No picture takes the place of an image, nor lies beside one: of photo.jpg it would be photo.png, which may be a photo too."""
    photos, seen = folder / "photos", folder / "seen"
    photos.mkdir()
    Image.open(data / "val" / "000.png").save(photos / "a.png")
    Image.open(data / "val" / "001.png").convert("RGB").save(photos / "a.jpg")
    (folder / "link").symlink_to(photos)
    seen.mkdir()
    (seen / "a.png").symlink_to(photos / "a.png")
    before = {path.name: path.read_bytes() for path in photos.iterdir()}

    def refused(*words, **more):
        said = run("predict", "--run", run_folder, *words, code=1, **more)
        assert said.stdout == "" and said.stderr.count("\n") == 1 and "give another --out" in said.stderr, said

    refused(photos, "--out", photos)
    refused(photos / "a.jpg", "--out", folder / "link")
    refused(photos / "a.png", "--out", seen)
    run("predict", "--run", run_folder, photos / "a.jpg")
    refused(run_folder / "predictions" / "a.png")
    assert {path.name: path.read_bytes() for path in photos.iterdir()} == before
    run("predict", "--run", run_folder, photos, "--out", photos / "seen")
    assert sorted(path.name for path in (photos / "seen").iterdir()) == ["a-2.png", "a.png"]


def logged_steps(run_folder):
    try:
        return (run_folder / "log.jsonl").read_text().count('"event":"train"')
    except FileNotFoundError:
        return 0


def kills_cost_nothing(folder, data):
    """Each kill falls a random moment after a line was logged, so that a fast machine does not end the run before."""
    settings = ["--batch-per-device", 2, "--devices", 2, "--steps", 24, "--checkpoint-every", 6, "--ema-decay", 0.9]
    settings += ["--log-every", 1]
    whole = folder / "whole"
    train(whole, data, *settings)
    killed = folder / "killed"
    generator = random.Random(1)
    kills = 0
    for _ in range(3):
        words = [FRN, "train", "--out", killed, "--data", f"coco:{data}", *SMALL, *map(str, settings)]
        words += ["--resume"] if (killed / "config.toml").exists() else []
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # A resumed run takes back what was logged after its checkpoint, so lines first become fewer.
        before, end = logged_steps(killed), time.monotonic() + 60
        fewest = before
        while process.poll() is None and logged_steps(killed) <= fewest and time.monotonic() < end:
            fewest = min(fewest, logged_steps(killed))
            time.sleep(0.002)
        time.sleep(generator.uniform(0, 0.2))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert kills >= 2, f"only {kills} kills fell into the run"
    run("train", "--resume", "--out", killed)
    assert weights(killed) == weights(whole)
    assert metrics_of(killed)["validation"] == metrics_of(whole)["validation"]


def processes_are_devices(folder, data):
    for normaliser in ("device", "step"):
        settings = ["--batch-per-device", 2, "--devices", 2, "--steps", 6, "--loss-normaliser", normaliser, "--norm", "bn+relu"]
        one, two = folder / f"one-{normaliser}", folder / f"two-{normaliser}"
        train(one, data, *settings)
        train(two, data, *settings, "--processes", 2)
        a, b = metrics_of(one)["validation"], metrics_of(two)["validation"]
        # The same sums in another order, over six steps. AP jumps where two scores of a network that has learned little change
        # places, so it is compared below.
        assert abs(a["loss"] - b["loss"]) < 1e-4 * a["loss"], (normaliser, a, b)


def processes_find_what_one_finds(folder, data, run_folder):
    """The same learned weights, with a rate that changes none, scored by one process and by two."""
    newest = max((run_folder / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    settings = ["--batch-per-device", 4, "--devices", 2, "--steps", 1, "--lr-base", 1e-30, "--augmentation", "none"]
    found = []
    for processes in (1, 2):
        out = folder / f"scored-by-{processes}"
        train(out, data, *settings, "--processes", processes, "--weights", newest / "model.safetensors")
        found.append(metrics_of(out)["validation"])
    assert found[0]["AP50"] > 0.9, found
    for key in ("AP", "AP50", "AP75", "AR1", "AR10", "AR100"):
        assert abs(found[0][key] - found[1][key]) < 1e-9, (key, found)


def odd_sets_train(folder):
    empty = write_set(folder / "empty", [0, 0, 0, 0])
    train(folder / "of-nothing", empty, "--batch-per-device", 2, "--steps", 3)
    assert metrics_of(folder / "of-nothing")["validation"]["AP"] is None
    one = write_set(folder / "one", [1, 2, 1, 0], names=["thing\x1b[2J", "unused\x1b[2J", "unused\ntoo"])
    train(folder / "of-one", one, "--batch-per-device", 4, "--steps", 3)
    # Texts of a file never act on the terminal; JSON keeps them as they are.
    shown = run("eval", "--run", folder / "of-one").stdout
    assert "thing [2J" in shown and "unused too" in shown and "\x1b" not in shown, shown
    assert [c["name"] for c in json.loads((folder / "of-one" / "eval.json").read_text())["classes"]][0] == "thing\x1b[2J"
    shown = run("predict", "--run", folder / "of-one", one / "val" / "000.png", "--score", 0).stdout
    assert " [2J" in shown and "\x1b" not in shown, shown
    many = write_set(folder / "many", [2, 2, 2, 2], names=[f"class {i}" for i in range(1000)])
    train(folder / "of-many", many, "--batch-per-device", 2, "--steps", 2)
    run("eval", "--run", folder / "of-many")


def backbones_come_from_classifiers(folder):
    common = ["--norm", "bn+relu", "--batch-per-device", 2, "--workers", 0]
    classifier, detector = folder / "classifier", folder / "with-backbone"
    run("train", "--out", classifier, "--model", "resnetv1-18", "--data", "random:64x3x4", "--image-size", 64, "--steps", 2, *common)

    def train_from(backbone, model, out, **more):
        # With a rate that changes no weight.
        return run("train", "--out", out, "--model", model, "--data", "shapes:128x3x8", "--backbone", backbone, "--steps", 1,
                   "--lr-base", 1e-30, *common, **more)

    train_from(classifier, "retinanet-r18", detector)
    learned = load_file(classifier / "checkpoints" / "step-2" / "model.safetensors")
    taken = load_file(detector / "checkpoints" / "step-1" / "model.safetensors")
    convolutions = [name for name in learned if learned[name].ndim == 4]
    assert len(convolutions) == 20, convolutions
    for name in convolutions:
        assert np.array_equal(learned[name], taken["backbone.body." + name]), name
    misfit = folder / "misfit"
    words = train_from(classifier, "retinanet-r50", misfit, code=1).stderr
    assert "must hold the weights of the backbone of retinanet-r50" in words, words
    words = train_from(folder / "nowhere", "retinanet-r18", misfit, code=1).stderr
    assert "nowhere" in words and not misfit.exists(), words


def mistakes_are_named(folder, data):
    def complaint(*words, code=1):
        return run("train", "--out", folder / "never", *words, code=code).stderr

    assert "finds boxes, but fashion-mini has none" in complaint("--model", "retinanet-r8")
    assert "has boxes" in complaint("--model", "resnetv2-8", "--data", f"coco:{data}")
    assert "multiple of 128" in complaint("--model", "retinanet-r8", "--data", f"coco:{data}", "--image-size", "200")
    assert "--style has no effect" in complaint("--model", "resnetv2-8", "--style", "torchvision", code=2)
    assert not (folder / "never").exists()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_set(folder / "set", [1, 2, 3, 2, 0, 2, 1, 3])
        run_folder = learns_eight_images_by_heart(folder, data)
        evaluation_is_what_the_evaluator_says(run_folder, data)
        pictures_show_what_was_found(run_folder, data, folder)
        photos_are_never_replaced(run_folder, data, folder)
        examples_are_of_the_last_evaluation(run_folder, folder)
        run("report", run_folder)
        kills_cost_nothing(folder, data)
        processes_are_devices(folder, data)
        processes_find_what_one_finds(folder, data, run_folder)
        odd_sets_train(folder)
        backbones_come_from_classifiers(folder)
        mistakes_are_named(folder, data)


main()
