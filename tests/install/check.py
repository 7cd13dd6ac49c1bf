#!/usr/bin/env python3
"""Builds and runs a project that knows sinter by find_package alone, from the Debian package in a fresh root, or from an install into an empty
folder where dpkg is missing, or by add_subdirectory, under another generator where there is one. The build compiles the engine once.

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


def install_package(cmake, build, work):
    """Makes the Debian package and installs it in a fresh root; its prefix."""
    cpack = os.path.join(os.path.dirname(shutil.which(cmake) or cmake), "cpack")
    run(cpack, "-G", "DEB", "--config", os.path.join(build, "CPackConfig.cmake"), "-B", work)
    packages = glob.glob(os.path.join(work, "libsinter-dev_*.deb"))
    if len(packages) != 1:
        sys.exit(f"cpack made {packages}")
    needs = subprocess.run(["dpkg-deb", "-f", packages[0], "Depends"], capture_output=True, text=True).stdout
    if any(need not in needs for need in ("libboost-dev", "libxsimd-dev", "nlohmann-json3-dev")):
        sys.exit(f"the package depends on: {needs}")
    root = os.path.join(work, "root")
    for folder in ("info", "updates", "triggers"):
        os.makedirs(os.path.join(root, "var/lib/dpkg", folder))
    open(os.path.join(root, "var/lib/dpkg/status"), "w", encoding="utf-8").close()
    # What it depends on is the machine's.
    run("dpkg", f"--root={root}", f"--log={work}/log", "--force-depends", "--force-not-root", "-i", packages[0])
    return os.path.join(root, "usr")


def main():
    how, cmake, source, build, compiler, generator, *arguments = sys.argv[1:]
    consumer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "consumer")
    other = "Unix Makefiles" if generator == "Ninja" and shutil.which("make") else generator
    with tempfile.TemporaryDirectory() as work:
        # ccache, where the build uses it, takes the folder for the root of a clone like any other.
        os.environ["CCACHE_BASEDIR"] = work
        prefix = os.path.join(work, "prefix")
        if how == "find_package" and shutil.which("dpkg"):
            prefix = install_package(cmake, build, work)
        else:
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
        print(f"{how}, {by}, {prefix}: all programs build and run")


if __name__ == "__main__":
    main()
