"""Recorders, MPI launchers, batch systems, plans of jobs and probes of targets. Pure: returns argv and parses
output."""
