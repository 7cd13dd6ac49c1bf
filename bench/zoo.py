#!/usr/bin/env python3
"""A folder of ONNX models, one after the other: what compiling and running each costs, beside ONNX Runtime and torch.compile.

    python3 bench/zoo.py PROGRAM ZOO [--only TEXT] [--seconds N] [--threads N] [--cuda] [--json FILE] [--ort LIBRARY] [--largest MB]
    python3 bench/zoo.py PROGRAM ZOO --batches | --train N | --kernels

PROGRAM is the built bench/zoo; ZOO has folders with model.onnx, input_K.npy and output_K.npy. A line a model: nodes of the file, kernels,
distinct ones, the first call where nothing is cached and where the kernels are on the disk, loading included, then a call (the median), the
largest memory in use and what it may be (1.5 times the weights, and the plan), and how many times the others take. ONNX Runtime is called by
its C interface where a libonnxruntime is found: --ort, SINTER_ORT, the package onnxruntime, or what ld.so knows; without one the
milliseconds of about.json stand there, on one thread of another machine, marked ~. torch.compile runs where torch and the package of the
architecture (torchvision, timm) are installed: its first call, and how many times its calls take. Last the geometric means, and why others
have no number.

--cuda: sinter and torch.compile on the first GPU, both in f32 without TF32; ONNX Runtime is not asked.

--kernels: where a call spends a GPU's time instead, see kernels.py.

--batches: calls at batches 1, 2 and 5 where the file has the first axis open, which must not compile after the second.
--train N: N steps of gradient descent; the loss must fall and the gradients be those of the reference backend.
"""
import argparse
import ctypes
import ctypes.util
import glob
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

from kernels import print_kernels

NPY = {"f4": 1, "u1": 2, "i1": 3, "u2": 4, "i2": 5, "i4": 6, "i8": 7, "b1": 9, "f2": 10, "f8": 11, "u4": 12, "u8": 13}


def read_npy(path):
    """(type in ONNX's numbers, extents, bytes)."""
    with open(path, "rb") as f:
        data = f.read()
    wide = data[6] > 1
    length = struct.unpack_from("<I" if wide else "<H", data, 8)[0]
    begin = (12 if wide else 10) + length
    header = data[begin - length:begin].decode("latin1")
    shape = re.search(r"'shape': \(([^)]*)\)", header).group(1)
    kind = re.search(r"'descr': '[<|=]?(\w+)'", header).group(1)
    return NPY[kind], [int(x) for x in shape.split(",") if x.strip()], data[begin:]


def arrays(folder, what):
    paths = (os.path.join(folder, f"{what}_{k}.npy") for k in range(100))
    out = []
    for path in paths:
        if not os.path.exists(path):
            break
        out.append(read_npy(path))
    return out


