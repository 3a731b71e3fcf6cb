#!/usr/bin/env python3
"""Records what SmolLM2 must say: an independent float64 reference that needs numpy and nothing else.

It reads the same GGUF file as the example, with its own parser, dequantiser, tokenizer and model, and writes to DATA:

  reference.json        the model's checksum and, for each prompt, its tokens and the 64 greedy tokens with their margins
  reference_steps.bin   for every step the norm of the logits, 64 projections of them, and the 32 largest
  reference_full.bin    all logits of the first and the last step of every prompt

Step s of a prompt is the prediction of greedy token s: its logits are those at position len(tokens) + s - 1 of the text
`tokens + greedy`. One step in reference_steps.bin is little-endian and 776 bytes long:

  f64 norm, f64 projection[64], f32 top_logit[32], u32 top_id[32]

and a step in reference_full.bin is f32 logit[vocabulary]. Both follow the order of prompts and steps.

How the cosine of a candidate's logits `c` to these logits `r` follows for a step without full logits: projection j is the
sum over ids i of +r[i] or -r[i], the sign being bit j of splitmix64(i) (1 is minus). Projections are linear, so the mean of
(projection_j(c) - projection_j(r))^2 estimates |c - r|^2 without bias and with a relative standard deviation of
sqrt(2 / 64) = 0.18; with both norms known exactly, cos = (|c|^2 + |r|^2 - |c - r|^2) / (2 |c| |r|). Where full logits are
there, the cosine is exact.
"""
import argparse
import hashlib
import json
import mmap
import pathlib
import struct
import sys
import time
import unicodedata

import numpy as np

STEPS = 64
TOP = 32
PROJECTIONS = 64
FULL_STEPS = (0, STEPS - 1)


# ---- The file ------------------------------------------------------------------------------------------------------

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalar(self, fmt):
        (value,) = struct.unpack_from(fmt, self.data, self.at)
        self.at += struct.calcsize(fmt)
        return value

    def string(self):
        size = self.scalar("<Q")
        raw = self.data[self.at:self.at + size]
        self.at += size
        return raw.decode("utf-8")

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            element, count = self.scalar("<I"), self.scalar("<Q")
            return [self.value(element) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def f16(raw):
    return raw.copy().view(np.float16).astype(np.float64)


def dequantise(raw, kind, rows, cols):
    """Exact float64 values: a scale and a code of these formats multiply without rounding in 53 bits."""
    if kind == 0:
        return raw.view(np.float32).astype(np.float64).reshape(rows, cols)
    if kind == 1:
        return raw.view(np.float16).astype(np.float64).reshape(rows, cols)
    if kind == 2:  # Q4_0: d, 16 bytes; low nibbles are elements 0..15
        b = raw.reshape(-1, 18)
        q = np.concatenate([b[:, 2:] & 15, b[:, 2:] >> 4], axis=1).astype(np.float64) - 8
        return (q * f16(b[:, :2])).reshape(rows, cols)
    if kind == 3:  # Q4_1: d, m, 16 bytes
        b = raw.reshape(-1, 20)
        q = np.concatenate([b[:, 4:] & 15, b[:, 4:] >> 4], axis=1).astype(np.float64)
        return (q * f16(b[:, :2]) + f16(b[:, 2:4])).reshape(rows, cols)
    if kind == 8:  # Q8_0: d, 32 signed bytes
        b = raw.reshape(-1, 34)
        return (b[:, 2:].view(np.int8).astype(np.float64) * f16(b[:, :2])).reshape(rows, cols)
    raise SystemExit(f"reference.py does not decode GGUF tensor type {kind}")


BYTES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 8: (32, 34)}  # type: elements and bytes of a block


