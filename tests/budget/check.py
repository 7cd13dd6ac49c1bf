#!/usr/bin/env python3
"""Holds what `#include <sinter/sinter.hpp>` plus one compiled lambda, or the training of a model, costs a user to its budget.

    check.py user|files|engine|gpt|models|examples -- COMPILER ARGUMENTS...

`examples` are those of examples/ that take longest, one after the other; `models` are programs of other kinds; `files` is a unit that
includes what reads files.

CPU seconds (a loaded machine does not matter), best of three, of g++ -O2. On a machine slower than the one the budget
was set on, told by a fixed reference program, the budget grows in proportion; on a faster one it stays. The reference is
compiled before and after each try: a machine's speed may change within a minute. The test fails beyond what is held; the goal is what
the project wants, and is printed as long as it is missed.
"""
import os
import resource
import subprocess
import sys
import tempfile

DATA = ['-DSINTER_EXAMPLE_DATA="examples/data"']
BUDGET = {  # name, source, flags, seconds held, seconds wanted, the reference's flags, its seconds where the budget was set
    # What the CMake targets do; they keep the engine in a unit of its own, see tests/install. Wanted are 4 s of the first.
    "user": ("a unit of a program on sinter::sinter or sinter::compiled", "program.cpp", ["-DSINTER_COMPILED"], 1.95, 1.5,
             ["-DMANY_HEADERS"], 1.56),
    "engine": ("a unit that holds the engine too (sinter::headers)", "program.cpp", [], 60.0, None, [], 1.45),
    "gpt": ("a program that trains GPT-2, on sinter::compiled", "gpt.cpp", ["-DSINTER_COMPILED"], 9.5, 8.0,
            ["-DMANY_HEADERS"], 1.56),
    "files": ("a unit with <sinter/io.hpp> and <sinter/data.hpp>", "files.cpp", ["-DSINTER_COMPILED"], 2.6, 2.0, ["-DMANY_HEADERS"], 1.56),
    "model_gnn": ("a program that trains a graph network", "gnn.cpp", ["-DSINTER_COMPILED"], 8.0, 8.0, ["-DMANY_HEADERS"], 1.56),
    "model_vit": ("a program that trains a vision transformer", "vit.cpp", ["-DSINTER_COMPILED"], 11.5, 8.0, ["-DMANY_HEADERS"], 1.56),
    "model_llama": ("a program that trains a language model and writes with it", "llama.cpp", ["-DSINTER_COMPILED"], 11.0, 8.0,
                    ["-DMANY_HEADERS"], 1.56),
    "model_gp": ("examples/gaussian_process.cpp", "../../examples/gaussian_process.cpp", ["-DSINTER_COMPILED", *DATA], 11.0, 8.0,
                 ["-DMANY_HEADERS"], 1.56),
    "example_gpt": ("examples/gpt.cpp", "../../examples/gpt.cpp", ["-DSINTER_COMPILED", *DATA], 13.0, 8.0, ["-DMANY_HEADERS"], 1.56),
    "example_cnn": ("examples/cnn.cpp", "../../examples/cnn.cpp", ["-DSINTER_COMPILED", *DATA], 19.5, 12.0, ["-DMANY_HEADERS"], 1.56),
    "example_resnet": ("examples/resnet.cpp", "../../examples/resnet.cpp", ["-DSINTER_COMPILED", *DATA], 19.0, 12.0, ["-DMANY_HEADERS"], 1.56),
    "example_vae": ("examples/vae.cpp", "../../examples/vae.cpp", ["-DSINTER_COMPILED", *DATA], 15.0, 12.0, ["-DMANY_HEADERS"], 1.56),
    "example_pinn": ("examples/pinn.cpp", "../../examples/pinn.cpp", ["-DSINTER_COMPILED", *DATA], 15.0, 12.0, ["-DMANY_HEADERS"], 1.56),
}


def cpu_seconds(command, unit):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*command, "-c", unit], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{unit} does not compile:\n{done.stderr[:3000]}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measured(command, source, flags, held, reference_flags, reference_seconds):
    """The best of three of a try's seconds and how much slower the machine was then; fewer once one is good enough."""
    here = os.path.dirname(os.path.abspath(__file__))

    def reference():
        return cpu_seconds([*command, *reference_flags], os.path.join(here, "reference.cpp"))

    best, after = None, reference()
    for _ in range(3):
        before = after
        spent = cpu_seconds([*command, *flags], os.path.join(here, source))
        after = reference()
        scale = max(1.0, (before + after) / 2 / reference_seconds)
        if best is None or spent / scale < best[0] / best[1]:
            best = spent, scale
        if spent <= held * scale:
            break
    return best


def main():
    with tempfile.TemporaryDirectory() as work:
        command = sys.argv[sys.argv.index("--") + 1:] + ["-O2", "-DNDEBUG", "-o", os.path.join(work, "out.o")]
        missed = False
        for row in [r for r in BUDGET if r == sys.argv[1] or r.startswith(sys.argv[1].removesuffix("s") + "_")]:
            name, source, flags, held, goal, *reference = BUDGET[row]
            spent, scale = measured(command, source, flags, held, *reference)
            missed |= spent > held * scale
            print(f"{name}: {spent:.2f} s, held to {held * scale:.2f} s (budgets × {scale:.2f})" +
                  (f"; the goal is {goal * scale:.2f} s" if goal and spent > goal * scale else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
