"""Numbers at the edges: 16-bit types, huge and denormal values, infinities and NaN."""

import pytest
import torch
from cases import LAYERS, LAYOUTS, NAMES, PER_SAMPLE, make_call, shape_name
from oracle import SMALLEST, assert_within, composite, expected

import frn

SIXTEEN_BITS = [torch.bfloat16, torch.float16]
SHAPES = [(4, 12), (2, 7, 5, 7), (2, 64, 7, 7), (3, 8, 64, 65)]


def on_all_implementations_and_layouts(call):
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        for layout in LAYOUTS:
            yield f"{implementation} {layout}", call.with_layout(layout)


@pytest.mark.parametrize("dtype", SIXTEEN_BITS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
@pytest.mark.parametrize("norm, activation", LAYERS[::2])
def test_16_bit_results_are_the_float32_computation_rounded(norm, activation, shape, dtype):
    """Bit for bit, with float32 parameters (autocast) and with 16-bit ones (a converted model).

    SIMD loops over contiguous bfloat16 take even and odd values apart, so their float32 sums are added in another order:
    both are within 8 units of 2^-24 of the truth (tests/kernels checks that), relative to the magnitudes added up.
    """
    narrow = make_call(norm, activation, shape, dtype)
    wide = narrow.map(torch.Tensor.float)
    mixed = narrow.map(torch.Tensor.float)
    mixed.x, mixed.dz = narrow.x, narrow.dz
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        for layout in LAYOUTS:
            wanted = wide.with_layout(layout).run()
            for call in (narrow, mixed):
                got = call.with_layout(layout).run()
                for name, value in got.items():
                    kind = dtype if name == "z" else getattr(call, name).dtype
                    assert value.dtype == kind
                    context = f"{implementation} {layout}: {name} differs"
                    if dtype is torch.bfloat16 and layout == "contiguous" and implementation != "reference":
                        magnitude = wanted["z"].abs().max() + 4 if name == "z" else narrow.dz.float().abs().sum()
                        # A sum on the other side of a rounding boundary moves the stored result by a whole unit.
                        stored = torch.finfo(kind).eps * wanted[name].abs()
                        allowed = stored + 16 * 2.0**-24 * magnitude
                        assert ((value.float() - wanted[name]).abs() <= allowed).all(), context
                    else:
                        assert torch.equal(value, wanted[name].to(kind)), context


@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("gfrn", "relu"), ("in", "prelu"), ("ln", "tlu")])
def test_float16_values_beyond_256_are_squared_without_overflow(norm, activation):
    """Their squares exceed float16's 65504; timm's layer makes infinities of them, and zeros of those."""
    call = make_call(norm, activation, (2, 12, 5, 7), torch.float16)
    call.x = call.x / call.x.abs().max() * 60000
    assert (call.x.abs() > 256).float().mean() > 0.5
    wanted = composite(call.map(torch.Tensor.double))
    for context, one in on_all_implementations_and_layouts(call):
        got = one.run()
        assert all(torch.isfinite(value).all() for value in got.values()), context
        # The float32 result is nearer than 2^-20 of its size; the store rounds by half a unit of float16's 11 bits.
        size = wanted.abs() + 4
        assert ((got["z"].double() - wanted).abs() <= (2.0**-11 + 2.0**-20) * size).all(), context


@pytest.mark.parametrize("norm, activation", LAYERS)
def test_huge_values_are_right(norm, activation):
    """Squares of 1e30 overflow float32."""
    call = make_call(norm, activation, (2, 12, 5, 7))
    call.x = call.x * 1e30
    wanted = expected(call)
    for context, one in on_all_implementations_and_layouts(call):
        assert_within(one.run(), wanted, context)


