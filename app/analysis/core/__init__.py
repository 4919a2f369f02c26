"""Shared by all analyses: selections, groups, intervals, trees, the memo and the schema of tables."""
