"""Two hosts, made of network namespaces, train as one; then the cable between them is pulled. Both must end with a
sentence that names what does not answer, instead of waiting for ever. Usage: hosts.py path/to/frn

Needs the right to make namespaces (root); exits with 77, which ctest shows as skipped, where that is not given."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FRN = sys.argv[1]
SKIPPED = 77
TIMEOUT = 8
# Names of this process's own, so that two runs of the test do not meet.
HOSTS = [f"frn{os.getpid()}a", f"frn{os.getpid()}b"]
LINKS = [f"fv{os.getpid()}a", f"fv{os.getpid()}b"]
ADDRESSES = ["10.231.7.1", "10.231.7.2"]


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def make_hosts():
    for host in HOSTS:
        ip("netns", "add", host)
    ip("link", "add", LINKS[0], "type", "veth", "peer", "name", LINKS[1])
    for host, link, address in zip(HOSTS, LINKS, ADDRESSES):
        ip("link", "set", link, "netns", host)
        ip("-n", host, "addr", "add", f"{address}/24", "dev", link)
        ip("-n", host, "link", "set", link, "up")
        ip("-n", host, "link", "set", "lo", "up")


def remove_hosts():
    for host in HOSTS:
        subprocess.run(["ip", "netns", "del", host], capture_output=True)


def start_rank(rank, folder, *extra):
    command = ["ip", "netns", "exec", HOSTS[rank], FRN, "train", "--out", str(folder), "--model", "resnetv2-8"]
    command += ["--image-size", "12", "--threads", "1", "--workers", "0", "--batch-per-device", "2", *extra]
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    environment |= {"MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29511"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def two_hosts_train_as_one(work):
    ranks = [start_rank(rank, work / "whole", "--steps", "20") for rank in (0, 1)]
    for rank in ranks:
        output, errors = rank.communicate(timeout=120)
        assert rank.returncode == 0, (output, errors)
    assert (work / "whole" / "checkpoints" / "step-20" / "model.safetensors").exists()
    print("two hosts train as one", flush=True)


def a_cut_link_is_named(work):
    folder = work / "cut"
    extra = ["--steps", "100000", "--checkpoint-every", "5", "--timeout", str(TIMEOUT)]
    ranks = [start_rank(rank, folder, *extra) for rank in (0, 1)]
    while not list((folder / "checkpoints").glob("step-*")):
        assert all(rank.poll() is None for rank in ranks), [rank.communicate() for rank in ranks]
        time.sleep(0.05)
    ip("-n", HOSTS[0], "link", "set", LINKS[0], "down")
    start = time.monotonic()
    errors = [rank.communicate(timeout=10 * TIMEOUT)[1] for rank in ranks]
    seconds = time.monotonic() - start
    for rank, process in enumerate(ranks):
        assert process.returncode != 0, errors[rank]
        assert f"[dist] rank {rank} waited in" in errors[rank], errors[rank]
        assert f"got no answer within {TIMEOUT} s" in errors[rank], errors[rank]
    assert "rank 1 does not answer (it began step" in errors[0], errors[0]
    assert "rank 0, where ranks meet, does not answer" in errors[1], errors[1]
    ip("-n", HOSTS[0], "link", "set", LINKS[0], "up")
    steps = [int(path.name.split("-")[1]) for path in (folder / "checkpoints").glob("step-*")]
    assert steps, "no checkpoint is left"
    print(f"a cut link is named by both ranks after {seconds:.0f} s (timeout {TIMEOUT} s)", flush=True)
    resumed = [start_rank(rank, folder, "--resume", "--max-steps", str(max(steps) + 2)) for rank in (0, 1)]
    for rank in resumed:
        output, problems = rank.communicate(timeout=120)
        assert rank.returncode == 0, (output, problems)
    print("with the link back, both go on from the checkpoint", flush=True)


def main():
    if shutil.which("ip") is None:
        print("skipped: the program `ip` (iproute2) is not here")
        return SKIPPED
    try:
        make_hosts()
    except subprocess.CalledProcessError as error:
        remove_hosts()
        print(f"skipped: this user cannot make network namespaces: {error.stderr.strip()}")
        return SKIPPED
    try:
        with tempfile.TemporaryDirectory() as work:
            two_hosts_train_as_one(Path(work))
            a_cut_link_is_named(Path(work))
    finally:
        remove_hosts()
    return 0


if __name__ == "__main__":
    sys.exit(main())
