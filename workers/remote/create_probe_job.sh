# shellcheck shell=sh disable=SC2154
# Removes the probe jobs of earlier days in $parent, and writes the probe on standard input into a new $directory.

umask 077
find "$parent" -maxdepth 1 -name "$prefix????????????" -type d -mtime +1 -user "$(id -u)" -exec rm -rf {} + 2>/dev/null
mkdir "$directory" && cat >"$directory/probe.sh"
