#!/usr/bin/env python3
"""Checks that a user's flags change no value: a program compiled with them prints what it prints without, bit for bit; functions
that xsimd computes by the instruction set a few units in the last place beside it. What cannot be kept is refused.

    check.py program ENGINE_LIBRARY -- COMPILER ARGUMENTS...    the eager loops, with g++ and clang++ where they are installed
    check.py few ENGINE_LIBRARY -- COMPILER ARGUMENTS...        the same without flags that are part of others
    check.py engine ENGINE_LIBRARY -- COMPILER ARGUMENTS...     the engine compiled with such flags, too
    check.py sets -- COMPILER ARGUMENTS...                      whether vector functions of two instruction sets are one to the linker
    check.py --self-test

    `--share K` after the first word: the K-th third of the flags, 0, 1 or 2.
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
    (["g++", "clang++"], ["-O2", "-march=native"]),
    (["g++"], ["-Ofast"]),
]
WHOLES = [
    (["g++"], ["-Ofast", "-march=native"]),
    (["g++"], ["-O2", "-ffast-math", "-march=native", "-include", "cmath", "-include", "random", "-include", "algorithm"]),
    (["clang++"], ["-O2", "-march=native", "-ffp-contract=fast"]),
    (["clang++"], ["-O3", "-fassociative-math", "-fno-signed-zeros", "-freciprocal-math", "-fno-trapping-math"]),
]
REFUSED = [  # The compilers concerned, flags, what the error says.
    (["g++"], ["-mfpmath=387"], r"-mfpmath=387.*compile with -mfpmath=sse"),
    (["g++"], ["-fsingle-precision-constant"], r"-fsingle-precision-constant.*write 0\.1f"),
    *((["clang++"], flags, r"NaN and infinities are lost; compile this file with -O3 in place of -Ofast, or with -fno-fast-math")
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
        if compiler in compilers:
            code, _, said = run([compiler, *arguments, "-DSINTER_COMPILED", *flags, "-fsyntax-only", source])
            if code == 0 or not re.search(says, said):
                yield f"{compiler} {' '.join(flags)}: no error that says '{says}' but:\n{said[:1000]}"


def planned(what, compiler, installed, share=None):
    """What is compared: a compiler, the program's flags, the engine's or None; a third of the rows where there is a share."""
    if what == "engine":
        return [(compiler, ["-Ofast", "-march=native"], ["-O1", "-ffast-math", "-march=native"])]
    rows = PARTS + WHOLES if what == "program" else WHOLES
    todo = [(name, flags, None) for name in installed for concerned, flags in rows if name in concerned]
    return todo if share is None else todo[share::3]


def check(what, engine, compiler, arguments, share=None):
    failed, installed = 0, [name for name in ("g++", "clang++") if shutil.which(name)]
    todo = planned(what, compiler, installed, share)
    if not todo:
        sys.exit("nothing to check: neither g++ nor clang++ is installed")
    with tempfile.TemporaryDirectory() as work:
        want = output(compiler, arguments, ["-O1"], engine, work)
        for name, flags, engine_flags in todo:
            wrong = differ(want, output(name, arguments, flags, engine, work, engine_flags))
            failed += len(wrong)
            print(f"{name} {' '.join(flags)}: {len(wrong)} of {len(want)} differ", *wrong, sep="\n  ")
    for name in installed if what != "engine" else []:
        for reason in refusals(name, arguments):
            failed += 1
            print(reason)
    return 1 if failed else 0


SETS = ["-march=x86-64", "-march=haswell"]  # At -O1 g++ makes no vectors of its own: what has 256 bits is written with them.
# A program's eager loops, and what the engine has of such, as a file that includes it has.
UNITS = [("program", ["-DSINTER_COMPILED"], "program.cpp"), ("engine", [], "rows.cpp")]
MOVES = re.compile(r"vmov|vzero|vpxor|vxorp|vinsert|vextract")  # of structs, too


def weak_names(listing):
    """What the linker takes one definition of, of the lines of nm."""
    rows = [line.split() for line in listing.splitlines()]
    return {row[-1] for row in rows if len(row) > 1 and row[-2] in "WVu"}


def with_vectors(listing):
    """The functions of a disassembly that compute with vectors of 256 bits."""
    name, found = None, set()
    for line in listing.splitlines():
        head = re.match(r"[0-9a-f]+ <(.*)>:$", line)
        if head:
            name = head[1]
        elif "%ymm" in line and not MOVES.match(line.split("\t")[-1].strip()):
            found.add(name)
    return found


def shared(narrow, wide):
    """Vector functions that are one to the linker, of nm's lines of two objects and the second's disassembly."""
    return sorted(weak_names(narrow) & weak_names(wide[0]) & with_vectors(wide[1]))


def read(command):
    code, out, said = run(command)
    return out if code == 0 else sys.exit(f"{' '.join(command)} fails:\n{said[:3000]}")


def check_sets(compiler, arguments):
    names, wide, failed = {}, {}, 0
    with tempfile.TemporaryDirectory() as work:
        for unit, extra, source in UNITS:
            for flags in SETS:
                to = os.path.join(work, unit + flags + ".o")
                read([*LAUNCHER, compiler, *arguments, "-O1", flags, *extra, "-w", "-c", os.path.join(HERE, source), "-o", to])
                names[unit, flags] = read(["nm", to])
            wide[unit] = read(["objdump", "-d", "--no-show-raw-insn", to])
    for a, _, _ in UNITS:
        for b, _, _ in UNITS:
            found = shared(names[a, SETS[0]], (names[b, SETS[1]], wide[b]))
            failed += len(found)
            print(f"{a} {SETS[0]}, {b} {SETS[1]}: {len(found)} of {len(with_vectors(wide[b]))} vector functions are shared",
                  *(run(["c++filt", name])[1].strip()[:300] for name in found), sep="\n  ")
    few = [unit for unit in wide if len(with_vectors(wide[unit])) < 8]
    if few:
        print(f"nothing to check: hardly a vector function in {', '.join(few)}")
    return 1 if failed or few else 0


def self_test():
    want = ["a exact 4 3f800000 nan", "b close 4 3f800000 80000001"]
    cases = [(want, 0), (["a exact 4 3f800001 nan", want[1]], 1), (["a exact 4 3f800000 0", want[1]], 1),
             ([want[0], "b close 4 3f800004 00000001"], 0), ([want[0], "b close 4 3f800040 80000001"], 1),
             ([want[0], "b close 4 nan 80000001"], 1), (want[:1], 1)]
    wrong = [got for got, count in cases if len(differ(want, got)) != count]
    narrow = "0 W both\n0 W moves\n0 T strong\n U used\n0 W narrow"
    wide = narrow + "\n0 V wide", "".join(f"0000 <{name}>:\n   0:\t{code} %ymm0,%ymm1\n" for name, code in (
        ("both", "vaddps"), ("moves", "vmovups"), ("strong", "vaddps"), ("narrow", "add  %xmm0,"), ("wide", "vaddps")))
    wide = wide[0], wide[1].replace("add  %xmm0, %ymm0,%ymm1", "addps %xmm0,%xmm1")
    cases.append("shared")
    if shared(narrow, wide) != ["both"]:
        wrong.append(shared(narrow, wide))
    cases.append("planned")
    thirds = [row for share in range(3) for row in planned("few", "g++", ["g++", "clang++"], share)]
    cases.append("thirds")
    if sorted(thirds, key=str) != sorted(planned("few", "g++", ["g++", "clang++"]), key=str):
        wrong.append("thirds")
    if [len(planned(what, "/opt/my tools/g++", ["g++", "clang++"])) for what in ("program", "few", "engine")] != [7, 4, 1]:
        wrong.append("planned")
    print(f"{len(cases)} cases, {len(wrong)} wrong", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        sys.exit(self_test())
    share = None
    if sys.argv[2] == "--share":
        share = int(sys.argv[3])
        del sys.argv[2:4]
    at = sys.argv.index("--")
    if sys.argv[1] == "sets":
        sys.exit(check_sets(sys.argv[at + 1], sys.argv[at + 2:]))
    sys.exit(check(sys.argv[1], sys.argv[2], sys.argv[at + 1], sys.argv[at + 2:], share))
