/* test/onnx/cases.h: one operator case, and the two lists of what is expected of them. */
#ifndef UM_TEST_ONNX_CASES_H
#define UM_TEST_ONNX_CASES_H

#include "run.h"

/* ---- one case (compare.c) -----------------------------------------------------------------------
 */

/* Runs DIR/NAME; "" in why: its outputs are as the case says. detail, for people, may say more. */
typedef struct verdict {
    char why[RUN_WHY];
    char detail[RUN_WHY];
} verdict;
verdict run_case(um_device *device, um_stream *stream, const char *dir, const char *name);
/* Whether a value is what a file says; if not, the run has failed. */
bool compare(run *r, const value *got, const onnx_tensor *want, verdict *v);

/* ---- names with a reason each (lists.c) ---------------------------------------------------------
 */

typedef struct entry {
    char *name;
    char *why; /* "" in the list of what passes */
} entry;

typedef struct list {
    entry *entries;
    size_t count;
} list;

bool list_add(list *l, const char *name, const char *why);
const entry *list_find(const list *l, const char *name);
void list_free(list *l);
/* The folders of a folder, sorted. */
bool list_folders(list *l, const char *path);
/* Lines; "# why" says why of those that follow; "#" at the file's head is a comment until the first
 * empty line. */
bool list_read(list *l, const char *path);
/* Sorted by why, then by name, after that head. */
bool list_write(list *l, const char *path, const char *head);

#endif
