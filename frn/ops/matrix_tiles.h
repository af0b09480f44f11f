// A fault of some virtual machines that ends programs which multiply in bfloat16.
#pragma once

namespace frn::ops {

// Some virtual machines show AMX but hide the pages of CPUID that describe its tiles. oneDNN then configures no tiles
// and the first bfloat16 product dies of an illegal instruction. Keeps oneDNN from AMX there, and does nothing on other
// machines or where the user has set ONEDNN_MAX_CPU_ISA.
//
// LibTorch does not export dnnl_set_max_cpu_isa, and oneDNN reads that variable once, when it is first used: it is set
// for that moment alone, and the environment is left as it was. So call before the first product, and before other
// threads read the environment.
void avoid_undescribed_tiles() noexcept;

}  // namespace frn::ops
