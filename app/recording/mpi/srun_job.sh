# shellcheck shell=sh disable=SC2034,SC2154
# How srun lets ranks find each other, by the MPI library of the program, of what srun offers.

pl_offered=" $("$pl_launcher" --mpi=list 2>&1 | tr -s '[:space:],' ' ') "
case $pl_linked in
openmpi | spectrum) pl_wanted='pmix pmix_v4 pmix_v3 pmi2' ;;
mpich) pl_wanted='pmi2 pmix' ;;
*) pl_wanted='' ;;
esac
for pl_each in $pl_wanted; do
    case $pl_offered in *" $pl_each "*)
        pl_pmi=$pl_each
        break
        ;;
    esac
done
