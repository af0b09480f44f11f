// Written by make_python_file.py with safetensors 0.8.0: not to be edited.
#pragma once

#include <string_view>

namespace frn {

// clang-format off
inline constexpr std::string_view kPythonHeader =
    R"({"__metadata__":{"format":"pt"},)"
    R"("num_batches_tracked":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
    R"("f64":{"dtype":"F64","shape":[1],"data_offsets":[8,16]},)"
    R"("a \"b\\c\"\né":{"dtype":"F32","shape":[1],"data_offsets":[16,20]},)"
    R"("conv.weight":{"dtype":"F32","shape":[2,2,1,2],"data_offsets":[20,52]},)"
    R"("empty":{"dtype":"F32","shape":[0,3],"data_offsets":[52,52]},)"
    R"("i32":{"dtype":"I32","shape":[1,2],"data_offsets":[52,60]},)"
    R"("bf16":{"dtype":"BF16","shape":[2],"data_offsets":[60,64]},)"
    R"("f16":{"dtype":"F16","shape":[2],"data_offsets":[64,68]},)"
    R"("i16":{"dtype":"I16","shape":[2],"data_offsets":[68,72]},)"
    R"("i8":{"dtype":"I8","shape":[2],"data_offsets":[72,74]},)"
    R"("u8":{"dtype":"U8","shape":[2],"data_offsets":[74,76]},)"
    R"("mask":{"dtype":"BOOL","shape":[3],"data_offsets":[76,79]}} )";
inline constexpr std::string_view kPythonDataInHex =
    "07000000000000009a9999999999b93f0000003f000000000000803f0000004000004040000080400000a0400000c0400000"
    "e040fdffffff70110100c03f00c0003e00c0feff2c01ff7f01ff010001";
// clang-format on

}  // namespace frn
