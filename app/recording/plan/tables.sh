# shellcheck shell=sh disable=SC2034,SC2154
# The symbol tables of a recording's binaries, for a machine that reads the recording elsewhere. Part of common.sh.
#
# In the job's directory, the same for all ranks and runs, each with the suffix of its compressor:
#   tables/BUILDID.elf        the parts of a binary that symbols are read from: a line "file BYTES" with its size, then
#                             for each part a line "OFFSET BYTES" and the part itself
#   tables/BUILDID.debug      the same of the file with its debug information
#   tables/BUILDID.kallsyms   the symbols of a kernel
#   tables/BUILDID.vdso       what the kernel maps as [vdso], in the form of a binary's parts
#   tables.known              a line for each table that is at the reading machine already

# pl_write_tables DIRECTORY: write the tables that the reader of DIRECTORY/perf.data needs, and the list of its build
# ids. Fails if it has to be converted to text: it is small or damaged, or some names could not be found elsewhere.
pl_write_tables() {
    [ -n "$pl_tables_from" ] || return 1
    pl_in=$1 pl_hits=''
    pl_recording=$(stat -c %s "$pl_in/perf.data" 2>/dev/null) && pl_number "$pl_recording" || return 1
    [ "$pl_recording" -ge "$pl_tables_from" ] || return 1
    # Bytes of data; 0 if perf was killed.
    [ "$(od -A n -t u8 -j 48 -N 8 "$pl_in/perf.data" | tr -d ' ')" != 0 ] || return 1
    mkdir -p "$pl_directory/tables" 2>/dev/null || return 1
    pl_find_packer
    pl_list_objects >"$pl_in/.objects" && pl_check_objects <"$pl_in/.objects" && pl_shuffle | pl_pack_tables &&
        sed -n 's/^kernel \([0-9a-f].*\)/\1 [kernel.kallsyms]/p; s/^file \([0-9a-f]\)/\1/p' "$pl_in/.objects" \
            >"$pl_in/build-ids.txt"
    pl_status=$?
    [ "$pl_status" -ne 0 ] || pl_pack_vdso
    rm -f "$pl_in/.objects" "$pl_in/.maps" "$pl_in/.vdso"
    [ "$pl_status" -eq 0 ] || return 1
    pl_say_here text tables
}

# pl_list_objects: print a line for everything that was executable in the recording: "kernel BUILDID", "module PATH",
# "file BUILDID PATH" ("-" for no build id), and "code PID" for memory without a file. No sample is that early.
pl_list_objects() {
    pl_script --show-mmap-events --time ,0.000000001 -F comm >"$pl_in/.maps" 2>/dev/null || return 1
    LC_ALL=C awk '
        match($0, /PERF_RECORD_MMAP2? -?[0-9]+\/-?[0-9]+: \[[^]]*\]: [^ ]+ /) {
            head = substr($0, RSTART, RLENGTH)
            path = substr($0, RSTART + RLENGTH)
            n = split(head, words, " ")
            if (words[n] !~ /x/ && words[2] !~ /^-1\//) next
            id = match(head, /<[0-9a-f]+>/) ? substr(head, RSTART + 1, RLENGTH - 2) : "-"
            if (words[2] ~ /^-1\//) line = path ~ /^\[kernel\.kallsyms\]/ ? "kernel " id : "module " path
            else if (id == "-" && path ~ /^(\/\/anon|\/memfd:|\/dev\/|\/SYSV|\/anon_hugepage)/)
                line = "code " (words[2] + 0)
            else if (path ~ /^\//) line = "file " id " " path
            else next
            if (!(line in seen)) { seen[line]; print line }
            found = 1
        }
        END { exit !found }' "$pl_in/.maps"
}

# pl_check_objects: whether names can be found elsewhere for all of such a list.
pl_check_objects() {
    while read -r pl_kind pl_build; do
        pl_object=${pl_build#* }
        case $pl_kind in
        module) ! pl_has_hits "$pl_build" || return 1 ;;
        code) [ ! -e "/tmp/perf-$pl_build.map" ] || return 1 ;;
        file)
            case $pl_build in
            # Another file of that path, at the reader, could not be distinguished from it.
            '- '*) ! pl_is_elf "$pl_object" || return 1 ;;
            *) ! pl_lacks "${pl_build%% *}.elf" || pl_is_elf "$pl_object" || return 1 ;;
            esac
            ;;
        esac
    done
}

