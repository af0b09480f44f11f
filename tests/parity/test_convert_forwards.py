"""What a forward does that torch.fx does not see: frn.convert must not lose it, and says where it leaves a forward alone."""

from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
from convert_cases import Block, conv_bn, function_block, images, same_function, shaken, specs
from torch import nn
from torch.utils.checkpoint import checkpoint

import frn


class OneNorm(nn.Module):
    """A convolution, a norm and F.relu: a conversion to tlu needs another forward."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = conv_bn()

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class WithoutGradients(OneNorm):
    def forward(self, x):
        with torch.no_grad():
            x = self.conv(x)
        return F.relu(self.bn(x))


class AllWithoutGradients(OneNorm):
    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)


class WithGradients(OneNorm):
    def forward(self, x):
        with torch.enable_grad():
            return F.relu(self.bn(self.conv(x)))


class WithoutAutocast(OneNorm):
    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return F.relu(self.bn(self.conv(x.float())))


class Checkpointed(OneNorm):
    reentrant = False

    def forward(self, x):
        return F.relu(self.bn(checkpoint(self.conv, x, use_reentrant=self.reentrant)))


class CheckpointedReentrant(Checkpointed):
    reentrant = True


class KeptElsewhere(OneNorm):
    def forward(self, x):
        with torch.autograd.graph.save_on_cpu():
            return F.relu(self.bn(self.conv(x)))


CONTEXTS = [
    WithoutGradients, AllWithoutGradients, WithGradients, WithoutAutocast, Checkpointed, CheckpointedReentrant, KeptElsewhere,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # of checkpoint
@pytest.mark.parametrize("with_example", [False, True])
@pytest.mark.parametrize("make", CONTEXTS)
def test_a_forward_with_a_context_is_not_generated_anew(make, with_example):
    converted, report = frn.convert(make(), example=images() if with_example else None)
    assert type(converted) is make and report.rewritten == {}
    assert specs(converted) == {"bn": "frn+none"}
    assert [(left.what, left.why) for left in report.left] == [
        ("relu()", "the model has calls in a context such as torch.no_grad(), torch.autocast or checkpoint")
    ]
    same_function(make(), images(), example=images() if with_example else None)


def test_contexts_do_after_a_conversion_what_they_did_before():
    x = images().requires_grad_()
    frozen, _ = frn.convert(WithoutGradients(), example=images())
    frozen(x).sum().backward()
    assert frozen.conv.weight.grad is None and frozen.bn.weight.grad is not None
    wide, _ = frn.convert(WithoutAutocast().eval(), example=images())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert wide(x).dtype == torch.float32
    calls = []
    twice, _ = frn.convert(Checkpointed(), example=images())
    twice.conv.register_forward_pre_hook(lambda *_: calls.append(1))
    twice(x).sum().backward()
    assert len(calls) == 2  # computed again for the gradients


class AsksForGradients(OneNorm):
    def forward(self, x):
        y = F.relu(self.bn(self.conv(x)))
        return y if torch.is_grad_enabled() else y.detach()


class Counts(OneNorm):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class CountsInABuffer(OneNorm):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class KeepsMaps(OneNorm):
    def __init__(self):
        super().__init__()
        self.maps = []

    def forward(self, x):
        y = self.bn(self.conv(x))
        self.maps.append(y)
        return F.relu(y)


class DrawsNumbers(OneNorm):
    def forward(self, x):
        return x if torch.rand(()) < 0.5 else super().forward(x)


SIDE_EFFECTS = [
    (AsksForGradients, "asks whether gradients are on"), (Counts, "changes its attributes in forward"),
    (CountsInABuffer, "changes its attributes in forward"), (KeepsMaps, "changes its attributes in forward"),
]  # fmt: skip


@pytest.mark.parametrize("make, why", SIDE_EFFECTS)
def test_a_forward_that_does_more_than_its_graph_is_not_generated_anew(make, why):
    converted, report = frn.convert(make())
    assert report.rewritten == {} and [left.why for left in report.left] == [f"the model {why}"]
    assert type(converted) is make


def test_side_effects_stay():
    counted, _ = frn.convert(Counts(), example=images())
    counted(images())
    assert counted.calls == 1
    asking, _ = frn.convert(AsksForGradients(), example=images())
    assert asking(images()).requires_grad
    with torch.no_grad():
        assert not asking(images()).requires_grad


@pytest.mark.parametrize("seed", range(4))
def test_a_forward_that_draws_numbers_is_not_generated_anew(seed):
    torch.manual_seed(seed)  # whichever branch is traced
    _, report = frn.convert(DrawsNumbers())
    assert report.rewritten == {}


class TakesTensorsOrPairs(OneNorm):
    def forward(self, x):
        if not isinstance(x, torch.Tensor):
            x = x[0]
        return super().forward(x)


class ScalesTensors(OneNorm):
    def forward(self, x):
        if torch.is_tensor(x):
            x = x - 0.5
        return super().forward(x)


class AddsToTensors(OneNorm):
    """Modules alone, so that no forward need be generated; but which ReLU belongs to which norm is read wrongly."""

    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, x):
        y = self.bn(self.conv(x))
        if isinstance(x, torch.Tensor):
            y = y + x
        return self.relu(y)


class PutsIntoAList(OneNorm):
    def forward(self, x):
        if isinstance(x, torch.Tensor):
            x = [x]
        return super().forward(torch.cat(x, 1))


BRANCHES = {
    TakesTensorsOrPairs: "does not run on the example", ScalesTensors: "gives another result for the example",
    AddsToTensors: "gives another result for the example", PutsIntoAList: "does not run on the example",
}  # fmt: skip


@pytest.mark.parametrize("make", BRANCHES)
def test_a_forward_that_asks_for_types_is_found_with_an_example_and_stays(make):
    converted, report = same_function(make(), images(), example=images())
    assert report.rewritten == {} and type(converted) is make
    (warning,) = report.warnings
    assert warning.startswith(f"bn: the model cannot be followed: its forward as torch.fx sees it {BRANCHES[make]}")


class OnlyRelus(nn.Module):
    def forward(self, x):
        return F.relu(x - 1) if isinstance(x, torch.Tensor) else F.relu(x)


def test_a_forward_without_norms_that_cannot_be_followed_is_named_too():
    model = nn.Sequential(*conv_bn(), OnlyRelus())
    _, report = same_function(model, images(), example=images())
    assert report.warnings == [
        "2 cannot be followed: its forward as torch.fx sees it gives another result for the example; it stays as it was"
    ]


class Named(dict):
    """As transformers' outputs: a dict with more to it."""

    @property
    def first(self):
        return next(iter(self.values()))


