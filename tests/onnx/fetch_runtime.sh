#!/bin/sh
# tests/onnx/fetch_runtime.sh FOLDER: brings ONNX Runtime's library from npm into FOLDER once, and prints its path. Exits 77 and
# says why where npm is missing or cannot bring it within two minutes.
set -u
folder=$1
case $(uname -m) in
  aarch64 | arm64) processor=arm64 ;;
  *) processor=x64 ;;
esac
library=$folder/libonnxruntime.so.1
if [ ! -f "$library" ]; then
  command -v npm >/dev/null || { echo "npm is missing" >&2; exit 77; }
  mkdir -p "$folder" || exit 77
  work=$(mktemp -d "$folder/work.XXXXXX") || exit 77
  trap 'rm -rf "$work"' EXIT
  # Scripts of the package would fetch GPU libraries.
  (cd "$work" && timeout 120 npm pack onnxruntime-node@1 --silent >/dev/null && tar xzf onnxruntime-node-*.tgz) ||
    { echo "npm cannot bring onnxruntime-node" >&2; exit 77; }
  set -- "$work"/package/bin/napi-v*/linux/$processor/libonnxruntime.so.1
  [ -f "$1" ] || { echo "onnxruntime-node has no library for $processor" >&2; exit 77; }
  mv "$1" "$library"
fi
echo "$library"
