"""Trains the workloads of internal/peer with JAX on the CPU, and reports as that does: a row beside Evenkeel's in its table.

A step is one compiled call whose state is donated; -scan makes one compiled call of an epoch, which cannot report on a step or be stopped in
between. JAX computes with as many threads as there are CPUs that the process may use. Images lie as NHWC. Max pooling is a reshape with a maximum,
whose gradient is faster on the CPU than reduce_window's.
"""
import functools
import math
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

import measure  # noqa: E402


def layer(r, *shape, bias=True):
    """Returns He-uniform weights, and biases of 0."""
    bound = np.sqrt(6 / np.prod(shape[:-1]))
    p = {"w": r.uniform(-bound, bound, shape).astype(np.float32)}
    if bias:
        p["b"] = np.zeros(shape[-1], np.float32)
    return p


def parameters(a, r):
    """Returns parameters and running statistics, a dict a layer."""
    if a.workload not in ("w3", "w4"):
        widths = measure.dense(a)
        return [layer(r, i, o) for i, o in zip(widths, widths[1:])], []
    c = measure.channels(a)
    if a.workload == "w3":
        hidden = measure.width(a, 128)
        return [layer(r, 3, 3, 1, c[0]), layer(r, 3, 3, *c), layer(r, 49 * c[1], hidden), layer(r, hidden, a.classes)], []
    ps = [layer(r, 3, 3, i, o, bias=False) | {"scale": np.ones(o, np.float32), "shift": np.zeros(o, np.float32)} for i, o in zip([3] + c, c)]
    return ps + [layer(r, c[-1], a.classes)], [{"mean": np.zeros(o, np.float32), "variance": np.ones(o, np.float32)} for o in c]


def dense(p, x):
    return x @ p["w"] + p["b"]


def conv(p, x):
    return lax.conv_general_dilated(x, p["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def pool(x):
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))


def forward(workload, ps, stats, x, train):
    if workload == "w3":
        for p in ps[:2]:
            x = pool(jax.nn.relu(conv(p, x) + p["b"]))
        x, ps = x.reshape(len(x), -1), ps[2:]
    elif workload == "w4":
        moved = []
        for i, (p, s) in enumerate(zip(ps, stats)):
            x = conv(p, x)
            mean, variance = s["mean"], s["variance"]
            if train:
                mean = x.mean((0, 1, 2))
                variance = jnp.square(x - mean).mean((0, 1, 2))
                moved.append({"mean": 0.9 * s["mean"] + 0.1 * mean, "variance": 0.9 * s["variance"] + 0.1 * variance})
            x = jax.nn.relu((x - mean) * (lax.rsqrt(variance + 1e-5) * p["scale"]) + p["shift"])
            if i in (1, 3):
                x = pool(x)
        return dense(ps[-1], x.mean((1, 2))), moved
    for p in ps[:-1]:
        x = jax.nn.relu(dense(p, x))
    return dense(ps[-1], x), stats


def loss(workload, ps, stats, x, y):
    out, stats = forward(workload, ps, stats, x, True)
    return -jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], 1).mean(), stats


def step(workload, rate, state, x, y):
    (lost, stats), g = jax.value_and_grad(loss, argnums=1, has_aux=True)(workload, state["p"], state["stats"], x, y)
    new = dict(state, stats=stats, sum=state["sum"] + lost)
    if "t" not in state:
        return dict(new, p=jax.tree.map(lambda p, g: p - rate * g, state["p"], g))
    t = state["t"] + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state["v"], g)
    size, root = rate / (1 - 0.9 ** t), 1 / (1 - 0.999 ** t)
    return dict(new, t=t, m=m, v=v, p=jax.tree.map(lambda p, m, v: p - size * m / (jnp.sqrt(v * root) + 1e-8), state["p"], m, v))


