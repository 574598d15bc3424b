"""Makes JSON lines with pandas 3; want.bin is what Python's json reads in them, a row a line."""

import json
import os

import numpy as np
import pandas as pd

os.chdir(os.path.dirname(os.path.abspath(__file__)))
r = np.random.default_rng(7)
n = 100
x = r.normal(size=n) * 10.0 ** r.integers(-12, 12, n)
k = r.integers(2**53, 2**63 - 1, n)
v = [list(row) for row in r.normal(size=(n, 3))]
t = pd.DataFrame({"x": x, "k": k, "v": v, "text": np.array(["ä 語", 'a "quote"', "two\nlines"])[r.integers(0, 3, n)]})
for name in ["plain.jsonl", "packed.jsonl.gz", "packed.jsonl.zst"]:
    kind = {"gz": {"method": "gzip", "mtime": 1}, "zst": "zstd"}.get(name.rsplit(".")[-1])
    try:
        t.to_json(name, orient="records", lines=True, double_precision=15, compression=kind)
    except ImportError:
        print("no zstandard:", name)
with open("plain.jsonl", encoding="utf-8") as f:
    rows = [json.loads(line) for line in f]
np.array([[d["x"], *d["v"]] for d in rows], "<f8").tofile("want.bin")
np.array([d["k"] for d in rows], "<i8").tofile("whole.bin")
