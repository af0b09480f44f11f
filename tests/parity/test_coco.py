"""`frn metrics coco` against pycocotools, to 1e-12: both sum the same numbers in another order."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("FRN_SHARED_DATA", ROOT.parent / "shared" / "data"))
PROGRAM = Path(os.environ["FRN_LIBRARY"]).resolve().parents[1] / "bin" / "frn"
COUNTS = (1, 10, 100)
CLOSE = {"rtol": 0, "atol": 1e-12}
# What data/README.md of the shared folder has from pycocotools 2.0.11.
PUBLISHED = {
    "AP": 0.5045806987249628, "AP50": 0.6969727247299577, "AP75": 0.5729816669904824,
    "APs": 0.5856257209410443, "APm": 0.5193996948036719, "APl": 0.5013978986347466,
    "AR1": 0.38681277964578054, "AR10": 0.5936795762842003, "AR100": 0.595352982877607,
    "ARs": 0.6398109626113442, "ARm": 0.5664205978994309, "ARl": 0.5642905982905982,
}  # fmt: skip


def mean(values: np.ndarray) -> float:
    values = values[values > -1]
    return float(values.mean()) if values.size else -1.0


class Peer:
    """Precision [T, R, K, A, M] and recall [T, K, A, M] of pycocotools; several sets stand side by side in K."""

    def __init__(self, sets: list[tuple[dict, list[dict]]], counts=COUNTS):
        done = [self.evaluate(truth, found, counts) for truth, found in sets]
        self.categories = np.concatenate([d["params"].catIds for d in done])
        self.precision = np.concatenate([d["precision"] for d in done], axis=2)
        self.recall = np.concatenate([d["recall"] for d in done], axis=1)
        self.counts = sorted(counts)

    @staticmethod
    def evaluate(truth: dict, found: list[dict], counts) -> dict:
        with contextlib.redirect_stdout(io.StringIO()):
            api = COCO()
            api.dataset = copy.deepcopy(truth)
            for number, annotation in enumerate(api.dataset["annotations"], 1):
                annotation["id"] = number  # 0 would count as not found there
            api.createIndex()
            evaluation = COCOeval(api, api.loadRes(copy.deepcopy(found)), "bbox")
            evaluation.params.maxDets = list(counts)
            evaluation.evaluate()
            evaluation.accumulate()
        return evaluation.eval

    def summary(self) -> dict[str, float]:
        out = {"AP": mean(self.precision[..., 0, -1]), "AP50": mean(self.precision[0, ..., 0, -1])}
        out["AP75"] = mean(self.precision[5, ..., 0, -1])
        for area, letter in enumerate("sml", 1):
            out[f"AP{letter}"] = mean(self.precision[..., area, -1])
            out[f"AR{letter}"] = mean(self.recall[..., area, -1])
        for index, count in enumerate(self.counts):
            out[f"AR{count}"] = mean(self.recall[..., 0, index])
        return out

    def classes(self) -> dict[int, dict[str, float]]:
        out = {}
        for k, category in enumerate(self.categories):
            precision = self.precision[:, :, k, 0, -1]
            numbers = {"AP": precision, "AP50": precision[0], "AP75": precision[5]}
            numbers[f"AR{self.counts[-1]}"] = self.recall[:, k, 0, -1]
            out[int(category)] = {key: mean(value) for key, value in numbers.items()}
        return out


def ours(folder: Path, truth: dict, found: list[dict], counts=COUNTS, threads: int = 1) -> dict:
    for name, value in (("truth.json", truth), ("found.json", found)):
        (folder / name).write_text(json.dumps(value))
    command = [PROGRAM, "metrics", "coco", folder / "truth.json", folder / "found.json", "--json"]
    command += ["--threads", str(threads), "--max-detections", ",".join(map(str, counts))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(answer: dict, peer: Peer) -> None:
    for key, value in peer.summary().items():
        np.testing.assert_allclose(answer[key], value, **CLOSE, err_msg=key)
    classes = {row["id"]: row for row in answer["classes"]}
    expected = peer.classes()
    assert list(classes) == sorted(expected)
    for category, numbers in expected.items():
        for key, value in numbers.items():
            np.testing.assert_allclose(classes[category][key], value, **CLOSE, err_msg=f"{key} of category {category}")


# --- Made cases ---


def random_size(generator: np.random.Generator) -> list[float]:
    kind = generator.integers(4)
    if kind == 0:
        return [32.0, 32.0]  # exactly at a limit of the ranges of areas
    if kind == 1:
        return [96.0, 96.0]
    return np.round(generator.uniform(0, 120, 2), 1).tolist()


def random_area(generator: np.random.Generator, size: list[float]) -> float:
    return float([size[0] * size[1], 1024, 9216, round(generator.uniform(0, 15000), 1)][generator.integers(4)])


def near(generator: np.random.Generator, box: list[float]) -> list[float]:
    """Often exactly on it, so that IoUs are equal."""
    if generator.integers(3) == 0:
        return list(box)
    x, y, width, height = box
    shift = generator.uniform(-0.25, 0.25, 4)
    return [x + width * shift[0], y + height * shift[1], width * (1 + shift[2]), height * (1 + shift[3])]


def random_set(generator: np.random.Generator, image_ids: list[int], category_ids: list[int]) -> tuple[dict, list[dict]]:
    """Crowds, categories without truths or without detections, images without either, few different scores."""
    annotations, found = [], []
    for category in category_ids:
        kind = generator.integers(8)  # 0: no truths, 1: nothing found, 2: crowds alone
        truths: list[dict] = []
        for _ in range(0 if kind == 0 else generator.integers(1, 9)):
            size = random_size(generator)
            image, corner = int(generator.choice(image_ids)), generator.integers(0, 60, 2).tolist()
            if truths and generator.integers(3) == 0:  # one beside the last, a few pixels to the right
                image, (x, y, *size) = truths[-1]["image_id"], truths[-1]["bbox"]
                corner = [x + 2 * int(generator.integers(8)), y]
            crowd = int(kind == 2 or generator.integers(6) == 0)
            truths.append({"id": 0, "image_id": image, "category_id": category, "bbox": corner + size, "iscrowd": crowd})
            truths[-1]["area"] = random_area(generator, size)
        annotations += truths
        for _ in range(0 if kind == 1 else generator.integers(0, 16)):
            image, box = int(generator.choice(image_ids)), generator.uniform(0, 60, 2).tolist() + random_size(generator)
            if truths and generator.integers(4):
                truth = truths[generator.integers(len(truths))]
                image, box = truth["image_id"], near(generator, truth["bbox"])
                beside = [t for t in truths if t["image_id"] == image and t["bbox"][1:] == truth["bbox"][1:]]
                if len(beside) > 1 and generator.integers(3) == 0:  # between two: its IoU with both is the same
                    box = [(beside[0]["bbox"][0] + beside[1]["bbox"][0]) / 2, *truth["bbox"][1:]]
            score = float(generator.integers(6)) / 6 if generator.integers(3) else float(generator.uniform())
            found.append({"image_id": image, "category_id": category, "bbox": box, "score": score})
    for number, annotation in enumerate(annotations):
        annotation["id"] = number
    generator.shuffle(found)
    images = [{"id": image, "file_name": f"{image}.jpg", "width": 200, "height": 200} for image in image_ids]
    categories = [{"id": category, "name": f"c{category}"} for category in category_ids]
    return {"images": images, "categories": categories, "annotations": annotations}, found


def merged(sets: list[tuple[dict, list[dict]]]) -> tuple[dict, list[dict]]:
    """Sets of different images and categories as one, so that one process evaluates all of them."""
    truth = {key: [entry for t, _ in sets for entry in t[key]] for key in ("images", "categories", "annotations")}
    truth["annotations"] = [{**annotation, "id": number} for number, annotation in enumerate(truth["annotations"])]
    return truth, [entry for _, found in sets for entry in found]


# Each has 12 sets of 12 categories.
CHUNKS = 120 if os.environ.get("FRN_ALL_CASES") else 24


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_small_cases(tmp_path, chunk):
    generator = np.random.default_rng(chunk)
    counts = [COUNTS, (1, 2, 4), (2, 3, 5)][chunk % 3]
    images = generator.permutation(2000)
    categories = generator.permutation(400) + 1
    sets = []
    for index in range(12):
        chosen = images[4 * index : 4 * index + 1 + generator.integers(4)].tolist()
        sets.append(random_set(generator, chosen, categories[12 * index : 12 * index + 12].tolist()))
    sets = [(truth, found) for truth, found in sets if found]  # pycocotools cannot load an empty list
    check(ours(tmp_path, *merged(sets), counts, threads=1 + chunk % 3), Peer(sets, counts))


def test_ids_may_be_anything(tmp_path):
    generator = np.random.default_rng(1)
    truth, found = random_set(generator, [2**40, 7, 2**53 - 1], [90, 2**33, 1, 13])
    check(ours(tmp_path, truth, found), Peer([(truth, found)]))


def test_more_detections_than_count(tmp_path):
    generator = np.random.default_rng(2)
    truth, _ = random_set(generator, [1, 2], [1, 2])
    found = []
    for _ in range(500):
        annotation = truth["annotations"][generator.integers(len(truth["annotations"]))]
        box, score = near(generator, annotation["bbox"]), float(generator.integers(20)) / 20
        found.append({"image_id": annotation["image_id"], "category_id": annotation["category_id"], "bbox": box, "score": score})
    check(ours(tmp_path, truth, found), Peer([(truth, found)]))


def test_detections_of_other_categories_do_not_count(tmp_path):
    generator = np.random.default_rng(3)
    truth, found = random_set(generator, [1, 2, 3], [5, 6, 7, 8])
    truth["categories"] = truth["categories"][1:]
    check(ours(tmp_path, truth, found), Peer([(truth, found)]))


def test_nothing_found(tmp_path):
    """pycocotools fails here."""
    truth, _ = random_set(np.random.default_rng(4), [1, 2], [1, 2, 3, 4, 5])
    answer = ours(tmp_path, truth, [])
    assert answer["AP"] == answer["AR100"] == 0


# --- Real sets ---


def shared(*path: str) -> Path:
    file = SHARED.joinpath(*path)
    if not file.exists():
        pytest.skip(f"{file} is not there")
    return file


def perturbed(truth: dict, seed: int) -> list[dict]:
    """What a fair detector finds: most objects, some twice or as another class, and boxes of nothing."""
    generator = np.random.default_rng(seed)
    categories = [category["id"] for category in truth["categories"]]
    found = []
    for annotation in truth["annotations"]:
        for _ in range(generator.integers(0, 4)):
            category = annotation["category_id"] if generator.integers(8) else int(generator.choice(categories))
            entry = {"image_id": annotation["image_id"], "category_id": category, "bbox": near(generator, annotation["bbox"])}
            found.append({**entry, "score": round(float(generator.uniform()), 2)})
    for image in truth["images"]:
        for _ in range(generator.integers(0, 6)):
            box = np.round(generator.uniform(0, 200, 4), 2).tolist()
            entry = {"image_id": image["id"], "category_id": int(generator.choice(categories)), "bbox": box}
            found.append({**entry, "score": round(float(generator.uniform(0, 0.5)), 2)})
    generator.shuffle(found)
    return found


def test_the_fixture_of_coco(tmp_path):
    truth = json.loads(shared("coco-eval", "instances_val2014_100.json").read_text())
    found = json.loads(shared("coco-eval", "instances_val2014_fakebbox100_results.json").read_text())
    answer = ours(tmp_path, truth, found)
    for key, value in PUBLISHED.items():
        np.testing.assert_allclose(answer[key], value, **CLOSE, err_msg=key)
    check(answer, Peer([(truth, found)]))


REAL = [("bccd", "instances_val.json"), ("bccd", "instances_test.json"), ("coco128", "annotations", "instances_val2017.json")]


@pytest.mark.parametrize("path", REAL, ids="/".join)
def test_real_truths(tmp_path, path):
    truth = json.loads(shared(*path).read_text())
    for annotation in truth["annotations"]:
        annotation.setdefault("iscrowd", 0)
    found = perturbed(truth, seed=len(path[-1]))
    check(ours(tmp_path, truth, found, threads=2), Peer([(truth, found)]))
