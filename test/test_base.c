/* test/test_base.c: src/base without the dtypes: failing, memory, arena, environment, log, threads,
 * the machine, files. What an environment variable decides once a process runs in a child. */
#include "base/os.h"
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <umbel/backend.h>
#include <unistd.h>

/* ---- status --------------------------------------------------------------------------------- */

static void nothing_failed_yet(void)
{
    CHECK(um_last_error() != NULL && um_last_error()->code == UM_OK);
    CHECK(um_last_error()->message[0] == '\0' && um_status_last() == UM_OK);
}

static void status_names(void)
{
    CHECK(strcmp(um_status_name(UM_OK), "OK") == 0);
    CHECK(strcmp(um_status_name(UM_INTERNAL), "INTERNAL") == 0);
    CHECK(strcmp(um_status_name(17), "UNKNOWN") == 0);
    CHECK(strcmp(um_status_name(-1), "UNKNOWN") == 0);
    for (um_status code = UM_OK; code <= UM_INTERNAL; code++)
        CHECK(strcmp(um_status_name(code), "UNKNOWN") != 0);
    CHECK(strcmp(um_version(), UM_VERSION_STRING) == 0);
}

static void failing_records(void)
{
    CHECK(um_backend_fail(UM_DEVICE_ERROR, "cpu", "matmul", -4, "gemm: %d of %d", 1, 2) ==
          UM_DEVICE_ERROR);
    const um_error *e = um_last_error();
    CHECK(e->code == UM_DEVICE_ERROR && e->native_code == -4);
    CHECK(strcmp(e->backend, "cpu") == 0 && strcmp(e->op, "matmul") == 0);
    CHECK(strcmp(e->message, "gemm: 1 of 2") == 0);
    um_error kept = *e;
    CHECK(UM_FAIL(UM_NOT_FOUND, "again: %s", um_last_error()->message) == UM_NOT_FOUND);
    CHECK(strcmp(e->message, "again: gemm: 1 of 2") == 0);
    CHECK(e->backend[0] == '\0' && e->op[0] == '\0' && e->native_code == 0);
    CHECK(um_fail_tag("null", NULL) == UM_NOT_FOUND && strcmp(e->backend, "null") == 0);
    CHECK(um_fail_tag("cpu", "add") == UM_NOT_FOUND && strcmp(e->backend, "null") == 0);
    CHECK(strcmp(e->op, "add") == 0);
    CHECK(um_fail_again(&kept) == UM_DEVICE_ERROR && strcmp(e->message, "gemm: 1 of 2") == 0);
    CHECK(um_fail_again(e) == UM_DEVICE_ERROR && um_status_last() == UM_DEVICE_ERROR);
}

static void messages_are_one_line(void)
{
    (void)UM_FAIL(UM_INTERNAL, "a\nb\r\tc\x7f%s", " \n\n");
    CHECK(strcmp(um_last_error()->message, "a b  c") == 0);
    (void)UM_FAIL(UM_INTERNAL, "%s", "");
    CHECK(um_last_error()->message[0] == '\0');
}

/* Whatever a long message's characters, the cut falls between two of them. */
static void long_messages_end_whole(void)
{
    static const char *const characters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\xb1"};
    for (size_t c = 0; c < UM_COUNT_OF(characters); c++) {
        size_t length = strlen(characters[c]);
        for (size_t before = 0; before < 5; before++) {
            char text[2000] = "abcd";
            for (size_t i = before; i + length < sizeof text; i += length)
                memcpy(text + i, characters[c], length + 1);
            (void)UM_FAIL(UM_INTERNAL, "%s", text);
            size_t got = strlen(um_last_error()->message);
            size_t room = sizeof um_last_error()->message - 1;
            CHECK_MSG(got == before + (room - before) / length * length, "%zu of %zu", got, room);
            CHECK(memcmp(um_last_error()->message, text, got) == 0);
        }
    }
    CHECK(um_backend_fail(UM_INTERNAL, "a name of many letters", NULL, 0, "x") == UM_INTERNAL);
    CHECK(strcmp(um_last_error()->backend, "a name of many ") < 0);
    /* bytes that are no UTF-8 are cut anywhere, but kept */
    char junk[600];
    memset(junk, 0x80, sizeof junk - 1);
    junk[sizeof junk - 1] = '\0';
    (void)UM_FAIL(UM_INTERNAL, "%s", junk);
    CHECK(strlen(um_last_error()->message) == sizeof um_last_error()->message - 1);
}

static void fail_in_thread(void *arg)
{
    um_error *seen = arg;
    seen[0] = *um_last_error();
    (void)UM_FAIL(UM_TIMEOUT, "in the thread");
    seen[1] = *um_last_error();
}

