#!/bin/bash
# Reports the first two boots of an installed system to the server that ordered its install, and then removes itself.
# confirm.curl is a file of options for curl(1), so no secret is in a list of arguments; confirm.disk has the serial number and
# the WWN of the disk that was written, a line each. Tests move the directories.
set -u
umask 077
etc=${CONFIRM_ETC-/etc}
own=$etc/run-coreos-installer/confirm
all=${CONFIRM_VAR-/var/lib}/run-coreos-installer
# Another config of the same system begins with its own boot 1.
var=$all/$(sha256sum "$own.curl" 2>/dev/null | cut -c -16)
proc=${CONFIRM_PROC-/proc}
sys=${CONFIRM_SYS-/sys}
pause=${CONFIRM_PAUSE-10}
limit=${CONFIRM_LIMIT-3600}
unit=run-coreos-installer-confirm.service

# The disks under the root and the boot file system, one a line.
disks() {
  local mount source
  for mount in /sysroot / /boot; do
    source=$(findmnt --noheadings --nofsroot --first-only --output SOURCE "$mount") || continue
    lsblk --inverse --noheadings --raw --output NAME,TYPE "$source"
  done 2>/dev/null | sed -n 's/ disk$//p' | sort -u
}

# Identifiers, one a line, in a form in which those of the agent, the kernel and udev compare.
plain() {
  tr -d ' _\t' | sed -E 's/^(0x|naa\.|eui\.|nvme\.)//I' | tr '[:upper:]' '[:lower:]' | sed '/^$/d'
}

# The values of a disk's attributes and properties. The first arguments are files, those after -- are keys of udev.
values() {
  local disk=$1 file
  shift
  while [[ $1 != -- ]]; do
    file=$sys/block/$disk/$1
    [[ -r $file ]] && { tr -d '\0' <"$file"; echo; }
    shift
  done 2>/dev/null
  shift
  udevadm info --query=property --name="/dev/$disk" 2>/dev/null | sed -nE "s/^($1)=//p"
}

# The disk under the running system in the words of the body, or nothing if it cannot be compared.
verdict() {
  local kind disk expected found word=
  for kind in 1 2; do
    expected=$(sed -n "${kind}p" "$own.disk" | plain)
    [[ $expected ]] || continue
    for disk in $(disks); do
      if [[ $kind == 1 ]]; then
        found=$(values "$disk" serial device/serial device/uid -- 'ID_SERIAL_SHORT|ID_SCSI_SERIAL|SCSI_IDENT_SERIAL' | plain)
      else
        found=$(values "$disk" wwid device/wwid -- 'ID_WWN|ID_WWN_WITH_EXTENSION' | plain)
      fi
      [[ $found ]] && word=${word:-other}
      grep -qxF -- "$expected" <<<"$found" && word=same
    done
  done
  [[ $word ]] && echo ",\\\"disk\\\":\\\"$word\\\""
}

# Remembers a boot: its id, and what it ran from.
remember() {
  printf '%s\n' "$boot" "$(verdict)" >"$var/$1.new" && mv "$var/$1.new" "$var/$1"
}

# Posts a boot once. Returns 1 if another try may succeed, and 2 if not.
post() {
  local options id='' disk='' answer status ca=()
  { read -r id; read -r disk; } <"$var/$1"
  options=$(<"$own.curl")
  options=${options//@BOOT@/"$1"}
  options=${options//@BOOT_ID@/"$id"}
  options=${options//@DISK@/"$disk"}
  if [[ -e $own-ca.pem ]]; then
    cat "$etc/pki/tls/certs/ca-bundle.crt" "$own-ca.pem" >"$var/ca.pem" 2>/dev/null
    ca=(--cacert "$var/ca.pem")
  fi
  answer=$(curl --disable --config - --silent --show-error --globoff --connect-timeout 15 --max-time 60 "${ca[@]}" \
    --output /dev/null --write-out 'HTTP status %{http_code}' 2>&1 <<<"$options")
  case ${answer: -3} in
    2??) touch "$var/$1.done" && echo "boot $1 was confirmed"; return 0 ;;
    000 | 401 | 404 | 408 | 409 | 425 | 429 | 5??) status=1 ;;
    *) status=2 ;;
  esac
  echo "boot $1 was not confirmed: ${answer//$'\n'/ }"
  return "$status"
}

# Posts a boot until it is accepted or refused, or it was waited for long enough. The clock may be set meanwhile.
confirm() {
  local pause=$pause waited=0
  while [[ ! -e $var/$1.done ]]; do
    post "$1"
    [[ $? != 1 || $((waited + pause)) -ge $limit ]] && return
    sleep "$pause"
    waited=$((waited + pause))
    pause=$((pause < 150 ? pause * 2 : 300))
  done
}

# The secrets first, and at last what starts this: the next boot goes on with what is left.
remove() {
  rm -f "$own".{curl,disk} "$own-ca.pem"
  rm -rf "$all"
  systemctl disable "$unit"
  rm -f "$etc/systemd/system/$unit" "$own.sh"
  rmdir --ignore-fail-on-non-empty "$etc/run-coreos-installer"
}

if [[ ! -e $own.curl ]]; then
  remove
  exit 0
fi
mkdir -p "$var"
boot=$(<"$proc/sys/kernel/random/boot_id")
[[ -s $var/1 ]] || remember 1
if [[ $(head -n 1 "$var/1") == "$boot" ]]; then
  confirm 1
  exit 0
fi
[[ -s $var/2 ]] || remember 2
[[ -e $var/1.done ]] || post 1
confirm 2
remove
exit 0
