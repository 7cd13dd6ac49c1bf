#!/usr/bin/env python3
"""A file and an engine that are built apart link, and a plug-in loads, exactly where both agree on what decides how the standard
library's classes lie in memory; else the error has the name that says so.

    same_build.py ENGINE_LIBRARY -- COMPILE_COMMAND...    (the engine is built as COMPILE_COMMAND says)
"""
import itertools
import os
import shutil
import subprocess
import sys
import tempfile

# What the front end includes; alone, since this is built many times.
PROGRAM = """
#include <sinter/base/same_build.hpp>
int main() { return 0; }
"""
WHOLE = """
#include <sinter/sinter.hpp>
int main() { return sinter::tensor<float, 1>{1, 2}.to_vector().size() == 2 ? 0 : 1; }
"""
PLUGIN = """
#include <sinter/base/same_build.hpp>
extern "C" int plugin() { return 0; }
"""
LOADER = """
#include <dlfcn.h>
#include <cstdio>
#include <sinter/base/same_build.hpp>
int main(int, char** names) {
  if (::dlopen(names[1], RTLD_LAZY | RTLD_LOCAL)) return 0;
  std::puts(::dlerror());
  return 1;
}
"""
NAME = "sinter_needs_an_engine_built_like_this_file"
OTHER = {
    "with_GLIBCXX_DEBUG": ["-D_GLIBCXX_DEBUG"],
    "CXX11_ABI_0": ["-D_GLIBCXX_USE_CXX11_ABI=0"],
    "version_9_8_7": ["-include", "other_version.hpp"],
}
ALIKE = ["-DNDEBUG", "-D_GLIBCXX_ASSERTIONS", "-std=c++2b", "-fno-rtti"]
OPTIMISED = [["-O0"], ["-O2", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"], ["-O2", "-flto"]]


def optimises_at_link_time(*compiler):
    """False where the linker lacks the compiler's plug-in: then no program links."""
    open("trivial.cpp", "w", encoding="utf-8").write("int main() { return 0; }\n")
    return run(*compiler, "-O2", "-flto", "trivial.cpp", "-o", "trivial")[0] == 0


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def main():
    split = sys.argv.index("--")
    archive, command = sys.argv[1], sys.argv[split + 1:]
    problems = []
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        for name, text in (("program.cpp", PROGRAM), ("whole.cpp", WHOLE), ("plugin.cpp", PLUGIN), ("loader.cpp", LOADER)):
            open(name, "w", encoding="utf-8").write(text)
        # The name alone differs: the rest of the headers is that of this version.
        open("other_version.hpp", "w", encoding="utf-8").write(
            "#include <sinter/base/config.hpp>\n#undef SINTER_VERSION_WORD\n#define SINTER_VERSION_WORD 9_8_7\n")
        whole = ["-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-ldl", "-lpthread", "-fopenmp"]
        code, out = run(*command, "-shared", "-o", "libengine.so", *whole)
        code2, out2 = run(*command, "-DSINTER_COMPILED", "-rdynamic", "loader.cpp", "-o", "loader", *whole)
        if code or code2:
            sys.exit(f"the engine does not link:\n{out}{out2}")
        engines = {"static": [archive, "-ldl", "-lpthread", "-fopenmp"], "shared": ["libengine.so", "-Wl,-rpath,."]}
        compilers = {command[0], *filter(None, map(shutil.which, ("g++", "clang++")))}
        without_lto = {compiler for compiler in compilers if not optimises_at_link_time(compiler)}
        for compiler in sorted(without_lto):
            print(f"skipped: -flto with {compiler}, which links no program with it")
        for compiler, (how, engine), flags in itertools.product(sorted(compilers), engines.items(), OPTIMISED):
            if "-flto" in flags and compiler in without_lto:
                continue
            build = [compiler, *command[1:], *flags, "-DSINTER_COMPILED", "program.cpp", "-o", "program"]
            for same in [[], *[[f] for f in ALIKE]] if flags == ["-O0"] else [[]]:
                code, out = run(*build, *same, *engine)
                if code:
                    problems.append(f"{compiler} {flags} {same}, {how}: does not link\n{out[-800:]}")
            for word, other in OTHER.items():
                code, out = run(*build, *other, *engine)
                if not code or NAME not in out or word not in out:
                    problems.append(f"{compiler} {flags} {other}, {how}: {code}, without {word}\n{out[-800:]}")
        for word, other in (("", []), ("with_GLIBCXX_DEBUG", OTHER["with_GLIBCXX_DEBUG"])):
            code, out = run(*command, "-DSINTER_COMPILED", "whole.cpp", "-o", "whole", *other, *engines["static"])
            if (code == 0) != (word == "") or word not in out:
                problems.append(f"the whole header {other}: {code} {out[-800:]}")
        for word, other in {"": [], **OTHER}.items():
            code, out = run(*command, "-DSINTER_COMPILED", "-fPIC", "-shared", *other, "plugin.cpp", "-o", "plugin.so")
            if code:
                sys.exit(out)
            code, out = run("./loader", "./plugin.so")
            if (code == 0) != (word == "") or word not in out:
                problems.append(f"plug-in {other}: {code} {out}")
    if problems:
        sys.exit("\n".join(problems))
    print("files and engines that differ are refused, those that agree link")


if __name__ == "__main__":
    main()
