"""frn.convert's layers: what they start from, which batch norms and which layers are known, maps of one value."""

import pytest
import torch
import torch.nn.functional as F
from convert_cases import Block, conv_bn, images, same_function, shaken, specs
from torch import nn

import frn


@pytest.mark.parametrize("spec", ["frn+tlu", "frn(eps=0.01)+tlu", "frn(eps=learned)+tlu", "in+relu"])
def test_from_bn_gives_what_batch_norm_gives_where_the_statistics_are_the_running_ones(spec):
    """Sample by sample: its mean square is var + mean^2 for any choice of mean (instance norm: its own mean)."""
    x = images(1, 8, 5).double() * 2 + 0.3
    model = shaken(nn.Sequential(nn.BatchNorm2d(8), nn.ReLU()).double()).eval()
    bn = model[0]
    if spec.startswith("in"):
        bn.running_mean.copy_(x.mean((0, 2, 3)))
    else:
        bn.running_mean.uniform_(-0.5, 0.5)
    bn.running_var.copy_(x.square().mean((0, 2, 3)) - bn.running_mean.square())
    converted, _ = frn.convert(model, spec, init="from_bn")
    # float64: 1 rounding in each of about ten operations on values of size 1 to 10
    torch.testing.assert_close(converted(x), model(x), rtol=1e-13, atol=1e-13)
    assert not torch.allclose(frn.convert(model, spec)[0](x), model(x), atol=0.1)


def test_from_bn_needs_a_norm_per_channel_and_statistics():
    with pytest.raises(ValueError, match=r"\[convert\] init='from_bn' must come with one of the norms frn, in, bn, brn but the spec is 'gn\+relu'"):
        frn.convert(Block(), "gn+relu", init="from_bn")
    model = nn.Sequential(nn.BatchNorm2d(8, track_running_stats=False))
    converted, report = frn.convert(model, init="from_bn")
    assert "0: has no running statistics, the new layer starts fresh" in report.warnings
    assert torch.equal(converted[0].weight, torch.ones(8))


class Net(nn.Module):
    """A norm deep inside."""

    def __init__(self, **norm):
        super().__init__()
        self.inside = nn.Sequential(nn.Conv2d(8, 8, 1), nn.Sequential(nn.BatchNorm2d(8, **norm), nn.ReLU()))

    def forward(self, x):
        return self.inside(x)


@pytest.mark.parametrize("spec", ["bn+tlu", "brn+relu", "bn(momentum=0.1)+none"])
def test_a_batch_method_refuses_a_norm_without_running_statistics(spec):
    with pytest.raises(ValueError, match=r"^\[convert\] expected batch norms with running statistics for '.*' but inside.1.0 has none .*; take a norm"):
        frn.convert(Net(track_running_stats=False), spec, example=images())
    assert frn.convert(Net(track_running_stats=False), "frn+tlu")[1].counts == {"frn+tlu": 1}


def test_a_batch_method_refuses_a_momentum_of_none_unless_it_is_told_one():
    model = Net(momentum=None)
    with pytest.raises(ValueError, match=r"with a momentum for 'bn\+tlu' but that of inside.1.0 is None .*; choose one, as in bn\(momentum=0.1\)\+tlu"):
        frn.convert(model, "bn+tlu")
    converted, _ = frn.convert(model, "bn(momentum=0.2)+tlu")
    assert specs(converted) == {"inside.1.0": "bn(eps=1e-05,momentum=0.2)+tlu"}
    assert specs(frn.convert(model, "frn+tlu")[0]) == {"inside.1.0": "frn+tlu"}


def test_a_norm_without_tensors_takes_device_and_type_of_what_is_around_it():
    bare = {"affine": False, "track_running_stats": False}
    on_meta, _ = frn.convert(Net(**bare).to("meta"))
    assert all(parameter.is_meta for parameter in on_meta.parameters())
    double, _ = frn.convert(Net(**bare).double())
    assert double.inside[1][0].weight.dtype == torch.float64 and double(images().double()).dtype == torch.float64
    alone, _ = frn.convert(nn.BatchNorm2d(8, **bare))
    assert alone.weight.device.type == "cpu"


def test_batch_norms_of_every_rank_type_and_device_convert():
    cases = [
        (nn.BatchNorm1d(8), (2, 8, 5)), (nn.BatchNorm2d(8), (2, 8, 5, 5)), (nn.BatchNorm3d(8), (2, 8, 3, 3, 3)),
        (nn.SyncBatchNorm(8), (2, 8, 5, 5)), (nn.BatchNorm2d(8, affine=False), (2, 8, 5, 5)),
    ]  # fmt: skip
    for norm, shape in cases:
        converted, report = frn.convert(nn.Sequential(norm, nn.ReLU()).double())
        z = converted(torch.randn(shape, dtype=torch.float64))
        assert z.dtype == torch.float64 and z.shape == shape and report.counts == {"frn+tlu": 1}
        assert report.converted[0].was == f"{type(norm).__name__} + ReLU"
    on_meta, _ = frn.convert(Block().to("meta"))
    assert all(parameter.is_meta for parameter in on_meta.parameters())
    alone, report = frn.convert(nn.BatchNorm2d(8))
    assert isinstance(alone, frn.NormAct) and report.counts == {"frn+none": 1}


def test_frozen_batch_norm_of_torchvision_converts_and_learns_again():
    misc = pytest.importorskip("torchvision.ops.misc")
    model = nn.Sequential(nn.Conv2d(8, 8, 1), misc.FrozenBatchNorm2d(8), nn.ReLU())
    converted, report = frn.convert(model)
    assert report.counts == {"frn+tlu": 1} and "1: was frozen, the new layer learns" in report.warnings
    assert converted[1].weight.requires_grad


