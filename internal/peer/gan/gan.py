"""Trains the GAN of examples/gan with PyTorch on random pixels, and prints the time of a step as JSON."""

import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SAMPLES, CODE, RATE, DECAY = 64, 64 * 64, 64, 4e-4, 0.998


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-threads", type=int, default=2)
    p.add_argument("-steps", type=int, default=640)
    p.add_argument("-compile", action="store_true")
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(a.threads)
    torch.set_num_interop_threads(1)
    gen = nn.Sequential(nn.Linear(CODE, 256), nn.ReLU(True), nn.Linear(256, 512), nn.ReLU(True), nn.Linear(512, 784), nn.Sigmoid())
    dis = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(0.2, True), nn.Dropout(0.3), nn.Linear(512, 256), nn.LeakyReLU(0.2, True),
                        nn.Dropout(0.3), nn.Linear(256, 1))
    pg, pd = list(gen.parameters()), list(dis.parameters())
    og, od = (torch.optim.Adam(q, lr=RATE, betas=(0.5, 0.999), fused=True) for q in (pg, pd))
    average = [q.detach().clone() for q in pg]
    smooth, zeros, ones = (torch.full((BATCH, 1), v) for v in (0.9, 0.0, 1.0))
    x = torch.randint(0, 256, (SAMPLES, 784), dtype=torch.uint8)

    def judge(real, fake):
        logits = lambda v: dis(2 * v - 1)
        return (F.binary_cross_entropy_with_logits(logits(real), smooth) + F.binary_cross_entropy_with_logits(logits(fake), zeros))

    def fooled(fake):
        return F.binary_cross_entropy_with_logits(dis(2 * fake - 1), ones)

    make = gen
    if a.compile:
        make, judge, fooled = (torch.compile(f, dynamic=False) for f in (gen, judge, fooled))

    def step(index):
        real = x[index].float() * (1 / 255)
        fake = make(torch.randn(BATCH, CODE))  # one forward pass of the generator serves both
        od.zero_grad(set_to_none=True)
        first = judge(real, fake.detach())
        first.backward()
        od.step()
        og.zero_grad(set_to_none=True)
        for q in pd:
            q.requires_grad_(False)
        second = fooled(fake)
        second.backward()
        for q in pd:
            q.requires_grad_(True)
        og.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, pg, 1 - DECAY)
        return first, second

    def epoch(most):
        done, losses = 0, None
        order = torch.randperm(SAMPLES)
        for i in range(0, SAMPLES, BATCH):
            if done == most:
                break
            losses = step(order[i:i + BATCH])
            done += 1
        return done, losses

    epoch(SAMPLES // BATCH)
    done, began = 0, time.perf_counter()
    while done < a.steps:
        n, losses = epoch(a.steps - done)
        done += n
    spent = time.perf_counter() - began
    print(json.dumps({"micros": spent * 1e6 / a.steps, "parameters": sum(q.numel() for q in pg + pd),
                      "losses": [float(v.detach()) for v in losses]}))


main()
