"""What the timing programs of other libraries share: the command line of internal/peer, MNIST's files, the loop that is timed, and the report.

A library gives the loop an object with these members:

    samples, tests     numbers of samples to train and to evaluate on
    whole              whether one call of train is a whole epoch; else it is a step
    order()            a new permutation of the samples
    train(index)       trains on the samples of index, whose length is a multiple of the batch
    finish()           waits until what was begun is done
    loss()             the sum of the losses of all batches since it was last called
    evaluate()         the number of tests whose class is found, in batches of EVAL_BATCH
    parameters         the number of their elements
    step_bytes()       what a step takes beside parameters, optimizer state and batch: a list of bytes and how they are known
"""
import argparse
import json
import os
import statistics
import struct
import time

WORKLOADS = {
    "w1": dict(batch=128, window=100, warm=1, epochs=3, sample=784, classes=10, rate=0.1, adam=False),
    "w2": dict(batch=128, window=100, warm=1, epochs=3, sample=784, classes=10, rate=1e-3, adam=True),
    "w3": dict(batch=64, window=100, warm=1, epochs=3, sample=784, classes=10, rate=0.1, adam=False),
    "w4": dict(batch=64, window=1, warm=3, steps=20, sample=3 * 32 * 32, classes=10, rate=0.1, adam=False),
    "w5": dict(batch=16, window=1000, warm=1, steps=20000, sample=16, classes=4, rate=0.1, adam=False),
}
EVAL_BATCH = 100
IMAGES, TESTS, ROWS = 10000, 1000, 4096  # of w4, of them evaluated, of w5


def parser():
    p = argparse.ArgumentParser(allow_abbrev=False)
    p.add_argument("-workload", required=True, choices=sorted(WORKLOADS))
    p.add_argument("-epochs", type=int, default=0)
    p.add_argument("-steps", type=int, default=0)
    p.add_argument("-window", type=int, default=0)
    p.add_argument("-threads", type=int, default=2)
    p.add_argument("-train-n", type=int, default=60000)
    p.add_argument("-test-n", type=int, default=10000)
    p.add_argument("-shrink", type=int, default=1)
    p.add_argument("-budget", type=float, default=200)
    p.add_argument("-seed", type=int, default=1)
    p.add_argument("-data", default="")
    p.add_argument("-json", default="-")
    return p


