"""Trains a workload of internal/peer as one rank of DistributedDataParallel on gloo. Rank 0 prints the speed of all ranks as JSON."""

import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

CLASSES = 10
SAMPLE = {"w1": (784,), "w3": (1, 28, 28), "w4": (3, 32, 32)}


def network(workload, shrink):
    width = lambda n: max(1, n // shrink)
    if workload == "w1":
        return nn.Sequential(nn.Linear(784, width(512)), nn.ReLU(True), nn.Linear(width(512), width(256)), nn.ReLU(True),
                             nn.Linear(width(256), CLASSES))
    small = workload == "w3"
    layers, c = [], SAMPLE[workload][0]
    for i, out in enumerate((32, 64) if small else (64, 64, 128, 128, 256, 256)):
        layers.append(nn.Conv2d(c, width(out), 3, padding=1, bias=small))
        c = width(out)
        layers += [nn.ReLU(True)] if small else [nn.BatchNorm2d(c), nn.ReLU(True)]
        if small or i in (1, 3):
            layers.append(nn.MaxPool2d(2))
    if small:
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(49 * c, width(128)), nn.ReLU(True), nn.Linear(width(128), CLASSES))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, CLASSES))


def main():
    p = argparse.ArgumentParser(allow_abbrev=False)
    p.add_argument("-workload", choices=sorted(SAMPLE))
    p.add_argument("-store")
    p.add_argument("-rate", type=float)
    for name in ("ranks", "rank", "batch", "steps", "epochs", "shrink"):
        p.add_argument("-" + name, type=int)
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method="file://" + a.store, rank=a.rank, world_size=a.ranks)
    images = a.workload != "w1"
    net = network(a.workload, a.shrink)
    for m in net.modules():
        if isinstance(m, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_uniform_(m.weight, nonlinearity="relu")
            if m.bias is not None:
                nn.init.zeros_(m.bias)
    form = torch.channels_last if images else torch.contiguous_format
    net = DistributedDataParallel(net.to(memory_format=form), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=a.rate, fused=True)
    samples = a.batch * a.ranks * a.steps
    x, y = torch.rand(samples, *SAMPLE[a.workload]).contiguous(memory_format=form), torch.randint(0, CLASSES, (samples,))
    times = []
    for _ in range(1 + a.epochs):
        began, total = time.perf_counter(), torch.zeros(())
        order = torch.randperm(samples)[a.rank::a.ranks]  # the same on all ranks
        for i in range(0, len(order), a.batch):
            index = order[i:i + a.batch]
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x[index].contiguous(memory_format=form)), y[index])
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        times.append(time.perf_counter() - began)
    if a.rank == 0:
        print(json.dumps({"rate": samples / statistics.median(times[1:]), "parameters": sum(q.numel() for q in net.parameters()),
                          "loss": float(total) / a.ranks / a.steps}))
    dist.destroy_process_group()


main()
