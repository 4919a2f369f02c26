# shellcheck shell=sh
# Prints the parts of the ELF files $@ that symbols are read from: for each file a line "file BYTES PATH", then for each
# part a line "OFFSET BYTES" and the part itself. Only files with 64 bits and little-endian.

pl_part() {
    printf '%s %s\n' "$2" "$3"
    tail -c "+$(($2 + 1))" -- "$1" | head -c "$3"
}

pl_tables() {
    [ "$(od -A n -t x1 -N 6 "$1" 2>/dev/null | tr -d ' \n')" = 7f454c460201 ] || return 0
    # Where the segments and the sections begin; size and number of each, and which section has the names.
    # shellcheck disable=SC2046
    set -- "$1" $(od -A n -v -t u8 -j 32 -N 16 "$1") $(od -A n -v -t u2 -j 54 -N 10 "$1")
    [ $# -eq 8 ] && [ "$4" = 56 ] && [ "$6" = 64 ] && [ "$7" -gt 0 ] || return 0
    printf 'file %s %s\n' "$(wc -c <"$1")" "$1"
    pl_part "$1" 0 64
    pl_part "$1" "$2" $((56 * $5))
    pl_part "$1" "$3" $((64 * $7))
    pl_sections=$(od -A n -v -t u4 -w64 -j "$3" -N $((64 * $7)) "$1")
    # shellcheck disable=SC2046
    set -- "$1" $(printf '%s\n' "$pl_sections" | awk -v at="$8" 'NR == at + 1 { printf "%.0f %d", $7 + 2^32 * $8, $9 }')
    {
        printf '%s\n' "$pl_sections" | sed 's/^/section /'
        od -A n -v -t u1 -w1 -j "$2" -N "$3" "$1"
    } | awk '
        $1 == "section" { n++; name[n] = $2; type[n] = $3; offset[n] = $8 + 2^32 * $9; size[n] = $10 + 2^32 * $11; next }
        { text[at++] = $1 + 0 ? sprintf("%c", $1 + 0) : "" }
        END {
            for (i = 1; i <= n; i++) {
                word = ""
                for (k = name[i]; k < at && text[k] != ""; k++) word = word text[k]
                # Symbols, their names, notes; entries of the linkage table, where its addresses are, and other symbols.
                if (type[i] ~ /^(2|3|7|11)$/ || word ~ /^\.(plt|rela\.plt|gnu_debug)/)
                    if (size[i] > 0) printf "%.0f %.0f\n", offset[i], size[i]
            }
        }' | while read -r pl_offset pl_size; do pl_part "$1" "$pl_offset" "$pl_size"; done
}

for pl_file in "$@"; do
    [ ! -f "$pl_file" ] || pl_tables "$pl_file"
done
