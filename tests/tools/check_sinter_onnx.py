#!/usr/bin/env python3
"""packaging/sinter_onnx.cpp on small models that are written here: what it prints, what it exits with.

    check_sinter_onnx.py PROGRAM
"""
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

FLOAT, DOUBLE, INT64 = 1, 11, 7
CODES = {FLOAT: "f", DOUBLE: "d", INT64: "q"}
DESCRIPTIONS = {FLOAT: "<f4", DOUBLE: "<f8", INT64: "<i8"}


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def packed(kind, values):
    return struct.pack(f"<{len(values)}{CODES[kind]}", *values)


def tensor(name, kind, extents, values):
    return b"".join(number(1, e) for e in extents) + number(2, kind) + text(8, name) + text(9, packed(kind, values))


def value(name, kind, axes):
    shape = b"".join(text(1, text(2, a) if isinstance(a, str) else number(1, a)) for a in axes)
    return text(1, name) + text(2, text(1, number(1, kind) + text(2, shape)))


def node(op, inputs, outputs):
    return b"".join(text(1, i) for i in inputs) + b"".join(text(2, o) for o in outputs) + text(3, "the_" + op) + text(4, op)


def model(nodes, inputs, outputs, constants=()):
    graph = b"".join(text(1, n) for n in nodes) + text(2, "g") + b"".join(text(5, c) for c in constants)
    graph += b"".join(text(11, i) for i in inputs) + b"".join(text(12, o) for o in outputs)
    return number(1, 9) + text(7, graph) + text(8, number(2, 20))


def npy(kind, extents, values):
    shape = "(" + "".join(f"{e}, " for e in extents) + ")"
    header = f"{{'descr': '{DESCRIPTIONS[kind]}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + packed(kind, values)


def read_npy(path):
    with open(path, "rb") as f:
        data = f.read()
    length = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + length])  # of a file that the program under test wrote
    code = {v: CODES[k] for k, v in DESCRIPTIONS.items()}[header["descr"]]
    body = data[10 + length:]
    return header["shape"], list(struct.unpack(f"<{len(body) // struct.calcsize(code)}{code}", body))


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    return path


AFFINE = model([node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["y"])], [value("x", FLOAT, ["N", 2])],
               [value("y", FLOAT, ["N", 3])], [tensor("w", FLOAT, [2, 3], [1, 2, 3, 4, 5, 6]), tensor("b", FLOAT, [3], [0.5, 0, -0.5])])
TWICE = model([node("Mul", ["x", "x"], ["y"]), node("Add", ["x", "z"], ["s"])], [value("x", FLOAT, [2]), value("z", FLOAT, [2])],
              [value("y", FLOAT, [2]), value("s", FLOAT, [2])])
UNKNOWN = model([node("Frobnicate", ["x"], ["y"])], [value("x", FLOAT, [2])], [value("y", FLOAT, [2])])
# The interpreter takes minutes.
LONG = model([node("MatMul", ["x", "x"], ["y"])], [value("x", DOUBLE, [1500, 1500])], [value("y", DOUBLE, [1500, 1500])])


class Checks:
    def __init__(self, program):
        self.program, self.wrong = program, 0

    def run(self, words, status, *wanted, absent=(), environment=()):
        """The output; tells where a status or a text is not what is wanted."""
        done = subprocess.run([self.program, *words], capture_output=True, text=True, timeout=100,
                              env={**os.environ, **dict(environment)})
        said = done.stdout + done.stderr
        missing = [w for w in wanted if not re.search(w, said)] + ["not " + a for a in absent if re.search(a, said)]
        if done.returncode != status or missing:
            self.wrong += 1
            print(f"sinter-onnx {' '.join(words)}\n  exits with {done.returncode}, wanted {status}; lacks {missing}:\n{said}")
        return said

    def hold(self, what, fine):
        if not fine:
            self.wrong += 1
            print(what)


