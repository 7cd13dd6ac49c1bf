#!/usr/bin/env python3
"""Checks that a user's flags change no value: a program compiled with them prints what it prints without, bit for bit; functions
that xsimd computes by the instruction set a few units in the last place beside it. What cannot be kept is refused.

    check.py program ENGINE_LIBRARY -- COMPILER ARGUMENTS...    the eager loops, with g++ and clang++ where they are installed
    check.py few ENGINE_LIBRARY -- COMPILER ARGUMENTS...        the same without flags that are part of others
    check.py engine ENGINE_LIBRARY -- COMPILER ARGUMENTS...     the engine compiled with such flags, too
    check.py --self-test
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = [  # The compilers concerned, what is compiled with.
    ("g++ clang++", ["-O2", "-march=native"]),
    ("g++", ["-Ofast"]),
]
WHOLES = [
    ("g++", ["-Ofast", "-march=native"]),
    ("g++", ["-O2", "-ffast-math", "-march=native", "-include", "cmath", "-include", "random", "-include", "algorithm"]),
    ("clang++", ["-O2", "-march=native", "-ffp-contract=fast"]),
    ("clang++", ["-O3", "-fassociative-math", "-fno-signed-zeros", "-freciprocal-math", "-fno-trapping-math"]),
]
REFUSED = [  # The compilers concerned, flags, what the error says.
    ("g++", ["-mfpmath=387"], r"-mfpmath=387.*compile with -mfpmath=sse"),
    ("g++", ["-fsingle-precision-constant"], r"-fsingle-precision-constant.*write 0\.1f"),
    *(("clang++", flags, r"NaN and infinities are lost; compile this file with -O3 in place of -Ofast, or with -fno-fast-math")
      for flags in (["-Ofast"], ["-O2", "-ffast-math", "-march=native"], ["-ffinite-math-only"])),
]
WITHIN = 16  # units in the last place


def number(word, size):
    """Floats of one size as integers in their order."""
    bits = int(word, 16)
    sign = 1 << (8 * size - 1)
    return bits if bits < sign else sign - bits


def differ(want, got):
    """The lines of two outputs that differ by more than they may."""
    wrong = []
    if len(want) != len(got):
        return [f"{len(got)} lines in place of {len(want)}"]
    for a, b in zip(want, got):
        name, how, size, *x = a.split()
        y = b.split()[3:]
        bad = b.split()[:3] != [name, how, size] or len(x) != len(y)
        for v, w in zip(x, y):
            if how == "exact" or "nan" in (v, w):
                bad |= v != w
            else:
                bad |= abs(number(v, int(size)) - number(w, int(size))) > WITHIN
        if bad:
            at = next((i for i, (v, w) in enumerate(zip(x, y)) if v != w), 0)
            wrong.append(f"{name}: element {at} is {y[at] if at < len(y) else 'missing'}, without the flags {x[at]}")
    return wrong


LAUNCHER = os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER", "").split()  # ccache


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stdout + done.stderr


def output(compiler, arguments, flags, engine, work, engine_flags=None):
    """What the program prints, compiled with flags and linked without, since linking with -ffast-math flushes subnormal numbers."""
    name = os.path.join(work, "program")
    units = [([compiler, *arguments, *flags, "-w", "-DSINTER_COMPILED"], os.path.join(HERE, "program.cpp"), name + ".o")]
    if engine_flags is not None:
        units.append(([compiler, *arguments, *engine_flags, "-w"], os.path.join(HERE, "../../include/sinter/engine.cpp"), name + "_engine.o"))
        engine = name + "_engine.o"
    for command, source, to in units:
        code, _, said = run([*LAUNCHER, *command, "-c", source, "-o", to])
        if code:
            sys.exit(f"{' '.join(command)} {source} fails:\n{said[:3000]}")
    code, _, said = run([compiler, name + ".o", engine, "-o", name, "-fopenmp", "-ldl", "-lpthread", "-lgomp"])
    if code:
        sys.exit(f"linking fails:\n{said[:3000]}")
    code, out, said = run([name])
    if code:
        sys.exit(f"the program ends with {code}:\n{said[:3000]}")
    return out.splitlines()


def refusals(compiler, arguments):
    source = os.path.join(HERE, "program.cpp")
    for compilers, flags, says in REFUSED:
        if compiler in compilers.split():
            code, _, said = run([compiler, *arguments, "-DSINTER_COMPILED", *flags, "-fsyntax-only", source])
            if code == 0 or not re.search(says, said):
                yield f"{compiler} {' '.join(flags)}: no error that says '{says}' but:\n{said[:1000]}"


def check(what, engine, compiler, arguments):
    failed = 0
    compilers, rows, engine_flags = [name for name in ("g++", "clang++") if shutil.which(name)], WHOLES, None
    if what == "program":
        rows = PARTS + WHOLES
    elif what == "engine":
        compilers, rows, engine_flags = [compiler], [(compiler, ["-Ofast", "-march=native"])], ["-O1", "-ffast-math", "-march=native"]
    with tempfile.TemporaryDirectory() as work:
        want = output(compiler, arguments, ["-O1"], engine, work)
        for name in compilers:
            for concerned, flags in rows:
                if name not in concerned.split():
                    continue
                wrong = differ(want, output(name, arguments, flags, engine, work, engine_flags))
                failed += len(wrong)
                print(f"{name} {' '.join(flags)}: {len(wrong)} of {len(want)} differ", *wrong, sep="\n  ")
            for reason in refusals(name, arguments) if what != "engine" else []:
                failed += 1
                print(reason)
    return 1 if failed else 0


def self_test():
    want = ["a exact 4 3f800000 nan", "b close 4 3f800000 80000001"]
    cases = [(want, 0), (["a exact 4 3f800001 nan", want[1]], 1), (["a exact 4 3f800000 0", want[1]], 1),
             ([want[0], "b close 4 3f800004 00000001"], 0), ([want[0], "b close 4 3f800040 80000001"], 1),
             ([want[0], "b close 4 nan 80000001"], 1), (want[:1], 1)]
    wrong = [got for got, count in cases if len(differ(want, got)) != count]
    print(f"{len(cases)} cases, {len(wrong)} wrong", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        sys.exit(self_test())
    at = sys.argv.index("--")
    sys.exit(check(sys.argv[1], sys.argv[2], sys.argv[at + 1], sys.argv[at + 2:]))
