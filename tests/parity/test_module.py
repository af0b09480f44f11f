"""frn.NormAct and frn.FRN: names, parameters, state dicts and results, the same as the C++ modules'."""

import copy
import io
import json
import math
import pickle
import subprocess

import pytest
import torch
import torch.nn.functional as F
from cases import ROOT, make_call
from torch import nn

import frn
from frn.spec import NormActSpec

PROGRAM = ROOT / "build" / "bin" / "frn"
SPECS = [f"{norm}+{activation}" for norm in frn.NORMS for activation in frn.ACTIVATIONS]


def program_table():
    """What `frn info norms --json` prints, or None without a program that knows the command."""
    if not PROGRAM.exists():
        return None
    done = subprocess.run([PROGRAM, "info", "norms", "--json"], capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout) if done.returncode == 0 else None


@pytest.mark.skipif(program_table() is None, reason="build/bin/frn has no `info norms` yet")
def test_the_tables_are_those_of_the_program():
    table = program_table()
    assert [row["name"] for row in table["norms"]] == list(frn.NORMS)
    for theirs in table["norms"]:
        ours = frn.NORMS[theirs["name"]]
        for key in ("centered", "group_rule", "batch_method", "default_eps"):
            assert getattr(ours, key) == theirs[key], (theirs["name"], key)
        assert [option["key"] for option in theirs["options"]] == [option.key for option in ours.options]
        for mine, option in zip(ours.options, theirs["options"]):
            assert list(mine.words) == option.get("words", []), (theirs["name"], option["key"])
            for key in ("default", "kind", "min", "max"):
                if key in option or key == "default":
                    assert getattr(mine, key) == option.get(key), (theirs["name"], option["key"], key)
    for theirs in table["activations"]:
        ours = frn.ACTIVATIONS[theirs["name"]]
        assert (ours.uses_tau, ours.uses_kappa) == (theirs["uses_tau"], theirs["uses_kappa"])
    assert [row["name"] for row in table["activations"]] == list(frn.ACTIVATIONS)


def test_the_activations_are_those_of_the_operator():
    with pytest.raises(ValueError, match=f"must be one of {', '.join(frn.ACTIVATIONS)} but"):
        frn.act(torch.ones(1, 1), activation="?")


@pytest.mark.parametrize(
    "text, canonical",
    [
        ("frn+tlu", "frn+tlu"),
        ("  gn ( groups = 32 ) + relu ", "gn(groups=32)+relu"),
        ("frn(eps_shape=channel,eps=learned)+tlu", "frn(eps=learned,eps_shape=channel)+tlu"),
        ("in(eps=1e+2)+none", "in(eps=100)+none"),
        ("frn(eps=0.0001)+prelu", "frn(eps=1e-04)+prelu"),
        ("ln(eps=learned_exp)+affine_tlu", "ln(eps=learned_exp)+affine_tlu"),
        ("gfrn(group_size=4)+relu", "gfrn(group_size=4)+relu"),
        ("bn(momentum=.5,eps=1e-3)+relu", "bn(eps=0.001,momentum=0.5)+relu"),
        ("brn(r_max=2.5,warmup=0)+relu", "brn(r_max=2.5,warmup=0)+relu"),
    ],
)
def test_a_name_is_read_and_printed(text, canonical):
    spec = NormActSpec.parse(text)
    assert str(spec) == canonical
    assert NormActSpec.parse(canonical) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "expected norm\\+activation, such as frn\\+tlu, but got an empty name"),
        ("frn", "'frn' names no activation: write frn\\+activation with one of none, relu"),
        ("frnn+tlu", "norm must be one of none, frn, .* but is 'frnn' \\(did you mean 'frn'\\?\\)"),
        ("FRN+tlu", "norm must be one of .* but is 'FRN' \\(did you mean 'frn'\\?\\)"),
        ("frn+rellu", "activation must be one of .* but is 'rellu' \\(did you mean 'relu'\\?\\)"),
        ("frn+tlu+relu", "activation must be one of .* but is 'tlu\\+relu'"),
        ("gn(grops=4)+relu", "an option of 'gn' must be one of eps, eps_start, groups, group_size, proxy but is 'grops' \\(did you mean"),
        ("gn(4)+relu", "must be written key=value but is '4'; keys: eps, eps_start, groups, group_size, proxy"),
        ("gn()+relu", "must be written key=value but is ''"),
        ("gn(groups=2.5)+relu", "option groups of 'gn' must be a whole number from 1 to 1048576 but is '2.5'"),
        ("gn(groups=0)+relu", "must be a whole number from 1 to 1048576 but is '0'"),
        ("frn(eps=0)+tlu", "must be a number from 1e-30 to 1000000, 'learned' or 'learned_exp' but is '0'"),
        ("frn(eps=nan)+tlu", "but is 'nan'"),
        ("frn(eps=inf)+tlu", "but is 'inf'"),
        ("frn(eps=+1)+tlu", "but is '\\+1'"),
        ("frn(eps=1_0)+tlu", "but is '1_0'"),
        ("frn(eps=lerned)+tlu", "\\(did you mean 'learned'\\?\\)"),
        ("frn(eps=1,eps=2)+tlu", "option eps of 'frn' must stand once but stands twice"),
        ("frn(eps_shape=channel)+tlu", "eps_shape must come with a learned eps"),
        ("gn(groups=2,group_size=2)+relu", "groups and group_size exclude each other"),
        ("none(eps=1)+relu", "norm 'none' takes no options but got 'eps=1'"),
        ("ln(eps_shape=channel)+relu", "an option of 'ln' must be one of eps, eps_start, proxy but is 'eps_shape'"),
        ("frn(eps=1+tlu", "must close its bracket"),
        ("frn(eps=1)tlu", "after '\\)' must come \\+activation but .* goes on with 'tlu'"),
        ("brn(warmup=50000)+relu", "r_end of 'brn' must be at least warmup, 50000, but is 40000"),
        ("x" * 300, "at most 256 characters but has 300"),
    ],
)
def test_a_wrong_name_says_what_to_write_instead(text, message):
    with pytest.raises(ValueError, match=r"^\[norm_act_spec\] .*" + message):
        frn.NormAct(64, text)


