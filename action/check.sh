# shellcheck shell=bash
# Checks $RUN with the rules of $WATCH. Prints the findings, adds them to the job's summary, and
# exits with the code of tocsin check: 1 for findings as severe as $FAIL_ON.
set -u
out=$(mktemp -d "$RUNNER_TEMP/tocsin-check.XXXXXX")  # a job may use the action several times
watch=()
if [ -n "$WATCH" ]; then watch=(--watch "$WATCH"); fi

check() { tocsin check "$RUN" "${watch[@]}" --fail-on "$FAIL_ON" "$@"; }

check --junit "$out/junit.xml" >"$out/findings.txt"
code=$?
cat "$out/findings.txt"
if [ -s "$out/junit.xml" ]; then
  check --json >"$out/check.json" 2>/dev/null
  tocsin report "$RUN" "${watch[@]}" -o "$out/report.html" >/dev/null 2>&1
fi

{
  printf '### Tocsin: exit code %s\n\n' "$code"
  sed 's/^/    /' "$out/findings.txt"  # an indented block: nothing in it is markup
} >>"$GITHUB_STEP_SUMMARY"
for kind in junit.xml check.json report.html; do
  name=${kind%%.*}
  if [ "$name" = check ]; then name=json; fi
  if [ -s "$out/$kind" ]; then echo "$name=$out/$kind" >>"$GITHUB_OUTPUT"; fi
done
exit "$code"
