"""torch.onnx.export writes the layers as ONNX's own operators, which ONNX Runtime computes as PyTorch does."""

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torchvision
from onnx.reference import ReferenceEvaluator
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


def without_optimisation() -> onnxruntime.SessionOptions:
    """So that types are those of the file: ONNX Runtime puts float32 where it has no 16-bit kernel, and fuses that."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


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


HALF, BFLOAT, FLOAT, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64
# Type of x, type of the parameters: layers take parameters of float32 beside a narrower x.
TYPES = [(HALF, HALF), (HALF, FLOAT), (BFLOAT, FLOAT)]


def exported_of_any_type(model: nn.Module, inputs: tuple[Tensor, ...], path: str) -> None:
    torch.onnx.export(
        model, inputs, path, dynamo=True, opset_version=18, input_names=["x", "shortcut"][: len(inputs)],
        custom_translation_table=frn.onnx.translation_table(), external_data=False, verbose=False,
    )  # fmt: skip
    onnx.checker.check_model(onnx.load(path), full_check=True)


def as_array(x: Tensor) -> np.ndarray:
    return x.float().numpy().astype(ml_dtypes.bfloat16) if x.dtype == BFLOAT else x.numpy()


def assert_engines_agree(model: nn.Module, inputs: tuple[Tensor, ...], path: str, allowed: float) -> None:
    """ONNX's own evaluator, which keeps to the types of the file, and ONNX Runtime, which has few kernels for bfloat16."""
    with torch.no_grad():
        wanted = model(*inputs)
    given = {name: as_array(value) for name, value in zip(["x", "shortcut"], inputs)}
    found = [ReferenceEvaluator(path).run(None, given)[0]]
    if all(x.dtype != BFLOAT for x in inputs):
        session = onnxruntime.InferenceSession(path, without_optimisation(), providers=["CPUExecutionProvider"])
        found.append(session.run(None, given)[0])
    for result in found:
        assert str(result.dtype) == str(wanted.dtype).removeprefix("torch.")
        difference = np.abs(result.astype(np.float64) - wanted.double().numpy())
        assert difference.max() <= allowed * float(wanted.double().abs().max())


@pytest.mark.parametrize("spec", ["frn+tlu", "gn(groups=2)+affine_tlu", "ln+relu", "in(proxy=true)+prelu", "none+affine_tlu"])
@pytest.mark.parametrize("x_type, parameter_type", TYPES, ids=str)
def test_16_bit_layers_compute_in_float32_and_round_once(spec, x_type, parameter_type, tmp_path):
    layer, path = frn.NormAct(8, spec, dtype=parameter_type).eval(), str(tmp_path / "layer.onnx")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(0.2, 0.9)
    exported_of_any_type(layer, (torch.randn(2, 8, 5, 7).to(x_type),), path)
    for scale in (500.0, 1e-3):  # float16 does not hold the squares of either
        x = (torch.randn(2, 8, 5, 7) * scale).to(x_type)
        # Where the float32 result lies in the middle of two 16-bit numbers, sides may round to different ones.
        assert_engines_agree(layer, (x,), path, float(torch.finfo(x_type).eps))


def test_a_layer_in_float64_stays_in_it(tmp_path):
    layer, path = frn.NormAct(8, "gn(groups=2,proxy=true)+tlu").double().eval(), str(tmp_path / "layer.onnx")
    x = torch.randn(2, 8, 5, 7, dtype=DOUBLE)
    exported_of_any_type(layer, (x,), path)
    assert_engines_agree(layer, (x,), path, ALLOWED)  # proxy's constants are float32 in the file


@pytest.mark.parametrize("shortcut_type", [HALF, FLOAT, DOUBLE], ids=str)
@pytest.mark.parametrize("x_type", [HALF, FLOAT], ids=str)
def test_a_sum_of_two_types_has_the_wider(x_type, shortcut_type, tmp_path):
    layer, path = frn.NormAddAct(8, "frn+affine_tlu").eval(), str(tmp_path / "layer.onnx")
    x, shortcut = (torch.randn(2, 8, 5, 7) * 300).to(x_type), torch.randn(2, 8, 5, 7).to(shortcut_type)
    exported_of_any_type(layer, (x, shortcut), path)
    assert_engines_agree(layer, (x, shortcut), path, float(torch.finfo(HALF).eps))


@pytest.mark.parametrize("form", ["plain", "scaled", "gain"])
def test_standardised_weights_in_float16(form, tmp_path):
    conv, path = frn.WSConv2d(3, 8, 3, form=form).half().eval(), str(tmp_path / "conv.onnx")
    x = torch.randn(2, 3, 9, 9).half()
    exported_of_any_type(conv, (x,), path)
    assert_engines_agree(conv, (x,), path, 27 * float(torch.finfo(HALF).eps))  # sums of 27 products, rounded after each
