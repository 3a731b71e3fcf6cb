# Sourced by ./test: runs one step after another, each a line with its seconds, its full output in a log file.
#
# Every step leaves a line in $steps_file, from which tests/tools/count.py makes the closing count.

steps_init() {  # steps_init DIRECTORY [resume]: with `resume`, what passed before on this very tree is kept
  steps_dir=$1
  steps_file=$steps_dir/steps.tsv
  steps_before=""
  local tree
  tree=$(git rev-parse HEAD 2>/dev/null; git status --porcelain 2>/dev/null)
  if [[ ${2:-} == resume && -f $steps_file && -f $steps_dir/tree && $(<"$steps_dir/tree") == "$tree" ]]; then
    steps_before=$steps_dir/steps.before.tsv
    cat "$steps_file" "$steps_before" 2>/dev/null | sort -u >"$steps_before.new"
    mv "$steps_before.new" "$steps_before"
  else
    rm -rf "$steps_dir"
  fi
  mkdir -p "$steps_dir/logs"
  printf '%s\n' "$tree" >"$steps_dir/tree"
  : >"$steps_file"
  started=$SECONDS
}

# kept KIND NAME: whether this step passed before in the run that is resumed; it is then recorded again.
kept() {
  local line
  [[ -n $steps_before ]] || return 1
  line=$(awk -F'\t' -v kind="$1" -v name="$2" '$1 == kind && $2 == name && $3 == "passed"' "$steps_before" | head -n 1)
  [[ -n $line ]] || return 1
  printf '%s\n' "$line" >>"$steps_file"
  printf '[%s] %-24s %-7s\n' "$(clock)" "$2" kept
}

log_of() { printf '%s/logs/%s.log' "$steps_dir" "${1//[^A-Za-z0-9_.-]/-}"; }  # log_of STEP

# entries_passed NAME: the ctest entries that passed in that step of the runs that are resumed, one a line.
entries_passed() {
  local all
  all=$steps_dir/passed-${1//[^A-Za-z0-9_.-]/-}
  [[ -z $steps_before || ! -f $(log_of "$1") ]] ||
    sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) \.*  *Passed .*/\1/p' "$(log_of "$1")" >>"$all"
  cat "$all" 2>/dev/null || true
}

record() { printf '%s\t%s\t%s\t%s\t%s\n' "$@" >>"$steps_file"; }  # record KIND NAME STATUS SECONDS RESULTS

clock() { printf '%d:%02d' $((SECONDS / 60)) $((SECONDS % 60)); }

# While a step runs: on a terminal its last line of output, elsewhere a sign of life every two minutes.
watch_step() {  # watch_step PID LABEL LOG
  local begin=$SECONDS line
  while kill -0 "$1" 2>/dev/null; do
    if [[ -t 1 ]]; then
      line=$(tail -c 400 "$3" 2>/dev/null | tr '\r' '\n' | sed -e 's/[^[:print:]]//g' -e '/^$/d' | tail -n 1)
      printf '\r\033[K%s  %s' "$2" "${line:0:80}"
      sleep 0.5
    else
      sleep 0.2
      if (((SECONDS - begin) >= 120)); then
        printf '%s  still running\n' "$2"
        begin=$SECONDS
      fi
    fi
  done
  [[ ! -t 1 ]] || printf '\r\033[K'
}

# step KIND NAME [RESULTS] -- COMMAND...: runs it, prints its line, records it; returns 1 when it failed.
# A gate that exits 77 is skipped; the last line of its output says why.
step() {
  local kind=$1 name=$2 results=""
  shift 2
  if [[ $1 != -- ]]; then
    results=$1
    shift
  fi
  shift
  local log code=0 from to seconds label status note=""
  log=$(log_of "$name")
  label=$(printf '[%s] %-24s' "$(clock)" "$name")
  from=$(date +%s%N)
  set -m  # a process group of its own, so that an interrupted run leaves no compiler behind
  "$@" </dev/null >"$log" 2>&1 &
  current_step=$!
  set +m
  watch_step "$current_step" "$label" "$log"
  wait "$current_step" || code=$?
  current_step=""
  to=$(date +%s%N)
  seconds=$(printf '%d.%d' $(((to - from) / 1000000000)) $(((to - from) / 100000000 % 10)))
  case $code in
    0) status=passed ;;
    77) status=skipped note=$(tail -n 1 "$log") ;;
    *) status=failed note="exit code $code" ;;
  esac
  [[ $kind != build || $status != skipped ]] || status=failed
  record "$kind" "$name" "$status" "$seconds" "$results"
  if [[ $kind == cases ]]; then
    note=$("$python" tests/tools/count.py --results "$results" 2>&1 | tail -n 1) || status=failed
  fi
  printf '%s %-7s %7ss  %s\n' "$label" "$status" "$seconds" "$note"
  [[ $status == failed ]] || return 0
  if [[ $kind == cases ]]; then
    "$python" tests/tools/count.py --failures --results "$results" | sed '$d'
  fi
  printf -- '------ the last lines of %s\n' "$log"
  tail -n 40 "$log"
  printf -- '------\n'
  return 1
}
