"""Several processes train as one: the same weights as virtual devices, whole checkpoints when a rank is killed, and a
named error when one hangs. Usage: processes.py path/to/frn"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from runs import children, newest_step
from safetensors.numpy import load_file

FRN = sys.argv[1]
# torchrun, by the name that works wherever this Python has its torch from.
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
STEPS = 20
COMMON = ["--model", "resnetv2-8", "--image-size", "12", "--warmup-steps", "4", "--log-every", "5", "--threads", "1"]
COMMON += ["--workers", "0"]


def train(folder, *extra, steps=STEPS, images=2):
    command = [FRN, "train", "--out", str(folder), *COMMON, "--batch-per-device", str(images), "--steps", str(steps), *extra]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def weights(folder, step=STEPS):
    return load_file(folder / "checkpoints" / f"step-{step}" / "model.safetensors")


def distance(a, b):
    """The largest difference of a tensor, relative to the tensor's norm."""
    assert a.keys() == b.keys()
    worst = 0.0
    for name in a:
        left, right = a[name].astype("float64"), b[name].astype("float64")
        norm = max((left**2).sum() ** 0.5, 1e-3)  # tensors that start at 0 have hardly left it
        worst = max(worst, ((left - right) ** 2).sum() ** 0.5 / norm)
    return worst


def tolerance(norm):
    """Sums of gradients in another order; shared statistics are such sums too, in every layer, forward and backward."""
    return 5e-6 if "sync=true" in norm else 1e-6


def validation(folder):
    return json.loads((folder / "metrics.json").read_text())["validation"]


# Statistics that are summed in another order move values by their rounding in every layer from the first step on. A value
# that this takes across a ReLU's corner changes the weights by far more than rounding (seen: 3e-5), so no activation here.
SHARED_STATISTICS = "bn(sync=true)+none"
# With standardised weights.
RECIPE = "gn(proxy=true)+relu"


def layers(norm):
    return ["--norm", norm, *(["--weights-standardised", "gain"] if norm == RECIPE else [])]


def same_weights_however_a_batch_is_split(work):
    for norm in ("frn+tlu", RECIPE, "bn+relu", SHARED_STATISTICS, "brn(warmup=0,r_end=10,d_end=10)+relu"):
        one = work / f"{norm} one"
        split = {"2 processes of 2": ["--processes", "2"]}
        if norm == "frn+tlu" or os.environ.get("FRN_ALL_CASES"):
            split["4 processes"] = ["--processes", "4"]
        ended = train(one, *layers(norm), "--devices", "4")
        assert ended.returncode == 0, ended.stderr
        for name, options in split.items():
            folder = work / f"{norm} {name}"
            ended = train(folder, *layers(norm), "--devices", "4", *options)
            assert ended.returncode == 0, ended.stderr
            # float32 rounding, carried through 20 steps.
            far = distance(weights(one), weights(folder))
            assert far < tolerance(norm), f"{norm}, {name}: {far}"
            assert validation(folder)["samples"] == 1000
            assert abs(validation(folder)["loss"] - validation(one)["loss"]) < 1e-5
            print(f"{norm}, {name}: weights differ by {far:.1e}", flush=True)
    # The split is FRN's business as little as the number of processes; batch norm's it is, unless statistics are shared.
    for norm, sees_it in (("frn+tlu", False), (SHARED_STATISTICS, False), ("bn+relu", True)):
        folder = work / f"{norm} undivided"
        assert train(folder, "--norm", norm, "--devices", "1", images=8).returncode == 0
        far = distance(weights(folder), weights(work / f"{norm} one"))
        assert (far > 1e-3) == sees_it and (far < tolerance(norm)) != sees_it, f"{norm}: {far}"
        print(f"{norm}, 1 device of 8 images instead of 4 of 2: weights differ by {far:.1e}", flush=True)


def only_the_last_piece_of_a_step_is_reduced(work):
    extra = ["--devices", "2", "--accumulate", "3", "--images-at-once", "2", "--clip-gradient-norm", "1", "--ema-decay", "0.9"]
    for name, processes in (("pieces one", []), ("pieces two", ["--processes", "2"])):
        ended = train(work / name, *extra, *processes)
        assert ended.returncode == 0, ended.stderr
    far = distance(weights(work / "pieces one"), weights(work / "pieces two"))
    assert far < tolerance("frn+tlu"), far
    print(f"with accumulation, pieces and clipping: weights differ by {far:.1e}", flush=True)


