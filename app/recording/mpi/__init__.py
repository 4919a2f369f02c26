"""The launchers of MPI implementations."""
