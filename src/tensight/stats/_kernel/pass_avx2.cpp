#define TENSIGHT_VARIANT pass_avx2
#define TENSIGHT_VECTOR_BYTES 32
#if defined(__x86_64__)
#include "pass.h"
#endif
