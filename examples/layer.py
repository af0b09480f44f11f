"""The layer in a network of one's own: FRN and TLU instead of batch norm and ReLU, two images per batch.

Run with PYTHONPATH=python after `make build`.
"""

import torch
from torch import nn

import frn

torch.manual_seed(1)
network = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1, bias=False),
    frn.FRN(16),
    nn.Conv2d(16, 32, 3, padding=1, stride=2, bias=False),
    frn.NormAct(32, "frn(eps=learned)+tlu"),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(32, 3),
)
sgd = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)

# Class k is brighter in colour k.
labels = torch.arange(12) % 3
images = torch.randn(12, 3, 16, 16)
for image, label in zip(images, labels):
    image[label] += 1

for step in range(1, 101):
    batch = torch.randperm(12)[:2]
    loss = nn.functional.cross_entropy(network(images[batch]), labels[batch])
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    if step % 20 == 0:
        print(f"step {step}  loss {loss.item():.4f}")
