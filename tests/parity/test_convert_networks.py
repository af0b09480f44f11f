"""frn.convert on networks of torchvision, timm and segmentation_models_pytorch, with random weights and small images.

What holds for each: conversion to batch norm and TLU (tau = 0) changes no bit of the network, so the structure was read
rightly; conversion to FRN leaves no batch norm, trains every parameter, and makes a sample's result independent of the
rest of its batch. Large networks run with FRN_ALL_CASES alone (make check-all).
"""

import os
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

import frn

torchvision = pytest.importorskip("torchvision")
timm = pytest.importorskip("timm")

SLOW = pytest.mark.skipif(not os.environ.get("FRN_ALL_CASES"), reason="large; set FRN_ALL_CASES, as make check-all does")


def vision(name, **options):
    return lambda: torchvision.models.get_model(name, weights=None, **{"num_classes": 10, **options})


def timm_model(name):
    return lambda: timm.create_model(name, num_classes=10)


def unet():
    smp = pytest.importorskip("segmentation_models_pytorch")
    return smp.Unet("resnet18", encoder_weights=None, classes=3)


class Backbone(nn.Module):
    """A detector's network without its boxes, which are a list whose length depends on the weights."""

    def __init__(self):
        super().__init__()
        self.detector = vision("retinanet_resnet50_fpn", weights_backbone=None)()

    def forward(self, x):
        outputs = self.detector.head(list(self.detector.backbone(x).values()))
        return outputs["cls_logits"], outputs["bbox_regression"]


AUX = {"aux_logits": True, "init_weights": False}
# Network, image size, and what its norms and activations become. The counts are the architectures': for a ResNet one
# FRN+TLU at the start and one (two in bottlenecks) per block, FRN alone before each addition, and a threshold behind it.
CASES = {
    "resnet18": (vision("resnet18"), 64, {"frn+tlu": 9, "frn+none": 11, "none+tlu": 8}),
    "resnet50": (vision("resnet50"), 64, {"frn+tlu": 33, "frn+none": 20, "none+tlu": 16}),
    # 34 norms: 2 around the blocks, 2 in the first block and 3 in the ten others; blocks 1 to 3 have ReLU, the first 1, the others 2
    "mobilenet_v3_small": (vision("mobilenet_v3_small"), 64, {"frn+none": 29, "frn+tlu": 5}),
    "densenet121": (vision("densenet121"), 64, {"frn+tlu": 120, "frn+none": 1, "none+tlu": 1}),
    "googlenet": (vision("googlenet", **AUX), 64, {"frn+tlu": 59}),
    "inception_v3": (vision("inception_v3", **AUX), 299, {"frn+tlu": 96}),
    "vgg11_bn": (vision("vgg11_bn"), 32, {"frn+tlu": 8}),
    "retinanet_resnet50_fpn": (Backbone, 64, {"frn+tlu": 33, "frn+none": 20, "none+tlu": 16}),
    # ResNet-50, five branches, their projection and one more
    "deeplabv3_resnet50": (vision("deeplabv3_resnet50", weights_backbone=None), 64, {"frn+tlu": 40, "frn+none": 20, "none+tlu": 16}),
    "timm resnet50": (timm_model("resnet50"), 64, {"frn+tlu": 33, "frn+none": 20, "none+tlu": 16}),
    "timm resnetv2_50": (timm_model("resnetv2_50"), 64, {"frn+tlu": 49}),
    "timm efficientnet_b0": (timm_model("efficientnet_b0"), 64, {"frn+none": 49}),
    # 13 blocks of three convolutions, 4 of them with a projection
    "timm regnety_002": (timm_model("regnety_002"), 64, {"frn+tlu": 27, "frn+none": 17, "none+tlu": 13}),
    "timm convnext_tiny": (timm_model("convnext_tiny"), 64, {}),
    # 23 blocks and a threshold for each of the 2 + 3 + 4 maps that are sums
    "timm hrnet_w18_small": (timm_model("hrnet_w18_small"), 64, {"frn+none": 48, "frn+tlu": 43, "none+tlu": 32}),
    # ResNet-18 and two convolutions in each of five decoder blocks
    "smp Unet": (unet, 64, {"frn+tlu": 19, "frn+none": 11, "none+tlu": 8}),
}
LARGE = {"vgg11_bn", "inception_v3", "retinanet_resnet50_fpn", "deeplabv3_resnet50"}
NAMES = [pytest.param(name, marks=SLOW if name in LARGE else (), id=name.replace(" ", "_")) for name in CASES]


