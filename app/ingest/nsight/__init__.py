"""Shared by the readers of Nsight Compute and the analysis of its reports: names of kernels, metrics and sections."""
