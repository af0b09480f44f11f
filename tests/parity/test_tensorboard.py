"""TensorBoard's own reader finds in our event files what was written. build/bin/write_events writes them."""

import math
import os
import subprocess
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader, RawEventFileLoader
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

pytestmark = pytest.mark.skipif(
    "FRN_LIBRARY" not in os.environ,
    reason="FRN_LIBRARY must name build/lib/libfrn_ops.so: the program write_events is found beside it",
)

POINTS = [
    ("train/loss", 2.302585, 0),
    ("train/loss", 0.25, 127),
    ("train/loss", -1e-30, 128),
    ("train/loss", 3e38, 300),
    ("validation/precision_at_1", 1 / 3, 2**40),
]


def write(folder: Path, points, resumed_after: int | None = None) -> None:
    program = Path(os.environ["FRN_LIBRARY"]).resolve().parents[1] / "bin" / "write_events"
    command = [str(program), str(folder), *([] if resumed_after is None else [str(resumed_after)])]
    text = "".join(f"{tag} {value} {step}\n" for tag, value, step in points)
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def points_of(folder: Path) -> list[tuple[str, float, int]]:
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    tags = accumulator.Tags()
    # The reader turns every scalar into a tensor of the plugin `scalars`, which is what the web page shows.
    assert accumulator.PluginTagToContent("scalars").keys() == set(tags["tensors"]), tags
    points = []
    for tag in tags["tensors"]:
        for event in accumulator.Tensors(tag):
            assert event.tensor_proto.dtype == 1 and not event.tensor_proto.tensor_shape.dim, "a float without shape"
            points.append((tag, event.tensor_proto.float_val[0], event.step))
    return points


def assert_same(found, wanted) -> None:
    """A scalar is stored as float32, which rounds by 2^-24 of it."""
    assert [(tag, step) for tag, _, step in found] == [(tag, step) for tag, _, step in wanted]
    for (tag, value, _), (_, expected, _) in zip(found, wanted):
        assert abs(value - expected) <= 2**-24 * abs(expected), tag


def test_every_scalar_is_read(tmp_path: Path):
    write(tmp_path, POINTS)
    assert_same(points_of(tmp_path), POINTS)


def test_the_file_has_its_version_a_time_and_checked_records(tmp_path: Path):
    write(tmp_path, POINTS)
    (path,) = tmp_path.iterdir()
    assert len(list(RawEventFileLoader(str(path)).Load())) == 2 + len(POINTS)  # it checks the sums
    events = list(EventFileLoader(str(path)).Load())
    assert events[0].file_version == "brain.Event:2"
    age = path.stat().st_mtime - events[0].wall_time
    assert abs(age) < 60


def test_a_damaged_record_is_seen(tmp_path: Path):
    """So that the tests above prove the sums: the reader does look at them."""
    write(tmp_path, POINTS)
    (path,) = tmp_path.iterdir()
    damaged = bytearray(path.read_bytes())
    damaged[-8] ^= 1
    path.write_bytes(damaged)
    assert len(points_of(tmp_path)) == len(POINTS) - 1


def test_not_a_number_is_read_as_such(tmp_path: Path):
    write(tmp_path, [("loss", "nan", 1), ("loss", "inf", 2)])
    (_, first, _), (_, second, _) = points_of(tmp_path)
    assert math.isnan(first) and second == math.inf


def test_a_resumed_run_replaces_the_steps_after_its_checkpoint(tmp_path: Path):
    write(tmp_path, [("loss", 1.0, step) for step in range(1, 11)])
    write(tmp_path, [("loss", 2.0, step) for step in range(7, 13)], resumed_after=6)
    wanted = [("loss", 1.0, step) for step in range(1, 7)] + [("loss", 2.0, step) for step in range(7, 13)]
    assert_same(points_of(tmp_path), wanted)


def test_tags_of_any_text_and_length_are_read(tmp_path: Path):
    tags = ["a", "layers/stages.0.blocks.0.norm1/scale", "größe", "x" * 300]
    write(tmp_path, [(tag, 1.0, 1) for tag in tags])
    assert sorted(tag for tag, _, _ in points_of(tmp_path)) == sorted(tags)
