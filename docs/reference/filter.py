#!/usr/bin/env python3
"""Copies headers for Doxygen: with the functions that macros make written out, each with the comment above the macro or its use.

    filter.py FOLDER_OF_HEADERS FOLDER_OF_COPIES
"""
import pathlib
import re
import sys

DEFINE = re.compile(r"((?:^///[^\n]*\n)*)((?:^//[^/\n][^\n]*\n)*)^#define (SINTER_\w+)\(([^)]*)\)((?:[^\n]*\\\n)*[^\n]*)\n", re.M)
USE = re.compile(r"((?:^///[^\n]*\n)*)^ *(SINTER_\w+)\(((?:[^()\n]|\([^()\n]*\))*)\) *\n", re.M)
ROW = re.compile(r"^SINTER_POINTWISE\((\w+),\s*(\d),\s*(\w+),\s*(.*)$", re.M)
INSIDE = {"kinked", "cast", "identity", "philox", "gauss", "root_of_squares"}
RULES = {"arithmetic": "Numbers, or bool where C++ has it.", "floating": "Floating dtypes.", "comparison": "Any dtype; gives bool.",
         "bits": "Integers and bool.", "integer": "Integers.", "selection": "A bool and two operands of one dtype.", "test": "Gives bool.",
         "any": "Any dtype."}


def rows(header):
    """A declaration for each row of ops.def."""
    text = (header.parents[2] / "ir" / "ops.def").read_text(encoding="utf-8")
    for name, arity, rule, rest in ROW.findall(text):
        if name in INSIDE:
            continue
        operands = "abc"[: int(arity)]
        types = ", ".join(f"class {o.upper()}" for o in operands)
        arguments = ", ".join(f"const {o.upper()}& {o}" for o in operands)
        yield (f"/// Element by element. {RULES.get(rule, '')} Operands broadcast; the result is lazy. user_error for extents that do not broadcast.\n"
               f"template <{types}>\nauto {name}({arguments}, location at = location::current());\n")


def written_out(text):
    macros = {}
    for above, _, name, parameters, body in DEFINE.findall(text):
        macros[name] = (above, [p.strip() for p in parameters.split(",")], body.replace("\\\n", "\n").replace("\\", ""))
    last = {}

    def use(match):
        above, name, given = match.groups()
        if name not in macros:
            return match.group(0)
        told, parameters, body = macros[name]
        last[name] = above or last.get(name) or told
        arguments = [a.strip() for a in given.split(",")]
        if parameters[-1] == "...":
            arguments[len(parameters) - 1:] = [", ".join(arguments[len(parameters) - 1:])]
        for parameter, argument in zip((p.replace("...", "__VA_ARGS__") for p in parameters), arguments):
            body = re.sub(rf"##{parameter}\b|\b{parameter}##|\b{parameter}\b", argument, body)
        # What the macro is made of, too.
        body = USE.sub(lambda m: use(m) if m.group(2) in macros else m.group(0),
                       re.sub(r"^ *(SINTER_)", lambda m: last[name] + m.group(1), body.strip() + "\n", flags=re.M))
        if "///" in body:
            return body
        # Each overload has the comment.
        body = re.sub(r"^ *template", lambda m: last[name] + "template", body, flags=re.M)
        return body.strip() + "\n"

    return USE.sub(use, text)


def plain(text):
    """Requirements left out: Doxygen takes some of them for functions."""
    text = re.sub(r"^( *)requires\s*\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)(\s*(?:&&)?)", r"\1", text, flags=re.M)
    return re.sub(r"^( *)requires [\w:]+<[^<>]*>\s*", r"\1", text, flags=re.M)


def main():
    source, copies = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    for path in sorted(source.rglob("*.hpp")):
        text = written_out(path.read_text(encoding="utf-8"))
        if path.relative_to(source) == pathlib.Path("front/functions/pointwise.hpp"):
            text = text.replace('#include "../../ir/ops.def"', "".join(rows(path)))
        copy = copies / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(plain(text), encoding="utf-8")


if __name__ == "__main__":
    main()
