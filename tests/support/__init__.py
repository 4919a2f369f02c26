"""Shared by tests: programs, servers, profiles and paths."""