# pl_shuffle: print such a list in an order of this process, so that ranks seldom write the same table at once.
pl_shuffle() {
    awk -v "seed=$$" '
        { line[NR] = $0 }
        END { srand(seed); for (i = NR; i > 0; i--) { k = 1 + int(rand() * i); print line[k]; line[k] = line[i] } }
    ' "$pl_in/.objects"
}

# pl_pack_tables: write the tables of such a list that are missing.
pl_pack_tables() {
    while read -r pl_kind pl_build; do
        pl_object=${pl_build#* } pl_build=${pl_build%% *}
        [ "$pl_build" != - ] || continue
        case $pl_kind in
        kernel)
            # Without addresses, perf finds no names here either.
            if pl_lacks "$pl_build.kallsyms" && grep -q '^0*[1-9a-f]' /proc/kallsyms; then
                pl_pack "$pl_build.kallsyms" cat /proc/kallsyms || return 1
            fi
            ;;
        file)
            pl_lacks "$pl_build.elf" || continue
            pl_find_parts "$pl_object" && pl_pack "$pl_build.elf" pl_print_parts "$pl_object" || return 1
            for pl_each in "/usr/lib/debug/.build-id/${pl_build%"${pl_build#??}"}/${pl_build#??}.debug" \
                "/usr/lib/debug$pl_object.debug" "/usr/lib/debug$pl_object"; do
                if [ -f "$pl_each" ]; then
                    pl_find_parts "$pl_each" && pl_pack "$pl_build.debug" pl_print_parts "$pl_each" || return 1
                    break
                fi
            done
            ;;
        esac
    done
}

# pl_pack_vdso: write the table of [vdso], and add it to the list of build ids. Without it, its functions have no names.
pl_pack_vdso() {
    pl_print_vdso >"$pl_in/.vdso" 2>/dev/null || return 0
    # The note of a build id with 20 bytes, in the byte order of most machines.
    pl_build=$(od -A n -v -t x1 "$pl_in/.vdso" | tr -d ' \n' |
        sed -n 's/.*040000001400000003000000474e5500\([0-9a-f]\{40\}\).*/\1/p')
    pl_bytes=$(stat -c %s "$pl_in/.vdso" 2>/dev/null)
    [ -n "$pl_build" ] && [ -n "$pl_bytes" ] || return 0
    echo "$pl_build [vdso]" >>"$pl_in/build-ids.txt"
    pl_parts="0 $pl_bytes"
    ! pl_lacks "$pl_build.vdso" || pl_pack "$pl_build.vdso" pl_print_parts "$pl_in/.vdso" || :
}

