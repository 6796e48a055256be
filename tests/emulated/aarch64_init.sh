#!/bin/busybox sh
# The first process of the emulated machine: file systems, then guest.py; what that prints goes to
# the console, and with its end the machine is switched off.
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t tmpfs -o mode=1777 tmp /tmp
/bin/busybox mkdir -p /dev/shm /run
/bin/busybox ip link set lo up
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 PYTHONPATH=/dballoc PYTHONDONTWRITEBYTECODE=1
/usr/bin/python3 /guest.py 2>&1
echo "guest: exit $?"
/bin/busybox poweroff -f