class Ort:
    """A session by the C interface: a table of functions, whose order does not change."""
    CREATE_ENV, CREATE_SESSION, RUN, CREATE_OPTIONS, SET_OPTIMISATION, SET_THREADS = 3, 7, 9, 10, 23, 24
    INPUT_COUNT, OUTPUT_COUNT, INPUT_NAME, OUTPUT_NAME, TENSOR_WITH_DATA = 30, 31, 36, 37, 49
    TENSOR_DATA, ELEMENT_COUNT, SHAPE_OF, CPU_MEMORY, ALLOCATOR, RELEASE_VALUE = 51, 64, 65, 69, 78, 96
    MESSAGE = 2

    def __init__(self, library, model, threads):
        lib = ctypes.CDLL(library)
        lib.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
        get = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(lib.OrtGetApiBase()[0])
        self.table = ctypes.cast(get(11), ctypes.POINTER(ctypes.c_void_p))
        env, options, self.session, self.memory, self.allocator = (ctypes.c_void_p() for _ in range(5))
        self.call(self.CREATE_ENV, 3, b"zoo", ctypes.byref(env))
        self.call(self.CREATE_OPTIONS, ctypes.byref(options))
        self.call(self.SET_THREADS, options, threads)
        self.call(self.SET_OPTIMISATION, options, 99)
        self.call(self.CREATE_SESSION, env, os.fsencode(model), options, ctypes.byref(self.session))
        self.call(self.CPU_MEMORY, 0, 0, ctypes.byref(self.memory))
        self.call(self.ALLOCATOR, ctypes.byref(self.allocator))
        self.inputs, self.outputs = (self.names(c, n) for c, n in ((self.INPUT_COUNT, self.INPUT_NAME),
                                                                   (self.OUTPUT_COUNT, self.OUTPUT_NAME)))

    def call(self, index, *given):
        status = ctypes.CFUNCTYPE(ctypes.c_void_p, *(type(x) if isinstance(x, ctypes._SimpleCData) else ctypes.c_char_p
                                                     if isinstance(x, bytes) else ctypes.c_int if isinstance(x, int)
                                                     else ctypes.c_void_p for x in given))(self.table[index])(*given)
        if status:
            raise RuntimeError(ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(self.table[self.MESSAGE])(status).decode())

    def names(self, count, name):
        n = ctypes.c_size_t()
        self.call(count, self.session, ctypes.byref(n))
        out = []
        for k in range(n.value):
            text = ctypes.c_char_p()
            self.call(name, self.session, ctypes.c_size_t(k), self.allocator, ctypes.byref(text))
            out.append(text.value)
        return out

    def feed(self, given):
        self.kept = [ctypes.create_string_buffer(data, max(1, len(data))) for _, _, data in given]
        self.values = (ctypes.c_void_p * len(given))()
        for k, (kind, extents, data) in enumerate(given):
            shape = (ctypes.c_int64 * len(extents))(*extents)
            value = ctypes.c_void_p()
            self.call(self.TENSOR_WITH_DATA, self.memory, self.kept[k], ctypes.c_size_t(len(data)), shape,
                      ctypes.c_size_t(len(extents)), kind, ctypes.byref(value))
            self.values[k] = value
        self.input_names = (ctypes.c_char_p * len(given))(*self.inputs[:len(given)])
        self.output_names = (ctypes.c_char_p * len(self.outputs))(*self.outputs)

    def run(self):
        out = (ctypes.c_void_p * len(self.outputs))()
        self.call(self.RUN, self.session, ctypes.c_void_p(), self.input_names, self.values, ctypes.c_size_t(len(self.values)),
                  self.output_names, ctypes.c_size_t(len(self.outputs)), out)
        return out

    def first_floats(self, out, count):
        data = ctypes.c_void_p()
        self.call(self.TENSOR_DATA, ctypes.c_void_p(out[0]), ctypes.byref(data))
        return list((ctypes.c_float * count).from_address(data.value))

    def release(self, out):
        for value in out:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.table[self.RELEASE_VALUE])(value)


