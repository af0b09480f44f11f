"""frn.parameter_groups: what weight decay touches."""

import pytest
import torch
from convert_cases import Block
from torch import nn

import frn


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = frn.WSConv2d(3, 8, 3, form="gain")
        self.norm = frn.NormAct(8, "frn(eps=learned)+affine_tlu")
        self.group, self.layer, self.act = nn.GroupNorm(2, 8), nn.LayerNorm([8, 4, 4]), nn.PReLU()
        self.one = nn.Linear(8, 1)
        self.attention = nn.MultiheadAttention(8, 2)
        self.frozen = nn.Linear(2, 2).requires_grad_(False)
        self.tied = nn.Linear(8, 1, bias=False)
        self.tied.weight = self.one.weight


def test_parameter_groups_go_by_what_a_parameter_belongs_to():
    model = Everything()
    decayed, others = frn.parameter_groups(model, 0.1)
    assert decayed["weight_decay"] == 0.1 and others["weight_decay"] == 0.0
    names = {parameter: name for name, parameter in model.named_parameters()}
    assert {names[p] for p in decayed["params"]} == {
        "conv.weight", "one.weight", "attention.in_proj_weight", "attention.out_proj.weight",
    }  # fmt: skip
    assert len(decayed["params"]) + len(others["params"]) == sum(p.requires_grad for p in model.parameters())
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(frn.parameter_groups(model, 0.1), lr=1.0)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for parameter in decayed["params"]:
        torch.testing.assert_close(parameter.detach(), 0.9 * before[names[parameter]])
    for parameter in others["params"]:
        assert torch.equal(parameter, before[names[parameter]])


def test_parameter_groups_of_a_converted_model_hold_every_parameter_once():
    converted, _ = frn.convert(nn.Sequential(Block(), Block()))
    groups = frn.parameter_groups(converted, 1e-4)
    assert sorted(id(p) for group in groups for p in group["params"]) == sorted(map(id, converted.parameters()))
    assert all(p.dim() == 4 for p in groups[0]["params"]) and len(groups[0]["params"]) == 4
    with pytest.raises(ValueError, match="weight_decay must be at least 0 but is -1"):
        frn.parameter_groups(converted, -1)


def test_other_libraries_norms_are_not_decayed():
    layers = pytest.importorskip("timm.layers")
    model = nn.Sequential(nn.Conv2d(3, 8, 1, bias=False), layers.FilterResponseNormTlu2d(8))
    decayed, others = frn.parameter_groups(model, 0.1)
    assert decayed["params"] == [model[0].weight] and len(others["params"]) == 3
