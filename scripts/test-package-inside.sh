#!/usr/bin/env bash
# Runs inside the container of scripts/test-package.sh, as root under systemd: installs the package, and tests the
# service. The last line of its output is "all checks passed".
set -euo pipefail

check() { printf 'check: %s\n' "$*"; }
trap 'printf "FAILED at line %s\n" "$LINENO"; systemctl status --no-pager --full lineside || true
    journalctl --no-pager --lines=40 --unit=lineside || true' ERR

show() { systemctl show --property="$1" --value lineside; }
# Waits until a command succeeds, for at most 60 s.
await() {
    local begun=$SECONDS
    until "$@"; do
        [ $((SECONDS - begun)) -lt 60 ] || { echo "not within 60 s: $*"; return 1; }
        sleep 0.2
    done
}
is_restarted() { [ "$(show NRestarts)" = "$1" ] && [ "$(show ActiveState)" = active ]; }
is_stopped() { [ "$(show ActiveState)" = inactive ]; }
balance() { lineside transfer refer 1 --json; }

export DEBIAN_FRONTEND=noninteractive
dpkg --install /root/lineside.deb
[ "$(getent passwd lineside | cut -d: -f6)" = /var/lib/lineside ]
[ "$(systemctl is-enabled lineside || true)" = disabled ]
[ "$(show ActiveState)" = inactive ]
lineside --version
check "installed: the user exists, the service is neither enabled nor started"

# If the configuration enables no service, the start fails once and is not repeated.
! systemctl start lineside
sleep 3 # longer than RestartSec
[ "$(show ActiveState)/$(show Result)/$(show NRestarts)" = failed/exit-code/0 ]
journalctl --unit=lineside | grep -q 'no service is enabled'
systemctl reset-failed lineside
check "a configuration without a service is refused, and not tried again"

sed -i '/^\[transfer\]/,/^\[/{s/^enabled = false/enabled = true/;s/^data = ""/data = "ledger"/}' \
    /etc/lineside/lineside.toml
mkdir -p /etc/systemd/system/lineside.service.d
# Shortens the watchdog's times; only the test of the watchdog needs that.
printf '[Service]\nWatchdogSec=3\nTimeoutAbortSec=2\n' >/etc/systemd/system/lineside.service.d/test.conf
systemctl daemon-reload
systemctl enable --now lineside
# The unit has Type=notify, so the server answers once `systemctl start` has returned.
[ "$(show ActiveState)" = active ]
lineside transfer create 1 100
[[ "$(balance)" == *'"balance":100'* ]]
pid=$(show MainPID)
[ "$(stat -c %U "/proc/$pid")" = lineside ]
[ "$(awk '/^NoNewPrivs/ {print $2}' "/proc/$pid/status")" = 1 ]
[ "$(awk '/^Seccomp:/ {print $2}' "/proc/$pid/status")" = 2 ]
[ "$(stat -c '%U %a' /var/lib/lineside/ledger)" = "lineside 700" ]
journalctl --sync
[ "$(journalctl --unit=lineside --output=cat | grep -c 'transfer on 127.0.0.1:7702')" = 1 ]
check "started: $(show StatusText), as user lineside, capabilities $(awk '/^CapEff/ {print $2}' "/proc/$pid/status")"

kill -KILL "$pid"
await is_restarted 1
[[ "$(balance)" == *'"balance":100'* ]]
check "killed: started again, with its data"

sleep 4 # longer than the watchdog's limit: a server that reports stays
[ "$(show NRestarts)" = 1 ]
kill -STOP "$(show MainPID)"
await is_restarted 2
journalctl --unit=lineside | grep -q 'Watchdog timeout'
[[ "$(balance)" == *'"balance":100'* ]]
check "stopped by SIGSTOP: the watchdog started it again"

systemctl restart lineside
[[ "$(balance)" == *'"balance":100'* ]]
check "restarted"

# Damages the last record of the journal, as a bad disk would. The start fails once and is not repeated.
systemctl stop lineside
segment=$(ls /var/lib/lineside/ledger/*.log | tail -n 1)
cp --preserve "$segment" /root/sound.log
perl -e 'open my $file, "+<:raw", $ARGV[0] or die; local $/; my $content = <$file>; my $at = length($content) - 1;
    $at-- while substr($content, $at, 1) eq "\0"; seek $file, $at, 0;
    print $file chr(ord(substr($content, $at, 1)) ^ 1)' "$segment"
! systemctl start lineside
sleep 3 # longer than RestartSec
[ "$(show ActiveState)/$(show Result)/$(show NRestarts)" = failed/exit-code/0 ]
journalctl --unit=lineside | grep -q 'run `lineside journal repair`'
if runuser -u lineside -- lineside journal verify /var/lib/lineside/ledger; then false; fi
cp --preserve /root/sound.log "$segment"
systemctl reset-failed lineside
systemctl start lineside
[[ "$(balance)" == *'"balance":100'* ]]
check "a damaged journal is refused, and not tried again; the restored file is accepted"

kill -HUP "$(show MainPID)"
await is_stopped
[ "$(show Result)" = success ]
check "SIGHUP: ended in order"

systemctl start lineside
dpkg --install /root/lineside.deb
[ "$(show ActiveState)" = active ]
[[ "$(balance)" == *'"balance":100'* ]]
grep -q '^enabled = true' /etc/lineside/lineside.toml
check "installed again over a running service: it runs, with its configuration and data"

systemctl stop lineside
[ "$(show Result)" = success ]
[ -z "$(ls -A /sys/fs/bpf/lineside 2>/dev/null)" ]
check "stopped, nothing is pinned"

systemctl start lineside
dpkg --remove lineside
[ "$(systemctl is-active lineside || true)" = inactive ]
[ ! -e /usr/bin/lineside ] && [ -e /etc/lineside/lineside.toml ] && [ -e /var/lib/lineside/ledger/lineside.dir ]
check "removed: stopped, configuration and data stay"

dpkg --purge lineside
[ ! -e /etc/lineside ] && [ -e /var/lib/lineside/ledger/lineside.dir ]
check "purged: the configuration is gone, the data stays"
echo "all checks passed"
