#!/bin/sh
# generate_test.sh UMBEL MODELS: `umbel generate` prints the published story, and answers wrong
# input with one line and the right exit code.
set -u
umbel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
models=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
[ -x "$umbel" ] || { echo "no program at $umbel"; exit 1; }
unset UMBEL_DEVICE UMBEL_THREADS UMBEL_FAIL_ALLOC

report() {
    failures=$((failures + 1))
    echo "FAIL $1"
}

# story NAME ARGS...: prints exactly the published story.
story() {
    name=$1
    shift
    "$umbel" generate "$@" --steps 200 --temperature 0 >"$work/out" 2>"$work/err" ||
        report "$name: exit code $?"
    cmp "$work/out" "$models/stories260K_greedy200.txt" || report "$name: another story"
    [ "$(wc -l <"$work/err")" = 1 ] || report "$name: wanted one line about the speed"
    grep -q 'tokens/s' "$work/err" || report "$name: no speed"
}

# fails CODE TEXT ARGS...: that exit code, one line on stderr that holds TEXT, nothing on stdout.
fails() {
    code=$1
    text=$2
    shift 2
    "$umbel" generate "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ $got = "$code" ] || report "generate $*: exit code $got, wanted $code"
    [ "$(wc -l <"$work/err")" = 1 ] || report "generate $*: wanted one line, got $(cat "$work/err")"
    grep -qF -- "$text" "$work/err" || report "generate $*: no '$text' in: $(cat "$work/err")"
    [ -s "$work/out" ] && report "generate $*: wrote to stdout"
}

model=$models/stories260K.bin
tokenizer=$models/tok512.bin

# ---- stories -------------------------------------------------------------------------------------
story 'tokenizer given' "$model" --tokenizer "$tokenizer"
story 'tokenizer found' "$model"
(cd "$models" && "$umbel" generate stories260K.bin --steps 3 --temperature 0 2>/dev/null) |
    grep -q '^Once upon' || report 'model in the current folder'
for threads in 1 2 3; do
    UMBEL_THREADS=$threads
    export UMBEL_THREADS
    story "$threads threads" "$model"
done
unset UMBEL_THREADS

# A prompt that is the story's own start leads to the story, prompt and all.
story 'prompt' "$model" --prompt 'Once upon a time, there was a little girl'
printf 'Once upon a time, there' | "$umbel" generate "$model" --prompt - --steps 200 \
    --temperature 0 2>/dev/null | cmp - "$models/stories260K_greedy200.txt" || report 'prompt from stdin'

# The same seed tells the same story, another one another.
for seed in 7 7 8; do
    "$umbel" generate "$model" --steps 60 --seed $seed --top-k 50 2>"$work/err" || report "seed $seed"
    grep -q "seed $seed\$" "$work/err" || report "seed $seed is not named"
done >"$work/all"
lines=$(sort -u "$work/all" | wc -l)
all=$(wc -l <"$work/all")
[ "$lines" -lt "$all" ] || report 'the same seed told another story'

# Steps are positions: never more than the context, and a prompt counts.
[ "$("$umbel" generate "$model" --temperature 0 --steps 1 2>/dev/null)" = 'Once' ] || report '1 step'
[ "$("$umbel" generate "$model" --prompt 'Once upon' --steps 1 2>/dev/null)" = 'Once' ] ||
    report 'fewer steps than the prompt has tokens'
"$umbel" generate "$model" --steps 100000 --temperature 0 >/dev/null 2>"$work/err" ||
    report 'more steps than the context'
"$umbel" generate --help | grep -q -- '--temperature X' || report '--help'

# ---- wrong usage ---------------------------------------------------------------------------------
fails 2 'MODEL is missing'
fails 2 "'-1'" "$model" --steps -1
fails 2 "'1.5'" "$model" --top-p 1.5
fails 2 "'nan'" "$model" --temperature nan
fails 2 "'-2'" "$model" --top-k -2
fails 2 "'x'" "$model" --seed x
fails 2 "no option '--stepz'" "$model" --stepz 4

# ---- failures ------------------------------------------------------------------------------------
fails 1 "$work/no-such" "$work/no-such"
fails 1 "$work" "$work"
fails 1 "$tokenizer" "$tokenizer"
mkdir "$work/alone" && cp "$model" "$work/alone/model.bin"
fails 1 'tok512.bin nor tokenizer.bin' "$work/alone/model.bin"
fails 1 'no/such' "$model" --tokenizer no/such
fails 1 "$model" "$model" --tokenizer "$model"
fails 1 'no-such-device' "$model" --device no-such-device
printf '%600s' '' | tr ' ' '!' >"$work/long"
"$umbel" generate "$model" --prompt - <"$work/long" >"$work/out" 2>"$work/err" &&
    report 'a prompt longer than the context: wanted a failure'
grep -qF "makes 602 tokens, wanted at most the model's 512" "$work/err" ||
    report "a prompt longer than the context: $(cat "$work/err")"

head -c 1000000 "$model" >"$work/short.bin"
fails 1 'got 1000000 bytes, wanted 1056540' "$work/short.bin" --tokenizer "$tokenizer"
{ cat "$model" && echo; } >"$work/longer.bin"
fails 1 'got 1056541 bytes, wanted 1056540' "$work/longer.bin" --tokenizer "$tokenizer"
: >"$work/empty.bin"
fails 1 'got 0 bytes' "$work/empty.bin" --tokenizer "$tokenizer"
head -c 6000 "$tokenizer" >"$work/short.tok"
fails 1 'CORRUPT_DATA' "$model" --tokenizer "$work/short.tok"

if [ -w /dev/full ]; then
    "$umbel" generate "$model" --steps 20 >/dev/full 2>"$work/err"
    [ $? = 1 ] || report 'full disk: wanted exit code 1'
    [ "$(wc -l <"$work/err")" = 1 ] || report "full disk: wanted one line, got $(cat "$work/err")"
    grep -q 'standard output' "$work/err" || report 'full disk: no message'
fi
"$umbel" generate "$model" --steps 20 >&- 2>"$work/err" && report 'closed stdout: wanted a failure'

# ---- memory --------------------------------------------------------------------------------------
n=1
while [ $n -lt 3000 ]; do
    UMBEL_FAIL_ALLOC=$n "$umbel" generate "$model" --steps 3 >/dev/null 2>"$work/err"
    got=$?
    [ $got = 0 ] && break
    [ $got = 1 ] || report "allocation $n fails: exit code $got, wanted 1"
    [ "$(wc -l <"$work/err")" = 1 ] || report "allocation $n fails: got $(cat "$work/err")"
    n=$((n + 1 + n / 8))
done
[ $n -lt 3000 ] || report 'never enough memory'

[ $failures = 0 ] && echo 'generate: all as wanted'
exit $((failures != 0))
