#!/usr/bin/env python3
"""Checks that every line of include/sinter is in its room: the include graph against the layers of docs/architecture.md,
where vector code, OpenMP, system calls and the names of single ops may stand, first lines and the lengths of functions.

    check_layers.py ROOT         checks ROOT/include/sinter, prints one line a violation
    check_layers.py --self-test  proves that a planted violation of each rule is found
"""
import os
import re
import sys
import tempfile

# What each room may include; "plan/" is plan and all below it. A folder that does not stand here belongs to the one above it.
SEES = {
    "base": ["base"],
    "ir": ["base", "ir"],
    "autodiff": ["base", "ir", "engine", "autodiff"],  # engine declares gradient(), which autodiff/ defines
    "batch": ["base", "ir", "engine", "batch"],  # engine declares push_lanes(), which batch/ defines
    "engine": ["base", "ir", "engine", "jit"],
    "guards": ["base", "ir", "engine", "guards"],
    "trace": ["base", "ir", "engine", "guards", "trace"],
    "rewrite": ["base", "ir", "batch", "rewrite"],
    "plan/kernel": ["base", "ir", "plan/kernel"],
    "plan/schedule": ["base", "ir", "plan/kernel", "plan/schedule"],
    "plan/lowering": ["base", "ir", "plan/kernel", "plan/lowering"],
    "plan/fusion": ["base", "ir", "plan/kernel", "plan/lowering", "plan/fusion"],
    "plan/schedule": ["base", "ir", "plan/kernel", "plan/loops", "plan/schedule"],
    "plan/loops": ["base", "ir", "plan/kernel", "plan/schedule", "plan/loops"],
    "plan": ["base", "ir", "plan/"],
    "emit": ["base", "ir", "plan/kernel", "plan/loops", "plan/schedule", "emit"],
    "emit/prelude": ["base", "ir", "emit", "emit/prelude"],
    "emit/cpu": ["base", "ir", "plan/kernel", "plan/loops", "plan/schedule", "emit", "emit/prelude", "emit/cpu"],
    "emit/cuda": ["base", "ir", "plan/kernel", "plan/loops", "plan/schedule", "emit", "emit/prelude", "emit/cuda"],
    "run": ["base", "run"],
    "run/host": ["base", "run", "run/host"],
    "run/mesh": ["base", "run", "run/mesh"],
    "run/build": ["base", "run", "run/host", "run/build"],
    "run/cuda/device": ["base", "run", "run/host", "run/build", "run/cuda/device"],
    "run/cuda/program": ["base", "run", "run/host", "run/build", "run/cuda/device", "run/cuda/program"],
    "services": ["base", "run/", "engine", "services"],
    "report": ["base", "ir", "engine", "plan/", "report"],
    "dispatch": ["base", "ir", "engine", "guards", "report", "run", "dispatch"],
    "jit/backends": ["base", "ir", "engine", "trace", "plan/", "emit/", "run/", "report", "jit/backends"],
    "jit/check": ["base", "ir", "engine", "plan/", "emit/", "run/", "report", "jit/backends", "jit/check"],
    "jit/library": ["base", "ir", "engine", "trace", "rewrite", "plan/", "emit/", "run/", "jit/backends", "jit/library"],
    "jit": ["base", "ir", "autodiff", "batch", "engine", "guards", "trace", "rewrite", "plan/", "emit/", "run/", "services", "report", "dispatch", "loops", "jit/"],
    "loops": ["base", "ir", "engine", "loops"],
    "front/shapes": ["base", "ir", "engine", "front/shapes"],
    "front/tensor": ["base", "ir", "engine", "front/shapes", "front/tensor"],
    "front/eager": ["base", "ir", "engine", "loops", "front/shapes", "front/tensor", "front/eager"],
    "front/evaluate": ["base", "ir", "engine", "loops", "front/shapes", "front/tensor", "front/eager", "front/evaluate"],
    "front/functions": ["base", "ir", "engine", "loops", "front/shapes", "front/tensor", "front/eager", "front/evaluate", "front/functions"],
    "front/trees": ["base", "ir", "engine", "front/shapes", "front/tensor", "front/evaluate", "front/functions", "front/trees"],
    "front/compile": ["base", "ir", "engine", "front/shapes", "front/tensor", "front/evaluate", "front/functions", "front/trees", "front/compile"],
    "front/transforms": ["base", "ir", "engine", "front/shapes", "front/evaluate", "front/functions", "front/trees", "front/compile", "front/control", "front/transforms"],
    "front/control": ["base", "ir", "engine", "front/shapes", "front/evaluate", "front/functions", "front/trees", "front/compile", "front/control"],
    "front/runtime": ["base", "ir", "engine", "front/evaluate", "front/trees", "front/runtime"],
    "front": ["base", "ir", "engine", "loops", "front/"],
    "sinter.hpp": ["base", "front/", "engine"],
    "formats.hpp": ["formats"],
    "formats": ["sinter.hpp", "formats"],
    "complex.hpp": ["sinter.hpp", "complex"],
    "complex": ["sinter.hpp", "complex"],
    "fft.hpp": ["complex.hpp", "engine", "fft"],
    "fft": ["sinter.hpp", "complex.hpp", "engine", "fft"],
    "linalg.hpp": ["sinter.hpp", "engine", "linalg"],
    "linalg": ["sinter.hpp", "engine", "linalg"],
    "nn.hpp": ["sinter.hpp", "windows.hpp", "nn/"],
    "optim.hpp": ["sinter.hpp", "optim/"],
    "windows.hpp": ["windows"],
    "windows": ["sinter.hpp", "windows"],
    "nn": ["sinter.hpp", "windows", "nn/"],
    "optim": ["sinter.hpp", "optim/"],
    "io.hpp": ["io"],
    "io": ["sinter.hpp", "run", "engine", "io/"],  # files are opened and written as the caches' are
    "data.hpp": ["data"],
    "data": ["sinter.hpp", "io/", "data/"],
    "dist": ["sinter.hpp", "dist/"],
    "mesh.hpp": ["mesh"],
    "mesh": ["sinter.hpp", "engine", "mesh"],
    "mesh_io.hpp": ["mesh_io"],
    "mesh_io": ["io", "mesh", "mesh_io"],
    "stablehlo.hpp": ["stablehlo"],
    "stablehlo": ["sinter.hpp", "base", "ir", "engine", "io", "stablehlo"],
    "models.hpp": ["models"],
    "models": ["sinter.hpp", "nn.hpp", "io", "models/"],
    "onnx.hpp": ["onnx"],
    "onnx": ["sinter.hpp", "base", "ir", "engine", "front/", "io", "fft", "linalg", "windows", "onnx"],  # nodes are pushed without types

}