class Net:
    def __init__(self, a):
        self.whole, self.batch = a.scan, a.batch
        self.r = np.random.default_rng(a.seed)
        self.x, self.y, self.tx, self.ty = (jax.device_put(v, may_alias=True) for v in load(a))
        self.samples, self.tests = len(self.x), len(self.tx)
        ps, stats = parameters(a, self.r)
        self.parameters = sum(v.size for v in jax.tree.leaves(ps))
        self.state = {"p": ps, "stats": stats, "sum": np.float32(0)}
        if a.adam:
            self.state |= {"t": np.float32(0), "m": jax.tree.map(np.zeros_like, ps), "v": jax.tree.map(np.zeros_like, ps)}
        self.state = jax.tree.map(jnp.array, self.state)
        self.one = functools.partial(step, a.workload, a.rate)

        def call(state, x, y, rows):
            return self.one(state, x[rows], y[rows])

        def epoch(state, x, y, rows):
            return lax.scan(lambda s, r: (call(s, x, y, r), None), state, rows)[0]

        def right(state, x, y, rows):
            return (forward(a.workload, state["p"], state["stats"], x[rows], False)[0].argmax(1) == y[rows]).sum()

        self.right = jax.jit(right)
        self.trained = jax.jit(epoch if self.whole else call, donate_argnums=0)

    def order(self):
        return self.r.permutation(self.samples).astype(np.int32)

    def train(self, index):
        rows = index.reshape(-1, self.batch) if self.whole else index
        self.state = self.trained(self.state, self.x, self.y, rows)

    def finish(self):
        jax.block_until_ready(self.state)

    def loss(self):
        total = float(self.state["sum"])
        self.state["sum"] = jnp.zeros(())
        return total

    def evaluate(self):
        rows = np.arange(self.tests, dtype=np.int32)
        n = measure.EVAL_BATCH
        return sum(map(int, [self.right(self.state, self.tx, self.ty, rows[i:i + n]) for i in range(0, self.tests, n)]))

    def step_bytes(self):
        one = jax.jit(self.one, donate_argnums=0).lower(self.state, self.x[:self.batch], self.y[:self.batch]).compile()
        return [{"how": "temporaries that the compiler reserves", "bytes": one.memory_analysis().temp_size_in_bytes}]


def aligned(shape):
    """Returns an array of float32 where JAX takes it as it is, without a copy."""
    room = np.empty(4 * math.prod(shape) + 64, np.uint8)
    first = -room.ctypes.data % 64
    return room[first:first + 4 * math.prod(shape)].view(np.float32).reshape(shape)


def load(a):
    """Returns training and test data."""
    r = np.random.default_rng(12345)
    if a.workload == "w5":
        x = r.standard_normal((measure.ROWS, a.sample), np.float32)
        y = (x @ r.standard_normal((a.sample, a.classes), np.float32)).argmax(1).astype(np.int32)
        return x, y, x, y
    if a.workload == "w4":
        n, tests = measure.IMAGES // a.shrink, measure.TESTS // a.shrink
        x, y = aligned((n, 32, 32, 3)), r.integers(0, a.classes, n, np.int32)
        r.standard_normal(dtype=np.float32, out=x)
        return x, y, x[:tests], y[:tests]
    data = []
    for part in ("train", "t10k"):
        d = measure.Digits(a, part)
        x = aligned((d.n, 784))
        for first, b in d:
            x[first:first + len(b) // 784] = np.frombuffer(b, np.uint8).reshape(-1, 784)
        x /= 255
        data += [x.reshape(-1, 28, 28, 1) if a.workload == "w3" else x, np.frombuffer(d.labels, np.uint8).astype(np.int32)]
    return data


def main():
    p = measure.parser()
    p.add_argument("-scan", action="store_true")
    a = measure.parse(p)
    measure.write(a, Net(a), peer="jax", version=jax.__version__, variant="scan" if a.scan else "default", device="cpu", products="float32")


if __name__ == "__main__":
    main()
