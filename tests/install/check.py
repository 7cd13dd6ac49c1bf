#!/usr/bin/env python3
"""Installs into an empty folder, then configures, builds and runs a project that knows sinter by find_package alone.

    check.py CMAKE BUILD_FOLDER COMPILER GENERATOR CONFIGURE_ARGUMENTS...
"""
import os
import subprocess
import sys
import tempfile


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-4000:]}")


def main():
    cmake, build, compiler, generator, *arguments = sys.argv[1:]
    consumer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "consumer")
    with tempfile.TemporaryDirectory() as work:
        prefix, out = os.path.join(work, "prefix"), os.path.join(work, "build")
        run(cmake, "--install", build, "--prefix", prefix)
        run(cmake, "-S", consumer, "-B", out, "-G", generator, f"-DCMAKE_CXX_COMPILER={compiler}",
            f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug", *arguments)
        run(cmake, "--build", out, "--parallel", "2")
        for program in ("header_only", "compiled"):
            run(os.path.join(out, program))
    print("both targets of the installed package build and run")


if __name__ == "__main__":
    main()
