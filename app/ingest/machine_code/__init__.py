"""Machine code of binaries: ELF, DWARF and instructions. All of it is untrusted, and read in a restricted process."""
