#define TENSIGHT_VARIANT pass_baseline
#define TENSIGHT_VECTOR_BYTES 16
// What every processor of the architecture has: SSE2 on x86-64, NEON on 64-bit ARM.
#include "pass.h"
