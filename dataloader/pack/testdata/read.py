import json, struct
import numpy as np

TYPES = {"float32": "<f4", "float64": "<f8", "uint8": "u1", "int32": "<i4", "int64": "<i8",
         "float16": "<f2", "bfloat16": "<u2", "encoded": [("offset", "<u8"), ("bytes", "<u8")]}

def read(path):
    """Maps the records of a pack as an array with the names of the fields."""
    with open(path, "rb") as f:
        magic, n, _ = struct.unpack("<8sII", f.read(16))
        assert magic == b"EVKPACK1", f"{path} is no pack"
        d = json.loads(f.read(n))
    fields = d["fields"]
    record = np.dtype({"names": [f["name"] for f in fields], "offsets": [f["offset"] for f in fields],
                       "formats": [(TYPES[f["type"]], tuple(f["shape"])) for f in fields], "itemsize": d["record"]})
    return np.memmap(path, record, "r", d["records"], (d["count"],))
