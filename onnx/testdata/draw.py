"""Writes random cases of single operators, with the outputs of onnxruntime: python3 onnx/testdata/draw.py FILE [COUNT [SEED [some]]]

The file is as that of cases.py. Attributes, shapes and opsets are drawn; what onnxruntime refuses is left out.
With some, only the first small case of each kind is written: drawn.zip is of 1500 9 some.
"""

import json
import sys
import warnings
import zipfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

warnings.simplefilter("ignore")
onnxruntime.set_default_logger_severity(4)
count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
r = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 1)


def ints(low, high, n=None):
    x = r.integers(low, high + 1, n)
    return int(x) if n is None else [int(v) for v in x]


def choice(*xs):
    return xs[int(r.integers(len(xs)))]


def normal(*shape):
    return r.normal(size=shape).astype(np.float32)


def image(n, low=3, high=8):
    return [ints(1, 3), choice(2, 4, 6)] + ints(low, high, n)


def i64(xs):
    return np.array(xs, np.int64)


def pads(n, kernel):
    return [min(ints(0, 2), kernel[i % n] - 1) for i in range(2 * n)]


def maybe(attributes, **more):
    for k, v in more.items():
        if r.random() < 0.5:
            attributes[k] = v
    return attributes


def conv():
    n = ints(1, 3)
    x, g = image(n), choice(1, 2)
    kernel, o = ints(1, 3, n), g * ints(1, 3)
    a = maybe({"group": g}, strides=ints(1, 3, n), dilations=ints(1, 2, n), pads=ints(0, 2, 2 * n))
    if n < 3 and r.random() < 0.2:
        a.pop("pads", None)
        a.pop("dilations", None)
        a["auto_pad"] = choice("SAME_UPPER", "SAME_LOWER", "VALID")
    return "Conv", [normal(*x), normal(o, x[1] // g, *kernel)] + ([normal(o)] if r.random() < 0.5 else []), a, 1


def conv_transpose():
    n = ints(1, 3)
    x, g = image(n, 2, 5), choice(1, 2)
    kernel, o = ints(1, 3, n), ints(1, 3)
    strides = ints(1, 3, n)
    a = maybe({"group": g, "strides": strides}, dilations=ints(1, 2, n), pads=ints(0, 1, 2 * n), output_padding=[ints(0, s - 1) for s in strides])
    return "ConvTranspose", [normal(*x), normal(x[1], o, *kernel)] + ([normal(o * g)] if r.random() < 0.5 else []), a, 1


def pool(op):
    n = ints(1, 3)
    kernel = ints(1, 3, n)
    a = maybe({"kernel_shape": kernel}, strides=ints(1, 3, n), pads=pads(n, kernel), ceil_mode=ints(0, 1))
    if op != "LpPool" and r.random() < 0.3:
        a["dilations"] = ints(1, 2, n)
    if op == "AveragePool" and r.random() < 0.5:
        a["count_include_pad"] = 1
    if op == "LpPool":
        a.pop("ceil_mode", None)
        a["p"] = ints(1, 3)
    if r.random() < 0.2:
        for k in ("pads", "ceil_mode", "dilations"):
            a.pop(k, None)
        a["auto_pad"] = choice("SAME_UPPER", "SAME_LOWER", "VALID")
    outputs = 1
    if op == "MaxPool" and r.random() < 0.4:
        outputs = 2
        if n == 2:
            a["storage_order"] = ints(0, 1)
    return op, [normal(*image(n))], a, outputs


def resize():
    n = ints(1, 2)
    x = image(n, 2, 7)
    mode = choice("nearest", "linear", "cubic" if n == 2 else "linear")
    a = {"mode": mode, "coordinate_transformation_mode": choice("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")}
    if mode == "nearest":
        a["nearest_mode"] = choice("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    elif mode == "cubic":
        maybe(a, cubic_coeff_a=-0.5, exclude_outside=1)
    if mode != "nearest" and a["coordinate_transformation_mode"] != "align_corners" and r.random() < 0.3:
        a["antialias"] = 1
    none = np.zeros(0, np.float32)
    if r.random() < 0.5:
        return "Resize", [normal(*x), none, none, i64(x[:2] + ints(1, 12, n))], a, 1
    if a["coordinate_transformation_mode"] == "align_corners":  # onnxruntime rounds the size first, the reference does not
        return "Resize", [normal(*x), none, np.array([1, 1] + [choice(2, 3) for _ in range(n)], np.float32)], a, 1
    scales = [1, 1] + [choice(0.5, 0.6, 1.5, 2, 3, 2.5) for _ in range(n)]
    return "Resize", [normal(*x), none, np.array(scales, np.float32)], a, 1


def norm(op):
    x = image(ints(1, 3), 2, 4)
    a = maybe({}, epsilon=0.01)
    c = x[1]
    if op == "BatchNormalization":
        return op, [normal(*x), normal(c), normal(c), normal(c), np.abs(normal(c)) + 0.1], a, 1
    if op == "InstanceNormalization":
        return op, [normal(*x), normal(c), normal(c)], a, 1
    if op == "GroupNormalization":
        return op, [normal(*x), normal(c), normal(c)], {**a, "num_groups": choice(1, 2)}, 1
    k = ints(0, len(x) - 1)
    return op, [normal(*x), normal(*x[k:])] + ([normal(*x[k:])] if op == "LayerNormalization" and r.random() < 0.5 else []), {**a, "axis": choice(k, k - len(x))}, 1


def shape(low=1, high=4, most=4):
    return ints(1, most, ints(low, high))


def reduction(op):
    x = shape()
    axes = [int(a) for a in r.permutation(len(x))[: ints(0, len(x))]]
    axes = [a - len(x) if r.random() < 0.3 else a for a in axes]
    data = normal(*x)
    if op == "ReduceLogSum":
        data = np.abs(data) + 0.1
    return op, [data] + ([i64(axes)] if axes or r.random() < 0.3 else []), maybe({}, keepdims=ints(0, 1), noop_with_empty_axes=ints(0, 1)), 1


def slices():
    x = shape(1, 3, 6)
    axes = [int(a) for a in r.permutation(len(x))[: ints(1, len(x))]]
    starts = [ints(-x[a] - 1, x[a]) for a in axes]
    ends = [ints(-x[a] - 1, x[a] + 2) for a in axes]
    steps = [choice(1, 2, 3, -1, -2) for _ in axes]
    return "Slice", [normal(*x), i64(starts), i64(ends), i64(axes), i64(steps)], {}, 1


def pad():
    x = shape(1, 4, 5)
    mode = choice("constant", "edge", "reflect", "wrap")
    most = [2 if mode == "constant" else max(0, min(2, d - 1)) for d in x]
    widths = [ints(0, most[i % len(x)]) for i in range(2 * len(x))]
    return "Pad", [normal(*x), i64(widths)] + ([np.float32(1.5)] if mode == "constant" and r.random() < 0.5 else []), {"mode": mode}, 1


def gather(op):
    x = shape(1, 3, 5)
    k = ints(0, len(x) - 1)
    a = {"axis": choice(k, k - len(x))}
    if op == "Gather":
        return op, [normal(*x), r.integers(-x[k], x[k], shape(0, 2, 3)).astype(np.int64)], a, 1
    index = [ints(1, d) for d in x]
    index[k] = ints(1, 4)
    at = r.integers(-x[k], x[k], index).astype(np.int64)
    if op == "GatherElements":
        return op, [normal(*x), at], a, 1
    mode = choice("none", "add", "mul", "max", "min")
    if mode == "none":
        index[k] = ints(1, x[k])
        at = np.argsort(r.random(index[:k] + [x[k]] + index[k + 1 :]), axis=k).take(range(index[k]), axis=k).astype(np.int64)
    return op, [normal(*x), at, normal(*index)], {**a, "reduction": mode}, 1


def nd(op):
    x = shape(2, 4, 4)
    b = ints(0, 1) if op == "GatherND" else 0
    depth = ints(1, len(x) - b)
    lead = x[:b] + ints(1, 3, ints(1, 2))
    at = np.stack([r.integers(-x[b + i], x[b + i], lead) for i in range(depth)], -1).astype(np.int64)
    if op == "GatherND":
        return op, [normal(*x), at], {"batch_dims": b}, 1
    mode = choice("add", "mul", "max", "min")
    return op, [normal(*x), at, normal(*lead, *x[depth:])], {"reduction": mode}, 1


def product():
    if r.random() < 0.5:
        m, k, n = ints(1, 4, 3)
        ta, tb = ints(0, 1, 2)
        a = maybe({"transA": ta, "transB": tb}, alpha=0.5, beta=-2.0)
        c = choice([], [normal(n)], [normal(m, n)], [normal(1, n)], [normal(m, 1)], [normal(1)], [np.float32(3)])
        return "Gemm", [normal(*((k, m) if ta else (m, k))), normal(*((n, k) if tb else (k, n)))] + c, a, 1
    lead = shape(0, 2, 3)
    drop = [1 if r.random() < 0.3 else d for d in lead][ints(0, len(lead)) :]
    m, k, n = ints(1, 4, 3)
    a, b = normal(*lead, m, k), normal(*drop, k, n)
    if r.random() < 0.2:
        a = normal(k)
    if r.random() < 0.2:
        b = normal(k)
    return "MatMul", choice([a, b], [a, b]), {}, 1


def grid():
    n = choice(2, 2, 3)
    x = image(n, 2, 5)
    places = r.uniform(-1.5, 1.5, [x[0]] + ints(1, 4, n) + [n]).astype(np.float32)
    mode = choice("linear", "nearest") if n == 3 else choice("linear", "nearest", "cubic")
    return "GridSample", [normal(*x), places], {"mode": mode, "padding_mode": choice("zeros", "border", "reflection"), "align_corners": ints(0, 1)}, 1


def integers():
    t = choice(np.int64, np.int32)
    x = shape(1, 3, 4)
    y = [1 if r.random() < 0.3 else d for d in x]
    low = choice(-50, -3)
    a = r.integers(low, 50, x).astype(t)
    if r.random() < 0.5:
        axes = [int(k) for k in r.permutation(len(x))[: ints(1, len(x))]]
        return choice("ReduceSum", "ReduceMax", "ReduceMin"), [a, i64(axes)], maybe({}, keepdims=ints(0, 1)), 1
    op = choice("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Less", "Equal", "GreaterOrEqual")
    b = r.integers(1, 4, y) if op == "Pow" else r.choice([-7, -3, -1, 1, 2, 5], y)
    return op, [a, b.astype(t)], {}, 1


def recurrent(op):
    t, b, i, h = ints(1, 5), ints(1, 3), ints(1, 4), ints(1, 4)
    gates = {"RNN": 1, "LSTM": 4, "GRU": 3}[op]
    way = choice("forward", "reverse", "bidirectional")
    d = 2 if way == "bidirectional" else 1
    inputs = [normal(t, b, i), normal(d, gates * h, i), normal(d, gates * h, h)]
    a = {"hidden_size": h, "direction": way}
    if r.random() < 0.7:
        inputs.append(normal(d, 2 * gates * h))
        if r.random() < 0.5:
            inputs += [None, normal(d, b, h)] + ([normal(d, b, h)] if op == "LSTM" else [])
    if op == "GRU":
        a["linear_before_reset"] = ints(0, 1)
    return op, inputs, a, 3 if op == "LSTM" else 2


def others():
    x = shape(1, 4, 4)
    k = ints(0, len(x) - 1)
    axis = choice(k, k - len(x))
    y = normal(*x)
    op = choice("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "TopK", "CumSum", "Split", "Concat", "Tile", "Expand", "Transpose", "Flatten", "Trilu", "LpNormalization", "LRN", "Clip", "Einsum", "DepthToSpace", "SpaceToDepth", "Round", "Compress", "ReverseSequence", "OneHot", "Where", "PRelu")
    if op in ("Softmax", "LogSoftmax", "Hardmax"):
        return op, [y], {"axis": axis}, 1
    if op in ("ArgMax", "ArgMin"):
        return op, [np.round(y)], maybe({"axis": axis}, keepdims=ints(0, 1), select_last_index=ints(0, 1)), 1
    if op == "TopK":
        return op, [y, i64([ints(1, x[k])])], {"axis": axis, "largest": ints(0, 1)}, 2
    if op == "CumSum":
        return op, [y, i64(axis)], maybe({}, exclusive=1, reverse=1), 1
    if op == "Split":
        cut = ints(0, x[k])
        return op, [y, i64([cut, x[k] - cut])], {"axis": axis}, 2
    if op == "Concat":
        z = list(x)
        z[k] = ints(1, 3)
        return op, [y, normal(*z)], {"axis": axis}, 1
    if op == "Tile":
        return op, [y, i64(ints(1, 3, len(x)))], {}, 1
    if op == "Expand":
        z = [1 if r.random() < 0.5 else d for d in x]
        return op, [normal(*z), i64(x[ints(0, len(x) - 1) :] if r.random() < 0.3 else [2] + x)], {}, 1
    if op == "Transpose":
        return op, [y], {"perm": [int(p) for p in r.permutation(len(x))]}, 1
    if op == "Flatten":
        return op, [y], {"axis": ints(-len(x), len(x))}, 1
    if op == "Trilu":
        z = normal(*x, 3)
        return op, [z, i64(ints(-3, 3))], {"upper": ints(0, 1)}, 1
    if op == "LpNormalization":
        return op, [y], {"axis": axis, "p": ints(1, 2)}, 1
    if op == "LRN":
        return op, [normal(*image(2))], maybe({"size": choice(1, 3, 5)}, alpha=0.5, beta=0.6, bias=2.0), 1
    if op == "Clip":
        return op, [y] + choice([], [np.float32(-0.5)], [None, np.float32(0.5)], [np.float32(-0.5), np.float32(0.5)]), {}, 1
    if op == "Einsum":
        sizes = dict(zip("abcd", ints(1, 4, 4)))
        terms = ["".join(r.permutation(list("abcd"))[: ints(1, 3)]) for _ in range(ints(1, 2))]
        used = sorted(set("".join(terms)))
        result = "".join(r.permutation(used)[: ints(0, len(used))])
        return op, [normal(*[sizes[l] for l in t]) for t in terms], {"equation": ",".join(terms) + "->" + result}, 1
    if op in ("DepthToSpace", "SpaceToDepth"):
        b = choice(1, 2)
        return op, [normal(2, 4, 2 * ints(1, 2), 2)], {"blocksize": b, **({"mode": choice("DCR", "CRD")} if op == "DepthToSpace" else {})}, 1
    if op == "Round":
        return op, [np.round(4 * y) / 2], {}, 1
    if op == "Compress":
        keep = r.random(x[k]) < 0.6
        keep[0] = True
        return op, [y, keep], {"axis": axis}, 1
    if op == "ReverseSequence":
        z, b = shape(2, 4, 4), ints(0, 1)
        return op, [normal(*z), r.integers(1, z[1 - b] + 1, z[b]).astype(np.int64)], {"batch_axis": b, "time_axis": 1 - b}, 1
    if op == "OneHot":
        return op, [r.integers(-4, 5, x).astype(np.int64), i64(ints(3, 5)), normal(2)], {"axis": ints(-len(x) - 1, len(x))}, 1
    if op == "Where":
        return op, [r.random(x) < 0.5, y, normal(*[1 if r.random() < 0.3 else d for d in x])], {}, 1
    return "PRelu", [y, normal(*x[k:])], {}, 1


makers = [integers, grid, conv, conv_transpose, lambda: pool(choice("MaxPool", "AveragePool", "LpPool")), resize, slices, pad, product, others, others,
          lambda: norm(choice("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization")),
          lambda: reduction("Reduce" + choice("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")),
          lambda: gather(choice("Gather", "GatherElements", "ScatterElements")), lambda: nd(choice("GatherND", "ScatterND")),
          lambda: recurrent(choice("RNN", "LSTM", "GRU"))]  # fmt: skip
some, kinds, tried = "some" in sys.argv, set(), 0
listed, refused = [], {}
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as z:

    def write(name, data):
        z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED, 9)

    while tried < count:
        op, inputs, attributes, outputs = makers[tried % len(makers)]() if r.random() < 0.5 else choice(*makers)()
        opset = {"RMSNormalization": 23, "GroupNormalization": 21, "GridSample": choice(20, 22)}.get(op, choice(18, 19, 20, 22))
        names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
        values = [np.asarray(x) for x in inputs if x is not None]
        results = [f"y{i}" for i in range(outputs)]
        infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in zip([n for n in names if n], values)]
        graph = helper.make_graph([helper.make_node(op, names, results, **attributes)], "g", infos, [onnx.ValueInfoProto(name=y) for y in results])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        try:
            model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
            del model.graph.output[:]
            inputs_type = helper.np_dtype_to_tensor_dtype(values[0].dtype)

            def type_of(y):
                if op in ("ArgMax", "ArgMin") or y == "y1" and op in ("TopK", "MaxPool"):
                    return TensorProto.INT64
                if op in ("Less", "Equal", "GreaterOrEqual"):
                    return TensorProto.BOOL
                return inputs_type if values[0].dtype in (np.int32, np.int64) and op != "OneHot" else TensorProto.FLOAT

            outs = [helper.make_tensor_value_info(y, type_of(y), None) for y in results]
            shapes = helper.make_model(helper.make_graph(graph.node, "g", infos, outs), opset_imports=model.opset_import, ir_version=10)
            known = {v.name: v for v in onnx.shape_inference.infer_shapes(shapes).graph.output}
            model.graph.output.extend(known[y] for y in results)
            s = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            got = s.run(None, dict(zip([n for n in names if n], values)))
        except Exception as e:
            refused[op] = refused.get(op, 0) + 1
            if "-v" in sys.argv:
                print(op, attributes, str(e)[:150], file=sys.stderr)
            continue
        tried += 1
        wide = op.startswith("Conv") and min(attributes.get("dilations", [1])[0], values[1].shape[2]) > 1
        kind = (op, "antialias" in attributes and attributes["mode"], values[0].ndim > 4, "dilations" in attributes, wide, values[0].dtype, len(got))
        small = sum(np.asarray(v).nbytes for v in values + got) < (4000 if values[0].ndim > 4 else 1200)
        if some and (kind in kinds or not small):
            continue
        kinds.add(kind)
        name = f"random_{len(listed)}_{op.lower()}"
        write(f"{name}/model.onnx", model.SerializeToString())
        for kind, all_values in (("in", values), ("out", got)):
            for i, v in enumerate(all_values):
                write(f"{name}/{kind}_{i}.pb", numpy_helper.from_array(np.asarray(v)).SerializeToString())
        listed.append({"name": name, "operator": op, "expanded": False, "rtol": 1e-4, "atol": 1e-5, "inputs": len(values), "outputs": len(got)})
    write("cases.json", json.dumps(listed))
print(len(listed), "cases; refused by onnxruntime:", refused)
