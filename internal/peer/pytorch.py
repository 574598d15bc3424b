"""Trains the workloads of internal/peer with PyTorch, and reports as that does: a row beside Evenkeel's in its table, and in gpucheck's.

float32 in memory; -products tf32 lets matrix products and convolutions round their factors to TF32, float32 does not. Data are resident as float32
and gathered inside the timed step. On the CPU images lie as NHWC. -compile compiles forward pass and loss, and with them the backward pass; the
optimizer is the fused one.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

import measure


def network(a):
    layers = []
    if a.workload not in ("w3", "w4"):
        widths = measure.dense(a)
        for i, o in zip(widths, widths[1:]):
            layers += [nn.Linear(i, o), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers[:-1])
    small = a.workload == "w3"
    c = 1 if small else 3
    for i, out in enumerate(measure.channels(a)):
        layers.append(nn.Conv2d(c, out, 3, padding=1, bias=small))
        layers += [nn.ReLU(inplace=True)] if small else [nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
        c = out
        if small or i in (1, 3):
            layers.append(nn.MaxPool2d(2))
    if small:
        hidden = measure.width(a, 128)
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(49 * c, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, a.classes))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, a.classes))


class Net:
    whole = False

    def __init__(self, a):
        self.batch, self.device = a.batch, a.device
        self.finish = torch.cuda.synchronize if a.device == "cuda" else lambda: None
        self.images = a.device == "cpu" and a.workload in ("w3", "w4")
        self.x, self.y, self.tx, self.ty = load(a)
        self.samples, self.tests = len(self.x), len(self.tx)
        self.net = network(a)
        for m in self.net.modules():
            if isinstance(m, (nn.Linear, nn.Conv2d)):
                nn.init.kaiming_uniform_(m.weight, nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        self.net = self.net.to(self.device)
        if self.images:
            self.net = self.net.to(memory_format=torch.channels_last)
        p = list(self.net.parameters())
        self.parameters = sum(v.numel() for v in p)
        self.optimizer = torch.optim.Adam(p, lr=a.rate, fused=True) if a.adam else torch.optim.SGD(p, lr=a.rate, fused=True)
        self.plain = lambda x, y: F.cross_entropy(self.net(x), y)
        self.infer, self.lost = self.net, self.plain
        if a.compile:
            self.infer, self.lost = (torch.compile(f, dynamic=False) for f in (self.infer, self.lost))
        self.no_grad = torch.no_grad if a.compile else torch.inference_mode
        self.sum = torch.zeros((), device=self.device)

    def inputs(self, x):
        return x.contiguous(memory_format=torch.channels_last) if self.images else x

    def order(self):
        return torch.randperm(self.samples, device=self.device)

    def train(self, index):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.lost(self.inputs(self.x[index]), self.y[index])
        loss.backward()
        self.optimizer.step()
        self.sum += loss.detach()

    def loss(self):
        total = float(self.sum)
        self.sum.zero_()
        return total

    def evaluate(self):
        self.net.eval()
        right = torch.zeros((), dtype=torch.long, device=self.device)
        with self.no_grad():
            for i in range(0, self.tests, measure.EVAL_BATCH):
                x = self.inputs(self.tx[i:i + measure.EVAL_BATCH])
                right += (self.infer(x).argmax(1) == self.ty[i:i + measure.EVAL_BATCH]).sum()
        self.net.train()
        return int(right)

    def step_bytes(self):
        """Returns what autograd keeps of one batch that is neither a parameter nor the batch, and the gradients."""
        x, y = self.inputs(self.x[:self.batch]), self.y[:self.batch]
        known = {t.untyped_storage().data_ptr() for t in (x, y, *self.net.parameters(), *self.net.buffers())}
        kept = {}

        def keep(t):
            s = t.untyped_storage()
            if s.data_ptr() not in known:
                kept[s.data_ptr()] = (s.nbytes(), t)  # t lives on, so that no other takes its place
            return t

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            self.plain(x, y)
        total = sum(n for n, _ in kept.values()) + sum(p.nbytes for p in self.net.parameters())
        return [{"how": "kept for the backward pass, and gradients", "bytes": total}]


def load(a):
    """Returns training and test data on the device."""
    r = torch.Generator().manual_seed(12345)
    if a.workload == "w5":
        x, teacher = torch.randn(measure.ROWS, a.sample, generator=r), torch.randn(a.sample, a.classes, generator=r)
        x, y = x.to(a.device), (x @ teacher).argmax(1).to(a.device)
        return x, y, x, y
    if a.workload == "w4":
        n, tests = measure.IMAGES // a.shrink, measure.TESTS // a.shrink
        x = torch.randn(n, 3, 32, 32, generator=r)
        if a.device == "cpu":
            x = x.contiguous(memory_format=torch.channels_last)
        x, y = x.to(a.device), torch.randint(0, a.classes, (n,), generator=r).to(a.device)
        return x, y, x[:tests], y[:tests]
    data = []
    for part in ("train", "t10k"):
        d = measure.Digits(a, part)
        x = torch.empty(d.n, 784, device=a.device)
        for first, b in d:
            x[first:first + len(b) // 784] = torch.frombuffer(b, dtype=torch.uint8).view(-1, 784).to(a.device)
        x.div_(255)
        data += [x.view(-1, 1, 28, 28) if a.workload == "w3" else x, torch.frombuffer(bytearray(d.labels), dtype=torch.uint8).long().to(a.device)]
    return data


def main():
    p = measure.parser()
    p.add_argument("-products", default="float32", choices=("float32", "tf32"))
    p.add_argument("-device", default="cpu", choices=("cuda", "cpu"))
    p.add_argument("-compile", action="store_true")
    a = measure.parse(p)
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    torch.set_num_interop_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a.products == "tf32"
    measure.write(a, Net(a), peer="pytorch", version=torch.__version__, variant="compile" if a.compile else "default", device=a.device, products=a.products)


if __name__ == "__main__":
    main()
