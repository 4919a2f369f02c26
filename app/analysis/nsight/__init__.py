"""Nsight."""
