#!/usr/bin/env python3
"""Runs the tests of a GPU (ctest -L cuda) under compute-sanitizer, several at once.

    compute_sanitizer.py BUILD [--tool memcheck|racecheck|initcheck|synccheck] [--jobs N] [--timeout S] [--only REGEX]

Each tensor has an allocation of its own there, but for RECORDED and the tests of that, and fresh memory is poisoned; ALONE run one by one. Run ctest -L cuda first: then
kernels come from the cache. Prints a line a test, and what the tool found; fails when it found anything, or a test failed.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import time


# What starts CUDA in children, which the tool does not follow: kernels that fail on purpose, mostly.
LEFT_OUT = ("run/cuda/device/fault/gpu", "run/cuda/emulator/gpu")
LEFT_OUT_CASES = "*in a forked child*"
# Graphs with copies and conditional nodes. The tool (2025.3) ends where memory that a copy node has was freed and allocated anew between two
# launches, and reports misaligned accesses, of no kernel, where other processes use the GPU, too.
RECORDED = ("front/control/cuda_control/gpu", "jit/cuda_recorded/gpu", "jit/cuda_table/gpu")
ALONE = (*RECORDED, "jit/cuda_hits/gpu")


def tests_of(build, only):
    """Name, command and environment of each test."""
    listed = subprocess.run(["ctest", "--show-only=json-v1", "-L", "^cuda$"], cwd=build, check=True, capture_output=True)
    for test in json.loads(listed.stdout)["tests"]:
        if test["name"] in LEFT_OUT or not re.search(only, test["name"]):
            continue
        properties = {p["name"]: p["value"] for p in test["properties"]}
        environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
        # Those of run/ look at the cache itself.
        cached = test["name"].startswith("run/") or test["name"] in RECORDED
        alone = {} if cached else {"SINTER_CUDA_NO_CACHE": "1"}
        yield test["name"], test["command"], {**environment, **alone, "SINTER_TEST_GPU": "assumed"}


def run(tool, name, command, environment, timeout):
    # What the tests call the driver with on purpose, and the compilers that they start, are not its business.
    checked = [tool[0], "--tool", tool[1], "--target-processes", "application-only", "--report-api-errors", "no",
               "--error-exitcode", "99", *command, "-tce=" + LEFT_OUT_CASES]
    start = time.monotonic()
    try:
        done = subprocess.run(checked, capture_output=True, text=True, timeout=timeout, errors="replace",
                              env={**os.environ, "SINTER_CUDA_POISON": "1", **environment})
        code, text = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as e:
        code, text = "no end", (e.stdout or b"").decode(errors="replace")
    return name, code, text, time.monotonic() - start


def results(tool, tests, jobs, timeout):
    """What run() gives for each test as they end: first those that run alone."""
    for test in tests:
        if test[0] in ALONE:
            yield run(tool, *test, timeout)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(run, tool, *test, timeout) for test in tests if test[0] not in ALONE]
        for done in concurrent.futures.as_completed(waiting):
            yield done.result()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--tool", default="memcheck")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--timeout", type=float, default=1200)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    sanitizer = shutil.which("compute-sanitizer") or sys.exit("compute-sanitizer is not on PATH")
    tests = list(tests_of(args.build, args.only))
    bad = 0
    for name, code, text, seconds in results((sanitizer, args.tool), tests, args.jobs, args.timeout):
        summary = re.findall(r"^=+ ((?:ERROR|RACECHECK) SUMMARY: .*)$", text, re.M)
        cases = re.findall(r"test cases: *(\d+) \| *(\d+) passed", text)
        clean = code == 0 and summary and re.match(r".*SUMMARY: 0 (errors|hazards)", summary[-1])
        bad += not clean
        print(f"{'ok    ' if clean else 'FAILED'} {name:34} {seconds:6.1f} s  {code}  "
              f"{'/'.join(reversed(cases[-1])) if cases else '?'} cases  {summary[-1] if summary else 'no summary'}",
              flush=True)
        if not clean:
            lines = [l for l in text.splitlines() if re.match(r"=========|.*(ERROR|FATAL):", l)]
            print("\n".join("    " + l for l in lines[:12] + lines[-12:]), flush=True)
    if not tests:
        sys.exit("no tests")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
