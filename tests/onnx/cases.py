#!/usr/bin/env python3
"""Which cases of ONNX's backend suite need what sinter leaves out, told from the models alone.

    cases.py FOLDER                the list, a line a case: NAME, a tab, the reason (tests/onnx/excluded.txt holds it)
    cases.py FOLDER --check FILE   exit 1 and show lines that differ, for the cases that FOLDER has
    cases.py FOLDER --results F... F hold lines of `sinter-onnx --suite`: how many of the cases that are not listed are ok, and the others
    cases.py FOLDER --light TO     FOLDER/NAME.onnx with NAME_output_0.pb beside it, as cases below TO: their input is i / count
    cases.py MODEL --show          nodes of one model

Without FOLDER it is $SINTER_ONNX_SUITE; without that, too, the script ends with 77.
"""
import argparse
import os
import shutil
import struct
import sys

STRING_OPERATORS = {"StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"}


def fields(data):
    """(number, value) of a protobuf message; values are ints or bytes."""
    at = 0

    def varint():
        nonlocal at
        shift = result = 0
        while True:
            byte = data[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = varint() if kind == 2 else {1: 8, 5: 4}[kind]
        yield key >> 3, data[at:at + size]
        at += size


def parts(data, number):
    return [v for k, v in fields(data) if k == number]


def first(data, number, otherwise=b""):
    found = parts(data, number)
    return found[0] if found else otherwise


def nodes_of(graph):
    """(domain, operator, node) of a graph and those within."""
    for node in parts(graph, 1):
        yield first(node, 7).decode(), first(node, 4).decode(), node
        for attribute in parts(node, 5):
            for inner in parts(attribute, 6):
                yield from nodes_of(inner)


def element_types(type_proto):
    """TensorProto.DataType of a TypeProto and those within."""
    for number, value in fields(type_proto):
        if number == 1:
            yield first(value, 1, 0)
        elif number in (4, 9) and isinstance(value, bytes):
            for inner in parts(value, 1):
                yield from element_types(inner)


def reason_of(model):
    """Why a case is left out, or None."""
    graph = first(model, 7)
    operators = {(domain, name) for domain, name, _ in nodes_of(graph)}
    for function in parts(model, 25):
        for node in parts(function, 7):
            operators.add((first(node, 7).decode(), first(node, 4).decode()))
    for domain, name in sorted(operators):
        if name in STRING_OPERATORS:
            return "string operator " + name
        if name == "ImageDecoder":
            return "image decoder"
        if domain == "ai.onnx.ml":
            return "ai.onnx.ml operator " + name
        if domain.startswith("ai.onnx.preview.training") or domain == "ai.onnx.training":
            return "training operator " + name
    types = set()
    for info in parts(graph, 11) + parts(graph, 12):
        for t in parts(info, 2):
            types.update(element_types(t))
    if 8 in types:
        return "string elements in " + ", ".join(sorted(name for _, name in operators))
    return None


def cases_of(folder):
    for root, _, files in sorted(os.walk(folder)):
        if "model.onnx" in files:
            yield os.path.basename(root), os.path.join(root, "model.onnx")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def listed(folder):
    out = {}
    for name, path in cases_of(folder):
        why = reason_of(read(path))
        if why:
            out[name] = why
    return out


def show(path):
    model = read(path)
    print("opsets", [(first(o, 1).decode(), first(o, 2, 0)) for o in parts(model, 8)])

    def graph_text(graph, depth):
        pad = "  " * depth
        for what, number in (("in", 11), ("out", 12)):
            for info in parts(graph, number):
                t = first(info, 2)
                shapes = [[(first(d, 1, 0) if parts(d, 1) else first(d, 2).decode()) for s in parts(v, 2) for d in parts(s, 1)]
                          for k, v in fields(t) if k == 1]
                print(pad, what, first(info, 1).decode(), list(element_types(t)), shapes)
        for node in parts(graph, 1):
            print(pad, first(node, 7).decode(), first(node, 4).decode(), [i.decode() for i in parts(node, 1)], "->",
                  [o.decode() for o in parts(node, 2)])
            for a in parts(node, 5):
                inner = parts(a, 6)
                print(pad, "  .", first(a, 1).decode(), [(k, v if not isinstance(v, bytes) or len(v) < 60 else "...")
                                                         for k, v in fields(a) if k not in (1, 6)])
                for g in inner:
                    graph_text(g, depth + 2)

    graph_text(first(model, 7), 0)


def kept_list(path):
    with open(path) as f:
        return dict(line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#"))


def results(paths, left_out):
    right, wrong = 0, []
    for path in paths:
        with open(path) as f:
            for line in f:
                name, _, said = line.rstrip("\n").partition(": ")
                name = os.path.basename(name)
                if not said or name in left_out:
                    continue
                right += said == "ok"
                if said != "ok":
                    wrong.append(name + ": " + said[:160])
    for line in wrong:
        print(line)
    total = right + len(wrong)
    print(f"{right} of {total} cases that are not left out are ok: {100 * right / max(total, 1):.2f} %")
    return 0


def varint_of(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def ramp(extents):
    """A TensorProto of f32: element i of n is i / n."""
    count = 1
    for e in extents:
        count *= e
    raw = struct.pack(f"<{count}f", *(i / count for i in range(count)))
    dims = b"".join(b"\x08" + varint_of(e) for e in extents)
    return dims + b"\x10\x01" + b"\x4a" + varint_of(len(raw)) + raw


def lay_out(folder, to):
    for name in sorted(os.listdir(folder)):
        output = os.path.join(folder, name[:-5] + "_output_0.pb")
        if not name.endswith(".onnx") or not os.path.exists(output):
            continue
        graph = first(read(os.path.join(folder, name)), 7)
        given = {first(t, 8) for t in parts(graph, 5)}
        case = os.path.join(to, name[:-5])
        os.makedirs(os.path.join(case, "test_data_set_0"), exist_ok=True)
        shutil.copy(os.path.join(folder, name), os.path.join(case, "model.onnx"))
        shutil.copy(output, os.path.join(case, "test_data_set_0", "output_0.pb"))
        inputs = [i for i in parts(graph, 11) if first(i, 1) not in given]
        for k, info in enumerate(inputs):
            shape = first(first(first(info, 2), 1), 2)
            with open(os.path.join(case, "test_data_set_0", f"input_{k}.pb"), "wb") as f:
                f.write(ramp([first(d, 1, 0) for d in parts(shape, 1)]))
    return 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", nargs="?", default=os.environ.get("SINTER_ONNX_SUITE", ""))
    p.add_argument("--check")
    p.add_argument("--results", nargs="+")
    p.add_argument("--light")
    p.add_argument("--show", action="store_true")
    a = p.parse_args()
    if not a.folder:
        print("skipped: no folder of ONNX's cases is given, nor $SINTER_ONNX_SUITE set")
        return 77
    if a.light:
        return lay_out(a.folder, a.light)
    if a.show:
        show(a.folder)
        return 0
    found = listed(a.folder)
    if a.results:
        return results(a.results, found)
    if not a.check:
        for name in sorted(found):
            print(name + "\t" + found[name])
        return 0
    kept = kept_list(a.check)
    here = {name for name, _ in cases_of(a.folder)}
    wrong = [n for n in sorted(here) if found.get(n) != kept.get(n)]
    for n in wrong:
        print(f"{n}: {a.check} has {kept.get(n)!r}, the model says {found.get(n)!r}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
