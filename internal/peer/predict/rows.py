"""Answers single rows with onnxruntime, from several threads at once, and prints the speed as JSON."""

import argparse
import json
import os
import tempfile
import threading
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def build(net):
    """Returns an ONNX model with random weights and the shape of a row."""
    rng = np.random.default_rng(1)
    nodes, weights = [], []

    def weight(name, *shape):
        fan = int(np.prod(shape[1:])) or 1
        weights.append(numpy_helper.from_array((rng.standard_normal(shape) / fan**0.5).astype(np.float32), name))
        return name

    def dense(x, name, n, out, relu):
        y = name + "/y" if relu else "output"
        nodes.append(helper.make_node("Gemm", [x, weight(name + "/w", n, out), weight(name + "/b", out)], [y]))
        if relu:
            nodes.append(helper.make_node("Relu", [y], [name]))
        return name

    def conv(x, name, n, out):
        inputs = [x, weight(name + "/w", out, n, 3, 3), weight(name + "/b", out)]
        nodes.append(helper.make_node("Conv", inputs, [name + "/y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [name + "/y"], [name + "/relu"]))
        nodes.append(helper.make_node("MaxPool", [name + "/relu"], [name], kernel_shape=[2, 2], strides=[2, 2]))
        return name

    if net == "mlp":
        shape = [784]
        dense(dense(dense("x", "hidden1", 784, 512, True), "hidden2", 512, 256, True), "out", 256, 10, False)
    else:
        shape = [1, 28, 28]
        h = conv(conv("x", "conv1", 1, 32), "conv2", 32, 64)
        nodes.append(helper.make_node("Flatten", [h], ["flat"]))
        dense(dense("flat", "hidden", 64 * 49, 128, True), "out", 128, 10, False)
    row = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch"] + shape)
    out = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 10])
    model = helper.make_model(
        helper.make_graph(nodes, net, [row], [out], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    onnx.checker.check_model(model)
    return model, shape


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-net", choices=["mlp", "cnn"])
    p.add_argument("-callers", type=int)
    p.add_argument("-threads", type=int)
    p.add_argument("-seconds", type=float)
    a = p.parse_args()
    model, shape = build(a.net)
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads = a.threads
    o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    with tempfile.TemporaryDirectory() as d:
        file = os.path.join(d, "net.onnx")
        onnx.save(model, file)
        s = onnxruntime.InferenceSession(file, o, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(2).random([1] + shape, dtype=np.float32)
    for _ in range(50):
        s.run(None, {"x": x})
    begin, end = time.perf_counter() + 0.2, time.perf_counter() + 0.2 + a.seconds
    taken = [[] for _ in range(a.callers)]

    def call(mine):
        feed, clock, run = {"x": x.copy()}, time.perf_counter, s.run
        while clock() < begin:
            time.sleep(0.001)
        at = clock()
        while at < end:
            run(None, feed)
            now = clock()
            mine.append(now - at)
            at = now

    threads = [threading.Thread(target=call, args=(t,)) for t in taken]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    wall = time.perf_counter() - begin
    every = np.concatenate([np.array(t) for t in taken])
    p50, p99 = np.percentile(every, [50, 99])
    print(json.dumps({"rate": len(every) / wall, "p50": p50 * 1e6, "p99": p99 * 1e6}))


main()
