# shellcheck shell=sh disable=SC2154
# Removes the directory pl_directory of a job, if its file .perfloom begins with pl_mark.

[ -e "$pl_directory" ] || [ -L "$pl_directory" ] || exit 0
pl_found=''
{ read -r pl_found <"$pl_directory/.perfloom"; } 2>/dev/null
if [ -L "$pl_directory" ] || [ ! -O "$pl_directory" ] || [ "$pl_found" != "$pl_mark" ]; then
    printf '%s is not removed: it was not made for a job.\n' "$pl_directory" >&2
    exit 1
fi
# The mark is removed last, so that an interrupted removal can be repeated.
cd "$pl_directory" || exit 1
chmod -R u+rwX . 2>/dev/null
for pl_file in ./* ./.[!.]* ./..?*; do
    [ "$pl_file" = ./.perfloom ] || rm -rf "$pl_file"
done
cd / && rm -rf "$pl_directory"
[ ! -e "$pl_directory" ]
