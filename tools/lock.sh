#!/bin/sh
# Pin what changed (UPGRADE=1: the newest of everything). pip-compile lives in an environment of its own, so that it constrains nothing.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
cache=.cache/lock
mkdir -p "$cache"
[ -x "$cache/venv/bin/pip-compile" ] || { "$python" -m venv "$cache/venv"; "$cache/venv/bin/pip" install -q pip-tools; }
"$python" -c '
import tomllib
extra = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["build"]
print("\n".join(extra))' > "$cache/build.in"
compile() {
    CUSTOM_COMPILE_COMMAND='make lock' "$cache/venv/bin/pip-compile" -q --generate-hashes --strip-extras \
        --no-emit-index-url --no-emit-find-links --no-emit-trusted-host ${UPGRADE:+--upgrade} "$@"
}
compile --extra dev --output-file requirements.lock pyproject.toml
compile --allow-unsafe --output-file requirements-build.lock "$cache/build.in"
sed -i 's|-r \.cache/lock/build\.in|the build extra|' requirements-build.lock
npm=$(command -v npm || echo "$PWD/.venv/bin/npm")
if [ -n "${UPGRADE:-}" ]; then verb=update; else verb=install; fi
(cd dashboard && PATH="$PATH:$PWD/../.venv/bin" "$npm" "$verb" --package-lock-only)
if grep -nE 'https?://' requirements.lock requirements-build.lock dashboard/package-lock.json; then
    echo 'a lock file names a host: remove it (see the lines above)' >&2
    exit 1
fi