def start_long(folder, *extra):
    command = [FRN, "train", "--out", str(folder), *COMMON, "--batch-per-device", "2", "--steps", "100000"]
    command += ["--checkpoint-every", "5", *extra]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while newest_step(folder) < 10:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return process


def running_statistics_pass_from_micro_batch_to_micro_batch(work):
    """Batch renormalisation reads them while it trains, also on ranks that do not hold the device that they follow."""
    extra = ["--devices", "2", "--accumulate", "3", "--norm", "brn(momentum=0.2,warmup=0,r_end=4,d_end=4)+relu"]
    for name, processes in (("brn one", []), ("brn two", ["--processes", "2"])):
        ended = train(work / name, *extra, *processes)
        assert ended.returncode == 0, ended.stderr
    far = distance(weights(work / "brn one"), weights(work / "brn two"))
    assert far < tolerance("brn"), far
    print(f"batch renormalisation with accumulation: weights differ by {far:.1e}", flush=True)


def dropout_is_the_same_however_a_batch_is_split(work):
    extra = ["--model", "vgg-a-small", "--image-size", "32", "--norm", "gn(group_size=16)+relu", "--lr-base", "0.1", "--momentum", "0"]
    common = ["--warmup-steps", "0", "--threads", "1", "--workers", "0"]
    split = {
        "drop one": ["--batch-per-device", "8", "--devices", "1"],
        "drop devices": ["--batch-per-device", "2", "--devices", "4"],
        "drop pieces": ["--batch-per-device", "2", "--devices", "4", "--images-at-once", "2"],
        "drop processes": ["--batch-per-device", "2", "--devices", "4", "--processes", "2"],
        "none": ["--batch-per-device", "8", "--devices", "1", "--dropout", "0"],
    }
    for name, options in split.items():
        command = [FRN, "train", "--out", str(work / name), *common, *extra, "--steps", "100", "--max-steps", "1", *options]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
    # One step in float32. Max pools choose among values that rounding moves, which shows in biases that start at 0 (seen:
    # 1e-5); another mask changes them altogether. tests/train/step_test.cpp has it in float64, to 1e-12.
    for name in ("drop devices", "drop pieces", "drop processes", "none"):
        far = distance(weights(work / "drop one", 1), weights(work / name, 1))
        assert (far > 0.1) if name == "none" else (far < 1e-4), f"{name}: {far}"
        print(f"vgg-a-small, {name}: weights differ by {far:.1e}", flush=True)


