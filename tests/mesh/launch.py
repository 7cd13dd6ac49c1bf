#!/usr/bin/env python3
"""Runs tests/mesh/ranks.cpp on several processes, by hand and by the launchers of MPI that are installed.

    launch.py PROGRAM             all programs, and a few deaths of ranks
    launch.py PROGRAM --trials N  N deaths of ranks, in turn
    launch.py PROGRAM --nccl DIR  on emulated GPUs, whose libraries are in DIR
    launch.py PROGRAM --kernels   ranks that lack the same kernels
    launch.py PROGRAM --gpus      on two GPUs; ends with 77 where there are less
    launch.py --self-test         proves that wrong lines are found

It ends with 77 where no launcher of MPI is found and the rest passed.
"""
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SILENCE = 2.0  # seconds, of the variable SINTER_MESH_SILENCE
LIMIT = 60
KERNELS = 240  # where emulated kernels are compiled first
# So that a launcher leaves the other ranks alive when one ends badly.
STAYS = {"Open MPI": ["--enable-recovery"], "MPICH": ["-disable-auto-cleanup"]}


def launchers():
    """Commands that start N ranks of a program."""
    out = {}
    for name in ("mpirun.openmpi", "mpirun"):
        if shutil.which(name) and "Open MPI" in version(name):
            out["Open MPI"] = [name, "--oversubscribe", "--tag-output"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
            break
    for name in ("mpiexec.mpich", "mpiexec.hydra", os.environ.get("SINTER_TEST_MPICH", "")):
        if name and shutil.which(name) and "HYDRA" in version(name):
            out["MPICH"] = [name]
            break
    return out


def version(name):
    return subprocess.run([name, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


class run_of:
    """What the ranks of one run printed: lines by rank, the rest, and the time."""

    def __init__(self, text, seconds, hung=False, ends={}):
        self.text, self.seconds, self.hung = text, seconds, hung
        self.ends = ends  # how each process of a rank ended, where it was started by hand
        # A launcher may join the lines of ranks.
        pieces = re.split(r"(?=rank \d+: (?:right|wrong|threw))", text)
        self.lines = {int(r): line for r, line in (m.groups() for m in (re.match(r"rank (\d+): (.*)", p) for p in pieces) if m)}


def ended(process, start, limit=LIMIT):
    """Waits for a started job, and ends it where it does not end by itself."""
    try:
        text, _ = process.communicate(timeout=limit)
        return run_of(text, time.monotonic() - start, ends={0: end_of(process.returncode)})
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        return run_of(text, time.monotonic() - start, hung=True)


def end_of(code):
    """In words, by the exit status that Python tells."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def start(command, more={}, to=subprocess.PIPE):
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", **more)
    return subprocess.Popen(command, stdout=to, stderr=subprocess.STDOUT, text=True, env=environment,
                            start_new_session=True)


def by_launcher(command, ranks, program, words, more={}):
    return ended(start(command + ["-np", str(ranks), program] + words, more), time.monotonic())


def by_hand(ranks, program, words, more={}, variables=None, limit=LIMIT):
    """Ranks that the variables of each tell; None for one that is not started."""
    before = time.monotonic()
    port = str(20000 + os.getpid() % 20000)
    variables = variables or (lambda r: {"SINTER_RANK": str(r), "SINTER_SIZE": str(ranks), "SINTER_ADDR": "127.0.0.1:" + port})
    jobs = {r: start([program] + words, {**more, **variables(r)}) for r in range(ranks) if variables(r) is not None}
    runs = {r: ended(j, before, limit) for r, j in jobs.items()}
    return run_of("".join(run.text for run in runs.values()), time.monotonic() - before, any(run.hung for run in runs.values()),
                  {r: run.ends.get(0, "was ended by the test") + (f" after {run.text.strip()!r}" if run.text.strip() else "")
                   for r, run in runs.items()})


def orphans(mark):
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"SINTER_TEST_NONCE={mark}".encode() in file.read().split(b"\0"):
                    out.append(int(pid))
        except OSError:
            pass
    return [p for p in out if p != os.getpid()]


def problem_of(run, ranks, pattern, rest=""):
    """Empty if each of the ranks printed a line that has the pattern."""
    if run.hung:
        return "it hangs"
    for r in ranks:
        if r not in run.lines:
            return f"rank {r} printed no line, and {run.ends.get(r, 'its launcher does not tell how it ended')}"
        if not re.search(pattern, run.lines[r]):
            return f"rank {r} printed {run.lines[r]!r}, not {pattern!r}"
    if rest and not re.search(rest, run.text):
        return f"nothing printed {rest!r}"
    return ""


class results:
    def __init__(self):
        self.failures = 0

    def note(self, name, run, problem):
        print(f"{'FAILED' if problem else 'ok'}  {name}  {run.seconds:.1f} s  {problem}", flush=True)
        if problem:
            self.failures += 1
            print("   " + run.text[-3000:].replace("\n", "\n   "), flush=True)


def check_programs(all_results, name, command, program):
    quick = {"SINTER_MESH_SILENCE": str(SILENCE)}
    for words, ranks, pattern, more in (
            (["collectives"], 4, "^right", {}),
            (["training"], 4, "^right", {}),
            (["training"], 4, "^right", {"SINTER_MESH_CHECK": "1"}),
            (["equal"], 3, "^right", {}),
            (["loops"], 4, "^right", {}),
            (["chunks"], 3, "^right", {}),
            (["chunks", "differ"], 2, r"different programs: rank 0 runs .*are cut into pieces.*; rank 1 runs", quick),
            (["differ"], 3, r"different programs: rank 0 runs .*all_reduce.*ranks\.cpp:\d+.*rank [12] runs .*all_reduce", quick),
            (["seeds"], 2, r"an input that is invariant, with the digest", {"SINTER_MESH_CHECK": "1", **quick}),
    ):
        stays = [] if pattern == "^right" else STAYS[name]
        run = by_launcher(command + stays, ranks, program, words, more)
        all_results.note(f"{name} {' '.join(words)}", run, problem_of(run, range(ranks), pattern))
    run = by_launcher(command + STAYS[name], 3, program, ["exit"], quick)
    all_results.note(f"{name} exit", run, problem_of(run, [0, 2], r"rank 1 has ended.*ranks\.cpp:\d+"))


def check_by_hand(all_results, program):
    quick = {"SINTER_MESH_SILENCE": str(SILENCE), "SINTER_MESH_TIMEOUT": "4"}
    run = by_hand(3, program, ["join"], quick)
    all_results.note("by hand join", run, problem_of(run, range(3), "^right"))
    port = str(20000 + os.getpid() % 20000)

    def torchrun(r):
        return {"TORCHELASTIC_RUN_ID": "test", "RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r), "MASTER_ADDR": "localhost",
                "MASTER_PORT": port, "SINTER_MESH_SECRET": "0123456789abcdef" * 4}
    run = by_hand(2, program, ["join"], quick, torchrun)
    all_results.note("torchrun's variables join", run, problem_of(run, range(2), "^right"))
    run = by_hand(2, program, ["equal"], quick, torchrun)
    all_results.note("torchrun's variables without MPI", run, problem_of(run, range(2), "start the program with mpirun"))

    def without_last(r):
        return None if r == 2 else {"SINTER_RANK": str(r), "SINTER_SIZE": "3", "SINTER_ADDR": "127.0.0.1:" + port}
    run = by_hand(3, program, ["join"], quick, without_last)
    all_results.note("by hand, a rank is missing", run,
                     problem_of(run, [0], r"rank 2 \(not started\) did not arrive within SINTER_MESH_TIMEOUT.*ranks\.cpp:\d+",
                                r"\[sinter:warning\] rank 2 \(not started\) did not arrive"))

    def other_secret(r):
        return {"SINTER_RANK": str(r), "SINTER_SIZE": "2", "SINTER_ADDR": "127.0.0.1:" + port, "SINTER_MESH_SECRET": f"{r}" * 64}
    run = by_hand(2, program, ["join"], quick, other_secret)
    all_results.note("by hand, another secret", run, problem_of(run, [1], "does not know the secret"))

    def far(r):
        return {"SINTER_RANK": str(r), "SINTER_SIZE": "2", "SINTER_ADDR": "192.0.2.1:" + port}
    run = by_hand(2, program, ["join"], quick, far)
    all_results.note("by hand, another host without a secret", run, problem_of(run, range(2), "set SINTER_MESH_SECRET on all ranks"))


def death(name, command, program, when, victim, number, ranks=3):
    """One death: the survivors say who it was, or the launcher ends them. Nobody is left."""
    mark = f"{time.time():.6f}"
    more = {"SINTER_MESH_SILENCE": str(SILENCE), "SINTER_TEST_NONCE": mark}
    output = tempfile.TemporaryFile(mode="w+")
    before = time.monotonic()
    job = start(command + STAYS[name] + ["-np", str(ranks), program, "death", when, str(victim), str(int(number))], more, output)
    survivors = [r for r in range(ranks) if r != victim]

    def printed():
        output.seek(0)
        return output.read()
    # A launcher waits for a stopped rank, the test only for the others.
    told = False
    while time.monotonic() - before < 40 and job.poll() is None and not told:
        told = number == signal.SIGSTOP and all(r in run_of(printed(), 0).lines for r in survivors)
        time.sleep(0.05)
    hung = job.poll() is None and not told
    run = run_of(printed(), time.monotonic() - before, hung)
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGTERM)
        time.sleep(0.5)
    for _ in range(100):
        left = orphans(mark)
        if not left or number == signal.SIGSTOP:
            break
        time.sleep(0.1)
    for pid in orphans(mark):
        os.kill(pid, signal.SIGKILL)
    os.killpg(job.pid, signal.SIGKILL) if job.poll() is None else None
    job.wait()
    # MPICH's launcher may end the job before a rank has printed.
    if name == "MPICH" and number == signal.SIGKILL and not hung:
        survivors = [r for r in survivors if r in run.lines]
    problem = problem_of(run, survivors, rf"^threw.*rank {victim} has died|^threw.*rank {victim} .*(silent|stopped)")
    if not problem and left and number == signal.SIGKILL:
        problem = f"processes are left: {left}"
    return run, problem


def check_deaths(all_results, found, program, count):
    turns = itertools.cycle(itertools.product(("after", "in", "compile", "trace", "before", "start"), (0, 1), (signal.SIGKILL, signal.SIGSTOP)))
    for k, (when, victim, number) in zip(range(count), turns):
        name = sorted(found)[(k // 24) % len(found)]
        run, problem = death(name, found[name], program, when, victim, number)
        all_results.note(f"{name} {number.name} of rank {victim}, {when}", run, problem)


def emulated(folder, files):
    """The variables for the emulated libraries in a folder; ranks exchange by files in another."""
    names = ("cuda", "nvrtc", "cublasLt", "cufft", "cusolver", "cublas", "cudnn", "nccl")
    return {**{f"SINTER_LIB{n.upper()}": f"{folder}/lib{n}.so" for n in names}, "SINTER_DEVICE": "cuda",
            "SINTER_EMULATOR_DEVICES": "2", "SINTER_EMULATOR_NCCL_FOLDER": files}


def by_local_rank(ranks, more=lambda r: {}):
    port = str(20000 + os.getpid() % 20000)
    return lambda r: {"SINTER_RANK": str(r), "SINTER_SIZE": str(ranks), "SINTER_LOCAL": str(r),
                      "SINTER_ADDR": "127.0.0.1:" + port, **more(r)}


def check_nccl(all_results, program, libraries):
    """Exchanges of emulated GPUs: right, late, with errors, with ranks that differ or die."""
    quick = {"SINTER_MESH_SILENCE": str(SILENCE)}
    hostile = {"SINTER_EMULATOR_DEFER": "1", "SINTER_EMULATOR_ORDER": "reverse", "SINTER_CUDA_POISON": "1"}
    other = r"NCCL, and rank 1 of the axis has none"

    def without_library(r):
        return {"SINTER_LIBNCCL": "/nowhere/libnccl.so"} if r == 1 else {}
    for name, words, ranks, pattern, more, each in (
            ("gpus", ["gpus", "2"], 4, "^right", {}, None),
            ("training", ["training"], 4, "^right", {}, None),
            ("training, work put off", ["training"], 4, "^right", hostile, None),
            ("training, a late rank", ["training"], 2, "^right", {"SINTER_EMULATOR_NCCL_LATE": "1:20"}, None),
            ("training, compared", ["training"], 2, "^right", {"SINTER_MESH_CHECK": "1"}, None),
            ("equal", ["equal"], 3, "^right", {}, None),
            ("loops", ["loops"], 4, "^right", {}, None),
            ("chunks", ["chunks"], 3, "^right", {}, None),
            ("chunks, work put off", ["chunks"], 3, "^right", hostile, None),
            ("differ", ["differ"], 3, r"different programs: rank 0 runs .*all_reduce", quick, None),
            ("an error of NCCL", ["training"], 2, r"threw.*rank 1: NCCL: unhandled system error",
             {"SINTER_EMULATOR_NCCL_ERROR": "1:5", **quick}, None),
            ("more than may be pending", ["many"], 2, "^right", hostile, None),
            ("an error while nothing is pending", ["given_up"], 2, r"^threw: .*given up.*rank 1: NCCL: unhandled system error",
             {"SINTER_EMULATOR_NCCL_ERROR": "1:2", **quick}, None),
            ("a call that blocks", ["given_up"], 2, r"^threw: .*given up.*within SINTER_MESH_TIMEOUT",
             {"SINTER_EMULATOR_NCCL_BLOCK": "1:2", "SINTER_MESH_TIMEOUT": "2", **quick}, None),
            ("equal GPUs", ["equal"], 3, r"^threw: .*ranks 0 and 2 of the axis share a GPU.*SINTER_LIBNCCL=none",
             {"SINTER_EMULATOR_UUIDS": "shared"}, None),
            ("no library", ["training"], 2, other, quick, without_library)):
        with tempfile.TemporaryDirectory() as files:
            run = by_hand(ranks, program, words, {**emulated(libraries, files), **more},
                          by_local_rank(ranks, each or (lambda r: {})), KERNELS)
        all_results.note(f"NCCL {name}", run, problem_of(run, range(ranks), pattern))
    with tempfile.TemporaryDirectory() as files, tempfile.TemporaryDirectory() as folder:
        run = by_hand(3, program, ["kernels", "exchanged", "0", "-1"], {**emulated(libraries, files), "SINTER_TEST_CACHES": folder},
                      by_local_rank(3), KERNELS)
    all_results.note("NCCL kernels", run, problem_of_kernels(run, 3, 1))
    # Each rank records for itself: the last one does not where its work is waited for.
    for name, more, last in (("recorded", {}, {}), ("recorded, work put off", hostile, {}), ("recorded by some ranks", {}, {"SINTER_CUDA_SYNC": "1"})):
        with tempfile.TemporaryDirectory() as files:
            run = by_hand(4, program, ["training", "recorded"], {**emulated(libraries, files), "SINTER_LOGS": "perf", **more},
                          by_local_rank(4, lambda r: last if r == 3 else {}), KERNELS)
        all_results.note(f"NCCL training, {name}", run, problem_of(run, range(4), "^right", r"recorded \d+ steps in \d+ pieces"))
    for victim in (0, 1):
        with tempfile.TemporaryDirectory() as files:
            run = by_hand(3, program, ["read", str(victim)], {**emulated(libraries, files), **quick, **hostile}, by_local_rank(3))
        left = [r for r in range(3) if r != victim]
        all_results.note(f"NCCL death of rank {victim} while others read", run,
                         problem_of(run, left, rf"^threw: .*rank {victim} has died"))
    with tempfile.TemporaryDirectory() as files:
        late = {"SINTER_EMULATOR_NCCL_LATE": "1:6000", "SINTER_MESH_TIMEOUT": "2", **quick, **hostile}
        run = by_hand(2, program, ["read", "-1"], {**emulated(libraries, files), **late}, by_local_rank(2))
    all_results.note("NCCL a rank that is too late", run, problem_of(run, range(2), r"^threw: .*within SINTER_MESH_TIMEOUT"))


COMPILED = re.compile(r"rank (\d+) compiled (\d+) of (\d+) kernels, and has (\S+)")


def problem_of_kernels(run, ranks, compilers):
    """Empty if so many ranks compiled the kernels and the others none, and all have equal results."""
    problem = problem_of(run, range(ranks), "^right")
    told = {int(r): (int(n), int(of), value) for r, n, of, value in COMPILED.findall(run.text)}
    if problem or sorted(told) != list(range(ranks)):
        return problem or f"only the ranks {sorted(told)} told what they compiled"
    made = [one[0] for one in told.values() if one[0]]
    if len(made) != compilers or len(set(made)) > 1 or (made and made[0] < 3):
        return f"not {compilers} of the ranks compiled: {told}"
    return "" if len({one[2] for one in told.values()}) == 1 else f"the results differ: {told}"


def compilations(run):
    """Kernels that each rank compiled."""
    return {int(r): int(n) for r, n, *_ in COMPILED.findall(run.text)}


PLANNED = re.compile(r"rank (\d+) planned (\d+) programs, compiled (\d+) of (\d+) kernels, and has (\S+)")


def problem_of_plans(run, ranks, planners, compilers=None):
    """Empty if these ranks planned, or so many of them, and the others not; all have equal results."""
    problem = problem_of(run, range(ranks), "^right")
    told = {int(r): (int(p), int(n), value) for r, p, n, _, value in PLANNED.findall(run.text)}
    if problem or sorted(told) != list(range(ranks)):
        return problem or f"only the ranks {sorted(told)} told what they planned"
    who = [r for r, one in told.items() if one[0]]
    if who != planners and len(who) != planners:
        return f"not {planners} planned: {told}"
    if compilers is not None and sum(one[1] > 0 for one in told.values()) != compilers:
        return f"not {compilers} of the ranks compiled: {told}"
    return "" if len({one[2] for one in told.values()}) == 1 else f"the results differ: {told}"


def damage(folder, rank):
    """Changes a byte of each plan in a rank's cache; their number."""
    plans = [os.path.join(folder, str(rank), n) for n in os.listdir(os.path.join(folder, str(rank))) if n.endswith(".plan")]
    for path in plans:
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
    return len(plans)


def check_plans(all_results, program, found, by_rank):
    """One rank plans a program of many nodes, and the others read its plan."""
    for words, planners, name, each in ((["0", "-1"], [0], "rank 0 asks first", lambda r: {}),
                                        (["2", "-1"], [2], "rank 2 asks first", lambda r: {}),
                                        (["0", "2"], [0], "a rank is late", lambda r: {}),
                                        (["0", "-1"], [0, 2], "a rank has another plan", lambda r: {"SINTER_ATTENTION": "composed"} if r == 2 else {})):
        with tempfile.TemporaryDirectory() as folder:
            run = by_hand(3, program, ["plans", "alone"] + words, {"SINTER_TEST_CACHES": folder}, by_rank(3, each))
        all_results.note(f"plans, {name}", run, problem_of_plans(run, 3, planners, 1))
    for launcher, command in found.items():
        with tempfile.TemporaryDirectory() as folder:
            for turn, planners, compilers in (("cold", 1, 1), ("warm", [], 0), ("damaged", [1], 0), ("mended", [], 0)):
                damaged = damage(folder, 1) if turn == "damaged" else 1
                run = by_launcher(command, 4, program, ["plans", "exchanged", "0", "-1"], {"SINTER_TEST_CACHES": folder})
                problem = problem_of_plans(run, 4, planners, compilers)
                all_results.note(f"plans, {launcher}, {turn}", run, problem or ("" if damaged == 1 else f"{damaged} plans were kept"))
        with tempfile.TemporaryDirectory() as folder:
            run = by_launcher(command, 4, program, ["plans", "exchanged", "0", "-1"], {"SINTER_CACHE_DIR": folder})
        all_results.note(f"plans, {launcher}, a cache for all", run, problem_of_plans(run, 4, 1, 1))


def compiler(folder, body):
    """A compiler in a folder that runs `body` before each compilation."""
    path = os.path.join(folder, "c++")
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\n[ "$1" = --version ] || {{\n{body}\n}}\nexec {shutil.which("c++")} "$@"\n')
    os.chmod(path, 0o755)
    return {"SINTER_CXX": path}


def check_kernels(all_results, program, found):
    """Ranks with cold caches of their own: one compiles, and the others receive its kernels."""
    def by_rank(ranks, more):
        port = str(20000 + os.getpid() % 20000)
        return lambda r: {"SINTER_RANK": str(r), "SINTER_SIZE": str(ranks), "SINTER_ADDR": "127.0.0.1:" + port, **more(r)}

    def alone(words, ranks, more, compilers, name, each=lambda r: {}):
        with tempfile.TemporaryDirectory() as folder:
            caches = {"SINTER_TEST_CACHES": folder, **more(folder)}
            run = by_hand(ranks, program, ["kernels", "alone"] + words, caches, by_rank(ranks, each))
            all_results.note(f"kernels, {name}", run, problem_of_kernels(run, ranks, compilers))
            return run, folder
    for first in ("0", "2"):
        alone([first, "-1"], 4, lambda f: {}, 1, f"rank {first} asks first")
    alone(["0", "2"], 3, lambda f: {}, 1, "a rank is late")
    alone(["0", "-1"], 4, lambda f: {}, 2, "a rank has another flag", lambda r: {"SINTER_CXXFLAGS": "-DOTHER"} if r == 3 else {})
    alone(["0", "-1"], 3, lambda f: {"SINTER_TEST_CACHES": program}, 1, "no folder can be made")
    with tempfile.TemporaryDirectory() as folder:
        for turn, compilers in (("cold", 1), ("warm", 0)):
            run = by_hand(3, program, ["kernels", "alone", "1", "-1"], {"SINTER_TEST_CACHES": folder}, by_rank(3, lambda r: {}))
            all_results.note(f"kernels, caches that are {turn}", run, problem_of_kernels(run, 3, compilers))
    with tempfile.TemporaryDirectory() as folder:
        run = by_hand(3, program, ["kernels", "alone", "0", "-1"], {"SINTER_CACHE_DIR": folder}, by_rank(3, lambda r: {}))
        all_results.note("kernels, a cache for all", run, problem_of_kernels(run, 3, 1))
    # The compiler of the rank that asks first fails; its function is then interpreted.
    with tempfile.TemporaryDirectory() as folder:
        more = {"SINTER_TEST_CACHES": folder, **compiler(folder, '[ -z "$SINTER_TEST_FAILS" ] || { sleep 1; exit 1; }')}
        run = by_hand(3, program, ["kernels", "alone", "0", "-1"], more, by_rank(3, lambda r: {"SINTER_TEST_FAILS": "1"} if r == 0 else {}))
        told = compilations(run)
        problem = problem_of(run, range(3), "^right", "rank 0 compiled 0 of")
        all_results.note("kernels, a compiler fails", run, problem or ("" if told[1] or told[2] else f"no rank compiled: {told}"))
    for how, first, number in (("alone", 1, signal.SIGKILL), ("alone", 0, signal.SIGKILL), ("exchanged", 1, signal.SIGKILL),
                               ("exchanged", 0, signal.SIGSTOP)):
        run, problem = death_of_maker(program, how, first, number)
        all_results.note(f"kernels, {number.name} of the rank that compiles, {how}", run, problem)
    check_plans(all_results, program, found, by_rank)
    for name, command in found.items():
        with tempfile.TemporaryDirectory() as folder:
            run = by_launcher(command, 4, program, ["kernels", "exchanged", "0", "-1"], {"SINTER_TEST_CACHES": folder})
        all_results.note(f"kernels, {name}", run, problem_of_kernels(run, 4, 1))


def death_of_maker(program, how, first, number):
    """The rank that compiles for all gets a signal. Without collectives the others compile then, with collectives they throw."""
    with tempfile.TemporaryDirectory() as folder:
        begun = os.path.join(folder, "begun")
        # The first compilation takes long, as the first rank to ask meets it.
        more = {"SINTER_TEST_CACHES": folder, "SINTER_MESH_SILENCE": str(SILENCE),
                **compiler(folder, f'mkdir {begun} 2>/dev/null && {{ echo $PPID >{begun}/pid; sleep 20; }}')}
        port = str(20000 + os.getpid() % 20000)
        before = time.monotonic()
        jobs = {r: start([program, "kernels", how, str(first), "-1"],
                         {**more, "SINTER_RANK": str(r), "SINTER_SIZE": "3", "SINTER_ADDR": "127.0.0.1:" + port}) for r in range(3)}
        maker = None
        while maker is None and time.monotonic() - before < LIMIT:
            time.sleep(0.1)
            try:
                with open(begun + "/pid") as file:
                    of = int(file.read() or 0)
                maker = next((r for r, j in jobs.items() if j.pid == of), None)
            except OSError:
                pass
        time.sleep(0.6)  # the others wait by now
        if maker is not None:
            jobs[maker].send_signal(number)
        at = time.monotonic()
        runs = {r: ended(j, before) for r, j in jobs.items() if r != maker}
        took = time.monotonic() - at
        if maker is not None:
            os.killpg(jobs[maker].pid, signal.SIGKILL)
            jobs[maker].communicate()
    run = run_of("".join(r.text for r in runs.values()), took, any(r.hung for r in runs.values()))
    if maker is None:
        return run, "no rank compiled"
    pattern = "^right" if how == "alone" else rf"^threw: \[compile\] .*rank {maker} (has died|\(silent)"
    problem = problem_of(run, [r for r in range(3) if r != maker], pattern)
    told = compilations(run)
    if not problem and how == "alone" and not all(told.get(r) for r in range(3) if r != maker):
        problem = f"a rank did not compile: {told}"
    return run, problem or ("" if took < 18 else "the others waited for the compiler")


def check_gpus(all_results, program):
    """Two real GPUs, with NCCL."""
    for words in (["gpus", "2"], ["training"], ["training", "recorded"], ["equal"]):
        run = by_hand(2, program, words, {"SINTER_DEVICE": "cuda"}, by_local_rank(2))
        all_results.note(f"GPUs {' '.join(words)}", run, problem_of(run, range(2), "^right"))
    run = by_hand(2, program, ["read", "1"], {"SINTER_DEVICE": "cuda"}, by_local_rank(2))
    all_results.note("GPUs death of rank 1 while rank 0 reads", run, problem_of(run, [0], r"^threw: .*rank 1 has died"))


def gpus():
    try:
        text = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    except OSError:
        return 0
    return sum(line.startswith("GPU ") for line in text.splitlines())


def self_test():
    run = run_of("x rank 0: right\nrank 1: wrong: sum; \n", 1)
    assert problem_of(run, [0], "^right") == ""
    assert "rank 1 printed" in problem_of(run, [0, 1], "^right")
    assert "rank 2 printed no line" in problem_of(run, [2], "^right")
    killed = by_hand(2, sys.executable, ["-c", "import os; print('a word', flush=True); os.kill(os.getpid(), 11)"])
    assert problem_of(killed, [1], "^right") == "rank 1 printed no line, and was killed by SIGSEGV after 'a word'"
    assert problem_of(run_of("rank 0: right", 1, hung=True), [0], "^right") == "it hangs"
    assert "nothing printed" in problem_of(run, [0], "^right", "y")


def main(words):
    if words == ["--self-test"]:
        return self_test()
    if words[1:2] == ["--gpus"] and gpus() < 2:
        print("SKIPPED: this machine has no two GPUs; exchanges of GPUs ran on the emulator only")
        sys.exit(77)
    program, found, all_results = words[0], launchers(), results()
    if words[1:2] == ["--kernels"]:
        check_kernels(all_results, program, found)
        return sys.exit(f"{all_results.failures} failed" if all_results.failures else 0)
    if words[1:2] in (["--nccl"], ["--gpus"]):
        check_nccl(all_results, program, words[2]) if words[1] == "--nccl" else check_gpus(all_results, program)
        return sys.exit(f"{all_results.failures} failed" if all_results.failures else 0)
    if words[1:2] == ["--trials"]:
        check_deaths(all_results, found, program, int(words[2]))
    else:
        check_by_hand(all_results, program)
        for name, command in found.items():
            check_programs(all_results, name, command, program)
        if found:
            check_deaths(all_results, found, program, 4)
    if all_results.failures:
        sys.exit(f"{all_results.failures} failed")
    if not found:
        print("no mpirun is found: what needs MPI is skipped")
        sys.exit(77)


if __name__ == "__main__":
    main(sys.argv[1:])
