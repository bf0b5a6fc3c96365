/* blas/blas.h: what libumbel_blas.so exports, with the arguments of the reference BLAS and CBLAS
 * (LP64). Not installed: programs have the header of the BLAS that they were written for. */
#ifndef UM_BLAS_BLAS_H
#define UM_BLAS_BLAS_H

#include <stdint.h>

#define UM_BLAS_EXPORT __attribute__((visibility("default")))

UM_BLAS_EXPORT void sgemm_(const char *trans_a, const char *trans_b, const int32_t *m,
                           const int32_t *n, const int32_t *k, const float *alpha, const float *a,
                           const int32_t *lda, const float *b, const int32_t *ldb,
                           const float *beta, float *c, const int32_t *ldc);
UM_BLAS_EXPORT void dgemm_(const char *trans_a, const char *trans_b, const int32_t *m,
                           const int32_t *n, const int32_t *k, const double *alpha, const double *a,
                           const int32_t *lda, const double *b, const int32_t *ldb,
                           const double *beta, double *c, const int32_t *ldc);

/* layout: 101 by rows, 102 by columns; trans: 111 no, 112 yes, 113 conjugate. */
UM_BLAS_EXPORT void cblas_sgemm(int32_t layout, int32_t trans_a, int32_t trans_b, int32_t m,
                                int32_t n, int32_t k, float alpha, const float *a, int32_t lda,
                                const float *b, int32_t ldb, float beta, float *c, int32_t ldc);
UM_BLAS_EXPORT void cblas_dgemm(int32_t layout, int32_t trans_a, int32_t trans_b, int32_t m,
                                int32_t n, int32_t k, double alpha, const double *a, int32_t lda,
                                const double *b, int32_t ldb, double beta, double *c, int32_t ldc);

#endif
