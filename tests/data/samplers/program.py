"""A small program: two threads, recursion, allocation."""

import threading
import time


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def allocate(n):
    return [bytearray(1000) for _ in range(n)]


def busy(seconds):
    kept = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        fib(8)
        kept.append(allocate(50))
    return kept


def main():
    other = threading.Thread(target=busy, args=(0.3,), name="helper")
    other.start()
    busy(0.3)
    other.join()


if __name__ == "__main__":
    main()
