#!/usr/bin/env python3
"""Lists public functions of the headers that no /// comment stands above.

    contracts.py [FOLDER of the project]
    contracts.py --self-test

A function of namespace sinter, or of nn, optim, io, data, fft, linalg, onnx, models in it, at the outermost level of a header in the rooms below, has a comment
directly above it, or an overload of the same name above it has one.
"""
import pathlib
import re
import sys
import tempfile

ROOMS = ("front/functions", "front/transforms", "nn", "optim", "io", "data", "fft", "linalg", "windows", "complex", "formats", "models")
HEADERS = ("linalg", "fft", "complex", "formats", "windows", "nn", "optim", "io", "data", "onnx", "models")
NAMESPACES = {"sinter", "sinter::nn", "sinter::optim", "sinter::io", "sinter::data", "sinter::fft", "sinter::linalg", "sinter::onnx", "sinter::models",
              *(f"sinter::models::{name}" for name in ("gpt2", "llama", "bert", "vit"))}
NAMESPACE = re.compile(r"^\s*(?:inline\s+)?namespace\s+([\w:]*)\s*\{")
# A definition or declaration begins in the first column: its name stands before the first bracket that opens arguments.
FUNCTION = re.compile(r"(?:^|[\s&*>])([a-z]\w*)\s*\((?![^()]*\)\s*&&|\))")
NO_NAMES = {"requires", "if", "sizeof", "decltype", "noexcept", "alignas", "static_assert", "operator", "defined", "explicit", "return", "for", "while"}


def without_text(line):
    """A line without comments and literals, so that brackets can be counted."""
    line = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'', '""', line)
    return line.split("//", 1)[0]


def name_of(declaration):
    """The function that a declaration at namespace level declares, or None."""
    text = re.sub(r"\s+", " ", declaration)
    if re.match(r"(?:template ?<.*?> ?)?(?:struct|class|enum|union|using|concept|namespace|static_assert|extern template|friend)\b", text):
        return None
    if re.search(r"\b(?:concept|using)\b[^(]*=", text) or re.match(r"(?:template ?<.*> ?)?(?:struct|class)\b", text):
        return None
    # Arguments of templates and requirements are taken away, from inside out.
    before = None
    text = text.split("{", 1)[0]
    while before != text:
        before, text = text, re.sub(r"<[^<>()]*>", " ", text)
        text = re.sub(r"\b(?:requires|decltype|noexcept|alignas)\s*\([^()]*\)", " ", text)
    head = re.match(r"[^=(]*?([a-z]\w*)\s*\(", text)
    # Members that are defined outside, and deduction guides.
    if not head or re.search(r"::\s*\w+\s*\($", head.group(0)) or re.search(r"\)\s*->\s*" + head.group(1) + r"\b", text) or head.group(1) in NO_NAMES or "operator" in text:
        return None
    return head.group(1)


def uncommented(text):
    """(line, name) of the public functions without a comment."""
    found, known = [], set()
    stack, depth = [], 0  # (namespace, its depth), and how many brackets are open
    comment, start, pending = False, 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        code = without_text(line)
        opened = NAMESPACE.match(line)
        level = stack[-1][1] if stack else 0
        public = bool(stack) and all(n for n, _ in stack) and "::".join(n for n, _ in stack) in NAMESPACES
        if opened and depth == level:
            stack.append((opened.group(1), depth + 1))
            depth += code.count("{") - code.count("}")
            if depth < stack[-1][1]:
                stack.pop()
            comment, pending = False, ""
            continue
        if depth == level and public:
            if line.startswith("///"):
                comment, pending = True, ""
            elif line.startswith("//"):
                pass
            elif not line.strip() or line.startswith("#"):
                if not pending:
                    comment = False
            elif not line.endswith("\\"):
                if not pending:
                    start = number
                pending += " " + code
        depth += code.count("{") - code.count("}")
        while stack and depth < stack[-1][1]:
            stack.pop()
            pending, comment = "", False
        if pending and depth == (stack[-1][1] if stack else 0) and ("}" in code or ";" in code):
            name = name_of(pending.strip())
            if name:
                if comment:
                    known.add(name)
                elif name not in known:
                    found.append((start, name))
            pending, comment = "", False
    return found


def run(root):
    failures = []
    folder = root / "include" / "sinter"
    for path in [p for room in ROOMS for p in sorted((folder / room).glob("*.hpp"))] + [folder / (name + ".hpp") for name in HEADERS]:
        for line, name in uncommented(path.read_text(encoding="utf-8")):
            failures.append(f"{path.relative_to(root)}:{line}: {name} has no /// comment that says shapes, dtypes and errors")
    return failures


def self_test():
    text = ("namespace sinter {\nnamespace detail {\nint hidden(int x) { return x; }\n}  // namespace detail\n\n"
            "/// Told.\ntemplate <class X, int... A>\nauto told(const X& x, axis_t<A...> = {}) {\n  if (x) { return 1; }\n  return 2;\n}\n"
            "template <class X>\nauto told(const X& x) {\n  return x;\n}\n\n"
            "template <class X>\nrequires(!element<X>) auto untold(const X& x,\n            int y) {\n  return x;\n}\n"
            "struct s {\n  void member(int) {}\n};\nusing f = int (*)(int);\ninline constexpr int n = detail::hidden(1);\nint plain(int x);\n}\n"
            "namespace sinter::nn {\nnamespace detail {\nint two(int);\n}\ninline int three(int x) { return x; }\n}\n")
    got = [name for _, name in uncommented(text)]
    if got != ["untold", "plain", "three"]:
        print(f"self-test: got {got}")
        return 1
    print("self-test: functions without a comment are found")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    failures = run(root if root.is_dir() else root.parents[2])
    print("\n".join(failures + [f"{len(failures)} functions without a comment"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
