"""Access to targets: connections with secrets, the user of this machine, queries to batch systems, cleanup."""
