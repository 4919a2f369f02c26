"""The data model: profiles, jobs, selections and errors. Imports no other package of the project."""
