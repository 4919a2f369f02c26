"""The command line `perfloom`: one group, one file for each family of commands."""
