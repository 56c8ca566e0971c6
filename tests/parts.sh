# shellcheck shell=bash
# Measures the parts of a long run, and ends it with a table of their costs.

# Keeps finished parts, as NAME WALL USER SYSTEM in seconds, and the output of all parts in the folder $1.
parts_begin() {
  parts=$1 parts_current=
  declare -gA parts_aside=()
  rm -rf "$parts"
  mkdir -p "$parts"
  trap parts_end EXIT
}

# part NAME COMMAND...: runs the command. Its CPU time is the sum over all processes that it has waited for.
part() {
  parts_current=$1
  printf '\n== %s\n' "$1"
  part_run "$@" 2>&1 | tee "$parts/$1.log"
  parts_current=
}

# The same while other parts run, until `part_join NAME`. Its processes are a group, so that all of them end with the run.
part_aside() {
  set -m
  part "$@" </dev/null >/dev/null &
  set +m
  parts_aside[$1]=$!
}

# Waits for a part that runs at the same time, and shows its output.
part_join() {
  local status=0
  parts_current=$1
  wait "${parts_aside[$1]}" || status=$?
  cat "$parts/$1.log"
  [ "$status" -eq 0 ] || exit "$status"
  parts_current=
}

# A subshell, so that a part that runs at the same time is not counted here.
part_run() (
  TIMEFORMAT="$1 %R %U %S"
  exec 3>&1
  { time "${@:2}" >&3 2>&1; } 2>>"$parts/times"
)

parts_end() {
  local status=$?
  trap - EXIT
  # A table without skipped tests, or a job that has just ended, fails no run.
  set +e
  jobs -p | sed 's/^/-/' | xargs -r kill --
  if [ -n "$parts_current" ]; then
    [ "$status" -ne 0 ] || status=1
    printf '\nFAILED: %s\n' "$parts_current" >&2
  fi
  awk '
    { wall[NR] = $2; cpu[NR] = $3 + $4; name[NR] = $1; sum += cpu[NR]; n = NR }
    END {
      printf "\n%-12s %8s %8s %6s\n", "part", "wall s", "CPU s", "share"
      for (i = 1; i <= n; i++) printf "%-12s %8.0f %8.0f %4.0f %%\n", name[i], wall[i], cpu[i], 100 * cpu[i] / (sum ? sum : 1)
      printf "%-12s %8.0f %8.0f\n", "sum", '"$SECONDS"', sum
    }' "$parts/times"
  grep -oh 'skipped: [^ ]*: .*' "$parts"/*.log | sort -u
  echo "skipped tests: $(grep -oh 'skipped: [^ ]*: .*' "$parts"/*.log | sort -u | wc -l)"
  exit "$status"
}