def check_models(c, here):
    affine, twice = put(f"{here}/affine.onnx", AFFINE), put(f"{here}/twice.onnx", TWICE)
    x = put(f"{here}/x.npy", npy(FLOAT, [2, 2], [1, 0, 2, -1]))
    right = [1.5, 2, 2.5, -1.5, -1, -0.5]
    y = put(f"{here}/y.npy", npy(FLOAT, [2, 3], right))
    near = put(f"{here}/near.npy", npy(FLOAT, [2, 3], [right[0] + 0.0015, *right[1:]]))
    far = put(f"{here}/far.npy", npy(FLOAT, [2, 3], [*right[:4], -1.01, right[5]]))
    other = put(f"{here}/other.npy", npy(FLOAT, [3, 2], right))
    quick = ["--backend", "reference"]
    c.run([affine, "--input", x, "--verify", y, *quick], 0, r"2 nodes, loaded in", r"input  x: f32 \(N, 2\)",
          r"output y: f32 \(N, 3\)", r"kernels of \d+ ops", r"backend reference", r"MB planned", r"first call",
          r"y is f32 \(2, 3\)", r"largest difference 0, relative to the largest value 0\n")
    c.run([affine, "--input", x, "--verify", near, *quick], 0, r"largest difference 0.0015, ")
    c.run([affine, "--input", x, "--verify", far, *quick], 1, r"differs 0.01 at \[1, 1\]")
    c.run([affine, "--input", x, "--verify", other, *quick], 1, r"differs: f32 \(2, 3\) in place of f32 \(3, 2\)")
    c.run([affine, "--input", x, "--output", f"{here}/out/deep", *quick], 0)
    c.hold("--output writes the result", read_npy(f"{here}/out/deep/output_0.npy") == ((2, 3), right))
    # Compiled, after a bar; again from the cache, without one.
    compiled = [affine, "--input", x, "--verify", y, "--backend", "cpu", "--device", "cpu"]
    no_kernels = {"SINTER_CACHE_DIR": f"{here}/kernels"}
    c.run([*compiled, "--bench"], 0, r"backend cpu", r"100 %  (\d+) of \1 kernels compiled",
          r"a call takes [0-9.]+ ms \(median of \d+; the least", environment=no_kernels)
    c.run(compiled, 0, r" 0 compiled, backend cpu", absent=["kernels compiled"], environment=no_kernels)
    c.run([affine, "--input", x, "--verify", y, "--dynamic", *quick], 0)
    c.run([affine, "--input", x, "--grad", *quick], 0, r"mean square of the results 2.66667; gradients in", r"of 2 weights, norm [0-9.]+")
    # Inputs that are not given are random, and no zeros.
    c.run([affine, "--output", f"{here}/random", *quick], 0)
    c.hold("random inputs are not 0", read_npy(f"{here}/random/output_0.npy")[1] != [0.5, 0, -0.5] * 2)
    ones, twos = put(f"{here}/1.npy", npy(FLOAT, [2], [1, 3])), put(f"{here}/2.npy", npy(FLOAT, [2], [2, 5]))
    squares, sums = put(f"{here}/s.npy", npy(FLOAT, [2], [1, 9])), put(f"{here}/t.npy", npy(FLOAT, [2], [3, 8]))
    c.run([twice, "--input", ones, twos, "--verify", squares, sums, *quick], 0)
    c.run([twice, "--input", ones, twos, "--verify", squares, squares, *quick], 1, r"s is f32 \(2,\)\n  largest difference 2")


def check_library(c, here):
    affine = put(f"{here}/affine.onnx", AFFINE)
    isa = ["--isa", "aarch64" if os.uname().machine == "aarch64" else "baseline"]
    c.run([affine, "--check"], 1, r"the model's axes N are open; give their bounds")
    c.run([affine, "--check", "--sizes", "N=1..9"], 0, r"  1 \w+\n", r"\d+ kernels in \d programs, [0-9.]+ MB of weights", absent=["libaffine"])
    folder = f"{here}/library"
    c.run([affine, "--library", folder, "--sizes", "N=1..9", *isa], 0, r"libaffine.so\n", r"affine.weights\n", absent=["first call"])
    c.hold("--library writes its files", sorted(os.listdir(folder)) == ["affine.h", "affine.hpp", "affine.py", "affine.weights", "libaffine.so"])
    use = ("import array, affine\nassert [s.axes for s in affine.inputs] == [['N', 2]]\n"
           "y, = affine.Model().run(((2, 2), array.array('f', [1, 0, 2, -1])))\n"
           "y = y.tolist()\nprint(y if isinstance(y[0], float) else sum(y, []))\n")
    said = subprocess.run([sys.executable, "-c", use], cwd=folder, capture_output=True, text=True)
    c.hold(f"Python calls the library: {said.stdout}{said.stderr}", said.stdout == "[1.5, 2.0, 2.5, -1.5, -1.0, -0.5]\n")
    c.run([affine, "--library", f"{here}/source", "--source", "--name", "own", "--weights", "inside", "--threads", "openmp", "--sizes", "N=2", *isa], 0, r"own.cpp\n", r"own.c\n")
    c.run([affine, "--describe"], 0, r"input  x: f32 \(N, 2\)", absent=["first call"])


def usage_of(said):
    """The forms of calls, before the options one by one."""
    return said.split("\n\n")[0]