def parse(p):
    """Returns the command line, with what the workload says where it says nothing."""
    a = p.parse_args()
    a.__dict__.update((k, v) for k, v in WORKLOADS[a.workload].items() if not getattr(a, k, 0))
    a.batch = max(1, a.batch // a.shrink)
    a.imported = resident("VmRSS")
    return a


def width(a, n):
    return max(1, n // a.shrink)


def channels(a):
    """Returns the filters of w3's or w4's convolutions."""
    return [width(a, n) for n in ((32, 64) if a.workload == "w3" else (64, 64, 128, 128, 256, 256))]


def dense(a):
    """Returns the widths of w1's, w2's or w5's layers."""
    return [a.sample, width(a, 32), a.classes] if a.workload == "w5" else [a.sample, width(a, 512), width(a, 256), a.classes]


def resident(key):
    """Returns a line of /proc/self/status in MiB, -1 where the system has none."""
    try:
        with open("/proc/self/status") as f:
            return next(round(int(line.split()[1]) / 1024, 2) for line in f if line.startswith(key + ":"))
    except (OSError, StopIteration):
        return -1.0


def loaded():
    """Returns what the CPUs of the machine have done, what this process and its children have, and the time of all CPUs, in seconds; None where that is
    not known. The first line of /proc/stat is user, nice, system, idle, waiting for disks, two kinds of interrupts, and what other machines stole."""
    try:
        with open("/proc/stat") as f:
            t = [int(n) / os.sysconf("SC_CLK_TCK") for n in f.readline().split()[1:9]]
    except OSError:
        return None
    return sum(t) - t[3] - t[4], sum(os.times()[:4]), sum(t)


def others(before, after):
    """Returns the share of all CPUs' time that was neither idle nor this process's; -1 where it is not known."""
    if not before or not after or after[2] <= before[2]:
        return -1
    busy, own, total = (b - a for a, b in zip(before, after))
    return max(0, busy - own) / total


class Digits:
    """A part of MNIST: n images, the bytes of some of them at a time, and all labels."""

    def __init__(self, a, part):
        self.images, self.n = self.open(a, part + "-images-idx3-ubyte", 3)
        labels, _ = self.open(a, part + "-labels-idx1-ubyte", 1)
        self.n = min(self.n, a.train_n if part == "train" else a.test_n)
        self.labels = labels.read(self.n)

    @staticmethod
    def open(a, name, dims):
        f = open(f"{a.data}/{name}", "rb")
        head = struct.unpack(">%dI" % (1 + dims), f.read(4 + 4 * dims))
        if head[0] != 0x800 + dims or head[2:] != (28, 28)[:dims - 1]:
            raise SystemExit(f"{f.name}: not a file of MNIST")
        return f, head[1]

    def __iter__(self):
        """Yields the number of a first image, and the bytes of up to 1,000: what is converted at once is never all."""
        for first in range(0, self.n, 1000):
            yield first, bytearray(self.images.read(784 * min(1000, self.n - first)))


def write(a, net, **what):
    """Trains and evaluates as the command line says, and writes the report."""
    data = resident("VmRSS")
    windows, epochs, evaluations, losses, accuracies, sets = [], [], [], [], [], []
    each = net.samples // a.batch
    by_steps = "steps" in WORKLOADS[a.workload]
    call = each if net.whole else 1
    a.window = max(a.window, call) if by_steps or not net.whole else each
    total = a.steps + a.warm * a.window if by_steps else a.epochs * each
    total = -(-total // call) * call

    def evaluate():
        net.finish()
        began = time.perf_counter()
        right = net.evaluate()
        evaluations.append(time.perf_counter() - began)
        accuracies.append(right / net.tests)
        sets.append(resident("VmRSS"))

    done, counted, first, spent, before = 0, 0, 0, 0, loaded()
    started = since = time.perf_counter()
    while done < total and time.perf_counter() - started < a.budget:
        began = time.perf_counter()
        if not by_steps:
            since, counted = began, 0
        order = net.order()
        for at in range(0, min(each, total - done), call):
            net.train(order[at * a.batch:(at + call) * a.batch])
            done += call
            counted += call
            if done == call:
                net.finish()
                first = time.perf_counter() - started
            if counted >= a.window:
                net.finish()
                now = time.perf_counter()
                windows.append((now - since) * a.window / counted)
                since, counted = now, 0
            spent = time.perf_counter() - started
            if spent >= a.budget:
                break
        losses.append(net.loss() / (at + call))
        epochs.append(time.perf_counter() - began)
        if not by_steps:
            evaluate()
    if by_steps:
        evaluate()
        evaluate()
    report = dict(what, workload=a.workload, threads=a.threads, batch=a.batch, train_n=net.samples, epochs_done=len(epochs), window_steps=a.window,
                  warmup_windows=a.warm, epoch_s=epochs, eval_s=evaluations, first_step_s=first, train_loss=losses, test_acc=accuracies,
                  budget_stop=spent >= a.budget, steps_done=done, notes=[], parameters=net.parameters, others=others(before, loaded()),
                  rss_mb=dict(imported=a.imported, data=data, peak=resident("VmHWM"), end=resident("VmRSS"), epochs=sets))
    windows = windows or [sum(epochs) * a.window / done]
    timed = statistics.median(windows[a.warm:] or windows)
    report.update(windows_s=windows, train_img_s=a.batch * a.window / timed, us_per_step=timed * 1e6 / a.window,
                  eval_img_s=net.tests / statistics.median(evaluations[1:] or evaluations), step_bytes=net.step_bytes())
    if a.json == "-":
        print(json.dumps(report))
        return
    with open(a.json, "w") as f:
        json.dump(report, f)
