#!/usr/bin/env python3
"""Compiles every header of include/sinter alone, with warnings as errors.

    check.py [--share K] ROOT -- COMPILER ARGUMENTS...   with --share the K-th third of them: 0, 1 or 2
    check.py --programs ROOT -- COMPILER ARGUMENTS...    the programs of tests/headers, with the warnings that users may have

They are compiled as the engine's unit and users of sinter::compiled see them; sinter.hpp, jit/pipeline.hpp and ir/define.hpp without SINTER_COMPILED too.
Planted headers that need another one first must be refused, or the check itself is broken.

A header is read behind a precompiled one where that hides nothing: one that it includes, itself or through others, before
its own first line, and that does not include it. Whoever on the way lacks that include is refused when its own turn comes.
For the same reason headers of which each includes the one before share a unit; where it is refused, each is compiled by itself.
Without SINTER_COMPILED they are read behind the standard headers: whoever lacks one of these lacks it with SINTER_COMPILED too.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile


COMPILED = ["-DSINTER_COMPILED"]
# Large headers that many others begin with, the larger first.
SHARED = ["jit/backends/code.hpp", "front/evaluate/evaluate.hpp", "front/tensor/tensor.hpp", "plan/fusion/fuse.hpp", "emit/writer.hpp", "plan/kernel/kernel.hpp", "ir/graph.hpp",
          "run/cuda/device/memory.hpp", "ir/node.hpp", "run/file.hpp", "base/text.hpp"]


def included(folder, header):
    """What a header includes of sinter before its own first line, whatever the macros; and all that it may include when
    SINTER_COMPILED is defined."""
    first, ever, depth, begun, apart = [], [], 0, False, 0
    with open(os.path.join(folder, header), encoding="utf-8") as f:
        for line in map(str.strip, f):
            found = not apart and re.match(r'#\s*include\s+(?:"([^"]+)"|<sinter/([^>]+)>)', line)
            if found:
                path = found[2] or os.path.normpath(os.path.join(os.path.dirname(header), found[1]))
                ever.append(path)
                if depth == 0 and not begun:
                    first.append(path)
            elif re.match(r"#\s*if", line):
                depth += 1
                apart = apart or (depth if line == "#if !defined(SINTER_COMPILED)" else 0)
            elif re.match(r"#\s*endif", line):
                apart = 0 if apart == depth else apart
                depth -= 1
            elif line and not line.startswith(("//", "#")):
                begun = True
    return first, ever


def closure(table, header, which):
    seen, left = set(), [header]
    while left:
        for path in table.get(left.pop(), ([], []))[which]:
            if path not in seen:
                seen.add(path)
                left.append(path)
    return seen


def hides_nothing(table, first, header):
    return first in closure(table, header, 0) and header not in closure(table, first, 1)


def shared_of(table, header):
    """The precompiled header that hides nothing from `header`, or None."""
    return next((s for s in SHARED if hides_nothing(table, s, header)), None)


def chains(table, headers):
    """The headers in lists: each hides nothing from the next, and all are read behind one precompiled header."""
    made = []
    for header in sorted(headers, key=lambda h: (len(closure(table, h, 0)), h)):
        shared = shared_of(table, header)
        found = [c for c in made if shared_of(table, c[0]) == shared and hides_nothing(table, c[-1], header)]
        if found:
            max(found, key=lambda c: len(closure(table, c[-1], 0))).append(header)
        else:
            made.append([header])
    return made


def precompiled(command, text, flags, folder, name):
    """Precompiles a header of this text; what a unit then includes first."""
    path = os.path.join(folder, name.replace("/", "_"))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    subprocess.run([*command, "-Wall", "-Wextra", *flags, "-x", "c++-header", path, "-o", path + ".gch"],
                   capture_output=True, check=False)
    return path


def standard(folder, headers):
    """The text of a header that includes what `headers` include of the standard library, whatever the macros."""
    found = set()
    for header in headers:
        with open(os.path.join(folder, header), encoding="utf-8") as f:
            found |= set(re.findall(r"^#include <([a-z_]+)>$", f.read(), re.M))
    return "".join(f"#include <{name}>\n" for name in sorted(found))


def compile_alone(command, headers, flags, folder, first=None):
    unit = os.path.join(folder, headers[-1].replace("/", "_") + f"_{len(headers)}" + ("_c" if flags else "") + ".cpp")
    with open(unit, "w", encoding="utf-8") as f:
        f.writelines(f"#include <sinter/{header}>\n" for header in [*headers, *headers])
        f.write("int main() {}\n")
    behind = ["-include", first] if first else []
    done = subprocess.run([*command, "-fsyntax-only", "-Wall", "-Wextra", "-Winvalid-pch", "-Werror", *flags, *behind, unit],
                          capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def ways(header):
    # Without SINTER_COMPILED these bring every definition along.
    return [[], COMPILED] if header in ("sinter.hpp", "jit/pipeline.hpp", "ir/define.hpp") else [COMPILED]


WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wnull-dereference", "-Werror"]


def programs(root, command):
    """What is wrong with the programs of tests/headers: a list of texts."""
    folder = os.path.join(root, "tests", "headers")
    wrong = []
    with tempfile.TemporaryDirectory() as work:
        # g++ looks for null pointers while it optimises, clang++ before.
        macros = subprocess.run([*command, "-dM", "-E", "-x", "c++", os.devnull], capture_output=True, text=True).stdout
        way = ["-fsyntax-only"] if "__clang__" in macros else ["-O1", "-S", "-o", os.devnull]

        def compiled(path):
            done = subprocess.run([*command, *COMPILED, *WARNINGS, *way, path], capture_output=True, text=True)
            return done.returncode == 0, done.stderr

        planted = os.path.join(work, "planted.cpp")
        with open(planted, "w", encoding="utf-8") as f:
            f.write("#include <vector>\nint planted(const std::vector<int>& v) { return v.size(); }\n")
        paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".cpp")]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(compiled, [planted, *paths]))
    if results[0][0] or len(paths) < 3:
        wrong.append("the check itself is broken: a conversion was accepted, or a program is missing")
    for path, (good, output) in zip(paths, results[1:]):
        if not good:
            wrong.append(f"{path} does not compile:\n" + "\n".join(output.splitlines()[:15]))
    with open(os.path.join(folder, "using.cpp"), encoding="utf-8") as f:
        lines = [line for line in f.read().splitlines() if line.startswith("using sinter::")]
    with open(os.path.join(root, "docs", "headers.md"), encoding="utf-8") as f:
        told = f.read().splitlines()
    wrong += [f"docs/headers.md does not have the line that using.cpp compiles: {line}" for line in lines if line not in told]
    with open(os.path.join(root, "docs", "examples.md"), encoding="utf-8") as f:
        told = f.read()
    with open(os.path.join(root, "examples", "gpt.cpp"), encoding="utf-8") as f:
        lines_of_gpt = [line for line in f.read().splitlines() if "clang-format o" not in line]
    first = lines_of_gpt[: lines_of_gpt.index("}") + 1]
    if "\n".join(["```cpp", *first, "```"]) not in told:
        wrong.append("docs/examples.md does not show examples/gpt.cpp up to the end of its first function")
    return wrong if lines else [*wrong, "using.cpp has no using lines"]


def main():
    if sys.argv[1] == "--programs":
        wrong = programs(sys.argv[2], sys.argv[sys.argv.index("--") + 1:])
        print("\n".join(wrong + [f"{len(wrong)} failures"]))
        return 1 if wrong else 0
    share = None
    if sys.argv[1] == "--share":
        share = int(sys.argv[2])
        del sys.argv[1:3]
    split = sys.argv.index("--")
    top = os.path.join(sys.argv[1], "include", "sinter")
    command = sys.argv[split + 1:]
    headers = sorted(os.path.relpath(os.path.join(folder, name), top)
                     for folder, _, names in os.walk(top) for name in names if name.endswith(".hpp"))
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        os.makedirs(os.path.join(work, "sinter"))
        table = {h: included(top, h) for h in headers}
        planted = {"planted.hpp": "std::string planted();", "lacks.hpp": "sinter::ir::graph planted();",
                   "later.hpp": '#include "lacks.hpp"\n#include <sinter/ir/graph.hpp>',
                   "behind.hpp": '#include "lacks.hpp"', "brings.hpp": "#include <string>"}
        for name, text in planted.items():
            with open(os.path.join(work, "sinter", name), "w", encoding="utf-8") as f:
                f.write(f"#pragma once\n{text}\n")
            table[name] = included(os.path.join(work, "sinter"), name)
        firsts = {}

        def check(headers, flags):
            return compile_alone([*command, f"-I{work}"], headers, flags, work, firsts[shared_of(table, headers[0]) if flags else "standard"])

        def failures(job):
            """A header and what is wrong with it, for those of a job that are refused."""
            headers, flags = job
            good, output = check(headers, flags)
            if good:
                return []
            alone = [(h, *check([h], flags)) for h in headers]
            return [(h, text) for h, fine, text in alone if not fine] or [(" behind ".join(reversed(headers)), output)]

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            paths = pool.map(lambda s: precompiled(command, f"#include <sinter/{s}>\n", COMPILED, work, s), SHARED)
            firsts = dict(zip(SHARED, paths)) | {None: None}
            firsts["standard"] = precompiled(command, standard(top, headers), [], work, "standard")
            refused = [not check([name], COMPILED)[0] for name in ("planted.hpp", "lacks.hpp")]
            chain = ["lacks.hpp", "behind.hpp"]
            refused += [chains(table, ["behind.hpp", "brings.hpp", "lacks.hpp"]) == [["brings.hpp"], chain],
                        [h for h, _ in failures((chain, COMPILED))] == chain]
            if not all(refused) or not headers or shared_of(table, "later.hpp") != "ir/graph.hpp":
                print("the check itself is broken: a header with a missing include was accepted, or no header was found")
                return 1
            # Those that take longest first.
            jobs = [([h], []) for h in headers if [] in ways(h)] + [(c, COMPILED) for c in chains(table, headers)]
            if share is not None:
                jobs = jobs[share::3]
            for job, found in zip(jobs, pool.map(failures, jobs)):
                for header, output in found:
                    failed += 1
                    print(f"{header} {' '.join(job[1])} does not compile:\n" + "\n".join(output.splitlines()[:15]))
    print(f"{sum(len(job[0]) for job in jobs)} of {len(headers)} headers, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