# The edges that close a circle: header-only, declarations bring their definitions along.
SEAMS = {("engine/engine.hpp", "jit/pipeline.hpp"), ("engine/factors.hpp", "jit/factors.hpp"), ("engine/fourier.hpp", "jit/fourier.hpp"), ("engine/mesh.hpp", "jit/meshes.hpp"),
         ("ir/dim.hpp", "ir/polynomial.hpp"),
         ("base/extent.hpp", "base/dims.hpp"), ("front/eager/loop.hpp", "front/eager/loop_moves.hpp"),
         ("loops/space.hpp", "loops/space_rules.hpp"), ("onnx/model.hpp", "onnx/model_rules.hpp"), ("onnx/export.hpp", "onnx/export_rules.hpp"), ("onnx/runtime.hpp", "onnx/runtime_rules.hpp"), ("stablehlo/export.hpp", "stablehlo/export_rules.hpp"),
         ("linalg/handles.hpp", "linalg/handle_rules.hpp"), ("optim/lbfgs.hpp", "optim/lbfgs_rules.hpp"),
         *((f"{name}.hpp", f"{rules}_rules.hpp") for name, rules in (
             ("io/array", "io/array"), ("io/file", "io/file"), ("io/npy", "io/npy"), ("io/archive", "io/archive"), ("io/trees", "io/tree"),
             ("io/checkpoints", "io/checkpoint"), ("io/graphs", "io/graph"), ("data/csv", "data/csv"), ("data/idx", "data/idx"), ("data/progress", "data/progress"),
             ("data/text", "data/text"), ("data/tokenizer", "data/tokenizer"), ("models/config", "models/config"),
             ("models/sampling", "models/sampling"), ("models/stored", "models/stored"), ("models/writer", "models/writer"),
             ("mesh_io/parts", "mesh_io/part"))),
         ("loops/reduce.hpp", "loops/reduce_rules.hpp"),
         *((f"front/{name}.hpp", f"front/{rules}_rules.hpp") for name, rules in (
             ("evaluate/evaluate", "evaluate/evaluate"), ("evaluate/handle", "evaluate/handle"), ("functions/nn_rows", "functions/nn"),
             ("functions/updates", "functions/update"), ("evaluate/views", "evaluate/view"), ("functions/indexing", "functions/index"), ("functions/order", "functions/order"),
              ("functions/places", "functions/place"),
              ("functions/arrange", "functions/arrange"),
             ("tensor/terms", "tensor/term"), ("tensor/trace_push", "tensor/trace"), ("trees/tree_map", "trees/tree"),
             ("transforms/vjp", "transforms/linear"), ("transforms/custom", "transforms/sample"))),
         *((f"base/{name}.hpp", "base/define.hpp") for name in ("callback", "device", "dims", "error", "kept", "local_list", "text", "shape_errors"))}

