"""For backward only x, its groups' statistics and the parameters are kept; only what is asked for is computed."""

import itertools
from dataclasses import replace

import pytest
import torch
from cases import LAYERS, LAYOUTS, NAMES, make_call
from torch.autograd.graph import saved_tensors_hooks

import frn


def kept_by(forward):
    """Everything that autograd keeps for the backward pass of a function."""
    kept = []

    def pack(tensor):
        kept.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    assert result.requires_grad
    return kept


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm, activation", LAYERS)
def test_only_x_and_the_statistics_of_its_groups_are_kept(norm, activation, layout):
    call = make_call(norm, activation, (2, 12, 9, 7)).with_layout(layout).map(torch.Tensor.requires_grad_)
    kept = kept_by(call.forward)
    inputs = {tensor.data_ptr() for tensor in call.tensors().values()}
    assert call.x.data_ptr() in {tensor.data_ptr() for tensor in kept}, "the hooks see what is kept"
    new = [tensor for tensor in kept if tensor.data_ptr() not in inputs and tensor.numel() > 0]
    assert [tuple(tensor.shape) for tensor in new] == [(2, call.groups)] * (2 if call.centered else 1)


def test_the_hooks_would_see_more():
    """The check above can fail: the same layer written with PyTorch's operators keeps several activations."""
    x = torch.randn(2, 12, 9, 7, requires_grad=True)
    kept = kept_by(lambda: torch.relu(x * torch.rsqrt(x.square().mean((2, 3), keepdim=True) + 1e-6)))
    assert sum(tensor.numel() >= x.numel() for tensor in kept) > 1


@pytest.mark.parametrize("activation", ["relu", "affine_tlu"])
def test_act_keeps_only_y(activation):
    call = make_call("frn", activation, (2, 12, 9, 7)).map(torch.Tensor.requires_grad_)
    kept = kept_by(lambda: frn.act(call.x, call.tau, call.kappa, activation=activation))
    assert [t.data_ptr() for t in kept if t.numel() >= call.x.numel()] == [call.x.data_ptr()]


def backward_calls(call, needed):
    """The names of the operators that run in a backward pass."""
    call = call.map(torch.Tensor.detach)
    call = replace(call, **{name: getattr(call, name).clone().requires_grad_() for name in needed})
    z = call.forward()
    with torch.autograd.profiler.profile() as profile:
        z.backward(call.dz)
    return call, [event.name for event in profile.function_events]


@pytest.mark.parametrize("needed", list(itertools.combinations(NAMES, 1)) + [("x", "tau"), ("weight", "eps"), NAMES])
def test_only_inputs_that_need_a_gradient_get_one(needed):
    call = make_call("frn", "affine_tlu", (2, 12, 9, 7))
    wanted = call.run()
    call, names = backward_calls(call, needed)
    assert names.count("frn::_norm_act_backward") == 1
    for name in NAMES:
        gradient = getattr(call, name).grad
        assert (gradient is not None) == (name in needed)
        assert gradient is None or torch.equal(gradient, wanted[name])


def test_the_raw_backward_computes_only_what_is_needed():
    """Under autograd: gradients that are not needed come out empty."""
    c = make_call("in", "affine_tlu", (2, 12, 9, 7))
    rest = (c.groups, c.centered, c.activation)
    _, mean, rstd = torch.ops.frn._norm_act_forward(c.x, c.weight, c.bias, c.eps, c.tau, c.kappa, *rest)
    for needs in itertools.product([False, True], repeat=6):
        gradients = torch.ops.frn._norm_act_backward(
            c.dz, c.x, mean, rstd, c.weight, c.bias, c.eps, c.tau, c.kappa, *rest, list(needs)
        )
        shapes = [tuple(g.shape) for g in gradients]
        assert shapes == [tuple(getattr(c, name).shape) if n else (0,) for name, n in zip(NAMES, needs)]


def test_without_any_need_there_is_no_graph():
    call = make_call("frn", "tlu", (2, 12, 9, 7))
    assert call.forward().grad_fn is None
    with torch.no_grad():
        assert call.map(torch.Tensor.requires_grad_).forward().grad_fn is None
