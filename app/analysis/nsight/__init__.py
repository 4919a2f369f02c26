"""Nsight Compute reports."""
