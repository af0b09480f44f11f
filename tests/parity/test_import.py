"""`import frn` finds its library, or says in one sentence what to do."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import ROOT

import frn

PACKAGE = Path(frn.__file__).parent
USE = "import torch, frn; print(frn.act(-torch.ones(1, 1), activation='relu').item())"


PRODUCT = "import torch, frn; a = torch.ones(64, 64, dtype=torch.bfloat16); print((a @ a)[0, 0].item())"


def run(package_folder, library=None, use=USE):
    environment = {name: value for name, value in os.environ.items() if name != "FRN_LIBRARY"}
    environment["PYTHONPATH"] = str(package_folder)
    environment.pop("ONEDNN_MAX_CPU_ISA", None)
    if library is not None:
        environment["FRN_LIBRARY"] = str(library)
    return subprocess.run([sys.executable, "-c", use], env=environment, capture_output=True, text=True, timeout=120)


def library_in_use():
    return Path(os.environ.get("FRN_LIBRARY") or ROOT / "build" / "lib" / "libfrn_ops.so")


@pytest.fixture
def copy_of_package(tmp_path):
    folder = tmp_path / "site" / "packages"
    for package in (PACKAGE, PACKAGE.parent / "frn_program"):
        shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__", "lib", "bin"))
    return folder


def import_error(done):
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    return last


def test_the_library_beside_the_package_is_found(copy_of_package):
    (copy_of_package / "frn" / "lib").mkdir()
    (copy_of_package / "frn" / "lib" / "libfrn_ops.so").symlink_to(library_in_use())
    assert run(copy_of_package).stdout.strip() in ("0.0", "-0.0")


def test_the_library_of_a_checkout_is_found(copy_of_package, tmp_path):
    (tmp_path / "site" / "build" / "lib").mkdir(parents=True)
    (tmp_path / "site" / "build" / "lib" / "libfrn_ops.so").symlink_to(library_in_use())
    assert run(copy_of_package).returncode == 0


def test_a_bfloat16_product_survives_where_tiles_are_not_described():
    """Some virtual machines show AMX and hide what describes it (matrix_tiles.h): there the product would be killed."""
    done = run(PACKAGE.parent, library_in_use(), use=PRODUCT)
    assert (done.returncode, done.stdout.strip()) == (0, "64.0"), done.stderr


def test_import_leaves_the_environment_as_it_was():
    use = "import os, torch, frn; os.execvp('env', ['env', '-0'])"  # what C sees, which os.environ does not
    entries = [entry for entry in run(PACKAGE.parent, library_in_use(), use=use).stdout.split("\0") if entry]
    assert entries and not [entry for entry in entries if entry.startswith(("ONEDNN", "DNNL"))]


CAPPED = """
import os
os.environ["ONEDNN_VERBOSE"] = "1"
os.environ["ONEDNN_MAX_CPU_ISA"] = "SSE41"
import torch
torch.ones(1).to_mkldnn()
del os.environ["ONEDNN_MAX_CPU_ISA"]
torch.conv2d(torch.ones(1, 16, 32, 32).to_mkldnn(), torch.ones(16, 16, 3, 3).to_mkldnn())
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the variable is that of x86 processors")
def test_onednn_keeps_what_it_read_when_it_was_first_used():
    """What matrix_tiles.cpp relies on: the variable is needed for the moment of the first use alone."""
    lines = [line for line in run(PACKAGE.parent, use=CAPPED).stdout.splitlines() if ",convolution," in line]
    assert lines and all("jit:sse41" in line for line in lines), lines


def test_a_missing_library_is_one_clear_sentence(copy_of_package):
    message = import_error(run(copy_of_package))
    assert "libfrn_ops.so" in message and "make build" in message and "FRN_LIBRARY" in message


def test_a_wrong_FRN_LIBRARY_is_one_clear_sentence(copy_of_package, tmp_path):
    message = import_error(run(copy_of_package, library=tmp_path / "nothing.so"))
    assert "FRN_LIBRARY" in message and "nothing.so" in message


def test_a_library_that_does_not_load_is_one_clear_sentence(copy_of_package, tmp_path):
    """As one that was built for another torch: its symbols are missing."""
    broken = tmp_path / "libfrn_ops.so"
    broken.write_bytes(b"not a library")
    message = import_error(run(copy_of_package, library=broken))
    assert "could not load" in message and "torch 2" in message and "make build" in message


def test_another_version_of_torch_is_one_clear_sentence(copy_of_package):
    library = copy_of_package / "frn" / "lib" / "libfrn_ops.so"
    library.parent.mkdir()
    shutil.copy(library_in_use(), library)
    (library.parent / "torch-version.txt").write_text("1.13.1\n")
    message = import_error(run(copy_of_package))
    assert message.startswith("ImportError: frn was built for torch 1.13.1 but this is torch 2.15.0; install torch 1.13.1")


def test_the_script_without_the_program_says_how_to_have_it(copy_of_package):
    done = run(copy_of_package, use="import sys, frn_program; sys.exit(frn_program.main())")
    assert done.returncode == 1
    assert done.stderr.startswith("frn: this package was installed without the program; run `pip install .`")


def test_the_script_becomes_the_program(copy_of_package):
    program = library_in_use().parents[1] / "bin" / "frn"
    (copy_of_package / "frn" / "bin").mkdir()
    (copy_of_package / "frn" / "bin" / "frn").symlink_to(program)
    use = "import sys; sys.argv = ['frn', 'train', '--stepz', '3']; import frn_program; sys.exit(frn_program.main())"
    done = run(copy_of_package, use=use)
    assert done.returncode == 2 and done.stderr.startswith("frn: unknown option '--stepz'"), done.stderr
