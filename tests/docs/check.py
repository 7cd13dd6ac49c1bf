#!/usr/bin/env python3
"""Compiles and runs the examples of a page: the ```cpp blocks of each of its ## sections are one program.

    check.py [--together] PAGE.md... -- COMPILER ARGUMENTS...    the arguments end with what the programs are linked with
    check.py --snippets PAGE.md... -- COMPILER ARGUMENTS...      compiles pages whose blocks are parts of programs
    check.py --self-test -- COMPILER ARGUMENTS...

With --together all pages are one program, each page in a namespace and a function of its own.

With --snippets each page is a unit, which is not run. A comment `<!-- names ... -->` of the page, which readers do not see, declares what its
blocks use; there may be several, each for the blocks behind it. A block that has a main is in a namespace of its own.

A block that begins with struct, class, namespace, template, using, auto or #include, in its first column, stands outside of main; any other is a
scope in it, one after the other. What a line prints stands behind it: `std::cout << x.item() << "\\n";  // 3.5`. What is marked ```cpp skip
is not compiled.

A page whose name begins with from_ is a table of another library's functions. Its blocks declare what the tables use, and each code span of a
table's second column is an expression, or a statement where it ends in a semicolon. All are run, each with names of its own, and none may
throw. A comment `<!-- values ... -->` says what some of them are, a line each, `expression => elements`: numbers in row-major order, of several
results one after the other.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.M | re.S)
OUTSIDE = re.compile(r"(?:struct|class|namespace|template|using)\b|#include|auto\s+\w+\(")
PRINTS = re.compile(r"^[^\n]*std::cout[^\n]*;\s*//\s*(.*?)\s*$", re.M)


ROW = re.compile(r"^\|(?:[^|\\]|\\.)*\|((?:[^|\\]|\\.)*)\|", re.M)
SPAN = re.compile(r"`([^`]+)`")


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


def cells(text):
    """(line, code) of the code spans in the second columns of tables."""
    for row in ROW.finditer(text):
        for code in SPAN.findall(row.group(1)):
            yield text.count("\n", 0, row.start()) + 1, code.replace("\\|", "|")


# Prints what a cell gives: elements in row-major order, numbers, the parts of pairs, tuples and lists.
SHOW = r"""
template <class T>
void show(const T& x) {
  if constexpr (requires { x.defined(); })
    if (!x.defined()) return;
  if constexpr (tensor_like<T>) for (const auto v : evaluate(x).to_vector()) std::cout << ' ' << static_cast<double>(v);
  else if constexpr (std::is_arithmetic_v<T>) std::cout << ' ' << static_cast<double>(x);
  else if constexpr (std::is_same_v<T, dim>) std::cout << ' ' << x.bits;
  else if constexpr (requires { std::tuple_size<T>::value; }) std::apply([](const auto&... part) { (show(part), ...); }, x);
  else if constexpr (requires { std::declval<const typename T::value_type&>(); x.begin(); x.size(); })
    for (const typename T::value_type v : x) show(v);
}
template <class F>
void cell(int number, F&& f) {
  std::cout << "\\n@cell " << number;
  try {
    f();
  } catch (const std::exception& e) {
    std::cout << "\\n@throws " << e.what();
  }
}
"""
VALUES = re.compile(r"<!-- values\n(.*?)-->", re.S)


def table_program(path, text):
    """A program that runs all cells of a from_ page: errors name the page's line. Assignments run last, since some write into elements."""
    blocks, found = BLOCK.findall(text), ""
    outside = [b for b in blocks if OUTSIDE.match(b)]
    inside = [b for b in blocks if not OUTSIDE.match(b)]
    for last in (False, True):
        for number, (line, code) in enumerate(cells(text)):
            statement = code.endswith(";")
            if (statement and " = " in code) == last:
                run = code if statement else f"show(({code}));"
                found += f'cell({number}, [=]() mutable {{\n#line {line} "{os.path.basename(path)}"\n{run} }});\n'
    return ("#include <iostream>\n#include <sinter/sinter.hpp>\n\nusing namespace sinter;\n" + SHOW.replace("\\\\n", "\\n") + "\n".join(outside) +
            "\nint main() {\n" + "".join(inside) + found + "std::cout << std::endl;\n}\n")


