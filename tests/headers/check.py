#!/usr/bin/env python3
"""Compiles every header of include/sinter alone, with warnings as errors.

    check.py ROOT -- COMPILER ARGUMENTS...

Headers of the front end and beside it are compiled as users of sinter::compiled see them, sinter.hpp and jit.hpp both ways. A planted header
that needs another one first must be refused, or the check itself is broken.
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile


def compile_alone(command, header, flags, folder):
    unit = os.path.join(folder, header.replace("/", "_") + ("_c" if flags else "") + ".cpp")
    with open(unit, "w", encoding="utf-8") as f:
        f.write(f"#include <sinter/{header}>\n#include <sinter/{header}>\nint main() {{}}\n")
    done = subprocess.run([*command, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags, unit],
                          capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def ways(header):
    compiled = ["-DSINTER_COMPILED"]
    if header in ("sinter.hpp", "jit.hpp"):
        return [[], compiled]
    if "/" not in header or header.split("/")[0] in ("front", "jit", "dispatch", "nn", "optim", "io", "dist"):
        return [compiled]
    return [[]]


def main():
    split = sys.argv.index("--")
    top = os.path.join(sys.argv[1], "include", "sinter")
    command = sys.argv[split + 1:]
    headers = sorted(os.path.relpath(os.path.join(folder, name), top)
                     for folder, _, names in os.walk(top) for name in names if name.endswith(".hpp"))
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        os.makedirs(os.path.join(work, "sinter"))
        with open(os.path.join(work, "sinter", "planted.hpp"), "w", encoding="utf-8") as f:
            f.write("#pragma once\nstd::string planted();\n")
        refused = not compile_alone([*command, f"-I{work}"], "planted.hpp", [], work)[0]
        if not refused or not headers:
            print("the check itself is broken: a header with a missing include was accepted, or no header was found")
            return 1
        jobs = [(h, flags) for h in headers for flags in ways(h)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(lambda job: compile_alone(command, *job, work), jobs)
            for (header, flags), (good, output) in zip(jobs, results):
                if not good:
                    failed += 1
                    print(f"{header} {' '.join(flags)} does not compile alone:\n" + "\n".join(output.splitlines()[:15]))
    print(f"{len(headers)} headers, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