static void errors_belong_to_threads(void)
{
    static um_error seen[2];
    um_thread thread;
    (void)UM_FAIL(UM_CANCELLED, "outside");
    CHECK_OK(um_thread_start(&thread, fail_in_thread, seen, "a name longer than fifteen"));
    um_thread_join(thread);
    CHECK(seen[0].code == UM_OK && seen[1].code == UM_TIMEOUT);
    CHECK(um_status_last() == UM_CANCELLED);
    CHECK(strcmp(um_last_error()->message, "outside") == 0);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void blocks_are_aligned(void)
{
    int64_t live = um_mem_live_count(), calls = um_mem_alloc_count();
    for (size_t align = 1; align <= 4096; align *= 2) {
        for (size_t size = 0; size < 9000000; size = size * 40 + 1) {
            unsigned char *p = um_mem_alloc_aligned(size, align);
            CHECK(p && (uintptr_t)p % align == 0 && (uintptr_t)p % _Alignof(max_align_t) == 0);
            if (p && size) p[0] = p[size - 1] = 1;
            um_mem_free(p);
            calls++;
        }
    }
    CHECK(um_mem_live_count() == live && um_mem_alloc_count() == calls);
    void *a = um_mem_alloc(0), *b = um_mem_alloc(0);
    CHECK(a && b && a != b && um_mem_live_count() == live + 2);
    um_mem_free(a);
    um_mem_free(b);
    um_mem_free(NULL);
    CHECK(um_mem_alloc(SIZE_MAX - 100) == NULL && um_mem_live_count() == live);
    unsigned char *zeros = um_mem_zalloc(100), any = 0;
    for (int i = 0; zeros && i < 100; i++) any |= zeros[i];
    CHECK(zeros && any == 0);
    um_mem_free(zeros);
}

static void growing_keeps(void)
{
    char *p = um_mem_grow(NULL, 0, 4);
    CHECK(p != NULL);
    if (!p) return;
    memcpy(p, "abc", 4);
    um_mem_fail_at(1, false);
    CHECK(um_mem_grow(p, 4, 1000) == NULL && strcmp(p, "abc") == 0);
    char *q = um_mem_grow(p, 4, 1000);
    CHECK(q && strcmp(q, "abc") == 0);
    um_mem_free(q);
}

static void failing_at_a_call(void)
{
    bool failed[6] = {false};
    for (int forever = 0; forever < 2; forever++) {
        um_mem_fail_at(3, forever);
        CHECK(!um_mem_failed());
        for (int i = 0; i < 6; i++) {
            void *p = um_mem_alloc(8);
            failed[i] = !p;
            CHECK(um_mem_failed() == (i >= 2));
            um_mem_free(p);
        }
        CHECK(!failed[0] && !failed[1] && failed[2] && failed[3] == forever &&
              failed[5] == forever);
    }
    um_mem_fail_at(0, true);
    void *p = um_mem_alloc(8);
    CHECK(p && !um_mem_failed());
    um_mem_free(p);
}

enum { THREADS = 4, ROUNDS = 2000 };

static _Atomic int64_t refused;

static void allocate_much(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        void *p = um_mem_alloc(16);
        if (!p) atomic_fetch_add(&refused, 1);
        um_mem_free(p);
    }
}

/* Of all calls of all threads exactly one fails. */
static void failing_once_among_threads(void)
{
    um_thread threads[THREADS];
    int64_t live = um_mem_live_count(), calls = um_mem_alloc_count();
    bool started = true;
    um_mem_fail_at(ROUNDS, false);
    for (int i = 0; i < THREADS; i++)
        started &= um_thread_start(&threads[i], allocate_much, NULL, "alloc") == UM_OK;
    CHECK(started);
    if (!started) return; /* the countdown hit a start: cannot be, ROUNDS come first */
    for (int i = 0; i < THREADS; i++) um_thread_join(threads[i]);
    CHECK(atomic_load(&refused) == 1 && um_mem_failed());
    CHECK(um_mem_live_count() == live);
    CHECK(um_mem_alloc_count() == calls + THREADS * (ROUNDS + 1));
}

static void *counting_alloc(void *user, size_t size, size_t align)
{
    ++*(int *)user;
    void *p = NULL;
    return posix_memalign(&p, align, size) == 0 ? p : NULL;
}

static void counting_free(void *user, void *ptr)
{
    --*(int *)user;
    free(ptr);
}

