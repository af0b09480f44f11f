"""frn.convert on small networks: which norm and which activation become what, and what must not change."""

import copy

import pytest
import torch
import torch.nn.functional as F
from convert_cases import (
    Block,
    DropsInTraining,
    MakesList,
    Twice,
    conv_bn,
    function_block,
    images,
    same_function,
    shaken,
    specs,
)
from torch import nn

import frn
from frn.conversion import Change


def test_one_relu_module_at_two_places_becomes_two():
    converted, report = frn.convert(Block())
    assert specs(converted) == {"bn1": "frn+tlu", "bn2": "frn+none", "relu": "none+tlu"}
    assert report.converted == [
        Change("bn1", "BatchNorm2d + ReLU", "frn+tlu"),
        Change("bn2", "BatchNorm2d", "frn+none"),
        Change("relu", "ReLU after an addition", "none+tlu"),
    ]
    assert report.rewritten == {"": "Block"} and report.left == []
    same_function(Block(), images())


def test_the_converted_block_computes_what_its_parts_compute():
    converted, _ = frn.convert(Block())
    with torch.no_grad():
        for parameter in converted.parameters():
            parameter.normal_()
    x, parts = images(), dict(converted.named_children())
    y = parts["bn2"](parts["conv2"](parts["bn1"](parts["conv1"](x)))) + x
    assert torch.equal(converted(x), torch.maximum(y, parts["relu"].tau[:, None, None]))


@pytest.mark.parametrize(
    "relu",
    [F.relu, F.relu_, torch.relu, torch.relu_, lambda x: F.relu(x, inplace=True), lambda x: x.relu(), lambda x: x.relu_()],
    ids=["F.relu", "F.relu_", "torch.relu", "torch.relu_", "inplace", "x.relu", "x.relu_"],
)
def test_functions_become_layers(relu):
    converted, report = frn.convert(function_block(relu))
    assert specs(converted) == {"bn1": "frn+tlu", "bn2": "frn+none", "activation": "none+tlu"}
    assert report.counts == {"frn+tlu": 1, "frn+none": 1, "none+tlu": 1}
    same_function(function_block(relu), images())


def test_each_place_gets_its_own_threshold_and_a_relu_without_norm_stays():
    converted, report = same_function(Twice(), images())
    converted, report = frn.convert(Twice())
    assert specs(converted) == {"bn1": "frn+none", "bn2": "frn+none", "relu_2": "none+tlu", "relu_3": "none+tlu"}
    assert [(left.name, left.what, left.why) for left in report.left] == [("relu", "ReLU", "no norm before it")]
    assert type(converted.relu) is nn.ReLU


class OneReluForNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = conv_bn()
        self.conv2, self.bn2 = conv_bn()
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))


def test_a_forward_stays_where_norms_take_all_calls_over():
    converted, report = frn.convert(OneReluForNorms())
    assert specs(converted) == {"bn1": "frn+tlu", "bn2": "frn+tlu"} and report.rewritten == {}
    assert repr(converted.relu) == "Absorbed(ReLU, now in bn1, bn2)"
    same_function(OneReluForNorms(), images())


def test_one_relu_object_under_many_names_is_not_shared_afterwards():
    relu = nn.ReLU()
    model = nn.Sequential(*conv_bn(), relu, nn.Sequential(*conv_bn(), relu), *conv_bn(), relu)
    converted, report = frn.convert(model)
    assert report.counts == {"frn+tlu": 3} and report.rewritten == {}
    assert "Absorbed(ReLU, now in 3.1)" in repr(converted[3])
    same_function(model, images())


class CallsForward(nn.Module):
    """As timm's HRNet: calls a module's forward, past the module itself."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(*conv_bn(), nn.ReLU())
        self.rest = Block()

    def forward(self, x):
        return self.rest.forward(self.down.forward(x))


def test_a_module_whose_forward_is_called_directly():
    converted, report = frn.convert(CallsForward())
    assert specs(converted) == {
        "down.1": "frn+tlu", "rest.bn1": "frn+tlu", "rest.bn2": "frn+none", "rest.relu": "none+tlu",
    }  # fmt: skip
    assert report.rewritten == {"": "CallsForward"}
    same_function(CallsForward(), images())


class OneNormTwice(nn.Module):
    """As heads that share their layers over maps: one norm, called twice."""

    def __init__(self, relu_behind_both):
        super().__init__()
        self.conv, self.bn = conv_bn()
        self.relu, self.relu_behind_both = nn.ReLU(), relu_behind_both

    def forward(self, x):
        y = self.relu(self.bn(self.conv(x)))
        z = self.bn(self.conv(y))
        return self.relu(z) if self.relu_behind_both else z


def test_a_norm_with_two_calls_takes_an_activation_over_if_it_follows_both():
    assert specs(frn.convert(OneNormTwice(True))[0]) == {"bn": "frn+tlu"}
    assert specs(frn.convert(OneNormTwice(False))[0]) == {"bn": "frn+none", "relu": "none+tlu"}
    same_function(OneNormTwice(True), images())
    same_function(OneNormTwice(False), images())


class ChangesItsCaller(nn.Module):
    """The inner ReLU works in place on what the outer module uses again."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = conv_bn()
        self.inner = nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(8, 8, 1))

    def forward(self, x):
        y = self.bn(self.conv(x))
        return self.inner(y) + y