def read_gguf(path):
    with open(path, "rb") as f:
        data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    r = Reader(data)
    if data[:4] != b"GGUF":
        raise SystemExit(f"{path} is not a GGUF file")
    r.at = 4
    version, tensors, keys = r.scalar("<I"), r.scalar("<Q"), r.scalar("<Q")
    if version != 3:
        raise SystemExit(f"{path}: GGUF version {version}")
    meta = {}
    for _ in range(keys):
        key = r.string()
        meta[key] = r.value(r.scalar("<I"))
    infos = []
    for _ in range(tensors):
        name = r.string()
        dims = [r.scalar("<Q") for _ in range(r.scalar("<I"))]
        infos.append((name, dims, r.scalar("<I"), r.scalar("<Q")))
    align = meta.get("general.alignment", 32)
    base = (r.at + align - 1) // align * align
    weights = {}
    for name, dims, kind, offset in infos:
        cols, rows = dims[0], int(np.prod(dims[1:], dtype=np.int64))
        elements, size = BYTES[kind]
        raw = np.frombuffer(data, np.uint8, rows * cols // elements * size, base + offset)
        value = dequantise(raw, kind, rows, cols)
        weights[name] = value[0] if len(dims) == 1 else value
    return meta, weights


# ---- The tokenizer: byte-level BPE ---------------------------------------------------------------------------------

def byte_letters():
    """The printable stand-ins of the 256 bytes: printable Latin-1 for themselves, the others from U+0100 on."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, spare = {}, 0x100
    for b in range(256):
        if b in keep:
            table[b] = chr(b)
        else:
            table[b], spare = chr(spare), spare + 1
    return table


WHITE = set("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {chr(c) for c in range(0x2000, 0x200B)}


def kind_of(c):
    if c in WHITE:
        return "space"
    category = unicodedata.category(c)[0]
    return {"L": "letter", "N": "number"}.get(category, "other")


def split_words(text):
    """Every number character alone; the rest by GPT-2's expression: contractions, words, symbols, white space."""
    pieces, at = [], 0
    # Number characters split the text first, so the rules below never look across one.
    while at < len(text):
        if kind_of(text[at]) == "number":
            pieces.append(text[at])
            at += 1
            continue
        end = at
        while end < len(text) and kind_of(text[end]) != "number":
            end += 1
        pieces += split_span(text[at:end])
        at = end
    return pieces


def split_span(text):
    out, i, n = [], 0, len(text)
    while i < n:
        end = 0
        for tail in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d"):
            if text.startswith(tail, i):
                end = i + len(tail)
                break
        if not end:
            start = i + (text[i] == " " and i + 1 < n)
            kind = kind_of(text[start])
            if kind == "space":
                start = i
            end = start
            while end < n and kind_of(text[end]) == kind_of(text[start]):
                end += 1
            # White space before a word leaves its last character to that word (or alone, if it is no blank).
            if kind_of(text[start]) == "space" and end < n and end - i > 1:
                end -= 1
        out.append(text[i:end])
        i = end
    return out


class Tokenizer:
    def __init__(self, meta):
        self.texts = meta["tokenizer.ggml.tokens"]
        self.ids = {t: i for i, t in enumerate(self.texts)}
        self.ranks = {tuple(m.split(" ")): i for i, m in enumerate(meta["tokenizer.ggml.merges"])}
        self.letters = byte_letters()
        self.bytes = {v: k for k, v in self.letters.items()}
        self.special = [i for i, t in enumerate(meta["tokenizer.ggml.token_type"]) if t in (3, 4)]

    def encode(self, text):
        out = []
        for piece in split_words(text):
            parts = [self.letters[b] for b in piece.encode("utf-8")]
            while len(parts) > 1:
                ranks = [self.ranks.get(pair, 1 << 60) for pair in zip(parts, parts[1:])]
                best = min(ranks)
                if best == 1 << 60:
                    break
                pair, merged, i = ranks.index(best), [], 0
                left, right = parts[pair], parts[pair + 1]
                while i < len(parts):
                    if i + 1 < len(parts) and parts[i] == left and parts[i + 1] == right:
                        merged.append(left + right)
                        i += 2
                    else:
                        merged.append(parts[i])
                        i += 1
                parts = merged
            out += [self.ids[p] for p in parts if p in self.ids]  # a few bytes have no token
        return out

    def chat(self, text):
        start, end, newline = self.ids["<|im_start|>"], self.ids["<|im_end|>"], self.encode("\n")
        system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
        return ([start, *self.encode("system\n" + system), end, *newline, start, *self.encode("user\n" + text), end,
                 *newline, start, *self.encode("assistant\n")])

    def decode(self, ids):
        raw = bytes(self.bytes[c] for i in ids if i not in self.special for c in self.texts[i])
        return raw.decode("utf-8", errors="replace")


def read_prompts(path):
    prompts = []
    for line in pathlib.Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n"):
        if line.startswith("=== "):
            _, name, style = line.split(" ")
            prompts.append((name, style, []))
        elif prompts:
            prompts[-1][2].append(line)
    return [(name, style, "\n".join(lines)) for name, style, lines in prompts]


# ---- The model: llama architecture ---------------------------------------------------------------------------------

class Model:
    def __init__(self, meta, weights):
        key = lambda name: meta["llama." + name]
        self.w = weights
        self.layers, self.heads, self.kv_heads = key("block_count"), key("attention.head_count"), key("attention.head_count_kv")
        self.eps, self.base = key("attention.layer_norm_rms_epsilon"), key("rope.freq_base")
        self.dim = key("rope.dimension_count")
        if self.dim * self.heads != key("embedding_length"):
            raise SystemExit("reference.py rotates whole heads only")
        self.reset()

    def reset(self):
        self.k = [np.zeros((0, self.kv_heads, self.dim)) for _ in range(self.layers)]
        self.v = [np.zeros((0, self.kv_heads, self.dim)) for _ in range(self.layers)]

    def norm(self, x, weight):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * weight

    def rope(self, x, first):
        """Rotates neighbours (2i, 2i+1): GGUF keeps llama's query and key rows in that order."""
        position = first + np.arange(x.shape[0])
        angle = position[:, None] * self.base ** (-np.arange(0, self.dim, 2) / self.dim)
        cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        even, odd = x[..., 0::2], x[..., 1::2]
        out = np.empty_like(x)
        out[..., 0::2], out[..., 1::2] = even * cos - odd * sin, even * sin + odd * cos
        return out

    def attend(self, layer, q, first):
        k, v = self.k[layer], self.v[layer]
        out = np.empty_like(q)
        future = np.arange(k.shape[0])[None, :] > first + np.arange(q.shape[0])[:, None]
        for head in range(self.heads):
            group = head // (self.heads // self.kv_heads)
            score = q[:, head] @ k[:, group].T / np.sqrt(self.dim)
            score[future] = -np.inf
            score = np.exp(score - score.max(axis=1, keepdims=True))
            out[:, head] = score / score.sum(axis=1, keepdims=True) @ v[:, group]
        return out.reshape(q.shape[0], -1)

    def forward(self, tokens):
        """Appends `tokens` to the text; returns the logits after the last of them."""
        first, x = self.k[0].shape[0], self.w["token_embd.weight"][tokens]
        for layer in range(self.layers):
            w = lambda name: self.w[f"blk.{layer}.{name}.weight"]
            h = self.norm(x, w("attn_norm"))
            split = lambda y: y.reshape(len(tokens), -1, self.dim)
            q = self.rope(split(h @ w("attn_q").T), first)
            self.k[layer] = np.concatenate([self.k[layer], self.rope(split(h @ w("attn_k").T), first)])
            self.v[layer] = np.concatenate([self.v[layer], split(h @ w("attn_v").T)])
            x = x + self.attend(layer, q, first) @ w("attn_output").T
            h = self.norm(x, w("ffn_norm"))
            gate = h @ w("ffn_gate").T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
        head = self.w.get("output.weight", self.w["token_embd.weight"])  # tied when the file has no head of its own
        return head @ self.norm(x[-1], self.w["output_norm.weight"])


# ---- Recording -----------------------------------------------------------------------------------------------------

def splitmix64(n):
    z = (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def signs(vocabulary):
    bits = splitmix64(vocabulary)[None, :] >> np.arange(PROJECTIONS, dtype=np.uint64)[:, None] & np.uint64(1)
    return 1.0 - 2.0 * bits.astype(np.float64)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", help="the GGUF file (see fetch_model.sh)")
    parser.add_argument("--prompts", default=here.parent.parent / "examples/generate/prompts.txt")
    parser.add_argument("--data", default=here / "data", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="compare with the recorded tokens instead of writing")
    args = parser.parse_args()

    started = time.time()
    meta, weights = read_gguf(args.model)
    tokenizer, model = Tokenizer(meta), Model(meta, weights)
    vocabulary = len(tokenizer.texts)
    sign = signs(vocabulary)
    steps, full, prompts = [], [], []
    for name, style, text in read_prompts(args.prompts):
        tokens = tokenizer.chat(text) if style == "chat" else tokenizer.encode(text)
        model.reset()
        greedy, margins, pending = [], [], tokens
        for step in range(STEPS):
            logits = model.forward(pending)
            top = np.lexsort((np.arange(vocabulary), -logits))[:TOP]  # ties: the lower id first
            greedy.append(int(top[0]))
            margins.append(float(logits[top[0]] - logits[top[1]]))
            steps.append(np.float64([np.linalg.norm(logits), *(sign @ logits)]).tobytes()
                         + logits[top].astype("<f4").tobytes() + top.astype("<u4").tobytes())
            if step in FULL_STEPS:
                full.append(logits.astype("<f4").tobytes())
            pending = [greedy[-1]]
        prompts.append({"name": name, "style": style, "tokens": tokens, "greedy": greedy,
                        "margins": [float(f"{m:.6g}") for m in margins], "text": tokenizer.decode(greedy)})
        print(f"{time.time() - started:6.0f} s  {name}: {len(tokens)} tokens, least margin {min(margins):.4f}: "
              f"{prompts[-1]['text']!r}", flush=True)

    record = {"model_sha256": hashlib.sha256(pathlib.Path(args.model).read_bytes()).hexdigest(),
              "vocabulary": vocabulary, "steps": STEPS, "top": TOP, "projections": PROJECTIONS,
              "full_steps": list(FULL_STEPS), "prompts": prompts}
    target = args.data / "reference.json"
    if args.check:
        recorded = json.loads(target.read_text(encoding="utf-8"))
        wrong = [p["name"] for p, r in zip(prompts, recorded["prompts"], strict=True)
                 if (p["tokens"], p["greedy"]) != (r["tokens"], r["greedy"])]
        sys.exit(f"these prompts differ from {target}: {', '.join(wrong)}" if wrong else 0)
    args.data.mkdir(parents=True, exist_ok=True)
    target.write_text(render(record), encoding="utf-8")
    (args.data / "reference_steps.bin").write_bytes(b"".join(steps))
    (args.data / "reference_full.bin").write_bytes(b"".join(full))


def render(record):
    """JSON with one line a field, so that a change shows as a short difference."""
    prompts = record["prompts"]
    head = {k: v for k, v in record.items() if k != "prompts"}
    body = ",\n".join("  {\n" + ",\n".join(f"   {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in p.items())
                      + "\n  }" for p in prompts)
    return "{\n" + "".join(f" {json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items()) + f' "prompts": [\n{body}\n ]\n}}\n'


if __name__ == "__main__":
    main()
