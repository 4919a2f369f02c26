"""A small program that allocates."""


def keep(count):
    return [bytes(1000 + i) for i in range(count)]


def waste(count):
    for i in range(count):
        bytearray(5000)
    return None


def main():
    kept = [keep(50) for _ in range(4)]
    waste(30)
    big = bytearray(1 << 20)
    return kept, big


if __name__ == "__main__":
    main()
