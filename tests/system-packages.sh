#!/bin/sh
# Debian packages that some tests need. Installed where we are root; elsewhere those tests are
# skipped and say so.
packages=""
[ -e /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz ] || packages="$packages dataset-fashion-mnist"
command -v chromium >/dev/null 2>&1 || packages="$packages chromium"
[ -z "$packages" ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "not installed (needs root and apt):$packages; the tests that use them are skipped"
    exit 0
fi
echo "installing$packages"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -qq -y --no-install-recommends $packages >/dev/null ||
    echo "apt could not install$packages; the tests that use them are skipped"
