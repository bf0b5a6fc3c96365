/* cli/json.c: writes JSON. The caller keeps the order right; nothing is kept in memory. */
#include "cli/cli.h"

#include <math.h>

static void write_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(file, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, file);
    }
    fputc('"', file);
}

static void start_line(cli_json *json)
{
    if (json->depth > 0) fputc('\n', json->file);
    for (int32_t i = 0; i < json->depth; i++) fputs("  ", json->file);
}

static void start_value(cli_json *json, const char *key)
{
    if (json->filled) fputc(',', json->file);
    start_line(json);
    if (key) {
        write_text(json->file, key);
        fputs(": ", json->file);
    }
    json->filled = true;
}

void cli_json_open(cli_json *json, const char *key, char bracket)
{
    start_value(json, key);
    fputc(bracket, json->file);
    json->depth++;
    json->filled = false;
}

void cli_json_close(cli_json *json, char bracket)
{
    json->depth--;
    if (json->filled) {
        fputc('\n', json->file);
        for (int32_t i = 0; i < json->depth; i++) fputs("  ", json->file);
    }
    fputc(bracket, json->file);
    if (json->depth == 0) fputc('\n', json->file);
    json->filled = true;
}

void cli_json_text(cli_json *json, const char *key, const char *value)
{
    start_value(json, key);
    if (value)
        write_text(json->file, value);
    else
        fputs("null", json->file);
}

void cli_json_int(cli_json *json, const char *key, int64_t value)
{
    start_value(json, key);
    fprintf(json->file, "%lld", (long long)value);
}

void cli_json_u64(cli_json *json, const char *key, uint64_t value)
{
    start_value(json, key);
    fprintf(json->file, "%llu", (unsigned long long)value);
}

void cli_json_bool(cli_json *json, const char *key, bool value)
{
    start_value(json, key);
    fputs(value ? "true" : "false", json->file);
}

void cli_json_number(cli_json *json, const char *key, double value)
{
    start_value(json, key);
    if (isfinite(value))
        fprintf(json->file, "%.17g", value);
    else
        fputs("null", json->file);
}
