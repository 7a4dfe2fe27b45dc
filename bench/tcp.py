# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""TCP programs: `how` puts before each what it runs under: nothing, or `weft run --sockets`."""
import json
import re

from bed import TO, Failed

REDIS = "/usr/bin/redis-check-rdb"  # the server, by whichever name; redis-tools has it


def iperf3(bed, how):
    with bed.serving("Server listening", *how("iperf3", "--forceflush", "-s", "-1")):
        out = json.loads(bed.ask(*how("iperf3", "-c", TO, "-t", "2", "-J")))
    return {"Mbit/s": out["end"]["sum_received"]["bits_per_second"] / 1e6}


def redis(bed, how, clients, requests):
    server = how("bash", "-c", f'cd {bed.scratch}; exec -a redis-server {REDIS} "$@"', "redis", "--port",
                 "6379", "--bind", TO, "--protected-mode", "no", "--save", "")
    with bed.serving("Ready to accept", *server):
        out = bed.ask(*how("redis-benchmark", "-h", TO, "-t", "get", "-n", str(requests), "-c",
                           str(clients), "--csv"))
    figure = re.search(r'"GET","([\d.]+)"', out)
    if not figure:
        raise Failed(f"no GET in: {out[-300:]}")
    return {"/s": float(figure[1])}


def connects(bed, how, threads, requests):
    program = bed.own("connects")
    with bed.serving("serving", *how(program, "serve", TO, "7000")):
        return {"/s": float(bed.ask(*how(program, "ask", TO, "7000", str(requests), str(threads))))}