class MyBatchNorm(nn.BatchNorm2d):
    pass


def test_unknown_batch_norms_are_refused_by_name():
    with pytest.raises(ValueError, match=r"\[convert\] expected batch norms that are known but 0.1 is a MyBatchNorm, a subclass of BatchNorm2d that does"):
        frn.convert(nn.Sequential(nn.Sequential(nn.Conv2d(3, 8, 1), MyBatchNorm(8))))
    with pytest.raises(ValueError, match="0 is a LazyBatchNorm2d, which has not seen its channels yet; run the model once"):
        frn.convert(nn.Sequential(nn.LazyBatchNorm2d()))


def test_maps_of_one_value_learn_their_eps():
    model = nn.Sequential(*conv_bn(), nn.ReLU(), nn.AdaptiveAvgPool2d(1), *conv_bn(), nn.ReLU())
    converted, report = frn.convert(model, example=images())
    assert specs(converted) == {"1": "frn+tlu", "5": "frn(eps=learned)+tlu"}
    assert report.single_values == ["5"]
    assert any(text.startswith("5: the norm sees one value per channel") for text in report.warnings)
    without, report = frn.convert(model)
    assert specs(without)["5"] == "frn+tlu" and "without an example, maps of one value are not looked for" in report.warnings
    chosen, _ = frn.convert(model, "frn(eps=0.1)+tlu", example=images())
    assert specs(chosen)["5"] == "frn(eps=0.1)+tlu"


def test_norms_of_fully_connected_layers_learn_their_eps_without_an_example():
    converted, report = frn.convert(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()))
    assert specs(converted) == {"1": "frn(eps=learned)+tlu"} and report.single_values == ["1"]


class OnlyInTraining(nn.Module):
    """As Inception's auxiliary head: a norm of 1x1 maps that runs in training alone."""

    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(*conv_bn(), nn.ReLU())
        self.aux = nn.Sequential(nn.AdaptiveAvgPool2d(1), *conv_bn(), nn.ReLU())

    def forward(self, x):
        y = self.main(x)
        return y + self.aux(y) if self.training else y


def test_maps_of_one_value_are_found_in_training_with_one_sample():
    _, report = frn.convert(OnlyInTraining().eval(), example=images(1))
    assert report.single_values == ["aux.2"]


class FunctionalNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = conv_bn()

    def forward(self, x):
        return F.batch_norm(self.bn(self.conv(x)), None, None, training=True)


def test_a_batch_norm_that_is_no_module_is_named():
    _, report = frn.convert(FunctionalNorm(), example=images())
    assert any("a batch norm still runs" in text for text in report.warnings)
    _, report = frn.convert(Block(), example=images())
    assert report.warnings == []


def test_other_layers_can_be_asked_for():
    converted, _ = frn.convert(Block(), "gn(groups=2)+relu")
    assert specs(converted) == {"bn1": "gn(groups=2)+relu", "bn2": "gn(groups=2)+none"} and type(converted.relu) is nn.ReLU
    converted, _ = frn.convert(Block(), "frn+none")
    assert specs(converted) == {"bn1": "frn+none", "bn2": "frn+none"}
    converted, _ = frn.convert(Block(), "frn+affine_tlu")
    assert converted.relu.kappa is not None
    with pytest.raises(ValueError, match=r"\[convert\] bn1: .*gn\(group_size"):
        frn.convert(Block(), "gn+relu")
    with pytest.raises(ValueError, match=r"\[convert\] expected a norm to put in place of batch norm but got 'none\+tlu'; write frn\+tlu"):
        frn.convert(Block(), "none+tlu")
    with pytest.raises(ValueError, match="init must be fresh or from_bn but is 'bn'"):
        frn.convert(Block(), init="bn")
    with pytest.raises(ValueError, match=r"\[convert\] expected an example that the model runs on in eval mode but it raised"):
        frn.convert(Block(), example=torch.randn(1, 3, 4, 4))


def test_a_model_without_batch_norm_says_so():
    converted, report = frn.convert(nn.Sequential(nn.Conv2d(3, 8, 1), nn.GroupNorm(2, 8), nn.ReLU()))
    assert str(report) == "Sequential to frn+tlu (init=fresh): nothing to convert, there is no batch norm in it"
    assert specs(converted) == {}


def test_timm_norms_with_activations():
    layers = pytest.importorskip("timm.layers")

    def network(**options):
        return nn.Sequential(nn.Conv2d(8, 8, 1), layers.BatchNormAct2d(8, **options))

    converted, report = frn.convert(network())
    assert specs(converted) == {"1": "frn+tlu"} and report.converted[0].was == "BatchNormAct2d with ReLU"
    converted, report = frn.convert(network(act_layer=nn.SiLU))
    assert specs(converted) == {"1": "frn+none"} and type(converted[1].act) is nn.SiLU
    assert set(converted.state_dict()) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert [(left.name, left.what) for left in report.left] == [("1.act", "SiLU")]
    converted, _ = frn.convert(nn.Sequential(network(apply_act=False), nn.ReLU()))
    assert specs(converted) == {"0.1": "frn+none", "1": "none+tlu"}
    for options in ({}, {"act_layer": nn.SiLU}, {"apply_act": False}, {"drop_layer": nn.Dropout2d}):
        model = network(**options)
        for module in model.modules():
            if isinstance(module, nn.Dropout2d):
                module.p = 0.0
        same_function(model, images())
    kept, _ = frn.convert(network(), "frn+none")
    assert type(kept[1].act) is nn.ReLU
