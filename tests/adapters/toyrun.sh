#!/bin/sh
# toyrun -n N COMMAND: the launcher of Toy MPI.
[ "$1" != --version ] || { echo "Toy MPI 2.1"; exit 0; }
TOY_SIZE=$2
export TOY_SIZE
shift 2
ranks='' TOY_RANK=0
trap 'stopped=1; kill $ranks 2>/dev/null' TERM
while [ "$TOY_RANK" -lt "$TOY_SIZE" ]; do
    TOY_RANK=$TOY_RANK "$@" &
    ranks="$ranks $!" TOY_RANK=$((TOY_RANK + 1))
done
worst=0
for each in $ranks; do
    wait "$each" || worst=$?
    while kill -0 "$each" 2>/dev/null; do wait "$each" || worst=$?; done
done
exit "$worst"
