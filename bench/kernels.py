"""Where a call spends a GPU's time: steps of one name, how many, their milliseconds in the last call, and the larger of two shares: of
their bytes at the rate at which PyTorch copies 1 GiB, and of their operations at the rate of its bf16 product of 8192 x 8192
matrices. Both rates are measured in the same run.
"""
import json
import math
import os
import subprocess
import tempfile


def gpu_peaks():
    """Bytes and operations a second: a copy, counted read and written, and a bf16 product."""
    import torch

    def seconds(f):
        for _ in range(3):
            f()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            f()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1e4

    a, b = torch.rand(2 ** 28, device="cuda"), torch.empty(2 ** 28, device="cuda")
    x, y = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * 2 ** 30 / seconds(lambda: b.copy_(a)), 2 * 8192 ** 3 / seconds(lambda: x @ y)


def last_call(spans, calls):
    """Seconds by step number, of the last of so many calls, which have equally many spans."""
    times = {}
    for span in spans[len(spans) - len(spans) // calls:]:
        number = int(span["name"].split(":")[0])
        times[number] = times.get(number, 0) + span["dur"] * 1e-6
    return times


def print_kernels(title, command):
    """The table of `command`, which prints bench/steps.hpp's lines."""
    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "SINTER_TRACE": folder}).stdout
        with open(os.path.join(folder, "trace.json"), encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
    first, *steps = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    times = last_call([e for e in events if e["cat"] == "device" and e["name"][:1].isdigit()], first["calls"])
    bandwidth, rate = gpu_peaks()
    rows = {}
    for number, seconds in times.items():
        step = steps[number]
        row = rows.setdefault(step["name"], [0, 0.0, 0, 0])
        for i, value in enumerate((1, seconds, step["read"] + step["written"], step["flops"])):
            row[i] += value
    total = sum(times.values())
    print(f"{title}: {len(times)} steps, {total * 1e3:.3f} ms; copies {bandwidth * 1e-12:.2f} TB/s, products "
          f"{rate * 1e-12:.0f} TFLOP/s")
    print(f"{'ms':>9}{'share':>7}{'count':>6}{'MB':>9}{'GFLOP':>9}{'of peak':>9}  step")
    for name, (count, seconds, moved, flops) in sorted(rows.items(), key=lambda r: -r[1][1]):
        best = max(moved / bandwidth, flops / rate) / seconds if seconds else math.nan
        print(f"{seconds * 1e3:9.3f}{seconds / total:7.1%}{count:6d}{moved * 1e-6:9.1f}{flops * 1e-9:9.1f}{best:9.0%}  {name}")