static void allocator_is_replaced(void)
{
    int count = 0;
    um_allocator mine = {&count, counting_alloc, counting_free}, half = mine;
    half.free = NULL;
    CHECK_FAILS(um_set_allocator(&half), UM_INVALID_ARGUMENT, "free is NULL");
    CHECK_OK(um_set_allocator(&mine));
    void *p = um_mem_alloc(0);
    CHECK(p && count == 1);
    CHECK_FAILS(um_set_allocator(NULL), UM_INVALID_ARGUMENT, "alive");
    um_mem_free(p);
    CHECK(count == 0);
    CHECK_OK(um_set_allocator(NULL));
    p = um_mem_alloc(1);
    CHECK(p && count == 0);
    um_mem_free(p);
}

static void vectors_grow(void)
{
    int *items = NULL;
    int64_t capacity = 0, count = 0;
    for (; count < 1000; count++) {
        CHECK_OK(um_vec_reserve((void **)&items, &capacity, count, sizeof *items, "test"));
        items[count] = (int)count;
    }
    CHECK(capacity == 1024 && items[999] == 999 && items[0] == 0);
    capacity = count;
    um_mem_fail_at(1, false);
    CHECK_FAILS(um_vec_reserve((void **)&items, &capacity, count, sizeof *items, "list"),
                UM_OUT_OF_MEMORY, "list: no memory");
    CHECK(capacity == count && items[999] == 999);
    int64_t huge = INT64_MAX / 2;
    CHECK_FAILS(um_vec_reserve((void **)&items, &huge, huge, sizeof *items, "list"),
                UM_OUT_OF_MEMORY, "do not fit");
    um_mem_free(items);
}

static void arena_keeps_and_gives_back(void)
{
    int64_t live = um_mem_live_count();
    um_arena arena = {0};
    um_arena_reset(&arena);
    static unsigned char *blocks[400];
    for (int round = 0; round < 3; round++) {
        int64_t calls = um_mem_alloc_count();
        for (size_t i = 0; i < UM_COUNT_OF(blocks); i++) {
            size_t size = i * 37 % 5000 + (i == 200) * 300000;
            blocks[i] = um_arena_alloc(&arena, size);
            CHECK(blocks[i] && (uintptr_t)blocks[i] % 64 == 0);
            memset(blocks[i], (int)(i & 255), size);
        }
        for (size_t i = 1; i < UM_COUNT_OF(blocks); i++) CHECK(blocks[i][0] == (i & 255));
        CHECK(round == 0 || um_mem_alloc_count() == calls);
        um_arena_reset(&arena);
    }
    CHECK(um_arena_alloc(&arena, SIZE_MAX) == NULL);
    CHECK(um_arena_alloc(&arena, SIZE_MAX / 2) == NULL);
    CHECK(um_arena_alloc(&arena, 0) != NULL);
    um_arena_release(&arena);
    CHECK(um_mem_live_count() == live && !arena.first && !arena.current);
    um_arena_release(&arena);
    um_mem_fail_at(1, false);
    CHECK(um_arena_alloc(&arena, 1) == NULL);
    CHECK(um_arena_alloc(&arena, 1) != NULL);
    um_arena_release(&arena);
}

static void sizes_are_checked(void)
{
    int64_t x;
    CHECK(um_add_i64(1, 2, &x) && x == 3 && !um_add_i64(INT64_MAX, 1, &x));
    CHECK(um_sub_i64(1, 2, &x) && x == -1 && !um_sub_i64(INT64_MIN, 1, &x));
    CHECK(um_mul_i64(3, -2, &x) && x == -6 && !um_mul_i64(INT64_MAX, 2, &x));
    CHECK(um_ceil_div(0, 3) == 0 && um_ceil_div(7, 3) == 3 &&
          um_ceil_div(INT64_MAX, 1) == INT64_MAX);
}

static void hashes_differ(void)
{
    unsigned char bytes[64] = {0};
    uint64_t seen[65 + 64 * 8];
    size_t count = 0;
    for (size_t size = 0; size <= 64; size++) seen[count++] = um_hash(bytes, size, 7);
    for (size_t bit = 0; bit < 64 * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        seen[count++] = um_hash(bytes, 64, 7);
        CHECK(um_hash(bytes, 64, 8) != um_hash(bytes, 64, 7));
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) CHECK(seen[i] != seen[j]);
    CHECK(um_hash(bytes, 64, 7) == seen[64]);
}

/* ---- environment and log -------------------------------------------------------------------- */

