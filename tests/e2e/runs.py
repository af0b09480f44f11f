"""What tests that drive training runs share."""

import json
import signal
import time


def newest_step(folder):
    """Of the checkpoints that are in place; 0 when there is none."""
    return max((int(path.name.split("-")[1]) for path in (folder / "checkpoints").glob("step-*")), default=0)


def logged_step(folder):
    """The last step in the log; 0 when there is none. The line that is being written does not count."""
    try:
        lines = (folder / "log.jsonl").read_text().split("\n")[:-1]
    except FileNotFoundError:
        return 0
    return max((json.loads(line).get("step", 0) for line in lines), default=0)


def final_files(folder, step):
    last = folder / "checkpoints" / f"step-{step}"
    return {name: (last / name).read_bytes() for name in ("model.safetensors", "trainer.safetensors")}


def curves(folder):
    """The lines about training, without what differs from run to run."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    keep = [line for line in lines if line["event"] in ("train", "validation")]
    for line in keep:
        line.pop("images_per_second", None)
        line.pop("wait_share", None)
    return keep


def wait_until(condition, what, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.01)


def is_alive(pid):
    """A process that has ended and waits for its parent to ask is not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def exit_code(status):
    """As a shell gives it, from what waitpid gives."""
    import os

    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


INTERRUPTED = 128 + signal.SIGINT
