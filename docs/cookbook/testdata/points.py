"""Trains the net of pytorch.md: which quadrant a point of the plane is in. Writes points.safetensors to the folder of this file."""
import collections
import pathlib

import torch
import torch.nn as nn
from safetensors.torch import save_file


def named(*modules):
    return nn.Sequential(collections.OrderedDict(modules))


torch.manual_seed(1)
x = 2 * torch.rand(2000, 2) - 1
y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
net = named(
    ("trunk", named(("hidden1", nn.Linear(2, 32)), ("tanh1", nn.Tanh()), ("hidden2", nn.Linear(32, 32)), ("tanh2", nn.Tanh()))),
    ("quadrant", nn.Linear(32, 4)))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(300):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
print("loss", loss.item(), "accuracy", (net(x).argmax(1) == y).float().mean().item())
save_file(net.state_dict(), pathlib.Path(__file__).with_name("points.safetensors"))
