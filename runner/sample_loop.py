"""The sampler where the device-side tool cannot run: one loop of the device's shell, the same lines.

Its grammar is that of `farm.evidence.collect.samples`. The shell's own `read` gets every file; no program is started
per sample, and the wait is a `read` of standard input with a limit, so that the loop ends with the connection.
"""

from __future__ import annotations

import shlex

#: Written for mksh, the shell of Android since 4.0. Constant-time parts first: their order is the columns' order.
_LOOP = r"""exec 2>/dev/null
n=0
page=$(getconf PAGE_SIZE)
echo "farm-samples 1 hz=$HZ page=${page:-0} tick=100 via=shell"
add() {
v=; if read -r v r <"$3"; then P[n]=$3; n=$((n+1)); echo "signal $1 $2"; else echo "absent $1 $3: cannot be read"; fi
}
named() {
for f in $3; do
[ -e "$f" ] || return
d=${f%/*}; t=${d##*/}
[ -n "$2" ] && { t=; read -r t <"$d/$2"; t=${t//[[:space:]]/_}; t=${t:-${d##*/}}; }
case $t in $4) $5 "$1" "$t" "$f";; esac
done
}
fact() { v=; read -r v r <"$3" && echo "fact $1 $2 $v"; }
S=$ROOT/sys
named temp type "$S/class/thermal/thermal_zone*/temp" '*' add
named cooling type "$S/class/thermal/cooling_device*/cur_state" '*' add
named freq '' "$S/devices/system/cpu/cpufreq/policy*/scaling_cur_freq" '*' add
named cap '' "$S/devices/system/cpu/cpufreq/policy*/scaling_max_freq" '*' add
named load '' "$ROOT/proc/loadavg" '*' add
for k in current:current_now voltage:voltage_now power:power_now level:capacity; do
named ${k%:*} '' "$S/class/power_supply/*/${k#*:}" '*[Bb][Aa][Tt]*' add
done
for f in class/kgsl/kgsl-3d0/gpu_busy_percentage class/misc/mali0/device/utilization \
kernel/ged/hal/gpu_utilization kernel/gpu/gpu_busy; do
named gpu '' "$S/$f" '*' add
done
for k in gpu:gpu gpu:mali gpu:kgsl npu:npu npu:apu npu:vpu; do
named ${k%:*} '' "$S/class/devfreq/*/load" "*${k#*:}*" add
named ${k%:*}_freq '' "$S/class/devfreq/*/cur_freq" "*${k#*:}*" add
done
named freq_max '' "$S/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq" '*' fact
named cooling_max type "$S/class/thermal/cooling_device*/max_state" '*' fact
echo "signal cpu all
signal mem MemAvailable
signal mem SwapFree
signal kills oom_kill"
while read -r k v r; do case $k in
MemTotal:) echo "fact mem_total MemTotal $v";;
SwapTotal:) echo "fact swap_total SwapTotal $v";;
esac; done <$ROOT/proc/meminfo
w= o=- i=0 q=
while [ $i -lt $LIMIT ]; do
u=; read -r u r <$ROOT/proc/uptime
s="at $u"; j=0
while [ $j -lt $n ]; do v=; read -r v r <"${P[j]}"; v=${v:0:100}; s="$s ${v:--}"; j=$((j+1)); done
c=; read -r r c <$ROOT/proc/stat; c=${c// /,}
a=- f=-; while read -r k v r; do case $k in
MemAvailable:) a=$v;;
SwapFree:) f=$v; break;;
esac; done <$ROOT/proc/meminfo
[ $((i % 10)) -eq 0 ] && while read -r k v; do case $k in oom_kill) o=$v; break;; esac; done <$ROOT/proc/vmstat
echo "$s ${c:--} $a $f $o" || exit
left=
for p in $w; do
m=; read -r v m r <$ROOT/proc/$p/statm
case $m in ''|0) echo "gone $p"; continue;; esac
left="$left $p"; echo "proc $u $p $m"
[ -n "$q" -o $((i % 10)) -eq 0 ] && {
R=- Q=- A=- W=-
while read -r k v r; do case $k in
Rss:) R=$v;; Pss:) Q=$v;; Pss_Anon:) A=$v;; Swap:) W=$v;;
esac; done <$ROOT/proc/$p/smaps_rollup
[ $R = - ] || echo "rollup $u $p $R $Q $A $W"
}
done
w=$left q=
i=$((i+1))
read -r -t $EVERY k p; e=$?
case $e in 0) case $k:$p in watch:*[!0-9]*|watch:) ;; watch:*) w="$w $p" q=1;; esac;; 1) exit 0;; esac
done
"""


def command(hz: float, limit_s: float, root: str = "") -> str:
    """The shell line that samples `hz` times a second and ends by itself after `limit_s`, whoever forgot it.

    `root`: a folder with the tests' own `sys` and `proc`; empty: the device's.
    """
    settings = f"HZ={hz:g} EVERY={1 / hz:.3f} LIMIT={int(limit_s * hz)} ROOT={shlex.quote(root)}"
    return f"{settings}\n{_LOOP}"
