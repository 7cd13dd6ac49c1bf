#!/usr/bin/env python3
"""Checks the compile errors that users meet: short, naming the op, pointing at the user's line.

    check.py [--share K] CASES_FOLDER -- COMPILER ARGUMENTS...     every *.cpp of the folder; with --share the K-th third: 0, 1 or 2
    check.py --self-test -- COMPILER ARGUMENTS...                  proves that the harness finds each kind of failure

A case begins with comment lines:
    // expect: error        or: ok
    // match: REGEX         the output must contain it; any number of these
    // absent: REGEX        the output must not contain it
    // first: N             the first N lines match the first of the regexes
    // lines: N             the output has at most N lines; `N, clang++ M`: M of clang++, whose notes are longer
    // flags: ARGUMENTS     the compiler gets these too
An error case must also be named by file and line in the output, as the place that the user has to look at.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

KEY = re.compile(r"// (expect|match|absent|first|lines|flags): (.*)")


def read_case(path):
    case = {"match": [], "absent": []}
    with open(path, encoding="utf-8") as f:
        for line in f:
            found = KEY.fullmatch(line.rstrip("\n"))
            if not found:
                break
            key, value = found.groups()
            if key in ("match", "absent"):
                case[key].append(value)
            else:
                case[key] = value
    return case


def run_case(command, path):
    """The reasons why a case fails; none when it holds."""
    case = read_case(path)
    expect = case.get("expect")
    if expect not in ("error", "ok"):
        return ["it does not begin with '// expect: error' or '// expect: ok'"]
    if expect == "error" and not (case["match"] and "lines" in case):
        return ["an error case needs '// match:' and '// lines:'"]
    if "flags" in case and "-include" in command:  # what is precompiled suits no others
        at = command.index("-include")
        command = command[:at] + command[at + 2:]
    done = subprocess.run([*command, *case.get("flags", "").split(), "-fsyntax-only", "-fdiagnostics-color=never", path], capture_output=True, text=True)
    output = done.stdout + done.stderr
    if expect == "ok":
        return [] if done.returncode == 0 else [f"it should compile:\n{output[:3000]}"]
    if done.returncode == 0:
        return ["it compiles, and should not"]
    reasons = [f"the output does not match '{regex}'" for regex in case["match"] if not re.search(regex, output)]
    reasons += [f"the output has '{regex}'" for regex in case["absent"] if re.search(regex, output)]
    if "first" in case and not re.search(case["match"][0], "\n".join(output.splitlines()[:int(case["first"])])):
        reasons.append(f"the first {case['first']} lines do not match '{case['match'][0]}'")
    if not re.search(re.escape(os.path.basename(path)) + r":\d+", output):
        reasons.append("the output does not name a line of the case")
    count = len(output.splitlines())
    limits = [int(n) for n in re.findall(r"\d+", case["lines"])]
    limit = limits[-1] if "clang" in os.path.basename(command[0]) else limits[0]
    if count > limit:
        reasons.append(f"the output has {count} lines; at most {limit} are allowed")
    return reasons + ([f"output:\n{output[:4000]}"] if reasons else [])


def run_all(command, folder, share=slice(None)):
    cases = sorted(name for name in os.listdir(folder) if name.endswith(".cpp"))[share]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(cases, pool.map(lambda name: run_case(command, os.path.join(folder, name)), cases)))


def self_test(command):
    error = 'template <int N> struct rank { static_assert(N == 2, "[matmul] wants rank 2"); };\nrank<3> r;\n'
    cases = {  # name: (text, what the harness must say; None when it must be content)
        "good_error": ("// expect: error\n// match: \\[matmul\\] wants rank 2\n// lines: 30\n" + error, None),
        "good_ok": ("// expect: ok\nint main() {}\n", None),
        "flags": ("// expect: error\n// match: is seven\n// lines: 9\n// flags: -DN=7\n#if N == 7\n#error is seven\n#endif\n", None),
        "not_ok": ("// expect: ok\n" + error, "should compile"),
        "compiles": ("// expect: error\n// match: x\n// lines: 9\nint main() {}\n", "it compiles"),
        "other_text": ("// expect: error\n// match: \\[einsum\\]\n// lines: 30\n" + error, "does not match"),
        "present": ("// expect: error\n// match: matmul\n// absent: rank 2\n// lines: 30\n" + error, "the output has"),
        "too_long": ("// expect: error\n// match: matmul\n// lines: 1\n" + error, "are allowed"),
        "too_late": ("// expect: error\n// match: matmul\n// first: 1\n// lines: 30\n" + error, "the first 1 lines do not match"),
        "no_key": ("int main() {}\n", "does not begin"),
        "no_match": ("// expect: error\n" + error, "needs '// match:'"),
        "elsewhere": ('// expect: error\n// match: elsewhere\n// lines: 30\n#line 1 "other.hpp"\n#error elsewhere\n',
                      "does not name a line"),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, _) in cases.items():
            with open(os.path.join(folder, name + ".cpp"), "w", encoding="utf-8") as f:
                f.write(text)
        results = run_all(command, folder)
    wrong = 0
    for name, (_, expected) in cases.items():
        said = "\n".join(results[name + ".cpp"])
        if bool(said) != bool(expected) or (expected and not re.search(expected, said)):
            wrong += 1
            print(f"{name}: expected {expected!r}, the harness said {said!r}")
    print(f"{len(cases)} cases, {wrong} wrong")
    return 1 if wrong else 0


def precompiled(command, folder):
    """The header that all cases include, compiled once: both compilers look for HEADER.gch beside an -include of HEADER."""
    header = os.path.join(folder, "first.hpp")
    with open(header, "w", encoding="utf-8") as f:
        f.write("#include <sinter/sinter.hpp>\n")
    subprocess.run([*command, "-x", "c++-header", header, "-o", header + ".gch"], check=True)
    return header


def main():
    command = sys.argv[sys.argv.index("--") + 1:]
    if sys.argv[1] == "--self-test":
        return self_test(command)
    share = slice(int(sys.argv[2]), None, 3) if sys.argv[1] == "--share" else slice(None)
    folder = sys.argv[sys.argv.index("--") - 1]
    with tempfile.TemporaryDirectory() as work:
        results = run_all([*command, "-include", precompiled(command, work)], folder, share)
    failed = {name: reasons for name, reasons in results.items() if reasons}
    for name, reasons in failed.items():
        print(f"{name}: " + "\n  ".join(reasons))
    print(f"{len(results)} cases, {len(failed)} failures")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
