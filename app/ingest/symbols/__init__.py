"""Symbols of machine code, as columns: of ELF files, of the kernel and of just-in-time compilers."""
