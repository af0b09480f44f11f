"""First and second derivatives against finite differences, in float64."""

import itertools
from dataclasses import replace

import pytest
import torch
from cases import ACTIVATIONS, LAYERS, NAMES, make_call, shape_name
from oracle import normalise
from torch.autograd import gradcheck, gradgradcheck

import frn

SHAPES = [(2, 4), (2, 4, 3), (1, 4, 2, 3), (1, 4, 2, 1, 2)]


def smooth_call(norm, activation, shape, **options):
    """A call with every y well away from its threshold, where finite differences mean something."""
    for seed in itertools.count():
        call = make_call(norm, activation, shape, torch.float64, eps=0.3, seed=seed, **options)
        _, y, threshold = normalise(call)
        if ((y - threshold).abs() > 1e-2).all():
            return call


def as_function(call):
    """norm_act of the tensors that are there, and those tensors."""
    names = list(call.tensors())

    def function(*tensors):
        return replace(call, **dict(zip(names, tensors))).forward()

    return function, [tensor.requires_grad_() for tensor in call.tensors().values()]


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
@pytest.mark.parametrize("norm, activation", LAYERS)
def test_norm_act_has_right_first_and_second_derivatives(norm, activation, shape):
    function, inputs = as_function(smooth_call(norm, activation, shape))
    assert gradcheck(function, inputs)
    # Random directions instead of whole Jacobians; the full check of one rank stands below.
    assert gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("norm, activation", [("frn", "affine_tlu"), ("gn", "affine_tlu"), ("ln", "tlu")])
def test_norm_act_has_right_second_derivatives_in_every_entry(norm, activation):
    assert gradgradcheck(*as_function(smooth_call(norm, activation, (1, 4, 2))))


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("frn", "affine_tlu"), ("in", "prelu")])
def test_an_eps_per_channel_has_right_first_and_second_derivatives(norm, activation, shape):
    function, inputs = as_function(smooth_call(norm, activation, shape, per_channel_eps=True))
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_frn_tlu_has_right_first_and_second_derivatives(shape):
    call = smooth_call("frn", "tlu", shape)
    inputs = [t.requires_grad_() for t in (call.x, call.weight, call.bias, call.tau, -call.eps)]
    assert gradcheck(frn.frn_tlu, inputs)
    assert gradgradcheck(frn.frn_tlu, inputs, fast_mode=True)


@pytest.mark.parametrize("shape", [(2, 4), (1, 4, 2, 2)], ids=shape_name)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_act_has_right_first_and_second_derivatives(activation, shape):
    call = smooth_call("frn", activation, shape)
    y = normalise(call)[1].detach()
    parameters = {name: getattr(call, name) for name in ("tau", "kappa") if getattr(call, name) is not None}

    def function(y, *tensors):
        return frn.act(y, **dict(zip(parameters, tensors)), activation=activation)

    inputs = [t.requires_grad_() for t in (y, *parameters.values())]
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("norm, activation", LAYERS)
def test_gradients_that_can_be_differentiated_equal_those_that_cannot(norm, activation):
    """The fused kernels and the composite formulas, which take over under create_graph, are one function."""
    call = make_call(norm, activation, (3, 12, 5, 7), torch.float64)
    fused, composite = call.run(), call.run(create_graph=True)
    for name in NAMES:
        if name in fused:
            torch.testing.assert_close(composite[name].detach(), fused[name], rtol=1e-11, atol=1e-11)
