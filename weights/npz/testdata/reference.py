"""Writes reference.json: .npz files, and the arrays that NumPy reads from them.

    pip install numpy==2.*
    python reference.py > reference.json

"file" is base64; "arrays" has descr, shape and elements (base64, row-major, little endian) by name, or null if
numpy.load refuses the file without pickles. It also checks that NumPy reads written.npz, which the tests write.
"""

import base64
import io
import json
import os
import zipfile

import numpy as np

cases = []


def verdict(data):
    try:
        got = {}
        with np.load(io.BytesIO(data), allow_pickle=False) as z:
            for name in z.files:
                a = z[name]
                if not isinstance(a, np.ndarray):
                    continue
                little = np.ascontiguousarray(a).reshape(a.shape).astype(a.dtype.newbyteorder("<"))
                got[name] = [little.dtype.str.lstrip("<|"), list(a.shape), base64.b64encode(little.tobytes()).decode()]
        return got
    except BaseException:
        return None


def add(name, data):
    cases.append({"name": name, "file": base64.b64encode(data).decode(), "arrays": verdict(data)})


def npz(entries, method=zipfile.ZIP_STORED):
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w", method) as z:
        for name, data in entries:
            z.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return b.getvalue()


def npy(a, version=None, pickle=False):
    b = io.BytesIO()
    np.lib.format.write_array(b, np.asanyarray(a), version=version, allow_pickle=pickle)
    return b.getvalue()


def raw(text, data=b"", version=1, pad=True):
    t = text.encode("latin1")
    if pad:
        t += b" " * (63 - (10 + len(t)) % 64) + b"\n"
    n = len(t).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + n + t + data


for t in "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8".split():
    for order in "<>":
        a = (np.arange(6).reshape(2, 3) * 1.5).astype(np.dtype(t).newbyteorder(order))
        add(f"{order}{t}", npz([("a.npy", npy(a)), ("f.npy", npy(np.asfortranarray(a)))]))
cube = np.arange(24, dtype="<f4").reshape(2, 3, 4)
for version in [(1, 0), (2, 0), (3, 0)]:
    add(f"version {version}", npz([("cube.npy", npy(cube, version)), ("t.npy", npy(np.asfortranarray(cube), version))]))
    add(f"compressed, version {version}", npz([("cube.npy", npy(cube, version)), ("t.npy", npy(np.asfortranarray(cube), version))], zipfile.ZIP_DEFLATED))
