/* cli/progress.c: one line on a terminal's stderr that says how far long work is. */
#include "cli/cli.h"

#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, UPDATE_NS = 100000000 };

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void cli_progress_start(cli_progress *progress)
{
    *progress = (cli_progress){.on = isatty(STDERR_FILENO) == 1};
}

void cli_progress_update(cli_progress *progress, int64_t done, int64_t total, const char *what)
{
    if (!progress->on || total < 1) return;
    int64_t now = now_ns();
    if (now - progress->last_ns < UPDATE_NS) return;
    progress->last_ns = now;
    int filled = (int)(done * BAR_WIDTH / total);
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR_WIDTH] = 0;
    fprintf(stderr, "\r[%s] %3d%% %-40.40s", bar, (int)(done * 100 / total), what);
    fflush(stderr);
}

void cli_progress_clear(cli_progress *progress)
{
    if (!progress->on) return;
    fprintf(stderr, "\r\033[K");
    fflush(stderr);
    progress->last_ns = 0;
}
