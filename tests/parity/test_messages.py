"""Every wrong input gets one clear message: the operation, what was expected, what came."""

import os
import re
import subprocess
import sys

import pytest
import torch
from cases import make_call

import frn

C = 12


def call_with(act="affine_tlu", norm="gn", **changes):
    call = make_call(norm, act, (2, C, 5, 7))
    for name, value in changes.items():
        setattr(call, name, value)
    return call.forward


DOUBLE, LONG = torch.float64, torch.int64
ON_META = {"device": "meta"}
# What is wrong: the call, the type of the error, the words that matter in its message.
WRONG = {
    "rank of x": (call_with(x=torch.zeros(C)), RuntimeError, r"x must have shape \[N, C, \*\].*has \[12\].*unsqueeze"),
    "no channels": (call_with(x=torch.zeros(2, 0, 3)), RuntimeError, "x must have at least one channel"),
    "integer x": (call_with(x=torch.zeros(2, C).int()), TypeError, "x must be float32, .* but is Int"),
    "complex x": (call_with(x=torch.zeros(2, C).cfloat()), TypeError, "x must be float32, .* but is Complex"),
    "sparse x": (call_with(x=torch.zeros(2, C).to_sparse()), Exception, "must be a dense tensor|[Ss]parse"),
    "channels of weight": (
        call_with(weight=torch.ones(5)),
        RuntimeError,
        r"weight must have shape \[12\] \(channels of x \[2, 12, 5, 7\]\) but has \[5\]",
    ),
    "channels of bias": (call_with(bias=torch.ones(C, 1)), RuntimeError, r"bias must have .* but has \[12, 1\]"),
    "channels of tau": (call_with(tau=torch.ones(())), RuntimeError, r"tau must have shape \[12\].* but has \[\]"),
    "channels of kappa": (call_with(kappa=torch.ones(1)), RuntimeError, r"kappa must have shape \[12\].* has \[1\]"),
    "type of weight": (call_with(weight=torch.ones(C, dtype=DOUBLE)), TypeError, "weight must be Float .* is Double"),
    "type of tau": (call_with(tau=torch.ones(C, dtype=LONG)), TypeError, "tau must be Float .* but is Long"),
    "device of weight": (
        call_with(weight=torch.ones(C, **ON_META)),
        RuntimeError,
        "weight must be on x's device cpu but is on meta",
    ),
    "device of eps": (call_with(eps=torch.ones((), **ON_META)), RuntimeError, "eps must be on x's .* is on meta"),
    "device of x": (call_with(x=torch.ones(2, C, **ON_META)), RuntimeError, "on x's device meta but is on cpu"),
    "eps of zero": (call_with(eps=torch.tensor(0.0)), ValueError, "eps must be positive and finite but is 0"),
    "negative eps": (call_with(eps=torch.tensor(-1e-6)), ValueError, "eps must be positive and finite but is -1e-06"),
    "NaN eps": (call_with(eps=torch.tensor(torch.nan)), ValueError, "eps must be positive and finite but is nan"),
    "infinite eps": (call_with(eps=torch.tensor(torch.inf)), ValueError, "eps must be positive and finite but is inf"),
    "one bad eps of many": (
        call_with(norm="frn", eps=torch.tensor([1e-6] * (C - 1) + [0.0])),
        ValueError,
        "eps must be positive and finite but is 0",
    ),
    "type of eps": (call_with(eps=torch.tensor(1)), TypeError, "eps must be a floating-point number but is Long"),
    "shape of eps": (
        call_with(norm="frn", eps=torch.full((5,), 1e-6)),
        RuntimeError,
        r"eps must be one number or have shape \[12\] .* but has \[5\]",
    ),
    "eps per channel of a wider group": (
        call_with(eps=torch.full((C,), 1e-6)),
        RuntimeError,
        "eps must be one number when a group has more than one channel",
    ),
    "groups that do not divide": (call_with(groups=5), ValueError, "groups must divide the 12 channels .* but is 5"),
    "no groups": (call_with(groups=0), ValueError, "groups must be at least 1 but is 0"),
    "negative groups": (call_with(groups=-4), ValueError, "groups must be at least 1 but is -4"),
    "missing tau": (call_with(tau=None), RuntimeError, r"'affine_tlu' needs tau of shape \[12\] but got none"),
    "missing kappa": (call_with(kappa=None), RuntimeError, r"'affine_tlu' needs kappa of shape \[12\]"),
    "tau too many": (call_with("relu", tau=torch.zeros(C)), RuntimeError, "'relu' takes no tau but got one"),
    "kappa too many": (call_with("tlu", kappa=torch.zeros(C)), RuntimeError, "'tlu' takes no kappa but got one"),
    "unknown activation": (
        call_with("relu", activation="rellu"),
        ValueError,
        r"activation must be one of none, relu, tlu, prelu, affine_tlu but is 'rellu' \(did you mean 'relu'\?\)",
    ),
    "activation far from any": (call_with("relu", activation="softmax"), ValueError, "of none, .* is 'softmax'$"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_input_of_norm_act_is_named(what):
    function, error, message = WRONG[what]
    with pytest.raises(error, match=message) as caught:
        function()
    first_line = str(caught.value).splitlines()[0]
    assert first_line.startswith("[norm_act] ") or what == "sparse x"


def test_a_bad_call_on_meta_tensors_gets_the_same_message():
    call = make_call("gn", "tlu", (2, C, 5, 7)).map(lambda t: t.to("meta"))
    call.tau = torch.zeros(5, device="meta")
    with pytest.raises(RuntimeError, match=r"\[norm_act\] tau must have shape \[12\]"):
        call.forward()


Y = torch.zeros(2, C, 3)
WRONG_ACT = {
    "rank of y": ((torch.zeros(C), None, None, "relu"), RuntimeError, r"y must have shape \[N, C, \*\]"),
    "type of y": ((Y.int(), None, None, "relu"), TypeError, "y must be float32"),
    "missing tau": ((Y, None, None, "tlu"), RuntimeError, "activation 'tlu' needs tau"),
    "tau too many": ((Y, Y[0, :, 0], None, "relu"), RuntimeError, "activation 'relu' takes no tau"),
    "channels of kappa": ((Y, None, Y[0, :5, 0], "prelu"), RuntimeError, r"kappa must have shape \[12\]"),
    "unknown": ((Y, None, None, "gelu"), ValueError, "activation must be one of none, relu"),
}


@pytest.mark.parametrize("what", WRONG_ACT)
def test_a_wrong_input_of_act_is_named(what):
    arguments, error, message = WRONG_ACT[what]
    with pytest.raises(error, match=r"^\[act\] .*" + message):
        torch.ops.frn.act(*arguments)


WRONG_FRN_TLU = {
    "rank of x": (dict(x=torch.zeros(C)), RuntimeError, r"\[frn_tlu\] x must have shape \[N, C, \*\]"),
    "channels": (dict(tau=torch.zeros(5)), RuntimeError, r"tau must have shape \[12\] \(channels of x"),
    "eps of zero": (dict(eps=torch.tensor(0.0)), ValueError, "eps must be positive and finite but is 0"),
}


@pytest.mark.parametrize("what", WRONG_FRN_TLU)
def test_a_wrong_input_of_frn_tlu_is_named(what):
    changes, error, message = WRONG_FRN_TLU[what]
    call = make_call("frn", "tlu", (2, C, 5, 7))
    given = {name: getattr(call, name) for name in ("x", "weight", "bias", "tau", "eps")}
    with pytest.raises(error, match=message):
        frn.frn_tlu(**{**given, **changes})


LAYERS = {
    "frn+tlu": frn.NormAct(C, "frn+tlu"),
    "gn(groups=4)+relu": frn.NormAct(C, "gn(groups=4)+relu"),
    "bn+none": frn.NormAct(C, "bn+none"),
    "NormActConv2d": frn.NormActConv2d(C, 5, 3),
    "NormAddAct": lambda x: frn.NormAddAct(C)(x, x),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_says_which_channels_it_is_for(name):
    said = rf"^\[{re.escape(name)}\] x must have shape \[N, 12, \*\] but has "
    with pytest.raises(ValueError, match=said + r"\[2, 6, 5, 7\]; make the layer for 6 channels, or give it another x$"):
        LAYERS[name](torch.zeros(2, 6, 5, 7))
    with pytest.raises(ValueError, match=said + r"\[12, 5, 7\]; add the dimension of samples, x.unsqueeze\(0\)$"):
        LAYERS[name](torch.zeros(C, 5, 7))
    with pytest.raises(ValueError, match=said + r"\[12\]; add the dimension of samples"):
        LAYERS[name](torch.zeros(C))


def test_what_else_is_wrong_with_a_layers_input_is_said_by_the_operator():
    with pytest.raises(TypeError, match=r"\[norm_act\] x must be float32, .* but is Int"):
        LAYERS["frn+tlu"](torch.zeros(2, C).int())
    with pytest.raises(RuntimeError, match=r"\[norm_act\] weight must be on x's device meta"):
        LAYERS["frn+tlu"](torch.zeros(2, C, 3, 3, device="meta"))


def test_an_unknown_implementation_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of .*reference but is 'refrence' \(did you mean 'reference'\?\)"):
        frn.force_implementation("refrence")
    frn.norm_act(torch.ones(2, 4))  # the choice before it still stands
    assert frn.last_implementation() == frn.implementations()[0]


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )


def test_the_environment_chooses_the_implementation():
    code = "import torch, frn; frn.act(torch.ones(2, 4), activation='relu'); print(frn.last_implementation())"
    assert run_python(code, FRN_IMPLEMENTATION="reference").stdout.strip() == "reference"
    wrong = run_python(code, FRN_IMPLEMENTATION="axv2")
    assert wrong.returncode != 0
    assert "ValueError: [implementation] FRN_IMPLEMENTATION must be one of " in wrong.stderr
    assert "but is 'axv2' (did you mean 'avx2'?)" in wrong.stderr
