# Keeps one server of a test: starts and kills it by commands on standard input, one per line. At the end of standard
# input, because the test is done or has died, kills the remaining processes, runs the last words and removes the home.
home=$1
last_words=$2
pid=
started=
# After the test has died, the kernel sends SIGHUP to a process group with stopped processes, and no process reads answers.
trap '' HUP PIPE

# each COMMAND: applies COMMAND to every process whose working directory is the home, regardless of its parent: a killed
# server leaves children behind.
each() {
  for cwd in /proc/[0-9]*/cwd; do
    if [ "$cwd" -ef "$home" ] || [ "$cwd" -ef "$home/data" ]; then
      one=${cwd#/proc/}
      "$@" "${one%/cwd}"
    fi
  done
}
count() { left=$((left + 1)); }
slay() { kill -9 "$1"; }

# gone TURNS: kills the server and waits for its children; those that have not ended after TURNS are killed as well.
gone() {
  if [ -n "$pid" ]; then
    kill -9 "$pid"
    wait "$pid"
    pid=
  fi
  turns=0
  while [ $turns -lt 1000 ]; do
    left=0
    each count
    [ $left -gt 0 ] || return
    [ $turns -lt "$1" ] || each slay
    turns=$((turns + 1))
    sleep 0.02
  done
}

while read -r word text; do
  case $word in
    start)
      eval "exec $text" </dev/null >>"$home/log" 2>&1 &
      pid=$!
      started="$started $pid "
      echo "$pid"
      ;;
    run)
      (eval "$text") </dev/null >>"$home/log" 2>&1
      echo $?
      ;;
    kill)
      gone 150
      echo 0
      ;;
  esac
done

gone 0
# A killed Postgres leaves a small segment of shared memory, which is removed here.
while read -r _ segment _ _ creator _; do
  case $started in *" $creator "*) ipcrm -m "$segment" ;; esac
done </proc/sysvipc/shm
eval "$last_words"
rm -rf "$home"
