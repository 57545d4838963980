#!/bin/sh
# Boots a throw-away machine over this host's root, and removes its every trace when standard input ends.
#
# Standard input is a pipe whose other end only the asking process holds, so that its death, SIGKILL included, ends the machine.
# Runs in a mount namespace of its own and a session of its own: no mount is seen outside, no terminal's signal gets in.
#
# usage: boot.sh CGROUP LAYER TREE NSPAWN-OPTION...
#   CGROUP  the cgroup2 directory to make for it, and to remove
#   LAYER   a tar archive that is laid over the host's root
#   TREE    the source tree, to be seen read only at /usr/src/llmgwd
set -eu
cgroup=$1 layer=$2 tree=$3
shift 3
exec 3<&0 </dev/null

# The host's /run and, below, its /tmp are out of sight from here on: what nspawn writes there goes with the namespace.
mount -t tmpfs -o mode=0755 tmpfs /run
root=/run/machine/root

cover() {
    # Beside each other: one inside another's would be two mounts on the same files.
    name=$(echo "$1" | tr / -)
    upper=/run/machine/upper$name work=/run/machine/work$name
    mkdir -p "$upper" "$work" "$root"
    mount -t overlay -o "lowerdir=$1,upperdir=$upper,workdir=$work" overlay "$root$1"
}
cover /
# An overlay shows one file system only.
for place in /usr /var /opt; do
    if mountpoint -q "$place"; then cover "$place"; fi
done

# What this host has enabled and configured is no part of the machine.
rm -rf "$root/etc/systemd" "$root"/etc/rc?.d "$root/etc/llmgwd" "$root/var/lib/llmgwd" "$root/var/lib/llmgw"
tar --extract --file="$layer" --directory="$root" --keep-directory-symlink
systemd-sysusers --root="$root"
mkdir -p "$root/usr/src/llmgwd"
mount --bind -o ro "$tree" "$root/usr/src/llmgwd"
mount -t tmpfs -o mode=1777 tmpfs /tmp

end() {
    tries=0
    while [ -e "$cgroup" ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 1000 ]; then echo "cannot remove $cgroup" >&2; exit 1; fi
        { echo 1 >"$cgroup/cgroup.kill"; } 2>/dev/null || :
        # By exact path, deepest first; busy until the last process is gone, which takes milliseconds.
        find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.01
    done
    # On a hybrid host nspawn makes one of the same name for its payload, which never has a process in it.
    twin=/sys/fs/cgroup/systemd/${cgroup##*/}
    [ ! -e "$twin" ] || find "$twin" -depth -type d -exec rmdir {} + 2>/dev/null || :
}
mkdir "$cgroup"
trap end EXIT

# The machine's first process is in the cgroup before it starts anything, and dies with this shell.
(
    echo 0 >"$cgroup/cgroup.procs"
    exec setpriv --pdeathsig KILL systemd-nspawn --directory="$root" "$@" 3<&-
) &
machine=$!
(
    read -r _ <&3 || :
    # Even if it is not in the cgroup yet; what it has started is there, for end() to kill.
    kill -KILL "$machine" 2>/dev/null || :
    end  # here too, for the case that the waiting shell was killed
) &
watch=$!
status=0
wait "$machine" || status=$?
kill "$watch" 2>/dev/null || :
exit "$status"
