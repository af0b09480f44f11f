"""Suppression as torchvision has it, bit for bit, through build/bin/nms_step."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torchvision.ops import batched_nms, nms

PROGRAM = Path(os.environ["FRN_LIBRARY"]).resolve().parents[1] / "bin" / "nms_step"


class Asker:
    """Collects cases, then runs nms_step once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.tensors: dict[str, np.ndarray] = {}

    def ask(self, name: str, boxes: np.ndarray, scores: np.ndarray, iou: float, score: float = 0.0, most: int = 0) -> None:
        self.tensors[f"boxes.{name}"] = boxes
        self.tensors[f"scores.{name}"] = scores
        self.tensors[f"options.{name}"] = np.array([iou, score, most], np.float64)

    def answers(self) -> dict[str, np.ndarray]:
        save_file(self.tensors, self.folder / "in.safetensors")
        command = [PROGRAM, self.folder / "in.safetensors", self.folder / "out.safetensors"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return {name.removeprefix("kept."): kept for name, kept in load_file(self.folder / "out.safetensors").items()}


@pytest.fixture
def asker(tmp_path):
    return Asker(tmp_path)


def random_boxes(generator: np.random.Generator, count: int) -> np.ndarray:
    """Whole, quarter and any pixels, so that IoUs are often equal; some boxes have no area."""
    step = generator.choice([0, 0.25, 1])
    corner = generator.uniform(0, 60, (count, 2))
    size = generator.uniform(0, 40, (count, 2))
    if step > 0:
        corner, size = np.round(corner / step) * step, np.round(size / step) * step
    return np.concatenate([corner, corner + size], axis=1).astype(np.float32)


def random_scores(generator: np.random.Generator, shape) -> np.ndarray:
    """Half of the cases have few different scores, so that ties come up."""
    scores = generator.uniform(0, 1, shape)
    return (np.round(scores * 10) / 10 if generator.integers(2) else scores).astype(np.float32)


def test_nms_keeps_the_same_boxes_in_the_same_order(asker):
    expected = {}
    for case in range(2000):
        generator = np.random.default_rng(case)
        boxes = random_boxes(generator, generator.integers(0, 60))
        scores = random_scores(generator, len(boxes))
        # Also thresholds that IoUs hit exactly, in float32 and not in float64.
        iou = float(generator.choice([0.25, 1 / 3, 0.5, 0.6, 0.7, 2 / 3, np.float32(0.6), np.float32(1 / 3)]))
        asker.ask(str(case), boxes, scores, iou)
        expected[str(case)] = nms(torch.from_numpy(boxes), torch.from_numpy(scores), iou).numpy()
    answers = asker.answers()
    for case, kept in expected.items():
        np.testing.assert_array_equal(answers[case], kept, err_msg=case)


@pytest.mark.parametrize("count", [1, 20_000])
def test_nms_of_many_boxes(asker, count):
    generator = np.random.default_rng(count)
    corner, size = generator.uniform(0, 1000, (count, 2)), generator.uniform(1, 200, (count, 2))
    boxes = np.concatenate([corner, corner + size], axis=1).astype(np.float32)
    scores = generator.uniform(0, 1, count).astype(np.float32)
    asker.ask("many", boxes, scores, 0.5)
    expected = nms(torch.from_numpy(boxes), torch.from_numpy(scores), 0.5).numpy()
    np.testing.assert_array_equal(asker.answers()["many"], expected)


def by_class(boxes: np.ndarray, scores: np.ndarray, iou: float, score: float, most: int) -> np.ndarray:
    """torchvision's NMS for each class, then the best of all; of equal scores the lower anchor*classes + class."""
    classes = scores.shape[1]
    flat = []
    for category in range(classes):
        chosen = np.flatnonzero(scores[:, category] > np.float32(score))
        kept = nms(torch.from_numpy(boxes[chosen]), torch.from_numpy(scores[chosen, category]), iou).numpy()
        flat += [int(chosen[i]) * classes + category for i in kept]
    flat.sort(key=lambda index: (-scores.flat[index], index))
    return np.array([divmod(index, classes) for index in flat[:most]], np.int64).reshape(-1, 2)


def test_detections_are_those_of_nms_for_each_class(asker):
    expected = {}
    for case in range(500):
        generator = np.random.default_rng(10_000 + case)
        boxes = random_boxes(generator, generator.integers(0, 50))
        scores = random_scores(generator, (len(boxes), generator.integers(1, 6)))
        options = float(generator.choice([0.3, 0.5, 0.6])), float(generator.choice([-1, 0, 0.05, 0.5])), int(generator.integers(1, 60))
        asker.ask(str(case), boxes, scores, *options)
        expected[str(case)] = by_class(boxes, scores, *options)
    answers = asker.answers()
    for case, kept in expected.items():
        np.testing.assert_array_equal(answers[case], kept, err_msg=case)


def test_detections_of_a_whole_image(asker):
    """With many pairs, of which the best ones suppress most others; against batched_nms, which has no order for ties."""
    generator = np.random.default_rng(5)
    anchors, classes = 20_000, 20
    place = generator.integers(0, 40, anchors)
    corner = np.stack([50 * (place % 8), 50 * (place // 8)], axis=1) + generator.uniform(0, 4, (anchors, 2))
    boxes = np.concatenate([corner, corner + 40], axis=1).astype(np.float32)
    scores = generator.permutation(np.linspace(0, 1, anchors * classes, dtype=np.float64)).reshape(anchors, classes).astype(np.float32)
    options = 0.5, 0.3, 700
    asker.ask("image", boxes, scores, *options)
    anchor, category = np.nonzero(scores > np.float32(0.3))
    chosen = torch.from_numpy(scores[anchor, category])
    kept = batched_nms(torch.from_numpy(boxes[anchor]), chosen, torch.from_numpy(category), 0.5).numpy()[:700]
    found = asker.answers()["image"]
    np.testing.assert_array_equal(found, by_class(boxes, scores, *options))
    assert {(int(anchor[i]), int(category[i])) for i in kept} == {tuple(pair) for pair in found.tolist()}
