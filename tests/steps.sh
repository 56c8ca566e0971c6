# shellcheck shell=bash
# Shows how a long preparation proceeds: one line per step when it starts and ends, and a line every few seconds between.
#
#   [ 2:10]  31 %  tree       installing 60 packages
#    elapsed  of the expected work of all steps
#
# Steps may run at the same time. RCI_STEPS is the folder with their state: NAME.weight (expected CPU seconds), NAME.percent and
# NAME.log (all output of the step). A script that finds the variable set adds its steps to that folder.

steps_begin() {
  export RCI_STEPS=$1
  rm -rf "$RCI_STEPS"
  mkdir -p "$RCI_STEPS"
  date +%s >"$RCI_STEPS/started"
}

# step_planned NAME WEIGHT: announces a step, so that it counts in the percentage from now on.
step_planned() {
  [ -e "$RCI_STEPS/$1.weight" ] && return
  echo "$2" >"$RCI_STEPS/$1.weight"
  echo 0 >"$RCI_STEPS/$1.percent"
}

# step_run NAME TEXT COMMAND...: runs the command with its output in NAME.log; if it fails, prints the end of that log.
step_run() {
  local name=$1 text=$2 log=$RCI_STEPS/$1.log started=$SECONDS pid status=0
  shift 2
  step_planned "$name" 5
  step_line "$name" "$text ($(step_share "$name") % of the work)"
  "$@" >"$log" 2>&1 &
  pid=$!
  step_watch "$name" "$pid" "$log"
  wait "$pid" || status=$?
  if [ "$status" -ne 0 ]; then
    step_line "$name" "FAILED with status $status after $((SECONDS - started)) s; the end of $log:"
    tr '\r' '\n' <"$log" | tail -n 20 >&2
    return "$status"
  fi
  echo 100 >"$RCI_STEPS/$name.percent"
  step_line "$name" "done in $((SECONDS - started)) s"
}

# step_progress PERCENT TEXT: reports a step's own progress in its log.
step_progress() { printf 'PROGRESS %s %s\n' "$1" "$2"; }

# Prints a line when a step has gained 10 % and at least every 15 seconds, while the process lives.
step_watch() {
  local name=$1 pid=$2 log=$3 shown=0 quiet=0 percent text
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    quiet=$((quiet + 1))
    # The last progress in the log: our own line, or cargo's bar, which ends in "34/150: crate".
    read -r percent text < <(tail -c 3000 "$log" | tr '\r' '\n' | sed -E 's/\x1b\[[0-9;]*[A-Za-z]//g' | awk '
      /^PROGRESS / { percent = $2; $1 = $2 = ""; text = $0 }
      match($0, /[0-9]+\/[0-9]+: /) {
        split(substr($0, RSTART, RLENGTH - 2), n, "/"); percent = int(100 * n[1] / n[2]); text = "crate " n[1] " of " n[2]
      }
      END { print percent + 0, text }') || true
    [ "${percent:-0}" -ge "$shown" ] || percent=$shown
    echo "$percent" >"$RCI_STEPS/$name.percent"
    if [ "$percent" -ge $((shown + 10)) ] || [ "$quiet" -ge 15 ]; then
      step_line "$name" "$percent % of this step${text:+: $text}"
      shown=$percent
      quiet=0
    fi
  done
}

step_share() {
  local sum=0 file
  for file in "$RCI_STEPS"/*.weight; do sum=$((sum + $(<"$file"))); done
  echo $((100 * $(<"$RCI_STEPS/$1.weight") / (sum > 0 ? sum : 1)))
}

step_line() {
  local sum=0 finished=0 weight percent file elapsed
  for file in "$RCI_STEPS"/*.weight; do
    weight=$(<"$file")
    percent=$(<"${file%.weight}.percent")
    sum=$((sum + weight))
    finished=$((finished + weight * ${percent:-0}))
  done
  elapsed=$(($(date +%s) - $(<"$RCI_STEPS/started")))
  printf '[%2d:%02d] %3d %%  %-10s %s\n' $((elapsed / 60)) $((elapsed % 60)) $((finished / (sum > 0 ? sum : 1))) "$1" "$2" >&2
}
