/* perfloom_trace.h: what a C or C++ program did and when, as a text file that Perfloom reads.
 *
 *     #define PERFLOOM_TRACE            (or cc -DPERFLOOM_TRACE; without it nothing below costs anything)
 *     #include "perfloom_trace.h"
 *
 *     start_tracing_session();
 *     ...
 *     { PERFLOOM_SCOPE("decode"); ... }           a piece of work, until the end of its block
 *     PERFLOOM_COUNTER("tokens", count);          a value at this time
 *     char mark[4096];
 *     begin_trace("matmul_ffn_up-12", mark);      the same where beginning and end are in different places:
 *     ...                                         mark must have room for the name and 21 characters more
 *     end_trace(mark);
 *     ...
 *     stop_tracing_session("trace.txt");
 *
 * All of it may be called from any thread at any time, and from any number of files, C and C++, and shared libraries of
 * one program. A program that ends or crashes without stop_tracing_session leaves its file as well, unless it is killed
 * by SIGKILL or ends by _exit. What a child made by fork does is not recorded.
 *
 * Environment, looked at by start_tracing_session:
 *     PERFLOOM_TRACE_FILE   where to write what does not fit into memory, and all where nobody calls
 *                           stop_tracing_session (perfloom-PID.trace.txt in the current folder)
 *     PERFLOOM_TRACE_BYTES  how much memory to take for what is not written yet (67108864)
 *
 * Needs: gcc or clang, C11 or C++11 and later, POSIX threads. Public domain (CC0): take it into your own program.
 */
#ifndef PERFLOOM_TRACE_H
#define PERFLOOM_TRACE_H

#ifndef PERFLOOM_TRACE

#define PERFLOOM_SCOPE(name) ((void)sizeof(name))
#define PERFLOOM_COUNTER(name, value) ((void)sizeof(name), (void)sizeof(value))
#define start_tracing_session() ((void)0)
#define stop_tracing_session(path) ((void)sizeof(path))
#define begin_trace(name, mark) ((void)sizeof(name), (void)sizeof(mark))
#define end_trace(mark) ((void)sizeof(mark))

#else

/* With -std=c11 a C library hides what is needed here, unless it is asked for before the first of its headers. */
#if defined(__STRICT_ANSI__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#ifndef SA_RESETHAND
#error "perfloom_trace.h: include it before all other headers, or compile with -D_GNU_SOURCE or -std=gnu11"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is kept in memory ---------------------------------------------------------------------------------- */

enum { PERFLOOM_CHUNK = 1 << 16, PERFLOOM_LONGEST = 2000, PERFLOOM_BLOCK = 1024, PERFLOOM_ANCHORS = 256 };
enum { PERFLOOM_BEGIN, PERFLOOM_END, PERFLOOM_MARKED, PERFLOOM_ENDED, PERFLOOM_VALUE };

/* One event; `length` bytes of a name follow. number: of the scope, or the bits of a counter's value. */
struct perfloom_event {
    uint64_t ticks;
    uint64_t number;
    uint32_t kind;
    uint32_t length;
};

/* Events of one thread, in order. used: how many bytes of `data` hold some; other threads read it. */
struct perfloom_chunk {
    struct perfloom_chunk *next;
    uint64_t thread;
    uint64_t used;
    char data[PERFLOOM_CHUNK - 24];
};

/* A thread that records, which alone writes here. session: of what is in its chunk. number: the next of its block.
 * busy: it is just writing an event, and has been interrupted by a signal if it comes here again. */
struct perfloom_thread {
    struct perfloom_thread *next;
    struct perfloom_chunk *chunk;
    uint64_t session, number, thread;
    int busy, ended;
};

/* One moment by two clocks: what is counted in is turned into ns between them. */
struct perfloom_anchor {
    uint64_t ticks, ns;
};

/* session: odd while one is on. full: chunks to be written, the oldest first. room: bytes of memory that may still be
 * taken. file: its descriptor + 1. Zero is a valid state, as nothing else begins in every file at once. */
