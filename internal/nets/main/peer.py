"""Prints, for each net of internal/nets that is named, what JAX's compiler reserves for one training step of it: a JSON object a line.

The step is that of the table of internal/nets/main: forward pass, softmax cross entropy and count of right answers (unet: squared error), gradients,
SGD, running statistics; all float32. Parameters and statistics are donated, so that they are updated in place. Nothing is run, only compiled,
for the first device that JAX finds. Images lie as NHWC. Max pooling is once a reshape with a maximum, once reduce_window: the fewer bytes are printed.

temp is bytes of temporaries, placed. arguments, outputs and alias are bytes of what goes in, of what comes out, and of what comes out where it went
in. parameters and statistics have the elements of each by name, as the plan has them.
"""
import json
import math
import sys
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

CLASSES = 10


class Net:
    """Net notes the shapes of parameters and statistics by name, and takes values from dicts where it has them."""

    def __init__(self, pool, values=None, running=None):
        self.pool, self.values, self.running = pool, values, running
        self.shapes, self.statistics, self.moved = {}, {}, {}

    def param(self, name, *shape):
        self.shapes[name] = jax.ShapeDtypeStruct(shape, jnp.float32)
        return jnp.zeros(shape) if self.values is None else self.values[name]

    def dense(self, x, name, out, act=None):
        y = x @ self.param(name + "/w", x.shape[1], out) + self.param(name + "/b", out)
        return act(y) if act else y

    def conv(self, x, name, out, kernel=3, stride=1, bias=True, act=None):
        w = self.param(name + "/w", kernel, kernel, x.shape[3], out)
        pad = [(kernel // 2, kernel // 2)] * 2
        y = lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        if bias:
            y = y + self.param(name + "/b", out)
        return act(y) if act else y

    def max_pool(self, x):
        if self.pool == "window":
            return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        b, h, w, c = x.shape
        return x.reshape(b, h // 2, 2, w // 2, 2, c).max((2, 4))

    def batch_norm(self, x, name, act=None):
        n = x.shape[3]
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        for what, v in (("mean", mean), ("variance", var)):
            key = name + "/" + what
            self.statistics[key] = jax.ShapeDtypeStruct((n,), jnp.float32)
            if self.running is not None:
                self.moved[key] = 0.9 * self.running[key] + 0.1 * lax.stop_gradient(v)
        y = (x - mean) * lax.rsqrt(var + 1e-5) * self.param(name + "/gamma", n) + self.param(name + "/beta", n)
        return act(y) if act else y

    def layer_norm(self, x, name):
        mean, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + 1e-5) * self.param(name + "/gamma", x.shape[1]) + self.param(name + "/beta", x.shape[1])


relu = jax.nn.relu


def vgg(net, x):
    h = x
    for stage, convolutions in enumerate((1, 1, 2, 2, 2)):
        for k in range(convolutions):
            h = net.conv(h, f"conv{stage + 1}_{k + 1}", 64 << min(stage, 3), act=relu)
        h = net.max_pool(h)
    h = net.dense(h.reshape(h.shape[0], -1), "hidden", 512, relu)
    return net.dense(h, "out", CLASSES)


def resnet(net, x):
    def normal(x, name, out, stride=1, act=None, kernel=3, norm=None):
        return net.batch_norm(net.conv(x, name, out, kernel, stride, bias=False), norm or name + "/norm", act)

    h = normal(x, "stem", 16, act=relu)
    for stage in range(3):
        for k in range(3):
            name, stride, out = f"stage{stage + 1}_{k + 1}", 2 if stage > 0 and k == 0 else 1, 16 << stage
            y = normal(normal(h, name + "/conv1", out, stride, relu), name + "/conv2", out)
            if y.shape != h.shape:
                h = normal(h, name + "/skip", out, stride, kernel=1)
            h = relu(y + h)
    return net.dense(h.mean((1, 2)), "out", CLASSES)


def unet(net, x):
    def twice(x, name, out):
        return net.conv(net.conv(x, name + "_1", out, act=relu), name + "_2", out, act=relu)

    h, skips = x, []
    for level in range(4):
        if level > 0:
            h = net.max_pool(h)
        h = twice(h, f"down{level}", 16 << level)
        skips.append(h)
    for level in (2, 1, 0):
        h = jnp.repeat(jnp.repeat(h, 2, 1), 2, 2)
        h = net.conv(h, f"narrow{level}", 16 << level, act=relu)
        h = twice(jnp.concatenate((skips[level], h), 3), f"up{level}", 16 << level)
    return net.conv(h, "out", 1, kernel=1)


def mlp(net, x):
    h = x
    for layer in range(63):
        h = net.dense(h, f"hidden{layer + 1}", 512, relu)
    return net.dense(h, "out", CLASSES)


def rnn(net, x):
    wx, wh, b = net.param("cell/wx", 64, 256), net.param("cell/wh", 256, 256), net.param("cell/b", 256)
    h = None
    for t in range(50):
        y = x[:, t] @ wx
        h = jnp.tanh((y if h is None else y + h @ wh) + b)
    return net.dense(h, "out", CLASSES)


def transformer(net, x):
    batch, words, width, heads = x.shape[0], 64, 128, 4
    part = width // heads

    def attention(x, name):
        def split(what):
            return net.dense(x, name + what, width).reshape(batch, words, heads, part).transpose(0, 2, 1, 3).reshape(batch * heads, words, part)

        query, key, value = split("/query"), split("/key"), split("/value")
        weights = jax.nn.softmax(query @ key.transpose(0, 2, 1) / math.sqrt(part))
        y = (weights @ value).reshape(batch, heads, words, part).transpose(0, 2, 1, 3)
        return net.dense(y.reshape(batch * words, width), name + "/out", width)

    h = net.param("words/table", CLASSES, width)[x].reshape(batch, words * width)
    h = (h + net.param("position/table", words * width)).reshape(batch * words, width)
    for k in range(4):
        name = f"block{k + 1}"
        h = h + attention(net.layer_norm(h, name + "/norm1"), name + "/attention")
        y = net.dense(net.layer_norm(h, name + "/norm2"), name + "/widen", 4 * width, lambda y: y * jax.nn.sigmoid(1.702 * y))
        h = h + net.dense(y, name + "/narrow", width)
    h = net.layer_norm(h, "norm")
    return net.dense(h.reshape(batch, words, width).mean(1), "out", CLASSES)


NETS = {
    "vgg": (vgg, 64, (32, 32, 3)),
    "resnet": (resnet, 128, (32, 32, 3)),
    "unet": (unet, 8, (64, 64, 3)),
    "deep mlp": (mlp, 128, (512,)),
    "rnn": (rnn, 64, (50, 64)),
    "transformer": (transformer, 16, (64,)),
}


def reserved(name, pool):
    """reserved compiles a step and returns what it takes."""
    model, batch, sample = NETS[name]
    x = jax.ShapeDtypeStruct((batch, *sample), jnp.int32 if name == "transformer" else jnp.float32)
    net = Net(pool)
    out = jax.eval_shape(partial(model, net), x)
    y = out if name == "unet" else jax.ShapeDtypeStruct((batch,), jnp.int32)

    def loss(params, running, x, y):
        net = Net(pool, params, running)
        out = model(net, x)
        if name == "unet":
            return jnp.mean((out - y) ** 2), (jnp.int32(0), net.moved)
        each = -jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], 1)
        return each.mean(), ((out.argmax(1) == y).sum(), net.moved)

    def step(params, running, x, y, rate):
        (mean, (right, moved)), grads = jax.value_and_grad(loss, has_aux=True)(params, running, x, y)
        return {k: p - rate * grads[k] for k, p in params.items()}, moved, mean, right

    rate = jax.ShapeDtypeStruct((), jnp.float32)
    m = jax.jit(step, donate_argnums=(0, 1)).lower(net.shapes, net.statistics, x, y, rate).compile().memory_analysis()
    return {
        "net": name,
        "batch": batch,
        "temp": m.temp_size_in_bytes,
        "arguments": m.argument_size_in_bytes,
        "outputs": m.output_size_in_bytes,
        "alias": m.alias_size_in_bytes,
        "parameters": {k: math.prod(s.shape) for k, s in net.shapes.items()},
        "statistics": {k: math.prod(s.shape) for k, s in net.statistics.items()},
        "version": jax.__version__,
        "platform": jax.devices()[0].platform,
    }


for name in sys.argv[1:]:
    pools = ("reshape", "window") if name in ("vgg", "unet") else ("reshape",)
    print(json.dumps(min((reserved(name, pool) for pool in pools), key=lambda r: r["temp"])), flush=True)
