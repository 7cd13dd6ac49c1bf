#!/usr/bin/env python3
"""examples/gpt.cpp beside PyTorch, eager and torch.compile: tokens a second of training one model on one text, in one run.

    python3 bench/gpt.py PROGRAM [--device cpu|cuda] [--peers eager,compile] [--steps N] [--large]
                         [--layers N] [--width N] [--heads N] [--length N] [--batch N] [--text FILE] [--json FILE]

PROGRAM is the built examples/gpt. All draw batches, compute the loss with dropout of 0.1, clip gradients to norm 1 and step AdamW
with a warmed-up cosine; on a GPU products are in bf16. The first step, which compiles, is not counted. --large: 6 layers of 384 and
256 places, 64 rows. The loss of the last steps is told, too: all should be near each other.
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

SIZES = {"layers": (4, 6), "width": (128, 384), "heads": (4, 6), "length": (64, 256), "batch": (16, 64), "steps": (200, 200)}


def sinter(args):
    with tempfile.TemporaryDirectory() as folder:
        command = [os.path.abspath(args.program), "--device", args.device, "--text", args.text, "--tokens", "4",
                   "--prompt", "T", "--svg", os.path.join(folder, "loss.svg")]
        command += [x for name in SIZES for x in (f"--{name}", str(getattr(args, name)))]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, errors="replace").stdout
    rate, loss = re.search(r"^training +(\d+) tokens/s, loss ([\d.]+)$", done, re.M).groups()
    return float(rate), float(loss)


def model(torch, args, vocabulary):
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            w = args.width
            self.n1, self.n2 = nn.LayerNorm(w), nn.LayerNorm(w)
            self.qkv, self.out = nn.Linear(w, 3 * w), nn.Linear(w, w)
            self.up, self.down = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)
            self.drop = nn.Dropout(0.1)

        def forward(self, h):
            q, k, v = (x.unflatten(-1, (args.heads, -1)).transpose(1, 2) for x in self.qkv(self.n1(h)).chunk(3, -1))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + self.drop(self.out(mixed.transpose(1, 2).flatten(2)))
            return h + self.drop(self.down(F.gelu(self.up(self.n2(h)), approximate="tanh")))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, args.width), nn.Embedding(args.length, args.width)
            self.blocks = nn.Sequential(*[Block() for _ in range(args.layers)])
            self.last, self.drop = nn.LayerNorm(args.width), nn.Dropout(0.1)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, x, y):
            h = self.drop(self.tokens(x) + self.places.weight[: x.shape[1]])
            logits = F.linear(self.last(self.blocks(h)), self.tokens.weight)
            return F.cross_entropy(logits.float().flatten(0, 1), y.flatten())

    return GPT().to(args.device)


def torch_run(torch, args, compiled):
    torch.manual_seed(1)
    with open(args.text, "rb") as f:
        text = f.read()
    letters = sorted(set(text))
    place = {b: i for i, b in enumerate(letters)}
    corpus = torch.tensor([place[b] for b in text], device=args.device)
    net = model(torch, args, len(letters))
    cuda = args.device == "cuda"
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.1, fused=cuda)
    warm = args.steps // 20
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: (i + 1) / (warm + 1) if i < warm else
                                                 0.5 + 0.5 * math.cos(math.pi * (i - warm) / (args.steps - warm)))
    f = torch.compile(net) if compiled else net
    sync = torch.cuda.synchronize if cuda else lambda: None
    steps = torch.arange(args.length, device=args.device)
    losses, start = [], 0.0
    for i in range(args.steps):
        at = torch.randint(0, len(text) - args.length, (args.batch, 1), device=args.device) + steps
        x, y = corpus[at], corpus[at + 1]
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=cuda):
            loss = f(x, y)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.detach())
        if i == 0:
            sync()
            start = time.perf_counter()
    sync()
    rate = (args.steps - 1) * args.batch * args.length / (time.perf_counter() - start)
    return rate, float(torch.stack(losses[-10:]).mean())


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--peers", default="eager,compile")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--text", default=os.path.join(root, "docs", "compile.md"))
    parser.add_argument("--json")
    for name in SIZES:
        parser.add_argument(f"--{name}", type=int)
    args = parser.parse_args()
    for name, pair in SIZES.items():
        if getattr(args, name) is None:
            setattr(args, name, pair[args.large])
    rows = {"sinter": sinter(args)}
    peers = [p for p in args.peers.split(",") if p]
    try:
        import torch
    except ImportError:
        if peers:
            print("PyTorch is not installed: sinter alone", file=sys.stderr)
        peers = []
    for peer in peers:
        rows[f"PyTorch {peer}"] = torch_run(torch, args, peer == "compile")
    own = rows["sinter"][0]
    print("                   tokens/s   sinter's  loss")
    for name, (rate, loss) in rows.items():
        print(f"{name:16} {rate:10.0f} {own / rate:9.2f}x  {loss:.3f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({**{n: getattr(args, n) for n in ("device", *SIZES)}, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
