#!/usr/bin/env python3
"""Where the time of the examples' first calls goes, without any cache of kernels.

    python3 bench/first_calls.py build/release/examples [NAME...]

Each program runs for one step or epoch, with an empty cache and a compiler that keeps the texts that it gets. The table has, for a program:
graphs, kernels that were compiled, starts of the compiler; milliseconds of the first calls (sums, as SINTER_LOGS=perf prints them); and CPU
seconds: `own` is the process's when its last first call ends, data and tracing included, `compiler` is the compilers' and linkers' while the
program ran. The columns behind are of each text compiled again, step by step, in the least of `--repeats` (3) runs: starts of the compiler
(an empty file), parsing, optimising, assembling, linking. CPU seconds hold on a busy machine; milliseconds do not.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

EPOCHS = ["cnn", "digits", "lstm", "resnet", "vae", "vit"]
STEPS = ["diffusion", "gas2d", "gaussian_process", "gpt", "graph_network", "llama", "maml", "neural_ode", "newton", "per_sample",
         "pde_inverse", "pinn", "ppo", "unet"]

WRAPPER = """#!/bin/sh
for a; do
  case $a in *.cpp)
    cp "$a" "{folder}/$$.cpp"
    for b; do echo "$b"; done >"{folder}/$$.arguments" ;;
  esac
done
{compiler} "$@"
code=$?
[ ! -f "{folder}/$$.cpp" ] || times >"{folder}/$$.times"
exit $code
"""


def cpu(command):
    """CPU seconds of a command that must succeed."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit("first_calls: failed: " + " ".join(command))
    return usage.ru_utime + usage.ru_stime


def least(command, repeats):
    return min(cpu(command) for _ in range(repeats))


def own_cpu(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(program, name, folder, compiler):
    """The perf lines of the program, and its own CPU seconds at the last of them."""
    wrapper = os.path.join(folder, "compiler")
    with open(wrapper, "w") as file:
        file.write(WRAPPER.format(folder=folder, compiler=compiler))
    os.chmod(wrapper, 0o700)
    environment = dict(os.environ, SINTER_CACHE_DIR=os.path.join(folder, "cache"), SINTER_CXX=wrapper, SINTER_LOGS="perf")
    command = [program] + (["--epochs", "1"] if name in EPOCHS else ["--steps", "1"] if name in STEPS else [])
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines, own = [], 0.0
    for line in process.stderr:
        found = re.match(r"\[sinter:perf\] .*: (\d+) nodes, \d+ rewritten, \d+ kernels, (\d+) compiled, ([0-9.e+-]+) ms", line)
        if found:
            own = own_cpu(process.pid)
            lines.append((int(found[2]), float(found[3])))
    if process.wait() != 0:
        sys.exit(f"first_calls: {name} failed")
    return lines, own


def seconds(text):
    minutes, rest = re.fullmatch(r"(\d+)m([0-9.]+)s", text).groups()
    return 60 * int(minutes) + float(rest)


def compiler_seconds(folder):
    """Of the children of each wrapper, whose times are in the second line."""
    total = 0.0
    for entry in os.listdir(folder):
        if entry.endswith(".times"):
            with open(os.path.join(folder, entry)) as file:
                total += sum(seconds(x) for x in file.read().splitlines()[1].split())
    return total


def parts_of(folder, compiler, repeats):
    """Sums over the texts: starts, parsing, optimising, assembling, linking."""
    empty = os.path.join(folder, "empty.cpp")
    open(empty, "w").close()
    out, texts = [0.0] * 5, [e[:-4] for e in os.listdir(folder) if e.endswith(".cpp") and e != "empty.cpp"]
    for text in texts:
        base = os.path.join(folder, text)
        with open(base + ".arguments") as file:
            given = file.read().splitlines()
        at = given.index("-o")
        flags, libraries = [f for f in given[:at - 1] if f != "-shared"], given[at + 2:]
        command = [compiler] + flags
        start = least(command + ["-fsyntax-only", empty], repeats)
        parse = least(command + ["-fsyntax-only", base + ".cpp"], repeats)
        assembly = least(command + ["-S", base + ".cpp", "-o", base + ".s"], repeats)
        assemble = least([compiler, "-c", base + ".s", "-o", base + ".o"], repeats)
        link = least(command + ["-shared", base + ".o", "-o", base + ".so"] + libraries, repeats)
        for i, x in enumerate([start, parse - start, assembly - parse, assemble, link]):
            out[i] += max(0.0, x)
    return out, len(texts)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("programs", help="folder of the programs")
    options.add_argument("names", nargs="*", help="the programs to run; without names all that can run one step or epoch")
    options.add_argument("--compiler", default=shutil.which("c++") or "c++")
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    print("| program | graphs | kernels | starts | ms | own | compiler | start | parse | optimise | assemble | link |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name in given.names or sorted(EPOCHS + STEPS):
        program = os.path.abspath(os.path.join(given.programs, name))
        with tempfile.TemporaryDirectory(prefix="first_calls-") as folder:
            lines, own = run(program, name, folder, given.compiler)
            total = compiler_seconds(folder)
            parts, starts = parts_of(folder, given.compiler, given.repeats)
        cells = [name, len(lines), sum(k for k, _ in lines), starts, f"{sum(ms for _, ms in lines):.0f}", f"{own:.2f}", f"{total:.2f}"]
        print("| " + " | ".join(map(str, cells + [f"{x:.2f}" for x in parts])) + " |", flush=True)


if __name__ == "__main__":
    main()
