/* words SORTS LOOKUPS: sorts words, and looks them up in a hash table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))
#define WORDS 20000
#define SLOTS 65536

static char words[WORDS][24];
static int table[SLOTS];

static NOINLINE unsigned hash_word(const char *word)
{
    unsigned value = 2166136261u;

    for (; *word; word++)
        value = (value ^ (unsigned char)*word) * 16777619u;
    return value;
}

static NOINLINE int find_slot(const char *word)
{
    unsigned slot = hash_word(word) % SLOTS;

    while (table[slot] && strcmp(words[table[slot] - 1], word))
        slot = (slot + 1) % SLOTS;
    return slot;
}

static NOINLINE int look_up_words(void)
{
    int sum = 0;

    for (int i = 0; i < WORDS; i++)
        sum += table[find_slot(words[i])];
    return sum;
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static NOINLINE int sort_words(void)
{
    static char *order[WORDS];

    for (int i = 0; i < WORDS; i++)
        order[i] = words[i];
    qsort(order, WORDS, sizeof *order, compare_words);
    return order[0][0];
}

int main(int argc, char **argv)
{
    int sum = 0;

    if (argc != 3)
        return 2;
    for (int i = 0; i < WORDS; i++) {
        snprintf(words[i], sizeof words[i], "%x-%d", i * 2654435761u, i);
        table[find_slot(words[i])] = i + 1;
    }
    for (int round = atoi(argv[1]); round > 0; round--)
        sum += sort_words();
    for (int round = atoi(argv[2]); round > 0; round--)
        sum += look_up_words();
    printf("%d\n", sum);
}