def a_killed_rank_ends_all_with_one_message(work):
    folder = work / "killed"
    process = start_long(folder, "--processes", "3", "--devices", "6")
    os.kill(children(process.pid)[1], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGKILL, (process.returncode, errors)
    assert "rank 1 was killed by signal 9" in errors, errors
    before = newest_step(folder)
    assert before >= 10
    # Another number of processes goes on, from the last checkpoint.
    resumed = subprocess.run(
        [FRN, "train", "--resume", "--out", str(folder), "--processes", "2", "--max-steps", str(before + 2)],
        capture_output=True, text=True, timeout=300,
    )
    assert resumed.returncode == 0, resumed.stderr
    assert newest_step(folder) == before + 2
    refused = train(folder, "--resume", "--processes", "4", steps=100000)
    assert refused.returncode != 0 and "multiple of the 4 processes" in refused.stderr, refused.stderr
    print("a killed rank ends the run, and two ranks go on where three were", flush=True)


def a_resumed_run_keeps_its_devices(work):
    """Two processes where one was must not make two devices of one: the images per step would double."""
    folder = work / "one device"
    assert train(folder, "--devices", "1", "--max-steps", "3").returncode == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    refused = train(folder, "--resume", "--processes", "2")
    assert refused.returncode != 0 and "devices must be a multiple of the 2 processes but is 1" in refused.stderr, refused.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    print("a resumed run keeps its devices", flush=True)


def losses_by_the_step_are_logged_alike(work):
    """Of boxes that are not evenly spread: a rank's share of the loss goes by its positive anchors."""
    common = ["--model", "retinanet-r8", "--data", "shapes:128x3x16", "--devices", "2", "--loss-normaliser", "step", "--log-every", "1"]
    common += ["--batch-per-device", "1", "--steps", "4", "--threads", "1", "--workers", "0", "--validate-every", "100"]
    logs = []
    for name, extra in (("boxes one", []), ("boxes two", ["--processes", "2"])):
        command = [FRN, "train", "--out", str(work / name), *common, *extra]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        events = [json.loads(line) for line in (work / name / "log.jsonl").read_text().splitlines()]
        logs.append([line for line in events if line["event"] == "train"])
    assert len(logs[0]) == len(logs[1]) == 4
    for one, two in zip(*logs, strict=True):
        losses = [key for key in one if key.endswith("loss")]
        assert len(losses) == 3, one
        for key in losses:
            # float32, and weights that differ by the order of sums.
            assert abs(one[key] - two[key]) < 1e-4 * max(1, abs(one[key])), (key, one[key], two[key])
    print("losses divided by what a whole step has are logged alike", flush=True)


def validation_goes_on_where_rank_0_reads_nothing(work):
    images = work / "images"
    draw = random.Random(1)
    for split, count in (("train", 8), ("val", 24)):
        for number, name in enumerate(("a", "b")):
            (images / split / name).mkdir(parents=True)
            for i in range(count // 2):
                file = images / split / name / f"{i:02}.png"
                Image.frombytes("RGB", (8, 8), bytes(draw.randint(0, 255) for _ in range(192))).save(file)
                # Rank 0 has the first 16 images, rank 1 the 8 after them.
                if split == "val" and 12 * number + i < 16:
                    file.write_bytes(file.read_bytes()[:40])
    command = [FRN, "train", "--out", str(work / "half unreadable"), *COMMON, "--data", f"imagefolder:{images}", "--steps", "2"]
    command += ["--batch-per-device", "4", "--devices", "2", "--processes", "2", "--timeout", "60"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert validation(work / "half unreadable")["samples"] == 8
    print("a rank that can read none of its images does not hold up the others", flush=True)


def sigterm_stops_all_ranks_at_one_step(work):
    folder = work / "asked"
    process = start_long(folder, "--processes", "2", "--devices", "2")
    process.terminate()
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, (process.returncode, errors)
    assert json.loads((folder / "metrics.json").read_text())["step"] == newest_step(folder)
    assert "--resume" in output, output
    print("SIGTERM stops all ranks at one step", flush=True)


def a_rank_that_hangs_is_named(work):
    folder = work / "hung"
    process = start_long(folder, "--processes", "3", "--devices", "3", "--timeout", "15")
    ranks = children(process.pid)
    os.kill(ranks[2], signal.SIGSTOP)
    _, errors = process.communicate(timeout=90)
    assert process.returncode != 0
    assert "rank 2 does not answer (it began step" in errors, errors
    assert "waited in" in errors, errors
    print("a rank that hangs is named", flush=True)


def torchrun_restarts_from_the_checkpoint(work):
    folder = work / "torchrun"
    # This machine's own name may lead nowhere.
    command = [*TORCHRUN, "--local-addr", "127.0.0.1", "--nproc-per-node", "3", "--max-restarts", "1", "--no-python"]
    command += [FRN, "train", "--out", str(folder)]
    command += [*COMMON, "--batch-per-device", "2", "--steps", "100", "--checkpoint-every", "5", "--validate-every", "100"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    while newest_step(folder) < 10:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.kill(children(process.pid)[1], signal.SIGKILL)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    resumed = [line["step"] for line in events if line["event"] == "resume"]
    assert len(resumed) == 1 and resumed[0] >= 10, resumed
    assert newest_step(folder) == 100
    whole = work / "torchrun whole"
    assert train(whole, "--processes", "3", "--devices", "3", "--validate-every", "100", steps=100).returncode == 0
    assert distance(weights(folder, 100), weights(whole, 100)) == 0, "a restart must cost nothing but time"
    print("torchrun restarts a killed rank's run from its checkpoint, to the same bytes", flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="frn's processes ") as work:
        work = Path(work)
        same_weights_however_a_batch_is_split(work)
        only_the_last_piece_of_a_step_is_reduced(work)
        running_statistics_pass_from_micro_batch_to_micro_batch(work)
        dropout_is_the_same_however_a_batch_is_split(work)
        a_killed_rank_ends_all_with_one_message(work)
        a_resumed_run_keeps_its_devices(work)
        losses_by_the_step_are_logged_alike(work)
        validation_goes_on_where_rank_0_reads_nothing(work)
        sigterm_stops_all_ranks_at_one_step(work)
        a_rank_that_hangs_is_named(work)
        torchrun_restarts_from_the_checkpoint(work)


if __name__ == "__main__":
    main()