def check_arguments(c, here):
    affine, x = f"{here}/affine.onnx", f"{here}/x.npy"
    usage = r"sinter-onnx MODEL.onnx"
    c.run([], 2, usage)
    for words in (["--help"], ["-h"], [affine, "--help"], ["--suite", here, "--help"]):
        said = c.run(words, 0, usage, r"sinter-onnx --suite DIR", *(rf"\n  {o} +\S" for o in ("--bench", "--grad", "--dynamic")))
        c.hold("--help says what every option does", all(f"\n  {o} " in said for o in re.findall(r"--[a-z]+", usage_of(said)) if o != "--help"))
    for words, said in [(["--frob"], "there is no option --frob"), ([affine, affine], "is a second model"),
                        ([affine, "--device", "tpu"], "there is no device 'tpu'"), ([affine, "--backend"], "--backend takes a value"),
                        (["--suite", here, "--jobs", "x"], "--jobs takes a number"), (["--suite", here, "--seconds", "0"], "--seconds takes"),
                        ([affine, "--suite", here], "not run at once"), ([affine, "--isa", "avx2"], "belong to --library or --check"),
                        ([affine, "--check", "--sizes", "N"], "--sizes takes n=1..512, not 'N'"),
                        ([affine, "--check", "--sizes", "N=3..2"], "is empty"), ([affine, "--library", here, "--isa", "mmx"], "--isa takes one of"),
                        ([affine, "--library", here, "--weights", "away"], "--weights takes one of")]:
        c.run(words, 2, usage, said)
    c.run([f"{here}/none.onnx"], 1, r"none.onnx")
    c.run([affine, "--input", f"{here}/none.npy"], 1, r"none.npy")
    c.run([affine, "--input", x, x], 1, r"2 inputs are given and the model has 1")
    c.run([affine, "--input", x, "--verify", x, x], 1, r"2 results are to be verified and the model has 1")
    c.run([affine, "--backend", "abacus"], 1, r"abacus")
    c.run([affine, "--input", put(f"{here}/wide.npy", npy(FLOAT, [2, 3], [1] * 6))], 1, r"the input x: f32 \(N, 2\) is given f32 \(2, 3\)")
    c.run([affine, "--input", put(f"{here}/double.npy", npy(DOUBLE, [1, 2], [1, 2]))], 1, r"is given f64 \(1, 2\)")
    c.run([put(f"{here}/unknown.onnx", UNKNOWN)], 1, r"1 node has no operator here: Frobnicate \(node 'the_Frobnicate'\)")
    c.run([put(f"{here}/cut.onnx", AFFINE[:-40])], 1, r"cut short|damaged|no ONNX model")
    c.run(["--suite", f"{here}/nowhere"], 1, r"there is no folder .*nowhere")


def child_of(pid, word):
    """A process that `pid` has started with this word among its arguments; 0 when there is none."""
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as f:
                parent = int(f.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{entry}/cmdline") as f:
                if parent == pid and word in f.read():
                    return int(entry)
        except (OSError, ValueError, IndexError):
            continue
    return 0


def check_suites(c, here):
    suite, quick = f"{here}/suite", ["--backend", "reference"]
    x, y = npy(FLOAT, [1, 2], [1, 0]), npy(FLOAT, [1, 3], [1.5, 2, 2.5])
    for name in ["a_fine", "b_differs", "c_random"]:
        put(f"{suite}/{name}/model.onnx", AFFINE)
    put(f"{suite}/a_fine/test_data_set_0/input_0.pb", tensor("x", FLOAT, [1, 2], [1, 0]))
    put(f"{suite}/a_fine/test_data_set_0/output_0.pb", tensor("y", FLOAT, [1, 3], [1.5, 2, 2.5]))
    put(f"{suite}/b_differs/input_0.npy", x)
    put(f"{suite}/b_differs/output_0.npy", npy(FLOAT, [1, 3], [1.5, 2.5, 2.5]))
    put(f"{suite}/d_refused/model.onnx", UNKNOWN)
    put(f"{suite}/deep/down/e_fine/model.onnx", AFFINE)
    put(f"{suite}/deep/down/e_fine/input_0.npy", x)
    put(f"{suite}/deep/down/e_fine/output_0.npy", y)
    lines = [r"a_fine: ok\n", r"b_differs: differs 0.5 at \[0, 1\] of output 0\n", r"c_random: ok\n", r"d_refused: refused: .*Frobnicate",
             r"deep/down/e_fine: ok\n", r"\n3 of 5\n$"]
    c.run(["--suite", suite, "--jobs", "2", *quick], 1, *lines)
    c.run(["--suite", suite, "--only", "_fine", *quick], 0, r"\n2 of 2\n$", absent=["b_differs"])
    c.run(["--suite", suite, "--only", "c_random", "--backend", "cpu"], 0, r"c_random: ok\n1 of 1\n$")
    put(f"{here}/slow/long/model.onnx", LONG)
    begin = time.monotonic()
    c.run(["--suite", f"{here}/slow", "--seconds", "1", *quick], 1, r"long: took more than 1 s\n0 of 1\n$")
    c.hold("a case that takes too long is ended", time.monotonic() - begin < 30)
    running = subprocess.Popen([c.program, "--suite", f"{here}/slow", "--seconds", "50", *quick], stdout=subprocess.PIPE, text=True)
    child = 0
    while running.poll() is None and not child:
        time.sleep(0.05)
        child = child_of(running.pid, "--case")
    if child:
        os.kill(child, signal.SIGSEGV)
    said = running.communicate(timeout=100)[0]
    c.hold(f"a case that crashes is told: {said}", said == "long: crashed\n0 of 1\n")


def main():
    c = Checks(os.path.abspath(sys.argv[1]))
    with tempfile.TemporaryDirectory() as here:
        os.environ.setdefault("SINTER_CACHE_DIR", f"{here}/kernels")
        check_models(c, here)
        check_library(c, here)
        check_arguments(c, here)
        check_suites(c, here)
    print(f"{c.wrong} wrong")
    return 1 if c.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
