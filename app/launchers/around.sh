# shellcheck shell=sh disable=SC2154
# What every command at a target has around it: its variables, then its modules. See around.py, which writes the lines
# before this one: pl_load and pl_export. Nothing is printed but by pl_load.

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

# pl_surround: set variables and load modules, as far as they can be had.
pl_surround() {
    pl_export
    if [ -n "$pl_modules" ] && pl_find_modules; then
        pl_load >/dev/null 2>&1 </dev/null
    fi
    return 0
}
