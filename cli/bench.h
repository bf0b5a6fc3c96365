/* cli/bench.h: what the files of `umbel bench` share: the cases (bench_cases.c), the machine's own
 * limits (bench_machine.c). bench.c measures and shows.
 */
#ifndef UM_CLI_BENCH_H
#define UM_CLI_BENCH_H

#include <umbel/device.h>

/* What bounds a case's speed. */
typedef enum bench_limit { BENCH_F32_PEAK, BENCH_F64_PEAK, BENCH_BANDWIDTH } bench_limit;

typedef struct bench_case {
    char name[64];
    um_op op; /* packed views without pointers */
    bench_limit limit;
    double work; /* floating-point operations; for BENCH_BANDWIDTH bytes read and written */
} bench_case;

/* Case `index`, or false past the last. */
bool bench_get_case(int32_t index, bench_case *out);

typedef struct bench_machine {
    double limit[3]; /* by bench_limit: operations or bytes a second */
} bench_machine;

/* Measures this machine with `threads` threads; takes about a second. OUT_OF_MEMORY. */
um_status bench_machine_measure(int32_t threads, bench_machine *out);

#endif
