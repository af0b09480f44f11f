"""torch.onnx.export writes the layers as ONNX's own operators, which ONNX Runtime computes as PyTorch does."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torchvision
from torch import Tensor, nn

import frn

# Both sides round in float32, 6e-8 of a value; at most 20 convolutions and norms, and norms of small maps enlarge it.
ALLOWED = 1e-5


def with_layers(spec: str) -> nn.Module:
    """torchvision's resnet18 with the batch norms and their ReLUs swapped for our layers, by hand."""
    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=5)
    alone = "none+" + spec.rsplit("+", 1)[1]
    model.bn1, model.relu = frn.NormAct(64, spec), nn.Identity()
    for stage in (model.layer1, model.layer2, model.layer3, model.layer4):
        for i, block in enumerate(stage):
            stage[i] = Block(block, spec, alone)
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, frn.NormAct):
                for name, parameter in layer.named_parameters():
                    if name != "eps":
                        parameter.uniform_(0.5, 1.5) if name == "weight" else parameter.normal_(0, 0.1)
    return model.eval()


class Block(nn.Module):
    def __init__(self, block: nn.Module, spec: str, alone: str) -> None:
        super().__init__()
        channels = block.conv1.out_channels
        without = spec.rsplit("+", 1)[0] + "+none"
        self.conv1, self.norm1 = block.conv1, frn.NormAct(channels, spec)
        self.conv2, self.norm2 = block.conv2, frn.NormAct(channels, without)
        self.act = frn.NormAct(channels, alone)
        self.shortcut = nn.Sequential(block.downsample[0], frn.NormAct(channels, without)) if block.downsample else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(self.norm1(self.conv1(x))))
        return self.act(y + self.shortcut(x))


def exported(model: nn.Module, x: Tensor, path: str) -> onnx.ModelProto:
    torch.onnx.export(
        model,
        (x,),
        path,
        dynamo=True,
        opset_version=18,
        input_names=["images"],
        output_names=["logits"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        custom_translation_table=frn.onnx.translation_table(),
        external_data=False,
        verbose=False,
    )
    model_file = onnx.load(path)
    onnx.checker.check_model(model_file, full_check=True)
    return model_file


def assert_the_same(model: nn.Module, path: str, shape: tuple[int, ...]) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for samples in (1, 2, 5):
        x = torch.randn(samples, *shape)
        with torch.no_grad():
            wanted = model(x).numpy()
        (found,) = session.run(None, {"images": x.numpy()})
        assert np.abs(found - wanted).max() <= ALLOWED * np.abs(wanted).max()


class ResidualBlock(nn.Module):
    def __init__(self, spec: str) -> None:
        super().__init__()
        self.conv, self.end = nn.Conv2d(4, 4, 3, padding=1), frn.NormAddAct(4, spec)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.conv(x), x)


@pytest.mark.parametrize("spec", ["frn+tlu", "gn(groups=2)+affine_tlu", "frn+relu"])
def test_the_end_of_a_residual_block(spec, tmp_path):
    torch.manual_seed(0)
    model, path = ResidualBlock(spec).eval(), str(tmp_path / "model.onnx")
    file = exported(model, torch.randn(2, 4, 6, 6), path)
    assert all(node.domain != "frn" and "norm_add_act" not in node.op_type for node in file.graph.node)
    assert_the_same(model, path, (4, 6, 6))


@pytest.mark.parametrize("spec", ["frn+tlu", "gn(group_size=16)+relu"])
def test_a_torchvision_network_with_our_layers(spec, tmp_path):
    model, path = with_layers(spec), str(tmp_path / "model.onnx")
    file = exported(model, torch.randn(2, 3, 64, 64), path)
    assert {entry.domain for entry in file.opset_import} <= {"", "pkg.onnxscript.torch_lib.common"}
    assert all(node.domain != "frn" and "norm_act" not in node.op_type for node in file.graph.node)
    assert_the_same(model, path, (3, 64, 64))


@pytest.mark.parametrize(
    "spec",
    [
        "frn(eps=learned,eps_shape=channel)+affine_tlu",
        "frn(eps=learned)+prelu",
        "gfrn(group_size=4)+tlu",
        "ln+tlu",
        "lfrn+relu",
        "in+none",
        "bn+tlu",
        "none+prelu",
        "gn(groups=2,proxy=true)+relu",
        "frn(eps=learned,proxy=true)+tlu",
        "in(proxy=true)+affine_tlu",
        "ln(proxy=true)+prelu",
    ],
)
def test_every_norm_and_activation(spec, tmp_path):
    layer, path = frn.NormAct(8, spec).eval(), str(tmp_path / "layer.onnx")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(0.2, 0.9)
    exported(layer, torch.randn(2, 8, 5, 7), path)
    assert_the_same(layer, path, (8, 5, 7))


def test_proxy_normalisation_of_parameters_at_the_edge(tmp_path):
    """No spread, on either side of the bend; an activation that does not bend; a bend far away."""
    layer, path = frn.NormAct(8, "in(proxy=true)+affine_tlu").eval(), str(tmp_path / "layer.onnx")
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([0.0, 0.0, 0.0, 1.0, -1.0, 1.0, 2.0, 0.01]))
        layer.bias.copy_(torch.tensor([0.5, -0.5, 0.0, 0.3, 0.3, 0.0, -1.0, 3.0]))
        layer.tau.copy_(torch.tensor([0.0, 0.0, 0.0, 0.2, -0.2, 0.1, 0.5, -2.0]))
        layer.kappa.copy_(torch.tensor([0.1, 0.1, 0.0, 1.0, 1.0, 1.5, 0.5, 0.3]))
    exported(layer, torch.randn(2, 8, 5, 7), path)
    assert_the_same(layer, path, (8, 5, 7))


def test_a_norm_with_its_convolution(tmp_path):
    layer, path = frn.NormActConv2d(8, 12, 3, "frn+tlu", padding=1, stride=2).eval(), str(tmp_path / "layer.onnx")
    exported(layer, torch.randn(2, 8, 5, 7), path)
    assert_the_same(layer, path, (8, 5, 7))


def test_standardised_weights(tmp_path):
    conv, path = frn.WSConv2d(3, 8, 3).eval(), str(tmp_path / "conv.onnx")
    exported(conv, torch.randn(2, 3, 9, 9), path)
    assert_the_same(conv, path, (3, 9, 9))
