# The gate: holds one process of a shard back until its scope exists, and keeps its exit status (host/gate.py).
# sh gate.sh STATUS PROGRAM [ARGUMENT...]   with the gate's pipe as standard input
# It has no variables of its own: the program's environment may hold any name.

# A trap of `:` is reset in the child below; one of '' is inherited, and wanted for PIPE alone, as in a service.
trap : TERM INT HUP QUIT
trap '' PIPE
# End of file: the daemon died, or shut the gate. The program never runs.
read -r REPLY && [ "$REPLY" = go ] || { echo closed 1<>"$1"; exit 111; }
# What shells export unasked is taken back.
(shift; unset OLDPWD PWD SHLVL; exec "$@" </dev/null 2>&1)
set -- "$1" "$?"
# Written in place into room that was taken beforehand: a full disk can't lose it.
echo "$2" 1<>"$1"
exit "$2"
