#!/usr/bin/env python3
"""Models of the zoo as libraries: each is exported, and called in a folder that holds glibc's libc, libm and libmvec and nothing else.
Its results have the bits of the compiled model for the same instruction set.

    check_libraries.py SINTER_ONNX [ZOO.tar] [--models N] [--only NAME ...] [--isa avx2] [--cc gcc]

ZOO.tar is $SINTER_ZOO if it is not given. Prints a line for each model. Exits with 1 when one differs or fails, with 77 where there is no zoo or no way to change the root.
"""
import argparse
import ast
import concurrent.futures
import glob
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

FLAGS = {"baseline": "-march=x86-64", "avx2": "-march=x86-64-v3", "avx512": "-march=x86-64-v4 -mprefer-vector-width=512"}
# Those that are quick to compile come first.
SMALL = ["own_gcn_dense", "own_siren", "own_nbeats", "own_vae", "own_lstm", "own_gru", "own_moe", "own_pointnet", "own_kalman_rnn", "own_bilstm_tagger",
         "hf_albert", "hf_bert", "hf_bart", "hf_gpt2", "hf_llama", "hf_gemma", "hf_t5", "hf_whisper"]

RUNNER = r"""
#include "zoo.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const size_t width[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1};
static size_t bytes_of(const zoo_spec* s, int64_t* e) {
  size_t n = width[s->dtype];
  for (int d = 0; d < s->rank; ++d) n *= (size_t)(e[d] = atoll(s->axes[d]));
  return n;
}
static void* memory(size_t n) {
  void* const p = aligned_alloc(64, (n + 127) / 64 * 64);
  if (!p) exit(9);
  memset(p, 0xa5, (n + 127) / 64 * 64);
  return p;
}
int main(void) {
  const zoo_spec *is, *os;
  const int inputs = zoo_inputs(&is), outputs = zoo_outputs(&os);
  zoo_array *in = calloc(inputs + 1, sizeof *in), *out = calloc(outputs + 1, sizeof *out);
  char name[64];
  for (int k = 0; k < inputs; ++k) {
    int64_t* const e = calloc(is[k].rank + 1, sizeof *e);
    const size_t n = bytes_of(&is[k], e);
    in[k].data = memory(n);
    in[k].extents = e;
    snprintf(name, sizeof name, "/input_%d.bin", k);
    FILE* const f = fopen(name, "rb");
    if (!f || fread(in[k].data, 1, n, f) != n) return fprintf(stderr, "%s: not %zu bytes\n", name, n), 8;
    fclose(f);
  }
  for (int k = 0; k < outputs; ++k) {
    int64_t* const e = calloc(os[k].rank + 1, sizeof *e);
    out[k].data = memory(bytes_of(&os[k], e));
    out[k].extents = e;
  }
  zoo_model* m = 0;
  FILE* const weights = fopen("/zoo.weights", "rb");
  int code = zoo_open(weights ? "/zoo.weights" : 0, &m);
  size_t need = 0;
  if (!code) code = zoo_room(m, 0, &need);
  void* const room = memory(need);
  if (!code) code = zoo_run(m, in, out, room, need);
  if (code) return fprintf(stderr, "%s\n", zoo_error(code)), code;
  for (int k = 0; k < outputs; ++k) {
    int64_t e[16];
    snprintf(name, sizeof name, "/library_%d.bin", k);
    FILE* const f = fopen(name, "wb");
    const size_t n = bytes_of(&os[k], e);
    if (fwrite(out[k].data, 1, n, f) != n) return 7;
    fclose(f);
  }
  zoo_close(m);
  return 0;
}
"""


def read_npy(path):
    """(shape, bytes)"""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<H", data[8:10])[0] if data[6] == 1 else struct.unpack("<I", data[8:12])[0]
    start = 10 if data[6] == 1 else 12
    header = ast.literal_eval(data[start:start + size].decode("latin1"))
    return header["shape"], data[start + size:]


def call(words, **options):
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().split("\n")
        raise RuntimeError(f"{os.path.basename(words[0])} exits with {done.returncode}: {' '.join(said[-6:])[:600]}")
    return done.stdout


def sizes_of(program, model, inputs):
    """--sizes for the open axes of a model, from its inputs."""
    said = call([program, model, "--describe"])
    found = {}
    for (name, axes), path in zip(re.findall(r"^  input  ([^\n]*): \w+ \(([^)\n]*)\)", said, re.M), inputs):
        for place, (axis, extent) in enumerate(zip(axes.split(", "), read_npy(path)[0])):
            if axis and not axis.isdigit():
                size = re.sub(r"\W", "_", axis if axis != "?" else f"{name}_{place}")
                found["n_" + size if size[0].isdigit() else size] = extent
    return [f"{name}={extent}" for name, extent in found.items()]


