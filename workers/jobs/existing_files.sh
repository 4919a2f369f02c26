# shellcheck shell=sh
# Prints those of the arguments that exist, or are links.

for one in "$@"; do
    if [ -e "$one" ] || [ -L "$one" ]; then
        printf '%s\n' "$one"
    fi
done
