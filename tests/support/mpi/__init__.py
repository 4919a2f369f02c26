"""MPI programs, and recordings of one."""
