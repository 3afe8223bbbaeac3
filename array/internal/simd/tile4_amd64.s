#include "textflag.h"

// Tiles with registers of four values. They give the bits of dots1x4Y, addRows32 and addRows16.

// PAIR adds the products of four values of three vectors, off bytes on, with those of two rows, Y12 and
// Y13, to A to F.
#define PAIR(off, A, B, C, D, E, F) \
	VMOVUPD off(SI)(BX*8), Y14; \
	VFMADD231PD Y12, Y14, A; \
	VFMADD231PD Y13, Y14, B; \
	VMOVUPD off(DI)(BX*8), Y14; \
	VFMADD231PD Y12, Y14, C; \
	VFMADD231PD Y13, Y14, D; \
	VMOVUPD off(R8)(BX*8), Y14; \
	VFMADD231PD Y12, Y14, E; \
	VFMADD231PD Y13, Y14, F

// PART is PAIR with the values that the mask in Y15 has.
#define PART(off, A, B, C, D, E, F) \
	VMASKMOVPD off(R9)(BX*8), Y15, Y12; \
	VMASKMOVPD off(R10)(BX*8), Y15, Y13; \
	VMASKMOVPD off(SI)(BX*8), Y15, Y14; \
	VFMADD231PD Y12, Y14, A; \
	VFMADD231PD Y13, Y14, B; \
	VMASKMOVPD off(DI)(BX*8), Y15, Y14; \
	VFMADD231PD Y12, Y14, C; \
	VFMADD231PD Y13, Y14, D; \
	VMASKMOVPD off(R8)(BX*8), Y15, Y14; \
	VFMADD231PD Y12, Y14, E; \
	VFMADD231PD Y13, Y14, F

// SUMTWO stores the sums of the eight values of A and AH, and of B and BH, which it overwrites.
#define SUMTWO(A, AX_, AH, B, BH) \
	VADDPD AH, A, A; \
	VADDPD BH, B, B; \
	VHADDPD B, A, A; \
	VEXTRACTF128 $1, A, X12; \
	VADDPD X12, AX_, X12; \
	VMOVUPD X12, (AX)

// func dots3x4Y(n int, x *float64, xstride int, y *float64, other *int32, ystride int, out *float64, ostride int, mask *int64, next *int32)
// The strides are in bytes. It prefetches two rows, next[0] and next[1].
TEXT ·dots3x4Y(SB), NOSPLIT, $0-80
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), SI
	MOVQ xstride+16(FP), R8
	MOVQ y+24(FP), AX
	MOVQ other+32(FP), BX
	MOVQ ystride+40(FP), DX
	LEAQ (SI)(R8*1), DI
	LEAQ (SI)(R8*2), R8
	MOVQ out+48(FP), R13
	MOVQ next+72(FP), R9
	MOVLQSX (R9), R14
	MOVLQSX 4(R9), R15
	IMULQ DX, R14
	IMULQ DX, R15
	ADDQ AX, R14
	ADDQ AX, R15
	MOVLQSX 8(BX), R11
	MOVLQSX 12(BX), R12
	IMULQ DX, R11
	IMULQ DX, R12
	ADDQ AX, R11
	ADDQ AX, R12
	MOVLQSX (BX), R9
	MOVLQSX 4(BX), R10
	IMULQ DX, R9
	IMULQ DX, R10
	ADDQ AX, R9
	ADDQ AX, R10

two:
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7
	VXORPD Y8, Y8, Y8
	VXORPD Y9, Y9, Y9
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11
	XORQ BX, BX
	MOVQ CX, DX
	SHRQ $3, DX
	JZ   rest

eight:
	PREFETCHT0 (R14)(BX*8)
	VMOVUPD (R9)(BX*8), Y12
	VMOVUPD (R10)(BX*8), Y13
	PAIR(0, Y0, Y1, Y2, Y3, Y4, Y5)
	VMOVUPD 32(R9)(BX*8), Y12
	VMOVUPD 32(R10)(BX*8), Y13
	PAIR(32, Y6, Y7, Y8, Y9, Y10, Y11)
	ADDQ $8, BX
	DECQ DX
	JNZ  eight

rest:
	TESTQ $7, CX
	JZ   sum
	MOVQ mask+64(FP), AX
	VMOVUPD (AX), Y15
	PART(0, Y0, Y1, Y2, Y3, Y4, Y5)
	VMOVUPD 32(AX), Y15
	PART(32, Y6, Y7, Y8, Y9, Y10, Y11)

sum:
	MOVQ R13, AX
	MOVQ ostride+56(FP), DX
	SUMTWO(Y0, X0, Y6, Y1, Y7)
	ADDQ DX, AX
	SUMTWO(Y2, X2, Y8, Y3, Y9)
	ADDQ DX, AX
	SUMTWO(Y4, X4, Y10, Y5, Y11)
	ADDQ $16, R13
	MOVQ R11, R9
	MOVQ R12, R10
	MOVQ R15, R14
	XORQ R11, R11
	TESTQ R9, R9
	JNZ  two
	VZEROUPPER
	RET