def test_groups_that_do_not_divide_say_what_would():
    assert frn.NormAct(64, "gn+relu").groups == 2  # 32 channels each
    assert frn.NormAct(64, "gn(groups=32)+relu").groups == 32
    assert NormActSpec.parse("gn(group_size=8)+relu").channel_multiple == 8
    with pytest.raises(ValueError, match=r"of its 32 channels per group but are 48; write gn\(group_size=16\)"):
        frn.NormAct(48, "gn+relu")
    with pytest.raises(ValueError, match="at least 1 channel but is asked for 0"):
        frn.NormAct(0, "frn+tlu")


STATE = {
    "none+relu": [],
    "none+affine_tlu": ["tau", "kappa"],
    "frn+tlu": ["weight", "bias", "tau"],
    "frn+relu": ["weight", "bias"],
    "gn+prelu": ["weight", "bias", "kappa"],
    "frn(eps=learned)+affine_tlu": ["weight", "bias", "tau", "kappa", "eps"],
    "bn+tlu": ["weight", "bias", "tau", "running_mean", "running_var", "num_batches_tracked"],
}


@pytest.mark.parametrize("spec", STATE)
def test_the_state_dict_has_the_names_of_the_cpp_modules(spec):
    assert list(frn.NormAct(64, spec).state_dict()) == STATE[spec]


def test_parameters_start_as_in_the_paper():
    layer = frn.NormAct(8, "frn(eps=learned)+affine_tlu")
    wanted = {"weight": torch.ones(8), "bias": torch.zeros(8), "tau": torch.zeros(8), "kappa": torch.full((8,), 0.25)}
    for name, value in wanted.items():
        assert torch.equal(getattr(layer, name), value)
    assert torch.equal(layer.eps, torch.tensor(1e-4)) and layer.eps.shape == ()
    assert torch.equal(layer.current_eps(), torch.tensor(1e-4) + 1e-6)
    assert frn.NormAct(8, "frn(eps=learned,eps_shape=channel)+tlu").eps.shape == (8,)
    exponential = frn.NormAct(8, "frn(eps=learned_exp)+tlu")
    assert exponential.eps.item() == pytest.approx(math.log(1e-4))
    assert exponential.current_eps().item() == pytest.approx(1e-4 + 1e-6)
    assert frn.NormAct(8, "frn+tlu").current_eps() == 1e-6
    assert frn.NormAct(8, "in+tlu").current_eps() == 1e-5
    assert frn.NormAct(8, "frn(eps=0.5)+tlu").current_eps() == 0.5


@pytest.mark.parametrize("method", ["frn(eps=learned)", "frn(eps=learned,eps_shape=channel)", "ln(eps=learned)"])
def test_a_learned_eps_learns_whatever_its_sign(method):
    """eps = 1e-6 + |eps_l| (section 3.3): the gradient of eps_l is that of eps with eps_l's sign."""
    layer = frn.NormAct(8, f"{method}+tlu").double()
    x, dz = torch.randn(2, 2, 8, 3, 3, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.normal_()
    gradients = []
    for sign in (1, -1):
        nn.init.constant_(layer.eps, sign * 0.3)
        gradients.append(torch.autograd.grad(layer(x), layer.eps, dz)[0])
    assert torch.equal(gradients[0], -gradients[1]) and (gradients[0] != 0).all()


@pytest.mark.parametrize("spec", SPECS)
def test_every_name_makes_a_layer_that_runs_and_trains(spec):
    layer = frn.NormAct(64, spec)
    x = torch.randn(3, 64, 5, 5, requires_grad=True)
    for mode in (True, False):
        z = layer.train(mode)(x)
        assert z.shape == x.shape
    if z.requires_grad:
        z.square().sum().backward()
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("norm", ["frn", "gfrn", "lfrn", "in", "gn", "ln"])
def test_a_layer_is_one_call_of_the_operator(norm):
    call = make_call(norm, "affine_tlu", (2, 64, 5, 7))
    layer = frn.NormAct(64, f"{norm}+affine_tlu")
    with torch.no_grad():
        for name in ("weight", "bias", "tau", "kappa"):
            getattr(layer, name).copy_(getattr(call, name))
    call.eps = torch.tensor(layer.spec.eps)
    call.groups = layer.groups
    assert torch.equal(layer(call.x), call.forward())


@pytest.mark.parametrize("shape", [(6, 8), (4, 8, 5), (4, 8, 5, 7), (2, 8, 3, 4, 5)], ids=str)
def test_bn_is_pytorchs_batch_norm(shape):
    ours = frn.NormAct(8, "bn+relu")
    theirs = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)](8)
    for _ in range(3):
        x = torch.randn(shape) * 3 + 1
        assert torch.equal(ours(x), F.relu(theirs(x)))
    assert list(theirs.state_dict()) == list(ours.state_dict())
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name
    assert torch.equal(ours.eval()(x), F.relu(theirs.eval()(x)))


