# shellcheck shell=bash
# Shared by the recipes: messages, the cache, the distribution's archive.

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# The files that determine a part's content. Their digest names its folder in the cache.
recipe_of() {
  case $1 in
    installer) echo installer.sh ;;
    kernel) echo kernel.sh ;;
    firmware) echo firmware.sh ;;
    tree) echo tree.sh ;;
    live) echo kernel.sh tree.sh installer.sh live.sh modules.sh system.sh dracut/*/* units/live/* ;;
    loaders) echo loaders.sh ;;
    iso) echo kernel.sh tree.sh installer.sh live.sh modules.sh system.sh dracut/*/* units/live/* loaders.sh iso.sh ;;
    disk) echo kernel.sh tree.sh loaders.sh disk.sh modules.sh system.sh gpt.py dracut/*/* units/disk/* ;;
    tiny) echo kernel.sh tiny.sh modules.sh tiny-init tiny-dhcp ;;
  esac
}

# The parts from which a part is made.
made_of() {
  case $1 in
    live) echo kernel tree installer ;;
    iso) echo kernel tree installer live loaders ;;
    disk) echo kernel tree loaders ;;
    tiny) echo kernel ;;
  esac
}

title_of() {
  case $1 in
    installer) echo 'the real coreos-installer, from its published crate, unoptimised' ;;
    kernel) echo "the distribution's kernel" ;;
    firmware) echo 'UEFI firmware' ;;
    tree) echo "a system of the distribution's packages" ;;
    live) echo 'the live image: squashfs and initramfs' ;;
    loaders) echo 'boot loaders' ;;
    iso) echo 'the live image as an ISO' ;;
    disk) echo 'the image to install: partitions, boot loader files, root file system' ;;
    tiny) echo 'the tiny system of the tests' ;;
  esac
}

# folder_of PART: the part's path in the cache, even if it does not exist. Comments do not count: an edited one rebuilds nothing.
folder_of() {
  local key
  # shellcheck disable=SC2046 # several files of our own, without blanks in their names
  key=$(sed '/^[[:space:]]*#/d' $(recipe_of "$1") | sha256sum | cut -c1-16)
  echo "$CACHE/$1-$key"
}

# is_whole PART: the folder exists and every file in it has the digest that was recorded when it was made.
is_whole() {
  local dir
  dir=$(folder_of "$1")
  [ -f "$dir/SHA256SUMS" ] || return 1
  [ -n "${CHECKED[$1]:-}" ] || (cd "$dir" && sha256sum --check --quiet --strict SHA256SUMS >&2) || return 1
  CHECKED[$1]=1
}
declare -A CHECKED=()

# part NAME: prints the folder of a part that has been built.
part() {
  local dir
  dir=$(folder_of "$1")
  [ -f "$dir/SHA256SUMS" ] || die "$1 has not been built"
  # The date of last use: a part that was not used for a month is removed.
  touch "$dir"
  echo "$dir"
}

# build_part NAME: builds a part into its folder.
build_part() {
  local name=$1 dir tmp
  dir=$(folder_of "$name")
  rm -rf "$dir"
  tmp=$(mktemp -d "$CACHE/build.XXXXXX")
  # A recipe runs in its own shell, with the new folder as $OUT. Its CPU times end the log.
  if ! OUT=$tmp bash -euo pipefail -c '. ../../steps.sh; . ./lib.sh; . "./$1.sh"; times' recipe "$name"; then
    rm -rf --one-file-system "$tmp"
    return 1
  fi
  (cd "$tmp" && sha256sum -- * >.sums && mv .sums SHA256SUMS)
  chmod 755 "$tmp"
  mv "$tmp" "$dir"
  find "$CACHE" -maxdepth 1 -name "$name-*" -mtime +30 -exec rm -rf --one-file-system {} +
}

# sources_file: prints the name of an apt source list with the Debian archive that this machine itself uses, and backports.
sources_file() {
  local list=$CACHE/apt/debian.list code
  if [ ! -s "$list" ]; then
    code=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    [ "$code" = bookworm ] || die "this distribution is \"${code:-not Debian}\"; the images are made from Debian bookworm's archive, put its apt lines into $list"
    mkdir -p "$CACHE/apt/lists/partial" "$CACHE/apt/archives/partial"
    debian_uris | while read -r suite uri; do
      echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main"
      # Backports are on the same server as the release.
      [ "$suite" != "$code" ] || echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $code-backports main"
    done >"$list.new"
    [ -s "$list.new" ] || die "apt names no source of Debian $code main: run apt-get update, or put its apt lines into $list"
    mv "$list.new" "$list"
  fi
  echo "$list"
}

# debian_uris: prints suite and URI of each of apt's Debian sources with the component main.
debian_uris() {
  # shellcheck disable=SC2016 # these are apt's placeholders
  apt-get indextargets --format '$(SUITE)|$(CODENAME)|$(REPO_URI)|$(COMPONENT)|$(RELEASE)' 'Created-By: Packages' |
    awk -F'|' '$4 == "main" && $5 ~ /^bookworm(-updates|-security)?$/ { print $5, $3 }' | sort -u
}

# apt_get ARG..., apt_cache ARG...: use that list and separate folders, so that the machine's settings do not change.
apt_get() { with_own_lists apt-get -q -o DPkg::Lock::Timeout=400 -o Acquire::Retries=3 -o Acquire::Languages=none "$@"; }
apt_cache() { with_own_lists apt-cache "$@"; }
with_own_lists() {
  local list command=$1
  shift
  list=$(sources_file)
  "$command" -o Dir::Etc::SourceList="$list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$CACHE/apt/lists" \
    -o Dir::Cache::archives="$CACHE/apt/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root "$@"
}

# apt_update: fetches the package lists, at most once an hour.
apt_update() {
  sources_file >/dev/null
  [ -n "$(find "$CACHE/apt/updated" -mmin -60 2>/dev/null)" ] && return
  apt_get update >&2
  touch "$CACHE/apt/updated"
}

# fetch_package NAME DIR: the newest package of that name, unpacked (no script of it runs).
fetch_package() {
  local tmp
  tmp=$(mktemp -d)
  (cd "$tmp" && apt_get download "$1" >&2)
  dpkg-deb -x "$tmp"/*.deb "$2"
  rm -rf "$tmp"
}

need_root() { [ "$(id -u)" = 0 ] || die "$1 is built as root, once: sudo $(dirname "$PWD")/setup"; }