# Tests of more than one folder: ops on every backend, random graphs.
ACROSS = {"ops", "fuzz"}
# What these declare is defined, and tested, elsewhere.
DECLARES = {"engine"}

# The eager loops: the one place outside emitted text that knows vectors and threads.
EAGER = r"(loops|front/eager)/\w*\.hpp$|front/(evaluate/handle|functions/matmul)\w*\.hpp$"

# Text that belongs to some rooms only: what, pattern, files where it may stand.
ROOMS = [
    ("OpenMP", re.compile(r"#\s*pragma\s+omp|_Pragma\(\s*\"omp"), re.compile(r"emit/|run/host/team\.hpp$|" + EAGER)),
    ("vector code", re.compile(r"\bxsimd\b"), re.compile("emit/|" + EAGER)),
    ("GPU code", re.compile(r"__global__|__device__|__shared__"), re.compile(r"emit/")),
    ("a call of the operating system",
     re.compile(r"\b(dlopen|dlsym|dlclose|posix_spawnp?|waitpid|flock|fopen|mkstemp|std::filesystem)\b"),
     re.compile(r"(run|io|data)/|emit/prelude/library\.hpp$")),
]

# One particular pointwise op: a row of ops.def, not a line of the stages that treat all ops alike.
NAMED_OP_ROOMS = re.compile(r"^(plan|emit)/(?!prelude)")

GLUE_OPS = {"identity", "cast"}  # no operation, and conversion
GLUE_OPS |= {"add", "mul", "maximum", "minimum", "bit_or", "bit_and"}  # the combiners of reductions
GLUE_OPS |= {"select"}  # the operand of a pad or a concatenation, or another

# Rooms whose code is no part of the engine.
IN_FRONT = {"front", "complex", "complex.hpp", "fft", "fft.hpp", "formats", "formats.hpp", "linalg", "linalg.hpp", "nn", "nn.hpp", "windows", "windows.hpp", "onnx", "onnx.hpp", "stablehlo", "stablehlo.hpp", "optim", "io", "io.hpp", "data", "data.hpp", "models", "models.hpp", "dist", "mesh", "mesh.hpp", "mesh_io", "mesh_io.hpp"}
# Rooms of the engine that lie outside the region: what every call passes through.
OUTSIDE_THE_REGION = {"loops"}

# Slow to compile or not for every user: behind the seam only.
BEHIND_THE_SEAM = {"iostream", "regex", "fstream", "filesystem", "future", "dlfcn.h", "spawn.h", "unistd.h", "fcntl.h",
                   "sys/wait.h", "sys/stat.h", "sys/file.h", "cuda.h", "nvrtc.h", "mpi.h"}

# The headers that mark regions; engine_begin.hpp includes whatever the engine includes of the system.
REGION = {"base/engine_begin.hpp", "base/engine_end.hpp", "base/floats_begin.hpp", "base/floats_end.hpp"}

