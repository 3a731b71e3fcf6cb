#!/usr/bin/env python3
"""Records tokens of hard texts, made by Hugging Face's tokenizers library from the vocabulary in the GGUF file.

Needs the PyPI package `tokenizers` and numpy. Output: data/tokens.json, a list of {text, tokens}. It also compares the
library with reference.py's own tokenizer on every text and on every prompt, and stops where they differ.
"""
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import reference

HAND = [
    "", " ", "  ", "\n", "\n\n", " \n", "\n ", "\t", "a", " a", "  a", "   a", "\ta", "\n\ta", "a ", "a  ", "a\n", "a \n b",
    "Hello, world!", "it's we're I'll he'd they've I'm can't", "IT'S WE'RE", "'s", "''s", " 's", "'s's", "x'sx", "don''t",
    "0", "12", "1 2", " 1", "a1b2", "3.14159", "1,000,000", "x=1;y=22", "½¾²³", "Ⅳ", "١٢٣", "一二三", "a ½ b", "  42  ",
    "def f(x):\n    return x  # done\n", "int main() { return 0; }\n\t\t}", "a_b-c", "http://a.b/c?d=e&f=g#h", "C++20 <=> x",
    "naïve café", "Ünïcödé", "e\u0301", "привет, мир", "καλημέρα", "東京の天気", "좋은 아침", "صباح الخير", "नमस्ते", "สวัสดี",
    "👩‍🚀🚀", "🇪🇺", "☕️", "a\u200bb", "\ufeff", "\u00a0x", "x\u00a0\u00a0y", "\u2003 \u3000x", "\u2028\u2029", "\u0085a",
    "\u1680x", "\x00\x01\x7f", "\xad", "¡¢", "ÿĀ", "€", "𝔘𝔫𝔦", "𠀀𠀁", "\U0001f9ff", "ﬁ", "ª º µ", "ǅ", "ʰ", "ـ",
    "<|im_start|>user\nhi<|im_end|>", "<|endoftext|>", "...!?...", " ...", "  ...", "\n...", "a...b", "$5 %6 &7", "((()))",
    "\r\n", "a\r\nb\r\n\r\nc", "tabs\t\t\tand  spaces   ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "=" * 70, " " * 70,
    "The quick brown fox jumps over the lazy dog.", "antidisestablishmentarianism", "Schifffahrtsgesellschaft",
]

ALPHABET = (list("abcdefghistTHE'.,!-_()") + list("0123456789½²") + [" "] * 14 + ["\n", "\t", "\r", "\u00a0", "\u3000", "'s", "'ll", "é", "ß",
            "и", "я", "中", "文", "한", "ا", "न", "ा", "🚀", "☕", "️", "\u200b", "\u0301", "€", "𝔘"])


def main():
    here = pathlib.Path(__file__).resolve().parent
    meta, _ = reference.read_gguf(sys.argv[1])
    own = reference.Tokenizer(meta)
    merges = [tuple(m.split(" ")) for m in meta["tokenizer.ggml.merges"]]
    library = Tokenizer(models.BPE(vocab=own.ids, merges=merges))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    library.decoder = decoders.ByteLevel()
    missing = [b for b, letter in own.letters.items() if letter not in own.ids]
    print(f"bytes without a token: {missing}")
    random.seed(7)
    texts = HAND + ["".join(random.choices(ALPHABET, k=random.randint(1, 40))) for _ in range(600)]
    prompts = [text for _, _, text in reference.read_prompts(here.parent.parent / "examples/generate/prompts.txt")]
    rows = []
    for text in texts + prompts:
        tokens = library.encode(text, add_special_tokens=False).ids
        if missing and any(b in missing for b in text.encode()):
            print(f"left out, it has a byte without a token: {text!r}")
            continue
        if tokens != own.encode(text):
            sys.exit(f"the library and reference.py differ on {text!r}: {tokens} and {own.encode(text)}")
        if text not in prompts:
            rows.append({"text": text, "tokens": tokens})
    target = here / "data/tokens.json"
    target.write_text("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n", encoding="utf-8")
    print(f"{target}: {len(rows)} texts")


if __name__ == "__main__":
    main()
