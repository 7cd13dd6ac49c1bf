#!/usr/bin/env python3
"""Builds and runs a project that knows sinter by find_package alone, from an install into an empty folder, or by
add_subdirectory, under another generator where there is one. The build compiles the engine once.

    check.py find_package|add_subdirectory CMAKE SOURCE_FOLDER BUILD_FOLDER COMPILER GENERATOR CONFIGURE_ARGUMENTS...
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-4000:]}")


def main():
    how, cmake, source, build, compiler, generator, *arguments = sys.argv[1:]
    consumer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "consumer")
    other = "Unix Makefiles" if generator == "Ninja" and shutil.which("make") else generator
    with tempfile.TemporaryDirectory() as work:
        # ccache, where the build uses it, takes the folder for the root of a clone like any other.
        os.environ["CCACHE_BASEDIR"] = work
        prefix = os.path.join(work, "prefix")
        run(cmake, "--install", build, "--prefix", prefix)
        by, place = {"find_package": (generator, f"-DCMAKE_PREFIX_PATH={prefix}"),
                     "add_subdirectory": (other, f"-DSINTER_SOURCE={source}")}[how]
        out = os.path.join(work, how)
        run(cmake, "-S", consumer, "-B", out, "-G", by, f"-DCMAKE_CXX_COMPILER={compiler}", place,
            "-DCMAKE_BUILD_TYPE=", *arguments)
        run(cmake, "--build", out, "--parallel", "2")
        # The second time kernels come from the disk, in the same order in each of two engines.
        for _ in range(2):
            run(os.path.join(out, "header_only"), os.path.join(out, "libplugin.so"))
        for program in ("libraries", "compiled"):
            run(os.path.join(out, program))
        engines = glob.glob(os.path.join(out, "**", "engine.cpp.o"), recursive=True)
        if len(engines) != 1:
            sys.exit(f"{how}: the engine was compiled {len(engines)} times: {engines}")
        print(f"{how}, {by}: all programs build and run")


if __name__ == "__main__":
    main()
