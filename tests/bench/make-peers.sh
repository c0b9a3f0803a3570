#!/bin/sh
# Makes .venv-peers, run from the project's root: the libraries of peers.txt, and behind them everything in
# .venv (PyTorch, robustboard) through a .pth file, so that nothing large is installed twice.
set -eu
folder=.venv-peers
list=tests/bench/peers.txt
project=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
[ -x "$folder/bin/python" ] || .venv/bin/python -m venv "$folder"
python=$folder/bin/python
link=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth
# While pip runs it must not see .venv: it would take what lies there for installed.
rm -f "$link"
install() {
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps "$@"
}
install --constraint "$list" setuptools
install --no-build-isolation --requirement "$list"
printf 'import site; site.addsitedir("%s")\n' "$project" >"$link"
"$python" -m tests.bench.peers