add("scalar, empty and one", npz([("s.npy", npy(np.float32(3))), ("e.npy", npy(np.zeros((0, 3), "f8"))), ("o.npy", npy(np.ones((1, 1), "i4", order="F")))]))
add("names", npz([("layer/w.npy", npy(cube)), ("../x.npy", npy(cube)), ("é.npy", npy(cube)), (".npy", npy(cube)), ("readme.txt", b"no array")]))
add("no arrays", npz([]))
b = io.BytesIO()
np.savez(b, a=cube, b=np.arange(3))
add("savez", b.getvalue())
b = io.BytesIO()
np.savez_compressed(b, a=cube, b=np.arange(3))
add("savez_compressed", b.getvalue())
add("objects", npz([("a.npy", npy(np.array([{}, []], dtype=object), pickle=True))]))
add("structured", npz([("a.npy", npy(np.zeros(2, dtype=[("x", "f4"), ("y", "i4")])))]))
add("bfloat16 as V2", npz([("a.npy", npy(np.zeros(2, "V2")))]))
add("text", npz([("a.npy", npy(np.array(["ab", "c"])))]))
add("bytes", npz([("a.npy", npy(np.array([b"ab", b"c"])))]))
add("dates", npz([("a.npy", npy(np.array(["2020-01-01"], "M8[D]")))]))
add("long double", npz([("a.npy", npy(np.zeros(2, np.longdouble)))]))
add("complex128", npz([("a.npy", npy(np.zeros(2, "c16")))]))
ok = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
for name, text in {
    "as written": ok, "other order": "{'shape': (2,), 'descr': '<f4', 'fortran_order': False}", "double quotes": ok.replace("'", '"'), "spaces": ok.replace(" ", "   "), "no spaces": ok.replace(" ", ""),
    "L": ok.replace("2,", "2L,"), "native": ok.replace("<", "="), "no order": ok.replace("<", ""), "bar": ok.replace("<", "|"), "no shape": "{'descr': '<f4', 'fortran_order': False}",
    "one more key": ok.replace("}", "'x': 1}"), "key twice": ok.replace("{", "{'descr': '<f4', "), "no comma": ok.replace("2,", "2"), "list": ok.replace("(2,)", "[2]"), "number": ok.replace("(2,)", "2"),
    "negative": ok.replace("2,", "-2,"), "float": ok.replace("2,", "2.0,"), "huge": ok.replace("2,", "9223372036854775807,"), "above int64": ok.replace("2,", "9223372036854775808,"),
    "overflow": ok.replace("2,", "4294967296,4294967296,"), "zero beside huge": ok.replace("2,", "0,9223372036854775807,"), "cut": ok[:-1], "rest": ok + "x", "second": ok + ok, "order 1": ok.replace("False", "1"), "order false": ok.replace("False", "false"),
    "code": ok.replace("(2,)", "__import__('os')"), "empty": "", "a list": "[]", "type f3": ok.replace("f4", "f3"), "type f16": ok.replace("f4", "f16"), "type O": ok.replace("<f4", "|O"), "type F4": ok.replace("f4", "F4"), "name not closed": "{'descr", "three": ok.replace("2,", "3,"), "one": ok.replace("2,", "1,"), "comma first": ok.replace("2,", ",2"), "two commas": ok.replace("2,", "2,,"),
}.items():
    add("header: " + name, npz([("a.npy", raw(text, b"\0\0\200?\0\0\0@"))]))
add("header: not padded", npz([("a.npy", raw(ok, b"\0\0\200?\0\0\0@", pad=False))]))
add("header: version 4", npz([("a.npy", raw(ok, b"\0" * 8, version=4))]))
add("header: version 0", npz([("a.npy", raw(ok, b"\0" * 8, version=0))]))
add("header: magic", npz([("a.npy", b"\x93NUMPX" + raw(ok, b"\0" * 8)[6:])]))
whole = raw(ok, b"\0\0\200?\0\0\0@")
for n in [0, 5, 6, 8, 9, 10, 20, len(whole) - 1]:
    add(f"entry cut after {n}", npz([("a.npy", whole[:n])]))
add("entry of one byte more", npz([("a.npy", whole + b"\0")]))
good = npz([("a.npy", npy(cube))])
for n in [0, 1, 4, 30, len(good) - 23, len(good) - 22, len(good) - 1]:
    add(f"archive cut after {n}", good[:n])
i = good.index(npy(cube)) + 200
add("archive: a flipped bit", good[:i] + bytes([good[i] ^ 1]) + good[i + 1:])
add("archive: bytes in front", b"front" + good)
add("not an archive", b"\x80\x04." + bytes(50))
add("an npy file", npy(cube))

written = os.path.join(os.path.dirname(os.path.abspath(__file__)), "written.npz")
with np.load(written) as z:
    assert z.files == ["hidden/w", "count", "half", "é"], z.files
    assert np.array_equal(z["hidden/w"], np.arange(6, dtype="<f4").reshape(2, 3)) and z["hidden/w"].dtype == np.float32
    assert z["count"].shape == () and z["count"] == 7 and z["count"].dtype == np.int64
    assert np.array_equal(z["half"], np.array([1, -2], "f2")) and z["half"].dtype == np.float16
    assert z["é"].shape == (0, 3) and z["é"].dtype == np.bool_
print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
