"""Analyses: pure functions from a Profile and a Selection to tables and trees."""
