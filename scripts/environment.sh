# Sourced by the other scripts: goes to the root of the repository and chooses the toolchain.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# The pinned toolchain may be installed under another name, for instance "stable": use it rather than download it again.
if command -v rustup >/dev/null && [ -z "${RUSTUP_TOOLCHAIN:-}" ]; then
    pinned=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
    if ! rustup toolchain list | grep -q "^$pinned\b"; then
        for toolchain in $(rustup toolchain list | awk '{ print $1 }'); do
            if rustup run "$toolchain" rustc --version 2>/dev/null | grep -q "^rustc $pinned "; then
                export RUSTUP_TOOLCHAIN=$toolchain
                break
            fi
        done
    fi
fi

# install_tool NAME VERSION TOOLS: builds a program of the registry into TOOLS/bin, quickly: it is seldom run.
install_tool() {
    echo "building $1 $2, once"
    CARGO_PROFILE_DEV_DEBUG=false cargo install "$1" --version "$2" --locked --debug --quiet --root "$3" --target-dir "$3/build"
    rm -rf "$3/build"
}

# build OPTIONS...: builds what a script uses, unless the gate has built everything together with the tests.
build() {
    [ -n "${TYR_IS_BUILT:-}" ] || cargo build --locked "$@"
}

# install_missing COMMAND=PACKAGE...: installs the Debian packages whose command is not there.
install_missing() {
    local missing=() pair
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
}

# install_packages PACKAGE...: installs Debian packages, or says which ones are needed.
install_packages() {
    local prefix=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null && prefix=(sudo)
    fi
    if ! command -v apt-get >/dev/null || { [ "$(id -u)" -ne 0 ] && [ ${#prefix[@]} -eq 0 ]; }; then
        echo "please install: $*" >&2
        return 1
    fi
    echo "installing: $*"
    "${prefix[@]}" apt-get update -qq
    "${prefix[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