def make(name):
    build, size, counts = CASES[name]
    torch.manual_seed(0)
    model = build()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.Dropout, nn.Dropout2d)):
                module.p = 0.0
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.8, 1.25)
                module.weight.uniform_(0.8, 1.25)
                module.bias.normal_(0, 0.1)
    return model, torch.randn(2 if size > 100 else 3, 3, size, size), counts


def tensors(output):
    """All tensors of a result, in order."""
    if isinstance(output, torch.Tensor):
        return [output]
    parts = output.values() if isinstance(output, dict) else output if isinstance(output, (list, tuple)) else []
    return [tensor for part in parts for tensor in tensors(part)]


class SampleBySample(TorchFunctionMode):
    """PyTorch's own products, means and sigmoids (of squeeze-and-excitation) round differently in batches of another size:
    here they see one sample at a time, so that what is left to depend on the batch are the layers in question."""

    ROUNDING = (torch.conv2d, F.linear, F.silu, torch.Tensor.mean, torch.Tensor.sigmoid, torch.Tensor.sigmoid_, torch.sigmoid)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in self.ROUNDING:
            return torch.cat([func(sample, *args[1:], **(kwargs or {})) for sample in args[0].split(1)])
        return func(*args, **(kwargs or {}))


def simple(counts):
    """Without what depends on the image's size."""
    total = Counter()
    for spec, count in counts.items():
        total[spec.replace("(eps=learned)", "")] += count
    return dict(total)


@pytest.mark.parametrize("name", NAMES)
def test_conversion_keeps_the_network(name):
    model, x, _ = make(name)
    converted, _ = frn.convert(model, "bn+tlu", example=x, init="from_bn")
    assert type(converted).__name__ == type(model).__name__ and isinstance(converted, type(model))
    with torch.no_grad():
        for mode in (False, True):
            expected, found = tensors(model.train(mode)(x)), tensors(converted.train(mode)(x))
            assert len(expected) == len(found) > 0
            assert all(map(torch.equal, expected, found)), mode


@pytest.mark.parametrize("name", NAMES)
def test_a_converted_network_trains_and_sees_each_sample_alone(name):
    model, x, counts = make(name)
    norms = sum(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())
    converted, report = frn.convert(model, "frn+tlu", example=x)
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in converted.modules())
    found = simple(report.counts)
    assert sum(count for spec, count in found.items() if spec.startswith("frn")) == norms
    assert counts is None or found == counts
    if norms == 0:
        assert "nothing to convert" in str(report)
    converted.train()
    loss = sum(tensor.square().mean() for tensor in tensors(converted(x)))
    loss.backward()
    idle = [n for n, p in converted.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert idle == []
    other = torch.cat([x[:1], torch.randn_like(x[1:])])
    for mode in (False, True):
        converted.train(mode)
        with torch.no_grad():
            for one, two in zip(tensors(converted(x)), tensors(converted(other)), strict=True):
                assert torch.equal(one[0], two[0]), mode
            with SampleBySample():
                for one, two in zip(tensors(converted(x)), tensors(converted(x[:1])), strict=True):
                    assert torch.equal(one[0], two[0]), mode


@SLOW
@pytest.mark.parametrize("name", ["retinanet_resnet50_fpn", "retinanet_resnet50_fpn_v2"])
def test_a_converted_detector_trains_from_boxes(name):
    """The whole detector, whose own forward cannot be traced; version 2 has group norms in its heads, which stay."""
    detector = vision(name, weights_backbone=None, min_size=64, max_size=96)()
    photos = [torch.rand(3, 64, 64), torch.rand(3, 48, 64)]
    boxes = [{"boxes": torch.tensor([[4.0, 4.0, 40.0, 40.0]]), "labels": torch.tensor([1])} for _ in photos]
    converted, report = frn.convert(detector, "frn+tlu", example=(photos, boxes))
    assert report.counts == {"frn+tlu": 33, "frn+none": 20, "none+tlu": 16} and report.warnings == []
    groups = [sum(isinstance(m, nn.GroupNorm) for m in model.modules()) for model in (detector, converted)]
    assert groups[0] == groups[1] == (8 if name.endswith("v2") else 0)
    sum(converted.train()(photos, boxes).values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in converted.parameters())
    assert len(converted.eval()(photos)) == 2
