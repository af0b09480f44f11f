"""Types frn export after small trainings, and reads back what it wrote: with the program, with Python, and with ONNX Runtime.
Usage: export.py path/to/frn

The classes have names that break what is careless: line breaks, bars, backticks, bytes that are no Unicode."""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import yaml
from PIL import Image
from safetensors.numpy import load_file

FRN = sys.argv[1]
# By the bytes that a folder sorts: class 0 to 3.
NAMES = [b"a|b # *c*", b"back`tick`s ```", b"line\nbreak\t", b"not \xff utf-8"]
SIZE = 16
STEPS = 6
# Both sides round in float32; the network has 8 layers. A probability is at most 1.
ALLOWED = 1e-5


def frn(*arguments, expect=0):
    done = subprocess.run([FRN, *arguments], capture_output=True)
    assert done.returncode == expect, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.decode(errors="replace")


def refused(words, *arguments):
    """One sentence on the right stream, and nothing else."""
    done = subprocess.run([FRN, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode > 0, f"{arguments}: exit {done.returncode}"
    assert done.stdout == "", done.stdout
    assert done.stderr.startswith("frn: [") and done.stderr.count("\n") == 1, done.stderr
    assert words in done.stderr, f"{arguments}: wanted '{words}' in {done.stderr}"


def make_images(folder):
    draw = random.Random(3)
    for split, count in (("train", 6), ("val", 2)):
        for number, name in enumerate(NAMES):
            inside = os.path.join(os.fsencode(folder), split.encode(), name)
            os.makedirs(inside)
            for i in range(count):
                pixels = bytes(min(255, max(0, 60 * number + draw.randint(0, 40))) for _ in range(3 * SIZE * SIZE))
                with open(os.path.join(inside, b"%d.png" % i), "wb") as file:
                    Image.frombytes("RGB", (SIZE, SIZE), pixels).save(file, "PNG")


def checkpoint(run, name):
    return load_file(run / "checkpoints" / f"step-{STEPS}" / name)


def same_tensors(left, right):
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert tensor.dtype == right[name].dtype and tensor.tobytes() == right[name].tobytes(), name


def card_is_whole(folder, licence):
    text = (folder / "README.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    facts = yaml.safe_load(front)
    assert facts["library_name"] == "frn" and facts["pipeline_tag"] == "image-classification", facts
    assert facts.get("license") == (licence.lower() if licence else None), facts
    assert (f"Licence of these weights: {licence}." if licence else "has named none") in body
    for part in ("## Result", "## Use", "## Training", "## Classes", "--config train.toml", "imagefolder:DIR", "| steps | 6 |"):
        assert part in body.replace("\\", ""), part
    # Names stay in their line, and nothing in them is markup: of tables, code or emphasis.
    last = body.rstrip("\n").rsplit("\n", 1)[1]
    assert last.startswith("In this order: a\\|b # \\*c\\*, back\\`tick\\`s \\`\\`\\`, line break") and last.endswith("utf-8"), last
    assert str(folder.parent) not in text, "it names a folder of this machine"


def hub_folders_read_back(run, images, work):
    hub = work / "share" / "a"
    frn("export", "--run", run, "--to", f"hub:{hub}", "--licence", "Apache-2.0")
    assert sorted(path.name for path in hub.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert [path.name for path in hub.parent.iterdir()] == ["a"], "something was left beside it"
    card_is_whole(hub, "Apache-2.0")
    assert "| P@1 | " in (hub / "README.md").read_text(encoding="utf-8")
    config_text = (hub / "config.json").read_text(encoding="utf-8")
    config = json.loads(config_text)
    assert str(work) not in config_text, "it names a folder of this machine"
    assert config["architecture"] == "resnetv2-8" and config["norm"] == "frn+tlu" and config["num_classes"] == 4
    assert config["label_names"][:3] == [name.decode() for name in NAMES[:3]]
    assert config["pretrained_cfg"]["input_size"] == [3, SIZE, SIZE] and config["weights"] == "averaged"
    # Bit for bit the weights of the checkpoint: the averaged ones, or the others on demand.
    averages = {name.removeprefix("ema."): t for name, t in checkpoint(run, "trainer.safetensors").items() if name.startswith("ema.")}
    same_tensors(load_file(hub / "model.safetensors"), averages)
    plain = work / "plain"
    plain.mkdir()  # empty folders may be there
    frn("export", "--run", run, "--to", f"hub:{plain}", "--weights", "plain")
    same_tensors(load_file(plain / "model.safetensors"), checkpoint(run, "model.safetensors"))
    card_is_whole(plain, None)
    assert "have not been measured" in (plain / "README.md").read_text(), "the run measured its averaged weights alone"
    # The program reads it as it reads the run, and leaves it as it is.
    before = {path.name: path.read_bytes() for path in hub.iterdir()}
    evaluated = [json.loads(frn("eval", "--run", folder, "--data", f"imagefolder:{images}", "--json")) for folder in (run, hub)]
    for one in evaluated:
        one.pop("checkpoint")
    assert evaluated[0] == evaluated[1], evaluated
    shown = ["--json", "--top", "4", *sorted(map(str, (images / "val").rglob("*.png")), key=os.fsencode)]
    seen = [subprocess.run([FRN, "predict", "--run", folder, *shown], capture_output=True, check=True).stdout for folder in (run, hub)]
    assert seen[0] == seen[1]
    again = work / "again"
    frn("export", "--run", hub, "--to", f"hub:{again}", "--licence", "Apache-2.0")
    assert {path.name: path.read_bytes() for path in again.iterdir()} == before
    assert {path.name: path.read_bytes() for path in hub.iterdir()} == before
    python_reads_it(hub)
    return hub


def python_reads_it(hub):
    root = Path(__file__).resolve().parents[2]
    script = f"""
import frn, json, sys
from safetensors.torch import load_file
weights, config = frn.load({str(hub)!r})
stored = load_file({str(hub / "model.safetensors")!r})
assert weights.keys() == stored.keys() and all(weights[n].equal(stored[n]) for n in stored)
assert config == json.load(open({str(hub / "config.json")!r}, encoding="utf-8"))
for folder, words in (({str(hub.parent)!r}, "has no config.json and no model.safetensors"),):
    try:
        frn.load(folder)
        sys.exit("it was taken")
    except FileNotFoundError as error:
        assert words in str(error), error
"""
    environment = os.environ | {"PYTHONPATH": str(root / "python"), "FRN_LIBRARY": str(Path(FRN).parents[1] / "lib" / "libfrn_ops.so")}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def metadata_of(session):
    texts = session.get_modelmeta().custom_metadata_map
    return {key: json.loads(texts[key]) for key in ("classes", "mean", "std", "input_size", "anchors", "box_code") if key in texts}


def input_of(image, facts):
    pixels = np.asarray(Image.open(image).convert("RGB"), np.float32) / 255
    return ((pixels - facts["mean"]) / facts["std"]).astype(np.float32).transpose(2, 0, 1)


def onnx_says_what_predict_says(run, hub, images, work):
    path = work / "model.onnx"
    said = frn("export", "--run", run, "--to", path)
    assert said.startswith(f"wrote {path}: ") and f"images [batch, 3, {SIZE}, {SIZE}]" in said, said
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    facts = metadata_of(session)
    assert facts["input_size"] == [3, SIZE, SIZE]
    assert facts["classes"] == json.loads((hub / "config.json").read_text(encoding="utf-8"))["label_names"]
    files = [file for file in sorted((images / "val").rglob("*.png"), key=os.fsencode) if os.fsencode(file).isascii()]
    (logits,) = session.run(["logits"], {"images": np.stack([input_of(file, facts) for file in files])})
    found = np.exp(logits - logits.max(1, keepdims=True))
    found /= found.sum(1, keepdims=True)
    listed = json.loads(subprocess.run([FRN, "predict", "--run", run, "--json", "--top", "4", *files], capture_output=True, check=True).stdout)
    for row, entry in zip(found, listed, strict=True):
        wanted = {guess["name"]: guess["probability"] for guess in entry["classes"]}
        for name, probability in zip(facts["classes"], row, strict=True):
            assert abs(wanted[name] - probability) <= ALLOWED, (entry, row)
    from_hub = work / "from-hub.onnx"
    frn("export", "--run", hub, "--to", from_hub)
    assert from_hub.read_bytes() == path.read_bytes()


def boxes_of(codes, facts):
    """Every anchor's box, from the file's own description."""
    anchors = []
    for level in facts["anchors"]["levels"]:
        for row in range(level["rows"]):
            for column in range(level["columns"]):
                x, y = level["step"] * column, level["step"] * row
                anchors += [(left + x, top + y, right + x, bottom + y) for left, top, right, bottom in level["first_cell"]]
    anchors = np.array(anchors)
    assert len(anchors) == len(codes)
    sides = anchors[:, 2:] - anchors[:, :2]
    middles = codes[:, :2] / facts["box_code"]["middle"] * sides + anchors[:, :2] + sides / 2
    half = np.exp(codes[:, 2:] / facts["box_code"]["sides"]) * sides / 2
    return np.concatenate([middles - half, middles + half], 1)


def detectors_are_described(work):
    size = 128
    run, path, photo = work / "detector", work / "detector.onnx", work / "photo.png"
    settings = f"--model retinanet-r8 --data shapes:{size}x3x8 --image-size {size} --batch-per-device 4 --steps 4"
    frn("train", "--out", run, *settings.split(), *"--threads 1 --workers 0".split())
    draw = np.random.default_rng(1)
    Image.fromarray(draw.integers(0, 255, (size, size, 3), np.uint8)).save(photo)
    frn("export", "--run", run, "--to", path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    facts = metadata_of(session)
    logits, codes = session.run(["logits", "codes"], {"images": input_of(photo, facts)[None]})
    scores = 1 / (1 + np.exp(-logits[0].astype(np.float64)))
    boxes = np.clip(boxes_of(codes[0].astype(np.float64), facts), 0, size)
    words = ["--score", "0", "--top", "20", "--json", "--out", work / "pictures", photo]
    listed = json.loads(frn("predict", "--run", run, *words))[0]["detections"]
    assert len(listed) == 20
    for one in listed:
        label = facts["classes"].index(one["name"])
        near = (np.abs(boxes - one["box"]).max(1) < 1e-2) & (np.abs(scores[:, label] - one["score"]) < ALLOWED)
        assert near.any(), f"no anchor gives {one}"


def what_cannot_be_is_said(run, hub, work):
    refused("--to must be hub:DIR or a file that ends in .onnx but is 'model.pt'", "export", "--run", run, "--to", "model.pt")
    refused("--to must be hub:DIR or a file that ends in .onnx but is 'hub:'", "export", "--run", run, "--to", "hub:")
    refused("--licence is for the card of a hub folder", "export", "--run", run, "--to", "a.onnx", "--licence", "MIT")
    refused("must be an SPDX name such as Apache-2.0", "export", "--run", run, "--to", f"hub:{work}/bad", "--licence", "MIT\nx: y")
    assert not (work / "bad").exists()
    refused("must be an empty folder or none yet but is there already", "export", "--run", run, "--to", f"hub:{hub}")
    other = work / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    refused("must be an empty folder or none yet", "export", "--run", run, "--to", f"hub:{other}")
    assert [path.name for path in other.iterdir()] == ["notes.txt"]
    refused("must be an empty folder or none yet", "export", "--run", run, "--to", f"hub:{other}/notes.txt")
    refused("holds no run", "export", "--run", other, "--to", work / "x.onnx")
    refused("no-such-folder", "export", "--run", run, "--to", work / "no-such-folder" / "x.onnx")
    refused("holds averaged weights alone", "export", "--run", hub, "--to", work / "x.onnx", "--weights", "plain")
    refused("imagefolder", "eval", "--run", hub)
    for damage in ("{", "[]", '{"library_name": "timm"}', '{"library_name": "frn"}'):
        damaged = work / "damaged"
        damaged.mkdir(exist_ok=True)
        (damaged / "model.safetensors").write_bytes((hub / "model.safetensors").read_bytes())
        (damaged / "config.json").write_text(damage)
        refused("config.json", "predict", "--run", damaged, work / "photo.png")
    # Images are read by these numbers: none of them may lead past an array's end.
    whole = json.loads((hub / "config.json").read_text(encoding="utf-8"))
    for key, value in (("channels", 2), ("channels", 4), ("channels", 0), ("image_size", 0), ("image_size", 10**9), ("deviation", [0, 1, 1])):
        (damaged / "config.json").write_text(json.dumps({**whole, "set": {**whole["set"], key: value}}))
        refused("config.json", "predict", "--run", damaged, work / "photo.png")
    (damaged / "config.json").write_bytes((hub / "config.json").read_bytes())
    (damaged / "model.safetensors").write_bytes((hub / "model.safetensors").read_bytes()[:-4])
    refused("model.safetensors", "predict", "--run", damaged, work / "photo.png")
    assert not (work / "x.onnx").exists()


with tempfile.TemporaryDirectory() as name:
    work = Path(name)
    images = work / "images"
    make_images(images)
    run = work / "run"
    settings = f"--model resnetv2-8 --norm frn+tlu --image-size {SIZE} --augmentation none --batch-per-device 8 --steps {STEPS}"
    settings += " --lr-base 1 --threads 1 --workers 0 --ema-decay 0.5"
    frn("train", "--out", run, "--data", f"imagefolder:{images}", *settings.split())
    hub = hub_folders_read_back(run, images, work)
    onnx_says_what_predict_says(run, hub, images, work)
    detectors_are_described(work)
    what_cannot_be_is_said(run, hub, work)