# A function fits a screen. Those of LONG_FUNCTIONS, by header, do not; a row that is no longer needed is printed.
MAX_FUNCTION = 60
LONG_FUNCTIONS = {}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.M)
RAW_TEXT = re.compile(r'R"([^\s()\\]*)\(.*?\)\1"', re.S)  # of other programs
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
OP_NAME = re.compile(r"\bop::(\w+)")
# What is no code to count braces in: comments, texts and directives.
NO_CODE = re.compile(COMMENT.pattern + r"""|R"([^\s()\\]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])*'"""
                     r"|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
FUNCTION_NAME = re.compile(r"(operator\s*(?:\(\)|[^\w\s(]+|\w+)|~?\b(?!(?:requires|decltype|noexcept|alignas|explicit|__attribute__)\b)\w+)\s*\(")


def room_of(path):
    """The longest row of SEES that the path lies in, else its first folder."""
    parts = path.split("/")
    rooms = ("/".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((room for room in rooms if room in SEES), parts[0])


def sees(here, to):
    room = room_of(to)
    return any(room == row or row.endswith("/") and (room + "/").startswith(row) for row in SEES[here])


def read_sources(root):
    """Path relative to include/sinter -> text."""
    top = os.path.join(root, "include", "sinter")
    sources = {}
    for folder, _, names in os.walk(top):
        for name in names:
            if name.endswith((".hpp", ".def")):
                full = os.path.join(folder, name)
                with open(full, encoding="utf-8") as f:
                    sources[os.path.relpath(full, top)] = f.read()
    return sources


def includes_of(path, text):
    """(own headers by path, other headers by name)."""
    own, others = [], []
    for quoted, angled in INCLUDE.findall(RAW_TEXT.sub("", text)):
        if quoted:
            own.append(os.path.normpath(os.path.join(os.path.dirname(path), quoted)))
        elif angled.startswith("sinter/"):
            own.append(angled[len("sinter/"):])
        else:
            others.append(angled)
    return own, others


def outline(head):
    """What stands before a brace without what is in brackets."""
    for inner, mark in ((r"\([^()]*\)", "\0"), (r"<[^<>]*>", "")):
        while re.search(inner, head):
            head = re.sub(inner, mark, head)
    return head.replace("\0", "()")


def functions_of(text):
    """(name, first line, lines) of each function that stands in a namespace or a class; a lambda is part of the function around it."""
    code = NO_CODE.sub(lambda m: "\n" * m.group().count("\n"), text)
    found = []
    head, first = "", 0  # what stands before the next brace of a namespace or a class, and the line on which it begins
    braces, line = [], 1  # what each open brace belongs to
    for at, c in enumerate(code):
        line += c == "\n"
        outside = all(kind == "scope" for kind in braces)
        if c == "{":
            kind = "value"
            if head.count("(") == head.count(")"):
                if SCOPE.search(outline(head)):
                    kind = "scope"
                elif FUNCTION_NAME.search(outline(head)):
                    kind = "function"
            braces.append(kind)
            if outside and kind == "scope":
                head = ""
        elif c == "}" and braces:
            kind = braces.pop()
            if all(kind == "scope" for kind in braces):
                # The first of an initialiser list ends before the body begins.
                goes_on = head.count("(") > head.count(")") or code[at + 1:at + 80].lstrip()[:1] in (",", "{")
                if kind == "function" and not goes_on:
                    found.append((FUNCTION_NAME.search(outline(head)).group(1), first, line - first + 1))
                if not goes_on:
                    head = ""
        elif outside:
            if c == ";" and head.count("(") == head.count(")"):
                head = ""
            elif head or not c.isspace():
                first = first if head else line
                head += c
    return found


def check(sources):
    found = []

    def report(path, message, line=0):
        found.append(f"include/sinter/{path}{f':{line}' if line else ''}: {message}")

    pointwise = set(re.findall(r"^SINTER_POINTWISE\((\w+)", sources.get("ir/ops.def", ""), re.M))
    graph, system = {}, {}
    for path, text in sorted(sources.items()):
        own, system[path] = includes_of(path, text)
        graph[path] = [to for to in own if to in sources]
        here = room_of(path)
        if here not in SEES:
            report(path, "lies in no known room; add its folder to SEES in tests/check_layers.py and to the docs")
            continue
        for to in own:
            if to not in sources:
                report(path, f"includes {to}, which does not exist")
            elif not sees(here, to):
                report(path, f"includes {to}; {here} sees only {', '.join(SEES[here])}")
        lines = text.split("\n")
        if not re.match(rf"// {re.escape(path)}: \S", lines[0]):
            report(path, f"the first line is not '// {path}: what room it is.'", 1)
        if path.endswith(".hpp") and path not in REGION and "#pragma once" not in lines:
            report(path, "has no #pragma once")
        for name, first, length in functions_of(text):
            if length > MAX_FUNCTION and name not in LONG_FUNCTIONS.get(path, ()):
                report(path, f"{name} is {length} lines long; split it (at most {MAX_FUNCTION})", first)
        code = COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text).split("\n")
        for number, line in enumerate(code, 1):
            for what, pattern, where in ROOMS:
                if pattern.search(line) and not where.match(path):
                    report(path, f"{what} outside its room", number)
            if NAMED_OP_ROOMS.match(path):
                for name in OP_NAME.findall(line):
                    if name in pointwise - GLUE_OPS:
                        report(path, f"names op::{name}; facts about one pointwise op belong in ir/ops.def", number)

    state = {}

    def visit(path, trail):
        state[path] = "open"
        for to in graph[path]:
            if (path, to) in SEAMS:
                continue
            if state.get(to) == "open":
                report(path, "include circle: " + " -> ".join(trail[trail.index(to):] + [to]))
            elif to not in state:
                visit(to, trail + [to])
        state[path] = "done"

    for path in sorted(graph):
        if path not in state:
            visit(path, [path])

    front, queue = set(), ["sinter.hpp"] if "sinter.hpp" in graph else []
    while queue:
        path = queue.pop()
        if path not in front:
            front.add(path)
            queue += [to for to in graph[path] if (path, to) not in SEAMS]
    for path in sorted(front - REGION):
        for name in system[path]:
            if name in BEHIND_THE_SEAM:
                report(path, f"<{name}> stands in front of the seam; every user would compile it")
    begin = "base/engine_begin.hpp"
    for path in sorted(system) if begin in system else []:
        for name in system[path] if path.split("/")[0] not in IN_FRONT | OUTSIDE_THE_REGION else []:
            if name not in system[begin]:
                report(path, f"includes <{name}>; {begin} has to include it too")
    return found


def exceptions(sources):
    """What LONG_FUNCTIONS still allows, one line a function."""
    lines = []
    for path, names in sorted(LONG_FUNCTIONS.items()):
        lengths = {name: length for name, _, length in functions_of(sources.get(path, "")) if length > MAX_FUNCTION}
        lines += [f"include/sinter/{path}: {name} is {lengths[name]} lines long, and excepted" if name in lengths else
                  f"include/sinter/{path}: {name} needs no row of LONG_FUNCTIONS in tests/check_layers.py any more" for name in sorted(names)]
    return lines


def unmirrored(root, sources):
    """First folders of include/sinter without tests, and folders of tests that are of no folder of include/sinter."""
    folders = {"/".join(parts[:n]) for parts in (os.path.dirname(path).split("/") for path in sources) for n in range(1, len(parts) + 1)}
    rooms = {folder for folder in folders if folder and "/" not in folder} - DECLARES
    top = os.path.join(root, "tests")
    tested = {os.path.relpath(at, top) for at, _, names in os.walk(top) if any(name.endswith("_test.cpp") for name in names)}
    return ([f"include/sinter/{room}: no tests/{room}/**/*_test.cpp; tests mirror include"
             for room in sorted(rooms - {name.split("/")[0] for name in tested})] +
            [f"tests/{name}: tests no folder of include/sinter, and is not in ACROSS" for name in sorted(tested - folders - ACROSS)])


# 59 lines between the braces, some of which are none.
LONG = "%s {\n" + "  if (x) { y('{'); }  // {\n" * 58 + '#define F {\n' + "}"


def self_test():
    """A small clean tree, then the same tree with one fault at a time."""
    clean = {
        "base/a.hpp": "// base/a.hpp: a.\n#pragma once\n#include <string>\n",
        "base/engine_begin.hpp": "// base/engine_begin.hpp: b.\n#include <dlfcn.h>\n#include <string>\n",
        "ir/ops.def": "// ir/ops.def: rows.\nSINTER_POINTWISE(exp, 1, floating, exp(a), g * r, none, none)\n",
        "ir/g.hpp": '// ir/g.hpp: g.\n#pragma once\n#include "../base/a.hpp"\n',
        "front/tensor/t.hpp": '// front/tensor/t.hpp: t.\n#pragma once\n#include "../../engine/engine.hpp"\n',
        "plan/p.hpp": '// plan/p.hpp: p.\n#pragma once\n#include "../ir/g.hpp"\n// op::exp in a comment is fine\n',
        "plan/fusion/f.hpp": '// plan/fusion/f.hpp: f.\n#pragma once\n#include "../../ir/g.hpp"\n',
        "plan/schedule/s.hpp": '// plan/schedule/s.hpp: s.\n#pragma once\n#include "../../ir/g.hpp"\n',
        "run/r.hpp": "// run/r.hpp: r.\n#pragma once\n#include <dlfcn.h>\n",
        "engine/engine.hpp": '// engine/engine.hpp: e.\n#pragma once\n#include "../ir/g.hpp"\n#include "../jit/pipeline.hpp"\n',
        "emit/cpu/c.hpp": '// emit/cpu/c.hpp: c.\n#pragma once\n#include "../../ir/g.hpp"\n',
        "emit/cuda/c.hpp": '// emit/cuda/c.hpp: c.\n#pragma once\n#include "../../ir/g.hpp"\n',
        "jit/pipeline.hpp": '// jit/pipeline.hpp: j.\n#pragma once\n#include "../engine/engine.hpp"\n#include "../plan/p.hpp"\n#include "../run/r.hpp"\n',
        "sinter.hpp": "// sinter.hpp: s.\n#pragma once\n#include <sinter/front/tensor/t.hpp>\n",
    }
    faults = [
        ("base/a.hpp", '#include "../ir/g.hpp"', "base sees only"),
        ("plan/p.hpp", "#include <sinter/front/tensor/t.hpp>", "plan sees only"),
        ("run/r.hpp", '#include "../ir/g.hpp"', "run sees only"),
        ("front/tensor/t.hpp", '#include "../../jit/pipeline.hpp"', "front/tensor sees only"),
        ("emit/cuda/c.hpp", '#include "../cpu/c.hpp"', "emit/cuda sees only"),
        ("emit/cuda/c.hpp", '#include "../../plan/fusion/f.hpp"', "emit/cuda sees only"),
        ("plan/schedule/s.hpp", '#include "../../emit/cuda/c.hpp"', "plan/schedule sees only"),
        ("ir/g.hpp", '#include "none.hpp"', "does not exist"),
        ("ir/g.hpp", '#include "g.hpp"', "include circle"),
        ("plan/p.hpp", "int x = op::exp;", "names op::exp"),
        ("plan/p.hpp", "#pragma omp parallel", "OpenMP outside"),
        ("ir/g.hpp", "xsimd::batch<float> b;", "vector code outside"),
        ("ir/g.hpp", "__global__ void f();", "GPU code outside"),
        ("front/tensor/t.hpp", "void* h = dlopen(p, 0);", "operating system outside"),
        ("front/tensor/t.hpp", "#include <regex>", "in front of the seam"),
        ("ir/g.hpp", LONG % "void f(int n = {0}, const char* s = \"{\") noexcept", "f is 61 lines long"),
        ("ir/g.hpp", LONG % "template <class T>\nrequires(sizeof(T) > 1) T::T(int n) : a{n}, b(1)", "T is 62 lines long"),
        ("ir/g.hpp", "struct s {\n" + LONG % "bool operator==(s o) const" + "\n};", "operator== is 61 lines long"),
        ("run/r.hpp", "#include <poll.h>", "has to include it too"),
        ("misc/x.hpp", "", "no known room"),
        ("ir/h.hpp", "#pragma once", "first line"),
        ("ir/i.hpp", "// ir/i.hpp: i.", "no #pragma once"),
    ]

    def write(root, files):
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)

    def run(files, tests):
        with tempfile.TemporaryDirectory() as root:
            write(root, {os.path.join("include", "sinter", path): text for path, text in files.items()})
            write(root, {os.path.join("tests", path): "" for path in tests})
            return check(read_sources(root)) + unmirrored(root, read_sources(root))

    # Together they are long, each by itself is not.
    clean["base/a.hpp"] += "namespace n {\nstruct a {\n" + "  int f(int x = {}) { return x; }\n  enum { one, two } e{one};\n" * 40 + "};\n}\n"
    tests = [f"{room}/a_test.cpp" for room in ("base", "ir", "front/tensor", "plan", "run", "emit/cpu", "jit", "fuzz")]
    failures = [f"the clean tree is refused: {line}" for line in run(clean, tests)]
    for planted, expected in ((tests[1:], "include/sinter/base: no tests/base"), ([*tests, "misc/a_test.cpp"], "tests/misc: tests no")):
        if not any(expected in line for line in run(clean, planted)):
            failures.append(f"'{expected}' is not found")
    for path, text, expected in faults:
        found = run({**clean, path: clean.get(path, "") + text + "\n"}, tests)
        if not any(expected in line for line in found):
            failures.append(f"'{text.strip()[:40]}' planted in {path} is not found as '{expected}': {found}")
    print("\n".join(failures) if failures else f"{len(faults) + 2} planted violations found")
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    sources = read_sources(root)
    if not sources:
        print(f"no headers under {root}/include/sinter")
        return 1
    found = check(sources) + unmirrored(root, sources)
    print("\n".join(exceptions(sources) + (found or [f"{len(sources)} headers, every line in its room"])))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
