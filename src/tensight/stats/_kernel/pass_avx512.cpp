#define TENSIGHT_VARIANT pass_avx512
#define TENSIGHT_VECTOR_BYTES 64
#if defined(__x86_64__)
#include "pass.h"
#endif
