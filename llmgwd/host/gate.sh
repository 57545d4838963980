# The gate: holds one process of a shard back until its scope exists, and keeps its exit status (host/gate.py).
# sh gate.sh STATUS PROGRAM [ARGUMENT...]   with the gate's pipe as standard input

status=$1
shift
# A trap of `:` is reset in the child below; one of '' is inherited, and wanted for PIPE alone, as in a service.
trap : TERM INT HUP QUIT
trap '' PIPE
# End of file: the daemon died, or shut the gate. The program never runs.
read -r word && [ "$word" = go ] || { echo closed 1<>"$status"; exit 111; }
(exec "$@" </dev/null 2>&1)
code=$?
# Written in place into room that was taken beforehand: a full disk can't lose it.
echo "$code" 1<>"$status"
exit "$code"
