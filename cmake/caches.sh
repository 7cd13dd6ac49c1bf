# cmake/caches.sh: sourced in the root of a clone. What other clones may use again is kept in $SINTER_CCACHE_DIR, else in sinter-ccache
# of the user's cache folder, else in build/caches: objects where ccache is installed (3 GB, or $CCACHE_MAXSIZE), and what tests
# compile: kernels (1 GB, or $SINTER_CACHE_LIMIT), those of the emulated GPU and what NVRTC said of them (for a week). All are found by
# their contents.
caches="${SINTER_CCACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/sinter-ccache}"
mkdir -p "$caches/emulated" 2>/dev/null || caches="$PWD/build/caches"
mkdir -p "$caches/emulated"
find "$caches/emulated" -type f -mtime +7 -exec rm -f {} + 2>/dev/null || :
export SINTER_EMULATOR_CACHE="${SINTER_EMULATOR_CACHE:-$caches/emulated}"
export SINTER_TEST_KERNELS="${SINTER_TEST_KERNELS:-$caches/kernels}"
if command -v ccache >/dev/null 2>&1; then
  export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER-ccache}"
  [ -z "${SINTER_CCACHE_DIR:-}" ] || CCACHE_DIR=$caches
  export CCACHE_DIR="${CCACHE_DIR:-$caches}" CCACHE_MAXSIZE="${CCACHE_MAXSIZE:-3G}"
  # Another clone has other paths and times, and the same text.
  export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}"
fi
