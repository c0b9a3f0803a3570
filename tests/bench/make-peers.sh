#!/bin/sh
# Makes .venv-peers, run from the project's root: the libraries of peers.txt, and behind them everything in
# .venv (PyTorch, robustboard) through a .pth file, so that nothing large is installed twice. Does nothing
# while the environment is that of this list and this .venv.
set -eu
folder=.venv-peers
python=$folder/bin/python
list=tests/bench/peers.txt
stamp=$folder/made-from
project=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
wanted=$(echo "$project"; cat "$list")
[ -x "$python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && exit 0
echo "Installing the libraries to compare with into $folder"
.venv/bin/python -m venv --clear "$folder"
install() {
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps "$@"
}
install --constraint "$list" setuptools
install --no-build-isolation --requirement "$list"
# Last, as pip would otherwise take what lies in .venv for installed.
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf 'import site; site.addsitedir("%s")\n' "$project" >"$site/project.pth"
"$python" -m tests.bench.peers
echo "$wanted" >"$stamp"
