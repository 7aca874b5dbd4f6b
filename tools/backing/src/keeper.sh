# Keeps one server of a test: starts and kills it as told on standard input, a line each. When that ends, because the
# test is done with it or died in whatever way, kills what is left, does the last words and removes the home.
home=$1
last_words=$2
pid=
started=
# When the test is gone, the kernel hangs up on a group with stopped processes in it; and nobody reads answers then.
trap '' HUP PIPE

# Everything that works in the home, whoever its parent is: a killed server leaves children behind.
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

# Children mostly end by themselves once their server is gone; those that are stopped or stuck do not.
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
# A killed Postgres leaves a small segment of shared memory.
while read -r _ segment _ _ creator _; do
  case $started in *" $creator "*) ipcrm -m "$segment" ;; esac
done </proc/sysvipc/shm
eval "$last_words"
rm -rf "$home"
