int work(int value);

int work(int value) {
    return value;
}
