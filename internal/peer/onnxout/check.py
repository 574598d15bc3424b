"""Runs exported models in onnxruntime. Reads a list of runs as JSON, prints a JSON object for each model."""

import json
import os
import sys

import numpy as np
import onnx
import onnxruntime


def read(folder, tensor):
    return np.fromfile(os.path.join(folder, tensor["file"]), tensor["type"]).reshape(tensor["shape"])


verdicts = {}
sessions = {}
for run in json.load(sys.stdin):
    v = verdicts.setdefault(run["model"], {"model": run["model"], "error": 0.0, "largest": 0.0, "failure": ""})
    if v["failure"]:
        continue
    path = os.path.join(run["dir"], "model.onnx")
    try:
        if path not in sessions:
            onnx.checker.check_model(onnx.load(path), full_check=True)
            sessions[path] = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        s = sessions[path]
        named = {t["name"] for t in run["inputs"]}
        assert {i.name for i in s.get_inputs()} == named, f"inputs {[i.name for i in s.get_inputs()]}"
        assert [o.name for o in s.get_outputs()][1:] == [o["name"] for o in run["outputs"]][1:], "names of outputs"
        for dims in [i.shape for i in s.get_inputs()]:
            assert dims[0] == "batch", f"input {dims}"
        got = s.run(None, {t["name"]: read(run["dir"], t) for t in run["inputs"]})
        for y, t in zip(got, run["outputs"]):
            want = read(run["dir"], t)
            assert y.size == want.size, f"{y.shape} is not {want.shape}"
            y = y.astype(np.float32).reshape(want.shape)
            assert np.isfinite(want).all(), "not finite"
            largest = float(np.abs(want).max())
            v["largest"] = max(v["largest"], largest)
            v["error"] = max(v["error"], float(np.abs(y - want).max()) / max(largest, 1e-30))
            assert np.isfinite(y).all(), "not finite in onnxruntime"
    except Exception as e:  # any failure is the model's
        v["failure"] = f"{type(e).__name__}: {e}"[:300]
for v in verdicts.values():
    print(json.dumps(v))
