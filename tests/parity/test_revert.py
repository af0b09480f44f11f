"""frn.revert gives a converted model back as it was, or says why it cannot."""

import io

import pytest
import torch
import torch.nn.functional as F
from convert_cases import Block, DropsInTraining, MakesList, Twice, function_block, images, shaken

import frn


@pytest.mark.parametrize("init", ["fresh", "from_bn"])
@pytest.mark.parametrize("make", [Block, Twice, DropsInTraining, MakesList, lambda: function_block(F.relu)])
def test_revert_gives_the_model_back(make, init):
    model = shaken(make())
    converted, _ = frn.convert(model, example=images(), init=init)
    back = frn.revert(converted)
    assert type(back) is type(model) and repr(back) == repr(model)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in back.state_dict().items())
    assert list(back.state_dict()) == list(model.state_dict())
    assert torch.equal(back.eval()(images()), model.eval()(images()))
    assert not any(isinstance(module, frn.NormAct) for module in back.modules())


def test_revert_of_a_saved_model_and_of_one_in_another_type():
    model = shaken(Block())
    file = io.BytesIO()
    torch.save(frn.convert(model)[0].bfloat16(), file)
    file.seek(0)
    back = frn.revert(torch.load(file, weights_only=False))
    assert back.bn1.weight.dtype == torch.bfloat16 and type(back) is Block


def test_revert_refuses_what_was_trained_and_what_was_not_converted():
    converted, _ = frn.convert(Block())
    optimizer = torch.optim.SGD(converted.parameters(), 0.1)
    converted(images()).square().sum().backward()
    optimizer.step()
    with pytest.raises(ValueError, match=r"\[revert\] expected layers as frn.convert made them but bn1 was trained since; .*from before the conversion"):
        frn.revert(converted)
    counted, _ = frn.convert(Block(), "bn+relu")
    counted(images())  # moves running statistics
    with pytest.raises(ValueError, match="bn1 was trained since"):
        frn.revert(counted)
    with pytest.raises(ValueError, match="expected a model that frn.convert returned but found no converted layer"):
        frn.revert(Block())
