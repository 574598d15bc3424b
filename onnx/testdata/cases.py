"""Writes the node cases of the onnx package to a zip file: python3 onnx/testdata/cases.py FILE [NAME... | --like FILE]

Each case is a folder: model.onnx, in_N.pb and out_N.pb, which are TensorProtos. A value that is no
tensor has the suffix .other and no contents. cases.json lists them. Without names all are written, with --like those of another file:

    python3 onnx/testdata/cases.py /tmp/all.zip
    python3 onnx/testdata/cases.py /tmp/some.zip --like onnx/testdata/cases.zip
"""

import json
import sys
import warnings
import zipfile

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

warnings.simplefilter("ignore")
wanted = set(sys.argv[2:])
if "--like" in wanted:
    with zipfile.ZipFile(sys.argv[3]) as z:
        wanted = {c["name"] for c in json.loads(z.read("cases.json"))}
listed = []
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as z:

    def write(name, data):  # the same bytes each time
        z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED, 9)

    def values(folder, kind, all_values):
        for i, v in enumerate(all_values):
            if isinstance(v, (np.ndarray, np.generic)):
                v = numpy_helper.from_array(np.asarray(v))
            if isinstance(v, TensorProto):
                write(f"{folder}/{kind}_{i}.pb", v.SerializeToString())
            else:
                write(f"{folder}/{kind}_{i}.other", b"")

    operators = {}
    for case in sorted(collect_testcases(None), key=lambda c: c.name):
        nodes = case.model.graph.node
        base, expanded, _ = case.name.partition("_expanded")
        if not expanded:
            operators[base] = nodes[0].op_type
            if nodes[0].domain not in ("", "ai.onnx"):
                operators[base] = nodes[0].domain + "." + operators[base]
        if wanted and case.name not in wanted:
            continue
        inputs, outputs = case.data_sets[0]
        write(f"{case.name}/model.onnx", case.model.SerializeToString())
        values(case.name, "in", inputs)
        values(case.name, "out", outputs)
        listed.append({"name": case.name, "operator": operators.get(base, nodes[0].op_type), "expanded": bool(expanded), "rtol": case.rtol,
                       "atol": case.atol, "inputs": len(inputs), "outputs": len(outputs)})
    write("cases.json", json.dumps(listed))
