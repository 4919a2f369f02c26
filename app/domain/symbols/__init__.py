"""Readable names of symbols: C++, Rust and JVM."""
