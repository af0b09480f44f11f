"""The Python package as people install it: from a source archive, into an empty environment, used from another folder.

Minutes of compiling, so with FRN_ALL_CASES alone (make check-all). The environment inherits torch and what it needs from the
one that runs the tests, instead of fetching 3 GB.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not os.environ.get("FRN_ALL_CASES"), reason="compiles for minutes; set FRN_ALL_CASES, as make check-all does"
)

TRAIN = """
import frn, torch
torch.manual_seed(0)
assert frn.__file__.startswith({site!r}), frn.__file__
model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), frn.NormAct(8, "frn+tlu"), torch.nn.Flatten(), torch.nn.LazyLinear(2))
x, y = torch.randn(16, 1, 8, 8), torch.arange(16) % 2
model(x)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
losses = []
for _ in range(20):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.5 * losses[0], losses
print(frn.__version__)
"""


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def environment():
    """Without what would lead to the checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FRN_LIBRARY")}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    make = f"from scikit_build_core.build import build_sdist; print(build_sdist({str(folder)!r}))"
    name = run(sys.executable, "-c", make, cwd=ROOT).split()[-1]
    return folder / name


def make_wheel(sdist, folder, *settings):
    begin = time.monotonic()
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", folder, *settings, sdist,
        env=environment(), cwd=folder)
    print(f"{time.monotonic() - begin:.0f} s for pip wheel {' '.join(settings)}")
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    return make_wheel(sdist, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def operators_alone(sdist, tmp_path_factory):
    return make_wheel(sdist, tmp_path_factory.mktemp("operators"), "-C", "cmake.define.FRN_BUILD_PROGRAM=OFF")


def install(wheel, folder):
    """Gives the Python and the site-packages of a new environment with this wheel in it."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())
    # Where torch is, too: the tests' environment may have it from another one.
    places = {str(Path(importlib.util.find_spec(name).origin).parents[1]) for name in ("torch", "safetensors")}
    (site / "inherited.pth").write_text("\n".join(places) + "\n")
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel)
    return python, site


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return install(wheel, tmp_path_factory.mktemp("fresh environment") / "venv")


def test_the_source_archive_has_what_is_needed_and_no_results(sdist):
    names = [name.split("/", 1)[1] for name in tarfile.open(sdist).getnames()]
    assert {"CMakeLists.txt", "pyproject.toml", "LICENSE", "python/frn/py.typed"} <= set(names)
    assert not [name for name in names if name.startswith(("build", "out/", ".deps", ".git/", "runs/"))]


def test_the_wheel_holds_the_package_once_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    ours = sorted(name for name in names if ".dist-info/" not in name)
    sources = sorted(str(path.relative_to(ROOT / "python")) for path in (ROOT / "python").rglob("*.py"))
    assert ours == sorted([*sources, "frn/py.typed", "frn/bin/frn", "frn/lib/libfrn_ops.so", "frn/lib/torch-version.txt"])
    assert re.fullmatch(r"frn-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)


def test_nothing_of_the_building_machine_is_inside(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path)
    here = {str(ROOT), sysconfig.get_paths()["purelib"], str(Path.home()) + "/", "/tmp/"}
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        content = path.read_bytes()
        # "/tmp/" alone may be a name that the program writes to; a path below it that a build left has more.
        found = [place for place in here if re.search(re.escape(place.encode()) + (b"[\\w.-]+/" if place == "/tmp/" else b""), content)]
        assert not found, f"{path.name} names {found}"
    paths = {"frn/lib/libfrn_ops.so": "$ORIGIN/../../torch/lib", "frn/bin/frn": "$ORIGIN/../lib:$ORIGIN/../../torch/lib"}
    for name, expected in paths.items():
        told = re.search(r"RU?N?PATH\)\s+Library r\w+path: \[(.*)\]", run("readelf", "-d", tmp_path / name))
        assert told and told[1].strip(":") == expected, told


def test_the_package_trains_from_any_folder(installed, tmp_path):
    python, site = installed
    version = run(python, "-c", TRAIN.format(site=str(site)), cwd=tmp_path, env=environment()).strip()
    assert version == re.search(r"project\(frn VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def test_the_script_is_the_program(installed, tmp_path):
    script = installed[0].parent / "frn"
    assert run(script, "--version", cwd=tmp_path, env=environment()).startswith("frn ")
    train = [str(script), "train", "--out", "a", "--model", "resnetv2-8", "--image-size", "8", "--batch-per-device", "2"]
    run(*train, "--steps", "3", cwd=tmp_path, env=environment())
    assert (tmp_path / "a" / "checkpoints" / "step-3").is_dir()
    wrong = subprocess.run([script, "train", "--stepz", "3"], capture_output=True, text=True, env=environment(), cwd=tmp_path)
    assert wrong.returncode == 2 and wrong.stderr.startswith("frn: unknown option '--stepz'")


def test_a_signal_reaches_the_program_and_its_exit_code_comes_back(installed, tmp_path):
    train = [installed[0].parent / "frn", "train", "--out", "a", "--model", "resnetv2-8", "--image-size", "8", "--steps", "100000"]
    # Whoever started the tests in the background of a script has SIGINT ignored, and children would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    running = subprocess.Popen(train, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    while not (tmp_path / "a" / "log.jsonl").exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGINT
    assert list((tmp_path / "a" / "checkpoints").iterdir())


def test_the_operators_can_be_had_alone(operators_alone, tmp_path):
    names = zipfile.ZipFile(operators_alone).namelist()
    assert "frn/lib/libfrn_ops.so" in names and "frn/bin/frn" not in names
    python, site = install(operators_alone, tmp_path / "venv")
    run(python, "-c", TRAIN.format(site=str(site)), cwd=tmp_path, env=environment())
    without = subprocess.run([python.parent / "frn", "--version"], capture_output=True, text=True, env=environment())
    assert without.returncode == 1 and "installed without the program" in without.stderr
