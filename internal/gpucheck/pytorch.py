"""Trains the workloads of internal/peer with PyTorch on a GPU, and writes the same measures: what gpucheck sets beside its own.

float32 in memory; -products tf32 lets matrix products and convolutions round their factors to TF32, float32 does not. Eager mode, data
resident on the GPU as float32, batches gathered inside the timed step. A window is timed with all of its work finished.
"""
import argparse
import json
import statistics
import struct
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

WORKLOADS = {  # batch, steps of a window, windows that do not count, optimizer
    "w1": (128, 100, 1, lambda p: torch.optim.SGD(p, lr=0.1)),
    "w2": (128, 100, 1, lambda p: torch.optim.Adam(p, lr=1e-3, fused=True)),
    "w3": (64, 100, 1, lambda p: torch.optim.SGD(p, lr=0.1)),
    "w4": (64, 1, 3, lambda p: torch.optim.SGD(p, lr=0.1)),
}
EVAL_BATCH = 100


def read(path):
    with open(path, "rb") as f:
        b = f.read()
    dims = struct.unpack(">%dI" % b[3], b[4:4 + 4 * b[3]])
    return torch.frombuffer(bytearray(b[4 + 4 * b[3]:]), dtype=torch.uint8).view(dims)


def load(a, device):
    """Returns training and test data on the device."""
    if a.workload == "w4":
        r = torch.Generator().manual_seed(12345)
        x = torch.randn(10000, 3, 32, 32, generator=r).to(device)
        y = torch.randint(0, 10, (10000,), generator=r).to(device)
        return x, y, x[:1000], y[:1000]
    data = []
    for part, n in (("train", a.train_n), ("t10k", a.test_n)):
        x = read(f"{a.data}/{part}-images-idx3-ubyte")[:n].to(device).float() / 255
        y = read(f"{a.data}/{part}-labels-idx1-ubyte")[:n].to(device).long()
        data += [x.view(-1, 1, 28, 28) if a.workload == "w3" else x.view(-1, 784), y]
    return data


def network(workload):
    if workload in ("w1", "w2"):
        net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    elif workload == "w3":
        net = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))
    else:
        layers, c = [], 3
        for i, out in enumerate((64, 64, 128, 128, 256, 256)):
            layers += [nn.Conv2d(c, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
            c = out
            if i in (1, 3):
                layers.append(nn.MaxPool2d(2))
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))
    for m in net.modules():
        if isinstance(m, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_uniform_(m.weight, nonlinearity="relu")
            if m.bias is not None:
                nn.init.zeros_(m.bias)
    return net


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-workload", required=True, choices=sorted(WORKLOADS))
    p.add_argument("-products", default="float32", choices=("float32", "tf32"))
    p.add_argument("-epochs", type=int, default=3)
    p.add_argument("-steps", type=int, default=200)
    p.add_argument("-window", type=int, default=0)
    p.add_argument("-train-n", type=int, default=60000)
    p.add_argument("-test-n", type=int, default=10000)
    p.add_argument("-data", required=True)
    p.add_argument("-json", required=True)
    p.add_argument("-device", default="cuda", choices=("cuda", "cpu"))
    a = p.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a.products == "tf32"
    finish = torch.cuda.synchronize if a.device == "cuda" else lambda: None
    batch, window, warm, optimizer = WORKLOADS[a.workload]
    window = a.window or window
    x, y, tx, ty = load(a, a.device)
    net = network(a.workload).to(a.device)
    opt = optimizer(net.parameters())
    windows, losses, accuracies, evaluations = [], [], [], []

    def evaluate():
        net.eval()
        finish()
        began = time.perf_counter()
        good = torch.zeros((), dtype=torch.long, device=a.device)
        with torch.inference_mode():
            for i in range(0, len(tx), EVAL_BATCH):
                good += (net(tx[i:i + EVAL_BATCH]).argmax(1) == ty[i:i + EVAL_BATCH]).sum()
        accuracies.append(int(good) / len(tx))
        evaluations.append(time.perf_counter() - began)
        net.train()

    done, total = 0, a.steps + warm * window if a.workload == "w4" else a.epochs * (len(x) // batch)
    while done < total:
        order = torch.randperm(len(x), device=a.device)
        loss = torch.zeros((), device=a.device)
        finish()
        n = min(len(x) // batch, total - done)
        if a.workload != "w4" or done == 0:
            since = time.perf_counter()
        for s in range(n):
            index = order[s * batch:(s + 1) * batch]
            opt.zero_grad(set_to_none=True)
            step = F.cross_entropy(net(x[index]), y[index])
            step.backward()
            opt.step()
            loss += step.detach()
            done += 1
            if (done if a.workload == "w4" else s + 1) % window == 0:
                finish()
                now = time.perf_counter()
                windows.append(now - since)
                since = now
        losses.append(float(loss) / n)
        if a.workload != "w4":
            evaluate()
    if a.workload == "w4":
        evaluate()
        evaluate()
    timed = statistics.median(windows[warm:] or windows)
    rest = evaluations[1:] or evaluations
    with open(a.json, "w") as f:
        json.dump(dict(peer="pytorch", version=torch.__version__, workload=a.workload, device=a.device, products=a.products, batch=batch,
                       train_img_s=batch * window / timed, us_per_step=timed * 1e6 / window, eval_img_s=len(tx) / statistics.median(rest),
                       train_loss=losses, test_acc=accuracies), f)


if __name__ == "__main__":
    main()
