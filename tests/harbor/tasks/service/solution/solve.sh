#!/bin/bash
python3 -m http.server --directory /desk 8765 >/dev/null 2>&1 &
for _ in $(seq 100); do
    (: < /dev/tcp/127.0.0.1/8765) 2>/dev/null && break
    sleep 0.1
done
