#!/usr/bin/env python3
"""examples/gpt.cpp on a small setting: it learns, goes on from a checkpoint with the same bits, and reads weights in GPT-2's names.

    check_gpt.py PROGRAM TEXT
"""
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

SIZES = ["--layers", "1", "--width", "32", "--heads", "2", "--length", "32"]
NAMES = [("tokens.", "wte."), ("places.", "wpe."), ("blocks.", "h."), (".n1.", ".ln_1."), (".n2.", ".ln_2."),
         (".mix.qkv.", ".attn.c_attn."), (".mix.out.", ".attn.c_proj."), (".up.", ".mlp.c_fc."), (".down.", ".mlp.c_proj."),
         ("last.", "ln_f.")]


def read(path):
    """{name: (dtype, shape, bytes)} of a .safetensors file."""
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {name: (x["dtype"], x["shape"], data[8 + n:][slice(*x["data_offsets"])]) for name, x in header.items()}


def write(path, arrays):
    header, body = {}, b""
    for name, (dtype, shape, data) in arrays.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def as_gpt2(arrays, letters):
    """The parameters of a checkpoint under GPT-2's names; of the tokens a row for each byte."""
    out = {"h.0.attn.bias": ("F32", [1, 1, 2, 2], struct.pack("<4f", 1, 0, 1, 1))}  # as the published file has
    for name, (dtype, shape, data) in arrays.items():
        # The state of the optimizer has the same paths behind others of its own.
        match = re.fullmatch(r"(?:first|0)\.((?:tokens|places|blocks|last)\..*(?:weight|bias))", name)
        if not match:
            continue
        path = match.group(1)
        for ours, theirs in NAMES:
            path = path.replace(ours, theirs, 1)
        if path == "wte.weight":
            width, row = shape[1], 4 * shape[1]
            rows = [struct.pack("<f", 0) * width] * 256
            for i, byte in enumerate(letters):
                rows[byte] = data[i * row:(i + 1) * row]
            shape, data = [256, width], b"".join(rows)
        out[path] = (dtype, shape, data)
    return out


def part_of(index):
    """The only rank's file of a checkpoint."""
    parts = glob.glob(index[:-len("safetensors")] + "*.0-of-1.safetensors")
    if len(parts) != 1:
        sys.exit(f"the parts of {index} are {parts}")
    return parts[0]


def spelled(byte):
    """The code point by which vocab.json has a byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte if byte in plain else 256 + [b for b in range(256) if b not in plain].index(byte))


def main():
    program, text = sys.argv[1:]

    def run(*more):
        done = subprocess.run([program, *SIZES, *more], capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            sys.exit(f"{' '.join(more)} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
        return re.sub(r"\d+ tokens/s", "", done.stdout)

    with tempfile.TemporaryDirectory() as folder:
        saved, svg = os.path.join(folder, "saved"), os.path.join(folder, "loss.svg")
        learn = ["--text", text, "--epochs", "3", "--rate", "1e-2", "--batch", "32", "--tokens", "12", "--save", saved, "--svg", svg,
                 "--expect", "-3.3"]
        whole = run(*learn)
        with open(svg, encoding="utf-8") as f:
            if "<polyline" not in f.read():
                sys.exit("there is no curve in the picture")
        files = sorted(glob.glob(os.path.join(saved, "*.safetensors")))
        indexes = [f for f in files if "-of-" not in os.path.basename(f)]
        last = read(part_of(indexes[-1]))
        os.remove(part_of(indexes[-1]))
        os.remove(indexes[-1])
        resumed = run(*learn)
        tail = whole[whole.index("training"):]
        if len(files) != 6 or len(indexes) != 3 or tail not in resumed:
            sys.exit(f"{files}; resumed it says\n{resumed}\nnot\n{whole}")
        if read(part_of(indexes[-1])) != last:
            sys.exit("a run that was resumed ends with other bits")

        with open(text, "rb") as f:
            letters = sorted(set(f.read()))
        arrays = as_gpt2(last, letters)
        with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as f:
            json.dump({spelled(b): b for b in range(256)}, f)
        with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
            f.write("#version: 0.2\n")
        write(os.path.join(folder, "model.safetensors"), arrays)
        # One of the five most likely ones each time, none of which is a byte that the text does not have.
        few = ["--prompt", "The ", "--best", "5", "--tokens", "12"]
        loaded, own = run("--load", folder, *few), run(*learn, *few)
        loaded = loaded[loaded.index("The "):-1]
        if len(loaded) != 16 or loaded not in own:
            sys.exit(f"with GPT-2's names it says\n{loaded}\nnot\n{own}")
    print("0 failures")


if __name__ == "__main__":
    main()
