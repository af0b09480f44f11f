"""Who may include whom (docs/architecture.md). Needs nothing but the sources."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(p for p in (ROOT / "frn").rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".cuh", ".in"})
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# core <- kernels, spec <- ops <- nn <- models; core <- metrics <- detection <- models; core <- fetch, losses, dist, study; metrics
# (COCO's files) <- data; train uses these but fetch and study; report reads files and studies; cli uses all and nobody includes it.
# A folder may always include itself.
ALLOWED = {
    "core": set(),
    "kernels": {"core"},
    "spec": {"core"},
    "ops": {"core", "kernels", "spec"},
    "nn": {"core", "spec", "ops"},
    "detection": {"core", "metrics"},
    "models": {"core", "spec", "ops", "nn", "detection"},
    "onnx": {"core"},
    "data": {"core", "metrics"},
    "fetch": {"core"},
    "losses": {"core"},
    "metrics": {"core"},
    "dist": {"core"},
    "train": {"core", "spec", "ops", "nn", "models", "detection", "data", "losses", "metrics", "dist"},
    "study": {"core"},
    "report": {"core", "study"},
}
ALLOWED["cli"] = set(ALLOWED)

WITHOUT_TORCH = {"core", "detection", "kernels", "spec", "fetch", "metrics", "study", "report"}
TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
THREADS = re.compile(
    r"(omp\.h|pthread\.h|tbb/.*|thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|execution)$"
)
ALLOCATION = re.compile(
    r"(memory|memory_resource|new|malloc\.h|alloca\.h|hwy/aligned_allocator\.h|deque|list|(unordered_)?(map|set))$"
)


def name_of(path):
    return str(path.relative_to(ROOT))


def folder_of(path):
    return path.relative_to(ROOT / "frn").parts[0]


def includes_of(path):
    return INCLUDE.findall(path.read_text())


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_source_includes_only_what_its_folder_may(path):
    folder = folder_of(path)
    assert folder in ALLOWED, f"a new folder: say in {Path(__file__).name} what it may include"
    for bracket, name in includes_of(path):
        if name == "frn/version.h":
            continue  # made by CMake, for everybody
        if name.startswith("frn/"):
            assert bracket == '"', f'write "{name}", in quotes'
            assert (ROOT / name).is_file(), f"{name} does not exist"
            assert name.split("/")[1] in ALLOWED[folder] | {folder}, f"{folder} must not include {name}"
        elif folder in WITHOUT_TORCH:
            assert not TORCH.match(name), f"{folder} must not include {name}: it knows nothing of torch"


@pytest.mark.parametrize("path", [p for p in SOURCES if folder_of(p) == "kernels"], ids=name_of)
def test_kernels_bring_no_threads_and_no_memory_of_their_own(path):
    for _, name in includes_of(path):
        assert not THREADS.match(name), f"kernels/ must not include {name}: threads come in through driver.h"
        assert not ALLOCATION.match(name), f"kernels/ must not include {name}: callers bring the memory"


def test_includes_are_root_relative():
    for path in SOURCES:
        for bracket, name in includes_of(path):
            assert not (bracket == '"' and name.startswith(".")), f"{path}: write the path from the root, not {name}"


def test_the_graph_is_seen():
    """The checks above see the edges that are there today."""
    edges = {(folder_of(p), n.split("/")[1]) for p in SOURCES for _, n in includes_of(p) if n.startswith("frn/")}
    assert {("kernels", "core"), ("ops", "kernels"), ("cli", "ops")} <= edges