struct perfloom_state {
    uint64_t session, number, lost;
    int locked, ready, counts_ticks, file, anchors, failed;
    struct perfloom_thread *threads;
    struct perfloom_chunk *full, *last_full, *empty;
    size_t room, held, said;
    pthread_key_t key;
    struct perfloom_anchor anchor[PERFLOOM_ANCHORS];
    char path[1024];
    char text[1 << 14];
};

/* One for the whole program, however many files and shared libraries include this. */
#define PERFLOOM_ONE __attribute__((weak, visibility("default")))
#define PERFLOOM_COLD __attribute__((weak, noinline, cold, visibility("default")))
PERFLOOM_ONE struct perfloom_state perfloom_state;
PERFLOOM_ONE __thread struct perfloom_thread *perfloom_thread;

void start_tracing_session(void);
void stop_tracing_session(const char *path);
struct perfloom_thread *perfloom_more(uint64_t session);
void perfloom_finish(const char *path, int dying);
void perfloom_write_chunk(const struct perfloom_chunk *chunk);
void perfloom_write_full(void);
void perfloom_flush(void);
void perfloom_say(const char *text, size_t length);
void perfloom_say_number(uint64_t number, int least_digits);
void perfloom_say_value(double value);
void perfloom_anchor_now(void);
int perfloom_lock(sigset_t *before, int patience_ms);
void perfloom_unlock(const sigset_t *before);
void perfloom_thread_ends(void *thread);
void perfloom_at_exit(void);
void perfloom_in_child(void);
void perfloom_on_signal(int number);
void perfloom_signals(int on);

/* ---- recording: what costs time ------------------------------------------------------------------------------ */

static inline uint64_t perfloom_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t perfloom_ticks(void) {
    if (perfloom_state.counts_ticks) {
#if defined(__x86_64__) || defined(__i386__)
        return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
#endif
    }
    return perfloom_now_ns();
}

/* The present session, 0 while there is none. */
static inline uint64_t perfloom_session(void) {
    uint64_t session = __atomic_load_n(&perfloom_state.session, __ATOMIC_RELAXED);
    return session & 1 ? session : 0;
}

/* The present thread with room for an event, null where there is none. */
static inline struct perfloom_thread *perfloom_me(uint64_t session) {
    struct perfloom_thread *me = perfloom_thread;
    const uint64_t most = sizeof(struct perfloom_event) + PERFLOOM_LONGEST + 32;
    if (__builtin_expect(me == NULL || me->session != session, 0)) return perfloom_more(session);
    if (__builtin_expect(me->chunk->used + most > sizeof me->chunk->data || me->busy, 0)) return perfloom_more(session);
    return me;
}

static inline uint64_t perfloom_number(struct perfloom_thread *me) {
    if (me->number % PERFLOOM_BLOCK == 0)
        me->number = __atomic_fetch_add(&perfloom_state.number, PERFLOOM_BLOCK, __ATOMIC_RELAXED);
    return me->number++;
}

