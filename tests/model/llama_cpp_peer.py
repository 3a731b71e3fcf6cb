#!/usr/bin/env python3
"""llama.cpp as the peer: what it predicts on the reference's texts, and how fast it is.

  llama_cpp_peer.py install           builds the PyPI package llama-cpp-python from source for this machine's CPU, in an
                                      environment of its own in the cache (takes about ten minutes on one core)
  llama_cpp_peer.py record MODEL      writes data/llama_cpp.json: for every prompt and step of reference.json, fed with the
                                      reference's tokens, its argmax and the margin to the runner-up
  llama_cpp_peer.py speed MODEL       prints prefill and decode tokens/s at 1 and 2 threads as JSON

llama.cpp quantises activations to 8 bits before each product, so it is a peer and not an oracle.
"""
import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

VERSION = "0.3.36"
HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("IRON_CACHE")
                     or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "iron")
VENV = CACHE / "venvs/llama_cpp"
PYTHON = VENV / "bin/python"


def installed():
    probe = "import importlib.metadata as m; print(m.version('llama-cpp-python'))"
    if not PYTHON.exists():
        return None
    found = subprocess.run([PYTHON, "-c", probe], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def install(jobs):
    if installed() == VERSION:
        print(f"llama-cpp-python {VERSION} is already in {VENV}")
        return
    print(f"building llama-cpp-python {VERSION} in {VENV}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    env = dict(os.environ, CMAKE_BUILD_PARALLEL_LEVEL=str(jobs),
               CMAKE_ARGS="-DGGML_NATIVE=ON -DGGML_OPENMP=ON -DLLAMA_BUILD_TESTS=OFF -DLLAVA_BUILD=OFF")
    done = subprocess.run([VENV / "bin/pip", "install", "--disable-pip-version-check", "--no-binary", "llama-cpp-python",
                           f"llama-cpp-python=={VERSION}"], env=env)
    if done.returncode or installed() != VERSION:
        sys.exit("llama-cpp-python cannot be built: see pip's message above.\n"
                 "remedy: it needs a C++ compiler, cmake, python3-venv and the network: apt-get install g++ cmake python3-venv")


def read_reference(model):
    reference = json.loads((HERE / "data/reference.json").read_text(encoding="utf-8"))
    if hashlib.sha256(pathlib.Path(model).read_bytes()).hexdigest() != reference["model_sha256"]:
        sys.exit(f"{model} is not the model that reference.json was recorded from")
    return reference


def record(model):
    import llama_cpp
    import numpy as np

    reference = read_reference(model)
    longest = max(len(p["tokens"]) for p in reference["prompts"]) + reference["steps"]
    llama = llama_cpp.Llama(model, n_ctx=longest, n_threads=2, n_threads_batch=2, logits_all=True, verbose=False)
    check_tokens(llama, reference)
    rows = []
    for prompt in reference["prompts"]:
        first, steps = len(prompt["tokens"]) - 1, reference["steps"]
        llama.reset()
        llama.eval(prompt["tokens"] + prompt["greedy"][:-1])
        logits = np.array(llama.scores[first:first + steps], dtype=np.float64)
        order = np.argsort(-logits, axis=1)[:, :2]
        best = np.take_along_axis(logits, order, axis=1)
        margins = best[:, 0] - best[:, 1]
        differs = [s for s in range(steps) if order[s, 0] != prompt["greedy"][s]]
        rows.append({"name": prompt["name"], "argmax": order[:, 0].tolist(),
                     "margins": [float(f"{m:.6g}") for m in margins]})
        print(f"{prompt['name']}: differs from the reference at {len(differs)} of {steps} steps, largest margin there "
              f"{max((margins[s] for s in differs), default=0):.3f}", flush=True)
    body = ",\n".join("  " + json.dumps(row) for row in rows)
    head = json.dumps(f"llama-cpp-python {llama_cpp.__version__}")
    (HERE / "data/llama_cpp.json").write_text(
        f'{{\n "made_by": {head},\n "model_sha256": "{reference["model_sha256"]}",\n "prompts": [\n{body}\n ]\n}}\n',
        encoding="utf-8")


def check_tokens(llama, reference):
    """llama.cpp reads every prompt as the reference does."""
    import reference as own

    chat = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n")
    prompts = own.read_prompts(HERE.parent.parent / "examples/generate/prompts.txt")
    for (name, style, text), recorded in zip(prompts, reference["prompts"], strict=True):
        whole = chat.format(text) if style == "chat" else text
        if llama.tokenize(whole.encode(), add_bos=False, special=style == "chat") != recorded["tokens"]:
            sys.exit(f"llama.cpp splits prompt {name} into other tokens than reference.json holds")


class Session:
    """A context without the Python wrapper's copies of logits, as llama.cpp's own benchmark runs it."""

    def __init__(self, model, threads, tokens, extra_buffers=True):
        import llama_cpp

        self.api = llama_cpp
        if not extra_buffers:  # repacked weights and AMX, which has no switch in the wrapper's constructor
            raw, defaults = llama_cpp.llama_cpp, llama_cpp.llama_cpp.llama_model_default_params

            def plain_buffers():
                raw.llama_model_default_params = defaults
                params = defaults()
                params.use_extra_bufts = False
                return params

            raw.llama_model_default_params = plain_buffers
        self.llama = llama_cpp.Llama(model, n_ctx=tokens, n_batch=512, n_threads=threads, n_threads_batch=threads,
                                     verbose=False)
        self.context = self.llama._ctx.ctx

    def clear(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def feed(self, tokens):
        array = (self.api.llama_token * len(tokens))(*tokens)
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(array, len(tokens))):
            sys.exit("llama_decode failed")
        self.api.llama_synchronize(self.context)

    def prefill(self, tokens):
        self.clear()
        start = time.perf_counter()
        for at in range(0, len(tokens), 512):
            self.feed(tokens[at:at + 512])
        return len(tokens) / (time.perf_counter() - start)

    def decode(self, tokens):
        start = time.perf_counter()
        for token in tokens:
            self.feed([token])
        return len(tokens) / (time.perf_counter() - start)


def speed(model, rounds):
    reference = read_reference(model)
    long = max(reference["prompts"], key=lambda p: len(p["tokens"]))
    short = next(p for p in reference["prompts"] if p["name"] == "fact")
    cases = {"prefill_512": [], "prefill_long": [], "decode_short": [], "decode_long": []}
    results = {threads: {case: [] for case in cases} for threads in (1, 2)}
    sessions = {threads: Session(model, threads, len(long["tokens"]) + 128) for threads in (1, 2)}
    for turn in range(rounds + 1):  # the first round warms up; the order of threads alternates
        for threads in ((1, 2), (2, 1))[turn % 2]:
            session = sessions[threads]
            measured = {"prefill_512": session.prefill(long["tokens"][:512]),
                        "prefill_long": session.prefill(long["tokens"]),
                        "decode_long": session.decode(long["greedy"])}
            session.prefill(short["tokens"])
            measured["decode_short"] = session.decode(short["greedy"])
            if turn:
                for case, value in measured.items():
                    results[threads][case].append(value)
    import llama_cpp
    print(json.dumps({
        "made_by": f"llama-cpp-python {llama_cpp.__version__}", "unit": "tokens/s", "rounds": rounds,
        "long_prompt_tokens": len(long["tokens"]), "short_prompt_tokens": len(short["tokens"]),
        "threads": {str(threads): {case: {"median": round(statistics.median(v), 1), "best": round(max(v), 1)}
                                   for case, v in results[threads].items()} for threads in results}}, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("install")
    make.add_argument("--jobs", type=int, default=1)
    for name in ("record", "speed"):
        command = commands.add_parser(name)
        command.add_argument("model", help="the GGUF file (see fetch_model.sh)")
        if name == "speed":
            command.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.command == "install":
        install(args.jobs)
        return
    if pathlib.Path(sys.prefix) != VENV:
        if installed() is None:
            sys.exit(f"llama-cpp-python is not in {VENV}\nremedy: run {pathlib.Path(__file__).name} install")
        os.execv(PYTHON, [str(PYTHON), __file__, *sys.argv[1:]])
    if args.command == "record":
        record(args.model)
    else:
        speed(args.model, args.rounds)


if __name__ == "__main__":
    main()
