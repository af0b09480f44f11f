"""Layers and functions under torch.fx: networks that hold them can be traced, cut and saved."""

import copy
import io

import pytest
import torch
from torch import fx, nn

import frn

SPECS = [
    "frn+tlu", "frn(eps=learned)+tlu", "frn(eps=learned_exp,eps_shape=channel)+prelu", "gn(groups=2)+relu", "ln+affine_tlu",
    "in+none", "gn(groups=2,proxy=true)+relu", "frn(proxy=true)+affine_tlu", "bn+tlu", "brn+relu", "none+tlu",
]  # fmt: skip


def shaken(layer):
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(0.2, 0.9)
    return layer


class Adds(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.conv, self.end = nn.Conv2d(8, 8, 1), frn.NormAddAct(8, spec)

    def forward(self, x):
        return self.end(self.conv(x), x)


LAYERS = {
    "NormAct": lambda spec: frn.NormAct(8, spec),
    "NormActConv2d": lambda spec: frn.NormActConv2d(8, 4, 3, spec, padding=1),
    "NormAddAct": Adds,
}


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_traced_layer_is_the_layer(layer, spec, training):
    """To the bit, in every type: results, gradients and running statistics."""
    for dtype in (torch.float32, torch.float64):
        made = shaken(LAYERS[layer](spec)).to(dtype).train(training)
        before = copy.deepcopy(made.state_dict())
        traced = fx.symbolic_trace(copy.deepcopy(made))
        assert all(torch.equal(value, before[name]) for name, value in traced.state_dict().items())
        results = []
        for model in (made, traced):
            x = torch.randn(3, 8, 5, 4, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()
            for _ in range(2):  # the second step starts from other running statistics
                z = model(x)
            z.square().sum().backward()
            gradients = {f"gradient of {name}": parameter.grad for name, parameter in model.named_parameters()}
            results.append({"z": z, "gradient of x": x.grad, **gradients, **model.state_dict()})
        expected, found = results
        assert set(expected) - set(found) <= {name for name in expected if name.endswith("num_batches_tracked")}  # not used
        assert all(torch.equal(value, expected[name]) for name, value in found.items() if value is not None)
        assert [name for name, value in found.items() if value is None] == [name for name in found if expected[name] is None]


def test_standardised_weights_are_traced():
    conv = frn.WSConv2d(8, 4, 3, form="gain")
    x = torch.randn(2, 8, 5, 5)
    assert torch.equal(fx.symbolic_trace(conv)(x), conv(x))


class Calls(nn.Module):
    """The functions without groups, which they then take from x."""

    def __init__(self):
        super().__init__()
        self.weight, self.tau = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8))
        self.filters = nn.Parameter(torch.rand(8, 8, 3, 3))

    def forward(self, x):
        y = frn.norm_act(x, self.weight, None, 0.01, self.tau, activation="tlu")
        y = frn.frn_tlu(y, self.weight, self.tau, self.tau)
        y = frn.norm_act_conv(y, self.filters, weight=self.weight, stride=1, padding=1)
        return frn.norm_add_act(y, x, self.weight, activation="relu")


def test_the_functions_are_traced():
    model, x = Calls(), torch.randn(2, 8, 5, 5)
    assert torch.equal(fx.symbolic_trace(model)(x), model(x))


def test_a_traced_network_takes_other_shapes_and_can_be_saved():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), frn.NormAct(8, "frn(eps=learned)+tlu"), frn.NormActConv2d(8, 4, 3))
    file = io.BytesIO()
    torch.save(fx.symbolic_trace(model), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for shape in [(2, 3, 9, 9), (1, 3, 12, 7)]:
        x = torch.randn(shape)
        assert torch.equal(loaded(x), model(x))


def test_torchvision_extracts_features_from_a_converted_network():
    torchvision = pytest.importorskip("torchvision")
    from torchvision.models.feature_extraction import create_feature_extractor

    model, _ = frn.convert(torchvision.models.resnet18(num_classes=5), "frn+tlu", example=torch.randn(1, 3, 64, 64))
    x = torch.randn(2, 3, 64, 64)
    found = create_feature_extractor(model.eval(), {"layer2": "middle", "fc": "end"})(x)
    assert found["middle"].shape == (2, 128, 8, 8) and torch.equal(found["end"], model(x))
