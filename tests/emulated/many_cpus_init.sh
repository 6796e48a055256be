#!/bin/busybox sh
# The first process of the emulated machine with many CPUs: unpack the kit and run it, once to its end, once killed in
# the middle and resumed, once with duets. What happened goes to the host by /dev/vport0p1, as a tar archive:
#   boot        when it booted, in Unix time
#   topology    CPU, CPUs of its core, its node; a line a CPU
#   placed      seconds since the boot, name, PID, threads and CPUs of a server or client, about once a second
#   left        what was left running after each run
#   outside     files that were written beside the kit
#   whole/ resumed/ halves/   the results directories
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t cgroup2 cgroup /sys/fs/cgroup
/bin/busybox mount -t tmpfs -o mode=1777 tmp /tmp
/bin/busybox mkdir -p /dev/shm /run /bin /usr/bin /out
/bin/busybox --install /bin 2>/dev/null
ip link set lo up
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8

# Seconds that a run may take.
LONGEST=900

say() { echo "guest: $(cut -d' ' -f1 /proc/uptime) $*"; }

write_topology() {
    sed -n 's/^btime //p' /proc/stat >/out/boot
    for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
        node=$(echo "$cpu"/node[0-9]*)
        echo "${cpu##*/cpu} $(cat "$cpu/topology/thread_siblings_list") ${node##*/node}"
    done >/out/topology
}

# Where the main threads of servers and clients may run. Nothing is started for a look but pidof.
watch_places() {
    while sleep 1; do
        read -r now _ </proc/uptime
        for pid in $(pidof mariadbd sysbench); do
            threads='' cpus='' name=''
            while IFS=':	 ' read -r key value _; do
                case $key in
                Name) name=$value ;;
                Threads) threads=$value ;;
                Cpus_allowed_list) cpus=$value ;;
                esac
            done 2>/dev/null <"/proc/$pid/status"
            [ -z "$cpus" ] || echo "$now $name $pid $threads $cpus"
        done
    done >>/out/placed 2>/dev/null
}

# Programs of the kit that run.
list_left() {
    for directory in /proc/[0-9]*; do
        case $(readlink "$directory/exe") in
        /kit/*) echo "$1 ${directory#/proc/} $(tr '\0' ' ' <"$directory/cmdline")" ;;
        esac
    done 2>/dev/null >>/out/left
}

# Run the kit with options, its output to the console (by cat, for it is no terminal); results go to /out. What fails is
# noted, and the rest goes on.
run_kit() {
    name=$1
    shift
    say "$name begins"
    { timeout "$LONGEST" /kit/run "$@" 2>&1 || touch /out/failed; } | cat
    say "$name ended"
    list_left "$name"
    mv /kit/results "/out/$name" || touch /out/failed
}

# Let everything but this process be killed while the kit measures its third trial.
kill_kit() {
    say "killed begins"
    /kit/run "$@" 2>&1 | cat &
    waited=0
    until [ "$(ls /kit/results/trials 2>/dev/null | wc -l)" -ge 3 ] || [ $waited -ge $LONGEST ]; do
        sleep 1
        waited=$((waited + 1))
    done
    sleep 3
    kill -9 -1
    say "all are killed"
}

write_topology
mkdir /kit
tar -xzf /kit.tar.gz -C /kit --strip-components=1 && rm /kit.tar.gz
say "the kit is unpacked"

watch_places &
run_kit whole
kill_kit
watch_places &
run_kit resumed
run_kit halves --cpus 16 --design duet

find / -xdev -type f -newer /out/topology ! -path '/kit/*' ! -path '/out/*' >/out/outside
tar -cf /dev/vport0p1 -C /out .
[ -e /out/failed ] || echo "guest: exit 0"
poweroff -f
