#!/bin/sh
# ImageMagick's library from Debian, which imagenet-c calls through Wand. Does nothing where it is there.
ldconfig -p 2>/dev/null | grep -q libMagickWand && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "not installed (needs root and apt): ImageMagick, without which imagenet-c does not run"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
package=$(apt-cache pkgnames libmagickwand | grep -E '^libmagickwand-[67]\.q16-[0-9]+$' | head -n 1)
echo "installing $package"
apt-get install -qq -y --no-install-recommends "$package" >/dev/null ||
    echo "apt could not install ImageMagick, without which imagenet-c does not run"
