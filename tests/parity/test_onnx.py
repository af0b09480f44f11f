"""ONNX files of our networks, read by ONNX Runtime, give what the networks give.

build/bin/onnx_case writes a network with random weights, its inputs and its results; see tests/onnx/onnx_case.cpp.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from safetensors.numpy import load_file

pytestmark = pytest.mark.skipif(
    "FRN_LIBRARY" not in os.environ,
    reason="FRN_LIBRARY must name build/lib/libfrn_ops.so: the program onnx_case is found beside it",
)

ALL = bool(os.environ.get("FRN_ALL_CASES"))
SLOW = pytest.mark.skipif(not ALL, reason="seconds and hundreds of megabytes each; set FRN_ALL_CASES, as make check-all does")

# Both sides round in float32, 6e-8 of a value, in sums of another order. The deepest path has 150 convolutions and as many
# norms: independent roundings of 300 operators add up to their root, 17 of them, 1e-6; ten times that for what norms of
# small maps enlarge. It is relative to the largest result, since a result near 0 is a difference of such values.
ALLOWED = 1e-5
# FRN of a map of four values can enlarge more. Then our own distance from float64 is the measure, four times for sums in
# another order on both sides.
ROUNDINGS = 4


def make_case(folder, *arguments):
    program = Path(os.environ["FRN_LIBRARY"]).parents[1] / "bin" / "onnx_case"
    done = subprocess.run([program, "--out", folder, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "model.onnx", load_file(folder / "case.safetensors")


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def check(folder, *arguments):
    path, case = make_case(folder, *arguments)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    session = session_of(path)
    names = [output.name for output in session.get_outputs()]
    for samples in (1, 2, 5):
        found = session.run(names, {"images": case[f"x{samples}"]})
        for name, value in zip(names, found, strict=True):
            wanted = case[f"{name}{samples}"]
            assert value.shape == wanted.shape
            scale = np.abs(wanted).max()
            own = np.abs(case[f"{name}5"] - case[f"{name}_float64"]).max() / np.abs(case[f"{name}5"]).max()
            assert np.isfinite(wanted).all() and scale > 0 and own < 10 * ALLOWED
            off = np.abs(value - wanted).max() / scale
            assert off <= max(ALLOWED, ROUNDINGS * own), f"{name} of {samples} samples is off by {off}, ours by {own}"
    return model


def ops_of(model):
    return {node.op_type for node in model.graph.node}


NORMS = [
    "frn+tlu",
    "frn(eps=learned)+prelu",
    "frn(eps=learned,eps_shape=channel)+affine_tlu",
    "frn(proxy=true)+tlu",
    "gn(group_size=4,proxy=true)+relu",
    "gn(group_size=8)+relu",
    "gfrn(group_size=8)+tlu",
    "lfrn+relu",
    "ln+tlu",
    "in+none",
    "in+prelu",
    "bn+relu",
    "brn+tlu",
    "none+relu",
]


@pytest.mark.parametrize("norm", NORMS)
def test_every_norm_and_activation(norm, tmp_path):
    check(tmp_path, "--model", "resnetv2-8", "--norm", norm)


@pytest.mark.parametrize("form", ["plain", "scaled", "gain"])
def test_standardised_weights_are_constants(form, tmp_path):
    model = check(tmp_path, "--model", "resnetv2-8", "--norm", "frn+tlu", "--weights-standardised", form)
    assert "stem.conv.weight.standardise" in {constant.name for constant in model.graph.initializer}


# FRN over a map of one value is a step function, so sizes leave maps of four values or more where eps is fixed.
FAST = [
    ("resnetv1-18", 64),
    ("resnetv2-50-bit", 64),
    ("vgg-a-small", 64),
    ("inceptionv3", 171),
    ("retinanet-r8", 128),
]
REST = [
    ("resnetv2-20", 32),
    ("resnetv2-50", 64),
    ("resnetv2-18", 64),
    ("resnetv2-34", 64),
    ("resnetv2-101", 64),
    ("resnetv2-152", 64),
    ("resnetv2-32", 32),
    ("resnetv2-56", 32),
    ("resnetv1-34", 64),
    ("resnetv1-50", 64),
    ("resnetv1-101", 64),
    ("vgg-a", 64),
    ("vgg11", 64),
    ("retinanet-r18", 128),
    ("retinanet-r50", 128),
    ("retinanet-r101", 128),
]


@pytest.mark.parametrize("model, size", FAST + [pytest.param(*row, marks=SLOW) for row in REST])
@pytest.mark.parametrize("norm", ["frn+tlu", "bn+relu"])
def test_every_network(model, size, norm, tmp_path):
    check(tmp_path, "--model", model, "--size", size, "--norm", norm)


def test_all_networks_of_the_table_are_listed():
    program = Path(os.environ["FRN_LIBRARY"]).parents[1] / "bin" / "frn"
    lines = subprocess.run([program, "info", "models"], capture_output=True, text=True, check=True).stdout.splitlines()
    known = {line.split()[0] for line in lines if line.startswith(("resnet", "inception", "vgg", "retinanet"))}
    assert known == {name for name, _ in FAST + REST} | {"resnetv2-8"}


def test_other_layouts_channels_and_styles(tmp_path):
    for i, arguments in enumerate(
        [
            ("--model", "resnetv2-8", "--channels", 1, "--channels-last"),
            ("--model", "resnetv2-8", "--size", 23),
            # Maps of uneven sides are doubled to less than twice their side.
            ("--model", "retinanet-r8", "--size", 200, "--style", "torchvision"),
            # A map of 2x2 values becomes 7x7.
            *([("--model", "vgg-a", "--size", 64)] if ALL else []),
        ]
    ):
        folder = tmp_path / str(i)
        folder.mkdir()
        check(folder, *arguments)


def test_batch_norm_goes_into_the_convolution_before_it(tmp_path):
    assert "Mul" not in ops_of(check(tmp_path, "--model", "vgg-a-small", "--size", 32, "--norm", "bn+relu"))
    # Here half of them come before the convolution, and stay as scale and shift.
    model = check(tmp_path, "--model", "resnetv2-8", "--norm", "bn+relu")
    assert sum(node.op_type == "Mul" for node in model.graph.node) == 4


def test_the_file_carries_names_and_sizes(tmp_path):
    model = check(tmp_path, "--model", "resnetv2-8")
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 18)]
    assert {entry.key: entry.value for entry in model.metadata_props} == {"frn.model": "resnetv2-8"}
    dimensions = model.graph.input[0].type.tensor_type.shape.dim
    assert dimensions[0].dim_param == "batch" and [d.dim_value for d in dimensions[1:]] == [3, 32, 32]
    names = {constant.name for constant in model.graph.initializer}
    assert {"stem.conv.weight", "stages.0.blocks.0.norm1.tau", "head.fc.bias"} <= names
