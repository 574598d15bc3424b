"""Writes reference.json: odd files and what Python's safetensors makes of them.

    pip install safetensors==0.8.0 numpy
    python reference.py > reference.json

A file is 8 bytes of length, head (base64) and some zeros. "tensors" is null if the reference refuses it,
else type, shape and number of bytes of each tensor by name. It also checks that the reference reads
written.safetensors, which the tests write.
"""

import base64
import json
import os
import struct

from safetensors import deserialize, safe_open

cases = []


def add(name, header, zeros=0, length=None, raw=None):
    if isinstance(header, str):
        header = header.encode()
    head = raw if raw is not None else struct.pack("<Q", len(header) if length is None else length) + header
    try:
        got = {n: [t["dtype"], t["shape"], len(t["data"])] for n, t in sorted(deserialize(head + bytes(zeros)))}
    except BaseException as e:  # a panic of the reference is a refusal too
        got = None
    cases.append({"name": name, "head": base64.b64encode(head).decode(), "zeros": zeros, "tensors": got})


def t(dtype="F32", shape="[1]", at="[0,4]", more=""):
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{at}{more}}}'


one = '{"a":' + t() + "}"
add("empty file", "", raw=b"")
for n in range(1, 8):
    add(f"{n} bytes", "", raw=bytes(n))
add("length 0", "")
add("empty header {}", "{}")
add("empty header {}, data", "{}", 1)
add("one tensor", one, 4)
add("cut by one", one, 3)
add("one byte more", one, 5)
add("no data", one)
add("length one too small", one, 4, len(one) - 1)
add("length one too large", one, 4, len(one) + 1)
add("length beyond the file", one, 4, len(one) + 5)
add("length 100000001", one, 4, 100_000_001)
add("length 2^63", one, 4, 1 << 63)
add("length 2^64-1", one, 4, (1 << 64) - 1)
for s in [" ", "\n\t\r ", "\0", "x", "{}", one, "\ufeff", ","]:
    add(f"{s[:3]!r} after", one + s, 4)
    add(f"{s[:3]!r} before", s + one, 4)
add("no object: array", "[" + t() + "]", 4)
add("no object: null", "null")
add("no object: text", '"a"')
add("no object: number", "1")
add("does not end", one[:-1], 4)
add("comma at the end", one[:-1] + ",}", 4)
add("comma at the beginning", "{," + one[1:], 4)
add("no colon", '{"a"' + t() + "}", 4)
add("name without quotes", "{a:" + t() + "}", 4)
add("single quotes", "{'a':" + t() + "}", 4)
add("comment", "{/**/" + one[1:], 4)
# names
for what, name in {"empty": "", "path": "../../x", "slash": "a/b", "NUL": "\\u0000", "escapes": "\\\"\\\\\\/\\b\\f\\n\\r\\t", "unknown escape": "\\x41",
                   "pair": "\\ud83d\\ude00", "lone high": "\\ud83d", "lone low": "\\ude00", "two highs": "\\ud83d\\ud83d", "high then text": "\\ud83dabcdef", "high then escape": "\\ud83d\\n",
                   "short hex": "\\u12", "bad hex": "\\u12g4", "capital hex": "\\u00E9", "control": "\x01", "newline": "\n", "DEL": "\x7f", "emoji": "\U0001f600", "long": "n" * 5000}.items():
    add("name: " + what, f'{{"{name}":' + t() + "}", 4)
add("name: not UTF-8", b'{"\xff":' + t().encode() + b"}", 4)
add("name: overlong UTF-8", b'{"\xc0\x80":' + t().encode() + b"}", 4)
add("name: surrogate in UTF-8", b'{"\xed\xa0\x80":' + t().encode() + b"}", 4)
add("name: cut UTF-8", b'{"\xe2\x82":' + t().encode() + b"}", 4)
add("name does not end", '{"a')
add("name ends in a backslash", '{"a\\')
add("twice, same place", '{"a":' + t() + ',"a":' + t() + "}", 4)
add("twice, two places", '{"a":' + t() + ',"a":' + t(at="[4,8]") + "}", 8)
add("twice by an escape", '{"a":' + t() + ',"\\u0061":' + t() + "}", 4)
# members of a tensor
add("order of members", '{"a":{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}}', 4)
for m in ["dtype", "shape", "data_offsets"]:
    d = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    del d[m]
    add("without " + m, json.dumps({"a": d}), 4)
    d[m] = None
    add(m + " null", json.dumps({"a": d}), 4)
    d[m] = {}
    add(m + " an object", json.dumps({"a": d}), 4)
    d[m] = 4
    add(m + " a number", json.dumps({"a": d}), 4)