static inline void perfloom_put(struct perfloom_thread *me, uint32_t kind, uint64_t number, const char *name, size_t length) {
    struct perfloom_chunk *chunk = me->chunk;
    me->busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    struct perfloom_event event;
    event.ticks = perfloom_ticks();
    event.number = number;
    event.kind = kind;
    event.length = (uint32_t)length;
    char *at = chunk->data + chunk->used;
    memcpy(at, &event, sizeof event);
    memcpy(at + sizeof event, name, length);
    __atomic_store_n(&chunk->used, chunk->used + sizeof event + ((length + 7) & ~(size_t)7), __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    me->busy = 0;
}

static inline size_t perfloom_length(const char *name) {
    size_t length = strlen(name);
    return length < PERFLOOM_LONGEST ? length : (size_t)PERFLOOM_LONGEST;
}

struct perfloom_scope {
    const char *name;
    uint64_t session, number;
};

static inline struct perfloom_scope perfloom_scope_begin(const char *name) {
    struct perfloom_scope scope = {name, perfloom_session(), 0};
    struct perfloom_thread *me;
    if (scope.session == 0) return scope;
    if ((me = perfloom_me(scope.session)) == NULL) {
        scope.session = 0;
        return scope;
    }
    scope.number = perfloom_number(me);
    perfloom_put(me, PERFLOOM_BEGIN, scope.number, name, perfloom_length(name));
    return scope;
}

static inline void perfloom_scope_end(struct perfloom_scope *scope) {
    struct perfloom_thread *me;
    if (scope->session == 0 || scope->session != perfloom_session()) return;
    if ((me = perfloom_me(scope->session)) != NULL)
        perfloom_put(me, PERFLOOM_END, scope->number, scope->name, perfloom_length(scope->name));
}

static inline void perfloom_counter(const char *name, double value) {
    uint64_t session = perfloom_session(), bits;
    struct perfloom_thread *me;
    if (session == 0 || (me = perfloom_me(session)) == NULL) return;
    memcpy(&bits, &value, sizeof bits);
    perfloom_put(me, PERFLOOM_VALUE, bits, name, perfloom_length(name));
}

/* Begin something called `name`. mark: set to what `end_trace` is to be given, empty where nothing is recorded. */
static inline void begin_trace(const char *name, char *mark) {
    uint64_t session = perfloom_session(), number;
    size_t length = perfloom_length(name);
    struct perfloom_thread *me;
    char digits[20];
    int count = 0;
    mark[0] = 0;
    if (session == 0 || (me = perfloom_me(session)) == NULL) return;
    number = perfloom_number(me);
    memcpy(mark, name, length);
    mark[length++] = '_';
    do digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (count > 0) mark[length++] = digits[--count];
    mark[length] = 0;
    perfloom_put(me, PERFLOOM_MARKED, 0, mark, length);
}

/* End what began with that mark. */
static inline void end_trace(const char *mark) {
    uint64_t session = perfloom_session();
    struct perfloom_thread *me;
    size_t length;
    if (mark[0] == 0 || session == 0 || (me = perfloom_me(session)) == NULL) return;
    length = strlen(mark);
    perfloom_put(me, PERFLOOM_ENDED, 0, mark, length < PERFLOOM_LONGEST + 22 ? length : (size_t)PERFLOOM_LONGEST + 22);
}

#define PERFLOOM_JOIN_(a, b) a##b
#define PERFLOOM_JOIN(a, b) PERFLOOM_JOIN_(a, b)
/* From here to the end of the block is a piece of work. name: must live as long. */
#define PERFLOOM_SCOPE(name)                                                                              \
    struct perfloom_scope PERFLOOM_JOIN(perfloom_scope_, __LINE__)                                        \
        __attribute__((cleanup(perfloom_scope_end), unused)) = perfloom_scope_begin(name)
/* What `name` is worth now. */
#define PERFLOOM_COUNTER(name, value) perfloom_counter(name, (double)(value))

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* Take the lock, with all signals held back. patience_ms: give up after so long, never where negative. */
PERFLOOM_COLD int perfloom_lock(sigset_t *before, int patience_ms) {
    sigset_t all;
    struct timespec pause = {0, 1000000};
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
    for (int tries = 0; __atomic_exchange_n(&perfloom_state.locked, 1, __ATOMIC_ACQUIRE); tries++) {
        if (patience_ms >= 0 && tries >= patience_ms) return 0;
        nanosleep(&pause, NULL);
    }
    return 1;
}

PERFLOOM_COLD void perfloom_unlock(const sigset_t *before) {
    __atomic_store_n(&perfloom_state.locked, 0, __ATOMIC_RELEASE);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* Memory straight from the system: malloc may be what is traced. */
static inline void *perfloom_memory(size_t bytes) {
    int how = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_POPULATE
    /* All pages at once cost less than one at a time. */
    how |= MAP_POPULATE;
#endif
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how, -1, 0);
    return found == MAP_FAILED ? NULL : found;
}

static inline void perfloom_hand_over(struct perfloom_chunk *chunk) {
    struct perfloom_state *all = &perfloom_state;
    chunk->next = NULL;
    if (all->last_full != NULL) all->last_full->next = chunk;
    else all->full = chunk;
    all->last_full = chunk;
}

static inline struct perfloom_chunk *perfloom_empty_chunk(void) {
    struct perfloom_state *all = &perfloom_state;
    struct perfloom_chunk *chunk;
    if (all->empty == NULL && all->held >= all->room) {
        perfloom_anchor_now();
        perfloom_write_full();
    }
    if ((chunk = all->empty) != NULL) {
        all->empty = chunk->next;
        return chunk;
    }
    /* Every thread has one, even where they are too many. */
    if ((chunk = (struct perfloom_chunk *)perfloom_memory(sizeof *chunk)) != NULL) all->held += sizeof *chunk;
    return chunk;
}

/* `perfloom_me` where the thread is new or its chunk is full. */
PERFLOOM_COLD struct perfloom_thread *perfloom_more(uint64_t session) {
    struct perfloom_state *all = &perfloom_state;
    struct perfloom_thread *me = perfloom_thread;
    sigset_t before;
    if (me != NULL && me->busy) {
        __atomic_add_fetch(&all->lost, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    perfloom_lock(&before, -1);
    if (__atomic_load_n(&all->session, __ATOMIC_RELAXED) != session) {
        perfloom_unlock(&before);
        return NULL;
    }
    if (me == NULL) {
        for (me = all->threads; me != NULL && !me->ended;) me = me->next;
        if (me == NULL && (me = (struct perfloom_thread *)perfloom_memory(sizeof *me)) != NULL) {
            me->next = all->threads;
            __atomic_store_n(&all->threads, me, __ATOMIC_RELEASE);
        }
        if (me != NULL) {
            me->ended = 0;
            me->session = 0;
#if defined(__linux__)
            me->thread = (uint64_t)syscall(SYS_gettid);
#elif defined(__APPLE__)
            pthread_threadid_np(NULL, &me->thread);
#else
            me->thread = (uint64_t)(uintptr_t)pthread_self();
#endif
            pthread_setspecific(all->key, me);
            perfloom_thread = me;
        }
    }
    if (me != NULL) {
        struct perfloom_chunk *chunk = me->chunk;
        if (me->session == session && chunk != NULL) {
            perfloom_hand_over(chunk);
            chunk = NULL;
        }
        if (chunk == NULL) chunk = perfloom_empty_chunk();
        if (chunk != NULL) {
            chunk->thread = me->thread;
            __atomic_store_n(&chunk->used, 0, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&me->chunk, chunk, __ATOMIC_RELEASE);
        __atomic_store_n(&me->session, chunk != NULL ? session : 0, __ATOMIC_RELEASE);
        me->number = 0;
    }
    if (me == NULL || me->chunk == NULL) {
        __atomic_add_fetch(&all->lost, 1, __ATOMIC_RELAXED);
        me = NULL;
    }
    perfloom_unlock(&before);
    return me;
}

PERFLOOM_COLD void perfloom_thread_ends(void *thread) {
    struct perfloom_state *all = &perfloom_state;
    struct perfloom_thread *me = (struct perfloom_thread *)thread;
    sigset_t before;
    perfloom_lock(&before, -1);
    if (me->chunk != NULL) {
        if (me->session == __atomic_load_n(&all->session, __ATOMIC_RELAXED)) {
            perfloom_hand_over(me->chunk);
        } else {
            me->chunk->next = all->empty;
            all->empty = me->chunk;
        }
    }
    __atomic_store_n(&me->chunk, (struct perfloom_chunk *)NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&me->session, 0, __ATOMIC_RELEASE);
    me->ended = 1;
    perfloom_thread = NULL;
    perfloom_unlock(&before);
}

/* ---- writing: by one thread at a time, and by nothing that a signal's handler must not call ------------------- */

PERFLOOM_COLD void perfloom_anchor_now(void) {
    struct perfloom_state *all = &perfloom_state;
    struct perfloom_anchor now;
    now.ns = perfloom_now_ns();
    now.ticks = perfloom_ticks();
    /* Two that are close together would tell nothing of how fast ticks are. */
    if (all->anchors > 1 && (all->anchors == PERFLOOM_ANCHORS || now.ns - all->anchor[all->anchors - 1].ns < 10000000)) return;
    all->anchor[all->anchors++] = now;
}

static inline uint64_t perfloom_ns(uint64_t ticks) {
    const struct perfloom_state *all = &perfloom_state;
    const struct perfloom_anchor *low, *high;
    int place = all->anchors - 2;
    if (!all->counts_ticks || place < 0) return all->counts_ticks ? all->anchor[0].ns : ticks;
    while (place > 0 && ticks < all->anchor[place].ticks) place--;
    low = &all->anchor[place], high = low + 1;
    if (high->ticks <= low->ticks || ticks < low->ticks) return low->ns;
    return low->ns + (uint64_t)((double)(ticks - low->ticks) * (double)(high->ns - low->ns) / (double)(high->ticks - low->ticks));
}

/* Write out what has been said. */
PERFLOOM_COLD void perfloom_flush(void) {
    struct perfloom_state *all = &perfloom_state;
    size_t done = 0;
    while (done < all->said && !all->failed) {
        ssize_t now = write(all->file - 1, all->text + done, all->said - done);
        if (now > 0) done += (size_t)now;
        else if (now == 0 || errno != EINTR) all->failed = 1;
    }
    all->said = 0;
}

PERFLOOM_COLD void perfloom_say(const char *text, size_t length) {
    struct perfloom_state *all = &perfloom_state;
    if (all->said + length > sizeof all->text) perfloom_flush();
    memcpy(all->text + all->said, text, length);
    all->said += length;
}

PERFLOOM_COLD void perfloom_say_number(uint64_t number, int least_digits) {
    char digits[20];
    int place = 20;
    do digits[--place] = (char)('0' + number % 10);
    while ((number /= 10) != 0 || 20 - place < least_digits);
    perfloom_say(digits + place, (size_t)(20 - place));
}

/* Fifteen digits, as no function that prints numbers may be called in a signal's handler. */
PERFLOOM_COLD void perfloom_say_value(double value) {
    int power = 0;
    if (value != value) {
        perfloom_say("nan", 3);
        return;
    }
    if (value < 0) {
        perfloom_say("-", 1);
        value = -value;
    }
    if (value > 1.7976931348623157e308) {
        perfloom_say("inf", 3);
        return;
    }
    if (value < 1e15 && value == (double)(uint64_t)value) {
        perfloom_say_number((uint64_t)value, 1);
        return;
    }
    for (; value >= 1e15; power++) value /= 10;
    for (; value < 1e14; power--) value *= 10;
    perfloom_say_number((uint64_t)(value + 0.5), 1);
    perfloom_say(power < 0 ? "e-" : "e", power < 0 ? 2 : 1);
    perfloom_say_number((uint64_t)(power < 0 ? -power : power), 1);
}

static inline void perfloom_say_time(uint64_t ns) {
    perfloom_say_number(ns / 1000, 1);
    perfloom_say(".", 1);
    perfloom_say_number(ns % 1000, 3);
    perfloom_say("\n", 1);
}

PERFLOOM_COLD void perfloom_write_chunk(const struct perfloom_chunk *chunk) {
    uint64_t used = __atomic_load_n(&chunk->used, __ATOMIC_ACQUIRE);
    struct perfloom_event event;
    char name[PERFLOOM_LONGEST + 32];
    for (uint64_t at = 0; at < used; at += sizeof event + ((event.length + 7u) & ~(uint64_t)7)) {
        memcpy(&event, chunk->data + at, sizeof event);
        memcpy(name, chunk->data + at + sizeof event, event.length);
        for (uint32_t place = 0; place < event.length; place++)
            if (name[place] == '\n' || name[place] == '\r') name[place] = ' ';
        perfloom_say("thr: ", 5);
        perfloom_say_number(chunk->thread, 1);
        if (event.kind == PERFLOOM_VALUE) {
            double value;
            memcpy(&value, &event.number, sizeof value);
            perfloom_say(", counter: ", 11);
            perfloom_say(name, event.length);
            perfloom_say(", value: ", 9);
            perfloom_say_value(value);
        } else {
            perfloom_say(", name: ", 8);
            if (event.kind == PERFLOOM_END || event.kind == PERFLOOM_ENDED) perfloom_say("end_", 4);
            perfloom_say(name, event.length);
            if (event.kind == PERFLOOM_BEGIN || event.kind == PERFLOOM_END) {
                perfloom_say("_", 1);
                perfloom_say_number(event.number, 1);
            }
        }
        perfloom_say(", time: ", 8);
        perfloom_say_time(perfloom_ns(event.ticks));
    }
}

static inline void perfloom_open(const char *path) {
    struct perfloom_state *all = &perfloom_state;
    if (all->file || all->failed) return;
    all->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) + 1;
    all->failed = all->file == 0;
    perfloom_say("start_time: ", 12);
    perfloom_say_time(all->anchor[0].ns);
}

/* Write the chunks that are full, and empty them. Where that cannot be done, what is in them is lost. */
PERFLOOM_COLD void perfloom_write_full(void) {
    struct perfloom_state *all = &perfloom_state;
    if (all->full == NULL) return;
    perfloom_open(all->path);
    while (all->full != NULL) {
        struct perfloom_chunk *chunk = all->full;
        perfloom_write_chunk(chunk);
        all->full = chunk->next;
        chunk->next = all->empty;
        all->empty = chunk;
    }
    all->last_full = NULL;
    perfloom_flush();
}

/* Write all there is to `path`, or where it has been begun. Under the lock. */
PERFLOOM_COLD void perfloom_finish(const char *path, int dying) {
    struct perfloom_state *all = &perfloom_state;
    struct perfloom_thread *each;
    uint64_t session = __atomic_load_n(&all->session, __ATOMIC_RELAXED), lost;
    __atomic_store_n(&all->session, session + 1, __ATOMIC_RELEASE);
    perfloom_anchor_now();
    perfloom_open(path);
    perfloom_write_full();
    for (each = __atomic_load_n(&all->threads, __ATOMIC_ACQUIRE); each != NULL; each = each->next) {
        const struct perfloom_chunk *chunk = __atomic_load_n(&each->chunk, __ATOMIC_ACQUIRE);
        if (chunk != NULL && __atomic_load_n(&each->session, __ATOMIC_ACQUIRE) == session) perfloom_write_chunk(chunk);
    }
    lost = __atomic_load_n(&all->lost, __ATOMIC_RELAXED);
    if (lost != 0) {
        perfloom_say("lost: ", 6);
        perfloom_say_number(lost, 1);
        perfloom_say("\n", 1);
    }
    perfloom_say("end_time: ", 10);
    perfloom_say_time(perfloom_now_ns());
    perfloom_flush();
    if (all->file && close(all->file - 1) != 0) all->failed = 1;
    all->file = 0;
    if (all->failed) {
        static const char sorry[] = "perfloom: the trace could not be written whole; look whether there is room on the disk, and set PERFLOOM_TRACE_FILE\n";
        ssize_t ignored = write(2, sorry, sizeof sorry - 1);
        (void)ignored;
    }
    if (!dying) perfloom_signals(0);
}

/* ---- the beginning and the end ------------------------------------------------------------------------------- */

PERFLOOM_COLD void perfloom_on_signal(int number) {
    sigset_t before;
    if (perfloom_session()) {
        perfloom_lock(&before, 1000);
        if (perfloom_session()) perfloom_finish(perfloom_state.path, 1);
        perfloom_unlock(&before);
    }
    /* What it would have done without: SA_RESETHAND has put that back. */
    raise(number);
}

/* Hear of what ends the program, where the program itself does not. */
PERFLOOM_COLD void perfloom_signals(int on) {
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    struct sigaction present, wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.sa_handler = on ? perfloom_on_signal : SIG_DFL;
    wanted.sa_flags = on ? (int)(SA_RESETHAND | SA_NODEFER | SA_ONSTACK) : 0;
    sigemptyset(&wanted.sa_mask);
    for (size_t place = 0; place < sizeof numbers / sizeof *numbers; place++) {
        if (sigaction(numbers[place], NULL, &present) != 0 || (present.sa_flags & SA_SIGINFO)) continue;
        if (present.sa_handler == (on ? SIG_DFL : perfloom_on_signal)) sigaction(numbers[place], &wanted, NULL);
    }
}

PERFLOOM_COLD void perfloom_at_exit(void) {
    sigset_t before;
    if (!perfloom_session()) return;
    perfloom_lock(&before, -1);
    if (perfloom_session()) perfloom_finish(perfloom_state.path, 0);
    perfloom_unlock(&before);
}

/* A child made by fork has nothing of the other threads, and shares the file with its parent: it begins anew. */
PERFLOOM_COLD void perfloom_in_child(void) {
    struct perfloom_state *all = &perfloom_state;
    if (all->file) close(all->file - 1);
    all->file = 0;
    all->session += all->session & 1;
    all->threads = NULL;
    all->full = all->last_full = all->empty = NULL;
    all->said = all->held = 0;
    all->locked = 0;
    perfloom_thread = NULL;
    pthread_setspecific(all->key, NULL);
}

/* Record from now on. Nothing where something is recorded already. */
PERFLOOM_COLD void start_tracing_session(void) {
    struct perfloom_state *all = &perfloom_state;
    const char *path = getenv("PERFLOOM_TRACE_FILE"), *bytes = getenv("PERFLOOM_TRACE_BYTES");
    sigset_t before;
    perfloom_lock(&before, -1);
    if (perfloom_session()) {
        perfloom_unlock(&before);
        return;
    }
    if (!all->ready) {
        pthread_key_create(&all->key, perfloom_thread_ends);
        pthread_atfork(NULL, NULL, perfloom_in_child);
        atexit(perfloom_at_exit);
        all->ready = 1;
    }
#if defined(__x86_64__) || defined(__i386__)
    {
        unsigned a, b, c, d = 0;
        /* Whether it counts on while the CPU sleeps, and at one speed. */
        all->counts_ticks = __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
    }
#elif defined(__aarch64__)
    all->counts_ticks = 1;
#endif
    if (path != NULL && *path) snprintf(all->path, sizeof all->path, "%s", path);
    else snprintf(all->path, sizeof all->path, "perfloom-%ld.trace.txt", (long)getpid());
    all->room = bytes != NULL && *bytes ? (size_t)strtoull(bytes, NULL, 10) : (size_t)64 << 20;
    all->failed = all->anchors = 0;
    all->number = all->lost = 0;
    perfloom_anchor_now();
    perfloom_signals(1);
    __atomic_store_n(&all->session, all->session + 1, __ATOMIC_RELEASE);
    perfloom_unlock(&before);
}

/* Record no more, and write all there is to a file. path: null for the one of PERFLOOM_TRACE_FILE. */
PERFLOOM_COLD void stop_tracing_session(const char *path) {
    struct perfloom_state *all = &perfloom_state;
    sigset_t before;
    perfloom_lock(&before, -1);
    if (perfloom_session()) {
        int begun = all->file != 0;
        if (path == NULL) path = all->path;
        perfloom_finish(path, 0);
        if (begun && strcmp(path, all->path) != 0 && rename(all->path, path) != 0)
            fprintf(stderr, "perfloom: the trace is in %s, it could not be moved to %s: %s\n", all->path, path, strerror(errno));
    }
    perfloom_unlock(&before);
}

#ifdef __cplusplus
}
#endif
#endif
#endif
