# shellcheck shell=sh
# Lists the file or directory $1 with the format $2 of find(1).

LC_ALL=C exec find -H "$1" -printf "$2"
