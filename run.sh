#!/bin/sh
# run.sh: the newcomer's commands.
#   ./run.sh demo    build and run the digits example; what follows is passed on to it
#   ./run.sh test    build and run the test suite; what follows is passed on to ctest. First --all: also what CI leaves out
#   ./run.sh docs    write the reference, build/docs/html/index.html
#   ./run.sh bench   build and run the benchmarks: all, or the one that is named, with what follows: bench models --rows gpt2_train
set -eu
cd "$(dirname "$0")"

jobs=$(nproc 2>/dev/null || echo 2)

usage() {
  sed -n '2,6s/^# \{0,1\}//p' run.sh
  exit "$1"
}

has() { command -v "$1" >/dev/null 2>&1; }

# True when the compiler finds a header.
has_header() { printf '#include <%s>\n' "$1" | ${CXX:-c++} -std=c++20 -E -x c++ - >/dev/null 2>&1; }

# True when the first exists: a pattern that matches nothing stands for itself.
has_file() { [ -e "$1" ]; }

# need PACKAGE CHECK...: notes a Debian package when the check fails.
missing=
need() {
  package=$1
  shift
  "$@" || missing="$missing $package"
}

# install_missing TARGET: installs missing packages with apt, or names them.
install_missing() {
  if [ "$1" = docs ]; then
    need doxygen has doxygen
    need python3 has python3
    install_needed
    return 0
  fi
  need g++ has "${CXX:-c++}"
  need cmake has cmake
  need ninja-build has ninja
  need libboost-dev has_header boost/hana.hpp
  need libxsimd-dev has_header xsimd/xsimd.hpp
  need nlohmann-json3-dev has_header nlohmann/json.hpp
  if [ "$1" = test ]; then
    need doctest-dev has_header doctest/doctest.h
    need libeigen3-dev has_header eigen3/Eigen/Core
    need libboost-dev has_header boost/multiprecision/cpp_bin_float.hpp
    need python3 has python3
  fi
  if [ "$everything" = yes ]; then
    need clang has clang++
    need libomp-dev has_file /usr/lib/llvm-*/lib/libomp.so
  fi
  install_needed
}

# Installs the packages that need() has noted.
install_needed() {
  [ -n "$missing" ] || return 0
  root=
  if [ "$(id -u)" != 0 ]; then
    root=unavailable
    if has sudo && sudo -n true 2>/dev/null; then root=sudo; fi
  fi
  if ! has apt-get || [ "$root" = unavailable ]; then
    echo "sinter needs these packages (names as in Debian and Ubuntu):$missing" >&2
    if has apt-get; then
      echo "install them with: sudo apt-get install$missing" >&2
    else
      echo "elsewhere: a C++20 compiler (g++ 12 or clang++ 14, or newer), CMake 3.22, Ninja, the headers of Boost (Hana)," >&2
      echo "xsimd 8 or newer, nlohmann-json and, for the tests, doctest, Eigen, Boost.Multiprecision and Python 3" >&2
    fi
    exit 1
  fi
  echo "installing:$missing"
  export DEBIAN_FRONTEND=noninteractive
  # Headers are probed with the compiler, so a machine without one lists them all; apt skips what it has.
  $root apt-get update -qq
  # shellcheck disable=SC2086
  $root apt-get install -qq -y --no-install-recommends $missing >/dev/null
}

# quietly COMMAND...: shows a command's output only when it fails.
quietly() {
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    rm -f "$log"
  else
    status=$?
    cat "$log" >&2
    rm -f "$log"
    exit $status
  fi
}

# configure FOLDER ARGUMENTS...: with Ninja, unless the folder was made with another generator.
configure() {
  . cmake/caches.sh
  folder=$1
  shift
  if [ ! -f "$folder/CMakeCache.txt" ]; then set -- -G Ninja "$@"; fi
  quietly cmake -B "$folder" "$@"
}

# suite PRESET CTEST_ARGUMENTS...: builds a preset that is configured and runs its tests.
suite() {
  preset=$1
  shift
  cmake --build "build/$preset" --parallel "$jobs"
  ctest --test-dir "build/$preset" --output-on-failure --parallel "$jobs" "$@"
}

# The checks that CI leaves out, beside those that SINTER_TEST_ALL adds to the first suite: ten thousand fixed graphs and, under clang++ with
# sanitizers, texts, preludes, compile errors, linking and installation.
left_out() {
  build/dev/tests/test_fuzz --seeds 1..10000
  configure build/clang --preset clang -DSINTER_TEST_ALL=ON
  suite clang "$@"
}

[ $# -gt 0 ] || usage 1
what=$1
shift
everything=no
if [ "$what" = test ] && [ "${1:-}" = --all ]; then
  everything=yes
  shift
fi
case $what in
  demo)
    install_missing demo
    # Building takes longer than the demo: little optimisation, and nothing that it does not use. Kernels are optimised as ever.
    configure build/demo -S . -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-Og -DNDEBUG" -DSINTER_ONNX=OFF \
      -DSINTER_LINALG=OFF -DSINTER_TESTS=OFF -DSINTER_BENCH=OFF
    echo "building examples/digits.cpp ..."
    quietly cmake --build build/demo --target example_digits --parallel "$jobs"
    exec build/demo/examples/digits "$@"
    ;;
  test)
    install_missing test
    all=OFF
    [ "$everything" = no ] || all=ON
    configure build/dev --preset dev -DSINTER_TEST_ALL=$all "-DSINTER_TEST_SHARE=${SINTER_TEST_SHARE:-}"
    suite dev "$@"
    [ "$everything" = no ] || left_out "$@"
    ;;
  bench)
    case ${1:-} in
      "" | -*) ;;
      *) [ -f "bench/$1.cpp" ] || { echo "run.sh: no bench/$1.cpp; there are: $(basename -s .cpp bench/*.cpp | tr '\n' ' ')" >&2; exit 1; } ;;
    esac
    install_missing bench
    configure build/release --preset release
    if [ $# -gt 0 ] && [ -f "bench/$1.cpp" ]; then
      program=$1
      shift
      quietly cmake --build build/release --parallel "$jobs" --target "bench_$program"
      exec "build/release/bench/$program" "$@"
    fi
    quietly cmake --build build/release --parallel "$jobs"
    for program in build/release/bench/*; do
      [ -f "$program" ] && [ -x "$program" ] || continue
      echo "== $(basename "$program")"
      "$program" "$@"
    done
    ;;
  docs)
    install_missing docs
    rm -rf build/docs
    mkdir -p build/docs
    python3 docs/reference/filter.py include/sinter build/docs/headers/sinter
    quietly doxygen docs/reference/Doxyfile
    echo "build/docs/html/index.html"
    ;;
  -h | --help | help) usage 0 ;;
  *) usage 1 ;;
esac
