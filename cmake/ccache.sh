# cmake/ccache.sh: sourced in the root of a clone. Where ccache is installed, objects are kept for other build folders and clones: in
# $SINTER_CCACHE_DIR, else $CCACHE_DIR, else sinter-ccache in the user's cache folder; $CCACHE_MAXSIZE of them, else 3 GB.
if command -v ccache >/dev/null 2>&1; then
  export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER-ccache}"
  export CCACHE_DIR="${SINTER_CCACHE_DIR:-${CCACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/sinter-ccache}}"
  export CCACHE_MAXSIZE="${CCACHE_MAXSIZE:-3G}"
  # Another clone has other paths and times, and the same text.
  export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}"
fi
