# shellcheck shell=sh
# How the function "module" is found. Stands before around.sh and before common.sh; prints nothing.

# pl_find_modules: whether there is the function "module", now or after reading the file that brings it. A file that
# this shell does not understand would end it: it is tried in another one first.
pl_find_modules() {
    command -v module >/dev/null 2>&1 && return 0
    for pl_each in "${LMOD_PKG:+$LMOD_PKG/init/sh}" "${MODULESHOME:+$MODULESHOME/init/sh}" /etc/profile.d/modules.sh \
        /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh /usr/share/modules/init/sh /usr/share/lmod/lmod/init/sh; do
        [ -r "$pl_each" ] || continue
        # shellcheck disable=SC1090
        (. "$pl_each") >/dev/null 2>&1 || continue
        # shellcheck disable=SC1090
        . "$pl_each" >/dev/null 2>&1
        command -v module >/dev/null 2>&1 && return 0
    done
    return 1
}

