#!/usr/bin/env python3
"""Every public function of tensors is drawn by tests/fuzz/functions.hpp, which compares its values eagerly, compiled, of open and static
extents, its derivatives of both modes and its lanes; and is in a page of the documentation.

    covered.py ROOT
"""
import pathlib
import re
import sys

ROOMS = ["front/functions", "windows", "linalg", "fft", "complex"]
# What is no function of tensors to tensors, or is drawn by a test of its own.
EXEMPT = {
    "zeros", "ones", "full_like", "zeros_like", "from_span", "autocast", "beta", "rotary", "choice", "permutation", "categorical", "dirichlet",
    "add", "sub", "mul", "div", "eq", "ne", "square",  # operators of complex numbers, and pointwise rows
}


def public_functions(root):
    names = {}
    for room in ROOMS:
        for path in sorted((root / "include/sinter" / room).glob("*.hpp")):
            inner, depth = False, 0
            for line in path.read_text(encoding="utf-8").splitlines():
                opened = re.match(r"namespace ([\w:]+) \{", line)
                if opened:
                    inner = any(part in opened[1] for part in ("detail", "steps", "shapes", "small", "rules"))
                if inner or opened:
                    if line.startswith("}  // namespace"):
                        inner = False
                    continue
                for name in re.findall(r"(?:^|\) |\} )auto (\w+)\(", line):
                    names.setdefault(name, path.relative_to(root))
                for name in re.findall(r"^SINTER_(?:REDUCTION|DEVIATION|ARG|SCAN|NAN|UNARY|BINARY)\w*\((\w+)", line):
                    names.setdefault(name, path.relative_to(root))
    return {n: p for n, p in names.items() if n != "NAME" and not n.startswith("operator")}


def main():
    root = pathlib.Path(sys.argv[1])
    drawn = (root / "tests/fuzz/functions.hpp").read_text(encoding="utf-8")
    pages = "\n".join(p.read_text(encoding="utf-8") for p in [root / "README.md", *sorted((root / "docs").rglob("*.md"))])
    names = public_functions(root)
    faults = [f"{p}: {n} is not in tests/fuzz/functions.hpp" for n, p in names.items()
              if n not in EXEMPT and not re.search(rf"\b{n}\b", drawn)]
    faults += [f"{p}: {n} is in no page of docs" for n, p in names.items()
               if n not in EXEMPT and not re.search(rf"\b{n}\b", pages)]
    print("\n".join(faults))
    print(f"{len(names)} functions, {len(faults)} faults")
    return 1 if faults or len(names) < 150 else 0


if __name__ == "__main__":
    sys.exit(main())