def wrong_values(path, text, printed):
    """What the cells of a page give and should not. Numbers are equal when they agree to five digits."""
    page, codes = os.path.basename(path), [f"{line}: {code}" for line, code in cells(text)]
    got = {int(n): rest for n, rest in re.findall(r"^@cell (\d+)(.*(?:\n(?!@cell).*)*)", printed, re.M)}
    wrong = [f"{page}:{codes[n]}: {rest.strip()}" for n, rest in got.items() if "@throws" in rest]
    wrong += [f"{page}:{code}: was not run" for n, code in enumerate(codes) if n not in got]
    for line in "".join(VALUES.findall(text)).splitlines():
        code, _, want = line.partition(" => ")
        numbers = [n for n, c in enumerate(codes) if c.split(": ", 1)[1] == code]
        if not want or not numbers:
            wrong.append(f"{page}: '{line}' is no cell and its elements")
            continue
        has = got.get(numbers[0], "").split()
        try:
            same = len(has) == len(want.split()) and all(
                abs(float(a) - float(b)) <= 1e-5 * max(1, abs(float(b))) or a == b for a, b in zip(has, want.split()))
        except ValueError:
            same = False
        if not same:
            wrong.append(f"{page}:{codes[numbers[0]]}: is {' '.join(has)[:300]}, the page says {want}")
    return wrong


def run_table(command, path, folder):
    """The failures of a from_ page, and the number of its programs."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    name = os.path.join(folder, os.path.basename(path))
    with open(name + ".cpp", "w", encoding="utf-8") as f:
        f.write(table_program(path, text))
    if not any(True for _ in cells(text)):
        return [f"{os.path.basename(path)}: no table"], 1
    done = subprocess.run([command[0], name + ".cpp", *command[1:], "-w", "-o", name + ".out"], capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        return [f"{os.path.basename(path)}: does not compile:\n" + "\n".join(lines)[:6000] + "\n" + done.stderr[:3000]], 1
    # What cells compile is interpreted: that takes less time than compiling it.
    done = subprocess.run([name + ".out"], capture_output=True, text=True, cwd=folder, env={**os.environ, "SINTER_CXX": "/nonexistent/c++"})
    failures = [f"{os.path.basename(path)}: ends with {done.returncode}:\n{done.stderr[:2000]}"] if done.returncode != 0 else []
    return failures + wrong_values(path, text, done.stdout), 1


def page_unit(number, path):
    """(headers, a namespace with a function, the lines that it prints) of a page."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    headers, outside, inside, want = [], "", "", []
    for match in BLOCK.finditer(text):
        block = match.group(1)
        line = f'#line {text.count(chr(10), 0, match.start(1)) + 1} "{os.path.basename(path)}"\n'
        includes = re.findall(r"^#include.*$", block, re.M)
        headers += includes
        block = re.sub(r"^#include.*$", "", block, flags=re.M)
        if includes or OUTSIDE.match(block):
            outside += line + block
        else:
            inside += "{\n" + line + block + "}\n"
            want += PRINTS.findall(block)
    return headers, f"namespace page_{number} {{\n{outside}\nvoid run() {{\n{inside}}}\n}}\n", want


