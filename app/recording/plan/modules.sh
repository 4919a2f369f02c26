# shellcheck shell=sh
# Finds the function "module". Precedes target_environment.sh and common.sh; prints nothing.

# pl_find_modules: whether the function "module" exists, now or after sourcing the file that defines it. A file with syntax
# that this shell does not support would end it, so it is tried in a subshell first.
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

