#!/usr/bin/env python3
"""examples/chat.cpp on small random models: it writes and chats, the same text each time; what it says of folders that are damaged.

    check_chat.py PROGRAM
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

SIZES = {"model_type": "gpt2", "vocab_size": 258, "n_positions": 96, "n_embd": 16, "n_layer": 1, "n_head": 2}
LLAMA = {"model_type": "llama", "vocab_size": 258, "hidden_size": 16, "intermediate_size": 40, "num_hidden_layers": 1,
         "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True,
         "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 64}}
GPT2_SHAPES = {"wte.weight": (258, 16), "wpe.weight": (96, 16), "ln_f.weight": (16,), "ln_f.bias": (16,)}
LLAMA_SHAPES = {"model.embed_tokens.weight": (258, 16), "model.norm.weight": (16,)}
for name, shape in {"ln_1": (16,), "ln_2": (16,), "attn.c_attn": (16, 48), "attn.c_proj": (16, 16), "mlp.c_fc": (16, 64),
                    "mlp.c_proj": (64, 16)}.items():
    GPT2_SHAPES[f"h.0.{name}.weight"] = shape
    GPT2_SHAPES[f"h.0.{name}.bias"] = shape[-1:]
for name, shape in {"input_layernorm": (16,), "post_attention_layernorm": (16,), "self_attn.q_proj": (16, 16),
                    "self_attn.k_proj": (8, 16), "self_attn.v_proj": (8, 16), "self_attn.o_proj": (16, 16),
                    "mlp.gate_proj": (40, 16), "mlp.up_proj": (40, 16), "mlp.down_proj": (16, 40)}.items():
    LLAMA_SHAPES[f"model.layers.0.{name}.weight"] = shape


def write_weights(path, shapes, seed):
    draw = random.Random(seed)
    header, body = {}, b""
    for name, shape in shapes.items():
        count = 1
        for n in shape:
            count *= n
        data = struct.pack(f"<{count}f", *(draw.gauss(0, 0.5) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def spelled():
    """Each byte as GPT-2 spells it."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)}


def write_model(folder, config, shapes):
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    write_weights(os.path.join(folder, "model.safetensors"), shapes, 1)
    letters = spelled()
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump({"added_tokens": [{"id": 256, "content": "<|endoftext|>", "special": True, "normalized": False},
                                    {"id": 257, "content": "<|im_end|>", "special": True, "normalized": False}],
                   "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                   "post_processor": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"},
                   "model": {"type": "BPE", "vocab": {letters[b]: b for b in range(256)}, "merges": []}}, f)


def run(program, *arguments, given=""):
    done = subprocess.run([program, *arguments], capture_output=True, input=given.encode(), timeout=200)
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def expect(condition, what):
    if not condition:
        sys.exit(f"chat: {what}")


def main():
    program = os.path.abspath(sys.argv[1])
    for config, shapes in ((SIZES, GPT2_SHAPES), (LLAMA, LLAMA_SHAPES)):
        with tempfile.TemporaryDirectory() as folder:
            write_model(folder, config, shapes)
            kind = config["model_type"]
            one = ["--model", folder, "--prompt", "Once upon", "--most", "8"]
            rc, first, said = run(program, *one)
            expect(rc == 0 and "tokens" in said, f"{kind} ends with {rc}: {said}")
            expect(1 <= len(first) <= 9, f"{kind} writes {first!r}")
            expect(run(program, *one)[1] == first, f"{kind} writes another text the second time")
            drawn = [run(program, *one, "--temperature", "1.5", "--top-k", "50", "--seed", s)[1] for s in ("1", "1", "2")]
            expect(drawn[0] == drawn[1] != drawn[2], f"{kind} draws {drawn}")
            rc, packed, said = run(program, *one, "--weights", "int4")
            expect(rc == 0 and packed, f"{kind} of int4 ends with {rc}: {said}")
            rc, both, said = run(program, "--model", folder, "--most", "3", given="a\nb\n")
            expect(rc == 0 and said.count("tokens") == 2, f"{kind} chats with {rc}: {said}")
            expect(run(program, "--model", folder, "--weights", "int2")[0] == 2, "int2 is taken")
            for name in ("config.json", "model.safetensors", "tokenizer.json"):
                path = os.path.join(folder, name)
                with open(path, "rb") as f:
                    whole = f.read()
                with open(path, "wb") as f:
                    f.write(whole[:len(whole) // 2])
                rc, _, said = run(program, *one)
                expect(rc == 2 and name in said, f"with half of {name} it ends with {rc}: {said}")
                with open(path, "wb") as f:
                    f.write(whole)
    expect(run(program)[0] == 2, "no folder is taken")
    expect(run(program, "--model", "/nowhere")[0] == 2, "a folder that is not there is taken")


if __name__ == "__main__":
    main()
