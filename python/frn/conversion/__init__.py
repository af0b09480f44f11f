"""Existing networks with another norm: batch norms and the activations behind them become layers of this package.

How, and why so. Three things must not be lost: the class and attributes of a model (trainers call its methods), what it
does differently in training and in eval mode (dropout, auxiliary heads), and the order of its forward pass (which ReLU
follows which norm is not in the list of modules: torchvision's blocks call one ReLU at several places, others call F.relu).

One torch.fx.GraphModule of the whole model would lose the first two, and many models cannot be traced as a whole.
Swapping modules by their names would lose the third. So here

- every module's own forward is traced by itself, on a copy, in both modes, with all that it calls as leaves (graphs.py).
  This is to learn only. Small forwards can nearly always be traced, and one that cannot hides nothing but itself;
- what a graph does not show keeps a forward from being generated: contexts, changed attributes (graphs.py). With an example
  each graph's result is compared with its forward's, which finds branches that only tensors take (compare.py);
- from these graphs it is decided what becomes of each norm and of each place that calls a ReLU (plan.py). A ReLU belongs
  to a norm if its input is the norm's result, or is made of it by additions, gates and so on, also in another module;
- modules are then replaced in place (layers.py). Only where a forward must call something else - a function, or one ReLU
  module called at many places - a module gets a forward that is generated from its graph (rewrite.py). It stays of its
  class, can be pickled and copied, and treats both modes as before. What was a Python value in its forward is a constant now.

A norm and its activation are one layer where the norm's result has no other use in the same forward. Elsewhere they are two
layers with the same parameters and the same result: max(y, tau) does not ask where y was computed.
"""

from frn.conversion.convert import convert, revert
from frn.conversion.report import Change, ConversionReport, Left

__all__ = ["Change", "ConversionReport", "Left", "convert", "revert"]
