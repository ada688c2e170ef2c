#!/bin/sh
# Is everything here that the build needs? Names the Debian package of the first missing thing.
# Usage: scripts/check_host.sh c|python [PYTHON]
set -u
what=$1
python=${2:-python3}

missing() {
    echo "armtrain: $1" >&2
    echo "armtrain: install it with: sudo apt-get install $2" >&2
    exit 1
}

# A cross tool is in the package of its own name: gcc-TRIPLE, binutils-TRIPLE.
package_of() {
    case $1 in
    *-*-gcc) echo "gcc-${1%-gcc}" ;;
    *-*-ar) echo "binutils-${1%-ar}" ;;
    *) echo "$2" ;;
    esac
}

check_c() {
    compiler=${CC:-cc} archiver=${AR:-ar} # may carry arguments
    command -v "${compiler%% *}" >/dev/null 2>&1 ||
        missing "no C compiler ($compiler) found" "$(package_of "$compiler" gcc)"
    command -v "${archiver%% *}" >/dev/null 2>&1 ||
        missing "no archiver ($archiver) found" "$(package_of "$archiver" binutils)"
    echo '#include <pthread.h>' | $compiler -E -x c - >/dev/null 2>&1 ||
        missing "the C library's headers are missing (pthread.h)" libc6-dev
}

check_python() {
    command -v "$python" >/dev/null 2>&1 || missing "no $python found" "python3 python3-venv python3-dev"
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || missing \
        "$python is Python $version, at least 3.11 is needed (then: make PYTHON=python3.11 ...)" \
        "python3.11 python3.11-venv python3.11-dev"
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        missing "$python cannot make virtual environments (no ensurepip)" python3-venv
    "$python" -c '
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' ||
        missing "the headers of $python are missing (Python.h)" python3-dev
}

check_c
[ "$what" = c ] || check_python
