#!/usr/bin/env python3
"""Lists public functions of the headers that no /// comment stands above, and comments that keep an error or everything to themselves.

    contracts.py [FOLDER of the project]
    contracts.py --self-test

A function of namespace sinter, or of nn, optim, io, data, fft, linalg, onnx, models in it, at the outermost level of a header in the rooms below, has a comment
directly above it (in *_rules.hpp are definitions of what is declared, and commented, elsewhere), or an overload of the same name above it has one. It says more than the name: a formula, or three words or more that are not in it. Of a function that
calls fail or fail_file it says which error: user_error, system_error, or that it is as another function has it.
"""
import pathlib
import re
import sys
import tempfile

ROOMS = ("front/functions", "front/transforms", "nn", "optim", "io", "data", "fft", "linalg", "windows", "complex", "formats", "models", "mesh")
HEADERS = ("linalg", "fft", "mesh", "complex", "formats", "windows", "nn", "optim", "io", "data", "onnx", "models")
NAMESPACES = {"sinter", "sinter::nn", "sinter::optim", "sinter::io", "sinter::data", "sinter::fft", "sinter::linalg", "sinter::onnx", "sinter::models",
              *(f"sinter::models::{name}" for name in ("gpt2", "llama", "bert", "vit"))}
NAMESPACE = re.compile(r"^\s*(?:inline\s+)?namespace\s+([\w:]*)\s*\{")
# A definition or declaration begins in the first column: its name stands before the first bracket that opens arguments.
FUNCTION = re.compile(r"(?:^|[\s&*>])([a-z]\w*)\s*\((?![^()]*\)\s*&&|\))")
NO_NAMES = {"requires", "if", "sizeof", "decltype", "noexcept", "alignas", "static_assert", "operator", "defined", "explicit", "return", "for", "while"}


# What a contract may speak of.
ERROR = re.compile(r"user_error|system_error|\bthrow|\b[Aa]s (?:above|\w+(?:::\w+)* (?:does|has|takes|there)|in \w+|that of|[a-z_]+(?:\(|'s))|\b[Ss]ee\b|[Tt]he same|refus|\berror\b")
FAILS = re.compile(r"\b(?:fail|fail_file|fail_errno)\s*\(")
FORMULA = re.compile(r"[=·/*+^(|]")
WORD = re.compile(r"[A-Za-z]{2,}")


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


def functions(text):
    """(line, name, the comment above it or None, its code) of the public functions."""
    found = []
    body, continued = "", False
    stack, depth = [], 0  # (namespace, its depth), and how many brackets are open
    comment, start, pending, macro = "", 0, "", False
    for number, line in enumerate(text.splitlines(), 1):
        macro, continued = continued, line.endswith("\\")
        code = without_text(line)
        opened = NAMESPACE.match(line)
        level = stack[-1][1] if stack else 0
        public = bool(stack) and all(n for n, _ in stack) and "::".join(n for n, _ in stack) in NAMESPACES
        if opened and depth == level:
            stack.append((opened.group(1), depth + 1))
            depth += code.count("{") - code.count("}")
            if depth < stack[-1][1]:
                stack.pop()
            comment, pending = "", ""
            continue
        if depth == level and public:
            if line.startswith("///"):
                comment, pending = comment + line[3:], ""
            elif line.startswith("//"):
                pass
            elif not line.strip() or line.startswith("#"):
                if not pending:
                    comment = ""
            elif not macro and not line.endswith("\\"):
                if not pending:
                    start = number
                pending += " " + code
        depth += code.count("{") - code.count("}")
        while stack and depth < stack[-1][1]:
            stack.pop()
            pending, comment = "", ""
        if pending and depth == (stack[-1][1] if stack else 0) and ("}" in code or ";" in code):
            name = name_of(pending.strip())
            if name:
                found.append((start, name, comment or None, body + " " + code))
            pending, comment, body = "", "", ""
        elif pending:
            body += " " + code
    return found


def uncommented(text):
    """(line, name) of the public functions without a comment."""
    found, known = [], set()
    for line, name, comment, _ in functions(text):
        if comment:
            known.add(name)
        elif name not in known:
            found.append((line, name))
    return found


def silent(text):
    """(line, name, what its comment does not say) of the public functions."""
    found, told = [], {}
    for line, name, comment, code in functions(text):
        told[name] = told.get(name, "") + (comment or "")
        said = told[name]
        if comment and not FORMULA.search(comment) and not len({w.lower() for w in WORD.findall(comment)} - {name, *name.split("_")}) >= 3:
            found.append((line, name, "its comment says no more than its name"))
        elif FAILS.search(code) and said and not ERROR.search(said):
            found.append((line, name, "it calls fail, and its comment names no error"))
    return found


def run(root):
    failures = []
    folder = root / "include" / "sinter"
    for path in [p for room in ROOMS for p in sorted((folder / room).glob("*.hpp")) if not p.name.endswith("_rules.hpp")] + [folder / (name + ".hpp") for name in HEADERS]:
        for line, name in uncommented(path.read_text(encoding="utf-8")):
            failures.append(f"{path.relative_to(root)}:{line}: {name} has no /// comment that says shapes, dtypes and errors")
        for line, name, what in silent(path.read_text(encoding="utf-8")):
            failures.append(f"{path.relative_to(root)}:{line}: {name}: {what}")
    return failures


def self_test():
    text = ("namespace sinter {\nnamespace detail {\nint hidden(int x) { return x; }\n}  // namespace detail\n\n"
            "/// Told.\ntemplate <class X, int... A>\nauto told(const X& x, axis_t<A...> = {}) {\n  if (x) { return 1; }\n  return 2;\n}\n"
            "template <class X>\nauto told(const X& x) {\n  return x;\n}\n\n"
            "template <class X>\nrequires(!element<X>) auto untold(const X& x,\n            int y) {\n  return x;\n}\n"
            "struct s {\n  void member(int) {}\n};\nusing f = int (*)(int);\ninline constexpr int n = detail::hidden(1);\n#define MADE \\\n  int made(int) { return 1; }\nint plain(int x);\n}\n"
            "namespace sinter::nn {\nnamespace detail {\nint two(int);\n}\ninline int three(int x) { return x; }\n}\n")
    got = [name for _, name in uncommented(text)]
    if got != ["untold", "plain", "three"]:
        print(f"self-test: got {got}")
        return 1
    text = ("namespace sinter {\n/// The sum.\nint sum(int x) {\n  return x;\n}\n/// Twice x, of any dtype.\nint twice(int x) {\n  if (!x)\n    fail(\"twice\", 0);\n"
            "  return 2 * x;\n}\n/// Half of x, of any dtype. user_error for 0.\nint half(int x) {\n  if (!x) fail(\"half\", 0);\n  return x / 2;\n}\n}\n")
    got = [(name, what.split(",")[0]) for _, name, what in silent(text)]
    if got != [("sum", "its comment says no more than its name"), ("twice", "it calls fail")]:
        print(f"self-test: got {got}")
        return 1
    print("self-test: functions without a comment are found, and comments that say too little")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    failures = run(root if root.is_dir() else root.parents[2])
    print("\n".join(failures + [f"{len(failures)} functions whose comments lack something"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
