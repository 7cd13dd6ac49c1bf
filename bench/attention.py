#!/usr/bin/env python3
"""bench/attention.cpp beside PyTorch's scaled_dot_product_attention, as it chooses, on one GPU in one run.

    python3 bench/attention.py PROGRAM [LENGTH...]

Times are medians in microseconds of a call on 16,384 tokens of 2,048 features in bf16; `ratio` is sinter's time over PyTorch's. TFLOP/s
count 2 products forward and 5 backward, and half of them under a causal mask.
"""
import statistics
import subprocess
import sys


def torch_times(length, head, causal):
    import torch
    import torch.nn.functional as F

    torch.manual_seed(0)
    batch, heads = 16384 // length, 2048 // head
    q, k, v, dy = (torch.randn(batch, heads, length, head, device="cuda", dtype=torch.bfloat16) for _ in range(4))

    def forward():
        with torch.no_grad():
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def both():
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(F.scaled_dot_product_attention(*inputs, is_causal=causal), inputs, dy)

    def median(f):
        for _ in range(3):
            f()
        torch.cuda.synchronize()
        times = []
        for _ in range(20):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(4):
                f()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / 4)
        return statistics.median(times)

    return median(forward), median(both)


def main():
    program, lengths = sys.argv[1], sys.argv[2:]
    text = subprocess.run([program, *lengths], check=True, stdout=subprocess.PIPE, text=True).stdout
    errors = {}
    print("length head mask    forward: us torch ratio TFLOP/s | both: us torch ratio TFLOP/s | errors o dq dk dv | kernels")
    for line in text.splitlines():
        words = line.split()
        if words[0] == "error":
            errors[tuple(words[1:4])] = words[4:]
            continue
        if words[0] != "time":
            print(line)
            continue
        length, head, causal = (int(w) for w in words[1:4])
        times = [float(w) for w in words[4:6]]
        try:
            peers = torch_times(length, head, bool(causal))
        except ImportError:
            peers = (float("nan"), float("nan"))
        work = 2.0 * 16384 * length * 2048 * (0.5 if causal else 1.0)
        cells = " | ".join(f"{t:9.1f} {p:9.1f} {t / p:5.2f} {products * work / t * 1e-6:6.0f}"
                           for t, p, products in zip(times, peers, (2, 7)))
        told = errors[tuple(words[1:4])]
        print(f"{length:6} {head:4} {'causal' if causal else 'all   '} {cells} | {' '.join(told[:4])} | {' '.join(told[4:])}", flush=True)


if __name__ == "__main__":
    main()
