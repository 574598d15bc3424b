"""Makes the files of the tests with NumPy 2."""

import os

import numpy as np

os.chdir(os.path.dirname(os.path.abspath(__file__)))
n = 5
arrays = {}
for t in ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]:
    arrays[t] = (1 + np.arange(n * 6).reshape(n, 2, 3) * 37 % (2 if t == "bool" else 97) - (t == "bool")).astype(t)
np.savez("types.npz", **arrays)
np.savez_compressed("compressed.npz", x=arrays["f4"], y=np.arange(n, dtype="i4"))
np.savez("orders.npz", fortran=np.asfortranarray(arrays["f4"]), big=arrays["i4"].astype(">i4"), both=np.asfortranarray(arrays["f8"].astype(">f8")), plain=arrays["f4"])
x = np.arange(n * 4, dtype="f4").reshape(n, 4)
for v in [1, 2, 3]:
    with open(f"v{v}.npy", "wb") as f:
        np.lib.format.write_array(f, x, version=(v, 0))
np.save("labels.npy", np.arange(n, dtype="u1"))
np.save("scalar.npy", np.float32(3))
np.save("empty.npy", np.zeros((0, 3), "f4"))
np.save("text.npy", np.array(["a", "bc"]))
np.save("date.npy", np.array(["2020-01-01"], "M8[D]"))
np.save("complex.npy", np.zeros(2, "c8"))
np.save("struct.npy", np.zeros(2, [("a", "f4"), ("b", "i4")]))
np.save("object.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
np.save("negative.npy", np.array([[1, -2]], "i8"))
