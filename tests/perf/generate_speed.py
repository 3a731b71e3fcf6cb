#!/usr/bin/env python3
"""Prefill and decode tokens/s of `generate` and of llama.cpp on the same model, machine and prompts, in alternating order.

  generate_speed.py GENERATE MODEL [--numerics exact|int8] [--rounds N] [--threads 1 2] [--cases short long]

Prints JSON: the median of each arm and the median of the paired ratios (Iron / llama.cpp). Needs the environment that
tests/model/llama_cpp_peer.py install makes. Iron's decode includes choosing the token, llama.cpp's does not.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "model"))
import llama_cpp_peer as peer  # noqa: E402

SPEEDS = re.compile(r"prompt: (\d+) tokens, ([\d.]+) tokens/s; answer: (\d+) tokens, ([\d.]+) tokens/s")
CASES = {"short": "fact", "long": "long"}


def iron(program, model, prompt, threads, policy):
    """The last answer of a process: the first one compiles."""
    name, style, text = prompt
    command = [program, "--model", model, "--prompt", text, "--tokens", "64", "--threads", str(threads), "--repeat", "3",
               "--numerics", policy, "--ids"] + (["--raw"] if style != "chat" else [])
    done = subprocess.run(command, capture_output=True, text=True)
    found = SPEEDS.findall(done.stderr)
    if done.returncode or len(found) != 3:
        sys.exit(f"{program} failed on prompt {name}:\n{done.stderr}")
    tokens, prefill, _, decode = found[-1]
    numerics = re.search(r"numerics: (.*)", done.stderr).group(1)
    return {"tokens": int(tokens), "prefill": float(prefill), "decode": float(decode)}, numerics


def llama(model, recorded, threads, extra_buffers):
    session = peer.Session(model, threads, len(recorded["tokens"]) + 128, extra_buffers)
    session.prefill(recorded["tokens"][:64])
    return {"tokens": len(recorded["tokens"]), "prefill": session.prefill(recorded["tokens"]),
            "decode": session.decode(recorded["greedy"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("generate")
    parser.add_argument("model")
    parser.add_argument("--numerics", choices=["exact", "int8"], default="int8", help="the policy of `generate`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--peer-plain-buffers", action="store_true",
                        help="llama.cpp without its extra buffer types (AMX among them), where those crash")
    args = parser.parse_args()
    if pathlib.Path(sys.prefix) != peer.VENV:
        if peer.installed() is None:
            sys.exit(f"llama-cpp-python is not in {peer.VENV}\nremedy: run tests/model/llama_cpp_peer.py install")
        os.execv(peer.PYTHON, [str(peer.PYTHON), __file__, *sys.argv[1:]])
    import reference

    recorded = {p["name"]: p for p in peer.read_reference(args.model)["prompts"]}
    prompts = {p[0]: p for p in reference.read_prompts(peer.HERE.parent.parent / "examples/generate/prompts.txt")}
    rows, numerics = [], ""
    for threads in args.threads:
        for case in args.cases:
            name, arms = CASES[case], {"iron": [], "llama.cpp": []}
            for turn in range(args.rounds):
                for arm in (("iron", "llama.cpp"), ("llama.cpp", "iron"))[turn % 2]:
                    if arm == "iron":
                        speeds, numerics = iron(args.generate, args.model, prompts[name], threads, args.numerics)
                        if speeds["tokens"] != len(recorded[name]["tokens"]):
                            sys.exit(f"{name}: the two programs read other tokens")
                    else:
                        speeds = llama(args.model, recorded[name], threads, not args.peer_plain_buffers)
                    arms[arm].append(speeds)
            if not numerics.startswith(args.numerics + ":"):
                sys.exit(f"generate computed by another policy: {numerics}")
            row = {"threads": threads, "case": case, "prompt_tokens": len(recorded[name]["tokens"])}
            for phase in ("prefill", "decode"):
                for arm, speeds in arms.items():
                    row[f"{arm} {phase}"] = round(statistics.median(s[phase] for s in speeds), 1)
                row[f"{phase} ratio"] = round(statistics.median(
                    a[phase] / b[phase] for a, b in zip(arms["iron"], arms["llama.cpp"])), 2)
            rows.append(row)
    print(json.dumps({"unit": "tokens/s", "rounds": args.rounds, "load": os.getloadavg()[0], "numerics": numerics,
                      "llama.cpp": peer.VERSION + (", without extra buffer types" if args.peer_plain_buffers else ""), "results": rows}, indent=1))


if __name__ == "__main__":
    main()
