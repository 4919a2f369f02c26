/* A small language model with nothing to say: a prompt is evaluated, then tokens are made one by one, as llama.cpp does
 * it. Its weights are made up, what it computes is computed. argv[1] is where the trace goes, argv[2] how many tokens
 * are made. */
#include "perfloom_trace.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 160, WIDE = 480, LAYERS = 2, PROMPT = 8, THREADS = 3, MOST = 64, WORDS = 96 };

static float attention[LAYERS][WIDTH][WIDTH], up[LAYERS][WIDE][WIDTH], down[LAYERS][WIDTH][WIDE], output[WORDS][WIDTH];
static float embedding[WORDS][WIDTH], state[PROMPT][WIDTH], inner[PROMPT][WIDE], normed[PROMPT][WIDTH];
static float scores[PROMPT][WORDS];
static pthread_barrier_t barrier;
static int rows, ended, word[PROMPT];

/* Every thread does a part of each operator, and notes it. */
#define OPERATOR(name, layer, first, last, count)                                \
    char mark[96], called[64];                                                   \
    if ((layer) < 0) snprintf(called, sizeof called, "%s", name);                \
    else snprintf(called, sizeof called, "%s-%d", name, layer);                  \
    begin_trace(called, mark);                                                   \
    int first = thread * (count) / THREADS, last = (thread + 1) * (count) / THREADS
#define DONE (end_trace(mark), pthread_barrier_wait(&barrier))

static float size_of(float value) { return value < 0 ? -value : value; }

static void matmul(int thread, const char *name, int layer, const float *weight, const float *from, float *into, int in,
                   int out, int adds) {
    OPERATOR(name, layer, first, last, out);
    for (int row = 0; row < rows; row++)
        for (int at = first; at < last; at++) {
            float sum = adds ? into[row * out + at] : 0;
            for (int k = 0; k < in; k++) sum += weight[at * in + k] * from[row * in + k];
            into[row * out + at] = sum;
        }
    DONE;
}

static void look_up(int thread) {
    OPERATOR("get_rows_inp_embd", -1, first, last, rows);
    for (int row = first; row < last; row++)
        for (int k = 0; k < WIDTH; k++) state[row][k] = embedding[word[row]][k];
    DONE;
}

static void norm(int thread, const char *name, int layer) {
    OPERATOR(name, layer, first, last, rows);
    for (int row = first; row < last; row++) {
        float size = 1e-5f;
        for (int k = 0; k < WIDTH; k++) size += size_of(state[row][k]) / WIDTH;
        for (int k = 0; k < WIDTH; k++) normed[row][k] = state[row][k] / size;
    }
    DONE;
}

static void silu(int thread, int layer) {
    OPERATOR("silu_ffn_gate", layer, first, last, rows);
    for (int row = first; row < last; row++)
        for (int k = 0; k < WIDE; k++) inner[row][k] /= 1 + size_of(inner[row][k]);
    DONE;
}

static void evaluate(int thread) {
    look_up(thread);
    for (int layer = 0; layer < LAYERS; layer++) {
        norm(thread, "rms_norm_attn_norm", layer);
        matmul(thread, "matmul_attn_out", layer, attention[layer][0], normed[0], state[0], WIDTH, WIDTH, 1);
        norm(thread, "rms_norm_ffn_norm", layer);
        matmul(thread, "matmul_ffn_up", layer, up[layer][0], normed[0], inner[0], WIDTH, WIDE, 0);
        silu(thread, layer);
        matmul(thread, "matmul_ffn_down", layer, down[layer][0], inner[0], state[0], WIDE, WIDTH, 1);
    }
    norm(thread, "rms_norm_result_norm", -1);
    matmul(thread, "matmul_result_output", -1, output[0], normed[0], scores[0], WIDTH, WORDS, 0);
}

static void *help(void *number) {
    for (;;) {
        pthread_barrier_wait(&barrier);
        if (ended) return NULL;
        evaluate((int)(long)number);
    }
}

static int evaluated(int count) {
    int best = 0;
    rows = count;
    pthread_barrier_wait(&barrier);
    evaluate(0);
    for (int at = 1; at < WORDS; at++)
        if (scores[rows - 1][at] > scores[rows - 1][best]) best = at;
    return best;
}

static void fill(float *values, int count, unsigned *seed) {
    for (int at = 0; at < count; at++) {
        *seed = *seed * 1664525u + 1013904223u;
        values[at] = ((float)(*seed >> 8) / (1 << 24) - 0.5f) / 4;
    }
}

int main(int count, char **words) {
    pthread_t helpers[THREADS];
    unsigned seed = 1;
    int made = count > 2 ? atoi(words[2]) : 6, tokens = PROMPT, next;
    if (count < 2 || made < 1 || made > MOST) return 2;
    fill(attention[0][0], LAYERS * WIDTH * WIDTH, &seed);
    fill(up[0][0], LAYERS * WIDE * WIDTH, &seed);
    fill(down[0][0], LAYERS * WIDTH * WIDE, &seed);
    fill(output[0], WORDS * WIDTH, &seed);
    fill(embedding[0], WORDS * WIDTH, &seed);
    for (int at = 0; at < PROMPT; at++) word[at] = 7 * at % WORDS;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long each = 1; each < THREADS; each++) pthread_create(&helpers[each], NULL, help, (void *)each);
    start_tracing_session();
    {
        PERFLOOM_SCOPE("prefill");
        next = evaluated(PROMPT);
    }
    PERFLOOM_COUNTER("tokens", tokens);
    for (int at = 0; at < made; at++) {
        word[0] = next;
        {
            PERFLOOM_SCOPE("decode");
            next = evaluated(1);
        }
        PERFLOOM_COUNTER("tokens", ++tokens);
        PERFLOOM_COUNTER("kv cache, bytes", (double)tokens * LAYERS * WIDTH * sizeof(float));
        printf("%d ", next);
    }
    stop_tracing_session(words[1]);
    ended = 1;
    pthread_barrier_wait(&barrier);
    for (int each = 1; each < THREADS; each++) pthread_join(helpers[each], NULL);
    puts("");
    return 0;
}
