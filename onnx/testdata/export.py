"""Exports small models of PyTorch to ONNX, by both exporters, with the outputs of onnxruntime.

    python export.py DIR [MODEL ...]      all models, or those that are named
    python export.py DIR committed        those whose files are in this folder

For each model and exporter it writes DIR/MODEL.EXPORTER.onnx (the dynamo exporter also MODEL.EXPORTER.onnx.data) and
DIR/MODEL.EXPORTER/input_K.pb and output_K.pb, tensors of ROWS rows in the order of the model's inputs and outputs. The
files of COMMITTED are in this folder. Needs torch, torchvision, transformers, onnx, onnxscript and
onnxruntime.

Statistics of batch normalization are fitted to random data and heads are not zero, so that outputs are of size 1: a
fresh torchvision model computes zeros, or numbers so small that any error passes.
"""

import os
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")
TRACED, ROWS = 2, 3
COMMITTED = ["mlp", "cnn", "fresh", "block", "gpt", "unet", "lstm", "resnet8"]


ONLY = ["fresh", "resnet8"]  # exported in the ways of MORE only


def fresh():
    """Two equal batch normalizations with initial values, which exporters share."""
    f = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2))
    return f, [torch.randn(TRACED, 1, 8, 8)]


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.skip = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)) if i != o else nn.Identity()

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x))


def resnet8():
    """The trunk of a small residual network, to be fine-tuned with a new head."""
    f = nn.Sequential()
    f.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    f.layer1, f.layer2, f.layer3 = Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 32, 2)
    f.pool, f.flat = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return f, [torch.randn(TRACED, 3, 32, 32)]


def mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)), [torch.randn(TRACED, 6)]


def cnn():
    f = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.1), nn.Dropout(0.2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5), nn.Softmax(-1))
    return f, [torch.randn(TRACED, 3, 12, 12)]