# pl_print_vdso: print the code that the kernel maps into this process, as into all.
pl_print_vdso() (
    # Opened by the process whose memory it is: not every system permits a child to do so.
    exec 7</proc/self/mem || exit
    while read -r pl_range pl_rest; do
        case $pl_rest in *'[vdso]')
            pl_first=$((0x${pl_range%-*} / 4096))
            # Not with exec, which would remove the memory of this process.
            dd bs=4096 skip="$pl_first" count=$((0x${pl_range#*-} / 4096 - pl_first)) <&7
            exit
            ;;
        esac
    done </proc/self/maps
    exit 1
)

# pl_has_hits PATH: whether a sample is in that module of the kernel, or this is unknown.
pl_has_hits() {
    [ -n "$pl_hits" ] || pl_hits=$(
        cd "$pl_in" || exit
        unset DEBUGINFOD_URLS LD_PRELOAD
        echo hits
        LC_ALL=C PERF_CONFIG=/dev/null exec "$pl_perf" buildid-list -H -f -i perf.data </dev/null 2>/dev/null
    ) || return 0
    case "$pl_hits
" in *" $1
"*) ;; *) return 1 ;; esac
}

pl_is_elf() {
    [ -f "$1" ] && [ "$(od -A n -t x1 -N 4 "$1" 2>/dev/null | tr -d ' ')" = 7f454c46 ]
}

# pl_lacks TABLE: whether a table is neither at the reading machine nor written already.
pl_lacks() {
    [ ! -f "$pl_directory/tables/$1$pl_suffix" ] && ! grep -q -x -F -e "$1" "$pl_directory/tables.known" 2>/dev/null
}

# pl_pack TABLE COMMAND …: write what the command prints, unless a small recording is not worth it. Another rank may do
# so at the same time.
pl_pack() {
    [ "$pl_recording" -ge "$pl_new_tables_from" ] || return 1
    pl_table=$1
    shift
    pl_new=$pl_directory/tables/.$pl_table.$pl_host-$$
    if "$@" 2>/dev/null | $pl_packer >"$pl_new" 2>/dev/null; then
        mv -f "$pl_new" "$pl_directory/tables/$pl_table$pl_suffix" && return 0
    fi
    rm -f "$pl_new"
    return 1
}

# pl_find_parts FILE: set pl_parts to offset and size of the parts of an ELF file that symbols are read from: its
# headers, and the sections with symbols, their names and notes, and of the procedure linkage table. Fails for a file
# that is not one of 64 bits and the byte order of this machine, and if the parts have more than 256 MB.
pl_find_parts() {
    # shellcheck disable=SC2046
    set -- "$1" $(od -A n -v -t u2 -N 64 "$1" 2>/dev/null)
    # The size of a segment's and a section's header, and the number of the section with the names of all.
    [ $# -eq 33 ] && [ "$2 $3 $4" = '17791 17996 258' ] && [ "${29} ${31}" = '56 64' ] || return 1
    [ "${33}" -lt "${32}" ] && [ "${21} ${25}" = '0 0' ] || return 1
    pl_segments=$((${18} + 65536 * ${19} + 4294967296 * ${20}))
    pl_sections=$((${22} + 65536 * ${23} + 4294967296 * ${24}))
    pl_count=${32} pl_at=${33}
    set -- "$1" "$pl_segments $((56 * ${30}))"
    pl_bytes=$(stat -L -c %s "$1" 2>/dev/null) || return 1
    pl_headers=$(od -A n -v -t u4 -j "$pl_sections" -N $((64 * pl_count)) "$1" 2>/dev/null) || return 1
    # shellcheck disable=SC2046
    set -- "$1" "$2" $(printf '%s\n' "$pl_headers" | awk -v "at=$((16 * pl_at))" '
        { for (i = 1; i <= NF; i++) word[n++] = $i }
        END { printf "%.0f %.0f", word[at + 6] + 4294967296 * word[at + 7], word[at + 8] }')
    [ $# -eq 4 ] && [ "$4" -le 1000000 ] || return 1
    pl_parts=$({
        printf '%s\n' "$pl_headers"
        echo names
        od -A n -v -t u1 -j "$3" -N "$4" "$1" 2>/dev/null
    } | LC_ALL=C awk -v "file=$pl_bytes" -v "first=0 64 $2 $pl_sections $((64 * pl_count))" '
        function add(offset, size) {
            if (size <= 0 || offset + size > file) return
            for (k = count++; k > 0 && begin[k - 1] > offset; k--) { begin[k] = begin[k - 1]; end[k] = end[k - 1] }
            begin[k] = offset
            end[k] = offset + size
        }
        $1 == "names" { in_names = 1; next }
        in_names { for (i = 1; i <= NF; i++) text[at++] = $i + 0 ? sprintf("%c", $i + 0) : ""; next }
        { for (i = 1; i <= NF; i++) word[n++] = $i }
        END {
            n = n - n % 16
            m = split(first, words, " ")
            for (i = 1; i < m; i += 2) add(words[i] + 0, words[i + 1] + 0)
            for (i = 0; i < n; i += 16) {
                name = ""
                for (j = word[i]; j < at && text[j] != "" && length(name) < 20; j++) name = name text[j]
                # Tables of symbols, their names, notes; not what takes no place in the file.
                wanted = word[i + 1] ~ /^(2|3|7|11)$/ || name ~ /^\.(plt|rela\.plt|gnu_debug(link|data)$)/
                if (wanted && word[i + 1] != 8)
                    add(word[i + 6] + 4294967296 * word[i + 7], word[i + 8] + 4294967296 * word[i + 9])
            }
            # Few parts, so that few commands print them.
            for (i = 0; i < count; i = j) {
                last = end[i]
                for (j = i + 1; j < count && begin[j] <= last + 4096; j++) if (end[j] > last) last = end[j]
                all += last - begin[i]
                line = line sprintf(" %.0f %.0f", begin[i], last - begin[i])
            }
            if (all <= 268435456) print line
        }')
    [ -n "$pl_parts" ]
}

# pl_print_parts FILE: print them.
pl_print_parts() {
    printf 'file %s\n' "$pl_bytes"
    pl_file=$1
    # shellcheck disable=SC2086
    set -- $pl_parts
    while [ $# -ge 2 ]; do
        printf '%s %s\n' "$1" "$2"
        tail -c "+$(($1 + 1))" -- "$pl_file" | head -c "$2"
        shift 2
    done
}