def run_together(command, paths, folder):
    """The failures of pages that are one program."""
    units = [page_unit(i, path) for i, path in enumerate(paths)]
    text = "#include <iostream>\n#include <sinter/sinter.hpp>\n" + "".join(f"{h}\n" for u in units for h in u[0])
    text += "\nusing namespace sinter;\n\n" + "".join(u[1] for u in units)
    text += "int main() {\n" + "".join(f'std::cout << "page {i}" << std::endl;\npage_{i}::run();\n' for i in range(len(units))) + "}\n"
    name = os.path.join(folder, "pages")
    with open(name + ".cpp", "w", encoding="utf-8") as f:
        f.write(text)
    done = subprocess.run([command[0], name + ".cpp", *command[1:], "-o", name], capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        return ["does not compile:\n" + "\n".join(lines)[:3000] + "\n" + done.stderr[:3000]]
    done = subprocess.run([name], capture_output=True, text=True, cwd=folder)
    failures = [f"ends with {done.returncode}:\n{done.stderr[:2000]}"] if done.returncode != 0 else []
    got = re.split(r"^page \d+\n", done.stdout, flags=re.M)[1:]
    for path, unit, printed in zip(paths, units, got):
        page, lines = os.path.basename(path), printed.splitlines()
        failures += [f"{page}: prints '{g}', the page says '{w}'" for g, w in zip(lines, unit[2]) if g.strip() != w]
        if len(lines) != len(unit[2]):
            failures.append(f"{page}: prints {len(lines)} lines, the page says {len(unit[2])}")
    return failures


NAMES = re.compile(r"<!-- names\n(.*?)-->", re.S)


def snippets_unit(path):
    """The text of a unit of a page's blocks."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    page, headers, out, names = os.path.basename(path), [], "", ""
    for n, match in enumerate(re.finditer(f"(?:{NAMES.pattern})|(?:{BLOCK.pattern})", text, re.M | re.S)):
        block = match.group(1) or match.group(2)
        line = f'#line {text.count(chr(10), 0, match.start(1) if match.group(1) else match.start(2)) + 1} "{page}"\n'
        headers += re.findall(r"^#include.*$", block, re.M)
        # Lines stay where they are.
        block = re.sub(r"^(?:#include.*|using namespace sinter;)$", "", block, flags=re.M)
        if match.group(1):
            names = f"namespace names_{n} {{\n{line}{block}\n}}\n"
            out += names
            names = f"using namespace names_{n};\n"
        elif re.search(r"\bmain\(", block) or OUTSIDE.match(re.sub(r"^\s*(?://.*\n\s*)*", "", block)):
            out += f"namespace block_{n} {{\n{names}{line}{block}\n}}\n"
        else:
            out += f"inline auto block_{n} = [] {{\n{names}{line}{block}\n}};\n"
    return "".join(f"{h}\n" for h in dict.fromkeys(headers)) + "#include <fstream>\n#include <iostream>\n#include <sinter/sinter.hpp>\nusing namespace sinter;\n" + out


def run_snippets(command, path, folder):
    name = os.path.join(folder, os.path.basename(path) + ".cpp")
    with open(name, "w", encoding="utf-8") as f:
        f.write(snippets_unit(path))
    return syntax_failures(command, path, name), 1


def syntax_failures(command, path, name):
    compiled = [a for a in command[1:] if not a.endswith((".a", ".so")) and not a.startswith("-l")]
    done = subprocess.run([command[0], name, *compiled, "-fsyntax-only"], capture_output=True, text=True)
    if done.returncode == 0:
        return []
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    return [f"{os.path.basename(path)}: does not compile:\n" + "\n".join(lines)[:6000] + "\n" + done.stderr[:3000]]


def run_section(command, heading, blocks, folder):
    text, want = program(blocks)
    name = os.path.join(folder, re.sub(r"\W+", "_", heading) or "page")
    with open(name + ".cpp", "w", encoding="utf-8") as f:
        f.write(text)
    # The file first: libraries stand behind what they are for.
    done = subprocess.run([command[0], name + ".cpp", *command[1:], "-o", name], capture_output=True, text=True)
    if done.returncode != 0:
        return [f"does not compile:\n{done.stderr[:3000]}"]
    done = subprocess.run([name], capture_output=True, text=True, cwd=folder)
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
    # Pages together, and a page of tables.
    one, two, table = (os.path.join(folder, name) for name in ("one.md", "two.md", "from_it.md"))
    block = "```cpp\nstruct n { int x = %d; };\n```\n```cpp\nstd::cout << n{}.x << \"\\n\";  // %d\n```\n"
    for path, text in ((one, block % (1, 1)), (two, block % (2, 3)),
                       (table, "```cpp\nint x = 1, y = 2;\n```\n| it | here |\n|---|---|\n| a | `x \\| y`, `x = 2;` |\n| b | `nowhere(x)` |\n")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    together = run_together(command, [one, two], folder)
    if together != ["two.md: prints '2', the page says '3'"]:
        print(f"self-test, together: {together}")
        return 1
    tables = run_table(command, table, folder)[0]
    if len(tables) != 1 or "from_it.md:7:" not in tables[0] or "from_it.md:6:" in tables[0]:
        print(f"self-test, tables: {tables}")
        return 1
    with open(table, "w", encoding="utf-8") as f:
        f.write("```cpp\nint x = 1, y = 2;\n```\n| it | here |\n|---|---|\n| a | `x \\| y`, `x = 2;` |\n| b | `x + y`, `throw user_error(\"no\");` |\n"
                "<!-- values\nx | y => 3\nx + y => 4\nx => 1\n-->\n")
    tables = run_table(command, table, folder)[0]
    wanted = ["throws no", "x + y: is 3, the page says 4", "'x => 1' is no cell"]
    if len(tables) != 3 or not all(any(w in line for line in tables) for w in wanted):
        print(f"self-test, values: {tables}")
        return 1
    with open(table, "w", encoding="utf-8") as f:
        f.write("<!-- names\nint x = 1;\n-->\n```cpp\nx += 1;\n```\n```cpp\nint main() { return 0; }\n```\n```cpp\nx += nothing;\n```\n")
    snippets = run_snippets(command, table, folder)[0]
    if len(snippets) != 1 or "from_it.md:11:" not in snippets[0] or "from_it.md:5:" in snippets[0]:
        print(f"self-test, snippets: {snippets}")
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
        if pages[0] == "--snippets":
            for page in pages[1:]:
                more, n = run_snippets(command, page, folder)
                failures, count = failures + more, count + n
            pages = []
        elif pages[0] == "--together":
            failures, count, pages = run_together(command, pages[1:], folder), 1, []
        for page in pages:
            table = os.path.basename(page).startswith("from_")
            more, n = (run_table if table else run_page)(command, page, folder)
            failures, count = failures + more, count + n
        print("\n".join(failures + [f"{count} programs, {len(failures)} failures"]))
        return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