static void environment(void)
{
    unsetenv("UMBEL_TRACE");
    CHECK(um_list_has("a,staging", "staging") && um_list_has("staging,b", "staging"));
    CHECK(!um_list_has(NULL, "a") && !um_list_has("nostaging,stag", "staging"));
    CHECK(!um_list_has(",,", ""));
    CHECK(um_env_get(UM_ENV_TRACE) == NULL);
    setenv("UMBEL_TRACE", "", 1);
    CHECK(um_env_get(UM_ENV_TRACE) == NULL);
    setenv("UMBEL_TRACE", "x", 1);
    const char *text = um_env_get(UM_ENV_TRACE);
    CHECK(text && strcmp(text, "x") == 0);
    unsetenv("UMBEL_TRACE");
    for (int i = 0; i < UM_ENV_COUNT; i++) {
        CHECK(strncmp(um_env_name((um_env)i), "UMBEL_", 6) == 0);
        CHECK(um_env_doc((um_env)i)[0] != '\0');
    }
}

typedef struct heard {
    int count, level;
    char text[64];
} heard;

static void listen(void *user, int32_t level, const char *message)
{
    heard *h = user;
    h->count++;
    h->level = level;
    snprintf(h->text, sizeof h->text, "%s", message);
    if (h->count == 3) um_set_log(NULL, NULL, 0); /* legal: no lock is held */
}

static void log_reaches_its_callback(void)
{
    heard h = {0};
    um_log_write(UM_LOG_ERROR, "nobody listens");
    CHECK(!um_log_wanted(UM_LOG_ERROR));
    um_set_log(listen, &h, UM_LOG_WARNING);
    CHECK(um_log_wanted(UM_LOG_ERROR) && !um_log_wanted(UM_LOG_INFO));
    um_log_write(UM_LOG_INFO, "too low");
    CHECK(h.count == 0);
    um_log_write(UM_LOG_WARNING, "%s %d", "number", 3);
    CHECK(h.count == 1 && h.level == UM_LOG_WARNING && strcmp(h.text, "number 3") == 0);
    um_log_write(UM_LOG_ERROR, "b");
    um_log_write(UM_LOG_ERROR, "c");
    um_log_write(UM_LOG_ERROR, "d");
    CHECK(h.count == 3 && !um_log_wanted(UM_LOG_ERROR));
}

/* ---- children: what is read once a process -------------------------------------------------- */

/* Runs fn in a child whose variable is set; true when it found no fault. */
static bool passes_with(const char *variable, const char *text, bool (*fn)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv(variable, text, 1);
        _exit(fn() ? 0 : 1);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool third_call_and_all_later_fail(void)
{
    void *a = um_mem_alloc(1), *b = um_mem_alloc(1), *c = um_mem_alloc(1), *d = um_mem_alloc(1);
    bool good = a && b && !c && !d && um_mem_failed();
    um_mem_free(a);
    um_mem_free(b);
    return good;
}

static bool nothing_fails(void)
{
    void *a = um_mem_alloc(1);
    um_mem_free(a);
    return a && !um_mem_failed();
}

static bool topics_are_found(void)
{
    char path[] = "/tmp/umbel_test_XXXXXX", line[2000] = "";
    int fd = mkstemp(path);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0) return false;
    heard h = {0};
    bool good = um_debug_on("dispatch") && um_debug_on("b") && !um_debug_on("disp") &&
                !um_debug_on("dispatch,b") && !um_debug_on("");
    um_debug_write("dispatch", "op %d", 5);
    um_debug_write("other", "silent");
    um_set_log(listen, &h, UM_LOG_DEBUG);
    um_debug_write("b", "%s", "said");
    FILE *file = fopen(path, "r");
    size_t got = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file) fclose(file);
    unlink(path);
    line[got] = '\0';
    return good && strcmp(line, "umbel: dispatch: op 5\numbel: b: said\n") == 0 && h.count == 1 &&
           strcmp(h.text, "b: said") == 0;
}

static bool no_topics(void) { return !um_debug_on("dispatch") && !um_debug_on(""); }

static void variables_read_once(void)
{
    CHECK(passes_with("UMBEL_FAIL_ALLOC", "3", third_call_and_all_later_fail));
    CHECK(passes_with("UMBEL_FAIL_ALLOC", "0", nothing_fails));
    CHECK(passes_with("UMBEL_FAIL_ALLOC", "-2", nothing_fails));
    CHECK(passes_with("UMBEL_FAIL_ALLOC", "word", nothing_fails));
    CHECK(passes_with("UMBEL_DEBUG", "a,dispatch,,b", topics_are_found));
    CHECK(passes_with("UMBEL_DEBUG", "", no_topics));
}

/* ---- threads and the machine ---------------------------------------------------------------- */

typedef struct turn {
    um_mutex mutex;
    um_cond cond;
    int value;
} turn;

