#!/bin/sh
# install_test.sh BUILD: installs the build into a folder of its own, moves it (so that nothing can
# lean on the first place), and builds and runs a C and a C++ program against it, by CMake package
# and by pkg-config, shared and static. CC and CXX name the compilers.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
build=$1
cc=${CC:-cc}
cxx=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/prefix"
libdir=$(dirname "$(find "$work/prefix" -name libumbel.a)")

# expect WHAT PROGRAM: it runs, and says the version that pkg-config and CMake know.
expect() {
    printf '%s: ' "$1"
    LD_LIBRARY_PATH="$libdir" "$2" >"$work/said" || { echo "fails"; exit 1; }
    cat "$work/said"
    [ "$(cat "$work/said")" = "umbel $version: 14" ] || { echo "wanted umbel $version: 14"; exit 1; }
}

export PKG_CONFIG_PATH="$libdir/pkgconfig"
version=$(pkg-config --modversion umbel)
cp "$source/install/main.c" "$work/main.cpp"
# shellcheck disable=SC2046 # words on purpose
{
    $cc "$source/install/main.c" -o "$work/c_shared" $(pkg-config --cflags --libs umbel)
    expect "pkg-config, C, shared" "$work/c_shared"
    $cxx "$work/main.cpp" -o "$work/cxx_shared" $(pkg-config --cflags --libs umbel)
    expect "pkg-config, C++, shared" "$work/cxx_shared"
    $cc "$source/install/main.c" -o "$work/c_static" -static $(pkg-config --cflags --static --libs umbel)
    expect "pkg-config, C, static" "$work/c_static"
    $cxx "$work/main.cpp" -o "$work/cxx_static" -static $(pkg-config --cflags --static --libs umbel)
    expect "pkg-config, C++, static" "$work/cxx_static"
}

# The build's own generator: the system's default may not be installed.
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
cmake -S "$source/install" -B "$work/user" -G "$generator" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/user" >"$work/log" || { cat "$work/log"; exit 1; }
for program in c_shared c_static cxx_shared cxx_static; do
    expect "CMake package, $program" "$work/user/$program"
done

# A plugin needs the headers alone.
cmake -S "$source/../examples/plugin" -B "$work/toy" -G "$generator" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_C_COMPILER="$cc" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/toy" >"$work/log" || { cat "$work/log"; exit 1; }
UMBEL_PLUGIN_PATH="$work/toy" "$work/prefix/bin/umbel" check 'add/f32/0:*' --device toy

# The command, its page and its model are there too.
"$work/prefix/bin/umbel" --version
[ -f "$work/prefix/share/man/man1/umbel.1" ] && [ -f "$work/prefix/share/umbel/models/stories260K.bin" ]
