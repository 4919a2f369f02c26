# shellcheck shell=sh disable=SC2016
# pl_look ID DIRECTORY OFFSET MOST: prints the state of a job, and its output from OFFSET on, at most MOST bytes.
# Starts only a few processes for each job, however many ranks it has.

LC_ALL=C
export LC_ALL
pl_boot=''
{ read -r pl_boot </proc/sys/kernel/random/boot_id; } 2>/dev/null
pl_host=$(uname -n | tr -c 'A-Za-z0-9._\n-' '_' | cut -c 1-100)
pl_states='
function flush(  key) {
    if (name == "") return
    line = name
    for (key in last) { line = line "\t" key " " last[key]; delete last[key] }
    print line notes
    notes = ""
}
FNR == 1 { flush(); name = FILENAME }
{
    value = substr($0, length($1) + 2)
    gsub(/[\t\r]/, " ", value)
    if ($1 == "note") { if (length(notes) < 4000) notes = notes "\tnote " substr(value, 1, 1000) }
    else if ($1 != "pid" && length($1) < 20) last[$1] = substr(value, 1, 1000)
}
END { flush() }'
# Only names that rank.sh creates, so that they are words.
pl_growing='
$1 ~ /^[.]\/run[0-9]+\/[A-Za-z0-9._-]+\/state$/ {
    for (i = 2; i <= NF; i++) if ($i == "state recording") { sub(/state$/, "perf.data", $1); print $1 }
}'
pl_look() (
    printf 'job %s\n' "$1"
    cd "$2" 2>/dev/null || {
        if [ -d "${2%/*}" ] && [ ! -e "$2" ]; then echo gone; else echo hidden; fi
        exit 0
    }
    echo there
    pl_offset=$3 pl_most=$4
    for pl_file in ./sub*.life; do
        pl_beats=''
        { read -r pl_beats <"$pl_file"; } 2>/dev/null
        case $pl_beats in '' | *[!0-9]*) continue ;; esac
        printf 'life %s %s\n' "$pl_file" "$pl_beats"
    done
    for pl_file in ./sub*.id; do
        pl_pid='' pl_since='' pl_where=''
        { read -r pl_pid pl_since pl_where <"$pl_file"; } 2>/dev/null
        case $pl_pid in '' | *[!0-9]*) continue ;; esac
        pl_alive=unknown
        if [ "$pl_where" = "$pl_boot" ]; then
            pl_alive=no
            if { read -r pl_line <"/proc/$pl_pid/stat"; } 2>/dev/null; then
                pl_line=${pl_line##*) }
                # shellcheck disable=SC2086
                set -- $pl_line
                [ "$1" = Z ] || [ "${20-}" != "$pl_since" ] || pl_alive=yes
            fi
        elif grep -q -x -F "host $pl_host" "${pl_file%.id}.state" 2>/dev/null; then
            # The same host after a reboot.
            pl_alive=no
        fi
        printf 'who %s %s %s %s %s\n' "$pl_file" "$pl_pid" "$pl_since" "$pl_where" "$pl_alive"
    done
    set --
    for pl_file in ./sub*.state ./run*/state ./run*/*/state ./run*/*/written; do
        [ ! -s "$pl_file" ] || [ ! -f "$pl_file" ] || [ -L "$pl_file" ] || set -- "$@" "$pl_file"
    done
    pl_text=''
    [ $# -eq 0 ] || pl_text=$(awk "$pl_states" "$@" 2>/dev/null | tr -d '\000')
    printf 'states %d\n%s\n' "${#pl_text}" "$pl_text"
    # The sizes of recordings that grow: without opening them, and only those of this moment, however many have ended.
    set --
    case $pl_text in *'state recording'*)
        # shellcheck disable=SC2046
        set -- $(printf '%s\n' "$pl_text" | awk -F '\t' "$pl_growing")
        ;;
    esac
    pl_text=''
    [ $# -eq 0 ] || pl_text=$(stat -c '%f %s %n' "$@" 2>/dev/null)
    printf 'sizes %d\n%s\n' "${#pl_text}" "$pl_text"
    pl_size=$(wc -c 2>/dev/null <output | tr -d ' ')
    : "${pl_size:=0}"
    pl_count=$((pl_size - pl_offset))
    [ "$pl_count" -gt 0 ] || pl_count=0
    [ "$pl_count" -le "$pl_most" ] || pl_count=$pl_most
    printf 'output %d %d\n' "$pl_size" "$pl_count"
    # Exactly the announced number of bytes, also if the file was truncated meanwhile.
    if [ "$pl_count" -gt 0 ]; then
        { tail -c "+$((pl_offset + 1))" output | head -c "$pl_count"; head -c "$pl_count" /dev/zero; } 2>/dev/null |
            head -c "$pl_count"
    fi
    printf '\nend\n'
)