static void answer(void *arg)
{
    turn *t = arg;
    um_mutex_lock(&t->mutex);
    while (t->value != 1) um_cond_wait(&t->cond, &t->mutex);
    t->value = 2;
    um_cond_broadcast(&t->cond);
    um_mutex_unlock(&t->mutex);
}

static void threads_take_turns(void)
{
    turn t = {.value = 0};
    um_thread thread;
    CHECK_OK(um_mutex_init(&t.mutex));
    CHECK_OK(um_cond_init(&t.cond));
    CHECK_OK(um_thread_start(&thread, answer, &t, "turn"));
    um_mutex_lock(&t.mutex);
    t.value = 1;
    um_cond_signal(&t.cond);
    while (t.value != 2) um_cond_wait(&t.cond, &t.mutex);
    um_mutex_unlock(&t.mutex);
    um_thread_join(thread);
    um_cond_destroy(&t.cond);
    um_mutex_destroy(&t.mutex);
    int64_t live = um_mem_live_count();
    um_mem_fail_at(1, false);
    CHECK_FAILS(um_thread_start(&thread, answer, &t, "turn"), UM_OUT_OF_MEMORY, "'turn'");
    CHECK(um_mem_live_count() == live);
}

static void look_at_signals(void *arg)
{
    sigset_t set;
    sigemptyset(&set);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    *(bool *)arg = sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGTERM) == 1;
}

static void threads_block_signals(void)
{
    bool blocked = false;
    um_thread thread;
    CHECK_OK(um_thread_start(&thread, look_at_signals, &blocked, "signals"));
    um_thread_join(thread);
    CHECK(blocked);
    look_at_signals(&blocked);
    CHECK(!blocked);
}

static void machine(void)
{
    CHECK(um_os_cpu_count() >= 1);
    int64_t before = um_os_now_ns();
    CHECK(before > 0 && um_os_now_ns() >= before);
    uint64_t total, available, l1, l2, l3;
    um_os_memory(&total, &available);
    CHECK(total >= available);
    um_os_caches(&l1, &l2, &l3);
    CHECK(l1 <= 16 << 20 && (l1 == 0 || l2 == 0 || l1 <= l2));
    char name[64] = "", tiny[3] = "";
    um_os_cpu_name(name, sizeof name);
    CHECK(name[0] != '\0' && strchr(name, '\n') == NULL);
    um_os_cpu_name(tiny, sizeof tiny);
    CHECK(strlen(tiny) <= 2);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void files(void)
{
    char path[] = "/tmp/umbel_test_XXXXXX";
    int fd = mkstemp(path);
    um_file file;
    CHECK_OK(um_file_open(path, &file));
    CHECK(file.size_bytes == 0);
    um_file_close(&file);
    CHECK(write(fd, "hello", 5) == 5);
    close(fd);
    CHECK_OK(um_file_open(path, &file));
    CHECK(file.size_bytes == 5 && memcmp(file.data, "hello", 5) == 0);
    um_file_close(&file);
    CHECK(file.data == NULL && file.size_bytes == 0);
    um_file_close(&file);
    um_file_close(NULL);
    unlink(path);
    CHECK_FAILS(um_file_open(path, &file), UM_NOT_FOUND, path);
    CHECK(um_last_error()->native_code == ENOENT && file.data == NULL);
    CHECK_FAILS(um_file_open("/tmp", &file), UM_IO_ERROR, "/tmp");
    CHECK_FAILS(um_file_open("", &file), UM_NOT_FOUND, "''");
    CHECK_FAILS(um_file_open(NULL, &file), UM_INVALID_ARGUMENT, "NULL");
    CHECK(mkfifo(path, 0600) == 0);
    CHECK_FAILS(um_file_open(path, &file), UM_IO_ERROR, "regular");
    unlink(path);
}

int main(void)
{
    TEST(nothing_failed_yet);
    TEST(variables_read_once); /* first: the children inherit what was read already */
    TEST(status_names);
    TEST(failing_records);
    TEST(messages_are_one_line);
    TEST(long_messages_end_whole);
    TEST(errors_belong_to_threads);
    TEST(allocator_is_replaced);
    TEST(blocks_are_aligned);
    TEST(growing_keeps);
    TEST(failing_at_a_call);
    TEST(failing_once_among_threads);
    TEST(vectors_grow);
    TEST(arena_keeps_and_gives_back);
    TEST(sizes_are_checked);
    TEST(hashes_differ);
    TEST(environment);
    TEST(log_reaches_its_callback);
    TEST(threads_take_turns);
    TEST(threads_block_signals);
    TEST(machine);
    TEST(files);
    CHECK(um_mem_live_count() == 0);
    return TEST_RESULT();
}