@pytest.mark.parametrize("scale", [1e-40, 1e-37])
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("lfrn", "none"), ("in", "prelu"), ("gn", "affine_tlu")])
def test_denormal_values_are_right(norm, activation, scale):
    call = make_call(norm, activation, (2, 12, 5, 7), eps=1e-6)
    call.x = (call.x.double() * scale).float()
    assert scale > 1e-38 or (call.x.abs() < 2.0**-126).any()
    wanted = expected(call)
    # A product dy*(x - mean), and x - mean before it, may each lose half of the smallest float32. There are up to 35*6
    # of them to a sum, |dy| stays below 8, and rstd (1e3) and eps's rstd^3/2 multiply the loss.
    terms = 2 * 35 * 6
    for name, factor in {"weight": 8e3, "kappa": 8e3, "eps": 8 * 0.5e9, "x": 8 * 1e9, "z": 8e3}.items():
        if name in wanted.bounds:
            wanted.bounds[name] = wanted.bounds[name] + terms * factor * SMALLEST
    for context, one in on_all_implementations_and_layouts(call):
        assert_within(one.run(), wanted, context)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("norm, activation", LAYERS)
def test_a_nan_in_x_is_not_hidden(norm, activation, dtype):
    """It spoils its own group, forward and backward, and nothing else."""
    call = make_call(norm, activation, (2, 12, 5, 7), dtype)
    call.x[1, 4, 2, 3] = torch.nan
    group = 12 // call.groups
    spoilt = torch.zeros_like(call.x, dtype=torch.bool)
    spoilt[1, 4 // group * group : (4 // group + 1) * group] = True
    for context, one in on_all_implementations_and_layouts(call):
        got = one.run()
        for name in ("z", "x"):
            assert torch.equal(got[name].isnan(), spoilt), f"{context}: {name}"


@pytest.mark.parametrize("activation", ["relu", "tlu", "prelu", "affine_tlu"])
def test_act_does_not_hide_a_nan(activation):
    call = make_call("frn", activation, (2, 12, 5, 7))
    call.x[1, 4, 2, 3] = torch.nan
    for context, one in on_all_implementations_and_layouts(call):
        z = frn.act(one.x, one.tau, one.kappa, activation=activation)
        assert torch.equal(z.isnan(), one.x.isnan()), context


@pytest.mark.parametrize("norm, activation", LAYERS)
def test_a_nan_in_dz_is_not_hidden(norm, activation):
    call = make_call(norm, activation, (2, 12, 5, 7))
    call.bias = call.bias + 100  # all above their thresholds, so that every element passes its gradient on
    if call.kappa is not None:
        call.kappa = call.kappa * 0.5
    call.dz[1, 4, 2, 3] = torch.nan
    for context, one in on_all_implementations_and_layouts(call):
        got = one.run()
        assert got["bias"][4].isnan(), context
        assert got["x"][1, 4].isnan().all(), context
        assert not got["x"][0].isnan().any(), context


@pytest.mark.parametrize("dtype", [torch.float32, *SIXTEEN_BITS], ids=str)
@pytest.mark.parametrize("value", [torch.inf, -torch.inf])
@pytest.mark.parametrize("norm", PER_SAMPLE)
def test_an_infinity_gives_what_the_formula_gives(norm, value, dtype):
    """rstd becomes 0: the infinity itself turns to NaN, and without centering the rest of its group to the bias."""
    call = make_call(norm, "none", (2, 12, 5, 7), dtype)
    call.x[1, 4, 2, 3] = value
    wanted = composite(call.map(torch.Tensor.double)).to(dtype)
    tolerance = max(1e-5, torch.finfo(dtype).eps)
    for context, one in on_all_implementations_and_layouts(call):
        torch.testing.assert_close(one.forward(), wanted, equal_nan=True, rtol=tolerance, atol=tolerance, msg=context)


@pytest.mark.parametrize("norm", ["frn", "in"])
def test_a_map_of_zeros_gives_the_bias_and_finite_gradients(norm):
    call = make_call(norm, "tlu", (2, 12, 5, 7), eps=1e-6)
    call.x.zero_()
    wanted = expected(call)
    for context, one in on_all_implementations_and_layouts(call):
        got = one.run()
        assert_within(got, wanted, context)
        assert torch.equal(got["z"], torch.maximum(call.bias, call.tau).view(1, -1, 1, 1).expand_as(call.x)), context


def test_every_input_has_a_test_name():
    """The names that the comparisons above go by are the operator's own, in its order."""
    schema = torch.ops.frn.norm_act.default._schema
    assert [a.name for a in schema.arguments][: len(NAMES)] == list(NAMES)