class Pooled(nn.Module):
    """A convolutional network that flattens by view, with other pooling and activations."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, (3, 5), padding=(1, 2), dilation=1)
        self.c2 = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4)
        self.c3 = nn.Conv2d(8, 12, 1)
        self.fc = nn.Linear(12 * 4 * 4, 6)

    def forward(self, x):
        h = F.avg_pool2d(F.elu(self.c1(x)), 2)
        h = F.max_pool2d(F.silu(self.c2(h)), 3, stride=2, padding=1)
        h = F.hardtanh(self.c3(h))
        return F.log_softmax(self.fc(h.view(h.size(0), -1)), dim=1), h.mean((2, 3))


class UNet(nn.Module):
    def __init__(self, bilinear):
        super().__init__()
        conv = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.down, self.mid = conv(1, 6), conv(6, 10)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) if bilinear else nn.ConvTranspose2d(10, 10, 2, stride=2)
        self.out, self.head = conv(16, 6), nn.Conv2d(6, 2, 1)

    def forward(self, x):
        d = self.down(x)
        u = self.up(self.mid(F.max_pool2d(d, 2)))
        return self.head(self.out(torch.cat([d, u], 1)))


def unet():
    return UNet(False), [torch.randn(TRACED, 1, 12, 12)]


def unet_bilinear():
    return UNet(True), [torch.randn(TRACED, 1, 12, 12)]


def groupnorm():
    f = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1),
                      nn.InstanceNorm2d(8, affine=True), nn.GELU(), nn.Flatten(), nn.Linear(8 * 64, 4))
    return f, [torch.randn(TRACED, 3, 8, 8)]


def encoder():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), [torch.randn(TRACED, 5, 16)]


class Block(nn.Module):
    """One block of a transformer, written with its products."""

    def __init__(self, d=16, heads=2):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, -1)
        x = x + self.proj((a @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    """A small GPT with a causal mask and a tied head."""

    def __init__(self, words=31, t=8, d=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, d), nn.Embedding(t, d)
        self.blocks = nn.ModuleList([CausalBlock(d) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, words, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        h = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for b in self.blocks:
            h = b(h)
        return self.head(self.norm(h))


class CausalBlock(Block):
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).split(d, 2)
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


def gpt():
    return GPT(), [torch.randint(0, 31, (TRACED, 8))]


def block():
    return Block(), [torch.randn(TRACED, 5, 16)]


class First(nn.Module):
    """Returns only some outputs of a Hugging Face model."""

    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, ids, mask=None):
        y = self.model(input_ids=ids, **({} if mask is None else {"attention_mask": mask}))
        return tuple(y[n] for n in self.names) if len(self.names) > 1 else y[self.names[0]]


def bert():
    from transformers import BertConfig, BertModel
    m = BertModel(BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16))
    mask = torch.ones(TRACED, 7, dtype=torch.int64)
    mask[0, 5:] = 0
    return First(m, "last_hidden_state", "pooler_output"), [torch.randint(0, 50, (TRACED, 7)), mask]


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    m = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2, use_cache=False))
    return First(m, "logits"), [torch.randint(0, 50, (TRACED, 7))]


def image(name, size=64, **kw):
    import torchvision
    return getattr(torchvision.models, name)(num_classes=10, **kw), [torch.randn(TRACED, 3, size, size)]


def vit():
    from torchvision.models import VisionTransformer
    return VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=10), [torch.randn(TRACED, 3, 32, 32)]


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    return ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, 24, 2), CNBlockConfig(24, None, 1)], num_classes=10, layer_scale=0.5), [torch.randn(TRACED, 3, 64, 64)]


class Recurrent(nn.Module):
    def __init__(self, kind, **kw):
        super().__init__()
        self.rnn = kind(5, 6, batch_first=True, **kw)
        self.out = nn.Linear(6 * (2 if kw.get("bidirectional") else 1), 3)

    def forward(self, x):
        y, _ = self.rnn(x)
        return self.out(y)


MODELS = {
    "fresh": fresh, "resnet8": resnet8, "mlp": mlp, "cnn": cnn, "pooled": lambda: (Pooled(), [torch.randn(TRACED, 3, 16, 16)]), "unet": unet, "unet_bilinear": unet_bilinear,
    "groupnorm": groupnorm, "encoder": encoder, "block": block, "gpt": gpt, "bert": bert, "gpt2": gpt2,
    "resnet18": lambda: image("resnet18"), "mobilenet_v2": lambda: image("mobilenet_v2"), "mobilenet_v3": lambda: image("mobilenet_v3_small"),
    "efficientnet_b0": lambda: image("efficientnet_b0"), "vit": vit, "convnext": convnext,
    "lstm": lambda: (Recurrent(nn.LSTM, num_layers=2), [torch.randn(TRACED, 4, 5)]),
    "lstm_both": lambda: (Recurrent(nn.LSTM, bidirectional=True), [torch.randn(TRACED, 4, 5)]),
    "gru": lambda: (Recurrent(nn.GRU), [torch.randn(TRACED, 4, 5)]),
}


def fit(model, x):
    """Makes statistics those of random data, and parameters that are 0 or 1 random."""
    for p in model.parameters():
        if p.detach().std() == 0 or p.numel() == 1:
            p.data += 0.1 * torch.randn_like(p)
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for m in norms:
        m.train()
        m.momentum = None
    with torch.no_grad():
        for _ in range(3 if norms else 0):
            model(*[torch.randn((8, *t.shape[1:])) if t.is_floating_point() else t for t in x])
    for m in norms:
        m.eval()
        m.momentum = 0.1


def more_rows(t):
    if t.is_floating_point():
        return torch.randn(ROWS, *t.shape[1:])
    return torch.cat([t, t.flip(0)])[:ROWS].contiguous()


# EXPORTERS are ways to export: the defaults of both exporters, a fixed batch, and those that keep batch normalization.
EXPORTERS = {
    "old": dict(), "dynamo": dict(dynamo=True), "static": dict(static=True), "opset13": dict(opset_version=13),
    "kept": dict(do_constant_folding=False), "dynamokept": dict(dynamo=True, optimize=False),
    "training": dict(do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING),
}
MORE = {"cnn": ["static", "opset13", "kept", "dynamokept", "training"], "fresh": ["kept", "training"], "block": ["opset13"], "resnet8": ["training"]}


def export(model, x, path, dynamo=False, static=False, **kw):
    names = ["x", "mask"][:len(x)]
    if dynamo:
        batch = torch.export.Dim("batch")
        torch.onnx.export(model, tuple(x), path, dynamo=True, input_names=names, dynamic_shapes=tuple({0: batch} for _ in x), verbose=False, **kw)
    else:
        axes = {} if static else {n: {0: "batch"} for n in names}
        torch.onnx.export(model, tuple(x), path, dynamo=False, input_names=names, dynamic_axes=axes, **{"opset_version": 17, **kw})


def strip(path):
    """Removes what tells of the machine that exported: the dynamo exporter writes a stack trace for each node."""
    model = onnx.load(path, load_external_data=False)
    for part in [model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        kept = [p for p in part.metadata_props if "stack_trace" not in p.key]
        del part.metadata_props[:]
        part.metadata_props.extend(kept)
    onnx.save(model, path)


def record(path, folder, x, model):
    """Records what onnxruntime computes, or of an export for training what the model computes when it does not train."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {i.name: t.numpy() for i, t in zip(session.get_inputs(), x)}
    if "training" in path:
        with torch.no_grad():
            outputs = [model.eval()(*x).numpy()]
    else:
        outputs = session.run(None, feeds)
    os.makedirs(folder, exist_ok=True)
    for k, v in enumerate(feeds.values()):
        open("%s/input_%d.pb" % (folder, k), "wb").write(numpy_helper.from_array(v).SerializeToString())
    largest = []
    for k, v in enumerate(outputs):
        largest.append(float(np.abs(v).max()))
        open("%s/output_%d.pb" % (folder, k), "wb").write(numpy_helper.from_array(v).SerializeToString())
    return largest


def main():
    out, names = sys.argv[1], sys.argv[2:] or list(MODELS)
    if names == ["committed"]:
        names = COMMITTED
    os.makedirs(out, exist_ok=True)
    for name in names:
        torch.manual_seed(1)
        model, x = MODELS[name]()
        model.eval()
        if name != "fresh":
            fit(model, x)
        rows = [more_rows(t) for t in x]
        for exporter in ([] if name in ONLY else ["old", "dynamo"]) + MORE.get(name, []):
            path = "%s/%s.%s.onnx" % (out, name, exporter)
            try:
                export(model, x, path, **EXPORTERS[exporter])
                strip(path)
                largest = record(path, path[:-len(".onnx")], x if exporter == "static" else rows, model)
                print("%-28s outputs up to %s" % (name + "." + exporter, largest), flush=True)
            except Exception as e:  # an export that the peer itself cannot make
                print("%-28s not exported: %s" % (name + "." + exporter, str(e).strip().splitlines()[0][:200]), flush=True)


main()
