#!/usr/bin/env python3
"""bench/mesh.cpp on ranks that this script starts: on GPUs beside PyTorch (NCCL, DDP and torch.compile), in one run.

    python3 bench/mesh.py PROGRAM [--ranks N] [--steps N] [--parts reduce,train,short,sharded] [--recorded] [--no-torch] [--small]
    python3 bench/mesh.py PROGRAM --cpu [--ranks N] [--layers N]

PROGRAM is the built bench/mesh. On GPUs, one a rank: an all_reduce of 1 GiB of f32; GPT-2 124M in bf16 at 8x1024 (`train`) and
1x64 (`short`) tokens a GPU on one rank and on all; the same with parameters divided (`sharded`). `ms` is the median of a step,
of batches of ten; `efficiency` is the step of one rank over that of all ranks. `exposed` is the time by which all ranks' step is
longer; its `limit` is what an all_reduce of the gradients takes beyond the backward pass, and 5 % of the step. `hidden` is the
part of such an all_reduce that is not exposed. --recorded: calls replay recorded graphs.

--cpu: the first call of a training step on ranks that mpirun starts, beside one rank's, without any cache, which ranks share or not. CPU ms
and `compiled`, the kernels that were compiled, are sums over ranks; `planning` is rank 0's time without the compiler. And what a call
with collectives takes beside them.

--small and --emulated DIR, the folder of the emulated libraries of the tests, show that it runs; their numbers mean nothing.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GIB = 1 << 30
CORES = len(os.sched_getaffinity(0))


def parsed():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("--ranks", type=int, default=0)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--parts", default="reduce,train,short,sharded")
    p.add_argument("--cpu", action="store_true")
    p.add_argument("--recorded", action="store_true")
    p.add_argument("--no-torch", action="store_true")
    p.add_argument("--small", action="store_true")
    p.add_argument("--emulated", default="")
    p.add_argument("--peer", default="")  # this process is a rank of the peer: RANK,SIZE,PORT
    return p.parse_args()


# ---- Ranks.

def finished(processes, limit):
    """What rank 0 printed. ChildProcessError if a rank does not end well."""
    end, texts = time.monotonic() + limit, []
    try:
        for p in processes:
            texts.append(p.communicate(timeout=max(1, end - time.monotonic()))[0])
    except subprocess.TimeoutExpired:
        texts.append(f"no end within {limit} s")
    for p in processes:
        if p.poll() is None:
            p.kill()
            p.wait()
    if any(p.returncode for p in processes):
        raise ChildProcessError("\n".join(texts) + "\nranks ended with " + " ".join(str(p.returncode) for p in processes))
    return texts[0]


def values(text):
    out = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2:
            out[words[0]] = float(words[1])
    return out


PORT = 20000 + os.getpid() % 20000


def on_gpus(args, ranks, words):
    """The values that rank 0 prints."""
    with tempfile.TemporaryDirectory() as files:
        more = {"SINTER_DEVICE": "cuda"}
        if args.emulated:
            sys.path.insert(0, os.path.join(HERE, "..", "tests", "mesh"))
            from launch import emulated
            more = emulated(args.emulated, files)

        def start(rank):
            own = {} if ranks == 1 else {"SINTER_RANK": str(rank), "SINTER_SIZE": str(ranks), "SINTER_LOCAL": str(rank),
                                         "SINTER_ADDR": f"127.0.0.1:{PORT}"}
            return subprocess.Popen([args.program] + words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    env={**os.environ, **more, **own})
        return checked(values(finished([start(r) for r in range(ranks)], 400)), words)


def checked(got, words):
    if "right" in got and got["right"] != 1:
        sys.exit(f"{' '.join(words)}: a wrong sum")
    if "last_loss" in got and not got["last_loss"] < got["first_loss"]:
        sys.exit(f"{' '.join(words)}: the loss goes from {got['first_loss']} to {got['last_loss']}")
    return got


def by_mpirun(args, ranks, words, more):
    launcher = next((n for n in ("mpirun.openmpi", "mpirun") if shutil.which(n)), None)
    if ranks > 1 and launcher is None:
        sys.exit("mpirun is not found")
    command = [] if ranks == 1 else [launcher, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
    if ranks > 1 and os.getuid() == 0:
        command.append("--allow-run-as-root")
    threads = max(1, CORES // ranks)
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive", **more)
    p = subprocess.Popen(command + [args.program] + words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    return checked(values(finished([p], 600)), words)


# ---- PyTorch.

def milliseconds(steps, call, torch):
    """Median of a call, of batches of ten, after a few."""
    for _ in range(5):
        call()
    inner, times = min(steps, 10), []
    for _ in range(max(1, steps // inner)):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(inner):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3 / inner)
    return statistics.median(times)


def peer(args):
    """A rank: prints what it measures as JSON."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from models import torch_rows

    rank, size, port = (int(x) for x in args.peer.split(","))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    out = {}
    if size > 1 and "reduce" in args.parts:
        x = torch.zeros((1 << 20 if args.small else GIB) // 4, device="cuda")
        out["reduce"] = milliseconds(args.steps, lambda: dist.all_reduce(x), torch)
        del x
    wrap = (lambda net: DistributedDataParallel(net, device_ids=[rank], gradient_as_bucket_view=True)) if size > 1 else (lambda net: net)
    for part, batch, length in sizes(args):
        if part not in args.parts.split(","):
            continue
        how = argparse.Namespace(small=args.small, batch=batch, length=length, rows="")
        call = torch_rows(torch, "cuda", how, wrap)["gpt2_train_bf16"](lambda f: torch.compile(f, dynamic=False))
        out[part] = milliseconds(args.steps, call, torch)
        del call
        torch._dynamo.reset()
    if rank == 0:
        print(json.dumps(out), flush=True)
    dist.destroy_process_group()


def peers(args, ranks):
    if args.no_torch:
        return {}
    port = PORT + ranks
    words = [args.program, "--steps", str(args.steps), "--parts", args.parts] + (["--small"] if args.small else [])
    jobs = [subprocess.Popen([sys.executable, os.path.abspath(__file__)] + words + ["--peer", f"{r},{ranks},{port}"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True) for r in range(ranks)]
    try:
        return json.loads(next(line for line in finished(jobs, 500).splitlines() if line.startswith("{")))
    except ChildProcessError as problem:  # sinter's numbers count without it
        print(f"PyTorch does not run: {problem}", file=sys.stderr)
        return {}


# ---- Tables.

def sizes(args):
    return [("train", 1, 8), ("short", 1, 4)] if args.small else [("train", 8, 1024), ("short", 1, 64)]


def options(args):
    return ["--small"] * args.small + ["--recorded"] * args.recorded


def told(name, *cells):
    print(f"{name:28}" + "".join(f"{c:>14}" if isinstance(c, str) else f"{c:14.3f}" for c in cells), flush=True)


def print_reduce(args, ranks, peer_of_all):
    size = 1 << 20 if args.small else GIB
    own, bus = on_gpus(args, ranks, ["reduce", str(size), "--steps", str(args.steps)])["ms"], 2 * (ranks - 1) / ranks
    other = peer_of_all.get("reduce", float("nan"))
    told(f"all_reduce of {size >> 20} MiB", "ms", "torch ms", "GB/s", "torch GB/s", "of torch's")
    told("", own, other, bus * size / own * 1e-6, bus * size / other * 1e-6, other / own)


def print_training(args, ranks, part, batch, length, peer_of_one, peer_of_all):
    words = ["train", "--batch", str(batch), "--length", str(length), "--steps", str(args.steps)] + options(args)
    one = on_gpus(args, 1, words + ["--parts"])
    all_ranks = on_gpus(args, ranks, words)
    gradients = int(one["parameter_bytes"])
    alone = on_gpus(args, ranks, ["reduce", str(gradients), "--steps", str(args.steps)])["ms"]
    exposed, backward = all_ranks["ms"] - one["ms"], one["gradient_ms"] - one["forward_ms"]
    limit = max(0, alone - backward) + 0.05 * all_ranks["ms"]
    told(f"GPT-2 {batch}x{length} a GPU", "one rank ms", f"{ranks} ranks ms", "efficiency", "torch one ms", f"torch {ranks} ms", "efficiency")
    x, y = peer_of_one.get(part, float("nan")), peer_of_all.get(part, float("nan"))
    told("", one["ms"], all_ranks["ms"], one["ms"] / all_ranks["ms"], x, y, x / y)
    told("  communication", "gradients MB", "reduce ms", "backward ms", "exposed ms", "limit ms", "hidden")
    told("", gradients * 1e-6, alone, backward, exposed, limit, 1 - max(0, exposed) / alone)
    told("  exchanges, copies, first ms", all_ranks["collectives"], all_ranks["copies"], all_ranks["first_ms"])
    return all_ranks


def print_sharded(args, ranks, whole):
    part, batch, length = sizes(args)[0]
    words = ["train", "--batch", str(batch), "--length", str(length), "--steps", str(args.steps)] + options(args)
    whole = whole or on_gpus(args, ranks, words)
    mine = on_gpus(args, ranks, words + ["--sharded"])
    told(f"GPT-2 {batch}x{length}, {ranks} ranks", "ms", "rate", "params MB", "arguments MB", "scratch MB", "peak MB", "exchanges")
    for name, it in (("  data parallel", whole), ("  fully sharded", mine)):
        told(name, it["ms"], whole["ms"] / it["ms"], *(it[k] * 1e-6 for k in ("parameter_bytes", "state_bytes", "scratch_bytes", "peak_bytes")),
             it["collectives"])


def gpu_tables(args):
    ranks, parts = args.ranks or 2, args.parts.split(",")
    peer_of_one = peers(args, 1) if "train" in parts or "short" in parts else {}
    peer_of_all, whole = peers(args, ranks), None
    if "reduce" in parts:
        print_reduce(args, ranks, peer_of_all)
    for part, batch, length in sizes(args):
        if part in parts:
            it = print_training(args, ranks, part, batch, length, peer_of_one, peer_of_all)
            whole = it if part == "train" else whole
    if "sharded" in parts:
        print_sharded(args, ranks, whole)


def cpu_tables(args):
    ranks = args.ranks or 4

    def first(count, more):
        runs = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(by_mpirun(args, count, ["first", "--layers", str(args.layers)] + more, {"SINTER_CACHE_DIR": folder}))
        return [statistics.median(r[what] for r in runs) for what in ("first_ms", "cpu_ms", "planning_ms", "compiled")]
    told(f"first call, {CORES} cores", "ms", "ratio", "CPU ms", "ratio", "planning ms", "compiled")
    one = first(1, [])
    told("one rank", one[0], 1.0, one[1], 1.0, *one[2:])
    for name, more in ((f"{ranks} ranks, one cache", []), (f"{ranks} ranks, own caches", ["--own"])):
        many = first(ranks, more)
        told(name, many[0], many[0] / one[0], many[1], many[1] / one[1], *many[2:])
    got = by_mpirun(args, ranks, ["hit"], {})
    told("a hit", "call ns", "counted ns", "beyond ns", "exchange us")
    told("", got["call_ns"], got["counted_ns"], got["beyond_ns"], got["exchange_ns"] * 1e-3)


if __name__ == "__main__":
    given = parsed()
    try:
        (peer if given.peer else cpu_tables if given.cpu else gpu_tables)(given)
    except ChildProcessError as problem:
        sys.exit(str(problem))