// SIX adds the products of eight values of a row, Y12 and Y13, with a number for each of six vectors.
#define SIX \
	VBROADCASTSD (SI), Y14; \
	VFMADD231PD Y12, Y14, Y0; \
	VFMADD231PD Y13, Y14, Y1; \
	VBROADCASTSD (SI)(R8*1), Y14; \
	VFMADD231PD Y12, Y14, Y2; \
	VFMADD231PD Y13, Y14, Y3; \
	VBROADCASTSD (SI)(R8*2), Y14; \
	VFMADD231PD Y12, Y14, Y4; \
	VFMADD231PD Y13, Y14, Y5; \
	VBROADCASTSD (DI), Y14; \
	VFMADD231PD Y12, Y14, Y6; \
	VFMADD231PD Y13, Y14, Y7; \
	VBROADCASTSD (DI)(R8*1), Y14; \
	VFMADD231PD Y12, Y14, Y8; \
	VFMADD231PD Y13, Y14, Y9; \
	VBROADCASTSD (DI)(R8*2), Y14; \
	VFMADD231PD Y12, Y14, Y10; \
	VFMADD231PD Y13, Y14, Y11

#define LAST(A, B) \
	VMOVUPD (DI), Y12; \
	VMOVUPD 32(DI), Y13; \
	VFMADD231PD A, Y15, Y12; \
	VFMADD231PD B, Y15, Y13; \
	VMOVUPD Y12, (DI); \
	VMOVUPD Y13, 32(DI)

// LASTOF is LAST with as many values as the masks at AX have.
#define LASTOF(A, B) \
	VMOVUPD (AX), Y14; \
	VMASKMOVPD (DI), Y14, Y12; \
	VFMADD231PD A, Y15, Y12; \
	VMASKMOVPD Y12, Y14, (DI); \
	VMOVUPD 32(AX), Y14; \
	VMASKMOVPD 32(DI), Y14, Y13; \
	VFMADD231PD B, Y15, Y13; \
	VMASKMOVPD Y13, Y14, 32(DI)

// func adds6x8Y(count int, c *float64, cstride int, a float64, z *float64, zstride int, y *float64, other *int32, ystride int, mask *int64)
// The strides are in bytes.
TEXT ·adds6x8Y(SB), NOSPLIT, $0-80
	MOVQ count+0(FP), CX
	MOVQ z+32(FP), SI
	MOVQ zstride+40(FP), R8
	MOVQ y+48(FP), R9
	MOVQ other+56(FP), R10
	MOVQ ystride+64(FP), R11
	MOVQ mask+72(FP), AX
	LEAQ (SI)(R8*2), DI
	ADDQ R8, DI
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7
	VXORPD Y8, Y8, Y8
	VXORPD Y9, Y9, Y9
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11
	XORQ DX, DX
	TESTQ AX, AX
	JNZ  some

row:
	MOVLQSX (R10)(DX*4), BX
	IMULQ R11, BX
	VMOVUPD (R9)(BX*1), Y12
	VMOVUPD 32(R9)(BX*1), Y13
	SIX
	ADDQ $8, SI
	ADDQ $8, DI
	INCQ DX
	CMPQ DX, CX
	JLT  row
	MOVQ c+8(FP), DI
	MOVQ cstride+16(FP), R8
	VBROADCASTSD a+24(FP), Y15
	LAST(Y0, Y1)
	ADDQ R8, DI
	LAST(Y2, Y3)
	ADDQ R8, DI
	LAST(Y4, Y5)
	ADDQ R8, DI
	LAST(Y6, Y7)
	ADDQ R8, DI
	LAST(Y8, Y9)
	ADDQ R8, DI
	LAST(Y10, Y11)
	VZEROUPPER
	RET

some:
	MOVLQSX (R10)(DX*4), BX
	IMULQ R11, BX
	VMOVUPD (AX), Y15
	VMASKMOVPD (R9)(BX*1), Y15, Y12
	VMOVUPD 32(AX), Y15
	VMASKMOVPD 32(R9)(BX*1), Y15, Y13
	SIX
	ADDQ $8, SI
	ADDQ $8, DI
	INCQ DX
	CMPQ DX, CX
	JLT  some
	MOVQ c+8(FP), DI
	MOVQ cstride+16(FP), R8
	VBROADCASTSD a+24(FP), Y15
	LASTOF(Y0, Y1)
	ADDQ R8, DI
	LASTOF(Y2, Y3)
	ADDQ R8, DI
	LASTOF(Y4, Y5)
	ADDQ R8, DI
	LASTOF(Y6, Y7)
	ADDQ R8, DI
	LASTOF(Y8, Y9)
	ADDQ R8, DI
	LASTOF(Y10, Y11)
	VZEROUPPER
	RET
