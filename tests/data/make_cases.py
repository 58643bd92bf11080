#!/usr/bin/env python3
"""Makes the files of this folder: python3 make_cases.py [TINYLM_LAYER.safetensors]

conformance/ holds two cases in the format of ONNX Attention tests (case.json beside .npy files), computed here in float64 and
rounded once. tinylm.safetensors holds q, k, v of a trained model's layer (the first TOKENS of them, bf16, cut from the file
given) with out and lse computed here in float64 from the stored bf16 values. Needs numpy only; the numbers come from a fixed
seed, so that running it again changes nothing.
"""
import json
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = 1024


def attention(q, k, v, allowed, scale, softcap=0.0):
    """out (b, hq, n, dv) and lse (b, hq, n) in float64; `allowed` broadcasts to (b, hq, n, m)."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
    s = scale * np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    s = np.where(allowed, s, -np.inf)
    top = s.max(axis=-1, keepdims=True)
    top = np.where(np.isinf(top), 0, top)  # a row without any key
    p = np.exp(s - top)
    total = p.sum(axis=-1, keepdims=True)
    out = np.einsum("bhij,bhjd->bhid", p, v) / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        return out, (top + np.log(total))[..., 0]


def write_case(name, attributes, inputs, outputs):
    folder = os.path.join(HERE, "conformance", name)
    os.makedirs(folder, exist_ok=True)
    for tensors in (inputs, outputs):
        for key, value in tensors.items():
            np.save(os.path.join(folder, key + ".npy"), np.ascontiguousarray(value))
    case = {"op": "Attention", "name": name, "opset": 24, "attributes": attributes,
            "inputs": {key: key + ".npy" for key in inputs}, "outputs": {key: key + ".npy" for key in outputs}}
    with open(os.path.join(folder, "case.json"), "w") as f:
        json.dump(case, f, indent=1, sort_keys=True)
        f.write("\n")


def heads_first(x, heads):
    """(batch, len, heads * dim) -> (batch, heads, len, dim)"""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def cached_prompt(random):
    """3-D tensors, grouped heads, a cache of 37 keys before 5 new ones, causal, softcap; value dim 13 differs from 16."""
    q_heads, kv_heads, past, new = 6, 2, 37, 5
    q = random.standard_normal((2, new, q_heads * 16)).astype(np.float32)
    k = random.standard_normal((2, new, kv_heads * 16)).astype(np.float32)
    v = random.standard_normal((2, new, kv_heads * 13)).astype(np.float32)
    past_k = random.standard_normal((2, kv_heads, past, 16)).astype(np.float32)
    past_v = random.standard_normal((2, kv_heads, past, 13)).astype(np.float32)
    all_k = np.concatenate([past_k, heads_first(k, kv_heads)], axis=2)
    all_v = np.concatenate([past_v, heads_first(v, kv_heads)], axis=2)
    j, i = np.arange(past + new), np.arange(new)[:, None]
    out, _ = attention(heads_first(q, q_heads), all_k, all_v, j <= i + past, 0.3, 20.0)
    y = out.transpose(0, 2, 1, 3).reshape(2, new, q_heads * 13).astype(np.float32)
    write_case("cached_prompt_3d_gqa_causal_softcap",
               {"is_causal": 1, "q_num_heads": q_heads, "kv_num_heads": kv_heads, "scale": 0.3, "softcap": 20.0},
               {"Q": q, "K": k, "V": v, "past_key": past_k, "past_value": past_v},
               {"Y": y, "present_key": all_k, "present_value": all_v})


def padded_batch(random):
    """f16, lengths 3 and 19 of 24 keys, a boolean mask with a closed row, NaN and 1e4 where no row may look."""
    lengths = np.array([3, 19], np.int64)
    q = random.standard_normal((2, 4, 7, 40)).astype(np.float16)
    clean_k = random.standard_normal((2, 4, 24, 40)).astype(np.float16)
    clean_v = random.standard_normal((2, 4, 24, 24)).astype(np.float16)
    mask = random.random((2, 1, 7, 24)) < 0.7
    mask[1, 0, 4] = False  # a row without any key: zeros
    mask[..., 1] = False
    allowed = mask & (np.arange(24) < lengths[:, None, None, None])
    out, _ = attention(q, clean_k, clean_v, allowed, 1 / np.sqrt(40))
    k, v = clean_k.copy(), clean_v.copy()
    k[:, :, 1], v[:, :, 1] = np.nan, 1e4
    k[0, :, 3:], v[0, :, 3:] = 1e4, np.nan
    k[1, :, 19:], v[1, :, 19:] = np.nan, np.inf
    write_case("padded_batch_f16_boolmask_poison", {},
               {"Q": q, "K": k, "V": v, "attn_mask": mask, "nonpad_kv_seqlen": lengths}, {"Y": out.astype(np.float16)})


def read_safetensors(path):
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        data = f.read()
    types = {"F32": np.float32, "BF16": np.uint16}
    return {n: np.frombuffer(data[slice(*t["data_offsets"])], types[t["dtype"]]).reshape(t["shape"])
            for n, t in header.items() if n != "__metadata__"}


def write_safetensors(path, tensors, metadata):
    header, offset = {"__metadata__": metadata}, 0
    for name, (dtype, a) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [offset, offset + a.nbytes]}
        offset += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, a in tensors.values():
            f.write(np.ascontiguousarray(a).tobytes())


def tinylm(path):
    layer = read_safetensors(path)
    q, k, v = (layer[n][:, :, :TOKENS] for n in "qkv")
    as_float = [(t.astype(np.uint32) << 16).view(np.float32) for t in (q, k, v)]
    i = np.arange(TOKENS)
    out, lse = attention(*as_float, i[None, :] <= i[:, None], 0.125)
    write_safetensors(os.path.join(HERE, "tinylm.safetensors"),
                      {"q": ("BF16", q), "k": ("BF16", k), "v": ("BF16", v),
                       "out": ("F32", out.astype(np.float32)), "lse": ("F32", lse.astype(np.float32))},
                      {"attention": "causal, offset 0, scale 0.125", "reference": "float64 from the stored bf16 values"})


if __name__ == "__main__":
    generator = np.random.default_rng(20260)
    cached_prompt(generator)
    padded_batch(generator)
    if len(sys.argv) > 1:
        tinylm(sys.argv[1])
