/* test/onnx/lists.c: see cases.h. */
#include "cases.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool list_add(list *l, const char *name, const char *why)
{
    entry *more = realloc(l->entries, (l->count + 1) * sizeof *more);
    if (!more) return false;
    l->entries = more;
    more[l->count] = (entry){strdup(name), strdup(why)};
    l->count++;
    return more[l->count - 1].name && more[l->count - 1].why;
}

const entry *list_find(const list *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->entries[i].name, name) == 0) return &l->entries[i];
    return NULL;
}

void list_free(list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->entries[i].name);
        free(l->entries[i].why);
    }
    free(l->entries);
    *l = (list){0};
}

static int by_why(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int why = strcmp(x->why, y->why);
    return why ? why : strcmp(x->name, y->name);
}

bool list_folders(list *l, const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return false;
    bool good = true;
    for (struct dirent *item; good && (item = readdir(folder)) != NULL;)
        if (item->d_name[0] != '.') good = list_add(l, item->d_name, "");
    closedir(folder);
    if (l->count) qsort(l->entries, l->count, sizeof *l->entries, by_why);
    return good;
}

bool list_read(list *l, const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) return false;
    char line[512], why[512] = "";
    bool good = true, head = true;
    while (good && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!line[0])
            head = false;
        else if (line[0] != '#')
            good = list_add(l, line, why);
        else if (!head && strncmp(line, "# ", 2) == 0)
            memcpy(why, line + 2, strlen(line + 2) + 1);
    }
    fclose(file);
    return good;
}

bool list_write(list *l, const char *path, const char *head)
{
    FILE *file = fopen(path, "w");
    if (!file) return false;
    if (l->count) qsort(l->entries, l->count, sizeof *l->entries, by_why);
    fputs(head, file);
    const char *why = "";
    for (size_t i = 0; i < l->count; i++) {
        if (i == 0 || strcmp(l->entries[i].why, why) != 0) fputc('\n', file);
        if (strcmp(l->entries[i].why, why) != 0) fprintf(file, "# %s\n", l->entries[i].why);
        why = l->entries[i].why;
        fprintf(file, "%s\n", l->entries[i].name);
    }
    return fclose(file) == 0;
}
