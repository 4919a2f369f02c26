"""What the rest speaks about: profiles, jobs, selections and errors. Imports nothing of the project but itself."""