def median_of(call):
    times, begin = [], time.perf_counter()
    while len(times) < 5 or (len(times) < 200 and time.perf_counter() - begin < 1.5):
        at = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - at))
        if len(times) > 1 and time.perf_counter() - begin > 20:
            break
    return sorted(times)[len(times) // 2]


def ort_one(library, folder, threads):
    session = Ort(library, os.path.join(folder, "model.onnx"), threads)
    session.feed(arrays(folder, "input"))
    kind, _, data = read_npy(os.path.join(folder, "output_0.npy"))
    if kind == NPY["f4"]:  # the table is read right
        count = min(len(data) // 4, 64)
        want = struct.unpack_from(f"<{count}f", data)
        out = session.run()
        got = session.first_floats(out, count)
        session.release(out)
        if max(abs(a - b) for a, b in zip(got, want)) > 1e-2 * max(1e-30, *map(abs, want)):
            raise RuntimeError("its results differ")
    return median_of(lambda: session.release(session.run()))


def ort_library(given):
    candidates = [given, os.environ.get("SINTER_ORT"), ctypes.util.find_library("onnxruntime")]
    for folder in sys.path:
        candidates += glob.glob(os.path.join(folder, "onnxruntime", "capi", "libonnxruntime.so*"))
    return next((c for c in candidates if c and (os.path.exists(c) or c.startswith("libonnxruntime"))), None)


def torch_one(folder, threads, cuda):
    """Milliseconds of the first call, and of a later one."""
    with open(os.path.join(folder, "about.json"), encoding="utf-8") as f:
        about = json.load(f)
    import torch
    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = False
    where = "cuda" if cuda else "cpu"
    if about["kind"] == "tv":
        import torchvision
        model = torchvision.models.get_model(about["name"], weights=None)
    elif about["kind"] == "timm":
        import timm
        model = timm.create_model(about["name"], pretrained=False)
    else:
        raise RuntimeError("no package has this architecture by name")
    inputs = [torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(extents).to(where)
              for _, extents, data in arrays(folder, "input")]
    compiled = torch.compile(model.eval().to(where))

    def call():
        compiled(*inputs)
        if cuda:
            torch.cuda.synchronize()
    with torch.no_grad():
        begin = time.perf_counter()
        call()
        return 1000 * (time.perf_counter() - begin), median_of(call)


def asked(words, seconds, environment):
    """The last line that a program says, or why there is none."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=seconds, env=environment)
    except subprocess.TimeoutExpired:
        return f"failed: more than {seconds} s"
    lines = done.stdout.strip().splitlines()
    if lines:
        return lines[-1]
    why = done.stderr.strip().splitlines()
    return f"failed: {why[-1] if why else f'it ended with {done.returncode}'}"


def other(args, what, folder, environment):
    """Milliseconds of ONNX Runtime, or of PyTorch's first call and a later one, in a process of its own; or why there are none."""
    line = asked([sys.executable, os.path.abspath(__file__), "-", folder, "--one", what, "--threads", str(args.threads)]
                 + (["--cuda"] if args.cuda else []) + (["--ort", args.library] if args.library else []), args.seconds, environment)
    try:
        return [float(x) for x in line.split()]
    except ValueError:
        return line


def compared(args, row, folder, environment):
    """Adds what the others take; the reasons where they have no number."""
    why = []
    ort = other(args, "ort", folder, environment) if args.library else None
    row["told"] = not isinstance(ort, list)
    row["ort_ms"] = None if row["told"] else ort[0]
    if isinstance(ort, str):
        why.append(f"ONNX Runtime: {ort}")
    if row["told"] and not args.cuda and os.path.exists(os.path.join(folder, "about.json")):
        with open(os.path.join(folder, "about.json"), encoding="utf-8") as f:
            row["ort_ms"] = json.load(f).get("ort_ms_1_thread")
    torch = other(args, "torch", folder, environment) if args.with_torch else None
    row["torch_first_ms"], row["torch_ms"] = torch if isinstance(torch, list) else (None, None)
    if isinstance(torch, str):
        why.append(f"torch.compile: {torch}")
    return why


def measured(args, folder, environment):
    with tempfile.TemporaryDirectory() as cache:
        environment = {**environment, "SINTER_CACHE_DIR": cache}
        words = [args.program, folder] + (["--cuda"] if args.cuda else [])
        cold = asked(words, args.seconds, environment)
        warm = asked(words, args.seconds, environment) if cold.startswith("{") else cold
    if not warm.startswith("{"):
        return warm
    row = json.loads(warm)
    first = json.loads(cold)
    row.update(cold_ms=first["first_ms"], cold_own_ms=first["own_ms"], cold_compilers_ms=first["compilers_ms"], distinct=first["compiled"], warm_ms=row["first_ms"], cold_stages=first["stages"],
               allowed_mb=1.5 * row["weights_mb"] + row["planned_mb"], used_mb=row["peak_mb"] - row["before_mb"])
    return row


def ratio(row, key):
    return row[key] / row["steady_ms"] if row.get(key) else None


def shown(x, form="{:.2f}"):
    return "-" if x is None else form.format(x)


def mean_of(rows, key):
    all_of = [math.log(r) for r in (ratio(row, key) for row in rows) if r]
    return math.exp(sum(all_of) / len(all_of)) if all_of else None, len(all_of)


def table(args, folders, environment):
    args.library = None if args.cuda else ort_library(args.ort)
    args.with_torch = subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0
    print(f"ONNX Runtime: {args.library or ('not asked' if args.cuda else 'not found; its times are of about.json')}; PyTorch: {'found' if args.with_torch else 'not installed'}; "
          f"{'GPU' if args.cuda else f'{args.threads} threads'}")
    print("| model | nodes | kernels | distinct | cold s | of processor, own + compilers | warm ms | of processor | call ms | MB of allowed | ONNX Runtime ms | ratio | torch.compile first s | ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    rows, reasons = [], []
    for folder in folders:
        name = os.path.basename(folder)
        row = measured(args, folder, environment)
        if isinstance(row, str):
            print(f"| {name} | {row} |", flush=True)
            continue
        row["name"] = name
        reasons += [f"{name}: {why}" for why in compared(args, row, folder, environment)]
        rows.append(row)
        print(f"| {name} | {row['nodes']} | {row['kernels']} | {row['distinct']} | {row['cold_ms'] / 1000:.1f} | "
              f"{row['cold_own_ms'] / 1000:.1f} + {row['cold_compilers_ms'] / 1000:.1f} | {row['warm_ms']:.0f} | {row['own_ms']:.0f} | "
              f"{row['steady_ms']:.3g} | {row['used_mb']:.0f} of {row['allowed_mb']:.0f} | {'~' if row['told'] else ''}{shown(row['ort_ms'], '{:.3g}')} | "
              f"{shown(ratio(row, 'ort_ms'))} | {shown(row['torch_first_ms'] and row['torch_first_ms'] / 1000, '{:.1f}')} | "
              f"{shown(ratio(row, 'torch_ms'))} |", flush=True)
    for why in reasons:
        print(why)
    for what, key in (("ONNX Runtime", "ort_ms"), ("torch.compile", "torch_ms")):
        mean, count = mean_of(rows, key)
        if mean:
            print(f"{what} takes {mean:.2f} times as long, the geometric mean of {count}")
    slow = [r["name"] for r in rows if ratio(r, "ort_ms") and ratio(r, "ort_ms") < 0.1]
    print(f"{len(rows)} of {len(folders)}; more than 10 times ONNX Runtime's time: {', '.join(slow) or 'none'}")
    for what, bad in (("cold beyond 20 s", [r["name"] for r in rows if r["cold_ms"] > 20000]),
                      ("warm beyond 200 ms", [r["name"] for r in rows if r["warm_ms"] > 200]),
                      ("differing by more than 1e-3", [r["name"] for r in rows if not r["differs"] <= 1e-3]),
                      ("memory beyond 1.5 times the weights and the plan", [r["name"] for r in rows if r["used_mb"] > r["allowed_mb"] + 16])):
        print(f"{what}: {len(bad)}: {', '.join(bad) or 'none'}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("zoo")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--largest", type=float, default=math.inf)
    parser.add_argument("--json")
    parser.add_argument("--ort")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--train", type=int)
    parser.add_argument("--one")
    args = parser.parse_args()
    if args.one:
        if args.one == "ort":
            print(ort_one(args.ort, args.zoo, args.threads))
        else:
            print(*torch_one(args.zoo, args.threads, args.cuda))
        return 0
    args.program = os.path.abspath(args.program)
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    folders = sorted(os.path.dirname(p) for p in glob.glob(os.path.join(args.zoo, "**", "model.onnx"), recursive=True)
                     if args.only in p and os.path.getsize(p) <= args.largest * 1e6)
    if args.kernels:
        for folder in folders:
            print_kernels(os.path.basename(folder), [args.program, folder, "--kernels"])
        return 0
    if not args.batches and args.train is None:
        table(args, folders, environment)
        return 0
    right = 0
    for folder in folders:
        line = asked([args.program, folder] + (["--batches"] if args.batches else ["--train", str(args.train)]), args.seconds, environment)
        right += line.startswith("ok") or line == "no open batch axis"
        print(f"{os.path.relpath(folder, args.zoo)}: {line}", flush=True)
    print(f"{right} of {len(folders)}")
    return 0 if right == len(folders) else 1


if __name__ == "__main__":
    sys.exit(main())
