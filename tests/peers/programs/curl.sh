#!/usr/bin/env bash
# curl: `curl.sh URL SIZE`.
set -euo pipefail
url=$1 size=$2

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
head -c "$size" /dev/zero >"$folder/body"

# Asks with these arguments, and expects this status.
expect() {
    local status
    status=$(curl --silent --show-error --globoff --max-time 30 --output "$folder/response" --write-out '%{http_code}' "${@:2}")
    [ "$status" = "$1" ] || { echo "curl ${*:2}: $status instead of $1"; exit 1; }
}

expect 200 "$url/hello" && [ "$(cat "$folder/response")" = hello ]
expect 200 --head "$url/hello"
expect 200 --http1.0 "$url/hello"
expect 200 --header 'Expect;' --data x "$url/echo"
expect 200 "$url/hello?q=\\d|^{}"
expect 200 "$url/large/$size"
[ "$(stat -c %s "$folder/response")" = "$size" ] || { echo "a large response is cut"; exit 1; }
for path in buffered:413 unread:403 refused:401; do
    expect "${path#*:}" --data-binary "@$folder/body" "$url/${path%:*}"
    expect "${path#*:}" --header 'Transfer-Encoding: chunked' --data-binary "@$folder/body" "$url/${path%:*}"
    # Sent at once, without waiting for 100.
    expect "${path#*:}" --header 'Expect:' --data-binary "@$folder/body" "$url/${path%:*}"
done
expect 200 --data-binary "@$folder/body" "$url/echo"
cmp "$folder/body" "$folder/response"
