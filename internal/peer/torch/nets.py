"""The nets of internal/peer/torch in PyTorch, whose weights travel both ways.

    python nets.py make DIR    writes NAME.safetensors, the state_dict, and NAME.io.safetensors, an input x and the output y
    python nets.py check DIR   loads each DIR/NAME.safetensors strictly, and writes the output of x to DIR/NAME.out.safetensors

GPT-2 is saved as Hugging Face saves it, in the folder NAME, in shards. Names of the cnn have the prefix of DistributedDataParallel; there are
state_dicts of the mlp in bfloat16 and float16, whose outputs are those of the rounded weights in float32.
"""
import collections
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file


def named(*modules):
    return nn.Sequential(collections.OrderedDict(modules))


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 6)
        self.rnn = nn.LSTM(6, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        out, _ = self.rnn(self.emb(x))
        return self.head(out[:, -1])


class GRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 4)

    def forward(self, x):
        _, h = self.rnn(x)
        return self.head(torch.cat([h[-2], h[-1]], 1))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0, activation="gelu", batch_first=True)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=40, n_positions=16, n_embd=24, n_layer=2, n_head=3))

    def forward(self, x):
        return self.gpt(x).logits.flatten(1)


def mlp():
    return named(("fc1", nn.Linear(12, 16)), ("act", nn.GELU()), ("fc2", nn.Linear(16, 5)))


def cnn():
    return named(
        ("conv1", nn.Conv2d(2, 4, 3, padding=1, bias=False)), ("bn1", nn.BatchNorm2d(4)), ("relu1", nn.ReLU()), ("pool", nn.MaxPool2d(2)),
        ("conv2", nn.Conv2d(4, 6, (3, 2), groups=2)), ("bn2", nn.BatchNorm2d(6)), ("relu2", nn.ReLU()),
        ("mean", nn.AdaptiveAvgPool2d(1)), ("flat", nn.Flatten()), ("head", nn.Linear(6, 4)))


# Net and input, by name.
NETS = {
    "mlp": (mlp, lambda: torch.randn(8, 12)),
    "cnn": (cnn, lambda: torch.randn(8, 2, 8, 8)),
    "lstm": (LSTM, lambda: torch.randint(0, 20, (8, 7))),
    "gru": (GRU, lambda: torch.randn(8, 5, 6)),
    "encoder": (Encoder, lambda: torch.randn(8, 6, 12)),
    "gpt2": (GPT, lambda: torch.randint(0, 40, (8, 10))),
}


def output(net, x):
    net.eval()
    with torch.no_grad():
        return net(x).contiguous()


def write_io(dir, name, x, y):
    if x.dtype == torch.int64:
        x = x.to(torch.int32)
    save_file({"x": x.contiguous(), "y": y}, os.path.join(dir, name + ".io.safetensors"))


def make(dir):
    for name, (build, draw) in NETS.items():
        torch.manual_seed(1)
        net, x = build(), draw()
        with torch.no_grad():
            for p in net.parameters():  # no zeros and ones, so that each parameter counts
                p.add_(torch.randn_like(p) * 0.2)
        net.train()
        for _ in range(5):  # moves the running statistics
            net(draw())
        if name == "gpt2":
            net.gpt.save_pretrained(os.path.join(dir, name), max_shard_size="20KB")
            for extra in ("config.json", "generation_config.json"):
                os.remove(os.path.join(dir, name, extra))
        else:
            prefix = "module." if name == "cnn" else ""
            save_file({prefix + k: v.contiguous() for k, v in net.state_dict().items()}, os.path.join(dir, name + ".safetensors"))
        write_io(dir, name, x, output(net, x))
        if name != "mlp":
            continue
        for short, type in (("bf16", torch.bfloat16), ("f16", torch.float16)):
            rounded = {k: v.to(type) for k, v in net.state_dict().items()}
            other = build()
            other.load_state_dict({k: v.float() for k, v in rounded.items()})
            save_file(rounded, os.path.join(dir, f"{name}-{short}.safetensors"))
            write_io(dir, f"{name}-{short}", x, output(other, x))


def check(dir):
    for name, (build, _) in NETS.items():
        net = build()
        (net.gpt if name == "gpt2" else net).load_state_dict(load_file(os.path.join(dir, name + ".safetensors")), strict=True)
        x = load_file(os.path.join(dir, name + ".io.safetensors"))["x"]
        if not x.is_floating_point():
            x = x.long()
        save_file({"y": output(net, x)}, os.path.join(dir, name + ".out.safetensors"))
    print("torch", torch.__version__, "transformers", transformers.__version__)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"make": make, "check": check}[sys.argv[1]](sys.argv[2])
