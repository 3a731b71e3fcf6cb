#!/usr/bin/env python3
"""Records llama.cpp's dequantised values of seeded blocks, for gguf_blocks_test.cpp.

Run it with the Python of an environment that has llama-cpp-python (see tests/model/llama_cpp_peer.py); it calls the
dequantisers inside that package's libggml-base.so. Output: data/ggml_blocks.bin, for each type u32 number, u32 blocks, the
blocks, the values as f32.
"""
import ctypes
import pathlib
import random
import struct

import llama_cpp

# number: (name, bytes of a block, elements, where its binary16 scales and minimums lie)
TYPES = {1: ("fp16", 2, 1, [0]), 2: ("q4_0", 18, 32, [0]), 3: ("q4_1", 20, 32, [0, 2]), 6: ("q5_0", 22, 32, [0]),
         7: ("q5_1", 24, 32, [0, 2]), 8: ("q8_0", 34, 32, [0]), 12: ("q4_K", 144, 256, [0, 2]),
         14: ("q6_K", 210, 256, [208]), 30: ("bf16", 2, 1, [])}
BLOCKS = 24

folder = pathlib.Path(llama_cpp.__file__).parent / "lib"
ggml = ctypes.CDLL(str(folder / "libggml-base.so"))
random.seed(1)
out = b""
for number, (name, size, elements, scales) in TYPES.items():
    count = BLOCKS if elements > 1 else 512
    data = bytearray(random.randbytes(size * count))
    for block in range(count):
        for at in scales:  # finite ones: the payload of a NaN is not compared
            value = struct.unpack_from("<H", data, block * size + at)[0]
            if value & 0x7C00 == 0x7C00:
                struct.pack_into("<H", data, block * size + at, value & 0xBFFF)
    values = (ctypes.c_float * (count * elements))()
    call = getattr(ggml, f"ggml_{name}_to_fp32_row" if elements == 1 else f"dequantize_row_{name}")
    call(bytes(data), values, ctypes.c_int64(count * elements))
    out += struct.pack("<II", number, count) + bytes(data) + bytes(values)
target = pathlib.Path(__file__).resolve().parent / "data/ggml_blocks.bin"
target.parent.mkdir(exist_ok=True)
target.write_bytes(out)
print(f"{target}: {len(TYPES)} types, {len(out)} bytes")
