#!/usr/bin/env python3
"""Runs by JAX, on the CPU, what the tests of stablehlo::save write, and compares with the reference's values. Without JAX it says that
it is skipped, and ends with 77.

    run_by_jax.py PROGRAM    PROGRAM is test_stablehlo_front, which writes its cases
    run_by_jax.py --cases FOLDER
"""
import os
import pathlib
import subprocess
import sys
import tempfile

NARROW = {"f16": 2e-3, "bf16": 2e-2, "f8_e4m3": 2e-1, "f8_e5m2": 4e-1}
NAMES = {"bool": "bool", "f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2", "bf16": "bfloat16"}


def dtype_of(np, ml_dtypes, name):
    wanted = NAMES.get(name)
    if wanted == "bool":
        return np.dtype(bool)
    if wanted:
        return np.dtype(getattr(ml_dtypes, wanted))
    return np.dtype({"i": "int", "u": "uint", "f": "float"}[name[0]] + name[1:])


def read_case(np, ml_dtypes, path):
    """Lists of (dtype's name, array): operands and results."""
    lists = {"in": [], "out": []}
    lines = path.read_text().split("\n")
    for head, values in zip(lines[0::2], lines[1::2]):
        kind, name, *extents = head.split()
        number = float if name[0] == "f" or name[0:2] == "bf" else int
        flat = np.array([number(v) for v in values.split()], dtype=np.float64 if number is float else object)
        lists[kind].append((name, flat.astype(dtype_of(np, ml_dtypes, name)).reshape([int(e) for e in extents])))
    return lists["in"], lists["out"]


def loaded(device, text):
    """The module as a program. What a client takes, and how it is called, differs between versions of JAX."""
    from jax._src.lib import xla_client
    how = xla_client.CompileOptions()
    if not hasattr(device.client, "compile_and_load"):
        return device.client.compile(text, how)
    devices = xla_client.DeviceList((device,))
    try:
        return device.client.compile_and_load(text, devices, how)
    except TypeError:  # this version takes no text
        from jax._src.interpreters import mlir
        from jax._src.lib.mlir import ir
        with mlir.make_ir_context() as context:
            module = ir.Module.parse(text, context)
            try:
                return device.client.compile_and_load(module, devices, how)
            except TypeError:
                return device.client.compile_and_load(mlir.module_to_bytecode(module), devices, how)


def run(jax, text, operands):
    device = jax.devices("cpu")[0]
    program = loaded(device, text)
    given = [jax.device_put(x, device) for x in operands]
    if hasattr(program, "execute"):
        return program.execute(given)
    return [one[0] for one in program.execute_sharded(given).disassemble_into_single_device_arrays()]


def differs(np, name, y, want):
    if y.dtype != want.dtype or y.shape != want.shape:
        return f"{y.dtype}{y.shape}, not {want.dtype}{want.shape}"
    if name[0] != "f" and name[0:2] != "bf":
        return "" if np.array_equal(y, want) else "other integers"
    tolerance = NARROW.get(name, 2e-5 if name == "f32" else 1e-10)
    p, q = y.astype(np.float64), want.astype(np.float64)
    same = np.isclose(p, q, rtol=tolerance, atol=1e-30, equal_nan=True)
    return "" if same.all() else f"{p[~same].flat[0]}, not {q[~same].flat[0]}"


def check(folder):
    try:
        import jax
        import ml_dtypes
        import numpy as np
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 77
    jax.config.update("jax_enable_x64", True)
    faults = ran = 0
    for path in sorted(pathlib.Path(folder).glob("*.mlir")):
        operands, results = read_case(np, ml_dtypes, path.with_suffix(".txt"))
        try:
            got = run(jax, path.read_text(), [x for _, x in operands])
            why = [differs(np, name, np.asarray(y), want) for y, (name, want) in zip(got, results)]
        except Exception as fault:  # the module is refused, or does not run
            why = [str(fault)[:400]]
        ran += 1
        for k, what in enumerate(why):
            if what:
                faults += 1
                print(f"{path.name}, result {k}: {what}")
    print(f"{ran} modules, {faults} faults")
    return 1 if faults or ran == 0 else 0


def main():
    if sys.argv[1] == "--cases":
        return check(sys.argv[2])
    try:
        import jax  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], "--source-file=*export_test.cpp"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "SINTER_STABLEHLO_CASES": folder})
        return check(folder)


if __name__ == "__main__":
    sys.exit(main())
