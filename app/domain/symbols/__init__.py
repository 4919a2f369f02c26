"""Names of symbols: demangled, and short ones for labels."""
