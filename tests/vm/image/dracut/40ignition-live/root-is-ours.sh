#!/bin/sh
# live-sysroot.service mounts the root.
# shellcheck disable=SC2034 # dracut reads both
root=live
# shellcheck disable=SC2034
rootok=1
