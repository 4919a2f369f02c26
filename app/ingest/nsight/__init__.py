"""What the readers of Nsight Compute and the analysis of its reports share: names of kernels, metrics and sections."""
