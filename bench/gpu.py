#!/usr/bin/env python3
"""bench/gpu.cpp beside PyTorch (eager, torch.compile) and JAX on one GPU, in one run.

    python3 bench/gpu.py PROGRAM [--peers eager,compile,jax] [--only NAME,NAME] [--json FILE]

PROGRAM is the built bench/gpu. Times are medians in microseconds of a call on data that stays on the GPU; `ratio` is sinter's
time over the best peer's of the row; `bandwidth` is the fewest bytes of the workload over sinter's time, as a share of the rate
at which PyTorch copies 128 MiB from one place on the GPU to another in the same run. The first call is measured in two processes, with an empty kernel cache and
with the cache that the first one left.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

GOALS = {"bias_gelu": 1.05, "softmax": 1.05, "rmsnorm_residual": 1.05, "full_reduce": 1.05, "column_sum": 1.05,
         "transpose_add": 1.05, "layernorm_fwdbwd": 0.70, "mlp_train": 0.40, "call_overhead": 0.35}
N, D = 8192, 4096
CONVOLUTIONS = {"conv3x3_64_56": (64, 56, 64, 3), "conv3x3_256_14": (256, 14, 256, 3), "conv1x1_64_56": (64, 56, 256, 1)}


def sinter(program, names):
    rows = {}
    with tempfile.TemporaryDirectory() as cache:
        for temperature in ("cold", "warm"):
            text = subprocess.run([program, *names], check=True,
                                  env={**os.environ, "SINTER_CACHE_DIR": cache, "CUDA_CACHE_PATH": cache},
                                  stdout=subprocess.PIPE, text=True).stdout
            for line in text.splitlines():
                fields = line.split()
                if len(fields) != 6:
                    print(line)
                    continue
                row = rows.setdefault(fields[0], {})
                row[temperature] = float(fields[2])
                row["us"] = min(float(fields[1]), row.get("us", float("inf")))
                row["bytes"], row["kernels"], row["backend"] = float(fields[3]), int(fields[4]), fields[5]
    return rows


def torch_workloads():
    import torch
    import torch.nn.functional as F

    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)

    def normal(*extents):
        return torch.randn(*extents, device="cuda")

    def rmsnorm(x, r, g):
        h = x + r
        return h * torch.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6) * g, h

    def layernorm(x, g, b, t):
        return (F.layer_norm(x, (D,), g, b) * t).sum()

    def train(x, y, p, m, v):
        p = [q.detach().requires_grad_() for q in p]
        h = F.relu(x @ p[0] + p[1])
        h = F.relu(h @ p[2] + p[3])
        loss = F.cross_entropy(h @ p[4] + p[5], y)
        g = torch.autograd.grad(loss, p)
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
        return loss, [a - 1e-3 * b / (c.sqrt() + 1e-8) for a, b, c in zip(p, m, v)], m, v

    def adamw(p, g, m, v):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return p * (1 - 1e-5) - 1e-3 * m / (v.sqrt() + 1e-8), m, v

    def wave(u, old):
        lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        return 2 * u[1:-1, 1:-1] - old[1:-1, 1:-1] + 0.1 * lap

    def gradients(f, count, value=False):
        """A maker of callables that differentiate the (compiled) f for its first `count` arguments."""
        def make(compiler):
            c = compiler(f)
            def call(*args):
                args = [a.requires_grad_() if i < count else a for i, a in enumerate(args)]
                y = c(*args)
                g = torch.autograd.grad(y, args[:count])
                return (y, *g) if value else g
            return call
        return make

    plain = lambda f: lambda compiler: compiler(f)
    pool = lambda x: F.max_pool2d(x, 3, 2, 1)
    indices = lambda: torch.randint(0, 10**4, (10**6,), device="cuda")

    def positive(*extents):
        a = normal(*extents, extents[-1])
        return a @ a.mT + extents[-1] * torch.eye(extents[-1], device="cuda")

    w = {
        "bias_gelu": lambda: (plain(lambda x, b: F.gelu(x + b, approximate="tanh")), (normal(N, D), normal(D))),
        "softmax": lambda: (plain(lambda x: torch.softmax(x * 0.125, -1)), (normal(N, D),)),
        "rmsnorm_residual": lambda: (plain(rmsnorm), (normal(N, D), normal(N, D), normal(D))),
        "layernorm_fwdbwd": lambda: (gradients(layernorm, 3), (normal(N, D), normal(D), normal(D), normal(N, D))),
        "column_sum": lambda: (plain(lambda x: (x * x).sum(0)), (normal(65536, 1024),)),
        "full_reduce": lambda: (plain(lambda x, y: ((x - y) ** 2).sum()), (normal(64 << 20), normal(64 << 20))),
        "transpose_add": lambda: (plain(lambda a, b: a.t() + b), (normal(N, N), normal(N, N))),
        "call_overhead": lambda: (plain(lambda x: x * 2 + 1), (normal(8),)),
        "sort": lambda: (plain(lambda x: torch.sort(x).values), (normal(10**6),)),
        "sort_rows": lambda: (plain(lambda x: torch.sort(x).values), (normal(1000, 1000),)),
        "topk": lambda: (plain(lambda x: torch.topk(x, 10)), (normal(10**6),)),
        "topk_rows": lambda: (plain(lambda x: torch.topk(x, 10)), (normal(1000, 1000),)),
        "searchsorted": lambda: (plain(torch.searchsorted), (torch.sort(normal(10**6)).values, normal(10**6))),
        "histogram": lambda: (plain(lambda x: torch.histc(x, 100, -4, 4)), (normal(10**6),)),
        "scatter_add": lambda: (plain(lambda s, i, u: s.scatter_add(0, i, u)),
                                (normal(10**4), indices(), normal(10**6))),
        "gather": lambda: (plain(lambda t, i: t[i]), (normal(10**4), indices())),
        "at_set": lambda: (plain(lambda t, i: t.index_copy(0, i, t[i - 1] + 1)),
                           (normal(10**6), torch.full((1,), 7, device="cuda"))),
        "cholesky_512": lambda: (plain(torch.linalg.cholesky), (positive(512),)),
        "solve_512": lambda: (plain(torch.linalg.solve), (normal(512, 512), normal(512, 1))),
        "cholesky_10000_of_4": lambda: (plain(torch.linalg.cholesky), (positive(10000, 4),)),
        "solve_10000_of_4": lambda: (plain(torch.linalg.solve), (normal(10000, 4, 4), normal(10000, 4, 1))),
        "max_pool": lambda: (plain(pool), (normal(32, 64, 112, 112),)),
        "max_pool_bwd": lambda: (gradients(lambda x: pool(x).sum(), 1), (normal(32, 64, 112, 112),)),
        "normal": lambda: (plain(lambda x: torch.randn(10**6, device="cuda") + x), (normal(),)),
        "gamma": lambda: (plain(lambda a: torch._standard_gamma(a)), (torch.full((10**6,), 2.5, device="cuda"),)),
        "poisson": lambda: (plain(torch.poisson), (torch.full((10**6,), 2.5, device="cuda"),)),
        "fft_long": lambda: (plain(torch.fft.fft), (torch.complex(normal(1 << 20), normal(1 << 20)),)),
        "fft_rows": lambda: (plain(torch.fft.fft), (torch.complex(normal(100, 1000), normal(100, 1000)),)),
        "swiglu": lambda: (plain(lambda a, b: F.silu(a) * b), (normal(N, D), normal(N, D))),
        "adamw": lambda: (plain(adamw), (normal(N, D), normal(N, D), normal(N, D), normal(N, D).abs())),
        "cross_entropy_fwdbwd": lambda: (gradients(lambda x, y: F.cross_entropy(x, y), 1, True),
                                         (normal(N, D), torch.randint(0, D, (N,), device="cuda"))),
        "huber_fwdbwd": lambda: (gradients(lambda x, y: F.huber_loss(x, y), 1, True), (normal(N, D), normal(N, D))),
        "wave_step": lambda: (plain(wave), (normal(N, N), normal(N, N))),
    }

    def mlp():
        sizes = [784, 512, 512, 10]
        make = lambda: [t for i, o in zip(sizes, sizes[1:]) for t in (normal(i, o) * (2 / i) ** 0.5, normal(o) * 0.01)]
        p, m = make(), make()
        v = [t * t for t in make()]
        return plain(train), (normal(1024, 784), torch.randint(0, 10, (1024,), device="cuda"), p, m, v)

    w["mlp_train"] = mlp

    # Channels last in memory, as sinter's images; the taps are odd.
    def convolution(channels, side, out, taps, backward):
        last = dict(memory_format=torch.channels_last)
        f = lambda x, w: F.conv2d(x, w, padding=taps // 2)
        x, k = normal(32, channels, side, side).to(**last), normal(out, channels, taps, taps).to(**last)
        if not backward:
            return plain(f), (x, k)
        return gradients(lambda x, k, ct: (f(x, k) * ct).sum(), 2), (x, k, normal(32, out, side, side).to(**last))

    def in_bf16(made):
        f, args = made
        return f, tuple(a.to(torch.bfloat16) for a in args)

    for name, sizes in CONVOLUTIONS.items():
        w[name] = lambda sizes=sizes: convolution(*sizes, False)
        w[name + "_fwdbwd"] = lambda sizes=sizes: convolution(*sizes, True)
        w[name + "_bf16"] = lambda sizes=sizes: in_bf16(convolution(*sizes, False))
        w[name + "_bf16_fwdbwd"] = lambda sizes=sizes: in_bf16(convolution(*sizes, True))
    return torch, w


def time_torch(torch, f):
    """Median microseconds and the first call's milliseconds."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    f()
    torch.cuda.synchronize()
    cold = time.perf_counter() - start
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    start = time.perf_counter()
    f()
    torch.cuda.synchronize()
    one = time.perf_counter() - start
    inner = max(1, int(2e-3 / max(one, 1e-7)))
    times = []
    for _ in range(min(400, max(5, int(1.0 / (one * inner))))):
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record()
        for _ in range(inner):
            f()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after) * 1e3 / inner)
    return statistics.median(times), cold * 1e3


