#!/usr/bin/env python3
"""bench/models.cpp beside PyTorch (eager, torch.compile) and JAX on one device, in one run.

    python3 bench/models.py PROGRAM [--device cpu|cuda] [--peers eager,compile,jax] [--rows NAME,NAME] [--small]
                            [--batch N] [--length N] [--json FILE] [--kernels ROW]

PROGRAM is the built bench/models. `first` is the milliseconds of a first call without any cache, `steady` the median of those
after it; `ratio` is sinter's over the best peer's. Peers compute what the rows of bench/models do, with the same extents. JAX
has GPT-2 and those rows that are functions of arrays. --batch is GPT-2's, Llama's and ResNet-50's, --length GPT-2's and Llama's. On a
GPU `MB` is the peak of what an allocator holds, of sinter from the third call on; `scratch` is the part for intermediates.

--kernels ROW prints where a call of the row spends a GPU's time instead, see kernels.py.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

from kernels import print_kernels


def sinter(program, args):
    command = [program, "--json", "--device", args.device]
    if args.rows:
        command += ["--rows", args.rows]
    if args.small:
        command.append("--small")
    for name in ("batch", "length"):
        if getattr(args, name):
            command += [f"--{name}", str(getattr(args, name))]
    rows = {}
    for line in subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            rows[row["row"]] = {"first": row["cold"]["first"], "steady": row["warm"]["steady"], **row}
        else:
            print(line)
    return rows


# ---- Timing. `sync` waits for the device.

def measured(call, sync):
    """Milliseconds of the first call, and the median of 3 to 50 calls, about 3 seconds."""
    def once():
        start = time.perf_counter()
        call()
        sync()
        return (time.perf_counter() - start) * 1e3
    first, times = once(), []
    while len(times) < 3 or (sum(times) < 3000 and len(times) < 50):
        times.append(once())
    return {"first": first, "steady": statistics.median(times)}


# ---- PyTorch. Each row is a maker of (function, arguments, parameters to train or None).

def torch_rows(torch, device, args, wrap=lambda net: net):
    import torch.nn.functional as F
    from torch import nn

    torch.manual_seed(0)
    pick = lambda full, few: few if args.small else full
    normal = lambda *e: torch.randn(*e, device=device)
    integers = lambda most, *e: torch.randint(0, most, e, device=device)

    def heads(x, n):
        return x.view(x.shape[0], x.shape[1], n, -1).transpose(1, 2)

    def flat(x):
        return x.transpose(1, 2).flatten(2)

    class Attention(nn.Module):
        def __init__(self, width, n, causal):
            super().__init__()
            self.qkv, self.out, self.n, self.causal = nn.Linear(width, 3 * width), nn.Linear(width, width), n, causal

        def forward(self, x):
            q, k, v = (heads(p, self.n) for p in self.qkv(x).chunk(3, -1))
            return self.out(flat(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)))

    class Block(nn.Module):
        def __init__(self, width, n, causal, approximate):
            super().__init__()
            self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Attention(width, n, causal)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate=approximate),
                                     nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.attention(self.one(x))
            return x + self.mlp(self.two(x))

    class GPT2(nn.Module):
        def __init__(self):
            super().__init__()
            vocabulary, positions, width, n = pick((50257, 1024, 768, 12), (97, 32, 32, 4))
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
            self.blocks = nn.Sequential(*[Block(width, n, True, "tanh") for _ in range(pick(12, 2))])
            self.last = nn.LayerNorm(width)

        def forward(self, text):
            x = self.tokens(text) + self.positions.weight[: text.shape[1]]
            return self.last(self.blocks(x)) @ self.tokens.weight.t()

    def rms_norm(x, gain):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gain

    class LlamaBlock(nn.Module):
        def __init__(self, width, n, groups, inner):
            super().__init__()
            narrow = width // n * groups
            self.one, self.two = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
            shapes = dict(q=(width, width), k=(width, narrow), v=(width, narrow), out=(width, width),
                          gate=(width, inner), up=(width, inner), down=(inner, width))
            for name, (i, o) in shapes.items():
                setattr(self, name, nn.Linear(i, o, bias=False))
            self.n, self.groups = n, groups

        def rotate(self, x):
            length, width = x.shape[2], x.shape[3]
            frequency = torch.exp(torch.arange(width // 2, device=x.device) * (-2 * math.log(10000.0) / width))
            angle = torch.arange(length, device=x.device)[:, None] * frequency
            a, b = x.chunk(2, -1)
            return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

        def forward(self, x):
            y = rms_norm(x, self.one)
            q, k, v = heads(self.q(y), self.n), heads(self.k(y), self.groups), heads(self.v(y), self.groups)
            k, v = (t.repeat_interleave(self.n // self.groups, 1) for t in (self.rotate(k), v))
            x = x + self.out(flat(F.scaled_dot_product_attention(self.rotate(q), k, v, is_causal=True)))
            y = rms_norm(x, self.two)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            vocabulary, width, n, groups, inner = pick((8000, 512, 8, 2, 1376), (61, 32, 4, 2, 40))
            self.tokens, self.last = nn.Embedding(vocabulary, width), nn.Parameter(torch.ones(width))
            self.blocks = nn.Sequential(*[LlamaBlock(width, n, groups, inner) for _ in range(pick(8, 2))])
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, text):
            return self.head(rms_norm(self.blocks(self.tokens(text)), self.last))

    def to_patches(x, side):
        b, h, w, c = x.shape
        x = x.view(b, h // side, side, w // side, side, c).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(b, h // side * (w // side), -1)

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            pixels, self.side, width, n, classes = pick((224, 16, 384, 6, 1000), (16, 4, 24, 3, 5))
            self.patches = nn.Linear(self.side ** 2 * 3, width)
            self.positions = nn.Parameter(torch.randn((pixels // self.side) ** 2 + 1, width) * 0.02)
            self.summary = nn.Parameter(torch.randn(width) * 0.02)
            self.blocks = nn.Sequential(*[Block(width, n, False, "none") for _ in range(pick(12, 2))])
            self.last, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, x):
            x = self.patches(to_patches(x, self.side))
            x = torch.cat([self.summary.expand(x.shape[0], 1, -1), x], 1) + self.positions
            return self.head(self.last(self.blocks(x)[:, 0]))

    class Mixing(nn.Module):
        def __init__(self, patches, width):
            super().__init__()
            mlp = lambda i, o: nn.Sequential(nn.Linear(i, o), nn.GELU(), nn.Linear(o, i))
            self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
            self.across, self.along = mlp(patches, width // 2), mlp(width, 4 * width)

        def forward(self, x):
            x = x + self.across(self.one(x).transpose(1, 2)).transpose(1, 2)
            return x + self.along(self.two(x))

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            pixels, self.side, width, classes = pick((224, 16, 256, 1000), (16, 4, 24, 5))
            self.patches = nn.Linear(self.side ** 2 * 3, width)
            self.blocks = nn.Sequential(*[Mixing((pixels // self.side) ** 2, width) for _ in range(pick(8, 2))])
            self.last, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, x):
            return self.head(self.last(self.blocks(self.patches(to_patches(x, self.side)))).mean(1))

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            features, width = pick((128, 256), (6, 8))
            self.lstm, self.head = nn.LSTM(features, width), nn.Linear(width, features)

        def forward(self, xs):
            return self.head(self.lstm(xs)[0])

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            width = pick(128, 16)
            self.first, self.last = nn.Linear(32, width), nn.Linear(width, 10)
            self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(pick(200, 20))])

        def forward(self, x):
            x = self.first(x)
            for layer in self.layers:
                x = x + 0.1 * F.relu(layer(x))
            return self.last(x)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            channels, levels = pick((16, 3), (4, 2))
            two = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1),
                                             nn.ReLU())
            widths = [channels << i for i in range(levels)]
            self.down = nn.ModuleList([two(i, o) for i, o in zip([3] + widths, widths)])
            self.bottom = two(widths[-1], 2 * widths[-1])
            self.up = nn.ModuleList([two(3 * w, w) for w in reversed(widths)])
            self.last = nn.Conv2d(channels, 3, 1)

        def forward(self, x):
            skipped = []
            for level in self.down:
                skipped.append(level(x))
                x = F.avg_pool2d(skipped[-1], 2)
            x = self.bottom(x)
            for level in self.up:
                x = level(torch.cat([F.interpolate(x, scale_factor=2), skipped.pop()], 1))
            return self.last(x)

    class Bottleneck(nn.Module):
        def __init__(self, i, width, stride):
            super().__init__()
            conv = lambda i, o, side, stride=1: nn.Sequential(
                nn.Conv2d(i, o, side, stride, side // 2, bias=False), nn.BatchNorm2d(o))
            self.one, self.two, self.three = conv(i, width, 1), conv(width, width, 3, stride), conv(width, 4 * width, 1)
            self.across = conv(i, 4 * width, 1, stride) if i != 4 * width or stride != 1 else nn.Identity()

        def forward(self, x):
            return F.relu(self.three(F.relu(self.two(F.relu(self.one(x))))) + self.across(x))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            width, depths, classes = pick((64, (3, 4, 6, 3), 1000), (4, (1, 2), 5))
            self.first = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width))
            blocks, i = [], width
            for level, depth in enumerate(depths):
                for n in range(depth):
                    blocks.append(Bottleneck(i, width << level, 2 if level and not n else 1))
                    i = 4 * (width << level)
            self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(i, classes)
            self.to(memory_format=torch.channels_last)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.first(x)), 3, 2, 1)
            return self.head(self.blocks(x).mean((2, 3)))

    def classified(logits, y):
        return F.cross_entropy(logits.flatten(0, -2), y.flatten())

    def forward(make, x):
        def of(compiler):
            net = make().to(device)
            f = compiler(net)
            def call():
                with torch.no_grad():
                    return f(x)
            return call
        return of

    def train(make, loss, x, y, half=False):
        def of(compiler):
            net = wrap(make().to(device))
            optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
            def loss_of(x, y):
                with torch.autocast(device, dtype=torch.bfloat16, enabled=half):
                    out = net(x)
                return loss(out.float(), y)
            f, update = compiler(loss_of), compiler(optimiser.step)
            def call():
                optimiser.zero_grad(set_to_none=True)
                l = f(x, y)
                l.backward()
                update()
                return l
            return call
        return of

    def parameters(optimiser_of):
        def of(compiler):
            count = pick(1000, 40)
            ps = [normal(64).requires_grad_() for _ in range(count)]
            wanted = [normal(64) for _ in range(count)]
            optimiser = optimiser_of(ps)
            f = compiler(lambda ps: sum(F.mse_loss(p, w) for p, w in zip(ps, wanted)) / count)
            update = compiler(optimiser.step)
            def call():
                optimiser.zero_grad(set_to_none=True)
                f(ps).backward()
                update()
            return call
        return of

    def plain(fn, *x):
        return lambda compiler: (lambda f: lambda: f(*x))(compiler(fn))

    text = integers(pick(50257, 97), args.batch or pick(1, 2), args.length or pick(64, 12))
    other = integers(pick(8000, 61), args.batch or pick(1, 2), args.length or pick(128, 10))
    pixels, classes, batch = pick(224, 16), pick(1000, 5), pick(2, 3)
    pictures, kinds = normal(batch, pixels, pixels, 3), integers(classes, batch)
    series = normal(pick(65, 6), pick(16, 3), pick(128, 6))
    square = pick(64, 8)
    photos, subjects = (make(args.batch or pick(32, 4)) for make in (
        lambda n: normal(n, 3, pick(224, 32), pick(224, 32)).contiguous(memory_format=torch.channels_last),
        lambda n: integers(classes, n)))
    rows = {
        "gpt2_forward": forward(GPT2, text),
        "gpt2_train": train(GPT2, classified, text, text.roll(-1, 1)),
        "gpt2_train_bf16": train(GPT2, classified, text, text.roll(-1, 1), True),
        "llama_forward": forward(Llama, other),
        "llama_train": train(Llama, classified, other, other.roll(-1, 1)),
        "vit_forward": forward(ViT, pictures),
        "vit_train": train(ViT, F.cross_entropy, pictures, kinds),
        "lstm_train": train(Lstm, F.mse_loss, series[:-1], series[1:]),
        "residual_train": train(Residual, F.cross_entropy, normal(pick(64, 8), 32), integers(10, pick(64, 8))),
        "mixer_train": train(Mixer, F.cross_entropy, pictures, kinds),
        "resnet50_forward": forward(lambda: ResNet().eval(), photos),
        "resnet50_train": train(ResNet, F.cross_entropy, photos, subjects),
        "resnet50_train_bf16": train(ResNet, F.cross_entropy, photos, subjects, True),
        "unet_train": train(UNet, F.mse_loss, normal(2, 3, square, square), normal(2, 3, square, square)),
        "parameters_sgd": parameters(lambda ps: torch.optim.SGD(ps, lr=0.1)),
        "parameters_adam": parameters(lambda ps: torch.optim.AdamW(ps, lr=1e-3)),
        "heat_10": plain(heat_of(lambda u: F.pad(u, (1, 1, 1, 1))), normal(pick(2048, 24), pick(2048, 24))),
    }
    for steps in (2, 8, 32):
        rows[f"gas_{steps}"] = plain(gas_of(torch, lambda x, by, a: torch.roll(x, -by, a), steps),
                                     *gas_start(torch, pick(256, 16), dict(device=device)))
    return rows


# ---- Functions of arrays, for both.

def heat_of(pad):
    def ten_steps(u):
        n, m = u.shape
        for _ in range(10):
            p = pad(u)
            u = u + 0.2 * (p[:n, 1:-1] + p[2:, 1:-1] + p[1:-1, :m] + p[1:-1, 2:] - 4 * u)
        return u
    return ten_steps


def gas_start(np, n, where):
    y = np.linspace(-1, 1, n, **where)[:, None] + np.zeros((n, n), **where)
    x = y.T
    mass = 1 + 0.5 * np.exp(-20 * (x * x + y * y))
    return mass, 0.2 * mass * np.sin(3 * y), 0.1 * mass, 2.5 + 0.5 * np.exp(-10 * (x * x + y * y))


def gas_of(np, shifted, steps):
    gamma = 1.4

    def slope(x, axis):
        a, b = x - shifted(x, -1, axis), shifted(x, 1, axis) - x
        return np.where(a * b > 0, np.where(abs(a) < abs(b), a, b), np.zeros_like(a))

    def flux(u, axis):
        mass, across, down, energy = u
        v = (down if axis == 0 else across) / mass
        p = (gamma - 1) * (energy - 0.5 * (across * across + down * down) / mass)
        return ([mass * v, across * v + (p if axis == 1 else 0), down * v + (p if axis == 0 else 0), (energy + p) * v],
                abs(v) + np.sqrt(gamma * p / mass))

    def flow(u, axis):
        half = [0.5 * slope(x, axis) for x in u]
        left = [x + s for x, s in zip(u, half)]
        right = [shifted(x - s, 1, axis) for x, s in zip(u, half)]
        (fl, a), (fr, b) = flux(left, axis), flux(right, axis)
        fastest = np.maximum(a, b)
        f = [0.5 * (x + y - fastest * (r - l)) for x, y, l, r in zip(fl, fr, left, right)]
        return [x - shifted(x, -1, axis) for x in f]

    def advance(*u):
        for _ in range(steps):
            u = [x - 0.1 * (a + b) for x, a, b in zip(u, flow(u, 0), flow(u, 1))]
        return np.stack(u)
    return advance


def jax_gpt2(jax, args):
    """The three rows of GPT-2: parameters are a dictionary, blocks a list."""
    import jax.numpy as jnp

    vocabulary, positions, width, n, layers = (97, 32, 32, 4, 2) if args.small else (50257, 1024, 768, 12, 12)
    shape = args.batch or (2 if args.small else 1), args.length or (12 if args.small else 64)
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 200))
    normal = lambda *e: 0.02 * jax.random.normal(next(keys), e)
    linear = lambda i, o: {"w": normal(i, o), "b": jnp.zeros(o)}
    norm = lambda: {"gain": jnp.ones(width), "bias": jnp.zeros(width)}

    def block():
        return {"one": norm(), "qkv": linear(width, 3 * width), "out": linear(width, width), "two": norm(),
                "up": linear(width, 4 * width), "down": linear(4 * width, width)}

    start = {"tokens": normal(vocabulary, width), "positions": normal(positions, width),
             "blocks": [block() for _ in range(layers)], "last": norm()}
    text = jax.random.randint(next(keys), shape, 0, vocabulary)

    def applied(p, x):
        return x @ p["w"].astype(x.dtype) + p["b"].astype(x.dtype)

    def normed(p, x):
        y = x.astype(jnp.float32)
        y = (y - y.mean(-1, keepdims=True)) * jax.lax.rsqrt(y.var(-1, keepdims=True) + 1e-5)
        return (y * p["gain"] + p["bias"]).astype(x.dtype)

    def attention(p, x):
        batch, length, _ = x.shape
        q, k, v = (y.reshape(batch, length, n, -1).transpose(0, 2, 1, 3) for y in jnp.split(applied(p["qkv"], x), 3, -1))
        scores = (q @ k.transpose(0, 1, 3, 2)).astype(jnp.float32) * (width // n) ** -0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
        y = jax.nn.softmax(scores).astype(x.dtype) @ v
        return applied(p["out"], y.transpose(0, 2, 1, 3).reshape(batch, length, width))

    def logits(p, text, dtype=jnp.float32):
        x = (p["tokens"][text] + p["positions"][: text.shape[1]]).astype(dtype)
        for b in p["blocks"]:
            x = x + attention(b, normed(b["one"], x))
            x = x + applied(b["down"], jax.nn.gelu(applied(b["up"], normed(b["two"], x))))
        return normed(p["last"], x) @ p["tokens"].T.astype(dtype)

    def step_of(dtype):
        def loss(p, text, wanted):
            rows = jax.nn.log_softmax(logits(p, text, dtype).astype(jnp.float32))
            return -jnp.take_along_axis(rows, wanted[..., None], -1).mean()

        def step(p, m, v, t, text, wanted):
            l, g = jax.value_and_grad(loss)(p, text, wanted)
            t = t + 1
            m = jax.tree.map(lambda a, d: 0.9 * a + 0.1 * d, m, g)
            v = jax.tree.map(lambda a, d: 0.999 * a + 0.001 * d * d, v, g)
            p = jax.tree.map(lambda p, m, v: p * (1 - 1e-5) - 1e-3 * (m / (1 - 0.9 ** t)) /
                             (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8), p, m, v)
            return l, p, m, v, t
        return step

    zeros = lambda: jax.tree.map(jnp.zeros_like, start)
    state = lambda: (start, zeros(), zeros(), jnp.zeros(()), text, jnp.roll(text, -1, 1))
    return {"gpt2_forward": (logits, lambda: (start, text)), "gpt2_train": (step_of(jnp.float32), state),
            "gpt2_train_bf16": (step_of(jnp.bfloat16), state)}


def jax_rows(jax, args):
    import jax.numpy as jnp

    pick = lambda full, few: few if args.small else full
    count, n = pick(1000, 40), pick(2048, 24)
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    ps, wanted = (list(jax.random.normal(k, (count, 64))) for k in keys[:2])

    def loss(ps, wanted):
        return sum(((p - w) ** 2).mean() for p, w in zip(ps, wanted)) / count

    def sgd(ps, wanted):
        l, g = jax.value_and_grad(loss)(ps, wanted)
        return l, [p - 0.1 * d for p, d in zip(ps, g)]

    def adam(ps, ms, vs, t, wanted):
        l, g = jax.value_and_grad(loss)(ps, wanted)
        t = t + 1
        ms = [0.9 * m + 0.1 * d for m, d in zip(ms, g)]
        vs = [0.999 * v + 0.001 * d * d for v, d in zip(vs, g)]
        return l, [p * (1 - 1e-5) - 1e-3 * (m / (1 - 0.9 ** t)) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
                   for p, m, v in zip(ps, ms, vs)], ms, vs, t

    zeros = [jnp.zeros(64) for _ in ps]
    rows = {
        "parameters_sgd": (sgd, lambda: (ps, wanted)),
        "parameters_adam": (adam, lambda: (ps, zeros, zeros, jnp.zeros(()), wanted)),
        "heat_10": (heat_of(lambda u: jnp.pad(u, 1)), lambda: (jax.random.normal(keys[2], (n, n)),)),
    }
    for steps in (2, 8, 32):
        rows[f"gas_{steps}"] = (gas_of(jnp, lambda x, by, a: jnp.roll(x, -by, a), steps),
                                lambda: gas_start(jnp, pick(256, 16), {}))
    return {**jax_gpt2(jax, args), **rows}


def run_jax(names, args):
    if args.device == "cpu":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    out = {}
    for name, (fn, make) in jax_rows(jax, args).items():
        if name in names:
            f, given = jax.jit(fn), make()
            out[name] = measured(lambda: jax.block_until_ready(f(*given)), lambda: None)
    return out


def run_torch(kind, names, args):
    import torch
    torch.set_float32_matmul_precision("highest")
    sync = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    compiler = (lambda f: f) if kind == "eager" else torch.compile
    out = {}
    for name, make in torch_rows(torch, args.device, args).items():
        if name not in names:
            continue
        try:
            torch._dynamo.reset()
            if args.device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            out[name] = measured(make(compiler), sync)
            if args.device == "cuda":
                out[name]["peak"] = torch.cuda.max_memory_allocated() * 1e-6
        except Exception as e:  # a peer that fails leaves its cell empty
            print(f"{name} {kind}: {type(e).__name__}: {str(e)[:200]}", file=sys.stderr)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--peers", default="eager,compile,jax")
    parser.add_argument("--rows", default="")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--length", type=int, default=0)
    parser.add_argument("--json", default="")
    parser.add_argument("--kernels", default="")
    args = parser.parse_args()
    if args.kernels:
        command = [args.program, "--kernels", args.kernels, "--device", args.device, "--json"]
        for name in ("batch", "length"):
            if getattr(args, name):
                command += [f"--{name}", str(getattr(args, name))]
        return print_kernels(args.kernels, command)
    kinds = [k for k in args.peers.split(",") if k]
    ours = sinter(args.program, args)
    peers = {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        for kind in kinds:
            peers[kind] = run_jax(ours, args) if kind == "jax" else run_torch(kind, ours, args)
    print(f"{'row':17}{'sinter first':>13}{'steady ms':>11}{'MB':>8}{'scratch':>9}" +
          "".join(f"{k + ' first':>15}{'steady':>11}{'MB':>8}" for k in kinds) + f"{'ratio':>8}")
    for name, row in ours.items():
        nothing = {"first": math.nan, "steady": math.nan}
        theirs = [peers[k].get(name, nothing) for k in kinds]
        best = min((t["steady"] for t in theirs if t["steady"] == t["steady"]), default=math.nan)
        print(f"{name:17}{row['first']:13.1f}{row['steady']:11.3f}{row['warm']['peak']:8.0f}{row['warm'].get('scratch', math.nan):9.0f}" +
              "".join(f"{t['first']:15.1f}{t['steady']:11.3f}{t.get('peak', math.nan):8.0f}" for t in theirs) +
              f"{row['steady'] / best:8.2f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"sinter": ours, "peers": peers}, f, indent=1)


if __name__ == "__main__":
    main()
