#!/bin/sh
# Makes what lies here, with py-spy, austin 3, memray, austin-python and Python: sh record.sh. It takes ten seconds.
# PYTHON, PY_SPY, AUSTIN, MEMRAY, MOJO2AUSTIN say where they are, if not in PATH.
set -e
cd "$(dirname "$0")"
here=$PWD
python=${PYTHON:-python3}
work=$(mktemp -d)
cp program.py allocate.py "$work"
cd "$work"
for form in raw speedscope chrometrace flamegraph; do
    ${PY_SPY:-py-spy} record -r 100 -t -f $form -o "$here/py-spy.$form" -- "$python" program.py
done
printf 'import subprocess, sys\nsubprocess.run([sys.executable, "program.py"])\n' > outer.py
${PY_SPY:-py-spy} record -r 100 -t --subprocesses -f raw -o "$here/py-spy.processes" -- "$python" -c "$(cat outer.py)"
head -c 1500 "$here/py-spy.flamegraph" > cut && mv cut "$here/py-spy.flamegraph"
for mode in "wall" "memory -m" "full -f -g" "mojo -b" "full-mojo -b -f -g"; do
    set -- $mode
    name=$1
    shift
    ${AUSTIN:-austin} -i 20000 "$@" -o "$here/austin.$name" "$python" program.py
done
# What austin's own reader makes of its binary form.
${MOJO2AUSTIN:-mojo2austin} "$here/austin.mojo" "$here/austin.mojo.txt"
${MEMRAY:-memray} run -q -f -o memory.bin allocate.py
for form in csv speedscope gprof2dot; do
    ${MEMRAY:-memray} transform $form -f -o "$here/memray.$form" memory.bin
done
${MEMRAY:-memray} transform csv --leaks -f -o "$here/memray.leaks.csv" memory.bin
${MEMRAY:-memray} stats --json -f -o "$here/memray.stats.json" memory.bin
# Only to be told of: nothing but memray reads it.
head -c 200 memory.bin > "$here/memray.bin"
rm -r "$work"
