"""Shared by readers of text that perf prints: grammar, tokens, call stacks, scheduler events."""