def test_bn_weights_of_pytorch_load():
    theirs = nn.BatchNorm2d(8)
    theirs(torch.randn(4, 8, 5, 5))
    ours = frn.NormAct(8, "bn+relu")
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(4, 8, 5, 5)
    assert torch.equal(ours.eval()(x), F.relu(theirs.eval()(x)))


def test_batch_renorm_is_batch_norm_until_its_bounds_grow():
    renorm = frn.NormAct(8, "brn(momentum=0.1,warmup=2,r_end=10,d_end=10)+none")
    plain = frn.NormAct(8, "bn+none")
    for step in range(4):
        x = torch.randn(4, 8, 5, 5) * 2 + 1
        same = torch.allclose(renorm(x), plain(x), atol=1e-5)
        assert same == (step < 3)  # at step 2 the ramp still stands at its start
    torch.testing.assert_close(renorm.running_mean, plain.running_mean)
    torch.testing.assert_close(renorm.running_var, plain.running_var)


def test_batch_renorm_without_clipping_gives_what_eval_mode_gives():
    layer = frn.NormAct(8, "brn(r_max=1e6,d_max=1e6,warmup=0,r_end=0,d_end=0)+none")
    for _ in range(3):
        layer(torch.randn(4, 8, 5, 5) * 2 + 1)
    x = torch.randn(4, 8, 5, 5)
    wanted = copy.deepcopy(layer).eval()(x)
    torch.testing.assert_close(layer(x), wanted, rtol=1e-4, atol=1e-5)


def test_frn_is_norm_act_with_its_choices_as_arguments():
    x = torch.randn(2, 8, 5, 5)
    assert torch.equal(frn.FRN(8)(x), frn.NormAct(8, "frn+tlu")(x))
    layer = frn.FRN(8, eps="learned", eps_shape="channel", activation="relu")
    assert str(layer.spec) == "frn(eps=learned,eps_shape=channel)+relu"
    assert list(frn.FRN(8).state_dict()) == ["weight", "bias", "tau"]
    with pytest.raises(ValueError, match="did you mean 'relu'"):
        frn.FRN(8, activation="relo")


def test_a_layer_prints_its_name():
    assert repr(frn.NormAct(64, "frn(eps=learned)+tlu")) == "NormAct(64, 'frn(eps=learned)+tlu')"


@pytest.mark.parametrize("spec", ["frn(eps=learned)+affine_tlu", "gn+relu", "bn+tlu"])
def test_copies_pickles_and_state_dicts_give_the_same_layer(spec):
    layer = frn.NormAct(64, spec)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    x = torch.randn(2, 64, 5, 5)
    layer(x)
    wanted = layer.eval()(x)
    loaded = frn.NormAct(64, spec)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded.eval()):
        assert torch.equal(other(x), wanted)
        assert other.spec == layer.spec


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_a_converted_layer_keeps_its_eps(dtype):
    """1e-6 is no bfloat16, and below float16's normal numbers: eps must not be converted with the parameters."""
    x = torch.full((2, 8, 3, 3), 2.0**-10)
    for spec in ("frn+none", "frn(eps=learned)+none"):
        layer = frn.NormAct(8, spec)
        wanted = layer(x)
        z = layer.to(dtype)(x.to(dtype))
        assert z.dtype == dtype
        torch.testing.assert_close(z.float(), wanted, rtol=2**-8, atol=0)


@pytest.mark.parametrize("device, dtype", [("cpu", torch.float64), ("meta", torch.float32)], ids=str)
def test_a_layer_is_made_on_a_device_in_a_type(device, dtype):
    layer = frn.NormAct(8, "bn+affine_tlu", device=device, dtype=dtype)
    for tensor in [*layer.parameters(), layer.running_mean, layer.running_var]:
        assert tensor.device.type == device and tensor.dtype == dtype


def test_only_the_affine_parameters_are_one_dimensional_and_eps_is_a_scalar():
    """Weight-decay rules that exempt ndim <= 1 exempt all of a layer's parameters."""
    assert all(p.dim() <= 1 for p in frn.NormAct(8, "frn(eps=learned)+affine_tlu").parameters())
