"""Makes the tables of the tests with pandas 3 and NumPy 2; want.bin and whole.bin are their numbers."""

import csv
import os

import numpy as np
import pandas as pd

os.chdir(os.path.dirname(os.path.abspath(__file__)))
r = np.random.default_rng(7)
n = 200
x = r.normal(size=n) * 10.0 ** r.integers(-30, 30, n)
x[:8] = [0.0, -0.0, 5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 0.1, 1 / 3, 1e23]
k = r.integers(-(2**63), 2**63 - 1, n)
k[:2] = [-(2**63), 2**63 - 1]
kind = np.array(["plain", 'a "quote"', "two\nlines", "com,ma", "tab\there", "ä 語"])[r.integers(0, 6, n)]
t = pd.DataFrame({"x": x, "kind": kind, "k": k, "gap": np.where(r.integers(0, 3, n) == 0, np.nan, 1.5)})
t.to_csv("plain.csv", index=False)
t.to_csv("quoted.csv", index=False, quoting=csv.QUOTE_ALL, lineterminator="\r\n", encoding="utf-8-sig")
t.to_csv("table.tsv", index=False, sep="\t", na_rep="NA")
x.astype("<f8").tofile("want.bin")
k.astype("<i8").tofile("whole.bin")
