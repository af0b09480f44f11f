"""Small networks to convert, and what must hold for each."""

import torch
import torch.nn.functional as F
from torch import nn

import frn


def conv_bn(inside=8, outside=8):
    return nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside)


class Block(nn.Module):
    """As torchvision's: one ReLU module, called after a norm and after an addition."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = conv_bn()
        self.conv2, self.bn2 = conv_bn()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x
        return self.relu(y)


def function_block(relu):
    class FunctionBlock(Block):
        def forward(self, x):
            y = relu(self.bn1(self.conv1(x)))
            return relu(self.bn2(self.conv2(y)) + x)

    return FunctionBlock()


def shaken(model):
    """With weights and statistics that differ from the start, so that a lost one would show."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_(0, 0.5)
                module.running_var.uniform_(0.5, 2)
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.3)
    return model


def images(count=2, channels=8, size=6):
    return torch.randn(count, channels, size, size, generator=torch.Generator().manual_seed(1))


def same_function(model, x, example=None):
    """bn+tlu with tau = 0 is batch norm and ReLU: a conversion to it must not change a bit, in either mode."""
    model = shaken(model)
    converted, report = frn.convert(model, "bn+tlu", example=example, init="from_bn")
    for mode in (False, True):
        assert torch.equal(converted.train(mode)(x), model.train(mode)(x)), mode
    return converted, report


def specs(model):
    return {name: str(m.spec) for name, m in model.named_modules() if isinstance(m, frn.NormAct)}


class Twice(nn.Module):
    """Additions twice: two places that need a tau of their own, beside one that has no norm before it."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = conv_bn()
        self.conv2, self.bn2 = conv_bn()
        self.last = nn.Conv2d(8, 8, 1)
        self.relu = nn.ReLU()

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)) + x)
        x = self.relu(self.bn2(self.conv2(x)) + x)
        return self.relu(self.last(x))


class DropsInTraining(Block):
    def __init__(self):
        super().__init__()
        self.aux = nn.Sequential(*conv_bn(), nn.ReLU())

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(F.dropout(self.bn2(self.conv2(y)), 0.5, self.training) + x)
        return y + self.aux(y) if self.training else y


class TakesList(nn.Module):
    """As timm's HRNet: a list of maps, and one ReLU for all of them."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Sequential(*conv_bn()), nn.Sequential(*conv_bn(8, 4))
        self.act = nn.ReLU()

    def forward(self, maps, scale=None):
        maps[0] = self.a(maps[0])
        maps[1] = self.b(maps[1]) if scale is None else scale * self.b(maps[1])
        return [self.act(m) for m in maps]


class MakesList(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = TakesList()

    def forward(self, x):
        return torch.cat(self.inner([x, x]), 1)