def jax_workloads(jax, jnp):
    def rmsnorm(x, r, g):
        h = x + r
        return h * jax.lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-6) * g, h

    def layernorm(x, g, b, t):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (((x - mean) * jax.lax.rsqrt(var + 1e-5) * g + b) * t).sum()

    def cross_entropy(x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()

    def huber(x, y):
        e = jnp.abs(x - y)
        return jnp.where(e < 1, 0.5 * e * e, e - 0.5).mean()

    def train(x, y, p, m, v):
        def loss(p):
            h = jax.nn.relu(x @ p[0] + p[1])
            h = jax.nn.relu(h @ p[2] + p[3])
            return cross_entropy(h @ p[4] + p[5], y)
        l, g = jax.value_and_grad(loss)(p)
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
        return l, [a - 1e-3 * b / (jnp.sqrt(c) + 1e-8) for a, b, c in zip(p, m, v)], m, v

    def adamw(p, g, m, v):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return p * (1 - 1e-5) - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v

    def wave(u, old):
        lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        return 2 * u[1:-1, 1:-1] - old[1:-1, 1:-1] + 0.1 * lap

    def conv(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)])

    convolutions = {name: conv for name in CONVOLUTIONS}
    for name in CONVOLUTIONS:
        convolutions[name + "_fwdbwd"] = jax.grad(lambda x, w, ct: (conv(x, w) * ct).sum(), (0, 1))
    key = jax.random.PRNGKey(0)
    return {
        **convolutions,
        "max_pool": pool,
        "max_pool_bwd": jax.grad(lambda x: pool(x).sum()),
        "cholesky_512": jnp.linalg.cholesky,
        "cholesky_10000_of_4": jnp.linalg.cholesky,
        "solve_512": jnp.linalg.solve,
        "solve_10000_of_4": jnp.linalg.solve,
        "scatter_add": lambda s, i, u: s.at[i].add(u),
        "gather": lambda t, i: t[i],
        "at_set": lambda t, i: t.at[i].set(t[i - 1] + 1),
        "normal": lambda x: jax.random.normal(key, (10**6,)) + x,
        "gamma": lambda a: jax.random.gamma(key, a),
        "poisson": lambda a: jax.random.poisson(key, a),
        "bias_gelu": lambda x, b: jax.nn.gelu(x + b, approximate=True),
        "softmax": lambda x: jax.nn.softmax(x * 0.125, -1),
        "rmsnorm_residual": rmsnorm,
        "layernorm_fwdbwd": jax.grad(layernorm, (0, 1, 2)),
        "column_sum": lambda x: (x * x).sum(0),
        "full_reduce": lambda x, y: ((x - y) ** 2).sum(),
        "transpose_add": lambda a, b: a.T + b,
        "call_overhead": lambda x: x * 2 + 1,
        "sort": jnp.sort,
        "sort_rows": jnp.sort,
        "topk": lambda x: jax.lax.top_k(x, 10),
        "topk_rows": lambda x: jax.lax.top_k(x, 10),
        "searchsorted": jnp.searchsorted,
        "histogram": lambda x: jnp.histogram(x, 100, (-4, 4))[0],
        "fft_long": jnp.fft.fft,
        "fft_rows": jnp.fft.fft,
        "mlp_train": train,
        "swiglu": lambda a, b: jax.nn.silu(a) * b,
        "adamw": adamw,
        "cross_entropy_fwdbwd": jax.value_and_grad(cross_entropy),
        "huber_fwdbwd": jax.value_and_grad(huber),
        "wave_step": wave,
    }