def test_a_relu_that_changes_its_callers_tensor_stays():
    _, report = frn.convert(ChangesItsCaller())
    assert [(left.name, left.why) for left in report.left] == [("inner.0", "changes a tensor of its caller in place")]
    same_function(ChangesItsCaller(), images())


def test_a_graph_module_gets_another_graph(tmp_path):
    traced = torch.fx.symbolic_trace(nn.Sequential(Block(), Block()))  # all calls in one graph
    converted, report = same_function(traced, images())
    assert report.counts == {"bn(eps=1e-05,momentum=0.1)+none": 2, "bn(eps=1e-05,momentum=0.1)+tlu": 2, "none+tlu": 2}
    torch.save(converted.eval(), tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    assert torch.equal(loaded(images()), converted(images()))
    back = frn.revert(frn.convert(traced)[0])
    assert torch.equal(back.eval()(images()), traced.eval()(images()))


class ReturnsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = conv_bn()

    def forward(self, x):
        return self.bn(self.conv(x))


class RectifiesAnother(nn.Module):
    """As torchvision's DenseNet: the ReLU of a norm that stands in another module."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(ReturnsNorm(), nn.Dropout(0.0))

    def forward(self, x):
        return F.relu(self.features(x))


def test_a_norm_and_its_relu_in_different_modules():
    converted, report = frn.convert(RectifiesAnother())
    assert specs(converted) == {"features.0.bn": "frn+none", "activation": "none+tlu"}
    same_function(RectifiesAnother(), images())
    fused, _ = frn.convert(nn.Sequential(*conv_bn(), nn.ReLU()))
    with torch.no_grad():
        for apart, together in ((converted.features[0].conv, fused[0]), (converted.features[0].bn, fused[1])):
            together.weight.copy_(apart.weight)
            together.bias.copy_(apart.bias.normal_())
        fused[1].tau.copy_(converted.activation.tau.normal_())
    assert torch.equal(converted(images()), fused(images()))


class Gated(nn.Module):
    """A norm's result that is used twice, a gate, and a concatenation."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = conv_bn()
        self.conv2, self.bn2 = conv_bn()

    def forward(self, x):
        y = self.bn1(self.conv1(x))
        gate = torch.sigmoid(y.mean((2, 3), keepdim=True))
        z = self.bn2(self.conv2(x))
        return torch.relu(torch.cat([y * gate, z], 1))


def test_a_concatenation_of_norms_gets_one_threshold_per_channel():
    converted, report = frn.convert(Gated())
    assert converted.activation.tau.shape == (16,)
    assert report.converted[-1] == Change("activation", "relu() after a concatenation", "none+tlu")
    same_function(Gated(), images())


class UsedTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = conv_bn()
        self.relu = nn.ReLU()

    def forward(self, x):
        y = self.bn(self.conv(x))
        return self.relu(y) - y


def test_a_norm_whose_result_has_another_use_keeps_it():
    converted, _ = frn.convert(UsedTwice())
    assert specs(converted) == {"bn": "frn+none", "relu": "none+tlu"}
    same_function(UsedTwice(), images())


class ChangesInPlace(UsedTwice):
    def forward(self, x):
        y = self.bn(self.conv(x))
        F.relu_(y)
        return y * 2


class ChangesSumInPlace(UsedTwice):
    def __init__(self):
        super().__init__()
        self.relu.inplace = True

    def forward(self, x):
        y = self.bn(self.conv(x)) + x
        self.relu(y)
        return y * 2


def test_a_result_that_is_rectified_in_place_is_rectified_afterwards():
    converted, _ = frn.convert(ChangesInPlace())
    assert specs(converted) == {"bn": "frn+tlu"}
    same_function(ChangesInPlace(), images())
    assert specs(frn.convert(ChangesSumInPlace())[0]) == {"bn": "frn+none", "relu": "none+tlu"}
    same_function(ChangesSumInPlace(), images())


def test_a_generated_forward_differs_between_training_and_eval_as_before():
    model = shaken(DropsInTraining())
    converted, report = frn.convert(model, "bn+tlu", init="from_bn")
    assert report.rewritten == {"": "DropsInTraining"}
    for mode in (True, False, True):
        torch.manual_seed(3)
        expected = model.train(mode)(images())
        torch.manual_seed(3)
        assert torch.equal(converted.train(mode)(images()), expected)


@pytest.mark.parametrize("make", [Block, DropsInTraining])
def test_a_rewritten_module_keeps_its_class_and_can_be_copied_and_saved(make, tmp_path):
    model = make()
    model.note = "an attribute"
    converted, _ = frn.convert(model)
    assert isinstance(converted, make) and type(converted).__name__ == make.__name__
    torch.save(converted.eval(), tmp_path / "model.pt")
    for other in (copy.deepcopy(converted), torch.load(tmp_path / "model.pt", weights_only=False)):
        assert isinstance(other, make) and other.note == "an attribute"
        assert torch.equal(other(images()), converted(images()))
    assert type(copy.deepcopy(converted)) is type(converted)  # one class for all with this forward


def test_the_state_dict_keeps_the_names_of_weights():
    model = Block()
    converted, _ = frn.convert(model)
    before = {name for name, _ in model.named_parameters()}
    assert set(converted.state_dict()) == before | {"bn1.tau", "relu.tau"}


def test_a_converted_model_compiles_into_one_graph():
    converted, _ = frn.convert(nn.Sequential(Block(), Block()))
    compiled = torch.compile(converted, fullgraph=True, backend="eager")
    assert torch.equal(compiled(images()), converted(images()))


@pytest.mark.parametrize("make", [nn.SiLU, nn.ReLU6, nn.GELU, nn.Hardswish, nn.LeakyReLU])
def test_other_activations_stay_behind_the_norm(make):
    model = nn.Sequential(*conv_bn(), make())
    converted, report = frn.convert(model)
    assert specs(converted) == {"1": "frn+none"} and type(converted[2]) is make
    assert [(left.name, left.what) for left in report.left] == [("2", make.__name__)]
    same_function(model, images())


class FromShape(Block):
    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        if y.mean() > 1e9:
            return y
        return self.relu(self.bn2(self.conv2(y)) + x)


def test_where_a_forward_cannot_be_followed_activations_stay_and_the_report_says_so():
    model = nn.Sequential(Block(), FromShape())
    converted, report = frn.convert(model)
    assert specs(converted) == {
        "0.bn1": "frn+tlu", "0.bn2": "frn+none", "0.relu": "none+tlu", "1.bn1": "frn+none", "1.bn2": "frn+none",
    }  # fmt: skip
    assert type(converted[1].relu) is nn.ReLU
    assert any(text.startswith("1.bn1, 1.bn2: 1 cannot be traced (TraceError") for text in report.warnings)
    same_function(model, images())


def test_lists_of_tensors_are_followed_with_an_example():
    converted, report = frn.convert(MakesList())
    assert report.counts == {"frn+none": 2}
    converted, report = frn.convert(MakesList(), example=images())
    assert specs(converted) == {
        "inner.a.1": "frn+none", "inner.b.1": "frn+none", "inner.act": "none+tlu", "inner.act_2": "none+tlu",
    }  # fmt: skip
    same_function(MakesList(), images(), example=images())
    with pytest.raises(ValueError, match=r"\[convert\] scale must be None in a converted forward but is 2; convert with an"):
        converted.inner([images(), images()], scale=2)


def test_the_given_model_is_not_changed():
    model = shaken(Block()).eval()
    before, text, expected = copy.deepcopy(model.state_dict()), repr(model), model(images())
    converted, _ = frn.convert(model, example=images(), init="from_bn")
    assert repr(model) == text and type(model) is Block and not converted.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with torch.no_grad():
        for parameter in converted.parameters():
            parameter.fill_(7)
    assert torch.equal(model(images()), expected)


def test_randomness_and_modes_of_the_caller_stay():
    model = nn.Sequential(*conv_bn(), nn.ReLU(), nn.Dropout())
    model[1].eval()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    converted, _ = frn.convert(model, example=images())
    assert torch.equal(torch.rand(3), expected)
    assert [module.training for module in converted] == [True, False, True, True]


def test_the_report_reads_well():
    _, report = frn.convert(nn.Sequential(Block(), Block(), nn.Conv2d(8, 8, 1), nn.ReLU()), example=images())
    assert str(report).splitlines() == [
        "Sequential to frn+tlu (init=fresh): 2 frn+tlu, 2 frn+none, 2 none+tlu",
        "converted:",
        "  *.bn1   2  BatchNorm2d + ReLU      -> frn+tlu",
        "  *.bn2   2  BatchNorm2d             -> frn+none",
        "  *.relu  2  ReLU after an addition  -> none+tlu",
        "left as it was:",
        "  3  1  ReLU  no norm before it",
        "forward generated in: 2 Block",
    ]