add("dtype twice", '{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4)
add("shape twice", '{"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}}', 4)
add("capitals in a member", '{"a":{"DType":"F32","shape":[1],"data_offsets":[0,4]}}', 4)
add("one more member", '{"a":' + t(more=',"x":1') + "}", 4)
add("one more member, twice", '{"a":' + t(more=',"x":1,"x":2') + "}", 4)
for v in ["null", "true", "false", "-0.5e-3", "1e999", "-", "01", "1.", ".5", "1e", "+1", "NaN", "tru", "truex", '"', "[1,]", "[,1]", "[1 2]", '{"b":1,}', '{"b" 1}', "{1:2}", "[", "{", "]", "1e400", "1e-400",
          "123456789012345678901234567890"]:
    add("one more member: " + v, '{"a":' + t(more=',"x":' + v) + "}", 4)
for n in [1, 100, 124, 125, 126, 127, 128, 129, 1000]:
    add(f"arrays {n} deep", '{"a":' + t(more=',"x":' + "[" * n + "]" * n) + "}", 4)
    add(f"objects {n} deep", '{"a":' + t(more=',"x":' + '{"y":' * n + "1" + "}" * n) + "}", 4)
add("a tensor as an array", '{"a":["F32",[1],[0,4]]}', 4)
add("a tensor null", '{"a":null}')
add("a tensor a text", '{"a":"b"}')
add("a tensor empty", '{"a":{}}')
# types
for dtype in "BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 I64 U64 F64 C64 C128 F4 F6_E2M3 F6_E3M2 F8 F128 I4 U4 BF8 E8M0 f32 F32\\u0020 float32 FLOAT".split() + [""]:
    for n in [1, 2, 3, 4, 8]:
        for bits in [n * 4, n * 6, n * 8, n * 16, n * 32, n * 64]:
            if bits % 8 == 0 or n == 1:
                if n in (1, 4) or dtype[:2] in ("F4", "F6"):
                    add(f"{dtype} [{n}] in {bits // 8} bytes", '{"a":' + t(dtype, f"[{n}]", f"[0,{bits // 8}]") + "}", bits // 8)
# shapes
for shape in ["[]", "[0]", "[1,1,1]", "[2,3]", "[-1]", "[-0]", "[1.0]", "[1e0]", "[01]", "[null]", "[true]", '["1"]', "[[1]]", "[1,]", "null", "1", '"[1]"',
              "[0,9223372036854775807]", "[9223372036854775807,0]", "[9223372036854775807,2,0]", "[9223372036854775807,3,0]", "[0,9223372036854775807,9223372036854775807]",
              "[9223372036854775808,0]", "[0,9223372036854775808]", "[18446744073709551615,0]", "[18446744073709551616,0]", "[4294967296,4294967296]",
              "[4294967296,4294967296,0]", "[0,4294967296,4294967296]", "[2305843009213693952]", "[4611686018427387904]", "[1073741825,4294967296]", "[" + "1," * 999 + "1]"]:
    for end in [0, 4, 24]:
        add(f"shape {shape[:60]} in {end} bytes", '{"a":' + t(shape=shape, at=f"[0,{end}]") + "}", end)
# places
for at in ["[]", "[0]", "[0,4,8]", "[4,0]", "[-4,0]", "[0,-4]", "[0,4.0]", "[0,4e0]", "[0,null]", "[null,4]", "null", '["0","4"]', "[0,18446744073709551615]", "[18446744073709551612,0]",
           "[0,18446744073709551616]", "[1,5]", "[0,5]", "[0,3]", "{}", '{"0":0,"1":4}', "[9223372036854775804,9223372036854775808]"]:
    add(f"place {at}", '{"a":' + t(at=at) + "}", 4)
two = lambda a, b, zeros, x="F32", y="F32", sx="[1]", sy="[1]": add(f"places {a} {b} of {zeros}, {x} {sx} {y} {sy}", '{"a":' + t(x, sx, a) + ',"b":' + t(y, sy, b) + "}", zeros)
two("[0,4]", "[4,8]", 8)
two("[4,8]", "[0,4]", 8)
two("[0,4]", "[0,4]", 4)
two("[0,4]", "[2,6]", 6)
two("[0,4]", "[5,9]", 9)
two("[4,8]", "[8,12]", 12)
two("[0,4]", "[4,8]", 9)
two("[0,4]", "[4,8]", 7)
two("[0,1]", "[1,5]", 5, "U8", "F32")
two("[0,0]", "[0,4]", 4, sx="[0]")
two("[0,4]", "[4,4]", 4, sy="[0]")
two("[0,4]", "[0,0]", 4, sy="[0]")
two("[0,4]", "[2,2]", 4, sy="[0]")
two("[0,0]", "[0,0]", 0, sx="[0]", sy="[0]")
two("[0,4]", "[5,5]", 4, sy="[0]")
# metadata
for m in ["null", "{}", '{"a":"b"}', '{"a":""}', '{"a":1}', '{"a":null}', '{"a":{}}', '{"a":["b"]}', '{"a":true}', "[]", '"a"', "1", '{"a":"b","a":"c"}', '{"a":"\\ud800"}', '{"":"\\u0000"}', '{"a":"b",}',
          '{"dtype":"F32","shape":"x","data_offsets":"y"}']:
    add("metadata " + m, '{"__metadata__":' + m + "," + one[1:], 4)
    add("only metadata " + m, '{"__metadata__":' + m + "}")
add("metadata twice", '{"__metadata__":{"a":"b"},"__metadata__":{"c":"d"},' + one[1:], 4)
add("metadata as a tensor", '{"__metadata__":' + t() + "}", 4)
add("metadata after", one[:-1] + ',"__metadata__":{"a":"b"}}', 4)
add("metadata by an escape", '{"\\u005f_metadata__":{"a":"b"},' + one[1:], 4)
add("metadata not UTF-8", b'{"__metadata__":{"a":"\xff"},' + one[1:].encode(), 4)
# What the tests write is read, with metadata and checksum.
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "written.safetensors")
with open(path, "rb") as f:
    written = {n: (t["dtype"], t["shape"], bytes(t["data"])) for n, t in deserialize(f.read())}
with safe_open(path, "np") as f:
    assert set(f.metadata()) == {"format", "note", "evenkeel.checksum"} and f.metadata()["note"] == 'é\n"', f.metadata()
    assert len(f.metadata()["evenkeel.checksum"]) == 16
assert written == {
    "count": ("I64", [], bytes(range(8))),
    "none": ("F64", [0, 3], b""),
    "hidden/w": ("F32", [2, 1], bytes(range(8, 16))),
    'é\0"<': ("BF16", [3], bytes(range(16, 22))),
    "flags": ("BOOL", [1], bytes([22])),
}, written
print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