def root_of(here, loader_of):
    """A root folder with the C library alone, and the loader's path in it."""
    for line in subprocess.run(["ldd", loader_of], capture_output=True, text=True).stdout.split("\n"):
        found = re.search(r"(/\S+)", line.split("=>")[-1])
        if found and not re.search(r"libzoo", line):
            to = here + (found.group(1) if "ld-linux" in line else "/lib/" + os.path.basename(found.group(1)))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(os.path.realpath(found.group(1)), to)
    libmvec = glob.glob("/lib/*-linux-gnu/libmvec.so.1")
    if libmvec:
        shutil.copy(os.path.realpath(libmvec[0]), here + "/lib/libmvec.so.1")


def check(arguments, name, archive):
    with tempfile.TemporaryDirectory() as here:
        with tarfile.open(archive) as tar:
            tar.extractall(here)
        folder, root = f"{here}/{name}", f"{here}/root"
        model, inputs = f"{folder}/model.onnx", sorted(glob.glob(f"{folder}/input_*.npy"), key=lambda p: int(re.findall(r"\d+", p)[-1]))
        variables = {**os.environ, "SINTER_CXXFLAGS": FLAGS[arguments.isa], "OMP_NUM_THREADS": "1"}
        sizes = sizes_of(arguments.program, model, inputs)
        words = [arguments.program, model, "--library", here, "--name", "zoo", "--isa", arguments.isa]
        call(words + (["--sizes", *sizes] if sizes else []), env=variables)
        call([arguments.program, model, "--input", *inputs, "--output", f"{here}/jit"], env=variables)
        with open(f"{here}/runner.c", "w", encoding="ascii") as f:
            f.write(RUNNER)
        call([arguments.cc, "-O1", f"-I{here}", f"{here}/runner.c", "-o", f"{here}/runner", f"-L{here}", "-lzoo", "-Wl,-rpath,/lib"])
        os.makedirs(root + "/lib")
        shutil.copy(f"{here}/libzoo.so", root + "/lib")
        root_of(root, f"{here}/libzoo.so")
        root_of(root, f"{here}/runner")
        others = set(os.listdir(root + "/lib")) - {"libzoo.so", "libc.so.6", "libm.so.6", "libmvec.so.1"}
        if any(not o.startswith("ld-linux") for o in others):
            raise RuntimeError(f"it needs {', '.join(sorted(others))}")
        shutil.copy(f"{here}/runner", root)
        if os.path.exists(f"{here}/zoo.weights"):
            os.link(f"{here}/zoo.weights", f"{root}/zoo.weights")
        for k, path in enumerate(inputs):
            with open(f"{root}/input_{k}.bin", "wb") as f:
                f.write(read_npy(path)[1])
        call([*arguments.enter, root, "/runner"], env={})
        jit = glob.glob(f"{here}/jit/output_*.npy")
        for k in range(len(jit)):
            with open(f"{root}/library_{k}.bin", "rb") as f:
                if f.read() != read_npy(f"{here}/jit/output_{k}.npy")[1]:
                    raise RuntimeError(f"result {k} differs from the compiled model's")
        return f"{len(jit)} results equal, {os.path.getsize(here + '/libzoo.so')} bytes"


def way_into():
    """The words before a root folder that make it the root of a program."""
    for words in (["chroot"], ["unshare", "-r", "chroot"]):
        found = shutil.which(words[0])
        if found and subprocess.run([found, *words[1:], "/", "/bin/true"], capture_output=True, check=False).returncode == 0:
            return [found, *words[1:]]
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("zoo", nargs="?", default=os.environ.get("SINTER_ZOO", ""))
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--isa", default="avx2")
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(arguments.program)
    arguments.enter = way_into()
    if not os.path.exists(arguments.zoo) or not arguments.enter:
        print(f"skipped: there is no zoo {arguments.zoo}; SINTER_ZOO names one" if arguments.enter else "skipped: this user cannot change the root folder")
        return 77
    wrong = 0
    with tempfile.TemporaryDirectory() as here, tarfile.open(arguments.zoo) as tar:
        tar.extractall(here)
        archives = {os.path.basename(p)[:-len(".tar.xz")]: p for p in glob.glob(here + "/**/*.tar.xz", recursive=True)}
        order = [n for n in SMALL if n in archives] + sorted(n for n in archives if n not in SMALL)
        order = [n for n in order if not arguments.only or n in arguments.only][:arguments.models]
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for name, job in [(n, pool.submit(check, arguments, n, archives[n])) for n in order]:
                try:
                    print(f"{name}: {job.result()}", flush=True)
                except Exception as e:  # pylint: disable=broad-except
                    wrong += 1
                    print(f"{name}: failed: {e}", flush=True)
    print(f"{len(order) - wrong} of {len(order)}")
    return 1 if wrong or not order else 0


if __name__ == "__main__":
    sys.exit(main())
