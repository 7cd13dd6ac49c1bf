#!/usr/bin/env python3
"""Compiles and runs the examples of a page: the ```cpp blocks of each of its ## sections are one program.

    check.py PAGE.md... -- COMPILER ARGUMENTS...    the arguments end with what the programs are linked with
    check.py --self-test -- COMPILER ARGUMENTS...

A block that begins with struct, class, template, using, auto or #include, in its first column, stands outside of main; any other is a
scope in it, one after the other. What a line prints stands behind it: `std::cout << x.item() << "\\n";  // 3.5`. What is marked ```cpp skip
is not compiled.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.M | re.S)
OUTSIDE = re.compile(r"(?:struct|class|template|using)\b|#include|auto\s+\w+\(")
PRINTS = re.compile(r"^[^\n]*std::cout[^\n]*;\s*//\s*(.*?)\s*$", re.M)


def sections(text):
    """(heading, its blocks) of what has blocks."""
    parts = re.split(r"^## (.*)$", text, flags=re.M)
    for heading, body in zip(["", *parts[1::2]], parts[0::2]):
        blocks = BLOCK.findall(body)
        if blocks:
            yield heading.strip(), blocks


def program(blocks):
    """A program of the blocks, and the lines that it prints."""
    outside = [b for b in blocks if OUTSIDE.match(b)]
    inside = [b for b in blocks if not OUTSIDE.match(b)]
    text = "#include <iostream>\n#include <sinter/sinter.hpp>\n\nusing namespace sinter;\n\n" + "\n".join(outside)
    text += "\nint main() {\n" + "".join("{\n" + b + "}\n" for b in inside) + "}\n"
    return text, [line for b in inside for line in PRINTS.findall(b)]


def run_section(command, heading, blocks, folder):
    text, want = program(blocks)
    name = os.path.join(folder, re.sub(r"\W+", "_", heading) or "page")
    with open(name + ".cpp", "w", encoding="utf-8") as f:
        f.write(text)
    # The file first: libraries stand behind what they are for.
    done = subprocess.run([command[0], name + ".cpp", *command[1:], "-o", name], capture_output=True, text=True)
    if done.returncode != 0:
        return [f"does not compile:\n{done.stderr[:3000]}"]
    done = subprocess.run([name], capture_output=True, text=True)
    got = done.stdout.splitlines()
    reasons = [f"ends with {done.returncode}:\n{done.stderr[:2000]}"] if done.returncode != 0 else []
    return reasons + [f"prints '{g}', the page says '{w}'" for g, w in zip(got, want) if g.strip() != w] + (
        [f"prints {len(got)} lines, the page says {len(want)}"] if len(got) != len(want) else [])


def run_page(command, path, folder):
    """The failures of a page, and the number of its programs."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    all_of_it = list(sections(text))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reasons = pool.map(lambda s: run_section(command, *s, folder), all_of_it)
    return [f"{os.path.basename(path)}, {heading or 'the beginning'}: {r}" for (heading, _), all in zip(all_of_it, reasons) for r in all], len(all_of_it)


def self_test(command, folder):
    page = ("# Page\n## Good\n```cpp\nstruct two { int n = 2; };\n```\nText.\n```cpp\nstd::cout << two{}.n << \"\\n\";  // 2\n```\n"
            "## Wrong\n```cpp\nstd::cout << 3 << \"\\n\";  // 4\n```\n## Broken\n```cpp\nint x = \"text\";\n```\n"
            "## Silent\n```cpp\nint y = 0;\nstatic_cast<void>(y);\n```\n## Skipped\n```cpp skip\nint x = \"text\";\n```\n"
            "## Thrown\n```cpp\nthrow 1;\n```\n")
    path = os.path.join(folder, "page.md")
    with open(path, "w", encoding="utf-8") as f:
        f.write(page)
    failures, count = run_page(command, path, folder)
    text = "\n".join(failures)
    wanted = [r"Wrong: prints '3', the page says '4'", r"Broken: does not compile", r"Thrown: ends with"]
    missing = [w for w in wanted if not re.search(w, text)]
    if missing or len(failures) != len(wanted) or count != 5:
        print(f"self-test: {count} programs, missing {missing}, got:\n{text}")
        return 1
    print("self-test: each kind of failure is found")
    return 0


def main():
    given = sys.argv[1:]
    split = given.index("--")
    pages, command = given[:split], given[split + 1:]
    with tempfile.TemporaryDirectory() as folder:
        if pages == ["--self-test"]:
            return self_test(command, folder)
        failures, count = [], 0
        for page in pages:
            more, n = run_page(command, page, folder)
            failures, count = failures + more, count + n
        print("\n".join(failures + [f"{count} programs, {len(failures)} failures"]))
        return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