def time_jax(jax, f, args):
    start = time.perf_counter()
    jax.block_until_ready(f(*args))
    cold = time.perf_counter() - start
    start = time.perf_counter()
    jax.block_until_ready(f(*args))
    one = time.perf_counter() - start
    inner = max(1, int(3e-3 / max(one, 1e-7)))
    times = []
    for _ in range(min(200, max(5, int(1.0 / (one * inner))))):
        start = time.perf_counter()
        for _ in range(inner):
            out = f(*args)
        jax.block_until_ready(out)
        times.append((time.perf_counter() - start) / inner)
    return statistics.median(times) * 1e6, cold * 1e3


def measure_copy(torch):
    """Bytes read and written per microsecond."""
    a, b = torch.randn(N, D, device="cuda"), torch.empty(N, D, device="cuda")
    return 8 * N * D / time_torch(torch, lambda: b.copy_(a))[0]


def measure_peers(kinds, names):
    """The peers' times, and the copy rate."""
    torch, workloads = torch_workloads()
    rate = measure_copy(torch)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    compilers = {"eager": lambda f: f, "compile": lambda f: torch.compile(f)}
    rows = {}
    for name, make in workloads.items():
        if names and name not in names:
            continue
        rows[name] = {}
        for kind in kinds:
            try:
                build, args = make()
                if kind == "jax":
                    import jax
                    import jax.numpy as jnp
                    jax.config.update("jax_default_matmul_precision", "tensorfloat32")
                    to = lambda a: [to(x) for x in a] if isinstance(a, list) else jnp.asarray(a.detach().cpu().numpy())
                    args = [to(a) for a in args]
                    rows[name][kind] = time_jax(jax, jax.jit(jax_workloads(jax, jnp)[name]), args)
                else:
                    torch._dynamo.reset()
                    f = build(compilers[kind])
                    rows[name][kind] = time_torch(torch, lambda: f(*args))
            except Exception as e:  # a peer that fails leaves its cell empty
                print(f"{name} {kind}: {type(e).__name__}: {str(e)[:200]}", file=sys.stderr)
            torch.cuda.empty_cache()
    return rows, rate


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--peers", default="eager,compile,jax")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    names = [n for n in args.only.split(",") if n]
    kinds = [k for k in args.peers.split(",") if k]
    ours = sinter(args.program, names)
    peers, rate = measure_peers(kinds, names) if kinds else ({}, 0)
    if rate:
        print(f"copy: {rate * 1e-6:.3f} TB/s read and written")
    print(f"{'workload':22}{'sinter us':>10}" + "".join(f"{k:>10}" for k in kinds) +
          f"{'ratio':>8}{'goal':>6}{'bandwidth':>10}{'kernels':>8}{'cold ms':>9}{'warm ms':>9}")
    for name, row in ours.items():
        theirs = {k: t[0] for k, t in peers.get(name, {}).items()}
        ratio = row["us"] / min(theirs.values()) if theirs else 0
        share = row["bytes"] / row["us"] / rate if rate and row["bytes"] else 0
        print(f"{name:22}{row['us']:10.1f}" + "".join(f"{theirs.get(k, float('nan')):10.1f}" for k in kinds) +
              f"{ratio:8.2f}{GOALS.get(name, 1.05):6.2f}" + (f"{share:10.0%}" if share else f"{'':10}") +
              f"{row['kernels']:8}{row['cold']:9.1f}{row['warm']:9.1f}" +
              ("" if row["backend"] == "cuda" else f"  on {row['backend']}"))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"sinter": ours, "peers": peers}, f, indent=1)


if __name__ == "__main__":
    main()
