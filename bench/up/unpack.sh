#!/bin/sh
# unpack.sh ARCHIVE FOLDER: unpacks the layers of an exported image, one over the other.
set -eu
archive=$1 folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"
tar -xf "$archive" -C "$work"
python3 - "$work" <<'PYTHON' >"$work/layers"
import json, sys
def blob(digest):
    return "blobs/" + digest.replace(":", "/")
index = json.load(open(sys.argv[1] + "/index.json"))
manifest = json.load(open(sys.argv[1] + "/" + blob(index["manifests"][0]["digest"])))
print("\n".join(blob(layer["digest"]) for layer in manifest["layers"]))
PYTHON
while read -r layer; do
    tar -xf "$work/$layer" -C "$folder" --numeric-owner
done <"$work/layers"
# What a layer takes away from those below it.
find "$folder" -name '.wh.*' | while read -r mark; do
    rm -rf "${mark%/*}/${mark##*/.wh.}" "$mark"
done
