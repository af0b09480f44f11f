"""Writes python_file.h: what Python's safetensors writes for one tensor of every type, as a C++ literal.

.deps/venv/bin/python tests/core/make_python_file.py >tests/core/python_file.h
"""

import safetensors
import safetensors.torch
import torch

TENSORS = {
    "mask": torch.tensor([True, False, True]),
    "u8": torch.tensor([1, 255], dtype=torch.uint8),
    "i8": torch.tensor([-1, 127], dtype=torch.int8),
    "i16": torch.tensor([-2, 300], dtype=torch.int16),
    "f16": torch.tensor([1.5, -2], dtype=torch.float16),
    "bf16": torch.tensor([1.5, -2], dtype=torch.bfloat16),
    "i32": torch.tensor([[-3, 70000]], dtype=torch.int32),
    "conv.weight": torch.arange(8, dtype=torch.float32).reshape(2, 2, 1, 2),
    'a "b\\c"\n\u00e9': torch.tensor([0.5]),
    "empty": torch.zeros(0, 3),
    "f64": torch.tensor([0.1], dtype=torch.float64),
    "num_batches_tracked": torch.tensor(7),
}

file = safetensors.torch.save(TENSORS, {"format": "pt"})
length = int.from_bytes(file[:8], "little")
header, data = file[8 : 8 + length].decode(), file[8 + length :].hex()

print(f"// Written by make_python_file.py with safetensors {safetensors.__version__}: not to be edited.")
print("#pragma once\n\n#include <string_view>\n\nnamespace frn {\n")
print("// clang-format off")
print("inline constexpr std::string_view kPythonHeader =")
lines = header.replace("},", "},\n").split("\n")
print("\n".join(f'    R"({line})"' for line in lines) + ";")
print("inline constexpr std::string_view kPythonDataInHex =")
print("\n".join(f'    "{data[i : i + 100]}"' for i in range(0, len(data), 100)) + ";")
print("// clang-format on\n\n}  // namespace frn")