class ReturnsDict(nn.Module):
    def __init__(self, kind, function):
        super().__init__()
        self.conv, self.bn = conv_bn()
        self.relu, self.kind, self.function = nn.ReLU(), kind, function

    def forward(self, x):
        y = self.bn(self.conv(x))
        return self.kind([("out", F.relu(y) if self.function else self.relu(y))])


@pytest.mark.parametrize("function", [False, True], ids=["module", "function"])
@pytest.mark.parametrize("kind", [dict, OrderedDict, Named])
def test_results_in_dicts_are_followed_and_keep_their_class(kind, function):
    """torch.fx makes a plain dict of each: which is as good as an OrderedDict."""
    model = shaken(ReturnsDict(kind, function).eval())
    converted, report = frn.convert(model, "bn+tlu", example=images(), init="from_bn")
    result = converted(images())
    assert report.warnings == [] and torch.equal(result["out"], model(images())["out"])
    if kind is Named:
        assert type(result) is Named
        assert [left.why for left in report.left] == ["the model returns a container of a class of its own"] * function
    else:
        assert list(report.counts) == ["bn(eps=1e-05,momentum=0.1)+tlu"]


class ChangesItsInput(OneNorm):
    def forward(self, x):
        y = F.relu(self.bn(self.conv(x)))
        if isinstance(x, torch.Tensor):
            x.zero_()
        return y


def test_a_lost_change_of_an_argument_counts_as_a_difference():
    _, report = frn.convert(nn.Sequential(nn.Conv2d(8, 8, 1), ChangesItsInput()), example=images())
    assert "1 cannot be followed" in report.warnings[0]


def test_a_comparison_leaves_statistics_randomness_and_modes_alone():
    model = shaken(function_block(F.relu))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    converted, report = frn.convert(model, "bn+tlu", example=images(), init="from_bn")
    assert torch.equal(torch.rand(3), expected) and report.warnings == []
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(converted.state_dict()[name], value) for name, value in before.items())
    assert converted.training and not converted._forward_hooks and not converted._forward_pre_hooks


class DropsOut(OneNorm):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5)  # always, also in eval mode


def test_a_forward_with_random_calls_is_compared_in_the_same_random_state():
    _, report = frn.convert(DropsOut(), example=images())
    assert report.rewritten == {"": "DropsOut"} and report.warnings == []


def test_hooks_of_a_module_are_no_difference():
    model = nn.Sequential(Block(), nn.Conv2d(8, 8, 1))
    model[0].register_forward_hook(lambda module, args, result: result * 2)
    _, report = frn.convert(model, example=images())
    assert report.rewritten == {"0": "Block"} and report.warnings == []


def test_what_was_not_compared_is_said():
    _, report = frn.convert(Block())
    assert (
        "the model: the generated forward was not compared with the one before, since no example runs it in eval mode"
        in report.warnings
    )
    _, report = frn.convert(nn.Sequential(*conv_bn(), nn.ReLU()))
    assert not any("not compared" in warning for warning in report.warnings)
