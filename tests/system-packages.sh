#!/bin/sh
# Debian packages that some tests need. Installed where we are root; elsewhere those tests are
# skipped and say so.
packages=""
[ -e /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz ] || packages="$packages dataset-fashion-mnist"
command -v chromium >/dev/null 2>&1 || packages="$packages chromium"
# The HTML validator of the W3C's editors, a jar inside an npm package.
if [ -d .venv ] && [ ! -e .venv/vnu/node_modules/vnu-jar ]; then
    if command -v java >/dev/null 2>&1 && command -v npm >/dev/null 2>&1; then
        npm install --silent --no-audit --no-fund --prefix .venv/vnu vnu-jar@26 >/dev/null ||
            echo "npm could not install vnu-jar; the tests that validate HTML with it are skipped"
    else
        echo "not installed (needs java and npm): vnu-jar; the tests that validate HTML with it are skipped"
    fi
fi
[ -z "$packages" ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "not installed (needs root and apt):$packages; the tests that use them are skipped"
    exit 0
fi
echo "installing$packages"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -qq -y --no-install-recommends $packages >/dev/null ||
    echo "apt could not install$packages; the tests that use them are skipped"
